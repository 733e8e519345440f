"""Pairing by code and by card, one's machines in the chat, answers in words."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from feishuperm.gateway.inbound import PROBLEM, SecondConnection
from feishuperm.gateway.store import FileStore
from feishuperm.models.ask import Outcome, Receipt, to_plain
from tests.gateway.parts import OTHER, OWNER, Bench, Clock, FakeWire, collect, done

NUMBERS = itertools.count()


class Delivery(NamedTuple):
    payload: bytes


def made(tmp_path: Path, owners: frozenset[str] = frozenset()) -> Bench:
    clock = Clock()
    store = FileStore("cli_x", str(tmp_path / "e.jsonl"), clock)
    store.start()
    return Bench(store, clock, owners)


def say(
    bench: Bench, words: str, who: str = OWNER, parent: str = "", id: str = "",
    moment: str | None = None,
) -> None:  # fmt: skip
    now = str(int(bench.clock.now * 1000))
    message = {
        "message_id": id or f"om_text{next(NUMBERS)}", "chat_type": "p2p",
        "message_type": "text", "content": json.dumps({"text": words}),
        "create_time": now if moment is None else moment, "parent_id": parent,
    }  # fmt: skip
    event = {
        "header": {"event_type": "im.message.receive_v1", "event_id": "x"},
        "event": {"message": message,
                  "sender": {"sender_type": "user", "sender_id": {"open_id": who}}},
    }  # fmt: skip
    bench.feishu.deliver(Delivery(json.dumps(event).encode()), lambda reply: True)
    bench.pump()


def tap(bench: Bench, value: dict[str, Any], who: str = OWNER, **action: Any) -> Any:
    told: list[Any] = []
    id = f"t{next(NUMBERS)}"
    event = {
        "header": {"event_type": "card.action.trigger", "event_id": id},
        "event": {"operator": {"open_id": who}, "action": {"value": value, **action},
                  "context": {"open_message_id": f"om_{len(bench.api.sent)}"}},
    }  # fmt: skip
    bench.feishu.deliver(Delivery(json.dumps(event).encode()), told.append)
    bench.pump()
    return told[0] if told else None


def joining(bench: Bench, **parts: str) -> tuple[FakeWire, str]:
    wire = FakeWire(bench.hub)
    wire.say("join", **{"name": "box", "user": "me", "owner": "", **parts})
    bench.pump()
    return wire, wire.got("code")[0]["code"]


def values(bench: Bench) -> dict[str, dict[str, str]]:
    buttons: list[dict[str, str]] = []
    collect(bench.api.sent[-1][1], buttons)
    return {value["action"]: value for value in buttons}


def last_reply(bench: Bench) -> str:
    text: str = bench.api.replies[-1][1]["text"]
    return text


def test_code_and_a_confirming_tap_enrol_once_the_machine_has_stored(
    bench: Bench,
) -> None:
    wire, code = joining(bench)
    say(bench, code)
    card = str(bench.api.sent[-1])
    assert "box" in card and "me" in card and "192.0.2.7" in card
    assert tap(bench, values(bench)["join"])["toast"]["type"] == "success"
    (joined,) = wire.got("joined")
    assert joined["owner"] == OWNER and len(bytes.fromhex(joined["key"])) == 32
    assert done(bench.store.machines()) == [], "it holds once the machine has its key"
    wire.say("stored")
    (machine,) = done(bench.store.machines())
    assert (machine.name, machine.owner) == ("box", OWNER)
    assert wire.got("enrolled")


def test_code_works_once(bench: Bench) -> None:
    _, code = joining(bench)
    say(bench, code)
    cards = len(bench.api.sent)
    say(bench, code, OTHER)
    assert len(bench.api.sent) == cards
    assert "没有机器" in last_reply(bench)


def test_code_dies_with_its_connection_and_with_time(bench: Bench) -> None:
    wire, code = joining(bench)
    wire.end()
    say(bench, code)
    assert bench.api.sent == []
    _, code = joining(bench)
    bench.clock.turn(601)
    say(bench, code)
    assert bench.api.sent == []


def test_same_message_twice_counts_once(bench: Bench) -> None:
    for _ in range(7):
        say(bench, "000000", id="om_same")
    _, code = joining(bench)
    say(bench, code)
    assert len(bench.api.sent) == 1, "the sender is not locked out by one message"


def test_five_wrong_codes_lock_the_sender_out_and_nobody_else(bench: Bench) -> None:
    _, code = joining(bench)
    wrong = [f"{(int(code) + n) % 10**6:06d}" for n in range(1, 6)]
    for guess in wrong:
        say(bench, guess, OTHER)
    say(bench, code, OTHER)
    assert "十分钟" in last_reply(bench) and bench.api.sent == []
    say(bench, code, OWNER)
    assert len(bench.api.sent) == 1
    bench.clock.turn(601)
    _, code = joining(bench)
    say(bench, code, OTHER)
    assert len(bench.api.sent) == 2


def test_fifty_wrong_codes_pause_pairing_for_all(bench: Bench) -> None:
    _, code = joining(bench)
    guess = f"{(int(code) + 1) % 10**6:06d}"
    for number in range(50):
        say(bench, guess, f"ou_{number}")
    say(bench, code)
    assert bench.api.sent == []
    assert "十分钟" in last_reply(bench)


def test_card_is_confirmed_by_its_receiver_only_and_once(bench: Bench) -> None:
    wire, code = joining(bench)
    say(bench, code)
    value = values(bench)["join"]
    assert tap(bench, value, OTHER)["toast"]["type"] == "error"
    assert tap(bench, {**value, "nonce": "x"})["toast"]["type"] == "warning"
    assert tap(bench, value)["toast"]["type"] == "success"
    assert tap(bench, value)["toast"]["type"] == "warning"
    assert len(wire.got("joined")) == 1


def test_refused_machine_gets_nothing(bench: Bench) -> None:
    wire, code = joining(bench)
    say(bench, code)
    refuse, confirm = values(bench)["refuse"], values(bench)["join"]
    assert tap(bench, refuse)["toast"]["type"] == "info"
    assert tap(bench, confirm)["toast"]["type"] == "warning"
    assert wire.got("joined") == []


def test_named_owner_is_asked_at_most_once_a_minute(bench: Bench) -> None:
    joining(bench, owner=OWNER)
    joining(bench, owner=OWNER)
    assert [receiver for receiver, _, _ in bench.api.sent] == [OWNER]
    bench.clock.turn(61)
    joining(bench, owner=OWNER)
    assert len(bench.api.sent) == 2


def test_code_of_a_machine_with_a_named_owner_is_theirs_alone(bench: Bench) -> None:
    _, code = joining(bench, owner=OWNER)
    cards = len(bench.api.sent)
    say(bench, code, OTHER)
    assert len(bench.api.sent) == cards


def test_who_is_not_on_the_list_joins_nothing(tmp_path: Path) -> None:
    bench = made(tmp_path, frozenset((OWNER,)))
    _, code = joining(bench)
    say(bench, code, OTHER)
    assert "GATEWAY_OWNERS" in last_reply(bench) and bench.api.sent == []
    say(bench, code, OWNER)
    assert len(bench.api.sent) == 1


def test_equal_names_are_told_apart(bench: Bench) -> None:
    for _ in range(3):
        wire, code = joining(bench)
        say(bench, code)
        tap(bench, values(bench)["join"])
        wire.say("stored")
    names = [machine.name for machine in done(bench.store.machines())]
    assert names == ["box", "box-2", "box-3"]


def test_own_machines_are_renamed_and_revoked_in_the_chat(bench: Bench) -> None:
    machine = bench.enrol()
    bench.enrol("theirs", OTHER)
    wire = bench.wire(machine)
    say(bench, "机器")
    card = bench.api.sent[-1]
    assert "laptop" in str(card) and "theirs" not in str(card)
    rename, revoke = values(bench)["rename"], values(bench)["revoke"]
    tap(bench, rename, form_value={"name": "desk"})
    assert wire.got("renamed") == [{"t": "renamed", "name": "desk"}]
    assert tap(bench, revoke, OTHER)["toast"]["type"] == "error"
    tap(bench, revoke)
    assert wire.ended is not None
    assert [m.owner for m in done(bench.store.machines())] == [OTHER]


def test_text_below_a_card_answers_it(bench: Bench) -> None:
    wire = bench.wire(bench.enrol())
    bench.ask(wire)
    say(bench, "批准", OTHER, parent="om_1")
    assert wire.got("tap") == []
    say(bench, "批准", parent="om_1")
    (carried,) = wire.got("tap")
    assert carried["answer"]["action"] == "allow"
    outcome = Outcome("1-0000000a", done="已批准运行", look="good", state="allowed")
    wire.say(
        "receipt", tap=carried["tap"], receipt=to_plain(Receipt("settled", outcome))
    )
    bench.pump()
    assert last_reply(bench) == "已批准运行"


def test_text_waits_for_the_card_that_it_may_be_below(bench: Bench) -> None:
    """A thumb may be faster than Feishu's answer to the card."""
    wire = bench.wire(bench.enrol())
    send, pump = bench.api.send, bench.pump

    def slow(*given: Any) -> Any:
        bench.api.send = send  # type: ignore[method-assign]
        bench.pump = lambda: None  # type: ignore[method-assign]
        say(bench, "批准", parent="om_1")
        bench.pump = pump  # type: ignore[method-assign]
        return send(*given)

    bench.api.send = slow  # type: ignore[method-assign]
    bench.ask(wire)
    assert [tap["answer"]["action"] for tap in wire.got("tap")] == ["allow"]


