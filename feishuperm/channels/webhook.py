"""Cards by a Feishu custom bot: URL buttons, sent through an outbox.

A sent card cannot be changed or withdrawn, so a settled request is merely not sent.
Where its buttons lead is told by `url`, given from above.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from functools import partial

from feishuperm.channels.base import Announcement, Channel
from feishuperm.channels.outbox import Job, OnLoop, Outbox, RateLimit, Send
from feishuperm.lib.feishu import (
    BAD_SIGN,
    Bot,
    Message,
    Post,
    SendResult,
    Url,
    build_notice_card,
    card_message,
    permission_messages,
)
from feishuperm.lib.post import post_json
from feishuperm.messages import msg
from feishuperm.models.ask import Ask, Notice, Outcome

# Messages per seconds that Feishu allows one bot.
LIMITS = ((5, 1.0), (100, 60.0))
PLAIN = msg("Feishu refused the card; only a text without buttons was sent")
NOTICE_SECONDS = 300  # a notice that could not be sent for so long is old news


class WebhookChannel(Channel):
    """Announces requests through a custom bot."""

    name = "webhook"
    stands_in_for = "app"

    def __init__(
        self,
        address: str,
        secret: str,
        url: Url,
        on_loop: OnLoop,
        language: str = "zh",
        at: str = "",
        post: Post = post_json,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self._bot = Bot(address, secret, post, wall)
        self._url = url
        self._language = language
        self._at = at
        self._clock = clock
        self._wall = wall
        self._limit = RateLimit(LIMITS)
        self._outbox = Outbox(self.name, self._limit, on_loop, clock, jitter)
        self.step = self._outbox.step

    def start(self) -> None:
        self._outbox.start()

    def close(self) -> None:
        self._outbox.close()

    def state(self) -> tuple[str, str]:
        return self._outbox.state()

    def announce(self, ask: Ask, announcement: Announcement) -> None:
        """Queue the card of a request; its plainest variant cannot be answered."""

        def left() -> float:
            return announcement.until - self._wall()

        def done(result: SendResult) -> None:
            announcement.shown() if result.ok else announcement.failed(result.message)

        builds = permission_messages(ask, self._url, self._at, left)
        sends: list[Send] = [partial(self._send, build) for build in builds]
        first, *plainer = (*sends[:-1], partial(_unanswerable, sends[-1]))
        ends = self._clock() + left()
        self._outbox.add(Job(first, ends, True, done, ask.id, plainer=tuple(plainer)))

    def settle(self, outcome: Outcome) -> None:
        self._outbox.cancel(outcome.id)

    def notify(self, notice: Notice) -> None:
        """Queue the card of a notice."""
        card = partial(build_notice_card, notice, self._language, self._at)
        send = partial(self._send, lambda: card_message(card()))
        self._outbox.add(Job(send, self._clock() + NOTICE_SECONDS, False))

    def _send(self, build: Callable[[], Message]) -> SendResult:
        result = self._bot.send(build())
        if result.code == BAD_SIGN:  # then it was tried twice
            self._limit.note(self._clock())
        return result


def _unanswerable(send: Send) -> SendResult:
    """What arrives has no button: for a request that is a failure."""
    result = send()
    return result._replace(ok=False, message=PLAIN) if result.ok else result
