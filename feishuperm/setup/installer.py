"""What install changes on a machine, as steps that can be undone.

Every step says what it would change, changes it, and leaves a record in the manifest;
the record is written before the change, so that even a killed install can be undone.
`undo()` takes records, never guesses: a file that is not as we left it stays.

It asks nobody and prints nothing; `commands.install` does.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shlex
import stat
import sys
from typing import Any, NamedTuple

from feishuperm.errors import FeishupermError, FileError
from feishuperm.lib import settings_editor as editor
from feishuperm.lib.config import (
    claude_dir,
    config_dir,
    config_path,
    read_config,
    state_dir,
)
from feishuperm.lib.files import read_bytes, read_json
from feishuperm.lib.store import private_dir, write_atomic
from feishuperm.models.hooks import DEFAULT_TIMEOUT
from feishuperm.setup.config_editor import drop_keys, merge_config
from feishuperm.setup.service_unit import KINDS, Service, stop_service

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    Record = dict[str, Any]

ARCHIVE = "feishuperm.pyz"
LINKS = (
    "feishuperm",
    "feishuperm-hook",
    "feishuperm-serve",
    "feishuperm-supervisor",
    "permission-notify",
)
HOOK_PROGRAMS = ("feishuperm-hook", "feishuperm-supervisor")  # that we register
MAX_ARCHIVE = 64 << 20
HOOK_SLACK = 5  # seconds by which Claude Code's limit must exceed our own wait
REVIEW_SLACK = 10  # a reviewer is a whole process tree that has to be ended
# Other events run the user's callbacks, which have so long unless they say otherwise.
EVENT_TIMEOUT = int(DEFAULT_TIMEOUT) + REVIEW_SLACK


class Registration(NamedTuple):
    """One hook entry that should be there."""

    event: str
    matcher: str
    program: str  # which of LINKS
    timeout: int


def registrations(
    timeout: int,
    events: Iterable[str] = (),
    supervisor: bool = False,
    review: int = 0,
    review_stop: int = 0,
) -> list[Registration]:
    """The hook entries for a set of wishes, the permission hook first."""
    hook = "feishuperm-hook"
    rows = [Registration("PermissionRequest", "*", hook, timeout + HOOK_SLACK)]
    for event in events:
        if event != "PermissionRequest":
            rows.append(Registration(event, "", hook, EVENT_TIMEOUT))
    if supervisor:
        name = "feishuperm-supervisor"
        question = review + REVIEW_SLACK
        rows.append(Registration("Stop", "", name, review_stop + REVIEW_SLACK))
        rows.append(Registration("PreToolUse", "AskUserQuestion", name, question))
    return rows


# The manifest.


class Manifest:
    """What has been installed: one record per step, kept in the state folder."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self.folder = state_dir(environ)
        self.path = os.path.join(self.folder, "install.json")
        data = read_json(self.path)
        self.records: dict[str, Record] = data if isinstance(data, dict) else {}

    def open(self) -> None:
        """Make its folder, and remember what had to be made for it."""
        made = missing_folders([self.folder])
        _make_private(self.folder)
        if made:
            self.save("state", {"folders": made})

    def save(self, name: str, record: Record) -> None:
        """Keep a record, before the change it speaks of."""
        if self.records.get(name) == record:
            return
        self.records[name] = record
        text = json.dumps(self.records, indent=2)  # ASCII: a path may be no UTF-8
        write_atomic(self.path, text.encode(), 0o600)

    def remove(self) -> None:
        """Forget everything."""
        self.records = {}
        _unlink(self.path)


class Step:
    """One reversible change. `record` is what an earlier install left, if any."""

    name = ""

    def __init__(self, record: Record) -> None:
        self.record = record

    def changes(self) -> list[str]:
        """What `apply` would do, in words; empty when all is as it should be."""
        raise NotImplementedError

    def apply(self, save: Callable[[Record], None]) -> None:
        """Make the changes; `save` is called first."""
        raise NotImplementedError


# The program.


