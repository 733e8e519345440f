"""Reads sessions' transcripts: has the terminal answered, how did a call end?

A "Yes" at the keyboard tells the hook nothing.  But the client keeps a transcript, one
JSON object per line: the pending call stands in it as a `tool_use` block, and when it
is over a `tool_result` with the same id follows.  A hook event does not name that id,
so the call is found by tool and input.  Nothing here decides a request; the caller
gets one of four words, and a transcript that cannot be read or understood is `UNKNOWN`.

A subagent has a transcript of its own, and the main session goes on while it waits.

Many requests may wait in one session: its transcript is read once for all of them, a
chunk at a time, and of a call's input only hashes are kept.

    Watch        the notes on one call
    Reader       one transcript, for all who watch it
    Transcripts  those of all sessions
    Watcher      when they are looked at, and for which requests

While a request is pending, the watcher looks for its call, behind the words that say
why, and for an answer that a person gave at the keyboard; once it has ended, for the
result of the call.  Everything runs on the loop's thread.
"""

from __future__ import annotations

import json
import os
import re
import stat
import time
from collections.abc import Callable, Mapping
from datetime import datetime
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol

from feishuperm.messages import msg
from feishuperm.models import request as states
from feishuperm.models.fields import decoded, list_at, part_at, text_at, value_at
from feishuperm.models.kind import KINDS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from feishuperm.models.payload import AskPayload
    from feishuperm.models.request import Request
    from feishuperm.services.request_manager import RequestManager

PENDING = "pending"
ANSWERED = "answered"  # the call is over
MOVED_ON = "moved_on"  # the person has gone on to another prompt
UNKNOWN = "unknown"  # the call is not in the transcript, at least not yet
OVER = (ANSWERED, MOVED_ON)

# A pending call is among the last lines, and transcripts reach 100 MB: look at a little
# of the end first, and at more of it only when the call is not there.
FIRST_TAIL = 64 << 10
TAIL = 1 << 20
# How the client that wrote a line was started: `cli`, `sdk-cli`, ...
ENTRY = re.compile(rb'"entrypoint": ?"([^"]*)"')
MAX_LINE = 16 << 20  # a result may be longer than any event; yet longer is skipped
STEP = 4 << 20  # the most that is read at one look, whatever has been added
MAX_CALL = 6 << 20  # a call is in an event as well, and those are shorter
MAX_DECODED = 1 << 20  # a longer result is known by the ids it spells
MAX_SPOKEN = 64 << 10  # a longer line holds no words that anybody wants to read
FIRST_ITEMS = 50  # of a list: enough to tell one call from another
MANY_IDS = 20  # to look for in a line; with more it is quicker to decode it
# The client writes its lines a little late.  When an event comes, the result of the
# call before it may still be missing, and so may the event's own call: which of two
# calls alike is pending is only certain when they have had the time to appear.
YOUNG_SECONDS = 1.0

NO_CALL = b"\0"  # an id that no line can name
MAX_RESULT = 2000  # characters of what went wrong; one line of them is shown
EXIT_STATUS = re.compile(r"Exit code (\d{1,3})\b")
DENIALS = ("Permission to use ", "The user doesn't want to ")
STOPS = ("[Request interrupted by user", "Error: [Request interrupted")

RESULT = b'"tool_result"'
RESULT_IDS = re.compile(rb'"tool_use_id"\s{0,8}:\s{0,8}"([^"\\]{1,200})"')

TRANSCRIPT_SECONDS = 0.5  # how often transcripts are looked at
LOOK_SECONDS = 0.005  # after which the others have their look soon, not now
SOON_SECONDS = 0.02
RESULT_SECONDS = 1800.0  # so long it is looked for what an answer led to
RESULTS_MOST = 200  # that are looked for at a time
# A subagent's request has no dialog while its hook waits: where a person was at the
# terminal less than so long ago, it is given back there after a few seconds.
AT_TERMINAL_SECONDS = 120.0
GIVEN_BACK_SECONDS = 8
RESULT_STATES = (states.ALLOWED, states.ANSWERED, states.TERMINAL)

NONE: dict[bytes, None] = {}  # of all calls that are found
Shape = dict[str, int]  # of a tool's input: a hash for each of its keys


class Use(NamedTuple):
    """A call that begins."""

    id: bytes
    name: str
    shape: Shape


class Result(NamedTuple):
    """How a call ended."""

    how: str = ""  # one of those below; empty: nobody knows
    detail: str = ""  # exit status, or the first line of what went wrong


