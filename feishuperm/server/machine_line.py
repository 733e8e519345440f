"""A machine's own connection to its gateway.

How it is dialled and kept is told in `server.line`; what a message means is the
owner's.  A gateway that says "do not come back" is obeyed; one that goes away is looked
for again at once, any other end a little later each time, never all machines at the
same moment.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from typing import Any

from feishuperm.protocol.machine import GOING_AWAY, POLICY, MachineWire
from feishuperm.server.line import CLOSED, UP, WAITING, Backoff, Live, SpokenLine
from feishuperm.server.loop import Loop

Dialled = tuple[socket.socket, bytes]  # and what came behind the handshake

LOOK_SECONDS = 2.0


class MachineLine(SpokenLine):
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

    def drop(self) -> None:
        """This connection is of no use."""
        if self._live is not None:
            self._live.abort()

    def heard(self, live: Live, message: dict[str, Any]) -> None:
        self._on_message(message)

    def over(self, live: Live) -> None:
        if live.wire.code == GOING_AWAY:
            self._backoff.worked()  # it comes back, and has told so
        super().over(live)
        if live.wire.code == POLICY:
            self.state = CLOSED  # revoked, or somebody else has our key

    def _connected(self, dialled: Dialled) -> None:
        sock, rest = dialled
        wire = MachineWire(True, self._loop.now(), self.wall())
        self._live = live = Live(self, self._loop, sock, wire)
        self._enter(UP, "")
        live.begin(rest)
