"""Steps of an install: what each changes, its record, and how it is undone.

Every step says what it would change, changes it, and leaves a record in the manifest;
the record is written before the change, so that even a killed install can be undone.
Undoing takes records, never guesses: a file that is not as we left it stays.  Steps ask
nobody.  Every folder is for this user alone, whatever the umask.
"""

from __future__ import annotations

import errno
import hashlib
import io
import json
import os
import pkgutil
import re
import shlex
import stat
import sys
import zipfile
from _imp import source_hash
from collections.abc import Iterable, Mapping
from contextlib import suppress
from importlib.util import MAGIC_NUMBER
from typing import Any

from feishuperm import __version__
from feishuperm.compiled import SITE, find_modules, make_pack, mark_of
from feishuperm.errors import FeishupermError, FileError, UsageError
from feishuperm.lib.config import (
    config_dir,
    config_path,
    keys_of,
    read_config,
    state_dir,
)
from feishuperm.lib.files import (
    failure,
    guard_dir,
    private_dir,
    read_bytes,
    read_json,
    write_atomic,
)
from feishuperm.lib.terminal import complain
from feishuperm.loader import BESIDE, open_beside
from feishuperm.messages import msg
from feishuperm.models.fields import part_at
from feishuperm.models.names import ARCHIVE, HOOK_PROGRAM, PROGRAMS, SUPERVISOR_PROGRAM
from feishuperm.models.settings import Settings


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def modified(path: str) -> float:
    """When a file was written, 0 without one."""
    try:
        return os.stat(path).st_mtime
    except OSError:
        return 0.0


def missing_folders(*folders: str) -> list[str]:
    """The folders that will have to be made, outermost first."""
    missing: list[str] = []
    for folder in folders:
        chain = []
        while folder and not os.path.isdir(folder):
            chain.append(folder)
            folder = os.path.dirname(folder)
        missing.extend(path for path in reversed(chain) if path not in missing)
    return missing


def make_folder(folder: str) -> None:
    """Make a folder and those above it."""
    try:
        private_dir(folder)
    except OSError as error:
        raise failure("cannot make {}: {}", folder, error) from None


def remove_folders(folders: Iterable[str]) -> None:
    """Remove the folders we made, innermost first, unless something is in them."""
    for folder in sorted(set(folders), key=len, reverse=True):
        try:
            os.rmdir(folder)
        except OSError:
            pass


def remove_file(path: str) -> None:
    """Remove a file or link if it is there; an empty path is none."""
    try:
        if path:
            os.unlink(path)
    except OSError as error:
        if error.errno not in (errno.ENOENT, errno.ENOTDIR):
            raise failure("cannot remove {}: {}", path, error) from None


def replace_link(path: str, target: str) -> None:
    """Make a link, or let one lead elsewhere, with no moment without it."""
    temporary = f"{path}.{os.getpid()}"
    try:
        os.symlink(target, temporary)
        os.replace(temporary, path)
    except OSError as error:
        raise failure("cannot link {}: {}", path, error) from None


def check_writable(path: str) -> None:
    """Raise FileError if a file cannot be replaced; asked before anything changes."""
    target = os.path.realpath(path)
    place = os.path.dirname(target)
    if os.path.lexists(target) and not os.stat(target).st_mode & stat.S_IWUSR:
        raise failure("cannot write {}: {}", path, ValueError(msg("it is read-only")))
    while not os.path.lexists(place):
        place = os.path.dirname(place)
    if not os.path.isdir(place):
        problem = ValueError(msg("{} is no folder", place))
        raise failure("cannot write {}: {}", path, problem)
    if not os.access(place, os.W_OK) or not os.stat(place).st_mode & stat.S_IWUSR:
        raise FileError(msg("cannot write {}: its folder {} is read-only", path, place))


# The manifest, and what a step is.


Record = dict[str, Any]


