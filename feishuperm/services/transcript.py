"""Reads a session's transcript: has the terminal answered, when did the turn begin?

A "Yes" at the keyboard tells the hook nothing.  But the client keeps a transcript, one
JSON object per line: the pending call stands in it as a `tool_use` block, and when it
is over a `tool_result` with the same id follows.  A hook event does not name that id,
so the call is found by tool and input.  Nothing here decides a request; whoever asks
gets one of four words, and a transcript that cannot be read or understood is `UNKNOWN`.

A subagent has a transcript of its own, and the main session goes on while it waits.
"""

from __future__ import annotations

import json
import os
import re
import stat
import time
from datetime import datetime

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

PENDING = "pending"
ANSWERED = "answered"  # the call is over
MOVED_ON = "moved_on"  # the person has gone on to another prompt
UNKNOWN = "unknown"  # the call is not in the transcript, at least not yet
OVER = (ANSWERED, MOVED_ON)

# A pending call is among the last lines, and transcripts reach 100 MB: look at a little
# of the end first, and at more of it only when the call is not there.
FIRST_TAIL = 64 << 10
TAIL = 1 << 20
STEP = 4 << 20  # the most that is read at one look, whatever has been added
MAX_LINE = 16 << 20  # a result may be longer than any event; yet longer is skipped
MAX_CALL = 6 << 20  # a call is in an event as well, and those are shorter
# A longer result is not decoded: its id is looked for as it is spelled.
MAX_DECODED = 1 << 20
# The client writes its lines a little late.  When an event comes, the result of the
# call before it may still be missing, and so may the event's own call: which of two
# calls alike is pending is only certain when they have had the time to appear.
YOUNG_SECONDS = 1.0


class Watch:
    """The notes on one pending call; ten thousand of them must stay small."""

    __slots__ = ("ahead", "began", "clock", "ids", "offset", "path", "search", "state")

    def __init__(
        self, path: bytes, search: Search, tail: int, clock: Callable[[], float]
    ) -> None:
        self.path = path
        self.clock = clock
        self.began = clock()
        self.search: Search | None = search  # until the call is found
        self.ids: tuple[bytes, ...] = ()  # of the call; of all, if several are alike
        self.state = UNKNOWN
        self.offset = max(0, _size(path) - tail)
        self.ahead = 0  # bytes past it that were looked at: a line without its end

    def check(self) -> str:
        """Read what was added since the last time; returns the state."""
        if self.state in (PENDING, UNKNOWN):
            for line in self._added_lines():
                self._see(line)
            self._conclude()
        return self.state

    def _see(self, line: bytes) -> None:
        if self.search is not None:
            self.search.see(line)
        elif self.state == PENDING and _is_about(line, self.ids):
            short = len(line) <= MAX_DECODED
            entry = _entry(line) if short else {}
            over = _results(entry) if short else _spelled_results(line, self.ids)
            self.ids = tuple(id for id in self.ids if id not in over)
            if not self.ids:
                self.state = ANSWERED
            elif _is_prompt(entry):
                self.state = MOVED_ON

    def _conclude(self) -> None:
        search = self.search
        if search is None:
            return
        # From now on a call that appears is ours, even if it is over at once.
        search.live = True
        if self.clock() - self.began < YOUNG_SECONDS:
            self.state = PENDING if search.exact else UNKNOWN
            return
        self.ids = search.pending()
        if self.ids:
            self.state = PENDING
        elif search.found_over:
            self.state = ANSWERED
        else:
            self.state = UNKNOWN
            return
        self.search = None

    def _added_lines(self) -> list[bytes]:
        """Whole lines, of at most STEP bytes that were not looked at before."""
        size = _size(self.path)
        if size == self.offset + self.ahead:
            return []
        if size < self.offset + self.ahead:
            # Written anew, with calls that were over long ago.
            self.offset, self.ahead = max(0, size - TAIL), 0
            if self.search is not None:
                self.search.live = False
        data = _read(self.path, self.offset + self.ahead)
        end = data.rfind(b"\n") + 1
        if not end:
            self.ahead += len(data)
            return []
        lines = data[:end].split(b"\n")
        if self.ahead:
            lines[0] = self._begun(len(lines[0])) + lines[0]
        self.offset += self.ahead + end
        self.ahead = 0
        return lines

    def _begun(self, rest: int) -> bytes:
        """The part of a line that earlier looks went over; nothing if too long."""
        if self.ahead + rest > MAX_LINE:
            return b""
        try:
            with open(_open_regular(self.path), "rb") as file:
                file.seek(self.offset)
                return file.read(self.ahead)
        except (OSError, ValueError):
            return b""


class Search:
    """Looks for the pending call of an event among the lines of a transcript."""

    __slots__ = ("alike", "exact", "found_over", "live", "tool_input", "tool_name")

    def __init__(self, tool_name: str, tool_input: dict[str, Any]) -> None:
        self.tool_name = tool_name
        self.tool_input = tool_input
        self.exact: dict[bytes, None] = {}  # ids, oldest first
        self.alike: dict[bytes, None] = {}  # same tool, other input
        self.live = False
        self.found_over = False

    def see(self, line: bytes) -> None:
        name = self.tool_name.encode("utf-8", "replace")
        if len(line) > MAX_CALL:
            for id in _spelled_results(line, (*self.exact, *self.alike)):
                self._is_over(id)
            return
        if not _is_about(line, (*self.exact, *self.alike), name):
            return
        entry = _entry(line)
        if _is_prompt(entry):  # what an earlier turn left open is nobody's wait
            self.exact.clear()
            self.alike.clear()
        for block in _blocks(entry, "tool_use"):
            if block.get("name") == self.tool_name:
                calls = self.exact if self._matches(block) else self.alike
                calls[_id(block, "id")] = None
        for id in _results(entry):
            self._is_over(id)

    def _is_over(self, id: bytes) -> None:
        self.found_over = self.found_over or (self.live and id in self.exact)
        self.exact.pop(id, None)
        self.alike.pop(id, None)

    def _matches(self, block: dict[str, Any]) -> bool:
        # The event's input is the normalised one: it may hold more than was written.
        given = block.get("input")
        return isinstance(given, dict) and all(
            key in self.tool_input and self.tool_input[key] == given[key]
            for key in given
        )

    def pending(self) -> tuple[bytes, ...]:
        """The ids that can be the call's: a plan, for one, differs from its event."""
        return tuple(self.exact or self.alike)


