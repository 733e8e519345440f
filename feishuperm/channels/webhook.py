"""Cards by a Feishu custom bot: URL buttons, sent through an outbox.

A sent card cannot be changed or taken back, so a settled request is merely not sent.
Where its buttons lead is told by `url`, given from above.
"""

from __future__ import annotations

import random
import time
from functools import partial

from feishuperm.channels.outbox import Form, Job, Outbox, RateLimit
from feishuperm.lib.feishu import (
    Message,
    Post,
    SendResult,
    build_notice_card,
    card_message,
    permission_messages,
    send_message,
    title_messages,
)
from feishuperm.lib.post import Reply, post_json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from feishuperm.channels.base import Announcement
    from feishuperm.lib.feishu import Url
    from feishuperm.models.ask import Ask, Notice, Outcome

# Messages per seconds that Feishu allows one bot.
LIMITS = ((5, 1.0), (100, 60.0))
NOTICE_SECONDS = 300  # a notice that could not be sent for so long is old news


class WebhookChannel:
    """Announces requests through a custom bot; `done` is called from its thread."""

    name = "webhook"
    passive = False
    stands_in_for = "app"

    def __init__(
        self,
        address: str,
        secret: str,
        url: Url,
        language: str = "zh",
        at: str = "",
        title_only: bool = False,
        post: Post = post_json,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self._address = address
        self._secret = secret
        self._url = url
        self._language = language
        self._at = at
        self._title_only = title_only  # nothing of a call leaves this machine
        self._post = post
        self._clock = clock
        self._wall = wall
        self._limit = RateLimit(LIMITS)
        self._outbox = Outbox(self.name, self._send, self._limit, clock, jitter)
        self.start = self._outbox.start
        self.close = self._outbox.close
        self.state = self._outbox.state
        self.step = self._outbox.step

    def announce(self, ask: Ask, announcement: Announcement) -> None:
        """Queue the card of a request; its plainest form cannot be answered."""
        until, wanted, done = announcement[:3]

        def left() -> float:
            return until - self._wall()

        if self._title_only:
            builds = title_messages(ask, self._url, left)
        else:
            builds = permission_messages(ask, self._url, self._at, left)
        forms = (*map(Form, builds[:-1]), Form(builds[-1], answerable=False))
        ends = self._clock() + until - self._wall()
        self._outbox.add(Job(forms, ends, True, wanted, done))

    def update(self, outcome: Outcome) -> None:
        """The same."""

    def notify(self, notice: Notice) -> None:
        """Queue the card of a notice."""
        if self._title_only:
            notice = notice._replace(text="", project="", branch="")
        card = partial(build_notice_card, notice, self._language, self._at)
        forms = (Form(lambda: card_message(card())),)
        self._outbox.add(Job(forms, self._clock() + NOTICE_SECONDS, False))

    def renew(self) -> None:
        """A card that is out stays as it is."""

    def settle(self, outcome: Outcome) -> None:
        """Nothing: a queued card is dropped by its own `wanted`."""

    def muted(self) -> bool:
        return False

    def keeps(self, id: str) -> bool:
        return False

    def facts(self) -> dict[str, object]:
        return {}

    def watched(self) -> bool:
        return False

    def busy(self) -> bool:
        return False  # a card that is not out says nothing of an end

    def _send(self, message: Message) -> SendResult:
        return send_message(
            self._address, message, self._secret, self._counted, self._wall
        )

    def _counted(self, address: str, body: bytes) -> Reply:
        self._limit.note(self._clock())
        return self._post(address, body)