RAN, EXIT, FAILED = "ran", "exit", "failed"
REFUSED, STOPPED = "refused", "stopped"  # it did not run; somebody stopped it


class Facts(NamedTuple):
    """What a line says of calls."""

    uses: tuple[Use, ...] = ()
    over: Mapping[bytes, Result] = MappingProxyType({})  # calls that end, by id
    prompt: bool = False


class Watch:
    """The notes on one pending call; ten thousand of them must stay small.

    Until the call is found it is looked for among the lines of its transcript, by its
    `shape`; then `ids` are looked for, those of all calls that may be it.
    """

    __slots__ = (
        *("alike", "began", "clock", "exact", "ids", "is_over", "live", "reader"),
        *("result", "shape", "state", "tool_name", "unheard"),
    )

    def __init__(
        self,
        reader: Reader,
        clock: Callable[[], float],
        tool_name: str = "",
        shape: Shape | None = None,
    ) -> None:
        self.reader = reader
        self.clock = clock
        self.began = clock()
        self.tool_name = tool_name
        self.shape = shape  # None once the call is found
        self.exact: dict[bytes, None] = {}  # ids of calls like it, oldest first
        self.alike: dict[bytes, None] = {}  # same tool, other input: a plan, for one
        self.live = False  # a call that appears now is the one, even if over at once
        self.is_over = False  # and so it was
        self.ids: tuple[bytes, ...] = ()
        self.state = UNKNOWN
        self.result = Result()  # of the call; of several alike, of the first to end
        self.unheard = False  # nobody has been told of the words before it

    def check(self) -> str:
        """Read what was added since the last time; returns the state."""
        if self.state not in OVER:
            self.reader.read()
            self.conclude()
        return self.state

    def close(self) -> None:
        """Nobody asks any more."""
        self.reader.watches.pop(self, None)

    def has_call(self) -> bool:
        """Whether the call is in the transcript, and so is what was said before it."""
        return bool(self.ids or self.exact or self.alike)

    def may_follow(self) -> bool:
        """Whether there is a transcript in which the call may still appear."""
        return self.shape is not None and self.reader.offset > 0

    def open_ids(self) -> tuple[bytes, ...]:
        """The ids whose end would say something."""
        return (*self.ids, *self.exact, *self.alike)

    def see(self, facts: Facts) -> None:
        if self.shape is not None:
            self._search(facts, self.shape)
        elif self.state == PENDING:
            for id in self.ids:
                if id in facts.over and not self.result.how:
                    self.result = facts.over[id]
            self.ids = tuple(id for id in self.ids if id not in facts.over)
            if not self.ids:
                self.state = ANSWERED
            elif facts.prompt:
                self.state = MOVED_ON

    def _search(self, facts: Facts, shape: Shape) -> None:
        if facts.prompt:  # what an earlier turn left open is nobody's wait
            self.exact.clear()
            self.alike.clear()
        for use in facts.uses:
            if use.name == self.tool_name:
                # The event's input is normalised: it may hold more than was written.
                is_exact = use.shape.items() <= shape.items()
                (self.exact if is_exact else self.alike)[use.id] = None
        for id, result in facts.over.items():
            if self.live and id in self.exact:
                self.is_over, self.result = True, result
            self.exact.pop(id, None)
            self.alike.pop(id, None)

    def conclude(self) -> None:
        """Decide what was found, once it has had the time to appear."""
        if self.shape is None:
            return
        self.live = True
        if self.clock() - self.began < YOUNG_SECONDS:
            self.state = PENDING if self.exact else UNKNOWN
            return
        self.ids = tuple(self.exact or self.alike)
        if self.ids:
            self.state, self.result = PENDING, Result()
        elif self.is_over:
            self.state = ANSWERED
        else:
            self.state = UNKNOWN
            return
        self.shape, self.exact, self.alike = None, NONE, NONE


