"""Messages between the hook client and the server: bytes in, (kind, body) out.

A frame is four bytes of length, one of kind, the body; the length counts the kind.
Knows no socket and no clock, and nothing of what an event means.

    kind  from    body and meaning
    Q     client  header, id, flag, project, event: a hook waits for a decision
    N     client  version, project, event: an event nobody waits for; R follows
    C     client  JSON object: a control command; J follows
    A     server  seconds: registered, a person has so long
    S     server  a person can see it; a hook keeps that over a restart
    H     server  seconds: a person reads it, its clock was stopped; kept as S is
    D     server  JSON object and line end: print this, the end
    R     server  print nothing, the terminal decides, the end
    E     server  the event is no permission request, the end
    J     server  JSON object: the answer to a C

The parts of Q and N are separated by NUL.  A client skips kinds it does not know, a
server answers them with R.
"""

from __future__ import annotations

import os
import re
from typing import Any, NamedTuple

from feishuperm import wire
from feishuperm.errors import ProtocolError
from feishuperm.models.fields import decoded

PROTOCOL = wire.PROTOCOL.decode()
# The version, the seconds that a hook which comes back has left, and the word of the
# agent whose hook it is; Claude Code's names none, and is told by its events.
WORD = rf"(?!{wire.CLAUDE}\Z)[a-z][a-z0-9-]{{0,31}}"
HEADER = re.compile(rf"{PROTOCOL}(?: ([0-9]{{1,6}}))?(?: ({WORD}))?")
NOT_TOLD = -1
# A path is at most 4096 bytes; the rest are the id, the flag and their separators.
MAX_FRAME = wire.MAX_EVENT + 8192
REQUEST_ID = re.compile(r"[0-9]{1,12}-[0-9a-f]{8}")
SHOWN = "shown"
HELD = "held"  # shown, and its clock was stopped
SHOWN_FLAGS = ("", "again", SHOWN, HELD)
LENGTH = 4


class FrameReader:
    """Cuts a stream of bytes into frames of at most `limit` bytes each."""

    __slots__ = ("_buffer", "_limit")

    def __init__(self, limit: int = MAX_FRAME) -> None:
        self._limit = limit
        self._buffer = bytearray()

    @property
    def buffered(self) -> int:
        """How many bytes of an incomplete frame are held."""
        return len(self._buffer)

    def receive_data(self, data: bytes) -> None:
        """Take what arrived."""
        self._buffer += data

    def next_event(self) -> tuple[bytes, bytes] | None:
        """The next (kind, body), or None: more is needed. Raises ProtocolError."""
        buffer = self._buffer
        if len(buffer) < LENGTH:
            return None
        size = int.from_bytes(buffer[:LENGTH], "big")
        if not 0 < size <= self._limit:
            raise ProtocolError(f"a frame of {size} bytes", 413)
        end = LENGTH + size
        if len(buffer) < end:
            return None
        with memoryview(buffer) as view:  # a slice of the buffer would copy twice
            kind = bytes(view[LENGTH : LENGTH + 1])
            body = bytes(view[LENGTH + 1 : end])
        del buffer[:end]
        return kind, body


class HookRequest(NamedTuple):
    """The body of a `Q`: a hook that waits for a decision."""

    id: str
    shown: str  # one of SHOWN_FLAGS: what a reconnecting hook knows of its card
    project: str
    raw: bytes
    left: int = NOT_TOLD  # seconds, by the hook's own clock
    agent: str = wire.CLAUDE  # a row of `agents.table`, if it knows the word


def parse_request(body: bytes) -> HookRequest:
    """The parts of a `Q`. Raises ProtocolError."""
    *texts, project, raw = _split(body, 5)
    try:
        header, id, shown = (text.decode("ascii") for text in texts)
    except UnicodeDecodeError:
        raise ProtocolError("a frame that is not ASCII where it must be") from None
    match = HEADER.fullmatch(header)
    if match is None:
        raise ProtocolError("a client of another version")
    if not REQUEST_ID.fullmatch(id):
        raise ProtocolError("a malformed request id")
    if shown not in SHOWN_FLAGS:
        raise ProtocolError("an unknown flag")
    left = int(match[1] or NOT_TOLD)
    if shown and left == NOT_TOLD:
        raise ProtocolError("a hook that comes back must say how long it waits")
    agent = match[2] or wire.CLAUDE
    return HookRequest(id, shown, os.fsdecode(project), raw, left, agent)


def parse_notice(body: bytes) -> tuple[str, bytes]:
    """The project and the event of an `N`. Raises ProtocolError."""
    protocol, project, raw = _split(body, 3)
    if protocol != wire.PROTOCOL:
        raise ProtocolError("a client of another version")
    return os.fsdecode(project), raw


def parse_control(body: bytes) -> dict[str, Any]:
    """The JSON object of a `C` or a `J`. Raises ProtocolError."""
    value = decoded(body)
    if not isinstance(value, dict):
        raise ProtocolError("a control message that is not a JSON object")
    return value


def _split(body: bytes, count: int) -> list[bytes]:
    """Exactly `count` parts; only the last, the event, may contain a NUL."""
    parts = body.split(b"\0", count - 1)
    if len(parts) != count:
        raise ProtocolError("a frame with parts missing")
    return parts
