"""The long connection to Feishu: one that is up, and perhaps a fresh one beside it.

How it is dialled and kept is told in `server.line`, what the bytes mean in
`protocol.long_connection`; what a delivery means is the owner's.  A connection that
seems deaf is replaced, by one that is up before the old one goes, so that no tap falls
between them; at most once in FRESH_SECONDS.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from typing import Any

from feishuperm.protocol.long_connection import (
    Delivery,
    Endpoint,
    LongConnection,
    Refusal,
)
from feishuperm.server.line import UP, Backoff, Live, SpokenLine
from feishuperm.server.loop import Loop

# A connection whose handshake is done, and what came behind it.
Dialled = tuple[socket.socket, bytes, Endpoint]

FRESH_SECONDS = 60.0  # between two connections made because one seemed deaf
MEND_SECONDS = 60.0  # until the next try after a refusal that a person has to mend
LOOK_SECONDS = 5.0


class Link(SpokenLine):
    """Keeps one long connection up, and tells of what it brings."""

    def __init__(
        self,
        loop: Loop,
        dial: Callable[[], Dialled],
        on_delivery: Callable[[Delivery, Callable[[dict[str, Any]], bool]], object],
        on_change: Callable[[], object] = lambda: None,
        wall: Callable[[], float] = time.time,
        backoff: Backoff | None = None,
        may_freshen: bool = True,
    ) -> None:
        self._on_delivery = on_delivery
        self._may_freshen = may_freshen
        self._is_card_out = False
        self._freshened = -FRESH_SECONDS
        self.since = 0.0  # wall clock: up, or down, for so long
        super().__init__(
            loop, dial, on_change, LOOK_SECONDS, wall, backoff or Backoff()
        )

    def card_sent(self) -> None:
        """A card is out: its tap must be able to come in."""
        self._is_card_out = True
        if self._live is not None:
            self._live.wire.card_sent(self._loop.now())
            self._live.flush()

    def cards_settled(self) -> None:
        """Nothing waits for a tap."""
        self._is_card_out = False
        if self._live is not None:
            self._live.wire.cards_settled()

    def heard(self, live: Live, delivery: Delivery) -> None:
        """A message came; the owner answers, at once or a little later."""

        def answer(reply: dict[str, Any]) -> bool:
            sent: bool = live.wire.answer(delivery, self._loop.now(), reply)
            live.flush()
            return sent and live.sock is not None

        self._on_delivery(delivery, answer)

    def _pause(self, error: Exception) -> float:
        fatal = isinstance(error, Refusal) and error.fatal
        return MEND_SECONDS if fatal else super()._pause(error)

    def _connected(self, dialled: Dialled) -> None:
        sock, rest, endpoint = dialled
        long = LongConnection(endpoint, self._loop.now(), self.wall())
        live = Live(self, self._loop, sock, long)
        old, self._live = self._live, live
        self._backoff.worked()
        self._enter(UP, "")
        if old is not None:
            old.end()
        if self._is_card_out:
            long.card_sent(self._loop.now())
        live.begin(rest)

    def _watch(self) -> None:
        super()._watch()
        now = self._loop.now()
        is_due = self._may_freshen and now - self._freshened >= FRESH_SECONDS
        if is_due and self._live is not None and self._live.wire.is_deaf(now):
            self._freshened = now
            self.start()

    def _enter(self, state: str, detail: str) -> None:
        if (self.state == UP) != (state == UP):
            self.since = self.wall()
        super()._enter(state, detail)
