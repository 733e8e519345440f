"""Hooks as a settings file describes them: events, matchers, the three callback kinds.

Values only.  Where they come from is `hooks.config_manager`'s business, what they do
`hooks.hook_manager`'s.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from feishuperm.messages import msg

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

# The events whose matchers look at each field; without one, every matcher fits.
_MATCHED = {
    "tool_name": "PreToolUse PostToolUse PostToolUseFailure PermissionRequest "
    "PermissionDenied",
    "agent_type": "SubagentStop SubagentStart",
    "trigger": "PreCompact PostCompact Setup",
    "source": "SessionStart ConfigChange",
    "mcp_server_name": "Elicitation ElicitationResult",
    "notification_type": "Notification",
    "reason": "SessionEnd",
    "error": "StopFailure",
    "load_reason": "InstructionsLoaded",
    "file_path": "FileChanged",
    "": "UserPromptSubmit Stop PostToolBatch UserPromptExpansion PreModelSwitch "
    "PostModelSwitch TeammateIdle TaskCreated TaskCompleted WorktreeCreate "
    "WorktreeRemove CwdChanged DirectoryAdded MessageDisplay",
}
HOOK_EVENTS = {
    event: field for field, events in _MATCHED.items() for event in events.split()
}

# The specification marks six events as TypeScript-only.  Today's Python SDK knows four
# of them; for the other two it takes a callback and never calls it.
MARKED = msg(
    "the specification marks it as TypeScript-only; today's Python SDK runs it too"
)
TYPESCRIPT = msg(
    "TypeScript-only: the Python SDK accepts a callback for it but never calls it"
)
SDK_NOTES = {
    **dict.fromkeys(("PostToolUseFailure", "SubagentStart"), MARKED),
    **dict.fromkeys(("PermissionRequest", "Notification"), MARKED),
    **dict.fromkeys(("SessionStart", "SessionEnd"), TYPESCRIPT),
}

COMMAND, SCRIPT, PROMPT = "command", "script", "prompt"
CALLBACK_TYPES = (COMMAND, SCRIPT, PROMPT)  # each keeps its text under its own name

# The SDKs give a callback 60 seconds unless told otherwise; so do we.
DEFAULT_TIMEOUT = 60.0

# What a matcher without regular expressions consists of.
PLAIN = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_|, -")


class Origin:
    """The settings file a callback was written in, and what that allows it."""

    def __init__(
        self,
        path: str,
        root: str,
        folders: Iterable[str],
        is_project: bool = False,
        environ: Mapping[str, str] | None = None,
    ) -> None:
        self.path = path
        self.root = root  # what relative paths in it are relative to
        self.folders = tuple(folders)  # where its scripts may lie
        self.is_project = is_project  # then they lie inside of `root` as well
        self.environ = environ  # for callbacks of a project that is not its own master

    @property
    def is_bound(self) -> bool:
        """Whether its callbacks run in `root`, may refuse, and allow nothing."""
        return self.environ is not None


class HookCallback:
    """One callback: its kind, its text (command, path or prompt), its seconds."""

    def __init__(
        self,
        type: str,
        text: str,
        timeout: float = DEFAULT_TIMEOUT,
        source: str = "",
        origin: Origin | None = None,
        blocks: bool = False,
        problem: str = "",
    ) -> None:
        self.type = type
        self.text = text
        self.timeout = timeout
        self.source = source  # where it was written, for the log
        self.origin = origin  # None: a program made it
        self.blocks = blocks  # `"onFailure": "block"`
        self.problem = problem  # why it can never run; only one that blocks has any


class HookGroup:
    """Callbacks that share a matcher, in the order they were written."""

    def __init__(self, matcher: str, callbacks: Iterable[HookCallback]) -> None:
        self.matcher = matcher
        self.callbacks = tuple(callbacks)

    def matches(self, fields: dict[str, Any]) -> bool:
        """Whether an event is for this group."""
        event = fields.get("hook_event_name", "")
        value = fields.get(HOOK_EVENTS.get(event, "tool_name"))
        if event == "FileChanged" and isinstance(value, str):
            value = value.rpartition("/")[2]
        # Like Claude Code: where there is nothing to compare, a matcher is no filter.
        return not (value and isinstance(value, str)) or matches(self.matcher, value)


class HooksConfig(dict[str, list[HookGroup]]):
    """Every event's groups, in order."""

    def __init__(self, groups: Iterable[tuple[str, HookGroup]] = ()) -> None:
        super().__init__()
        for event, group in groups:
            self.setdefault(event, []).append(group)

    def __missing__(self, event: str) -> list[HookGroup]:
        return []

    def seconds(self, event: str) -> float:
        """How long all callbacks of an event may take, one after the other."""
        return sum(row.timeout for group in self[event] for row in group.callbacks)

    def pairs(self) -> Iterator[tuple[str, HookGroup]]:
        """What the constructor took."""
        return ((event, group) for event, groups in self.items() for group in groups)


# Wrong, nested too deeply, or with too large a number: no hook may end of it.
NO_EXPRESSION = (re.error, RecursionError, OverflowError)


def matches(matcher: str, value: str) -> bool:
    """Whether a matcher fits, by Claude Code's rule; an invalid one never does.

    Empty and `*` fit everything; a plain name, `A|B` and `A, B` are exact; all else is
    a regular expression that may match anywhere.
    """
    if matcher in ("", "*"):
        return True
    if PLAIN.issuperset(matcher):
        return value in [name.strip() for name in matcher.replace(",", "|").split("|")]
    try:
        return re.search(matcher, value) is not None
    except NO_EXPRESSION:
        return False


def matcher_problem(matcher: str) -> str:
    """Why a matcher never fits, or nothing."""
    if matcher == "*" or PLAIN.issuperset(matcher):
        return ""
    try:
        re.compile(matcher)
    except NO_EXPRESSION as error:
        return msg("matcher {!r} is no regular expression ({})", matcher, error)
    return ""
