"""Settings files in Claude Code's form: our hooks, values and rules in them.

A settings file belongs to its owner: it comes back byte for byte if nobody else changed
it since, and otherwise loses exactly our own entries.  An entry is ours if it has
exactly a command that an install wrote; somebody's own call of our program, with more
words around it, is found too, and is theirs.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from feishuperm.agents.table import AGENTS
from feishuperm.errors import FeishupermError
from feishuperm.lib import settings_editor as editor
from feishuperm.lib.config import claude_settings
from feishuperm.lib.files import read_bytes, write_atomic
from feishuperm.lib.language import translate
from feishuperm.messages import msg, word
from feishuperm.models.hooks import DEFAULT_TIMEOUT
from feishuperm.models.kind import NEXT_SECONDS
from feishuperm.models.names import (
    ARCHIVE,
    HOOK_PROGRAM,
    IDLE_TYPE,
    PROGRAMS,
    QUESTION_TOOL,
    SUPERVISOR_PROGRAM,
)
from feishuperm.models.settings import Settings
from feishuperm.setup import steps
from feishuperm.tables import sections
from feishuperm.wire import HOOK_PURPOSES, PLUGIN

HOOK_SLACK = 5  # seconds by which Claude Code's limit must exceed our own wait
REVIEW_SLACK = 10  # a reviewer is a whole process tree that has to be ended
# Other events run the user's callbacks, which have so long unless they say otherwise.
EVENT_TIMEOUT = int(DEFAULT_TIMEOUT) + REVIEW_SLACK
CALL_TIMEOUT = 20  # for a look before a tool call; it takes milliseconds
END_TIMEOUT = 5  # to tell the server; at the end the client waits 1.5 s at most
# What each of `wire.HOOK_PURPOSES` is asked by: event, matcher and seconds, 0 for those
# that a person has.
KIND_EVENTS: dict[str, tuple[tuple[str, str, int], ...]] = {
    "next": (
        ("Notification", IDLE_TYPE, NEXT_SECONDS + HOOK_SLACK),
        ("SessionEnd", "", END_TIMEOUT),
    ),
    "denied": (("PermissionDenied", "", 0), ("PreToolUse", "", CALL_TIMEOUT)),
    "form": (("Elicitation", "", 0),),
    "session": (
        *(("UserPromptSubmit", "", END_TIMEOUT), ("Stop", "", END_TIMEOUT)),
        *(("StopFailure", "", END_TIMEOUT), ("SessionStart", "", END_TIMEOUT)),
        *(("SessionEnd", "", END_TIMEOUT), ("PreToolUse", "", CALL_TIMEOUT)),
        ("PostToolUse", "", CALL_TIMEOUT),
    ),
}
# For a file that others share: anyone who has not installed us must not see a failure,
# which some hosts take for a refusal.  The exit code of `hook next` means something.
GUARDED = "command -v {} >/dev/null 2>&1 && {} || true"
GUARDED_NEXT = "command -v {} >/dev/null 2>&1 || exit 0; exec {}"
IS_GUARDED = re.compile(
    r"command -v (.+?) >/dev/null 2>&1 (?:&&|\|\| exit 0; exec)"
    r" (\1(?: \w+)?)(?: \|\| true)?"
)
# What a hook may be called for alone; whose agent's it is; that a plugin calls it.
WORDS = (*HOOK_PURPOSES, *AGENTS, PLUGIN)
EVERY_TOOL = ("", "*", ".*")  # matchers
BACKGROUND = "asyncRewake"  # runs beside the session, and wakes it with exit code 2
ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=")


class Registration(NamedTuple):
    """One hook entry that should be there."""

    event: str
    matcher: str
    program: str
    timeout: int
    exactly: bool = False  # a longer time-out that is there does not stay
    kind: str = ""  # a word after the program: it is there for this alone


class Hook(NamedTuple):
    """One hook entry that runs one of our programs."""

    path: editor.Path
    event: str
    matcher: str
    program: str
    entry: dict[str, Any]


def hook_seconds(settings: Settings) -> int:
    """How long an agent has to wait for a permission hook."""
    wait = settings.permission_request_timeout + settings.permission_hold
    return wait + HOOK_SLACK


def registrations(
    timeout: int,
    events: Iterable[str] = (),
    supervisor: bool = False,
    review: int = 0,
    review_stop: int = 0,
    exactly: bool = False,
) -> list[Registration]:
    """The hook entries for a set of wishes, the permission hook first.

    `timeout` is how long it may wait; `exactly` so, whatever its entry says now.
    """
    asks = "PermissionRequest"
    rows = [Registration(asks, "*", HOOK_PROGRAM, timeout + HOOK_SLACK, exactly)]
    kinds = [name for name in events if name in HOOK_PURPOSES]
    plain = [name for name in events if name not in (asks, *HOOK_PURPOSES)]
    # What another kind is asked by, the session is heard of by as well.
    told = {row[0] for kind in kinds if kind != "session" for row in KIND_EVENTS[kind]}
    rows += [Registration(event, "", HOOK_PROGRAM, EVENT_TIMEOUT) for event in plain]
    rows += [
        Registration(event, matcher, HOOK_PROGRAM, limit or rows[0].timeout, kind=kind)
        for kind in kinds
        for event, matcher, limit in KIND_EVENTS[kind]
        if event not in (told if kind == "session" else plain) or kind == "next"
    ]
    if supervisor:
        question, stop = review + REVIEW_SLACK, review_stop + REVIEW_SLACK
        rows += [
            Registration("Stop", "", SUPERVISOR_PROGRAM, stop),
            Registration("PreToolUse", QUESTION_TOOL, SUPERVISOR_PROGRAM, question),
        ]
    return rows


def kind_in(command: object) -> str:
    """The one word of `WORDS` that our hook command has; empty: for everything."""
    word = unguarded(command).rpartition(" ")[2] if isinstance(command, str) else ""
    return word if word in WORDS else ""


def guarded(program: str, kind: str = "") -> str:
    """A command that does nothing where the program is not installed."""
    template = GUARDED_NEXT if kind == "next" else GUARDED
    return template.format(program, f"{program} {kind}".rstrip())


def unguarded(command: str) -> str:
    """What a guarded command runs; any other is what it is."""
    match = IS_GUARDED.fullmatch(command)
    return match[2] if match else command


def program_of(command: object) -> str:
    """Which of our programs a hook command runs, empty for another's."""
    try:
        words = shlex.split(unguarded(command)) if isinstance(command, str) else []
    except ValueError:
        return ""
    while words and ASSIGNMENT.match(words[0]):
        words.pop(0)
    name = words[0].rpartition("/")[2] if words else ""
    if name in ("feishuperm", ARCHIVE) and len(words) > 1:
        name = f"feishuperm-{words[1]}"
    does = PROGRAMS.get(name, "")
    return f"feishuperm-{does}" if does in ("hook", "supervisor") else ""


