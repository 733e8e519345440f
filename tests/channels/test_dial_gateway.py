"""The way to a gateway: a handshake that is one, or an error that can be read."""

from __future__ import annotations

import socket

import pytest

from feishuperm.channels.gateway import dial_gateway
from feishuperm.errors import FeishupermError, ProtocolError
from feishuperm.lib import post
from feishuperm.protocol.machine import PROTOCOLS
from feishuperm.protocol.websocket import accept_key
from tests.tables import every_row


class FakeSocket:
    """A peer that answers the request it was sent, some bytes at a time."""

    def __init__(self, answer: str, rest: bytes = b"", size: int = 4096) -> None:
        self.request = b""
        self.closed = False
        self._answer, self._rest, self._size = answer, rest, size
        self._out = b""

    def sendall(self, data: bytes) -> None:
        self.request += data
        head = dict(
            line.split(": ", 1) for line in data.decode().split("\r\n") if ": " in line
        )
        accept = accept_key(head["Sec-WebSocket-Key"])
        answer = self._answer.format(accept=accept, protocol=PROTOCOLS[0])
        self._out = answer.replace("\n", "\r\n").encode() + self._rest

    def recv(self, size: int) -> bytes:
        data, self._out = self._out[: self._size], self._out[self._size :]
        return data

    def close(self) -> None:
        self.closed = True


UPGRADED = (
    "HTTP/1.1 101 Switching Protocols\nUpgrade: websocket\nConnection: Upgrade\n"
    "Sec-WebSocket-Accept: {accept}\nSec-WebSocket-Protocol: {protocol}\n\n"
)


def dial(
    sock: FakeSocket, url: str = "https://g.example:8443/team/"
) -> tuple[socket.socket, bytes, list[str]]:
    asked: list[str] = []

    def connect(address: str) -> FakeSocket:
        asked.append(address)
        return sock

    opened, rest = dial_gateway(url, connect)  # type: ignore[arg-type]
    return opened, rest, asked


@every_row("size", [4096, 1])
def test_open_socket_and_what_came_behind_the_handshake(size: int) -> None:
    sock = FakeSocket(UPGRADED, b"frame" if size > 1 else b"", size)
    opened, rest, asked = dial(sock)
    assert opened is sock and not sock.closed  # type: ignore[comparison-overlap]
    assert rest == (b"frame" if size > 1 else b"")
    assert asked == ["wss://g.example:8443/team/machine"]
    assert sock.request.startswith(b"GET /team/machine HTTP/1.1\r\n")
    assert b"Host: g.example:8443\r\n" in sock.request


def test_plain_address_is_dialled_plainly() -> None:
    _, _, asked = dial(FakeSocket(UPGRADED), "http://10.0.0.7")
    assert asked == ["ws://10.0.0.7/machine"]


def test_name_and_password_of_an_address_stay_out_of_the_host_line() -> None:
    sock = FakeSocket(UPGRADED)
    dial(sock, "http://me:secret@g.example")
    assert b"Host: g.example\r\n" in sock.request and b"secret" not in sock.request


def test_web_server_that_is_no_gateway_is_named_with_its_answer() -> None:
    sock = FakeSocket("HTTP/1.1 404 Not Found\nContent-Length: 0\n\n")
    with pytest.raises(FeishupermError, match=r"g\.example answered HTTP 404"):
        dial(sock)
    assert sock.closed


@every_row(
    "answer",
    [
        "",
        "HTTP/1.1 101 Switching Protocols\n",
        UPGRADED.replace("{accept}", "wrong"),
        UPGRADED.replace("{protocol}", "chat"),
    ],
)
def test_handshake_that_is_none_is_refused_and_nothing_left_open(answer: str) -> None:
    sock = FakeSocket(answer)
    with pytest.raises(ProtocolError):
        dial(sock)
    assert sock.closed


@every_row("url", ["http://[::1", "https://localhost:99999", "http://:x"])
def test_address_that_leads_nowhere_is_told_in_a_sentence(url: str) -> None:
    with pytest.raises(OSError, match="not a usable address"):
        dial_gateway(url, post.dial)
