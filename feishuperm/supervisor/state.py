"""What the supervisor remembers: one file per session, one list of projects.

A session's file counts its reviews, keeps the last verdicts, and knows how many stops
in a row were blocked.  Every change happens under a lock and replaces the file whole,
so a hundred hooks at once count to exactly a hundred.  It knows no review and no event.
"""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Callable

from feishuperm.errors import FileError, UsageError
from feishuperm.lib.files import discard, locked, private_dir, read_json, write_atomic
from feishuperm.models.fields import list_at, part_at

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

SESSION = re.compile(r"[0-9A-Za-z][0-9A-Za-z._-]{0,127}")  # no path, no option
SESSION_FILE = re.compile(rf"session-({SESSION.pattern})\.json")
KEPT_SECONDS = 30 * 86400  # a session that was idle for a month is not resumed
KEPT_VERDICTS = 20
KEPT_PROMPTS = 32
LOCK_SECONDS = 20.0  # a hundred hooks at once on a slow disk still get their turn
TOOL_RAN = b'"type":"tool_result"'  # inside a JSON string the quotes would be escaped
MAX_SCAN = 16 << 20  # bytes of transcript between two stops


class Row:
    """Whose stops are counted while they are blocked one after the other.

    The client starts counting anew with a turn, and when a tool ran in between; the
    transcript, from where it ended at the last block, tells whether one did.
    """

    def __init__(self, agent: str, transcript: str, fresh: bool) -> None:
        self.agent = agent
        self.transcript = transcript
        self.fresh = fresh  # the first stop of a turn

    def blocks(self, state: dict[str, Any]) -> int:
        """How many stops in a row were blocked so far."""
        row = part_at(state, "rows").get(self.agent)
        if self.fresh or not isinstance(row, dict):
            return 0
        ran = _tool_ran(self.transcript, _whole(row, "size"))
        return 0 if ran else _whole(row, "blocks")

    def block(self, state: dict[str, Any]) -> None:
        """Count one more."""
        row = {"blocks": self.blocks(state) + 1, "size": _size(self.transcript)}
        state["rows"] = {**part_at(state, "rows"), self.agent: row}


class Turn:
    """Whether a review may start: `count` is its number, 0 means it may not."""

    def __init__(self, count: int, blocks: int) -> None:
        self.count = count
        self.blocks = blocks


class SupervisorState:
    """The state folder. Every method may raise FileError."""

    def __init__(self, folder: str, clock: Callable[[], float] = time.time) -> None:
        self.folder = folder
        self.clock = clock
        self.lock_seconds = LOCK_SECONDS  # less for who has less time

    # Counting.

    def take_turn(
        self, session: str, prompt: str, row: Row, limit: int, cap: int
    ) -> Turn:
        """Count one review in advance, unless the limit or the client's cap is reached.

        A `cap` of 0 means that the client has none.
        """
        with locked(self._session(session), self.lock_seconds):
            state = self.session(session)
            if not state:
                self.prune()
            _start_prompt(state, prompt)
            blocks = row.blocks(state)
            count = _whole(state, "count")
            if count >= limit or (cap and blocks >= cap):
                return Turn(0, blocks)
            state["count"] = count + 1
            self._write(session, state)
        return Turn(count + 1, blocks)

    def record(self, session: str, verdict: dict[str, Any], row: Row | None) -> None:
        """Remember a verdict; `row` is given when it blocked a stop."""
        with locked(self._session(session), self.lock_seconds):
            state = self.session(session)
            verdicts = [*list_at(state, "verdicts"), verdict]
            state["verdicts"] = verdicts[-KEPT_VERDICTS:]
            if row:
                row.block(state)
            self._write(session, state)

    def session(self, session: str) -> dict[str, Any]:
        """What is known of a session; empty when nothing is, or nothing readable."""
        return object_in(self._session(session))

    def sessions(self) -> list[tuple[str, dict[str, Any]]]:
        """Every session that has a file, the latest first."""
        return [(name, self.session(name)) for _, name in self._dated()]

    # Switching.

    def switched_on(self, session: str, project: str) -> bool:
        """The session's own switch, else the project's, else on."""
        own = self.session(session).get("switch") if session else None
        if own in ("on", "off"):
            return bool(own == "on")
        return os.path.realpath(project) not in self._projects_off()

    def switch_session(self, session: str, value: str) -> None:
        with locked(self._session(session), self.lock_seconds):
            self._write(session, {**self.session(session), "switch": value})

    def switch_project(self, project: str, value: str) -> None:
        path = os.path.realpath(project)
        with locked(self._projects(), self.lock_seconds):
            off = [other for other in self._projects_off() if other != path]
            if value == "off":
                off.append(path)
            self._save(self._projects(), {"off": off})

    def _projects_off(self) -> list[str]:
        return list_at(object_in(self._projects()), "off")

    # Files.

    def prune(self) -> None:
        """Forget sessions that nobody touched for a month."""
        for touched, session in self._dated():
            if touched < self.clock() - KEPT_SECONDS:
                discard(self._session(session))

    def _dated(self) -> list[tuple[float, str]]:
        try:
            names = os.listdir(self.folder)
        except OSError:
            return []
        ids = [match[1] for match in map(SESSION_FILE.fullmatch, names) if match]
        dated = [(_mtime(self._session(id)), id) for id in ids]
        return sorted(dated, reverse=True)

    def _session(self, session: str) -> str:
        return os.path.join(self.folder, f"session-{check_session(session)}.json")

    def _projects(self) -> str:
        return os.path.join(self.folder, "projects.json")

    def _write(self, session: str, state: dict[str, Any]) -> None:
        state["session_id"] = session
        self._save(self._session(session), state)

    def _save(self, path: str, value: dict[str, Any]) -> None:
        try:
            private_dir(self.folder)
        except OSError as error:
            raise FileError(f"cannot make {self.folder}: {error.strerror}") from None
        data = json.dumps(value).encode() + b"\n"
        write_atomic(path, data, 0o600, lasting=False)  # the session waits for us


def is_session(session: str) -> bool:
    """Whether it can name a file and stand on a command line."""
    return SESSION.fullmatch(session) is not None


def check_session(session: str) -> str:
    """The session id itself. Raises UsageError when it could be a path or an option."""
    if not is_session(session):
        raise UsageError("a session id is 1 to 128 letters, digits, dots and dashes")
    return session


def _start_prompt(state: dict[str, Any], prompt: str) -> None:
    """A prompt that was not seen before starts a new count.

    An earlier one that comes back (a background agent of the last turn) does not: two
    prompts taking turns would otherwise never reach the limit.
    """
    seen = list_at(state, "prompts")
    if prompt and prompt not in seen:
        state["prompts"] = [*seen, prompt][-KEPT_PROMPTS:]
        state["count"] = 0
        state.pop("rows", None)


def _whole(state: dict[str, Any], key: str) -> int:
    value = state.get(key)
    return value if isinstance(value, int) and value > 0 else 0


def object_in(path: str) -> dict[str, Any]:
    """A JSON object; a damaged file counts as none, because counting must go on."""
    try:
        return part_at(read_json(path))
    except FileError:
        return {}


def _tool_ran(transcript: str, offset: int) -> bool:
    try:
        with open(transcript, "rb") as file:
            file.seek(offset)
            return TOOL_RAN in file.read(MAX_SCAN)
    except (OSError, ValueError):
        return False


def _size(path: str) -> int:
    try:
        return os.path.getsize(path)
    except (OSError, ValueError):
        return 0


def _mtime(path: str) -> float:
    try:
        return os.path.getmtime(path)
    except OSError:
        return 0.0
