"""`log()`: one line with time, level, call site and message, in a private file.

    2026-11-16T03:00:00.123+00:00 INFO services/ledger.py:41 the message

A log must never fail what it reports on: when the file cannot be written the line is
lost, silently.  It never holds a secret: whatever looks like one, or was registered by
`hide()`, is replaced before the line is written.  It does without `logging`, which
costs more to import than a whole hook run.
"""

from __future__ import annotations

import fcntl
import os
import sys
import time
from collections.abc import Callable
from contextlib import suppress

from feishuperm.errors import FileError
from feishuperm.lib.config import state_dir
from feishuperm.lib.files import append_line
from feishuperm.lib.secrets import HIDDEN, Steps, finish, masking
from feishuperm.models.settings import LOG_LEVELS, SETTINGS, Settings

MAX_FILE = 1 << 20  # weeks of decisions; three of them are kept
OLD_FILES = 2
MAX_MESSAGE = 4000  # characters: an entry stays readable, whatever was thrown at it


class Log:
    """Where log lines go, which of them, and what they must not show."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self.clock = clock
        self.level = LOG_LEVELS.index("info")
        self.path = ""
        self.stderr = False
        self.hidden: tuple[str, ...] = ()

    def write(self, message: str, level: str, site: str) -> None:
        """Add one entry; never raises."""
        if LOG_LEVELS.index(level) < self.level:
            return
        line = f"{timestamp(self.clock())} {level.upper()} {site} {self.clean(message)}"
        if self.stderr:
            with suppress(
                OSError, ValueError, AttributeError
            ):  # closed, or there is none
                print(line, file=sys.stderr, flush=True)
        with suppress(FileError, OSError, ValueError):
            path = self.path or os.path.join(state_dir(), "feishuperm.log")
            rotate(path)
            append_line(path, line.encode())

    def clean(self, message: str) -> str:
        """The message without secrets, on one line."""
        message = self.redact(message[: 2 * MAX_MESSAGE])  # a secret must not be cut
        if len(message) > MAX_MESSAGE:
            message = message[:MAX_MESSAGE] + "..."
        return one_line(message)

    def redact(self, message: str) -> str:
        """The message with every secret replaced."""
        return finish(self.redacting(message)).text

    def redacting(self, message: str) -> Steps:
        """The same in short steps, and whether it hides more than secrets."""
        for secret in self.hidden:
            message = message.replace(secret, HIDDEN)
        return masking(message)

    def hide(self, secret: str) -> None:
        """Never show this text again, in any line."""
        if secret and secret not in self.hidden:
            # Longest first: a secret inside another must not leave the rest visible.
            self.hidden = tuple(sorted((*self.hidden, secret), key=len, reverse=True))


_LOG = Log()


def log(message: str, level: str = "info") -> None:
    """Add a line to the log, with the place this was called from."""
    _LOG.write(message, level, call_site(2))


def obey(settings: Settings, stderr: bool = False) -> None:
    """Log as these settings say, and none of their secrets; a server on stderr too."""
    _LOG.level = LOG_LEVELS.index(settings.feishuperm_log_level)
    _LOG.stderr = stderr
    for setting in SETTINGS:
        if setting.secret:
            hide(getattr(settings, setting.key.lower()))


hide = _LOG.hide
redact = _LOG.redact
redacting = _LOG.redacting


def call_site(depth: int) -> str:
    """`services/ledger.py:41`, also for code that was loaded from the archive."""
    frame = sys._getframe(depth)
    name = frame.f_code.co_filename
    package, _, inside = name.rpartition("/feishuperm/")
    return f"{inside if package else os.path.basename(name)}:{frame.f_lineno}"


def timestamp(now: float) -> str:
    """Local time with milliseconds and its distance from UTC."""
    local = time.localtime(now)
    clock, zone = time.strftime("%Y-%m-%dT%H:%M:%S %z", local).split()
    return f"{clock}.{int(now % 1 * 1000):03d}{zone[:3]}:{zone[3:]}"


def one_line(message: str) -> str:
    """Line ends, control and invisible characters as escapes: no line can be forged."""
    if message.isprintable():
        return message
    return "".join(
        char if char.isprintable() else char.encode("unicode_escape").decode()
        for char in message
    )


def rotate(path: str, limit: int = MAX_FILE) -> None:
    """Move a full file aside. The process with its lock does it, the others go on."""
    try:
        if os.stat(path).st_size < limit:
            return
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # Another process may have moved it between our open and our lock.
        if os.path.samestat(os.fstat(fd), os.stat(path)):
            names = [path, *(f"{path}.{number + 1}" for number in range(OLD_FILES))]
            for newer, older in reversed([*zip(names, names[1:])]):
                with suppress(FileNotFoundError):
                    os.rename(newer, older)
    except (BlockingIOError, FileNotFoundError):
        pass
    finally:
        os.close(fd)
