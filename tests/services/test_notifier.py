"""Who is shown a request, in which order, and what is said when nobody can be."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from feishuperm.models.ask import Ask, Notice, Outcome
from feishuperm.services.notifier import Notifier
from tests.asks import make_ask
from tests.services.test_approvals import Channel, Timers

KINDS = frozenset(("permission", "denied"))


class Asked:
    """A request, as far as a notifier cares."""

    def __init__(self, ask: Ask) -> None:
        self.open = True
        self.made = ask
        self.id, self.kind, self.tool_name = ask.id, ask.kind, ask.tool
        self.created, self.seconds = ask.created, ask.seconds

    def ask(self) -> Ask:
        return self.made

    def waits(self) -> bool:
        return self.open


class Muted(Channel):
    def muted(self) -> bool:
        return True


class Bench:
    """Channels, a clock, and requests that write down what they are told."""

    def __init__(self, *channels: Channel, **options: bool) -> None:
        self.inbox = Channel("inbox", passive=True)
        self.card, self.bot = Channel("app"), Channel("webhook")
        self.channels: Sequence[Channel] = channels or (self.inbox, self.card, self.bot)
        self.timers = Timers()
        self.changes: list[int] = []
        self.request: Any = None
        self.said: list[str] = []
        self.delays: list[float] = []
        self.notifier = Notifier(
            self.channels, KINDS,
            lambda seconds, fn: self.timers.call_at(self.timers.time + seconds, fn),
            lambda: self.changes.append(1), **options,
        )  # fmt: skip
        self.notifier.serve(self, self.card_delay)

    def announce(self, ask: Ask | None = None, push: bool = True) -> None:
        self.request = Asked(ask or make_ask())
        self.notifier.announce(self.request, push)

    def report(self, channel: Channel, shown: bool, detail: str = "") -> None:
        announcement = channel.asks[-1][1]
        announcement.shown() if shown else announcement.failed(detail)

    # The requests.

    def mark_shown(self, request: Any) -> None:
        self.said.append("shown")

    def release(self, request: Any, reason: str) -> None:
        self.said.append(f"failed: {reason}")

    def mark_lost(self, request: Any) -> None:
        self.said.append("lost")

    def card_delay(self, request: Any) -> float:
        return self.delays.pop(0) if self.delays else 0.0


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_request_is_shown_on_every_channel_once(bench: Bench) -> None:
    bench.announce()
    assert [len(channel.asks) for channel in bench.channels] == [1, 1, 1]


def test_request_that_every_channel_failed_to_show_is_told_with_all_reasons(
    bench: Bench,
) -> None:
    bench.announce()
    bench.report(bench.card, False, "no app")
    assert bench.said == []
    bench.report(bench.bot, False, "no bot")
    assert bench.said == ["failed: no app; no bot"]


def test_request_that_somebody_looks_at_has_not_failed(bench: Bench) -> None:
    bench.inbox.looked_at = True
    bench.announce()
    bench.report(bench.card, False, "x")
    bench.report(bench.bot, False, "y")
    assert bench.said == []


def test_channel_stands_in_only_when_the_one_before_it_fails(bench: Bench) -> None:
    bench.bot.stands_in_for = "app"
    bench.announce()
    assert bench.bot.asks == []
    bench.report(bench.card, False, "no app")
    assert len(bench.bot.asks) == 1 and bench.said == []
    bench.report(bench.bot, False, "no bot")
    assert bench.said == ["failed: no app; no bot"]


def test_channel_stands_in_for_nobody_that_is_not_there() -> None:
    bot = Channel("webhook")
    bot.stands_in_for = "app"
    bench = Bench(bot)
    bench.announce()
    assert len(bot.asks) == 1


def test_card_that_nobody_can_answer_any_more_is_lost_when_it_was_the_last(
    bench: Bench,
) -> None:
    bench.announce()
    bench.report(bench.card, True)
    bench.report(bench.bot, True)
    bench.card.asks[0][1].lost()
    assert bench.said == ["shown", "shown"]
    bench.bot.asks[0][1].lost()
    assert bench.said[-1] == "lost"


def test_kind_that_nobody_wants_pushed_is_for_who_looks(bench: Bench) -> None:
    bench.announce(make_ask(kind="plan"))
    assert [len(channel.asks) for channel in bench.channels] == [1, 0, 0]
    assert bench.said == [], "a plan waits for whoever looks"


def test_request_that_comes_back_goes_to_the_channel_whose_card_is_out(
    bench: Bench,
) -> None:
    bench.card.kept = True
    bench.announce(push=False)
    assert [len(channel.asks) for channel in bench.channels] == [1, 1, 0]


def test_muted_chat_lets_the_terminal_ask(bench: Bench) -> None:
    muted = Bench(bench.inbox, Muted("app"))
    muted.announce()
    assert muted.said == ["failed: muted in the chat"]
    assert [len(channel.asks) for channel in muted.channels] == [1, 0]
    muted.inbox.looked_at = bench.inbox.looked_at = True
    muted.said.clear()
    muted.announce()
    assert muted.said == []


def test_kind_that_stops_the_terminal_does_not_wait_where_nobody_looks() -> None:
    inbox = Channel("inbox", passive=True)
    bench = Bench(inbox)
    bench.announce(make_ask(kind="denied"))
    assert bench.said == ["failed: nobody looks"]
    bench.said.clear()
    inbox.looked_at = True
    bench.announce(make_ask(kind="denied"))
    assert bench.said == []


def test_card_goes_out_after_the_delay_if_it_is_still_waited_for() -> None:
    channels = Channel("inbox", passive=True), Channel("app")
    bench = Bench(*channels)
    bench.delays = [5.0, 0.0, 5.0]
    bench.announce()
    assert [len(channel.asks) for channel in channels] == [1, 0]
    bench.timers.turn(4)
    assert channels[1].asks == []
    bench.timers.turn(1)
    assert len(channels[1].asks) == 1
    bench.announce()
    bench.request.open = False
    bench.timers.turn(5)
    assert len(channels[1].asks) == 1


def test_card_is_delayed_while_a_person_is_there_and_made_when_it_leaves(
    bench: Bench,
) -> None:
    bench.delays = [3.0, 2.0, 0.0]
    bench.announce()
    bench.request.made = late = make_ask(why="known by then")
    assert bench.card.asks == [] and bench.inbox.asks[0][0].why == ""
    bench.timers.turn(3)
    assert bench.card.asks == []
    bench.timers.turn(2)
    assert bench.card.asks[0][0] is late and bench.delays == []


def test_second_failure_of_one_channel_is_not_the_failure_of_another(
    bench: Bench,
) -> None:
    """A hook that came back announces again what is on its way already."""
    bench.announce()
    bench.announce()
    for _, announcement in bench.card.asks:
        announcement.failed("no app")
    assert bench.said == []


def test_report_on_a_request_that_has_ended_is_nothing(bench: Bench) -> None:
    bench.announce()
    bench.notifier.settle(Outcome(bench.request.id))
    for channel in (bench.card, bench.bot):
        ((_, announcement),) = channel.asks
        assert not announcement.is_wanted()
        announcement.shown()
        announcement.lost()
        announcement.failed("too late")
        announcement.stand_in()
    assert bench.said == []


def test_where_cards_are_titles_only_the_inbox_is_told_more() -> None:
    bench = Bench(titles_only=True)
    bench.announce()
    outcome = Outcome("1-a", done="x", summary="npm test")
    bench.notifier.settle(outcome)
    bench.notifier.update(outcome)
    bench.notifier.notify(Notice("stop", 1.0, text="all of it"))
    assert bench.inbox.asks[0][0].blocks and bench.inbox.outcomes == [outcome]
    assert bench.inbox.notices[0].text == "all of it"
    for channel in (bench.card, bench.bot):
        ask = channel.asks[0][0]
        assert ask.titled and not ask.blocks and not ask.summary
        assert channel.outcomes == channel.updates == [outcome.bare()]
        assert channel.notices[0].text == ""


def test_end_and_news_reach_every_channel_and_open_page(bench: Bench) -> None:
    outcome = Outcome("1-a", done="x")
    bench.notifier.renew()
    bench.notifier.settle(outcome)
    bench.notifier.update(outcome)
    notice = Notice("stop", 1.0)
    bench.notifier.notify(notice)
    for channel in bench.channels:
        assert channel.renewed == 1 and channel.notices == [notice]
        assert channel.outcomes == channel.updates == [outcome]
    assert len(bench.changes) == 3


def test_state_of_every_channel_has_its_own_facts(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bench.card, "facts", lambda: {"owner": "ou_me"})
    inbox, app, _ = bench.notifier.states()
    assert inbox == {"name": "inbox", "state": "up", "detail": ""}
    assert app["owner"] == "ou_me"
