"""Machines that want in: from the code to an enrolment that holds, or does not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from feishuperm.gateway import machines
from feishuperm.gateway.machines import JOIN_SECONDS, Room
from feishuperm.gateway.store import Joining
from feishuperm.models.ask import to_plain
from feishuperm.protocol.machine import GOING_AWAY, POLICY, TRY_LATER
from tests.gateway.parts import OTHER, OWNER, Bench, Clock, FakeWire, done, shared


def joining(bench: Bench, **said: Any) -> FakeWire:
    wire = FakeWire(bench.hub)
    wire.say("join", **{"name": "box", "user": "me", "owner": "", **said})
    bench.pump()
    return wire


def confirm(bench: Bench, wire: FakeWire, who: str = OWNER) -> bool:
    """The person says yes."""
    peer: Joining = wire.data.joining
    said: bool = done(bench.hub.pairing.confirmed(peer, who, "Wang"))
    return said


def test_machine_gets_a_code_that_is_bound_to_its_connection(bench: Bench) -> None:
    wire = joining(bench)
    (told,) = wire.got("code")
    assert len(told["code"]) == 6 and told["seconds"] == JOIN_SECONDS
    asked = done(bench.hub.pairing.spend_code(told["code"], OWNER))
    assert (asked.id, asked.address) == (wire.data.id, wire.address)


def test_what_a_machine_says_of_itself_is_made_harmless(bench: Bench) -> None:
    wire = joining(bench, name="a\nb" * 100, user=7, owner="x" * 500)
    said = wire.data.joining
    assert "\n" not in said.name and len(said.name) <= 40
    assert (said.user, said.owner) == ("", ""), "an e-mail does not say who may confirm"


def test_confirmed_machine_is_enrolled_once_it_has_stored_its_key(bench: Bench) -> None:
    wire = joining(bench)
    assert confirm(bench, wire)
    (told,) = wire.got("joined")
    assert told["owner"] == OWNER and told["owner_name"] == "Wang"
    assert done(bench.store.machine(told["machine"])) is None
    wire.say("stored")
    machine = done(bench.store.machine(told["machine"]))
    assert (machine.key, machine.owner) == (told["key"], OWNER)
    assert wire.got("enrolled") and wire.ended == (GOING_AWAY, "joined")
    assert bench.records[-1]["event"] == "joined"


def test_machine_that_was_not_confirmed_stores_nothing(bench: Bench) -> None:
    wire = joining(bench)
    wire.say("stored")
    assert wire.ended is not None and wire.ended[0] == POLICY
    assert done(bench.store.machines()) == []


def test_machine_that_waits_may_do_nothing_else(bench: Bench) -> None:
    for kind in ("join", "login", "ask"):
        wire = joining(bench)
        wire.say(kind, ask={})
        assert wire.ended == (POLICY, "one thing at a time")


def test_machine_that_left_is_told_to_the_one_who_confirms(
    tmp_path: Path, clock: Clock
) -> None:
    """Its replica died with it: nobody could hand the key over."""
    one, two = (Bench(store, clock) for store in shared(tmp_path / "e", clock))
    wire = joining(two)
    assert confirm(one, wire) and wire.got("joined")
    late = joining(two)
    two.hub._closing = True
    clock.turn(10)
    assert not confirm(one, late) and late.got("joined") == []


def test_news_of_a_join_is_for_the_connection_it_names(bench: Bench) -> None:
    wire, other = joining(bench), FakeWire(bench.hub)
    machine = to_plain(bench.enrol())
    for name in ("nobody", other.data.id):
        bench.hub.pairing.joined({"join": name, "machine": machine})
    assert wire.got("joined") == other.got("joined") == []
    bench.hub.pairing.joined({"join": wire.data.id, "machine": machine})
    assert wire.got("joined")


def test_named_owner_gets_the_card_and_only_they_may_use_the_code(bench: Bench) -> None:
    wire = joining(bench, owner=OWNER)
    assert [receiver for receiver, _, _ in bench.api.sent] == [OWNER]
    code = wire.got("code")[0]["code"]
    assert (
        done(bench.hub.pairing.spend_code(code, OTHER))
        == "No machine shows this code, or it has expired"
    )
    assert done(bench.hub.pairing.spend_code(code, OWNER)).id == wire.data.id


def test_owner_who_may_not_join_is_not_asked(tmp_path: Path, clock: Clock) -> None:
    (store,) = shared(tmp_path / "e", clock, 1)
    bench = Bench(store, clock, frozenset((OWNER,)))
    joining(bench, owner=OTHER)
    assert bench.api.sent == []


def test_code_that_nobody_says_ends_with_its_time(bench: Bench, clock: Clock) -> None:
    wire = joining(bench)
    clock.turn(JOIN_SECONDS - 10)
    assert wire.ended is None
    clock.turn(20)
    assert wire.ended is not None and wire.ended[0] == TRY_LATER


def test_joins_that_nobody_confirms_are_bounded_and_block_nobody_else(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machines, "JOINS_EACH", 3)
    bench.hub.room = Room(joins=5)

    def join(*source: str) -> FakeWire:
        wire = FakeWire(bench.hub, source[0], (source[0], source[-1]))
        wire.say("join", name="box", user="me", owner="")
        return wire

    crowd = [join("192.0.2.1") for _ in range(4)]
    assert [len(wire.got("code")) for wire in crowd] == [1, 1, 1, 0]
    assert crowd[3].ended == (TRY_LATER, machines.FULL)
    others = [join("192.0.2.2"), join("192.0.2.3"), join("192.0.2.4")]
    assert all(wire.ended is None for wire in others)
    assert [wire.ended is None for wire in crowd[:3]] == [False, True, True]


def test_client_of_a_proxy_holds_off_no_other_client_of_it(bench: Bench) -> None:
    """Twenty for each that the proxy names; forged names share what one peer has."""

    def join(*source: str) -> FakeWire:
        wire = FakeWire(bench.hub, f"via {source[0]}", (source[0], source[1]))
        wire.say("join", name="box", user="me", owner="")
        return wire

    for _ in range(30):
        join("10.0.0.5", "198.51.100.1")
    honest = join("10.0.0.5", "198.51.100.2")
    forger = [join("203.0.113.9", f"forged {number}") for number in range(400)]
    late = join("10.0.0.5", "198.51.100.3")
    assert honest.ended is None and late.got("code") and late.ended is None
    assert sum(wire.ended is None for wire in forger) <= 200
    waiting = [link for link in bench.hub.connections if link.joining is not None]
    assert len(waiting) <= 200
