"""ConfigManager: the one reader of Claude Code's settings files.

It reads the user's, the project's and the local file, keeps what is valid under
`hooks`, `hookScriptPaths` and `feishuperm.callbacks`, and warns about the rest, naming
the file, the place inside it and the reason.  A file that cannot be read is a warning,
never an error.  It runs nothing.

Two homes, one model.  Claude Code skips a whole settings file for a `script` callback
under PreToolUse or PermissionRequest, older versions for one under any event;
`feishuperm.callbacks` is a list it does not look at.  So interactive sessions use the
list, and a headless run registers whatever Claude Code does not run by itself.
"""

from __future__ import annotations

import os
import re

from feishuperm.errors import FileError
from feishuperm.lib.config import claude_dir
from feishuperm.lib.files import read_json
from feishuperm.models.hooks import (
    CALLBACK_TYPES,
    COMMAND,
    DEFAULT_TIMEOUT,
    HOOK_EVENTS,
    NEWER,
    SCRIPT,
    HookCallback,
    HookGroup,
    HooksConfig,
    matcher_problem,
)
from feishuperm.services.variables import UnsafeTemplate, shell_template

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterator, Mapping
    from typing import Any

    Warn = Callable[[str], None]
    Pair = tuple[str, HookGroup]

DEFAULT_SCRIPT_PATHS = ("./.claude/hooks", "./hooks")
# Kinds and fields that only Claude Code itself can run or honour.
CLIENT_TYPES = ("agent", "http", "mcp_tool")
CLIENT_FIELDS = ("args", "async", "asyncRewake", "if", "once", "shell")
MAX_TIMEOUT = 86400


class Invalid(Exception):
    """An entry that is skipped, and why."""


class ProjectConfig:
    """What the settings files say, for one project and one use."""

    __slots__ = ("callbacks", "files", "hook_script_paths", "hooks", "root")

    def __init__(self, root: str) -> None:
        self.root = root
        self.hooks = HooksConfig()  # from `hooks`
        self.callbacks = HooksConfig()  # from `feishuperm.callbacks`
        self.hook_script_paths: tuple[str, ...] = DEFAULT_SCRIPT_PATHS
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


class SettingsFile:
    """One file: what it holds for us, and the rest as Claude Code can read it."""

    __slots__ = ("callbacks", "has_script", "hooks", "path", "rest", "source")

    def __init__(self, source: str, path: str, data: dict[str, Any]) -> None:
        self.source = source  # Claude Code's name for it
        self.path = path
        self.hooks: list[Pair] = []
        self.callbacks: list[Pair] = []
        self.has_script = _has_script(data)
        self.rest = _readable_for_client(data)


class ConfigManager:
    """Loads and validates; every complaint goes to `warn`."""

    def __init__(self, environ: Mapping[str, str], warn: Warn) -> None:
        self.environ = environ
        self.warn = warn

    def project_root(self, cwd: str) -> str:
        """CLAUDE_PROJECT_DIR, else the event's or the process's folder."""
        return os.path.abspath(self.environ.get("CLAUDE_PROJECT_DIR") or cwd or ".")

    def load_project_config(self, root: str) -> ProjectConfig:
        """For SDK use: every callback of the three kinds, and all complaints."""
        config = self._load(root, for_sdk=True)
        config.hooks = HooksConfig(pair for file in config.files for pair in file.hooks)
        config.callbacks = HooksConfig(
            pair for file in config.files for pair in file.callbacks
        )
        for file in config.skippable():
            self.warn_skipped(file)
        return config

    def load_headless_config(self, root: str) -> ProjectConfig:
        """For `run`, which takes `left_over()` of it once the client has loaded."""
        return self._load(root, for_sdk=False)

    def warn_skipped(self, file: SettingsFile) -> None:
        self.warn(
            f"{file.path}: Claude Code skips this whole file in interactive sessions, "
            "because a `script` stands under `hooks`; move it to `feishuperm.callbacks`"
        )

    def _load(self, root: str, for_sdk: bool) -> ProjectConfig:
        config = ProjectConfig(root)
        for source, path, data in self._settings(root):
            file = SettingsFile(source, path, data)
            reader = _Reader(path, self.warn, notes=for_sdk)
            # What the client runs by its own rules is not ours to judge.
            reader.scripts_only = not for_sdk and not file.has_script
            file.hooks += reader.hooks(data.get("hooks"))
            file.callbacks += reader.callbacks(data.get("feishuperm"))
            config.files.append(file)
            self._script_paths(config, reader, data)
        self._warn_hooks_json(root)
        return config

    def load_callbacks(self, root: str, event: str) -> ProjectConfig:
        """For one event of an interactive session: its `feishuperm.callbacks`."""
        config = ProjectConfig(root)
        callbacks: list[Pair] = []
        for _, path, data in self._settings(root):
            if "feishuperm" not in data and "hookScriptPaths" not in data:
                continue
            reader = _Reader(path, self.warn, notes=False)
            callbacks += reader.callbacks(data.get("feishuperm"), event)
            self._script_paths(config, reader, data)
        config.callbacks = HooksConfig(callbacks)
        return config

    def _settings(self, root: str) -> Iterator[tuple[str, str, dict[str, Any]]]:
        """(source, path, content) of each settings file with an object in it, once."""
        folder = os.path.join(root, ".claude")
        paths = {
            "userSettings": os.path.join(claude_dir(self.environ), "settings.json"),
            "projectSettings": os.path.join(folder, "settings.json"),
            "localSettings": os.path.join(folder, "settings.local.json"),
        }
        seen = set()
        for source, path in paths.items():
            real = os.path.realpath(path)  # a project that is the home folder
            if real not in seen:
                seen.add(real)
                data = self._read(path)
                if data is not None:
                    yield source, path, data

    def _read(self, path: str) -> dict[str, Any] | None:
        try:
            data = read_json(path)
        except FileError as error:
            self.warn(f"{error}; the file is ignored")
            return None
        if data is None or isinstance(data, dict):
            return data
        self.warn(f"{path}: not a JSON object; the file is ignored")
        return None

    def _script_paths(
        self, config: ProjectConfig, reader: _Reader, data: dict[str, Any]
    ) -> None:
        """The most specific file that names folders decides."""
        if "hookScriptPaths" not in data:
            return
        paths = data["hookScriptPaths"]
        if isinstance(paths, list) and all(isinstance(path, str) for path in paths):
            config.hook_script_paths = tuple(paths)
        else:
            reader.skip("hookScriptPaths", "not a list of texts")

    def _warn_hooks_json(self, root: str) -> None:
        path = os.path.join(root, ".claude", "hooks.json")
        if os.path.lexists(path):
            self.warn(
                f"{path} is not read any more: move its content under `hooks` in "
                f"{os.path.join(root, '.claude', 'settings.json')} and delete it"
            )


