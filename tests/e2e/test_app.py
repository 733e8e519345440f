"""The app end to end: the built file, hooks as processes, the strict platform."""

from __future__ import annotations

import html
import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import wait_until
from tests.e2e.test_form import FORM, said
from tests.e2e.test_next import ATTENDED, IDLE, end_of
from tests.fakes.feishu import APP_ID, APP_SECRET
from tests.fakes.feishu_app import OWNER, STRANGER, FakePlatform, Handshake
from tests.served import EVENT, Served, Transcript, decision, event, finish


@pytest.fixture
def feishu() -> Iterator[FakePlatform]:
    with FakePlatform() as platform:
        yield platform


@pytest.fixture
def served(pyz: Path, tmp_path: Path, feishu: FakePlatform) -> Iterator[Served]:
    with Served(pyz, tmp_path, **app_settings(feishu)) as server:
        wait_until(lambda: feishu.connections.open)
        yield server


def app_settings(feishu: FakePlatform) -> dict[str, str]:
    return {
        "FEISHU_APP_ID": APP_ID,
        "FEISHU_APP_SECRET": APP_SECRET,
        "FEISHU_BASE_URL": feishu.base_url,
        "FEISHU_RECEIVE_ID": OWNER,
    }


def sent(feishu: FakePlatform, count: int = 1) -> str:
    """The id of the newest card, once so many are out."""
    wait_until(lambda: len(feishu.app_messages) >= count)
    return feishu.last


def ledger(served: Served) -> str:
    """Everything that is written down."""
    parts = sorted(served.home.rglob("ledger*"))
    return "".join(path.read_text() for path in parts if path.suffix == ".jsonl")


def texts(card: object) -> str:
    return json.dumps(card, ensure_ascii=False)


@pytest.mark.parametrize(
    ("label", "expected"),
    [
        ("批准运行", {"behavior": "allow"}),
        ("拒绝运行", {"behavior": "deny", "message": "用户通过飞书拒绝"}),
        (
            "拒绝并中断",
            {
                "behavior": "deny",
                "message": "用户通过飞书拒绝并中断",
                "interrupt": True,
            },
        ),
    ],
)
def test_tap_inside_the_card_reaches_the_hook(
    served: Served, feishu: FakePlatform, label: str, expected: object
) -> None:
    hook = served.hook(event())
    message = sent(feishu)
    tap = feishu.tap(message, label)
    assert tap.ok and tap.toast["type"] == "success"
    assert decision(finish(hook)) == expected
    assert feishu.buttons(message) == []
    wait_until(lambda: feishu.patches)
    assert feishu.patches[-1][1] == tap.card
    assert "npm run build" in texts(tap.card)


def test_reason_typed_beside_deny_reaches_claude(
    served: Served, feishu: FakePlatform
) -> None:
    hook = served.hook(event())
    tap = feishu.tap(sent(feishu), "拒绝运行", {"reason": "先跑测试"})
    assert tap.ok
    assert decision(finish(hook))["message"] == "用户通过飞书拒绝：先跑测试"


def test_next_and_form_are_filled_in_inside_the_card(
    pyz: Path, tmp_path: Path, feishu: FakePlatform
) -> None:
    """What does not fit is told in a toast; nothing is sent, and nothing is lost."""
    wants = {**app_settings(feishu), "FEISHUPERM_NOTIFY": "next,form"}
    with Served(pyz, tmp_path, **wants) as served:
        wait_until(lambda: feishu.connections.open)
        usage = {"input_tokens": 7_000, "cache_read_input_tokens": 41_000}
        transcript = Transcript(tmp_path)
        transcript.call("build it", command="make")
        transcript.write("assistant", message={"usage": usage, "content": []})
        idle = {**IDLE, "transcript_path": str(transcript.path)}
        hook = served.hook(idle, "next", **ATTENDED)
        message = sent(feishu)
        assert "Claude Code 完成，接下来？" in texts(feishu.card(message)["header"])
        assert "不能用来批准任何操作" in texts(feishu.card(message))
        tap = feishu.tap(message, "发送", {"text": "  "})
        assert tap.toast["type"] == "warning" and tap.card is None
        assert hook.poll() is None
        tap = feishu.tap(message, "发送", {"text": "继续\n跑测试"})
        assert tap.toast == {"type": "success", "content": "已发送"}
        assert "工具调用 1 次 · 上下文 48k tokens" in texts(tap.card)
        assert end_of(hook) == (2, b"", "继续\n跑测试".encode())
        hook = served.hook(FORM, "form")
        message = sent(feishu, 2)
        assert "Order a <b>shirt</b>" in texts(feishu.card(message))
        typed = {"f0": "B", "f1": "1", "f2": "3", "f3": "0"}
        tap = feishu.tap(message, "提交", typed)
        assert tap.card is None
        assert tap.toast["type"] == "warning" and "Your name" in tap.toast["content"]
        assert hook.poll() is None
        tap = feishu.tap(message, "提交", {**typed, "f0": "Bob"})
        assert tap.ok and tap.toast == {"type": "success", "content": "已提交"}
        content = {"name": "Bob", "size": "L", "count": 3, "gift": True}
        assert said(hook) == {"action": "accept", "content": content}


