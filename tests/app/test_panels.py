"""Panels in the chat: words bring them, presses change them, and nobody else's do."""

from __future__ import annotations

import json
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import pytest

from feishuperm.app.panels import panel_card
from feishuperm.app.store import MOST_SHOWN
from feishuperm.messages import text
from feishuperm.models.ask import Block, Notice
from feishuperm.models.names import NOT_AS_SHOWN
from feishuperm.models.panel import (
    ERROR,
    OVER,
    SUCCESS,
    Asker,
    Button,
    Panel,
    Row,
    Told,
)
from tests.app.bench import OWNER, STRANGER, Bench
from tests.fakes.feishu import every_element, every_text
from tests.ports import LIST, LISTED, PROGRESS, SESSION, FakeSessions, progress
from tests.tables import every_row


@pytest.fixture
def sessions() -> FakeSessions:
    return FakeSessions()


@pytest.fixture
def bench(tmp_path: Path, sessions: FakeSessions) -> Bench:
    return Bench(tmp_path, sessions=sessions)


def value(bench: Bench, message: str, press: str) -> dict[str, Any]:
    return next(v for v in bench.values(message) if v.get("press") == press)


def said_on(card: Any) -> str:
    return "\n".join(every_text(card))


# Commands.


@every_row(
    "words, asked",
    [
        ("会话", ("sessions", "")),
        ("sessions", ("sessions", "")),
        ("进展", ("progress", "")),
        ("Progress 1a2b", ("progress", "1a2b")),
        ("新任务 shop 修复登录\n并测试", ("start", "shop 修复登录\n并测试")),
        ("start shop -p --dangerously-skip-permissions",
         ("start", "shop -p --dangerously-skip-permissions")),
        ("@_user_1 continue 1a2b go on", ("continue", "1a2b go on")),
    ],
)  # fmt: skip
def test_word_of_the_chat_is_a_command_with_what_follows_it(
    tmp_path: Path, words: str, asked: Any
) -> None:
    sessions = FakeSessions()
    bench = Bench(tmp_path, sessions=sessions)
    bench.say(words)
    assert sessions.asked == [asked]
    assert sessions.askers == [Asker(OWNER, "message", "app")]


def test_command_of_anybody_else_is_nothing(
    bench: Bench, sessions: FakeSessions
) -> None:
    for words in ("会话", "进展", "start shop x", "continue 1a2b x"):
        bench.say(words, who=STRANGER)
    assert sessions.asked == [] and bench.api.calls == []


def test_panel_goes_to_the_person_who_wrote_and_a_sentence_below_their_words(
    bench: Bench, sessions: FakeSessions
) -> None:
    sessions.told = Told('关着：`install --remote` <at user_id="all"></at>', ERROR)
    said = bench.say("start shop x", chat_type="group", **MENTIONED)
    assert said.startswith("关着") and "<at" not in said
    sessions.told = Told(panel=progress())
    bench.say("进展", chat_type="group", **MENTIONED)
    assert bench.receivers == [OWNER]


MENTIONED: dict[str, Any] = {"content": '{"text": "@_user_1 进展"}'}


def test_command_that_is_huge_is_refused(bench: Bench, sessions: FakeSessions) -> None:
    assert "10000" in bench.say("start shop " + "x" * 10_001)
    assert sessions.asked == []


# Presses.


def test_press_changes_the_card_in_the_answer_and_on_other_devices(
    bench: Bench, sessions: FakeSessions
) -> None:
    bench.say("进展")
    sessions.told = Told("在下一步停下", SUCCESS, progress("stopping"))
    reply = bench.act("om_1", value(bench, "om_1", "stop"))
    assert reply["toast"] == {"type": "success", "content": "在下一步停下"}
    assert "stopping" in said_on(reply["card"]["data"])
    assert sessions.asked[-1] == (PROGRESS, "stop", "")
    assert sessions.askers[-1] == Asker(OWNER, "card", "app")
    bench.turn(5)
    assert bench.api.calls == [("send", "om_1"), ("update", "om_1")]
    assert bench.api.cards["om_1"] == reply["card"]["data"]


