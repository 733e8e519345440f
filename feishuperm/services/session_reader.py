"""What a session's transcript says of its turn: why a call is made, what goes on.

    Figures    a turn so far
    Turn       a transcript that is read as it grows
    figures()  those of a transcript, for callers that ask again and again

The first look reads the end of the file, whatever its size: a little of it, and one
megabyte where the turn did not begin there.  Every further look reads what was added;
after more than some megabytes, and of another file by that name, the end again.
What no line says is empty: other agents write less, and some nothing at all.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from feishuperm.agents.table import ANSWERED, CLAUDE, MODEL, PERSON, Dialect, dialect
from feishuperm.lib.tool import headline
from feishuperm.models.ask import Spent
from feishuperm.models.fields import decoded, list_at, number_at, part_at, text_at
from feishuperm.services.transcript import (
    FIRST_TAIL,
    MAX_DECODED,
    MAX_SPOKEN,
    RESULT,
    RESULT_IDS,
    STEP,
    STOPS,
    TAIL,
    Reader,
    Watch,
    blocks,
    encoded,
    is_prompt,
    moment,
    spoken_in,
)

TELLING = re.compile(
    rb'"type": ?"(?:user|assistant|system|custom-title|ai-title|last-prompt|cost-state'
    rb'|task_reminder|todo_reminder|queue-operation)"'
)
# What is queued though nobody typed it.
QUEUED_BY_CLIENT = ("<task-notification>", "<channel ")
# The first words of what the client writes down of its own commands, `/model` and such.
OWN_COMMANDS = ("<command-", "<local-command-", "<bash-")
USAGE = (
    *("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens"),
    "output_tokens",
)
ENDS = ("end_turn", "stop_sequence", "max_tokens", "refusal")  # of a message
WORDS, CALL = 16_000, 2000  # characters that are kept, enough to mask what is shown
READS = STEP // TAIL + 1  # in one look: all of what was added, or nearly
TODOS, OPEN = 100, 100  # entries of a list; calls at once
KEPT = 256  # transcripts


class Todo(NamedTuple):
    """An entry of the session's to-do list."""

    text: str = ""
    state: str = ""  # "pending", "in_progress" or "completed"


class Figures(NamedTuple):
    """A turn so far, without secrets masked: who shows it masks it."""

    title: str = ""  # of the session
    prompt: str = ""  # what the person wrote
    prompted: float = 0.0  # wall clock; 0.0: nobody knows
    sent: float = 0.0  # when a person last sent a prompt, a command, an interruption
    queued: float = 0.0  # when they queued what comes next
    running: str = ""  # the tool call that is not over, in words; empty: none
    running_since: float = 0.0
    said: str = ""  # the last words of the model
    todos: tuple[Todo, ...] = ()
    calls: int = 0  # tool calls of this turn, as far as was read
    tokens: int = 0  # of context, after the last message
    cost: float = -1.0  # dollars; below zero: the transcript does not say
    is_over: bool = False  # the turn has ended
    last: float = 0.0  # when the turn ended, or the last line was written
    folder: str = ""  # where the session works

    @property
    def typed(self) -> float:
        """When a person last typed anything."""
        return max(self.sent, self.queued)


class Use(NamedTuple):
    """A tool call that is not over."""

    name: str
    words: str
    since: float


