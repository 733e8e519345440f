"""Files: read with limits, and written so that nobody ever meets half of one.

It knows bytes, JSON, modes, links and locks, and nothing of what the files mean.  A
file is replaced as a whole (temporary file beside it, fsync, rename, fsync of the
folder), so a crash leaves the old one or the new one.  Locks live in our own state
folder and never in a user's project.  A repository is known by git's own files: git
itself could run programs that the repository names.  What the file system refuses, and
what is no JSON, is raised as `FileError`, with a text that names the file.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import re
import stat
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress

from feishuperm.errors import FeishupermError, FileError
from feishuperm.lib.config import state_dir
from feishuperm.messages import SYSTEM, Message, message_of, msg

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

MAX_JSON = 16 << 20  # settings files are kilobytes; this only stops an accident
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
LOCK_STEP = 0.01  # flock has no bounded wait of its own, so it is tried this often


# ---- reading


def read_bytes(path: str, limit: int = MAX_JSON, flags: int = 0) -> bytes | None:
    """The whole file, None when there is none. Raises FileError."""
    try:
        # Not blocking: opening a pipe somebody left there would wait for ever.
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | flags)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError) as error:
        raise failure("cannot read {}: {}", path, error) from None
    try:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise OSError(errno.EINVAL, msg("not a regular file"))
        with open(fd, "rb", closefd=False) as file:
            data = file.read(limit + 1)
    except OSError as error:
        raise failure("cannot read {}: {}", path, error) from None
    finally:
        os.close(fd)
    if len(data) > limit:
        raise FileError(msg("cannot read {}: larger than {} bytes", path, limit))
    return data


def read_json(path: str) -> Any:
    """What a JSON file holds, None when there is none. Raises FileError."""
    data = read_bytes(path)
    return None if data is None else parse_json(data, path)


def parse_json(data: bytes, path: str) -> Any:
    """The value in a file's bytes; a byte order mark is skipped. Raises FileError."""
    data = data.removeprefix(BYTE_ORDER_MARK)
    try:
        return json.loads(data.decode(), parse_constant=refuse_constant)
    except (ValueError, RecursionError) as error:
        raise FileError(msg("{}, {}", path, json_problem(error))) from None


def json_problem(error: Exception) -> str:
    """What is wrong with a text, and in which line if that is known."""
    if isinstance(error, UnicodeDecodeError):
        return msg("line {}: not UTF-8", error.object.count(10, 0, error.start) + 1)
    if isinstance(error, json.JSONDecodeError):
        return msg("line {}: not JSON: {}", error.lineno, Message(error.msg, SYSTEM))
    if isinstance(error, RecursionError):
        return msg("nested too deeply")
    return msg("not JSON: {}", error)


def refuse_constant(name: str) -> None:
    raise ValueError(msg("{} is no JSON number", name))


# ---- repositories: somebody else's files, none of which is read through a link

MAX_LINE = 4096  # HEAD and a worktree's .git file hold one line
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
    if git and (os.path.islink(git) or not os.path.isdir(git)):
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


def _line(path: str) -> str:
    """The first line of a short regular file that is no link, or ""."""
    try:
        data = read_bytes(path, MAX_LINE, os.O_NOFOLLOW) or b""
    except FileError:
        return ""
    return data.decode(errors="replace").partition("\n")[0].strip()


# ---- writing


def write_atomic(
    path: str,
    data: bytes,
    mode: int | None = None,
    check: Callable[[], None] | None = None,
    lasting: bool = True,
) -> None:
    """Replace a file as a whole, or make it. Raises FileError, with the old one intact.

    Without `mode` an existing file keeps its own; a new one can be read by others as
    the umask allows, and written by nobody else whatever it allows.  A link stays a
    link: what it points to is replaced.  `check` is called at the last moment before
    the change and may raise to prevent it.  What is not `lasting` may be lost with the
    power; it spares the wait for the disk.
    """
    try:
        _replace(os.path.realpath(path), data, mode, check, lasting)
    except (OSError, ValueError) as error:
        raise failure("cannot write {}: {}", path, error) from None


def append_line(path: str, data: bytes, mode: int = 0o600) -> None:
    """Add one line in one write, so that lines of several processes never mix."""
    try:
        fd = open_append(path, mode)
        try:
            write_all(fd, data + b"\n")
        finally:
            os.close(fd)
    except (OSError, ValueError) as error:
        raise failure("cannot write {}: {}", path, error) from None


def open_append(path: str, mode: int = 0o600) -> int:
    """A descriptor that reads, and writes at the end; a missing folder is made."""
    flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
    try:
        return os.open(path, flags, mode)
    except FileNotFoundError:
        private_dir(os.path.dirname(path))
        return os.open(path, flags, mode)