class ProgramStep(Step):
    """The archive, the links to it, and the pinned interpreter."""

    name = "program"

    def __init__(
        self, record: Record, source: str, prefix: str, python: str, pin: str
    ) -> None:
        super().__init__(record)
        self.source = source
        self.data = read_bytes(source, MAX_ARCHIVE) or b""
        self.prefix = prefix
        self.archive = os.path.join(prefix, "share", "feishuperm", ARCHIVE)
        self.links = {os.path.join(prefix, "bin", name): name for name in LINKS}
        self.python = python
        self.pin = pin

    def link(self, name: str) -> str:
        """The absolute path of one of our names."""
        return next(path for path, known in self.links.items() if known == name)

    def changes(self) -> list[str]:
        self._check_source()
        rows = [f"remove {self.record['archive']}"] if self._moves() else []
        if self.replaces_archive():
            rows.append(f"write {self.archive}")
        for path in self.links:
            self._check_link(path)
        missing = [path for path in self.links if not self._is_linked(path)]
        rows.extend(f"link {path}" for path in missing)
        if read_bytes(self.pin) != self._pinned():
            rows.append(f"use Python {self.python} ({self.pin})")
        return rows

    def replaces_archive(self) -> bool:
        return read_bytes(self.archive, MAX_ARCHIVE) != self.data

    def apply(self, save: Callable[[Record], None]) -> None:
        if self._moves():
            undo_program(self.record)
        folders = [os.path.dirname(path) for path in (self.archive, *self.links)]
        private = os.path.dirname(self.pin)
        missing = missing_folders([*folders, private])
        made = [*self.record.get("folders", []), *missing]
        save(
            {
                "prefix": self.prefix,
                "archive": self.archive,
                "sha256": _digest(self.data),
                "links": list(self.links),
                "pin": self.pin,
                "folders": made,
            }
        )
        for folder in folders:
            _make_folder(folder)
        _make_private(private)
        if self.replaces_archive():
            write_atomic(self.archive, self.data, 0o755)
        write_atomic(self.pin, self._pinned(), 0o600)
        for path in self.links:
            if not self._is_linked(path):
                _replace_link(path, self.archive)

    def _moves(self) -> bool:
        """Whether the earlier install is in another place."""
        return bool(self.record.get("archive", self.archive) != self.archive)

    def _check_source(self) -> None:
        """Refuse an installed archive that somebody changed where it lies."""
        archive = self.record.get("archive", "")
        if not archive or os.path.realpath(self.source) != os.path.realpath(archive):
            return
        if self.record["sha256"] != _digest(self.data):
            raise FeishupermError(
                f"{archive} is not the file that was installed",
                "install a good one: install.sh",
            )

    def _pinned(self) -> bytes:
        return os.fsencode(self.python) + b"\n"

    def _is_linked(self, path: str) -> bool:
        return os.path.islink(path) and os.readlink(path) == self.archive

    def _check_link(self, path: str) -> None:
        """Refuse to replace what somebody else put there."""
        if not os.path.lexists(path) or path in self.record.get("links", []):
            return
        if os.path.islink(path) and os.readlink(path).endswith("/" + ARCHIVE):
            return
        raise FeishupermError(
            f"{path} exists and is not ours", "choose another place: --prefix DIR"
        )


def undo_program(record: Record) -> list[str]:
    """Remove the files and links that are still ours; what was done."""
    for path in record.get("links", []):
        if os.path.islink(path) and os.readlink(path) == record["archive"]:
            _unlink(path)
    for path in (record.get("archive", ""), record.get("pin", "")):
        _unlink(path)
    remove_folders(record.get("folders", []))
    return [f"removed {record.get('archive', 'the program')}"]


# The settings of this program.


class ConfigStep(Step):
    """Keys in config.env; the file is never removed but by a purge.

    One that FEISHUPERM_CONFIG names and that was there before us is never removed.
    """

    name = "config"

    def __init__(
        self, record: Record, environ: Mapping[str, str], wanted: Mapping[str, str]
    ) -> None:
        super().__init__(record)
        self.path = config_path(environ)
        self.elsewhere = os.path.dirname(self.path) != config_dir(environ)
        self.wanted = wanted

    def changes(self) -> list[str]:
        old = read_bytes(self.path) or b""
        if self.wanted and merge_config(old, self.wanted) != old:
            return [f"set {', '.join(self.wanted)} in {self.path}"]
        return []

    def apply(self, save: Callable[[Record], None]) -> None:
        folder = os.path.dirname(self.path)
        made = [*self.record.get("folders", []), *missing_folders([folder])]
        save({"path": self.path, "folders": made, **self._ownership()})
        if not self.changes():
            return
        _make_private(folder)
        old = read_bytes(self.path) or b""
        write_atomic(self.path, merge_config(old, self.wanted), 0o600)

    def _ownership(self) -> Record:
        """Whose file it is, and which keys are in it because of us."""
        known = self.record if self.record.get("path") == self.path else {}
        there = os.path.exists(self.path)
        new = set(self.wanted) - set(read_config(self.path))
        return {
            "theirs": self.elsewhere
            and (known.get("theirs", False) if known else there),
            "added": sorted({*known.get("added", []), *new}),
        }


