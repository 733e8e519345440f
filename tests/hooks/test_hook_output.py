"""Several answers become one, in the words that the client obeys."""

from __future__ import annotations

from typing import Any

from feishuperm.hooks.hook_manager import decided, for_client, merge, without_allow
from tests.hooks.parts import CONTINUE
from tests.tables import every_row


def denies(reason: str, decision: str = "deny") -> dict[str, Any]:
    said = {"permissionDecision": decision, "permissionDecisionReason": reason}
    return {"hookSpecificOutput": {"hookEventName": "PreToolUse", **said}}


def refuses(message: str) -> dict[str, Any]:
    decision = {"behavior": "deny", "message": message}
    return {"hookSpecificOutput": {"decision": decision}}


@every_row(
    ("outputs", "expected"),
    [
        ([], {}),
        ([CONTINUE, CONTINUE], CONTINUE),
        (
            [{"decision": "block", "reason": "a"}, {"continue": True, "reason": "no"}],
            {"decision": "block", "reason": "a", "continue": True},
        ),
        (
            [
                {"decision": "block", "reason": "a"},
                {"decision": "block", "reason": "b"},
            ],
            {"decision": "block", "reason": "a\nb"},
        ),
        (
            [
                {"decision": "block", "reason": "a"},
                {"decision": "approve", "reason": "b"},
            ],
            {"decision": "block", "reason": "a"},
        ),
        (
            [{"systemMessage": "a"}, CONTINUE, {"systemMessage": "b"}],
            {"systemMessage": "a\nb", "continue": True},
        ),
        (
            [{"continue": False, "stopReason": "x"}, CONTINUE],
            {"continue": False, "stopReason": "x"},
        ),
        (
            [
                {
                    "hookSpecificOutput": {
                        "permissionDecision": "deny",
                        "updatedInput": 1,
                    }
                },
                {
                    "hookSpecificOutput": {
                        "permissionDecision": "allow",
                        "updatedInput": 2,
                    }
                },
                {"hookSpecificOutput": {"additionalContext": "c"}},
                {"hookSpecificOutput": {"additionalContext": "d"}},
            ],
            {
                "hookSpecificOutput": {
                    "permissionDecision": "deny",
                    "updatedInput": 2,
                    "additionalContext": "c\nd",
                }
            },
        ),
        (
            [
                {"hookSpecificOutput": {"decision": {"behavior": "deny"}}},
                {"hookSpecificOutput": {"decision": {"behavior": "allow"}}},
            ],
            {"hookSpecificOutput": {"decision": {"behavior": "deny"}}},
        ),
        ([{"async": True, "asyncTimeout": 3}], {"async": True, "asyncTimeout": 3}),
        (
            [{"decision": "block", "reason": "a"}, {"async": True, "asyncTimeout": 3}],
            {"decision": "block", "reason": "a"},
        ),
        ([{"decision": "block", "async": True}], {"decision": "block"}),
        ([{**denies("a"), "async": True}], denies("a")),
        ([CONTINUE, {"async": True}], CONTINUE),
        ([denies("a"), denies("b")], denies("a\nb")),
        ([denies("a"), denies("b", "ask")], denies("a")),
        ([denies("b", "ask"), denies("a")], denies("a")),
        (
            [refuses("a"), refuses("b")],
            refuses("a\nb"),
        ),
        (
            [
                denies("a"),
                refuses("b"),
                {"hookSpecificOutput": {"permissionDecision": "allow"}},
            ],
            {
                "hookSpecificOutput": {
                    **denies("a")["hookSpecificOutput"],
                    **refuses("b")["hookSpecificOutput"],
                }
            },
        ),
    ],
)
def test_block_wins_messages_join_last_input_stays(
    outputs: list[dict[str, Any]], expected: dict[str, Any]
) -> None:
    assert merge(outputs) == expected


@every_row(
    ("event", "specific"),
    [
        (
            "PreToolUse",
            {"permissionDecision": "deny", "permissionDecisionReason": "r"},
        ),
        ("PermissionRequest", {"decision": {"behavior": "deny", "message": "r"}}),
        ("Stop", None),
        ("PostToolUse", None),
    ],
)
def test_block_is_said_in_the_words_of_the_event(event: str, specific: Any) -> None:
    output = for_client(event, {"decision": "block", "reason": "r"})
    assert output["decision"] == "block" and output["reason"] == "r"
    wanted = {"hookEventName": event, **specific} if specific else None
    assert output.get("hookSpecificOutput") == wanted
    assert for_client(event, CONTINUE) == CONTINUE


def test_reasons_of_a_script_and_of_a_command_reach_the_client_together() -> None:
    command = {"decision": "block", "reason": "b"}
    output = for_client("PreToolUse", merge([denies("a"), command]))
    said = output["hookSpecificOutput"]["permissionDecisionReason"]
    assert said.split("\n") == ["b", "a"]
    output = for_client("PreToolUse", merge([denies("a", "ask"), command]))
    assert output["hookSpecificOutput"]["permissionDecisionReason"] == "b"
    output = for_client("PermissionRequest", merge([refuses("a"), command]))
    assert output["hookSpecificOutput"]["decision"]["message"] == "b\na"


def says(**specific: Any) -> dict[str, Any]:
    return {"hookSpecificOutput": {"hookEventName": "PreToolUse", **specific}}


@every_row(
    ("output", "kept", "decision"),
    [
        (CONTINUE, CONTINUE, ""),
        ({"systemMessage": "x"}, {"systemMessage": "x"}, ""),
        ({"decision": "approve", "reason": "x"}, {"reason": "x"}, "allow"),
        ({"decision": "block"}, {"decision": "block"}, "block"),
        ({"continue": False}, {"continue": False}, "stop"),
        (
            says(permissionDecision="allow", updatedInput={"a": 1}),
            says(updatedInput={"a": 1}),
            "allow",
        ),
        (says(permissionDecision="defer"), says(), "defer"),
        (denies("no"), denies("no"), "deny"),
        (denies("?", "ask"), denies("?", "ask"), "ask"),
        (says(decision={"behavior": "allow"}), says(), "allow"),
    ],
)
def test_callback_of_a_project_may_refuse_and_never_allow(
    output: dict[str, Any], kept: dict[str, Any], decision: str
) -> None:
    assert decided(output) == decision
    assert without_allow(output) == kept
