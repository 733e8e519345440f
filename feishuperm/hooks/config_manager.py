"""ConfigManager: the one reader of Claude Code's settings files.

It reads the user's, the project's and the local file, keeps what is valid under
`hooks`, `hookScriptPaths` and `feishuperm.callbacks`, and warns about the rest, naming
the file, the place inside it and the reason.  A file that cannot be read is a warning,
never an error.  It runs nothing.

Two homes, one model.  Claude Code skips a whole settings file for a `script` callback
under PreToolUse or PermissionRequest, older versions for one under any event;
`feishuperm.callbacks` is a list it does not look at.  So interactive sessions use the
list, and a headless run registers whatever Claude Code does not run by itself.

Whose files.  The user's own file is the user's word.  The two of a project, the local
one too, came with the project: with a `trust` they count only where that covers the
folder, and then their callbacks may refuse and never allow.  Without one (a program
that uses an SDK) the program has decided for itself.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Container, Iterator, Mapping
from contextlib import contextmanager
from functools import cache, reduce

from feishuperm.errors import FileError
from feishuperm.hooks.variables import UnsafeTemplate, shell_template
from feishuperm.lib.config import SHARED_SETTINGS, claude_dir, claude_settings, home
from feishuperm.lib.files import read_json
from feishuperm.messages import message_of, msg
from feishuperm.models.fields import list_at, part_at, value_at
from feishuperm.models.hooks import (
    CALLBACK_TYPES,
    COMMAND,
    DEFAULT_TIMEOUT,
    HOOK_EVENTS,
    SCRIPT,
    SDK_NOTES,
    HookCallback,
    HookGroup,
    HooksConfig,
    Origin,
    matcher_problem,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Warn = Callable[[str], None]
    Covers = Callable[[str], bool]  # says whose files count: `Trust.covers`
    Pair = tuple[str, HookGroup]

DEFAULT_SCRIPT_PATHS = ("./.claude/hooks", "./hooks")
# Kinds and fields that only Claude Code itself can run or honour.
CLIENT_TYPES = ("agent", "http", "mcp_tool")
CLIENT_FIELDS = ("args", "async", "asyncRewake", "if", "once", "shell")
MAX_TIMEOUT = 86400
NO_OBJECT = msg("not an object")
HEADLESS_ONLY = msg(
    "interactive sessions send PermissionRequest straight to the phone, so this runs "
    "under `feishuperm run` only; use PreToolUse"
)
# Where things are; the client lets no project set these for a hook.
_PLACE = re.compile(r"(?:HOME|CLAUDE_CONFIG_DIR|CLAUDE_PROJECT_DIR)\Z|XDG_")
_UNUSABLE = re.compile("[\0\ud800-\udfff]")
PLAIN_PATH = "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"


class Invalid(Exception):
    """An entry that is skipped, and why."""


class SettingsFile:
    """One file: what it holds for us, and the rest, which is Claude Code's."""

    def __init__(self, source: str, path: str, data: dict[str, Any]) -> None:
        self.source = source  # Claude Code's name for it
        self.path = path
        self.hooks: list[Pair] = []
        self.callbacks: list[Pair] = []
        groups = (group for event in part_at(data, "hooks")
                  for group in list_at(data, "hooks", event))  # fmt: skip
        entries = (entry for group in groups for entry in list_at(group, "hooks"))
        self.has_script = any(value_at(entry, "type") == SCRIPT for entry in entries)
        self.rest = {k: data[k] for k in data if k not in ("hooks", "feishuperm")}


class ProjectConfig:
    """What the settings files say, for one project and one use."""

    def __init__(self, root: str) -> None:
        self.root = root
        self.hooks = HooksConfig()  # from `hooks`
        self.callbacks = HooksConfig()  # from `feishuperm.callbacks`
        self.files: list[SettingsFile] = []

    def skippable(self) -> list[SettingsFile]:
        """The files that Claude Code may skip for a `script` in them."""
        return [file for file in self.files if file.has_script]

    def left_over(self, loaded: Container[str]) -> HooksConfig:
        """What Claude Code does not run, once it has loaded these sources.

        Of a file it loads that is each `script`, of a file it skips every callback.
        """
        pairs: list[Pair] = []
        for file in self.files:
            skipped = file.has_script and file.source not in loaded
            pairs += file.hooks if skipped else _scripts_only(file.hooks)
            pairs += file.callbacks
        return HooksConfig(pairs)