def begin(
    path: str,
    tool_name: str,
    tool_input: dict[str, Any],
    agent_id: str = "",
    clock: Callable[[], float] = time.monotonic,
) -> Watch | None:
    """Start to watch for the end of a call; None when there is nothing to watch."""
    if not path.startswith("/"):
        return None
    try:
        encoded = os.fsencode(agent_transcript(path, agent_id))
    except UnicodeEncodeError:
        return None
    for tail in (FIRST_TAIL, TAIL):
        watch = Watch(encoded, Search(tool_name, tool_input), tail, clock)
        if watch.check() == PENDING:
            break
    return watch


def agent_transcript(path: str, agent_id: str) -> str:
    """Where a subagent of the session writes; without one, the session's own file."""
    if not agent_id or re.search(r"[^\w-]", agent_id):
        return path
    folder = path[: -len(".jsonl")] if path.endswith(".jsonl") else path
    return os.path.join(folder, "subagents", f"agent-{agent_id}.jsonl")


def turn_started(path: str) -> float:
    """When the person's last prompt was written, in seconds; 0.0 if nobody knows."""
    try:
        encoded = os.fsencode(path)
    except UnicodeEncodeError:
        return 0.0
    lines = _read(encoded, max(0, _size(encoded) - TAIL)).split(b"\n")
    for line in reversed(lines):
        entry = _entry(line) if _is_about(line, ()) else {}
        if _is_prompt(entry):
            return _seconds(entry.get("timestamp"))
    return 0.0


def _is_about(line: bytes, ids: tuple[bytes, ...], tool_name: bytes = b"") -> bool:
    """Whether a line is worth decoding: our call, its result, or perhaps a prompt.

    The quotes are part of what is looked for: inside a JSON string they are escaped.
    """
    if b'"tool_result"' in line:
        return any(id in line for id in ids)
    if b'"tool_use"' in line:
        return tool_name != b"" and tool_name in line
    return b'"user"' in line


def _entry(line: bytes) -> dict[str, Any]:
    """A line of the conversation, decoded; an empty object for any other."""
    try:
        entry = json.loads(line)
    except (ValueError, RecursionError):  # half a line, or none of the client's
        return {}
    if not isinstance(entry, dict) or entry.get("type") not in ("user", "assistant"):
        return {}
    return entry


def _blocks(entry: dict[str, Any], kind: str) -> list[dict[str, Any]]:
    """The blocks of one kind in a message."""
    message = entry.get("message")
    content = message.get("content") if isinstance(message, dict) else None
    return [
        block
        for block in (content if isinstance(content, list) else ())
        if isinstance(block, dict) and block.get("type") == kind
    ]


def _id(block: dict[str, Any], key: str) -> bytes:
    return str(block.get(key)).encode("utf-8", "replace")


def _results(entry: dict[str, Any]) -> list[bytes]:
    """The ids of the calls that are over with this message."""
    return [_id(block, "tool_use_id") for block in _blocks(entry, "tool_result")]


def _spelled_results(line: bytes, ids: tuple[bytes, ...]) -> list[bytes]:
    """The same of some ids by how a result spells them: in a text, quotes differ."""
    if b'"tool_result"' not in line:
        return []
    ends = (b'"tool_use_id":"%s"', b'"tool_use_id": "%s"')
    return [id for id in ids if any(end % id in line for end in ends)]


def _is_prompt(entry: dict[str, Any]) -> bool:
    """Whether a person wrote this line, not a tool, a hook or the client itself."""
    if entry.get("type") != "user" or entry.get("isMeta") is True:
        return False
    if entry.get("isCompactSummary") is True or _blocks(entry, "tool_result"):
        return False
    origin = entry.get("origin")
    return not isinstance(origin, dict) or origin.get("kind") == "human"


def _seconds(timestamp: object) -> float:
    try:
        return datetime.fromisoformat(str(timestamp).replace("Z", "+00:00")).timestamp()
    except (ValueError, OverflowError):
        return 0.0


def _size(path: bytes) -> int:
    try:
        return os.stat(path).st_size
    except (OSError, ValueError):
        return 0


def _read(path: bytes, offset: int) -> bytes:
    """From the offset on: a megabyte, or more of a line that is longer."""
    try:
        with open(_open_regular(path), "rb") as file:
            file.seek(offset)
            data = file.read(TAIL)
            while b"\n" not in data[-TAIL:] and len(data) < STEP:
                more = file.read(TAIL)
                if not more:
                    break
                data += more
            return data
    except (OSError, ValueError):
        return b""


def _open_regular(path: bytes) -> int:
    """Open without waiting for whoever would write to a pipe, and refuse pipes."""
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise OSError("not a regular file")
    return fd