class _Reader:
    """Validates one file; every complaint names it and the place inside."""

    def __init__(self, path: str, warn: Warn, notes: bool = True) -> None:
        self.path = path
        self.warn = warn
        self.notes = notes  # also about what is right, and may still surprise
        self.scripts_only = False  # under `hooks`; the client runs the others

    def skip(self, place: str, why: str) -> None:
        self.warn(f"{self.path}: {place}: {why}; skipped")

    def hooks(self, value: Any) -> Iterator[Pair]:
        """`{"PreToolUse": [{"matcher": "Bash", "hooks": [{"type": ...}]}]}`."""
        if value is None:
            return
        if not isinstance(value, dict):
            return self.skip("hooks", "not an object")
        for event, groups in value.items():
            if not isinstance(groups, list):
                self.skip(f"hooks.{event}", "not a list")
                continue
            if self.notes:
                self._note_event(event)
            for number, group in enumerate(groups):
                yield from self._group(event, group, f"hooks.{event}[{number}]")

    def callbacks(self, value: Any, only: str = "") -> Iterator[Pair]:
        """`{"callbacks": [{"event": "Stop", "matcher": "", "type": ...}]}`.

        With `only`, entries for another event are passed over in silence: this runs on
        every event, and the log must not fill with one complaint.
        """
        if value is None:
            return
        listed = value.get("callbacks", []) if isinstance(value, dict) else None
        if not isinstance(listed, list):
            return self.skip("feishuperm.callbacks", "not a list")
        for number, entry in enumerate(listed):
            place = f"feishuperm.callbacks[{number}]"
            if only and isinstance(entry, dict) and entry.get("event") != only:
                continue
            try:
                yield self._listed(entry, place)
            except Invalid as error:
                self.skip(place, str(error))

    def _listed(self, entry: Any, place: str) -> Pair:
        if not isinstance(entry, dict):
            raise Invalid("not an object")
        event = entry.get("event")
        if not isinstance(event, str) or not event:
            raise Invalid("`event` is missing")
        if self.notes:
            self._note_listed(event, place)
        callback = self._callback(entry, place)
        if callback is None:
            raise Invalid(f"only Claude Code runs {entry['type']!r}, under `hooks`")
        return event, HookGroup(_matcher(entry), (callback,))

    def _group(self, event: str, group: Any, place: str) -> Iterator[Pair]:
        try:
            if not isinstance(group, dict):
                raise Invalid("not an object")
            matcher = _matcher(group)
            entries = group.get("hooks")
            if not isinstance(entries, list):
                raise Invalid("`hooks` is not a list")
        except Invalid as error:
            return self.skip(place, str(error))
        callbacks = list(self._callbacks(entries, place))
        if callbacks:
            yield event, HookGroup(matcher, callbacks)

    def _callbacks(self, entries: list[Any], place: str) -> Iterator[HookCallback]:
        for number, entry in enumerate(entries):
            inside = f"{place}.hooks[{number}]"
            if self.scripts_only and _kind(entry) != SCRIPT:
                continue
            try:
                callback = self._callback(entry, inside)
            except Invalid as error:
                self.skip(inside, str(error))
                continue
            if callback is not None:
                yield callback
            elif self.notes:
                self.skip(inside, "only Claude Code runs it, and not for an SDK")

    def _callback(self, entry: Any, place: str) -> HookCallback | None:
        """One callback; None for a kind that Claude Code runs. Raises Invalid."""
        if not isinstance(entry, dict):
            raise Invalid("not an object")
        kind = _kind(entry)
        if kind in CLIENT_TYPES:
            return None
        if kind not in CALLBACK_TYPES:
            raise Invalid(f"`type` {kind!r} is none of {', '.join(CALLBACK_TYPES)}")
        text = entry.get(kind)
        if not isinstance(text, str) or not text.strip() or not _is_clean(text):
            raise Invalid(f"`{kind}` is missing, or no usable text")
        foreign = [field for field in CLIENT_FIELDS if field in entry]
        if foreign:
            raise Invalid(f"only Claude Code itself knows `{foreign[0]}`")
        if kind == COMMAND:
            _check_template(text)
        return HookCallback(kind, text, _timeout(entry), f"{self.path}: {place}")

    def _note_listed(self, event: str, place: str) -> None:
        if event not in HOOK_EVENTS:
            self.warn(f"{self.path}: {place}: no event {event!r} is known; kept")
        if event == "PermissionRequest":
            self.warn(
                f"{self.path}: {place}: interactive sessions send PermissionRequest "
                "straight to the phone, so this runs under `feishuperm run` only; use "
                "PreToolUse"
            )

    def _note_event(self, event: str) -> None:
        if event not in HOOK_EVENTS:
            return self.warn(
                f"{self.path}: hooks.{event}: no such event is known; kept"
            )
        note = HOOK_EVENTS[event].sdk_note
        if note and note is not NEWER:
            self.warn(f"{self.path}: hooks.{event}: {note}")


