"""Claude Code's files: our hooks in its settings, our slash commands beside them.

A settings file belongs to its owner: it comes back byte for byte if nobody else changed
it since, and otherwise loses exactly our own entries.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from feishuperm.errors import FeishupermError
from feishuperm.lib import settings_editor as editor
from feishuperm.lib.config import claude_dir, claude_settings
from feishuperm.lib.files import read_bytes, write_atomic
from feishuperm.setup import files
from feishuperm.setup.ask_list import drop_rules, missing_rules, put_rules, rules_of
from feishuperm.setup.files import digest
from feishuperm.setup.hook_entries import (
    SUPERVISOR,
    Hook,
    Registration,
    drop_hook,
    drop_hooks,
    find_hooks,
    kind_in,
    own_hooks,
    put_hook,
)
from feishuperm.setup.manifest import Manifest, Record, Step
from feishuperm.setup.program_step import own_commands

DEFAULT_MODE: editor.Path = ("permissions", "defaultMode")
Values = Mapping[editor.Path, Any]


class Wishes(NamedTuple):
    """What else is to be in a settings file of ours, or no longer."""

    values: Values = {}  # set, whatever is there  # noqa: RUF012
    absent: Values = {}  # set only where nobody has set them  # noqa: RUF012
    rules: Sequence[str] = ()  # under `permissions.ask`
    away: frozenset[str] = frozenset()  # our hooks, by event, kind or program
    away_values: Sequence[editor.Path] = ()  # that we have set
    away_rules: bool = False  # all that we have added
    shown: bool = False  # the rules, to whoever wished for them


NO_WISHES = Wishes()


class ClaudeStep(Step):
    """Puts hooks with their commands, values and rules into one settings file."""

    def __init__(
        self,
        manifest: Manifest,
        path: str,
        hooks: Iterable[tuple[Registration, str]],
        wishes: Wishes = NO_WISHES,
    ) -> None:
        self.name = f"settings:{path}"
        super().__init__(manifest)
        self.path = path
        key = digest(os.fsencode(path))[:16]
        self.backup = os.path.join(manifest.folder, "backups", f"{key}-settings.json")
        self.hooks = list(hooks)
        self.wishes = wishes
        # Every command that an install of ours may have written, this one included.
        earlier = own_commands(manifest.record("program"))
        commands = [command for _, command in self.hooks]
        self.own = sorted({*earlier, *self.record.get("commands", []), *commands})

    def changes(self) -> list[str]:
        before, after = self.texts()
        if before == after:
            return []
        files.check_writable(self.path)
        return list(self._rows(before)) or [f"mend our entries in {self.path}"]

    def _rows(self, before: str) -> Iterator[str]:
        """What changes, a line for each thing."""
        hooks = self._with_hooks(self._without(before)) != self._without(before)
        events = ", ".join(dict.fromkeys(row.event for row, _ in self.hooks))
        if hooks and events:
            yield f"register {events} in {self.path}"
        for path, value in self._values(before).items():
            yield f"set {'.'.join(map(str, path))} to {value!r} in {self.path}"
        rules = missing_rules(before, self.wishes.rules)
        if rules:
            names = "the rules above" if self.wishes.shown else ", ".join(rules)
            yield f"ask about {names} in {self.path}"
        for hook in self._away(before):
            yield f"remove {hook.program} of {hook.event} from {self.path}"
        gone = self._away_rules(before)
        if gone:
            yield f"ask no longer about {', '.join(gone)} in {self.path}"

    def texts(self) -> tuple[str, str]:
        """The file's text now, and as it should be. Raises FeishupermError."""
        try:
            before = editor.decode(read_bytes(self.path) or b"")
            after = self._edit(before)
            editor.encode(after)
        except editor.SettingsError as error:
            problem = f"{self.path} is left as it is: {error}"
            raise FeishupermError(problem, f"mend it by hand: {self.path}") from None
        return before, after

    def _edit(self, text: str) -> str:
        text = self._with_hooks(self._without(text))
        for path, value in self._values(text).items():
            text = editor.set_value(text, path, value)
        return put_rules(text, self.wishes.rules)

    def _with_hooks(self, text: str) -> str:
        for row, command in self.hooks:
            text = put_hook(text, row, command, self.own)
        return text

    def _without(self, text: str) -> str:
        """The text without what is to go."""
        if not (self.wishes.away or self.wishes.away_values or self.wishes.away_rules):
            return text
        base = (read_bytes(self.backup) or b"").decode()
        for hook in reversed(self._away(text)):
            text = drop_hook(text, hook, base)
        for path in self.wishes.away_values:
            if [list(path), editor.get_value(text, path)] in self._set_before():
                text = editor.drop_value(text, path, base)
        return drop_rules(text, self._away_rules(text), base)

    def _set_before(self) -> list[Any]:
        """Paths and values that earlier installs have set."""
        values: list[Any] = self.record.get("values", [])
        return values

    def _away(self, text: str) -> list[Hook]:
        """Our hooks that are to go."""
        return [
            hook
            for hook in own_hooks(text, self.own)
            if not self.wishes.away.isdisjoint(_names(hook))
        ]

    def _away_rules(self, text: str) -> list[str]:
        """Rules of ours that are to go."""
        added = self.record.get("rules", []) if self.wishes.away_rules else []
        return [rule for rule in rules_of(text) if rule in added] if added else []

    def _values(self, text: str) -> dict[editor.Path, Any]:
        """The values that have to be set in a text."""
        absent, values = self.wishes.absent, self.wishes.values
        there = {p: editor.get_value(text, p) for p in (*absent, *values)}
        absent = {p: v for p, v in absent.items() if there[p] is editor.MISSING}
        return {**absent, **{p: v for p, v in values.items() if there[p] != v}}

    def apply(self) -> None:
        before, after = self.texts()
        if before == after:
            return
        data = editor.encode(after)
        self.manifest.save(self.name, self._new_record(before, data))
        files.make_folder(os.path.dirname(os.path.realpath(self.path)))
        write_atomic(self.path, data)

    def _new_record(self, before: str, data: bytes) -> Record:
        """How to come back; the base is the file as it would be without us."""
        old = self.record
        values = [[list(path), value] for path, value in self._values(before).items()]
        rules = {*old.get("rules", []), *missing_rules(before, self.wishes.rules)}
        rules.difference_update(self._away_rules(before))
        common = {
            "values": [
                pair
                for pair in self._set_before()
                if tuple(pair[0]) not in self.wishes.away_values
            ]
            + values,
            "commands": self.own,
            "rules": sorted(rules),
        }
        if digest(before.encode()) in old.get("written", ()):
            return {**old, **common, "written": [*old["written"], digest(data)]}
        earlier = (read_bytes(self.backup) or b"").decode() if old else ""
        base = without_us(before, {**old, "commands": self.own}, earlier)
        files.make_folder(os.path.dirname(self.backup))
        write_atomic(self.backup, base.encode(), 0o600)
        return {
            **common,
            "path": self.path,
            "existed": os.path.exists(self.path),
            "backup": self.backup,
            "written": [digest(data)],
            "folders": files.missing_folders(os.path.dirname(self.path)),
        }


