"""Qwen Code: Claude Code's events under other names, and its answers without some keys.

It takes a changed command as well, in its own keys.  What it asks by its question tool,
and the end of a plan, no hook can answer: they are left to its terminal.
"""

from __future__ import annotations

from typing import Any

from feishuperm.agents.table import MODEL, PERSON, claude_form
from feishuperm.models.decision import Decision
from feishuperm.models.fields import list_at, part_at, text_at

SHELL = "run_shell_command"
UNDECIDED = ("ask_user_question", "exit_plan_mode")
KEYS = {"is_background": "run_in_background"}  # of its input
OWN_KEYS = {ours: own for own, ours in KEYS.items()}
SPOKEN = (b'"user"', b'"assistant"')
SPEAKERS = {"user": PERSON, "assistant": MODEL}


def read(fields: dict[str, Any]) -> dict[str, Any] | None:
    name, given = text_at(fields, "tool_name"), part_at(fields, "tool_input")
    is_asked = fields.get("hook_event_name") == "PermissionRequest"
    if not is_asked or name in UNDECIDED:
        return None
    if name == SHELL:
        given = {KEYS.get(key, key): value for key, value in given.items()}
    # A command may run in another folder than the session.
    cwd = text_at(given, "directory") or text_at(fields, "cwd")
    return {**fields, "cwd": cwd, "tool_input": given}


def write(decision: Decision, action: str) -> dict[str, Any]:
    output = claude_form(decision)
    if decision.updated_input is not None and not decision.is_denial():
        changed = decision.updated_input.items()
        own = {OWN_KEYS.get(key, key): value for key, value in changed}
        output["hookSpecificOutput"]["decision"]["updatedInput"] = own
    return output


def spoken(entry: dict[str, Any]) -> tuple[str, str]:
    if entry.get("provenance") == "system":
        return "", ""
    parts = [text_at(part, "text") for part in list_at(entry, "message", "parts")]
    words = "\n".join(filter(None, parts)).strip()
    who = SPEAKERS.get(text_at(entry, "type"), "")
    return (who, words) if words else ("", "")