def test_press_that_opens_another_panel_leaves_its_own_card(
    bench: Bench, sessions: FakeSessions
) -> None:
    sessions.told = Told(panel=LIST)
    bench.say("会话")
    sessions.told = Told(panel=progress())
    reply = bench.act("om_1", value(bench, "om_1", "open"))
    bench.turn(6)
    assert reply == {} and sessions.asked[-1] == (PROGRESS, "open", "")
    assert bench.api.calls == [("send", "om_1"), ("send", "om_2")]


def test_field_travels_with_the_press(bench: Bench, sessions: FakeSessions) -> None:
    send = Button("send", "发送", "yes", reads=True)
    sessions.told = Told(panel=progress(field="接着做什么", buttons=(send,)))
    bench.say("进展")
    bench.act("om_1", value(bench, "om_1", "send"), form={"words": " 跑测试 "})
    assert sessions.asked[-1] == (PROGRESS, "send", "跑测试")


def other(key: str, said: str) -> Any:
    return lambda found: {**found, key: said}


@every_row(
    "change, options",
    [
        (other("nonce", "wrong"), {}),
        (other("nonce", ""), {}),
        (other("panel", "sessions"), {"message": "om_9"}),
        (dict, {"message": "om_9"}),
        (dict, {"who": "ou_second"}),
    ],
)
def test_press_from_elsewhere_is_refused(
    tmp_path: Path, change: Any, options: dict[str, str]
) -> None:
    """A forged value, a copy of the card, another owner's: none is this message."""
    sessions = FakeSessions()
    bench = Bench(Path(mkdtemp(dir=tmp_path)), sessions=sessions,
                  owners=(OWNER, "ou_second"))  # fmt: skip
    bench.say("进展")
    found = change(value(bench, "om_1", "stop"))
    message = options.get("message", "om_1")
    reply = bench.act(message, found, who=options.get("who", OWNER))
    assert reply == {"toast": {"type": "error", "content": text("zh", NOT_AS_SHOWN)}}
    assert len(sessions.asked) == 1


def test_press_of_a_stranger_does_nothing_and_is_written_down(
    bench: Bench, sessions: FakeSessions
) -> None:
    bench.bring()
    bench.end("1-00000001", "allow")
    bench.turn(1)
    reply = bench.act("om_1", value(bench, "om_1", "open"), who=STRANGER)
    assert reply["toast"]["type"] == "error" and sessions.asked == []
    assert bench.refused[-1][1:] == ("open", STRANGER)


def test_press_that_is_delivered_twice_counts_once(
    bench: Bench, sessions: FakeSessions
) -> None:
    bench.say("进展")
    found = value(bench, "om_1", "stop")
    replies = [bench.act("om_1", found, event_id="same") for _ in range(2)]
    assert replies[0] == replies[1] and len(sessions.asked) == 2


def test_answer_that_takes_too_long_follows_on_the_card(
    bench: Bench, sessions: FakeSessions
) -> None:
    bench.say("进展")
    sessions.waits = True
    replies = bench.press("om_1", value(bench, "om_1", "stop"))
    bench.turn(2)
    assert replies == []
    bench.turn(1)
    assert replies[0]["toast"]["type"] == "info"
    sessions.waiting[0](Told("停下了", SUCCESS, progress("stopped")))
    bench.turn(6)
    assert "stopped" in said_on(bench.api.cards["om_1"])
    assert [words for _, words in bench.api.texts] == ["停下了"]
    assert bench.api.calls.count(("update", "om_1")) == 1


def test_change_waits_for_the_answer_to_a_press(
    bench: Bench, sessions: FakeSessions
) -> None:
    """Feishu undoes a change that overtakes the answer."""
    bench.say("进展")
    bench.turn(10)
    sessions.waits = True
    bench.press("om_1", value(bench, "om_1", "stop"))
    bench.channel.change(progress("meanwhile"))
    bench.turn(2)
    assert ("update", "om_1") not in bench.api.calls
    sessions.waiting[0](Told("", SUCCESS, progress("after")))
    bench.turn(5)
    assert "after" in said_on(bench.api.cards["om_1"])


