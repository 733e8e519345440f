"""Turns "always allow" into rules that Claude Code honours, and writes them down.

A rule must allow exactly what the person saw, so the grammar of the client decides:
where it has no exact form (a `*` in a command, a `?` in a path) there is no rule, and a
refusal says why.  A rule that is a tool's bare name lets every call of it pass; such a
plan says what to `confirm`, and a person must have read those words before it is
written.  Which rule a tool gets is a column of `lib.tool`; this module makes paths
absolute, quotes, refuses, and edits `<project>/.claude/settings.local.json`, which must
be a plain file in a plain folder: a link in a project's place may lead to the settings
that everybody who has the project shares.  It knows no requests and no pages: refusals,
notes and problems are sentences.

How the client reads a rule: inside the brackets a backslash quotes a bracket or itself.
What that leaves is, for a file, a pattern as in .gitignore, whose backslashes are its
own; `//` in front means the root of the file system, a single `/` the project.  It
covers everything below a folder of that name, and of a link it must cover both ends.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from feishuperm.errors import FileError
from feishuperm.lib.config import LOCAL_SETTINGS
from feishuperm.lib.files import discard, locked, private_dir, read_bytes, write_atomic
from feishuperm.lib.log import log
from feishuperm.lib.settings_editor import (
    MISSING,
    SettingsError,
    add_item,
    decode,
    drop_value,
    encode,
    get_value,
)
from feishuperm.lib.tool import format_rules
from feishuperm.messages import msg
from feishuperm.models.names import PATH_KEYS
from feishuperm.tables import rows

ALLOW = ("permissions", "allow")
MAX_RULE = 2048  # bytes: what nobody reads to its end nobody should allow for ever
REFUSALS = "services/refusals.txt"
WAIT = 2.0  # seconds; other holders keep the lock for one write
TRIES = 3  # how often another program may change the file while we write it

# What is said, and what makes an exact rule impossible, by the tool that it names.
SAID = rows("services/sentences.txt", "rules")
_COMMAND, _PATH, _NAME = (
    [(re.compile(pattern), said) for pattern, said in rows(REFUSALS, name).items()]
    for name in ("command", "path", "name")
)
_TEMPORARY = re.compile(r"\.feishuperm-[0-9a-f]{16}")  # as `lib.files` names them
# Tools that have a rule in the client's grammar, which is never written.
_NO_RULE = ("Glob", "Grep")
_REFUSALS = {"Bash": _COMMAND, "Edit": _PATH, "Read": _PATH}
# `mcp__server` alone would allow every tool of the server.
_BARE = re.compile(
    r"(?!mcp__)[A-Za-z][\w-]*|mcp__[_-]*[A-Za-z0-9][\w-]*__[\w-]+", re.ASCII
)
MAX_NAME = 200  # of a tool; a longer one costs the square of its length to judge


# Measured: a rule does not cover where output goes, `/dev/null` and other descriptors
# apart, nor a `tee` at the end of a pipe; a here-document hides it from the client.
_QUOTED = re.compile(r"'[^']*'|\"(?:[^\"\\]|\\.)*\"|\\.", re.DOTALL)
_WRITES = re.compile(r">(?!&|\(|>?\|?[ \t]*/dev/null\b)|\|&?\s*(?:sudo\s+)?tee\b")


class RulePlan(NamedTuple):
    """What "always" would write; without rules, `refusal` says why."""

    rules: tuple[str, ...] = ()  # as they stand in the file
    session_rules: tuple[tuple[str, str], ...] = ()  # (tool, content), unquoted
    refusal: str = ""  # text key
    confirm: str = ""  # text key: what has to be read and agreed to before
    note: str = ""  # text key: what the rules will not do
    kept: tuple[str, ...] = ()  # patterns that another agent keeps itself


class WriteResult(NamedTuple):
    """The result of a plan."""

    rules: tuple[str, ...] = ()  # added to the file by this very call
    already: tuple[str, ...] = ()  # stood there before
    problem: str = ""  # text key; then nothing was written


class RuleFileError(FileError):
    """A settings file that must be left alone; `key` is the text that says so."""

    def __init__(self, message: str, key: str) -> None:
        super().__init__(message)
        self.key = key


class _Changed(Exception):
    """Another program wrote the file since it was read."""


class RuleWriter:
    """Plans rules, writes them, and undoes them."""

    def plan(
        self, tool_name: str, tool_input: dict[str, Any], project: str, cwd: str = ""
    ) -> RulePlan:
        """The rules for exactly this call; a relative path starts at `cwd`."""
        wanted = format_rules(tool_name, _absolute(tool_input, cwd or project))
        refusal = _why_none(tool_name, wanted)
        if refusal:
            return RulePlan(refusal=refusal)
        # The form with one slash is specified, but to the client it names a file
        # inside the project: harmless as long as there is none.
        kept = [
            (tool, _content(tool, content))
            for tool, content in wanted
            if not (_in_project(tool, content) and os.path.lexists(project + content))
        ]
        rules = tuple(rule_text(*rule) for rule in kept)
        if max(map(len, map(str.encode, rules)), default=0) > MAX_RULE:
            return RulePlan(refusal=SAID["too long"])
        if not _is_plain(project):
            return RulePlan(refusal=SAID["linked"])
        lasting = tuple(rule for rule in kept if not _in_project(*rule))
        confirm = SAID["broad"] if ("",) in {rule[1:] for rule in kept} else ""
        return RulePlan(rules, lasting, confirm=confirm, note=_note(kept))

    def fresh(self, project: str, plan: RulePlan) -> tuple[str, ...]:
        """Which of a plan's rules are not in the file: what an intent may name."""
        present = self.rules(project) if plan.rules else []
        return tuple(rule for rule in plan.rules if rule not in present)

    def rules(self, project: str) -> list[str]:
        """The rules in the project's local settings; none if it cannot be read."""
        path = settings_path(project)
        try:
            present = _rules(_settings_text(path, read_bytes(path)))
        except (FileError, SettingsError):
            return []
        return [rule for rule in present if isinstance(rule, str)]

    def write(self, project: str, plan: RulePlan) -> WriteResult:
        """Add a plan's rules to the project's local settings; never raises."""
        if not plan.rules:
            return WriteResult()
        try:
            before, _ = self._edit(project, lambda text: _add(text, plan.rules))
        except FileError as error:
            log(f"rule not written: {error}", "warning")
            key = error.key if isinstance(error, RuleFileError) else SAID["not written"]
            return WriteResult(problem=key)
        return WriteResult(
            tuple(rule for rule in plan.rules if rule not in before),
            tuple(rule for rule in plan.rules if rule in before),
        )

    def undo(self, project: str, rules: Sequence[str]) -> tuple[str, ...]:
        """Take these rules out again, nothing else. Raises FileError."""
        before, after = self._edit(project, lambda text: _drop(text, rules))
        return tuple(rule for rule in rules if rule in before and rule not in after)

    def tidy(self, project: str) -> None:
        """Remove what a server left that died while it wrote; never raises."""
        try:
            path = _own_file(project)
            with locked(path, WAIT):
                _sweep(os.path.dirname(path))
        except FileError as error:
            log(f"{project} not tidied: {error}", "warning")

    def _edit(
        self, project: str, change: Callable[[str], str]
    ) -> tuple[list[Any], list[Any]]:
        """The rules before and after a change, which was made under the lock."""
        path = settings_path(project)
        if not os.path.isdir(project):
            raise FileError(msg("cannot write {}: there is no such project", path))
        path = _own_file(project)

        def check() -> None:
            _own_file(project)
            if read_bytes(path) != data:
                raise _Changed

        with locked(path, WAIT):
            _sweep(os.path.dirname(path))
            for _ in range(TRIES):
                data = read_bytes(path)
                text = _settings_text(path, data)
                try:
                    before, changed = _rules(text), change(text)
                except SettingsError as error:
                    raise RuleFileError(
                        msg("{}: {}", path, error), SAID["no list"]
                    ) from None
                if changed == text:
                    return before, before
                with suppress(OSError):  # without a folder the file is refused, too
                    private_dir(os.path.dirname(path))
                with suppress(_Changed):
                    write_atomic(path, encode(changed), check=check)
                    return before, _rules(changed)
        raise FileError(msg("cannot write {}: another program keeps changing it", path))


