"""Cards by a Feishu custom bot: URL buttons, sent through an outbox.

A sent card cannot be changed or taken back, so a settled request is merely not sent.
Where its buttons lead is told by `url`, given from above.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from functools import partial

from feishuperm.channels.base import Announcement, Channel
from feishuperm.channels.outbox import Form, Job, Outbox, RateLimit
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
from feishuperm.models.ask import Ask, Notice

# Messages per seconds that Feishu allows one bot.
LIMITS = ((5, 1.0), (100, 60.0))
NOTICE_SECONDS = 300  # a notice that could not be sent for so long is old news


class WebhookChannel(Channel):
    """Announces requests through a custom bot; `done` is called from its thread."""

    name = "webhook"
    stands_in_for = "app"

    def __init__(
        self,
        address: str,
        secret: str,
        url: Url,
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
        self._outbox = Outbox(self.name, self._limit, clock, jitter)
        self.step = self._outbox.step

    def start(self) -> None:
        self._outbox.start()

    def close(self) -> None:
        self._outbox.close()

    def state(self) -> tuple[str, str]:
        return self._outbox.state()

    def announce(self, ask: Ask, announcement: Announcement) -> None:
        """Queue the card of a request; its plainest form cannot be answered."""
        until, wanted, done = announcement[:3]

        def left() -> float:
            return until - self._wall()

        builds = permission_messages(ask, self._url, self._at, left)
        *forms, plainest = (Form(partial(self._send, build)) for build in builds)
        forms.append(plainest._replace(answerable=False))
        ends = self._clock() + until - self._wall()
        self._outbox.add(Job(tuple(forms), ends, True, wanted, done))

    def notify(self, notice: Notice) -> None:
        """Queue the card of a notice."""
        card = partial(build_notice_card, notice, self._language, self._at)
        form = Form(partial(self._send, lambda: card_message(card())))
        self._outbox.add(Job((form,), self._clock() + NOTICE_SECONDS, False))

    def _send(self, build: Callable[[], Message]) -> SendResult:
        result = self._bot.send(build())
        if result.code == BAD_SIGN:  # then it was tried twice
            self._limit.note(self._clock())
        return result
