"""What somebody tries who wants more than they may: machines, thieves, passers-by."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from feishuperm.app.api import Result
from feishuperm.gateway import hub as module
from feishuperm.gateway.machines import Room
from feishuperm.gateway.store import FileStore
from feishuperm.lib.task import Promise
from feishuperm.models import ask as statuses
from feishuperm.models.ask import Outcome, Receipt, to_plain
from feishuperm.protocol.machine import POLICY, TRY_LATER
from tests.gateway.parts import (
    OWNER,
    Bench,
    Clock,
    FakeWire,
    Held,
    done,
    make_ask,
    shared,
)
from tests.tables import every_row


class SlowStore(FileStore):
    """A store that does things when the test says so, in the order they came."""

    def __init__(self, path: Path, clock: Clock) -> None:
        super().__init__("cli_x", str(path), clock)
        self.start()
        self._queue: deque[Callable[[], None]] = deque()
        self.is_slow = False

    def _batch(self) -> Any:
        return Held(super()._batch, self._queued)

    def _queued(self, now: Callable[[], list[Any]]) -> Promise[list[Any]]:
        promise: Promise[list[Any]] = Promise()
        self._queue.append(lambda: promise.resolve(now()))
        if not self.is_slow:
            self.go_on()
        return promise

    def go_on(self, steps: int = 1000) -> None:
        while self._queue and steps:
            steps -= 1
            self._queue.popleft()()


def settled(id: str) -> dict[str, Any]:
    outcome = Outcome(id, "permission", "zh", "allowed", "allow", done="已批准运行")
    plain: dict[str, Any] = to_plain(Receipt(statuses.SETTLED, outcome))
    return plain


# A stolen key, and a revoke.


@pytest.mark.parametrize("steps", range(1, 8))
def test_machine_that_logs_in_while_it_is_revoked_is_out(
    tmp_path: Path, clock: Clock, steps: int
) -> None:
    """Whatever the store had done of the login when the revoke came."""
    store = SlowStore(tmp_path / "e", clock)
    bench = Bench(store, clock)
    machine = bench.enrol()
    wire = FakeWire(bench.hub)
    store.is_slow = True
    wire.log_in(machine)
    store.go_on(steps)
    bench.hub.go(bench.hub.revoke(machine.id, "me"))
    store.go_on()
    store.is_slow = False
    assert wire.ended is not None and wire.ended[0] == POLICY
    assert done(bench.store.machines()) == [] and not bench.hub.connected
    again = FakeWire(bench.hub)
    again.log_in(machine)
    assert again.ended == (POLICY, "revoked")


def test_late_write_of_a_revoked_machine_changes_nothing(bench: Bench) -> None:
    machine = bench.enrol()
    wire = bench.wire(machine)
    bench.ask(wire)
    value = bench.value()
    done(bench.hub.revoke(machine.id, "me"))
    done(bench.store.put_machine(machine))  # by somebody who had read it before
    assert done(bench.store.machine(machine.id)) is None
    assert done(bench.hub.listing()) == []
    (told,) = bench.tap(value)
    assert told["toast"]["type"] == "warning"


def test_old_news_of_a_login_ends_nobody(tmp_path: Path, clock: Clock) -> None:
    """A replica that hears late must not send away the machine's newer server."""
    one, two = (Bench(store, clock) for store in shared(tmp_path / "e", clock))
    machine = one.enrol()
    old = FakeWire(one.hub)
    old.log_in(machine, instance="old")
    peer = old.data.id
    new = FakeWire(two.hub)
    new.log_in(machine, instance="new")
    two.hub._heard({"k": "login", "machine": machine.id, "peer": peer,
                    "instance": "old"})  # fmt: skip
    assert new.ended is None
    assert old.ended is not None and old.ended[0] == POLICY


