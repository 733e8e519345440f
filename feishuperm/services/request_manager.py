"""Pending requests: their states, their deadlines, and the hook of each.

The manager is the only place where a request ends, and every way to end one goes
through `end()`, so a request ends once and only once whatever happens at the same
time.  It knows no sockets (a waiter is anything with `send(kind, body)`), no clock
(`now` is given) and no pages; a caller that wants to know of an end passes `on_end`.

Below it stands what the ledger says of a request (its end, an intent, an attempt), and
the way back from an entry to the request that it tells of.  An entry is enough to know
what was decided, not to repeat it.
"""

from __future__ import annotations

import hashlib
import heapq
import itertools
import math
import os
import time
from collections import deque
from collections.abc import Callable
from typing import Any, Protocol

from feishuperm.agents.table import AGENTS, CLAUDE, options_of, output_of
from feishuperm.errors import PayloadError, ProtocolError
from feishuperm.lib.log import redact
from feishuperm.lib.tool import headline, summary
from feishuperm.messages import text
from feishuperm.models import request as states
from feishuperm.models.ask import Answer
from feishuperm.models.decision import Decision
from feishuperm.models.fields import text_at
from feishuperm.models.kind import KINDS, Action, kind_of
from feishuperm.models.payload import TITLE, AskPayload
from feishuperm.models.request import Request
from feishuperm.models.settings import Settings
from feishuperm.protocol.frames import HELD, SHOWN, HookRequest
from feishuperm.services.grants import call_digest
from feishuperm.services.ledger import LATEST
from feishuperm.services.presenter import is_clear, names, read_danger
from feishuperm.services.quiet import QuietHours
from feishuperm.services.rule_writer import WriteResult


class Waiter(Protocol):
    """The hook's end of a request."""

    def send(self, kind: bytes, body: bytes = b"") -> None: ...


MAX_DEPTH = 100  # of a tool's input: no tool needs it, and showing it would overflow
LARGE = 1 << 16  # bytes of an event that is read in one turn and worded in others
REMEMBER_SECONDS = 24 * 3600  # a late tap is told how the request ended
# Past this many remembered ends the oldest go first: 24 h of a runaway loop must not
# fill the memory.
REMEMBER_MOST = 20_000
# The latest of them with the event itself, so that a page can show it.
REMEMBER_WHOLE = 200
REMEMBER_BYTES = 16 << 20
DETAIL_CHARACTERS = 200  # of a command or path in the ledger
DETAIL_READ = 2000  # of these the first are shown, with no secret cut in half
EXPIRE_MOST = 50  # in one turn of the loop; thousands may have the same deadline


