"""Progress and 停止, with the built file, the app's platform and the real client."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from feishuperm.setup.claude_settings import KIND_EVENTS
from tests.conftest import wait_until
from tests.e2e.test_app import app_settings, texts
from tests.fakes.feishu_app import FakePlatform
from tests.fakes.model import text, tool
from tests.lab import Lab
from tests.served import EVENT, Served, finish

SESSION = {
    **{key: EVENT[key] for key in ("session_id", "cwd", "transcript_path")},
    "prompt_id": "t1",
}
PROMPT = {**SESSION, "hook_event_name": "UserPromptSubmit", "prompt": "go"}
CALL = {**EVENT, **SESSION, "hook_event_name": "PreToolUse", "tool_use_id": "toolu_1"}

WAIT = tool("Bash", command="timeout 90 sh -c 'while ! [ -e go ]; do sleep 0.1; done'")


@pytest.fixture
def feishu() -> Iterator[FakePlatform]:
    with FakePlatform() as platform:
        yield platform


def tell(served: Served, event: dict[str, Any]) -> str:
    """What a hook of `install --events session` prints."""
    return finish(served.hook(event, "session"), 20)


def ask_for_card(feishu: FakePlatform) -> str:
    """Write 进展 to the bot; the message with the card."""
    before = len(feishu.app_messages)
    feishu.say("进展")
    wait_until(lambda: len(feishu.app_messages) > before, timeout=20)
    id, row = list(feishu.app_messages.items())[-1]
    assert row["msg_type"] == "interactive", row
    return id


def shows(feishu: FakePlatform, message: str, words: str) -> None:
    try:
        wait_until(lambda: words in texts(feishu.card(message)), timeout=20)
    except AssertionError:
        raise AssertionError(f"no {words}: {texts(feishu.card(message))}") from None


def stops(served: Served) -> list[str]:
    return [row["state"] for row in served.ledger() if row["event"] == "stop"]


def test_stop_is_tapped_told_to_each_call_and_written_down(
    pyz: Path, tmp_path: Path, feishu: FakePlatform
) -> None:
    with Served(pyz, tmp_path, **app_settings(feishu)) as served:
        wait_until(lambda: feishu.connections.open)
        assert tell(served, PROMPT) == "" and tell(served, CALL) == ""
        message = ask_for_card(feishu)
        tap = feishu.tap(message, "停止")
        assert tap.toast["content"] == "将在下一次调用工具时停止"
        for _ in range(2):
            output = json.loads(tell(served, CALL))
            assert output["continue"] is False
            assert output["stopReason"] == "用户通过飞书停止"
        shows(feishu, message, "本轮已于")
        assert tell(served, {**PROMPT, "prompt_id": "t2"}) == ""
        assert tell(served, {**CALL, "prompt_id": "t2"}) == ""
        wait_until(lambda: stops(served) == ["asked", "stopped"])
        mark = Path(served.socket + ".retry")
        assert not mark.exists()


@contextmanager
def stoppable(lab: Lab, home: Path, feishu: FakePlatform) -> Iterator[Served]:
    """A server, and a client with every hook that a stop needs."""
    lab.settings = {"permissions": {"defaultMode": "default", "allow": ["Bash"]}}
    with Served(Path(lab.pyz), home, **app_settings(feishu)) as served:
        lab.socket = served.socket
        for event, *_ in KIND_EVENTS["session"]:
            lab.pyz_hook(event, "hook", "session", timeout=20)
        yield served


@pytest.mark.claude
def test_real_client_ends_the_turn_and_only_that(
    lab: Lab, tmp_path: Path, feishu: FakePlatform
) -> None:
    """Two calls in one message are both answered, and the model knows why."""
    calls = [tool("Bash", command=f"touch {name}") for name in ("one", "two", "three")]
    lab.model.push([WAIT], calls[:2], [text("now three")], [calls[2]], [text("bye")])
    with stoppable(lab, tmp_path, feishu) as served:
        session = lab.session("go")
        session.wait("while ! ", 40)
        message = ask_for_card(feishu)
        shows(feishu, message, "while ! ")
        feishu.tap(message, "停止")
        lab.write("go", "")
        session.wait("(?s)(hook stopped continuation: 用户通过飞书停止.*){2}", 40)
        shows(feishu, message, "本轮已于")
        assert len(lab.model.calls()) == 2, "the model is not asked again"
        session.type("and then")
        session.wait("now three", 40)
        results = lab.model.tool_results()
        for call in calls[:2]:
            assert "用户通过飞书停止" in results[call["id"]].text
        told = json.dumps(lab.model.calls()[2], ensure_ascii=False)
        assert "hook stopped continuation: 用户通过飞书停止" in told
        session.type("go on")
        session.wait("bye", 40)
        assert "three" in files(lab)
        assert files(lab).isdisjoint({"one", "two"})
        assert stops(served) == ["asked", "stopped"]


@pytest.mark.claude
def test_real_client_goes_on_after_a_stop_that_came_too_late(
    lab: Lab, tmp_path: Path, feishu: FakePlatform
) -> None:
    """The last call of the turn runs already.  The card tells it all, to its end."""
    touch = tool("Bash", command="touch three")
    lab.model.push([text("I wait."), WAIT], [text("late")])
    lab.model.push([text("now three"), touch], [text("bye")])
    with stoppable(lab, tmp_path, feishu) as served:
        session = lab.session("go and wait")
        session.wait("while ! ", 40)
        message = ask_for_card(feishu)
        for words in ("go and wait", "while ! ", "I wait."):
            shows(feishu, message, words)
        feishu.tap(message, "停止")
        lab.write("go", "")
        session.wait("late", 40)
        shows(feishu, message, "未停止任何操作")
        session.type("and then")
        session.wait("bye", 40)
        assert "three" in files(lab) and stops(served) == ["asked", "missed"]
        shows(feishu, message, "bye")
        assert "未停止任何操作" not in texts(feishu.card(message))
        session.type("/exit")
        shows(feishu, message, "会话已结束")
        assert "bye" in texts(feishu.card(message)) and not feishu.buttons(message)


def files(lab: Lab) -> set[str]:
    return {path.name for path in Path(lab.project).iterdir()}


@pytest.mark.claude
def test_real_client_hands_on_what_a_person_typed(lab: Lab, tmp_path: Path) -> None:
    """To auto mode's classifier, with the next result of that session, once."""
    lab.settings = {"permissions": {"defaultMode": "auto", "ask": ["Bash(touch *)"]}}
    ask = tool("Bash", command="touch one")
    runs = [tool("Bash", command=f"echo {name}") for name in ("two", "three")]
    lab.model.push([ask], [runs[0]], [runs[1]], [text("bye")])
    with Served(Path(lab.pyz), tmp_path) as served, served.watched():
        lab.socket = served.socket
        lab.pyz_hook("PermissionRequest", "hook", timeout=60)
        for event in ("UserPromptSubmit", "PostToolUse"):
            lab.pyz_hook(event, "hook", "session", timeout=20)
        session = lab.session("go")
        id = wait_until(served.waiting, timeout=40)[0]
        served.post("/deny", id=id, reason="echo is fine")
        session.wait("bye", 40)
        lines = [
            json.loads(line)
            for path in Path(lab.config, "projects").rglob("*.jsonl")
            for line in path.read_text().splitlines()
        ]
        told = [line.get("hostClassifierContext") for line in lines]
        assert list(filter(None, told)) == ["Typed by the user: echo is fine"]


