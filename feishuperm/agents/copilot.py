"""GitHub Copilot CLI: events and answers of its own.

It takes everything but a valid answer for a refusal: a hook that fails, and a word that
is no JSON.  It asks its hook about commands, edits and MCP tools, not about files that
it only reads; an edit comes as a diff.
"""

from __future__ import annotations

import os
import re
from typing import Any

from feishuperm.agents.table import ANSWERED, MODEL, PERSON
from feishuperm.models.decision import Decision
from feishuperm.models.fields import part_at, text_at

EVENT = "permissionrequest"
SERVER_TOOL = re.compile(r"([\w-]+)/([\w-]+)")  # of an MCP server
DIFF_HEAD = re.compile(r"\s*diff --git [^@]*?^\+\+\+ b(/[^\n]*)\n(?=@@ )", re.MULTILINE)
SPOKEN = (b'"user.message"', b'"assistant.message"', b'"human_response"')
SPEAKERS = {
    "user.message": PERSON,
    "assistant.message": MODEL,
    "permission.completed": ANSWERED,
}


def read(fields: dict[str, Any]) -> dict[str, Any] | None:
    name, given = text_at(fields, "toolName"), part_at(fields, "toolInput")
    session = text_at(fields, "sessionId")
    if text_at(fields, "hookName").lower() != EVENT:
        return None
    server = SERVER_TOOL.fullmatch(name)
    if server:
        name = f"mcp__{server[1]}__{server[2]}"
    if name == "edit":
        given = _without_head(given)
    return {
        "hook_event_name": "PermissionRequest",
        "session_id": session,
        "transcript_path": _transcript(session),
        "cwd": text_at(fields, "cwd"),
        "tool_name": name,
        "tool_input": given,
    }


def _without_head(given: dict[str, Any]) -> dict[str, Any]:
    """An edit without what its diff says of the file, if that is the file it names."""
    diff = text_at(given, "diff")
    head = DIFF_HEAD.match(diff)
    if not head or head[1] != given.get("file_path") or diff.count("diff --git ") != 1:
        return given
    return {**given, "diff": diff[head.end() :].rstrip("\n")}


def _transcript(session: str) -> str:
    """Where it writes down what happens in a session; its events do not say."""
    if not re.fullmatch(r"[\w-]+", session):
        return ""
    own = os.path.join(os.path.expanduser("~"), ".copilot")
    folder = os.environ.get("COPILOT_HOME") or own
    return os.path.join(folder, "session-state", session, "events.jsonl")


def write(decision: Decision, action: str) -> dict[str, Any]:
    output: dict[str, Any] = {"behavior": decision.behavior}
    if decision.message:
        output["message"] = decision.message
    if decision.interrupt:
        output["interrupt"] = True
    return output


def spoken(entry: dict[str, Any]) -> tuple[str, str]:
    who = SPEAKERS.get(text_at(entry, "type"), "")
    return who, text_at(entry, "data", "content").strip()
