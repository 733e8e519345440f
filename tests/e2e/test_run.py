"""`run`: the real client, headless, asking people through the real server."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import wait_until
from tests.e2e.hostile_clone import hostile
from tests.fakes.model import text, tool, write_plan
from tests.lab import Lab
from tests.served import Served

pytestmark = pytest.mark.claude

QUESTION = {
    "question": "Which?",
    "header": "H",
    "options": [{"label": "A", "description": "a"}, {"label": "B", "description": "b"}],
    "multiSelect": False,
}


class Run:
    """`feishuperm run` in a lab, and the server it asks."""

    def __init__(self, lab: Lab, served: Served) -> None:
        self.lab = lab
        self.served = served
        self.process: subprocess.Popen[str] | None = None
        path = os.path.dirname(lab.binary) + ":" + lab.environ()["PATH"]
        lab.extra.update(PATH=path, PERMISSION_SOCKET_PATH=served.socket)

    def start(self, *arguments: str, stdin: str = "", **environ: str) -> None:
        self.lab.prepare()
        self.process = subprocess.Popen(
            [self.lab.pyz, "run", *arguments],
            env={**self.lab.environ(), **environ},
            cwd=self.lab.project,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            encoding="utf-8",
        )
        assert self.process.stdin is not None
        self.process.stdin.write(stdin)
        self.process.stdin.close()
        self.process.stdin = None

    def end(self) -> tuple[int, str, str]:
        """(exit code, stdout, stderr)"""
        assert self.process is not None
        out, err = self.process.communicate(timeout=60)
        return self.process.returncode, out, err

    def asked(self) -> str:
        """The id of the one request that waits."""
        (id,) = wait_until(self.served.waiting, 40)
        return str(id)

    def tap(self, action: str) -> None:
        assert self.served.get(f"/{action}?id={self.asked()}").status == 200

    def close(self) -> None:
        if self.process is not None and self.process.returncode is None:
            self.process.terminate()
            self.process.communicate(timeout=20)


@pytest.fixture
def run(lab: Lab, pyz: Path, home: Path) -> Iterator[Run]:
    with Served(pyz, home) as served:
        session = Run(lab, served)
        yield session
        session.close()


def bash(command: str) -> dict[str, Any]:
    return tool("Bash", command=command, description="x")


def test_tap_lets_the_tool_run_and_one_request_makes_one_card(run: Run) -> None:
    run.lab.pyz_hook("PermissionRequest")  # as `install` writes it
    run.lab.model.push([text("let me see"), bash("touch made")], [text("bye")])
    run.start("go")
    run.tap("allow")
    code, out, err = run.end()
    assert (code, out) == (0, "bye\n"), err
    assert os.path.exists(f"{run.lab.project}/made")
    lines = err.splitlines()
    assert lines[:2] == ["let me see", "* Bash: touch made"]
    assert "  waiting for approval: Bash: touch made" in lines
    assert "  allowed: Bash: touch made" in lines
    assert lines[-1].startswith("feishuperm: done in ") and "$" in lines[-1]
    assert run.served.output().count(": Bash: ") == 1


def test_refusal_reaches_the_model_and_the_exit_code(run: Run) -> None:
    call = bash("touch made")
    run.lab.model.push([call], [text("pity")])
    run.start("--json", "-", stdin="from stdin")
    run.tap("deny")
    code, out, _ = run.end()
    assert code == 3
    result = json.loads(out)
    assert result["result"] == "pity" and result["is_error"] is False
    assert run.lab.model.tool_results()[call["id"]].text == "用户通过飞书拒绝"
    assert "from stdin" in json.dumps(run.lab.model.calls()[0]["messages"])


def test_refusal_with_interrupt_ends_the_turn(run: Run) -> None:
    run.lab.model.push([bash("touch made")], [text("never said")])
    run.start("go")
    run.tap("interrupt")
    code, out, err = run.end()
    assert (code, out) == (3, "") and "refused: Bash: touch made" in err
    assert len(run.lab.model.calls()) == 1


def test_always_holds_within_the_session(run: Run) -> None:
    run.lab.model.push([bash("touch made")], [bash("touch made")], [text("bye")])
    run.start("go")
    run.tap("always")
    assert run.end()[0] == 0
    assert "Bash(touch made)" in run.lab.read(".claude/settings.local.json")
    assert run.served.output().count(": Bash: ") == 1


def test_question_and_plan_are_answered_on_their_pages(run: Run) -> None:
    ask, plan = tool("AskUserQuestion", questions=[QUESTION]), tool("ExitPlanMode")
    run.lab.model.push([ask], write_plan("1. look"), [plan], [text("bye")])
    run.start("--permission-mode", "plan", "go")
    assert run.served.post("/answer", id=run.asked(), q0="B").status == 200
    wait_until(lambda: len(run.lab.model.calls()) == 3)
    run.tap("allow")
    assert run.end()[0] == 0
    results = run.lab.model.tool_results()
    assert '"Which?"="B"' in results[ask["id"]].text
    assert "approved" in results[plan["id"]].text


def test_without_a_server_every_request_is_refused_with_the_cure(run: Run) -> None:
    run.served.stop()
    call = bash("touch made")
    run.lab.model.push([call], [bash("touch made2")], [text("bye")])
    run.start("go", stdin="")
    code, _, err = run.end()
    assert code == 3 and err.count("hint: feishuperm serve") == 1
    assert "no feishuperm server" in run.lab.model.tool_results()[call["id"]].text
    assert not os.path.exists(f"{run.lab.project}/made")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signal_stops_the_session_and_withdraws_the_request(
    run: Run, number: int
) -> None:
    run.lab.model.push([bash("touch made")])
    run.start("go")
    run.asked()
    assert run.process is not None
    run.process.send_signal(number)
    code, _, err = run.end()
    assert code == 128 + number, err
    wait_until(lambda: not run.served.waiting())
    assert not os.path.exists(f"{run.lab.project}/made")


def test_session_is_continued_with_arguments_for_claude(run: Run) -> None:
    run.lab.model.push([text("one")], [text("two")], [text("three")])
    run.start("first words", "--json")
    session = json.loads(run.end()[1])["session_id"]
    run.start("second words", "--continue", "--model", "claude-sonnet-4-5")
    assert run.end()[:2] == (0, "two\n")
    run.start("third", "--resume", session, "--", "--disallowedTools", "Bash")
    assert run.end()[:2] == (0, "three\n")
    _, second, third = run.lab.model.calls()
    assert "first words" in json.dumps(second["messages"])
    assert second["model"] == "claude-sonnet-4-5"
    assert "second words" in json.dumps(third["messages"])
    offered = [[tool["name"] for tool in body["tools"]] for body in (second, third)]
    assert ["Bash" in names for names in offered] == [True, False]


# Hooks.

SCRIPT = """
def hook(input, tool_use_id, context):
    with open({log!r}, "a") as file:
        file.write("script " + input["hook_event_name"] + "\\n")
    return {{}}
