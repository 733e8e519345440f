"""The wiring: configuration, hooks, router; the short way of the hook command."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from feishuperm.engine.application import Application, run_interactive
from feishuperm.engine.run_mark import RunMark


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


def test_options_without_hooks_have_no_such_field(tmp_path: Path) -> None:
    """Scenario: buildQueryOptions 中添加 hooks 字段"""
    write(tmp_path, {"permissions": {}})
    options = application(tmp_path).message_router.build_query_options()
    assert options == {"cwd": str(tmp_path)}


def test_skipped_file_brings_its_permissions_along(tmp_path: Path) -> None:
    rules = {"permissions": {"allow": ["Bash(ls)"]}}
    write(tmp_path, {**hooks("PreToolUse", SCRIPT, COMMAND), **rules})
    options = application(tmp_path).message_router.build_query_options()
    assert len(options["hooks"]["PreToolUse"][0].hooks) == 2
    assert json.loads(options["settings"]) == {**rules, "disableAllHooks": True}


def interactive(root: Path, **environ: str) -> Any:
    fields = {
        "hook_event_name": "PreToolUse",
        "tool_name": "Bash",
        "tool_input": {"command": "ls"},
        "cwd": str(root),
        "session_id": "s1",
    }
    return run_interactive(
        fields, {"HOME": "/nowhere", "PATH": "/usr/bin:/bin", **environ}, pytest.fail
    )


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


def test_inside_a_headless_run_the_hook_leaves_callbacks_alone(tmp_path: Path) -> None:
    write(tmp_path, {"feishuperm": {"callbacks": [{**COMMAND, "event": "PreToolUse"}]}})
    assert interactive(tmp_path) is not None
    mark = RunMark()
    try:
        inside = {"FEISHUPERM_RUN": mark.path}
        assert interactive(tmp_path, **inside) is None  # the session has just begun
        mark.add("s1")
        assert interactive(tmp_path, **inside) is None
        mark.add("other")
        assert interactive(tmp_path, **inside) is None
    finally:
        mark.remove()
    assert interactive(tmp_path, **inside) is not None


def test_session_that_a_headless_run_did_not_start_keeps_its_guards(
    tmp_path: Path,
) -> None:
    write(tmp_path, {"feishuperm": {"callbacks": [{**COMMAND, "event": "PreToolUse"}]}})
    mark = RunMark()
    try:
        mark.add("outer")
        assert interactive(tmp_path, FEISHUPERM_RUN=mark.path) is not None
    finally:
        mark.remove()
