"""The one door of a machine whose cards are titles (`FEISHUPERM_CARD=title`).

Whatever a channel that leaves this machine is given to show comes by one of two ways:
the calls of `Channel`, or the answers of its `Counter`.  Both are made bare here, so
that a channel cannot tell what it was never told, whatever kind of request or notice
there will be.  What a channel had kept from before is made bare as it is read.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from feishuperm.channels.app.channel import Counter
from feishuperm.channels.base import Announcement, Channel
from feishuperm.errors import FeishupermError
from feishuperm.lib.secrets import HIDDEN
from feishuperm.lib.text import text
from feishuperm.models.ask import Answer, Ask, Notice, Outcome, Receipt


def bare_ask(ask: Ask) -> Ask:
    """What kind of request it is, with a sentence where its content would be."""
    return ask.bare(text(ask.language, "card.title_only"))


class BareChannel(Channel):
    """A channel that is told the titles of things and nothing else."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self.name = channel.name
        self.passive = channel.passive
        self.stands_in_for = channel.stands_in_for

    def announce(self, ask: Ask, announcement: Announcement) -> None:
        self._channel.announce(bare_ask(ask), announcement)

    def settle(self, outcome: Outcome) -> None:
        self._channel.settle(outcome.bare())

    def update(self, outcome: Outcome) -> None:
        self._channel.update(outcome.bare())

    def notify(self, notice: Notice) -> None:
        self._channel.notify(notice.bare())

    # What tells nothing of a request.

    def start(self) -> None:
        self._channel.start()

    def renew(self) -> None:
        self._channel.renew()

    def watched(self) -> bool:
        return self._channel.watched()

    def muted(self) -> bool:
        return self._channel.muted()

    def keeps(self, id: str, is_back: bool = False) -> bool:
        return self._channel.keeps(id, is_back)

    def state(self) -> tuple[str, str]:
        return self._channel.state()

    def facts(self) -> Mapping[str, Any]:
        return self._channel.facts()

    def busy(self) -> bool:
        return self._channel.busy()

    def close(self) -> None:
        self._channel.close()


def bare_counter(counter: Counter, language: str) -> Counter:
    """The desk as a channel sees it that may tell titles only."""

    def answer(answer: Answer) -> Receipt:
        return counter.answer(answer).bare(text(language, "card.title_only"))

    def ask(id: str) -> Ask | None:
        found = counter.ask(id)
        return bare_ask(found) if found is not None else None

    def outcome(id: str) -> Outcome | None:
        outcome = counter.outcome(id)
        return outcome.bare() if outcome is not None else None

    def undo(who: str) -> list[str]:
        try:
            return [HIDDEN for _ in counter.undo(who)]
        except FeishupermError:  # it names files and rules
            raise FeishupermError(text(language, "undo.failed")) from None

    return Counter(
        answer,
        counter.waits,
        ask,
        lambda id, most, then: False,
        outcome,
        counter.refused,
        lambda: [(title, "") for title, _ in counter.status()],
        counter.hold,
        counter.left,
        undo,
        lambda: [(id, "", until) for id, _, until in counter.pass_rows()],
        counter.revoke,
    )
