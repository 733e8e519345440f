"""What is in the files that a call may run: a pass holds for that and nothing else.

`danger.running` says which words of a call could be files; here the disk is asked.  A
file that was not there is none, so one that comes later makes a difference too.
"""

from __future__ import annotations

import glob
import hashlib
import os
import stat
from collections.abc import Iterable, Iterator

from feishuperm.danger.reader import read_call
from feishuperm.danger.running import ENTRIES

BASH = "Bash("
MOST = 64  # files of a call, or of a pattern in it
READ = 4 << 20  # bytes of all of them: a few milliseconds; beyond, who and when tells
_PATTERN = frozenset("*?[")


def digest_of(paths: Iterable[str]) -> str:
    """What is in the files among these; empty: none of them is one."""
    digest, left, count = hashlib.sha256(), READ, 0
    for path in _files(paths):
        found, size = _content(path, left)
        left -= size
        count += 1
        digest.update(b"%d %s\0%s\0" % (count, os.fsencode(path), found))
    return digest.hexdigest() if count else ""


def rule_digest(rule: str, folder: str) -> str:
    """The same of what a rule lets run in a folder."""
    command = rule[len(BASH) : -1] if rule.startswith(BASH) else ""
    home, call = os.path.expanduser("~"), {"command": command}
    return digest_of(read_call("Bash", call, folder, home, folder).files)


def _files(paths: Iterable[str]) -> Iterator[str]:
    """Those that are files, each once, links resolved."""
    seen: set[str] = set()
    for path in paths:
        for name in _named(path):
            real = os.path.realpath(name)
            if real not in seen and len(seen) < MOST and os.path.isfile(real):
                seen.add(real)
                yield real


def _named(path: str) -> list[str]:
    """What a word may mean: itself, what a pattern matches, what runs of a folder."""
    if "\0" in path:
        return []
    names = [path]
    if not _PATTERN.isdisjoint(path):
        names += sorted(glob.glob(path))[:MOST]
    folders = [name for name in names if os.path.isdir(name)]
    return names + [os.path.join(f, entry) for f in folders for entry in ENTRIES]


def _content(path: str, left: int) -> tuple[bytes, int]:
    """What tells this content from another, and how many bytes were read for it."""
    try:
        with open(path, "rb") as file:
            about = os.fstat(file.fileno())
            if about.st_size <= left and stat.S_ISREG(about.st_mode):
                data = file.read(left)
                return hashlib.sha256(data).digest(), len(data)
    except OSError:
        return b"unread", 0
    # Nobody sets the time of a change back but who owns the machine.
    facts = about.st_dev, about.st_ino, about.st_size, about.st_ctime_ns
    return repr(facts).encode(), 0
