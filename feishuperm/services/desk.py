"""The desk where requests come in and decisions go out.

It ties the parts together in the order a request lives: register, announce, watch the
transcript, decide, write the rule, record.  Handlers call it with plain values; it
knows neither frames nor HTTP.  Everything runs on the loop's thread, so between looking
at a request and settling it nothing can happen.
"""

from __future__ import annotations

import hashlib
import json
import math
import time

from feishuperm.lib.log import log, redact
from feishuperm.lib.tool import extract_tool_detail
from feishuperm.models.action import ACTIONS
from feishuperm.models.decision import Decision
from feishuperm.models.request import (
    DECIDING,
    PLAN_TOOL,
    QUESTION_TOOL,
    TRANSITIONS,
    WAITING,
    Request,
)
from feishuperm.services import transcript
from feishuperm.services.notifier import QUIET_TOOLS
from feishuperm.services.request_manager import REMEMBER_SECONDS, RequestManager

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Protocol

    from feishuperm.models.settings import Settings
    from feishuperm.services.ledger import Ledger
    from feishuperm.services.notifier import Notifier
    from feishuperm.services.request_manager import Waiter
    from feishuperm.services.rule_writer import RulePlan, RuleWriter

    class Timers(Protocol):
        """What the desk needs of the loop."""

        def now(self) -> float: ...

        def call_at(self, when: float, fn: Callable[[], None]) -> object: ...


TRANSCRIPT_SECONDS = 0.5  # how often transcripts are looked at
TRANSCRIPTS_PER_LOOK = 200  # a millisecond of work, however many requests wait
FORGET_SECONDS = 600
LEDGER_SECONDS = 0.1  # how long an end that no person decided may wait to be written
LATEST = 1e11  # seconds: the year 5138, and still a date that can be shown
DETAIL_CHARACTERS = 200  # of a command or path in the ledger


