"""Keys in config.env; the file is never removed but by a purge."""

from __future__ import annotations

import os

from feishuperm.lib.config import config_dir, config_path, read_config
from feishuperm.lib.files import read_bytes
from feishuperm.lib.store import write_atomic
from feishuperm.setup.config_editor import drop_keys, merge_config
from feishuperm.setup.files import (
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


class ConfigStep(Step):
    """Sets keys; what FEISHUPERM_CONFIG names and was there before us stays theirs."""

    name = "config"

    def __init__(
        self, record: Record, environ: Mapping[str, str], wanted: Mapping[str, str]
    ) -> None:
        super().__init__(record)
        self.path = config_path(environ)
        self.elsewhere = os.path.dirname(self.path) != config_dir(environ)
        self.wanted = wanted

    def changes(self) -> list[str]:
        old, new = self._texts()
        return [f"set {', '.join(self.wanted)} in {self.path}"] if new != old else []

    def _texts(self) -> tuple[bytes, bytes]:
        old = read_bytes(self.path) or b""
        return old, merge_config(old, self.wanted) if self.wanted else old

    def apply(self, save: Save) -> None:
        folder = os.path.dirname(self.path)
        made = [*self.record.get("folders", []), *missing_folders(folder)]
        save({"path": self.path, "folders": made, **self._ownership()})
        old, new = self._texts()
        if new != old:
            make_folder(folder)
            write_atomic(self.path, new, 0o600)

    def _ownership(self) -> Record:
        """Whose file it is, and which keys are in it because of us."""
        before = self.record if self.record.get("path") == self.path else {}
        theirs = before.get("theirs", False) if before else os.path.exists(self.path)
        added = set(self.wanted) - set(read_config(self.path))
        return {
            "theirs": self.elsewhere and theirs,
            "added": sorted({*before.get("added", []), *added}),
        }


def purge_config(record: Record) -> list[str]:
    """Remove the settings too; from somebody's own file, only what we added."""
    path = record.get("path", "")
    if record.get("theirs"):
        data = read_bytes(path)
        if data is not None:
            write_atomic(path, drop_keys(data, record["added"]))
        return [f"removed our settings from {path}"]
    remove_file(path)
    remove_folders(record.get("folders", []))
    return [f"removed {record.get('path', 'the settings')}"]
