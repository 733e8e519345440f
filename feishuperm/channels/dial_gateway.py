"""How a machine reaches its gateway: an address in, an open WebSocket out."""

from __future__ import annotations

import socket
from collections.abc import Callable
from urllib.parse import urlsplit

from feishuperm.errors import FeishupermError, ProtocolError
from feishuperm.protocol.machine import PATH, PROTOCOLS
from feishuperm.protocol.websocket import ClientHandshake, HandshakeRefused

RECEIVE_SIZE = 4096


def dial_gateway(
    url: str, connect: Callable[[str], socket.socket]
) -> tuple[socket.socket, bytes]:
    """A connected socket and what came behind the handshake; blocks.

    Raises OSError and FeishupermError, whose texts are ready to be shown.
    """
    address = urlsplit(url)
    scheme = {"http": "ws", "https": "wss"}[address.scheme]
    target = address.path.rstrip("/") + PATH
    sock = connect(f"{scheme}://{address.netloc}{target}")
    handshake = ClientHandshake(
        address.netloc.rpartition("@")[2], target, protocols=PROTOCOLS
    )
    try:
        sock.sendall(handshake.request)
        rest = None
        while rest is None:
            data = sock.recv(RECEIVE_SIZE)
            if not data:
                raise ProtocolError("the connection ended in its handshake")
            rest = handshake.receive_data(data)
        return sock, rest
    except HandshakeRefused as refused:
        sock.close()
        raise FeishupermError(
            f"{address.hostname} is no gateway of feishuperm (HTTP {refused.status})"
        ) from None
    except BaseException:
        sock.close()
        raise
