"""The app's channel: whose taps count, on which card, and what becomes of it."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from feishuperm.channels.app import CardStore
from feishuperm.models import ask as statuses
from feishuperm.models.ask import Notice, Receipt
from feishuperm.wire import RETURN_SECONDS
from tests.app.bench import OWNER, STRANGER, Bench
from tests.kinds import refusals
from tests.services.test_presenter import brief, whole

CARD = "om_1"
ID = "1-00000001"
QUESTION = {
    "question": "Which color?",
    "options": [{"label": "Red"}, {"label": "Blue"}],
    "multiSelect": False,
}


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


# Taps.


def test_tap_of_the_owner_is_an_answer_and_brings_the_record(bench: Bench) -> None:
    ask = bench.bring()
    assert bench.done == [(True, "")] and bench.line.sent == 1
    reply = bench.tap(CARD, "allow")
    (answer,) = bench.answers
    assert (answer.id, answer.action, answer.who) == (ID, "allow", OWNER)
    assert (answer.surface, answer.digest) == ("card", ask.digest)
    assert not answer.confirmed
    assert reply["toast"] == {"type": "success", "content": "done allow"}
    assert bench.line.settled == 1
    bench.turn(1)
    assert bench.api.cards[CARD] == reply["card"]["data"]
    assert bench.buttons(CARD) == {}
    assert bench.channel.store.all() == []


def test_change_follows_the_answer_and_never_overtakes_it(bench: Bench) -> None:
    bench.bring()
    bench.tap(CARD, "allow")
    bench.pump()
    assert ("update", CARD) not in bench.api.calls
    bench.turn(1)
    assert ("update", CARD) in bench.api.calls


def test_reason_of_the_form_goes_along(bench: Bench) -> None:
    bench.bring()
    bench.tap(CARD, "deny", form={"reason": "not now", "other": "x", "answer": 5})
    assert bench.answers[0].values == {"reason": ("not now",)}


def test_edited_command_goes_along_as_it_was_typed(bench: Bench) -> None:
    bench.bring()
    bench.tap(CARD, "edit", form={"command": " ls -l\n", "reason": "x"})
    (answer,) = bench.answers
    assert answer.action == "edit" and answer.values["command"] == (" ls -l\n",)


def test_edit_that_was_emptied_is_sent_back_and_may_be_tried_again(
    bench: Bench,
) -> None:
    bench.bring()
    bench.replied = Receipt(statuses.INCOMPLETE, error="empty")
    reply = bench.tap(CARD, "edit", form={"command": ""})
    assert reply["toast"] == {"type": "warning", "content": "empty"}
    assert "card" not in reply


def test_always_is_confirmed_by_the_dialog_of_its_button(bench: Bench) -> None:
    bench.bring()
    bench.tap(CARD, "always")
    assert bench.answers[0].confirmed


def test_choice_is_answered_by_its_button(bench: Bench) -> None:
    bench.bring(tool_name="AskUserQuestion", questions=[QUESTION])
    bench.tap(CARD, "answer:1")
    (values,) = bench.answers[0].values.values()
    assert values == ("Blue",)


def test_number_of_no_choice_is_no_answer(bench: Bench) -> None:
    bench.bring(tool_name="AskUserQuestion", questions=[QUESTION])
    value = {**bench.buttons(CARD)[f"answer:1 {ID}"], "action": "answer:9"}
    bench.act(CARD, value)
    (values,) = bench.answers[0].values.values()
    assert values == ()


def test_stranger_is_refused_told_who_may_and_reported(bench: Bench) -> None:
    bench.bring()
    reply = bench.tap(CARD, "allow", who=STRANGER)
    assert reply["toast"]["type"] == "error" and "card" not in reply
    assert OWNER[-6:] in reply["toast"]["content"]
    assert bench.answers == [] and bench.refused == [(ID, "allow", STRANGER)]
    assert bench.tap(CARD, "allow", who="")["toast"]["type"] == "error"
    assert bench.answers == []


def test_identity_is_the_open_id_and_nothing_else(bench: Bench) -> None:
    bench.bring()
    value = bench.buttons(CARD)[f"allow {ID}"]
    operators: list[Any] = [
        {"union_id": OWNER}, {"user_id": OWNER}, OWNER, [OWNER], None,
        {"open_id": [OWNER]}, {"open_id": OWNER + " "}, {"open_id": OWNER.upper()},
    ]  # fmt: skip
    for operator in operators:
        header = {"event_type": "card.action.trigger", "event_id": str(operator)}
        context = {"open_message_id": CARD}
        event = {"operator": operator, "action": {"value": value}, "context": context}
        reply = bench.deliver({"header": header, "event": event, "open_id": OWNER})
        assert reply["toast"]["type"] == "error"
    assert bench.answers == []


@pytest.mark.parametrize(
    "change", [{"nonce": "guess"}, {"nonce": ""}, {"nonce": None}, {"nonce": "é"}]
)
def test_tap_with_another_nonce_is_refused(bench: Bench, change: Any) -> None:
    bench.bring()
    value = {**bench.buttons(CARD)[f"allow {ID}"], **change}
    assert bench.act(CARD, value)["toast"]["type"] == "error"
    assert bench.answers == [] and bench.refused == [(ID, "allow", OWNER)]


def test_tap_from_another_message_is_refused(bench: Bench) -> None:
    bench.bring()
    value = bench.buttons(CARD)[f"allow {ID}"]
    assert bench.act("om_copy", value)["toast"]["type"] == "error"
    assert bench.answers == []


def test_button_of_one_request_does_not_answer_another(bench: Bench) -> None:
    bench.bring()
    bench.bring("2-00000002")
    value = bench.buttons(CARD)[f"allow {ID}"]
    assert bench.act(CARD, {**value, "id": "2-00000002"})["toast"]["type"] == "error"
    assert bench.answers == []


def test_action_the_card_does_not_have_is_refused(bench: Bench) -> None:
    bench.bring()
    value = bench.buttons(CARD)[f"allow {ID}"]
    for action in ("answer", "approve", "", "allow_all"):
        reply = bench.act(CARD, {**value, "action": action})
        assert reply["toast"]["type"] == "error"
    assert bench.answers == []


def test_event_delivered_twice_acts_once_and_is_answered_the_same(
    bench: Bench,
) -> None:
    bench.bring()
    value = bench.buttons(CARD)[f"allow {ID}"]
    first = bench.act(CARD, value, event_id="e")
    assert bench.act(CARD, value, event_id="e") == first
    assert len(bench.answers) == 1


def test_second_tap_is_told_what_happened(bench: Bench) -> None:
    bench.bring()
    value = bench.buttons(CARD)[f"deny {ID}"]
    bench.tap(CARD, "allow")
    reply = bench.act(CARD, value)
    assert reply["toast"] == {"type": "info", "content": "done allow"}
    bench.turn(1)  # the card is settled and forgotten
    reply = bench.act(CARD, value)
    assert reply["toast"]["type"] == "info"
    assert "done allow" in reply["toast"]["content"]


def test_tap_on_a_request_nobody_knows_is_told_so(bench: Bench) -> None:
    bench.bring()
    value = bench.buttons(CARD)[f"allow {ID}"]
    del bench.asks[ID]
    bench.turn(RETURN_SECONDS)
    reply = bench.act(CARD, value)
    assert reply["toast"]["type"] == "warning" and "card" in reply
    reply = bench.act(CARD, {**value, "id": "9-00000009"})
    assert reply["toast"]["type"] == "warning"


@pytest.mark.parametrize("number", ["9" * 5000, "²", "-1"])
def test_choice_with_an_odd_number_is_no_choice(bench: Bench, number: str) -> None:
    bench.announce(
        brief("AskUserQuestion", questions=[{**QUESTION, "multiSelect": True}])
    )
    value = bench.buttons(CARD)["answer " + next(iter(bench.asks))]
    bench.act(CARD, value, form={"q0": [number]})
    (answer,) = bench.answers
    assert answer.values == {"q0": ()}


@pytest.mark.parametrize("place", ["nonce", "id", "action", "digest"])
def test_half_a_character_is_no_tap_and_is_acknowledged(
    bench: Bench, place: str
) -> None:
    bench.bring()
    value = {**bench.buttons(CARD)[f"allow {ID}"], place: "\ud800"}
    assert bench.act(CARD, value) == {}
    assert bench.answers == []


def test_tap_before_the_message_has_an_id_counts(bench: Bench) -> None:
    """A thumb may be faster than Feishu's answer to the server."""
    bench.api.while_sending = lambda: bench.tap(CARD, "allow")
    bench.bring()
    assert [answer.action for answer in bench.answers] == ["allow"]
    bench.turn(1)
    assert bench.buttons(CARD) == {} and bench.channel.store.all() == []


