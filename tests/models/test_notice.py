"""Which events make a notice, and what it says."""

from __future__ import annotations

import json
from typing import Any

from feishuperm.models.ask import NOTICES
from feishuperm.models.names import NOTICE_EVENTS
from feishuperm.models.payload import parse_payload
from tests.tables import every_row


def said(event: str, **fields: Any) -> str:
    raw = {"hook_event_name": event, "session_id": "s", "cwd": "/p", **fields}
    return NOTICE_EVENTS[event].text(parse_payload(json.dumps(raw).encode()))


@every_row(
    ("event", "fields", "text"),
    [
        ("Stop", {"last_assistant_message": "done"}, "done"),
        ("StopFailure", {"error": "rate_limit", "error_details": "429"}, "429"),
        ("StopFailure", {"error": "rate_limit", "error_details": ""}, "rate_limit"),
        (
            "PostToolUseFailure",
            {"tool_name": "Bash", "error": "exit 1"},
            "Bash: exit 1",
        ),
        ("Notification", {"title": "t", "message": "waits for you"}, "waits for you"),
        ("Notification", {"title": "t"}, "t"),
    ],
)
def test_first_field_that_holds_text_is_told(
    event: str, fields: dict[str, Any], text: str
) -> None:
    assert said(event, **fields) == text


@every_row("odd", [7, None, ["x"], {"a": 1}])
def test_field_that_is_no_text_is_passed_over(odd: object) -> None:
    assert said("Stop", last_assistant_message=odd) == ""
    assert said("Notification", message=odd, title="t") == "t"
    assert said("Notification", message="m", tool_name=odd) == "m"


def test_every_kind_can_be_asked_for_and_shown() -> None:
    assert {row.kind for row in NOTICE_EVENTS.values()} <= set(NOTICES)
