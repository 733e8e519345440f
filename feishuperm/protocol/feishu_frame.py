"""The frame of Feishu's long connection: a small protobuf message, both ways.

One frame is one binary WebSocket message.  The wire is proto2: fields in any order, the
last of a repeated scalar counts, unknown fields are skipped, required ones are written
even when they are zero.  Nothing is known here of what a frame means.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from feishuperm.errors import ProtocolError

CONTROL, DATA = 0, 1  # methods
MAX_HEADERS = 64  # the platform sends eight
VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5  # wire types
UINT64 = (1 << 64) - 1


class Frame(NamedTuple):
    """A frame; `headers` are pairs, in their order."""

    seq_id: int = 0
    log_id: int = 0
    service: int = 0
    method: int = CONTROL
    headers: tuple[tuple[str, str], ...] = ()
    payload_encoding: str | None = None
    payload_type: str | None = None
    payload: bytes | None = None
    log_id_new: str | None = None

    def header(self, name: str) -> str:
        """The first header of that name; empty if there is none."""
        return next((value for key, value in self.headers if key == name), "")


# Field numbers of the scalars and of the texts, by their place in `Frame`.
NUMBERS = {1: "seq_id", 2: "log_id", 3: "service", 4: "method"}
SIGNED = ("service", "method")
TEXTS = {6: "payload_encoding", 7: "payload_type", 9: "log_id_new"}
HEADERS, PAYLOAD = 5, 8


def encode_frame(frame: Frame) -> bytes:
    """The bytes of a frame."""
    parts = [
        _tag(number, VARINT) + _varint(getattr(frame, name) & UINT64)
        for number, name in NUMBERS.items()
    ]
    for key, value in frame.headers:
        pair = _bytes(1, key.encode()) + _bytes(2, value.encode())
        parts.append(_bytes(HEADERS, pair))
    texts = {**TEXTS, PAYLOAD: "payload"}
    for number in sorted(texts):
        value = getattr(frame, texts[number])
        if value is not None:
            parts.append(_bytes(number, value if number == PAYLOAD else value.encode()))
    return b"".join(parts)


def decode_frame(data: bytes) -> Frame:
    """The frame again. Raises ProtocolError."""
    values: dict[str, object] = {}
    headers: list[tuple[str, str]] = []
    for number, value in _fields(data):
        if number in NUMBERS and isinstance(value, int):
            name = NUMBERS[number]
            values[name] = _signed(value) if name in SIGNED else value
        elif number == HEADERS and isinstance(value, bytes):
            headers.append(_header(value))
            if len(headers) > MAX_HEADERS:
                raise ProtocolError("a frame with too many headers")
        elif number in TEXTS and isinstance(value, bytes):
            values[TEXTS[number]] = _text(value)
        elif number == PAYLOAD and isinstance(value, bytes):
            values["payload"] = value
    return Frame(headers=tuple(headers), **values)  # type: ignore[arg-type]


def _header(data: bytes) -> tuple[str, str]:
    texts = {
        number: _text(value)
        for number, value in _fields(data)
        if isinstance(value, bytes) and number in (1, 2)
    }
    return texts.get(1, ""), texts.get(2, "")


def _fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Number and value of every field, one after the other."""
    at = 0
    while at < len(data):
        tag, at = _read_varint(data, at)
        number, wire = tag >> 3, tag & 7
        if not 0 < number < 1 << 29:
            raise ProtocolError("a frame with an impossible field")
        if wire == VARINT:
            value, at = _read_varint(data, at)
            yield number, value
            continue
        if wire == BYTES:
            size, at = _read_varint(data, at)
        elif wire in (FIXED32, FIXED64):
            size = 4 if wire == FIXED32 else 8
        else:
            raise ProtocolError("a frame with an unknown wire type")
        if size > len(data) - at:
            raise ProtocolError("a frame that ends too early")
        if wire == BYTES:
            yield number, data[at : at + size]
        at += size


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        if at >= len(data):
            raise ProtocolError("a frame that ends too early")
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value & UINT64, at
    raise ProtocolError("a number that is too long")


def _signed(value: int) -> int:
    """An int32 as proto2 reads it: the low 32 bits."""
    low = value & 0xFFFFFFFF
    return low - (1 << 32) if low >> 31 else low


def _text(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        raise ProtocolError("a frame whose text is not UTF-8") from None


def _varint(value: int) -> bytes:
    parts = bytearray()
    while value > 127:
        parts.append(value & 127 | 128)
        value >>= 7
    parts.append(value)
    return bytes(parts)


def _tag(number: int, wire: int) -> bytes:
    return _varint(number << 3 | wire)


def _bytes(number: int, value: bytes) -> bytes:
    return _tag(number, BYTES) + _varint(len(value)) + value