def test_older_connection_that_confirms_its_key_locks_nobody_out(
    tmp_path: Path, clock: Clock
) -> None:
    """Its write of the key may come after that of the next login."""
    store = SlowStore(tmp_path / "e", clock)
    bench = Bench(store, clock)
    machine = bench.enrol()
    first = bench.wire(machine)
    store.is_slow = True
    fresh = first.rotate(machine)
    second = FakeWire(bench.hub)
    nonce = second.got("hello")[0]["nonce"]
    proofs = [
        module.prove(bytes.fromhex(key), module.LOGIN, "1", machine.id, nonce, "n")
        for key in (fresh, machine.key)  # the confirmation has not come back
    ]
    second.say("login", machine=machine.id, nonce="n", proofs=proofs, instance="one")
    store.go_on()
    store.is_slow = False
    kept = done(bench.store.machine(machine.id))
    assert kept is not None and fresh in (kept.key, kept.next)


def test_thief_that_comes_again_and_again_floods_nobody(bench: Bench) -> None:
    machine = bench.enrol()
    for number in range(5):
        wire = FakeWire(bench.hub)
        wire.log_in(machine, instance=f"thief {number}")
    bench.pump()
    assert len(bench.api.sent) == 1, "one warning a minute is enough"


# A machine that has joined, and wants more.


def test_machine_cannot_receipt_the_tap_of_another(bench: Bench) -> None:
    mine = bench.wire(bench.enrol("mine"))
    theirs = bench.wire(bench.enrol("theirs", "ou_thief"))
    bench.ask(mine)
    told = bench.tap(bench.value())
    (tap,) = mine.got("tap")
    theirs.say("receipt", tap=tap["tap"], receipt=settled("1-0000000a"))
    assert told == []
    mine.say("receipt", tap=tap["tap"], receipt=settled("1-0000000a"))
    assert told[0]["toast"]["type"] == "success"


def test_machine_cannot_end_the_card_of_another(bench: Bench) -> None:
    mine = bench.wire(bench.enrol("mine"))
    theirs = bench.wire(bench.enrol("theirs", "ou_thief"))
    ask = bench.ask(mine)
    theirs.say("settle", outcome=to_plain(Outcome(ask.id, "permission", done="x")))
    bench.pump()
    assert bench.api.updates == []
    assert bench.tap(bench.value()) == [] and mine.got("tap")


def test_card_names_the_machine_that_asks_whatever_it_says(bench: Bench) -> None:
    wire = bench.wire(bench.enrol("laptop"))
    bench.ask(wire, machine="the CEO's")
    card = str(bench.api.sent[-1][1])
    assert "laptop" in card and "CEO" not in card
    assert bench.api.sent[-1][0] == OWNER


def test_button_of_a_machine_is_never_one_of_the_gateways_own(bench: Bench) -> None:
    """Its actions may be called `join` or `revoke`: they stay answers to its ask."""
    wire = bench.wire(bench.enrol())
    actions = tuple(
        make_ask().actions[0]._replace(name=name) for name in ("revoke", "join")
    )
    bench.ask(wire, actions=actions)
    assert all(bench.value(name)["digest"] for name in ("revoke", "join"))
    wire.say("ask", ask=to_plain(make_ask(id="1-b", digest="")))
    assert wire.got("shown")[-1]["ok"] is False and len(bench.api.sent) == 1


def test_machine_that_floods_starves_nobody(bench: Bench, clock: Clock) -> None:
    flood = bench.wire(bench.enrol("flood", "ou_flood"))
    other = bench.wire(bench.enrol("other"))
    for number in range(500):
        flood.say("notice", notice={"kind": "stop", "text": f"{number}"})
        flood.say("ask", ask=to_plain(make_ask(id=f"1-{number}", created=clock.now)))
    bench.ask(other)
    sent = [receiver for receiver, _, _ in bench.api.sent]
    assert OWNER in sent
    assert sent.count("ou_flood") <= 30
    refusals = [shown for shown in flood.got("shown") if not shown["ok"]]
    assert "short time" in refusals[0]["detail"]
    clock.turn(120)
    flood.say("notice", notice={"kind": "stop", "text": "again"})
    bench.pump()
    assert [receiver for receiver, _, _ in bench.api.sent].count("ou_flood") > 1


