"""What a session does right now, on a card that changes in place; and its end: 停止.

    Stops      the wishes to end a turn
    Typed      what people typed for a session, until its next tool result
    Progress   the cards, and what their buttons do

A wish is for one turn, which the client names in its events (`prompt_id`):

    asked -> stopped   a call of that turn was refused and with it the turn ended; what
                       else its message and its subagents call is refused as well
          -> missed    the turn ended by itself, another began, the session is over, or
                       half an hour has passed: nothing is refused any more
          -> failed    a background session, which `claude stop` could not end

A subagent that is stopped wakes its session; such a turn, which no person began, is
still the one that was meant.

Cards are looked at one after the other, and change only where something has changed;
how often a message may change is for the app to say (`app.panels`).  Nothing is sent
that nobody asked for.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, NamedTuple

from feishuperm.channels.base import keep_last
from feishuperm.errors import FeishupermError
from feishuperm.lib import claude_client
from feishuperm.lib.config import claude_settings, home
from feishuperm.lib.display import one_line
from feishuperm.lib.feishu import spent
from feishuperm.lib.files import read_bytes
from feishuperm.lib.log import redact
from feishuperm.messages import message_of, msg
from feishuperm.models.ask import SETTLED, STOP, YES, Answer, Block, last_name
from feishuperm.models.decision import Decision
from feishuperm.models.fields import text_at
from feishuperm.models.kind import KINDS
from feishuperm.models.panel import (
    ERROR,
    INFO,
    SUCCESS,
    WARNING,
    Asker,
    Button,
    Panel,
    Row,
    Told,
)
from feishuperm.models.payload import HookPayload
from feishuperm.models.request import Request
from feishuperm.models.settings import Settings
from feishuperm.services.approvals import Approvals
from feishuperm.services.grants import AskMark
from feishuperm.services.presenter import context
from feishuperm.services.session_reader import Figures, figures, spent_by
from feishuperm.services.sessions import (
    ENDED,
    IDLE,
    OPEN,
    STATES,
    TURN_ENDS,
    WAITING,
    WORKING,
    Session,
    Sessions,
    Then,
    has_agents,
    turn_of,
)
from feishuperm.services.transcript import Timers
from feishuperm.wire import new_id

LOOK, STEP = 1.0, 0.1  # seconds between looks at a card; at least, at any two cards
AGAIN = 300.0  # between looks at all sessions: one that is killed tells of no end
WATCHED = 1800.0  # so long after the last command or tap for it
SLEPT = 60.0  # by which the clocks drift apart when the machine has slept
REST = 60.0  # for the other calls of the message that was stopped
TYPED = 600.0
UNITS = 2000  # of UTF-16: as much as the client hands to its classifier
MOST = 200  # sessions that are kept in mind, and cards
LISTED = 12  # sessions to choose from
ASKED, STOPPED, MISSED, FAILED = "asked", "stopped", "missed", "failed"
HOOKED = re.compile(rb"hook'? session\b")  # in a settings file: `--events session`
DONE = {"completed": "☑", "in_progress": "▶"}
TOLD = {
    (ASKED, False): msg("Stop asked at {time}: it takes effect at the next tool call"),
    (ASKED, True): msg("The background session is being ended, since {time}"),
    (STOPPED, False): msg("The turn was stopped at {time}"),
    (STOPPED, True): msg("The background session was ended at {time}"),
    (MISSED, False): msg("Nothing was stopped: that turn ended by itself ({time})"),
    (FAILED, True): msg("The background session could not be ended: see the log"),
}
FROZEN = msg("{why}: `progress` shows it again")
UNKNOWN = msg("No such session; `sessions` lists all of them")
NO_HOOK = msg(
    "Claude Code does not ask before its tool calls, so it cannot be stopped: "
    "`feishuperm install --events session` on that computer changes it"
)


class Wish:
    """One wish to stop, see above."""

    def __init__(
        self, session: Session, asker: Asker, now: float, until: float
    ) -> None:
        self.session = session
        # The last one is meant; of the others their subagents.
        self.turns = list(session.turns)
        self.until = until  # monotonic: calls are refused
        self.state = ASKED
        self.asked = self.at = now  # wall clock; `at`: in this state
        self.is_job = session.job.isalnum()  # it ends a background session
        self.in_main = False  # a call of the session itself was refused
        self.entry = {  # of the ledger
            "event": "stop",
            "id": new_id().decode(),
            "surface": asker.surface,
            "who": asker.who,
            "project": session.project,
            "session": session.id,
            "created": round(now, 3),
        }


class Stops:
    """One per server."""

    def __init__(
        self,
        mark: AskMark,
        record: Callable[[dict[str, Any]], object],
        timers: Timers,
        clock: Callable[[], float],
    ) -> None:
        self._mark, self._record = mark, record
        self._timers, self._clock = timers, clock
        self._wishes: dict[str, Wish] = {}  # by session, its last

    def last(self, session: str) -> Wish | None:
        return self._wishes.get(session)

    def can_stop(self, session: Session) -> bool:
        """Whether something goes on that could be stopped."""
        works = session.state in (WORKING, WAITING) or session.has_agents
        lives = session.state != ENDED and session.agent == "claude"
        return lives and (works or bool(session.job))

    def ask(self, session: Session, asker: Asker) -> Wish:
        """A person wants the turn of this session to end."""
        until = self._timers.now() + WATCHED
        wish = Wish(session, asker, self._clock(), until)
        self._record({**wish.entry, "state": ASKED})
        keep_last(self._wishes, session.id, wish, MOST)
        self._timers.call_at(until, self.forget)
        self.forget()
        return wish

    def end(self, wish: Wish, state: str, reason: str = "") -> None:
        """It has taken effect, or it cannot any more."""
        if wish.state == ASKED:
            wish.state, wish.at = state, self._clock()
            ended = {"reason": reason, "ended": round(wish.at, 3)}
            self._record({**wish.entry, "state": state, **ended})
        if state != STOPPED:
            wish.until = 0.0
        self.forget()

    def forget(self) -> None:
        """End those whose time is over; without any, hooks need not ask."""
        now, rows = self._timers.now(), self._wishes.values()
        for wish in [w for w in rows if w.state == ASKED and 0.0 < w.until <= now]:
            self.end(wish, MISSED)
        self._mark.show("stop", any(w.until > now and not w.is_job for w in rows))

    def event(self, payload: HookPayload) -> None:
        """A hook tells of something in a session."""
        wish = self._wishes.get(payload.session_id())
        is_end = payload.hook_event_name() in TURN_ENDS and not has_agents(payload)
        if wish is None or wish.is_job or not is_end:
            return
        if is_wake(payload) and not wish.in_main and wish.until > self._timers.now():
            wish.turns.append(turn_of(payload))
        else:
            self.end(wish, MISSED)

    def refuses(self, payload: HookPayload) -> bool:
        """Whether a tool call must not begin, since its turn is to end."""
        wish = self._wishes.get(payload.session_id())
        if wish is None or wish.is_job or wish.until <= self._timers.now():
            return False
        turn, is_main = turn_of(payload), not text_at(payload.fields, "agent_id")
        if is_main and self._is_later(wish, turn, payload.transcript_path()):
            self.end(wish, MISSED)
        elif turn in wish.turns:
            self.end(wish, STOPPED)
            if is_main and not wish.in_main:
                wish.in_main = True
                wish.until = min(wish.until, self._timers.now() + REST)
                self._timers.call_at(wish.until, self.forget)
            if is_main:
                wish.session.learn(IDLE, wish.at)  # the client tells of no end
            return True
        return False

    def _is_later(self, wish: Wish, turn: str, transcript: str) -> bool:
        """Whether a turn is not the one that was meant."""
        if turn and wish.turns:
            return turn != wish.turns[-1]
        # It was never named: a prompt that came after the wish began another.
        wish.turns.append(turn)
        return figures(transcript).sent > wish.asked


def is_wake(payload: HookPayload) -> bool:
    """Whether the end of a task, and no person, began a turn.

    What a person sends by `next` wakes a session too, and names no task.
    """
    prompt = text_at(payload.fields, "prompt")
    return prompt.startswith("<task-notification>") and "<task-id>" in prompt


class Typed:
    """What people typed, for the classifier of auto mode: their own words alone."""

    def __init__(self, mark: AskMark, timers: Timers) -> None:
        self._mark, self._timers = mark, timers
        self._said: list[tuple[str, str, float]] = []  # session, text, until when

    def add(self, session: str, words: Iterable[str]) -> None:
        until = self._timers.now() + TYPED
        self._said += [(session, text, until) for text in words if session]
        self._timers.call_at(until, self._forget)
        self._forget()

    def take(self, session: str) -> str:
        """The words for a session, whole, each marked as the user's; once."""
        told = ""
        for of, text, until in reversed(self._said):
            more = f"Typed by the user: {text}\n{told}"
            fits = len(more.encode("utf-16-le", "surrogatepass")) <= 2 * UNITS
            if of == session and fits and until > self._timers.now():
                told = more
        self._forget(session)
        return told.rstrip("\n")

    def _forget(self, session: str = "") -> None:
        now = self._timers.now()
        left = [row for row in self._said if row[2] > now and row[0] != session]
        self._said = left[-MOST:]
        self._mark.show("typed", bool(left))