class Manifest:
    """One record per step, kept in the state folder."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self.environ = environ
        self.folder = state_dir(environ)
        self.path = os.path.join(self.folder, "install.json")
        rows = part_at(read_json(self.path)).items()
        self.records: dict[str, Record] = {k: v for k, v in rows if isinstance(v, dict)}

    def record(self, name: str) -> Record:
        """What the step of this name left, empty without one."""
        return self.records.get(name, {})

    def open(self) -> None:
        """Make its folder, and remember what had to be made for it."""
        made = missing_folders(self.folder)
        make_folder(self.folder)
        guard_dir(self.folder)
        if made and not os.path.lexists(self.path):  # another install is faster
            self.save("state", {"folders": made})

    def save(self, name: str, record: Record) -> None:
        """Keep a record, before the change it speaks of."""
        if self.records.get(name) != record:
            self.records[name] = record
            self._write()

    def forget(self, name: str) -> None:
        """Drop a record, after its change was undone."""
        if self.records.pop(name, None) is not None:
            self._write()

    def _write(self) -> None:
        text = json.dumps(self.records, indent=2)  # ASCII: a path may be no UTF-8
        write_atomic(self.path, text.encode(), 0o600)

    def remove(self) -> None:
        """Forget everything."""
        self.records = {}
        remove_file(self.path)


class Step:
    """One reversible change. `record` is what an earlier install left, if any."""

    name = ""

    def __init__(self, manifest: Manifest) -> None:
        self.manifest = manifest
        self.record = manifest.record(self.name)

    def changes(self) -> list[str]:
        """What `apply` would do, in words; empty when all is as it should be."""
        raise NotImplementedError

    def apply(self) -> None:
        """Make the changes, and leave a record before each."""
        raise NotImplementedError

    def save(self, folders: list[str], record: Record) -> None:
        """Leave a record, and make the folders that the change needs."""
        made = [*self.record.get("folders", []), *missing_folders(*folders)]
        self.manifest.save(self.name, {**record, "folders": made})
        for folder in folders:
            make_folder(folder)


# The program in its place: the archive, the links to it, the pinned interpreter.
#
# Beside the archive lies the code of all its modules for that interpreter, which the
# archive has of few and for no Python newer than itself.  It is only ever used if it
# fits (`loader.open_beside`): without it, everything works and starts slower.


MAX_ARCHIVE = 64 << 20


class ProgramStep(Step):
    """Puts a copy of the running file below a prefix."""

    name = "program"

    def __init__(
        self, manifest: Manifest, source: str, prefix: str, python: str
    ) -> None:
        super().__init__(manifest)
        self.source = source
        self.data = read_bytes(source, MAX_ARCHIVE) or b""
        self.files = package_files(self.data)
        self.prefix = prefix
        self.archive = os.path.join(prefix, "share", "feishuperm", ARCHIVE)
        self.code = self.archive + BESIDE
        self.links = [os.path.join(prefix, "bin", name) for name in PROGRAMS]
        self.pin = pin_path(manifest.environ)
        self.pinned = os.fsencode(python) + b"\n"

    def changes(self) -> list[str]:
        self._check_source()
        rows = [msg("remove {}", self.record["archive"])] if self._moves() else []
        if self._replaces_archive():
            check_writable(self.archive)  # before an earlier place is cleared
            rows.append(msg("write {}", self.archive))
        elif not self._has_code():
            rows.append(msg("write {}", self.code))
        for path in self.links:
            self._check_link(path)
            if not os.path.lexists(path):
                check_writable(path)
        rows.extend(msg("link {}", path) for path in self._missing_links())
        if read_bytes(self.pin) != self.pinned:
            python = os.fsdecode(self.pinned.rstrip())
            rows.append(msg("use Python {} ({})", python, self.pin))
        return rows

    def apply(self) -> None:
        if self._moves():
            undo_program(self.record)
        paths = (self.archive, *self.links, self.pin)
        record = {
            "prefix": self.prefix,
            "archive": self.archive,
            "sha256": digest(self.data),
            "links": self.links,
            "pin": self.pin,
        }
        self.save([os.path.dirname(path) for path in paths], record)
        if self._replaces_archive():
            write_atomic(self.archive, self.data, 0o755)
        if not self._has_code():
            write_atomic(self.code, make_code(self.files), 0o644)
        write_atomic(self.pin, self.pinned, 0o600)
        for path in self._missing_links():
            replace_link(path, self.archive)

    def _replaces_archive(self) -> bool:
        return read_bytes(self.archive, MAX_ARCHIVE) != self.data

    def _has_code(self) -> bool:
        """Whether what lies beside the archive is its code, whole, for this Python."""
        if not self.files:
            return True  # no archive: it has no code either
        try:
            archive = os.open(self.archive, os.O_RDONLY)
        except OSError:
            return False
        try:
            beside, _ = open_beside(self.archive, archive, mark_of(self.files))
            os.close(beside)
        except OSError:
            return False
        finally:
            os.close(archive)
        return True

    def _moves(self) -> bool:
        """Whether the earlier install is in another place."""
        return bool(self.record.get("archive", self.archive) != self.archive)

    def _missing_links(self) -> list[str]:
        return [path for path in self.links if not _leads(path, self.archive)]

    def _check_source(self) -> None:
        """Refuse an installed archive that somebody changed where it lies."""
        archive = self.record.get("archive", "")
        here = os.path.realpath(self.source) == os.path.realpath(archive)
        if archive and here and self.record["sha256"] != digest(self.data):
            problem = msg("{} is not the file that was installed", archive)
            raise FeishupermError(problem, msg("install a good one: install.sh"))

    def _check_link(self, path: str) -> None:
        """Refuse to replace what somebody else put there."""
        if not os.path.lexists(path) or path in self.record.get("links", []):
            return
        if not os.path.islink(path) or not os.readlink(path).endswith("/" + ARCHIVE):
            problem = msg("{} exists and is not feishuperm's", path)
            raise FeishupermError(problem, msg("choose another place: --prefix DIR"))


def package_files(archive: bytes) -> dict[str, bytes]:
    """What the package consists of, by name; nothing if this is no archive."""
    try:
        with zipfile.ZipFile(io.BytesIO(archive)) as opened:
            names = [name for name in opened.namelist() if name.startswith(SITE)]
            return {name[len(SITE) :]: opened.read(name) for name in names}
    except zipfile.BadZipFile:
        return {}


def make_code(files: dict[str, bytes]) -> bytes:
    """Every module's code for this Python, as `loader.open_beside` reads it."""
    head, codes = make_pack(find_modules(files))
    facts = len(head).to_bytes(4, "big") + MAGIC_NUMBER + mark_of(files)
    return facts + source_hash(0, head) + head + codes