class ConfigManager:
    """Loads and validates; every complaint goes to `warn`."""

    def __init__(
        self, environ: Mapping[str, str], warn: Warn, trust: Covers | None = None
    ) -> None:
        self.environ = environ
        self.warn = warn
        self.trust = cache(trust) if trust else None  # each folder is looked at once
        self._settings = cache(lambda root: list(self._read_settings(root)))

    def project_root(self, cwd: str) -> str:
        """CLAUDE_PROJECT_DIR, else the event's or the process's folder."""
        return os.path.abspath(self.environ.get("CLAUDE_PROJECT_DIR") or cwd or ".")

    def load_project_config(self, root: str, for_sdk: bool = True) -> ProjectConfig:
        """For SDK use: every callback of the three kinds, and all complaints.

        For `run`, which takes `left_over()` of it once the client has loaded, only what
        the client may not run by itself.
        """
        config = ProjectConfig(root)
        for source, origin, data in self._settings(root):
            if not self._is_believed(origin):
                continue
            file = SettingsFile(source, origin.path, data)
            reader = _Reader(origin, self.warn, notes=for_sdk)
            # What the client runs by its own rules is not ours to judge.
            if for_sdk or file.has_script:
                file.hooks += reader.hooks(data.get("hooks"))
            file.callbacks += reader.callbacks(data.get("feishuperm"))
            config.files.append(file)
        self._warn_of_homes(config, for_sdk)
        files = config.files
        config.hooks = HooksConfig(pair for file in files for pair in file.hooks)
        config.callbacks = HooksConfig(p for file in files for p in file.callbacks)
        return config

    def load_callbacks(self, root: str, event: str) -> HooksConfig:
        """What one event of an interactive session is to run."""
        pairs: list[Pair] = []
        for _, origin, data in self._settings(root):
            reader = _Reader(origin, self.warn)
            listed = list(reader.callbacks(data.get("feishuperm"), event))
            if listed and not self._is_believed(origin):
                self.warn(
                    msg(
                        "{}: its callbacks are skipped, because nobody has trusted "
                        "{}; look at them with `{}`",
                        origin.path,
                        root,
                        trust_command(root),
                    )
                )
                continue
            pairs += listed
        return HooksConfig(pairs)

    def is_trusted(self, root: str) -> bool:
        return self.trust is None or self.trust(root)

    def own_environ(self, root: str) -> Mapping[str, str]:
        """The environment as it was before the project set anything in it.

        Claude Code hands a project's `env` to every hook, in print mode before anybody
        has looked at the folder: PATH or BASH_ENV would make a guard another program.
        """
        names: set[str] = set()
        own: dict[str, str] = {}
        for _, origin, data in self._settings(root):
            block = part_at(data, "env")
            if origin.is_project:
                names.update(n for n in block if not _PLACE.match(n))
            else:
                own = {name: block[name] for name in block if _is_path(block[name])}
        if not names & set(self.environ):
            return self.environ
        before = {**_environ_of_client(self.environ), **own}
        kept = {key: self.environ[key] for key in self.environ if key not in names}
        restored = {name: before[name] for name in names if name in before}
        return {"PATH": PLAIN_PATH, **kept, **restored}

    def _read_settings(self, root: str) -> Iterator[tuple[str, Origin, dict[str, Any]]]:
        """(source, origin, content) of each settings file with an object in it."""
        own, folder = claude_dir(self.environ), os.path.join(root, ".claude")
        at_home = _identity(own) == _identity(folder)
        seen = []
        for source, path in claude_settings(root, self.environ).items():
            file = _identity(path)
            data = None if file in seen else self._read(path)
            seen.append(file)
            if data is not None:
                is_project = source != "userSettings" and not at_home
                yield source, self._origin(path, data, root, is_project), data

    def _read(self, path: str) -> dict[str, Any] | None:
        try:
            data = read_json(path)
        except FileError as error:
            self.warn(msg("{}; the file is ignored", error))
            return None
        if data is None or isinstance(data, dict):
            return data
        self.warn(msg("{}: not a JSON object; the file is ignored", path))
        return None

    def _origin(
        self, path: str, data: dict[str, Any], root: str, is_project: bool
    ) -> Origin:
        """Each callback is judged by the list of its own file."""
        if is_project:
            environ = None if self.trust is None else self.environ
            origin = Origin(path, root, DEFAULT_SCRIPT_PATHS, True, environ)
        else:
            # Relative to the project, it would run whatever a project puts there.
            folders = (os.path.join(claude_dir(self.environ), "hooks"), "./hooks")
            origin = Origin(path, home(self.environ), folders)
        paths = data.get("hookScriptPaths")
        if isinstance(paths, list) and all(_is_path(path) for path in paths):
            origin.folders = tuple(paths)
        elif "hookScriptPaths" in data:
            self.warn(msg("{}: hookScriptPaths: not a list of folders; skipped", path))
        return origin

    def _is_believed(self, origin: Origin) -> bool:
        return not origin.is_project or self.is_trusted(origin.root)

    def _warn_of_homes(self, config: ProjectConfig, for_sdk: bool) -> None:
        """About callbacks in a place where nobody, or not everybody, looks for them."""
        path = os.path.join(config.root, ".claude", "hooks.json")
        if os.path.lexists(path):
            self.warn(
                msg(
                    "{} is not read any more: move its content under `hooks` in {} "
                    "and delete it",
                    path,
                    os.path.join(config.root, SHARED_SETTINGS),
                )
            )
        for file in config.skippable() if for_sdk else ():
            self.warn(
                msg(
                    "{}: Claude Code skips this whole file in interactive sessions, "
                    "because `hooks` contains a `script`; move it to "
                    "`feishuperm.callbacks`",
                    file.path,
                )
            )


