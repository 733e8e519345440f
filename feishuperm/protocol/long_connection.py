"""Feishu's long connection above its frames: what arrives, what is due, what is dead.

Knows no socket and no clock: bytes and the time come in, bytes and deliveries go out.
A connection lives from a finished WebSocket handshake to its end; dialling the next one
is the caller's, with what `read_endpoint()` and `refusal()` say about it.

    receive_data(data, now)   bytes that arrived
    next_event()              a `Delivery` to be answered, or None
    answer(delivery, ...)     its acknowledgement, at most three seconds later
    data_to_send()            everything to be written now
    tick(now, wall)           what time alone brings: pings, sleep noticed
    trouble                   why it is of no use any more; empty while it is

A platform that answers pings may still have stopped to deliver (seen in the field), and
a laptop that slept has a socket that only looks open.  So a ping follows every card,
and others while one is out; a ping without any answer for PONG_SECONDS is the end; so
is a clock that jumped; and a card that has been out for DEAF_SECONDS while nothing but
pongs arrived asks for a fresh connection beside this one (`is_deaf()`), which stays
until that one is up.
"""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Iterator
from typing import Any, NamedTuple
from urllib.parse import parse_qs, urlsplit

from feishuperm.errors import ProtocolError
from feishuperm.messages import msg
from feishuperm.models.fields import decoded, text_at, value_at
from feishuperm.protocol.websocket import (
    NORMAL,
    Close,
    Conversation,
    HandshakeRefused,
    WebSocket,
)

PING_SECONDS = 120.0  # until the platform says otherwise
LEAST_PING, MOST_PING = 5.0, 600.0  # whatever it says
PONG_SECONDS = 20.0  # 3 s led to needless reconnects in the field, a minute is too long
CARD_PING_SECONDS = 4.0  # while a card is out: at each look, which are 5 s apart
DEAF_SECONDS = 20.0  # a card is out, and nothing but pongs
ANSWER_SECONDS = 3.0  # the platform's own patience with an answer
CHUNK_SECONDS = 10.0  # for all parts of a message
MAX_PARTS = 64
MAX_CHUNKED = 1 << 20  # bytes of a message in parts
MAX_OPEN_MESSAGES = 32  # of which parts are missing
HANDLED = ("event", "card")  # an app that was just set up gets `card` for the same
CONTROL, DATA = 0, 1  # methods of a frame
MAX_HEADERS = 64  # of a frame; the platform sends eight
VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5  # wire types of protobuf
UINT64 = (1 << 64) - 1
# The numbers of a frame's fields: their places in `Frame`.
NUMBERS, SIGNED, HEADERS, TEXTS, PAYLOAD = (1, 2, 3, 4), (3, 4), 5, (6, 7, 9), 8


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


class Delivery(NamedTuple):
    """A message of the platform that wants an answer."""

    payload: bytes
    frame: Frame
    received: float


class Endpoint(NamedTuple):
    """Where to connect; the address is a secret and good for one connection."""

    url: str
    service_id: int
    ping_seconds: float


class Refusal(ProtocolError):
    """Feishu does not want a connection; `key` names the sentence for the person."""

    def __init__(self, key: str, code: int, fatal: bool) -> None:
        super().__init__(key)
        self.key = key
        self.code = code
        self.fatal = fatal  # the same will be said again until somebody repairs it


WRONG_APP = msg("FEISHU_APP_ID or FEISHU_APP_SECRET is wrong")
UNPUBLISHED = msg(
    "Feishu refuses the app's connection: publish a version of the app and switch its "
    "bot on"
)
HANDSHAKE = ("autherrcode", "status", "msg")  # what Feishu says, in headers
# Code of a discovery or a handshake -> the key of what it means, and whether a person
# has to do something about it.  What is not here is weather: try again.
REFUSALS = {
    **dict.fromkeys((1000040345, 1000040344, 10003, 10014, 10015), (WRONG_APP, True)),
    1000040350: (msg("the app has too many long connections (50 at most)"), True),
    403: (UNPUBLISHED, True),
}


def read_endpoint(status: int, body: bytes) -> Endpoint:
    """What discovery answered. Raises Refusal."""
    answer = decoded(body)
    code = value_at(answer, "code")
    if isinstance(code, int) and code:
        raise Refusal(*_refused(code))
    url = text_at(answer, "data", "URL")
    try:
        service_id = int(parse_qs(urlsplit(url).query)["service_id"][0])
    except (ValueError, KeyError):
        service_id = -1
    usable = code == 0 and url.isascii() and url.startswith(("ws://", "wss://"))
    if not usable or not 0 <= service_id < 1 << 31:
        raise Refusal(
            msg("the answer is not Feishu's: a proxy may be in between"),
            status,
            fatal=False,
        )
    config = value_at(answer, "data", "ClientConfig")
    return Endpoint(url, service_id, ping_seconds(config))