def undo_program(record: Record) -> list[str]:
    """Remove the files and links that are still ours; what was done."""
    for path in record.get("links", []):
        if _leads(path, record["archive"]):
            remove_file(path)
    archive = record.get("archive", "")
    for path in (archive, archive and archive + BESIDE, record.get("pin", "")):
        remove_file(path)
    remove_folders(record.get("folders", []))
    return [msg("removed {}", record.get("archive", msg("the program")))]


def own_commands(record: Record) -> list[str]:
    """The hook commands that the install with this program record has written."""
    links, own = record.get("links", []), (HOOK_PROGRAM, SUPERVISOR_PROGRAM)
    return [shlex.quote(x) for x in links if os.path.basename(x) in own]


def hook_link(manifest: Manifest) -> str:
    """The installed hook, empty without one."""
    links = manifest.record("program").get("links", [])
    return next((x for x in links if os.path.basename(x) == HOOK_PROGRAM), "")


def pin_path(environ: Mapping[str, str]) -> str:
    """The file the archive reads the interpreter from."""
    return os.path.join(config_dir(environ), "python")


def interpreter(executable: str = sys.executable) -> tuple[str, str]:
    """The Python to pin, and what a person should know about the choice.

    A virtual environment's Python disappears with it, so its base is taken.
    """
    folder = os.path.dirname(os.path.dirname(executable))
    config = read_bytes(os.path.join(folder, "pyvenv.cfg"))
    if config is None:
        return executable, ""
    found = re.search(rb"^\s*home\s*=\s*(.*?)\s*$", config, re.MULTILINE)
    real = os.path.realpath(executable)
    at_home = os.path.join(
        os.fsdecode(found[1] if found else b""), os.path.basename(real)
    )
    for base in (real, at_home):
        if os.access(base, os.X_OK) and not base.startswith(folder + os.sep):
            note = msg(
                "{} is a virtual environment's; using its base {}", executable, base
            )
            return base, note
    note = msg("{} is a virtual environment's; it must not be removed", executable)
    return executable, note


def _leads(path: str, target: str) -> bool:
    return os.path.islink(path) and os.readlink(path) == target


# Files that are feishuperm's alone, in folders of other programs.


class FilesStep(Step):
    """Writes those files that nobody else has written or changed.

    Without `files` it removes those that nobody has changed.
    """

    def __init__(
        self, manifest: Manifest, name: str, files: Mapping[str, bytes]
    ) -> None:
        self.name = name
        super().__init__(manifest)
        self.files = files

    def changes(self) -> list[str]:
        if not self.files:
            return [msg("remove {}", path) for path in self.record if path[0] == "/"]
        for path in self._wanted():
            check_writable(path)
        return [msg("write {}", path) for path in self._wanted()]

    def kept(self) -> list[str]:
        """Files that somebody else has written or changed."""
        olds = {path: read_bytes(path) for path in self.files}
        return [
            path
            for path, old in olds.items()
            if old not in (None, self.files[path])
            and self.record.get(path) != digest(old or b"")
        ]

    def tell_kept(self) -> None:
        """Say which files stay as they are."""
        for path in self.kept():
            text = msg("{} is kept: somebody else wrote or changed it", path)
            hint = msg("to have feishuperm's: remove it, and run this again")
            complain(FeishupermError(text, hint))

    def _wanted(self) -> list[str]:
        kept = self.kept()
        rows = self.files.items()
        return [path for path, x in rows if path not in kept and read_bytes(path) != x]

    def apply(self) -> None:
        if not self.files:
            undo_files(self.record)
            self.manifest.forget(self.name)
        wanted = self._wanted()
        if wanted:
            new = {path: digest(self.files[path]) for path in wanted}
            self.save([*map(os.path.dirname, wanted)], {**self.record, **new})
        for path in wanted:
            write_atomic(path, self.files[path])


