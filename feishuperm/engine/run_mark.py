"""Which sessions a headless run looks after itself: a file, named by FEISHUPERM_RUN.

A run registers its own hooks and asks its own questions, so our command hook keeps
quiet for its session.  Every process below inherits the variable, another `claude`
included, and that one is nobody's but the hook's: so the file lists session ids.  While
it is empty the session has only begun, and nothing else can have been started by it.

A project's settings can put anything into the environment of a hook, and must not be
able to silence a guard.  So the variable holds no path but a random word, which names a
file in our own folder, and the run keeps that file locked while it lives.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Mapping

from feishuperm.lib.config import state_dir
from feishuperm.lib.files import open_append

VARIABLE = "FEISHUPERM_RUN"


class RunMark:
    """The file of one run, which adds ids as it learns them and removes it at last.

    Raises OSError.
    """

    def __init__(self, environ: Mapping[str, str] = os.environ) -> None:
        self.word = os.urandom(16).hex()
        self.path = _path(self.word, environ)
        self.fd = open_append(self.path)
        fcntl.flock(self.fd, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def add(self, session_id: str) -> None:
        os.write(self.fd, session_id.encode() + b"\n")

    def remove(self) -> None:
        if self.fd >= 0:
            os.unlink(self.path)
            os.close(self.fd)
            self.fd = -1


def is_of_a_run(environ: Mapping[str, str], session_id: object) -> bool:
    """Whether a session is one that a run which is still there looks after."""
    word = environ.get(VARIABLE, "")
    if len(word) != 32 or not word.isalnum():  # no path, whatever it holds
        return False
    try:
        fd = os.open(_path(word, environ), os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
        return False  # nobody holds it: what made it is gone
    except BlockingIOError:
        sessions = os.read(fd, 1 << 16).decode(errors="replace").split()
        return not sessions or session_id in sessions
    except OSError:
        return False
    finally:
        os.close(fd)


def _path(word: str, environ: Mapping[str, str]) -> str:
    return os.path.join(state_dir(environ), "runs", word)
