"""A queue of messages to a service that has limits and bad days.

A thread of its own sends one message after the other, in the order they came, within
the limits.  A failure that may pass pauses the whole queue for a while, since the next
message would meet the same; a refused message is sent again in a plainer form; what
can never pass is given up at once, and so is what cannot be sent before its deadline.
`step()` is the whole of it: the thread only calls it and waits.

Where many people are written to, each has a lane: a person who gets too much at once
holds up nobody else.

How a message is made and sent and what an answer means is the sender's business.  It
gives a function that sends once and returns a `SendResult`.  That function runs in the
outbox's thread: it works with the values it holds and changes nothing of the server.
The result travels back to the loop (`on_loop`), where `heard` is told of every attempt
and the job's `done` of the last one.

An app has a `Sender` with two outboxes, so that no new card waits behind changes of old
ones: there each person and each message has a lane.
"""

from __future__ import annotations

import random
import secrets
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from feishuperm.app.api import CARD, AppApi
from feishuperm.lib.feishu import NO_ANSWER, Card, SendResult
from feishuperm.lib.log import log
from feishuperm.lib.task import Later, Promise
from feishuperm.messages import msg, text

FIRST_PAUSE = 0.5  # seconds, and twice as long after each failure
# A person has 55 seconds: while one waits, the end of an outage is noticed soon.
LONGEST_PAUSE, LONGEST_WITHOUT_WAITER = 3.0, 15.0
# A service that takes a connection and says nothing so long will not show it in time;
# a person waits no longer for it than that.
SILENT_ATTEMPT, SILENT_SECONDS = 5.0, 10.0
LANE_PAUSE = 1.0  # seconds for one receiver, who gets too much
MAX_QUEUE = 1000  # each holds an ask, and 1000 take ten minutes to send
NOT_WANTED = msg("settled before it could be sent")
TOO_LATE = msg("no time left to send it")
TOO_MANY = msg("more requests are waiting than Feishu lets a bot send")
GIVEN_UP = -2  # the code of what was never sent, or not any more
NOT_BUILT = msg("the card could not be built")
UNBUILT = SendResult(False, NO_ANSWER, NOT_BUILT, fallback=True)
Limits = tuple[tuple[int, float], ...]  # so many messages in so many seconds
NO_LIMIT: Limits = ((1, 0.0),)
# Of one app, to one person or of one message; Feishu refuses the sixth in a second.
CARD_LIMIT = ((45, 1.0), (990, 60.0))
CHANGE_LIMIT = ((40, 1.0), (990, 60.0))
EACH_LIMIT = ((4, 1.0),)
EACH_CODES = frozenset((230020,))  # of that refusal
PANEL_LIMIT = ((10, 1.0), (300, 60.0))  # changes: most are for requests
MESSAGE_SECONDS = 300.0  # for a message to leave
URGE_SECONDS = 30.0
Send = Callable[[], SendResult]
Done = Callable[[SendResult], object]
OnLoop = Callable[[Callable[[], object]], object]


class Job(NamedTuple):
    """A message on its way, and whom to tell what became of it."""

    send: Send  # once
    until: float  # monotonic
    waited_for: bool  # by a person, or by the session that asked them
    done: Done = lambda result: None
    key: str = ""  # what it is about, for `Outbox.cancel`
    lane: str = ""  # whom it is for, where each has limits of their own
    since: float = 0.0  # monotonic: when it was queued
    lasts: bool = False  # a change of a card: of use until its deadline
    plainer: tuple[Send, ...] = ()  # other ways to say it, if this one is refused