class Reader:
    """One transcript, read once for all who watch it."""

    __slots__ = ("ahead", "offset", "path", "watches")
    longest = MAX_LINE  # of a line that is put together from several looks

    def __init__(self, path: bytes) -> None:
        self.path = path
        self.offset = 0  # what comes before has been read
        self.ahead = 0  # bytes past it that were looked at: a line without its end
        self.watches: dict[Watch, None] = {}

    def look_back(self, watch: Watch, tail: int) -> None:
        """Show a new watch the last so many bytes of what has been read."""
        if self.watches:
            self.read()
            start = max(0, self.offset - tail)
            data = _read(self.path, start)[: self.offset - start]
        else:
            data = self.last(tail)
        self._tell(data, [watch])

    def last(self, tail: int) -> bytes:
        """The last so many bytes, as far as the last line has an end: now read."""
        start = max(0, file_size(self.path) - tail)
        data = _read(self.path, start)
        data = data[: data.rfind(b"\n") + 1]
        self.offset, self.ahead = start + len(data), 0
        return data

    def read(self) -> None:
        """Read at most STEP bytes of what was added, and tell every watch."""
        size = file_size(self.path)
        if size == self.offset + self.ahead:
            return
        if size < self.offset + self.ahead:
            # Written again, with calls that were over long ago.
            self.offset, self.ahead = max(0, size - TAIL), 0
            for watch in self.watches:
                watch.live = False
        data = _read(self.path, self.offset + self.ahead)
        end = data.rfind(b"\n") + 1
        if not end:
            self.ahead += len(data)
            return
        data = self._begun(data.find(b"\n")) + data[:end]
        self.offset += self.ahead + end
        self.ahead = 0
        self._tell(data, list(self.watches))

    def _begun(self, rest: int) -> bytes:
        """The part of a line that earlier looks went over; nothing if too long."""
        if not self.ahead or self.ahead + rest > self.longest:
            return b""
        return _part(self.path, self.offset, self.ahead)

    def _tell(self, data: bytes, watches: list[Watch]) -> None:
        names = {watch.tool_name for watch in watches if watch.shape is not None}
        ids = {id for watch in watches for id in watch.open_ids()}
        for line in data.split(b"\n"):
            facts = _facts(line, names, ids)
            if facts is not None:
                ids.update(use.id for use in facts.uses)
                for watch in watches:
                    watch.see(facts)


class Transcripts:
    """The transcripts of all sessions that have something waiting."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._readers: dict[bytes, Reader] = {}

    def begin(
        self, path: str, tool_name: str, tool_input: dict[str, Any], agent_id: str = ""
    ) -> Watch | None:
        """Start to watch for the end of a call; None when there is nothing to watch."""
        reader, shape = self._reader(path, agent_id), _shape(tool_input)
        if reader is None:
            return None
        for tail in (FIRST_TAIL, TAIL):
            watch = Watch(reader, self._clock, tool_name, shape)
            reader.look_back(watch, tail)
            watch.conclude()
            if watch.state == PENDING:
                break
        reader.watches[watch] = None
        return watch

    def follow(self, path: str, agent_id: str = "") -> Watch | None:
        """Start to watch for a prompt that a person writes from now on."""
        reader = self._reader(path, agent_id)
        if reader is None:
            return None
        watch = Watch(reader, self._clock)
        watch.ids, watch.state = (NO_CALL,), PENDING
        reader.look_back(watch, 0)
        reader.watches[watch] = None
        return watch

    def _reader(self, path: str, agent_id: str) -> Reader | None:
        """The one reader of a transcript; None for what is no path."""
        name = encoded(agent_transcript(path, agent_id))
        if not name.startswith(b"/"):
            return None
        if name not in self._readers:
            for old in [old for old, row in self._readers.items() if not row.watches]:
                del self._readers[old]
            self._readers[name] = Reader(name)
        return self._readers[name]


def agent_transcript(path: str, agent_id: str) -> str:
    """Where a subagent of the session writes; without one, the session's own file."""
    if not agent_id or re.search(r"[^\w-]", agent_id):
        return path
    folder = path[: -len(".jsonl")] if path.endswith(".jsonl") else path
    return os.path.join(folder, "subagents", f"agent-{agent_id}.jsonl")


def is_headless(path: str) -> bool:
    """Whether a session has no terminal: then no prompt of it was typed at one."""
    found: list[bytes] = ENTRY.findall(Reader(encoded(path)).last(FIRST_TAIL))
    return bool(found) and found[-1].startswith(b"sdk")


def spoken_in(entry: dict[str, Any]) -> str:
    """The text of a message; of several pieces the last, whatever it is made of."""
    content = value_at(entry, "message", "content")
    if isinstance(content, str):
        return content.strip()
    texts = [text_at(block, "text").strip() for block in blocks(entry, "text")]
    return next((piece for piece in reversed(texts) if piece), "")


