"""Codex CLI: Claude Code's events, and of its answers only yes, no and why.

Any other key voids an answer, and Codex asks in the terminal.  Its model's reason for a
command stands where Claude Code has the command's description.  Files are changed by
patches; one that changes a single file is shown as an edit of that file.
"""

from __future__ import annotations

import os
import re
from typing import Any

from feishuperm.agents.table import MODEL, PERSON, claude_form
from feishuperm.models.decision import Decision
from feishuperm.models.fields import list_at, part_at, text_at

PATCH = "apply_patch"
HEAD = re.compile(r"\*\*\* (Add|Update) File: (\S.*?)\s*\Z")
ENDS = ("*** Begin Patch", "*** End Patch")
SPOKEN = (b"serMessage", b"gentMessage", b"user_message", b"agent_message")
SPEAKERS = {
    **dict.fromkeys(("UserMessage", "user_message"), PERSON),
    **dict.fromkeys(("AgentMessage", "agent_message"), MODEL),
}


def read(fields: dict[str, Any]) -> dict[str, Any] | None:
    if fields.get("hook_event_name") != "PermissionRequest":
        return None
    name, given = text_at(fields, "tool_name"), part_at(fields, "tool_input")
    if name == PATCH:
        name, given = _edit(given, text_at(fields, "cwd"))
    return {**fields, "tool_name": name, "tool_input": given}


def _edit(given: dict[str, Any], cwd: str) -> tuple[str, dict[str, Any]]:
    """A patch of one file as an edit or a new file; any other as it came."""
    first, *lines = text_at(given, "command").strip().split("\n")
    head = HEAD.match(lines[0]) if lines else None
    body, rest = lines[1:-1], (first, *lines[-1:])
    is_one = set(given) == {"command"} and rest == ENDS
    # Whatever else looks like a part of its own is shown as it came.
    if not (is_one and head) or any(line.lstrip()[:3] == "***" for line in body):
        return PATCH, given
    path = os.path.join(cwd, head[2])
    if head[1] == "Update":
        return "Edit", {"file_path": path, "diff": "\n".join(body)}
    if not all(line[:1] == "+" for line in body):
        return PATCH, given
    content = "".join(f"{line[1:]}\n" for line in body)
    return "Write", {"file_path": path, "content": content}


def write(decision: Decision, action: str) -> dict[str, Any]:
    return claude_form(decision)


def spoken(entry: dict[str, Any]) -> tuple[str, str]:
    if entry.get("type") != "event_msg":
        return "", ""
    said = part_at(entry, "payload")
    said = part_at(said, "item") or said
    parts = (text_at(part, "text") for part in list_at(said, "content"))
    words = text_at(said, "message") or "\n".join(parts)
    return SPEAKERS.get(text_at(said, "type"), ""), words.strip()
