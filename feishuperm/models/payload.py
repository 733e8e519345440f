"""Hook events as Claude Code sends them: one type per event, nothing lost.

Those of other agents come here in the same form (`agents.table`).

A payload keeps the decoded object it came from, so fields this program has never heard
of survive a round trip.  `parse_payload()` chooses the type by `hook_event_name`; an
event without a type of its own becomes a `HookPayload`.  Types can be matched:

    match parse_payload(raw):
        case PermissionRequestPayload(tool_name="Bash", tool_input=tool_input): ...
        case ToolPayload(tool_name=name): ...
        case HookPayload(): ...
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from feishuperm.errors import PayloadError
from feishuperm.models.fields import part_at, path_at, text_at
from feishuperm.models.form import can_be_answered
from feishuperm.models.hooks import HOOK_EVENTS
from feishuperm.models.names import FORM, IDLE, IDLE_TYPE, LAST_WORDS

# Keys of what is known: with a project, the reading; what the session is called.
DANGER, TITLE = "danger", "title"


class BaseFields(NamedTuple):
    """The fields every event carries; absent ones are empty strings."""

    session_id: str
    transcript_path: str
    hook_event_name: str
    cwd: str
    permission_mode: str


class HookPayload:
    """Any hook event. Subclasses add the fields of their own event."""

    EVENT = ""
    agent = "claude"  # whose event it is: a row of `agents.table`

    def __init__(self, fields: dict[str, Any]) -> None:
        self.fields = fields
        paths = {key: path_at(fields, key) for key in ("transcript_path", "cwd")}
        texts = {key: text_at(fields, key) for key in BaseFields._fields}
        self.base = BaseFields(**{**texts, **paths})
        self.known: dict[object, Any] = {}  # what was found out of it, to know it once

    def session_id(self) -> str:
        return self.base.session_id

    def transcript_path(self) -> str:
        return self.base.transcript_path

    def hook_event_name(self) -> str:
        return self.base.hook_event_name

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and vars(other)["fields"] == self.fields

    __hash__ = None  # type: ignore[assignment]  # it holds a dict


class ToolPayload(HookPayload):
    """An event about one tool call."""

    __match_args__ = ("tool_name", "tool_input")

    def __init__(self, fields: dict[str, Any]) -> None:
        super().__init__(fields)
        self.tool_name = text_at(fields, "tool_name")
        self.tool_input = part_at(fields, "tool_input")


class AskPayload(HookPayload):
    """An event that may wait for a person: `EVENT` is that of a row of `KINDS`.

    One that is about no tool call has a name and an input made up of its fields.
    """

    tool_name: str
    tool_input: dict[str, Any]

    def waits(self) -> bool:
        """Whether a person is asked at all."""
        return True

    def agent_id(self) -> str:
        """The subagent that asks; empty: the session itself does."""
        return text_at(self.fields, "agent_id")

    def remark(self) -> str:
        """What the client itself says of it."""
        return ""


class CallPayload(ToolPayload, AskPayload):
    """An event that waits for a person to judge a tool call."""

    def __init__(self, fields: dict[str, Any]) -> None:
        super().__init__(fields)
        if not self.tool_name.strip():
            raise PayloadError(f"a {self.EVENT} event without tool_name")
        if not isinstance(fields.get("tool_input"), dict):
            raise PayloadError(f"a {self.EVENT} event without a tool_input object")


class PermissionRequestPayload(CallPayload):
    """Claude Code asks whether a tool may run. It carries no tool_use_id."""

    EVENT = "PermissionRequest"


class PermissionDeniedPayload(CallPayload):
    """The client's own auto mode has refused a call."""

    EVENT = "PermissionDenied"

    def remark(self) -> str:
        return text_at(self.fields, "reason")


class PreToolUsePayload(ToolPayload):
    EVENT = "PreToolUse"


class NotificationPayload(AskPayload):
    """The client's own notice, e.g. that it waits for input."""

    EVENT = "Notification"

    def __init__(self, fields: dict[str, Any]) -> None:
        super().__init__(fields)
        self.tool_name = IDLE
        said = text_at(fields, LAST_WORDS)  # the hook has it from the transcript
        self.tool_input = {LAST_WORDS: said} if said else {}

    def waits(self) -> bool:
        return text_at(self.fields, "notification_type") == IDLE_TYPE


class ElicitationPayload(AskPayload):
    """An MCP server wants a form filled in, or a page opened."""

    EVENT = "Elicitation"
    FIELDS = ("message", "mcp_server_name", "mode", "url", "requested_schema")

    def __init__(self, fields: dict[str, Any]) -> None:
        super().__init__(fields)
        self.tool_name = FORM
        self.tool_input = {key: fields[key] for key in self.FIELDS if key in fields}

    def waits(self) -> bool:
        return can_be_answered(self.tool_input)


OWN_TYPES = (
    *(PermissionRequestPayload, PermissionDeniedPayload, PreToolUsePayload),
    *(NotificationPayload, ElicitationPayload),
)


def _make_type(event: str, matched: str) -> type[HookPayload]:
    """The type of an event that needs no more than a name of its own."""
    base = ToolPayload if matched == "tool_name" else HookPayload
    return type(f"{event}Payload", (base,), {"EVENT": event})


PAYLOAD_TYPES: dict[str, type[HookPayload]] = {
    **{event: _make_type(event, matched) for event, matched in HOOK_EVENTS.items()},
    **{own.EVENT: own for own in OWN_TYPES},
}


def parse_payload(raw: bytes | str | dict[str, Any]) -> HookPayload:
    """The event as its own type. Raises PayloadError when it cannot be read."""
    fields = raw
    if not isinstance(raw, dict):
        try:
            fields = json.loads(raw)
        except (ValueError, RecursionError) as error:
            raise PayloadError(f"the event is not JSON: {error}") from None
    if not isinstance(fields, dict):
        raise PayloadError("the event is not a JSON object")
    name = fields.get("hook_event_name")
    if not isinstance(name, str) or not name:
        raise PayloadError("the event has no hook_event_name")
    return PAYLOAD_TYPES.get(name, HookPayload)(fields)
