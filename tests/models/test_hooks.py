"""Events and matchers as the real client has them."""

from __future__ import annotations

from feishuperm.models.hooks import (
    HOOK_EVENTS,
    MARKED,
    SDK_NOTES,
    TYPESCRIPT,
    HookCallback,
    HookGroup,
    HooksConfig,
    matcher_problem,
    matches,
)
from tests.tables import every_row

STANDARD = (
    *("PreToolUse", "PostToolUse", "UserPromptSubmit"),
    *("Stop", "SubagentStop", "PreCompact"),
)
MARKED_BY_THE_SPEC = (
    *("PostToolUseFailure", "SubagentStart", "PermissionRequest"),
    *("SessionStart", "SessionEnd", "Notification"),
)


def test_the_twelve_events_of_the_specification_are_there_with_their_marks() -> None:
    """Requirement: 完整 Hook 事件支持; Scenario: 支持所有标准事件"""
    assert {*STANDARD, *MARKED_BY_THE_SPEC} <= set(HOOK_EVENTS)
    assert set(SDK_NOTES) == set(MARKED_BY_THE_SPEC)
    assert set(SDK_NOTES.values()) == {MARKED, TYPESCRIPT}


def test_every_event_of_the_client_has_a_row() -> None:
    assert len(HOOK_EVENTS) == 33


@every_row(
    ("matcher", "value", "expected"),
    [
        ("Bash", "Bash", True),
        ("Edit|Write", "Write", True),
        ("Edit,Write", "Write", True),
        ("Edit, Bash", "Bash", True),
        ("Edit | Bash", "Bash", True),
        ("*", "Bash", True),
        ("", "Bash", True),
        (".*", "Bash", True),
        ("Ba.*", "Bash", True),
        ("^Bash$", "Bash", True),
        ("mcp__lab__.*", "mcp__lab__echo", True),
        ("mcp__.*__echo", "mcp__lab__echo", True),
        ("^(?!Bash)", "Edit", True),
        ("mcp__my-server__x", "mcp__my-server__x", True),
        ("^(?!Bash)", "Bash", False),
        ("bash", "Bash", False),
        ("Edit", "NotebookEdit", False),
        ("mcp__lab", "mcp__lab__echo", False),
        ("Bash(npm *)", "Bash", False),
        ("[bad", "Bash", False),
    ],
)
def test_matchers_fit_as_in_the_client(
    matcher: str, value: str, expected: bool
) -> None:
    assert matches(matcher, value) is expected


@every_row("matcher", ["(" * 5000 + ")" * 5000, "x{99999999999999999999}"])
def test_matcher_that_python_cannot_read_never_fits_and_ends_nothing(
    matcher: str,
) -> None:
    assert matcher_problem(matcher)
    assert not matches(matcher, "Bash")


def test_invalid_matcher_is_told_and_star_is_none() -> None:
    assert "[bad" in matcher_problem("[bad")
    assert matcher_problem("*") == matcher_problem("") == matcher_problem("A|B") == ""


@every_row(
    ("fields", "expected"),
    [
        ({"hook_event_name": "PreToolUse", "tool_name": "Bash"}, True),
        ({"hook_event_name": "PreToolUse", "tool_name": "Edit"}, False),
        ({"hook_event_name": "PermissionRequest", "tool_name": "Bash"}, True),
        ({"hook_event_name": "Stop"}, True),
        ({"hook_event_name": "Stop", "tool_name": "Edit"}, True),
        ({"hook_event_name": "SubagentStop", "agent_type": "Bash"}, True),
        ({"hook_event_name": "SubagentStop", "agent_type": "other"}, False),
        ({"hook_event_name": "Notification", "notification_type": "x"}, False),
        ({"hook_event_name": "FileChanged", "file_path": "/a/b/Bash"}, True),
        ({"hook_event_name": "FromTheFuture", "tool_name": "Bash"}, True),
        ({"hook_event_name": "FromTheFuture", "tool_name": "Edit"}, False),
        ({"hook_event_name": "PreToolUse", "tool_name": ["odd"]}, True),
        ({}, True),
    ],
)
def test_group_compares_the_field_of_its_event(
    fields: dict[str, object], expected: bool
) -> None:
    assert HookGroup("Bash", ()).matches(fields) is expected


def test_config_keeps_the_order_of_groups_and_is_false_when_empty() -> None:
    one, two = HookGroup("A", ()), HookGroup("B", [HookCallback("prompt", "x")])
    config = HooksConfig([("Stop", one), ("PreToolUse", two), ("Stop", two)])
    assert config and not HooksConfig()
    assert config["Stop"] == [one, two] and config["Setup"] == []
    assert list(config) == ["Stop", "PreToolUse"]
    assert list(config.pairs())[1] == ("Stop", two)
