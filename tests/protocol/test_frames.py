"""Frames between hook and server: every cut of the stream gives the same messages."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from feishuperm import wire
from feishuperm.errors import ProtocolError
from feishuperm.protocol.frames import (
    MAX_FRAME,
    FrameReader,
    HookRequest,
    parse_control,
    parse_notice,
    parse_request,
)
from feishuperm.wire import frame
from tests.tables import every_row

KINDS = st.sampled_from([b"Q", b"N", b"C", b"A", b"D", b"R"])
MESSAGES = st.lists(st.tuples(KINDS, st.binary(max_size=300)), max_size=8)


def read_all(reader: FrameReader, pieces: list[bytes]) -> list[tuple[bytes, bytes]]:
    events = []
    for piece in pieces:
        reader.receive_data(piece)
        while (event := reader.next_event()) is not None:
            events.append(event)
    return events


def one_by_one(data: bytes) -> list[bytes]:
    return [data[index : index + 1] for index in range(len(data))]


@given(MESSAGES)
def test_whole_and_byte_by_byte_give_the_same_messages(
    messages: list[tuple[bytes, bytes]],
) -> None:
    data = b"".join(frame(kind, body) for kind, body in messages)
    assert read_all(FrameReader(), [data]) == messages
    assert read_all(FrameReader(), one_by_one(data)) == messages


@given(MESSAGES, st.binary(min_size=1, max_size=8))
def test_bytes_of_an_unfinished_frame_stay_until_the_rest_comes(
    messages: list[tuple[bytes, bytes]], body: bytes
) -> None:
    last = frame(b"Q", body)
    reader = FrameReader()
    data = b"".join(frame(*message) for message in messages) + last[:-1]
    assert read_all(reader, [data]) == messages
    assert reader.buffered == len(last) - 1
    assert read_all(reader, [last[-1:]]) == [(b"Q", body)]
    assert reader.buffered == 0


@given(st.lists(st.binary(max_size=64), max_size=20))
def test_rubbish_raises_nothing_but_a_protocol_error(pieces: list[bytes]) -> None:
    try:
        events = read_all(FrameReader(limit=100), pieces)
    except ProtocolError as error:
        assert error.status == 413
    else:
        assert all(len(kind) == 1 and len(body) < 100 for kind, body in events)


@every_row("limit", [1, 2, 1000])
def test_the_limit_is_exact(limit: int) -> None:
    fits = frame(b"Q", b"x" * (limit - 1))
    assert read_all(FrameReader(limit), [fits]) == [(b"Q", b"x" * (limit - 1))]
    with pytest.raises(ProtocolError):
        read_all(FrameReader(limit), [frame(b"Q", b"x" * limit)])


def test_a_frame_without_a_kind_is_refused() -> None:
    with pytest.raises(ProtocolError):
        read_all(FrameReader(), [b"\0\0\0\0"])


def test_a_too_long_frame_is_refused_before_its_body_comes() -> None:
    with pytest.raises(ProtocolError):
        read_all(FrameReader(), [(MAX_FRAME + 1).to_bytes(4, "big")])


def test_the_longest_event_of_the_client_fits() -> None:
    head = b"\0".join((b"1 9", b"1700000000-0123abcd", b"again", b"/" * 4096, b""))
    data = frame(b"Q", head + b"x" * wire.MAX_EVENT)
    pieces = [data[start : start + 65536] for start in range(0, len(data), 65536)]
    [(kind, body)] = read_all(FrameReader(), pieces)
    assert kind == b"Q"
    assert len(parse_request(body).raw) == wire.MAX_EVENT


def test_request_has_all_parts_and_an_event_with_nul_stays_whole() -> None:
    body = b"\0".join((b"1 9", b"1700000000-0123abcd", b"shown", b"/p/\xff", b"{\0}"))
    assert parse_request(body) == HookRequest(
        "1700000000-0123abcd", "shown", "/p/\udcff", b"{\0}", 9
    )


@every_row(
    "body",
    [
        b"",
        b"1\x001700000000-0123abcd\0\0/p",
        b"2\x001700000000-0123abcd\0\0/p\0{}",
        b"1\0x-0123abcd\0\0/p\0{}",
        b"1\x001700000000-0123ABCD\0\0/p\0{}",
        b"1\x001700000000-0123abcd\n\0\0/p\0{}",
        b"1\x001234567890123-0123abcd\0\0/p\0{}",
        "1\0\u0661-0123abcd\0\0/p\0{}".encode(),
        b"1\x001700000000-0123abcd\0maybe\0/p\0{}",
    ],
)
def test_malformed_request_is_refused(body: bytes) -> None:
    with pytest.raises(ProtocolError):
        parse_request(body)


@given(st.binary(max_size=80))
def test_random_bodies_raise_nothing_but_a_protocol_error(body: bytes) -> None:
    for parse in (parse_request, parse_notice, parse_control):
        try:
            parse(body)
        except ProtocolError:
            pass


def test_notice_has_project_and_event() -> None:
    assert parse_notice(b"1\0/p\0{}") == ("/p", b"{}")


@every_row("body", [b"", b"2\0/p\0{}", b"1\0/p"])
def test_malformed_notice_is_refused(body: bytes) -> None:
    with pytest.raises(ProtocolError):
        parse_notice(body)


@every_row("body", [b"", b"[]", b"{", b"\xff", b"[" * 100000])
def test_control_message_that_is_no_json_object_is_refused(body: bytes) -> None:
    with pytest.raises(ProtocolError):
        parse_control(body)


def test_control_message_is_a_dict() -> None:
    assert parse_control(b'{"command": "status"}') == {"command": "status"}


def test_returning_hook_names_the_seconds_it_has_left() -> None:
    body = b"\0".join((b"1 37", b"1700000000-0123abcd", b"again", b"/p", b"{}"))
    assert (parse_request(body).left, parse_request(body).raw) == (37, b"{}")
    with pytest.raises(ProtocolError, match="how long it waits"):
        parse_request(body.replace(b"1 37", b"1"))


@every_row(
    "header", [b"", b"2", b"1 ", b"1 -1", b"1 1e3", b"2 1", b"1 1 1", b"1 claude"]
)
def test_header_of_another_version_is_refused(header: bytes) -> None:
    body = b"\0".join((header, b"1700000000-0123abcd", b"again", b"/p", b"{}"))
    with pytest.raises(ProtocolError, match="another version"):
        parse_request(body)
