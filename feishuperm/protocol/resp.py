"""RESP2, the protocol of Redis and Valkey: commands out, replies in.

Knows no socket, no clock and no command.  A command is an array of bulk strings; the
replies come back in the order of the commands, so the sender counts.  `next_reply()`
gives a reply or `PENDING`.  An error is a reply like any other (`Failure`), also inside
an array.  Every length has a limit; what breaks the rules raises ProtocolError, and the
connection is of no use after that: nobody knows where the next reply would begin.

    reply               here
    +simple, $bulk      bytes
    :integer            int
    $-1, *-1            None
    *array              list
    -CODE words         Failure("CODE", "words")
"""

from __future__ import annotations

from typing import Any, NamedTuple, Union

from feishuperm.errors import ProtocolError

Part = Union[str, int]

MAX_LINE = 65536  # of everything but a bulk string
MAX_BULK = 16 << 20
MAX_ARRAY = 1 << 20  # elements
MAX_DEPTH = 16
MAX_REPLY = 128 << 20  # bytes of memory, about, for one reply with all it holds
VALUE = 64  # bytes of memory for each value beside its own
MAX_DIGITS = 20  # of an integer with its sign


class Failure(NamedTuple):
    """An error as the server tells it."""

    code: str  # its first word
    text: str

    def __str__(self) -> str:
        return f"{self.code} {self.text}".rstrip()


PENDING = object()  # more bytes are needed


def command(*parts: Part) -> bytes:
    """The bytes of one command; half a character, as JSON can bring it, is a text."""
    pieces = [b"*%d\r\n" % len(parts)]
    for part in parts:
        data = str(part).encode(errors="surrogatepass")
        pieces.append(b"$%d\r\n%s\r\n" % (len(data), data))
    return b"".join(pieces)


class _Open(NamedTuple):
    """An array whose last elements have not come yet."""

    size: int
    elements: list[Any]


class ReplyReader:
    """Replies out of bytes, however they are cut."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._at = 0  # of the first byte not read
        self._looked = 0  # up to here there is no line end
        self._bulk = -1  # size of the bulk string under way
        self._open: list[_Open] = []  # arrays around what comes next
        self._weight = 0  # of the reply under way

    def receive_data(self, data: bytes) -> None:
        """Take what arrived."""
        self._buffer += data

    def next_reply(self) -> Any:
        """The next whole reply, or PENDING. Raises ProtocolError."""
        while True:
            value = self._next_value()
            if value is PENDING:
                self._compact()
                return PENDING
            if isinstance(value, _Open):
                self._open.append(value)
                continue
            while self._open:
                around = self._open[-1]
                around.elements.append(value)
                if len(around.elements) < around.size:
                    break
                value = self._open.pop().elements
            else:
                self._weight = 0
                return value

    def _next_value(self) -> Any:
        """One value; an array that is not empty comes as its opening."""
        if self._bulk >= 0:
            return self._take_bulk()
        line = self._take_line()
        if line is None:
            return PENDING
        self._weigh(len(line))
        kind, rest = line[:1], line[1:]
        if kind == b"+":
            return rest
        if kind == b"-":
            code, _, words = rest.decode(errors="replace").partition(" ")
            return Failure(code, words)
        if kind == b":":
            return _integer(rest)
        if kind == b"$":
            return self._begin_bulk(_integer(rest))
        if kind == b"*":
            return self._begin_array(_integer(rest))
        raise ProtocolError("a reply of an unknown kind")

    def _take_line(self) -> bytes | None:
        end = self._buffer.find(b"\r\n", max(self._at, self._looked))
        if (len(self._buffer) if end < 0 else end) - self._at > MAX_LINE:
            raise ProtocolError("a line of a reply is too long")
        if end < 0:
            # The last byte may be the first half of a line end.
            self._looked = max(self._at, len(self._buffer) - 1)
            return None
        line = bytes(self._buffer[self._at : end])
        self._at = end + 2
        return line

    def _begin_bulk(self, size: int) -> Any:
        if size == -1:
            return None
        if not 0 <= size <= MAX_BULK:
            raise ProtocolError("a string of a length nobody sends")
        self._weigh(size)
        self._bulk = size
        return self._take_bulk()

    def _take_bulk(self) -> Any:
        end = self._at + self._bulk
        if len(self._buffer) < end + 2:
            return PENDING
        data = bytes(self._buffer[self._at : end])
        if self._buffer[end : end + 2] != b"\r\n":
            raise ProtocolError("a string that does not end where it should")
        self._at = end + 2
        self._bulk = -1
        return data

    def _begin_array(self, size: int) -> Any:
        if size == -1:
            return None
        if not 0 <= size <= MAX_ARRAY:
            raise ProtocolError("an array of a size nobody sends")
        if len(self._open) >= MAX_DEPTH:
            raise ProtocolError("arrays too deep inside each other")
        return _Open(size, []) if size else []

    def _weigh(self, size: int) -> None:
        self._weight += size + VALUE
        if self._weight > MAX_REPLY:
            raise ProtocolError("a reply longer than anybody keeps")

    def _compact(self) -> None:
        """Forget what was read, seldom enough to cost nothing."""
        if self._at:
            del self._buffer[: self._at]
            self._looked = max(0, self._looked - self._at)
            self._at = 0


def _integer(digits: bytes) -> int:
    sign = digits[:1] in (b"-", b"+")
    if len(digits) > MAX_DIGITS or not digits[sign:].isdigit():
        raise ProtocolError("a number that is none")
    return int(digits)
