"""The small part of HTTP/1.1 that a browser needs: bytes in, requests out, and back.

Knows no socket, no clock and no route.  Every buffer has a limit.  What two parsers
could read in two ways (folded headers, bare line feeds, a body with two lengths, a
target that names a host of its own) is refused instead of guessed at, because a proxy
in front may have guessed otherwise.  Request bodies come with a Content-Length; no
browser sends a form any other way, nor asks first (`Expect`) whether it may.

A `RequestReader` is in one of three states; in each, `next_event()` returns None until
more data has come:

    state   what is held                  leads to
    idle    nothing                       head, with the first byte
    head    the start of a request        idle, with a request that has no body
                                          body, with a Content-Length above 0
    body    a request, some of its body   idle, with the request

Any of them ends in a ProtocolError, after which the reader is of no more use.  What
`server.connection` makes of it (answers, streams, deadlines) is told there.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from http import HTTPStatus
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, unquote

from feishuperm.errors import ProtocolError

MAX_HEAD = 16384  # browsers stay under 8 kB; a proxy adds a little
MAX_BODY = 1 << 20  # the longest form is an answer with typed text
MAX_FIELDS = 1000  # of a query or a form; a person fills in a dozen

TOKEN = r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+"
VALUE = r"[\t -~\x80-\xff]*"
# Only one way to match each byte, so that no input makes the search go back and forth.
LINES = rf"((?:{TOKEN}:{VALUE}\r\n)*)"
HEAD = re.compile(rf"({TOKEN}) ([!-~\x80-\xff]+) HTTP/1\.([01])\r\n{LINES}")
HEADER = re.compile(rf"({TOKEN}):[\t ]*({VALUE})\r\n")
CONTENT_LENGTH = re.compile(r"[0-9]{1,18}")
EMPTY_LINES = re.compile(rb"(?:\r\n)+")
BARE_END = re.compile(rb"\n\r?\n")  # a head that ends, but not as it must
# A name, an IPv4 address or an IPv6 address in brackets; perhaps a port.
HOST = re.compile(r"(?:[0-9A-Za-z._-]+|\[[0-9A-Fa-f:.]+\])(?::[0-9]{1,5})?")

REASONS = {status.value: status.phrase for status in HTTPStatus}


class Request:
    """One request, complete with its body; who sent it, the connection fills in."""

    __slots__ = (
        "body", "headers", "keep_alive", "length", "local", "local_port", "memo",
        "method", "path", "peer", "peer_port", "query", "version",
    )  # fmt: skip

    def __init__(
        self,
        method: str,
        path: str,
        query: dict[str, str],
        headers: dict[str, str],
        version: str = "1.1",
        body: bytes = b"",
        peer: str = "",
    ) -> None:
        self.method, self.version = method, version
        self.path = path  # percent-decoded
        self.query = query  # of a repeated key, the first value
        self.headers = headers  # names in lower case
        self.body = body
        self.length = len(body)  # as announced, before the body has come
        self.keep_alive = True
        self.peer, self.peer_port = peer, 0
        self.local, self.local_port = "", 0  # the address it came to
        self.memo: dict[str, Any] = {}  # one for all requests of a connection

    def copy(self) -> Request:
        """The same head again, for a request of its own."""
        request = Request(
            self.method, self.path, self.query.copy(), self.headers.copy(), self.version
        )
        request.length, request.keep_alive = self.length, self.keep_alive
        return request

    def upgrades(self) -> bool:
        """Whether the client wants to speak another protocol, such as WebSocket."""
        return "upgrade" in self.headers or "upgrade" in options(self.headers)


class Response(NamedTuple):
    """An answer, whole: its body is in memory and goes out with the head."""

    status: int
    body: bytes = b""
    content_type: str = "text/plain; charset=utf-8"
    headers: Iterable[tuple[str, str]] = ()

    def encode(self, keep_alive: bool = False, with_body: bool = True) -> bytes:
        """Head and body as one object, for one send. Raises ValueError."""
        start = (
            f"HTTP/1.1 {self.status} {REASONS.get(self.status, 'Unknown')}\r\n"
            f"Content-Length: {len(self.body)}\r\n"
            f"Connection: {'keep-alive' if keep_alive else 'close'}\r\n"
        )
        head = start.encode() + _header_lines(self.content_type, tuple(self.headers))
        return head + self.body if with_body else head


def plain_response(status: int) -> Response:
    """An answer that says no more than its status."""
    return Response(status, f"{status} {REASONS.get(status, '')}\n".encode())


def stream_head(headers: Iterable[tuple[str, str]]) -> bytes:
    """The head of server-sent events: they end when the connection does."""
    lines = _header_lines("text/event-stream; charset=utf-8", tuple(headers))
    return b"HTTP/1.1 200 OK\r\nConnection: close\r\n" + lines


@lru_cache(maxsize=16)  # answers of one kind have the same
def _header_lines(content_type: str, headers: tuple[tuple[str, str], ...]) -> bytes:
    lines = [f"{name}: {value}" for name, value in headers]
    lines.insert(0, f"Content-Type: {content_type}")
    if not "".join(lines).isprintable():
        raise ValueError("a control character in a header")
    return "\r\n".join([*lines, "", ""]).encode("ascii")


class RequestReader:
    """Cuts a stream of bytes into requests.

    After a ProtocolError, whose `status` is the answer, the connection must be closed:
    where the next request starts is not known.
    """

    def __init__(self, max_body: int = MAX_BODY) -> None:
        self._max_body = max_body
        self._buffer = bytearray()
        self._scanned = 0  # no end of head before this
        self._request: Request | None = None  # whose body is being read

    @property
    def state(self) -> str:
        """What is being read: "idle" (nothing yet), "head" or "body"."""
        if self._request is not None:
            return "body"
        return "head" if self._buffer else "idle"

    @property
    def buffered(self) -> int:
        """How many bytes wait to be read as an event."""
        return len(self._buffer)

    def rest(self) -> bytes:
        """Return what is not read: it is of another protocol."""
        rest = bytes(self._buffer)
        self._buffer.clear()
        return rest

    def receive_data(self, data: bytes) -> None:
        """Take what arrived."""
        self._buffer += data

    def next_event(self) -> Request | None:
        """The next request, or None: more is needed. Raises ProtocolError."""
        request, buffer = self._request, self._buffer
        if request is None and buffer:
            request = self._request = self._read_head()
        if request is None or len(buffer) < request.length:
            return None
        if request.length:
            request.body = bytes(buffer[: request.length])
            del buffer[: request.length]
        self._request = None
        return request

    def _read_head(self) -> Request | None:
        buffer = self._buffer
        empty = EMPTY_LINES.match(buffer)
        if empty:  # some clients leave one behind after a form
            del buffer[: empty.end()]
            self._scanned = 0
        end = buffer.find(b"\r\n\r\n", self._scanned)
        if end < 0 or end > MAX_HEAD:
            self._check_incomplete(end)
            return None
        head = bytes(buffer[: end + 2])
        del buffer[: end + 4]
        self._scanned = 0
        request = parse_head(head).copy()
        if request.length > self._max_body:
            raise ProtocolError("body too large", 413)
        return request

    def _check_incomplete(self, end: int) -> None:
        """Refuse at once what can no longer become a good head."""
        buffer = self._buffer
        if end > MAX_HEAD or len(buffer) > MAX_HEAD + 3:
            raise ProtocolError("request head too large", 431)
        if BARE_END.search(buffer, self._scanned):
            raise ProtocolError("lines must end in CR LF")
        if len(buffer) > 1 and buffer[0] < 0x21:
            raise ProtocolError("not HTTP")  # most likely TLS, which would wait
        self._scanned = max(0, len(buffer) - 3)


@lru_cache(maxsize=8)  # a program that asks again asks to the letter
def parse_head(data: bytes) -> Request:
    """A head, its last line's end included; to be copied. Raises ProtocolError."""
    match = HEAD.fullmatch(data.decode("latin-1"))
    if match is None:
        raise ProtocolError("malformed request line or header")
    method, target, version, lines = match.groups()
    headers = parse_headers(lines)
    is_modern = version == "1"
    if not HOST.fullmatch(headers.get("host", "" if is_modern else "none")):
        raise ProtocolError("no Host header, or none that names a host")
    request = Request(method, *parse_target(target), headers, f"1.{version}")
    request.length = body_length(headers)
    wishes = options(headers)
    request.keep_alive = "close" not in wishes and (is_modern or "keep-alive" in wishes)
    return request


