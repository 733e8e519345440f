"""Taps on their way: proven to the machine, told to the person, of nobody else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from feishuperm.models import ask as statuses
from feishuperm.models.ask import Outcome, Receipt, to_plain
from feishuperm.protocol.machine import TAP, is_proof, tap_parts
from tests.gateway.parts import (
    OTHER,
    OWNER,
    Bench,
    Clock,
    done,
    settle,
    shared,
)


def test_tap_is_proven_to_the_machine_and_its_verdict_told(bench: Bench) -> None:
    machine = bench.enrol()
    wire = bench.wire(machine)
    bench.ask(wire)
    assert wire.got("shown") == [
        {"t": "shown", "id": "1-0000000a", "ok": True, "detail": ""}
    ]
    told = bench.tap(bench.value())
    (tap,) = wire.got("tap")
    assert tap["answer"]["who"] == OWNER and tap["answer"]["action"] == "allow"
    parts = tap_parts(machine.id, tap["tap"], tap["answer"], tap["at"])
    assert is_proof(tap["proof"], bytes.fromhex(machine.key), TAP, *parts)
    assert told == []
    settle(wire, tap)
    assert told[0]["toast"] == {"type": "success", "content": "已批准运行"}
    bench.pump()
    assert bench.api.updates[-1][0] == "om_1", "other devices see it too"
    assert bench.records[-1]["who"] == OWNER


def test_button_names_the_machine_and_nothing_more(bench: Bench) -> None:
    wire = bench.wire(bench.enrol())
    bench.ask(wire)
    assert set(bench.value()) == {"id", "action", "digest", "nonce", "machine"}


def test_machine_that_does_not_answer_is_told_as_sent(
    bench: Bench, clock: Clock
) -> None:
    wire = bench.wire(bench.enrol())
    bench.ask(wire)
    told = bench.tap(bench.value())
    clock.turn(2.4)
    assert told == []
    clock.turn(0.2)
    assert told[0]["toast"] == {"type": "info", "content": "已发送给 laptop"}


def test_tap_told_as_sent_reaches_the_machine_that_comes_back(
    bench: Bench, clock: Clock
) -> None:
    machine = bench.enrol()
    wire = bench.wire(machine)
    bench.ask(wire)
    bench.tap(bench.value())
    clock.turn(3)
    wire.end()
    back = bench.wire(machine)
    assert [tap["tap"] for tap in back.got("tap")] == [
        tap["tap"] for tap in wire.got("tap")
    ]
    settle(back, back.got("tap")[0])
    third = bench.wire(machine)
    assert third.got("tap") == [], "once it was answered it is over"


def test_tap_is_not_applied_after_a_long_sleep(bench: Bench, clock: Clock) -> None:
    machine = bench.enrol()
    wire = bench.wire(machine)
    bench.ask(wire)
    bench.tap(bench.value())
    clock.turn(3)
    wire.end()
    clock.turn(120)
    assert bench.wire(machine).got("tap") == []


def test_away_machine_is_told_and_the_tap_is_not_kept(
    bench: Bench, clock: Clock
) -> None:
    machine = bench.enrol()
    wire = bench.wire(machine)
    bench.ask(wire)
    wire.end()
    (told,) = bench.tap(bench.value())
    assert told["toast"]["type"] == "warning"
    assert told["toast"]["content"].startswith("laptop 不在线")
    assert bench.wire(machine).got("tap") == []


@pytest.mark.parametrize(
    ("change", "who", "kind"),
    [
        ({}, OTHER, "error"),
        ({"nonce": "x"}, OWNER, "error"),
        ({"digest": "e" * 16}, OWNER, "error"),
        ({"digest": ""}, OWNER, "error"),
        ({"action": "always"}, OWNER, "error"),
        ({"id": "1-0000000b"}, OWNER, "warning"),
        ({"machine": "m-other"}, OWNER, "warning"),
        ({"machine": ""}, OWNER, "warning"),
    ],
)
def test_forged_tap_reaches_nobody(
    bench: Bench, change: dict[str, str], who: str, kind: str
) -> None:
    wire = bench.wire(bench.enrol())
    other = bench.wire(bench.enrol("other", OTHER))
    bench.ask(wire)
    (told,) = bench.tap({**bench.value(), **change}, who)
    assert told["toast"]["type"] == kind and "card" not in told
    assert wire.got("tap") == [] and other.got("tap") == []


def test_tap_on_another_message_is_refused(bench: Bench) -> None:
    wire = bench.wire(bench.enrol())
    bench.ask(wire)
    (told,) = bench.tap(bench.value(), message="om_elsewhere")
    assert told["toast"]["type"] == "error"
    assert wire.got("tap") == []


def test_request_that_is_cut_can_only_be_refused(bench: Bench) -> None:
    wire = bench.wire(bench.enrol())
    bench.ask(wire, cut=3)
    with pytest.raises(StopIteration):
        bench.value("allow")
    forged = {**bench.value("deny"), "action": "allow"}
    (told,) = bench.tap(forged)
    assert told["toast"]["type"] == "error"
    assert wire.got("tap") == []


def test_engine_that_is_down_asks_for_another_tap(tmp_path: Path, clock: Clock) -> None:
    (store,) = shared(tmp_path / "e.jsonl", clock, 1)
    bench = Bench(store, clock)
    wire = bench.wire(bench.enrol())
    bench.ask(wire)
    store.is_up = False
    (told,) = bench.tap(bench.value())
    assert told["toast"] == {"type": "warning", "content": "请再点一次"}
    wire.say("ask", ask=to_plain(bench.ask(wire, id="1-0000000c")))
    assert wire.got("shown")[-1]["ok"] is False, "its terminal decides, at once"


def test_event_that_comes_twice_is_told_as_sent_only_if_it_was(bench: Bench) -> None:
    machine = bench.enrol()
    wire = bench.wire(machine)
    bench.ask(wire)
    value = bench.value()
    wire.end()  # away: the first is not kept
    assert "不在线" in bench.tap(value, event="e-1")[0]["toast"]["content"]
    assert bench.tap(value, event="e-1")[0]["toast"]["content"] == "请再点一次"
    wire = bench.wire(machine)
    assert bench.tap(value, event="e-2") == []
    assert bench.tap(value, event="e-2")[0]["toast"]["content"] == "已发送给 laptop"
    assert len(wire.got("tap")) == 1


def test_tap_on_one_replica_reaches_the_machine_on_another(
    tmp_path: Path, clock: Clock
) -> None:
    one, two = (Bench(store, clock) for store in shared(tmp_path / "e", clock))
    wire = two.wire(one.enrol())
    two.ask(wire)
    told = one.tap(two.value(), message="om_1")
    (tap,) = wire.got("tap")
    settle(wire, tap)
    assert told[0]["toast"]["content"] == "已批准运行"


def test_machine_on_a_dead_replica_is_away(tmp_path: Path, clock: Clock) -> None:
    stores = shared(tmp_path / "e", clock)
    one, two = (Bench(store, clock) for store in stores)
    wire = two.wire(one.enrol())
    two.ask(wire)
    two.hub._closing = True  # killed: it shows no sign of life any more
    clock.turn(10)
    (told,) = one.tap(two.value(), message="om_1")
    assert "不在线" in told["toast"]["content"]


def test_tap_that_nobody_delivered_is_not_told_as_sent(
    tmp_path: Path, clock: Clock
) -> None:
    """A replica was killed a moment ago: it still counts as alive."""
    stores = shared(tmp_path / "e", clock)
    one, two = (Bench(store, clock) for store in stores)
    machine = one.enrol()
    two.ask(two.wire(machine))
    two.hub._closing = True
    stores[0]._replicas.remove(stores[1])
    told = one.tap(two.value(), message="om_1")
    clock.turn(2.6)
    assert "不在线" in told[0]["toast"]["content"]
    assert "card" not in told[0], "its buttons may be gone meanwhile"
    assert one.wire(machine).got("tap") == [], "nothing is kept"
    again = one.tap(two.value(), message="om_1")
    assert one.hub.connected[machine.id].connection.got("tap") and again == []  # type: ignore[attr-defined]


def test_tap_that_is_heard_too_late_is_not_delivered(
    tmp_path: Path, clock: Clock
) -> None:
    """Its person has been told to try again."""
    stores = shared(tmp_path / "e", clock)
    one, two = (Bench(store, clock) for store in stores)
    wire = two.wire(one.enrol())
    two.ask(wire)
    heard: list[bytes] = []
    hear, stores[1].hear = stores[1].hear, heard.append  # type: ignore[method-assign]
    told = one.tap(two.value(), message="om_1")
    clock.turn(2.6)
    assert told[0]["toast"]["type"] == "warning"
    for entry in heard:
        hear(entry)
    assert wire.got("tap") == []


@pytest.mark.parametrize("ahead", [120.0, -120.0])
def test_moment_of_a_tap_is_told_by_one_clock(
    tmp_path: Path, clock: Clock, ahead: float
) -> None:
    one, two = (Bench(store, clock) for store in shared(tmp_path / "e", clock))
    one.hub.wall = lambda: clock.now + ahead
    clock.turn(5)
    wire = two.wire(one.enrol())
    ahead_of_it = wire.got("welcome")[0]["now"] - clock.now
    two.ask(wire)
    clock.turn(600)
    one.tap(two.value(), message="om_1")
    two.hub.wall = lambda: clock.now - ahead  # set right, or wrong
    clock.turn(5)
    one.tap(two.value(), message="om_1")
    first, second = wire.got("tap")
    assert abs(first["at"] - ahead_of_it - clock.now + 5) < 1
    assert abs(second["at"] - ahead_of_it - clock.now) < 1


def answered(bench: Bench, receipt: Receipt) -> dict[str, Any]:
    """What a person is told whose tap the machine answered like this."""
    wire = bench.wire(bench.enrol())
    bench.ask(wire)
    told = bench.tap(bench.value())
    (tap,) = wire.got("tap")
    wire.say("receipt", tap=tap["tap"], receipt=to_plain(receipt))
    reply: dict[str, Any] = told[0]
    return reply


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (statuses.INCOMPLETE, "warning"),
        (statuses.CONFIRM, "warning"),
        (statuses.REFUSED, "error"),
        ("of a newer version", "error"),
    ],
)
def test_what_the_machine_says_against_a_tap_is_told_in_its_words(
    bench: Bench, status: str, kind: str
) -> None:
    reply = answered(bench, Receipt(status, error="先选一个"))
    assert reply["toast"] == {"type": kind, "content": "先选一个"}
    assert "card" not in reply, "the buttons stay: it can be tapped again"


def test_machine_that_says_nothing_is_tapped_again(bench: Bench) -> None:
    reply = answered(bench, Receipt())
    assert reply["toast"] == {"type": "error", "content": "请再点一次"}


def test_request_that_its_machine_does_not_know_any_more_is_over(bench: Bench) -> None:
    reply = answered(bench, Receipt(statuses.UNKNOWN))
    assert reply["toast"]["type"] == "warning" and reply["card"]
    bench.pump()
    assert [message for message, _ in bench.api.updates] == ["om_1"]
    assert done(bench.store.cards_of("m-laptop")) == []


def test_request_that_had_ended_shows_how_and_is_no_success(bench: Bench) -> None:
    over = Outcome("1-0000000a", "permission", "zh", "denied", done="已拒绝运行")
    reply = answered(bench, Receipt(statuses.ENDED, over))
    assert reply["toast"] == {"type": "info", "content": "已拒绝运行"}
    assert "已拒绝运行" in str(reply["card"])


@pytest.mark.parametrize(
    "status", [statuses.SETTLED, statuses.UNKNOWN, statuses.INCOMPLETE, "x"]
)
def test_every_tap_is_counted_once_whatever_its_machine_says(
    bench: Bench, status: str
) -> None:
    answered(bench, Receipt(status))
    assert sum(bench.hub.metrics.taps.values()) == 1


def test_refused_tap_is_on_record_with_who_tried(bench: Bench) -> None:
    wire = bench.wire(bench.enrol())
    bench.ask(wire)
    bench.tap(bench.value(), OTHER)
    assert bench.records[-1] == {
        "event": "refused", "id": "1-0000000a", "action": "allow", "who": OTHER,
        "machine": "m-laptop",
    }  # fmt: skip


def test_receipt_of_a_tap_that_another_replica_was_given_reaches_it(
    tmp_path: Path, clock: Clock
) -> None:
    one, two = (Bench(store, clock) for store in shared(tmp_path / "e", clock))
    wire = two.wire(one.enrol())
    two.ask(wire)
    told = one.tap(two.value(), message="om_1")
    (tap,) = wire.got("tap")
    refusal = Receipt(statuses.REFUSED, error="not yours")
    wire.say("receipt", tap=tap["tap"], receipt=to_plain(refusal))
    assert told[0]["toast"]["content"] == "not yours"


def test_tap_that_somebody_wrote_to_the_engine_is_none(
    tmp_path: Path, clock: Clock
) -> None:
    """They have the machine's key from there, and not the app's secret."""
    one, two = (Bench(store, clock) for store in shared(tmp_path / "e", clock))
    machine = one.enrol()
    wire = two.wire(machine)
    two.ask(wire)
    told: list[Any] = []
    one.store.sealed = spied(one.store.sealed, told)  # type: ignore[method-assign]
    one.tap(two.value(), message="om_1")
    assert len(wire.got("tap")) == 1
    sealed = [good for good in told if '"action": "allow"' in good]
    assert len(sealed) == 2, "the tap that is kept, and the one that is told"
    for good in sealed:
        for old, new in (
            ('"confirmed": false', '"confirmed": true'),
            ('"action": "allow"', '"action": "always"'),
            ('"at": 1', '"at": 2'),
            (good[:8], "00000000"),
        ):
            assert old in good
            with pytest.raises(ValueError, match="not sealed"):
                two.store.unsealed(good.replace(old, new, 1).encode())
    edited = sealed[0].replace('"confirmed": false', '"confirmed": true')
    for id, raw in (("t8", edited), ("t9", edited[64:])):
        done(one.store._batch().put(f"taps:{machine.id}", id, raw).done())
    again = two.wire(machine)
    assert {tap["tap"] for tap in again.got("tap")} <= {wire.got("tap")[0]["tap"]}
    assert len(done(one.store.kept_taps(machine.id))) <= 1, "and it is not kept"


def spied(call: Any, told: list[Any]) -> Any:
    def spy(*parts: Any) -> Any:
        told.append(call(*parts))
        return told[-1]

    return spy


@pytest.mark.parametrize("replica", [0, 1])
def test_tap_costs_three_calls_of_the_store(
    tmp_path: Path, clock: Clock, replica: int
) -> None:
    """Also on the replica that does not hold the machine, once it knows the other."""
    stores = shared(tmp_path / "e", clock)
    one, two = (Bench(store, clock) for store in stores)
    wire = one.wire(one.enrol())
    calls: list[Any] = []
    for store in stores:
        store._batch = spied(store._batch, calls)  # type: ignore[method-assign]
    counts = []
    for number in range(2):
        one.ask(wire, id=f"1-{number}")
    for number in range(2):
        calls.clear()
        value = one.value(place=number)
        told = (one, two)[replica].tap(value, message=f"om_{number + 1}")
        (*_, tap) = wire.got("tap")
        receipt = to_plain(Receipt(statuses.REFUSED, error="no"))
        wire.say("receipt", tap=tap["tap"], receipt=receipt)
        assert told
        counts.append(len(calls))
    assert counts[1] == 3
