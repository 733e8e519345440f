"""New tasks from the chat: the built file, the strict platform, a program `claude`."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from feishuperm.services.ledger import Ledger
from tests.conftest import wait_until
from tests.e2e.test_app import app_settings, texts
from tests.fakes.claude_program import TOO_OLD, ClaudeProgram, record_session
from tests.fakes.feishu_app import OWNER, STRANGER, FakePlatform
from tests.served import EVENT, Served, finish


@pytest.fixture
def feishu() -> Iterator[FakePlatform]:
    with FakePlatform() as platform:
        yield platform


@pytest.fixture
def claude(tmp_path: Path) -> ClaudeProgram:
    return ClaudeProgram(tmp_path / "bin")


@pytest.fixture
def served(
    pyz: Path, tmp_path: Path, feishu: FakePlatform, claude: ClaudeProgram
) -> Iterator[Served]:
    settings = {
        **app_settings(feishu),
        "PATH": f"{claude.folder}:{os.environ['PATH']}",
        "ANTHROPIC_API_KEY": "sk-ant-of-the-service",
        "FEISHUPERM_REMOTE": "on",
        "FEISHUPERM_PROJECTS": str(tmp_path / "project"),
        "FEISHUPERM_NOTIFY": "permission,failure",
    }
    with Served(pyz, tmp_path, **settings) as server:
        wait_until(lambda: feishu.connections.open)
        yield server


def card_of(feishu: FakePlatform, count: int) -> str:
    wait_until(lambda: len(feishu.app_messages) >= count)
    return feishu.last


def said(feishu: FakePlatform, words: str) -> None:
    """Something below a message of the person says so."""
    wait_until(lambda: words in texts(feishu.replies))


def entries(served: Served) -> list[dict[str, Any]]:
    folder = served.home / ".local" / "state" / "feishuperm"
    return list(Ledger(str(folder / "ledger.jsonl")).entries())


def test_new_task_runs_once_after_its_button_and_log_shows_it(
    served: Served, feishu: FakePlatform, claude: ClaudeProgram
) -> None:
    feishu.say("新任务 project --dangerously-skip-permissions 修好构建")
    message = card_of(feishu, 1)
    shown = texts(feishu.card(message))
    assert str(served.project) in shown and "修好构建" in shown
    (again,) = [
        button["behaviors"][0]["value"]
        for button in feishu.buttons(message, of_panels=True)
        if button["text"]["content"] == "启动"
    ]
    other = feishu.tap(message, "启动", who=STRANGER)
    assert other.toast["type"] == "error" and claude.calls() == []

    tap = feishu.tap(message, "启动")
    assert tap.ok and tap.toast["type"] == "info"
    wait_until(lambda: "会话 1a2b3c4d 已在运行" in texts(feishu.card(message)))
    (call,) = claude.calls()
    prompt = "--dangerously-skip-permissions 修好构建"
    assert call.folder == str(served.project)
    assert (call.arguments, call.text) == (["--bg"], prompt)
    assert call.environ["ANTHROPIC_API_KEY"] == "sk-ant-of-the-service"
    assert not [key for key in call.environ if key.startswith("FEISHU")]

    replay = feishu.act(message, {"tag": "button", "value": again})
    assert replay.toast["type"] == "error"
    assert claude.count() == 1
    wait_until(lambda: entries(served)[-1]["event"] == "start")
    end = entries(served)[-1]
    assert (end["state"], end["who"]) == ("started", OWNER)
    log = subprocess.run(
        [served.pyz, "log"],
        env={**served.environ, "FEISHUPERM_LANG": "zh"},
        capture_output=True,
        encoding="utf-8",
        check=True,
    ).stdout
    assert "新任务: 已启动" in log and "修好构建" in log


def test_what_is_not_started_is_told_below_the_message(
    served: Served, feishu: FakePlatform, claude: ClaudeProgram
) -> None:
    feishu.say("新任务 elsewhere go", who=STRANGER)
    feishu.say("新任务 elsewhere go")
    said(feishu, "没有叫 elsewhere 的项目")
    served.project.rmdir()
    served.project.symlink_to(served.home / "bin")
    feishu.say("新任务 project go")
    said(feishu, "是指向")
    kinds = [message["msg_type"] for message in feishu.app_messages.values()]
    assert claude.calls() == [] and set(kinds) == {"text"}


def test_missing_client_is_told_with_the_way_to_set_the_path(
    served: Served, feishu: FakePlatform, claude: ClaudeProgram
) -> None:
    feishu.say("新任务 project go")
    message = card_of(feishu, 1)
    claude.path.unlink()
    assert feishu.tap(message, "启动").toast["type"] == "info"
    wait_until(lambda: "PATH 中没有 claude" in texts(feishu.card(message)))
    feishu.say("新任务 project go")
    said(feishu, "feishuperm help sessions")
    wait_until(lambda: entries(served)[-1].get("state") == "failed")


def test_old_client_and_the_end_of_a_session_continued_have_their_sentences(
    served: Served, feishu: FakePlatform, claude: ClaudeProgram
) -> None:
    session = record_session(served.home, str(served.project))
    feishu.say(f"继续 {session} 接着跑测试")
    message = card_of(feishu, 1)
    claude.answers(TOO_OLD)
    assert feishu.tap(message, "启动").toast["type"] == "info"
    wait_until(lambda: "版本太旧" in texts(feishu.card(message)))
    assert claude.last().arguments[:3] == ["--bg", "--resume", session]
    feishu.say(f"继续 {session} /add-dir /")
    said(feishu, "以 / 开头")


def test_limit_is_promised_on_its_notice_and_taken_back(
    served: Served, feishu: FakePlatform, claude: ClaudeProgram
) -> None:
    session = record_session(served.home, str(served.project))
    (path,) = served.home.glob(f".claude/projects/*/{session}.jsonl")
    line = {"quotaLimits": {"status": "rejected", "resetsAt": 4_000_000_000}}
    path.write_text(path.read_text() + json.dumps(line, separators=(",", ":")) + "\n")
    event = {
        **{key: EVENT[key] for key in ("cwd",)},
        "session_id": session,
        "transcript_path": str(path),
        "hook_event_name": "StopFailure",
        "error": "rate_limit",
        "last_assistant_message": "You've hit your limit · resets 3pm (UTC)",
    }
    finish(served.hook(event))
    message = card_of(feishu, 1)
    assert "用量在" in texts(feishu.card(message))
    assert feishu.tap(message, "到时继续").ok
    panel = card_of(feishu, 2)
    assert "会话将在" in texts(feishu.card(panel))
    kept = served.home / ".local" / "state" / "feishuperm" / "limits.json"
    (row,) = json.loads(kept.read_text()).values()
    assert row["asker"]["who"] == OWNER
    assert feishu.tap(panel, "取消").toast["type"] == "success"
    assert json.loads(kept.read_text()) == {}
