"""The real client, started and continued from the chat, with nobody at a terminal."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import wait_until
from tests.e2e.test_app import app_settings, texts
from tests.fakes.feishu_app import FakePlatform
from tests.fakes.model import text, tool
from tests.lab import Lab
from tests.served import Served

pytestmark = pytest.mark.claude


@pytest.fixture
def feishu() -> Iterator[FakePlatform]:
    with FakePlatform() as platform:
        yield platform


@pytest.fixture
def served(lab: Lab, feishu: FakePlatform) -> Iterator[Served]:
    """A server beside the lab, whose sessions are the lab's own."""
    home = Path(lab.root) / "server"
    (home / "bin").mkdir(parents=True)
    (home / "bin" / "claude").symlink_to(lab.binary)
    lab.socket = str(home / "s.sock")
    lab.pyz_hook("PermissionRequest", matcher="*", timeout=60)
    lab.record("UserPromptSubmit")
    lab.hook("UserPromptSubmit", f"env > {home}/session.env")
    lab.prepare()
    stranger = lab._folder("stranger")
    client = {**lab.environ(), "PATH": f"{home}/bin:{os.environ['PATH']}"}
    client["XDG_STATE_HOME"] = str(home / "state")
    settings = {
        **client,
        **app_settings(feishu),
        "FEISHUPERM_REMOTE": "on",
        "FEISHUPERM_PROJECTS": f"{lab.project}:{stranger}",
    }
    settings.pop("PERMISSION_SOCKET_PATH")
    server = Served(Path(lab.pyz), home, **settings)
    server.environ["HOME"] = lab.home
    with server:
        wait_until(lambda: feishu.connections.open)
        yield server
    end_daemon(lab)


def end_daemon(lab: Lab) -> None:
    """End the client's processes of this lab, each by its id."""
    for path in Path("/proc").glob("[0-9]*/environ"):
        with suppress(OSError):
            if f"HOME={lab.home}\0".encode() in path.read_bytes() + b"\0":
                os.kill(int(path.parent.name), signal.SIGKILL)


def cards(feishu: FakePlatform) -> list[str]:
    """The cards that are out, texts apart."""
    rows = feishu.app_messages.items()
    return [id for id, row in rows if row["msg_type"] == "interactive"]


def next_card(feishu: FakePlatform, count: int) -> str:
    wait_until(lambda: len(cards(feishu)) >= count, timeout=40)
    return cards(feishu)[count - 1]


def started(feishu: FakePlatform, message: str) -> str:
    """Press the button; the short id of the session that runs then."""
    assert feishu.tap(message, "启动").toast["type"] == "info"

    def named() -> list[str]:
        return re.findall(r"会话 (\w{8}) 已在运行", texts(feishu.card(message)))

    (session,) = wait_until(named, timeout=40)
    return str(session)


def command(served: Served, *words: str, folder: str = "/") -> str:
    return subprocess.run(
        ["claude", *words],
        cwd=folder,
        env=served.environ,
        capture_output=True,
        encoding="utf-8",
        check=True,
        executable=f"{served.home}/bin/claude",
        timeout=60,
    ).stdout


def test_new_task_asks_by_card_and_goes_on_with_a_text_once_it_was_stopped(
    lab: Lab, served: Served, feishu: FakePlatform
) -> None:
    first, second = (tool("Bash", command=f"touch made-{n}") for n in (1, 2))
    lab.model.push([first], [text("made one")], [second], [text("made two")])
    feishu.say("新任务 project --dangerously-skip-permissions make files")
    id = started(feishu, next_card(feishu, 1))
    assert feishu.tap(next_card(feishu, 2), "批准运行").ok
    wait_until(lambda: (Path(lab.project) / "made-1").exists(), timeout=40)
    wait_until(lambda: len(lab.model.calls()) >= 2, timeout=40)
    (event,) = lab.recorded("UserPromptSubmit")
    assert event["prompt"] == "--dangerously-skip-permissions make files"
    assert event["permission_mode"] == "default"
    session: str = event["session_id"]
    assert session.startswith(id)

    environ = (served.home / "session.env").read_text()
    assert "ANTHROPIC_API_KEY=" in environ and "FEISHU_" not in environ

    feishu.say(f"继续 {session} now the second")
    wait_until(lambda: "还在运行" in texts(feishu.replies), timeout=40)
    feishu.say(f"进展 {session}")
    assert feishu.tap(next_card(feishu, 3), "停止").ok
    wait_until(lambda: not lives(served, session), timeout=20)
    feishu.say(f"继续 {session} now the second")
    assert started(feishu, next_card(feishu, 4)) == id
    assert feishu.tap(next_card(feishu, 5), "批准运行").ok
    wait_until(lambda: (Path(lab.project) / "made-2").exists(), timeout=40)
    prompts = [row["prompt"] for row in lab.recorded("UserPromptSubmit")]
    assert prompts[-1] == "now the second"
    assert {row["session_id"] for row in lab.recorded("UserPromptSubmit")} == {session}