def find_hooks(text: str) -> list[Hook]:
    """The entries that run our programs, anybody's, in the text's order."""
    return [hook for hook in _hooks(editor.get_value(text, ("hooks",))) if hook.program]


def _hooks(hooks: Any) -> Iterator[Hook]:
    """Every well-formed entry."""
    for event, groups in hooks.items() if isinstance(hooks, dict) else ():
        for index, group in enumerate(groups if isinstance(groups, list) else ()):
            entries = group.get("hooks") if isinstance(group, dict) else None
            for place, entry in enumerate(entries if isinstance(entries, list) else ()):
                if isinstance(entry, dict):
                    path = ("hooks", event, index, "hooks", place)
                    program = program_of(entry.get("command"))
                    yield Hook(
                        path, event, str(group.get("matcher", "")), program, entry
                    )


def missing_program(command: str, environ: Mapping[str, str]) -> str:
    """The program a hook command starts, if it is not there; empty if it is."""
    words = shlex.split(unguarded(command))
    path = environ.get("PATH", os.defpath)
    while "=" in words[0].partition("/")[0]:
        name, _, value = words.pop(0).partition("=")
        path = value if name == "PATH" else path
    named = words[0].replace("$HOME", environ.get("HOME", ""))
    if named.startswith("~/"):
        named = environ.get("HOME", "") + named[1:]
    return "" if shutil.which(named, path=path) else named


def own_hooks(text: str, own: Collection[str]) -> list[Hook]:
    """The entries an install wrote: those with exactly one of its commands."""
    return [hook for hook in find_hooks(text) if hook.entry["command"] in own]


