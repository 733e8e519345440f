"""Cards of a gateway: one for each request, changed when it ends, never lost."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from feishuperm.app.api import Result
from feishuperm.channels import outbox
from feishuperm.gateway import cards, store
from feishuperm.gateway.cards import Cards
from feishuperm.lib.task import Promise
from feishuperm.models.ask import Block, Outcome, to_plain
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


def ended(wire: FakeWire, id: str = "1-0000000a") -> None:
    outcome = Outcome(id, "permission", "zh", "denied", "deny", done="已拒绝运行")
    wire.say("settle", outcome=to_plain(outcome))


def test_card_that_cannot_be_sent_is_told_to_the_machine(bench: Bench) -> None:
    wire = bench.wire(bench.enrol())
    bench.api.fails = True
    bench.ask(wire)
    assert wire.got("shown")[0]["ok"] is False


def test_machine_whose_cards_feishu_refused_goes_on_when_it_is_back(
    bench: Bench,
) -> None:
    wire = bench.wire(bench.enrol())
    bench.api.fails = True
    for number in range(250):
        bench.ask(wire, id=f"1-{number:08d}")
        bench.clock.turn(1.0)
    assert len(wire.got("shown")) == 250
    assert done(bench.hub.listing())[0]["waiting"] == 0
    bench.api.fails = False
    bench.ask(wire, id="1-last")
    assert wire.got("shown")[-1]["ok"] is True


@pytest.mark.parametrize("steps", range(6))
def test_card_is_a_record_in_the_end_wherever_the_store_fails_meanwhile(
    tmp_path: Path, clock: Clock, steps: int
) -> None:
    (store,) = shared(tmp_path / "e", clock, 1)
    bench = Bench(store, clock)
    wire = bench.wire(bench.enrol())
    store.calls_left = steps
    bench.ask(wire)
    is_out = bool(bench.api.sent)
    ended(wire)
    bench.pump()
    store.is_up, store.calls_left = True, -1
    for _ in range(20):
        clock.turn(1.0)
        bench.pump()
    assert len(bench.api.updates) == is_out, "no card with live buttons"
    assert done(bench.hub.listing())[0]["waiting"] == 0
    assert bench.cards._leaving == {} and bench.cards._ending == {}


def test_card_that_left_on_one_replica_while_it_ended_on_another_is_a_record(
    tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = (Bench(store, clock) for store in shared(tmp_path / "e", clock))
    machine = one.enrol()
    send = one.api.send

    def slow(*parts: Any) -> Any:
        ended(two.wire(machine))
        return send(*parts)

    monkeypatch.setattr(one.api, "send", slow)
    one.ask(one.wire(machine))
    one.pump()
    assert [message for message, _ in one.api.updates] == ["om_1"]
    assert done(one.hub.listing())[0]["waiting"] == 0


def test_card_that_the_store_lost_is_found_again(bench: Bench) -> None:
    """Feishu sends one message of an uuid, and tells its id again."""
    wire = bench.wire(bench.enrol())
    ask = bench.ask(wire)
    first = bench.value()
    done(bench.store.drop_card("m-laptop", ask.id))
    bench.ask(wire)
    assert bench.api.sent[0][2] == bench.api.sent[1][2] and bench.value() == first
    bench.ask(wire, id="1-other")
    assert bench.value()["nonce"] != first["nonce"]
    assert bench.api.sent[2][2] != bench.api.sent[1][2]


def test_clock_of_the_gateway_keeps_no_card_back(bench: Bench) -> None:
    """How long a card is of use is told by its machine."""
    wire = bench.wire(bench.enrol())
    for left, shown in ((600, True), (0, False), (float("nan"), False)):
        ask = make_ask(id=f"1-{left}", created=bench.clock.now - 7200)
        wire.say("ask", ask=to_plain(ask), left=left)
        bench.pump()
        assert wire.got("shown")[-1]["ok"] is shown


def test_ask_that_comes_again_has_one_card(bench: Bench) -> None:
    wire = bench.wire(bench.enrol())
    bench.ask(wire)
    bench.ask(wire)
    assert len(bench.api.sent) == 1
    assert [m["ok"] for m in wire.got("shown")] == [True, True]


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


def sent_card(bench: Bench, **parts: Any) -> Any:
    """What the store keeps of a card that is out."""
    ask = bench.ask(bench.wire(bench.enrol()), **parts)
    return done(bench.store.card("m-laptop", ask.id))


LONG = "x" * 40_000


def test_card_is_kept_with_what_a_tap_is_held_against(bench: Bench) -> None:
    sent = sent_card(bench)
    assert (sent.owner, sent.message_id, sent.grants) == (OWNER, "om_1", True)
    assert sent.nonce == bench.value()["nonce"] and sent.ask.digest == "d" * 16
    assert done(bench.store.card_of_message("om_1")) == sent
    assert done(bench.store.card_of_message("om_other")) is None


def test_request_too_long_for_a_card_is_attached_and_may_be_granted_then(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    files: list[bytes] = []

    def upload(name: str, data: bytes) -> Result:
        files.append(data)
        assert done(bench.store.card("m-laptop", "1-0000000a")).grants is False
        return Result(True, 0, "", data={"file_key": "f"})

    monkeypatch.setattr(bench.api, "upload", upload)
    blocks = (make_ask().blocks[0]._replace(text=LONG),)
    assert sent_card(bench, blocks=blocks).grants is True
    assert files == [LONG.encode()]
    assert bench.api.replies == [("om_1", {"file_key": "f"})]


def test_request_whose_attachment_fails_can_only_be_refused(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    refusal = Result(False, 234006, "too large")
    monkeypatch.setattr(bench.api, "upload", lambda name, data: refusal)
    blocks = (make_ask().blocks[0]._replace(text=LONG),)
    assert sent_card(bench, blocks=blocks).grants is False
    assert bench.api.updates == [], "no card with buttons that grant"
    with pytest.raises(StopIteration):
        bench.value("allow")


def test_attachment_that_comes_after_the_end_brings_no_card_back(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    wire = bench.wire(bench.enrol())
    update = bench.api.update

    def slow(message_id: str, card: Any) -> Result:
        monkeypatch.undo()
        ended(wire)
        done(bench.store.drop_card("m-laptop", "1-0000000a"))
        return update(message_id, card)

    monkeypatch.setattr(bench.api, "update", slow)
    bench.ask(wire, blocks=(make_ask().blocks[0]._replace(text=LONG),))
    assert done(bench.store.cards_of("m-laptop")) == []


def test_card_changes_after_the_answer_to_its_tap_has_left(bench: Bench) -> None:
    """Feishu would undo a change that overtakes it."""
    wire = bench.wire(bench.enrol())
    bench.ask(wire)
    ended(wire)
    while bench.cards.sender.changes.step() == 0.0:
        pass
    assert bench.api.updates == []
    bench.clock.turn(0.31)
    bench.pump()
    assert [message for message, _ in bench.api.updates] == ["om_1"]
    assert done(bench.store.cards_of("m-laptop")) == []


def test_settling_what_was_never_shown_sends_nothing(bench: Bench) -> None:
    done(bench.cards.settle("m-laptop", Outcome("1-nothing", done="x")))
    bench.pump()
    assert bench.api.updates == [] and bench.api.sent == []


@pytest.mark.parametrize("raw", ["", "{", "[]", '{"ask": 7}'])
def test_edited_row_is_no_card(bench: Bench, raw: str) -> None:
    done(bench.store._batch().put("cards:m-laptop", "1-a", raw).done())
    assert done(bench.store.card("m-laptop", "1-a")) is None
    assert done(bench.store.cards_of("m-laptop")) == []


def test_reply_needs_a_message_to_stand_below(bench: Bench) -> None:
    bench.cards.sender.tell("", "lost")
    bench.cards.sender.tell("om_text", "heard")
    bench.pump()
    assert bench.api.replies == [("om_text", {"text": "heard"})]


def test_card_is_kept_before_it_leaves(bench: Bench) -> None:
    """A tap may come before Feishu has told us the card's id."""
    wire = bench.wire(bench.enrol())
    wire.say("ask", ask=to_plain(make_ask(created=bench.clock.now)))
    kept = done(bench.store.card("m-laptop", "1-0000000a"))
    assert kept.nonce and kept.message_id == ""


