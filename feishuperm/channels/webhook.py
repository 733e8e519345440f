"""Cards by a Feishu custom bot: a queue, its limits, and what to do with each refusal.

A thread of its own sends one message after the other, in the order they came, within
the bot's limits.  A failure that may pass holds the whole queue for a while, since the
next message would meet the same; a refused card is sent again in a plainer form; what
can never pass is given up at once, and so is what cannot be sent before its deadline.
`step()` is the whole of it: the thread only calls it and waits.

A sent card cannot be changed or taken back, so a settled request is merely not sent.
"""

from __future__ import annotations

import random
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from feishuperm.lib.feishu import (
    NO_ANSWER,
    Message,
    Post,
    SendResult,
    build_notice_card,
    card_message,
    permission_messages,
    send_message,
)
from feishuperm.lib.log import log
from feishuperm.lib.post import Reply, post_json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from feishuperm.channels.base import Announcement
    from feishuperm.lib.feishu import Notice
    from feishuperm.models.request import Request

# Messages per seconds that Feishu allows one bot.
LIMITS = ((5, 1.0), (100, 60.0))
FIRST_PAUSE, LONGEST_PAUSE = 0.5, 15.0  # seconds; a person has 55
MAX_QUEUE = 1000  # each holds a decoded request, and 1000 take ten minutes to send
NOTICE_SECONDS = 300  # a notice that could not be sent for so long is old news
NOT_WANTED = "settled before it could be sent"
TOO_LATE = "no time left to send it"
TOO_MANY = "more requests are waiting than Feishu lets a bot send"
PLAIN = "Feishu refused the card; only a text without buttons was sent"
UNBUILT = SendResult(False, NO_ANSWER, "the card could not be built", fallback=True)


class Job(NamedTuple):
    """A message on its way: its forms from best to plainest, and whom to tell."""

    forms: tuple[Callable[[], Message], ...]
    until: float  # monotonic
    wanted: Callable[[], bool]
    done: Callable[[bool, str], object]


class RateLimit:
    """Sliding windows over the moments of past messages."""

    def __init__(self, limits: tuple[tuple[int, float], ...] = LIMITS) -> None:
        self._limits = limits
        self._sent: deque[float] = deque(maxlen=max(count for count, _ in limits))

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
        return max([0.0, *waits])

    def ahead(self, place: int) -> float:
        """About how long a message waits behind `place` others."""
        return max(place // count * seconds for count, seconds in self._limits)


class WebhookChannel:
    """Announces requests through a custom bot; `done` is called from its thread."""

    name = "webhook"
    passive = False

    def __init__(
        self,
        url: str,
        secret: str = "",
        language: str = "zh",
        at: str = "",
        post: Post = post_json,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self._url = url
        self._secret = secret
        self._language = language
        self._at = at
        self._post = post
        self._clock = clock
        self._wall = wall
        self._jitter = jitter
        self._limit = RateLimit()
        self._incoming: deque[Job] = deque()  # from other threads
        self._jobs: deque[Job] = deque()  # touched by the sending thread only
        self._paused = 0.0  # nothing is sent before
        self._failures = 0  # in a row
        self._state = ("up", "nothing sent yet")
        self._woken = threading.Event()
        self._closed = False

    def start(self) -> None:
        """Begin to send."""
        threading.Thread(target=self._run, name="webhook", daemon=True).start()

    def close(self) -> None:
        """Stop sending; what is still queued is dropped."""
        self._closed = True
        self._woken.set()

    def announce(self, announcement: Announcement) -> None:
        """Queue the card of a request."""
        forms = permission_messages(
            announcement.view,
            self._language,
            announcement.buttons,
            announcement.more,
            self._at,
            lambda: announcement.until - self._wall(),
        )
        until = self._clock() + announcement.until - self._wall()
        self._add(Job(tuple(forms), until, announcement.wanted, announcement.done))

    def notify(self, notice: Notice) -> None:
        """Queue the card of a notice."""

        def card() -> Message:
            return card_message(build_notice_card(notice, self._language, self._at))

        until = self._clock() + NOTICE_SECONDS
        self._add(Job((card,), until, lambda: True, lambda shown, detail: None))

    def settle(self, request: Request) -> None:
        """Nothing: a queued card is dropped by its own `wanted`."""

    def watched(self) -> bool:
        return False

    def state(self) -> tuple[str, str]:
        """`up` or `down` by the last message, and what to do about it."""
        return self._state

    def step(self) -> float | None:
        """Send at most one message. Seconds until more can be done; None: no more."""
        while self._incoming:
            self._jobs.append(self._incoming.popleft())
        self._drop_hopeless()
        if not self._jobs:
            return None
        now = self._clock()
        wait = max(self._paused - now, self._limit.wait(now))
        if wait > 0:
            return wait
        self._deliver(self._jobs.popleft())
        return 0.0

    def _run(self) -> None:
        wait: float | None = None
        while not self._closed:
            self._woken.wait(wait)
            self._woken.clear()
            try:
                wait = self.step()
            except Exception as error:  # one bad message must not end the channel
                log(f"webhook channel: {type(error).__name__}: {error}", "error")
                wait = FIRST_PAUSE

    def _add(self, job: Job) -> None:
        place = len(self._incoming) + len(self._jobs)
        if place >= MAX_QUEUE or self._clock() + self._limit.ahead(place) > job.until:
            job.done(False, TOO_MANY)
            return
        self._incoming.append(job)
        self._woken.set()

    def _drop_hopeless(self) -> None:
        """Take out what nobody waits for and what cannot be sent in time."""
        earliest = max(self._clock(), self._paused)
        state, detail = self._state
        for _ in range(len(self._jobs)):
            job = self._jobs.popleft()
            if not job.wanted():
                job.done(False, NOT_WANTED)
            elif job.until <= earliest:
                job.done(False, detail if state == "down" else TOO_LATE)
            else:
                self._jobs.append(job)

    def _deliver(self, job: Job) -> None:
        message = self._build(job.forms[0])
        result = self._send(message) if message else UNBUILT
        if result.retry:
            self._pause(result)
            self._jobs.appendleft(job)
        elif result.fallback and len(job.forms) > 1:
            self._jobs.appendleft(job._replace(forms=job.forms[1:]))
        elif not result.ok or message["msg_type"] == "text":
            self._state = ("down", result.message or PLAIN)
            job.done(False, result.message or PLAIN)
        else:
            self._failures = 0
            self._state = ("up", "")
            job.done(True, "")

    def _build(self, form: Callable[[], Message]) -> Message:
        try:
            return form()
        except Exception as error:  # a plainer form is better than a lost request
            log(f"cannot build a message: {type(error).__name__}: {error}", "error")
            return {}

    def _send(self, message: Message) -> SendResult:
        return send_message(self._url, message, self._secret, self._counted, self._wall)

    def _counted(self, url: str, body: bytes) -> Reply:
        self._limit.note(self._clock())
        return self._post(url, body)

    def _pause(self, result: SendResult) -> None:
        """Hold the queue, twice as long each time; not all bots at the same moment."""
        growing = min(FIRST_PAUSE * 2**self._failures, LONGEST_PAUSE)
        jittered = growing * (0.5 + self._jitter())
        self._failures = min(self._failures + 1, 10)
        self._paused = self._clock() + max(jittered, result.retry_after)
        self._state = ("down", result.message)
