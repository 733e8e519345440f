"""Claude Code's settings: each fault is found, and mended where it stands."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from feishuperm.app.health import FAIL, OK, WARN
from feishuperm.lib import config
from feishuperm.setup.claude_settings import KIND_EVENTS, guarded
from tests.setup.patient import HOOK, Patient, fixes, states

OURS = {"PermissionRequest": [{"matcher": "*", "hooks": [HOOK]}]}


def test_settings_that_do_not_parse(patient: Patient) -> None:
    patient.settings.write_text("{ // no")
    assert states(patient, "claude settings") == FAIL


@pytest.mark.parametrize(
    ("change", "state"),
    [
        ({"timeout": 59}, FAIL),
        ({"timeout": "60"}, FAIL),
        ({"timeout": 600}, OK),
        ({"command": "/nonexistent/feishuperm-hook"}, FAIL),
        ({"command": "other"}, FAIL),
        ({"command": "A=1 feishuperm-hook"}, OK),
        ({"command": "A=1 B='x y' /nonexistent/feishuperm-hook"}, FAIL),
        ({"command": "PATH=/nonexistent feishuperm-hook"}, FAIL),
        ({"command": "$HOME/feishuperm-hook"}, OK),
        ({"command": "~/bin/feishuperm-hook"}, FAIL),
    ],
)
def test_hook_entry(patient: Patient, change: dict[str, Any], state: str) -> None:
    groups = patient.settings_value["hooks"]["PermissionRequest"]
    groups[0]["hooks"] = [{**HOOK, **change}]
    patient.write_settings()
    assert states(patient, "hooks") == state


@pytest.mark.parametrize(("timeout", "state"), [(359, WARN), (360, OK)])
def test_hook_that_would_end_before_somebody_has_read(
    patient: Patient, timeout: int, state: str
) -> None:
    patient.write_config(PERMISSION_HOLD="300")
    groups = patient.settings_value["hooks"]["PermissionRequest"]
    groups[0]["hooks"] = [{**HOOK, "timeout": timeout}]
    patient.write_settings()
    assert states(patient, "hooks") == state


def test_hook_for_some_tools_only(patient: Patient) -> None:
    patient.settings_value["hooks"]["PermissionRequest"][0]["matcher"] = "Bash"
    patient.write_settings()
    assert states(patient, "hooks") == WARN


def test_hook_registered_twice_asks_twice_unless_it_is_the_same(
    patient: Patient,
) -> None:
    groups = patient.settings_value["hooks"]["PermissionRequest"]
    groups *= 2
    patient.write_settings()
    assert states(patient, "hooks") == OK  # the client runs equal commands once
    groups[1] = {**groups[0], "hooks": [{**HOOK, "command": "A=1 feishuperm-hook"}]}
    patient.write_settings()
    assert states(patient, "hooks") == WARN


@pytest.mark.parametrize(
    ("managed", "registered", "state"),
    [
        ({}, True, OK),
        ({"allowManagedHooksOnly": True}, True, FAIL),
        ({"disableAllHooks": True}, True, FAIL),
        ({"allowManagedHooksOnly": True, "hooks": OURS}, False, OK),
        ({"hooks": OURS}, True, OK),
        ("{ // no", True, WARN),
    ],
)
def test_settings_of_an_administrator(
    patient: Patient,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    managed: Any,
    registered: bool,
    state: str,
) -> None:
    for name in ("MANAGED", "MANAGED_ON_MAC"):
        monkeypatch.setattr(config, name, str(tmp_path))
    text = managed if isinstance(managed, str) else json.dumps(managed)
    (tmp_path / "managed-settings.json").write_text(text)
    if not registered:
        patient.settings_value["hooks"] = {}
        patient.write_settings()
    assert states(patient, "hooks") == state


def test_session_that_is_followed_in_part(patient: Patient) -> None:
    def put(events: list[str]) -> None:
        entry = {"type": "command", "command": "feishuperm-hook session"}
        patient.settings_value["hooks"].update(
            {event: [{"hooks": [entry]}] for event in events}
        )
        patient.write_settings()

    put(["Stop", "PreToolUse"])
    assert states(patient, "hooks") == WARN
    assert "feishuperm install --events session" in fixes(patient, "hooks")
    put([event for event, *_ in KIND_EVENTS["session"]])
    assert states(patient, "hooks") == OK


def test_hooks_disabled(patient: Patient) -> None:
    patient.settings_value["disableAllHooks"] = True
    patient.write_settings()
    assert states(patient, "hooks") == FAIL


@pytest.mark.parametrize(
    ("mode", "state"),
    [("auto", WARN), ("bypassPermissions", WARN), ("acceptEdits", OK), (None, WARN)],
)
def test_permission_mode(patient: Patient, mode: str | None, state: str) -> None:
    patient.settings_value["permissions"] = {"defaultMode": mode} if mode else {}
    patient.write_settings()
    assert states(patient, "permission mode") == state


def test_auto_mode_with_rules_that_ask_is_told_in_one_line(patient: Patient) -> None:
    patient.settings_value["permissions"] = {"ask": ["Bash(git push *)", "Read(x)"]}
    patient.write_settings()
    [(state, text, _)] = patient.examine("permission mode")
    assert state == OK
    assert text.startswith("auto mode: asks only its own questions")
    assert "what permissions.ask names (2)" in text
    patient.settings_value["permissions"]["defaultMode"] = "dontAsk"
    patient.write_settings()
    assert states(patient, "permission mode") == WARN


@pytest.mark.parametrize("ask", [5, {}, [1], None])
def test_ask_list_that_is_none_is_no_trouble(patient: Patient, ask: object) -> None:
    patient.settings_value["permissions"]["ask"] = ask
    patient.write_settings()
    assert states(patient, "permission mode") == OK


def test_project_settings_win_over_the_user_s(patient: Patient) -> None:
    folder = patient.home / "project/.claude"
    folder.mkdir(parents=True)
    (folder / "settings.local.json").write_text(
        '{"permissions": {"defaultMode": "auto"}}'
    )
    assert states(patient, "permission mode") == WARN


def test_vs_code_is_told_about(patient: Patient) -> None:
    patient.environ["TERM_PROGRAM"] = "vscode"
    assert states(patient, "permission mode") == WARN


def test_hook_of_user_and_project_leaves_the_project(patient: Patient) -> None:
    path = patient.home / "project/.claude/settings.json"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps({"hooks": patient.settings_value["hooks"]}))
    assert states(patient, "hooks") == OK  # the client runs equal commands once
    entry = {**HOOK, "command": guarded("feishuperm-hook")}
    groups = [{"matcher": "*", "hooks": [entry]}]
    path.write_text(json.dumps({"hooks": {"PermissionRequest": groups}}))
    assert fixes(patient, "hooks") == [f"edit {path}: remove feishuperm-hook"]


def test_broken_hook_of_a_project_is_mended_there(patient: Patient) -> None:
    patient.settings.unlink()
    path = patient.home / "project/.claude/settings.json"
    path.parent.mkdir(parents=True)
    groups = [{"matcher": "*", "hooks": [{**HOOK, "timeout": 5}]}]
    path.write_text(json.dumps({"hooks": {"PermissionRequest": groups}}))
    folder = patient.home / "project"
    install = f"cd {folder} && feishuperm install --project --shared"
    assert fixes(patient, "hooks") == [install]