def put_hook(
    text: str, wanted: Registration, command: str, own: Collection[str] = ()
) -> str:
    """The text with our entry for an event, as it should be. Raises SettingsError.

    `own` are commands of earlier installs.  An entry that we own is repaired
    where it stands, and a longer time-out that somebody gave it stays; a second one of
    the same program is cut out.
    """
    present = [
        hook
        for hook in own_hooks(text, {command, *own})
        if (hook.event, hook.program) == (wanted.event, program_of(command))
        and kind_in(hook.entry["command"]) == kind_in(command)
    ]
    for hook in reversed(present[1:]):
        text = drop_hook(text, hook, "")
    entry = _entry(wanted, command, present[0].entry if present else {})
    if not present:
        matcher = {"matcher": wanted.matcher} if wanted.matcher else {}
        group = {**matcher, "hooks": [entry]}
        return editor.add_item(text, ("hooks", wanted.event), group)
    for key, value in entry.items():
        if present[0].entry.get(key, editor.MISSING) != value:
            text = editor.set_value(text, (*present[0].path, key), value)
    return text


def _entry(
    wanted: Registration, command: str, old: Mapping[str, Any]
) -> dict[str, Any]:
    """What an entry should say; its time-out only where the old one will not do."""
    entry: dict[str, Any] = {"type": "command", "command": command}
    if wanted.event == "Notification" and kind_in(command):
        entry[BACKGROUND] = True
    given = old.get("timeout")
    if not isinstance(given, float) or given < wanted.timeout or wanted.exactly:
        entry["timeout"] = wanted.timeout
    return entry


def drop_hook(text: str, hook: Hook, original: str) -> str:
    """Cut the entry, or its whole group if it was alone there."""
    entries = editor.get_value(text, hook.path[:4])
    if len(entries) > 1:
        return editor.cut(text, hook.path)
    group = hook.path[:3]
    return editor.prune(editor.cut(text, group), group[:2], original)


# `install --ask-list`: what Claude Code asks about though it is in auto mode.
#
# Interactive sessions start in auto mode, in which Claude Code judges most calls itself
# and asks about few.  A rule under `permissions.ask` is asked about in every mode but
# `dontAsk` and `bypassPermissions`, and so reaches the phone; it also wins over a rule
# that allows the same.  The rules look at the words of a command, no more:
# `bash -c 'git push'` is no push to them.  tests/e2e/test_ask_list.py says which calls
# reach our hook and which do not.


ASK: editor.Path = ("permissions", "ask")
LIST = sections("setup/ask_list.txt")  # why, and the rules for it
RULES = tuple(rule for rules in LIST.values() for rule in rules)


def listing() -> str:
    """The list as a person reads it, rule by rule."""
    rows = ("\n    ".join((f"  {translate(word(why))}:", *LIST[why])) for why in LIST)
    return "\n".join(rows)


def value_in(text: str, path: editor.Path) -> Any:
    """The value at a path in a settings text; None if its place is taken."""
    try:
        return editor.get_value(text, path)
    except editor.SettingsError:
        return None


def rules_of(text: str) -> list[str]:
    """The rules under `permissions.ask` in a settings text; none if unreadable."""
    rules = value_in(text, ASK)
    items = rules if isinstance(rules, list) else []
    return [rule for rule in items if isinstance(rule, str)]


def drop_rules(text: str, rules: Collection[str], original: str = "") -> str:
    """The text without these rules, and without what is empty for it."""
    value = editor.get_value(text, ASK) if rules else None
    items = value if isinstance(value, list) else []
    for place in reversed(range(len(items))):
        if items[place] in rules:
            text = editor.cut(text, (*ASK, place))
    return editor.prune(text, ASK, original) if items else text


# The files.


DEFAULT_MODE: editor.Path = ("permissions", "defaultMode")
Values = Mapping[editor.Path, Any]
NOTHING: Values = {}


class Edit(NamedTuple):
    """One change of a settings file, and what it does."""

    before: str
    after: str
    rows: list[str]  # in words
    values: list[Any]  # that it sets: path and value
    rules: list[str]  # that it adds
    gone: list[str]  # rules that it takes out