class _Reader:
    """Validates one file; every complaint names it and the place inside."""

    def __init__(self, origin: Origin, warn: Warn, notes: bool = False) -> None:
        self.origin = origin
        self.path = origin.path
        self.warn = warn
        self.notes = notes  # also about what is right, and may still surprise

    @contextmanager
    def skipping(self, place: str) -> Iterator[None]:
        """What is invalid in here is skipped, and the warning names the place."""
        try:
            yield
        except Invalid as error:
            self.warn(msg("{}: {}: {}; skipped", self.path, place, message_of(error)))

    def callbacks(self, value: Any, only: str = "") -> Iterator[Pair]:
        """`{"callbacks": [{"event": "Stop", "matcher": "", "type": ...}]}`.

        With `only`, entries for another event are passed over in silence: this runs on
        every event, and the log must not fill with one complaint.
        """
        if value is None:
            return
        listed = value.get("callbacks", []) if isinstance(value, dict) else None
        with self.skipping("feishuperm.callbacks"):
            for number, entry in enumerate(_need(list, listed, msg("not a list"))):
                if only and isinstance(entry, dict) and entry.get("event") != only:
                    continue
                place = f"feishuperm.callbacks[{number}]"
                with self.skipping(place):
                    yield self._listed(_need(dict, entry, NO_OBJECT), place)

    def _listed(self, entry: dict[str, Any], place: str) -> Pair:
        event = entry.get("event")
        if not isinstance(event, str) or not event:
            raise Invalid(msg("`event` is missing"))
        self._check_event(event)
        self._note_event(event, place)
        if event == "PermissionRequest":
            self._note(place, HEADLESS_ONLY)
        callback = self._callback(entry, place)
        if callback is None:
            raise Invalid(
                msg("only Claude Code runs {!r}, under `hooks`", entry["type"])
            )
        return event, HookGroup(_matcher_of(entry), (callback,))

    def _check_event(self, event: str) -> None:
        if event == "PermissionRequest" and self.origin.is_bound:
            raise Invalid(msg("a project does not decide permission requests"))

    def hooks(self, value: Any) -> Iterator[Pair]:
        """`{"PreToolUse": [{"matcher": "Bash", "hooks": [{"type": ...}]}]}`."""
        if value is None:
            return
        with self.skipping("hooks"):
            for event, groups in _need(dict, value, NO_OBJECT).items():
                with self.skipping(f"hooks.{event}"):
                    yield from self._groups(event, groups)

    def _groups(self, event: str, groups: Any) -> Iterator[Pair]:
        rows = _need(list, groups, msg("not a list"))
        self._note_event(event, f"hooks.{event}")
        if event in SDK_NOTES:
            self._note(f"hooks.{event}", SDK_NOTES[event])
        for number, group in enumerate(rows):
            place = f"hooks.{event}[{number}]"
            with self.skipping(place):
                matcher = _matcher_of(_need(dict, group, NO_OBJECT))
                why = msg("`hooks` is not a list")
                entries = _need(list, group.get("hooks"), why)
                callbacks = list(self._callbacks(entries, place))
                if callbacks:
                    self._check_event(event)
                    yield event, HookGroup(matcher, callbacks)

    def _callbacks(self, entries: list[Any], place: str) -> Iterator[HookCallback]:
        for number, entry in enumerate(entries):
            inside = f"{place}.hooks[{number}]"
            with self.skipping(inside):
                callback = self._callback(_need(dict, entry, NO_OBJECT), inside)
                if callback is not None:
                    yield callback
                elif self.notes:
                    raise Invalid(msg("only Claude Code runs it, and not for an SDK"))

    def _callback(self, entry: dict[str, Any], place: str) -> HookCallback | None:
        """One callback; None for a kind that Claude Code runs. Raises Invalid."""
        kind: Any = entry.get("type")
        if kind in CLIENT_TYPES:
            return None
        source = f"{self.path}: {place}"
        blocks = entry.get("onFailure") == "block"
        try:
            text, timeout = _checked(entry)
        except Invalid as error:
            if not blocks:
                raise
            self.warn(msg("{}: {}; it blocks", source, error))
            kind = SCRIPT if kind == SCRIPT else COMMAND
            return HookCallback(
                kind, "", source=source, blocks=True, problem=message_of(error)
            )
        return HookCallback(kind, text, timeout, source, self.origin, blocks)

    def _note_event(self, event: str, place: str) -> None:
        if event not in HOOK_EVENTS:
            self._note(place, msg("no event {!r} is known; kept", event))

    def _note(self, place: str, what: str) -> None:
        if self.notes:
            self.warn(msg("{}: {}: {}", self.path, place, what))