class RequestManager:
    """Registers requests, settles each exactly once, remembers how it ended."""

    def __init__(
        self,
        settings: Settings,
        on_end: Callable[[Request], None],
        clock: Callable[[], float] = time.time,
        quiet: QuietHours | None = None,
    ) -> None:
        self._quiet = quiet or QuietHours()
        self._timeout = settings.permission_request_timeout
        self._hold = settings.permission_hold  # what a reader may have besides
        self._denies = settings.denies_at_zero
        self._language = settings.feishuperm_lang
        self._on_end = on_end
        self._clock = clock
        self._requests: dict[str, Request] = {}  # waiting and ended, oldest first
        self._waiters: dict[str, Waiter] = {}
        self._ids: dict[Waiter, str] = {}
        self._deadlines: list[tuple[float, str]] = []
        self._whole: deque[Request] = deque()  # ended, with their events
        self._whole_bytes = 0

    # Registration.

    def register(
        self,
        hook: HookRequest,
        payload: AskPayload,
        waiter: Waiter,
        now: float,
        patience: int = 0,
    ) -> Request | None:
        """A new request that waits from now on, or None when it had already ended.

        `payload` is the hook's event, decoded, and `patience` how many seconds it has,
        if not as many as all.  Raises PayloadError, and ProtocolError when the id
        belongs to another request.
        """
        earlier = self._requests.get(hook.id)
        if earlier is not None:
            return self._return_to(earlier, hook, waiter)
        if not _is_flat(payload.tool_input, MAX_DEPTH):
            raise PayloadError("the tool's input is nested too deeply to be shown")
        created = self._clock()
        extended = hook.shown == HELD and self._hold > 0
        usual = kind_of(payload.tool_name, payload.EVENT).seconds or self._timeout
        whole = (patience or usual) + (self._hold if extended else 0)
        # A hook that lost its server counts by its own clock, which nobody sets.
        passed = max(0.0, whole - hook.left) if hook.shown else 0.0
        deadline = now + max(1.0, whole - passed)
        request = new_request(hook, payload, created - passed, deadline)
        request.extended, request.patience = extended, patience
        request.seconds = whole
        request.spared = self._quiet.overlaps(request.created, created + whole - passed)
        self._requests[hook.id] = request
        self._waiters[hook.id], self._ids[waiter] = waiter, hook.id
        heapq.heappush(self._deadlines, (deadline, hook.id))
        return request

    def _return_to(
        self, request: Request, hook: HookRequest, waiter: Waiter
    ) -> Request | None:
        """The hook of this request is back; an ended one hears its end again."""
        if request.raw and request.raw != hook.raw:
            raise ProtocolError("this id belongs to another request")
        if not request.waits():
            self._deliver(request, waiter)
            return None
        self._ids.pop(self._waiters[request.id], None)
        self._waiters[request.id], self._ids[waiter] = waiter, request.id
        request.shown = request.shown or hook.shown in (SHOWN, HELD)
        return request

    # Reading.

    def get(self, id: str) -> Request | None:
        """A waiting request, or one that ended within the last day."""
        return self._requests.get(id)

    def waiting(self) -> list[Request]:
        """All requests that wait, oldest first."""
        return [self._requests[id] for id in self._waiters]

    def recent(self, most: int) -> list[Request]:
        """The latest ends, newest first."""
        newest = (self._requests[id] for id in reversed(self._requests))
        return list(itertools.islice((r for r in newest if not r.waits()), most))

    def of_waiter(self, waiter: Waiter) -> Request | None:
        """The request a hook waits for."""
        id = self._ids.get(waiter)
        return None if id is None else self._requests[id]

    # Endings.

    def resolve(
        self,
        answer: Answer,
        row: Action,
        decision: Decision,
        written: WriteResult | None = None,
        head: str = "",
    ) -> bool:
        """Settle by a person's answer; False when somebody was first.

        `row` is the button, `decision` what it became, `written` the rules it wrote and
        `head` where the ledger stands with it.
        """
        request = self._requests.get(answer.id)
        if request is None or not request.waits():
            return False
        request.action = row.name
        request.surface = answer.surface
        request.who = answer.who
        request.ran = redact(row.ran(decision))
        if written is not None:
            request.rules, request.known_rules, problem = written
            request.note = problem or request.note
        request.head = head
        return self.end(request, row.state, decision, row.reason(answer))

    def release(self, request: Request, reason: str) -> None:
        """Hand the request back to the terminal undecided."""
        self.end(request, states.RELEASED, reason=reason)

    def expire(self, now: float, most: int = EXPIRE_MOST) -> list[Request]:
        """End those whose time is over, some at a time; returns what ended."""
        ended: list[Request] = []
        while self._deadlines and self._deadlines[0][0] <= now and len(ended) < most:
            due, id = heapq.heappop(self._deadlines)
            request = self._requests.get(id)
            if request is not None and request.waits() and request.deadline <= due:
                self._time_out(request)
                ended.append(request)
        return ended

    def give_back(self, request: Request, patience: int) -> None:
        """Its time is over early: a person sits where a dialog could ask them."""
        request.patience = patience
        self._time_out(request)

    def _time_out(self, request: Request) -> None:
        if not request.shown:
            self.release(request, "nothing showed it in time")
            return
        is_spared = self._quiet.overlaps(request.created, self._clock())
        is_spared = is_spared or request.serial
        denies = self._denies(request.from_agent) and not is_spared
        words = KINDS[request.kind].expired if denies else ""
        decision = Decision.deny(text(self._language, words)) if words else None
        self.end(request, states.EXPIRED, decision)

    def next_deadline(self) -> float | None:
        """When `expire()` has something to do next."""
        while self._deadlines:
            deadline, id = self._deadlines[0]
            if id in self._waiters and self._requests[id].deadline <= deadline:
                return deadline
            heapq.heappop(self._deadlines)
        return None

    def mark_lost(self, request: Request) -> None:
        """Nobody can answer it any more: its end must not be a refusal."""
        if request.waits():
            request.shown = False

    def mark_shown(self, request: Request) -> None:
        """A surface has shown the request; its hook keeps that over a restart."""
        if request.waits() and not request.shown:
            request.shown = True
            self._waiters[request.id].send(b"S")

    def extend(self, request: Request, now: float) -> bool:
        """Somebody reads it: give all the time its hook has, once; whether it did."""
        if not self._hold or not request.waits() or request.extended:
            return False
        self.mark_shown(request)
        request.extend(self._hold)
        heapq.heappush(self._deadlines, (request.deadline, request.id))
        self.tell_extended(request, now)
        return True

    def tell_extended(self, request: Request, now: float) -> None:
        """Let the hook wait as long; it has an alarm of its own."""
        if request.extended:
            left = math.ceil(request.deadline - now)
            self._waiters[request.id].send(b"H", b"%d" % max(1, left))

    def end(
        self,
        request: Request,
        state: str,
        decision: Decision | None = None,
        reason: str = "",
        hears: bool = True,
    ) -> bool:
        """The one way to end; False when it has ended already.

        Its hook is told, if it is still there and `hears`.
        """
        if not request.end(state, self._clock()):
            return False
        request.decision = decision
        request.reason = reason
        if state == states.TERMINAL:
            request.surface = "terminal"
        waiter = self._waiters.pop(request.id, None)
        if waiter is not None:
            self._ids.pop(waiter, None)
            if hears:
                self._deliver(request, waiter)
        # Ends are kept in the order they happened, for `recent()` and `forget()`.
        self._requests[request.id] = self._requests.pop(request.id)
        self._on_end(request)
        self._keep_whole(request)
        return True

    def _keep_whole(self, request: Request) -> None:
        """Keep its event for a while, and let go of older ones."""
        self._whole.append(request)
        self._whole_bytes += len(request.raw)
        while len(self._whole) > REMEMBER_WHOLE or self._whole_bytes > REMEMBER_BYTES:
            oldest = self._whole.popleft()
            self._whole_bytes -= len(oldest.raw)
            oldest.forget_words()

    def _deliver(self, request: Request, waiter: Waiter) -> None:
        output = b""
        if request.decision:
            output = output_of(request.agent, request.decision, request.action)
        waiter.send(b"D" if output else b"R", output)

    # Memory.

    def restore(self, request: Request) -> None:
        """Remember an end from before a restart."""
        self._requests.setdefault(request.id, request)

    def forget(self) -> None:
        """Drop ends older than a day, and the oldest beyond the bound."""
        oldest = self._clock() - REMEMBER_SECONDS
        surplus = len(self._requests) - len(self._waiters) - REMEMBER_MOST
        ended = [row for row in self._requests.values() if not row.waits()]
        for request in ended:
            if request.ended >= oldest and surplus <= 0:
                break
            del self._requests[request.id]
            surplus -= 1


