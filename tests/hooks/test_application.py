"""The wiring: configuration, hooks, router; the short way of the hook command."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from feishuperm.hooks.application import Application, Interactive


def write(root: Path, value: Any) -> None:
    (root / ".claude").mkdir(exist_ok=True)
    (root / ".claude" / "settings.json").write_text(json.dumps(value))


def hooks(event: str, *entries: dict[str, Any]) -> dict[str, Any]:
    return {"hooks": {event: [{"matcher": "Bash", "hooks": list(entries)}]}}


COMMAND = {"type": "command", "command": "exit 1"}
SCRIPT = {"type": "script", "script": "hooks/a.py"}


def application(root: Path) -> Application:
    environ = {"HOME": str(root / "home"), "PATH": "/usr/bin:/bin"}
    return Application(str(root), environ, lambda complaint: None)


def test_hooks_reach_the_manager_and_the_router(tmp_path: Path) -> None:
    """Scenario: 将 hooks 配置传递给 HookManager;
    Scenario: MessageRouter 构建 SDK hooks 配置;
    Scenario: MessageRouter 构造函数接收 HookManager"""
    write(tmp_path, hooks("PreToolUse", COMMAND))
    app = application(tmp_path)
    assert app.hook_manager.config is app.config.hooks
    assert app.message_router.hook_manager is app.hook_manager
    options = app.message_router.build_query_options()
    (matcher,) = options["hooks"]["PreToolUse"]
    assert matcher.matcher == "Bash" and len(matcher.hooks) == 1
    assert json.loads(options["settings"]) == {"disableAllHooks": True}


def interactive(root: Path, complaints: Any = None, **environ: str) -> Any:
    """One event in a project that is the user's own home, unless another is given."""
    fields = {
        "hook_event_name": "PreToolUse",
        "tool_name": "Bash",
        "tool_input": {"command": "ls"},
        "cwd": str(root),
        "session_id": "s1",
    }
    given = {"HOME": str(root), "PATH": "/usr/bin:/bin", **environ}
    warn = pytest.fail if complaints is None else complaints.append
    return Interactive(str(root), given, warn).run(fields)


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the ledger lies."""
    for name in ("XDG_STATE_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.setenv(name, str(tmp_path / "state"))
    return tmp_path / "state" / "feishuperm"


def test_interactive_event_runs_the_list_and_never_what_the_client_runs(
    tmp_path: Path,
) -> None:
    entry = {**COMMAND, "event": "PreToolUse", "command": "echo $COMMAND >&2; exit 1"}
    other = {**entry, "matcher": "Edit"}
    listed = {"feishuperm": {"callbacks": [entry, other]}}
    write(
        tmp_path, {**hooks("PreToolUse", {**COMMAND, "command": "touch no"}), **listed}
    )
    output = interactive(tmp_path)
    assert output["reason"] == "ls"
    assert output["hookSpecificOutput"]["permissionDecision"] == "deny"
    assert not (tmp_path / "no").exists()


def test_interactive_event_without_callbacks_says_nothing(tmp_path: Path) -> None:
    assert interactive(tmp_path) is None
    write(tmp_path, {"feishuperm": {"callbacks": [{**COMMAND, "event": "Stop"}]}})
    assert interactive(tmp_path) is None


GUARD = {**COMMAND, "event": "PreToolUse"}


def test_callback_that_decides_is_in_the_ledger(tmp_path: Path, state: Path) -> None:
    write(tmp_path, {"feishuperm": {"callbacks": [{**GUARD, "command": "true"}]}})
    interactive(tmp_path)
    assert not (state / "ledger.jsonl").exists()
    write(tmp_path, {"feishuperm": {"callbacks": [GUARD]}})
    interactive(tmp_path)
    (line,) = (state / "ledger.jsonl").read_text().splitlines()
    entry = json.loads(line)
    assert entry["event"] == "callback" and entry["decision"] == "block"
    assert (entry["hook_event"], entry["tool"]) == ("PreToolUse", "Bash")
    assert "feishuperm.callbacks[0]" in entry["callback"]
    assert entry["project"] == str(tmp_path)


def test_decision_stands_where_the_ledger_cannot_be_written(
    tmp_path: Path, state: Path
) -> None:
    state.parent.write_text("no folder")
    write(tmp_path, {"feishuperm": {"callbacks": [GUARD]}})
    complaints: list[str] = []
    assert interactive(tmp_path, complaints)["decision"] == "block"
    assert "not in the ledger" in complaints[0]


def test_callback_of_a_clone_does_not_run_and_the_log_says_what_to_do(
    tmp_path: Path,
) -> None:
    clone, home = tmp_path / "clone", tmp_path / "home"
    clone.mkdir()
    home.mkdir()
    touch = {**GUARD, "command": "touch ran"}
    value = {"feishuperm": {"callbacks": [touch]}, "env": {"PATH": "/evil"}}
    write(clone, value)
    complaints: list[str] = []
    environ = {"HOME": str(home), "PATH": "/evil"}
    assert interactive(clone, complaints, **environ) is None
    assert not (clone / "ran").exists()
    assert f"feishuperm trust {clone}" in complaints[0]
    write(home, {"feishuperm": {"callbacks": [{**GUARD, "command": "! grep -q ls"}]}})
    assert interactive(clone, complaints, **environ)["decision"] == "block"
