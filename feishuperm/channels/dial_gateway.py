"""How a machine reaches its gateway: an address in, an open WebSocket out."""

from __future__ import annotations

import socket
from collections.abc import Callable
from urllib.parse import urlsplit

from feishuperm.channels.app.dial import shake_hands
from feishuperm.errors import FeishupermError
from feishuperm.protocol.machine import PATH, PROTOCOLS
from feishuperm.protocol.websocket import HandshakeRefused


def dial_gateway(
    url: str, connect: Callable[[str], socket.socket]
) -> tuple[socket.socket, bytes]:
    """A connected socket and what came behind the handshake; blocks.

    Raises OSError and FeishupermError, whose texts are ready to be shown.
    """
    address = urlsplit(url)
    scheme = {"http": "ws", "https": "wss"}[address.scheme]
    line = f"{scheme}://{address.netloc}{address.path.rstrip('/')}{PATH}"
    sock = connect(line)
    try:
        return sock, shake_hands(sock, line, PROTOCOLS)
    except HandshakeRefused as refused:
        sock.close()
        raise FeishupermError(
            f"{address.hostname} is no gateway of feishuperm (HTTP {refused.status})"
        ) from None
    except BaseException:
        sock.close()
        raise
