"""config.env, edited in place: comments, order and other keys stay.

The file is never removed but by a purge.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping

from feishuperm.errors import UsageError
from feishuperm.lib.config import config_dir, config_path, keys_of, read_config
from feishuperm.lib.files import read_bytes, write_atomic
from feishuperm.models.settings import Settings
from feishuperm.setup.files import remove_file, remove_folders
from feishuperm.setup.manifest import Manifest, Record, Step

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
        old, new = self._texts()
        return [f"set {', '.join(self.wanted)} in {self.path}"] if new != old else []

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
    """Remove the settings too; from somebody's own file, only what we added."""
    path = record.get("path", "")
    rows = _app_that_stays(path)
    if record.get("theirs"):
        data = read_bytes(path)
        if data is not None:
            write_atomic(path, drop_keys(data, record["added"]))
        return [f"removed our settings from {path}", *rows]
    remove_file(path)
    remove_folders(record.get("folders", []))
    return [f"removed {record.get('path', 'the settings')}", *rows]


def _app_that_stays(path: str) -> list[str]:
    """The app whose secret goes with the settings: nobody but Feishu has it then."""
    try:
        settings = Settings(read_config(path), lenient=True)
    except UsageError:  # a broken line must not keep the file
        return []
    app, base = settings.feishu_app_id, settings.feishu_base_url
    return [f"the app {app} stays in Feishu: {base}/app/{app}"] if app else []


def merge_config(data: bytes, changes: Mapping[str, str]) -> bytes:
    """The file with each changed key set once, where it stood last or at the end.

    Raises UsageError for a value that a line cannot hold.
    """
    lines = (data or HEADER).splitlines(keepends=True)
    for key, value in changes.items():
        if value != value.strip() or "\n" in value or "\r" in value:
            raise UsageError(f"{key}: a value cannot hold line ends or outer blanks")
        _set(lines, key.encode(), value.encode())
    return b"".join(lines)


def drop_keys(data: bytes, keys: Iterable[str]) -> bytes:
    """The file without the lines of some keys."""
    names = {key.encode() for key in keys}
    lines = data.splitlines(keepends=True)
    return b"".join(line for line in lines if names.isdisjoint(keys_of(line)))


def _set(lines: list[bytes], key: bytes, value: bytes) -> None:
    """Change the line that counts, which is the last of its key, or add one."""
    ending = b"\r\n" if lines and lines[0].endswith(b"\r\n") else b"\n"
    for index in reversed(range(len(lines))):
        if key in keys_of(lines[index]):
            lines[index] = key + b"=" + _quoted(value) + ending
            return
    if lines and not lines[-1].endswith(b"\n"):
        lines[-1] += ending
    lines.append(key + b"=" + _quoted(value) + ending)


def _quoted(value: bytes) -> bytes:
    """A value in quotes of its own would lose them when it is read."""
    outer = value[:1] in (b'"', b"'") and value[-1:] == value[:1] and len(value) > 1
    return b'"' + value + b'"' if outer else value
