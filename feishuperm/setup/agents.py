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

import json
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property

from feishuperm.agents.table import AGENTS, ENTRY, Agent, Registration
from feishuperm.app.health import OK, Finding, fail, ok, warn
from feishuperm.errors import FeishupermError, UsageError
from feishuperm.lib import settings_editor as editor
from feishuperm.lib.config import home
from feishuperm.lib.files import read_bytes
from feishuperm.messages import msg
from feishuperm.models.fields import number_at
from feishuperm.models.hooks import HOOK_EVENTS
from feishuperm.models.names import HOOK_PROGRAM, SUPERVISOR_PROGRAM
from feishuperm.models.settings import Settings
from feishuperm.setup import claude_settings as claude
from feishuperm.setup import steps
from feishuperm.setup.checks import edit
from feishuperm.wire import HOOK_PURPOSES

EVENT = "PermissionRequest"
ALL_OURS = (*HOOK_EVENTS, *HOOK_PURPOSES, SUPERVISOR_PROGRAM)
OTHER_FILES = (".qoder/settings.json",)  # below the home folder
VERSION = re.compile(r"\d+(?:[.+-]\w+)+")
VERSION_SECONDS = 10  # some unpack themselves when they are first started


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

    def __init__(self, row: Agent, manifest: steps.Manifest) -> None:
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

    def record(self) -> steps.Record:
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

    def step(self, link: str, settings: Settings, exactly: bool) -> steps.Step:
        """What registers it, and keeps it as it should be."""
        word, seconds = self.row.word, claude.hook_seconds(settings)
        if self.how.form != ENTRY:
            files = {self.path: self.own_file(link, seconds)}
            return steps.FilesStep(self.manifest, self.step_name, files)
        limit = self.how.milliseconds_from
        timeout = seconds * 1000 if limit and seconds >= limit else seconds
        row = claude.Registration(EVENT, "*", HOOK_PROGRAM, timeout, exactly, word)
        command = claude.guarded(shlex.quote(link), word)
        return claude.ClaudeStep(
            self.manifest, self.path, [(row, command)], away=ALL_OURS
        )

    def own_file(self, link: str, seconds: int) -> bytes:
        """What a file holds that is feishuperm's alone: a plugin starts no shell."""
        end, word = os.path.splitext(self.path)[1], self.row.word
        calls = link if end == ".js" else claude.guarded(shlex.quote(link), word)
        return steps.own_file(f"agents/{word}{end}", calls, seconds)

    def removal(self) -> steps.Step:
        """What unregisters it."""
        if self.how.form != ENTRY:
            return steps.FilesStep(self.manifest, self.step_name, {})
        away = (*ALL_OURS, self.row.word)
        return EntryRemoval(self.manifest, self.path, [], away=away)

    def hooks(self) -> list[claude.Hook]:
        """Every entry that calls our program. Raises."""
        if self.how.form != ENTRY:
            return []
        return claude.find_hooks(editor.decode(read_bytes(self.path) or b""))

    @cached_property
    def version(self) -> str:
        """What the program says of itself, empty if it says nothing in time."""
        command, nothing = [self.program(), "--version"], subprocess.DEVNULL
        try:
            done = subprocess.run(
                command, stdin=nothing, capture_output=True, timeout=VERSION_SECONDS
            )
        except (OSError, subprocess.TimeoutExpired):
            return ""
        found = VERSION.search(done.stdout.decode(errors="replace"))
        return found[0] if found else ""


class EntryRemoval(claude.ClaudeStep):
    """Brings an agent's file back as `uninstall` does, and forgets it."""

    def apply(self) -> None:
        record = {"path": self.path, "backup": "", **self.record}
        claude.undo_claude({**record, "commands": self.own})
        self.manifest.forget(self.name)


def places(manifest: steps.Manifest) -> list[Place]:
    """Every agent that can be registered."""
    return [Place(row, manifest) for row in AGENTS.values() if row.registration]


def imported(manifest: steps.Manifest) -> dict[str, steps.Record]:
    """Records for `uninstall`: our commands in files where no install put them."""
    own, found = claude.all_commands(manifest), {}
    paths = [x.path for x in places(manifest) if x.how.form == ENTRY]
    for path in [*paths, *other_files(manifest.environ)]:
        name, text = f"settings:{path}", claude.settings_text(path)
        if not manifest.record(name) and claude.own_hooks(text, own):
            found[name] = {"path": path, "backup": "", "commands": own}
    return found


def other_files(environ: Mapping[str, str]) -> list[str]:
    """Where agents without a row keep what they copied from Claude Code's settings."""
    return [os.path.join(home(environ), name) for name in OTHER_FILES]