def _facts(line: bytes, names: set[str], ids: set[bytes]) -> Facts | None:
    """What a line says of calls of these names and ids; None: nothing."""
    if len(line) > (MAX_DECODED if RESULT in line else MAX_CALL):
        return Facts(over=dict.fromkeys(RESULT_IDS.findall(line), Result()))
    if not _is_about(line, names, ids):
        return None
    entry = _entry(line)
    uses = (
        Use(_id(block, "id"), block["name"], _shape(block.get("input")))
        for block in blocks(entry, "tool_use")
        if text_at(block, "name") in names
    )
    over = {
        _id(block, "tool_use_id"): _result(entry, block)
        for block in blocks(entry, "tool_result")
    }
    return Facts(tuple(uses), over, is_prompt(entry))


def _is_about(line: bytes, names: set[str], ids: set[bytes]) -> bool:
    """Whether a line is worth decoding: our call, its result, or perhaps a prompt.

    The quotes are part of what is looked for: inside a JSON string they are escaped.
    """
    if RESULT in line:
        return len(ids) > MANY_IDS or any(id in line for id in ids)
    if b'"tool_use"' in line:
        return any(name.encode("utf-8", "replace") in line for name in names)
    return b'"user"' in line


def _shape(tool_input: object) -> Shape:
    """A hash for every key: megabytes need not be kept to be known again."""
    if not isinstance(tool_input, dict):
        return {"": -1}  # no value has this hash: it is like no other
    return {key: hash(_canonical(value)) for key, value in tool_input.items()}


def _canonical(value: object) -> object:
    if isinstance(value, (str, bool, int, float, type(None))):
        return value
    size = len(value) if isinstance(value, list) else 0
    shown = value[:FIRST_ITEMS] if isinstance(value, list) else value
    return size, json.dumps(shown, sort_keys=True)


def _entry(line: bytes) -> dict[str, Any]:
    """A line of the conversation, decoded; an empty object for any other."""
    entry = part_at(decoded(line))  # half a line, or none of the client's
    return entry if entry.get("type") in ("user", "assistant") else {}


def blocks(entry: dict[str, Any], kind: str) -> list[dict[str, Any]]:
    """The blocks of one kind in a message."""
    return [
        block
        for block in list_at(entry, "message", "content")
        if isinstance(block, dict) and block.get("type") == kind
    ]


def _id(block: dict[str, Any], key: str) -> bytes:
    return str(block.get(key)).encode("utf-8", "replace")


def _result(entry: dict[str, Any], block: dict[str, Any]) -> Result:
    """How a call ended, by what the client tells the model."""
    if block.get("is_error") is not True:
        return Result(RAN)
    said = block.get("content")
    if isinstance(said, list):
        parts = (part for part in said if isinstance(part, dict))
        said = text_at(next(parts, None), "text")
    words = said[:MAX_RESULT] if isinstance(said, str) else ""
    status = EXIT_STATUS.match(words)
    if status:
        return Result(EXIT, status[1])
    if "toolDenialKind" in entry or words.startswith(DENIALS):
        return Result(REFUSED)
    if words.startswith(STOPS):
        return Result(STOPPED)
    return Result(FAILED, words)


def is_prompt(entry: dict[str, Any]) -> bool:
    """Whether a person wrote this line, not a tool, a hook or the client itself."""
    if entry.get("type") != "user" or entry.get("isMeta") is True:
        return False
    if entry.get("isCompactSummary") is True or blocks(entry, "tool_result"):
        return False
    origin = entry.get("origin")
    return not isinstance(origin, dict) or origin.get("kind") == "human"


def moment(timestamp: object) -> float:
    try:
        return datetime.fromisoformat(str(timestamp).replace("Z", "+00:00")).timestamp()
    except (ValueError, OverflowError):
        return 0.0


def file_size(path: bytes) -> int:
    try:
        return os.stat(path).st_size
    except (OSError, ValueError):
        return 0


def encoded(path: str | bytes) -> bytes:
    """A path as the system takes it; empty for one that it cannot take."""
    try:
        return os.fsencode(path)
    except UnicodeEncodeError:
        return b""


def _read(path: bytes, offset: int) -> bytes:
    """From the offset on: a megabyte, or more of a line that is longer."""
    data = more = _part(path, offset, TAIL)
    while more and b"\n" not in more and len(data) < STEP:
        more = _part(path, offset + len(data), TAIL)
        data += more
    return data


def _part(path: bytes, offset: int, size: int) -> bytes:
    try:
        with open(_open_regular(path), "rb") as file:
            file.seek(offset)
            return file.read(size) or b""  # None: nothing to read there yet
    except (OSError, ValueError):
        return b""