@pytest.mark.parametrize(
    "event",
    [
        {},
        [],
        "x",
        {"header": {"event_type": "im.chat.updated_v1"}},
        {"header": 5, "event": 6},
    ],
)
def test_unknown_events_are_acknowledged(bench: Bench, event: object) -> None:
    assert bench.deliver(event) == {}


@pytest.mark.parametrize(
    "event", [None, 5, [], {"action": 5}, {"action": {"value": "allow"}}]
)
def test_broken_taps_do_nothing(bench: Bench, event: object) -> None:
    bench.bring()
    header = {"event_type": "card.action.trigger"}
    assert bench.deliver({"header": header, "event": event})["toast"]
    assert bench.answers == []


# What is not shown whole.


def long_ask(bench: Bench) -> None:
    made = whole(command="echo " + "x" * 60_000)
    bench.announce(made._replace(id=ID, digest="d", created=1_700_000_000.0))


def test_long_request_is_granted_only_after_its_file_has_arrived(
    bench: Bench,
) -> None:
    refusing = []
    api = bench.api
    api.while_sending = lambda: refusing.extend(bench.buttons(CARD))
    long_ask(bench)
    assert sorted(refusing) == [f"{name} {ID}" for name in refusals()]
    (content,) = api.files
    assert b"x" * 60_000 in content
    assert f"allow {ID}" in bench.buttons(CARD)
    assert bench.tap(CARD, "allow")["toast"]["type"] == "success"


