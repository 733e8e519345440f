"""A machine's WebSocket as the gateway's loop keeps it.

Reads and writes; what a message means is the owner's, who gets `on_message(connection,
message)` and, once, `on_close(connection)`.  One timer of the owner's ticks for all.
"""

from __future__ import annotations

import random
import socket
from collections.abc import Callable
from typing import Any

from feishuperm.protocol.http1 import Response, options
from feishuperm.protocol.machine import GOING_AWAY, PING_SECONDS, PROTOCOLS, MachineWire
from feishuperm.protocol.websocket import accept_key, is_key
from feishuperm.server.connection import (
    PER_TURN,
    Connection,
    Exchange,
    keep_alive_probe,
)
from feishuperm.server.loop import READ, Loop

BACKLOG = 4 << 20  # unread bytes after which a machine must be gone
VERSION = "13"


class MachineConnection(Connection):
    """One machine, from its upgrade until either side closes."""

    __slots__ = (
        *("_held", "_on_close", "_on_message", "_wire"),
        *("address", "data", "source"),
    )

    def __init__(
        self,
        loop: Loop,
        sock: socket.socket,
        address: str,
        source: tuple[str, str],
        on_message: Callable[[MachineConnection, dict[str, Any]], object],
        on_close: Callable[[MachineConnection], object],
    ) -> None:
        self._on_message = on_message
        self._on_close = on_close
        self.address = address
        self.source = source  # what connections are counted by
        self.data: Any = None  # the owner's
        self._held = False
        # Not all at the same moment, however many came back together.
        first = random.uniform(1.0, PING_SECONDS)
        self._wire = MachineWire(False, loop.now(), first_ping=first)
        keep_alive_probe(sock)
        super().__init__(loop, sock)

    @property
    def reason(self) -> str:
        """Why it ended, as far as anybody said."""
        return self._wire.trouble

    def send(self, kind: str, **parts: Any) -> None:
        """A message; nothing if the machine is gone."""
        self._wire.send(kind, **parts)
        self._send_due()

    def trust(self) -> None:
        """The machine has logged in: it may say more at once."""
        self._wire.trust()

    def end(self, code: int = GOING_AWAY, reason: str = "") -> None:
        """Close, and say why."""
        self._wire.close(code, reason)
        self.write(self._wire.data_to_send())
        self.close()

    def hold(self, held: bool) -> None:
        """Whether what the machine says next has to wait in its own buffer."""
        self._held = held
        if not held:
            self.leave_rest()

    def tick(self, now: float) -> None:
        self._wire.tick(now)
        self._send_due()
        if self._finishing:
            self.abort()  # it had the time since the last tick to read why

    def received(self, data: bytes) -> None:
        self._wire.receive_data(data, self.loop.now())
        if not self._more:
            self.go_on()

    def go_on(self) -> None:
        for _ in range(PER_TURN):
            message = None if self._held else self._wire.next_event()
            if message is None:
                break
            self._on_message(self, message)
        if not self._held and (message is not None or self._wire.is_behind):
            self.leave_rest()
        self._send_due()

    def pace(self) -> None:
        if self._held:
            self._want(self._mask & ~READ)
        else:
            super().pace()

    def closed(self) -> None:
        self._on_close(self)

    def _send_due(self) -> None:
        data = self._wire.data_to_send()
        if data:
            self.write(data)
        if self._wire.trouble or self.backlog > BACKLOG:
            self.close() if self.backlog <= BACKLOG else self.abort()


def upgrade(
    exchange: Exchange,
    loop: Loop,
    address: str,
    source: tuple[str, str],
    on_message: Callable[[MachineConnection, dict[str, Any]], object],
    on_close: Callable[[MachineConnection], object],
) -> MachineConnection | None:
    """Make a request a machine's connection, or refuse it; None: refused or gone."""
    refusal = _refusal(exchange.request.headers)
    if refusal is not None:
        exchange.reply(refusal)
        return None
    key = exchange.request.headers["sec-websocket-key"].strip()
    protocol = _protocol(exchange.request.headers)
    given = exchange.upgrade()
    if given is None:
        return None
    sock, rest = given
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


def _refusal(headers: dict[str, str]) -> Response | None:
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
    if not _protocol(headers):
        return Response(400, b"no protocol version in common: upgrade feishuperm\n")
    return None


def _protocol(headers: dict[str, str]) -> str:
    offered = headers.get("sec-websocket-protocol", "").split(",")
    wanted = {name.strip() for name in offered}
    return next((name for name in PROTOCOLS if name in wanted), "")