def settings_path(project: str) -> str:
    """The settings that belong to one person in one project."""
    return os.path.join(project, LOCAL_SETTINGS)


def rule_text(tool: str, content: str) -> str:
    """A rule as it stands in a settings file."""
    if not content:
        return tool
    quoted = re.sub(r"([\\()])", r"\\\1", content)
    return f"{tool}({quoted})"


def _absolute(tool_input: dict[str, Any], base: str) -> dict[str, Any]:
    """The input with its paths made absolute, as the client does before it asks."""
    resolved = dict(tool_input)
    for key in (*PATH_KEYS, "path"):
        path = resolved.get(key)
        # Whose home a `~` means is not ours to guess: no absolute path, no rule.
        if isinstance(path, str) and path and not path.startswith("~"):
            resolved[key] = _normal(os.path.join(base, path))
    return resolved


def _normal(path: str) -> str:
    # A slash at the end is kept: only a folder is named like that.
    end = "/" if re.search(r"/\.{0,2}\Z", path) else ""
    # Two leading slashes survive normpath, as POSIX allows them a meaning.
    return re.sub(r"\A/+", "/", os.path.normpath(path) + end)


def _why_none(tool_name: str, wanted: Sequence[tuple[str, str]]) -> str:
    """Why a call has no exact rule; empty when each that is wanted is exact."""
    if not wanted:
        return SAID["search" if tool_name in _NO_RULE else "no exact"]
    return next(filter(None, (_refusal(*rule) for rule in wanted)), "")