def new_request(
    hook: HookRequest,
    payload: AskPayload,
    created: float,
    deadline: float,
) -> Request:
    """The request of an event, with all that is ever said of it without its event."""
    shown = headline(payload.tool_name, payload.tool_input, DETAIL_READ)
    request = Request(
        hook.id,
        hook.raw,
        payload.tool_name,
        hook.project or payload.base.cwd,
        created,
        deadline,
        kind_of(payload.tool_name, payload.EVENT).name,
    )
    request.summary = redact(summary(payload.tool_name, payload.tool_input))
    request.detail = redact(shown)[:DETAIL_CHARACTERS]
    request.session = payload.session_id()
    request.session_title = str(payload.known.get(TITLE, ""))
    request.agent = hook.agent
    request.from_agent = bool(payload.agent_id())
    request.serial = AGENTS[hook.agent].is_serial
    actions = KINDS[request.kind].actions
    able = options_of(hook.agent, payload.fields) or AGENTS[hook.agent].actions
    request.offered = frozenset(able or [row.name for row in actions])
    reading = read_danger(payload, request.project)
    request.danger = names(reading)
    request.reading = reading
    request.folder = os.path.realpath(payload.base.cwd or request.project)
    request.files = reading.files
    # What is dangerous, or cannot be read, is never let through unseen.
    # A pass is for what has a button for it; a refused call is let through once.
    passes = {row.name for row in actions if row.passes} & request.offered
    has_bounds = request.session and request.project
    request.passable = bool(passes and has_bounds and is_clear(reading))
    request.digest = hashlib.sha256(hook.raw).hexdigest()
    if any(action.reprieves for action in actions):
        request.call = call_digest(payload)
    request.shown = hook.shown in (SHOWN, HELD)
    return request


