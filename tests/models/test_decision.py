"""The exact output of every decision."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from feishuperm.messages import text
from feishuperm.models.decision import Decision
from tests.tables import every_row


def output(decision: dict[str, Any]) -> dict[str, Any]:
    return {
        "hookSpecificOutput": {
            "hookEventName": "PermissionRequest",
            "decision": decision,
        }
    }


RULES = (("Bash", "npm run build"), ("WebSearch", ""))


@every_row(
    ("decision", "expected"),
    [
        (Decision.allow(), {"behavior": "allow"}),
        (
            Decision.allow(updated_input={"a": 1}),
            {"behavior": "allow", "updatedInput": {"a": 1}},
        ),
        (
            Decision.allow(updated_input={}),
            {"behavior": "allow", "updatedInput": {}},
        ),
        (
            Decision.allow(updated_rules=RULES),
            {
                "behavior": "allow",
                "updatedPermissions": [
                    {
                        "type": "addRules",
                        "rules": [
                            {"toolName": "Bash", "ruleContent": "npm run build"},
                            {"toolName": "WebSearch"},
                        ],
                        "behavior": "allow",
                        "destination": "session",
                    }
                ],
            },
        ),
        (Decision.deny(), {"behavior": "deny"}),
        (
            Decision.deny(text("zh", "Denied by the user in Feishu")),
            {"behavior": "deny", "message": "用户通过飞书拒绝"},
        ),
        (
            Decision.deny(
                text("zh", "Denied by the user in Feishu: {reason}", reason="不行")
            ),
            {"behavior": "deny", "message": "用户通过飞书拒绝：不行"},
        ),
        (
            Decision.deny(
                text("zh", "Denied and interrupted by the user in Feishu"),
                interrupt=True,
            ),
            {
                "behavior": "deny",
                "message": "用户通过飞书拒绝并中断",
                "interrupt": True,
            },
        ),
        (
            Decision.deny(
                text("zh", "Permission request timed out, denied automatically")
            ),
            {"behavior": "deny", "message": "权限请求超时，自动拒绝"},
        ),
    ],
)
def test_hook_output(decision: Decision, expected: dict[str, Any]) -> None:
    """Scenario: 决策模型独立"""
    assert decision.to_hook_output() == output(expected)
    assert json.loads(decision.to_stdout()) == output(expected)


def test_allow_prints_the_documented_line() -> None:
    assert Decision.allow().to_stdout() == (
        b'{"hookSpecificOutput": {"hookEventName": "PermissionRequest", '
        b'"decision": {"behavior": "allow"}}}\n'
    )


def test_chinese_is_printed_as_it_is() -> None:
    assert "用户通过飞书拒绝".encode() in Decision.deny("用户通过飞书拒绝").to_stdout()


@given(st.text(st.characters(), min_size=1), st.booleans())
def test_stdout_is_one_object_on_one_line(message: str, interrupt: bool) -> None:
    """Any text at all, half a surrogate pair included: the client's own check holds."""
    line = Decision.deny(message, interrupt).to_stdout()
    assert line[:1] == b"{"
    assert line[-1:] == b"\n"
    assert line.count(b"\n") == 1
    decision = json.loads(line)["hookSpecificOutput"]["decision"]
    assert decision["message"] == message