def purge_config(record: Record) -> list[str]:
    """Remove the settings too; from somebody's own file, only what we added."""
    path = record.get("path", "")
    if record.get("theirs"):
        data = read_bytes(path)
        if data is not None:
            write_atomic(path, drop_keys(data, record["added"]))
        return [f"removed our settings from {path}"]
    _unlink(path)
    remove_folders(record.get("folders", []))
    return [f"removed {record.get('path', 'the settings')}"]


# Claude Code's settings.


class SettingsStep(Step):
    """Our hooks, and values somebody asked for, in one settings file of Claude Code."""

    def __init__(
        self,
        record: Record,
        path: str,
        folder: str,
        hooks: Iterable[tuple[Registration, str]],
        values: Mapping[editor.Path, Any],
        absent: Mapping[editor.Path, Any] | None = None,
        own: Iterable[str] = (),
    ) -> None:
        super().__init__(record)
        self.path = path
        name = _digest(os.fsencode(path))[:16]
        self.backup = os.path.join(folder, "backups", f"{name}-settings.json")
        self.hooks = list(hooks)  # with the command of each
        commands = [command for _, command in self.hooks]
        # Every command that an install of ours may have written, this one included.
        self.own = sorted({*own, *record.get("commands", []), *commands})
        self.values = values
        self.absent = absent or {}  # set only where nobody has set them
        self.name = f"settings:{path}"

    def changes(self) -> list[str]:
        before, after = self.texts()
        if before == after:
            return []
        check_writable(self.path)
        events = ", ".join(dict.fromkeys(row.event for row, _ in self.hooks))
        rows = [f"register {events} in {self.path}"] if events else []
        for path, value in self._values(before).items():
            rows.append(f"set {'.'.join(map(str, path))} to {value!r} in {self.path}")
        return rows

    def texts(self) -> tuple[str, str]:
        """The file's text now, and as it should be. Raises FeishupermError."""
        data = read_bytes(self.path)
        try:
            before = editor.decode(data or b"")
            after = self._edit(before)
            editor.encode(after)
        except editor.SettingsError as error:
            raise FeishupermError(
                f"{self.path} is left as it is: {error}",
                f"mend it by hand: {self.path}",
            ) from None
        return before, after

    def _edit(self, text: str) -> str:
        for row, command in self.hooks:
            text = editor.put_hook(
                text, row.event, row.matcher, command, row.timeout, self.own
            )
        for path, value in self._values(text).items():
            text = editor.set_value(text, path, value)
        return text

    def _values(self, text: str) -> dict[editor.Path, Any]:
        """The values that have to be set in a text."""
        absent = {
            path: value
            for path, value in self.absent.items()
            if editor.get_value(text, path) is editor.MISSING
        }
        asked = {
            path: value
            for path, value in self.values.items()
            if editor.get_value(text, path) != value
        }
        return {**absent, **asked}

    def apply(self, save: Callable[[Record], None]) -> None:
        before, after = self.texts()
        if before == after:
            return
        data = editor.encode(after)
        save(self._new_record(before, data))
        _make_folder(os.path.dirname(os.path.realpath(self.path)))
        write_atomic(self.path, data)

    def _new_record(self, before: str, data: bytes) -> Record:
        """How to come back; the base is the file as it would be without us."""
        old = dict(self.record)
        digest = _digest(before.encode())
        values = [[list(path), value] for path, value in self._values(before).items()]
        if digest in old.get("written", ()):
            written = [*old["written"], _digest(data)]
            values = old["values"] + values
            return {**old, "written": written, "values": values, "commands": self.own}
        earlier = (read_bytes(self.backup) or b"").decode() if old else ""
        base = without_us(before, {**old, "commands": self.own}, earlier)
        _make_private(os.path.dirname(self.backup))
        write_atomic(self.backup, base.encode(), 0o600)
        return {
            "path": self.path,
            "existed": os.path.exists(self.path),
            "backup": self.backup,
            "written": [_digest(data)],
            "values": old.get("values", []) + values,
            "commands": self.own,
            "folders": missing_folders([os.path.dirname(self.path)]),
        }


