"""Our files in Claude Code's folder of slash commands."""

from __future__ import annotations

import os

from feishuperm.lib.config import claude_dir
from feishuperm.lib.files import read_bytes
from feishuperm.lib.store import write_atomic
from feishuperm.setup.files import (
    digest,
    make_folder,
    missing_folders,
    remove_file,
    remove_folders,
)
from feishuperm.setup.manifest import Step

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from feishuperm.setup.manifest import Record, Save


class SlashStep(Step):
    """Writes the files nobody else has written."""

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
        return old != self.files[path] and self.record.get(path) == digest(old)

    def apply(self, save: Save) -> None:
        wanted = [path for path in self.files if self._wants(path)]
        if not wanted:
            return
        record = {"folders": missing_folders(self.folder), **self.record}
        record.update({path: digest(self.files[path]) for path in wanted})
        save(record)
        make_folder(self.folder)
        for path in wanted:
            write_atomic(path, self.files[path])


def undo_slash(record: Record) -> list[str]:
    """Remove the slash commands nobody has changed."""
    removed = []
    for path, written in record.items():
        data = read_bytes(path) if path.startswith("/") else None
        if data is not None and digest(data) == written:
            remove_file(path)
            removed.append(f"removed {path}")
    remove_folders(record.get("folders", []))
    return removed
