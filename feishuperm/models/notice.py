"""Which events make a notice, and what it says: one row per event."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from feishuperm.models.payload import HookPayload


class NoticeEvent:
    """A row: the kind of FEISHUPERM_NOTIFY that asks for it, and the fields that tell.

    The first field that holds text is shown; a tool's name goes before it.
    """

    def __init__(self, kind: str, *fields: str) -> None:
        self.kind = kind
        self.fields = fields

    def text(self, payload: HookPayload) -> str:
        """What the notice says."""
        values = (payload.fields.get(field) for field in self.fields)
        said = next((value for value in values if value and isinstance(value, str)), "")
        tool = payload.fields.get("tool_name")
        return f"{tool}: {said}" if isinstance(tool, str) and tool else said


NOTICE_EVENTS = {
    "Stop": NoticeEvent("stop", "last_assistant_message"),
    "Notification": NoticeEvent("notification", "message", "title"),
    "StopFailure": NoticeEvent("failure", "error_details", "error", "message"),
    "PostToolUseFailure": NoticeEvent("failure", "error", "message"),
}