"""


def writes(lab: Lab, word: str) -> dict[str, Any]:
    path = shlex.quote(f"{lab.events}/log")
    return {"type": "command", "command": f"echo {word} $EVENT >> {path}"}


def script(lab: Lab) -> dict[str, Any]:
    source = SCRIPT.format(log=f"{lab.events}/log")
    lab.write(".claude/hooks/note.py", source)
    return {"type": "script", "script": ".claude/hooks/note.py"}


def logged(lab: Lab) -> list[str]:
    return sorted(lab.read(f"{lab.events}/log").splitlines())


def test_each_hook_of_a_file_the_client_accepts_runs_once(run: Run) -> None:
    lab = run.lab
    note = script(lab)
    native = {**writes(lab, "native"), "command": f"echo native >> {lab.events}/log"}
    lab.settings["hooks"] = {
        "PreToolUse": [{"matcher": "Bash", "hooks": [native]}],
        "PostToolUse": [{"matcher": "Bash", "hooks": [note]}],
    }
    listed = [{**writes(lab, "own"), "event": name} for name in EVENTS]
    lab.settings["feishuperm"] = {"callbacks": listed}
    for name in EVENTS:
        lab.pyz_hook(name)  # would run the list again, were it not for `run`
    lab.settings["permissions"]["allow"] = ["Bash(true)"]
    lab.model.push([bash("true")], [text("bye")])
    run.start("go")
    assert run.end()[0] == 0
    expected = ["native", "script PostToolUse", *(f"own {name}" for name in EVENTS)]
    assert logged(lab) == sorted(expected)


EVENTS = (
    *("SessionStart", "UserPromptSubmit", "PreToolUse", "PostToolUse"),
    *("Stop", "SessionEnd"),
)


def test_hooks_of_a_file_the_client_skips_run_once_and_nothing_is_made_a_flag(
    run: Run,
) -> None:
    """Its hooks of all three kinds run once; its permissions do not hold."""
    lab = run.lab
    prompt = {"type": "prompt", "prompt": "look at $COMMAND"}
    three = [writes(lab, "command"), script(lab), prompt]
    lab.settings["hooks"] = {"PreToolUse": [{"matcher": "Bash", "hooks": three}]}
    lab.settings["permissions"]["allow"] = ["Bash(touch made)"]
    lab.model.push([bash("touch made")], [text("bye")])
    run.start("go")
    run.tap("allow")
    code, _, err = run.end()
    assert code == 0, err
    assert os.path.exists(f"{lab.project}/made")
    assert logged(lab) == ["command PreToolUse", "script PreToolUse"]
    assert err.count("hook: look at touch made") == 1
    assert err.count("skips this whole file") == 1


REFUSES = {
    "event": "PermissionRequest",
    "matcher": "Bash",
    "type": "command",
    "command": "echo not $COMMAND >&2; exit 1",
}


def test_permission_callback_refuses_before_anybody_is_asked(run: Run) -> None:
    """The user's own; see the next for a project's."""
    settings = {"feishuperm": {"callbacks": [REFUSES]}}
    run.lab.write(f"{run.lab.config}/settings.json", json.dumps(settings))
    call = bash("touch made")
    run.lab.model.push([call], [text("bye")])
    run.start("go")
    assert run.end()[0] == 3
    assert run.lab.model.tool_results()[call["id"]].text == "not touch made"
    assert run.served.output().count(": Bash: ") == 0


def test_project_does_not_decide_permission_requests_even_if_trusted(run: Run) -> None:
    run.lab.settings["feishuperm"] = {"callbacks": [REFUSES]}
    run.lab.model.push([bash("touch made")], [text("bye")])
    run.start("go")
    run.tap("allow")
    code, _, err = run.end()
    assert code == 0 and "does not decide permission requests" in err
    assert os.path.exists(f"{run.lab.project}/made")


def test_clone_that_nobody_trusts_has_no_effect(run: Run) -> None:
    """Its callbacks, hooks, permissions, environment and servers stay outside."""
    lab = run.lab
    hostile(lab)
    lab.model.push([bash("touch made")], [text("bye")])
    run.start("go")
    run.tap("deny")
    code, _, err = run.end()
    assert code == 3, err
    assert not os.path.exists(f"{lab.project}/made")
    assert os.listdir(lab.events) == []
    assert err.count(f"feishuperm trust {lab.project}") == 1
    assert "evil words" not in json.dumps(lab.model.calls())
