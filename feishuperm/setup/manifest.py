"""What has been installed, and what a change must say about itself to be undone.

Every step says what it would change, changes it, and leaves a record in the manifest;
the record is written before the change, so that even a killed install can be undone.
Undoing takes records, never guesses: a file that is not as we left it stays.  Steps ask
nobody and print nothing.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any

from feishuperm.lib.config import state_dir
from feishuperm.lib.files import guard_dir, read_json, write_atomic
from feishuperm.models.fields import part_at
from feishuperm.setup.files import make_folder, missing_folders, remove_file

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
        if self.records.get(name) == record:
            return
        self.records[name] = record
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