def test_edited_command_is_what_runs_and_every_surface_says_so(
    served: Served, feishu: FakePlatform
) -> None:
    hook = served.hook(event(command="npm run build", timeout=5))
    typed = "npm run build \\\n  --if-present "
    message = sent(feishu)
    tap = feishu.tap(message, "批准运行", {"command": typed})
    assert tap.toast["content"] == "命令已修改，请点“修改后批准”" and tap.card is None
    tap = feishu.tap(message, "修改后批准", {"command": typed})
    assert tap.ok and tap.toast["content"] == "已修改后批准"
    assert decision(finish(hook)) == {
        "behavior": "allow",
        "updatedInput": {"command": typed, "timeout": 5},
    }
    assert "--if-present" in texts(tap.card) and "原来的命令" in texts(tap.card)
    wait_until(lambda: "--if-present" in ledger(served))
    row = served.get("/").text.partition('id="recent">')[2].partition("</li>")[0]
    page = served.get("/" + html.unescape(row.partition('href="')[2].partition('"')[0]))
    assert "--if-present" in page.text


def test_emptied_command_does_not_run(served: Served, feishu: FakePlatform) -> None:
    hook = served.hook(event())
    message = sent(feishu)
    tap = feishu.tap(message, "修改后批准", {"command": " "})
    assert tap.toast["type"] == "warning" and tap.card is None
    assert hook.poll() is None
    assert feishu.tap(message, "拒绝运行").ok
    assert decision(finish(hook))["behavior"] == "deny"


def test_stranger_taps_in_vain(served: Served, feishu: FakePlatform) -> None:
    hook = served.hook(event())
    message = sent(feishu)
    tap = feishu.tap(message, "批准运行", who=STRANGER)
    assert tap.toast["type"] == "error" and tap.card is None
    assert hook.poll() is None
    wait_until(lambda: '"event": "refused"' in ledger(served))
    assert STRANGER in ledger(served)
    assert feishu.tap(message, "批准运行").ok
    assert decision(finish(hook)) == {"behavior": "allow"}


def test_reply_in_words_is_an_answer(served: Served, feishu: FakePlatform) -> None:
    hook = served.hook(event())
    message = sent(feishu)
    feishu.say("拒绝 太危险", parent=message)
    assert decision(finish(hook))["message"] == "用户通过飞书拒绝：太危险"
    wait_until(lambda: feishu.replies)


def test_question_is_answered_by_one_tap(served: Served, feishu: FakePlatform) -> None:
    question = {
        "question": "Which color?",
        "header": "Color",
        "options": [
            {"label": "Red", "description": "warm"},
            {"label": "Blue", "description": ""},
        ],
        "multiSelect": False,
    }
    hook = served.hook(event("AskUserQuestion", questions=[question]))
    assert feishu.tap(sent(feishu), "Blue").ok
    answers = decision(finish(hook))["updatedInput"]["answers"]
    assert answers == {"Which color?": "Blue"}


def test_server_that_restarts_takes_its_open_cards_back(
    served: Served, feishu: FakePlatform
) -> None:
    hook = served.hook(event())
    message = sent(feishu)
    wait_until(lambda: served.waiting())
    pings = feishu.connections.pings
    served.kill()
    wait_until(lambda: not feishu.connections.open)
    served.start()
    wait_until(lambda: feishu.connections.open and served.waiting())
    wait_until(lambda: feishu.connections.pings >= pings + 2)  # one of them for it
    assert feishu.tap(message, "批准运行").ok
    assert decision(finish(hook)) == {"behavior": "allow"}
    assert len(feishu.app_messages) == 1


def channel(served: Served, name: str) -> dict[str, object]:
    status = served.status()
    assert status is not None
    rows: list[dict[str, object]] = status["channels"]
    return next(row for row in rows if row["name"] == name)


