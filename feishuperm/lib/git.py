"""The branch a directory is on, and where its repository begins, from git's own files.

git itself is never run: a repository can name programs in its configuration, and
looking at a branch must not start them.  A repository is somebody else's files: none is
read through a link, and what is not a branch's name or a hash is not shown.
"""

from __future__ import annotations

import os
import re
import stat

MAX_FILE = 4096  # HEAD and a worktree's .git file hold one line
SHORT_HASH = 8
HASH = "[0-9a-f]{40}|[0-9a-f]{64}"
# What git itself allows in a name, and no longer than any name in use.
BRANCH = r"ref: refs/heads/([^\0- \x7f~^:?*\[\\]{1,255})"
# A repository whose references are kept elsewhere (reftable) has this in HEAD.
NO_BRANCH = ".invalid"


def current_branch(directory: str) -> str:
    """The branch, a short hash when none is checked out, or "" outside a repository."""
    top = top_folder(directory)
    git = os.path.join(top, ".git") if top else ""
    if git and not _is_folder(git):
        git = _pointer(top)
    head = _line(os.path.join(git, "HEAD")) if git else ""
    if re.fullmatch(HASH, head):
        return head[:SHORT_HASH]
    match = re.fullmatch(BRANCH, head)
    return match[1] if match and match[1] != NO_BRANCH else ""


def top_folder(directory: str) -> str:
    """The nearest folder at or above a directory that holds a .git, or ""."""
    if not directory.startswith("/") or "\0" in directory:
        return ""
    here = os.path.normpath(directory)
    while True:
        if os.path.lexists(os.path.join(here, ".git")):
            return here
        if here == os.path.dirname(here):
            return ""
        here = os.path.dirname(here)


def main_folder(top: str) -> str:
    """The main folder of a worktree; of any other repository, its own.

    A .git file may claim to belong to any repository: that one has to name it back.
    """
    kept = _pointer(top)
    common = os.path.dirname(os.path.dirname(kept))
    named = _line(os.path.join(kept, "gitdir"))
    claimed = named and os.path.realpath(named) == os.path.realpath(f"{top}/.git")
    shaped = kept.startswith(f"{common}/worktrees/") and common.endswith("/.git")
    return os.path.dirname(common) if claimed and shaped else top


def _pointer(top: str) -> str:
    """The folder that a .git file names, or ""."""
    line = _line(os.path.join(top, ".git"))
    named = line[8:] if line.startswith("gitdir: ") else ""
    return os.path.normpath(os.path.join(top, named)) if named else ""


def _is_folder(path: str) -> bool:
    try:
        return stat.S_ISDIR(os.lstat(path).st_mode)
    except (OSError, ValueError):
        return False


def _line(path: str) -> str:
    """The first line of a regular file that is no link, or "" for anything else."""
    try:
        # Not blocking: opening a pipe somebody left there would wait for ever.
        flags = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC
        fd = os.open(path, flags)
    except (OSError, ValueError):
        return ""
    try:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            return ""
        data = os.read(fd, MAX_FILE)
    except OSError:
        return ""
    finally:
        os.close(fd)
    return data.decode(errors="replace").partition("\n")[0].strip()
