"""Words in the chat: an owner's below a card answer it, and nobody else's do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from feishuperm.models import ask as statuses
from feishuperm.models.ask import Receipt
from tests.app.bench import OWNER, STRANGER, Bench
from tests.services.test_presenter import brief

CARD = "om_1"
ID = "1-00000001"


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


@pytest.mark.parametrize(
    ("said", "action", "values"),
    [
        ("批准", "allow", {}),
        ("1", "allow", {}),
        ("deny not now", "deny", {"reason": ("not now",)}),
        ("中断", "interrupt", {}),
    ],
)
def test_reply_in_words_is_an_answer(
    bench: Bench, said: str, action: str, values: Any
) -> None:
    bench.bring()
    assert bench.say(said, CARD) == f"done {action}"
    (answer,) = bench.answers
    assert (answer.action, answer.values, answer.who) == (action, values, OWNER)
    assert answer.surface == "message"


def test_reply_to_a_card_that_is_just_leaving_waits_for_its_id(bench: Bench) -> None:
    bench.api.while_sending = lambda: bench.say("批准", CARD)
    bench.bring()
    assert bench.answers == []
    bench.turn(1)
    assert [answer.action for answer in bench.answers] == ["allow"]


def test_always_counts_only_after_the_rule_was_shown(bench: Bench) -> None:
    """Two words that both waited for the id of their card are one."""

    def reply() -> None:
        bench.say("always", CARD)
        bench.say("always", CARD)

    bench.api.while_sending = reply
    bench.bring()
    bench.turn(1)
    assert len(bench.api.texts) == 2 and bench.answers == []
    bench.say("always", CARD)
    assert [answer.action for answer in bench.answers] == ["always"]


def test_always_in_words_shows_the_rule_first_and_counts_the_second_time(
    bench: Bench,
) -> None:
    ask = bench.bring()
    assert ask.rules[0] in bench.say("始终", CARD)
    assert bench.answers == []
    bench.say("always", CARD)
    assert [(a.action, a.confirmed) for a in bench.answers] == [("always", True)]


def test_always_said_long_ago_does_not_count(bench: Bench) -> None:
    bench.announce(
        brief(command="x")._replace(id=ID, created=1_700_000_000.0, seconds=600)
    )
    bench.say("始终", CARD)
    bench.turn(130)
    bench.say("始终", CARD)
    assert bench.answers == []


def test_always_without_a_rule_never_counts(bench: Bench) -> None:
    made = brief(command="x")._replace(id=ID, rules=(), rule_note="no rule")
    bench.announce(made._replace(created=1_700_000_000.0))
    for _ in range(3):
        assert bench.say("始终", CARD) == "no rule"
    assert bench.answers == []


def test_words_of_strangers_bots_and_of_long_ago_are_nothing(bench: Bench) -> None:
    bench.bring()
    assert bench.say("批准", CARD, who=STRANGER) == ""
    assert bench.say("批准", CARD, create_time="1600000000000") == ""
    assert bench.say("静音", who=STRANGER) == "" and not bench.channel.muted()
    assert bench.answers == []


@pytest.mark.parametrize("moment", ["²", "9" * 400, "9" * 5000, "", "-1"])
def test_text_of_an_odd_moment_is_of_now(bench: Bench, moment: str) -> None:
    bench.bring()
    assert bench.say("批准", CARD, create_time=moment) != ""


def test_text_delivered_twice_is_one(bench: Bench) -> None:
    bench.bring()
    assert bench.say("hm", CARD, message_id="om_t")
    assert bench.say("批准", CARD, message_id="om_t") == ""
    assert bench.answers == []


def test_words_without_a_reply_are_asked_back(bench: Bench) -> None:
    ask = bench.bring()
    assert ask.summary in bench.say("批准")
    assert bench.answers == []


def test_words_to_a_message_that_is_over_are_told_so(bench: Bench) -> None:
    bench.bring()
    bench.tap(CARD, "allow")
    bench.turn(1)
    bench.say("批准", CARD)
    bench.turn(1)
    assert "结束" in bench.api.texts[-1][1]
    assert len(bench.answers) == 1


def test_talk_in_a_group_is_not_answered_unless_it_names_the_bot(
    bench: Bench,
) -> None:
    bench.bring()
    assert bench.say("lunch?", chat_type="group") == ""
    assert bench.say("@_user_1 状态", chat_type="group") == "1. Bash"
    assert bench.say("批准", CARD, chat_type="group") == "done allow"


def test_commands_mute_and_end_it_over_a_restart(bench: Bench) -> None:
    assert bench.say("状态") == "现在没有等待处理的请求"
    bench.say("静音 1h")
    bench.start()
    assert bench.channel.muted()
    assert "muted until" in bench.channel.state()[1]
    bench.say("恢复")
    assert not bench.channel.muted()
    bench.say("mute 1m")
    bench.turn(61)
    assert not bench.channel.muted()


def test_rule_is_taken_back_in_words_once(bench: Bench) -> None:
    bench.rules = [["Bash(npm test)"]]
    assert "Bash(npm test)" in bench.say("撤销")
    assert bench.say("undo") == "没有可以撤销的规则。"
    bench.rules = [["Bash(x)"]]
    bench.say("undo", who=STRANGER)
    assert bench.rules


def test_rule_is_taken_back_once_however_often_it_has_to_be_told(bench: Bench) -> None:
    bench.rules = [["Bash(a)"], ["Bash(b)"]]
    bench.api.is_busy = True
    bench.say("撤销")
    bench.api.is_busy = False
    bench.turn(60)
    assert bench.rules == [["Bash(a)"]]
    assert "Bash(b)" in bench.api.texts[-1][1]


def test_passes_are_listed_and_ended_in_words(bench: Bench) -> None:
    assert bench.say("通行证") == bench.say("passes") == "没有通行证"
    assert bench.say("passes revoke p-1") == "已撤销 1 张通行证"
    bench.say("通行证 撤销 全部")
    bench.say("通行证 撤销 p-2", who=STRANGER)
    assert bench.say("通行证 给我") != "a pass"
    assert bench.revoked == ["p-1", "all"] and bench.api.cards == {}


def test_passes_have_a_card_with_a_button_for_each(bench: Bench) -> None:
    bench.passes = [("p-1", "Bash(a)", "还可用 3 次"), ("p-2", "Bash(b)", "")]
    assert bench.say("通行证") == ""
    assert "还可用 3 次" in str(bench.api.cards["om_1"])
    values = bench.values("om_1")
    assert [value["press"] for value in values] == [
        *("revoke.p-1", "revoke.p-2", "revoke.all")
    ]
    assert bench.act("om_1", values[0], who=STRANGER)["toast"]["type"] == "error"
    assert bench.act("om_9", values[0])["toast"]["type"] == "error"
    assert bench.revoked == []
    bench.passes = []
    told = bench.act("om_1", values[0])
    assert told["toast"] == {"type": "success", "content": "已撤销 1 张通行证"}
    assert bench.revoked == ["p-1"] and "没有通行证" in str(told["card"])


def test_always_of_a_request_that_ended_is_forgotten(bench: Bench) -> None:
    """The same id asked again needs both words again."""
    ask = bench.bring()
    bench.say("始终", CARD)
    bench.end(ID, "deny")
    bench.channel.settle(bench.outcomes[ID])
    bench.turn(1)
    bench.announce(ask)
    bench.say("始终", "om_1")
    assert bench.answers == []


def test_word_of_a_bot_is_nothing(bench: Bench) -> None:
    bench.bring()
    message = {
        "message_id": "om_t", "parent_id": CARD, "message_type": "text",
        "content": '{"text": "批准"}',
    }  # fmt: skip
    sender = {"sender_type": "app", "sender_id": {"open_id": OWNER}}
    header = {"event_type": "im.message.receive_v1"}
    bench.deliver({"header": header, "event": {"sender": sender, "message": message}})
    assert bench.answers == []


def test_picture_and_unclear_words_bring_help(bench: Bench) -> None:
    bench.bring()
    assert "状态" in bench.say("", message_type="image")
    assert bench.say("什么？", CARD) == bench.say("批准 但是小心", CARD) != ""
    assert bench.answers == []


def test_granting_word_below_a_card_that_shows_not_all_is_refused(
    bench: Bench,
) -> None:
    bench.bring()
    card = bench.channel.store.get(ID)
    assert card is not None
    bench.channel.store.put(card._replace(grants=False))
    assert bench.say("批准", CARD) != "done allow"
    assert bench.answers == []
    assert bench.say("拒绝", CARD) == "done deny"


def test_refusal_of_an_answer_in_words_is_told(bench: Bench) -> None:
    bench.bring()
    bench.replied = Receipt(statuses.REFUSED, error="not this request")
    assert bench.say("批准", CARD) == "not this request"
    bench.replied = Receipt(statuses.UNKNOWN)
    assert "重启" in bench.say("批准", CARD)


def test_rule_that_cannot_be_undone_says_why(bench: Bench) -> None:
    bench.undo_error = "the ledger is locked"
    assert "the ledger is locked" in bench.say("撤销")


def test_cards_are_wanted_again_in_quiet_hours(bench: Bench) -> None:
    bench.night = 0.0, 3600.0
    assert bench.say("恢复", who=STRANGER) == "" and bench.night == (0.0, 3600.0)
    assert "今晚的免打扰提前结束" in bench.say("恢复")
    assert bench.say("恢复") == "已恢复。"
