"""TLS sockets that behave like plain ones on the loop."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Callable

from feishuperm.errors import SettingError


class Tls:
    """A TLS socket that says "not now" the way a plain one does.

    The handshake happens inside the first reads.
    """

    def __init__(self, sock: ssl.SSLSocket) -> None:
        self._sock = sock
        self.fileno = sock.fileno
        self.setblocking = sock.setblocking
        self.setsockopt = sock.setsockopt
        self.getpeername = sock.getpeername
        self.getsockname = sock.getsockname
        self.pending = sock.pending
        self.shutdown = sock.shutdown
        self.close = sock.close

    def recv(self, size: int) -> bytes:
        try:
            return self._sock.recv(size)
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            raise BlockingIOError from None

    def send(self, data: bytes) -> int:
        try:
            return self._sock.send(data)
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            raise BlockingIOError from None


def server_side(
    cert_file: str, key_file: str
) -> Callable[[socket.socket], socket.socket]:
    """What makes an accepted socket a TLS one. Raises SettingError."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    try:
        context.load_cert_chain(cert_file, key_file or None)
    except (OSError, ssl.SSLError) as error:
        reason = getattr(error, "reason", "") or error.strerror or str(error)
        raise SettingError(
            f"GATEWAY_CERT and GATEWAY_KEY: cannot use {cert_file}: {reason}"
        ) from None

    def secure(sock: socket.socket) -> socket.socket:
        sock.setblocking(False)
        wrapped = context.wrap_socket(
            sock, server_side=True, do_handshake_on_connect=False
        )
        return Tls(wrapped)  # type: ignore[return-value]

    return secure
