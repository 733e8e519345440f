"""Machines come and go, taps find them, and nobody else's tap counts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from feishuperm.gateway.engine import FileEngine
from feishuperm.models.ask import Outcome, Receipt, to_plain
from feishuperm.protocol.machine import POLICY, TAP, TRY_LATER, is_proof
from tests.gateway.parts import (
    OTHER,
    OWNER,
    Bench,
    Clock,
    FakeWire,
    done,
    make_ask,
    shared,
)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def bench(tmp_path: Path, clock: Clock) -> Bench:
    engine = FileEngine("cli_x", str(tmp_path / "e.jsonl"), clock)
    engine.start()
    return Bench(engine, clock)


def settle(wire: FakeWire, tap: dict[str, Any], action: str = "allow") -> None:
    """The machine does what a tap says."""
    outcome = Outcome(tap["answer"]["id"], "permission", "zh", "allowed", action,
                      "gateway", OWNER, 1000.0, "已批准运行", "good")  # fmt: skip
    receipt = to_plain(Receipt("settled", outcome))
    wire.say("receipt", tap=tap["tap"], receipt=receipt)
    wire.say("settle", outcome=to_plain(outcome))


# Logging in.


def test_machine_that_proves_its_key_is_in_and_gets_a_new_one(bench: Bench) -> None:
    machine = bench.enrol()
    wire = bench.wire(machine)
    assert wire.got("welcome")[0]["name"] == "laptop"
    kept = done(bench.registry.get(machine.id))
    assert kept.key == machine.key, "the old key holds until the new one is stored"
    fresh = wire.rotate(machine)
    kept = done(bench.registry.get(machine.id))
    assert (kept.key, kept.next) == (fresh, "")
    again = FakeWire(bench.hub)
    again.log_in(machine)
    assert again.ended is not None and again.ended[0] == POLICY, "the old key is dead"


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
    assert bench.hub.metrics.refused_logins == 1


def test_wrong_proof_of_the_new_key_ends_the_connection(bench: Bench) -> None:
    machine = bench.enrol()
    wire = bench.wire(machine)
    wire.say("rotated", proof="00" * 32)
    assert wire.ended is not None
    assert done(bench.registry.get(machine.id)).key == machine.key


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
    assert bench.hub.connected[machine.id] is new


def test_reconnect_of_the_same_server_is_told_to_nobody(bench: Bench) -> None:
    machine = bench.enrol()
    old = bench.wire(machine)
    bench.wire(machine)
    bench.pump()
    assert old.ended is not None and not old.got("replaced")
    assert bench.api.sent == []


# Taps.


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
    parts = (machine.id, "1-0000000a", "allow", "d" * 16, tap["tap"], OWNER, "{}")
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
    (engine,) = shared(tmp_path / "e.jsonl", clock, 1)
    bench = Bench(engine, clock)
    wire = bench.wire(bench.enrol())
    bench.ask(wire)
    engine.ready = False
    (told,) = bench.tap(bench.value())
    assert told["toast"] == {"type": "warning", "content": "请再点一次"}
    wire.say("ask", ask=to_plain(bench.ask(wire, id="1-0000000c")))
    assert wire.got("shown")[-1]["ok"] is False, "its terminal decides, at once"


def test_card_that_cannot_be_sent_is_told_to_the_machine(bench: Bench) -> None:
    wire = bench.wire(bench.enrol())
    bench.api.fails = True
    bench.ask(wire)
    assert wire.got("shown")[0]["ok"] is False


def test_ask_that_comes_again_has_one_card(bench: Bench) -> None:
    wire = bench.wire(bench.enrol())
    bench.ask(wire)
    bench.ask(wire)
    assert len(bench.api.sent) == 1
    assert [m["ok"] for m in wire.got("shown")] == [True, True]


@pytest.mark.parametrize("ask", [None, {}, {"id": 7}, {"id": "1", "digest": ""}])
def test_broken_ask_ends_the_connection(bench: Bench, ask: object) -> None:
    wire = bench.wire(bench.enrol())
    wire.say("ask", ask=ask)
    assert wire.ended is not None and bench.api.sent == []


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


def test_tap_on_one_replica_reaches_the_machine_on_another(
    tmp_path: Path, clock: Clock
) -> None:
    one, two = (Bench(engine, clock) for engine in shared(tmp_path / "e", clock))
    wire = two.wire(one.enrol())
    two.ask(wire)
    told = one.tap(two.value(), message="om_1")
    (tap,) = wire.got("tap")
    settle(wire, tap)
    assert told[0]["toast"]["content"] == "已批准运行"


def test_machine_on_a_dead_replica_is_away(tmp_path: Path, clock: Clock) -> None:
    engines = shared(tmp_path / "e", clock)
    one, two = (Bench(engine, clock) for engine in engines)
    wire = two.wire(one.enrol())
    two.ask(wire)
    two.hub._closing = True  # killed: it shows no sign of life any more
    clock.turn(10)
    (told,) = one.tap(two.value(), message="om_1")
    assert "不在线" in told["toast"]["content"]


def test_machine_that_moved_leaves_its_old_replica(
    tmp_path: Path, clock: Clock
) -> None:
    one, two = (Bench(engine, clock) for engine in shared(tmp_path / "e", clock))
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


def ended(wire: FakeWire, id: str = "1-0000000a") -> None:
    outcome = Outcome(id, "permission", "zh", "denied", "deny", done="已拒绝运行")
    wire.say("settle", outcome=to_plain(outcome))


def test_card_of_what_ended_before_it_left_is_not_sent(bench: Bench) -> None:
    wire = bench.wire(bench.enrol())
    wire.say("ask", ask=to_plain(make_ask(created=bench.clock.now)))
    ended(wire)
    bench.pump()
    assert bench.api.sent == [] and wire.got("shown")[0]["ok"] is False
    assert done(bench.hub.listing())[0]["waiting"] == 0


def test_card_of_what_ended_while_it_left_becomes_a_record(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    wire = bench.wire(bench.enrol())
    send = bench.api.send

    def slow(*parts: Any) -> Any:
        result = send(*parts)
        ended(wire)  # before the answer of the platform is known
        return result

    monkeypatch.setattr(bench.api, "send", slow)
    bench.ask(wire)
    assert [message for message, _ in bench.api.updates] == ["om_1"]
    assert done(bench.hub.listing())[0]["waiting"] == 0


def test_replica_that_dies_before_a_record_is_made_leaves_it_to_the_next(
    bench: Bench,
) -> None:
    machine = bench.enrol()
    wire = bench.wire(machine)
    ask = bench.ask(wire)
    ended(wire)
    again = bench.wire(machine)
    assert again.got("welcome")[0]["cards"] == [ask.id], "it may settle it again"
    bench.pump()
    assert len(bench.api.updates) == 1
    assert bench.wire(machine).got("welcome")[0]["cards"] == []
