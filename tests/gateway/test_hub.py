"""Machines come and go, taps find them, and nobody else's tap counts."""

from __future__ import annotations

from pathlib import Path

import pytest

from feishuperm.models.ask import to_plain
from feishuperm.protocol.machine import POLICY, TRY_LATER
from tests.gateway.parts import (
    OWNER,
    Bench,
    Clock,
    FakeWire,
    done,
    make_ask,
    settle,
    shared,
)
from tests.gateway.test_attacks import SlowStore

# Logging in.


def test_machine_that_proves_its_key_is_in_and_gets_a_new_one(bench: Bench) -> None:
    machine = bench.enrol()
    wire = bench.wire(machine)
    assert wire.got("welcome")[0]["name"] == "laptop"
    kept = done(bench.store.machine(machine.id))
    assert kept.key == machine.key, "the old key holds until the new one is stored"
    fresh = wire.rotate(machine)
    kept = done(bench.store.machine(machine.id))
    assert (kept.key, kept.next) == (fresh, "")
    assert kept.previous == machine.key, "should the machine have lost the new one"
    FakeWire(bench.hub).log_in(machine, key=fresh)
    again = FakeWire(bench.hub)
    again.log_in(machine)
    assert again.ended is not None and again.ended[0] == POLICY, "the old key is dead"


def test_machine_whose_engine_lost_its_last_writes_is_in_by_an_older_key(
    bench: Bench,
) -> None:
    machine = bench.enrol()
    wire = bench.wire(machine)
    wire.rotate(machine)
    done(bench.store.put_machine(machine))  # a backup
    again = FakeWire(bench.hub)
    again.log_in(machine)
    assert again.got("welcome")
    done(bench.store.put_machine(machine._replace(key="ef" * 32, previous=machine.key)))
    other = FakeWire(bench.hub)
    other.log_in(machine)
    assert other.got("welcome"), "or its disk lost the newest"


def test_crash_before_the_confirmation_leaves_both_keys_good(bench: Bench) -> None:
    machine = bench.enrol()
    fresh = bench.wire(machine).got("welcome")[0]["next"]
    by_new = FakeWire(bench.hub)
    by_new.log_in(machine, key=fresh)
    assert by_new.got("welcome")
    by_old = FakeWire(bench.hub)
    by_old.log_in(machine)
    assert not by_old.got("welcome"), "the machine has shown that it has the new one"


@pytest.mark.parametrize("id", ["m-laptop", "m-nobody", ""])
def test_wrong_key_or_unknown_machine_is_refused_alike(bench: Bench, id: str) -> None:
    machine = bench.enrol()
    wire = FakeWire(bench.hub)
    wire.log_in(machine._replace(id=id), key="cd" * 32)
    assert wire.ended == (POLICY, "unknown machine or wrong key")
    assert bench.hub.metrics.counts["refused_logins"] == 1


def test_wrong_proof_of_the_new_key_ends_the_connection(bench: Bench) -> None:
    machine = bench.enrol()
    wire = bench.wire(machine)
    wire.say("rotated", proof="00" * 32)
    assert wire.ended is not None
    assert done(bench.store.machine(machine.id)).key == machine.key


def test_nothing_is_heard_before_the_login(bench: Bench) -> None:
    bench.enrol()
    wire = FakeWire(bench.hub)
    wire.say("ask", ask={})
    assert wire.ended is not None
    assert bench.api.sent == []


def test_silent_visitor_is_shown_out(bench: Bench, clock: Clock) -> None:
    wire = FakeWire(bench.hub)
    clock.turn(30)
    assert wire.ended is not None and wire.ended[0] == TRY_LATER


def test_same_key_twice_keeps_the_newer_and_tells_everybody(bench: Bench) -> None:
    machine = bench.enrol()
    old = bench.wire(machine)
    new = FakeWire(bench.hub, "198.51.100.9")
    new.log_in(machine, instance="two")
    assert new.got("welcome")
    assert old.got("replaced") and old.ended is not None
    bench.pump()
    assert "198.51.100.9" in str(bench.api.sent[-1][1]), "the owner is told"
    assert bench.hub.connected[machine.id] is new.data


def test_reconnect_of_the_same_server_is_told_to_nobody(bench: Bench) -> None:
    machine = bench.enrol()
    old = bench.wire(machine)
    bench.wire(machine)
    bench.pump()
    assert old.ended is not None and not old.got("replaced")
    assert bench.api.sent == []


# Asks.


def test_unreadable_ask_is_not_shown_and_the_next_one_is(bench: Bench) -> None:
    wire = bench.wire(bench.enrol())
    many = to_plain(make_ask())
    many["fields"] = [{"name": "q", "options": [{"value": "x"}] * 3000}]
    wire.say("ask", ask=many)
    assert [m["ok"] for m in wire.got("shown")] == [False]
    for kind in ("ask", "settle", "update", "receipt"):
        for said in (None, {}, {"id": 7}, {"id": "1", "digest": ""}):
            wire.say(kind, ask=said, outcome=said, receipt=said)
    assert wire.ended is None and bench.api.sent == []
    bench.ask(wire)
    assert wire.got("shown")[-1]["ok"] is True