def _need(kind: type, value: Any, why: str) -> Any:
    """The value, if it is of the kind. Raises Invalid."""
    if not isinstance(value, kind):
        raise Invalid(why)
    return value


def _checked(entry: dict[str, Any]) -> tuple[str, float]:
    """The text and the seconds of a callback. Raises Invalid."""
    kind = entry.get("type")
    if kind not in CALLBACK_TYPES:
        raise Invalid(msg("`type` {!r} is none of {}", kind, ", ".join(CALLBACK_TYPES)))
    text = entry.get(kind)
    # No program can be given a NUL, or half of a character.
    if not isinstance(text, str) or not text.strip() or _UNUSABLE.search(text):
        raise Invalid(msg("`{}` is missing, or no usable text", kind))
    foreign = [field for field in CLIENT_FIELDS if field in entry]
    if foreign:
        raise Invalid(msg("only Claude Code itself knows `{}`", foreign[0]))
    if entry.get("onFailure", "continue") not in ("block", "continue"):
        raise Invalid(msg("`onFailure` is neither block nor continue"))
    timeout = entry.get("timeout", DEFAULT_TIMEOUT)
    if type(timeout) not in (int, float) or not 0 < timeout <= MAX_TIMEOUT:
        raise Invalid(msg("`timeout` is not a number of seconds up to {}", MAX_TIMEOUT))
    if kind == COMMAND:
        try:
            shell_template(text)
        except UnsafeTemplate as error:
            raise Invalid(message_of(error)) from None
    return text, float(timeout)


def _matcher_of(entry: dict[str, Any]) -> str:
    """The matcher of an entry or a group, empty without one. Raises Invalid."""
    matcher = entry.get("matcher")
    if matcher is None:
        return ""
    if not isinstance(matcher, str):
        raise Invalid(msg("`matcher` is no text"))
    problem = matcher_problem(matcher)
    if problem:
        raise Invalid(problem)
    return matcher


def trust_command(root: str) -> str:
    """What a person types to look at a project; its name is the project's choice."""
    from shlex import quote

    return f"feishuperm trust {quote(root)}"


def _environ_of_client(environ: Mapping[str, str]) -> dict[str, str]:
    """What Claude Code itself was started with, where the system tells."""
    pid = environ.get("CLAUDE_PID", "")
    if not pid.isdecimal():
        return {}
    try:
        with open(f"/proc/{int(pid)}/environ", "rb") as file:
            entries = os.fsdecode(file.read()).split("\0")
    except OSError:
        return {}
    pairs = (entry.partition("=") for entry in entries)
    return {name: value for name, equals, value in pairs if equals}


def _identity(path: str) -> object:
    """The same for two paths to one file; a path to none is like no other."""
    try:
        state = os.stat(path)
    except (OSError, ValueError):
        return object()
    return state.st_dev, state.st_ino


def _is_path(value: Any) -> bool:
    """An empty one would be the whole project."""
    return isinstance(value, str) and bool(value.strip())


def _scripts_only(pairs: list[Pair]) -> Iterator[Pair]:
    for event, group in pairs:
        scripts = [callback for callback in group.callbacks if callback.type == SCRIPT]
        if scripts:
            yield event, HookGroup(group.matcher, scripts)


def merge_settings(files: list[dict[str, Any]]) -> dict[str, Any]:
    """Several settings files as one: objects and lists grow, else the later wins."""
    merged: dict[str, Any] = reduce(_merge_value, files, {})
    return merged


def _merge_value(first: Any, second: Any) -> Any:
    if isinstance(first, dict) and isinstance(second, dict):
        both = {
            key: _merge_value(first[key], second[key]) for key in second if key in first
        }
        return {**first, **second, **both}
    if isinstance(first, list) and isinstance(second, list):
        return first + [value for value in second if value not in first]
    return second
