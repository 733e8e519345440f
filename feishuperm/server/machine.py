"""The connection between a machine and its gateway, as the loop keeps either end.

Reads and writes; what a message means is the owner's.  `upgrade()` makes a request of
the gateway's HTTP server a `MachineConnection`; a machine keeps a `MachineLine`.  Never
do all machines come back at the same moment:

    how it ended             a machine's next try
    the gateway goes away    at once
    it refuses               after a long pause, longer each time
    it has revoked us        never
    anything else            after a short pause, longer each time
"""

from __future__ import annotations

import random
import socket
import time
from collections.abc import Callable
from typing import Any

from feishuperm.messages import msg
from feishuperm.protocol.http1 import Response, options
from feishuperm.protocol.machine import (
    GOING_AWAY,
    PING_SECONDS,
    POLICY,
    PROTOCOLS,
    REPLACED,
    REVOKED,
    MachineWire,
)
from feishuperm.protocol.websocket import accept_key, is_key
from feishuperm.server.connection import Exchange, WireConnection, keep_alive_probe
from feishuperm.server.loop import Loop
from feishuperm.server.outgoing import CLOSED, UP, WAITING, Backoff, SpokenConnection

VERSION = "13"  # of WebSocket
LOOK_SECONDS = 2.0
FIRST_REFUSAL, LONGEST_REFUSAL = 5.0, 300.0  # seconds until a refusal may have passed


class MachineConnection(WireConnection):
    """One machine at the gateway, from its upgrade until either side closes.

    `on_message(connection, message)`, and once `on_close(connection)`.  One timer of
    the owner's ticks for all.
    """

    __slots__ = ("address", "data", "source")

    def __init__(
        self,
        loop: Loop,
        sock: socket.socket,
        address: str,
        source: tuple[str, str],
        on_message: Callable[[Any, dict[str, Any]], object],
        on_close: Callable[[Any], object],
    ) -> None:
        self.address = address
        self.source = source  # what connections are counted by
        self.data: Any = None  # the owner's
        # Not all at the same moment, however many came back together.
        first = random.uniform(1.0, PING_SECONDS)
        wire = MachineWire(False, loop.now(), first_ping=first)
        keep_alive_probe(sock)
        super().__init__(loop, sock, wire, on_message, on_close)

    def send(self, kind: str, **parts: Any) -> None:
        """A message; nothing if the machine is gone."""
        self.wire.send(kind, **parts)
        self.flush()


def upgrade(
    exchange: Exchange,
    loop: Loop,
    address: str,
    source: tuple[str, str],
    on_message: Callable[[Any, dict[str, Any]], object],
    on_close: Callable[[Any], object],
) -> MachineConnection | None:
    """Make a request a machine's connection, or refuse it; None: refused or gone."""
    headers = exchange.request.headers
    offered = headers.get("sec-websocket-protocol", "").split(",")
    wanted = {name.strip() for name in offered}
    protocol = next((name for name in PROTOCOLS if name in wanted), "")
    refusal = _refusal(headers, protocol)
    if refusal is not None:
        exchange.reply(refusal)
        return None
    given = exchange.upgrade()
    if given is None:
        return None
    sock, rest = given
    key = headers["sec-websocket-key"].strip()
    connection = MachineConnection(loop, sock, address, source, on_message, on_close)
    connection.write(
        (
            "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n"
            f"Connection: Upgrade\r\nSec-WebSocket-Accept: {accept_key(key)}\r\n"
            f"Sec-WebSocket-Protocol: {protocol}\r\n\r\n"
        ).encode()
    )
    if rest:
        connection.received(rest)
    return connection


def _refusal(headers: dict[str, str], protocol: str) -> Response | None:
    """Why a request cannot become a machine's connection."""
    if "origin" in headers:
        return Response(403, b"no browser has business here\n")
    if headers.get("upgrade", "").lower() != "websocket":
        wants = [("Upgrade", "websocket"), ("Connection", "Upgrade")]
        return Response(426, b"this is a WebSocket\n", headers=wants)
    if headers.get("sec-websocket-version", "") != VERSION:
        version = [("Sec-WebSocket-Version", VERSION)]
        return Response(426, b"unknown version\n", headers=version)
    if "upgrade" not in options(headers):
        return Response(400, b"not an upgrade\n")
    if not is_key(headers.get("sec-websocket-key", "").strip()):
        return Response(400, b"a broken key\n")
    if not protocol:
        return Response(400, b"no protocol version in common: upgrade feishuperm\n")
    return None


class MachineLine(SpokenConnection):
    """A machine's own connection to its gateway, kept up.

    `on_message(message)` for what comes; `on_change(up, detail)` when it began (log in
    now) or ended.
    """

    def __init__(
        self,
        loop: Loop,
        dial: Callable[[], tuple[socket.socket, bytes]],
        on_message: Callable[[dict[str, Any]], object],
        on_change: Callable[[bool, str], object],
        wall: Callable[[], float] = time.time,
        backoff: Backoff | None = None,
    ) -> None:
        self._on_message = on_message
        self._refusals = Backoff(FIRST_REFUSAL, LONGEST_REFUSAL)
        self._since = 0.0

        def changed() -> None:
            if self.state in (UP, WAITING):
                on_change(self.state == UP, self.detail)

        super().__init__(loop, dial, changed, LOOK_SECONDS, wall, backoff)

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

    def heard(self, live: WireConnection, message: dict[str, Any]) -> None:
        self._on_message(message)

    def over(self, live: WireConnection) -> None:
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

    def _connected(self, dialled: tuple[socket.socket, bytes]) -> None:
        sock, rest = dialled
        self._since = self._loop.now()
        self._take_over(sock, MachineWire(True, self._since, self.wall()), rest)
