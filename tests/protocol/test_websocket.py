"""WebSocket, joined end to end, against another implementation, and with bad bytes."""

from __future__ import annotations

import base64
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from websockets.client import ClientProtocol
from websockets.frames import Opcode
from websockets.http11 import Request as OtherRequest
from websockets.server import ServerProtocol
from websockets.uri import parse_uri

from feishuperm.errors import ProtocolError
from feishuperm.protocol import websocket as ws
from feishuperm.protocol.websocket import (
    ClientHandshake,
    Close,
    Event,
    HandshakeRefused,
    Message,
    Ping,
    Pong,
    WebSocket,
    WebSocketError,
)
from tests.conftest import examples
from tests.tables import every_row

KEY = bytes.fromhex("37fa213d")  # of the standard's own example


def events(socket: WebSocket, data: bytes, step: int = 0) -> list[Event]:
    """Everything a stream of bytes means, fed whole or in small steps."""
    received = []
    for at in range(0, len(data), step or max(1, len(data))):
        socket.receive_data(data[at : at + step] if step else data)
        event = socket.next_event()
        while event is not None:
            received.append(event)
            event = socket.next_event()
    return received


@pytest.fixture(autouse=True)
def same_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ws.os, "urandom", lambda size: (KEY * 4)[:size])


def client(limit: int = ws.MAX_MESSAGE) -> WebSocket:
    return WebSocket(True, limit)


def server(limit: int = ws.MAX_MESSAGE) -> WebSocket:
    return WebSocket(False, limit)


# The standard's examples.


def test_accept_key_of_the_standard() -> None:
    assert ws.accept_key("dGhlIHNhbXBsZSBub25jZQ==") == "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="


@every_row(
    ("make", "expected"),
    [
        (lambda: server().send_message(b"Hello", text=True), "810548656c6c6f"),
        (lambda: client().send_message(b"Hello", text=True), "818537fa213d7f9f4d5158"),
        (lambda: server().send_ping(b"Hello"), "890548656c6c6f"),
        (lambda: server().send_close(ws.GOING_AWAY), "880203e9"),
        (lambda: server().send_message(bytes(256))[:4], "827e0100"),
        (lambda: server().send_message(bytes(65536))[:10], "827f0000000000010000"),
        (lambda: server().send_close(ws.NO_CODE), "8800"),
    ],
)
def test_frames_of_the_standard(make: Callable[[], bytes], expected: str) -> None:
    assert make().hex() == expected


def test_fragments_become_one_message_with_a_ping_between_them() -> None:
    data = bytes.fromhex("010348656c") + bytes.fromhex("890130") + b"\x80\x02lo"
    for step in (0, 1, 3):
        assert events(client(), data, step) == [Ping(b"0"), Message(b"Hello", True)]


# Joined end to end.

# Around the length that needs eight bytes: a few bytes, again and again.
LARGE = st.builds(
    lambda part, size: (part * size)[:size],
    st.binary(min_size=1, max_size=8),
    st.integers(65_530, 65_600),
)
MESSAGES = st.lists(st.binary(max_size=300) | LARGE, max_size=5)