def _is_flat(value: object, depth: int) -> bool:
    """Whether a decoded value is nested less than `depth` levels deep."""
    if not isinstance(value, (dict, list)):
        return True
    if not depth:
        return False
    items = value.values() if isinstance(value, dict) else value
    return all(_is_flat(item, depth - 1) for item in items)


# The ledger.


def ledger_entry(request: Request) -> dict[str, Any]:
    """The record of one end."""
    lasting = {
        "call": request.call if request.until else "",
        "until": round(request.until, 3),
        "pass": request.pass_id,
        "grants": request.grants,
        "kept": list(request.known_rules) if request.agent != CLAUDE else [],
        "seen": round(request.seen, 3),
    }
    return {
        "event": "request",
        "id": request.id,
        "state": request.state,
        "action": request.action,
        "surface": request.surface,
        "who": request.who,
        "reason": request.reason,
        "rules": list(request.rules),
        "denied": request.decision is not None and request.decision.is_denial(),
        "kind": request.kind,
        "agent": request.agent,
        "tool": request.tool_name,
        "summary": request.summary,
        "detail": request.detail,
        "danger": list(request.danger),
        "digest": request.digest,
        "project": request.project,
        "session": request.session,
        **{name: value for name, value in lasting.items() if value},
        "created": round(request.created, 3),
        "ended": round(request.ended, 3),
        **({"ran": request.ran} if request.ran else {}),
        **({"would": would} if (would := _possible_rules(request)) else {}),
    }


def _possible_rules(request: Request) -> list[str]:
    """The rules that would have answered for a person, who let it run or refused it.

    They are exact, and hold no secret: others are never offered.
    """
    by_person = request.state in (states.ALLOWED, states.DENIED) and request.surface
    if not by_person or request.rules or request.pass_id or request.danger:
        return []
    if request.agent != CLAUDE:  # it has no rules, and may keep patterns of its own
        return []
    ask = request.ask()
    return list(ask.rules) if ask is not None else []


def intent_entry(
    request: Request, row: Action, answer: Answer, rules: tuple[str, ...], ran: str = ""
) -> dict[str, Any]:
    """The record of what is about to be done: the end it leads to."""
    return {
        **ledger_entry(request),
        "state": row.state,
        "action": row.name,
        "surface": answer.surface,
        "who": answer.who,
        "reason": row.reason(answer),
        "rules": list(rules),
        "denied": bool(row.message),
        **({"ran": redact(ran)} if ran else {}),
    }


def refusal_entry(request: Request | None, what: str, who: str) -> dict[str, Any]:
    """The record of something that was tried by somebody who must not."""
    about = request or Request("", b"", "", "", 0.0)
    return {
        "event": "refused",
        "id": about.id,
        "action": what,
        "who": who,
        "tool": about.tool_name,
        "summary": about.summary,
        "project": about.project,
        "session": about.session,
    }


def remembered(entry: dict[str, Any]) -> Request | None:
    """The end a ledger entry tells of, or None if it tells of something else."""
    state = str(entry.get("state"))
    tells = entry.get("event") == "request" and state in states.ENDS
    try:
        return _remembered(entry, state) if tells else None
    except (KeyError, TypeError, ValueError, OverflowError):  # somebody edited the file
        return None


def _remembered(entry: dict[str, Any], state: str) -> Request:
    id, tool_name = str(entry["id"]), str(entry["tool"])
    created, ended = float(entry["created"]), float(entry["ended"])
    # What was about to be done is in the ledger; that it was done, nobody knows.
    action = "" if state == states.UNKNOWN else str(entry["action"])
    kind = KINDS.get(str(entry.get("kind"))) or kind_of(tool_name)
    row = kind.action(action)
    deciding = row is not None and row.state == state
    if not deciding and (action or state in states.DECIDED):
        raise ValueError
    if not 0 <= created <= ended < LATEST:
        raise ValueError
    request = Request(
        id, b"", tool_name, str(entry["project"]), created, 0.0, kind.name
    )
    agent = str(entry.get("agent"))
    request.agent = agent if agent in AGENTS else CLAUDE
    request.state = state
    request.action = action
    request.surface = str(entry["surface"])
    request.who = text_at(entry, "who")
    request.rules = tuple(map(str, entry["rules"]))
    request.summary = str(entry["summary"])
    request.ran = text_at(entry, "ran")
    request.danger = tuple(map(str, entry.get("danger") or ()))
    request.ended = ended
    # Whether the clock denied it; its hook has long been told.
    request.decision = Decision.deny() if entry["denied"] else None
    return request
