"""Whether a process belongs to the session that asks: the agent must not answer itself.

A hook says by its pid which client started it (`SessionProcesses.add`).  Whatever that
client starts lies below it in the process tree and carries its session in the
environment.  `suspect` and `suspect_pid` tell whether the holder of a socket, or a
process, is such a one, also when it was cut off from the tree (double fork, setsid) but
kept its environment, or was seen below the client before it was cut off.

This stops a session from answering its own requests by the way.  It is no wall: the
same user can start a process with another environment from somewhere else entirely.

Processes are known by pid and start time, since pids are used again.  Linux tells all
of it in /proc, where a look at 500 processes costs some ten milliseconds.  macOS tells
parents, times and environments through libproc and sysctl.
"""

from __future__ import annotations

import math
import os
import struct
import sys
from collections.abc import Callable, Iterator, Mapping
from itertools import dropwhile, islice, takewhile
from typing import NamedTuple

from feishuperm.errors import FeishupermError
from feishuperm.lib.socket_owner import Owner
from feishuperm.lib.terminal import can_ask
from feishuperm.messages import msg

# Entries of an environment that name a session, its client, or just some client.
SESSION_MARK = b"CLAUDE_CODE_SESSION_ID="
CLIENT_MARK = b"CLAUDE_PID="
HOST_MARK = b"CLAUDECODE="
MARKS = (SESSION_MARK, CLIENT_MARK, HOST_MARK)
CLIENT_NAME = "claude"  # as its process calls itself
MAX_ENVIRON = 256 << 10  # more than any shell passes on; the marks stand among the rest
MAX_CLIENTS = 2000  # sessions that have asked; the oldest is forgotten first
MAX_DEPTH = 64  # of a process tree
MAX_FILES = 1 << 16  # of one process; with more, they are as good as hidden
MAX_SUSPECTS = 1000  # whose open files are looked at; sessions with more are refused
SHELLS = ("sh", "bash", "dash", "zsh", "ksh", "ash", "fish", "busybox")


class Process(NamedTuple):
    """What the system says of a process."""

    pid: int
    start: int  # in the system's own unit; only compared
    parent: int
    group: int
    name: str
    marks: frozenset[bytes] = frozenset()  # of its environment, if that can be read


class Client(NamedTuple):
    """The program that started a hook."""

    pid: int
    start: int
    marks: frozenset[bytes]  # in the environment of whatever it starts
    is_driver: bool = False  # it asks for a client below it, and is none itself


class Suspect(NamedTuple):
    """A process that must not decide."""

    pid: int
    name: str

    def __str__(self) -> str:
        return f"{self.name} (pid {self.pid})"