@pytest.mark.parametrize("payload", [b"", b"[]", b"{}", b'{"header": 1}', b"\xff"])
def test_broken_events_are_acknowledged(bench: Bench, payload: bytes) -> None:
    told: list[Any] = []
    bench.feishu.deliver(Delivery(payload), told.append)
    assert told == [{}]


@pytest.mark.parametrize("moment", ["²", "9" * 5000, "", "-1"])
def test_text_of_an_odd_moment_is_of_now(bench: Bench, moment: str) -> None:
    say(bench, "hello", moment=moment)
    assert "机器" in last_reply(bench)


def test_text_of_long_ago_is_nothing(bench: Bench) -> None:
    bench.clock.turn(1000)
    say(bench, "hello", moment=str(int((bench.clock.now - 601) * 1000)))
    assert bench.api.replies == []


# A second program on the same app is named, a connection of a moment ago is not.


def test_second_look_that_still_counts_two_names_the_other_until_it_is_gone() -> None:
    clock, counts = Clock(), [2, 2, 1]
    second = SecondConnection(lambda: counts.pop(0), lambda fn: fn(), clock.later)
    second.look = second._work  # type: ignore[method-assign]
    second.look()
    assert second.problem == ""
    clock.turn(91)
    assert second.problem == PROBLEM
    clock.turn(91)
    assert second.problem == "" and counts == []


def test_connection_of_a_moment_ago_is_forgiven_and_nothing_more_is_asked() -> None:
    clock, asked = Clock(), [0]

    def count() -> int:
        asked[0] += 1
        return 2 if asked[0] == 1 else 1

    second = SecondConnection(count, lambda fn: fn(), clock.later)
    second.look = second._work  # type: ignore[method-assign]
    second.look()
    clock.turn(1000)
    assert second.problem == "" and asked == [2]


def test_lasting_second_one_is_named() -> None:
    clock = Clock()
    second = SecondConnection(lambda: 2, lambda fn: fn(), clock.later)
    second.seen(2)
    assert second.problem == ""
    second.seen(3)
    assert second.problem == PROBLEM
