"""An event as the supervisor sees it, and its two formats of an answer."""

from __future__ import annotations

from typing import Any

from feishuperm.supervisor.supervisor import (
    CAP_VARIABLE,
    DEFAULT_CAP,
    MAX_MESSAGE,
    Event,
    client_cap,
)
from tests.tables import every_row

STOP = {"hook_event_name": "Stop", "session_id": "s", "transcript_path": "/t"}
QUESTION = {
    "hook_event_name": "PreToolUse",
    "tool_name": "AskUserQuestion",
    "tool_input": {"questions": []},
}


@every_row(
    ("value", "cap"),
    [("", 8), ("12", 12), ("0", 0), ("x", 8), ("-1", 8), ("１２", 8)],
)
def test_cap_is_read_as_the_client_reads_it(value: str, cap: int) -> None:
    assert client_cap({CAP_VARIABLE: value}) == cap
    assert client_cap({}) == DEFAULT_CAP


@every_row("value", ["9" * 5000, "²"])
def test_cap_that_no_machine_can_count_to_is_the_default(value: str) -> None:
    """It may come from a repository's settings."""
    assert client_cap({CAP_VARIABLE: value}) == DEFAULT_CAP


@every_row(
    ("fields", "name", "ours"),
    [
        (STOP, "Stop", True),
        ({"hook_event_name": "SubagentStop"}, "SubagentStop", True),
        (QUESTION, "PreToolUse", True),
        ({}, "Stop", True),
        ({"tool_name": "AskUserQuestion"}, "PreToolUse", True),
        ({"tool_name": "Bash"}, "PreToolUse", False),
        ({"hook_event_name": "PostToolUse"}, "PostToolUse", False),
        ({"hook_event_name": 7, "tool_name": ["x"]}, "Stop", True),
    ],
)
def test_event_is_named_and_ours_or_not(
    fields: dict[str, Any], name: str, ours: bool
) -> None:
    event = Event(fields)
    assert (event.name, event.concerns_us()) == (name, ours)


def test_stop_is_answered_in_the_format_of_stops() -> None:
    event = Event(STOP)
    assert event.allow("good") == {}
    assert event.allow("good", "limit reached") == {"systemMessage": "limit reached"}
    assert event.block("more") == {"decision": "block", "reason": "more"}


def test_question_is_answered_in_the_format_of_tools() -> None:
    event = Event(QUESTION)
    for answer, decision in (
        (event.allow("why"), "allow"),
        (event.block("why"), "deny"),
    ):
        assert answer == {
            "hookSpecificOutput": {
                "hookEventName": "PreToolUse",
                "permissionDecision": decision,
                "permissionDecisionReason": "why",
            }
        }
    told = event.allow(notice="limit")["hookSpecificOutput"]
    assert told["permissionDecisionReason"] == "limit"


@every_row(
    ("tasks", "works"),
    [
        ([{"status": "running"}], True),
        ([{"status": "pending"}], True),
        ([{}], True),
        (["odd"], True),
        ([{"status": "completed"}], False),
        ([], False),
        (None, False),
        ("running", False),
    ],
)
def test_stop_with_a_task_that_goes_on_is_none(tasks: Any, works: bool) -> None:
    fields = {**STOP, "background_tasks": tasks}
    assert Event(fields).still_working() is works
    assert not Event({**fields, "hook_event_name": "SubagentStop"}).still_working()


def test_subagent_is_counted_by_itself_with_its_own_transcript() -> None:
    fields = {
        **STOP, "hook_event_name": "SubagentStop", "agent_id": "a",
        "agent_transcript_path": "/a", "agent_type": "Explore",
        "stop_hook_active": False,
    }  # fmt: skip
    event = Event(fields)
    assert (event.row().agent, event.row().transcript, event.row().fresh) == (
        ("a", "/a", True)
    )
    assert event.material()["agent_type"] == "Explore"
    main = Event({**fields, "hook_event_name": "Stop"})
    assert (main.row().agent, main.row().transcript) == ("", "/t")
    assert "agent_type" not in main.material()


def test_reviewer_sees_the_question_or_both_ends_of_the_last_message() -> None:
    assert Event(QUESTION).material()["tool_input"] == {"questions": []}
    long = "start" + "x" * MAX_MESSAGE + "end"
    message = Event({**STOP, "last_assistant_message": long}).material()
    kept = message["last_assistant_message"]
    assert kept.startswith("start") and kept.endswith("end")
    assert len(kept) < MAX_MESSAGE + 20