class SessionProcesses:
    """The clients that have asked, and the processes below them."""

    def __init__(self, system: Linux | None = None) -> None:
        self._system = system or (Mac() if sys.platform == "darwin" else Linux())
        self._clients: dict[tuple[int, int], Client] = {}
        self._marks: dict[bytes, int] = {}  # of all of them: since which start
        # Seen below a client at the last look; one may have been cut off since.
        self._seen_below: set[tuple[int, int]] = set()

    def add(self, hook_pid: int, session: str = "") -> Client | None:
        """Remember who started a hook; None where that cannot be told."""
        hook = self._system.read(hook_pid) if hook_pid > 0 else None
        if hook is None:
            return None
        top = self._client_of(hook)
        # The marks that name a session, or the vague one where there is no other.
        exact = frozenset(mark for mark in hook.marks if not mark.startswith(HOST_MARK))
        marks = exact or hook.marks
        if session:
            marks |= {SESSION_MARK + os.fsencode(session)}
        before = self._clients.pop((top.pid, top.start), None)
        if before is not None:
            marks |= before.marks
        client = Client(top.pid, top.start, marks, is_driver=not hook.marks)
        self._clients[client.pid, client.start] = client
        for mark in client.marks:
            self._marks.setdefault(mark, client.start)
        if len(self._clients) > MAX_CLIENTS:
            oldest = self._clients.pop(next(iter(self._clients)))
            for mark in oldest.marks:
                self._marks.pop(mark, None)
        return client

    def _client_of(self, hook: Process) -> Process:
        """The process that started a hook: by its own word, or by how hooks are run.

        A hook is run as `sh -c`, in a process group of its own.  A program that asks
        without any mark of a client drives one itself (`run`), which is then below it.
        """
        if not hook.marks:
            return hook
        above = list(lineage(hook, lambda pid: self._system.read(pid, math.inf)))
        for process in above[1:]:
            if CLIENT_MARK + b"%d" % process.pid in hook.marks:
                return process
        group = list(takewhile(lambda process: process.group == hook.group, above))
        below = len(group) if group[-1].name in SHELLS else 1
        rest = dropwhile(lambda process: process.name in SHELLS, above[below:])
        top = next(rest, hook)
        return top if top.pid > 1 else hook

    def suspect(self, owner: Owner) -> Suspect | None:
        """The holder of a TCP socket, as a suspect."""
        if owner.pid:
            return self.suspect_pid(owner.pid)
        return self.suspect_inode(owner.inode, owner.uid)

    def suspect_pid(self, pid: int, any_session: bool = False) -> Suspect | None:
        """This process as a suspect; `any_session`: also of one that never asked.

        A process that is gone cannot wait for an answer: it is a suspect too.
        """
        if not self._clients and not any_session:
            return None
        process = self._system.read(pid)
        if process is None:
            return Suspect(pid, "?")
        belongs = self._belongs(process, self._system.read, any_session)
        return Suspect(pid, process.name) if belongs else None

    def suspect_inode(self, inode: int, uid: int) -> Suspect | None:
        """The holder of a socket of this user as a suspect (Linux)."""
        if not self._clients or not inode:
            return None
        suspects = self._suspects()
        if len(suspects) > MAX_SUSPECTS:
            return Suspect(suspects[0].pid, suspects[0].name)
        hidden = None
        for process in suspects:
            if process.pid == os.getpid():  # a server that a driver started: the other
                continue  # end is ours, and thousands of waiting hooks beside it
            holds = self._system.holds(process.pid, inode)
            if holds:
                return Suspect(process.pid, process.name)
            if holds is None and self._system.uid(process.pid) == uid:
                hidden = process
        # One that hides its files may be the holder, unless another is.
        if hidden is None or self._system.is_held(inode):
            return None
        return Suspect(hidden.pid, hidden.name)

    def _suspects(self) -> list[Process]:
        """Every process that belongs to a session, by one look at all of them."""
        # What is older than every client belongs to none, whatever it carries.
        since = min(start for _, start in self._clients)
        processes = {process.pid: process for process in self._system.all(since)}
        found = [p for p in processes.values() if self._belongs(p, processes.get)]
        # What ended is forgotten; its pid may come again with another start.
        self._seen_below = {(process.pid, process.start) for process in found}
        return found

    def _belongs(self, process: Process, read: Read, any_session: bool = False) -> bool:
        """Whether it, or a process above it, is of a session that has asked."""
        for steps, relative in enumerate(lineage(process, read)):
            if self._is_marked(relative) or (steps and self._drives(relative)):
                return True
            # Marks can be dropped by `exec env -i`, the client above cannot.
            is_named = steps > 0 and relative.name == CLIENT_NAME
            if any_session and (relative.marks or is_named):
                return True
        return False

    def _is_marked(self, process: Process) -> bool:
        """Whether it is a client itself, or one of its own by what it carries."""
        key = process.pid, process.start
        if key in self._seen_below:
            return True
        if key in self._clients and not self._drives(process):
            return True
        return any(
            self._marks.get(mark, process.start + 1) <= process.start
            for mark in process.marks
        )

    def _drives(self, process: Process) -> bool:
        client = self._clients.get((process.pid, process.start))
        return client is not None and client.is_driver


Read = Callable[[int], "Process | None"]


def lineage(process: Process, read: Read) -> Iterator[Process]:
    """A process, its parent, and so on; never one that got a dead parent's pid."""
    for _ in range(MAX_DEPTH):
        yield process
        parent = read(process.parent) if process.parent > 0 else None
        if parent is None or parent.start > process.start:
            return
        process = parent


def find_marks(environ: bytes) -> frozenset[bytes]:
    """The entries of an environment that tell a session; entries end in NUL."""
    if b"CLAUDE" not in environ:
        return frozenset()
    return frozenset(entry for entry in environ.split(b"\0") if entry.startswith(MARKS))


def printable(name: bytes) -> str:
    """A process's name for people: it is the process that chose it."""
    text = name.decode("ascii", "replace")
    return "".join(c if c.isprintable() and c.isascii() else "?" for c in text)


