"""The approvals: requests come in, decisions go out.

It ties the parts together in the order a request lives: register, put into words,
announce, watch the transcript; then intend, write the rule, decide, record.  Handlers
and channels (`channels.base.ApprovalsPort`) call it with plain values; it knows neither
frames nor HTTP.  Everything runs on the loop's thread, so between looking at a request
and settling it nothing can happen.

What a person decides is on the disk, as an intent, before it takes effect.  If it
cannot be written nothing is granted: the terminal asks instead, and the person is told.
A refusal goes through all the same; its record follows when the disk takes it.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Generator, Iterable
from functools import partial
from typing import Any

from feishuperm.agents.table import ACP, AGENTS, CLAUDE, options_of, output_of
from feishuperm.channels.base import NOT_UNDONE
from feishuperm.errors import FeishupermError
from feishuperm.lib.display import one_line
from feishuperm.lib.log import log
from feishuperm.messages import message_of
from feishuperm.models import ask as statuses
from feishuperm.models import request as states
from feishuperm.models.ask import Answer, Ask, Outcome, Receipt, from_plain, to_plain
from feishuperm.models.decision import Decision
from feishuperm.models.form import Wrong
from feishuperm.models.kind import KINDS, Action, kind_of
from feishuperm.models.names import (
    DOCTOR_ANSWER,
    DOCTOR_TOOL,
    NOT_AS_SHOWN,
    NOT_OFFERED,
)
from feishuperm.models.payload import AskPayload, PreToolUsePayload
from feishuperm.models.request import Request
from feishuperm.models.settings import Settings
from feishuperm.protocol.frames import HookRequest
from feishuperm.services.grants import DAY as PASS_SECONDS
from feishuperm.services.grants import (
    AskMark,
    OneTimeAllows,
    Pass,
    Passes,
    call_digest,
    digest_of,
)
from feishuperm.services.history import UNDO, Undone, undo_last, undo_rules
from feishuperm.services.ledger import Ledger
from feishuperm.services.notifier import Notifier
from feishuperm.services.presenter import (
    STALE_PASS,
    Presenter,
    context,
    names,
    read_danger,
)
from feishuperm.services.request_manager import (
    LARGE,
    REMEMBER_SECONDS,
    RequestManager,
    Waiter,
    intent_entry,
    ledger_entry,
    refusal_entry,
    remembered,
)
from feishuperm.services.rule_writer import RulePlan, RuleWriter, WriteResult
from feishuperm.services.session_reader import figures
from feishuperm.services.transcript import (
    AT_TERMINAL_SECONDS,
    GIVEN_BACK_SECONDS,
    Timers,
    Watcher,
    is_headless,
)
from feishuperm.tables import rows

# A card waits so long for the words before its call: the client writes them down while
# it starts the hook, and they arrived within 0.1 s whenever that was measured.
WORDS_SECONDS = 0.3
WORDS_LOOK_SECONDS = 0.05
FORGET_SECONDS = 600
SESSIONS = 1000  # whose last answer at the terminal is remembered
LEDGER_SECONDS = 0.1  # how long an end that no person decided may wait to be written
LEDGER_AGAIN_SECONDS = 1.0  # between tries while the disk does not take it
LEDGER_LAST_TRIES = 20  # when the server ends, LEDGER_SECONDS apart
# What FEISHUPERM_SURFACES must name for an answer from each surface, if not its name.
PLACES = {
    "link": ("webhook", "inbox"),
    "page": ("webhook", "inbox"),
    "card": ("app",),
    "message": ("app",),
}
UNDOABLE = ("card", "message", "gateway")  # surfaces whose last rules the chat can undo
# Where an owner types; a gateway, which somebody else may run, could make words up.
TYPED_ON = ("card", "message", "page", "inbox")
NEXT_TURN = 0.005  # seconds: a timer that is due at once runs in the same turn
TURN_SECONDS = 0.02  # of work for the words of one request in a turn
REFUSED_MOST = 1000  # attempts that are written down: a loop must not fill the disk
SAMPLES_MOST = 50  # kinds of request whose asks are packed well
SAID = rows("services/sentences.txt", "refused")
NO_PLAN = RulePlan()


class Refusal(Exception):
    """An answer that is not carried out, and what is said to it."""

    def __init__(self, receipt: Receipt) -> None:
        super().__init__(receipt.error)
        self.receipt = receipt


class Approvals:
    """One per server."""

    def __init__(
        self,
        settings: Settings,
        presenter: Presenter,
        notifier: Notifier,
        rule_writer: RuleWriter,
        ledger: Ledger,
        timers: Timers,
        clock: Callable[[], float] = time.time,
        in_thread: Callable[..., object] = lambda work, then: then(work()),
    ) -> None:
        self.presenter = presenter
        self.notifier = notifier
        self._rule_writer = rule_writer
        self._ledger = ledger
        self.ledger_state = ledger.state
        self._surfaces = settings.surfaces()
        self._timers = timers
        self._clock = clock
        self._in_thread = in_thread  # work of its own values, then a call on the loop
        self._armed = math.inf  # when the next look at the deadlines is due
        self._answered: dict[str, float] = {}  # when a session's dialog was, last
        self._given_back: set[str] = set()  # sessions of serial agents, while typed in
        self._timeout = settings.permission_request_timeout
        self._delay = settings.permission_notify_delay
        self._gives_back = settings.permission_subagent_action == "terminal"
        self.has_receipts = False  # a channel tells which cards were read
        self._closed = False
        self._handed_over = False
        self._intents: dict[str, int] = {}  # of requests that end right now
        self._samples: dict[tuple[str, str], bytes] = {}  # asks that others resemble
        self._flushing = False
        self._refused: set[tuple[str, str]] = set()  # ids, and what was tried
        self.mark = AskMark(settings.permission_socket_path)
        self._one_time_allows = OneTimeAllows(ledger, self.mark, clock, timers.now)
        # What a person typed for a session, on a surface of this machine's own.
        self.on_typed: Callable[[str, list[str]], object] = lambda session, words: None
        self.passes = Passes(ledger, clock, timers.now)
        self.quiet_hours = notifier.quiet.now
        self.end_quiet = notifier.end_quiet
        self.requests = RequestManager(settings, self._ended, clock, notifier.quiet)
        notifier.serve(self.requests, self._card_delay)
        self.watcher = Watcher(
            self.requests, timers, self._hear_words, self._learn_result
        )
        self._later(FORGET_SECONDS, self._forget)

    # In.

    def register(
        self, hook: HookRequest, payload: AskPayload, waiter: Waiter
    ) -> Request | None:
        """Take a request in and show it to people; `payload` is its event, decoded.

        Returns the request, if it waits.
        """
        if self._handed_over:
            return None  # its connection is about to be closed, which means "again"
        if payload.tool_name == DOCTOR_TOOL and not self._closed:
            # It rings no phone, and never means "yes".
            answer = Decision.deny(DOCTOR_ANSWER)
            waiter.send(b"D", output_of(hook.agent, answer))
            return None
        if self._closed or self._user_is_typing(hook, payload):
            waiter.send(b"R")
            return None
        now, patience = self._timers.now(), self._patience(payload)
        request = self.requests.register(hook, payload, waiter, now, patience)
        if request is None:
            return None
        if KINDS[request.kind].alone:
            self.session_over(request.session, request)
        self._arm()
        waiter.send(b"A", b"%d" % math.ceil(request.deadline - now))
        self.requests.tell_extended(request, now)
        self._watch(request, payload)
        if self._has_no_dialog(payload) and not patience:
            self._look_at_terminal(request, payload.transcript_path())
        request.asked = now
        show = partial(self._show, request, payload)
        ask = request.ask()
        if ask is not None:  # its hook is back at the same server
            show(ask)
            return request
        work = partial(
            self._in_turns, request, self.presenter.brief(request, payload), show
        )
        if len(hook.raw) > LARGE:
            self._later(NEXT_TURN, work)
        else:
            work()
        return request

    def _watch(self, request: Request, payload: AskPayload) -> None:
        """Learn from a transcript why a call is made, and whether it is over."""
        if request.agent == CLAUDE:
            self.watcher.begin(request, payload)
        else:  # from theirs only what was said can be learnt
            self._hear_words(request, payload.transcript_path())

    def _in_turns(
        self,
        request: Request,
        steps: Generator[None, None, Ask],
        then: Callable[[Ask], object],
    ) -> None:
        """Put a request into words, a large one in many turns; others have theirs."""
        if not request.waits() or self._handed_over:
            return
        until = self._timers.now() + TURN_SECONDS
        try:
            while self._timers.now() < until:
                next(steps)
        except StopIteration as done:
            then(done.value)
        else:
            self._later(NEXT_TURN, partial(self._in_turns, request, steps, then))

    def _show(self, request: Request, payload: AskPayload, ask: Ask) -> None:
        """Let a pass answer, or people."""
        self._keep_ask(request, ask)
        if request.passable and self._goes_through(request, payload):
            return
        if request.stale_pass:
            changed = self.presenter.say(STALE_PASS, id=request.stale_pass)
            self._keep_ask(request, ask._replace(facts=(*ask.facts, changed)))
        self.notifier.announce(request, push=not request.shown)

    def _keep_ask(self, request: Request, ask: Ask) -> None:
        """Let a request hold its ask, beside the first one of its kind and tool."""
        sample = (request.kind, request.tool_name)
        whole = request.keep_ask(ask, self._samples.get(sample, b""))
        if len(self._samples) < SAMPLES_MOST and len(whole) <= LARGE:
            self._samples.setdefault(sample, whole)

    def _goes_through(self, request: Request, payload: AskPayload) -> bool:
        """Answer a request by a pass, if one covers it.

        The use is on the disk before anything is allowed; where it cannot be written,
        people are asked as ever.
        """
        action = KINDS[request.kind].action("allow")
        if not self.passes.rows or action is None:
            return False
        call = self._pass_call(request, payload)
        row = self.passes.find(call)
        ended = self.passes.end_stale(call)
        if row is None:
            request.stale_pass = ended[0].id if ended else ""
            return False
        request.pass_id = row.id
        answer = Answer(request.id, action.name, surface="pass", who=row.who)
        if not self._intend(request, action, answer, NO_PLAN):
            request.pass_id = ""
            return False
        self.passes.spend(row.id)
        self.requests.resolve(answer, action, Decision.allow())
        return True

    def _pass_call(self, request: Request, payload: AskPayload) -> Pass:
        plan = self.presenter.plan(request, payload)
        return Pass(
            # A rule that is broad would let more through.
            rules=() if plan.confirm else plan.rules,
            call=call_digest(payload),
            session=request.session,
            project=os.path.realpath(request.project),
            folder=request.folder,
            files=digest_of(request.files),
        )

    def _user_is_typing(self, hook: HookRequest, payload: AskPayload) -> bool:
        """Whether somebody has typed since the hook began, or a moment before.

        Where a moment counts, an answer to a dialog of that session does as well.
        """
        kind = kind_of(payload.tool_name, payload.EVENT)
        if not kind.alone and (hook.shown or not kind.typed_seconds):
            return False
        if kind.alone:  # nobody had for a minute
            typed = figures(payload.transcript_path()).typed
            return typed >= int(hook.id.partition("-")[0])
        idle = self._idle_seconds(payload.session_id(), payload.transcript_path())
        return 0 <= idle < kind.typed_seconds

    def _idle_seconds(self, session: str, path: str, agent: str = CLAUDE) -> float:
        """Since somebody typed in a session, or answered a dialog of it."""
        for other in self.requests.waiting():
            if other.session == session:
                self.watcher.settled(other)
        typed = figures(path, agent).typed
        latest = max(typed, self._answered.get(session, 0.0))
        return self._clock() - latest

    # While some hooks wait no dialog is shown: a subagent's, and a serial agent's.

    def _patience(self, payload: AskPayload) -> int:
        """Seconds for such a request while a person is at its terminal.

        0: as many as any other has.
        """
        session, path = payload.session_id(), payload.transcript_path()
        if not self._has_no_dialog(payload):
            return 0
        if session in self._given_back:  # to the person who has answered there since
            self._given_back.discard(session)
            self._note_answered(session)
        soon = self._is_locked_out(session, path, payload.agent)
        return min(GIVEN_BACK_SECONDS, self._timeout) if soon else 0

    def _has_no_dialog(self, payload: AskPayload) -> bool:
        of_a_call = kind_of(payload.tool_name, payload.EVENT).of_a_call
        of_subagent = self._gives_back and payload.agent_id()
        return bool(of_a_call and (AGENTS[payload.agent].is_serial or of_subagent))

    def _is_locked_out(self, session: str, path: str, agent: str) -> bool:
        """Whether a person sits at a terminal that cannot ask them."""
        idle = self._idle_seconds(session, path, agent)
        return 0 <= idle < AT_TERMINAL_SECONDS and not is_headless(path)

    def _look_at_terminal(self, request: Request, path: str) -> None:
        """Give such a request back once somebody comes to its terminal."""

        def look() -> None:
            if not request.waits() or request.extended or self._handed_over:
                return
            if self._is_locked_out(request.session, path, request.agent):
                self.requests.give_back(request, GIVEN_BACK_SECONDS)
            else:
                self._later(GIVEN_BACK_SECONDS, look)

        self._later(GIVEN_BACK_SECONDS, look)

    def session_over(self, session: str, newest: Request | None = None) -> None:
        """A session has ended, or was cleared: nothing may wake what comes after.

        Or it has gone on: of those that wait in it only the newest does.
        """
        for request in self.requests.waiting() if session else ():
            alone = KINDS[request.kind].alone and request.session == session
            if alone and request is not newest:
                self.requests.end(request, states.GONE)

    def let_through(self, payload: PreToolUsePayload, waiter: Waiter) -> None:
        """A tool call begins: a person may have let it through before, once."""
        id = "" if self._handed_over else self._one_time_allows.spend(payload)
        if not id:
            waiter.send(b"R")
            return
        log(f"{id}: the call that auto mode refused is let through")
        self._flush_later(LEDGER_SECONDS)
        reason = self.presenter.say("The user lets this call through, once")
        waiter.send(b"D", Decision.let_through(reason).to_stdout())

    def hook_gone(self, waiter: Waiter) -> None:
        """The hook ended by itself: so did its session, or the terminal answered."""
        if self._handed_over:
            return
        request = self.requests.of_waiter(waiter)
        if request is not None and not self.watcher.settled(request):
            # A dialog that is open beside the hook has ended it.
            is_beside = not (request.serial or request.agent in (CLAUDE, ACP))
            state = states.TERMINAL if is_beside else states.GONE
            self.requests.end(request, state, hears=False)

    def extend_deadline(self, id: str, who: str = "") -> bool:
        """Somebody reads a request, or says so: its hook waits as long as it can.

        That is `PERMISSION_HOLD` more, given once; whether the request has it.
        """
        request = self.requests.get(id)
        if request is None or not request.waits() or self.watcher.settled(request):
            return False
        if self.requests.extend(request, self._timers.now()):
            log(f"{id}: the clock is stopped, {who or 'somebody'} reads")
            self.notifier.renew()
        return request.extended

    def note_seen(self, ids: Iterable[str], at: float) -> None:
        """The cards of these requests were read, which answers none of them.

        The channel learns of every card that is read: so "not seen" is certain.
        """
        self.has_receipts = True
        pending = [request for request in map(self._pending, ids) if request]
        for request in pending:
            request.seen = request.seen or at
        if pending:
            self.notifier.renew()

    def tell_pass(self, row: Pass) -> None:
        """A pass that no card shows: people are told, no matter who typed it."""
        self.notifier.notify(self.presenter.made_pass(row, self._clock()))
        self.notifier.renew()

    def revoke_passes(self, id: str, surface: str, who: str = "") -> list[Pass]:
        """End a pass, or "all"; people who look see it."""
        ended = self.passes.revoke(id, surface, who)
        self._flush_later(LEDGER_SECONDS)
        self.notifier.renew()
        return ended

    # Out.

    def answer(self, answer: Answer) -> Receipt:
        """The one door for every answer, whatever surface it comes from."""
        request = self.requests.get(answer.id)
        if request is None:
            return Receipt(statuses.UNKNOWN)
        if not request.waits() or self.watcher.settled(request):
            return self._receipt(statuses.ENDED, request)
        try:
            self._settle(request, self._button(request, answer), answer)
        except Refusal as refusal:
            return refusal.receipt
        return self._receipt(statuses.SETTLED, request)

    def _button(self, request: Request, answer: Answer) -> Action:
        """What was tapped. Raises Refusal: not here, not offered, not as shown."""
        if self._handed_over:  # its hook could not hear it any more
            raise self._refusal(SAID["restarted"], statuses.INCOMPLETE)
        if not self._may_answer(answer.surface):
            raise self._refusal(SAID["not here"])
        row = KINDS[request.kind].action(answer.action)
        if row is None or (row.tools and request.tool_name not in row.tools):
            raise self._refusal(NOT_OFFERED)
        if row.name not in request.offered:
            raise self._refusal(NOT_OFFERED)
        if answer.digest and answer.digest != request.short_digest():
            raise self._refusal(NOT_AS_SHOWN)
        if is_hidden_from(request, row, answer.surface):
            raise self._refusal(SAID["masked"])
        return row

    def undo(self, id: str, surface: str, who: str = "") -> Receipt:
        """Undo the rules that an answer wrote; the door is that of `log undo`."""
        request = self.requests.get(id)
        if request is None:
            return Receipt(statuses.UNKNOWN)
        if not self._may_answer(surface):
            return self._refusal(SAID["not here"]).receipt
        if request.waits() or not request.rules:
            return self._refusal(NOT_OFFERED).receipt
        try:
            self._ledger.flush()
            done = undo_rules(self._ledger, self._rule_writer, id, request.created)
        except FeishupermError as error:
            log(f"{id}: its rules were not undone: {error}", "error")
            return self._refusal(NOT_UNDONE).receipt
        if done.entry:
            self.record({**done.entry, "surface": surface, "who": who})
        request.undone = True
        log(f"{id}: rules undone")
        self._tell_update(request)
        return self._receipt(statuses.SETTLED, request)

    def learn_undo(self, id: str) -> bool:
        """Rules were undone elsewhere, says the ledger; whether that is new."""
        request = self.requests.get(id)
        if request is None or not request.rules or request.undone:
            return False
        entries = self._ledger.find(id, request.created)
        request.undone = any(entry.get("event") == UNDO for entry in entries)
        if request.undone:
            self._tell_update(request)
        return request.undone

    def undo_last(self, who: str, then: Callable[[list[str], str], object]) -> None:
        """Undo the last rules that were written in the chat; `then` gets them later.

        The ledger may be long, so a thread reads it, with a ledger and a writer of its
        own, as `log undo` does in a process of its own.
        """

        def work() -> tuple[Undone | None, str]:
            try:
                return undo_last(Ledger(), RuleWriter(), UNDOABLE, who), ""
            except FeishupermError as error:
                return None, message_of(error)

        def tell(result: tuple[Undone | None, str]) -> None:
            done, error = result
            if done is not None:
                self.learn_undo(done.id)
            rules = done.rules.items() if done is not None else ()
            then([rule for rule, removed in rules if removed], error)

        self._in_thread(work, tell)

    def _may_answer(self, surface: str) -> bool:
        """Whether the user lets requests be answered there."""
        return not self._surfaces.isdisjoint(PLACES.get(surface, (surface,)))

    def _settle(self, request: Request, row: Action, answer: Answer) -> None:
        """Write what the button says, then end the request. Raises Refusal."""
        # Most answers need no look at the event, which may have megabytes.
        looks = KINDS[request.kind].content or row.needs or row.lasts
        payload = request.payload() if looks else None
        decision = self._decision(request, payload, row, answer)
        plan, ran = NO_PLAN, row.ran(decision)
        if payload is not None:
            plan = self._agreed(request, payload, row, answer)
            if ran:  # the record is of that, not of what was asked for
                reading = read_danger(payload, request.project, decision.updated_input)
                request.danger = names(reading)
        if not self._intend(request, row, answer, plan, ran):
            # Nothing is granted that nobody could look up later.
            self.requests.release(request, "the ledger could not be written")
            raise self._refusal(SAID["not recorded"])
        self._carry_out(request, row, answer, decision, plan)

    def _decision(
        self, request: Request, payload: AskPayload | None, row: Action, answer: Answer
    ) -> Decision:
        """What the answer becomes. Raises Refusal: something is missing or wrong."""
        kind, tool_input = KINDS[request.kind], payload.tool_input if payload else {}
        if not row.message and not kind.may_grant(tool_input):
            raise self._refusal(NOT_OFFERED)
        decision = kind.reply(row, tool_input, answer, self.presenter.say)
        if isinstance(decision, str):
            raise self._refusal(decision, statuses.INCOMPLETE)
        if isinstance(decision, Wrong):
            error = self.presenter.say(decision.key, field=decision.field)
            raise Refusal(Receipt(statuses.INCOMPLETE, error=error))
        return decision

    def _agreed(
        self, request: Request, payload: AskPayload, row: Action, answer: Answer
    ) -> RulePlan:
        """The rules that it writes, and its pass, once the person has read which.

        Raises Refusal: they have not, or there is no such pass.
        """
        plan = self.presenter.plan(request, payload) if row.writes_rule else NO_PLAN
        own = options_of(request.agent, payload.fields).get(row.name, "")
        plan = RulePlan(confirm=own, kept=(own,)) if own and row.writes_rule else plan
        if plan.confirm and not answer.confirmed:
            raise self._refusal(plan.confirm, statuses.CONFIRM)
        if row.passes:
            self._draw_up_pass(request, payload, row, answer)
        return plan

    def _carry_out(
        self,
        request: Request,
        row: Action,
        answer: Answer,
        decision: Decision,
        plan: RulePlan,
    ) -> None:
        """Do what is on the disk as an intent."""
        written = WriteResult(already=plan.kept, problem=plan.refusal)
        if plan.rules:
            written = self._rule_writer.write(request.project, plan)
        request.answers = self.presenter.answers(decision)
        request.note = plan.note if plan.rules else ""
        # Nobody is told "this once" and given more.
        rules = () if written.problem else plan.session_rules
        decision = decision._replace(updated_rules=rules)
        if row.reprieves:
            self._one_time_allows.grant(request)
        if row.passes:
            self.passes.add(from_plain(Pass, request.grants))
        head = self._ledger.head() if request.id in self._intents else ""
        typed = KINDS[request.kind].typed(row, answer)
        if typed and answer.surface in TYPED_ON:
            self.on_typed(request.session, typed)
        self.requests.resolve(answer, row, decision, written, head)

    def _draw_up_pass(
        self, request: Request, payload: AskPayload, row: Action, answer: Answer
    ) -> None:
        """The pass that an answer makes, kept with the request. Raises Refusal."""
        may_pass = request.passable and request.is_worded
        if not may_pass or not self.passes.has_room():
            raise self._refusal(NOT_OFFERED)
        call = self._pass_call(request, payload)
        if not answer.confirmed:
            words = self.presenter.pass_words(row.name, request, call.rules)
            raise Refusal(Receipt(statuses.CONFIRM, error=words))
        digest = "" if call.rules else call.call
        shown = self.presenter.pass_scope(request, call.rules)
        scope = call._replace(call=digest, shown=shown, who=answer.who)
        request.grants = to_plain(self.passes.draft(scope, row.passes))

    def _intend(
        self,
        request: Request,
        row: Action,
        answer: Answer,
        plan: RulePlan,
        ran: str = "",
    ) -> bool:
        """Put on the disk what is about to be done; whether it may be done."""
        rules = self._rule_writer.fresh(request.project, plan)
        try:
            self._intents[request.id] = self._ledger.intend(
                intent_entry(request, row, answer, rules, ran)
            )
        except OSError as error:
            log(f"{request.id}: the ledger cannot be written: {error}", "error")
            return bool(row.message)
        return True

    def _receipt(self, status: str, request: Request) -> Receipt:
        return Receipt(status, self.outcome_of(request))

    def _refusal(self, key: str, status: str = statuses.REFUSED) -> Refusal:
        """Nothing is done; the sentence that says why quotes no request."""
        return Refusal(Receipt(status, error=self.presenter.say(key), fixed=True))

    def refuse(self, id: str, what: str, who: str) -> Receipt:
        """The session that asks tried to answer itself: nothing is done but told.

        It stands in the ledger once for each thing tried, and where the request ends;
        people are told, since a card that is out cannot say it.
        """
        request = self.requests.get(id)
        error = self.presenter.say(SAID["own session"], process=who)
        told = self._note_attempt(id, what, who, what)
        if told and request is not None and request.waits():
            is_new, request.tried = not request.tried, who
            if is_new:
                self.notifier.notify(self.presenter.tried(request, self._clock()))
        return Receipt(statuses.REFUSED, error=error)

    def note_refused(self, id: str, action: str, who: str) -> None:
        """Somebody tapped who must not, or on a card that is not the request's."""
        id, action, who = (one_line(said, 64) for said in (id, action, who))
        self._note_attempt(id, action, who, f"{action} {who}")

    def _note_attempt(self, id: str, what: str, who: str, once: str) -> bool:
        """Write down what somebody tried; whether it is new, by `once`."""
        if (id, once) in self._refused or len(self._refused) >= REFUSED_MOST:
            return False
        self._refused.add((id, once))
        log(f"{id}: refused {what!r} to {who}, who may not", "warning")
        self.record(refusal_entry(self.requests.get(id), what, who))
        return True

    # What channels and pages ask; see `channels.base.ApprovalsPort`.

    def is_pending(self, id: str) -> bool:
        return self._pending(id) is not None

    def _pending(self, id: str) -> Request | None:
        request = self.requests.get(id)
        return request if request is not None and request.waits() else None

    def seconds_left(self, id: str) -> int:
        """How long a person still has for a pending request."""
        request = self._pending(id)
        if request is None:
            return 0
        return max(0, math.ceil(request.deadline - self._timers.now()))

    def ask(self, id: str) -> Ask | None:
        """A pending request as cards show it."""
        request = self._pending(id)
        return None if request is None else request.ask()

    def whole(self, id: str, most: int, then: Callable[[Ask], object]) -> bool:
        """The same with nothing cut, later; False if it has more bytes than that."""
        request = self._pending(id)
        if request is None or len(request.raw) > most:
            return False
        self._in_turns(request, self.presenter.whole(request), then)
        return True

    def outcome(self, id: str) -> Outcome | None:
        """How a request ended; None of one that has not."""
        request = self.requests.get(id)
        if request is None or request.waits():
            return None
        return self.outcome_of(request)

    def outcome_of(self, request: Request) -> Outcome:
        """How this request ended, in words that are made once."""
        if request.outcome is None:
            request.outcome = self.presenter.outcome(request)
        return request.outcome

    def _hear_words(self, request: Request, path: str | bytes) -> None:
        """What was said before its call stands in a transcript now."""
        turn = figures(path, request.agent)
        request.why, request.prompt = context(turn.said, turn.prompt)
        if request.is_worded:
            self.notifier.renew()

    def _learn_result(self, request: Request) -> None:
        """How the call went on has become known."""
        if request.is_given_back():
            # The dialog at the terminal came after it, and was answered there.
            self._note_answered(request.session)
        self._tell_update(request)

    def _tell_update(self, request: Request) -> None:
        """More is known of a request that has ended."""
        request.outcome = None
        self.notifier.update(self.outcome_of(request))

    def status(self) -> list[tuple[str, str]]:
        """Pending requests: the title of each, and a line about it."""
        return self.presenter.waiting(self.requests.waiting())

    def pass_rows(self) -> list[tuple[str, str, str]]:
        """Passes: id, what each lets through, until when."""
        return self.presenter.pass_rows(self.passes)

    # The end of the server.

    def close(self) -> int:
        """Release every request, also those that still come; returns how many."""
        self._closed = True
        return self.release_all("the server stops")

    def hand_over(self) -> int:
        """Leave pending requests to the next server; returns how many there are."""
        self._handed_over, self.watcher.ends_requests = True, False
        return len(self.requests.waiting())

    def release_all(self, reason: str) -> int:
        """Hand everything back to the terminals; returns how many."""
        waiting = self.requests.waiting()
        for request in waiting:
            self.requests.release(request, reason)
        return len(waiting)

    # Time.

    def _card_delay(self, request: Request) -> float:
        """How long a card should wait before it is looked at again; 0: send it."""
        passed = self._timers.now() - request.asked
        if passed < WORDS_SECONDS and self.watcher.words_may_come(request):
            return WORDS_LOOK_SECONDS
        if KINDS[request.kind].blocks_terminal:
            return 0.0  # nobody at the terminal could answer meanwhile
        return max(0.0, self._delay - passed)

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
        if not self._handed_over:
            self.requests.expire(self._timers.now())
            self._arm()

    # Memory.

    def _ended(self, request: Request) -> None:
        if request.state == states.TERMINAL:
            self._note_answered(request.session)
        if request.serial and request.is_given_back() and request.patience:
            self._given_back.add(request.session)
        self.watcher.end(request)
        self.notifier.settle(self.outcome_of(request))
        log(f"{request.id}: {request.tool_name}: {request.action or request.state}")
        intent = self._intents.pop(request.id, None)
        if intent is not None:
            self._ledger.finish(intent, ledger_entry(request))
        else:
            self._ledger.note(ledger_entry(request))
            if request.action:  # it has no intent: at least a kill must not take it
                self._ledger.flush()
        self._flush_later(LEDGER_SECONDS)

    def _note_answered(self, session: str) -> None:
        """Somebody has just answered a dialog at a session's terminal."""
        self._answered.pop(session, None)
        self._answered[session] = self._clock()
        while len(self._answered) > SESSIONS:
            del self._answered[next(iter(self._answered))]

    def record(self, entry: dict[str, Any]) -> None:
        """Write it down soon: thousands at once cost one write."""
        self._ledger.note(entry)
        self._flush_later(LEDGER_SECONDS)

    def _flush_later(self, seconds: float) -> None:
        if not self._flushing:
            self._flushing = True
            self._later(seconds, self._flush)

    def _flush(self) -> None:
        """Write what is not on the disk yet; try again until it is there."""
        self._flushing = False
        if self._ledger.flush():
            failed = self._ledger.problem
            self._flush_later(LEDGER_AGAIN_SECONDS if failed else LEDGER_SECONDS)

    def write_ledger(self, pause: Callable[[float], object] = time.sleep) -> None:
        """The server ends: a last chance for what could not be written so far."""
        for _ in range(LEDGER_LAST_TRIES):
            if not self._ledger.flush():
                return
            pause(LEDGER_SECONDS)
        log(f"{self._ledger.pending()} ends are not in the ledger", "error")

    def remember(self) -> None:
        """Learn from the ledger how requests before this start ended."""
        try:
            for end in self._ledger.recover():
                if end.get("rules"):
                    self._rule_writer.tidy(str(end.get("project")))
            if self._ledger.pending():
                self._flush_later(LEDGER_SECONDS)
            entries = self._ledger.recent(REMEMBER_SECONDS)
            vouched = self._ledger.vouched(PASS_SECONDS)
        except OSError as error:
            log(f"the ledger cannot be read: {error}", "error")
            return
        self._one_time_allows.restore(vouched)
        # What could not be written yet may end some of them.
        self.passes.restore([] if self._ledger.pending() else vouched)
        for entry in entries:
            request = remembered(entry)
            undone = self.requests.get(str(entry.get("id")))
            if request is not None:
                self.requests.restore(request)
            elif undone is not None and entry.get("event") == UNDO:
                undone.undone = True

    def _forget(self) -> None:
        self.requests.forget()
        self._one_time_allows.forget()
        self._refused.clear()
        self._later(FORGET_SECONDS, self._forget)


def is_hidden_from(request: Request, row: Action, surface: str) -> bool:
    """Whether an answer would grant what its surface has not shown whole.

    A mask leaves an approval of this once, as long as it hides a secret and no more;
    only the request's own page shows what it hides.
    """
    if surface in ("page", "pass") or row.message:
        return False
    return request.veiled or (request.masked and bool(row.writes_rule or row.passes))