# What `doctor` says.


CheckHook = Callable[[str, claude.Hook], Finding]


def copies(environ: Mapping[str, str]) -> Iterator[Finding]:
    """Our hooks where nobody can be asked by them."""
    for path in other_files(environ):
        if claude.find_hooks(claude.settings_text(path)):
            yield _idle(path, edit(path, msg("remove {}", HOOK_PROGRAM)))


def _idle(path: str, fix: str) -> Finding:
    return warn(msg("{} has hooks of Claude Code's that do nothing there", path), fix)


def findings(
    place: Place, settings: Settings, check_hook: CheckHook
) -> Iterator[Finding]:
    """One agent: is it registered, can it decide; and what it cannot do."""
    absence = place.absence()
    if absence:
        if place.record():
            fix = f"feishuperm install --no-agents {place.row.word}"
            yield warn(msg("{}; feishuperm is still registered for it", absence), fix)
        return
    try:
        hooks = place.hooks()
    except FeishupermError as error:
        yield fail(msg("{}: {}", place.path, error), edit(place.path))
        return
    ours = EVENT, place.row.word
    own = [x for x in hooks if (x.event, claude.kind_in(x.entry["command"])) == ours]
    repair = f"feishuperm install --agents {place.row.word}"
    problems = list(_entry_problems(place, own, check_hook, repair))
    has_file = place.how.form != ENTRY and place.record()
    if has_file:
        problems = list(_file_problems(place, settings, repair))
    problems += _copy_problems(place, [x for x in hooks if x not in own], repair)
    yield from problems
    version = f"{place.row.name} {place.version}".rstrip()
    if place.version != place.row.tested:
        version = msg("{} (tested: {})", version, place.row.tested)
    if not own and not has_file:
        yield ok(msg("{} is here and not registered: {}", version, repair))
    elif not problems:
        said = msg("{}: registered in {}; {}", version, place.path, place.how.limits)
        yield ok(said)


def _copy_problems(
    place: Place, hooks: list[claude.Hook], repair: str
) -> Iterator[Finding]:
    """Entries from Claude Code's settings; what an install wrote it also replaces."""
    commands = {x.entry["command"] for x in hooks}
    if commands:
        goes = commands <= {*claude.all_commands(place.manifest)}
        fix = repair if goes else edit(place.path, msg("remove {}", HOOK_PROGRAM))
        yield _idle(place.path, fix)


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


def _in_seconds(place: Place, check_hook: CheckHook, hook: claude.Hook) -> Finding:
    """What is found of an entry, whose time-out may be in milliseconds."""
    limit, given = place.how.milliseconds_from, hook.entry.get("timeout")
    if limit and isinstance(given, float) and given >= limit:
        hook = hook._replace(entry={**hook.entry, "timeout": given / 1000})
    return check_hook(place.path, hook)


def _file_problems(place: Place, settings: Settings, repair: str) -> Iterator[Finding]:
    """What is wrong with a file that is feishuperm's alone."""
    data, path = read_bytes(place.path), place.path
    link, seconds = steps.hook_link(place.manifest), claude.hook_seconds(settings)
    if data is not None and steps.digest(data) != place.record().get(path):
        text = msg("{} was changed by somebody, and is left as it is", path)
        yield warn(text, f"rm {shlex.quote(path)}; {repair}")
    elif data != place.own_file(link, seconds):
        yield warn(msg("{} is gone, or not up to date", path), repair)


def _is_reviewed(place: Place, hook: claude.Hook) -> bool:
    """Whether Codex has a table for it, named by file, event and two places.

    In it stands the hash of what a person has looked at, which is now another entry if
    that differs.  How it is made is only known of the version that was tested.
    """
    state = read_bytes(os.path.join(place.folder, "config.toml")) or b""
    at = f':permission_request:{hook.path[2]}:{hook.path[4]}"'
    if place.version == place.row.tested:
        at += f']\ntrusted_hash = "sha256:{reviewed_hash(hook)}"'
    paths = place.path, os.path.realpath(place.path)
    return any(f'"{path}{at}'.encode() in state for path in paths)


def reviewed_hash(hook: claude.Hook) -> str:
    """What Codex calls an entry by once a person has looked at it."""
    seconds, command = int(number_at(hook.entry, "timeout")), hook.entry["command"]
    entry = {"type": "command", "command": command, "timeout": seconds, "async": False}
    seen = {"event_name": "permission_request", "hooks": [entry]}
    matcher = {"matcher": hook.matcher} if hook.matcher else {}
    text = json.dumps({**seen, **matcher}, sort_keys=True, separators=(",", ":"))
    return steps.digest(text.encode())