class Linux:
    """Processes by /proc."""

    def __init__(self, root: str = "/proc") -> None:
        self._root = root

    def read(self, pid: int, since: float = 0) -> Process | None:
        """One process as it is now; without its marks if it is older than `since`."""
        data = self._file(pid, "stat", 1024)
        name, _, rest = data.partition(b"(")[2].rpartition(b")")
        fields = rest.split()
        if len(fields) < 20:
            return None
        parent, group, start = int(fields[1]), int(fields[2]), int(fields[19])
        environ = self._file(pid, "environ", MAX_ENVIRON) if start >= since else b""
        return Process(pid, start, parent, group, printable(name), find_marks(environ))

    def all(self, since: float) -> list[Process]:
        """Every process."""
        found = (self.read(pid, since) for pid in self._pids())
        return [process for process in found if process is not None]

    def _pids(self) -> list[int]:
        return [int(name) for name in os.listdir(self._root) if name.isdigit()]

    def uid(self, pid: int) -> int:
        """Whose process it is; of one that hides, its folder would say root."""
        status = self._file(pid, "status", 4096)
        line = status.partition(b"\nUid:")[2].split(None, 2)
        return int(line[1]) if len(line) > 2 else -1

    def holds(self, pid: int, inode: int) -> bool | None:
        """Whether a process has this socket open; None: it does not let us look."""
        folder, target = f"{self._root}/{pid}/fd", f"socket:[{inode}]"
        try:
            with os.scandir(folder) as files:
                names = [file.name for file in islice(files, MAX_FILES + 1)]
        except PermissionError:
            return None
        except OSError:
            return False  # it has ended
        if len(names) > MAX_FILES:
            return None
        for name in names:
            try:
                if os.readlink(f"{folder}/{name}") == target:
                    return True
            except OSError:
                continue
        return False

    def is_held(self, inode: int) -> bool:
        """Whether some process that lets us look has this socket open."""
        return any(self.holds(pid, inode) for pid in self._pids())

    def _file(self, pid: int, name: str, limit: int) -> bytes:
        """The beginning of a file; empty if it cannot be read."""
        try:
            fd = os.open(f"{self._root}/{pid}/{name}", os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return b""
        try:
            return os.read(fd, limit)
        except OSError:
            return b""
        finally:
            os.close(fd)


BSD_INFO, BSD_INFO_BYTES = 3, 136  # PROC_PIDTBSDINFO, struct proc_bsdinfo
PROCESS_ARGUMENTS = (1, 49)  # CTL_KERN, KERN_PROCARGS2


class Mac(Linux):
    """Processes by libproc; nobody looks for the holder of a socket, the kernel tells.

    So of what is asked of a system, only `read` is.
    """

    def __init__(self) -> None:
        import ctypes

        self._ctypes = ctypes
        self._libc = ctypes.CDLL(None)

    def read(self, pid: int, since: float = 0) -> Process | None:
        """One process as it is now."""
        info = self._ctypes.create_string_buffer(BSD_INFO_BYTES)
        size = self._libc.proc_pidinfo(
            pid, BSD_INFO, self._ctypes.c_uint64(0), info, BSD_INFO_BYTES
        )
        if size != BSD_INFO_BYTES:
            return None
        return parse_bsd_info(info.raw, self._arguments(pid))

    def _arguments(self, pid: int) -> bytes:
        """Arguments and environment of a process of this user; empty for another's."""
        mib = (self._ctypes.c_int * 3)(*PROCESS_ARGUMENTS, pid)
        data = self._ctypes.create_string_buffer(MAX_ENVIRON)
        size = self._ctypes.c_size_t(MAX_ENVIRON)
        failed = self._libc.sysctl(
            mib, 3, data, self._ctypes.byref(size), None, self._ctypes.c_size_t(0)
        )
        return b"" if failed else data.raw[: size.value]


def parse_bsd_info(info: bytes, arguments: bytes = b"") -> Process:
    """What struct proc_bsdinfo says, and a session's marks among the arguments."""
    pid, parent = struct.unpack_from("=II", info, 12)
    group = struct.unpack_from("=I", info, 100)[0]
    seconds, micros = struct.unpack_from("=QQ", info, 120)
    name = printable(info[48:64].partition(b"\0")[0])
    start = seconds * 1_000_000 + micros
    return Process(pid, start, parent, group, name, find_marks(arguments))


# Whether a person is at the terminal.

SESSION_VARIABLES = ("CLAUDECODE", "CLAUDE_CODE_SESSION_ID")


def require_outside(environ: Mapping[str, str]) -> None:
    """Raises FeishupermError inside a session: the agent must not let itself in."""
    inside = any(name in environ for name in SESSION_VARIABLES)
    if inside or is_below_a_session():
        raise FeishupermError(
            msg("inside a session of Claude Code nobody can be asked"),
            msg("run it in a terminal of your own"),
        )


def require_person(environ: Mapping[str, str]) -> None:
    """Raises FeishupermError unless a person at a terminal can be asked.

    It keeps an agent from answering by the way.  It is no wall: the same user can
    write our files by hand.
    """
    require_outside(environ)
    if not can_ask():
        raise FeishupermError(msg("a person has to answer: this needs a terminal"))


def is_below_a_session() -> bool:
    """Whether this process, or one above it, was started by a session."""
    return SessionProcesses().suspect_pid(os.getpid(), any_session=True) is not None
