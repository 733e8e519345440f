"""`log()`: one line with time, level, call site and message, in a private file.

    2026-11-16T03:00:00.123+00:00 INFO services/ledger.py:41 the message

A log must never fail what it reports on: when the file cannot be written the line is
lost, silently.  It never holds a secret: whatever looks like one, or was registered by
`hide()`, is replaced before the line is written.  It does without `logging`, which
costs more to import than a whole hook run.

`mask(text)` puts `***` in the place of secrets and keeps what a command is recognised
by: the program, the names of its options and variables, hosts and users.  It works on
text of any kind, as it comes: shell commands, JSON, YAML, headers, code.  It knows the
shapes of common tokens, and names that a secret usually stands behind (`API_KEY=`,
`--password `, `"token":`); a secret without shape and name it cannot know.  In doubt it
hides: a person who may see all of a request sees it on its page.  `masking(text)` does
the same in steps, for texts of megabytes, and says whether the mask could hide more
than a secret: then nobody may approve what they have not seen.  The time is linear,
whatever the text.  Nothing is raised, and what is masked stays as it is when it is
masked again.
"""

from __future__ import annotations

import fcntl
import os
import sys
import time
from collections.abc import Callable, Generator, Iterable
from contextlib import suppress

from feishuperm.errors import FileError
from feishuperm.lib.config import state_dir
from feishuperm.lib.files import append_line
from feishuperm.models.settings import LOG_LEVELS, SETTINGS, Settings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType
    from typing import TypeVar

    from feishuperm.lib.secret_finders import Span

    T = TypeVar("T")

MAX_FILE = 1 << 20  # weeks of decisions; three of them are kept
OLD_FILES = 2
MAX_MESSAGE = 4000  # characters: an entry stays readable, whatever was thrown at it

HIDDEN = "***"
STEP = 20  # places that are looked at between two pauses
SHORT = 1 << 14  # characters that are searched for every hint without a pause
PASSES = 8  # until nothing changes any more; two are the rule, more are an attack
# Without one of these (in lower case) there is nothing to find.
HINTS = (
    "://", "token", "secret", "pass", "pwd", "key", "auth", "cred", "cookie", "bearer",
    "basic", "-----begin", "/hook", "sig", "akia", "asia", "eyj", "ghp_", "gho_",
    "ghu_", "ghs_", "ghr_", "github_pat_", "gl", "sk-", "sk_", "rk_", "xox", "xapp-",
    "aiza", "ya29.", "npm_", "pypi-", "hf_", "sg.", "hvs.", "_pat_", "ltai", "akid",
    "whsec_", "shp", "dop_v1_", "lin_api_", "atatt3", "密码", "口令", "密钥", "令牌",
    "1//0", ":aa", "mysql", "mariadb", "curl", "redis-cli", "7z", "zip", "ldap", "smb",
    "http", "mongo", "login", "pscp", "plink", "--user", "literal", "config:set",
    "pat", "otp", "pin", "xh", "wget", "security", "rar", "twine", "rdesktop",
    "openssl", "dotnet", "nuget", "snmp", "nmcli", "freerdp", "sqlcmd", "bcp", "ipmi",
    "identified", "mosquitto", "lftp", "rpcclient", "psftp", "stdin", "sudo -",
)  # fmt: skip


class Masked:
    """A text without its secrets, and whether that hides what ought to be seen."""

    def __init__(self, text: str, veiled: bool = False) -> None:
        self.text = text
        self.veiled = veiled


Steps = Generator[None, None, Masked]


def mask(text: str) -> str:
    """The text without its secrets; the very same object when it has none."""
    return finish(masking(text)).text


def finish(steps: Generator[None, None, T]) -> T:
    """All steps at once."""
    try:
        while True:
            next(steps)
    except StopIteration as done:
        result: T = done.value
        return result


def masking(text: str) -> Steps:
    """Mask a text in steps that are all short, whatever its size."""
    masked, lower, veiled = text, _lower(text), HIDDEN in text
    yield
    if not (yield from _has_hint(lower)):
        return Masked(text)
    from feishuperm.lib.secret_finders import is_veiled

    for number in range(PASSES):
        spans = yield from _spans(masked, lower)
        if not spans:
            return Masked(masked, veiled and bool(number))
        # What is found only once something else is hidden is no plain secret.
        veiled = veiled or bool(number) or (yield from is_veiled(masked, spans))
        masked = yield from _without(masked, spans)
        yield
        spans.clear()
        yield
        lower = _lower(masked)
        yield
    return Masked(HIDDEN, True)


def _has_hint(lower: str) -> Generator[None, None, bool]:
    if len(lower) <= SHORT:
        return any(map(lower.__contains__, HINTS))
    for hint in HINTS:
        if hint in lower:
            return True
        yield
    return False


def _spans(text: str, lower: str) -> Generator[None, None, list[Span]]:
    """What to hide, in order; none in another."""
    import heapq  # late, both: most texts hold nothing

    from feishuperm.lib.secret_finders import FINDERS, PAUSE

    found = []
    for find in FINDERS.values():
        spans: list[Span] = []
        for number, span in enumerate(find(text, lower)):
            if span[0] < span[1] and text[span[0] : span[1]] != HIDDEN:
                spans.append(span)
            if span is PAUSE or not number % STEP:
                yield
        found.append(sorted(spans))
        yield
    return (yield from _merged(heapq.merge(*found)))


def _merged(spans: Iterable[Span]) -> Generator[None, None, list[Span]]:
    merged: list[Span] = []
    for number, (start, end, kind) in enumerate(spans):
        if merged and start <= merged[-1][1]:
            first, last, other = merged[-1]
            if start == first:  # the longest of them
                other = kind
            elif end > last:  # it hides more than the first has a reason for
                other = min(other, kind)
            merged[-1] = first, max(last, end), other
        else:
            merged.append((start, end, kind))
        if not number % STEP:
            yield
    return merged


def _without(text: str, spans: list[Span]) -> Generator[None, None, str]:
    parts: list[str] = []
    done = 0
    for number, (start, end, _) in enumerate(spans):
        parts += (text[done:start], HIDDEN)
        done = end
        if not number % STEP:
            yield
    return "".join([*parts, text[done:]])


def _lower(text: str) -> str:
    """The text in lower case, every character in its place."""
    lower = text.lower()
    if len(lower) == len(text):
        return lower
    # A few letters become two.
    return "".join(low if len(low := c.lower()) == 1 else c for c in text)


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


def report(error: Exception) -> None:
    """An exception nobody expected, with the place that it came from."""
    trace, site = error.__traceback__, ""
    while trace is not None:  # the last one stays
        site, trace = place_of(trace.tb_frame, trace.tb_lineno), trace.tb_next
    _LOG.write(f"{type(error).__name__}: {error}", "error", site or call_site(2))


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
    """Where the code stands that called."""
    frame = sys._getframe(depth)
    return place_of(frame, frame.f_lineno)


def place_of(frame: FrameType, line: int) -> str:
    """`services/ledger.py:41`, also for code that was loaded from the archive."""
    name = frame.f_code.co_filename
    package, _, inside = name.rpartition("/feishuperm/")
    return f"{inside if package else os.path.basename(name)}:{line}"


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
