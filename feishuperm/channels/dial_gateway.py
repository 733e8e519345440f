"""How a machine reaches its gateway: an address in, an open WebSocket out."""

from __future__ import annotations

import socket
from collections.abc import Callable

from feishuperm.channels.app.dial import shake_hands
from feishuperm.errors import FeishupermError
from feishuperm.models.settings import url_host
from feishuperm.protocol.machine import PATH, PROTOCOLS
from feishuperm.protocol.websocket import HandshakeRefused


def dial_gateway(
    url: str, connect: Callable[[str], socket.socket]
) -> tuple[socket.socket, bytes]:
    """A connected socket and what came behind the handshake; blocks.

    Raises OSError and FeishupermError, whose texts are ready to be shown.
    """
    line = url.replace("http", "ws", 1).rstrip("/") + PATH
    sock = connect(line)
    try:
        return sock, shake_hands(sock, line, PROTOCOLS)
    except HandshakeRefused as refused:
        sock.close()
        raise FeishupermError(
            f"{url_host(url)} is no gateway of feishuperm (HTTP {refused.status})"
        ) from None
    except BaseException:
        sock.close()
        raise