class ClaudeStep(steps.Step):
    """Puts hooks with their commands, values and rules into one settings file."""

    def __init__(
        self,
        manifest: steps.Manifest,
        path: str,
        hooks: Iterable[tuple[Registration, str]],
        values: Values = NOTHING,
        absent: Values = NOTHING,
        rules: Sequence[str] = (),
        away: Collection[str] = (),
        away_values: Collection[editor.Path] = (),
        away_rules: bool = False,
        brief: bool = False,
    ) -> None:
        """`absent` is set where nobody has set it, `values` whatever is there.

        `away` are our hooks that go, by event, kind or program; of `away_values` and
        rules only those go that we have set.  `brief`: the person could see the rules.
        """
        self.name = f"settings:{path}"
        super().__init__(manifest)
        self.path = path
        key = steps.digest(os.fsencode(path))[:16]
        self.backup = os.path.join(manifest.folder, "backups", f"{key}-settings.json")
        self.hooks, self.values, self.absent = list(hooks), values, absent
        self.rules, self.away_rules, self.brief = rules, away_rules, brief
        self.away, self.away_values = away, away_values
        self.own = all_commands(manifest, [command for _, command in self.hooks])

    def changes(self) -> list[str]:
        edit = self.edit()
        if edit.before == edit.after:
            return []
        steps.check_writable(self.path)
        return edit.rows or [msg("repair feishuperm's entries in {}", self.path)]

    def edit(self) -> Edit:
        """What has to be changed now. Raises FeishupermError."""
        try:
            edit = self._edit(editor.decode(read_bytes(self.path) or b""))
            editor.encode(edit.after)
        except editor.SettingsError as error:
            problem = msg("{} is left as it is: {}", self.path, error)
            hint = msg("repair it by hand: {}", self.path)
            raise FeishupermError(problem, hint) from None
        return edit

    def _edit(self, before: str) -> Edit:
        path, rows = self.path, []
        text, removals, gone = self._without(before)
        without = text
        for row, command in self.hooks:
            text = put_hook(text, row, command, self.own)
        if text != without:
            events = ", ".join(dict.fromkeys(row.event for row, _ in self.hooks))
            rows.append(msg("register {} in {}", events, path))
        values = self._missing_values(text)
        for keys, value in values:
            text = editor.set_value(text, tuple(keys), value)
            name = ".".join(map(str, keys))
            rows.append(msg("set {} to {!r} in {}", name, value, path))
        present = rules_of(text)
        rules = [rule for rule in self.rules if rule not in present]
        if rules:
            named = msg("{} rules", len(rules)) if self.brief else ", ".join(rules)
            rows.append(msg("always ask about {} in {}", named, path))
        for rule in rules:
            text = editor.add_item(text, ASK, rule)
        return Edit(before, text, rows + removals, values, rules, gone)

    def _without(self, text: str) -> tuple[str, list[str], list[str]]:
        """The text without what is to go, what that is, and the rules among it."""
        away = [hook for hook in own_hooks(text, self.own) if self._goes(hook)]
        added = self.record.get("rules", []) if self.away_rules else ()
        gone = [rule for rule in rules_of(text) if rule in added]
        pairs = self.record.get("values", [])
        values = [pair for pair in pairs if tuple(pair[0]) in self.away_values]
        rows = [
            msg("remove {} of {} from {}", hook.program, hook.event, self.path)
            for hook in away
        ]
        if gone:
            rows.append(msg("no longer ask about {} in {}", ", ".join(gone), self.path))
        base = (read_bytes(self.backup) or b"").decode()
        return take_out(text, away, gone, values, base), rows, gone

    def _goes(self, hook: Hook) -> bool:
        is_ours = hook.program == SUPERVISOR_PROGRAM
        kind = kind_in(hook.entry["command"])
        # One for the session goes where another kind has come that does its work.
        events = [row.event for row, _ in self.hooks if row.kind == kind == "session"]
        if events and hook.event not in events:
            return True
        return (SUPERVISOR_PROGRAM if is_ours else kind or hook.event) in self.away

    def _missing_values(self, text: str) -> list[Any]:
        """The values that have to be set in a text, each with its path."""
        there = {p: editor.get_value(text, p) for p in (*self.absent, *self.values)}
        new = {p: v for p, v in self.absent.items() if there[p] is editor.MISSING}
        new.update({p: v for p, v in self.values.items() if there[p] != v})
        return [[list(path), value] for path, value in new.items()]

    def apply(self) -> None:
        edit = self.edit()  # again: the file may have been changed meanwhile
        if edit.before == edit.after:
            return
        data = editor.encode(edit.after)
        self.manifest.save(self.name, self._new_record(edit, data))
        steps.make_folder(os.path.dirname(os.path.realpath(self.path)))
        write_atomic(self.path, data)

    def _new_record(self, edit: Edit, data: bytes) -> steps.Record:
        """How to come back; the base is the file as it would be without us."""
        old = self.record
        kept = [v for v in old.get("values", []) if tuple(v[0]) not in self.away_values]
        rules = {*old.get("rules", []), *edit.rules} - {*edit.gone}
        common = {
            "values": kept + edit.values,
            "commands": self.own,
            "rules": sorted(rules),
        }
        if steps.digest(edit.before.encode()) in old.get("written", ()):
            return {**old, **common, "written": [*old["written"], steps.digest(data)]}
        earlier = (read_bytes(self.backup) or b"").decode() if old else ""
        base = without_us(edit.before, {**old, "commands": self.own}, earlier)
        steps.make_folder(os.path.dirname(self.backup))
        write_atomic(self.backup, base.encode(), 0o600)
        return {
            **common,
            "path": self.path,
            "existed": os.path.exists(self.path),
            "backup": self.backup,
            "written": [steps.digest(data)],
            "folders": steps.missing_folders(
                os.path.dirname(os.path.realpath(self.path))
            ),
        }


