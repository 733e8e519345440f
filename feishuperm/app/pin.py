"""The bot's chat on top of a person's list, as long as a card of it is pending.

It needs a permission that an app seldom has; without it nothing changes.  Feishu is
asked in an outbox's thread, and no refusal of it holds up a card.

    down -> up      a card is out: asked once; what Feishu refused is not asked for a
                    while, and what got no answer may be up
    up -> down      no card is pending for DOWN_SECONDS: asked until Feishu did it

Whose list it is on is kept before Feishu hears of it.  So the server after one that was
killed takes the chat down again.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

from feishuperm.app.api import LACKS_SCOPE, AppApi, Result
from feishuperm.lib.task import Later

DOWN_SECONDS = 0.5  # mostly the next request follows; a server that stops waits for it
ASK_SECONDS = 30.0
AGAIN_SECONDS = 60.0  # after a refusal
LACKING_SECONDS = 3600.0  # after one for want of the permission
LONGEST_PAUSE = 600.0  # between two tries to take it down


class Pin:
    """One app and the people who get its cards."""

    def __init__(
        self,
        api: AppApi,
        people: list[str],
        kept: list[str],
        keep: Callable[[list[str]], object],
        queue: Callable[..., object],
        later: Later,
        clock: Callable[[], float],
    ) -> None:
        self._api, self._queue = api, queue
        self._later, self._clock = later, clock
        self._people = people
        self._keep = keep
        self._wanted: list[str] = []  # on whose lists it should be
        self._up = kept  # on whose it may be
        self._is_asking = False
        self._tries = 0  # to take it down, in a row
        self._not_before = -math.inf

    @property
    def is_due(self) -> bool:
        """Whether it is still to be taken down."""
        return bool(self._up) and not self._wanted

    def want(self, is_wanted: bool) -> None:
        """A card is pending, or none is."""
        self._wanted = self._people if is_wanted else []
        self._later(0.0 if is_wanted else DOWN_SECONDS, self._step)

    def _step(self) -> None:
        """Ask for what is not so yet."""
        is_up = not self._up
        waits = is_up and self._clock() < self._not_before
        if self._is_asking or self._up == self._wanted or waits:
            return
        self._is_asking = True
        if is_up:
            self._set(self._wanted)
        call = partial(self._ask, self._up, is_up)
        self._queue(call, ASK_SECONDS, partial(self._told, is_up))

    def _ask(self, people: list[str], is_up: bool) -> Result:
        """The answer, as the data of a result that pauses no outbox."""
        result = self._api.pin(people, is_up)
        return Result(True, 0, "", data={"result": result})

    def _told(self, is_up: bool, sent: Result) -> None:
        self._is_asking = False
        result: Any = sent.data.get("result", sent)
        lacks = result.code in LACKS_SCOPE
        if result.ok and not is_up:
            self._tries = 0
            self._set([])
        elif is_up and not (result.ok or result.retry):
            pause = LACKING_SECONDS if lacks else AGAIN_SECONDS
            self._not_before = self._clock() + pause
            self._set([])
        elif not is_up:
            self._tries = min(self._tries + 1, 10)
            if not lacks:
                self._later(min(2.0**self._tries, LONGEST_PAUSE), self._step)
            return
        self._step()

    def _set(self, people: list[str]) -> None:
        self._up = people
        self._keep(people)
