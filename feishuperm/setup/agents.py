"""Other agents: where feishuperm's hook is registered beside Claude Code's, and how.

A row of `AGENTS` names an agent's file.  An entry in a file that is shared is made and
undone as in Claude Code's settings (`claude_settings`), a file that is feishuperm's
alone as a slash command is (`steps.FilesStep`).  Nothing is written for an agent that
is not here.  The command can never fail, as Copilot takes any failure for a refusal.

    unregistered --install--> registered --no-agents, uninstall--> unregistered
    imported: entries that a program has copied from Claude Code's settings; their plain
              hook stays silent there, and goes when the agent is registered
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Callable, Collection, Iterator

from feishuperm.agents.table import AGENTS, ENTRY, Agent, Registration
from feishuperm.app.health import OK, Finding, fail, ok, warn
from feishuperm.errors import UsageError
from feishuperm.lib import settings_editor as editor
from feishuperm.lib.config import home
from feishuperm.lib.files import read_bytes
from feishuperm.messages import msg
from feishuperm.models.hooks import HOOK_EVENTS
from feishuperm.models.names import HOOK_PROGRAM, SUPERVISOR_PROGRAM
from feishuperm.models.settings import Settings
from feishuperm.setup import claude_settings as claude
from feishuperm.setup.checks import edit
from feishuperm.setup.steps import (
    FilesStep,
    Manifest,
    Record,
    Step,
    digest,
    hook_link,
    own_commands,
    own_file,
)
from feishuperm.wire import HOOK_PURPOSES

EVENT = "PermissionRequest"
ALL_OURS = (*HOOK_EVENTS, *HOOK_PURPOSES, SUPERVISOR_PROGRAM)
VERSION = re.compile(r"\d+(?:[.+-]\w+)+")
VERSION_SECONDS = 10  # some unpack themselves when they are first started
# Where Codex keeps what was reviewed: a table named by file, event and two places.
CODEX_STATE, CODEX_KEY = "config.toml", "{}:permission_request:{}:{}"


def names(given: str) -> list[str]:
    """The agents of a comma list. Raises UsageError for one that is not known."""
    found = [name.strip().lower() for name in given.split(",") if name.strip()]
    known = [word for word, row in AGENTS.items() if row.registration]
    for name in found:
        if name not in known:
            hint = msg("known: {}", ", ".join(known))
            raise UsageError(msg("unknown agent {!r}", name), hint)
    return found


class Place:
    """One agent on this machine, for one user."""

    def __init__(self, row: Agent, manifest: Manifest) -> None:
        assert row.registration is not None
        self.row, self.manifest = row, manifest
        self.how: Registration = row.registration
        environ = self.environ = manifest.environ
        name, _, rest = self.how.variable.partition("/")
        named = os.path.join(environ[name], rest) if environ.get(name) else ""
        self.folder = named or os.path.join(home(environ), self.how.folder)
        self.path = os.path.abspath(os.path.join(self.folder, self.how.file))
        is_entry = self.how.form == ENTRY
        self.step_name = f"settings:{self.path}" if is_entry else f"files:{row.word}"

    def record(self) -> Record:
        """What an install has left; empty: it is not registered."""
        return self.manifest.record(self.step_name)

    def program(self) -> str:
        path = self.environ.get("PATH", os.defpath)
        return shutil.which(self.how.program, path=path) or ""

    def absence(self) -> str:
        """Why nothing can be registered for it; empty if it is here."""
        if not self.program():
            return msg("{} is not here: no `{}`", self.row.name, self.how.program)
        if not os.path.isdir(self.folder):
            return msg(
                "{} has never been started here: no {}", self.row.name, self.folder
            )
        return ""

    def step(self, link: str, settings: Settings, exactly: bool) -> Step:
        """What registers it, and keeps it as it should be."""
        word, seconds = self.row.word, claude.hook_seconds(settings)
        if self.how.form != ENTRY:
            files = {self.path: self.own_file(link, seconds)}
            return FilesStep(self.manifest, self.step_name, files)
        limit = self.how.milliseconds_from
        timeout = seconds * 1000 if limit and seconds >= limit else seconds
        row = claude.Registration(EVENT, "*", HOOK_PROGRAM, timeout, exactly, word)
        command = claude.guarded(shlex.quote(link), word)
        return self._entry_step([(row, command)], ALL_OURS)

    def own_file(self, link: str, seconds: int) -> bytes:
        """What a file holds that is feishuperm's alone: a plugin starts no shell."""
        end, word = os.path.splitext(self.path)[1], self.row.word
        calls = link if end == ".js" else claude.guarded(shlex.quote(link), word)
        return own_file(f"agents/{word}{end}", calls, seconds)

    def removal(self) -> Step:
        """What unregisters it."""
        if self.how.form != ENTRY:
            return FilesStep(self.manifest, self.step_name, {})
        return self._entry_step([], (*ALL_OURS, self.row.word))

    def _entry_step(
        self, hooks: list[tuple[claude.Registration, str]], away: Collection[str]
    ) -> claude.ClaudeStep:
        kind = claude.ClaudeStep if hooks else EntryRemoval
        step = kind(self.manifest, self.path, hooks, away=away)
        step.own = sorted({*step.own, *all_commands(self.manifest)})
        return step

    def hooks(self) -> list[claude.Hook]:
        """Entries that call our program, whoever put them there. Raises."""
        if self.how.form != ENTRY:
            return []
        return claude.find_hooks(editor.decode(read_bytes(self.path) or b""))

    def version(self) -> str:
        """What the program says of itself, empty if it says nothing in time."""
        try:
            said = subprocess.run(
                [self.program(), "--version"],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                timeout=VERSION_SECONDS,
            ).stdout
        except (OSError, subprocess.TimeoutExpired):
            return ""
        found = VERSION.search(said.decode(errors="replace"))
        return found[0] if found else ""


