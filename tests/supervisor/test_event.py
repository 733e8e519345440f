"""An event as the supervisor sees it, and its two formats of an answer."""

from __future__ import annotations

from typing import Any

from feishuperm.supervisor.supervisor import MAX_MESSAGE, Event
from tests.tables import every_row

STOP = {"hook_event_name": "Stop", "session_id": "s", "transcript_path": "/t"}
QUESTION = {
    "hook_event_name": "PreToolUse",
    "tool_name": "AskUserQuestion",
    "tool_input": {"questions": []},
}


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


def test_reviewer_sees_what_kind_of_subagent_stops() -> None:
    fields = {**STOP, "hook_event_name": "SubagentStop", "agent_type": "Explore"}
    assert Event(fields).material()["agent_type"] == "Explore"
    main = Event({**fields, "hook_event_name": "Stop"})
    assert "agent_type" not in main.material()


def test_reviewer_sees_the_question_or_both_ends_of_the_last_message() -> None:
    assert Event(QUESTION).material()["tool_input"] == {"questions": []}
    long = "start" + "x" * MAX_MESSAGE + "end"
    message = Event({**STOP, "last_assistant_message": long}).material()
    kept = message["last_assistant_message"]
    assert kept.startswith("start") and kept.endswith("end")
    assert len(kept) < MAX_MESSAGE + 20
