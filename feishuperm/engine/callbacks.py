"""`feishuperm.callbacks` of the settings files: what one interactive event needs.

This is the part of `engine.config_manager` that runs at every hook event, and so the
small one: it knows the three files, one list in them and the folders for scripts.  What
is invalid is told, naming file, place and reason, and skipped.  It runs nothing.
"""

from __future__ import annotations

import os

from feishuperm.engine.variables import UnsafeTemplate, shell_template
from feishuperm.errors import FileError
from feishuperm.lib.config import claude_settings
from feishuperm.lib.files import read_json
from feishuperm.models.hooks import (
    CALLBACK_TYPES,
    COMMAND,
    DEFAULT_TIMEOUT,
    HookCallback,
    HookGroup,
    HooksConfig,
    matcher_problem,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
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


class ProjectCallbacks:
    """The callbacks of one project, and where its scripts may lie."""

    def __init__(self, root: str) -> None:
        self.root = root
        self.callbacks = HooksConfig()  # from `feishuperm.callbacks`
        self.hook_script_paths: tuple[str, ...] = DEFAULT_SCRIPT_PATHS


class CallbackLoader:
    """Reads the settings files; every complaint goes to `warn`."""

    def __init__(self, environ: Mapping[str, str], warn: Warn) -> None:
        self.environ = environ
        self.warn = warn

    def project_root(self, cwd: str) -> str:
        """CLAUDE_PROJECT_DIR, else the event's or the process's folder."""
        return os.path.abspath(self.environ.get("CLAUDE_PROJECT_DIR") or cwd or ".")

    def load_callbacks(self, root: str, event: str) -> ProjectCallbacks:
        """What one event of an interactive session is to run."""
        config = ProjectCallbacks(root)
        callbacks: list[Pair] = []
        for _, path, data in self.settings(root):
            reader = CallbackReader(path, self.warn)
            callbacks += reader.callbacks(data.get("feishuperm"), event)
            reader.script_paths(config, data)
        config.callbacks = HooksConfig(callbacks)
        return config

    def settings(self, root: str) -> Iterator[tuple[str, str, dict[str, Any]]]:
        """(source, path, content) of each settings file with an object in it, once."""
        seen = set()
        for source, path in claude_settings(root, self.environ).items():
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


class CallbackReader:
    """Validates one file; every complaint names it and the place inside."""

    def __init__(self, path: str, warn: Warn) -> None:
        self.path = path
        self.warn = warn

    def skip(self, place: str, why: str) -> None:
        self.warn(f"{self.path}: {place}: {why}; skipped")

    def note_listed(self, event: str, place: str) -> None:
        """For a reader that also tells of what is right, and may still surprise."""

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

    def script_paths(self, config: ProjectCallbacks, data: dict[str, Any]) -> None:
        """The most specific file that names folders decides."""
        if "hookScriptPaths" not in data:
            return
        paths = data["hookScriptPaths"]
        if isinstance(paths, list) and all(_is_path(path) for path in paths):
            config.hook_script_paths = tuple(paths)
        else:
            self.skip("hookScriptPaths", "not a list of folders")

    def callback(self, entry: Any, place: str) -> HookCallback | None:
        """One callback; None for a kind that Claude Code runs. Raises Invalid."""
        if not isinstance(entry, dict):
            raise Invalid("not an object")
        kind = entry.get("type")
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

    def _listed(self, entry: Any, place: str) -> Pair:
        if not isinstance(entry, dict):
            raise Invalid("not an object")
        event = entry.get("event")
        if not isinstance(event, str) or not event:
            raise Invalid("`event` is missing")
        self.note_listed(event, place)
        callback = self.callback(entry, place)
        if callback is None:
            raise Invalid(f"only Claude Code runs {entry['type']!r}, under `hooks`")
        return event, HookGroup(matcher_of(entry), (callback,))


def matcher_of(entry: dict[str, Any]) -> str:
    """The matcher of an entry or a group, empty without one. Raises Invalid."""
    matcher = entry.get("matcher")
    if matcher is None:
        return ""
    if not isinstance(matcher, str):
        raise Invalid("`matcher` is no text")
    problem = matcher_problem(matcher)
    if problem:
        raise Invalid(problem)
    return matcher


def _is_path(value: Any) -> bool:
    """An empty one would be the whole project."""
    return isinstance(value, str) and bool(value.strip())


def _is_clean(text: str) -> bool:
    """Whether a program can be given the text: no NUL, no half of a character."""
    try:
        return b"\0" not in text.encode()
    except UnicodeEncodeError:
        return False


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
