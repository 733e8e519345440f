"""Whose event it is: Claude Code's whatever is around it, another's by its marks."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from feishuperm import wire
from feishuperm.agents import recognition
from feishuperm.agents.table import AGENTS, PASSED_OVER
from feishuperm.models.fields import decoded, part_at
from tests.tables import every_row

SESSION = "6f1c2a2e-5b7d-4c53-9c0f-1f6f6f6f0001"
NEWER = "0199aaaa-bbbb-7ccc-8ddd-eeeeffff0001"  # a UUID of version 7
# What a person has who starts another agent from Claude Code's shell.
INHERITED = {b"CLAUDECODE": b"1", b"CLAUDE_PROJECT_DIR": b"/p", b"HOME": b"/home/u"}
SHAPE = {
    "session_id": "x-1",
    "transcript_path": "",
    "cwd": "/p",
    "hook_event_name": "PreToolUse",
    "permission_mode": "default",
    "tool_name": "Bash",
    "tool_input": {"command": "ls"},
}
# host: (fields beside or instead of Claude's own, variables)
FOREIGN: dict[str, tuple[dict[str, Any], dict[bytes, bytes]]] = {
    "Codex": ({"turn_id": "1", "model": "m", "session_id": NEWER}, {}),
    "Codex start": ({"model": "m", "session_id": NEWER}, {}),
    "Codex file": ({"transcript_path": "/home/u/.codex/sessions/2026/x.jsonl"}, {}),
    "Qwen Code": (
        {"timestamp": "2026-11-16T00:00:00Z", "tool_name": "run_shell_command"},
        {b"QWEN_PROJECT_DIR": b"/p", b"GEMINI_PROJECT_DIR": b"/p"},
    ),
    "Copilot CLI": ({"hookName": "PermissionRequest", "sessionId": "1"}, {}),
    "Copilot CLI tool": ({"timestamp": "2026"}, {b"COPILOT_CLI": b"1"}),
    "Grok": ({"hookEventName": "pre_tool_use", "workspaceRoot": "/p"}, {}),
    "Gemini CLI": ({"hook_event_name": "BeforeTool"}, {b"GEMINI_SESSION_ID": b"1"}),
    "droid": ({"permission_mode": "off"}, {b"FACTORY_PROJECT_DIR": b"/p"}),
    "Kimi Code": ({"client_type": "kimi_code_cli"}, {}),
    "Qoder": ({}, {b"QODER_HOOK_SOURCE": b"user"}),
    "Qoder file": ({"transcript_path": "/home/u/.qoder/projects/p/x-1.jsonl"}, {}),
    "Auggie": ({"is_mcp_tool": False}, {}),
    "Letta": ({"event_type": "PreToolUse"}, {}),
    "Cursor": ({"generation_id": "g"}, {}),
    "another agent": ({"timestamp": "2026"}, {}),
}
HOST_VARIABLES = [
    name for row in (*AGENTS.values(), *PASSED_OVER) for name in row.variables
]
ALL_VARIABLES = {**dict.fromkeys(HOST_VARIABLES, b"1"), **INHERITED}


def encoded(**fields: Any) -> bytes:
    return json.dumps({**SHAPE, **fields}).encode()


def is_foreign(raw: bytes, environ: dict[bytes, bytes]) -> bool:
    """What client and supervisor ask, without the line in the log."""
    return not wire.is_claude(raw, environ) and bool(whose(raw, environ))


def whose(raw: bytes, environ: dict[bytes, bytes]) -> str:
    fields = part_at(decoded(raw))
    is_claude = recognition.is_claude(fields, environ)
    return "" if is_claude else recognition.foreign_agent(fields, environ)


@every_row("name", FOREIGN)
def test_foreign_event_is_told_by_its_marks_though_it_inherits_claudes_variables(
    name: str,
) -> None:
    fields, variables = FOREIGN[name]
    raw, environ = encoded(**fields), {**INHERITED, **variables}
    assert is_foreign(raw, environ)
    assert whose(raw, environ) in name


@every_row("name", FOREIGN)
def test_claudes_session_variable_of_another_session_does_not_make_it_claude(
    name: str,
) -> None:
    fields, variables = FOREIGN[name]
    environ = {**INHERITED, **variables, b"CLAUDE_CODE_SESSION_ID": SESSION.encode()}
    assert is_foreign(encoded(**fields), environ)


@every_row("compact", [True, False])
def test_claude_is_served_whatever_stands_in_the_environment(compact: bool) -> None:
    """Started from another agent's shell, it has that agent's variables."""
    path = f"/home/u/.claude/projects/-p/{SESSION}.jsonl"
    fields = {**SHAPE, "session_id": SESSION, "transcript_path": path, "timestamp": 1}
    separators = (",", ":") if compact else None
    by_place = json.dumps(fields, separators=separators).encode()
    assert wire.is_claude(by_place, ALL_VARIABLES)
    assert not is_foreign(by_place, ALL_VARIABLES)
    fields["transcript_path"] = "/elsewhere"
    by_session = json.dumps(fields, separators=separators).encode()
    environ = {**ALL_VARIABLES, b"CLAUDE_CODE_SESSION_ID": SESSION.encode()}
    assert wire.is_claude(by_session, environ)
    assert not is_foreign(by_session, environ)


def test_claudes_folder_may_be_elsewhere_and_behind_a_link(tmp_path: Path) -> None:
    (tmp_path / "real" / "projects").mkdir(parents=True)
    (tmp_path / "link").symlink_to("real")
    path = str(tmp_path / "real" / "projects" / "-p" / f"{SESSION}.jsonl")
    raw = encoded(session_id=SESSION, transcript_path=path)
    environ = {**ALL_VARIABLES, b"CLAUDE_CONFIG_DIR": os.fsencode(tmp_path / "link")}
    assert not wire.is_claude(raw, environ)  # by bytes alone
    assert not is_foreign(raw, environ)


@every_row(
    "path",
    [
        f"/home/u/.claude/projects/-p/other-{SESSION}.jsonl.x",
        f"/home/u/.claude/projects-of-mine/-p/{SESSION}.jsonl",
        f"/home/u/.claude/projects/../../.qwen/{SESSION}.jsonl",
        "",
    ],
)
def test_transcript_of_another_name_or_place_is_not_claudes(path: str) -> None:
    raw = encoded(session_id=SESSION, transcript_path=path)
    fields = json.loads(raw)
    assert not recognition.is_claude(fields, ALL_VARIABLES)


def test_who_bears_no_mark_is_served() -> None:
    for raw in (encoded(), b"", b"no json"):
        assert not is_foreign(raw, INHERITED)


def test_mark_inside_a_tools_input_is_no_mark() -> None:
    raw = encoded(tool_input={"timestamp": 1, "turn_id": 2, "model": "m"})
    assert not is_foreign(raw, INHERITED)


def test_model_alone_is_no_mark() -> None:
    assert not is_foreign(encoded(model="m", session_id=SESSION), INHERITED)


@given(st.binary(max_size=300), st.sampled_from(["", *FOREIGN]))
def test_no_bytes_make_the_look_fail(data: bytes, name: str) -> None:
    fields, variables = FOREIGN.get(name, ({}, {}))
    for raw in (data, encoded(**fields)[: len(data)], data + encoded(**fields)):
        wire.is_claude(raw, {**INHERITED, **variables})
        whose(raw, {**INHERITED, **variables})


@given(st.text(), st.text())
def test_first_text_is_the_value_json_gives_or_nothing(key: str, value: str) -> None:
    for separators in ((",", ":"), (", ", ": ")):
        raw = json.dumps({"session_id": value, "k": key}, separators=separators)
        assert wire.first_text(raw.encode(), b"session_id") in (b"", value.encode())


def test_log_has_one_line_a_day_for_a_host(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    raw = encoded(**FOREIGN["Grok"][0])
    log = tmp_path / "feishuperm" / "feishuperm.log"
    for _ in range(3):
        assert recognition.should_ignore(raw, INHERITED)
    assert log.read_text().count("Grok runs the hooks") == 1
    stamp = tmp_path / "feishuperm" / "host-grok"
    os.utime(stamp, (0, 0))
    assert recognition.should_ignore(raw, INHERITED)
    assert log.read_text().count("Grok runs the hooks") == 2


def test_state_folder_that_cannot_be_written_harms_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", "/dev/null/x")
    assert recognition.should_ignore(encoded(**FOREIGN["Kimi Code"][0]), INHERITED)
