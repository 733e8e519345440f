"""WebSocket (RFC 6455), either end: bytes in, messages out, and back.

Knows no socket, no clock and no address.  A connection begins with a handshake
(`ClientHandshake`, `accept_key()`) and then speaks frames (`WebSocket`).  No extension
is offered or accepted, so there is nothing to inflate; every buffer has a limit; what
the standard forbids ends the connection with the code it names.

States of a `WebSocket`:

    open      messages and pings both ways
    closing   we sent a close frame: nothing more is sent, what comes is still read
    closed    the other end closed, or broke a rule: nothing is read any more

`receive_data()` takes bytes, `next_event()` gives `Message`, `Ping`, `Pong` or `Close`,
None when it needs more.  The `send_...()` methods return the bytes to write; answering
a ping or a close is the caller's, since only the caller can write.  `Conversation` is
such a caller: what our protocols over a WebSocket have in common.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import os
import re
from collections.abc import Mapping
from typing import Any, NamedTuple, Union

from feishuperm.errors import ProtocolError
from feishuperm.protocol.http1 import LINES, VALUE, options, parse_headers

GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
MAX_HANDSHAKE = 16384  # a response head; proxies add a few headers
MAX_MESSAGE = 1 << 20  # both peers we speak with stay far below
MAX_FRAGMENTS = 1024  # of one message: each costs a piece of memory however small
CONTINUATION, TEXT, BINARY, CLOSE, PING, PONG = 0, 1, 2, 8, 9, 10
DATA_CODES = frozenset((CONTINUATION, TEXT, BINARY))
CONTROL_CODES = frozenset((CLOSE, PING, PONG))
MAX_CONTROL = 125
FRAMES = 256  # without a message that one call looks at: others have their turn too
JUMP_SECONDS = 10.0  # that the wall clock ran ahead of the other: the machine slept

# Close codes: what we send, and which may be received.
NORMAL, GOING_AWAY, PROTOCOL_ERROR, BAD_DATA, POLICY, TOO_BIG, TRY_LATER = (
    1000, 1001, 1002, 1007, 1008, 1009, 1013,
)  # fmt: skip
NO_CODE = 1005  # a close frame without one; never sent
RECEIVABLE = frozenset((1000, 1001, 1002, 1003, *range(1007, 1015)))

HEAD = re.compile(rf"HTTP/1\.1 ([0-9]{{3}})(?: {VALUE})?\r\n{LINES}")


class Message(NamedTuple):
    """A whole message; a text is checked to be UTF-8 and left as bytes."""

    data: bytes
    text: bool


class Ping(NamedTuple):
    data: bytes


class Pong(NamedTuple):
    data: bytes


class Close(NamedTuple):
    code: int  # NO_CODE if the frame had none
    reason: str


Event = Union[Message, Ping, Pong, Close]


class WebSocketError(ProtocolError):
    """The other end broke a rule; `code` is what the close frame should say."""

    def __init__(self, message: str, code: int = PROTOCOL_ERROR) -> None:
        super().__init__(message)
        self.code = code


class HandshakeRefused(ProtocolError):
    """The server answered with something else than a WebSocket."""

    def __init__(self, status: int, headers: Mapping[str, str]) -> None:
        super().__init__(f"the handshake was refused with status {status}", status)
        self.headers = headers  # names in lower case


# Handshakes.


def accept_key(key: str) -> str:
    """What a server answers to a client's key."""
    digest = hashlib.sha1(key.encode("ascii", "replace") + GUID).digest()
    return base64.b64encode(digest).decode()


def is_key(key: str) -> bool:
    """Whether a client's key is one: sixteen bytes in base64."""
    try:
        return len(base64.b64decode(key.encode("ascii"), validate=True)) == 16
    except ValueError:
        return False