class Turn(Reader):
    """A transcript, folded line by line into what it says of the last turn."""

    __slots__ = (
        *("_command", "_dialect", "_file", "_message", "_open", "_so_far"),
        *("_titles", "_todos"),
    )
    longest = TAIL  # what is longer is passed over

    def __init__(self, path: bytes, agent: str = CLAUDE) -> None:
        super().__init__(path)
        self._dialect = None if agent == CLAUDE else dialect(agent)
        self._file = 0, 0, 0  # which one, how long, written when
        self._begin_anew()

    def _begin_anew(self) -> None:
        self._so_far = Figures()
        self._titles: dict[str, str] = {}  # by who gave it
        self._open: dict[str, Use] = {}  # by the id of the call
        self._todos: dict[str, Todo] = {}
        self._message = ""  # id of the last one
        self._command = 0.0  # when a command of the client's was typed, since then

    def look(self) -> Figures:
        """What it says now.  A thing that is no file says nothing."""
        try:
            state = os.stat(self.path)
        except (OSError, ValueError):
            return Figures()
        file = state.st_ino, state.st_size, state.st_mtime_ns
        read, size = self.offset + self.ahead, state.st_size
        if 0 < read < size <= read + STEP and file[0] == self._file[0]:
            for _ in range(READS):
                self.read()
        elif file != self._file:
            self._look_at_end(size)
        self._file = file
        use = next(iter(self._open.values()), Use("", "", 0.0))
        return self._so_far._replace(
            title=self._titles.get("custom-title") or self._titles.get("ai-title", ""),
            running=f"{use.name}: {use.words}" if use.words else use.name,
            running_since=use.since,
            todos=tuple(self._todos.values()),
            last=(self._so_far.is_over and self._so_far.last) or state.st_mtime,
        )

    def _look_at_end(self, size: int) -> None:
        for tail in (FIRST_TAIL, TAIL):
            self._begin_anew()
            self._tell(self.last(tail), [])
            if self._so_far.prompted or size <= tail:
                break

    def _tell(self, data: bytes, watches: Sequence[Watch]) -> None:
        for line in data.split(b"\n"):
            if self._dialect:
                self._hear(line, self._dialect)
            elif RESULT in line:
                self._end_calls(line)
            elif len(line) <= MAX_DECODED and TELLING.search(line):
                self._take(part_at(decoded(line)))

    def _hear(self, line: bytes, dialect: Dialect) -> None:
        """A line of another agent's: who acts in it, and what they say."""
        if len(line) > MAX_SPOKEN or not any(mark in line for mark in dialect.SPOKEN):
            return
        entry = part_at(decoded(line))
        who, words = dialect.spoken(entry)
        when, now = moment(entry.get("timestamp")), self._so_far
        if who == PERSON:
            self._so_far = now._replace(sent=when)
            self._begin_turn(words, when, now.folder)
        elif who == MODEL:
            self._so_far = now._replace(said=words[-WORDS:] or now.said)
        elif who == ANSWERED:
            self._so_far = now._replace(sent=when)

    def _take(self, entry: dict[str, Any]) -> None:
        """A line that may say something."""
        # A subagent's lines, which older clients write among those of the session.
        if entry.get("isSidechain") is True and b"/subagents/" not in self.path:
            return
        kind, now = text_at(entry, "type"), self._so_far
        if kind in READ:
            READ[kind](self, entry)
        elif kind in TITLES:
            self._titles[kind] = text_at(entry, TITLES[kind])[:CALL]
        elif kind == "last-prompt" and not now.prompt:
            said = text_at(entry, "lastPrompt").strip()
            self._so_far = now._replace(prompt=said[:WORDS])
        elif kind == "cost-state":
            cost = number_at(entry, "totalCostUSD")
            self._so_far = now._replace(cost=cost if cost > 0 else -1.0)

    def _user(self, entry: dict[str, Any]) -> None:
        said, when = spoken_in(entry), moment(entry.get("timestamp"))
        by_person = is_prompt(entry)
        if by_person:
            self._so_far = self._so_far._replace(sent=when)
        if said.startswith(STOPS):
            self._end_turn(entry)
        elif said.startswith(OWN_COMMANDS):
            self._command = when  # if the model answers, it began a turn
        elif by_person:
            self._begin_turn(said, when, text_at(entry, "cwd"))

    def _queued(self, entry: dict[str, Any]) -> None:
        by_client = text_at(entry, "content").startswith(QUEUED_BY_CLIENT)
        if entry.get("operation") == "enqueue" and not by_client:
            when = moment(entry.get("timestamp"))
            self._so_far = self._so_far._replace(queued=when)

    def _begin_turn(self, prompt: str, when: float, folder: str) -> None:
        now = self._so_far
        self._open.clear()
        self._command = 0.0
        self._so_far = Figures(
            prompt=prompt[:WORDS], prompted=when, sent=now.sent, queued=now.queued,
            folder=folder or now.folder, tokens=now.tokens, cost=now.cost,
        )  # fmt: skip

    def _end_turn(self, entry: dict[str, Any]) -> None:
        self._open.clear()
        last = moment(entry.get("timestamp"))
        self._so_far = self._so_far._replace(is_over=True, last=last)

    def _assistant(self, entry: dict[str, Any]) -> None:
        message, uses = part_at(entry, "message"), blocks(entry, "tool_use")
        when, folder = moment(entry.get("timestamp")), text_at(entry, "cwd")
        if text_at(message, "id") != self._message:
            self._message = text_at(message, "id")
            self._open.clear()  # the model goes on when all its calls are over
        if self._command:
            self._begin_turn("", self._command, folder)
        for use in uses:
            self._use(use, when)
        now = self._so_far
        tokens = sum(max(0, int(number_at(message, "usage", key))) for key in USAGE)
        self._so_far = now._replace(
            said=spoken_in(entry)[-WORDS:] or now.said,
            calls=now.calls + len(uses),
            tokens=tokens or now.tokens,
            cost=-1.0,  # what was said of it is too little now
            is_over=False,
            folder=folder or now.folder,
        )
        if not uses and text_at(message, "stop_reason") in ENDS:
            self._end_turn(entry)

    def _system(self, entry: dict[str, Any]) -> None:
        if entry.get("subtype") == "turn_duration":
            self._end_turn(entry)
        elif entry.get("subtype") == "compact_boundary":
            self._so_far = self._so_far._replace(tokens=0)

    # Tool calls, and the list that some of them keep.

    def _use(self, block: dict[str, Any], when: float) -> None:
        name, given = text_at(block, "name"), part_at(block, "input")
        words = text_at(given, "subject") or headline(name, given, CALL)
        id, task = text_at(block, "id"), text_at(given, "taskId")
        if name == "TodoWrite":
            self._list(list_at(given, "todos"))
        elif name == "TaskUpdate" and task in self._todos:
            old = self._todos[task]
            subject, state = text_at(given, "subject"), text_at(given, "status")
            self._todos[task] = Todo(subject[:CALL] or old.text, state or old.state)
            if state == "deleted":
                del self._todos[task]
        if len(self._open) < OPEN:
            self._open[id] = Use(name[:CALL], words[:CALL], when)

    def _reminder(self, entry: dict[str, Any]) -> None:
        """The client tells the model its list, from time to time."""
        if text_at(entry, "attachment", "type") in ("task_reminder", "todo_reminder"):
            self._list(list_at(entry, "attachment", "content"))

    def _list(self, items: list[Any]) -> None:
        self._todos = {
            text_at(item, "id") or str(number): Todo(
                (text_at(item, "subject") or text_at(item, "content"))[:CALL],
                text_at(item, "status"),
            )
            for number, item in enumerate(items[:TODOS])
        }

    def _end_calls(self, line: bytes) -> None:
        """Calls are over; one that added to the list says by which number."""
        for id in RESULT_IDS.findall(line):
            use = self._open.pop(id.decode(errors="replace"), None)
            if use is None or use.name != "TaskCreate" or len(line) > MAX_SPOKEN:
                continue
            number = text_at(decoded(line), "toolUseResult", "task", "id")
            if number and len(self._todos) < TODOS:
                self._todos[number] = Todo(use.words, "pending")


TITLES = {"custom-title": "customTitle", "ai-title": "aiTitle"}
READ: dict[str, Callable[[Turn, dict[str, Any]], None]] = {
    "user": Turn._user,
    "assistant": Turn._assistant,
    "system": Turn._system,
    "attachment": Turn._reminder,
    "queue-operation": Turn._queued,
}


def figures(path: str | bytes, agent: str = CLAUDE) -> Figures:
    """What a transcript says now: on the loop, for one that is looked at again.

    Nothing is read twice; where nothing was added it costs one look at the file.
    """
    return _turn(encoded(path), agent).look()


@lru_cache(maxsize=KEPT)
def _turn(path: bytes, agent: str) -> Turn:
    return Turn(path, agent)


def spent_by(figures: Figures, now: float) -> Spent:
    """What a turn has taken so far."""
    until = figures.last if figures.is_over else now
    seconds = until - figures.prompted if figures.prompted else 0.0
    return Spent(seconds, figures.calls, figures.tokens, figures.cost)
