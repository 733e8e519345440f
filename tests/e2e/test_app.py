"""The app end to end: the built file, hooks as processes, the strict platform."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import wait_until
from tests.fakes.feishu import APP_ID, APP_SECRET
from tests.fakes.feishu_app import OWNER, STRANGER, FakePlatform, Handshake
from tests.served import Served, decision, event, finish


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


def test_edited_command_is_what_runs_and_every_surface_says_so(
    served: Served, feishu: FakePlatform
) -> None:
    hook = served.hook(event(command="npm run build", timeout=5))
    typed = "npm run build \\\n  --if-present "
    tap = feishu.tap(sent(feishu), "修改后批准", {"command": typed})
    assert tap.ok and tap.toast["content"] == "已修改后批准"
    assert decision(finish(hook)) == {
        "behavior": "allow",
        "updatedInput": {"command": typed, "timeout": 5},
    }
    assert "--if-present" in texts(tap.card) and "改后运行" in texts(tap.card)
    wait_until(lambda: "--if-present" in ledger(served))
    page = served.get("/")
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


def test_no_secret_of_the_app_is_written_or_told(
    pyz: Path, tmp_path: Path, feishu: FakePlatform
) -> None:
    feishu.discovery.append({"code": 1, "msg": f"busy {APP_SECRET}"})
    refused = (("Handshake-Msg", APP_SECRET), ("Handshake-Status", "514"))
    feishu.connections.refusals.append(Handshake(514, refused))
    settings = {**app_settings(feishu), "FEISHUPERM_LOG_LEVEL": "debug"}
    with Served(pyz, tmp_path, **settings) as served:
        wait_until(lambda: feishu.connections.open)
        hook = served.hook(event())
        message = sent(feishu)
        status = json.dumps(served.status())
        feishu.connections.cut()
        wait_until(lambda: feishu.connections.made > 1 and feishu.connections.open)
        assert feishu.tap(message, "批准运行").ok
        assert decision(finish(hook)) == {"behavior": "allow"}
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    written = b"".join(path.read_bytes() for path in files if path != pyz)
    canaries = (APP_SECRET, feishu.tenant_token, *feishu.connections.issued)
    assert len(feishu.connections.issued) > 1
    for canary in canaries:
        assert canary not in status and canary.encode() not in written
