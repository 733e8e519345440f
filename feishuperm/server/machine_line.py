"""A machine's own connection to its gateway: dialled, watched, replaced.

Dialling blocks, so a short-lived thread does it and hands over a connected socket whose
handshake is done; from then on the loop reads and writes it.  What a message means is
the owner's.  A gateway that says "do not come back" is obeyed; one that goes away is
looked for again at once, any other end a little later each time, never all machines at
the same moment.
"""

from __future__ import annotations

import random
import socket
import threading
import time
from collections.abc import Callable
from typing import Any

from feishuperm.errors import FeishupermError
from feishuperm.protocol.machine import GOING_AWAY, POLICY, MachineWire
from feishuperm.server.link import Outgoing
from feishuperm.server.loop import Loop, Timer

Dialled = tuple[socket.socket, bytes]  # and what came behind the handshake

FIRST_PAUSE, LONGEST_PAUSE = 0.5, 30.0
LOOK_SECONDS = 2.0  # how often time is looked at: silence, sleep
BACKLOG = 4 << 20


class MachineLine:
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
    ) -> None:
        self._loop = loop
        self._dial = dial
        self._on_message = on_message
        self._on_change = on_change
        self._wall = wall
        self._wire: MachineWire | None = None
        self._outgoing: Outgoing | None = None
        self._look: Timer | None = None
        self._failures = 0
        self._closed = False

    def start(self) -> None:
        """Connect, and stay connected until `close()`."""
        if self._closed or self._wire is not None:
            return
        threading.Thread(target=self._work, name="gateway", daemon=True).start()

    def close(self) -> None:
        """The end, politely."""
        self._closed = True
        if self._wire is not None and self._outgoing is not None:
            self._wire.close()
            self._outgoing.write(self._wire.data_to_send())
            self._outgoing.close()

    def send(self, kind: str, **parts: Any) -> bool:
        """A message; whether there was a connection for it."""
        if self._wire is None:
            return False
        self._wire.send(kind, **parts)
        self._flush()
        return True

    def worked(self) -> None:
        """The login succeeded: the next failure is the first again."""
        self._failures = 0

    def drop(self) -> None:
        """This connection is of no use."""
        if self._outgoing is not None:
            self._outgoing.abort()

    def _work(self) -> None:
        """In the thread: connect, and say how that went."""
        try:
            dialled = self._dial()
        except (OSError, FeishupermError) as error:
            detail = str(error)
            self._loop.call_soon_threadsafe(lambda: self._failed(detail))
            return
        self._loop.call_soon_threadsafe(lambda: self._connected(dialled))

    def _failed(self, detail: str) -> None:
        if not self._closed:
            self._on_change(False, detail)
            self._again()

    def _again(self, soon: bool = False) -> None:
        longest = min(FIRST_PAUSE * 2**self._failures, LONGEST_PAUSE)
        self._failures = 0 if soon else min(self._failures + 1, 10)
        pause = random.uniform(0.0, FIRST_PAUSE if soon else longest)
        self._loop.call_at(self._loop.now() + pause, self.start)

    def _connected(self, dialled: Dialled) -> None:
        sock, rest = dialled
        if self._closed:
            sock.close()
            return
        now = self._loop.now()
        self._wire = MachineWire(True, now, self._wall())
        self._outgoing = Outgoing(self._loop, sock, self._received, self._ended)
        self._look = self._loop.call_at(now + LOOK_SECONDS, self._watch)
        self._on_change(True, "")
        if rest:
            self._received(rest)

    def _received(self, data: bytes) -> None:
        wire = self._wire
        if wire is None:
            return
        # Before anything is read: what lay in the socket of a machine that slept is
        # not to be applied.
        wire.tick(self._loop.now(), self._wall())
        wire.receive_data(data, self._loop.now())
        message = wire.next_event()
        while message is not None:
            self._on_message(message)
            message = wire.next_event()
        self._flush()

    def _flush(self) -> None:
        wire, outgoing = self._wire, self._outgoing
        if wire is None or outgoing is None:
            return
        data = wire.data_to_send()
        if data:
            outgoing.write(data)
        if wire.trouble or outgoing.backlog > BACKLOG:
            outgoing.abort()

    def _watch(self) -> None:
        if self._wire is None or self._closed:
            return
        now = self._loop.now()
        self._wire.tick(now, self._wall())
        self._look = self._loop.call_at(now + LOOK_SECONDS, self._watch)
        self._flush()

    def _ended(self) -> None:
        wire, self._wire, self._outgoing = self._wire, None, None
        if self._look is not None:
            self._look.cancel()
        if self._closed or wire is None:
            return
        self._on_change(False, wire.trouble or "the connection was cut")
        if wire.code == POLICY:
            self._closed = True  # revoked, or somebody else has our key
        else:
            self._again(soon=wire.code == GOING_AWAY)
