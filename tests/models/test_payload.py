"""Events are parsed by name, keep every field, and never break on odd ones."""

from __future__ import annotations

import json
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from feishuperm.errors import PayloadError
from feishuperm.models import payload as payloads
from feishuperm.models.payload import (
    PAYLOAD_TYPES,
    HookPayload,
    PermissionRequestPayload,
    PreToolUsePayload,
    ToolPayload,
    parse_payload,
)
from tests.tables import every_row

# The events of the client, as its own binary lists them.
EVENT_NAMES = """
PreToolUse PostToolUse PostToolUseFailure PostToolBatch Notification UserPromptSubmit
UserPromptExpansion SessionStart SessionEnd Stop StopFailure SubagentStart SubagentStop
PreCompact PostCompact PreModelSwitch PostModelSwitch PermissionRequest PermissionDenied
Setup TeammateIdle TaskCreated TaskCompleted Elicitation ElicitationResult ConfigChange
WorktreeCreate WorktreeRemove InstructionsLoaded CwdChanged FileChanged DirectoryAdded
MessageDisplay
"""
EVENTS = EVENT_NAMES.split()

BASE = {
    "session_id": "s-1",
    "transcript_path": "/home/me/.claude/projects/p/s-1.jsonl",
    "cwd": "/home/me/p",
    "permission_mode": "default",
}
REQUEST: dict[str, Any] = {
    **BASE,
    "hook_event_name": "PermissionRequest",
    "tool_name": "Bash",
    "tool_input": {
        "command": "npm run build",
        "timeout": 1.5,
        "nested": {"a": [1, None]},
    },
}

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text() | st.floats(allow_nan=False),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)


def test_the_table_has_the_33_events() -> None:
    assert len(EVENTS) == 33
    assert set(PAYLOAD_TYPES) == set(EVENTS)


@every_row("event", EVENTS)
def test_every_event_has_its_own_type(event: str) -> None:
    """Scenario: Other hook types unaffected."""
    fields = {**REQUEST, "hook_event_name": event, "new_field": {"x": [1]}}
    payload = parse_payload(json.dumps(fields))
    assert type(payload).__name__ == f"{event}Payload"
    assert payload.hook_event_name() == event
    assert payload.session_id() == "s-1"
    assert payload.transcript_path() == BASE["transcript_path"]
    assert payload.fields == fields


def test_payload_with_tool_name_and_input() -> None:
    """Scenario: Payload with tool name and input."""
    payload = PermissionRequestPayload(REQUEST)
    assert payload.tool_name == "Bash"
    assert payload.tool_input == REQUEST["tool_input"]
    assert payload.base.session_id == "s-1"
    assert payload.base.transcript_path == BASE["transcript_path"]
    assert payload.base.hook_event_name == "PermissionRequest"
    assert payload.base.cwd == "/home/me/p"
    assert payload.base.permission_mode == "default"


@every_row("kind", ["bytes", "str", "dict"])
def test_deserializing_permission_request_event_json(kind: str) -> None:
    """Scenario: Deserializing PermissionRequest event JSON."""
    text = json.dumps(REQUEST)
    raw = {"bytes": text.encode(), "str": text, "dict": REQUEST}[kind]
    payload = parse_payload(raw)  # type: ignore[arg-type]
    assert type(payload) is PermissionRequestPayload
    assert payload.fields == REQUEST


def test_accessing_base_payload_fields() -> None:
    """Scenario: Accessing base payload fields."""
    payload = PermissionRequestPayload(REQUEST)
    assert payload.session_id() == "s-1"
    assert payload.transcript_path() == BASE["transcript_path"]
    assert payload.hook_event_name() == "PermissionRequest"


def test_permission_request_variant_in_enum() -> None:
    """Scenario: PermissionRequest variant in enum."""
    assert PAYLOAD_TYPES["PermissionRequest"] is PermissionRequestPayload
    assert issubclass(PermissionRequestPayload, HookPayload)


@pytest.mark.skipif(sys.version_info < (3, 10), reason="no match statement in 3.9")
def test_pattern_matching_on_hook_payload() -> None:
    """Scenario: Pattern matching on hook payload."""
    code = """\
def name(payload):
    match payload:
        case PermissionRequestPayload("Bash", {"command": command}):
            return "bash " + command
        case PermissionRequestPayload(tool_name=tool):
            return "request " + tool
        case ToolPayload(tool_name=tool):
            return "tool " + tool
        case HookPayload():
            return payload.hook_event_name()
"""
    space: dict[str, Any] = dict(vars(payloads))
    exec(code, space)
    name = space["name"]
    assert name(parse_payload(REQUEST)) == "bash npm run build"
    edit = {**REQUEST, "tool_name": "Edit"}
    assert name(parse_payload(edit)) == "request Edit"
    before = {**edit, "hook_event_name": "PreToolUse"}
    assert name(parse_payload(before)) == "tool Edit"
    assert name(parse_payload({"hook_event_name": "Stop"})) == "Stop"