class Watch(NamedTuple):
    """A card that is out."""

    channel: str
    session: Session
    panel: Panel
    until: float  # monotonic


class Progress:
    """Makes progress cards; on the loop's thread."""

    COMMANDS: tuple[str, ...] = ("progress",)
    PANELS: tuple[str, ...] = ("progress",)

    def __init__(
        self,
        settings: Settings,
        sessions: Sessions,
        approvals: Approvals,
        timers: Timers,
        show: Callable[[str, Panel], object],
        in_thread: Callable[..., object],
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._sessions, self._approvals = sessions, approvals
        self._timers, self._show, self._in_thread = timers, show, in_thread
        self._clock = clock
        self._language = settings.feishuperm_lang
        self._grants = settings.feishuperm_gateway_grants == "on"
        self._is_titled = settings.titles_only()
        self.say = approvals.presenter.say
        self._watches: dict[str, Watch] = {}  # by channel and session
        self._is_armed = False
        self._ticked = self._wall = 0.0  # the last look, by both clocks
        self.stops = Stops(approvals.mark, approvals.record, timers, clock)
        self.event = self.stops.event  # what hooks tell of a session
        self.typed = Typed(approvals.mark, timers)
        approvals.on_typed = self.typed.add

    def around_call(self, payload: HookPayload) -> bytes:
        """What a hook prints before or after a tool call; empty: nothing."""
        event = payload.hook_event_name()
        if event == "PreToolUse":
            return self._stopping() if self.stops.refuses(payload) else b""
        typed = self.typed.take(payload.session_id())
        said = Decision.said(event, {"classifierContext": typed})
        return said.to_stdout() if typed else b""

    def _stopping(self) -> bytes:
        """`continue` ends the turn, but alone would let the call run before."""
        reason = self.say("Stopped by the user in Feishu")
        refusal = {"permissionDecision": "deny", "permissionDecisionReason": reason}
        said = Decision.said("PreToolUse", refusal).to_hook_output()
        output = {"continue": False, "stopReason": reason, **said}
        return Decision.other(output, denies=True).to_stdout()

    # Commands and presses.

    def command(self, name: str, words: str, asker: Asker, then: Then) -> None:
        self._sessions.refresh(partial(self._choose, words.strip(), asker, then))

    def _choose(self, words: str, asker: Asker, then: Then) -> None:
        rows = self._sessions.find(words)
        if not words:
            rows = [row for row in rows if row.state in (WORKING, WAITING)]
        if len(rows) == 1:
            then(Told(panel=self._open(rows[0], asker)))
            return
        named = [f"{row.short} ({last_name(row.project)})" for row in rows[:LISTED]]
        which = self.say("Which one? `progress ID`: {ids}", ids=", ".join(named))
        none = msg("No session is at work; `sessions` lists all of them")
        none = UNKNOWN if words else none
        then(Told(which, WARNING) if rows else self._told(none, WARNING))

    def press(
        self, panel: str, action: str, words: str, asker: Asker, then: Then
    ) -> None:
        id = panel.partition(":")[2]
        do = partial(self._do, id, action, words, asker, then)
        # Who opens a card asks how things are; no event tells of a background job.
        is_known = self._sessions.get(id) and action != OPEN
        do() if is_known else self._sessions.refresh(do)

    def _do(self, id: str, action: str, words: str, asker: Asker, then: Then) -> None:
        session = self._sessions.get(id)
        if session is None:
            then(self._told(UNKNOWN, ERROR))
            return
        name, _, of = action.partition(".")
        told = Told()
        if name == "stop":
            told = self._stop(session, of, asker)
        elif name == "send":
            told = self._send(session, of, words, asker)
        then(told._replace(panel=self._open(session, asker)))

    def _stop(self, session: Session, turn: str, asker: Asker) -> Told:
        """End what a session does; the button was for one turn alone."""
        last = self.stops.last(session.id)
        now = figures(session.transcript, session.agent)
        if turn != self._turn(session, now) or not self.stops.can_stop(session):
            return self._told(msg("That turn is over; nothing was stopped"), WARNING)
        if last is not None and last.state == ASKED:
            return self._told(msg("It is being stopped already"), INFO)
        if session.job.isalnum():
            return self._end_job(session, asker)
        if self._refuse_pending(session, asker):
            self.stops.end(self.stops.ask(session, asker), STOPPED, "interrupt")
            session.learn(IDLE, self._clock())
            return self._told(msg("Its pending request was refused; the turn is over"))
        if not (session.is_hooked or is_hooked(session.project)):
            return self._told(NO_HOOK, WARNING)
        self.stops.ask(session, asker)
        return self._told(msg("It stops at its next tool call"))

    def _told(self, said: str, status: str = SUCCESS) -> Told:
        """A sentence that quotes nothing of any session."""
        return Told(self.say(said), status, fixed=True)

    def _end_job(self, session: Session, asker: Asker) -> Told:
        wish, words = self.stops.ask(session, asker), ("stop", session.job)

        def work() -> str:
            try:
                claude_client.run(words, home(os.environ), os.environ)
            except FeishupermError as error:
                return message_of(error)
            return ""

        def tell(problem: str) -> None:
            self.stops.end(wish, FAILED if problem else STOPPED, problem)

        self._in_thread(work, tell)
        return self._told(msg("The background session is being ended"), INFO)

    def _refuse_pending(self, session: Session, asker: Asker) -> bool:
        """Refuse its pending requests; whether that ends the turn."""
        ends = False
        for request in self._waiting(session.id):
            rows = KINDS[request.kind].actions
            action = next((row for row in rows if row.interrupts), None)
            name = action.name if action else "deny"
            answer = Answer(request.id, name, {}, asker.surface, asker.who)
            is_done = self._approvals.answer(answer).status == SETTLED
            ends = ends or bool(is_done and action and not request.from_agent)
        return ends

    def _waiting(self, session: str, alone: bool = False) -> list[Request]:
        """Its requests that wait for a decision; `alone`: that wait for a text."""
        rows = self._approvals.requests.waiting()
        own = (row for row in rows if row.session == session)
        return [row for row in own if KINDS[row.kind].alone == alone]

    def _send(self, session: Session, id: str, words: str, asker: Asker) -> Told:
        """Answer the session's `next` request, as its own card does."""
        ids = [row.id for row in self._waiting(session.id, alone=True)]
        if id not in ids or not self._may_prompt(asker.channel):
            return self._told(msg("It does not wait for a text any more"), WARNING)
        answer = Answer(id, "send", {"text": (words,)}, asker.surface, asker.who)
        receipt = self._approvals.answer(answer)
        status = SUCCESS if receipt.status == SETTLED else WARNING
        return Told(receipt.error or receipt.outcome.done, status)

    def _may_prompt(self, channel: str) -> bool:
        return not self._is_titled and (self._grants or channel != "gateway")

    # Cards.

    def _open(self, session: Session, asker: Asker) -> Panel:
        """Show a session to somebody, and watch it from now on."""
        now, key = self._timers.now(), f"{asker.channel} {session.id}"
        panel = self._panel(session, asker.channel)
        self._watches.pop(key, None)
        if session.state == ENDED:
            return panel.frozen(self.say("The session has ended"))
        while len(self._watches) >= MOST:
            self._look_at(next(iter(self._watches)), msg("Too many cards are watched"))
        watch = Watch(asker.channel, session, panel, now + WATCHED)
        self._watches[key] = watch
        self._arm()
        return panel

    def _arm(self) -> None:
        if not self._is_armed and self._watches:
            self._is_armed = True
            self._ticked, self._wall = self._timers.now(), self._clock()
            step = max(LOOK / len(self._watches), STEP)
            self._timers.call_at(self._ticked + step, self._tick)

    def _tick(self) -> None:
        """Look at the card that was looked at longest ago."""
        ticked = self._timers.now() - self._ticked
        slept = abs(self._clock() - self._wall - ticked) > SLEPT
        self._is_armed = False
        self._arm()
        for key in list(self._watches)[: None if slept else 1]:
            self._look_at(key, msg("The computer was asleep") if slept else "")
        if self._watches and self._clock() - self._sessions.looked > AGAIN:
            self._sessions.refresh(lambda: None)

    def _look_at(self, key: str, over: str = "") -> None:
        """Show what has changed; `over`: it is the last time, and why."""
        watch = self._watches.pop(key)
        panel = self._panel(watch.session, watch.channel)
        if watch.session.state == ENDED:
            over = msg("The session has ended")
        elif self._timers.now() >= watch.until:
            over = msg("Nobody has looked for half an hour")
        if over:
            panel = panel.frozen(self.say(FROZEN, why=self.say(over)))
        else:
            self._watches[key] = watch._replace(panel=panel)  # as the last one
        if panel != watch.panel:
            self._show(watch.channel, panel)

    def _panel(self, session: Session, channel: str) -> Panel:
        now = figures(session.transcript, session.agent)
        named = session.title or last_name(session.project)
        parts = (self.say(STATES[session.state]), named, session.short)
        panel = Panel(
            f"progress:{session.id}",
            self._language,
            self.say("Progress"),
            " · ".join(filter(None, parts)),
            rows=tuple(row for row in self._rows(session, now) if row.block.text),
            note=spent(self.say, spent_by(now, now.last)),
            session=session.id,
        )
        return self._with_buttons(panel, session, now, channel)

    def _rows(self, session: Session, now: Figures) -> list[Row]:
        said, prompt = context(now.said, now.prompt)
        say, running = self.say, one_line(redact(now.running))
        todos = [
            f"{DONE.get(todo.state, '☐')} {one_line(redact(todo.text), 100)}"
            for todo in now.todos
        ]
        return [
            Row(Block("text", say("Prompt"), prompt), self._since(now.prompted)),
            Row(Block("code", say("Running"), running), self._since(now.running_since)),
            Row(Block("text", say("To do"), "\n".join(todos))),
            Row(Block("text", say("Last words"), said)),
            Row(Block("text", "", self._told_stop(session, now))),
        ]

    def _since(self, moment: float) -> str:
        return self.say("since {time}", time=at_clock(moment)) if moment else ""

    def _told_stop(self, session: Session, now: Figures) -> str:
        """How a wish to stop went, until there is another prompt."""
        wish = self.stops.last(session.id)
        if wish is None or now.prompted > wish.at:
            return ""
        return self.say(TOLD[wish.state, wish.is_job], time=at_clock(wish.at))

    def _with_buttons(
        self, panel: Panel, session: Session, now: Figures, channel: str
    ) -> Panel:
        buttons, turn = [], self._turn(session, now)
        if turn and self.stops.can_stop(session):
            sure = self.say("End what the session does right now?")
            buttons.append(Button(f"stop.{turn}", self.say("Stop"), STOP, sure))
        pending = self._waiting(session.id, alone=True)
        if pending and self._may_prompt(channel):
            send = Button(f"send.{pending[-1].id}", self.say("Send"), YES, reads=True)
            field = self.say("What to do next")
            panel, buttons = panel._replace(field=field), [send, *buttons]
        return panel._replace(buttons=tuple(buttons))

    def _turn(self, session: Session, now: Figures) -> str:
        """What tells this turn from all others; empty: nobody knows."""
        prompted = f"{now.prompted:.3f}" if now.prompted else ""
        return session.turns[-1] if session.turns else prompted.replace(".", "")


def is_hooked(project: str) -> bool:
    """Whether Claude Code's settings have the hooks of `install --events session`."""
    for path in claude_settings(project).values():
        try:
            if HOOKED.search(read_bytes(path) or b""):
                return True
        except FeishupermError:
            continue  # Claude Code cannot read it either
    return False


def at_clock(moment: float) -> str:
    return time.strftime("%H:%M:%S", time.localtime(moment))
