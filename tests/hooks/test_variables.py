"""Placeholders: where their values come from, and how they are handed over."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from feishuperm.hooks import hook_manager
from feishuperm.hooks.hook_manager import HookManager
from feishuperm.hooks.variables import (
    VARIABLES,
    expand_prompt,
    used_variables,
    variables,
)
from feishuperm.models.hooks import HookCallback
from tests.hooks.hostile import CORPUS
from tests.tables import every_row


def test_variables_come_from_the_event() -> None:
    """Scenario: 变量替换支持"""
    values = variables(
        {
            "hook_event_name": "PreToolUse",
            "session_id": "s",
            "cwd": "/p",
            "tool_name": "Edit",
            "tool_input": {"file_path": "/p/a.py", "command": 3},
            "agent_id": "a1",
            "prompt_id": "u",
        }
    )
    assert set(values) == set(VARIABLES)
    shown = {name: value for name, value in values.items() if value}
    assert shown == {
        "EVENT": "PreToolUse",
        "SESSION_ID": "s",
        "CWD": "/p",
        "TOOL": "Edit",
        "FILE": "/p/a.py",
        "AGENT": "a1",
        "MESSAGE_UUID": "u",
    }


@every_row("tool_input", [None, [], "text", {"file_path": {}}])
def test_odd_tool_input_leaves_variables_empty(tool_input: object) -> None:
    assert variables({"tool_input": tool_input})["FILE"] == ""


def test_prompt_is_expanded_once_and_keeps_unknown_names() -> None:
    values = {"FILE": "$TOOL", "TOOL": "T\\1&", "TOOL_USE_ID": "id"}
    template = "$FILE ${TOOL} $TOOL_USE_ID $TOOLX $HOME $ $1 ${FILE"
    assert expand_prompt(template, values) == "$TOOL T\\1& id $TOOLX $HOME $ $1 ${FILE"


def test_used_variables_ignores_other_names() -> None:
    assert used_variables("${COMMAND#x} ${#PROMPT}") == {"COMMAND", "PROMPT"}
    assert used_variables("$FILE ${TOOL} $HOME $FILEX") == {"FILE", "TOOL"}


def test_every_hostile_event_passes_through_the_engine_unharmed(tmp_path: Path) -> None:
    """Hostile `$FILE`, `$COMMAND` and `$CWD` in one command callback."""
    complaints: list[str] = []
    environ = {"PATH": "/usr/bin:/bin"}
    manager = HookManager(str(tmp_path), environ, complaints.append)
    command = "printf '%s|%s|%s' $FILE \"$COMMAND\" '$CWD' >&2; exit 1"
    callback = HookCallback("command", command)
    for value in CORPUS[::3]:
        event = {
            "hook_event_name": "PreToolUse",
            "cwd": value,
            "tool_input": {"file_path": value, "command": value},
        }
        output = manager.execute_command(callback, event)
        clean = value.replace("\0", "").encode("utf-8", "surrogatepass")
        path = b"./" + clean if clean.startswith(b"-") else clean  # never an option
        reason = b"|".join((path, clean, path)).strip().decode(errors="replace")
        assert output == {"decision": "block", "reason": reason[:10000]}
    assert os.listdir(tmp_path) == []
    assert all("NUL characters; removed" in complaint for complaint in complaints)


def test_command_blocks_when_a_value_it_uses_cannot_be_handed_over(
    tmp_path: Path,
) -> None:
    manager = HookManager(str(tmp_path), {"PATH": "/usr/bin:/bin"}, pytest.fail)
    long = "x" * (hook_manager.MAX_VALUE + 1)
    event = {"tool_input": {"command": long, "file_path": "a"}}
    guard = manager.execute_command(HookCallback("command", "test $COMMAND"), event)
    assert guard["decision"] == "block" and "$COMMAND" in guard["reason"]
    text = 'case "${COMMAND#x}" in *rm*) exit 1;; esac'
    guard = manager.execute_command(HookCallback("command", text), event)
    assert guard["decision"] == "block" and "$COMMAND" in guard["reason"]
    other = manager.execute_command(HookCallback("command", "test $FILE = a"), event)
    assert other == {"continue": True}


def test_value_that_is_not_handed_over_leaves_no_other_in_its_place(
    tmp_path: Path,
) -> None:
    environ = {"PATH": "/usr/bin:/bin", "COMMAND": "outer"}
    manager = HookManager(str(tmp_path), environ, pytest.fail)
    long = "x" * (hook_manager.MAX_VALUE + 1)
    event = {"tool_input": {"command": long}}
    callback = HookCallback("command", "! env | grep outer")
    assert manager.execute_command(callback, event) == {"continue": True}