def test_requests_that_come_back_are_not_counted_again(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = bench.enrol()
    wire = bench.wire(machine)
    for number in range(3):
        bench.ask(wire, id=f"1-{number}")
    monkeypatch.setattr(module, "MAX_WAITING", 3)
    monkeypatch.setattr(module, "MACHINE_LIMIT", ((1, 60.0),))
    bench.hub._paces.clear()
    wire = bench.wire(machine)
    for number in range(3):
        bench.ask(wire, id=f"1-{number}")
    assert [shown["ok"] for shown in wire.got("shown")] == [True] * 3
    assert len(bench.api.sent) == 3


# Somebody who has not logged in.


def test_crowd_at_the_door_puts_out_its_oldest_only(
    bench: Bench,
) -> None:
    bench.hub.room = Room(early=10)
    machine = bench.wire(bench.enrol())
    other = FakeWire(bench.hub, "192.0.2.9")
    crowd = [FakeWire(bench.hub) for _ in range(24)]
    assert other.ended is None, "a crowd puts out its own"
    other.end()
    crowd.append(FakeWire(bench.hub))
    assert [wire.ended is None for wire in crowd] == [False] * 15 + [True] * 10
    assert crowd[0].ended == (TRY_LATER, "too many are at the door")
    assert machine.ended is None
    assert bench.wire(bench.enrol("second")).got("welcome")


def test_strangers_at_the_door_cannot_make_us_send_to_everybody(bench: Bench) -> None:
    for number in range(40):
        wire = FakeWire(bench.hub, f"192.0.2.{number}")
        wire.say("join", name="box", user="me", owner=f"ou_{number}")
    for _ in range(3):
        wire = FakeWire(bench.hub, "192.0.2.99")
        wire.say("join", name="box", user="me", owner="Boss@Example.com")
    bench.pump()
    assert len(bench.api.sent) <= 20


def test_edited_entries_of_the_bus_do_nothing(tmp_path: Path, clock: Clock) -> None:
    one, two = (Bench(store, clock) for store in shared(tmp_path / "e", clock))
    machine = one.enrol()
    wire = two.wire(machine)
    for entry in (
        {"k": "revoked", "machine": "m-other"},
        {"k": "renamed", "machine": "m-other", "name": "x"},
        {"k": "joined", "join": "x", "machine": []},
        {"k": "receipt", "tap": "x", "receipt": None},
        {"k": "nonsense"},
        {"k": ["list"][0]},
    ):
        two.hub._heard(entry)
    assert wire.ended is None


def test_person_with_too_many_cards_holds_up_nobody_else(
    bench: Bench, clock: Clock
) -> None:
    busy = bench.wire(bench.enrol("busy", "ou_busy"))
    other = bench.wire(bench.enrol("other"))
    for number in range(12):
        ask = make_ask(id=f"1-{number}", created=clock.now)
        busy.say("ask", ask=to_plain(ask))
    other.say("ask", ask=to_plain(make_ask(created=clock.now)))
    while bench.cards.sender.cards.step() == 0.0:
        pass
    receivers = [receiver for receiver, _, _ in bench.api.sent]
    assert receivers == ["ou_busy"] * 4 + [OWNER], "four a second to one person"
    for _ in range(3):
        bench.pump()
    assert len(bench.api.sent) == 13


def test_refusal_that_is_about_one_person_holds_up_nobody_else(
    bench: Bench, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    busy = bench.wire(bench.enrol("busy", "ou_busy"))
    other = bench.wire(bench.enrol("other"))
    send = bench.api.send
    is_busy = [True]

    def refusing(receiver: str, *parts: Any) -> Result:
        if receiver == "ou_busy" and is_busy:
            return Result(False, 230020, "too many", retry=True)
        return send(receiver, *parts)

    monkeypatch.setattr(bench.api, "send", refusing)
    busy.say("ask", ask=to_plain(make_ask(created=clock.now)))
    other.say("ask", ask=to_plain(make_ask(created=clock.now)))
    while bench.cards.sender.cards.step() == 0.0:
        pass
    assert [receiver for receiver, _, _ in bench.api.sent] == [OWNER]
    is_busy.clear()
    bench.pump()
    assert len(bench.api.sent) == 2, "and it comes through in the end"


def test_notice_names_its_machine_and_mentions_nobody(bench: Bench) -> None:
    wire = bench.wire(bench.enrol("laptop"))
    call = "<at id=all></at>"
    wire.say("notice", notice={"kind": "stop", "text": call, "project": f"/p/{call}",
                               "branch": call, "session_id": call})  # fmt: skip
    bench.pump()
    ((receiver, card, _),) = bench.api.sent
    assert receiver == OWNER
    assert card["header"]["subtitle"]["content"].startswith("laptop · ")
    assert "markdown" not in str(card) and "lark_md" not in str(card)


@every_row("spent", [7, "x", [1], {"calls": "<b>"}, {"tokens": 1e300}, {"cost": [1]}])
def test_what_a_turn_took_is_numbers_or_nothing(bench: Bench, spent: Any) -> None:
    wire = bench.wire(bench.enrol(f"box{len(bench.api.sent)}"))
    wire.say("notice", notice={"kind": "stop", "text": "x", "spent": spent})
    bench.pump()
    assert "<b>" not in str(bench.api.sent) and "context" not in str(bench.api.sent)


def test_many_guesses_at_once_are_five(tmp_path: Path, clock: Clock) -> None:
    store = SlowStore(tmp_path / "e", clock)
    bench = Bench(store, clock)
    wire = FakeWire(bench.hub)
    wire.say("join", name="box", user="me", owner="")
    code = wire.got("code")[0]["code"]
    store.is_slow = True
    told: list[Any] = []

    async def guess(number: int) -> None:
        said = code if number == 30 else f"{(int(code) + 1 + number) % 10**6:06d}"
        told.append(await bench.hub.pairing.spend_code(said, "ou_guesser"))

    for number in range(40):
        bench.hub.go(guess(number))
    store.go_on()
    store.is_slow = False
    assert (
        told.count("No machine shows this code, or it has expired") == 5
        and told.count("Too many wrong codes: try again in ten minutes") == 35
    )
    assert done(bench.hub.pairing.spend_code(code, OWNER)).name == "box"


@pytest.mark.parametrize("raw", ["", "{", "[]", "7", '{"at": 1}', '{"at": "x"}'])
def test_edited_tap_keeps_no_machine_out(bench: Bench, raw: str) -> None:
    machine = bench.enrol()
    done(bench.store._batch().put(f"taps:{machine.id}", "t1", raw).done())
    wire = bench.wire(machine)
    assert wire.ended is None and wire.got("tap") == []
    assert done(bench.store.kept_taps(machine.id)) == {}


def test_crowd_at_the_door_puts_out_no_login_under_way(
    tmp_path: Path, clock: Clock
) -> None:
    store = SlowStore(tmp_path / "e", clock)
    bench = Bench(store, clock)
    bench.hub.room = Room(early=3)
    machine = bench.enrol()
    wire = FakeWire(bench.hub)
    store.is_slow = True
    wire.log_in(machine)
    crowd = [FakeWire(bench.hub) for _ in range(9)]
    store.go_on()
    assert wire.got("welcome") and wire.ended is None
    assert [w.ended is None for w in crowd] == [False] * 7 + [True] * 2


@pytest.mark.parametrize("kind", [None, "news", ["stop"], {"stop": 1}])
def test_notice_of_no_known_kind_is_skipped(bench: Bench, kind: object) -> None:
    wire = bench.wire(bench.enrol())
    wire.say("notice", notice={"kind": kind, "text": "x"})
    bench.pump()
    assert wire.ended is None and bench.api.sent == []


def test_machine_waits_while_too_much_of_it_is_at_the_store(
    tmp_path: Path, clock: Clock
) -> None:
    store = SlowStore(tmp_path / "e", clock)
    bench = Bench(store, clock)
    fast, other = bench.wire(bench.enrol()), bench.wire(bench.enrol())
    store.is_slow = True
    for number in range(module.MAX_STEPS):
        assert not fast.held
        fast.say("settle", outcome=settled(f"r{number}")["outcome"])
    assert fast.held and not other.held
    store.go_on()
    assert not fast.held and fast.data.steps == 0


def test_machine_for_which_there_is_no_file_is_told_to_come_later(
    bench: Bench,
) -> None:
    bench.hub.room = Room(machines=1)
    first = bench.enrol("first")
    wire = bench.wire(first)
    second = FakeWire(bench.hub)
    second.log_in(bench.enrol("second"))
    assert second.ended == (TRY_LATER, "the gateway has no room for more machines")
    again = bench.wire(first)
    assert wire.ended is not None and again.ended is None