class Desk:
    """One per server."""

    def __init__(
        self,
        settings: Settings,
        notifier: Notifier,
        rule_writer: RuleWriter,
        ledger: Ledger,
        timers: Timers,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.notifier = notifier
        self._rule_writer = rule_writer
        self._ledger = ledger
        self._timers = timers
        self._clock = clock
        self._armed = math.inf  # when the next look at the deadlines is due
        self._timeout = settings.permission_request_timeout
        self._looking = False
        self._next_look = 0
        self._closed = False
        self._handed_over = False
        self._unwritten: list[dict[str, Any]] = []  # entries of the ledger
        self.requests = RequestManager(
            settings.permission_request_timeout,
            settings.permission_timeout_action,
            settings.feishuperm_lang,
            self._ended,
            clock,
        )
        self._later(FORGET_SECONDS, self._forget)

    # In.

    def register(
        self,
        id: str,
        raw: bytes,
        project: str,
        waiter: Waiter,
        before: str = "",
    ) -> None:
        """Take a request in and show it to people.

        `before` is what the hook knows from a server that went away: "again", or
        "shown" when its card is already in somebody's hand.
        """
        if self._handed_over:
            return  # its connection is about to be closed, which means "again"
        if self._closed:
            waiter.send(b"R")
            return
        now = self._timers.now()
        request = self.requests.register(id, raw, project, waiter, now, bool(before))
        if request is None:
            return
        self._arm()
        waiter.send(b"A", b"%d" % math.ceil(request.deadline - now))
        if request.transcript is None:
            self._watch(request)
        if before == "shown":
            request.shown = True
        self.notifier.announce(
            request, self.requests.mark_shown, self._nobody_sees, push=not request.shown
        )

    def _nobody_sees(self, request: Request, why: str) -> None:
        if self.requests.release(request.id, why):
            log(f"{request.id}: no surface could show it, left to the terminal: {why}")

    def hook_gone(self, waiter: Waiter) -> None:
        """The hook ended by itself: so did its session, or the terminal answered."""
        if self._handed_over:
            return
        request = self.requests.of_waiter(waiter)
        if request is not None and not self._settled_elsewhere(request):
            self.requests.disconnect(waiter)

    # Out.

    def decide(self, id: str, action: str, surface: str, reason: str = "") -> bool:
        """Settle by a button. False: it had ended already, or needs more than a tap."""
        request = self.requests.get(id)
        if request is None or not request.waits() or self._settled_elsewhere(request):
            return False
        row = ACTIONS["/" + action]
        if row.message:
            return bool(self.requests.resolve(id, action, surface, reason))
        if request.tool_name == QUESTION_TOOL:
            return False  # a bare allow is not an answer
        if request.tool_name == PLAN_TOOL:
            # An empty updatedInput is what makes the client leave plan mode.
            return bool(self.requests.answer(id, {}, "approve", surface))
        rules = self._write_rule(request) if row.writes_rule else ()
        return bool(self.requests.resolve(id, action, surface, "", rules))

    def answer(self, id: str, answers: dict[str, str], surface: str) -> bool:
        """Settle a question with the person's answers, keyed by question text."""
        request = self.requests.get(id)
        if request is None or not request.waits() or self._settled_elsewhere(request):
            return False
        if request.tool_name != QUESTION_TOOL:
            return False
        # The client wants the questions repeated in full beside the answers.
        updated = {**request.payload().tool_input, "answers": answers}
        return bool(self.requests.answer(id, updated, "answer", surface))

    def _write_rule(self, request: Request) -> tuple[tuple[str, str], ...]:
        """Write what "always" means; returns the rules for the running session."""
        if request.tool_name in QUIET_TOOLS:
            return ()
        plan = self._plan_rules(request)
        if plan.refusal:
            request.note = plan.refusal
            return ()
        written = self._rule_writer.write(request.project, plan)
        request.rules = written.rules
        request.known_rules = written.already
        request.note = written.problem
        # Nobody is told "this once" and given more.
        return () if written.problem else plan.session_rules

    def preview_rules(self, request: Request) -> tuple[tuple[str, ...], str]:
        """The rules "always" would write, or the text key why it writes none."""
        plan = self._plan_rules(request)
        return plan.rules, plan.refusal

    def _plan_rules(self, request: Request) -> RulePlan:
        payload = request.payload()
        return self._rule_writer.plan(
            request.tool_name, payload.tool_input, request.project, payload.base.cwd
        )

    def seconds_left(self, request: Request) -> int:
        """How long a person still has."""
        return max(0, math.ceil(request.deadline - self._timers.now()))

    def close(self) -> int:
        """Hand everything back, and whatever still comes; returns how many waited."""
        self._closed = True
        return self.release_all("the server stops")

    def hand_over(self) -> int:
        """Keep what waits undecided for the next server; returns how many wait."""
        self._handed_over = True
        return self.requests.waiting_count()

    def release_all(self, reason: str) -> int:
        """Hand everything back to the terminals; returns how many."""
        waiting = self.requests.waiting()
        for request in waiting:
            self.requests.release(request.id, reason)
        return len(waiting)

    # The terminal's answer, seen in the transcript.

    def _watch(self, request: Request) -> None:
        payload = request.payload()
        agent = payload.fields.get("agent_id")
        request.transcript = transcript.begin(
            payload.transcript_path(),
            payload.tool_name,
            payload.tool_input,
            agent if isinstance(agent, str) else "",
        )
        if request.transcript is not None and not self._looking:
            self._looking = True
            self._later(TRANSCRIPT_SECONDS, self._look)

    def _look(self) -> None:
        """Look at the next few transcripts; go on while anything waits."""
        waiting = self.requests.waiting()
        start = self._next_look if self._next_look < len(waiting) else 0
        self._next_look = start + TRANSCRIPTS_PER_LOOK
        for request in waiting[start : self._next_look]:
            self._settled_elsewhere(request)
        self._looking = bool(waiting)
        if waiting:
            self._later(TRANSCRIPT_SECONDS, self._look)

    def _settled_elsewhere(self, request: Request) -> bool:
        """End the request if its session has gone on without us."""
        watch = request.transcript
        if watch is None or watch.check() not in (
            transcript.ANSWERED,
            transcript.MOVED_ON,
        ):
            return False
        self.requests.end_in_terminal(request.id)
        return True

    # Time.

    def _later(self, seconds: float, fn: Callable[[], None]) -> None:
        self._timers.call_at(self._timers.now() + seconds, fn)

    def _arm(self) -> None:
        """Wake up at the nearest deadline; one timer serves them all."""
        deadline = self.requests.next_deadline()
        if deadline is not None and deadline < self._armed:
            self._armed = deadline
            self._timers.call_at(deadline, self._expire)

    def _expire(self) -> None:
        self._armed = math.inf
        self.requests.expire(self._timers.now())
        self._arm()

    # Memory.

    def _ended(self, request: Request) -> None:
        entry = ledger_entry(request)
        request.summary = entry["summary"]
        self.notifier.settle(request)
        log(f"{request.id}: {request.tool_name}: {request.action or request.state}")
        if request.tool_name in QUIET_TOOLS:
            return
        self._unwritten.append(entry)
        if request.action:
            self.write_ledger()  # a person is told only of what is on the disk
        elif len(self._unwritten) == 1:
            self._later(LEDGER_SECONDS, self.write_ledger)

    def write_ledger(self) -> None:
        """Write down what ended by itself: thousands at once cost one write."""
        entries, self._unwritten = self._unwritten, []
        try:
            if entries:
                self._ledger.extend(entries)
        except OSError as error:
            log(f"{len(entries)} ends are not in the ledger: {error}", "error")

    def remember(self) -> None:
        """Learn from the ledger how requests before this start ended."""
        try:
            entries = self._ledger.recent(REMEMBER_SECONDS)
        except OSError as error:
            log(f"the ledger cannot be read: {error}", "error")
            return
        for entry in entries:
            request = remembered(entry)
            if request is not None:
                self.requests.restore(request)

    def _forget(self) -> None:
        self.requests.forget()
        self._later(FORGET_SECONDS, self._forget)


def ledger_entry(request: Request) -> dict[str, Any]:
    """The record of one end: enough to know what was decided, not to repeat it."""
    payload = request.payload()
    detail = extract_tool_detail(request.tool_name, payload.tool_input)
    shown = detail.blocks[0].text if detail.blocks else ""
    canonical = json.dumps(payload.tool_input, sort_keys=True)
    return {
        "event": "request",
        "id": request.id,
        "state": request.state,
        "action": request.action,
        "surface": request.surface,
        "reason": request.reason,
        "rules": list(request.rules),
        "denied": request.decision is not None and request.decision.is_denial(),
        "tool": request.tool_name,
        "summary": detail.summary,
        "detail": redact(shown)[:DETAIL_CHARACTERS],
        "digest": hashlib.sha256(canonical.encode("utf-8", "replace")).hexdigest(),
        "project": request.project,
        "session": payload.session_id(),
        "created": round(request.created, 3),
        "ended": round(request.ended, 3),
    }


def remembered(entry: dict[str, Any]) -> Request | None:
    """The end a ledger entry tells of, or None if it tells of something else."""
    state = entry.get("state")
    if entry.get("event") != "request" or state not in TRANSITIONS or state == WAITING:
        return None
    try:
        return _remembered(entry, state)
    except (KeyError, TypeError, ValueError):  # somebody edited the file
        return None


def _remembered(entry: dict[str, Any], state: str) -> Request:
    id, tool_name = str(entry["id"]), str(entry["tool"])
    created, ended = float(entry["created"]), float(entry["ended"])
    action = str(entry["action"])
    if action not in DECIDING[state] or not 0 <= created <= ended < LATEST:
        raise ValueError
    request = Request(id, b"", tool_name, str(entry["project"]), created)
    request.state = state
    request.action = action
    request.surface = str(entry["surface"])
    request.rules = tuple(map(str, entry["rules"]))
    request.summary = str(entry["summary"])
    request.ended = ended
    # Whether the clock denied it; its hook has long been told.
    request.decision = Decision.deny() if entry["denied"] else None
    return request