def ping_seconds(config: object, otherwise: float = PING_SECONDS) -> float:
    """The interval a configuration asks for, within reason; it may name none."""
    value = value_at(config, "PingInterval")
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        return otherwise
    return float(min(max(value, LEAST_PING), MOST_PING)) if value > 0 else otherwise


def refusal(refused: HandshakeRefused) -> Refusal:
    """What a refused handshake means: Feishu says it in headers, a proxy has none.

    A server error may be of either, and passes.
    """
    named = [refused.headers.get(f"handshake-{name}") for name in HANDSHAKE]
    codes = [int(code) for code in named if code and code.isascii() and code.isdigit()]
    if any(named) or refused.status >= 500:
        known = [code for code in codes if code in REFUSALS]
        return Refusal(*_refused((*known, refused.status)[0]))
    text = msg("a proxy on the way does not pass WebSockets (HTTP {})", refused.status)
    return Refusal(text, refused.status, fatal=False)


def _refused(code: int) -> tuple[str, int, bool]:
    key, fatal = REFUSALS.get(
        code, (msg("Feishu is busy; if that lasts, the app was never published"), False)
    )
    return key, code, fatal


class LongConnection(Conversation):
    """One connection, from its handshake to its end."""

    asleep = "the machine was asleep"
    goodbye = NORMAL

    def __init__(self, endpoint: Endpoint, now: float, wall: float) -> None:
        super().__init__(WebSocket(client=True), now, wall)
        self._service_id = endpoint.service_id
        self._interval = endpoint.ping_seconds
        # When the first part of a message came, and its parts.
        self._chunks: dict[tuple[str, int], tuple[float, dict[int, bytes]]] = {}
        self._pinged = -math.inf  # the oldest ping that nothing has followed
        self._last_ping = -math.inf
        self._card_out = math.inf  # since when a card waits and nothing but pongs came
        self.tick(now, wall)

    # In.

    def receive_data(self, data: bytes, now: float) -> None:
        """Take what arrived; no data means that the other end is gone."""
        if not data:
            self.trouble = self.trouble or "closed by Feishu"
        self._pinged = -math.inf
        super().receive_data(data, now)
        self._now = now

    def _read(self, data: bytes) -> Delivery | None:
        try:
            return self._frame(decode_frame(data))
        except ProtocolError:
            return None  # one broken frame; its message is pushed again, or was none

    def _farewell(self, close: Close) -> str:
        return f"closed by Feishu with code {close.code}"

    def _frame(self, frame: Frame) -> Delivery | None:
        if frame.method == CONTROL:
            if frame.header("type") == "pong" and frame.payload:
                # It may change the interval; what it leaves out stays as it is.
                self._interval = ping_seconds(decoded(frame.payload), self._interval)
            return None
        if frame.method != DATA or frame.header("type") not in HANDLED:
            return None
        payload = self._assembled(frame)
        if payload is None:
            return None
        if self._card_out < math.inf:
            self._card_out = self._now
        return Delivery(payload, frame, self._now)

    def _assembled(self, frame: Frame) -> bytes | None:
        """The payload, once all of its parts are there."""
        total, number = _number(frame.header("sum")), _number(frame.header("seq"))
        if total <= 1:
            return frame.payload or b""
        if total > MAX_PARTS or number >= total:
            raise ProtocolError("a message in an impossible number of parts")
        self._forget_chunks()
        key = frame.header("message_id"), total
        _, parts = self._chunks.setdefault(key, (self._now, {}))
        parts[number] = frame.payload or b""
        if sum(map(len, parts.values())) > MAX_CHUNKED:
            del self._chunks[key]
            raise ProtocolError("a message in parts is too long")
        if len(parts) < total:
            return None
        del self._chunks[key]
        return b"".join(parts[number] for number in range(total))

    def _forget_chunks(self) -> None:
        began = self._now - CHUNK_SECONDS
        late = [key for key in self._chunks if self._chunks[key][0] < began]
        surplus = list(self._chunks)[: max(0, len(self._chunks) - MAX_OPEN_MESSAGES)]
        for key in {*late, *surplus}:
            del self._chunks[key]

    # Out.

    def answer(
        self, delivery: Delivery, now: float, reply: dict[str, Any] | None = None
    ) -> bool:
        """Acknowledge, with what a tap is answered; False: it comes too late."""
        if self.trouble or now - delivery.received > ANSWER_SECONDS:
            return False
        # Without data some clients show an error; an empty object means "nothing".
        data = json.dumps(reply or {}, ensure_ascii=False).encode()
        body = {"code": 200, "data": base64.b64encode(data).decode()}
        took = str(round((now - delivery.received) * 1000))
        self._send(
            delivery.frame._replace(
                headers=(*delivery.frame.headers, ("biz_rt", took)),
                payload=json.dumps(body).encode(),
            )
        )
        return True

    def watch(self, is_card_out: bool, now: float) -> None:
        """Make sure that the tap on a card that went out can come in."""
        if is_card_out:
            self._card_out = min(self._card_out, now)
            self._ping(now)
        else:
            self._card_out = math.inf

    def close(self, code: int = NORMAL, reason: str = "") -> None:
        """Queue a close; what is wrong with Feishu's bytes is not told to Feishu."""
        super().close(code)
        self.trouble = self.trouble or "closed"

    def _send(self, frame: Frame) -> None:
        self._out += self._socket.send_message(encode_frame(frame))

    def _ping(self, now: float) -> None:
        headers = (("type", "ping"),)
        self._send(Frame(service=self._service_id, method=CONTROL, headers=headers))
        self._last_ping = now
        if self._pinged == -math.inf:
            self._pinged = now

    # Time.

    def tick(self, now: float, wall: float) -> None:
        """Ping, or find Feishu dead."""
        self._now = now
        self.notice_sleep(now, wall)
        if now - self._pinged >= PONG_SECONDS and self._pinged > -math.inf:
            self.trouble = self.trouble or "Feishu answers no ping"
        is_card_out = self._card_out < math.inf
        seconds = CARD_PING_SECONDS if is_card_out else self._interval
        if not self.trouble and now >= self._last_ping + seconds:
            self._ping(now)

    def is_deaf(self, now: float) -> bool:
        """Whether a card has been out for long and nothing but pongs arrived."""
        return now - self._card_out >= DEAF_SECONDS


