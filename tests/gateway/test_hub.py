"""Machines come and go, taps find them, and nobody else's tap counts."""

from __future__ import annotations

from pathlib import Path

import pytest

from feishuperm.protocol.machine import POLICY, TRY_LATER
from tests.gateway.parts import (
    OWNER,
    Bench,
    Clock,
    FakeWire,
    done,
    settle,
    shared,
)

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


# Asks.


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
