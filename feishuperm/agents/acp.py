"""Any agent that speaks the Agent Client Protocol, version 1, driven by `run --agent`.

The run hands on its request for permission as it came, with the agent's name and the
folder.  The agent names its own options: each is the button that does the same, under
the option's words where ours would not say it all.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable
from typing import Any

from feishuperm.agents.table import claude_form
from feishuperm.lib.display import one_line
from feishuperm.models.decision import Decision
from feishuperm.models.fields import list_at, part_at, text_at, value_at

# The buttons that the options of a kind are, in this order.  "deny" refuses once: where
# no option does it cancels the call, and never stands for one that refuses for ever.
BUTTONS = {
    "allow_once": ("allow", "allow-2", "allow-3", "allow-4"),
    "allow_always": ("always", "always-2", "always-3", "always-4"),
    "reject_once": ("deny", "deny-2", "deny-3", "deny-4"),
    "reject_always": ("deny-2", "deny-3", "deny-4"),
}
DIFF, EDIT = ("path", "oldText", "newText"), ("file_path", "old_string", "new_string")
# A call of this kind with these texts in its input is one of Claude Code's tools.
TOOLS = (
    ("execute", ("command",), "Bash"),
    ("edit", EDIT, "Edit"),
    ("edit", ("file_path", "diff"), "Edit"),
    ("edit", ("file_path", "content"), "Write"),
    ("read", ("file_path",), "Read"),
    ("fetch", ("url",), "WebFetch"),
)
OTHER_TOOL = re.compile(r"mcp__[\w-]{1,100}|[a-z_]{1,30}")  # none of Claude Code
KEYS = {"filepath": "file_path", "filePath": "file_path"}
KEYS.update(oldString="old_string", newString="new_string")
KEYS.update(is_background="run_in_background")
PASSES = ("minutes", "session")
NAME, WORDS = 40, 300  # characters of the agent's name and of an option
SPOKEN: tuple[bytes, ...] = ()  # its transcript is not known


def read(fields: dict[str, Any]) -> dict[str, Any]:
    name, given = tool_of(part_at(fields, "toolCall"))
    cwd, found = text_at(fields, "cwd"), buttons(list_at(fields, "options"))
    passes = dict.fromkeys(PASSES if "allow" in found else (), "")
    words = {k: one_line(text_at(own, "name"), WORDS) for k, own in found.items()}
    return {
        "hook_event_name": "PermissionRequest",
        "session_id": text_at(fields, "sessionId"),
        # A command may run in another folder than the session.
        "cwd": text_at(given, "cwd") or text_at(given, "directory") or cwd,
        "tool_name": name,
        "tool_input": {k: v for k, v in given.items() if (k, v) != ("cwd", cwd)},
        "agent_name": one_line(text_at(fields, "agentName"), NAME),
        "options": {"deny": "", **words, **passes},
    }


def write(decision: Decision, action: str) -> dict[str, Any]:
    output = claude_form(decision)
    said = "allow" if action in PASSES else action
    output["hookSpecificOutput"]["decision"]["option"] = said
    return output


def spoken(entry: dict[str, Any]) -> tuple[str, str]:
    return "", ""


def buttons(options: Iterable[Any]) -> dict[str, dict[str, Any]]:
    """The agent's options by the names of their buttons; others are not offered."""
    found: dict[str, dict[str, Any]] = {}
    known = [o for o in options if text_at(o, "optionId") and text_at(o, "name")]
    # What is too long to be read is not offered.
    known = [option for option in known if len(option["name"]) <= WORDS]
    for kind, names in BUTTONS.items():
        free = [name for name in names if name not in found]
        found.update(zip(free, (o for o in known if text_at(o, "kind") == kind)))
    return found


def chosen(options: Iterable[Any], decision: dict[str, Any]) -> dict[str, Any]:
    """The answer to the agent: the option of a decision, if it does what that says."""
    option = buttons(options).get(text_at(decision, "option"), {})
    allows = text_at(option, "kind").startswith("allow")
    if not option or allows != (decision.get("behavior") == "allow"):
        return {"outcome": {"outcome": "cancelled"}}
    return {"outcome": {"outcome": "selected", "optionId": option["optionId"]}}


def tool_of(call: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """A tool call as Claude Code would make it; all that its input holds is kept."""
    given, kind = _input(call.get("rawInput")), text_at(call, "kind") or "execute"
    for its_kind, keys, name in TOOLS:
        if kind == its_kind and all(text_at(given, key) for key in keys):
            return name, given
    parts, raw = list_at(call, "content"), call.get("rawInput")
    diffs = [part for part in parts if value_at(part, "type") == "diff"]
    if diffs:
        name, edit = _edit(diffs)
        return name, {**edit, **({"input": raw} if raw else {})}
    return _other(call, kind, given)


def _other(
    call: dict[str, Any], kind: str, given: dict[str, Any]
) -> tuple[str, dict[str, Any]]:
    """A call of a tool that Claude Code has not, under the best name there is."""
    names = (text_at(call, "name"), text_at(call, "_meta", "toolName"), kind)
    name = next((name for name in names if OTHER_TOOL.fullmatch(name)), "other")
    told = {"title": call["title"]} if text_at(call, "title") else {}
    shown = given or {key: call[key] for key in ("rawInput", "content") if key in call}
    return name, {**told, **shown}


def _input(raw: object) -> dict[str, Any]:
    """What a tool gets, under Claude Code's keys; none takes the place of another."""
    given: dict[str, Any] = {}
    fields: dict[str, Any] = raw if isinstance(raw, dict) else {}
    for key, value in fields.items():
        name = KEYS.get(key) or key
        is_taken = name in given or name in fields
        given[key if is_taken else name] = value
    command = given.get("command")
    if isinstance(command, list) and all(isinstance(word, str) for word in command):
        given["command"] = shlex.join(command)
    return given


def _edit(diffs: list[Any]) -> tuple[str, dict[str, Any]]:
    """The tool that makes these changes, several as one patch, and its input."""
    sides = [[text_at(diff, key) for key in DIFF] for diff in diffs]
    if len(sides) == 1:
        return "Edit", dict(zip(EDIT, sides[0]))
    lines = []
    for path, old, new in sides:
        lines.append(f"*** Update File: {path}")
        lines += ["-" + line for line in old.splitlines()]
        lines += ["+" + line for line in new.splitlines()]
    return "apply_patch", {"command": "\n".join(lines)}
