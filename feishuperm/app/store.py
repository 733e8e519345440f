"""Which card belongs to which request: kept over restarts.

A folder of this user's alone with one small JSON file for each card: a thousand may be
open, and none of them is written again because of another.  A server that comes back
knows its open cards by it: taps on them are checked against the nonce, and requests
that ended meanwhile are settled.  Only the loop's thread uses it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, NamedTuple

from feishuperm.errors import FileError, PayloadError, UsageError
from feishuperm.lib.files import locked, private_dir, read_json, write_atomic
from feishuperm.lib.log import log
from feishuperm.messages import msg
from feishuperm.models.ask import LARGEST, Ask, from_plain, shorten, to_plain

MOST = 1_000  # open cards, as many as an outbox queues
BLOCK = 2_000  # characters of a block that a settled card shows again
MUTED = "muted.json"
LOCK_SECONDS = 3.0  # for the server before this one to end


def lock_app(path: str) -> AbstractContextManager[None]:
    """The lock of an app on this machine, kept while it is served. Raises UsageError.

    Feishu hands each tap to one connection at random: two servers of one app would
    lose half of them each.
    """
    lock = locked(path, LOCK_SECONDS)
    try:
        lock.__enter__()
    except FileError:
        raise UsageError(
            msg("another server of this machine already serves this Feishu app"),
            "feishuperm status",
        ) from None
    return lock


class OpenCard(NamedTuple):
    """A card that is on its way, or out."""

    ask: Ask = Ask()
    nonce: str = ""
    message_id: str = ""  # empty until Feishu has told it
    grants: bool = False  # it shows the whole, or has it attached: it may be granted
    machine: str = ""  # whose request it is, through a gateway
    owner: str = ""  # of that machine
    shared: bool = False  # a row of a card of many, see `bursts`


class CardStore:
    """The open cards of one app, by request."""

    def __init__(
        self, folder: str, told: Callable[[Ask], Ask] = lambda ask: ask
    ) -> None:
        self._folder = folder
        self._told = told  # what may be told of an ask that was kept
        self._cards: dict[str, OpenCard] = {}
        self.muted_until = 0.0  # wall clock
        self._load()

    def get(self, id: str) -> OpenCard | None:
        return self._cards.get(id)

    def by_message(self, message_id: str) -> OpenCard | None:
        """The card that a reply belongs to."""
        cards = self._cards.values()
        return next((card for card in cards if card.message_id == message_id), None)

    def all(self) -> list[OpenCard]:
        return list(self._cards.values())

    def put(self, card: OpenCard) -> OpenCard:
        """Keep a card, with as much of its ask as its record shows."""
        card = card._replace(ask=shorten(card.ask, BLOCK))
        self._cards[card.ask.id] = card
        self._write(_name(card.ask.id), to_plain(card))
        while len(self._cards) > MOST:
            self.drop(next(iter(self._cards)))
        return card

    def mute(self, until: float) -> None:
        self.muted_until = until
        self._write(MUTED, until)

    def drop(self, id: str) -> None:
        if self._cards.pop(id, None) is None:
            return
        try:
            os.unlink(os.path.join(self._folder, _name(id)))
        except OSError:  # it could not be written either; settling it twice is no harm
            pass

    def _write(self, name: str, value: object) -> None:
        data = json.dumps(value).encode()
        try:
            private_dir(self._folder)
            write_atomic(os.path.join(self._folder, name), data, 0o600, lasting=False)
        except (OSError, FileError) as error:
            log(f"open cards are not kept: {error}", "error")

    def _load(self) -> None:
        """Read what was kept; the names begin with the time, so in that order."""
        try:
            names = sorted(os.listdir(self._folder))
        except OSError:
            return
        for name in names:
            try:
                self._take(name, read_json(os.path.join(self._folder, name)))
            except (FileError, PayloadError) as error:
                log(f"an open card is forgotten: {error}", "warning")

    def _take(self, name: str, kept: Any) -> None:
        if name == MUTED:
            is_moment = isinstance(kept, (int, float)) and 0 <= kept < LARGEST
            self.muted_until = float(kept) if is_moment else 0.0
            return
        card = from_plain(OpenCard, kept)
        if card.nonce and name == _name(card.ask.id):
            self._cards[card.ask.id] = card._replace(ask=self._told(card.ask))


def _name(id: str) -> str:
    """The file of a request's card; ids are digits and letters (`protocol.frames`)."""
    return f"{id}.json"
