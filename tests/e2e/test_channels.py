"""When a card is sent, when it is not, and what that means for the waiting hook."""

from __future__ import annotations

import http.client
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.conftest import wait_until
from tests.fakes.feishu import FakeFeishu, every_element, every_text
from tests.served import Served, decision, event, finish


@pytest.fixture
def feishu() -> Iterator[FakeFeishu]:
    with FakeFeishu(secret="s3cret") as fake:
        yield fake


@pytest.fixture
def served(pyz: Path, home: Path, feishu: FakeFeishu) -> Iterator[Served]:
    with Served(pyz, home, **webhook(feishu)) as server:
        yield server


def webhook(feishu: FakeFeishu) -> dict[str, str]:
    return {
        "FEISHU_WEBHOOK_URL": feishu.webhook_url,
        "FEISHU_WEBHOOK_SECRET": "s3cret",
    }


def next_card(feishu: FakeFeishu, count: int = 1) -> dict[str, Any]:
    card: dict[str, Any] = wait_until(lambda: feishu.cards[count - 1 :])[0]
    return card


def buttons(card: dict[str, Any]) -> dict[str, str]:
    """The buttons of a card: text to address."""
    return {
        element["text"]["content"]: element["behaviors"][0]["default_url"]
        for element in every_element(card)
        if element["tag"] == "button"
    }


def test_tap_at_the_very_moment_the_card_arrives_works(
    pyz: Path, home: Path, feishu: FakeFeishu
) -> None:
    """The request is registered before any card is sent, so no tap is too fast."""
    with Served(pyz, home, **webhook(feishu)) as served:
        taps = []

        def tap(card: dict[str, Any]) -> None:
            address = urlsplit(buttons(card)["拒绝运行"])
            connection = http.client.HTTPConnection("127.0.0.1", served.port)
            connection.request("GET", f"{address.path}?{address.query}")
            taps.append(connection.getresponse().read().decode())
            connection.close()

        feishu.on_card = tap  # called inside the send, before it is even answered
        for count in range(1, 4):
            assert decision(finish(served.hook(event())))["behavior"] == "deny"
            wait_until(lambda expected=count: len(taps) == expected)
            assert "操作成功" in taps[-1]


def test_question_card_opens_the_form(served: Served, feishu: FakeFeishu) -> None:
    questions = [{"question": "Which?", "header": "H", "options": [{"label": "A"}]}]
    hook, id = served.ask(event("AskUserQuestion", questions=questions))
    found = buttons(next_card(feishu))
    link = served.link(f"/answer?id={id}")
    assert f"http://localhost:{served.port}{link}" in found.values()
    assert not any("/allow" in url or "/always" in url for url in found.values())
    served.get(f"/deny?id={id}")
    finish(hook)


def test_failed_card_waits_on_while_somebody_has_the_inbox_open(
    pyz: Path, home: Path, feishu: FakeFeishu
) -> None:
    wrong = {**webhook(feishu), "FEISHU_WEBHOOK_SECRET": "wrong"}
    with Served(pyz, home, **wrong) as served:
        page = http.client.HTTPConnection("127.0.0.1", served.port, timeout=20)
        page.request("GET", "/events")
        stream = page.getresponse()
        assert stream.readline() == b"event: state\n"
        hook, id = served.ask(event())
        wait_until(lambda: "19021" in served.output())
        assert hook.poll() is None and served.waiting() == [id]
        served.get(f"/allow?id={id}")
        assert decision(finish(hook)) == {"behavior": "allow"}
        stream.close()
        page.close()


def test_text_without_buttons_is_no_card_so_the_terminal_decides(
    pyz: Path, home: Path, feishu: FakeFeishu
) -> None:
    feishu.refuse_texts = {'"interactive"': 11246}
    with Served(pyz, home, **webhook(feishu)) as served:
        assert finish(served.hook(event()), timeout=10) == ""
    assert any("Bash" in text for text in feishu.texts)
    assert not any("/allow" in text for text in feishu.texts)


def test_delayed_card_is_not_sent_when_the_terminal_was_faster(
    pyz: Path, home: Path, feishu: FakeFeishu
) -> None:
    settings = {**webhook(feishu), "PERMISSION_NOTIFY_DELAY": "1"}
    with Served(pyz, home, **settings) as served:
        early, _ = served.ask(event(command="first"))
        early.terminate()
        early.wait(5)
        late, id = served.ask(event(command="second"))
        card = next_card(feishu)
        assert "second" in "\n".join(every_text(card))
        served.get(f"/allow?id={id}")
        finish(late)
        assert len(feishu.cards) == 1