def lives(served: Served, session: str) -> bool:
    rows: list[dict[str, Any]] = json.loads(command(served, "agents", "--json"))
    return any(row.get("sessionId") == session for row in rows)


def test_texts_like_options_commands_and_shell_are_prompts_of_the_real_client(
    lab: Lab, served: Served, feishu: FakePlatform
) -> None:
    prompts = ["-p", "--", "$(touch made) `id`", "one\n\n--bg\n/clear", "!touch made"]
    for count, prompt in enumerate(prompts, 1):
        lab.model.push([text("done")])
        feishu.say(f"新任务 project {prompt}")
        id = started(feishu, next_card(feishu, count))
        wait_until(lambda n=count: len(lab.recorded("UserPromptSubmit")) == n, 40)
        event = lab.recorded("UserPromptSubmit")[-1]
        assert (event["prompt"], event["session_id"][:8]) == (prompt, id)
    assert not (Path(lab.project) / "made").exists()
    # The client would drop the first character, and obey.
    feishu.say("新任务 project \u200b/add-dir /")
    wait_until(lambda: "以 / 开头" in texts(feishu.replies))


def test_session_goes_on_in_the_mode_of_its_card_and_in_none_that_asks_nobody(
    lab: Lab, served: Served, feishu: FakePlatform
) -> None:
    sessions = []
    for mode in ("dontAsk", "acceptEdits"):
        lab.model.push([text("done")])
        began = ("--bg", "--permission-mode", mode, "go")
        command(served, *began, folder=lab.project)
        wait_until(lambda: len(lab.recorded("UserPromptSubmit")) > len(sessions), 40)
        session: str = lab.recorded("UserPromptSubmit")[-1]["session_id"]
        sessions.append(session)
        written = f"projects/*/{session}.jsonl"
        wait_until(lambda at=written: list(Path(lab.config).glob(at)), 40)
        command(served, "stop", session[:8])
        wait_until(lambda id=session: not lives(served, id), timeout=20)
    feishu.say(f"继续 {sessions[0]} again")
    wait_until(lambda: "dontAsk" in texts(feishu.replies), timeout=40)
    lab.model.push([text("done")])
    feishu.say(f"继续 {sessions[1]} again")
    message = next_card(feishu, 1)
    assert "acceptEdits" in texts(feishu.card(message))
    assert sessions[1].startswith(started(feishu, message))
    wait_until(lambda: len(lab.recorded("UserPromptSubmit")) > 2, timeout=40)
    event = lab.recorded("UserPromptSubmit")[-1]
    assert (event["session_id"], event["permission_mode"]) == (
        sessions[1],
        "acceptEdits",
    )


def test_folder_that_becomes_a_link_and_one_outside_the_list_start_nothing(
    lab: Lab, served: Served, feishu: FakePlatform
) -> None:
    feishu.say("新任务 project go")
    message = next_card(feishu, 1)
    os.rename(lab.project, f"{lab.project}-before")
    os.symlink(f"{lab.project}-before", lab.project)
    assert feishu.tap(message, "启动").toast["type"] == "info"
    wait_until(lambda: "是指向" in texts(feishu.card(message)), timeout=40)
    feishu.say(f"新任务 {lab.project}-before go")
    wait_until(lambda: "没有叫" in texts(feishu.replies))
    assert json.loads(command(served, "agents", "--json")) == []
    assert lab.model.calls() == []


def test_folder_that_nobody_trusts_is_refused_with_the_clients_own_sentence(
    lab: Lab, served: Served, feishu: FakePlatform
) -> None:
    feishu.say("新任务 stranger go")
    message = next_card(feishu, 1)
    assert feishu.tap(message, "启动").toast["type"] == "info"
    wait_until(lambda: "not trusted" in texts(feishu.card(message)), timeout=40)
    time.sleep(0.5)
    assert lab.model.calls() == []
