"""What is in the files that a call may run: a pass holds for that and nothing else.

`danger.running` says which words of a call could be files; here the disk is asked.  A
file that was not there is none, so one that comes later makes a difference too.
"""

from __future__ import annotations

import fnmatch
import hashlib
import itertools
import os
import stat
from collections.abc import Iterable

from feishuperm.danger.reader import read_call
from feishuperm.danger.running import ENTRIES

BASH = "Bash("
MOST = 64  # files of a call
LOOKED = 500  # names that may be files: some ten milliseconds
LISTED = 1000  # names that are compared with a pattern
READ = 4 << 20  # bytes of all of them: a few milliseconds; beyond, who and when tells
_PATTERN = frozenset("*?[")


def digest_of(paths: Iterable[str]) -> str:
    """What is in the files among these; empty: none of them is one.

    Where they cannot all be looked at, it is like no other.
    """
    digest, left = hashlib.sha256(), READ
    files, is_whole = _files(paths)
    for path in files:
        found, size = _content(path, left)
        left -= size
        digest.update(b"%s\0%s\0" % (os.fsencode(path), found))
    if not is_whole:
        return os.urandom(32).hex()
    return digest.hexdigest() if files else ""


def rule_digest(rule: str, folder: str) -> str:
    """The same of what a rule lets run in a folder."""
    command = rule[len(BASH) : -1] if rule.startswith(BASH) else ""
    home, call = os.path.expanduser("~"), {"command": command}
    return digest_of(read_call("Bash", call, folder, home, folder).files)


def _files(paths: Iterable[str]) -> tuple[list[str], bool]:
    """Those that are files, each once, links resolved; and whether these are all."""
    seen: dict[str, None] = {}
    left = LOOKED
    for path in paths:
        names, known = _named(path, left)
        left -= len(names)
        if not known or left < 0 or len(seen) > MOST:
            return [], False
        reals = map(os.path.realpath, names)
        seen.update(dict.fromkeys(filter(os.path.isfile, reals)))
    return list(seen), len(seen) <= MOST


def _named(path: str, most: int) -> tuple[list[str], bool]:
    """What a word may mean: itself, what a pattern matches, what runs of a folder.

    And whether that can be told by a look at so many.
    """
    if "\0" in path:
        return [], False
    names, known = [path], True
    if not _PATTERN.isdisjoint(path):
        matches, known = _matches(path)
        names += matches
    if len(names) > most:
        return [], False
    folders = [name for name in names if os.path.isdir(name)]
    return names + [os.path.join(f, entry) for f in folders for entry in ENTRIES], known


def _matches(path: str) -> tuple[list[str], bool]:
    """What a pattern matches, and whether that is all: no disk is searched for it."""
    found, left = ["/"], LISTED
    for part in path.split("/")[1:]:
        if _PATTERN.isdisjoint(part):
            found = [os.path.join(folder, part) for folder in found]
            continue
        folders, found = found, []
        for folder in folders:
            names = _listed(folder, left)
            left -= len(names)
            if left < 0:
                return [], False
            found += [os.path.join(folder, n) for n in fnmatch.filter(names, part)]
    return found, True


def _listed(folder: str, most: int) -> list[str]:
    """The names in a folder, in one order; one more than so many: there are more."""
    try:
        with os.scandir(folder) as entries:
            return sorted(e.name for e in itertools.islice(entries, most + 1))
    except OSError:
        return []


def _content(path: str, left: int) -> tuple[bytes, int]:
    """What tells this content from another, and how many bytes were read for it."""
    try:
        # Nobody waits for the other end of a pipe that has taken its place.
        with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb") as file:
            about = os.fstat(file.fileno())
            if about.st_size <= left and stat.S_ISREG(about.st_mode):
                data = file.read(left)
                return hashlib.sha256(data).digest(), len(data)
    except OSError:
        return b"unread", 0
    # Nobody sets the time of a change back but who owns the machine.
    facts = about.st_dev, about.st_ino, about.st_size, about.st_ctime_ns
    return repr(facts).encode(), 0
