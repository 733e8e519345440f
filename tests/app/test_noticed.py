"""Whether a card is noticed: the chat on top of the list, and what was read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from feishuperm.app.api import NO_ANSWER, Result
from tests.app.bench import OWNER, START, STRANGER, Bench

CARD = "om_1"
OTHER = "1-00000002"
UP, DOWN = (True, [OWNER]), (False, [OWNER])
NO_SCOPE = Result(False, 99991672, "lacks a permission")
BUSY = Result(False, 99991400, "too many", retry=True)
LOST = Result(False, NO_ANSWER, "no network", retry=True)
NOT_DONE = Result(False, 0, "")


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def kept(bench: Bench) -> Any:
    return json.loads((bench.folder / "cards" / "kept.json").read_text())


def restart(bench: Bench) -> None:
    """The server is killed; the next one starts."""
    bench.start()
    bench.channel.start()


def pass_time(bench: Bench, seconds: int) -> None:
    """The outboxes send all the while."""
    for _ in range(seconds):
        bench.turn(1)


# The chat on top of the list.


def test_chat_is_on_top_while_a_card_is_pending(bench: Bench) -> None:
    first = bench.bring()
    bench.turn(0)
    assert bench.api.pins == [UP] and kept(bench)["pinned"] == [OWNER]
    bench.bring(OTHER)
    bench.turn(5)
    bench.end(first.id)
    bench.turn(5)
    assert bench.api.pins == [UP]
    bench.end(OTHER)
    assert bench.channel.busy()
    bench.turn(5)
    assert bench.api.pins == [UP, DOWN] and kept(bench)["pinned"] == []
    assert not bench.channel._pin.is_due


def test_chat_stays_on_top_for_a_request_that_follows_at_once(bench: Bench) -> None:
    bench.bring()
    bench.turn(1)
    bench.end("1-00000001")
    bench.bring(OTHER)
    bench.turn(5)
    assert bench.api.pins == [UP]


def test_card_that_never_left_puts_nothing_on_top(bench: Bench) -> None:
    bench.api.refuses = True
    bench.bring()
    bench.turn(5)
    assert bench.api.pins == []


def test_killed_server_leaves_no_chat_on_top(bench: Bench) -> None:
    bench.bring()
    bench.turn(1)
    bench.asks.clear()  # its hook never comes back
    restart(bench)
    pass_time(bench, 60)
    assert bench.api.pins == [UP, DOWN] and kept(bench)["pinned"] == []


def test_request_that_comes_back_keeps_the_chat_on_top(bench: Bench) -> None:
    ask = bench.bring()
    bench.turn(1)
    restart(bench)
    bench.announce(ask)
    bench.turn(40)
    assert bench.api.pins == [UP]
    bench.end(ask.id)
    bench.turn(5)
    assert bench.api.pins == [UP, DOWN]


def test_person_of_before_is_taken_off_first(bench: Bench) -> None:
    bench.channel.store.keep(pinned=["ou_before"])
    restart(bench)
    bench.bring()
    bench.turn(1)
    assert bench.api.pins == [(False, ["ou_before"]), UP]


@pytest.mark.parametrize(
    "said", ["", "[]", '{"pinned": 5}', '{"pinned": [7, null]}', '{"pinned": {}}', "x"]
)
def test_record_that_somebody_edited_stops_no_server(bench: Bench, said: str) -> None:
    bench.channel.store.keep(pinned=[])
    (bench.folder / "cards" / "kept.json").write_text(said)
    restart(bench)
    bench.bring()
    bench.turn(1)
    assert bench.api.pins == [UP]


@pytest.mark.parametrize(("answer", "pause"), [(NO_SCOPE, 3600.0), (NOT_DONE, 60.0)])
def test_refusal_is_not_asked_again_for_a_while(
    bench: Bench, answer: Result, pause: float
) -> None:
    bench.api.pin_answers = [answer]
    for number in range(1, 6):
        bench.bring(f"1-0000000{number}")
        bench.turn(5)
        bench.end(f"1-0000000{number}")
        bench.turn(2)
    assert bench.api.pins == [UP]
    assert bench.channel.state()[0] == "up" and kept(bench)["pinned"] == []
    bench.turn(pause)
    bench.bring("1-00000009")
    bench.turn(1)
    assert bench.api.pins == [UP, UP]


@pytest.mark.parametrize("answer", [BUSY, LOST])
def test_answer_that_was_lost_may_have_been_a_yes(bench: Bench, answer: Result) -> None:
    bench.api.pin_answers = [answer]
    bench.bring()
    bench.turn(10)
    assert bench.api.pins == [UP] and bench.channel.state()[0] == "up"
    bench.end("1-00000001")
    bench.turn(5)
    assert bench.api.pins == [UP, DOWN]


@pytest.mark.parametrize("answer", [BUSY, LOST, NOT_DONE])
def test_chat_is_taken_down_as_often_as_it_needs_to_be(
    bench: Bench, answer: Result
) -> None:
    bench.bring()
    bench.turn(1)
    bench.api.pin_answers = [answer] * 12
    bench.end("1-00000001")
    pass_time(bench, 100)
    assert 3 < bench.api.pins.count(DOWN) < 8  # each pause is twice as long
    pass_time(bench, 7200)
    assert bench.api.pins.count(DOWN) == 13 and kept(bench)["pinned"] == []


def test_new_card_while_the_chat_is_taken_down_puts_it_up_again(bench: Bench) -> None:
    bench.bring()
    bench.turn(1)
    bench.api.pin_answers = [LOST]
    bench.end("1-00000001")
    bench.turn(1)
    bench.bring(OTHER)
    bench.turn(30)
    assert bench.api.pins == [UP, DOWN]  # nobody knows; it counts as up
    bench.end(OTHER)
    bench.turn(5)
    assert bench.api.pins == [UP, DOWN, DOWN]


# What was read.


def test_card_that_was_read_is_not_reminded_of(tmp_path: Path) -> None:
    bench = Bench(tmp_path, urgent=True)
    bench.bring()
    bench.turn(3)
    bench.read(CARD)
    assert bench.seen == {"1-00000001": START + 3}
    bench.turn(50)
    assert bench.api.texts == []
    assert "urge" not in [call[0] for call in bench.api.calls]
    assert bench.answers == [] and bench.is_pending("1-00000001")


@pytest.mark.parametrize(
    ("ids", "who", "ago"),
    [
        ((CARD,), STRANGER, 0.0),
        ((CARD,), "", 0.0),
        (("om_other", "", "om_"), OWNER, 0.0),
        ((CARD,), OWNER, 4000.0),  # told again, hours later
    ],
)
def test_what_others_read_or_read_elsewhere_is_no_mark(
    tmp_path: Path, ids: tuple[str, ...], who: str, ago: float
) -> None:
    bench = Bench(tmp_path, urgent=True)
    bench.bring()
    bench.turn(3)
    bench.read(*ids, who=who, ago=ago)
    bench.turn(50)
    assert bench.seen == {} and len(bench.api.texts) == 1
    assert "urge" in [call[0] for call in bench.api.calls]


@pytest.mark.parametrize(
    "event",
    [
        {}, {"reader": 5}, {"reader": {"reader_id": []}}, {"message_id_list": {}},
        {"reader": {"reader_id": {"open_id": OWNER}}, "message_id_list": [{}, 5, []]},
        {"reader": {"reader_id": {"open_id": OWNER}, "read_time": "x" * 99}},
    ],
)  # fmt: skip
def test_event_that_makes_no_sense_is_no_mark(bench: Bench, event: Any) -> None:
    bench.bring()
    header = {"event_type": "im.message.message_read_v1"}
    assert bench.deliver({"header": header, "event": event}) == {}
    assert bench.seen == {}


def test_reading_is_faster_than_the_id_of_the_message(bench: Bench) -> None:
    bench.api.while_sending = lambda: bench.read(CARD)
    ask = bench.bring()
    assert bench.seen == {ask.id: START}


def test_row_that_came_after_its_card_was_read_is_not_seen(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    for number in range(1, 8):
        bench.bring(f"1-0000000{number}")
    bench.turn(1)
    burst = bench.channel._bursts[0].message_id
    rows = {card.ask.id for card in bench.channel.store.all() if card.shared}
    bench.read(burst)
    assert set(bench.seen) == rows
    bench.turn(1)
    bench.bring("1-00000008")
    bench.turn(1)
    assert "1-00000008" not in bench.seen
    bench.turn(30)  # and so the card is reminded of
    assert burst in [message for message, _ in bench.api.texts]


def test_mark_is_kept_for_the_next_server(tmp_path: Path) -> None:
    bench = Bench(tmp_path, urgent=True)
    ask = bench.bring()
    bench.turn(3)
    bench.read(CARD)
    bench.seen, bench.has_receipts = {}, False
    restart(bench)
    assert bench.has_receipts
    bench.announce(ask)
    assert bench.seen == {ask.id: START + 3}
    bench.turn(50)
    assert bench.api.texts == []


def test_nothing_is_known_of_reading_without_the_event(bench: Bench) -> None:
    bench.bring()
    bench.turn(30)
    restart(bench)
    assert not bench.has_receipts