@settings(max_examples=examples(100), deadline=None)
@given(MESSAGES, st.booleans(), st.integers(1, 5000))
def test_what_one_end_sends_the_other_receives(
    messages: list[bytes], to_server: bool, step: int
) -> None:
    sender, receiver = (client(), server()) if to_server else (server(), client())
    data = b"".join(sender.send_message(message) for message in messages)
    data += sender.send_ping(b"p") + sender.send_pong(b"q") + sender.send_close()
    step = max(step, len(data) // 2_000)  # a large one byte by byte takes seconds
    assert events(receiver, data, step) == [
        *(Message(message, False) for message in messages),
        Ping(b"p"),
        Pong(b"q"),
        Close(ws.NORMAL, ""),
    ]


def test_after_a_close_nothing_is_sent_and_nothing_is_read() -> None:
    sender, receiver = client(), server()
    data = sender.send_close(ws.POLICY, "revoked")
    assert not sender.is_open
    assert sender.send_message(b"x") == sender.send_ping() == sender.send_close() == b""
    late = client().send_message(b"late")
    assert events(receiver, data + late) == [Close(ws.POLICY, "revoked")]
    receiver.receive_data(late)
    assert receiver.next_event() is None and receiver.buffered == 0


def test_closing_end_still_reads() -> None:
    waiting = client()
    waiting.send_close()
    data = server().send_message(b"last") + server().send_close()
    assert events(waiting, data) == [Message(b"last", False), Close(ws.NORMAL, "")]


def test_long_reason_is_cut_between_characters() -> None:
    (close,) = events(client(), server().send_close(ws.TRY_LATER, "权" * 100))
    assert isinstance(close, Close) and close.reason == "权" * 41


# Against another implementation.


@settings(max_examples=60, deadline=None)
@given(st.lists(st.binary(max_size=70_000), max_size=4), st.integers(1, 4000))
def test_other_server_understands_our_client(data: list[bytes], step: int) -> None:
    other = ServerProtocol(max_size=None)
    handshake = ClientHandshake("127.0.0.1:1", "/ws?a=b")
    other.receive_data(handshake.request)
    (request,) = other.events_received()
    assert isinstance(request, OtherRequest) and request.path == "/ws?a=b"
    other.send_response(other.accept(request))
    answer = b"".join(other.data_to_send())
    rest = None
    for at in range(0, len(answer), step):
        assert rest is None
        rest = handshake.receive_data(answer[at : at + step])
    assert rest == b""
    ours = WebSocket(client=True)
    for message in data:
        other.receive_data(ours.send_message(message))
        other.send_binary(message)
    received = [frame.data for frame in other.events_received()]
    assert [bytes(part) for part in received] == data
    back = b"".join(other.data_to_send())
    assert events(ours, back, step) == [Message(message, False) for message in data]


def test_other_client_understands_our_server() -> None:
    other = ClientProtocol(parse_uri("ws://127.0.0.1:1/machine"))
    request = other.connect()
    other.send_request(request)
    key = request.headers["Sec-WebSocket-Key"]
    assert ws.is_key(key)
    other.receive_data(
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n"
        b"Connection: Upgrade\r\nSec-WebSocket-Accept: "
        + ws.accept_key(key).encode()
        + b"\r\n\r\n"
    )
    ours = WebSocket(client=False)
    other.receive_data(ours.send_message("权限".encode(), text=True) + ours.send_ping())
    other.send_text(b"yes")
    kinds = [frame.opcode for frame in other.events_received()[1:]]
    assert kinds == [Opcode.TEXT, Opcode.PING]
    sent = b"".join(other.data_to_send())
    frames = sent[sent.index(b"\r\n\r\n") + 4 :]
    assert Message(b"yes", True) in events(ours, frames)


# Handshakes that must fail.

GOOD = (
    "HTTP/1.1 101 Switching Protocols\r\nUpgrade: WebSocket\r\n"
    "Connection: keep-alive, Upgrade\r\nSec-WebSocket-Accept: {accept}\r\n{more}\r\n"
)


def answered(template: str, more: str = "", protocols: tuple[str, ...] = ()) -> bytes:
    handshake = ClientHandshake("h", "/", protocols)
    accept = ws.accept_key(base64.b64encode(KEY * 4).decode())
    rest = handshake.receive_data(template.format(accept=accept, more=more).encode())
    assert rest is not None
    return rest


def test_bytes_behind_the_handshake_are_kept() -> None:
    assert answered(GOOD + "\x81") == "\x81".encode()


def test_chosen_protocol_must_have_been_offered() -> None:
    chosen = "Sec-WebSocket-Protocol: feishuperm.1\r\n"
    assert answered(GOOD, chosen, ("feishuperm.2", "feishuperm.1")) == b""
    with pytest.raises(ProtocolError):
        answered(GOOD, chosen)


@every_row(
    "template",
    [
        GOOD.replace("{accept}", "c29tZXRoaW5nIGVsc2U="),
        GOOD.replace("WebSocket", "h2c"),
        GOOD.replace("keep-alive, Upgrade", "keep-alive"),
        GOOD.replace("{more}", "Sec-WebSocket-Extensions: permessage-deflate\r\n"),
        GOOD.replace("HTTP/1.1", "HTTP/1.0"),
        "SSH-2.0-x\r\n\r\n",
        GOOD.replace("{more}", "no colon\r\n"),
        GOOD.replace("{more}", "X: " + "x" * ws.MAX_HANDSHAKE + "\r\n"),
    ],
)
def test_wrong_answer_is_no_connection(template: str) -> None:
    with pytest.raises(ProtocolError):
        answered(template)


def test_endless_answer_is_given_up() -> None:
    handshake = ClientHandshake("h", "/")
    assert handshake.receive_data(b"HTTP/1.1 101 x\r\n") is None
    with pytest.raises(ProtocolError):
        handshake.receive_data(b"X: " + b"x" * ws.MAX_HANDSHAKE)


def test_refusal_tells_its_status_and_headers() -> None:
    refusal = (
        "HTTP/1.1 403 Forbidden\r\nHandshake-Status: 514\r\n"
        "HANDSHAKE-AUTHERRCODE: 1000040350\r\nX: a\r\nx: b\r\n\r\n"
    )
    with pytest.raises(HandshakeRefused) as caught:
        answered(refusal)
    assert caught.value.status == 403
    assert caught.value.headers["handshake-autherrcode"] == "1000040350"
    assert caught.value.headers["x"] == "a, b"


def test_header_with_a_line_break_is_never_sent() -> None:
    with pytest.raises(ValueError):
        ClientHandshake("h", "/a\r\nY: b")


@every_row("key", ["", "short", "權", "AAAA", "A" * 24 + "=="])
def test_key_of_another_length_is_none(key: str) -> None:
    assert not ws.is_key(key)


# Frames that must end the connection.

BROKEN = {
    "reserved bits": ("c100", ws.PROTOCOL_ERROR),
    "masked by a server": ("818037fa213d", ws.PROTOCOL_ERROR),
    "unknown kind": ("8300", ws.PROTOCOL_ERROR),
    "unknown control": ("8b00", ws.PROTOCOL_ERROR),
    "ping in fragments": ("0900", ws.PROTOCOL_ERROR),
    "long ping": ("897e0080", ws.PROTOCOL_ERROR),
    "continuation of nothing": ("8000", ws.PROTOCOL_ERROR),
    "message inside a message": ("01008100", ws.PROTOCOL_ERROR),
    "length not the shortest": ("827e0005", ws.PROTOCOL_ERROR),
    "long length not the shortest": ("827f000000000000ffff", ws.PROTOCOL_ERROR),
    "negative length": ("827fffffffffffffffff", ws.TOO_BIG),
    "too long": ("827e07d0", ws.TOO_BIG),
    "too long in parts": ("027e0320" + "00" * 800 + "807e0320", ws.TOO_BIG),
    "text that is not UTF-8": ("8101ff", ws.BAD_DATA),
    "close of one byte": ("880103", ws.PROTOCOL_ERROR),
    "close with a reserved code": ("880203ed", ws.PROTOCOL_ERROR),
    "close whose reason is not UTF-8": ("880303e8ff", ws.BAD_DATA),
}


@every_row("step", [0, 1])
@every_row("name", BROKEN)
def test_broken_frame_ends_with_the_code_the_standard_names(
    name: str, step: int
) -> None:
    data, code = BROKEN[name]
    with pytest.raises(WebSocketError) as caught:
        events(client(limit=1000), bytes.fromhex(data), step)
    assert caught.value.code == code


def test_unmasked_frame_of_a_client_is_refused() -> None:
    with pytest.raises(WebSocketError):
        events(server(), server().send_message(b"x"))


def test_message_in_endless_tiny_fragments_is_given_up() -> None:
    with pytest.raises(WebSocketError) as caught:
        events(client(), b"\x02\x00" + b"\x00\x00" * (ws.MAX_FRAGMENTS + 1))
    assert caught.value.code == ws.TOO_BIG


@settings(max_examples=examples(1500), deadline=None)
@given(st.binary(max_size=400), st.booleans(), st.integers(1, 9))
def test_any_bytes_are_events_or_an_error(data: bytes, end: bool, step: int) -> None:
    try:
        events(WebSocket(end, 200), data, step)
    except WebSocketError as error:
        assert error.code in (ws.PROTOCOL_ERROR, ws.BAD_DATA, ws.TOO_BIG)


def test_mask_undoes_itself() -> None:
    for size in (0, 1, 3, 4, 5, 1000):
        data = bytes(range(256)) * 4
        assert ws.mask(ws.mask(data[:size], KEY), KEY) == data[:size]
