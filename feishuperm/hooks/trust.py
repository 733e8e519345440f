"""Whether anybody trusts what a project's files say: Claude Code's record, or ours.

A clone is somebody else's word.  Claude Code asks once per folder whether it is trusted
and keeps the answer in its own configuration, under the real path of the repository's
top (of a worktree: the main folder's); a folder above counts too, up to that top.
`feishuperm trust` is for folders where that dialog never appears, and is narrower: it
records the hash of the very content that was shown.  That is the settings files, the
MCP servers, everything in the folders for scripts, and each file of the project that a
word in the settings names.  What those files call in turn is not followed.
"""

from __future__ import annotations

import json
import os
import re
import stat
import time
from collections.abc import Iterator, Mapping

from feishuperm.errors import FileError
from feishuperm.lib.claude_client import trusts
from feishuperm.lib.config import LOCAL_SETTINGS, SHARED_SETTINGS, state_dir
from feishuperm.lib.files import (
    locked,
    parse_json,
    private_dir,
    read_bytes,
    read_json,
    write_atomic,
)
from feishuperm.messages import msg
from feishuperm.models.fields import list_at, value_at

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

SETTINGS = (SHARED_SETTINGS, LOCAL_SETTINGS, ".mcp.json")
SCRIPT_FOLDERS = (".claude/hooks", "hooks")
# By these a folder has a say in a session at all.
NAMES = (".claude", ".mcp.json", "CLAUDE.md")
MAX_FILES = 500  # more, nobody has looked at
MAX_FILE = 4 << 20


class Trust:
    """What is trusted, by either record."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self.environ = environ

    def covers(self, root: str) -> bool:
        """Whether a project's files may take effect."""
        return self.by_claude(root) or self.by_content(root)

    def by_claude(self, root: str) -> bool:
        """Whether Claude Code's own dialog was answered with yes for this folder."""
        return trusts(root, self.environ)

    def by_content(self, root: str) -> bool:
        """Whether a person has trusted exactly what lies there now."""
        kept = value_at(Records(self.environ).read(), os.path.realpath(root), "hash")
        try:
            return bool(kept) and kept == content_hash(project_content(root))
        except FileError:
            return False


class Records:
    """What `feishuperm trust` was told: the real path of a folder -> hash and time."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self.path = os.path.join(state_dir(environ), "trust.json")

    def read(self) -> dict[str, Any]:
        """All of them; none from a file that others could have written."""
        try:
            state = os.lstat(self.path)
            data = read_json(self.path)
        except (OSError, FileError):
            return {}
        private = stat.S_ISREG(state.st_mode) and not state.st_mode & 0o077
        own = private and state.st_uid == os.geteuid()
        return data if own and isinstance(data, dict) else {}

    def set(self, root: str, content: str) -> None:
        """Trust a content, or with an empty one nothing. Raises FileError."""
        private_dir(os.path.dirname(self.path))
        with locked(self.path):
            records = self.read()
            records.pop(root, None)
            if content:
                records[root] = {"hash": content, "time": int(time.time())}
            write_atomic(self.path, json.dumps(records, indent=1).encode(), 0o600)


def project_content(root: str) -> dict[str, bytes]:
    """Name -> bytes of all that is trusted together. Raises FileError."""
    top = os.path.realpath(root)
    content: dict[str, bytes] = {}
    folders = set(SCRIPT_FOLDERS)
    words: set[str] = set()
    for name in SETTINGS:
        data = _add(content, top, name)
        if data:
            value = parse_json(data, os.path.join(top, name))
            words.update(_words(value))
            listed = list_at(value, "hookScriptPaths")
            folders.update(folder for folder in listed if isinstance(folder, str))
    for folder in sorted(folders):
        for name in _files_below(top, folder):
            _add(content, top, name)
    for word in sorted(words):
        _add(content, top, word)
    return content


def content_hash(content: dict[str, bytes]) -> str:
    """One name for a content; any other byte or file makes another."""
    import hashlib  # most projects are trusted without

    parts = [
        f"{len(name)} {name} {hashlib.sha256(data).hexdigest()}"
        for name, data in sorted(content.items())
    ]
    return hashlib.sha256("\n".join(parts).encode(errors="surrogateescape")).hexdigest()


def _add(content: dict[str, bytes], top: str, name: str) -> bytes:
    """Take in one file of the project, if it is one. Raises FileError."""
    try:
        path = os.path.realpath(os.path.join(top, os.path.expanduser(name)))
        inside = path.startswith(top + "/") and os.path.isfile(path)
    except ValueError:  # a NUL
        inside = False
    if not inside:
        return b""
    # By the name it is called by as well: a link may lead elsewhere tomorrow.
    names = {os.path.relpath(path, top), os.path.normpath(name)}
    data = read_bytes(path, MAX_FILE) or b""
    content.update(dict.fromkeys(names, data))
    if len(content) > MAX_FILES:
        raise FileError(
            msg("{}: over {} files in its folders for scripts", top, MAX_FILES)
        )
    return data


def _files_below(top: str, folder: str) -> Iterator[str]:
    start = os.path.realpath(os.path.join(top, os.path.expanduser(folder)))
    if start == top:
        raise FileError(msg("{}: `hookScriptPaths` names all of it", top))
    if not start.startswith(top + "/"):
        return  # nothing outside of the project is its own
    for here, _, names in os.walk(start, followlinks=True):
        for name in names:
            yield os.path.relpath(os.path.join(here, name), top)


def _words(value: Any) -> Iterator[str]:
    """Each word of each text that could be the name of a file in the project."""
    values = [value]
    while values:
        value = values.pop()
        if isinstance(value, dict):
            values += value.values()
        elif isinstance(value, list):
            values += value
        elif isinstance(value, str):
            yield value
            plain = re.sub(r'"?\$\{?CLAUDE_PROJECT_DIR\}?"?/?', "./", value)
            yield from re.findall(r"[^\s'\"`;&|<>(){}$=]+", plain)