@pytest.mark.parametrize("answers", [True, False])
def test_name_of_a_person_is_waited_for_only_as_long_as_a_tap_can(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, answers: bool
) -> None:
    monkeypatch.setattr(cards, "name_of", lambda api, who: f"name of {who}")

    def thread(target: Any, **options: Any) -> Any:
        return SimpleNamespace(start=target if answers else lambda: None)

    monkeypatch.setattr(cards.threading, "Thread", thread)
    promise = Cards.name_of(bench.cards, OWNER)
    assert promise.is_kept is answers
    bench.clock.turn(cards.NAME_SECONDS)
    assert done(promise) == (f"name of {OWNER}" if answers else "")


def told_later(wire: FakeWire, result: str, id: str = "1-0000000a") -> None:
    outcome = Outcome(id, "permission", "zh", "allowed", "allow", done="已批准运行",
                      result=result)  # fmt: skip
    wire.say("update", outcome=to_plain(outcome))


def test_record_tells_what_came_of_the_call_once_the_machine_knows(
    bench: Bench,
) -> None:
    wire = bench.wire(bench.enrol())
    bench.ask(wire)
    told_later(wire, "too early")
    bench.pump()
    assert bench.api.updates == [], "what waits is no record"
    ended(wire)
    told_later(wire, "已运行，退出码 3")
    bench.pump()
    told_later(wire, "x" * 100_000)
    bench.pump()
    first, last = (str(card) for _, card in bench.api.updates)
    assert "退出码" not in first and "已运行，退出码 3" in last
    assert [message for message, _ in bench.api.updates] == ["om_1", "om_1"]


