"""The program in its place: the archive, the links to it, the pinned interpreter.

Beside the archive lies the code of all its modules for that interpreter, which the
archive has of few and for no Python newer than itself.  It is only ever used if it fits
(`loader.open_beside`): without it, everything works and starts slower.
"""

from __future__ import annotations

import io
import os
import shlex
import sys
import zipfile
from _imp import source_hash
from collections.abc import Mapping
from importlib.util import MAGIC_NUMBER

from feishuperm.codes import SITE, find_modules, make_pack, mark_of
from feishuperm.errors import FeishupermError
from feishuperm.lib.config import config_dir
from feishuperm.lib.files import read_bytes, write_atomic
from feishuperm.loader import BESIDE, open_beside
from feishuperm.models.names import ARCHIVE, PROGRAMS
from feishuperm.setup.files import digest, remove_file, remove_folders, replace_link
from feishuperm.setup.manifest import Manifest, Record, Step

MAX_ARCHIVE = 64 << 20
HOOK_PROGRAMS = ("feishuperm-hook", "feishuperm-supervisor")  # that we register


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
        rows = [f"remove {self.record['archive']}"] if self._moves() else []
        if self._replaces_archive():
            rows.append(f"write {self.archive}")
        elif not self._has_code():
            rows.append(f"write {self.code}")
        for path in self.links:
            self._check_link(path)
        rows.extend(f"link {path}" for path in self._missing_links())
        if read_bytes(self.pin) != self.pinned:
            python = os.fsdecode(self.pinned.rstrip())
            rows.append(f"use Python {python} ({self.pin})")
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
        try:
            archive = os.open(self.archive, os.O_RDONLY)
        except OSError:
            return False
        try:
            beside, _ = open_beside(self.archive, archive, mark_of(self.files))
        except OSError:
            return not self.files
        finally:
            os.close(archive)
        os.close(beside)
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
            problem = f"{archive} is not the file that was installed"
            raise FeishupermError(problem, "install a good one: install.sh")

    def _check_link(self, path: str) -> None:
        """Refuse to replace what somebody else put there."""
        if not os.path.lexists(path) or path in self.record.get("links", []):
            return
        if not os.path.islink(path) or not os.readlink(path).endswith("/" + ARCHIVE):
            problem = f"{path} exists and is not ours"
            raise FeishupermError(problem, "choose another place: --prefix DIR")


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
    return [f"removed {record.get('archive', 'the program')}"]


def own_commands(record: Record) -> list[str]:
    """The hook commands that the install with this program record has written."""
    links = record.get("links", [])
    return [shlex.quote(x) for x in links if os.path.basename(x) in HOOK_PROGRAMS]


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
    real = os.path.realpath(executable)
    for base in (real, os.path.join(_venv_home(config), os.path.basename(real))):
        if os.access(base, os.X_OK) and not base.startswith(folder + os.sep):
            note = f"{executable} is a virtual environment's; using its base {base}"
            return base, note
    note = f"{executable} is a virtual environment's; it must not be removed"
    return executable, note


def _venv_home(config: bytes) -> str:
    for line in config.decode(errors="replace").splitlines():
        key, _, value = line.partition("=")
        if key.strip() == "home":
            return value.strip()
    return ""


def _leads(path: str, target: str) -> bool:
    return os.path.islink(path) and os.readlink(path) == target
