"""What the doctor knows about one machine, and the commands that mend things there.

Checks take a `Case` and say ok, warn or fail, what they saw, and what mends it; facts
that several of them need are kept on it.  It changes nothing.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping
from typing import Any, NamedTuple

from feishuperm.lib.config import claude_settings, load_settings
from feishuperm.lib.files import read_bytes
from feishuperm.lib.program import typed_command
from feishuperm.models.settings import Settings
from feishuperm.setup.files import digest
from feishuperm.setup.manifest import Manifest
from feishuperm.setup.program_step import MAX_ARCHIVE

OK, WARN, FAIL = "ok", "warn", "fail"
# `install` would take a changed file for the right one, so it is not named before that.
FILE_FIRST = "mend the file first, see the line `file`"


class Result(NamedTuple):
    """What one check has to say."""

    state: str
    text: str
    fix: str = ""


class Case:
    """One machine, one user, one project."""

    def __init__(self, environ: Mapping[str, str], project: str) -> None:
        self.environ = environ
        self.project = project
        self.manifest = Manifest(environ)
        self.settings: Settings = load_settings(environ, lenient=True)
        self.status: dict[str, Any] | None = None
        self.date = ""  # of Feishu's answer
        self.texts: dict[str, str] = {}  # Claude Code's settings, by path
        program = self.manifest.record("program")
        self.archive = str(program.get("archive", ""))
        data = read_bytes(self.archive, MAX_ARCHIVE) or b""
        self.intact = not program or digest(data) == program["sha256"]
        self.program = typed_command(next(iter(program.get("links", [])), ""), environ)

    def settings_paths(self) -> list[str]:
        """The files Claude Code reads, the strongest last."""
        paths = claude_settings(self.project, self.environ).values()
        return list(dict.fromkeys(paths))  # at home, the first two are one

    # What mends.

    def mends(self, command: str) -> str:
        """A command of ours, unless the file that would run it is not the right one."""
        return f"{self.program} {command}".rstrip() if self.intact else FILE_FIRST

    def install(self, options: str = "") -> str:
        return self.mends(f"install {options}")

    def restart(self) -> str:
        return self.mends("restart")

    def register(self, path: str) -> str:
        """What writes our hook anew to a settings file of Claude Code."""
        if path == self.settings_paths()[0]:
            return self.install()
        shared = os.path.basename(path) == "settings.json"
        folder = shlex.quote(self.project)
        install = self.install("--project --shared" if shared else "--project")
        return f"cd {folder} && {install}" if self.intact else FILE_FIRST


def edit(path: str, what: str = "") -> str:
    """An edit by hand."""
    return f"edit {shlex.quote(path)}" + (f": {what}" if what else "")


def words(error: Exception) -> str:
    """An error as a person reads it, without its number."""
    if isinstance(error, OSError) and error.strerror:
        place = f"{error.filename}: " if error.filename else ""
        return f"{place}{error.strerror}"
    return str(error)