def test_stopped_server_leaves_no_live_button_behind(
    served: Served, feishu: FakePlatform
) -> None:
    hook = served.hook(event())
    message = sent(feishu)
    wait_until(lambda: served.waiting())
    assert served.stop() == 0
    assert finish(hook) == ""
    assert feishu.buttons(message) == []
    assert "已交回终端" in texts(feishu.card(message))


@pytest.mark.full
def test_card_whose_session_ended_while_no_server_ran_is_settled_at_the_next_start(
    served: Served, feishu: FakePlatform, monkeypatch: pytest.MonkeyPatch
) -> None:
    hook = served.hook(event())
    message = sent(feishu)
    wait_until(lambda: served.waiting())
    # A server that was killed before it learned the card's id could not settle it.
    wait_until(
        lambda: any(message in f.read_text() for f in served.home.rglob("*.json"))
    )
    served.kill()
    hook.kill()
    served.start()
    assert feishu.buttons(message)
    wait_until(lambda: feishu.buttons(message) == [], 30)
    assert "会话已结束" in texts(feishu.card(message))


@pytest.mark.full
def test_request_is_released_if_no_tap_can_arrive_at_its_end(
    pyz: Path, tmp_path: Path, feishu: FakePlatform
) -> None:
    settings = {**app_settings(feishu), "PERMISSION_REQUEST_TIMEOUT": "10"}
    with Served(pyz, tmp_path, **settings) as served:
        wait_until(lambda: feishu.connections.open)
        hook = served.hook(event())
        message = sent(feishu)
        feishu.connections.refusals.extend([Handshake(514)] * 1000)
        feishu.connections.cut()
        wait_until(lambda: channel(served, "app")["state"] == "down")
        assert finish(hook, timeout=40) == ""
        wait_until(lambda: feishu.buttons(message) == [])


@pytest.mark.full
def test_webhook_steps_in_while_no_tap_can_arrive_and_steps_back(
    pyz: Path, tmp_path: Path, feishu: FakePlatform
) -> None:
    settings = {**app_settings(feishu), "FEISHU_WEBHOOK_URL": feishu.webhook_url}
    with Served(pyz, tmp_path, **settings) as served:
        wait_until(lambda: feishu.connections.open)
        first = served.hook(event())
        message = sent(feishu)
        assert feishu.cards == []
        feishu.connections.refusals.extend([Handshake(514)] * 4)  # some seconds
        feishu.connections.cut()
        wait_until(lambda: feishu.cards)  # the button inside the card is dead now
        row = channel(served, "app")
        assert row["state"] == "down" and "/version" in str(row["detail"])
        second = served.hook(event(command="make"))
        wait_until(lambda: len(feishu.cards) == 2)
        assert len(feishu.app_messages) == 1
        for hook in (first, second):
            id = served.waiting()[0]
            assert served.get(served.link(f"/allow?id={id}")).status == 200
            assert decision(finish(hook)) == {"behavior": "allow"}
        wait_until(lambda: feishu.buttons(message) == [])
        wait_until(lambda: feishu.connections.open, 30)
        third = served.hook(event(command="ls"))
        assert feishu.tap(sent(feishu, 2), "批准运行").ok
        assert decision(finish(third)) == {"behavior": "allow"}
        assert len(feishu.cards) == 2


@pytest.mark.parametrize(
    ("changes", "words", "page"),
    [
        ({"FEISHU_APP_SECRET": "wrong"}, "FEISHU_APP_SECRET", "baseinfo"),
        ({"FEISHU_APP_ID": "cli_other"}, "FEISHU_APP_ID", "baseinfo"),
        ({}, "switched off the app's bot", "version"),
        ({"subscribed": ""}, "card.action.trigger", "callback"),
    ],
)
def test_each_thing_wrong_with_an_app_is_told_with_the_page_that_mends_it(
    pyz: Path,
    tmp_path: Path,
    feishu: FakePlatform,
    changes: dict[str, str],
    words: str,
    page: str,
) -> None:
    feishu.bot_status = 2 if changes else 1
    feishu.subscribed = changes.pop("subscribed", "x") == "x"
    with Served(pyz, tmp_path, **{**app_settings(feishu), **changes}) as served:
        wait_until(lambda: words in str(channel(served, "app")["detail"]))
        row = channel(served, "app")
        assert row["state"] == "down"
        assert str(row["detail"]).partition("?")[0].endswith(page)
        wait_until(lambda: words in served.output())


