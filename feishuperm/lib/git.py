"""The branch a directory is on, read from git's own files.

git itself is never run: a repository can name programs in its configuration, and
looking at a branch must not start them.
"""

from __future__ import annotations

import os
import stat

MAX_FILE = 4096  # HEAD and a worktree's .git file hold one line
SHORT_HASH = 8
# A repository whose references are kept elsewhere (reftable) has this in HEAD.
NO_BRANCH = ".invalid"


def current_branch(directory: str) -> str:
    """The branch, a short hash when none is checked out, or "" outside a repository."""
    git = _git_dir(directory)
    head = _line(os.path.join(git, "HEAD")) if git else ""
    kind, _, reference = head.partition("ref: ")
    if kind:
        return head[:SHORT_HASH]
    branch = reference[11:] if reference.startswith("refs/heads/") else reference
    return "" if branch == NO_BRANCH else branch


def _git_dir(directory: str) -> str:
    """The nearest .git at or above a directory; in a worktree, what its file names."""
    if not directory.startswith("/"):
        return ""
    here = os.path.normpath(directory)
    while True:
        git = os.path.join(here, ".git")
        if os.path.isdir(git):
            return git
        pointer = _line(git)
        if pointer.startswith("gitdir: "):
            return os.path.join(here, pointer[8:])
        parent = os.path.dirname(here)
        if parent == here:
            return ""
        here = parent


def _line(path: str) -> str:
    """The first line of a regular file, or "" for anything else."""
    try:
        # Not blocking: opening a pipe somebody left there would wait for ever.
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
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
