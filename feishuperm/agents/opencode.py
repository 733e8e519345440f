"""opencode: its plugin starts the hook, and sends what opencode says and asks.

`opencode.js` adds to it what the call was given: opencode itself tells only a part, of
some tools nothing.  The dialog stays open beside the hook.  "Always" is opencode's own:
it keeps the patterns of the event, for one project, until it is restarted.  To
refuse one request is to refuse all that are pending in that session.
"""

from __future__ import annotations

import os
from typing import Any

from feishuperm.agents.table import AGENTS
from feishuperm.models.decision import Decision
from feishuperm.models.fields import list_at, part_at, path_at, text_at
from feishuperm.models.names import QUESTION_TOOL

# Of the input of tools that Claude Code has as well.
KEYS = {
    "filepath": "file_path",
    "filePath": "file_path",
    "oldString": "old_string",
    "newString": "new_string",
    "replaceAll": "replace_all",
    "include": "glob",
    "patchText": "command",
    "name": "skill",
    "multiple": "multiSelect",
}
OUTSIDE = "external_directory"  # asked before the call's own request, or instead of it
SPOKEN: tuple[bytes, ...] = ()  # it keeps no transcript that anybody could read


def read(fields: dict[str, Any]) -> dict[str, Any] | None:
    kind, cwd = text_at(fields, "type"), path_at(fields, "directory")
    permission = text_at(fields, "permission")
    if kind == "question.asked":
        name, given = QUESTION_TOOL, {"questions": _questions(fields)}
    elif kind == "permission.asked":
        name, given = _call(fields)
    else:
        return None
    if name == "bash":  # it may run in another folder than the session
        cwd = os.path.join(cwd, path_at(given, "workdir") or cwd)
    return {
        "hook_event_name": "PermissionRequest",
        "session_id": text_at(fields, "sessionID"),
        "cwd": cwd,
        "tool_name": name,
        "tool_input": given,
        "always": [f"{permission} {what}" for what in list_at(fields, "always")],
    }


def _questions(fields: dict[str, Any]) -> list[Any]:
    return [_renamed(part_at(question)) for question in list_at(fields, "questions")]


def _call(fields: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """The tool and its input; of no call, what is asked and what is known of it."""
    name, patterns = text_at(fields, "permission"), list_at(fields, "patterns")
    call = part_at(fields, "call")
    given = part_at(call, "input") or part_at(fields, "metadata")
    tool = text_at(call, "tool") or name
    is_known = tool in AGENTS["opencode"].tools
    given = (_renamed(given) if is_known else given) or {"patterns": patterns}
    if name == OUTSIDE:
        given = {**given, OUTSIDE: patterns}
    return tool, given


def _renamed(given: dict[str, Any]) -> dict[str, Any]:
    """With Claude Code's keys; one that it had before means nothing to opencode."""
    rest = {key: value for key, value in given.items() if key not in KEYS}
    return {**rest, **{ours: given[own] for own, ours in KEYS.items() if own in given}}


def write(decision: Decision, action: str) -> dict[str, Any]:
    if decision.is_denial():
        return {"reply": "reject", "message": decision.message}
    answers = part_at(decision.updated_input, "answers")
    if not answers:
        return {"reply": "always" if action == "always" else "once"}
    asked = list_at(decision.updated_input, "questions")
    said = (text_at(answers, text_at(question, "question")) for question in asked)
    return {"answers": [[words] if words else [] for words in said]}


def spoken(entry: dict[str, Any]) -> tuple[str, str]:
    return "", ""
