"""The supervisor: reviews a stop or a question, and says what the client shall do.

`Supervisor.handle` takes one hook event and returns what to print: one JSON object, or
nothing where the event is none of its business.  Whatever goes wrong, the answer is
"allow", because a supervisor that breaks must not keep a session from ending.  It knows
neither stdin nor how a reviewer runs (`supervisor.reviewer`).

What only a report or a rare sentence needs is imported late, at best while the reviewer
is at work: a review may cost 100 ms beside the reviewer's own time, and every module
is compiled anew at each start.
"""

from __future__ import annotations

import os
import time

from feishuperm.errors import FeishupermError
from feishuperm.lib import quick_json
from feishuperm.lib.config import claude_dir, state_dir
from feishuperm.supervisor import reviewer
from feishuperm.supervisor.reviewer import RECURSION, ReviewError, Verdict
from feishuperm.supervisor.state import Row, SupervisorState, Turn, is_session

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from feishuperm.models.settings import Settings

QUESTION_TOOL = "AskUserQuestion"
STOPS = ("Stop", "SubagentStop")
MAX_FEEDBACK = 8000  # characters; the client cuts a hook's text at about 10 000
MAX_MESSAGE = 50_000  # characters of the last message that the reviewer gets
MAX_PROMPT = 1 << 20  # bytes of a SUPERVISOR.md
NOTICE_SECONDS = 0.05  # for handing a card to the server; the session is waiting
RUNNING = ("running", "pending")  # a background task in another state is over

# The client ends a turn after so many blocked stops in a row (no tool in between).  It
# takes the number from its environment or from `env` in any of its settings files, and
# hands the latter on to hooks; 0 means no cap, anything unreadable means the default.
CAP_VARIABLE = "CLAUDE_CODE_STOP_HOOK_BLOCK_CAP"
DEFAULT_CAP = 8


def client_cap(environ: Mapping[str, str]) -> int:
    """How many blocked stops in a row the client takes; 0 means any number."""
    value = environ.get(CAP_VARIABLE, "")
    return int(value) if value.isascii() and value.isdigit() else DEFAULT_CAP


