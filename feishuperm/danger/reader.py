"""How dangerous a call is: a deterministic reading of its text, in two levels.

`read_call()` looks at a tool's name and input and says what it would do that a person
should notice: marks for few things (deleting or overwriting elsewhere, publishing,
root, running what was downloaded, changing what governs other programs, destroying data
or machines), facts for what is merely good to know.  Findings are keys of `lib.text`
with what they are about.  It asks no disk, no network and no model, and claims no
safety: no finding means that nothing was recognised.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, NamedTuple

from feishuperm.danger.arguments import visit
from feishuperm.danger.places import Ground
from feishuperm.danger.programs import PROGRAMS
from feishuperm.danger.scene import MAX_SHOWN, Findings, Scene
from feishuperm.danger.shell import Budget
from feishuperm.danger.system import judge_sql, read_powershell

EDITS = ("Edit", "MultiEdit", "Write", "NotebookEdit")
UNBOXED = "dangerouslyDisableSandbox"  # what a Bash call says that leaves it
MAX_NAMED = 4  # things that are named of one kind
_SQL_TOOL = re.compile(
    r"sql|postgres|mysql|sqlite|mongo|redis|database|(?:^|_)db(?:_|$)|query", re.I
)
_SQL_KEYS = re.compile(r"sql|query|statement|queries", re.I)
_COMMAND_KEYS = re.compile(r"command|cmd|shell|script|bash", re.I)
_PATH_KEYS = re.compile(
    r"(?:file_?|dest(?:ination)?_?|target_?|notebook_)?path|file(?:name)?|destination|uri",
    re.I,
)
_WRITING = re.compile(
    r"write|edit|create|update|move|append|save|put|patch|replace|insert", re.I
)
_DELETING = re.compile(r"delete|remove|drop|destroy|purge|truncate|wipe|erase", re.I)
_READING = re.compile(
    r"(?:^|_)(?:read|get|list|search|find|describe|fetch|query|show)(?:_|$)", re.I
)
_SEARCHING = re.compile(r"search|find|lookup|recall", re.I)
MAX_VALUES = 50  # of an unknown tool's input


class Finding(NamedTuple):
    """A sentence's key, and what it is about."""

    key: str
    what: str = ""


class Reading(NamedTuple):
    """What there is to notice."""

    marks: tuple[Finding, ...] = ()
    facts: tuple[Finding, ...] = ()
    files: tuple[str, ...] = ()  # paths of what may be files that it runs


def read_call(
    tool_name: str,
    tool_input: dict[str, Any],
    project: str,
    home: str,
    cwd: str = "",
    mask: Callable[[str], str] = str,
    budget: Budget | None = None,
) -> Reading:
    """What a call would do that a person should notice; `mask` hides secrets."""
    findings = Findings(mask)
    ground = Ground(project or cwd, home)
    scene = Scene(ground, cwd or project, PROGRAMS, findings, budget or Budget())
    try:
        _read(scene, tool_name, tool_input)
        is_read = scene.budget.left >= 0
    except RecursionError:
        is_read = False
    for text in () if is_read else _texts(tool_input):
        scene.unread(text)
    files = tuple(findings.files)
    return Reading(_told(findings.marks), _told(findings.facts), files)


def _told(level: dict[str, list[str]]) -> tuple[Finding, ...]:
    return tuple(Finding(key, _joined(whats)) for key, whats in level.items())


def _joined(whats: list[str]) -> str:
    shown = [
        what if len(what) <= MAX_SHOWN else what[: MAX_SHOWN - 1] + "…"
        for what in whats
    ]
    more = len(shown) - MAX_NAMED
    return ", ".join([*shown[:MAX_NAMED], *([f"+{more}"] if more > 0 else [])])


def _read(scene: Scene, tool_name: str, tool_input: dict[str, Any]) -> None:
    if tool_name == "Bash":
        if tool_input.get(UNBOXED):
            scene.note("danger.permissions", UNBOXED)
        scene.run(_text(tool_input.get("command")))
    elif tool_name == "PowerShell":
        read_powershell(scene, _text(tool_input.get("command")))
    elif tool_name in EDITS:
        for key in ("file_path", "notebook_path"):
            path = _text(tool_input.get(key))
            if path:
                scene.writes(re.sub(r"\A\$(?:HOME\b|\{HOME\})", "~", path))
                _put(scene, path, tool_input)
    elif tool_name in ("Read", "Glob", "Grep", "LS"):
        for key in ("file_path", "path"):
            if isinstance(tool_input.get(key), str):
                scene.reads(_text(tool_input[key]))
    elif tool_name == "WebFetch":
        visit(scene, _text(tool_input.get("url")))
    elif tool_name.startswith("mcp__"):
        _read_mcp(scene, tool_name.rpartition("__")[2], tool_name, tool_input)


def _put(scene: Scene, path: str, tool_input: dict[str, Any]) -> None:
    """What an edit puts into a file."""
    edits = tool_input.get("edits")
    for edit in [tool_input, *(edits if isinstance(edits, list) else ())][:MAX_VALUES]:
        if isinstance(edit, dict):
            new = edit.get("new_string") or edit.get("content")
            scene.holds(path, _text(new), _text(edit.get("old_string")))


def _text(value: object) -> str:
    return value.replace("\0", "").replace("\1", "") if isinstance(value, str) else ""


def _read_mcp(
    scene: Scene, verb: str, tool_name: str, tool_input: dict[str, Any]
) -> None:
    """A tool of a server: by its name, and by what its input looks like."""
    if _DELETING.search(verb) and not _READING.search(verb):
        scene.note("danger.data", verb)
    for key, value in list(tool_input.items())[:MAX_VALUES]:
        for text in _texts(value):
            _read_value(scene, verb, tool_name, str(key), text)


def _texts(value: object, depth: int = 3) -> list[str]:
    if isinstance(value, str):
        return [_text(value)]
    if depth and isinstance(value, (list, dict)):
        parts = list(value.values() if isinstance(value, dict) else value)
        return [text for part in parts[:MAX_VALUES] for text in _texts(part, depth - 1)]
    return []


def _read_value(scene: Scene, verb: str, tool_name: str, key: str, text: str) -> None:
    if _COMMAND_KEYS.search(key):
        scene.run(text)
    elif (_SQL_KEYS.search(key) and not _SEARCHING.search(verb)) or _SQL_TOOL.search(
        tool_name
    ):
        judge_sql(scene, tool_name, text)
    elif _PATH_KEYS.fullmatch(key) and _WRITING.search(verb):
        scene.writes(re.sub(r"\Afile://", "", text))
    elif _PATH_KEYS.fullmatch(key):
        scene.reads(re.sub(r"\Afile://", "", text))
    visit(scene, text)