class ClientHandshake:
    """The opening of a connection, from the client's side."""

    def __init__(self, host: str, target: str, protocols: tuple[str, ...] = ()) -> None:
        self._key = base64.b64encode(os.urandom(16)).decode()
        self._protocols = protocols
        self._buffer = bytearray()
        lines = [
            f"GET {target} HTTP/1.1",
            f"Host: {host}",
            "Upgrade: websocket",
            "Connection: Upgrade",
            f"Sec-WebSocket-Key: {self._key}",
            "Sec-WebSocket-Version: 13",
        ]
        if protocols:
            lines.append(f"Sec-WebSocket-Protocol: {', '.join(protocols)}")
        if not "".join(lines).isprintable():
            raise ValueError("a control character in a header")
        self.request = "\r\n".join([*lines, "", ""]).encode("latin-1")

    def receive_data(self, data: bytes) -> bytes | None:
        """The bytes behind the answer, or None: more is needed.

        Raises HandshakeRefused for another status, ProtocolError for a wrong answer.
        """
        self._buffer += data
        end = self._buffer.find(b"\r\n\r\n")
        if (len(self._buffer) if end < 0 else end) > MAX_HANDSHAKE:
            raise ProtocolError("the answer to the handshake is too long")
        if end < 0:
            return None
        self._check(self._buffer[: end + 2].decode("latin-1"))
        return bytes(self._buffer[end + 4 :])

    def _check(self, head: str) -> None:
        match = HEAD.fullmatch(head)
        if match is None:
            raise ProtocolError("the server does not speak HTTP")
        status, headers = int(match[1]), parse_headers(match[2])
        if status != 101:
            raise HandshakeRefused(status, headers)
        upgrade = headers.get("upgrade", "").lower()
        if upgrade != "websocket" or "upgrade" not in options(headers):
            raise ProtocolError("the server did not upgrade")
        given = headers.get("sec-websocket-accept", "")
        if not hmac.compare_digest(given.encode(), accept_key(self._key).encode()):
            raise ProtocolError("the server does not speak WebSocket")
        if headers.get("sec-websocket-extensions"):
            raise ProtocolError("the server wants an extension nobody offered")
        if headers.get("sec-websocket-protocol", "") not in ("", *self._protocols):
            raise ProtocolError("the server chose a protocol nobody offered")


# Frames.


class WebSocket:
    """One end of an open connection; a client masks what it sends, a server not."""

    def __init__(self, client: bool, limit: int = MAX_MESSAGE) -> None:
        self._client = client
        self.limit = limit
        self._buffer = bytearray()
        self._parts: list[bytes] = []  # of a message in fragments
        self._size = 0  # of these parts
        self._text = self._fragmented = False
        self._sent_close = False
        self._closed = False

    @property
    def is_open(self) -> bool:
        """Whether messages may still be sent."""
        return not self._sent_close and not self._closed

    @property
    def buffered(self) -> int:
        """How many bytes of incomplete frames and messages are held."""
        return len(self._buffer) + self._size

    # In.

    def receive_data(self, data: bytes) -> None:
        """Take what arrived; after a close it is thrown away."""
        if not self._closed:
            self._buffer += data

    def next_event(self) -> Event | None:
        """The next event, or None: more is needed. Raises WebSocketError."""
        while not self._closed and (frame := self._next_frame()):
            event = self._event(*frame)
            if event is not None:
                return event
        return None

    def _next_frame(self) -> tuple[int, bool, bytes] | None:
        """Opcode, whether it is the last of its message, and the payload."""
        buffer = self._buffer
        if len(buffer) < 2:
            return None
        opcode, final = buffer[0] & 15, bool(buffer[0] & 128)
        self._check_start(buffer[0], buffer[1], opcode, final)
        size, at = buffer[1] & 127, 2
        if size >= 126:
            width = 2 if size == 126 else 8
            if len(buffer) < at + width:
                return None
            least = 126 if size == 126 else 1 << 16
            size = int.from_bytes(buffer[at : at + width], "big")
            at += width
            if size < least:
                raise WebSocketError("a length that is not the shortest")
        if opcode in DATA_CODES and self._size + size > self.limit:
            raise WebSocketError("a message is too long", TOO_BIG)
        mask_at, at = at, at + (0 if self._client else 4)
        if len(buffer) < at + size:
            return None
        payload = bytes(buffer[at : at + size])
        if not self._client:
            payload = mask(payload, bytes(buffer[mask_at:at]))
        del buffer[: at + size]
        return opcode, final, payload

    def _check_start(self, first: int, second: int, opcode: int, final: bool) -> None:
        """Everything the first two bytes can have wrong."""
        if first & 0x70:
            raise WebSocketError("reserved bits without an extension")
        if bool(second & 128) == self._client:
            raise WebSocketError("a frame masked by the wrong end")
        if opcode in CONTROL_CODES:
            if not final or second & 127 > MAX_CONTROL:
                raise WebSocketError("a control frame too long or in fragments")
        elif opcode not in DATA_CODES:
            raise WebSocketError("an unknown kind of frame")
        elif (opcode == CONTINUATION) != self._fragmented:
            raise WebSocketError("fragments out of order")

    def _event(self, opcode: int, final: bool, payload: bytes) -> Event | None:
        if opcode in (PING, PONG):
            return Ping(payload) if opcode == PING else Pong(payload)
        if opcode == CLOSE:
            return self._receive_close(payload)
        if opcode != CONTINUATION:
            self._text = opcode == TEXT
        self._parts.append(payload)
        self._size += len(payload)
        self._fragmented = not final
        if len(self._parts) > MAX_FRAGMENTS:
            raise WebSocketError("a message in too many fragments", TOO_BIG)
        if not final:
            return None
        data = b"".join(self._parts)
        self._parts.clear()
        self._size = 0
        if self._text:
            check_text(data)
        return Message(data, self._text)

    def _receive_close(self, payload: bytes) -> Close:
        self._closed = True
        self._buffer.clear()
        if not payload:
            return Close(NO_CODE, "")
        code = int.from_bytes(payload[:2], "big")
        if len(payload) < 2 or not (code in RECEIVABLE or 3000 <= code < 5000):
            raise WebSocketError("a close frame with a code nobody may send")
        return Close(code, check_text(payload[2:]))

    # Out.

    def send_message(self, data: bytes, text: bool = False) -> bytes:
        """The frame of a message; empty once the connection is closing."""
        return self._frame(TEXT if text else BINARY, data) if self.is_open else b""

    def send_ping(self, data: bytes = b"") -> bytes:
        return self._frame(PING, data) if self.is_open else b""

    def send_pong(self, data: bytes) -> bytes:
        return self._frame(PONG, data) if self.is_open else b""

    def send_close(self, code: int = NORMAL, reason: str = "") -> bytes:
        """The first close frame; empty after that. NO_CODE sends none."""
        if self._sent_close:
            return b""
        self._sent_close = True
        if code == NO_CODE:
            return self._frame(CLOSE, b"")
        words = reason.encode()[: MAX_CONTROL - 2].decode(errors="ignore").encode()
        return self._frame(CLOSE, code.to_bytes(2, "big") + words)

    def _frame(self, opcode: int, payload: bytes) -> bytes:
        size = len(payload)
        masked = 128 if self._client else 0
        width = 0 if size < 126 else 2 if size < 1 << 16 else 8
        short = {0: size, 2: 126, 8: 127}[width]
        head = bytes((128 | opcode, masked | short))
        head += size.to_bytes(width, "big") if width else b""
        if not self._client:
            return head + payload
        key = os.urandom(4)
        return head + key + mask(payload, key)


