"""One hook event as the supervisor sees it: what it is, and how it is answered.

The client has two formats, one for stops and one for questions; nobody else needs to
know which is which.  It knows no review and no state.
"""

from __future__ import annotations

from collections.abc import Mapping

from feishuperm.models.fields import text_at
from feishuperm.models.names import QUESTION_TOOL
from feishuperm.supervisor.state import Row

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

STOPS = ("Stop", "SubagentStop")
MAX_MESSAGE = 50_000  # characters of the last message that the reviewer gets
RUNNING = ("running", "pending")  # a background task in another state is over

# The client ends a turn after so many blocked stops in a row (no tool in between).  It
# takes the number from its environment or from `env` in any of its settings files, and
# hands the latter on to hooks; 0 means no cap, anything unreadable means the default.
CAP_VARIABLE = "CLAUDE_CODE_STOP_HOOK_BLOCK_CAP"
DEFAULT_CAP = 8


def client_cap(environ: Mapping[str, str]) -> int:
    """How many blocked stops in a row the client takes; 0 means any number."""
    value = environ.get(CAP_VARIABLE, "")
    is_number = value.isascii() and value.isdigit() and len(value) < 10
    return int(value) if is_number else DEFAULT_CAP


class Event:
    """A hook event as far as the supervisor cares; wrong types count as missing."""

    def __init__(self, fields: dict[str, Any]) -> None:
        self.fields = fields
        self.tool_name = text_at(fields, "tool_name")
        self.name = text_at(fields, "hook_event_name") or (
            "PreToolUse" if self.tool_name else "Stop"
        )
        self.session_id = text_at(fields, "session_id")
        self.prompt_id = text_at(fields, "prompt_id")
        self.cwd = text_at(fields, "cwd")
        self.agent = text_at(fields, "agent_id") if self.name == "SubagentStop" else ""
        self.transcript = text_at(
            fields, "agent_transcript_path" if self.agent else "transcript_path"
        )

    def is_stop(self) -> bool:
        return self.name in STOPS

    def concerns_us(self) -> bool:
        return self.is_stop() or (
            self.name == "PreToolUse" and self.tool_name == QUESTION_TOOL
        )

    def still_working(self) -> bool:
        """The turn ends, but a background task goes on and will wake it again."""
        tasks = self.fields.get("background_tasks")
        if self.name != "Stop" or not isinstance(tasks, list):
            return False
        return any(
            not isinstance(task, dict) or task.get("status", RUNNING[0]) in RUNNING
            for task in tasks
        )

    def material(self) -> dict[str, Any]:
        """What the reviewer gets to see beside the session itself."""
        if not self.is_stop():
            return {
                "hook_event_name": self.name,
                "tool_name": self.tool_name,
                "tool_input": self.fields.get("tool_input"),
            }
        message = text_at(self.fields, "last_assistant_message")
        if len(message) > MAX_MESSAGE:
            half = MAX_MESSAGE // 2
            message = f"{message[:half]}\n[...]\n{message[-half:]}"
        agent_type = text_at(self.fields, "agent_type")
        agent = {"agent_type": agent_type} if self.agent else {}
        last = {"last_assistant_message": message}
        return {"hook_event_name": self.name, **agent, **last}

    def row(self) -> Row:
        fresh = self.fields.get("stop_hook_active") is False
        return Row(self.agent, self.transcript, fresh)

    # The two formats.

    def allow(self, reason: str = "", notice: str = "") -> dict[str, Any]:
        """The answer that lets it pass; `notice` is for the person at the terminal."""
        if self.is_stop():
            return {"systemMessage": notice} if notice else {}
        return self._decide("allow", reason or notice)

    def block(self, feedback: str) -> dict[str, Any]:
        """The answer that holds it back and tells the model why."""
        if self.is_stop():
            return {"decision": "block", "reason": feedback}
        return self._decide("deny", feedback)

    def _decide(self, decision: str, reason: str) -> dict[str, Any]:
        output = {"hookEventName": "PreToolUse", "permissionDecision": decision}
        return {"hookSpecificOutput": {**output, "permissionDecisionReason": reason}}