def parse_headers(lines: str) -> dict[str, str]:
    """Well-formed header lines; a repeated one is a list. Raises ProtocolError."""
    headers: dict[str, str] = {}
    for key, text in HEADER.findall(lines):
        name, value = key.lower(), text.rstrip("\t ")
        if name in headers:
            if name in ("host", "content-length"):
                raise ProtocolError(f"two {name} headers")
            value = f"{headers[name]}, {value}"
        headers[name] = value
    return headers


def options(headers: Mapping[str, str]) -> list[str]:
    """What the Connection header asks for, in lower case."""
    given = headers.get("connection")
    return [word.strip() for word in given.lower().split(",")] if given else []


def body_length(headers: dict[str, str]) -> int:
    """The announced length of the body. Raises ProtocolError."""
    length = headers.get("content-length")
    if "transfer-encoding" in headers:
        # With both, two servers in a row disagree where the body ends.
        raise ProtocolError("no chunked bodies here", 411 if length is None else 400)
    if length is None:
        return 0
    if not CONTENT_LENGTH.fullmatch(length):
        raise ProtocolError("malformed Content-Length")
    return int(length)


def parse_target(target: str) -> tuple[str, dict[str, str]]:
    """Decoded path and query of a request target. Raises ProtocolError."""
    if not target.isascii():  # some clients send UTF-8 as it is
        target = target.encode("latin-1").decode("utf-8", "replace")
    if not target.startswith("/"):  # a proxy's form would name a second host
        raise ProtocolError("malformed request target")
    path, _, query = target.partition("?")
    if "%" in path:
        path = unquote(path, errors="replace")
    return path, dict(reversed(_fields(query))) if query else {}


def parse_form(body: bytes) -> dict[str, list[str]]:
    """The fields of a form, every value of each in order. Raises ProtocolError."""
    form: dict[str, list[str]] = {}
    for name, value in _fields(body.decode("utf-8", "replace")):
        form.setdefault(name, []).append(value)
    return form


def _fields(text: str) -> list[tuple[str, str]]:
    try:
        return parse_qsl(text, keep_blank_values=True, max_num_fields=MAX_FIELDS)
    except ValueError:
        raise ProtocolError("too many fields") from None