def _matcher(entry: dict[str, Any]) -> str:
    matcher = entry.get("matcher")
    if matcher is None:
        return ""
    if not isinstance(matcher, str):
        raise Invalid("`matcher` is no text")
    problem = matcher_problem(matcher)
    if problem:
        raise Invalid(problem)
    return matcher


def _is_clean(text: str) -> bool:
    """Whether a program can be given the text: no NUL, no half of a character."""
    return "\0" not in text and not re.search("[\ud800-\udfff]", text)


def _timeout(entry: dict[str, Any]) -> float:
    value = entry.get("timeout", DEFAULT_TIMEOUT)
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not number or not 0 < value <= MAX_TIMEOUT:
        raise Invalid(f"`timeout` is not a number of seconds up to {MAX_TIMEOUT}")
    return float(value)


def _check_template(text: str) -> None:
    try:
        shell_template(text)
    except UnsafeTemplate as error:
        raise Invalid(str(error)) from None


def _kind(entry: Any) -> Any:
    return entry.get("type") if isinstance(entry, dict) else None


def _group_entries(group: Any) -> list[dict[str, Any]]:
    entries = group.get("hooks") if isinstance(group, dict) else None
    listed = entries if isinstance(entries, list) else []
    return [entry for entry in listed if isinstance(entry, dict)]


def _has_script(data: dict[str, Any]) -> bool:
    hooks = data.get("hooks")
    return any(
        _kind(entry) == SCRIPT
        for groups in (hooks.values() if isinstance(hooks, dict) else ())
        for group in (groups if isinstance(groups, list) else ())
        for entry in _group_entries(group)
    )


def _scripts_only(pairs: list[Pair]) -> Iterator[Pair]:
    for event, group in pairs:
        scripts = [found for found in group.callbacks if found.type == SCRIPT]
        if scripts:
            yield event, HookGroup(group.matcher, scripts)


def _readable_for_client(data: dict[str, Any]) -> dict[str, Any]:
    """A file's content with the hooks that nobody but Claude Code can run."""
    kept: dict[str, list[dict[str, Any]]] = {}
    hooks = data.get("hooks")
    for event, groups in hooks.items() if isinstance(hooks, dict) else ():
        for group in groups if isinstance(groups, list) else ():
            entries = [
                entry for entry in _group_entries(group) if _kind(entry) in CLIENT_TYPES
            ]
            if entries:
                kept.setdefault(event, []).append({**group, "hooks": entries})
    rest = {key: data[key] for key in data if key not in ("hooks", "feishuperm")}
    return {**rest, "hooks": kept} if kept else rest


def merge_settings(files: list[dict[str, Any]]) -> dict[str, Any]:
    """Several settings files as one: objects and lists grow, else the later wins."""
    merged: dict[str, Any] = {}
    for file in files:
        merged = _merge_value(merged, file)
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