def test_people_are_named_as_the_directory_names_them(
    pyz: Path, tmp_path: Path, feishu: FakePlatform
) -> None:
    feishu.people[OWNER] = "王小明"
    with Served(pyz, tmp_path, **app_settings(feishu)) as served:
        wait_until(lambda: feishu.connections.open)
        hook = served.hook(event())
        message = sent(feishu)

        def stranger() -> str:
            return texts(feishu.tap(message, "批准运行", who=STRANGER).toast)

        wait_until(lambda: "只有 王小明" in stranger())
        assert "你 · " in texts(feishu.tap(message, "批准运行").card)
        assert decision(finish(hook)) == {"behavior": "allow"}


def test_rule_of_the_chat_is_taken_back_in_the_chat(
    served: Served, feishu: FakePlatform
) -> None:
    rules = served.project / ".claude" / "settings.local.json"
    hook = served.hook(event())
    message = sent(feishu)
    feishu.say("始终", parent=message)
    wait_until(lambda: "Bash(npm run build)" in texts(feishu.replies))
    assert hook.poll() is None and not rules.exists()
    feishu.say("always", parent=message)
    assert decision(finish(hook))["behavior"] == "allow"
    assert "npm run build" in rules.read_text()
    feishu.say("撤销")
    wait_until(lambda: "已撤销规则" in texts(feishu.replies))
    assert "npm run build" not in rules.read_text()
    assert '"event": "undo"' in ledger(served)
    wait_until(lambda: "Bash(npm run build) · 已撤销" in texts(feishu.card(message)))
    feishu.say("undo")
    wait_until(lambda: "没有可以撤销的规则" in texts(feishu.replies))


def test_status_in_the_chat_lists_what_waits_with_its_command(
    served: Served, feishu: FakePlatform
) -> None:
    hook = served.hook(event(command="make release"))
    sent(feishu)
    feishu.say("状态")
    wait_until(lambda: "make release" in texts(feishu.replies))
    assert hook.poll() is None


def test_list_of_sessions_in_the_chat_says_who_waits_and_is_drawn_again(
    served: Served, feishu: FakePlatform
) -> None:
    prompt = {"hook_event_name": "UserPromptSubmit", "session_title": "修好首页"}
    assert finish(served.hook({**EVENT, **prompt}, "session")) == ""
    hook = served.hook(event(command="npm run build"))
    asked = sent(feishu)
    assert f"{EVENT['session_id'][:8]} 修好首页" in texts(feishu.card(asked))
    feishu.say("会话")
    message = sent(feishu, 2)
    card = texts(feishu.card(message))
    assert "等你决定 1" in card and "npm run build" in card and "修好首页" in card
    assert f"progress:{EVENT['session_id']}" in card
    feishu.tap(asked, "批准运行")
    finish(hook)
    assert feishu.tap(message, "刷新").ok
    wait_until(lambda: "执行中 1" in texts(feishu.card(message)))


@pytest.mark.full
def test_somebody_who_reads_has_more_time(
    pyz: Path, tmp_path: Path, feishu: FakePlatform
) -> None:
    settings = {"PERMISSION_REQUEST_TIMEOUT": "5", "PERMISSION_HOLD": "60"}
    with Served(pyz, tmp_path, **app_settings(feishu), **settings) as served:
        wait_until(lambda: feishu.connections.open)
        hook = served.hook(event())
        message = sent(feishu)
        tap = feishu.tap(message, "我在看")
        assert tap.ok and tap.toast["type"] == "success"
        began = time.monotonic()
        wait_until(lambda: time.monotonic() - began > 6, 10)
        assert hook.poll() is None
        assert feishu.tap(message, "批准运行").ok
        assert decision(finish(hook)) == {"behavior": "allow"}


def test_pass_made_on_the_card_lets_the_same_through_until_a_tap_in_the_chat_ends_it(
    served: Served, feishu: FakePlatform
) -> None:
    hook = served.hook(event())
    message = sent(feishu)
    assert feishu.tap(message, "本会话允许").ok
    assert decision(finish(hook))["behavior"] == "allow"
    again = served.hook(event())
    assert decision(finish(again)) == {"behavior": "allow"}
    assert len(feishu.app_messages) == 1
    feishu.say("通行证")
    wait_until(lambda: len(feishu.app_messages) == 2)
    assert "Bash(npm run build)" in texts(feishu.card(feishu.last))
    tap = feishu.tap(feishu.last, "撤销")
    assert tap.toast == {"type": "success", "content": "已撤销 1 张通行证"}
    assert "没有通行证" in texts(tap.card)
    message = feishu.last
    feishu.say("通行证 撤销 全部")
    wait_until(lambda: "已撤销 0 张通行证" in texts(feishu.replies))
    third = served.hook(event())
    wait_until(lambda: feishu.last != message)
    assert feishu.tap(feishu.last, "拒绝运行").ok
    assert decision(finish(third))["behavior"] == "deny"
