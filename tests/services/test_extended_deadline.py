"""A person who reads stops the clock, once, for as long as the hook itself has."""

from __future__ import annotations

from pathlib import Path

import pytest

from feishuperm.models import request as states
from feishuperm.protocol.frames import HookRequest
from tests.services.test_approvals import ID, Bench, Waiter
from tests.services.test_request_manager import PAYLOAD, FakeWaiter
from tests.services.test_request_manager import Desk as Manager

HELD_UNTIL = 55 + 300


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path, PERMISSION_HOLD="300")


def kinds(waiter: Waiter) -> bytes:
    return b"".join(kind for kind, _ in waiter.frames)


def test_request_that_somebody_reads_is_not_denied_at_its_time(bench: Bench) -> None:
    waiter = bench.ask()
    bench.timers.turn(50)
    assert bench.approvals.extend_deadline(ID)
    assert waiter.frames[1:] == [(b"S", b""), (b"H", b"305")]
    bench.timers.turn(HELD_UNTIL - 50 - 1)
    assert bench.request.waits()
    assert bench.approvals.seconds_left(bench.request.id) == 1
    bench.timers.turn(1)
    assert bench.request.state == states.EXPIRED
    assert waiter.decision()["message"] == "权限请求超时，自动拒绝"


def test_clock_is_stopped_once_whoever_looks_again(bench: Bench) -> None:
    """The hook's own time-out is the end, so nothing may add to it twice."""
    waiter = bench.ask()
    for _ in range(5):
        bench.timers.turn(10)
        assert bench.approvals.extend_deadline(ID)
    assert kinds(waiter) == b"ASH"
    assert bench.inbox.renewed == 1
    bench.timers.turn(HELD_UNTIL - 50)
    assert bench.request.state == states.EXPIRED


def test_answer_while_the_clock_stands_counts_as_any_other(bench: Bench) -> None:
    waiter = bench.ask()
    bench.approvals.extend_deadline(ID)
    bench.timers.turn(200)
    bench.answer("allow")
    assert waiter.decision() == {"behavior": "allow"}
    bench.timers.turn(1000)
    assert bench.request.state == states.ALLOWED


def test_without_the_setting_nothing_stops_the_clock(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    waiter = bench.ask()
    assert not bench.channel.asks[0][0].hold
    bench.channel.asks[0][1].shown()
    assert not bench.approvals.extend_deadline(ID)
    assert b"H" not in kinds(waiter)
    bench.timers.turn(55)
    assert bench.request.state == states.EXPIRED


def test_unknown_or_ended_request_has_no_clock(bench: Bench) -> None:
    assert not bench.approvals.extend_deadline("1-00000000")
    waiter = bench.ask()
    bench.answer("deny")
    assert not bench.approvals.extend_deadline(ID)
    assert b"H" not in kinds(waiter)


def test_ask_offers_to_hold_until_it_is_held(bench: Bench) -> None:
    bench.ask()
    before = bench.approvals.ask(ID)
    assert before is not None
    assert (before.hold, before.seconds) == (True, 55)
    bench.approvals.extend_deadline(ID)
    after = bench.approvals.ask(ID)
    assert after is not None
    assert (after.hold, after.seconds) == (False, HELD_UNTIL)


def test_one_held_request_does_not_hold_the_others(bench: Bench) -> None:
    other = "1700000000-0000beef"
    bench.ask()
    waiter = bench.ask(id=other)
    bench.channel.asks[1][1].shown()
    bench.approvals.extend_deadline(ID)
    bench.timers.turn(55)
    assert bench.request.waits()
    assert waiter.frames[-1][0] == b"D"
    bench.timers.turn(300)
    assert bench.request.state == states.EXPIRED


def returned(manager: Manager, shown: str, left: int) -> float:
    """How long a hook still has that a new server is asked by."""
    hook = HookRequest(ID, shown, "/p", b"{}", left)
    request = manager.manager.register(hook, PAYLOAD, FakeWaiter(), 0.0)
    assert request is not None
    assert request.shown == (shown in ("shown", "held"))
    return request.deadline


def test_held_request_keeps_its_time_over_a_restart() -> None:
    manager = Manager(hold=300)
    assert returned(manager, "held", 260) == 260
    request = manager.manager.get(ID)
    assert request is not None and request.extended
    assert not manager.manager.extend(request, 0.0)
    assert request.created == manager.wall - (HELD_UNTIL - 260)


def test_hook_cannot_ask_for_more_than_the_settings_give() -> None:
    assert returned(Manager(hold=300), "held", 9999) == HELD_UNTIL
    assert returned(Manager(hold=0), "held", 9999) == 55
    assert returned(Manager(hold=300), "shown", 9999) == 55


def test_hook_that_comes_back_to_the_same_server_is_told_again(bench: Bench) -> None:
    """The frame that told it may have been lost with its connection."""
    bench.ask()
    bench.approvals.extend_deadline(ID)
    bench.timers.turn(5)
    again = bench.ask(shown="again")
    assert (b"H", b"350") in again.frames