def _number(value: str) -> int:
    """A number in a header; 0 for anything else."""
    return int(value) if value.isascii() and value.isdigit() and len(value) < 9 else 0


# Frames: one is one binary WebSocket message.  The wire is proto2: fields in any order,
# the last of a repeated scalar counts, unknown fields are skipped, required ones are
# written even when they are zero.


def encode_frame(frame: Frame) -> bytes:
    """The bytes of a frame."""
    parts = []
    for number, value in enumerate(frame, 1):
        each = frame.headers if number == HEADERS else (value,)
        parts += [_field(number, one) for one in each if one is not None]
    return b"".join(parts)


def _field(number: int, value: Any) -> bytes:
    """A number, a text, bytes, or a header, which is a message of two texts."""
    if isinstance(value, int):
        return _varint(number << 3 | VARINT) + _varint(value & UINT64)
    if isinstance(value, tuple):
        value = _field(1, value[0]) + _field(2, value[1])
    data = value.encode() if isinstance(value, str) else value
    return _varint(number << 3 | BYTES) + _varint(len(data)) + data


def _varint(value: int) -> bytes:
    parts = bytearray()
    while value > 127:
        parts.append(value & 127 | 128)
        value >>= 7
    parts.append(value)
    return bytes(parts)


def decode_frame(data: bytes) -> Frame:
    """The frame again. Raises ProtocolError."""
    values: dict[int, Any] = {}
    headers: list[tuple[str, str]] = []
    for number, value in _read_fields(data):
        if isinstance(value, int):
            if number in NUMBERS:
                values[number] = _signed(value) if number in SIGNED else value
        elif number == HEADERS:
            pair = dict(_read_fields(value))
            headers.append((_text(pair.get(1)), _text(pair.get(2))))
            if len(headers) > MAX_HEADERS:
                raise ProtocolError("a frame with too many headers")
        elif number in (*TEXTS, PAYLOAD):
            values[number] = value if number == PAYLOAD else _text(value)
    named = {Frame._fields[number - 1]: value for number, value in values.items()}
    return Frame(headers=tuple(headers), **named)


def _read_fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
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


def _text(value: object) -> str:
    try:
        return value.decode() if isinstance(value, bytes) else ""
    except UnicodeDecodeError:
        raise ProtocolError("a frame whose text is not UTF-8") from None
