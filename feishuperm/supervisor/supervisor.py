"""The supervisor: reviews a stop or a question, and says what the client should do.

`Supervisor.handle` takes one hook event and returns what to print: one JSON object, or
nothing where the event is none of its business.  Whatever goes wrong, the answer is
"allow", because a supervisor that breaks must not keep a session from ending.  It knows
neither stdin nor how a reviewer runs (`supervisor.reviewer`).

`SupervisorState` is what it remembers: one file per session, one list of projects.  A
session's file counts its reviews and keeps the last verdicts.  Every change happens
under a lock and replaces the file whole, so a hundred hooks at once count to exactly a
hundred.
"""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Callable, Mapping
from contextlib import suppress

from feishuperm.errors import FeishupermError, FileError, UsageError
from feishuperm.lib import log
from feishuperm.lib.config import claude_dir, state_dir
from feishuperm.lib.control import ask_server
from feishuperm.lib.files import (
    discard,
    locked,
    private_dir,
    read_bytes,
    read_json,
    write_atomic,
)
from feishuperm.messages import message_of, msg, text
from feishuperm.models.fields import decoded, list_at, number_at, part_at, text_at
from feishuperm.models.names import QUESTION_TOOL
from feishuperm.supervisor import reviewer
from feishuperm.supervisor.reviewer import (
    FAILED,
    MATERIAL,
    MISSING,
    ReviewError,
    Verdict,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from feishuperm.models.settings import Settings

# What it says to the model and to the person at the terminal.
NO_FEEDBACK = msg("The supervisor finds the task unfinished: please go on.")
LAST = msg(
    "(Review {count} of {limit}: this is the last one; what follows is "
    "allowed without a review.)"
)
LIMIT = msg("The supervisor has done its {limit} reviews: allowed without a review.")
MAX_FEEDBACK = 8000  # characters; the client cuts a hook's text at about 10 000
MAX_PROMPT = 1 << 20  # bytes of a SUPERVISOR.md
NOTICE_SECONDS = 0.05  # for handing a card to the server; the session is waiting

STOPS = ("Stop", "SubagentStop")
MAX_MESSAGE = 50_000  # characters of the last message that the reviewer gets
RUNNING = ("running", "pending")  # a background task in another state is over

SESSION = re.compile(r"[0-9A-Za-z][0-9A-Za-z._-]{0,127}")  # no path, no option
SESSION_FILE = re.compile(rf"session-({SESSION.pattern})\.json")
KEPT_SECONDS = 30 * 86400  # a session that was idle for a month is not resumed
KEPT_VERDICTS = 20
KEPT_PROMPTS = 32
LOCK_SECONDS = 20.0  # a hundred hooks at once on a slow disk still get their turn


class Supervisor:
    """Reviews events with the settings, the environment and the state it is given."""

    def __init__(
        self,
        settings: Settings,
        environ: Mapping[str, str] = os.environ,
        started: float | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.settings = settings
        self.environ = environ
        self.clock = clock
        self.started = clock() if started is None else started
        self.state = SupervisorState(os.path.join(state_dir(environ), "supervisor"))
        self.done: tuple[Event, dict[str, Any]] | None = None  # to be reported

    def handle(self, raw: bytes) -> dict[str, Any] | None:
        """What to print for an event; None means nothing at all."""
        fields = decoded(raw)
        if not isinstance(fields, dict):
            self._log("unreadable event, allowed", "warning")
            return {}
        event = Event(fields)
        if not event.concerns_us():
            return None
        if self.environ.get(reviewer.RECURSION) or event.still_working():
            return event.allow()
        if not SESSION.fullmatch(event.session_id):
            self._log("an event without a usable session id, allowed", "warning")
            return event.allow(notice=self._text(MISSING))
        try:
            if not self.state.switched_on(event.session_id, self._project(event)):
                return None
            return self._review(event)
        except FeishupermError as error:
            # Without a state there is no counting, and it could go on for ever.
            self._log(f"{error}, allowed", "error")
            return event.allow(notice=self._text(FAILED))

    def _review(self, event: Event) -> dict[str, Any]:
        limit = self.settings.supervisor_max_iterations
        left = self._until(event) - self.clock()
        self.state.lock_seconds = max(0.0, min(self.state.lock_seconds, left))
        count = self.state.take_turn(event.session_id, event.prompt_id, limit)
        if not count:
            self._log(f"{event.session_id}: limit reached, allowed")
            return event.allow(notice=self._text(LIMIT, limit=limit))
        began = self.clock()
        try:
            verdict, notice = self._ask(event), ""
        except ReviewError as error:
            self._log(f"{error}, allowed", "warning")
            verdict, notice = Verdict(True, ""), self._text(error.problem)
        outcome = "failed" if notice else "allow" if verdict.allow_stop else "block"
        entry = {
            "event": event.name,
            "outcome": outcome,
            "count": count,
            "seconds": round(self.clock() - began, 3),
            "feedback": notice or verdict.feedback[:MAX_FEEDBACK],
        }
        self.done = event, entry
        if verdict.allow_stop:
            return event.allow(verdict.feedback, notice)
        feedback = verdict.feedback.strip()[:MAX_FEEDBACK] or self._text(NO_FEEDBACK)
        if count == limit:
            feedback += "\n" + self._text(LAST, count=count, limit=limit)
        return event.block(feedback)

    def _ask(self, event: Event) -> Verdict:
        """Run the reviewer. Raises ReviewError."""
        command = reviewer.command_line(
            self.settings.supervisor_command, event.session_id
        )
        prompt = self._prompt(event)
        until = self._until(event)
        os.chdir(self._project(event))  # the client finds a session by its folder
        return reviewer.review(
            command, prompt, self.environ, until, self.clock, load_ledger
        )

    def _until(self, event: Event) -> float:
        """When the answer must be there."""
        settings = self.settings
        stop, other = settings.supervisor_stop_timeout, settings.supervisor_timeout
        return self.started + (stop if event.is_stop() else other)

    def _prompt(self, event: Event) -> str:
        """The user's prompt or ours, word for word, and after it the material."""
        language = self.settings.feishuperm_lang
        prompt = user_prompt(self.environ) or reviewer.built_in_prompt(language)
        material = json.dumps(event.material(), ensure_ascii=False)
        return f"{prompt}\n\n{MATERIAL[language]}\n{material}\n"

    def _project(self, event: Event) -> str:
        project = self.environ.get("CLAUDE_PROJECT_DIR") or event.cwd
        return project if os.path.isdir(project) else os.getcwd()

    # Reports.

    def report(self) -> None:
        """Tell of the review, after the answer is out: nothing here may change it."""
        if self.done is None:
            return
        for step in (self._remember, self._enter, self._tell):
            try:
                step(*self.done)
            except (FeishupermError, OSError) as error:
                self._log(f"not reported: {error}", "warning")

    def _remember(self, event: Event, entry: dict[str, Any]) -> None:
        self.state.record(event.session_id, {"time": int(time.time()), **entry})

    def _enter(self, event: Event, entry: dict[str, Any]) -> None:
        from feishuperm.services.ledger import Ledger  # see load_ledger

        Ledger(environ=self.environ).append(
            {
                "event": "supervisor",
                "tool": event.tool_name or event.name,
                "action": entry["outcome"],
                "surface": "supervisor",
                "reason": entry["feedback"],
                "count": entry["count"],
                "seconds": entry["seconds"],
                "project": self._project(event),
                "session": event.session_id,
            }
        )

    def _tell(self, event: Event, entry: dict[str, Any]) -> None:
        if "stop" not in self.settings.feishuperm_notify:
            return
        blocked = entry["outcome"] == "block"
        notice = {
            "command": "notice",
            "kind": "supervisor_block" if blocked else "supervisor_allow",
            "project": self._project(event),
            "session": event.session_id,
            "text": entry["feedback"],
        }
        ask_server(notice, NOTICE_SECONDS, self.settings.permission_socket_path)

    def _log(self, message: str, level: str = "info") -> None:
        log.obey(self.settings)
        log.log(f"supervisor: {message}", level)

    def _text(self, sentence: str, **values: object) -> str:
        return text(self.settings.feishuperm_lang, sentence, **values)


def load_ledger() -> None:
    """Import it while the reviewer works: it takes half of what a review may cost."""
    import feishuperm.services.ledger  # noqa: F401


def user_prompt(environ: Mapping[str, str]) -> str:
    """The user's SUPERVISOR.md; empty when there is none, or nothing in it."""
    path = os.path.join(claude_dir(environ), "SUPERVISOR.md")
    try:
        prompt = (read_bytes(path, MAX_PROMPT) or b"").decode("utf-8", "replace")
    except FileError:
        return ""
    return prompt if prompt.strip() else ""


# The event.


class Event:
    """A hook event as far as the supervisor cares; wrong types count as missing."""

    def __init__(self, fields: dict[str, Any]) -> None:
        self.fields = fields
        self.tool_name = text_at(fields, "tool_name")
        self.name = text_at(fields, "hook_event_name") or (
            "PreToolUse" if self.tool_name else "Stop"
        )
        self.session_id = text_at(fields, "session_id")
        self.prompt_id = text_at(fields, "prompt_id")
        self.cwd = text_at(fields, "cwd")

    def is_stop(self) -> bool:
        return self.name in STOPS

    def concerns_us(self) -> bool:
        return self.is_stop() or (
            self.name == "PreToolUse" and self.tool_name == QUESTION_TOOL
        )

    def still_working(self) -> bool:
        """The turn ends, but a background task goes on and will wake it again."""
        tasks = self.fields.get("background_tasks")
        if self.name != "Stop" or not isinstance(tasks, list):
            return False
        return any(
            not isinstance(task, dict) or task.get("status", RUNNING[0]) in RUNNING
            for task in tasks
        )

    def material(self) -> dict[str, Any]:
        """What the reviewer gets to see beside the session itself."""
        if not self.is_stop():
            return {
                "hook_event_name": self.name,
                "tool_name": self.tool_name,
                "tool_input": self.fields.get("tool_input"),
            }
        message = text_at(self.fields, "last_assistant_message")
        if len(message) > MAX_MESSAGE:
            half = MAX_MESSAGE // 2
            message = f"{message[:half]}\n[...]\n{message[-half:]}"
        material = {"hook_event_name": self.name, "last_assistant_message": message}
        if self.name == "SubagentStop":
            material["agent_type"] = text_at(self.fields, "agent_type")
        return material

    # The two formats.

    def allow(self, reason: str = "", notice: str = "") -> dict[str, Any]:
        """The answer that lets it pass; `notice` is for the person at the terminal."""
        if self.is_stop():
            return {"systemMessage": notice} if notice else {}
        return self._decide("allow", reason or notice)

    def block(self, feedback: str) -> dict[str, Any]:
        """The answer that holds it back and tells the model why."""
        if self.is_stop():
            return {"decision": "block", "reason": feedback}
        return self._decide("deny", feedback)

    def _decide(self, decision: str, reason: str) -> dict[str, Any]:
        output = {"hookEventName": "PreToolUse", "permissionDecision": decision}
        return {"hookSpecificOutput": {**output, "permissionDecisionReason": reason}}


# The state.


class SupervisorState:
    """The state folder. Every method may raise FileError."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.projects = os.path.join(folder, "projects.json")
        self.lock_seconds = LOCK_SECONDS  # less where less time is left

    # Counting.

    def take_turn(self, session: str, prompt: str, limit: int) -> int:
        """The number of the next review, counted in advance; 0: the limit is reached.

        A prompt that was not seen before starts a new count.  An earlier one that comes
        back (a background agent of the last turn) does not: two prompts taking turns
        would otherwise never reach the limit.
        """
        with locked(self._session(session), self.lock_seconds):
            state = self.session(session)
            if not state:
                self.prune()
            seen = list_at(state, "prompts")
            if prompt and prompt not in seen:
                state.update(prompts=[*seen, prompt][-KEPT_PROMPTS:], count=0)
            count = max(0, int(number_at(state, "count")))
            if count >= limit:
                return 0
            state["count"] = count + 1
            self._write(session, state)
        return count + 1

    def record(self, session: str, verdict: dict[str, Any]) -> None:
        """Remember a verdict."""
        with locked(self._session(session), self.lock_seconds):
            state = self.session(session)
            verdicts = [*list_at(state, "verdicts"), verdict]
            state["verdicts"] = verdicts[-KEPT_VERDICTS:]
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
        with locked(self.projects, self.lock_seconds):
            off = [other for other in self._projects_off() if other != path]
            if value == "off":
                off.append(path)
            self._save(self.projects, {"off": off})

    def _projects_off(self) -> list[str]:
        return list_at(object_in(self.projects), "off")

    # Files.

    def prune(self) -> None:
        """Forget sessions that nobody touched for a month."""
        for touched, session in self._dated():
            if touched < time.time() - KEPT_SECONDS:
                discard(self._session(session))

    def _dated(self) -> list[tuple[float, str]]:
        """When each session was last touched, the latest first."""
        dated = []
        with suppress(OSError):
            for entry in os.scandir(self.folder):
                match = SESSION_FILE.fullmatch(entry.name)
                if match:
                    dated.append((entry.stat().st_mtime, match[1]))
        return sorted(dated, reverse=True)

    def _session(self, session: str) -> str:
        return os.path.join(self.folder, f"session-{check_session(session)}.json")

    def _write(self, session: str, state: dict[str, Any]) -> None:
        state["session_id"] = session
        self._save(self._session(session), state)

    def _save(self, path: str, value: dict[str, Any]) -> None:
        try:
            private_dir(self.folder)
        except OSError as error:
            raise FileError(
                msg("cannot make {}: {}", self.folder, message_of(error))
            ) from None
        data = json.dumps(value).encode() + b"\n"
        write_atomic(path, data, 0o600, lasting=False)  # the session waits for us


def check_session(session: str) -> str:
    """The session id itself. Raises UsageError when it could be a path or an option."""
    if not SESSION.fullmatch(session):
        raise UsageError(
            msg("a session id is 1 to 128 letters, digits, dots and dashes")
        )
    return session


def object_in(path: str) -> dict[str, Any]:
    """A JSON object; a damaged file counts as none, because counting must go on."""
    try:
        return part_at(read_json(path))
    except FileError:
        return {}
