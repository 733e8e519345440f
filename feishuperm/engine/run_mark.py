"""Which sessions a headless run looks after itself: a file, named by FEISHUPERM_RUN.

A run registers its own hooks and asks its own questions, so our command hook keeps
quiet for its session.  Every process below inherits the variable, another `claude`
included, and that one is nobody's but the hook's: so the file lists session ids.  While
it is empty the session has only begun, and nothing else can have been started by it.
"""

from __future__ import annotations

import os
import stat

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

VARIABLE = "FEISHUPERM_RUN"


class RunMark:
    """The file of one run, which adds ids as it learns them and removes it at last."""

    def __init__(self) -> None:
        import tempfile

        handle, self.path = tempfile.mkstemp(prefix="feishuperm-run-")
        os.close(handle)

    def add(self, session_id: str) -> None:
        with open(self.path, "a", encoding="utf-8") as file:
            file.write(session_id + "\n")

    def remove(self) -> None:
        try:
            os.unlink(self.path)
        except FileNotFoundError:
            pass


def is_of_a_run(environ: Mapping[str, str], session_id: object) -> bool:
    """Whether a session is one that a run which is still there looks after."""
    path = environ.get(VARIABLE)
    if not path:
        return False
    try:
        if not _is_private(os.lstat(path)):
            return False
        with open(path, encoding="utf-8") as file:
            known = file.read().split()
    except (OSError, ValueError):
        return False
    return not known or session_id in known


def _is_private(found: os.stat_result) -> bool:
    """Whether it can be a run's file.

    A project's settings can name any file in the environment: an empty one of its own,
    or /dev/null, must not silence the user's guards.
    """
    kept = stat.S_ISREG(found.st_mode) and not stat.S_IMODE(found.st_mode) & 0o077
    return kept and found.st_uid == os.geteuid()
