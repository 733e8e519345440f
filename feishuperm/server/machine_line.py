"""A machine's own connection to its gateway.

How it is dialled and kept is told in `server.outgoing`; what a message means is the
owner's.  Never all machines at the same moment:

    how it ended             the next try
    the gateway goes away    at once
    it refuses               after a long pause, longer each time
    it has revoked us        never
    anything else            after a short pause, longer each time
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from typing import Any

from feishuperm.messages import msg
from feishuperm.protocol.machine import (
    GOING_AWAY,
    POLICY,
    REPLACED,
    REVOKED,
    MachineWire,
)
from feishuperm.server.loop import Loop
from feishuperm.server.outgoing import (
    CLOSED,
    UP,
    WAITING,
    Backoff,
    LiveSocket,
    SpokenConnection,
)

Dialled = tuple[socket.socket, bytes]  # and what came behind the handshake

LOOK_SECONDS = 2.0
FIRST_REFUSAL, LONGEST_REFUSAL = 5.0, 300.0  # seconds until a refusal may have passed


class MachineLine(SpokenConnection):
    """Keeps one connection up.

    `on_message(message)` for what comes; `on_change(up, detail)` when it began (log in
    now) or ended.
    """

    def __init__(
        self,
        loop: Loop,
        dial: Callable[[], Dialled],
        on_message: Callable[[dict[str, Any]], object],
        on_change: Callable[[bool, str], object],
        wall: Callable[[], float] = time.time,
        backoff: Backoff | None = None,
    ) -> None:
        self._on_message = on_message
        self._refusals = Backoff(FIRST_REFUSAL, LONGEST_REFUSAL)
        self._since = 0.0
        self._is_card_out = False

        def changed() -> None:
            if self.state in (UP, WAITING):
                on_change(self.state == UP, self.detail)

        super().__init__(loop, dial, changed, LOOK_SECONDS, wall, backoff or Backoff())

    def send(self, kind: str, **parts: Any) -> bool:
        """A message; whether there was a connection for it."""
        if self._live is None:
            return False
        self._live.wire.send(kind, **parts)
        self._live.flush()
        return True

    def worked(self) -> None:
        """The login succeeded: the next failure is the first again."""
        self._backoff.worked()

    def drop(self, why: str) -> None:
        """This connection is of no use."""
        if self._live is not None:
            self._live.wire.trouble = why
            self._live.abort()

    def watch(self, is_card_out: bool) -> None:
        """While a card is out, find a dead gateway within seconds."""
        self._is_card_out = is_card_out
        if self._live is not None:
            self._live.wire.is_card_out = is_card_out

    def heard(self, live: LiveSocket, message: dict[str, Any]) -> None:
        self._on_message(message)

    def over(self, live: LiveSocket) -> None:
        if live.wire.code == GOING_AWAY:
            self._backoff.worked()  # it comes back, and has told so
        if live.wire.code != POLICY or live is not self._live or self.state == CLOSED:
            super().over(live)
            return
        self._live = None
        if self._loop.now() - self._since > LONGEST_REFUSAL:
            self._refusals.worked()
        if live.wire.trouble == REVOKED:
            self._enter(WAITING, msg("the gateway has revoked this machine"))
            self.state = CLOSED
        else:
            why = msg("the gateway refuses this machine: {}", live.wire.trouble)
            # Two that have one key must not put each other out all the time.
            is_replaced = live.wire.trouble == REPLACED
            pause = LONGEST_REFUSAL if is_replaced else self._refusals.failed()
            self._wait(why, pause)

    def _connected(self, dialled: Dialled) -> None:
        sock, rest = dialled
        self._since = self._loop.now()
        wire = MachineWire(True, self._since, self.wall())
        wire.is_card_out = self._is_card_out
        self._live = live = LiveSocket(self, self._loop, sock, wire)
        self._enter(UP, "")
        live.begin(rest)
