"""Cards by webhook, end to end: the built file, a strict Feishu, a tap on a button."""

from __future__ import annotations

import json
import subprocess
import urllib.parse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import clean_env, wait_until
from tests.fakes.feishu import (
    TOKEN,
    FakeFeishu,
    Fault,
    every_element,
    every_text,
    every_url,
)
from tests.lib.samples import CALLS
from tests.served import Served, decision, event, finish

SECRET = "the-signing-secret"


@pytest.fixture(scope="module")
def feishu() -> Iterator[FakeFeishu]:
    with FakeFeishu(secret=SECRET, keywords=("Claude Code",)) as made:
        yield made


@pytest.fixture(scope="module")
def served(
    pyz: Path, feishu: FakeFeishu, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Served]:
    with Served(pyz, tmp_path_factory.mktemp("home"), **webhook(feishu)) as server:
        yield server


@pytest.fixture(autouse=True)
def clean(feishu: FakeFeishu) -> None:
    feishu.messages.clear()
    feishu.refusals.clear()
    feishu.refuse_texts.clear()
    feishu.limits = False


def webhook(feishu: FakeFeishu) -> dict[str, str]:
    return {
        "FEISHU_WEBHOOK_URL": feishu.webhook_url,
        "FEISHU_WEBHOOK_SECRET": SECRET,
        "FEISHU_AT": "all",
    }


def card_of(feishu: FakeFeishu) -> dict[str, Any]:
    wait_until(lambda: feishu.cards)
    return feishu.cards[-1]


def labels(card: dict[str, Any]) -> list[str]:
    buttons = [one for one in every_element(card) if one["tag"] == "button"]
    return [one["text"]["content"] for one in buttons]


def tap(server: Served, url: str) -> str:
    """What the page behind a button says."""
    parts = urllib.parse.urlsplit(url)
    return server.get(f"{parts.path}?{parts.query}").text


@pytest.mark.parametrize(
    ("label", "path", "behavior"),
    [
        ("批准运行", "/allow", "allow"),
        ("始终允许", "/always", "allow"),
        ("拒绝运行", "/deny", "deny"),
        ("拒绝并中断", "/interrupt", "deny"),
    ],
)
def test_tap_on_the_cards_button_decides(
    served: Served, feishu: FakeFeishu, label: str, path: str, behavior: str
) -> None:
    """Scenario: 卡片包含批准按钮; Scenario: 卡片包含始终允许按钮;
    Scenario: 卡片包含拒绝按钮; Scenario: 卡片包含拒绝并中断按钮"""
    hook, request_id = served.ask(event())
    card = card_of(feishu)
    urls = dict(zip(labels(card), every_url(card)))
    assert urls[label] == f"http://localhost:{served.port}" + served.link(
        f"{path}?id={request_id}"
    )
    assert "操作成功" in tap(served, urls[label])
    assert decision(finish(hook))["behavior"] == behavior


# What people call it: its title, and its name instead of the tool's.
NAMED = {
    "AskUserQuestion": ("Claude Code 提问", "提问"),
    "ExitPlanMode": ("Claude Code 计划", "计划"),
}


def test_card_of_every_tool_gets_through(served: Served, feishu: FakeFeishu) -> None:
    """Scenario: 卡片消息内容完整"""
    for count, (tool_name, tool_input) in enumerate(CALLS.items(), 1):
        hook, request_id = served.ask(event(tool_name, **tool_input))
        wait_until(lambda count=count: len(feishu.cards) == count)
        card = feishu.cards[-1]
        text = "\n".join(every_text(card))
        title, name = NAMED.get(tool_name, ("Claude Code 权限请求", tool_name))
        assert card["header"]["title"]["content"] == title
        assert request_id in text and name in text and "请在 55 秒内操作" in text
        hook.terminate()
        hook.wait(20)
    assert feishu.refusals == []


def test_refused_card_comes_again_without_its_detail_and_still_works(
    served: Served, feishu: FakeFeishu
) -> None:
    feishu.refuse_texts["npm run build"] = 11246
    hook, request_id = served.ask(event())
    card = card_of(feishu)
    assert feishu.refusals == [11246, 11246]  # with the mention, and without
    [url] = every_url(card)
    assert urllib.parse.urlsplit(url).path == "/request"
    page = tap(served, url)
    assert "npm run build" in page and "批准运行" in page
    served.get(f"/deny?id={request_id}")
    finish(hook)


def test_passing_trouble_delays_the_card_and_nothing_else(
    served: Served, feishu: FakeFeishu
) -> None:
    feishu.faults += [Fault(500), Fault(close=True)]
    hook, request_id = served.ask(event())
    card_of(feishu)
    served.get(f"/allow?id={request_id}")
    assert decision(finish(hook))["behavior"] == "allow"


def test_card_that_can_never_arrive_releases_the_hook_at_once(
    pyz: Path, home: Path, feishu: FakeFeishu
) -> None:
    """Never a silent 55 seconds: the terminal takes over."""
    settings = {**webhook(feishu), "FEISHU_WEBHOOK_SECRET": "wrong"}
    with Served(pyz, home, **settings) as server:
        assert finish(server.hook(event())) == ""
        status = server.status()
        assert status is not None
        [channel] = [row for row in status["channels"] if row["name"] == "webhook"]
        assert channel["state"] == "down"
        assert "FEISHU_WEBHOOK_SECRET" in channel["detail"]
        said = server.output() + str(status)
    assert TOKEN not in said and SECRET not in said


def hook_alone(
    pyz: Path, home: Path, stdin: bytes, **settings: str
) -> subprocess.CompletedProcess[bytes]:
    """A hook with no server anywhere."""
    socket = str(home / "none.sock")
    return subprocess.run(
        [str(pyz), "hook"],
        input=stdin,
        capture_output=True,
        env=clean_env(home, PERMISSION_SOCKET_PATH=socket, **settings),
        cwd=home,
        timeout=60,
    )


def test_without_server_the_hook_sends_the_card_without_buttons(
    pyz: Path, home: Path, feishu: FakeFeishu
) -> None:
    """Scenario: 服务不可用时降级"""
    raw = json.dumps({**event(), "cwd": "/x/app"}).encode()
    result = hook_alone(pyz, home, raw, **webhook(feishu))
    assert (result.returncode, result.stdout) == (0, b"")
    [card] = feishu.cards
    text = "\n".join(every_text(card))
    assert "npm run build" in text and "app" in text and "请在终端操作" in text
    assert every_url(card) == []


@pytest.mark.parametrize("stdin", [b"", b"{not json", b"[]", b'{"a": 1}', b"\xff\x00"])
def test_unreadable_input_makes_a_short_notice(
    pyz: Path, home: Path, feishu: FakeFeishu, stdin: bytes
) -> None:
    """Scenario: JSON 解析失败降级处理"""
    result = hook_alone(pyz, home, stdin, **webhook(feishu))
    assert (result.returncode, result.stdout) == (0, b"")
    [card] = feishu.cards
    assert any("无法解析详情" in text for text in every_text(card))


def test_unreachable_feishu_leaves_the_hook_unharmed(pyz: Path, home: Path) -> None:
    """Scenario: Webhook 请求失败静默处理"""
    url = f"http://127.0.0.1:1/open-apis/bot/v2/hook/{TOKEN}"
    raw = json.dumps(event()).encode()
    result = hook_alone(pyz, home, raw, FEISHU_WEBHOOK_URL=url)
    assert (result.returncode, result.stdout, result.stderr) == (0, b"", b"")
    logged = (home / ".local/state/feishuperm/feishuperm.log").read_text()
    assert "127.0.0.1" in logged and TOKEN not in logged
