"""A decision on a permission request, and the exact output Claude Code reads."""

from __future__ import annotations

import json
from typing import Any, NamedTuple


class Decision(NamedTuple):
    """What a person decided. Made by `allow()` or `deny()`."""

    behavior: str
    message: str = ""
    interrupt: bool = False
    updated_input: dict[str, Any] | None = None
    updated_rules: tuple[tuple[str, str], ...] = ()
    # Of another event than PermissionRequest; empty: nothing.
    output: dict[str, Any] | None = None

    @classmethod
    def allow(
        cls,
        updated_input: dict[str, Any] | None = None,
        updated_rules: tuple[tuple[str, str], ...] = (),
    ) -> Decision:
        """Let the tool run; the rules are (tool name, content) for this session."""
        return cls("allow", updated_input=updated_input, updated_rules=updated_rules)

    @classmethod
    def deny(cls, message: str = "", interrupt: bool = False) -> Decision:
        """Refuse the tool; `interrupt` also ends the turn."""
        return cls("deny", message=message, interrupt=interrupt)

    @classmethod
    def other(cls, output: dict[str, Any], denies: bool = False) -> Decision:
        """The answer to another event than a PermissionRequest; empty: say nothing."""
        return cls("deny" if denies else "allow", output=output)

    @classmethod
    def said(cls, event: str, said: dict[str, Any], denies: bool = False) -> Decision:
        """The same in the form that Claude Code reads."""
        output = {"hookSpecificOutput": {"hookEventName": event, **said}}
        return cls.other(output, denies)

    @classmethod
    def let_through(cls, reason: str) -> Decision:
        """The answer to the PreToolUse of a call that may run."""
        said = {"permissionDecision": "allow", "permissionDecisionReason": reason}
        return cls.said("PreToolUse", said)

    def is_denial(self) -> bool:
        return self.behavior == "deny"

    def to_hook_output(self) -> dict[str, Any]:
        """The object the hook prints."""
        if self.output is not None:
            return self.output
        decision: dict[str, Any] = {"behavior": self.behavior}
        if self.message:
            decision["message"] = self.message
        if self.interrupt:
            decision["interrupt"] = True
        if self.updated_input is not None:
            decision["updatedInput"] = self.updated_input
        if self.updated_rules:
            rules = [
                # A bare tool has no content.
                {"toolName": tool, **({"ruleContent": rule} if rule else {})}
                for tool, rule in self.updated_rules
            ]
            added = {"type": "addRules", "rules": rules, "behavior": "allow"}
            decision["updatedPermissions"] = [{**added, "destination": "session"}]
        said = {"hookEventName": "PermissionRequest", "decision": decision}
        return {"hookSpecificOutput": said}

    def to_stdout(self) -> bytes:
        """The hook's whole standard output."""
        return as_line(self.to_hook_output())


def as_line(output: dict[str, Any]) -> bytes:
    """What a hook prints: an object on a line, or nothing."""
    if not output:
        return b""
    try:
        return json.dumps(output, ensure_ascii=False).encode() + b"\n"
    except UnicodeEncodeError:  # half a surrogate pair in the event's own texts
        return json.dumps(output).encode() + b"\n"