def test_nobody_grants_by_words_what_the_card_does_not_hold(bench: Bench) -> None:
    bench.channel._attach = lambda id: None  # type: ignore[method-assign]
    long_ask(bench)
    bench.say("批准", CARD)
    value = {**bench.buttons(CARD)[f"deny {ID}"], "action": "allow"}
    assert bench.act(CARD, value)["toast"]["type"] == "error"
    assert bench.answers == []
    bench.say("拒绝", CARD)
    assert [answer.action for answer in bench.answers] == ["deny"]


def test_veiled_request_is_never_attached_nor_granted(bench: Bench) -> None:
    made = brief(command="x")._replace(id=ID, masked=True, veiled=True)
    bench.announce(made._replace(created=1_700_000_000.0))
    bench.say("批准", CARD)
    assert bench.api.files == [] and bench.answers == []


def test_title_card_is_not_granted_by_words(tmp_path: Path) -> None:
    bench = Bench(tmp_path, bare=True)
    bench.bring()
    bench.say("1", CARD)
    assert bench.answers == []
    reply = bench.tap(CARD, "interrupt")
    assert [answer.action for answer in bench.answers] == ["interrupt"]
    bench.turn(1)
    bench.channel.update(bench.outcomes[ID]._replace(result="npm: not here").bare())
    bench.pump()
    for card in (reply["card"], bench.api.cards[CARD]):
        assert "done interrupt" in str(card) and "npm" not in str(card)


# Time.


def test_reminder_is_a_reply_and_stands_on_the_card(bench: Bench) -> None:
    bench.bring()
    bench.turn(27)
    assert bench.api.texts == []
    bench.turn(1)
    assert bench.api.texts == [(CARD, "还剩 28 秒")]
    assert "还剩 28 秒" in str(bench.api.cards[CARD])
    assert bench.tap(CARD, "allow")["toast"]["type"] == "success"
    bench.turn(30)
    assert len(bench.api.texts) == 1