def test_press_after_a_restart_gets_the_sentence_of_the_service(
    bench: Bench, sessions: FakeSessions
) -> None:
    bench.say("进展")
    found = value(bench, "om_1", "stop")
    bench.start()
    sessions.told = Told("发送“会话”", ERROR)
    assert bench.act("om_1", {**found, "nonce": "forged"})["toast"]["type"] == "error"
    assert len(sessions.asked) == 1
    assert bench.act("om_1", found)["toast"]["content"] == "发送“会话”"
    assert sessions.asked[-1] == (PROGRESS, "stop", "")


# Changes.


def test_newer_message_of_a_panel_freezes_the_older(bench: Bench) -> None:
    bench.say("进展")
    found = value(bench, "om_1", "stop")
    bench.say("进展")
    bench.turn(1)
    assert bench.values("om_1") == [] and bench.values("om_2") != []
    reply = bench.act("om_1", found)
    assert reply["toast"]["type"] == "error", "its nonce is an old one"


def test_panel_that_is_being_frozen_stays_so(bench: Bench) -> None:
    """A change comes while the newer message leaves, and the older one is busy."""
    bench.say("进展")
    bench.channel.change(progress("two"))
    bench.timers.turn(6)
    bench.api.while_sending = lambda: bench.channel.change(progress("three"))
    bench.say("进展")
    for _ in range(10):
        bench.turn(1)
    older, newer = (said_on(bench.api.cards[id]) for id in ("om_1", "om_2"))
    assert bench.values("om_1") == [] and "three" not in older and "three" in newer


def test_panel_changes_every_five_seconds_at_most_and_shows_the_newest(
    bench: Bench,
) -> None:
    bench.say("进展")
    for second in range(60):
        bench.channel.change(progress(f"step {second}"))
        bench.turn(1)
    bench.turn(10)
    count = bench.api.calls.count(("update", "om_1"))
    assert 11 <= count <= 13
    assert "step 59" in said_on(bench.api.cards["om_1"])


def test_panel_that_looks_the_same_is_not_sent_again(bench: Bench) -> None:
    bench.say("进展")
    for _ in range(10):
        bench.channel.change(progress())
        bench.turn(10)
    assert ("update", "om_1") not in bench.api.calls


def test_change_waits_until_the_message_has_an_id(bench: Bench) -> None:
    bench.api.while_sending = lambda: bench.channel.change(progress("faster"))
    bench.say("进展")
    bench.turn(6)
    assert "faster" in said_on(bench.api.cards["om_1"])


def test_hundred_panels_leave_most_of_the_limit_to_requests(
    bench: Bench, sessions: FakeSessions
) -> None:
    for number in range(100):
        sessions.told = Told(panel=progress(id=f"progress:{number}"))
        bench.say("进展")
    bench.turn(60)
    before, began = len(bench.api.calls), bench.timers.time
    for second in range(60):
        for number in range(100):
            panel = progress(f"{second}", id=f"progress:{number}")
            bench.channel.change(panel)
        bench.turn(1)
    minutes = (bench.timers.time - began) / 60
    assert len(bench.api.calls) - before <= 300 * (minutes + 1)


def test_feishu_away_makes_no_storm(bench: Bench) -> None:
    bench.say("进展")
    bench.api.is_busy = True
    before, began = len(bench.api.calls), bench.timers.time
    for second in range(300):
        bench.channel.change(progress(f"step {second}"))
        bench.turn(1)
    assert len(bench.api.calls) - before < (bench.timers.time - began) / 5 + 10
    bench.api.is_busy = False
    before = len(bench.api.calls)
    for _ in range(30):
        bench.turn(1)
    assert "step 299" in said_on(bench.api.cards["om_1"])
    assert len(bench.api.calls) - before <= 2


def test_message_that_feishu_refuses_to_change_is_left_alone(bench: Bench) -> None:
    bench.say("进展")
    bench.api.refuses = True
    for second in range(100):
        bench.channel.change(progress(f"step {second}"))
        bench.turn(1)
    assert bench.api.calls.count(("update", "om_1")) == 3


def test_card_that_did_not_leave_is_forgotten(
    bench: Bench, sessions: FakeSessions
) -> None:
    bench.api.refuses = True
    bench.say("进展")
    bench.api.refuses = False
    bench.channel.change(progress("new"))
    bench.turn(10)
    assert len(bench.api.calls) == 1


