"""Which card belongs to which request: kept over restarts.

One small JSON file of this user's alone.  A server that comes back knows its open
cards by it: taps on them are checked against the nonce, and what ended meanwhile is
settled.  Two threads use it, so it has a lock.
"""

from __future__ import annotations

import json
import threading
from typing import Any, NamedTuple

from feishuperm.errors import FileError, PayloadError, UsageError
from feishuperm.lib.files import locked, read_json, write_atomic
from feishuperm.lib.log import log
from feishuperm.models.ask import Ask, from_plain, shorten, to_plain

TYPE_CHECKING = False
if TYPE_CHECKING:
    from contextlib import AbstractContextManager

MOST = 1_000  # open cards, as many as an outbox queues
BLOCK = 2_000  # characters of a block that a settled card shows again
LOCK_SECONDS = 3.0  # for the server before this one to end


def hold(path: str) -> AbstractContextManager[None]:
    """The lock of an app on this machine, kept while it is served. Raises UsageError.

    Feishu hands each tap to one connection at random: two servers of one app would
    lose half of them each.
    """
    lock = locked(path, LOCK_SECONDS)
    try:
        lock.__enter__()
    except FileError:
        raise UsageError(
            "another server of this machine already serves this Feishu app",
            "feishuperm status",
        ) from None
    return lock


class Shown(NamedTuple):
    """A card that is out."""

    ask: Ask
    nonce: str
    message_id: str  # empty until Feishu has told it
    grants: bool = True  # it shows the whole, or has it attached: it may be granted


class CardStore:
    """The open cards of one app, by request."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._cards: dict[str, Shown] = {}
        self.muted_until = 0.0  # wall clock
        self._load()

    def get(self, id: str) -> Shown | None:
        return self._cards.get(id)

    def by_message(self, message_id: str) -> Shown | None:
        """The card that a reply belongs to."""
        cards = list(self._cards.values())
        return next((card for card in cards if card.message_id == message_id), None)

    def all(self) -> list[Shown]:
        return list(self._cards.values())

    def put(self, shown: Shown) -> None:
        with self._lock:
            self._cards[shown.ask.id] = shown._replace(ask=shorten(shown.ask, BLOCK))
            while len(self._cards) > MOST:
                del self._cards[next(iter(self._cards))]
            self._save()

    def drop(self, id: str) -> None:
        with self._lock:
            if self._cards.pop(id, None) is not None:
                self._save()

    def mute(self, until: float) -> None:
        with self._lock:
            self.muted_until = until
            self._save()

    def _load(self) -> None:
        try:
            kept = read_json(self._path)
        except FileError as error:
            log(f"open cards are forgotten: {error}", "warning")
            return
        if not isinstance(kept, dict):
            return
        muted = kept.get("muted_until")
        self.muted_until = float(muted) if isinstance(muted, (int, float)) else 0.0
        cards = kept.get("cards")
        for card in cards if isinstance(cards, list) else []:
            shown = _shown(card)
            if shown is not None:
                self._cards[shown.ask.id] = shown

    def _save(self) -> None:
        cards = [
            {**card._asdict(), "ask": to_plain(card.ask)}
            for card in self._cards.values()
        ]
        kept = {"muted_until": self.muted_until, "cards": cards}
        try:
            write_atomic(self._path, json.dumps(kept).encode(), 0o600)
        except FileError as error:
            log(f"open cards are not kept: {error}", "error")


def _shown(card: Any) -> Shown | None:
    """A card as it was kept; None if somebody edited the file."""
    if not isinstance(card, dict):
        return None
    nonce, message_id = card.get("nonce"), card.get("message_id")
    if not isinstance(nonce, str) or not isinstance(message_id, str) or not nonce:
        return None
    try:
        ask = from_plain(Ask, card.get("ask"))
        return Shown(ask, nonce, message_id, card.get("grants") is True)
    except PayloadError:
        return None
