"""RESP2: what the real server was seen to send, and what nobody should."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from feishuperm.errors import ProtocolError
from feishuperm.protocol import resp
from feishuperm.protocol.resp import (
    MAX_DEPTH,
    MAX_LINE,
    PENDING,
    Failure,
    ReplyReader,
    command,
)
from tests.tables import every_row


def read(data: bytes, size: int = 0) -> list[Any]:
    """Every reply in the bytes, fed whole or in pieces of a size."""
    reader = ReplyReader()
    replies: list[Any] = []
    step = size or len(data) or 1
    for start in range(0, len(data), step):
        reader.receive_data(data[start : start + step])
        reply = reader.next_reply()
        while reply is not PENDING:
            replies.append(reply)
            reply = reader.next_reply()
    return replies


SEEN = [
    (b"+OK\r\n", b"OK"),
    (b":-4\r\n", -4),
    (b"$1\r\nv\r\n", b"v"),
    (b"$0\r\n\r\n", b""),
    (b"$4\r\na\r\nb\r\n", b"a\r\nb"),
    (b"$-1\r\n", None),
    (b"*-1\r\n", None),
    (b"*0\r\n", []),
    (b"*2\r\n$3\r\nmac\r\n$-1\r\n", [b"mac", None]),
    (b"*4\r\n:1\r\n$-1\r\n$1\r\nx\r\n*1\r\n:2\r\n", [1, None, b"x", [2]]),
    (
        b"*1\r\n*2\r\n$1\r\ns\r\n*1\r\n*2\r\n$3\r\n1-1\r\n*2\r\n$1\r\nt\r\n$3\r\ntap\r\n",
        [[b"s", [[b"1-1", [b"t", b"tap"]]]]],
    ),
    (b"*2\r\n*0\r\n+a\r\n", [[], b"a"]),
    (b"*1\r\n-ERR no\r\n", [Failure("ERR", "no")]),
    (
        b"-LOADING Redis is loading the dataset in memory\r\n",
        Failure("LOADING", "Redis is loading the dataset in memory"),
    ),
]


@every_row(("data", "reply"), SEEN)
def test_reply_of_the_real_server_is_read(data: bytes, reply: Any) -> None:
    assert read(data) == [reply]
    assert read(data, 1) == [reply]


def test_pipeline_gives_one_reply_each_in_order() -> None:
    data = b"".join(data for data, _ in SEEN)
    for size in (0, 1, 2, 3, 7):
        assert read(data, size) == [reply for _, reply in SEEN]


def test_command_counts_bytes_not_characters() -> None:
    assert command("XADD", "s", "1-1", "t", "tap") == (
        b"*5\r\n$4\r\nXADD\r\n$1\r\ns\r\n$3\r\n1-1\r\n$1\r\nt\r\n$3\r\ntap\r\n"
    )
    assert (
        command("é", "\r\n", 12)
        == b"*3\r\n$2\r\n\xc3\xa9\r\n$2\r\n\r\n\r\n$2\r\n12\r\n"
    )


@every_row(
    "data",
    [
        b"HTTP/1.1 400 Bad Request\r\n",
        b":\r\n",
        b":1x\r\n",
        b":999999999999999999999\r\n",
        b"$-2\r\n",
        b"$99999999999\r\n",
        b"$1\r\nabc",
        b"*-2\r\n",
        b"*9999999999\r\n",
        b"%1\r\n+a\r\n+b\r\n",
        b"+" + b"a" * (MAX_LINE + 2),
        b"*1\r\n" * (MAX_DEPTH + 1),
    ],
)
def test_what_breaks_the_rules_ends_it(data: bytes) -> None:
    with pytest.raises(ProtocolError):
        read(data)
    with pytest.raises(ProtocolError):
        read(data, 1)


def encoded(reply: Any) -> bytes:
    if reply is None:
        return b"$-1\r\n"
    if isinstance(reply, int):
        return b":%d\r\n" % reply
    if isinstance(reply, bytes):
        return b"$%d\r\n%s\r\n" % (len(reply), reply)
    return b"*%d\r\n%s" % (len(reply), b"".join(map(encoded, reply)))


REPLIES = st.recursive(
    st.none() | st.integers(-(2**62), 2**62) | st.binary(max_size=40),
    lambda inner: st.lists(inner, max_size=4),
    max_leaves=12,
)


@given(st.lists(REPLIES, max_size=5), st.integers(1, 50))
def test_any_replies_survive_any_cut(replies: list[Any], size: int) -> None:
    data = b"".join(map(encoded, replies))
    assert read(data, size) == replies


@given(st.binary(max_size=200), st.integers(1, 20))
def test_noise_is_read_or_refused(data: bytes, size: int) -> None:
    try:
        read(data, size)
    except ProtocolError:
        pass


def test_half_a_character_is_a_text_like_any_other() -> None:
    """JSON can bring one, from anybody; a command must be written all the same."""
    assert command("GET", "\ud800") == b"*2\r\n$3\r\nGET\r\n$3\r\n\xed\xa0\x80\r\n"


@every_row("value", [b"$100\r\n" + b"x" * 100 + b"\r\n", b"*0\r\n", b":1\r\n"])
def test_reply_without_end_is_given_up(
    value: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resp, "MAX_REPLY", 10_000)
    reader = ReplyReader()
    reader.receive_data(b"*1000000\r\n" + value * 30)
    assert reader.next_reply() is PENDING
    with pytest.raises(ProtocolError):
        reader.receive_data(value * 200)
        reader.next_reply()
    assert read((b"*9\r\n" + value * 9) * 100), "many short ones are none"