def test_server_that_stops_freezes_what_is_open(bench: Bench) -> None:
    bench.say("进展")
    bench.channel.change(progress("last words"))
    bench.channel.stopping()
    assert bench.channel.busy(), "the server waits for that"
    bench.pump()
    said = said_on(bench.api.cards["om_1"])
    assert bench.values("om_1") == [] and "last words" in said and "停止" in said
    bench.turn(30)
    assert bench.api.calls == [("send", "om_1"), ("update", "om_1")]


def test_panel_that_its_service_froze_keeps_its_own_words(bench: Bench) -> None:
    bench.say("进展")
    bench.channel.change(progress().frozen("30 分钟到了"))
    bench.channel.stopping()
    bench.pump()
    assert "30 分钟到了" in said_on(bench.api.cards["om_1"])


# Cards that are no panels.


def test_settled_card_opens_the_progress_of_its_session(
    bench: Bench, sessions: FakeSessions
) -> None:
    ask = bench.bring()
    bench.end(ask.id, "allow")
    bench.turn(1)
    assert bench.act("om_1", value(bench, "om_1", "open")) == {}
    bench.pump()
    assert sessions.asked == [(f"progress:{ask.session}", "open", "")]
    assert bench.receivers == [OWNER] * 2


def test_notice_has_the_button_it_was_given(
    bench: Bench, sessions: FakeSessions
) -> None:
    notice = Notice("failure", 1.0, panel="limit:x", button="到时继续")
    bench.channel.notify(notice)
    bench.channel.notify(Notice("stop", 1.0))
    bench.pump()
    assert bench.values("om_2") == []
    (found,) = bench.values("om_1")
    sessions.told = Told("好", SUCCESS)
    assert bench.act("om_1", found)["toast"]["content"] == "好"
    assert sessions.asked == [("limit:x", "go_on", "")]


def test_reply_below_a_card_about_a_session_goes_on_with_it(
    bench: Bench, sessions: FakeSessions
) -> None:
    """A settled card, a notice, a panel; also after a restart."""
    ask = bench.bring()
    bench.end(ask.id, "allow")
    bench.channel.notify(Notice("stop", 1.0, session_id="s-notice"))
    bench.say("进展")
    bench.turn(1)
    sessions.told = Told("它还在运行", ERROR)
    for _ in range(2):
        del sessions.asked[:]
        cards = {"om_1": ask.session, "om_2": "s-notice", "om_3": SESSION}
        for message, session in cards.items():
            said = bench.say("再跑一次\n测试", message)
            bench.turn(1)
            assert sessions.asked.pop() == ("continue", f"{session} 再跑一次\n测试")
        assert said in ("", "它还在运行")
        bench.start()


@every_row("said", ["批准", "1", "deny not now", "ok"])
def test_late_answer_below_a_settled_card_is_no_prompt(
    tmp_path: Path, said: str
) -> None:
    sessions = FakeSessions()
    bench = Bench(tmp_path, sessions=sessions)
    ask = bench.bring()
    bench.end(ask.id, "allow")
    bench.turn(1)
    bench.say(said, "om_1")
    bench.turn(1)
    assert sessions.asked == []


def test_only_so_many_messages_are_remembered(
    bench: Bench, sessions: FakeSessions
) -> None:
    for number in range(MOST_SHOWN + 10):
        bench.channel.notify(Notice("stop", 1.0, session_id=f"s{number}"))
        bench.turn(1)
    for message, known in (("om_5", 0), (f"om_{MOST_SHOWN + 5}", 1)):
        del sessions.asked[:]
        bench.say("go on", message)
        bench.turn(1)
        assert len(sessions.asked) == known


@pytest.mark.sdk
def test_official_sdk_takes_the_answer_to_a_press(
    bench: Bench, sessions: FakeSessions
) -> None:
    """It reads the toast and keeps the card of an answer as it is."""
    import lark_oapi as lark
    from lark_oapi.event.callback.model.p2_card_action_trigger import (
        P2CardActionTriggerResponse,
    )

    sessions.told = Told(panel=LIST)
    bench.say("会话")
    sessions.told = Told("好", SUCCESS, LIST)
    reply = bench.act("om_1", value(bench, "om_1", "refresh"))
    taken = json.loads(lark.JSON.marshal(P2CardActionTriggerResponse(reply)))
    assert taken == reply and taken["card"]["data"] == bench.api.cards["om_1"]