@pytest.mark.claude
def test_real_background_session_is_ended(
    lab: Lab, tmp_path: Path, feishu: FakePlatform
) -> None:
    bin = Path(lab.root) / "bin"
    bin.mkdir()
    (bin / "claude").symlink_to(lab.binary)
    lab.extra["PATH"] = f"{bin}:{lab.environ()['PATH']}"
    lab.settings = {"permissions": {"defaultMode": "default", "allow": ["Bash"]}}
    lab.model.push([WAIT], [text("never")])
    environ = {"CLAUDE_CONFIG_DIR": lab.config, "PATH": lab.extra["PATH"]}
    with Served(Path(lab.pyz), tmp_path, **app_settings(feishu), **environ) as served:
        lab.socket = served.socket
        lab.pyz_hook("UserPromptSubmit", "hook", "session", timeout=20)
        lab.prepare()
        said = subprocess.run(
            [lab.binary, "--bg", "-n", "Behind", "go"], env=lab.environ(),
            cwd=lab.project, stdin=subprocess.DEVNULL, capture_output=True, text=True,
            timeout=60, check=True,
        ).stdout  # fmt: skip
        wait_until(lambda: lab.model.calls(), timeout=40)
        message = ask_for_card(feishu)
        tap = feishu.tap(message, "停止")
        assert tap.toast["content"] == "正在结束后台会话", said
        shows(feishu, message, "后台会话已于")
        assert stops(served) == ["asked", "stopped"]
        rows = json.loads(lab.run_pyz("sessions", "--json").stdout)
        assert [row["state"] for row in rows] == ["ended"]