def test_helper_methods_work_on_permission_request() -> None:
    """Scenario: Helper methods work on PermissionRequest."""
    payload: HookPayload = parse_payload(REQUEST)
    answers = (
        payload.session_id(),
        payload.transcript_path(),
        payload.hook_event_name(),
    )
    assert answers == ("s-1", BASE["transcript_path"], "PermissionRequest")


def test_pre_tool_use_hooks_continue_working() -> None:
    """Scenario: PreToolUse hooks continue working."""
    payload = parse_payload({**REQUEST, "hook_event_name": "PreToolUse"})
    assert isinstance(payload, PreToolUsePayload)
    assert not isinstance(payload, PermissionRequestPayload)
    assert payload.tool_name == "Bash"


def test_mixed_hook_types_in_same_session() -> None:
    """Scenario: Mixed hook types in same session."""
    names = ("PermissionRequest", "PreToolUse", "PostToolUse", "PermissionRequest")
    parsed = [parse_payload({**REQUEST, "hook_event_name": name}) for name in names]
    assert [type(payload) for payload in parsed] == [
        PermissionRequestPayload,
        PreToolUsePayload,
        PAYLOAD_TYPES["PostToolUse"],
        PermissionRequestPayload,
    ]
    assert parsed[0] == parsed[3]
    assert parsed[0] != parsed[1]


def test_unknown_event_is_carried_as_a_generic_payload() -> None:
    fields = {**BASE, "hook_event_name": "InventedTomorrow", "x": 1}
    payload = parse_payload(fields)
    assert type(payload) is HookPayload
    assert payload.hook_event_name() == "InventedTomorrow"
    assert payload.session_id() == "s-1"
    assert payload.fields == fields


@given(st.sampled_from([*EVENTS, "Unknown"]), st.dictionaries(st.text(), JSON))
def test_unknown_fields_survive_a_round_trip(event: str, extra: dict[str, Any]) -> None:
    fields = {**extra, **REQUEST, "hook_event_name": event}
    payload = parse_payload(json.dumps(fields))
    again = parse_payload(json.dumps(payload.fields))
    assert again == payload
    assert again.fields == fields


@given(st.binary() | st.text() | st.dictionaries(st.text(), JSON))
def test_anything_is_parsed_or_refused(raw: Any) -> None:
    try:
        payload = parse_payload(raw)
    except PayloadError as error:
        assert "\n" not in str(error)
    else:
        assert payload.hook_event_name()


@given(st.dictionaries(st.sampled_from([*BASE, "tool_name", "tool_input"]), JSON))
def test_fields_of_a_wrong_type_are_empty(fields: dict[str, Any]) -> None:
    payload = parse_payload({**fields, "hook_event_name": "PreToolUse"})
    assert isinstance(payload, ToolPayload)
    assert isinstance(payload.session_id(), str)
    assert isinstance(payload.base.cwd, str)
    assert isinstance(payload.tool_name, str)
    assert isinstance(payload.tool_input, dict)


@every_row(
    ("raw", "text"),
    [
        (b"", "not JSON"),
        (b"\xff\xfe", "not JSON"),
        (b"[" * 100_000, "not JSON"),
        (b"[]", "not a JSON object"),
        (b"null", "not a JSON object"),
        (b"{}", "no hook_event_name"),
        (b'{"hook_event_name": 7}', "no hook_event_name"),
        (b'{"hook_event_name": ""}', "no hook_event_name"),
        (b'{"hook_event_name": "PermissionRequest"}', "without tool_name"),
        (
            b'{"hook_event_name": "PermissionRequest", "tool_name": " "}',
            "without tool_name",
        ),
        (
            b'{"hook_event_name": "PermissionRequest", "tool_name": "Bash"}',
            "without a tool_input",
        ),
    ],
)
def test_unreadable_event_is_refused_in_one_line(raw: bytes, text: str) -> None:
    with pytest.raises(PayloadError, match=text):
        parse_payload(raw)
