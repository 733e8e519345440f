"""The supervisor: reviews a stop or a question, and says what the client shall do.

`Supervisor.handle` takes one hook event and returns what to print: one JSON object, or
nothing where the event is none of its business.  Whatever goes wrong, the answer is
"allow", because a supervisor that breaks must not keep a session from ending.  It knows
neither stdin nor how a reviewer runs (`supervisor.reviewer`).
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Mapping
from functools import partial

from feishuperm.errors import FeishupermError
from feishuperm.lib import log
from feishuperm.lib.config import claude_dir, state_dir
from feishuperm.lib.control import ask_server
from feishuperm.models.fields import decoded
from feishuperm.supervisor import reviewer
from feishuperm.supervisor.event import Event, client_cap
from feishuperm.supervisor.prompts import MATERIAL, SUPERVISOR
from feishuperm.supervisor.state import SupervisorState, Turn, is_session
from feishuperm.supervisor.verdict import ReviewError, Verdict

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from feishuperm.models.settings import Settings

MAX_FEEDBACK = 8000  # characters; the client cuts a hook's text at about 10 000
MAX_PROMPT = 1 << 20  # bytes of a SUPERVISOR.md
NOTICE_SECONDS = 0.05  # for handing a card to the server; the session is waiting


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
        fields = decoded(raw)
        if not isinstance(fields, dict):
            self._log("unreadable event, allowed", "warning")
            return {}
        event = Event(fields)
        if not event.concerns_us():
            return None
        if self.environ.get(reviewer.RECURSION) or event.still_working():
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
        prompt = user_prompt(self.environ) or SUPERVISOR[language]
        material = json.dumps(event.material(), ensure_ascii=False)
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
        steps = (self._remember, self._enter, self._tell)
        self.reports = [partial(step, event, entry) for step in steps]

    def _remember(self, event: Event, entry: dict[str, Any]) -> None:
        blocked = entry["outcome"] == "block" and event.is_stop()
        row = event.row() if blocked else None
        self.state.record(event.session_id, {"time": int(time.time()), **entry}, row)

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
        log.configure(level=self.settings.feishuperm_log_level)
        log.log(f"supervisor: {message}", level)

    def _text(self, key: str, **values: object) -> str:
        from feishuperm.lib.text import text  # most reviews need none of ours

        return text(self.settings.feishuperm_lang, f"supervisor.{key}", **values)


def load_ledger() -> None:
    """Import it while the reviewer works: it takes half of what a review may cost."""
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