def written_hooks(record: Record, own: Iterable[str]) -> list[Registration]:
    """The entries of ours in a recorded settings file; none when it is unreadable."""
    try:
        text = editor.decode(read_bytes(record["path"]) or b"")
        hooks = editor.own_hooks(text, {*own, *record.get("commands", [])})
    except FeishupermError:
        return []
    return [
        Registration(
            hook.event, hook.matcher, hook.program, int(hook.entry.get("timeout") or 1)
        )
        for hook in hooks
    ]


def without_us(text: str, record: Record, base: str = "") -> str:
    """A settings text without our hooks and without the values we set."""
    text = editor.drop_hooks(text, record.get("commands", []), base)
    for path, value in record.get("values", []):
        if editor.get_value(text, tuple(path)) == value:
            text = editor.drop_value(text, tuple(path), base)
            before = editor.get_value(base, tuple(path))
            if before is not editor.MISSING:
                text = editor.set_value(text, tuple(path), before)
    return text


def undo_settings(record: Record) -> list[str]:
    """Bring a settings file back. Raises FeishupermError and then changes nothing."""
    path = record["path"]
    data = read_bytes(path)
    if data is None:
        return []
    base = read_bytes(record["backup"])
    if base is not None and _digest(data) in record["written"]:
        _restore(path, base, record["existed"])
        remove_folders(record.get("folders", []))
        return [f"{'restored' if record['existed'] else 'removed'} {path}"]
    try:
        text = editor.decode(data)
        after = without_us(text, record, (base or b"").decode())
    except editor.SettingsError as error:
        raise FeishupermError(
            f"{path} is left as it is: {error}", "remove the feishuperm hooks by hand"
        ) from None
    if after == text:
        return []
    write_atomic(path, editor.encode(after))
    return [f"removed our hooks from {path}"]


def _restore(path: str, data: bytes, existed: bool) -> None:
    if existed:
        write_atomic(path, data)
    else:
        _unlink(os.path.realpath(path))


def permission_mode(path: str) -> str:
    """The mode a settings file makes sessions start in; empty when it names none."""
    try:
        text = editor.decode(read_bytes(path) or b"")
        mode = editor.get_value(text, ("permissions", "defaultMode"))
    except FeishupermError:
        return ""
    return mode if isinstance(mode, str) else ""


def check_writable(path: str) -> None:
    """Raise FileError if a file cannot be replaced; found out before anything else."""
    target = os.path.realpath(path)
    while not os.path.lexists(target):
        target = os.path.dirname(target)
    if os.path.isdir(target) and target != os.path.realpath(path):
        place = target
    else:
        place = os.path.dirname(target)
        if not os.stat(target).st_mode & stat.S_IWUSR:
            raise FileError(f"cannot write {path}: it is read-only")
    if not os.access(place, os.W_OK) or not os.stat(place).st_mode & stat.S_IWUSR:
        raise FileError(f"cannot write {path}: its folder {place} is read-only")


# Slash commands.


class CommandsStep(Step):
    """Files in Claude Code's folder of slash commands."""

    name = "commands"

    def __init__(
        self, record: Record, environ: Mapping[str, str], texts: Mapping[str, str]
    ) -> None:
        super().__init__(record)
        self.folder = os.path.join(claude_dir(environ), "commands")
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
        return old != self.files[path] and self.record.get(path) == _digest(old)

    def apply(self, save: Callable[[Record], None]) -> None:
        wanted = [path for path in self.files if self._wants(path)]
        record = dict(self.record)
        record.setdefault("folders", missing_folders([self.folder]))
        record.update({path: _digest(self.files[path]) for path in wanted})
        if wanted:
            save(record)
            _make_folder(self.folder)
        for path in wanted:
            write_atomic(path, self.files[path])


def undo_commands(record: Record) -> list[str]:
    """Remove the slash commands nobody has changed."""
    removed = []
    for path, digest in record.items():
        data = read_bytes(path) if path.startswith("/") else None
        if data is not None and _digest(data) == digest:
            _unlink(path)
            removed.append(f"removed {path}")
    remove_folders(record.get("folders", []))
    return removed


# The service.