def test_nobody_is_reminded_of_what_has_ended(bench: Bench) -> None:
    bench.bring()
    bench.end(ID)
    bench.turn(55)
    assert bench.api.texts == [] and bench.buttons(CARD) == {}


@pytest.mark.parametrize("urgent", [True, False])
def test_last_third_buzzes_if_wanted(tmp_path: Path, urgent: bool) -> None:
    bench = Bench(tmp_path, urgent=urgent)
    bench.bring()
    bench.turn(36)
    assert ("urge", CARD, OWNER) not in bench.api.calls
    bench.turn(2)
    assert (("urge", CARD, OWNER) in bench.api.calls) == urgent


def test_nothing_reminds_in_quiet_hours(tmp_path: Path) -> None:
    bench = Bench(tmp_path, urgent=True)
    bench.bring()
    bench.night = 20.0, 3600.0
    bench.turn(55)
    assert bench.api.texts == []
    assert [call[0] for call in bench.api.calls] == ["send"]
    assert "还剩" not in str(bench.api.cards[CARD])


# Restarts and failures.


def test_request_that_comes_back_keeps_its_card(bench: Bench) -> None:
    ask = bench.bring()
    bench.start()
    bench.announce(ask)
    assert bench.done == [(True, ""), (True, "")]
    assert [call for call in bench.api.calls if call[0] == "send"] == [("send", CARD)]
    assert bench.tap(CARD, "allow")["toast"]["type"] == "success"


def test_tap_before_its_request_has_come_back_is_to_be_tried_again(
    bench: Bench,
) -> None:
    ask = bench.bring()
    bench.asks.clear()
    bench.start()
    reply = bench.tap(CARD, "allow")
    assert reply["toast"]["type"] == "warning"
    assert "请再点一次" in reply["toast"]["content"] and "card" not in reply
    bench.announce(ask)
    assert bench.tap(CARD, "allow")["toast"]["type"] == "success"


def test_card_of_a_request_that_ended_meanwhile_is_not_watched(bench: Bench) -> None:
    bench.api.while_sending = lambda: bench.end(ID) if ID in bench.asks else None
    bench.bring()
    assert not bench.line.is_watched


def test_request_that_comes_back_is_still_reminded(bench: Bench) -> None:
    ask = bench.bring()
    bench.start()
    bench.timers.calls.clear()
    bench.announce(ask)
    bench.turn(28)
    assert len(bench.api.texts) == 1


def test_card_whose_id_was_never_told_keeps_its_nonce(bench: Bench) -> None:
    """The server died between sending and the answer to it."""
    ask = bench.bring()
    (card,) = bench.channel.store.all()
    bench.channel.store.put(card._replace(message_id=""))
    bench.start()
    bench.announce(ask)
    assert len(bench.api.cards) == 1
    assert bench.tap(CARD, "allow")["toast"]["type"] == "success"


def test_cards_nobody_came_back_for_are_settled(bench: Bench) -> None:
    bench.bring()
    bench.bring("2-00000002")
    bench.asks.clear()
    bench.start()
    bench.channel.sender.later(RETURN_SECONDS, bench.channel._settle_lost)
    bench.turn(RETURN_SECONDS - 1)
    assert bench.buttons(CARD) != {}
    bench.turn(2)
    assert bench.buttons(CARD) == {} == bench.buttons("om_2")
    assert "会话已结束" in str(bench.api.cards[CARD])
    assert CardStore(str(bench.folder / "cards")).all() == []


def test_card_that_cannot_be_sent_is_told_and_forgotten_with_its_request(
    bench: Bench,
) -> None:
    bench.api.refuses = True
    bench.bring()
    assert bench.done == [(False, "not available")]
    bench.end(ID)
    bench.turn(1)
    assert bench.channel.store.all() == []


def test_request_that_ends_while_its_card_leaves_is_settled_on_it(
    bench: Bench,
) -> None:
    bench.api.while_sending = lambda: bench.end(ID) if ID in bench.asks else None
    bench.bring()
    bench.turn(1)
    assert bench.buttons(CARD) == {} and bench.channel.store.all() == []


