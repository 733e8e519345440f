"""Hooks as a settings file describes them: events, matchers, the three callback kinds.

Values only.  Where they come from is `services.config_manager`'s business, what they do
`services.hook_manager`'s.
"""

from __future__ import annotations

import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

# The specification marks six events as TypeScript-only.  Today's Python SDK knows four
# of them; for the other two it takes a callback and never calls it.
MARKED = "the specification marks it as TypeScript-only; today's Python SDK runs it too"
TYPESCRIPT = "TypeScript-only: the Python SDK takes a callback for it, never calls it"
NEWER = "newer than the specification; the Python SDK does not know it"


class HookEvent:
    """One event: the field its matchers look at, and which SDK knows it."""

    __slots__ = ("match_field", "name", "sdk_note")

    def __init__(self, name: str, match_field: str = "", sdk_note: str = NEWER) -> None:
        self.name = name
        self.match_field = match_field  # empty: every matcher fits
        self.sdk_note = sdk_note  # empty: every SDK knows it


HOOK_EVENTS = {
    event.name: event
    for event in (
        HookEvent("PreToolUse", "tool_name", ""),
        HookEvent("PostToolUse", "tool_name", ""),
        HookEvent("UserPromptSubmit", "", ""),
        HookEvent("Stop", "", ""),
        HookEvent("SubagentStop", "agent_type", ""),
        HookEvent("PreCompact", "trigger", ""),
        HookEvent("PostToolUseFailure", "tool_name", MARKED),
        HookEvent("SubagentStart", "agent_type", MARKED),
        HookEvent("PermissionRequest", "tool_name", MARKED),
        HookEvent("Notification", "notification_type", MARKED),
        HookEvent("SessionStart", "source", TYPESCRIPT),
        HookEvent("SessionEnd", "reason", TYPESCRIPT),
        HookEvent("PermissionDenied", "tool_name"),
        HookEvent("PostToolBatch"),
        HookEvent("UserPromptExpansion"),
        HookEvent("StopFailure", "error"),
        HookEvent("PostCompact", "trigger"),
        HookEvent("PreModelSwitch"),
        HookEvent("PostModelSwitch"),
        HookEvent("Setup", "trigger"),
        HookEvent("TeammateIdle"),
        HookEvent("TaskCreated"),
        HookEvent("TaskCompleted"),
        HookEvent("Elicitation", "mcp_server_name"),
        HookEvent("ElicitationResult", "mcp_server_name"),
        HookEvent("ConfigChange", "source"),
        HookEvent("WorktreeCreate"),
        HookEvent("WorktreeRemove"),
        HookEvent("InstructionsLoaded", "load_reason"),
        HookEvent("CwdChanged"),
        HookEvent("FileChanged", "file_path"),
        HookEvent("DirectoryAdded"),
        HookEvent("MessageDisplay"),
    )
}

COMMAND, SCRIPT, PROMPT = "command", "script", "prompt"
CALLBACK_TYPES = (COMMAND, SCRIPT, PROMPT)  # each keeps its text under its own name

# The SDKs give a callback 60 seconds unless told otherwise; so do we.
DEFAULT_TIMEOUT = 60.0

_PLAIN = re.compile(r"[A-Za-z0-9_|, -]+\Z")


class HookCallback:
    """One callback: its kind, its text (command, path or prompt), its seconds."""

    __slots__ = ("source", "text", "timeout", "type")

    def __init__(
        self, type: str, text: str, timeout: float = DEFAULT_TIMEOUT, source: str = ""
    ) -> None:
        self.type = type
        self.text = text
        self.timeout = timeout
        self.source = source  # where it was written, for the log


class HookGroup:
    """Callbacks that share a matcher, in the order they were written."""

    __slots__ = ("callbacks", "matcher")

    def __init__(self, matcher: str, callbacks: Iterable[HookCallback]) -> None:
        self.matcher = matcher
        self.callbacks = tuple(callbacks)

    def matches(self, fields: dict[str, Any]) -> bool:
        """Whether an event is for this group."""
        event = HOOK_EVENTS.get(fields.get("hook_event_name", ""))
        value = fields.get(event.match_field) if event else fields.get("tool_name")
        if event and event.name == "FileChanged" and isinstance(value, str):
            value = value.rpartition("/")[2]
        # Like Claude Code: where there is nothing to compare, a matcher is no filter.
        return not (value and isinstance(value, str)) or matches(self.matcher, value)


class HooksConfig:
    """Every event's groups, in order. Empty is false."""

    __slots__ = ("groups",)

    def __init__(self, groups: Iterable[tuple[str, HookGroup]] = ()) -> None:
        self.groups: dict[str, list[HookGroup]] = {}
        for event, group in groups:
            self.groups.setdefault(event, []).append(group)

    def __bool__(self) -> bool:
        return bool(self.groups)

    def __iter__(self) -> Iterator[str]:
        return iter(self.groups)

    def __getitem__(self, event: str) -> list[HookGroup]:
        return self.groups.get(event, [])

    def seconds(self, event: str) -> float:
        """How long all callbacks of an event may take, one after the other."""
        return sum(one.timeout for group in self[event] for one in group.callbacks)

    def pairs(self) -> Iterator[tuple[str, HookGroup]]:
        """What the constructor took."""
        for event, groups in self.groups.items():
            for group in groups:
                yield event, group


def matches(matcher: str, value: str) -> bool:
    """Whether a matcher fits, by Claude Code's rule; an invalid one never does.

    Empty and `*` fit everything; a plain name, `A|B` and `A, B` are exact; all else is
    a regular expression that may match anywhere.
    """
    if matcher in ("", "*"):
        return True
    if _PLAIN.match(matcher):
        return value in [name.strip() for name in re.split(r"[|,]", matcher)]
    try:
        return re.search(matcher, value) is not None
    except re.error:
        return False


def matcher_problem(matcher: str) -> str:
    """Why a matcher never fits, or nothing."""
    try:
        re.compile(matcher if matcher != "*" else "")
    except re.error as error:
        return f"matcher {matcher!r} is no regular expression ({error})"
    return ""
