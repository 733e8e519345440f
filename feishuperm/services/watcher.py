"""When the transcripts of sessions are looked at, and for which requests.

While a request is pending: for the words before its call, and for an answer that a
person gave at the keyboard.  Once it has ended: for the result of the call.  How a
transcript is read is told in `transcript`.  Everything runs on the loop's thread.

`Presence` remembers whether a person is at a keyboard, as far as the client reveals it:
a prompt that was typed and a dialog that was answered are a person; the client's
notices say that no key was pressed for six seconds (`permission_prompt`) or a minute
(`idle_prompt`).  Its times are the wall clock's, since prompts have theirs from a
transcript.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Protocol

from feishuperm.models import request as states
from feishuperm.models.kind import KINDS
from feishuperm.models.payload import AskPayload, HookPayload
from feishuperm.models.request import Request
from feishuperm.services.notifier import Notifier
from feishuperm.services.presenter import context
from feishuperm.services.request_manager import RequestManager
from feishuperm.services.transcript import OVER, Transcripts, Watch


class Timers(Protocol):
    """What is needed of the loop."""

    def now(self) -> float: ...

    def call_at(self, when: float, fn: Callable[[], None]) -> object: ...


TRANSCRIPT_SECONDS = 0.5  # how often transcripts are looked at
TRANSCRIPTS_PER_LOOK = 200  # a millisecond of work, however many requests wait
LOOK_SECONDS = 0.005  # after which the others have their look soon, not now
SOON_SECONDS = 0.02
# What an answer led to is looked for so long, and quickly only at first.
RESULT_SECONDS = 1800.0
RESULT_QUICK_SECONDS = 60.0
RESULT_SLOW_LOOK = 5.0
RESULTS_MOST = 200  # that are looked for at a time
RECENT_SECONDS = 60.0  # the client itself calls a keyboard idle after so long
# A subagent's request has no dialog while its hook waits: where a person was at the
# terminal less than so long ago, it is given back there after a few seconds.
AT_TERMINAL_SECONDS = 120.0
GIVEN_BACK_SECONDS = 8
SESSIONS = 1000  # of which something is remembered
# What the client tells when nobody has touched the keyboard.
IDLE_NOTICES = ("permission_prompt", "idle_prompt")
RESULT_STATES = (states.ALLOWED, states.ANSWERED, states.TERMINAL)


class Presence:
    """The last signs of a person, and of nobody."""

    def __init__(self) -> None:
        self._person = 0.0  # at any terminal of this user
        self._idle: dict[str, float] = {}  # by session
        self._answered: dict[str, float] = {}  # the same

    def person(self, when: float) -> None:
        """Somebody typed something."""
        self._person = max(self._person, when)

    def answered(self, session: str, when: float) -> None:
        """Somebody answered a dialog of a session."""
        self.person(when)
        _note(self._answered, session, when)

    def last_answered(self, session: str) -> float:
        """When somebody answered a dialog of it last; 0: never, so far."""
        return self._answered.get(session, 0.0)

    def notice(self, payload: HookPayload, now: float) -> None:
        """A notice of the client came by."""
        if payload.fields.get("notification_type") in IDLE_NOTICES:
            _note(self._idle, payload.session_id(), now)

    def is_there(self, session: str, asked: float, now: float) -> bool:
        """Whether a person probably looks at what was asked in a session."""
        if self._idle.get(session, 0.0) >= asked:
            return False
        return abs(now - self._person) < RECENT_SECONDS


def _note(times: dict[str, float], session: str, when: float) -> None:
    times.pop(session, None)
    times[session] = when
    while len(times) > SESSIONS:
        del times[next(iter(times))]


class Watcher:
    """One per server; the approvals tell it of each request that begins or ends."""

    def __init__(
        self,
        requests: RequestManager,
        notifier: Notifier,
        presence: Presence,
        timers: Timers,
        clock: Callable[[], float],
        on_result: Callable[[Request], object],
    ) -> None:
        self._requests = requests
        self._on_result = on_result
        self._notifier = notifier
        self._presence = presence
        self._timers = timers
        self._clock = clock
        self._transcripts = Transcripts()
        self._watches: dict[str, Watch] = {}  # of waiting requests, by id
        self._unheard: set[str] = set()  # those whose words are not there yet
        self._results: dict[str, tuple[Watch, float]] = {}  # of ended ones, and since
        self._look_due = math.inf  # when transcripts are looked at next
        self._next_look = 0
        self.ends_requests = True  # not any more, where the next server will

    def begin(self, request: Request, payload: AskPayload) -> None:
        """A request is pending from now on, or its hook is back."""
        if request.id in self._watches:
            return
        agent = payload.agent_id()
        path = payload.transcript_path()
        if KINDS[request.kind].of_a_call:
            watch = self._transcripts.begin(
                path, payload.tool_name, payload.tool_input, agent
            )
        else:
            watch = self._transcripts.follow(path, agent)
        if watch is None:
            return
        self._watches[request.id] = watch
        if not KINDS[request.kind].alone:  # the last words are what it is about
            self._unheard.add(request.id)
        self._hear(request)
        self._look_soon()

    def end(self, request: Request) -> None:
        """It has ended: keep looking for how the call went on, if that is not known."""
        self._unheard.discard(request.id)
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
        self._requests.end_in_terminal(request.id)
        return True

    def words_may_come(self, request: Request) -> bool:
        """Whether what was said before the call is on its way; it is read if not."""
        watch = self._watches.get(request.id)
        if request.id not in self._unheard or watch is None or not watch.may_follow():
            return False
        self._follow(request)
        return request.id in self._unheard

    def _follow(self, request: Request) -> None:
        """Look at the transcript of a request that waits."""
        if not self.settled(request) and self._hear(request):
            self._notifier.renew()

    def _hear(self, request: Request) -> bool:
        """Take down what was said before the call; whether that is new."""
        watch = self._watches.get(request.id)
        if request.id not in self._unheard or watch is None or not watch.has_call():
            return False
        self._unheard.discard(request.id)
        words = watch.words()
        self._presence.person(words.prompted)
        request.set_context(*context(words.said, words.prompt))
        return True

    def _learn_result(self, request: Request) -> None:
        watch, since = self._results[request.id]
        over = watch.check() in OVER
        if not over and self._timers.now() - since < RESULT_SECONDS:
            return
        del self._results[request.id]
        watch.close()
        request.result = watch.result
        if request.is_given_back() and request.result[0]:
            # The dialog at the terminal came after it, and was answered there.
            self._presence.answered(request.session, self._clock())
        if request.result[0]:
            self._on_result(request)

    # Time.

    def _look_soon(self) -> None:
        """Look at the transcripts in half a second, if that is not due anyway."""
        if self._look_due > self._timers.now() + 2 * TRANSCRIPT_SECONDS:
            self._look_in(TRANSCRIPT_SECONDS)

    def _look_in(self, seconds: float) -> None:
        self._look_due = self._timers.now() + seconds
        self._timers.call_at(self._look_due, self._look)

    def _look(self) -> None:
        """Look at the next few transcripts; go on while anything is watched."""
        if self._timers.now() < self._look_due:
            return  # another look was due sooner, and has taken this one's place
        watched = [*self._watches, *self._results]
        start = self._next_look if self._next_look < len(watched) else 0
        until = self._timers.now() + LOOK_SECONDS
        pause = TRANSCRIPT_SECONDS if self._hurries() else RESULT_SLOW_LOOK
        self._next_look = start
        for id in watched[start : start + TRANSCRIPTS_PER_LOOK]:
            self._look_at(self._requests.get(id))
            self._next_look += 1
            if self._timers.now() > until:
                pause = SOON_SECONDS
                break
        self._look_due = math.inf
        if self._watches or self._results:
            self._look_in(pause)

    def _look_at(self, request: Request | None) -> None:
        if request is None:
            return
        if request.id in self._results:
            self._learn_result(request)
        else:
            self._follow(request)

    def _hurries(self) -> bool:
        """Whether somebody waits for what the transcripts say."""
        young = self._timers.now() - RESULT_QUICK_SECONDS
        watched = (self._requests.get(id) for id in self._watches)
        # What waits for half a day is looked at again before it is answered.
        return any(r is not None and not KINDS[r.kind].alone for r in watched) or any(
            since > young for _, since in self._results.values()
        )