def test_state_says_why_the_line_is_down(bench: Bench) -> None:
    assert bench.channel.state()[0] == "up"
    assert bench.channel.facts()["connected_since"] == bench.line.since
    bench.line.state, bench.line.detail = (
        "down",
        "FEISHU_APP_ID or FEISHU_APP_SECRET is wrong",
    )
    state, detail = bench.channel.state()
    assert state == "down" and "FEISHU_APP_SECRET" in detail
    assert bench.channel.facts()["connected_since"] is None


def test_notice_is_a_card_without_a_callback(bench: Bench) -> None:
    bench.channel.notify(Notice("test", 1_700_000_000.0, "/home/me/shop"))
    bench.pump()
    assert bench.buttons(CARD) == {}


# The clock, and the end of a server.


def held_ask(bench: Bench) -> None:
    made = brief(command="npm test")._replace(id=ID, digest="d", hold=True)
    bench.announce(made._replace(created=1_700_000_000.0))


def test_somebody_who_reads_stops_the_clock_and_sees_until_when(bench: Bench) -> None:
    held_ask(bench)
    reply = bench.tap(CARD, "hold")
    assert reply["toast"]["type"] == "success" and bench.answers == []
    ends = time.strftime("%H:%M", time.localtime(1_700_000_000 + 655))
    assert ends in reply["toast"]["content"]
    assert f"{ends} 后自动拒绝" in str(reply["card"]["data"])
    bench.turn(1)
    assert f"hold {ID}" not in bench.buttons(CARD)
    assert f"allow {ID}" in bench.buttons(CARD)
    assert bench.tap(CARD, "allow")["toast"]["type"] == "success"


def test_reminder_of_a_held_request_tells_the_time_it_has(bench: Bench) -> None:
    held_ask(bench)
    bench.tap(CARD, "hold")
    bench.turn(28)
    ((_, said),) = bench.api.texts
    assert "627" in said or "628" in said


def test_clock_that_was_stopped_elsewhere_is_shown_on_the_card(bench: Bench) -> None:
    held_ask(bench)
    before = bench.api.cards[CARD]
    bench.channel.renew()
    bench.turn(1)
    assert bench.api.cards[CARD] == before
    assert bench.extend_deadline(ID)  # by a page that was opened
    bench.turn(1)
    ends = time.strftime("%H:%M", time.localtime(1_700_000_000 + 655))
    assert f"{ends} 后自动拒绝" in str(bench.api.cards[CARD])
    assert f"hold {ID}" not in bench.buttons(CARD)


def test_stranger_stops_no_clock(bench: Bench) -> None:
    held_ask(bench)
    assert bench.tap(CARD, "hold", who=STRANGER)["toast"]["type"] == "error"
    assert bench.asks[ID].hold


def test_clock_that_cannot_be_stopped_is_said_so(bench: Bench) -> None:
    bench.bring()
    value = {**bench.buttons(CARD)[f"allow {ID}"], "action": "hold"}
    assert bench.act(CARD, value)["toast"]["type"] == "error"
    bench.end(ID, "deny")
    assert "done deny" in bench.act(CARD, value)["toast"]["content"]


def test_channel_is_busy_until_its_records_have_left(bench: Bench) -> None:
    bench.bring()
    assert not bench.channel.busy()
    bench.end(ID)
    assert bench.channel.busy()
    bench.timers.turn(1)
    assert bench.channel.busy()
    bench.pump()
    assert not bench.channel.busy() and bench.buttons(CARD) == {}


def test_request_that_ended_with_the_server_before_is_settled_at_once(
    bench: Bench,
) -> None:
    bench.bring()
    bench.end(ID, "deny")  # and the server was killed before its card changed
    bench.start()
    bench.channel.sender.cards.start = lambda: None  # type: ignore[method-assign]
    bench.channel.sender.changes.start = lambda: None  # type: ignore[method-assign]
    bench.channel.start()
    bench.pump()
    assert bench.buttons(CARD) == {} and "done deny" in str(bench.api.cards[CARD])