def test_kinds_not_asked_for_make_no_card_but_stay_in_the_inbox(
    pyz: Path, home: Path, feishu: FakeFeishu
) -> None:
    settings = {**webhook(feishu), "FEISHUPERM_NOTIFY": "plan"}
    with Served(pyz, home, **settings) as served:
        hook, id = served.ask(event())
        plan, plan_id = served.ask(event("ExitPlanMode", plan="x"))
        next_card(feishu)
        assert len(feishu.cards) == 1
        for waiting in (id, plan_id):
            served.get(f"/deny?id={waiting}")
        finish(hook)
        finish(plan)


def test_signed_links_leave_the_machine_and_nothing_else_does(
    pyz: Path, home: Path, feishu: FakeFeishu
) -> None:
    settings = {**webhook(feishu), "CALLBACK_SERVER_URL": "https://claude.example.test"}
    with Served(pyz, home, **settings, CALLBACK_SERVER_HOST="127.0.0.1") as served:
        hook, id = served.ask(event())
        found = buttons(next_card(feishu))
        address = urlsplit(found["拒绝运行"])
        assert address.netloc == "claude.example.test" and "sig=" in address.query
        bare = served.request("GET", f"/deny?id={id}", None, {})
        assert bare.status == 404
        assert served.get(f"/allow?{address.query}").status == 404
        link = f"{address.path}?{address.query}"
        assert "操作成功" not in served.get(link).text  # a program, not a browser
        page = served.get(link, User_Agent="Mozilla/5.0 (iPhone) Mobile Lark/7.30")
        assert "操作成功" in page.text
        finish(hook)


def test_local_url_with_a_webhook_is_warned_about(served: Served) -> None:
    """Scenario: 回调服务配置"""
    output = served.output()
    assert "WARNING" in output and "CALLBACK_SERVER_URL" in output


# Notices.


def test_stop_card_tells_the_last_message_when_asked_for(
    pyz: Path, home: Path, feishu: FakeFeishu
) -> None:
    settings = {**webhook(feishu), "FEISHUPERM_NOTIFY": "stop,failure,notification"}
    bodies = [
        {"hook_event_name": "Stop", "last_assistant_message": "All tests pass."},
        {"hook_event_name": "StopFailure", "error": "rate limit"},
        {
            "hook_event_name": "PostToolUseFailure",
            "tool_name": "Bash",
            "error": "exit code 7",
        },
        {"hook_event_name": "Notification", "message": "Claude is waiting"},
    ]
    with Served(pyz, home, **settings) as served:
        for body in bodies:
            assert finish(served.hook({**EVENT_BASE, **body})) == ""
        wait_until(lambda: len(feishu.cards) == len(bodies))
    texts = ["\n".join(every_text(card)) for card in feishu.cards]
    for text, told in zip(
        texts, ("All tests pass.", "rate limit", "exit code 7", "Claude is waiting")
    ):
        assert told in text


EVENT_BASE = {"session_id": "s", "cwd": "/srv/shop", "transcript_path": "/none"}


def test_notices_nobody_asked_for_are_not_sent(
    served: Served, feishu: FakeFeishu
) -> None:
    stop = {**EVENT_BASE, "hook_event_name": "Stop", "last_assistant_message": "x"}
    assert finish(served.hook(stop)) == ""
    hook, id = served.ask(event())
    next_card(feishu)
    assert len(feishu.cards) == 1
    served.get(f"/deny?id={id}")
    finish(hook)


def test_burst_stays_within_the_limits_of_the_bot(
    served: Served, feishu: FakeFeishu
) -> None:
    """The strict fake refuses a sixth message within one second."""
    asked: list[Any] = []
    threads = [
        threading.Thread(target=lambda: asked.append(served.hook(event())))
        for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    wait_until(lambda: len(feishu.cards) == 8, timeout=30)
    assert len(served.waiting()) == 8
    served.control(command="release")
    assert [finish(hook) for hook in asked] == [""] * 8


# test-card.


def run_test_card(served: Served) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [served.pyz, "test-card"],
        env=served.environ,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
    )


def test_test_card_that_nobody_taps_fails(
    pyz: Path, home: Path, feishu: FakeFeishu
) -> None:
    settings = {**webhook(feishu), "PERMISSION_REQUEST_TIMEOUT": "2"}
    with Served(pyz, home, **settings) as served:
        result = run_test_card(served)
    assert result.returncode == 1
    said, hint = result.stderr.splitlines()
    assert said == "feishuperm: nobody tapped within 2 seconds"
    assert hint.startswith("hint: feishuperm doctor")
    assert "nothing sent yet" not in result.stdout


def test_test_card_tells_that_the_bot_is_down(pyz: Path, home: Path) -> None:
    settings = {
        "FEISHU_WEBHOOK_URL": "http://127.0.0.1:9/open-apis/bot/v2/hook/x",
        "PERMISSION_REQUEST_TIMEOUT": "3",
    }
    with Served(pyz, home, **settings) as served:
        result = run_test_card(served)
    assert result.returncode == 1
    assert "\nthe group bot is down: " in result.stdout
    assert result.stderr.startswith("feishuperm: the group bot is down: ")
