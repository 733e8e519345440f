"""Claude Code's settings: do they parse, is our hook in them, does Claude ask."""

from __future__ import annotations

import os
import shlex
import shutil
from collections.abc import Iterator, Mapping

from feishuperm.lib import settings_editor as editor
from feishuperm.lib.files import read_bytes
from feishuperm.setup.ask_list import rules_of
from feishuperm.setup.case import FAIL, OK, WARN, Case, Result, edit
from feishuperm.setup.claude_step import DEFAULT_MODE
from feishuperm.setup.hook_entries import HOOK_SLACK, Hook, find_hooks, unguarded

NEVER_ASK = ("auto", "dontAsk", "bypassPermissions")
# What Claude Code asks about in each mode a session can start in.
ASKS = {
    "default": "asks about every call that no rule allows",
    "acceptEdits": "asks about commands, not about edits in the project",
    "plan": "asks when a plan is ready, and about what reading needs",
    "auto": "asks questions, and after three calls in a row that it refused itself",
    "dontAsk": "asks nothing, and refuses what no rule allows",
    "bypassPermissions": "asks nothing, and lets everything run",
}


def check_settings(case: Case) -> Iterator[Result]:
    paths = case.settings_paths()
    for path in paths:
        try:
            case.texts[path] = editor.decode(read_bytes(path) or b"")
        except editor.SettingsError as error:
            text = f"{path}: {error}; Claude Code ignores the whole file"
            yield Result(FAIL, text, edit(path))
    if len(case.texts) == len(paths):
        yield Result(OK, ", ".join(filter(os.path.exists, paths)) or "none yet")


def permission_hooks(case: Case) -> list[tuple[str, Hook]]:
    """Every hook of ours that asks for permission, and the file it is in."""
    return [
        (path, hook)
        for path, text in case.texts.items()
        for hook in find_hooks(text)
        if hook.event == "PermissionRequest"
    ]


def check_hooks(case: Case) -> Iterator[Result]:
    own = permission_hooks(case)
    if not own:
        text = "no PermissionRequest hook of ours in Claude Code"
        yield Result(FAIL, text, case.install())
    for path, hook in own:
        yield check_hook(case, path, hook)
    paths = [path for path, _ in own]
    for path in dict.fromkeys(paths):
        if paths.count(path) > 1:
            text = f"{path} has our hook more than once"
            yield Result(WARN, text, case.register(path))
    # Claude Code runs equal commands once; of two files the user's own stays.
    places = {hook.entry["command"]: path for path, hook in reversed(own)}
    paths = [path for path in dict.fromkeys(paths) if path in places.values()]
    for path in paths[1:]:
        text = f"{path} has our hook too: each request asks twice"
        yield Result(WARN, text, edit(path, "remove feishuperm-hook"))


def check_hook(case: Case, path: str, hook: Hook) -> Result:
    """One entry: can it run, does it wait long enough, for every tool."""
    wait = case.settings.permission_request_timeout
    hold = case.settings.permission_hold
    missing = missing_program(str(hook.entry["command"]), case.environ)
    timeout = hook.entry.get("timeout", 600.0)
    if missing:
        text = f"{path} names {missing}, which cannot run"
        return Result(FAIL, text, case.register(path))
    if not isinstance(timeout, float) or timeout < wait + HOOK_SLACK:
        text = f"{path}: its timeout is not {HOOK_SLACK} s above the wait of {wait} s"
        return Result(FAIL, text, case.register(path))
    if timeout < wait + hold + HOOK_SLACK:
        text = (
            f"{path}: its timeout of {timeout:g} s ends a request that somebody reads: "
            f"it is not {HOOK_SLACK} s above the wait of {wait} s and the hold of "
            f"{hold} s"
        )
        return Result(WARN, text, case.register(path))
    if hook.matcher not in ("", "*", ".*"):
        return Result(WARN, f"{path}: only asked for {hook.matcher!r}", edit(path))
    return Result(OK, f"{path}, timeout {timeout:g} s")


def check_enabled(case: Case) -> Iterator[Result]:
    for path, text in case.texts.items():
        if editor.get_value(text, ("disableAllHooks",)) is True:
            yield Result(FAIL, f"{path} sets disableAllHooks", f"remove it from {path}")
            return
    yield Result(OK, "hooks are not disabled")


def check_mode(case: Case) -> Iterator[Result]:
    mode, fix = "auto", case.install("--ask-list")
    rules = [rule for text in case.texts.values() for rule in rules_of(text)]
    for number, (path, text) in enumerate(case.texts.items()):
        value = editor.get_value(text, DEFAULT_MODE)
        if isinstance(value, str):
            mode = value
            if number:  # a project's wins over the user's, which `install` sets
                fix = edit(path, "permissions.defaultMode")
    if mode in NEVER_ASK and not (mode == "auto" and rules):
        yield Result(WARN, f"{mode}: {ASKS[mode]}", fix)
    else:
        text = f"{mode}: {ASKS.get(mode, ASKS['default'])}"
        if rules:
            text = f"{text}; also what permissions.ask names ({len(rules)})"
        yield Result(OK, text)
    if case.environ.get("TERM_PROGRAM") == "vscode":
        text = "some versions of the VS Code extension run no PermissionRequest hooks"
        yield Result(WARN, text, "run claude in a terminal if no card comes")


def asks_enough(case: Case) -> bool:
    """Whether sessions start in a mode in which cards come."""
    for _ in check_settings(case):
        pass
    return all(result.state == OK for result in check_mode(case))


def missing_program(command: str, environ: Mapping[str, str]) -> str:
    """The program a hook command starts, if it is not there; empty if it is."""
    words = shlex.split(unguarded(command))
    path = environ.get("PATH", os.defpath)
    while "=" in words[0].partition("/")[0]:
        name, _, value = words.pop(0).partition("=")
        path = value if name == "PATH" else path
    program = words[0].replace("$HOME", environ.get("HOME", ""))
    if program.startswith("~/"):
        program = environ.get("HOME", "") + program[1:]
    return "" if shutil.which(program, path=path) else program
