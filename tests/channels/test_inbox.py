"""The open inbox pages: who is told what, and when."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

from feishuperm.channels.inbox import PING_SECONDS, InboxChannel
from feishuperm.models.ask import Notice, Outcome
from tests.asks import make_ask
from tests.ports import FakeReports

ANNOUNCEMENT = FakeReports().announcement("1-a", 0.0)


class Page:
    """An open page."""

    def __init__(self) -> None:
        self.got: list[bytes] = []
        self.on_close: Callable[[], object] = lambda: None

    def send(self, data: bytes) -> None:
        self.got.append(data)


class House:
    """An inbox, and a loop that does later what it is told."""

    def __init__(self) -> None:
        self.due: list[tuple[float, Callable[[], None]]] = []
        self.rendered = 0
        self.inbox = InboxChannel(
            self.render,
            lambda seconds, fn: self.due.append((seconds, fn)),
        )

    def render(self, full: bool) -> bytes:
        self.rendered += 1
        return b"%s %d" % (b"state" if full else b"change", self.rendered)

    def turn(self) -> None:
        due, self.due = self.due, []
        for _, fn in due:
            fn()


def test_page_gets_the_state_at_once_and_after_every_change() -> None:
    house, page = House(), Page()
    assert not house.inbox.watched()
    house.inbox.open(page)
    assert page.got == [b"state 1"]
    assert house.inbox.watched()
    house.inbox.announce(make_ask(), ANNOUNCEMENT)
    house.turn()
    house.inbox.settle(Outcome("1-a"))
    house.turn()
    assert page.got == [b"state 1", b"change 2", b"change 3"]


def test_many_changes_in_one_turn_are_sent_once() -> None:
    house, page = House(), Page()
    house.inbox.open(page)
    for number in range(100):
        house.inbox.announce(make_ask(id=f"1-{number}"), ANNOUNCEMENT)
    house.turn()
    assert len(page.got) == 2


def test_nothing_is_rendered_while_nobody_looks() -> None:
    house = House()
    house.inbox.announce(make_ask(), ANNOUNCEMENT)
    house.inbox.notify(cast(Notice, None))
    assert (house.due, house.rendered) == ([], 0)


def test_page_that_is_closed_gets_nothing_more_and_counts_no_longer() -> None:
    house, page, other = House(), Page(), Page()
    house.inbox.open(page)
    house.inbox.open(other)
    assert house.inbox.state() == ("up", "2 open")
    page.on_close()
    page.on_close()
    house.inbox.settle(Outcome("1-a"))
    house.turn()
    assert (len(page.got), len(other.got)) == (1, 2)
    assert house.inbox.state() == ("up", "1 open")


def test_last_page_closed_before_the_turn_spares_the_work() -> None:
    house, page = House(), Page()
    house.inbox.open(page)
    house.inbox.settle(Outcome("1-a"))
    page.on_close()
    house.turn()
    assert house.rendered == 1


def test_silent_pages_are_pinged_again_and_again() -> None:
    house, page = House(), Page()
    house.inbox.open(page)
    house.inbox.start()
    house.turn()
    assert page.got[1:] == [b": ping\n\n", b": ping\n\n"]
    assert [seconds for seconds, _ in house.due] == [PING_SECONDS]
    house.inbox.close()


def test_page_of_one_request_follows_it_and_counts_for_nobody_who_looks() -> None:
    house, page = House(), Page()
    news = iter((b"waits", b"ended", b"ran"))
    house.inbox.follow(page, lambda: next(news))
    assert page.got == [b"waits"]
    assert not house.inbox.watched()
    house.inbox.settle(Outcome("1-a"))
    house.turn()
    house.inbox.update(Outcome("1-a"))
    house.turn()
    assert page.got == [b"waits", b"ended", b"ran"]
    assert house.rendered == 0
    page.on_close()
    house.inbox.refresh()
    house.turn()
    assert len(page.got) == 3