class Conversation:
    """One end of a protocol over a WebSocket: pings, closes and sleep are seen to.

    A subclass reads messages (`_read`, `_farewell`), and knows what is due: `tick(now,
    wall)`, and `watch(is_card_out, now)`, for while a card is out a dead end has to be
    found soon.  What is to be written is in `data_to_send()`.
    """

    asleep = "this machine slept"
    goodbye = GOING_AWAY

    def __init__(self, socket: WebSocket, now: float, wall: float) -> None:
        self._socket = socket
        self._out = bytearray()
        self._ahead = wall - now  # grows when the machine sleeps
        self.trouble = ""  # why it is of no use any more
        self.code = 0  # what the other end closed it with
        self.is_behind = False  # the last `next_event()` stopped before it was through

    def receive_data(self, data: bytes, now: float) -> None:
        """Take what arrived."""
        self._socket.receive_data(data)

    def next_event(self) -> Any:
        """The next message, or None: more is needed, it is over, or `is_behind`."""
        self.is_behind = False
        for _ in range(FRAMES):
            try:
                event = None if self.trouble else self._socket.next_event()
                if event is None:
                    return None
                message = self._take(event)
            except WebSocketError as error:
                self.trouble = str(error)
                self.close(error.code, str(error))
                return None
            if message is not None:
                return message
        self.is_behind = True
        return None

    def _take(self, event: Event) -> Any:
        if isinstance(event, Message):
            return self._read(event.data)
        if isinstance(event, Ping):
            self._out += self._socket.send_pong(event.data)
        elif isinstance(event, Close):
            self._out += self._socket.send_close(event.code)
            self.code = event.code
            self.trouble = self._farewell(event)
        return None

    def _read(self, data: bytes) -> Any:
        """What a message means; None for one that means nothing."""
        raise NotImplementedError

    def _farewell(self, close: Close) -> str:
        """The trouble that a close of the other end is."""
        raise NotImplementedError

    def close(self, code: int = GOING_AWAY, reason: str = "") -> None:
        """Queue a close; nothing can be sent after it."""
        self._out += self._socket.send_close(code, reason)

    def data_to_send(self) -> bytes:
        """What is to be written now, once."""
        data = bytes(self._out)
        self._out.clear()
        return data

    def notice_sleep(self, now: float, wall: float) -> None:
        """What lay in the socket of a machine that slept is not to be applied."""
        if wall - now - self._ahead > JUMP_SECONDS:
            self.trouble = self.trouble or self.asleep
        self._ahead = wall - now


def mask(data: bytes, key: bytes) -> bytes:
    """The data with the key laid over it, which is its own reverse."""
    size = len(data)
    # One operation on two large numbers: a loop over bytes is a hundred times slower.
    over = (key * (size // 4 + 1))[:size]
    number = int.from_bytes(data, "little") ^ int.from_bytes(over, "little")
    return number.to_bytes(size, "little")


def check_text(data: bytes) -> str:
    """UTF-8 as text. Raises WebSocketError."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise WebSocketError("a text that is not UTF-8", BAD_DATA) from None
