"""ConfigManager: the one reader of Claude Code's settings files.

It reads the user's, the project's and the local file, keeps what is valid under
`hooks`, `hookScriptPaths` and `feishuperm.callbacks`, and warns about the rest, naming
the file, the place inside it and the reason.  A file that cannot be read is a warning,
never an error.  It runs nothing.

Two homes, one model.  Claude Code skips a whole settings file for a `script` callback
under PreToolUse or PermissionRequest, older versions for one under any event;
`feishuperm.callbacks` is a list it does not look at.  So interactive sessions use the
list, and a headless run registers whatever Claude Code does not run by itself.  The
list is read by `engine.callbacks`, which an interactive event uses alone.
"""

from __future__ import annotations

import os

from feishuperm.engine.callbacks import (
    CLIENT_TYPES,
    CallbackLoader,
    CallbackReader,
    Invalid,
    ProjectCallbacks,
    matcher_of,
)
from feishuperm.models.hooks import (
    HOOK_EVENTS,
    SCRIPT,
    SDK_NOTES,
    HookCallback,
    HookGroup,
    HooksConfig,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Container, Iterator
    from typing import Any

    from feishuperm.engine.callbacks import Pair, Warn


class ProjectConfig(ProjectCallbacks):
    """What the settings files say, for one project and one use."""

    def __init__(self, root: str) -> None:
        super().__init__(root)
        self.hooks = HooksConfig()  # from `hooks`
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


class ConfigManager(CallbackLoader):
    """Loads and validates; every complaint goes to `warn`."""

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
        for source, path, data in self.settings(root):
            file = SettingsFile(source, path, data)
            reader = _Reader(path, self.warn, notes=for_sdk)
            # What the client runs by its own rules is not ours to judge.
            reader.scripts_only = not for_sdk and not file.has_script
            file.hooks += reader.hooks(data.get("hooks"))
            file.callbacks += reader.callbacks(data.get("feishuperm"))
            config.files.append(file)
            reader.script_paths(config, data)
        self._warn_hooks_json(root)
        return config

    def _warn_hooks_json(self, root: str) -> None:
        path = os.path.join(root, ".claude", "hooks.json")
        if os.path.lexists(path):
            self.warn(
                f"{path} is not read any more: move its content under `hooks` in "
                f"{os.path.join(root, '.claude', 'settings.json')} and delete it"
            )


class _Reader(CallbackReader):
    """Validates all of one file."""

    def __init__(self, path: str, warn: Warn, notes: bool) -> None:
        super().__init__(path, warn)
        self.notes = notes  # also about what is right, and may still surprise
        self.scripts_only = False  # under `hooks`; the client runs the others

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

    def _group(self, event: str, group: Any, place: str) -> Iterator[Pair]:
        try:
            if not isinstance(group, dict):
                raise Invalid("not an object")
            matcher = matcher_of(group)
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
                callback = self.callback(entry, inside)
            except Invalid as error:
                self.skip(inside, str(error))
                continue
            if callback is not None:
                yield callback
            elif self.notes:
                self.skip(inside, "only Claude Code runs it, and not for an SDK")

    def note_listed(self, event: str, place: str) -> None:
        if not self.notes:
            return
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
        if event in SDK_NOTES:
            self.warn(f"{self.path}: hooks.{event}: {SDK_NOTES[event]}")


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