# Drawing.

HOSTILE = (
    '<at id=all></at> **b** [x](http://e.x) `c` ```\n<at user_id="all">\n\u202egnp.exe'
)


def test_nothing_of_a_panel_is_markup_and_nothing_is_unseen(bench: Bench) -> None:
    blocks = [Block(kind, HOSTILE, HOSTILE, "sh") for kind in
              ("text", "code", "diff", "markdown", "path")]  # fmt: skip
    buttons = (Button("a", HOSTILE, "yes", HOSTILE, True), Button("b", HOSTILE, "yes"))
    hostile = progress(
        title=HOSTILE, headline=HOSTILE, field=HOSTILE, hint=HOSTILE, note=HOSTILE,
        rows=tuple(Row(block, HOSTILE, buttons[1:]) for block in blocks),
        buttons=buttons,
    )  # fmt: skip
    bench.channel.sessions.told = Told(panel=hostile)  # type: ignore[attr-defined]
    bench.say("进展")
    card = bench.api.cards["om_1"]
    assert "\u202e" not in str(card)
    for element in every_element(card):
        if element["tag"] in ("markdown", "lark_md"):
            assert "<at" not in element["content"], element


def test_one_button_of_a_card_is_blue_and_none_is_red() -> None:
    rows = (Row(Block("text", "", "a"), "", (Button("go", "Go", "yes"),)),) * 3
    card = panel_card(progress(rows=rows, buttons=(Button("x", "X", "stop"),)), "n")
    types = [one["type"] for one in every_element(card) if one["tag"] == "button"]
    assert types == ["primary_filled", "default", "default", "default"]


@every_row(
    "panel",
    [
        progress(rows=(LISTED,) * 300),
        progress("字" * 200_000),
        progress(rows=tuple(Row(Block("code", "x", "y" * 5_000)) for _ in range(30))),
        progress(rows=(Row(Block("text", "", "x"), "n" * 50_000),)),
        progress(rows=(Row(Block("markdown", "", "# a\n" * 3_000)),) * 9),
        progress(buttons=(Button("a", "x" * 900, confirm="c" * 90_000),) * 4),
        progress(note="n" * 100_000, field="f" * 9_000, hint="h" * 9_000),
        progress(title="t" * 50_000, headline="h" * 50_000),
        Panel("sessions", look=OVER),
    ],
)
def test_panel_of_any_size_is_a_card_that_feishu_takes(
    tmp_path: Path, panel: Panel
) -> None:
    sessions = FakeSessions()
    sessions.told = Told(panel=panel)
    bench = Bench(tmp_path, sessions=sessions)
    bench.say("进展")
    assert ("send", "om_1") in bench.api.calls


def test_rows_that_are_left_out_are_counted() -> None:
    card = panel_card(progress(rows=(LISTED,) * 60), "n")
    count = sum(one["tag"] == "button" for one in every_element(card)) - 1
    assert count > 8
    assert f"还有 {60 - count} " in said_on(card)


# Cards are titles.


def test_titles_only_shows_no_content_and_starts_nothing(tmp_path: Path) -> None:
    secret = "canary"
    buttons = (
        Button("go", "开始", "yes", secret), Button("send", "发送", reads=True),
        Button("stop", "停止", "stop", secret),
    )  # fmt: skip
    panel = progress(secret, headline=secret, field=secret, hint=secret,
                     rows=(LISTED._replace(note=secret),), buttons=buttons)  # fmt: skip
    sessions = FakeSessions()
    bench = Bench(tmp_path, bare=True, sessions=sessions)
    sessions.told = Told(panel=LIST._replace(note=f"no list: {secret}"))
    bench.say("会话")
    sessions.told = Told(f"said {secret}", SUCCESS, panel._replace(note="48k tokens"))
    said = bench.say("进展")
    assert "48k tokens" in said_on(bench.api.cards["om_2"])
    reply = bench.act("om_2", value(bench, "om_2", "stop"))
    sessions.told = Told("关着", ERROR, fixed=True)
    assert bench.say("进展") == "关着"
    shown = str([bench.api.cards, said, reply])
    assert secret not in shown and "修复登录" not in shown
    pressed = {found["press"] for found in bench.values("om_2")}
    assert pressed == {"stop"}