class Event:
    """A hook event as far as the supervisor cares; wrong types count as missing."""

    __slots__ = (
        "agent",
        "cwd",
        "fields",
        "name",
        "prompt_id",
        "session_id",
        "tool_name",
        "transcript",
    )

    def __init__(self, fields: dict[str, Any]) -> None:
        self.fields = fields
        self.tool_name = self._string("tool_name")
        self.name = self._string("hook_event_name") or (
            "PreToolUse" if self.tool_name else "Stop"
        )
        self.session_id = self._string("session_id")
        self.prompt_id = self._string("prompt_id")
        self.cwd = self._string("cwd")
        self.agent = self._string("agent_id") if self.name == "SubagentStop" else ""
        self.transcript = self._string(
            "agent_transcript_path" if self.agent else "transcript_path"
        )

    def _string(self, key: str) -> str:
        value = self.fields.get(key)
        return value if isinstance(value, str) else ""

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
        message = self._string("last_assistant_message")
        if len(message) > MAX_MESSAGE:
            half = MAX_MESSAGE // 2
            message = f"{message[:half]}\n[...]\n{message[-half:]}"
        agent = {"agent_type": self._string("agent_type")} if self.agent else {}
        last = {"last_assistant_message": message}
        return {"hook_event_name": self.name, **agent, **last}

    def row(self) -> Row:
        fresh = self.fields.get("stop_hook_active") is False
        return Row(self.agent, self.transcript, fresh)

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
        self.reports: list[Callable[[], object]] = []

    def handle(self, raw: bytes) -> dict[str, Any] | None:
        """What to print for an event; None means nothing at all."""
        try:
            fields = quick_json.loads(raw)
        except (ValueError, RecursionError):
            fields = None
        if not isinstance(fields, dict):
            self._log("unreadable event, allowed", "warning")
            return {}
        event = Event(fields)
        if not event.concerns_us():
            return None
        if self.environ.get(RECURSION) or event.still_working():
            return event.allow()
        return self._supervise(event)

    def _supervise(self, event: Event) -> dict[str, Any] | None:
        if not is_session(event.session_id):
            self._log("an event without a usable session id, allowed", "warning")
            return event.allow(notice=self._text("missing"))
        try:
            if not self.state.switched_on(event.session_id, self._project(event)):
                return None
            return self._review(event)
        except FeishupermError as error:
            # Without a state there is no counting, and it could go on for ever.
            self._log(f"{error}, allowed", "error")
            return event.allow(notice=self._text("failed"))

    def _review(self, event: Event) -> dict[str, Any]:
        limit = self.settings.supervisor_max_iterations
        cap = client_cap(self.environ) if event.is_stop() else 0
        left = self._until(event) - self.clock()
        self.state.lock_seconds = max(0.0, min(self.state.lock_seconds, left))
        turn = self.state.take_turn(
            event.session_id, event.prompt_id, event.row(), limit, cap
        )
        if not turn.count:
            key = "capped" if cap and turn.blocks >= cap else "limit"
            self._log(f"{event.session_id}: {key} reached, allowed")
            return event.allow(notice=self._text(key, limit=limit, cap=cap))
        began = self.clock()
        try:
            verdict, notice = self._ask(event), ""
        except ReviewError as error:
            self._log(f"{error}, allowed", "warning")
            verdict, notice = Verdict(True, ""), self._text(error.problem)
        self._keep(event, verdict, notice, turn.count, self.clock() - began)
        return self._answer(event, verdict, notice, turn, cap)

    def _answer(
        self, event: Event, verdict: Verdict, notice: str, turn: Turn, cap: int
    ) -> dict[str, Any]:
        limit = self.settings.supervisor_max_iterations
        if verdict.allow_stop:
            return event.allow(verdict.feedback, notice)
        feedback = verdict.feedback.strip()[:MAX_FEEDBACK] or self._text("no_feedback")
        if turn.count == limit:
            feedback += "\n" + self._text("last", count=turn.count, limit=limit)
        elif cap and turn.blocks + 1 == cap:
            feedback += "\n" + self._text("last_block", cap=cap)
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
            command, prompt, self.environ, until, load_ledger, self.clock
        )

    def _until(self, event: Event) -> float:
        """When the answer must be there."""
        settings = self.settings
        stop, other = settings.supervisor_stop_timeout, settings.supervisor_timeout
        return self.started + (stop if event.is_stop() else other)

    def _prompt(self, event: Event) -> str:
        """The user's prompt or ours, word for word, and after it the material."""
        from feishuperm.supervisor.prompts import MATERIAL, SUPERVISOR

        language = self.settings.feishuperm_lang
        prompt = user_prompt(self.environ) or SUPERVISOR[language]
        material = quick_json.dumps(event.material(), ensure_ascii=False)
        return f"{prompt}\n\n{MATERIAL[language]}\n{material}\n"

    def _project(self, event: Event) -> str:
        project = self.environ.get("CLAUDE_PROJECT_DIR") or event.cwd
        return project if os.path.isdir(project) else os.getcwd()

    # Reports.

    def report(self) -> None:
        """Tell of the review, after the answer is out: nothing here may change it."""
        for report in self.reports:
            try:
                report()
            except (FeishupermError, OSError) as error:
                self._log(f"not reported: {error}", "warning")

    def _keep(
        self, event: Event, verdict: Verdict, notice: str, count: int, seconds: float
    ) -> None:
        """Prepare what the state, the ledger and the card will say."""
        outcome = "failed" if notice else "allow" if verdict.allow_stop else "block"
        entry = {
            "event": event.name,
            "outcome": outcome,
            "count": count,
            "seconds": round(seconds, 3),
            "feedback": notice or verdict.feedback[:MAX_FEEDBACK],
        }
        self.reports = [
            lambda: self._remember(event, entry),
            lambda: self._enter(event, entry),
            lambda: self._tell(event, entry),
        ]

    def _remember(self, event: Event, entry: dict[str, Any]) -> None:
        blocked = entry["outcome"] == "block" and event.is_stop()
        row = event.row() if blocked else None
        self.state.record(event.session_id, {"time": int(time.time()), **entry}, row)

    def _enter(self, event: Event, entry: dict[str, Any]) -> None:
        from feishuperm.services.ledger import Ledger

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
        from feishuperm.lib.control import ask_server

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
        from feishuperm.lib import log

        log.configure(level=self.settings.feishuperm_log_level)
        log.log(f"supervisor: {message}", level)

    def _text(self, key: str, **values: object) -> str:
        from feishuperm.lib.text import text

        return text(self.settings.feishuperm_lang, f"supervisor.{key}", **values)


def load_ledger() -> None:
    """Import what the report will need, while there is time."""
    import feishuperm.services.ledger  # noqa: F401


def user_prompt(environ: Mapping[str, str]) -> str:
    """The user's SUPERVISOR.md; empty when there is none, or nothing in it."""
    path = os.path.join(claude_dir(environ), "SUPERVISOR.md")
    try:
        if not os.path.isfile(path):  # a pipe would keep us waiting
            return ""
        with open(path, "rb") as file:
            prompt = file.read(MAX_PROMPT).decode("utf-8", "replace")
    except OSError:
        return ""
    return prompt if prompt.strip() else ""