def _open_regular(path: bytes) -> int:
    """Open without waiting for the writer of a pipe, and refuse pipes."""
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise OSError(msg("not a regular file"))
    return fd


# When transcripts are looked at.


class Timers(Protocol):
    """What is needed of the loop."""

    def now(self) -> float: ...

    def call_at(self, when: float, fn: Callable[[], None]) -> object: ...


class Watcher:
    """One per server; the approvals tell it of each request that begins or ends."""

    def __init__(
        self,
        requests: RequestManager,
        timers: Timers,
        on_words: Callable[[Request, bytes], object],
        on_result: Callable[[Request], object],
    ) -> None:
        self._requests = requests
        self._timers = timers
        self._on_words = on_words
        self._on_result = on_result
        self._transcripts = Transcripts()
        self._watches: dict[str, Watch] = {}  # of waiting requests, by id
        self._results: dict[str, tuple[Watch, float]] = {}  # of ended ones, and since
        self._looking = False  # whether another look is due
        self._round: list[str] = []  # the ids that this round has still to look at
        self.ends_requests = True  # not any more, where the next server will

    def begin(self, request: Request, payload: AskPayload) -> None:
        """A request is pending from now on, or its hook is back."""
        if request.id in self._watches:
            return
        agent, path = payload.agent_id(), payload.transcript_path()
        if KINDS[request.kind].of_a_call:
            watch = self._transcripts.begin(
                path, payload.tool_name, payload.tool_input, agent
            )
        else:
            watch = self._transcripts.follow(path, agent)
        if watch is None:
            return
        self._watches[request.id] = watch
        # Of what comes alone, the last words are what it is about.
        watch.unheard = not KINDS[request.kind].alone
        self._hear(request)
        self._look_soon()

    def end(self, request: Request) -> None:
        """It has ended: keep looking for how the call went on, if that is not known."""
        watch = self._watches.pop(request.id, None)
        if watch is None:
            return
        request.result = watch.result
        of_a_call = KINDS[request.kind].of_a_call
        goes_on = request.state in RESULT_STATES or request.is_given_back()
        if request.result[0] or not goes_on or not of_a_call:
            watch.close()
            return
        self._results[request.id] = watch, self._timers.now()
        while len(self._results) > RESULTS_MOST:
            self._results.pop(next(iter(self._results)))[0].close()
        self._look_soon()

    def settled(self, request: Request) -> bool:
        """End the request if its session has gone on without it; whether it has."""
        watch = self._watches.get(request.id)
        if watch is None or not self.ends_requests or watch.check() not in OVER:
            return False
        self._requests.end(request, states.TERMINAL)
        return True

    def words_may_come(self, request: Request) -> bool:
        """Whether what was said before the call is on its way; it is read if not."""
        watch = self._watches.get(request.id)
        if watch is None or not watch.unheard or not watch.may_follow():
            return False
        self._look_at(request)
        return request.waits() and watch.unheard

    def _hear(self, request: Request) -> None:
        """Tell where it stands why a call is made, as soon as the call is there."""
        watch = self._watches[request.id]
        if watch.unheard and watch.has_call():
            watch.unheard = False
            self._on_words(request, watch.reader.path)

    def _learn_result(self, request: Request) -> None:
        watch, since = self._results[request.id]
        may_come = self._timers.now() - since < RESULT_SECONDS
        if watch.check() not in OVER and may_come:
            return
        del self._results[request.id]
        watch.close()
        request.result = watch.result
        if request.result[0]:
            self._on_result(request)

    # Time.

    def _look_soon(self) -> None:
        """Look at the transcripts in half a second, if that is not due anyway."""
        if not self._looking:
            self._looking = True
            self._look_in(TRANSCRIPT_SECONDS)

    def _look_in(self, seconds: float) -> None:
        self._timers.call_at(self._timers.now() + seconds, self._look)

    def _look(self) -> None:
        """Look at the next few transcripts; go on while anything is watched."""
        self._round = self._round or [*self._watches, *self._results]
        until = self._timers.now() + LOOK_SECONDS
        while self._round and self._timers.now() <= until:
            request = self._requests.get(self._round.pop())
            if request is not None:
                self._look_at(request)
        self._looking = bool(self._round or self._watches or self._results)
        if self._looking:
            self._look_in(SOON_SECONDS if self._round else TRANSCRIPT_SECONDS)

    def _look_at(self, request: Request) -> None:
        if request.id in self._results:
            self._learn_result(request)
        elif request.id in self._watches and not self.settled(request):
            self._hear(request)