def _names(hook: Hook) -> tuple[str, ...]:
    """What a person calls a hook of ours who wants it away."""
    if hook.program == SUPERVISOR:
        return (SUPERVISOR,)
    return (kind_in(hook.entry["command"]) or hook.event,)


def written_hooks(record: Record, own: Iterable[str]) -> list[Registration]:
    """The entries of ours in a recorded settings file; none when it is unreadable."""
    text, own = settings_text(record["path"]), {*own, *record.get("commands", [])}
    return [
        Registration(
            h.event,
            h.matcher,
            h.program,
            int(h.entry.get("timeout") or 1),
            kind=kind_in(h.entry["command"]),
        )
        for h in own_hooks(text, own)
    ]


def without_us(text: str, record: Record, base: str = "") -> str:
    """A settings text without our hooks, rules and the values we set."""
    text = drop_hooks(text, record.get("commands", []), base)
    text = drop_rules(text, record.get("rules", []), base)
    for keys, value in record.get("values", []):
        path = tuple(keys)
        if editor.get_value(text, path) == value:
            text = editor.drop_value(text, path, base)
            before = editor.get_value(base, path)
            if before is not editor.MISSING:
                text = editor.set_value(text, path, before)
    return text


def undo_claude(record: Record) -> list[str]:
    """Bring a settings file back. Raises FeishupermError and then changes nothing."""
    path = record["path"]
    data, base = read_bytes(path), read_bytes(record["backup"])
    if data is None:
        return []
    if base is not None and digest(data) in record["written"]:
        return [_restore(path, base, record)]
    try:
        text = editor.decode(data)
        after = without_us(text, record, (base or b"").decode())
    except editor.SettingsError as error:
        problem = f"{path} is left as it is: {error}"
        raise FeishupermError(problem, "remove the feishuperm hooks by hand") from None
    if after == text:
        return []
    write_atomic(path, editor.encode(after))
    return [f"removed our hooks from {path}"]