class EntryRemoval(claude.ClaudeStep):
    """Brings an agent's file back as `uninstall` does, and forgets it."""

    def apply(self) -> None:
        record = {"path": self.path, "backup": "", **self.record}
        claude.undo_claude({**record, "commands": self.own})
        self.manifest.forget(self.name)


def places(manifest: Manifest) -> list[Place]:
    """Every agent that can be registered."""
    return [Place(row, manifest) for row in AGENTS.values() if row.registration]


def all_commands(manifest: Manifest) -> set[str]:
    """Every hook command that an install has written, in whatever file."""
    records = manifest.records.values()
    written = {word for record in records for word in record.get("commands", [])}
    return {*written, *own_commands(manifest.record("program"))}


def imported(manifest: Manifest) -> dict[str, Record]:
    """Records for `uninstall`: our commands in files where no install put them."""
    own, found = all_commands(manifest), {}
    for place in places(manifest):
        text = claude.settings_text(place.path) if place.how.form == ENTRY else ""
        if not place.record() and claude.own_hooks(text, own):
            record = {"path": place.path, "backup": "", "commands": sorted(own)}
            found[place.step_name] = record
    return found


# What `doctor` says.


CheckHook = Callable[[str, claude.Hook], Finding]


def findings(
    place: Place, settings: Settings, check_hook: CheckHook
) -> Iterator[Finding]:
    """One agent: is it registered, can it decide; and what it cannot do."""
    name, absence = place.row.name, place.absence()
    if absence:
        if place.record():
            fix = f"feishuperm install --no-agents {place.row.word}"
            yield warn(msg("{}; feishuperm is still registered for it", absence), fix)
        return
    try:
        hooks = place.hooks()
    except editor.SettingsError as error:
        yield fail(msg("{}: {}", place.path, error), edit(place.path))
        return
    own = [
        hook
        for hook in hooks
        if hook.event == EVENT
        and claude.kind_in(hook.entry["command"]) == place.row.word
    ]
    repair = f"feishuperm install --agents {place.row.word}"
    problems = list(_entry_problems(place, own, check_hook, repair))
    if place.how.form != ENTRY and place.record():
        problems = list(_file_problems(place, settings, repair))
    elif len(own) < len(hooks):
        problems.append(_copied(place, [x for x in hooks if x not in own], repair))
    yield from problems
    version = f"{name} {place.version()}".rstrip()
    if not own and (place.how.form == ENTRY or not place.record()):
        yield ok(msg("{} is here and not registered: {}", version, repair))
    elif not problems:
        said = msg("{}: registered in {}; {}", version, place.path, place.how.limits)
        yield ok(said)


def _entry_problems(
    place: Place, own: list[claude.Hook], check_hook: CheckHook, repair: str
) -> Iterator[Finding]:
    """What keeps our entries in a shared file from deciding."""
    text = claude.settings_text(place.path)
    if own and claude.value_in(text, ("disableAllHooks",)) is True:
        said = msg("{} disables all hooks", place.path)
        yield fail(said, edit(place.path, msg("remove disableAllHooks")))
    for hook in own:
        finding = _in_seconds(place, check_hook, hook)
        if finding.state != OK:
            yield finding._replace(fix=repair)
        if place.how.reviews and not _is_reviewed(place, hook):
            said = msg("{} has not reviewed the hook, and runs none", place.row.name)
            fix = msg("start {} and choose to trust the hook", place.how.program)
            yield warn(said, fix)


def _copied(place: Place, hooks: list[claude.Hook], repair: str) -> Finding:
    """What a program has copied from Claude Code's settings."""
    own = all_commands(place.manifest)
    goes = all(hook.entry["command"] in own for hook in hooks)
    text = msg(
        "{} has hooks of Claude Code's settings, which do nothing there", place.path
    )
    by_hand = edit(place.path, msg("remove {}", HOOK_PROGRAM))
    return warn(text, repair if goes else by_hand)


def _in_seconds(place: Place, check_hook: CheckHook, hook: claude.Hook) -> Finding:
    """What is found of an entry, whose time-out may be in milliseconds."""
    limit, given = place.how.milliseconds_from, hook.entry.get("timeout")
    if limit and isinstance(given, float) and given >= limit:
        hook = hook._replace(entry={**hook.entry, "timeout": given / 1000})
    return check_hook(place.path, hook)


def _file_problems(place: Place, settings: Settings, repair: str) -> Iterator[Finding]:
    """What is wrong with a file that is feishuperm's alone."""
    data, path = read_bytes(place.path), place.path
    link, seconds = hook_link(place.manifest), claude.hook_seconds(settings)
    if data is not None and digest(data) != place.record().get(path):
        text = msg("{} was changed by somebody, and is left as it is", path)
        yield warn(text, f"rm {shlex.quote(path)}; {repair}")
    elif data != place.own_file(link, seconds):
        yield warn(msg("{} is gone, or not up to date", path), repair)


def _is_reviewed(place: Place, hook: claude.Hook) -> bool:
    """Whether Codex has written down that a person trusts the hook."""
    state = read_bytes(os.path.join(place.folder, CODEX_STATE)) or b""
    at = hook.path[2], hook.path[4]
    keys = (
        CODEX_KEY.format(x, *at) for x in (place.path, os.path.realpath(place.path))
    )
    return any(f'"{key}"'.encode() in state for key in keys)