class RateLimit:
    """Sliding windows over the moments of past messages."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._sent: deque[float] = deque(maxlen=max(count for count, _ in limits))
        self.paused_until = 0.0

    def note(self, now: float) -> None:
        """A message leaves."""
        self._sent.append(now)

    def wait(self, now: float) -> float:
        """Seconds until the next may leave."""
        waits = [
            self._sent[-count] + seconds - now
            for count, seconds in self._limits
            if len(self._sent) >= count
        ]
        return max([0.0, self.paused_until - now, *waits])

    def ahead(self, place: int) -> float:
        """About how long a message waits behind `place` others."""
        return max(place // count * seconds for count, seconds in self._limits)


class Lanes:
    """Limits of each receiver, beside those of the whole queue."""

    def __init__(self, limits: Limits, codes: frozenset[int]) -> None:
        self._limits = limits
        self._codes = codes  # refusals that are about one receiver only
        self._lanes: OrderedDict[str, RateLimit] = OrderedDict()

    def wait(self, lane: str, now: float) -> float:
        """Seconds until the next may leave for this receiver."""
        limit = self._lanes.get(lane)
        return limit.wait(now) if limit is not None else 0.0

    def note(self, lane: str, now: float) -> None:
        """A message leaves for them."""
        if not lane:
            return
        limit = self._lanes.setdefault(lane, RateLimit(self._limits))
        limit.note(now)
        self._lanes.move_to_end(lane)
        if len(self._lanes) > MAX_QUEUE:
            self._lanes.popitem(last=False)

    def pause(self, lane: str, code: int, now: float) -> bool:
        """Whether a refusal was about this receiver only; they wait a while then."""
        if code not in self._codes or lane not in self._lanes:
            return False
        self._lanes[lane].paused_until = now + LANE_PAUSE
        return True


class Outbox:
    """One queue, and the thread that sends what is in it."""

    def __init__(
        self,
        name: str,
        limit: RateLimit,
        on_loop: OnLoop,
        clock: Callable[[], float] = time.monotonic,
        jitter: Callable[[], float] = random.random,
        lanes: Lanes | None = None,
        heard: Done = lambda result: None,
    ) -> None:
        self._lanes = lanes or Lanes(NO_LIMIT, frozenset())
        self._name = name
        self._limit = limit
        self._on_loop = on_loop
        self._heard = heard
        self._clock = clock
        self._jitter = jitter
        # From the loop: jobs, and the keys of those to cancel.
        self._incoming: deque[Job | str] = deque()
        self._jobs: deque[Job] = deque()  # touched by the sending thread only
        self._failures = 0  # in a row
        self._failed = 0.0  # when the last one was
        self._pause = 0.0  # how long the queue rests if nobody waits
        self._not_before = 0.0  # what the service itself asked for
        self._state = ("up", msg("nothing sent yet"))
        self._woken = threading.Event()
        self._closed = False
        self._sending = False
        self._silent = False  # whether the last attempt was met by silence

    def start(self) -> None:
        """Begin to send."""
        threading.Thread(target=self._run, name=self._name, daemon=True).start()

    def close(self) -> None:
        """Stop sending; what is still queued is dropped."""
        self._closed = True
        self._woken.set()

    def state(self) -> tuple[str, str]:
        """`up` or `down` by the last message, and what to do about it."""
        state, detail = self._state
        waiting = len(self._incoming) + len(self._jobs)
        wait = self._limit.wait(self._clock()) if waiting else 0.0
        if state == "up" and wait > 0:
            detail = msg("limited: {} cards wait, the next for {:.0f} s", waiting, wait)
        return state, detail

    def busy(self) -> bool:
        """Whether a message waits to be sent, and may be soon."""
        waiting = bool(self._incoming or self._jobs or self._sending)
        return waiting and self._state[0] == "up"

    def add(self, job: Job) -> None:
        """Queue a message, or give it up if it cannot leave in time."""
        place = len(self._incoming) + len(self._jobs)
        if place >= MAX_QUEUE or self._clock() + self._limit.ahead(place) > job.until:
            self._give_up(job, TOO_MANY)
            return
        self._incoming.append(job._replace(since=self._clock()))
        self._woken.set()

    def cancel(self, key: str) -> None:
        """Drop what is queued under this key and has not left yet."""
        if self._incoming or self._jobs or self._sending:
            self._incoming.append(key)
            self._woken.set()

    def step(self) -> float | None:
        """Send at most one message. Seconds until more can be done; None: no more."""
        self._take_in()
        self._drop_hopeless()
        if not self._jobs:
            return None
        now = self._clock()
        wait = max(self._paused_until() - now, self._limit.wait(now))
        if wait <= 0:
            waits = [self._lanes.wait(job.lane, now) for job in self._jobs]
            wait = min(waits)
        if wait > 0:
            return wait
        place = waits.index(wait)  # the first that may leave
        job = self._jobs[place]
        del self._jobs[place]
        self._sending = True
        try:
            self._deliver(job)
        finally:
            self._sending = False
        return 0.0

    def _take_in(self) -> None:
        while self._incoming:
            given = self._incoming.popleft()
            if isinstance(given, Job):
                self._jobs.append(given)
                continue
            for job in [job for job in self._jobs if job.key == given]:
                self._jobs.remove(job)
                self._give_up(job, NOT_WANTED)

    def _give_up(self, job: Job, why: str) -> None:
        self._on_loop(partial(job.done, SendResult(False, GIVEN_UP, why)))

    def _run(self) -> None:
        wait: float | None = None
        while not self._closed:
            self._woken.wait(wait)
            self._woken.clear()
            try:
                wait = self.step()
            except Exception as error:  # one bad message must not end the channel
                log(f"{self._name} channel: {type(error).__name__}: {error}", "error")
                wait = FIRST_PAUSE

    def _paused_until(self) -> float:
        """When the next try may be: soon, if anybody waits for it."""
        waited_for = any(job.waited_for for job in self._jobs)
        pause = min(self._pause, LONGEST_PAUSE) if waited_for else self._pause
        return max(self._failed + pause, self._not_before)

    def _drop_hopeless(self) -> None:
        """Take out what cannot be sent in time."""
        now = self._clock()
        earliest = max(now, self._paused_until())
        state, detail = self._state
        for _ in range(len(self._jobs)):
            job = self._jobs.popleft()
            # A person would get it too late from a service that says nothing.
            is_short = self._silent and job.waited_for and not job.lasts
            is_unheard = is_short and now - job.since >= SILENT_SECONDS
            if job.until <= earliest or is_unheard:
                self._give_up(job, detail if state == "down" else TOO_LATE)
            else:
                self._jobs.append(job)

    def _deliver(self, job: Job) -> None:
        began = self._clock()
        self._limit.note(began)
        self._lanes.note(job.lane, began)
        try:
            result = job.send()
        except Exception as error:  # a plainer one is better than a lost request
            log(f"cannot build a message: {type(error).__name__}: {error}", "error")
            result = UNBUILT
        now = self._clock()
        self._silent = result.code == NO_ANSWER and now - began >= SILENT_ATTEMPT
        is_again = result.retry or (result.fallback and bool(job.plainer))
        if result.retry:
            if not self._lanes.pause(job.lane, result.code, now):
                self._pause_all(result)
            self._jobs.appendleft(job)
        elif is_again:
            first, *others = job.plainer
            self._jobs.appendleft(job._replace(send=first, plainer=tuple(others)))
        elif result.ok:
            self._failures = 0
            self._state = ("up", "")
        else:
            self._state = ("down", result.message)

        def report() -> None:
            """On the loop: what became of an attempt, and of the job."""
            self._heard(result)
            if not is_again:
                job.done(result)

        self._on_loop(report)

    def _pause_all(self, result: SendResult) -> None:
        """Pause the queue, twice as long each time; not all bots at the same moment."""
        growing = min(FIRST_PAUSE * 2**self._failures, LONGEST_WITHOUT_WAITER)
        self._pause = growing * (0.5 + self._jitter())
        self._failed = self._clock()
        self._not_before = self._failed + result.retry_after
        self._failures = min(self._failures + 1, 10)
        self._state = ("down", result.message)


# What leaves an app.


def _nothing(result: SendResult) -> None:
    """What is to be done about most results."""


def nonce() -> str:
    """What tells a message from every other, and nobody can guess."""
    return secrets.token_urlsafe(12)


class Sender:
    """One app's outboxes, and how its messages are sent and changed.

    What became of a message is told to `done` at once, and kept as a promise.
    """

    def __init__(
        self,
        api: AppApi,
        name: str,
        on_loop: OnLoop,
        later: Later,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
        language: str = "zh",
        heard: Done = _nothing,
    ) -> None:
        self.api, self.later, self.clock, self.wall = api, later, clock, wall
        self._language = language
        self.panels = RateLimit(PANEL_LIMIT)
        queues = ((name, CARD_LIMIT), (f"{name} changes", CHANGE_LIMIT))
        self.cards, self.changes = (
            Outbox(each, RateLimit(most), on_loop, heard=heard,
                   lanes=Lanes(EACH_LIMIT, EACH_CODES))
            for each, most in queues
        )  # fmt: skip

    def start(self) -> None:
        self.cards.start()
        self.changes.start()

    def close(self) -> None:
        self.cards.close()
        self.changes.close()

    def say(self, key: str, **values: object) -> str:
        return text(self._language, key, **values)

    # A message of its own.

    def card(
        self,
        call: Send,
        seconds: float,
        done: Done,
        key: str = "",
        receiver: str = "",
        lasts: bool = False,
    ) -> None:
        """Send a card that people wait for, or what takes its place in the queue."""
        until = self.clock() + seconds
        self.cards.add(Job(call, until, True, done, key, receiver, lasts=lasts))

    def send(
        self,
        receiver: str,
        card: Card,
        key: str = "",
        seconds: float = MESSAGE_SECONDS,
        waited_for: bool = True,
    ) -> Promise[SendResult]:
        """A card; the same key within an hour is one message."""
        left = Promise[SendResult]()
        call = partial(self.api.send, receiver, card, key or nonce())
        until = self.clock() + seconds
        self.cards.add(Job(call, until, waited_for, left.resolve, lane=receiver))
        return left

    # What is there already.

    def queue(
        self,
        call: Send,
        seconds: float,
        done: Done = _nothing,
        key: str = "",
        message_id: str = "",
        waited_for: bool = True,
    ) -> Promise[SendResult]:
        """A call that changes a message, or puts something below it."""
        left, until = Promise[SendResult](), self.clock() + seconds

        def tell(result: SendResult) -> None:
            done(result)
            left.resolve(result)

        job = Job(call, until, waited_for, tell, key, message_id, lasts=True)
        self.changes.add(job)
        return left

    def redraw(
        self,
        message_id: str,
        card: Card,
        seconds: float,
        done: Done = _nothing,
        key: str = "",
        waited_for: bool = True,
    ) -> Promise[SendResult]:
        """Change a card that is out."""
        call = partial(self.api.update, message_id, card)
        return self.queue(call, seconds, done, key, message_id, waited_for)

    def reply(
        self,
        message_id: str,
        content: dict[str, Any],
        kind: str = CARD,
        seconds: float = MESSAGE_SECONDS,
        key: str = "",
    ) -> None:
        """Put something below a message, once if it is about `key`."""
        uuid = f"r-{key}" if key else nonce()
        call = partial(self.api.reply, message_id, content, uuid, kind)
        self.queue(call, seconds, key=key, message_id=message_id)

    def tell(self, message_id: str, said: str) -> None:
        """Say something below a person's message, if there is something to say."""
        if message_id and said:
            self.reply(message_id, {"text": said}, "text")

    def say_left(self, message_id: str, left: int, key: str) -> str:
        """Say below a card how much time is left; returns what was said."""
        hurry = self.say("{seconds} seconds left", seconds=left)
        self.reply(message_id, {"text": hurry}, "text", left, key)
        return hurry

    def buzz(self, message_id: str, open_id: str) -> None:
        call = partial(self.api.urge, message_id, open_id)
        self.queue(call, URGE_SECONDS, message_id=message_id)
