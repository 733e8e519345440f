"""How dangerous a call is: a deterministic reading of its text, in two levels.

`read_call()` looks at a tool's name and input and says what it would do that a person
should notice: marks for few things (deleting or overwriting elsewhere, publishing,
root, running what was downloaded, changing what governs other programs, destroying data
or machines), facts for what is merely good to know.  Findings are keys of
`sentences.txt` with what they are about.  It asks no disk, no network and no model, and
claims no safety: no finding means that nothing was recognised.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

from feishuperm.danger import code, files, remote, wrappers
from feishuperm.danger.code import judge_sql, read_powershell
from feishuperm.danger.command_table import pattern, programs
from feishuperm.danger.interpreter import (
    ANY,
    MAX_SHOWN,
    Program,
    ShellState,
)
from feishuperm.danger.paths import PathRules
from feishuperm.shell.reader import Budget

EDITS = ("Edit", "MultiEdit", "Write", "NotebookEdit")
PATCH = "apply_patch"  # of several files, as Codex writes it
UNBOXED = "dangerouslyDisableSandbox"  # what a Bash call says that leaves it
MAX_NAMED = 4  # things that are named of one kind
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


@cache
def functions() -> dict[str, Program]:
    """Every program of the table with its function."""
    found: dict[str, Program] = {}
    for module in (code, files, remote, wrappers):
        found.update(vars(module))
    table = {name: found[row.function] for name, row in programs().items()}
    return {**table, ANY: wrappers.unknown}


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
    rules = PathRules(project or cwd, home)
    state = ShellState(rules, cwd or project, functions(), mask, budget or Budget())
    try:
        _read(state, tool_name, tool_input)
        is_read = state.budget.left >= 0
    except RecursionError:
        is_read = False
    for text in () if is_read else _texts(tool_input):
        state.unread(text)
    return Reading(_told(state.marks), _told(state.facts), tuple(state.may_run))


def _told(level: dict[str, list[str]]) -> tuple[Finding, ...]:
    told = []
    for key, whats in level.items():
        shown = [w if len(w) <= MAX_SHOWN else w[: MAX_SHOWN - 1] + "…" for w in whats]
        more = len(shown) - MAX_NAMED
        last = [f"+{more}"] if more > 0 else []
        told.append(Finding(key, ", ".join([*shown[:MAX_NAMED], *last])))
    return tuple(told)


def _read(state: ShellState, tool_name: str, tool_input: dict[str, Any]) -> None:
    if tool_name == "Bash":
        if tool_input.get(UNBOXED):
            state.note("danger.permissions", UNBOXED)
        state.run(_text(tool_input.get("command")))
    elif tool_name == "PowerShell":
        read_powershell(state, _text(tool_input.get("command")))
    elif tool_name in EDITS:
        _read_edit(state, tool_input)
    elif tool_name == PATCH:
        _read_patch(state, _text(tool_input.get("command")))
    elif tool_name in ("Read", "Glob", "Grep", "LS"):
        for key in ("file_path", "path"):
            if isinstance(tool_input.get(key), str):
                state.reads(_text(tool_input[key]))
    elif tool_name == "WebFetch":
        state.visit(_text(tool_input.get("url")))
    elif tool_name.startswith("mcp__"):
        _read_mcp(state, tool_name.rpartition("__")[2], tool_name, tool_input)


def _read_edit(state: ShellState, tool_input: dict[str, Any]) -> None:
    for key in ("file_path", "notebook_path"):
        path = _text(tool_input.get(key))
        if path:
            state.writes(re.sub(r"\A\$(?:HOME\b|\{HOME\})", "~", path))
            _put(state, path, tool_input)


def _put(state: ShellState, path: str, tool_input: dict[str, Any]) -> None:
    """What an edit puts into a file."""
    edits = tool_input.get("edits")
    for edit in [tool_input, *(edits if isinstance(edits, list) else ())][:MAX_VALUES]:
        if isinstance(edit, dict):
            new = edit.get("new_string") or edit.get("content")
            state.holds(path, _text(new), _text(edit.get("old_string")))
            _put_diff(state, path, _text(edit.get("diff")))


def _put_diff(state: ShellState, path: str, diff: str) -> None:
    """What a diff, or a part of a patch, puts into a file."""
    lines = diff.split("\n") if diff else []
    new, old = (
        "\n".join(line[1:] for line in lines if line[:1] == sign) for sign in "+-"
    )
    state.holds(path, new, old)


def _read_patch(state: ShellState, patch: str) -> None:
    """Every file that a patch changes."""
    heads = list(pattern("patched").finditer(patch))
    if not heads:
        state.unread(patch)
    for head, after in zip(heads, [*heads[1:], None]):
        kind, path = head.groups()
        if kind == "Delete":
            state.deletes(path)
        else:
            state.writes(path)
            _put_diff(state, path, patch[head.end() : after and after.start()])


def _text(value: object) -> str:
    return value.replace("\0", "").replace("\1", "") if isinstance(value, str) else ""


def _read_mcp(
    state: ShellState, verb: str, tool_name: str, tool_input: dict[str, Any]
) -> None:
    """A tool of a server: by its name, and by what its input looks like."""
    if pattern("deleting").search(verb) and not pattern("reading").search(verb):
        state.note("danger.data", verb)
    says_sql = pattern("sql_tool").search(tool_name)
    searches = pattern("searching").search(verb)
    for key, value in list(tool_input.items())[:MAX_VALUES]:
        asks = says_sql or (pattern("sql_keys").search(str(key)) and not searches)
        is_path = pattern("path_keys").fullmatch(str(key))
        for text in _texts(value):
            path = re.sub(r"\Afile://", "", text)
            if pattern("command_keys").search(str(key)):
                state.run(text)
            elif asks:
                judge_sql(state, tool_name, text)
            elif is_path and pattern("writing").search(verb):
                state.writes(path)
            elif is_path:
                state.reads(path)
            state.visit(text)


def _texts(value: object, depth: int = 3) -> list[str]:
    if isinstance(value, str):
        return [_text(value)]
    if depth and isinstance(value, (list, dict)):
        parts = list(value.values() if isinstance(value, dict) else value)
        return [text for part in parts[:MAX_VALUES] for text in _texts(part, depth - 1)]
    return []
