"""TLS on the loop: a handshake without a thread, and files that cannot be used."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from feishuperm.errors import SettingError
from feishuperm.server.connection import NOT_NOW
from feishuperm.server.listen import server_side


class Pair:
    """A client in memory and our side on a socket, both without waiting."""

    def __init__(self, certificate: Path) -> None:
        near, self.far = socket.socketpair()
        self.far.setblocking(False)
        self.server: Any = server_side(str(certificate), "")(near)
        self.server.setblocking(False)  # as a connection makes it
        self._in, self._out = ssl.MemoryBIO(), ssl.MemoryBIO()
        context = ssl.create_default_context(cafile=str(certificate))
        self.client = context.wrap_bio(self._in, self._out, server_hostname="localhost")

    def client_step(self, work: Callable[[], Any]) -> Any:
        """What the client can do now; None if it waits."""
        try:
            return work()
        except ssl.SSLWantReadError:
            return None
        finally:
            self.far.sendall(self._out.read())
            try:
                self._in.write(self.far.recv(1 << 16))
            except BlockingIOError:
                pass

    def close(self) -> None:
        self.far.close()
        self.server.close()


@pytest.fixture
def pair(certificate: Path) -> Any:
    made = Pair(certificate)
    yield made
    made.close()


def test_handshake_happens_inside_the_first_reads(pair: Pair) -> None:
    """And says "not now" in a way that connections know, whatever TLS waits for."""
    received = b""
    for _ in range(10):
        pair.client_step(lambda: pair.client.write(b"hello"))
        try:
            received = pair.server.recv(100)
            break
        except NOT_NOW:
            continue
    assert received == b"hello"
    assert pair.server.send(b"back") == 4
    pair.client_step(lambda: None)
    assert pair.client_step(lambda: pair.client.read(100)) == b"back"


def test_nothing_to_read_is_said_in_a_way_that_connections_know(pair: Pair) -> None:
    with pytest.raises(NOT_NOW):
        pair.server.recv(100)
    with pytest.raises(NOT_NOW):
        pair.server.send(b"x")


def test_peer_that_speaks_no_tls_is_an_error_of_its_connection(pair: Pair) -> None:
    pair.far.sendall(b"GET / HTTP/1.1\r\n\r\n")
    with pytest.raises(OSError, match=r"(?i)http|wrong|ssl") as caught:
        pair.server.recv(100)
    assert not isinstance(caught.value, NOT_NOW)


@pytest.mark.parametrize("content", [None, "", "no certificate"])
def test_certificate_that_cannot_be_used_names_its_settings(
    tmp_path: Path, content: str | None
) -> None:
    path = tmp_path / "cert.pem"
    if content is not None:
        path.write_text(content)
    with pytest.raises(SettingError, match=r"GATEWAY_CERT.*cert\.pem"):
        server_side(str(path), "")


def test_key_of_another_certificate_is_refused(
    certificate: Path, tmp_path: Path
) -> None:
    (tmp_path / "key.pem").write_text("x")
    with pytest.raises(SettingError, match="GATEWAY_KEY"):
        server_side(str(certificate), str(tmp_path / "key.pem"))