def _refusal(tool: str, content: str) -> str:
    """Why this rule would not be exact; empty when it is."""
    if not content:
        fits = len(tool) <= MAX_NAME and _BARE.fullmatch(tool)
        return "" if fits else SAID["no exact"]
    if len(content) > MAX_RULE:  # before some MB are searched for what else is wrong
        return SAID["too long"]
    for pattern, key in _REFUSALS.get(tool, _NAME):
        if pattern.search(content):
            return key
    if _REFUSALS.get(tool) is not _PATH:
        return ""
    path = "/" + content.lstrip("/")
    if os.path.isdir(path):
        return SAID["folder"]
    # The client also wants a rule for where the link leads, which nobody was shown.
    return "" if os.path.realpath(path) == path else SAID["behind link"]


def _in_project(tool: str, content: str) -> bool:
    return _REFUSALS.get(tool) is _PATH and not content.startswith("//")


def _content(tool: str, content: str) -> str:
    """What stands between the brackets, before those are quoted."""
    if _REFUSALS.get(tool) is _PATH:
        return re.sub(r"([\\\[\]()|+^$*])", r"\\\1", content)
    return content.rstrip()


def _own_file(project: str) -> str:
    """Where the settings are, without a link on the way. Raises RuleFileError."""
    if not _is_plain(project):
        message = msg("{} is or goes through a link", settings_path(project))
        raise RuleFileError(message, SAID["linked"])
    return settings_path(os.path.realpath(project))


def _is_plain(project: str) -> bool:
    path = settings_path(os.path.realpath(project))
    return os.path.realpath(path) == path


def _note(rules: Sequence[tuple[str, str]]) -> str:
    """What rules will not do: let a command send its output to a file."""
    for tool, command in rules:
        writes = "<<" not in command and _WRITES.search(_QUOTED.sub("", command))
        if tool == "Bash" and writes:
            return SAID["writes"]
    return ""


def _settings_text(path: str, data: bytes | None) -> str:
    try:
        return decode(data or b"")
    except SettingsError as error:
        raise RuleFileError(msg("{}, {}", path, error), SAID["no object"]) from None


def _rules(text: str) -> list[Any]:
    """The rules in a settings text. Raises SettingsError."""
    rules = get_value(text, ALLOW)
    if rules is MISSING:
        return []
    if not isinstance(rules, list):
        raise SettingsError(msg("permissions.allow is not a list"))
    return rules


def _add(text: str, rules: Sequence[str]) -> str:
    present = _rules(text)
    for rule in rules:
        if rule not in present:
            text = add_item(text, ALLOW, rule)
    return text


def _drop(text: str, rules: Sequence[str]) -> str:
    present = _rules(text)
    for index in range(len(present) - 1, -1, -1):
        if present[index] in rules:
            # Passing the text as the original keeps a list that is empty now.
            text = drop_value(text, (*ALLOW, index), text)
    return text


def _sweep(folder: str) -> None:
    """Remove our temporary files; while the lock is held none is in use."""
    try:
        names = os.listdir(folder)
    except OSError:  # there is none yet
        return
    for name in names:
        if _TEMPORARY.fullmatch(name):
            discard(os.path.join(folder, name))