def test_record_of_another_machine_cannot_be_changed_nor_one_too_often(
    bench: Bench,
) -> None:
    wire, other = (bench.wire(bench.enrol(name)) for name in ("laptop", "box"))
    bench.ask(wire)
    ended(wire)
    bench.pump()
    told_later(other, "not mine")
    bench.pump()
    assert len(bench.api.updates) == 1
    for _ in range(500):
        told_later(wire, "again")
    bench.clock.turn(60)
    bench.pump()
    assert len(bench.api.updates) <= 1 + 30


def test_result_reaches_a_card_that_another_replica_settled(
    tmp_path: Path, clock: Clock
) -> None:
    one, two = (Bench(store, clock) for store in shared(tmp_path / "e", clock))
    machine = one.enrol()
    wire = one.wire(machine)
    one.ask(wire)
    ended(wire)
    one.pump()
    told_later(two.wire(machine), "已运行完毕")
    two.pump()
    ((message, card),) = two.api.updates
    assert message == "om_1" and "已运行完毕" in str(card)


def test_result_that_comes_while_a_slow_store_settles_is_told(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    wire = bench.wire(bench.enrol())
    bench.ask(wire)
    at_once = bench.store._batch
    asked: list[tuple[Promise[Any], Any]] = []

    def slow(now: Any) -> Promise[list[Any]]:
        asked.append((Promise(), now))
        return asked[-1][0]

    monkeypatch.setattr(bench.store, "_batch", lambda: Held(at_once, slow))
    ended(wire)
    told_later(wire, "已运行完毕")
    for promise, now in asked:  # grows meanwhile
        promise.resolve(now())
    monkeypatch.setattr(bench.store, "_batch", at_once)
    bench.pump()
    assert "已运行完毕" in str(bench.api.updates[-1])
    told_later(wire, "and more")
    bench.pump()
    assert "and more" in str(bench.api.updates[-1])


@pytest.mark.parametrize("odd", [{"look": "x"}, {"surface": "x"}, {"done": "\ud800"}])
def test_end_that_cannot_be_shown_leaves_no_card_behind(
    bench: Bench, odd: dict[str, str]
) -> None:
    wire = bench.wire(bench.enrol())
    bench.ask(wire)
    outcome = Outcome("1-0000000a", "permission", "zh", "denied", "deny", done="x")
    wire.say("settle", outcome={**to_plain(outcome), **odd})
    bench.pump()
    assert done(bench.hub.listing())[0]["waiting"] == 0


def test_what_one_machine_has_to_leave_is_bounded_in_bytes(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While Feishu takes nothing, and until the whole of a long one is attached."""
    monkeypatch.setattr(cards, "MAX_BYTES", 1 << 20)
    wire, other = bench.wire(bench.enrol()), bench.wire(bench.enrol("other"))
    long = make_ask(blocks=(Block("code", text="x" * 300_000),))
    for number in range(5):
        wire.say("ask", ask=to_plain(long._replace(id=f"1-{number}")), left=600)
    other.say("ask", ask=to_plain(long), left=600)
    refused = [shown["id"] for shown in wire.got("shown")]
    assert refused == ["1-3", "1-4"] and not other.got("shown")
    assert wire.got("shown")[0]["detail"] == cards.TOO_MUCH
    bench.pump()
    assert bench.cards._bytes == {}
    assert len([shown for shown in wire.got("shown") if shown["ok"]]) == 3


def test_end_that_is_told_again_and_again_holds_up_no_other_record(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outbox, "MAX_QUEUE", 20)
    wire, other = bench.wire(bench.enrol()), bench.wire(bench.enrol("other"))
    bench.ask(wire)
    bench.ask(other, id="1-other")
    for _ in range(100):
        ended(wire)
    ended(other, "1-other")
    bench.pump()
    bench.clock.turn(60)
    bench.pump()
    changed = [message for message, _ in bench.api.updates]
    assert "om_2" in changed and 1 <= changed.count("om_1") <= 2
    assert bench.cards._ending == {}
    assert done(bench.hub.listing())[0]["waiting"] == 0
    assert len(wire.data.waiting) == 0


def test_record_is_drawn_once_the_queue_has_room(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    wire = bench.wire(bench.enrol())
    bench.ask(wire)
    monkeypatch.setattr(outbox, "MAX_QUEUE", 0)
    ended(wire)
    bench.pump()
    assert bench.api.updates == []
    monkeypatch.undo()
    bench.clock.turn(cards.AGAIN_MOST)
    bench.pump()
    assert [message for message, _ in bench.api.updates] == ["om_1"]
    assert done(bench.hub.listing())[0]["waiting"] == 0


def test_record_tells_what_became_known_while_it_was_drawn(bench: Bench) -> None:
    wire = bench.wire(bench.enrol())
    ask = bench.ask(wire)
    update = bench.api.update

    def slow(message_id: str, card: Any) -> Result:
        bench.api.update = update  # type: ignore[method-assign]
        known = Outcome(ask.id, "permission", "zh", "denied", done="d", result="ran 3")
        wire.say("update", outcome=to_plain(known))
        return update(message_id, card)

    bench.api.update = slow  # type: ignore[method-assign]
    ended(wire)
    bench.pump()
    assert ["ran 3" in str(card) for _, card in bench.api.updates] == [False, True]
    assert bench.cards._ending == {}


@pytest.mark.parametrize("part", ["project", "session", "rule_note", "id", "digest"])
def test_request_that_is_large_where_no_card_shows_it_is_not_kept(
    bench: Bench, part: str
) -> None:
    wire = bench.wire(bench.enrol())
    bench.ask(wire, **{part: "x" * 300_000 + "/y"})
    assert [shown["ok"] for shown in wire.got("shown")] == [False]
    assert len(wire.data.waiting) == 0 and bench.cards._bytes == {}
    bench.ask(wire, blocks=(Block("code", text="x" * 300_000),) * 40)
    assert wire.got("shown")[-1]["ok"] is True
    (kept,) = done(bench.store.cards_of("m-laptop"))
    assert len(str(to_plain(kept))) < 20_000


def test_records_of_one_machine_are_bounded_in_bytes(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "MAX_RECORDS", 400_000)
    wire = bench.wire(bench.enrol())
    for number in range(10):
        bench.ask(wire, id=f"1-{number}", rule_note="x" * 100_000)
        ended(wire, f"1-{number}")
        bench.pump()
    assert len(bench.api.updates) == 10, "each card is a record all the same"
    assert sum(len(text) for text, _ in bench.store._texts.values()) < 500_000