class ServiceStep(Step):
    """The unit file. Starting and stopping is the caller's, at the right moment."""

    name = "service"

    def __init__(self, record: Record, service: Service, socket: str) -> None:
        super().__init__(record)
        self.service = service
        self.socket = socket  # where its server will listen

    def changes(self) -> list[str]:
        path = self.service.path
        if path and read_bytes(path) != self.service.content():
            return [f"write {path}"]
        if not self.record or self._moves():
            return [f"keep the server running ({self.service.kind})"]
        return []

    def _moves(self) -> bool:
        """Whether the earlier install runs its server in another way or place."""
        here = {
            "kind": self.service.kind,
            "program": self.service.program,
            "socket": self.socket,
        }
        return any(self.record.get(key, value) != value for key, value in here.items())

    def apply(self, save: Callable[[Record], None]) -> None:
        if self._moves():
            undo_service(self.record, self.service.environ)
        path = self.service.path
        folder = os.path.dirname(path)
        made = [*self.record.get("folders", []), *missing_folders([folder])]
        save(
            {
                "kind": self.service.kind,
                "path": path,
                "program": self.service.program,
                "socket": self.socket,
                "folders": made,
            }
        )
        if path and read_bytes(path) != self.service.content():
            _make_folder(folder)
            write_atomic(path, self.service.content())


def undo_service(record: Record, environ: Mapping[str, str]) -> list[str]:
    """Stop the server and remove its unit. Raises FeishupermError while it lives."""
    service = KINDS[record["kind"]](record["program"], environ)
    stop_service(service, record["socket"])
    _unlink(record.get("path", ""))
    if record["kind"] == "systemd":
        service.run(["systemctl", "--user", "daemon-reload"])
    remove_folders(record.get("folders", []))
    return ["stopped the server"]


# The interpreter.


def interpreter(executable: str = sys.executable) -> tuple[str, str]:
    """The Python to pin, and what a person should know about the choice.

    A virtual environment's Python disappears with it, so its base is taken.
    """
    folder = os.path.dirname(os.path.dirname(executable))
    config = read_bytes(os.path.join(folder, "pyvenv.cfg"))
    if config is None:
        return executable, ""
    home = _venv_home(config)
    name = os.path.basename(os.path.realpath(executable))
    for base in (os.path.realpath(executable), os.path.join(home, name)):
        if os.access(base, os.X_OK) and not base.startswith(folder + os.sep):
            return (
                base,
                f"{executable} is a virtual environment's; using its base {base}",
            )
    return (
        executable,
        f"{executable} is a virtual environment's; it must not be removed",
    )


def _venv_home(config: bytes) -> str:
    for line in config.decode(errors="replace").splitlines():
        key, _, value = line.partition("=")
        if key.strip() == "home":
            return value.strip()
    return ""


def pin_path(environ: Mapping[str, str]) -> str:
    """The file the archive reads the interpreter from."""
    return os.path.join(config_dir(environ), "python")


def hook_command(link: str) -> str:
    """A link as `sh -c` reads it."""
    return shlex.quote(link)


def own_commands(record: Record) -> list[str]:
    """The hook commands that the install with this program record has written."""
    return [
        hook_command(link)
        for link in record.get("links", [])
        if os.path.basename(link) in HOOK_PROGRAMS
    ]


# Folders and links.


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def missing_folders(folders: Iterable[str]) -> list[str]:
    """The folders that will have to be made, outermost first."""
    missing: list[str] = []
    for folder in folders:
        chain = []
        while folder and not os.path.isdir(folder):
            chain.append(folder)
            folder = os.path.dirname(folder)
        missing.extend(path for path in reversed(chain) if path not in missing)
    return missing


def _make_private(folder: str) -> None:
    try:
        private_dir(folder)
    except OSError as error:
        raise FileError(f"cannot make {folder}: {error.strerror}") from None


def _make_folder(folder: str) -> None:
    try:
        os.makedirs(folder, exist_ok=True)
    except OSError as error:
        raise FileError(f"cannot make {folder}: {error.strerror}") from None


def remove_folders(folders: Iterable[str]) -> None:
    """Remove the folders we made, innermost first, unless something is in them."""
    for folder in sorted(set(folders), key=len, reverse=True):
        try:
            os.rmdir(folder)
        except OSError:
            pass


def _replace_link(path: str, target: str) -> None:
    temporary = f"{path}.{os.getpid()}"
    try:
        os.symlink(target, temporary)
        os.replace(temporary, path)
    except OSError as error:
        raise FileError(f"cannot link {path}: {error.strerror}") from None


def _unlink(path: str) -> None:
    try:
        if path:
            os.unlink(path)
    except FileNotFoundError:
        pass
    except OSError as error:
        if error.errno != errno.ENOTDIR:
            raise FileError(f"cannot remove {path}: {error.strerror}") from None