def test_end_that_a_machine_tells_too_early_puts_it_out_of_nothing(
    tmp_path: Path, clock: Clock
) -> None:
    """Machines before version 2.5 did, and never came back."""
    store = SlowStore(tmp_path / "e", clock)
    bench = Bench(store, clock)
    machine = bench.enrol()
    wire = FakeWire(bench.hub)
    store.is_slow = True
    wire.log_in(machine)
    wire.say("settle", outcome={"id": "1-a"})
    store.go_on()
    assert wire.ended is None and wire.got("welcome")


# Whether taps can arrive.


def test_machines_are_told_when_the_engine_is_away_and_when_it_is_back(
    tmp_path: Path, clock: Clock
) -> None:
    (store,) = shared(tmp_path / "e", clock, 1)
    bench = Bench(store, clock)
    wire = bench.wire(bench.enrol())
    bench.ask(wire)
    store.is_up = False
    clock.turn(3)
    (told,) = wire.got("reach")
    assert told["ok"] is False and "engine" in told["detail"]
    store.is_up = True
    clock.turn(3)
    assert wire.got("reach")[-1]["ok"] is True
    bench.ask(wire, created=1000.0)
    assert wire.got("shown")[-1]["ok"] is True and len(bench.api.sent) == 1


def test_machines_are_told_when_the_file_cannot_be_written(
    bench: Bench, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    wire = bench.wire(bench.enrol())

    def full(*parts: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(bench.store, "_append", full)
        patch.setattr(bench.store, "_compact", full)
        bench.ask(wire)
        assert wire.got("shown")[-1]["ok"] is False
        clock.turn(5)
        assert [told["ok"] for told in wire.got("reach")] == [False]
    clock.turn(20)
    assert [told["ok"] for told in wire.got("reach")] == [False, True]
    bench.ask(wire, id="1-b")
    assert wire.got("shown")[-1]["ok"] is True


def test_app_that_lost_feishu_is_told_unless_another_replica_has_it(
    tmp_path: Path, clock: Clock
) -> None:
    one, two = (Bench(store, clock) for store in shared(tmp_path / "e", clock))
    wire = one.wire(one.enrol())
    one.hub.line_state = lambda: ("waiting", "no route")
    clock.turn(20)
    assert wire.got("reach") == []
    two.hub.line_state = lambda: ("waiting", "no route")
    clock.turn(20)
    (told,) = wire.got("reach")
    assert told == {"t": "reach", "ok": False, "detail":
                    "the gateway has no connection to Feishu: no route"}  # fmt: skip
    late = two.wire(two.enrol("late"))
    assert "no route" in late.got("welcome")[0]["deaf"]
    two.hub.line_state = lambda: ("up", "")
    clock.turn(5)
    assert wire.got("reach")[-1]["ok"] is True


def test_machine_is_told_the_time_now_and_then(bench: Bench, clock: Clock) -> None:
    wire = bench.wire(bench.enrol())
    clock.turn(2 * 3600 + 60)
    first, second = wire.got("time")
    assert 3600 <= second["now"] - first["now"] <= 3610


def test_line_to_feishu_is_watched_while_a_card_is_out(
    bench: Bench, clock: Clock
) -> None:
    told: list[bool] = []
    bench.hub.watch_line = told.append
    wire = bench.wire(bench.enrol())
    ask = bench.ask(wire)
    clock.turn(10)
    assert told == [True]
    wire.say("settle", outcome={"id": ask.id, "done": "x"})
    clock.turn(10)
    assert told == [True, False]


@pytest.mark.parametrize("ahead", [120.0, -120.0])
def test_clock_of_a_replica_is_held_against_the_engines(
    bench: Bench, clock: Clock, ahead: float
) -> None:
    assert bench.hub.clock_problem() == ""
    bench.hub.wall = lambda: clock.now + ahead
    clock.turn(5)
    assert "120 s" in bench.hub.clock_problem()
    assert abs(bench.hub.now() - clock.now) < 1


# Revoking.


def test_revoked_machine_is_out_and_its_cards_void(bench: Bench) -> None:
    machine = bench.enrol()
    wire = bench.wire(machine)
    bench.ask(wire)
    value = bench.value()
    assert done(bench.hub.revoke(machine.id, OWNER)) is not None
    assert wire.ended == (POLICY, "revoked")
    bench.pump()
    assert "机器已被移除" in str(bench.api.updates[-1][1])
    (told,) = bench.tap(value)
    assert told["toast"]["type"] == "warning"
    again = FakeWire(bench.hub)
    again.log_in(machine)
    assert again.ended is not None


# Several replicas.


def test_machine_that_moved_leaves_its_old_replica(
    tmp_path: Path, clock: Clock
) -> None:
    one, two = (Bench(store, clock) for store in shared(tmp_path / "e", clock))
    machine = one.enrol()
    old = one.wire(machine)
    new = two.wire(machine)
    assert old.ended is not None
    two.ask(new)
    told = one.tap(two.value(), message="om_1")
    settle(new, new.got("tap")[0])
    assert told[0]["toast"]["content"] == "已批准运行"
    (row,) = done(one.hub.listing())
    assert row["connected"] is True
