"""How outgoing WebSockets are opened: to Feishu, and from a machine to its gateway.

Dialling blocks, so it runs in a thread of its own (see `server.outgoing`).  The address
that Feishu gives holds secrets and is good for one connection: it is asked for each
time and never shown.
"""

from __future__ import annotations

import socket
from collections.abc import Callable
from urllib.parse import urlsplit

from feishuperm.app.api import AppApi
from feishuperm.errors import FeishupermError, ProtocolError
from feishuperm.lib.post import dial
from feishuperm.messages import msg
from feishuperm.models.settings import url_host
from feishuperm.protocol.long_connection import (
    UNPUBLISHED,
    WRONG_APP,
    Endpoint,
    Refusal,
    read_endpoint,
    refusal,
)
from feishuperm.protocol.machine import PATH, PROTOCOLS
from feishuperm.protocol.websocket import ClientHandshake, HandshakeRefused

Connect = Callable[[str], socket.socket]

RECEIVE_SIZE = 4096


def dial_feishu(
    api: AppApi, connect: Connect = dial
) -> tuple[socket.socket, bytes, Endpoint]:
    """A connection ready for frames, and what came behind its handshake.

    Raises Refusal, ProtocolError and OSError; none of them holds the address.
    """
    reply = api.discover()
    try:
        endpoint = read_endpoint(reply.status, reply.body)
    except Refusal as refused:
        # Feishu says the same of an app that is not published; its token tells.
        if refused.key == WRONG_APP and api.fetch_token().ok:
            raise Refusal(UNPUBLISHED, refused.code, fatal=True) from None
        raise
    sock = connect(endpoint.url)
    try:
        return sock, shake_hands(sock, endpoint.url), endpoint
    except HandshakeRefused as refused:
        sock.close()
        raise refusal(refused) from None
    except BaseException:
        sock.close()
        raise


def dial_gateway(url: str, connect: Connect) -> tuple[socket.socket, bytes]:
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
            msg(
                "{} answered HTTP {}: it is not a feishuperm gateway",
                url_host(url),
                refused.status,
            )
        ) from None
    except BaseException:
        sock.close()
        raise


def shake_hands(
    sock: socket.socket, url: str, protocols: tuple[str, ...] = ()
) -> bytes:
    """Open the WebSocket; the time-out of the socket holds for each step."""
    address = urlsplit(url)
    target = (address.path or "/") + (f"?{address.query}" if address.query else "")
    host = address.netloc.rpartition("@")[2]
    handshake = ClientHandshake(host, target, protocols=protocols)
    sock.sendall(handshake.request)
    rest = None
    while rest is None:
        data = sock.recv(RECEIVE_SIZE)
        if not data:
            raise ProtocolError(
                msg(
                    "the other end closed the connection in its handshake: a proxy on "
                    "the way may not pass WebSockets"
                )
            )
        rest = handshake.receive_data(data)
    return rest