def own_file(name: str, calls: str, seconds: int) -> bytes:
    """A file of the package that is to call the hook, and wait for it so long."""
    values: tuple[tuple[str, object], ...] = (
        (HOOK_PROGRAM, calls),
        ("SECONDS", seconds),
        ("VERSION", __version__),
    )
    data = pkgutil.get_data("feishuperm", name) or b""
    for old, new in values:
        data = data.replace(b'"%s"' % old.encode(), json.dumps(new).encode(), 1)
    return data


def undo_files(record: Record) -> list[str]:
    """Remove the files nobody has changed; what was done."""
    rows = []
    for path, written in record.items():
        data = read_bytes(path) if path.startswith("/") else None
        if data is not None and digest(data) == written:
            remove_file(path)
            rows.append(msg("removed {}", path))
        elif data is not None:
            rows.append(msg("kept {}: it was changed by somebody", path))
    remove_folders(record.get("folders", []))
    return rows


# config.env, edited in place: comments, order and other keys stay, and the file is
# never removed but by a purge.


HEADER = b"# feishuperm's settings, KEY=VALUE. The environment wins over this file.\n"


class ConfigStep(Step):
    """Sets keys; what FEISHUPERM_CONFIG names and was there before us stays theirs."""

    name = "config"

    def __init__(self, manifest: Manifest, wanted: Mapping[str, str]) -> None:
        super().__init__(manifest)
        self.path = config_path(manifest.environ)
        self.elsewhere = os.path.dirname(self.path) != config_dir(manifest.environ)
        self.wanted = wanted

    def changes(self) -> list[str]:
        keys = ", ".join(self.wanted)
        old, new = self._texts()
        return [msg("set {} in {}", keys, self.path)] if new != old else []

    def _texts(self) -> tuple[bytes, bytes]:
        old = read_bytes(self.path) or b""
        return old, merge_config(old, self.wanted) if self.wanted else old

    def apply(self) -> None:
        old, new = self._texts()
        self.save([os.path.dirname(self.path)], self._ownership())
        if new != old:
            write_atomic(self.path, new, 0o600)

    def _ownership(self) -> Record:
        """Whose file it is, and which keys are in it because of us."""
        before = self.record if self.record.get("path") == self.path else {}
        theirs = before.get("theirs", False) if before else os.path.exists(self.path)
        added = set(self.wanted) - set(read_config(self.path))
        added.update(before.get("added", []))
        owner = {"theirs": self.elsewhere and theirs, "added": sorted(added)}
        return {"path": self.path, **owner}


def purge_config(record: Record) -> list[str]:
    """Remove the settings too; from somebody's own file, only what we added.

    An app's secret goes with them, and nobody but Feishu has it then.
    """
    path, rows = record.get("path", ""), []
    with suppress(UsageError):  # a broken line must not keep the file
        settings = Settings(read_config(path), lenient=True)
        app, base = settings.feishu_app_id, settings.feishu_base_url
        if app:
            rows = [msg("the app {} still exists in Feishu: {}/app/{}", app, base, app)]
    if record.get("theirs"):
        data = read_bytes(path)
        if data is not None:
            write_atomic(path, drop_keys(data, record["added"]))
        return [msg("removed feishuperm's settings from {}", path), *rows]
    remove_file(path)
    remove_folders(record.get("folders", []))
    return [msg("removed {}", record.get("path", msg("the settings"))), *rows]


def merge_config(data: bytes, changes: Mapping[str, str]) -> bytes:
    """The file with each changed key set once, where it stood last or at the end.

    Raises UsageError for a value that a line cannot hold.
    """
    lines = (data or HEADER).splitlines(keepends=True)
    ending = b"\r\n" if lines[0].endswith(b"\r\n") else b"\n"
    for key, value in changes.items():
        if value != value.strip() or "\n" in value or "\r" in value:
            raise UsageError(
                msg("{}: a value cannot have line breaks, or spaces at its ends", key)
            )
        name = key.encode()
        line = name + b"=" + _quoted(value.encode()) + ending
        places = [place for place, old in enumerate(lines) if name in keys_of(old)]
        if places:
            lines[places[-1]] = line  # the last of its key is the one that counts
            continue
        if not lines[-1].endswith(b"\n"):
            lines[-1] += ending
        lines.append(line)
    return b"".join(lines)


def drop_keys(data: bytes, keys: Iterable[str]) -> bytes:
    """The file without the lines of some keys."""
    names = {key.encode() for key in keys}
    lines = data.splitlines(keepends=True)
    return b"".join(line for line in lines if names.isdisjoint(keys_of(line)))


def _quoted(value: bytes) -> bytes:
    """A value in quotes of its own would lose them when it is read."""
    outer = value[:1] in (b'"', b"'") and value[-1:] == value[:1] and len(value) > 1
    return b'"' + value + b'"' if outer else value