def _restore(path: str, data: bytes, record: Record) -> str:
    if record["existed"]:
        write_atomic(path, data)
        return f"restored {path}"
    files.remove_file(os.path.realpath(path))
    files.remove_folders(record.get("folders", []))
    return f"removed {path}"


def settings_text(path: str) -> str:
    """What a settings file holds; nothing if it cannot be read."""
    try:
        return editor.decode(read_bytes(path) or b"")
    except FeishupermError:
        return ""


def permission_mode(path: str) -> str:
    """The mode a settings file makes sessions start in; empty when it names none."""
    try:
        mode = editor.get_value(settings_text(path), DEFAULT_MODE)
    except editor.SettingsError:
        return ""
    return mode if isinstance(mode, str) else ""


def asking_commands(path: str) -> set[str]:
    """The commands of ours in a settings file that ask for permission."""
    hooks = find_hooks(settings_text(path))
    return {h.entry["command"] for h in hooks if h.event == "PermissionRequest"}


def is_registered(program: str, project: str, environ: Mapping[str, str]) -> bool:
    """Whether any file that Claude Code reads in a project starts this program."""
    texts = map(settings_text, claude_settings(project, environ).values())
    return any(hook.program == program for text in texts for hook in find_hooks(text))


class SlashStep(Step):
    """Writes the files of slash commands that nobody else has written."""

    name = "commands"

    def __init__(self, manifest: Manifest, texts: Mapping[str, str]) -> None:
        super().__init__(manifest)
        self.folder = os.path.join(claude_dir(manifest.environ), "commands")
        self.files = {
            os.path.join(self.folder, name): text.encode()
            for name, text in texts.items()
        }

    def changes(self) -> list[str]:
        return [f"write {path}" for path in self.files if self._wants(path)]

    def _wants(self, path: str) -> bool:
        """Whether to write a file: absent, or an old one of ours."""
        old = read_bytes(path)
        if old is None:
            return True
        return old != self.files[path] and self.record.get(path) == digest(old)

    def apply(self) -> None:
        wanted = [path for path in self.files if self._wants(path)]
        if wanted:
            new = {path: digest(self.files[path]) for path in wanted}
            self.save([self.folder], {**self.record, **new})
        for path in wanted:
            write_atomic(path, self.files[path])


class SlashAway(Step):
    """Takes the slash commands out again that nobody has changed."""

    name = SlashStep.name

    def changes(self) -> list[str]:
        return [f"remove {path}" for path in self.record if path.startswith("/")]

    def apply(self) -> None:
        if self.record:
            undo_slash(self.record)
            self.manifest.save(self.name, {})


def undo_slash(record: Record) -> list[str]:
    """Remove the slash commands nobody has changed."""
    removed = []
    for path, written in record.items():
        data = read_bytes(path) if path.startswith("/") else None
        if data is not None and digest(data) == written:
            files.remove_file(path)
            removed.append(f"removed {path}")
    files.remove_folders(record.get("folders", []))
    return removed