def write_all(fd: int, data: bytes) -> None:
    """Write everything, in one go if the system lets us. Raises OSError."""
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def private_dir(path: str) -> str:
    """Make a folder, and those above it, for this user alone; returns its path."""
    if path and not os.path.isdir(path):
        private_dir(os.path.dirname(path))
        with suppress(FileExistsError):  # another process was faster, or it is a file
            os.mkdir(path, 0o700)
    return path


def guard_dir(path: str) -> None:
    """Let nobody else write to our own folder. Raises FileError if it is theirs.

    Who can write to the folder of our keys and records could put others in their place.
    """
    try:
        folder = os.stat(path)
        if os.geteuid() not in (0, folder.st_uid):
            raise OSError(errno.EPERM, msg("it belongs to another user"))
        if folder.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            os.chmod(path, 0o700)
    except FileNotFoundError:
        pass
    except OSError as error:
        raise failure("cannot use {}: {}", path, error) from None


def require_own(path: str, command: Sequence[str]) -> None:
    """Raise FeishupermError where root would leave files in another user's folder.

    `sudo` and `doas` may keep the user's HOME, `su -m` does; what root makes there,
    that user can neither write nor remove. The owner of the nearest folder decides.
    """
    place = os.path.realpath(path)
    while not os.path.isdir(place):
        place = os.path.dirname(place)
    uid = owner(place)
    if os.geteuid() or not uid:
        return
    import pwd
    import shlex  # late, both: hooks load this module

    try:
        name = pwd.getpwuid(uid).pw_name
    except KeyError:
        name = str(uid)
    raise FeishupermError(
        msg(
            "{} belongs to {}: root would leave files there that this user cannot "
            "change",
            place,
            name,
        ),
        msg("as {}, without sudo: {}", name, shlex.join(["feishuperm", *command])),
    )


def owner(path: str) -> int:
    return os.stat(path).st_uid


def acquire(fd: int, wait: float, sleep: Callable[[float], None] = time.sleep) -> None:
    """Lock an open file until it is closed. Raises OSError when `wait` is over."""
    deadline = time.monotonic() + wait
    while True:
        try:
            return fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= deadline:
                raise
        sleep(LOCK_STEP)


@contextmanager
def locked(path: str, wait: float = 5.0) -> Iterator[None]:
    """Keep every other holder of the same file out: threads and processes.

    Raises FileError when another one keeps it longer than `wait` seconds.
    """
    fd = -1
    try:
        try:
            # A checksum keeps the name short; two paths that share one take turns.
            name = f"{zlib.crc32(os.fsencode(os.path.realpath(path))):08x}"
            fd = open_append(os.path.join(state_dir(), "locks", name))
            acquire(fd, wait)
        except (OSError, ValueError) as error:
            raise failure("cannot lock {}: {}", path, error) from None
        yield
    finally:
        if fd >= 0:
            os.close(fd)  # which also gives the lock back


def _replaceable(target: str) -> os.stat_result | None:
    """The state of a file that may be replaced, None for a new one. Raises OSError."""
    try:
        old = os.lstat(target)
    except FileNotFoundError:
        return None
    if not stat.S_ISREG(old.st_mode):
        raise OSError(errno.EINVAL, msg("not a regular file"))
    if os.geteuid() not in (0, old.st_uid):
        raise OSError(errno.EPERM, msg("it belongs to another user"))
    # A rename would replace a read-only file all the same; its owner meant it.
    if not old.st_mode & stat.S_IWUSR:
        raise OSError(errno.EACCES, msg("it is read-only"))
    return old


def _replace(
    target: str,
    data: bytes,
    mode: int | None,
    check: Callable[[], None] | None,
    lasting: bool,
) -> None:
    old = _replaceable(target)
    if mode is None and old is not None:
        mode = stat.S_IMODE(old.st_mode)
    folder = os.path.dirname(target)
    temporary = os.path.join(folder, f".feishuperm-{os.urandom(8).hex()}")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    fd = os.open(temporary, flags, 0o644 if mode is None else 0o600)
    try:
        try:
            write_all(fd, data)
            if old is not None and os.geteuid() == 0:
                os.fchown(fd, old.st_uid, old.st_gid)
            if mode is not None:
                os.fchmod(fd, mode)  # after chown, which clears set-id bits
            if lasting:
                os.fsync(fd)
        finally:
            os.close(fd)
        if check is not None:
            check()
        os.rename(temporary, target)
    except BaseException:
        discard(temporary)
        raise
    if lasting:
        with suppress(OSError):  # some file systems cannot, and that is no failure
            _sync(folder)


def _sync(folder: str) -> None:
    """Make a rename last."""
    fd = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def discard(path: str) -> None:
    """Remove a file that is not worth an error."""
    with suppress(OSError):
        os.unlink(path)


def failure(sentence: str, path: str, error: Exception) -> FileError:
    """The error to raise for one of the file system's: its path, and why."""
    return FileError(msg(sentence, path, message_of(error)))