def all_commands(manifest: steps.Manifest, more: Iterable[str] = ()) -> list[str]:
    """Every hook command that an install may have written, in whatever file."""
    records = manifest.records.values()
    written = {text for record in records for text in record.get("commands", [])}
    return sorted({*written, *steps.own_commands(manifest.record("program")), *more})


def written_hooks(record: steps.Record, own: Iterable[str]) -> list[Registration]:
    """Our entries in a recorded settings file; none when it is unreadable."""
    text, own = settings_text(record["path"]), {*own, *record.get("commands", [])}
    return [
        Registration(event, matcher, program, int(entry.get("timeout") or 1), kind=kind)
        for _, event, matcher, program, entry in own_hooks(text, own)
        for kind in [kind_in(entry["command"])]
    ]


def take_out(
    text: str,
    hooks: Sequence[Hook],
    rules: Collection[str],
    values: Sequence[Any],
    base: str,
) -> str:
    """A settings text without some hooks, rules, and values that are still ours.

    Whatever the file had before us, `base`, is there again.
    """
    for hook in reversed(hooks):
        text = drop_hook(text, hook, base)
    text = drop_rules(text, rules, base)
    for keys, value in values:
        path = tuple(keys)
        if editor.get_value(text, path) == value:
            text = editor.drop_value(text, path, base)
            before = editor.get_value(base, path)
            if before is not editor.MISSING:
                text = editor.set_value(text, path, before)
    return text


def without_us(text: str, record: steps.Record, base: str = "") -> str:
    """A settings text without all that a record says is ours."""
    hooks = own_hooks(text, record.get("commands", []))
    rules, values = record.get("rules", []), record.get("values", [])
    return take_out(text, hooks, rules, values, base)


def undo_claude(record: steps.Record) -> list[str]:
    """Bring a settings file back. Raises FeishupermError and then changes nothing."""
    path = record["path"]
    data, base = read_bytes(path), read_bytes(record["backup"])
    if data is None:
        return []
    if base is not None and steps.digest(data) in record["written"]:
        if record["existed"]:
            write_atomic(path, base)
            return [msg("restored {}", path)]
        steps.remove_file(os.path.realpath(path))
        steps.remove_folders(record.get("folders", []))
        return [msg("removed {}", path)]
    try:
        text = editor.decode(data)
        after = without_us(text, record, (base or b"").decode())
    except editor.SettingsError as error:
        problem = msg("{} is left as it is: {}", path, error)
        raise FeishupermError(
            problem, msg("remove the feishuperm hooks by hand")
        ) from None
    if after == text:
        return []
    write_atomic(path, editor.encode(after))
    return [msg("removed feishuperm's hooks from {}", path)]


def settings_text(path: str) -> str:
    """What a settings file holds; nothing if it cannot be read."""
    try:
        return editor.decode(read_bytes(path) or b"")
    except FeishupermError:
        return ""


def permission_mode(path: str) -> str:
    """The mode a settings file makes sessions start in; empty when it names none."""
    mode = value_in(settings_text(path), DEFAULT_MODE)
    return mode if isinstance(mode, str) else ""


def is_registered(program: str, project: str, environ: Mapping[str, str]) -> bool:
    """Whether any file that Claude Code reads in a project starts this program."""
    texts = map(settings_text, claude_settings(project, environ).values())
    return any(hook.program == program for text in texts for hook in find_hooks(text))
