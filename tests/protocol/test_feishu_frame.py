"""The long connection's frame, byte for byte against the official SDK's own codec."""

from __future__ import annotations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from feishuperm.errors import ProtocolError
from feishuperm.protocol.long_connection import (
    CONTROL,
    DATA,
    MAX_HEADERS,
    Frame,
    decode_frame,
    encode_frame,
)
from tests.conftest import examples
from tests.tables import every_row

NUMBERS = st.integers(0, 2**64 - 1)
INT32 = st.integers(-(2**31), 2**31 - 1)
TEXTS = st.text(max_size=40)
FRAMES = st.builds(
    Frame,
    NUMBERS,
    NUMBERS,
    INT32,
    INT32,
    st.lists(st.tuples(TEXTS, TEXTS), max_size=6).map(tuple),
    st.none() | TEXTS,
    st.none() | TEXTS,
    st.none() | st.binary(max_size=300),
    st.none() | TEXTS,
)
PING = "0800100018f681801020002a0c0a0474797065120470696e67"


def as_sdk(frame: Frame) -> bytes:
    """The same frame as the official codec writes it."""
    from lark_oapi.ws.pb import pbbp2_pb2 as pbbp2

    message = pbbp2.Frame()
    message.SeqID, message.LogID = frame.seq_id, frame.log_id
    message.service, message.method = frame.service, frame.method
    for key, value in frame.headers:
        header = message.headers.add()
        header.key, header.value = key, value
    for name in ("payload_encoding", "payload_type", "payload"):
        if getattr(frame, name) is not None:
            setattr(message, name, getattr(frame, name))
    if frame.log_id_new is not None:
        message.LogIDNew = frame.log_id_new
    data: bytes = message.SerializeToString()
    return data


def test_ping_is_the_one_the_sdks_send() -> None:
    ping = Frame(service=33554678, method=CONTROL, headers=(("type", "ping"),))
    assert encode_frame(ping).hex() == PING
    assert decode_frame(bytes.fromhex(PING)) == ping


@pytest.mark.sdk
@settings(max_examples=examples(10_000), deadline=None)
@given(FRAMES)
@example(Frame())
@example(Frame(2**64 - 1, 0, -1, DATA))
def test_frame_is_written_and_read_as_the_official_codec_does(frame: Frame) -> None:
    data = encode_frame(frame)
    assert data == as_sdk(frame)
    assert decode_frame(data) == frame


def test_required_numbers_are_written_when_they_are_zero() -> None:
    assert encode_frame(Frame()).hex() == "0800100018002000"


def test_order_is_free_last_number_counts_and_unknown_fields_are_skipped() -> None:
    known = encode_frame(Frame(7, 8, 9, DATA, payload=b"x"))
    unknown = b"\x78\x05" + b"\x85\x01abcd" + b"\x81\x0112345678" + b"\x82\x01\x02hi"
    assert decode_frame(unknown + known).seq_id == 7
    assert decode_frame(known + b"\x08\x01" + unknown) == decode_frame(known)._replace(
        seq_id=1
    )


def test_header_without_value_is_an_empty_text() -> None:
    assert decode_frame(b"\x2a\x03\x0a\x01k").headers == (("k", ""),)


@every_row(
    "data",
    [
        b"\x08",  # a number that never comes
        b"\x08" + b"\xff" * 10,  # and one that never ends
        b"\x42\x05abc",  # fewer bytes than promised
        b"\x42\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
        b"\x0b\x0c",  # groups are gone
        b"\x00\x00",  # field zero
        b"\x32\x01\xff",  # not UTF-8
        b"\x2a\x03\x0a\x01\xff",
        b"\x0d\x01",
        b"\x2a\x00" * (MAX_HEADERS + 1),
    ],
)
def test_broken_frame_is_refused(data: bytes) -> None:
    with pytest.raises(ProtocolError):
        decode_frame(data)


@settings(max_examples=examples(2000), deadline=None)
@given(st.binary(max_size=200))
def test_any_bytes_are_a_frame_or_refused(data: bytes) -> None:
    try:
        frame = decode_frame(data)
    except ProtocolError:
        return
    assert decode_frame(encode_frame(frame)) == frame
