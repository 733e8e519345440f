"""Who is at the other end of a connection, and whether it belongs to a session.

A process that belongs to the session that asks must not answer: the agent would answer
itself.

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

Who holds a socket, the kernel knows.  Loopback belongs to everybody who has an account
here, so an address proves nothing.  A TCP connection is looked up by all four of its
parts, ours and theirs: a listening socket, the leftover of a closed connection or
another one from the same port is never taken for it.  Only a socket that some process
still holds counts; what a process has let go of belongs to nobody.  "Cannot tell" is
None, and callers take it for a no.

Linux answers one question about one connection over netlink (INET_DIAG), in some
twenty microseconds; where that is not allowed, its table of connections is read, up to
a bound.  macOS hands out its whole table, in records that the kernel and `netstat` of
the same release agree on; each names its own kind and length.
"""

from __future__ import annotations

import errno
import math
import os
import socket
import struct
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from itertools import dropwhile, islice, takewhile
from typing import NamedTuple

from feishuperm.errors import FeishupermError
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

    def add(
        self, hook_pid: int, session: str = "", is_known: bool = False
    ) -> Client | None:
        """Remember who started a hook; None where that cannot be told.

        `is_known`: it is a client's, though no mark may say so.
        """
        hook = self._system.read(hook_pid) if hook_pid > 0 else None
        if hook is None:
            return None
        top = self._client_of(hook, is_known)
        # The marks that name a session, or the vague one where there is no other.
        exact = frozenset(mark for mark in hook.marks if not mark.startswith(HOST_MARK))
        marks = exact or hook.marks
        if session:
            marks |= {SESSION_MARK + os.fsencode(session)}
        before = self._clients.pop((top.pid, top.start), None)
        if before is not None:
            marks |= before.marks
        client = Client(
            top.pid, top.start, marks, is_driver=not (hook.marks or is_known)
        )
        self._clients[top.pid, top.start] = client
        for mark in marks:
            self._marks.setdefault(mark, top.start)
        if len(self._clients) > MAX_CLIENTS:
            for mark in self._clients.pop(next(iter(self._clients))).marks:
                self._marks.pop(mark, None)
        return client

    def is_gone(self, client: Client) -> bool:
        """Whether the program that started hooks has ended; not known of a driver."""
        if client.is_driver:
            return False
        process = self._system.read(client.pid, math.inf)
        return process is None or process.start != client.start

    def _client_of(self, hook: Process, is_known: bool) -> Process:
        """The process that started a hook: by its own word, or by how hooks are run.

        A hook is run as `sh -c`, in a process group of its own, perhaps through
        somebody's script.  A program that asks without any mark of a client drives one
        itself (`run`), which is then below it.
        """
        if not hook.marks and not is_known:
            return hook
        above = list(lineage(hook, lambda pid: self._system.read(pid, math.inf)))
        named = (p for p in above[1:] if CLIENT_MARK + b"%d" % p.pid in hook.marks)
        group = list(takewhile(lambda process: process.group == hook.group, above))
        below = len(group) if group[-1].name in SHELLS else 1
        behind = dropwhile(lambda process: process.name in SHELLS, above[below:])
        top = next(named, next(behind, hook))
        return top if top.pid > 1 else hook

    def suspect(self, owner: Owner) -> Suspect | None:
        """The holder of a TCP socket, as a suspect."""
        if owner.pid:
            return self.suspect_pid(owner.pid)
        if not self._clients or not owner.inode:
            return None
        suspects = self._suspects()
        if len(suspects) > MAX_SUSPECTS:
            return Suspect(suspects[0].pid, suspects[0].name)
        hidden = None
        for process in suspects:
            if process.pid == os.getpid():  # a server that a driver started: the other
                continue  # end is ours, and thousands of waiting hooks beside it
            holds = self._system.holds(process.pid, owner.inode)
            if holds:
                return Suspect(process.pid, process.name)
            if holds is None and self._system.uid(process.pid) == owner.uid:
                hidden = Suspect(process.pid, process.name)
        # One that hides its files may be the holder, unless another is.
        return hidden if hidden and not self._system.is_held(owner.inode) else None

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
            key = relative.pid, relative.start
            client = self._clients.get(key)
            if client is not None and (steps or not client.is_driver):
                return True
            if key in self._seen_below:
                return True
            later = relative.start + 1
            if any(self._marks.get(mark, later) < later for mark in relative.marks):
                return True
            # Marks can be dropped by `exec env -i`, the client above cannot.
            is_named = steps > 0 and relative.name == CLIENT_NAME
            if any_session and (relative.marks or is_named):
                return True
        return False


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
            with suppress(OSError):
                if os.readlink(f"{folder}/{name}") == target:
                    return True
        return False

    def is_held(self, inode: int) -> bool:
        """Whether some process that lets us look has this socket open."""
        return any(self.holds(pid, inode) for pid in self._pids())

    def _file(self, pid: int, name: str, limit: int) -> bytes:
        """The beginning of a file; empty if it cannot be read."""
        try:
            with open(f"{self._root}/{pid}/{name}", "rb", buffering=0) as file:
                return file.read(limit)
        except OSError:
            return b""


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
        raise FeishupermError(msg("this command needs an interactive terminal"))


def is_below_a_session() -> bool:
    """Whether this process, or one above it, was started by a session."""
    return SessionProcesses().suspect_pid(os.getpid(), any_session=True) is not None


# Who holds a socket.

End = tuple[str, int]  # address and port

V4_MAPPED = bytes(10) + b"\xff\xff"  # how an IPv4 address looks to an IPv6 socket


class Owner(NamedTuple):
    """Who holds a socket."""

    uid: int
    inode: int = 0  # of the socket, on Linux
    pid: int = 0  # on macOS


class TcpOwners:
    """Looks up owners, as the platform tells them."""

    def __init__(self, platform: str = sys.platform) -> None:
        self._is_mac = platform == "darwin"

    def find(self, ours: End, theirs: End) -> Owner | None:
        """The owner of their end of a connection; None: nobody here, or unknown."""
        near, far = _pack(ours), _pack(theirs)
        if near is None or far is None:
            return None
        if self._is_mac:
            return parse_pcblist(_sysctl(PCBLIST), far, near)
        try:
            return ask_kernel(far, near)
        except OSError as error:
            # Without its module the kernel knows of no connection, not even our own.
            if isinstance(error, FileNotFoundError) and _can_see(near, far):
                return None
        return read_tables(far, near)


def is_here(address: str) -> bool:
    """Whether an address is one of this machine's: then something can be bound to it.

    Where a machine may bind what it does not have (`ip_nonlocal_bind`), only loopback
    can be told apart.
    """
    nobody = "2001:db8::1" if ":" in address else "192.0.2.1"
    is_loopback = address == "::1" or address.startswith("127.")
    return is_loopback or (has_address(address) and not has_address(nobody))


def has_address(address: str) -> bool:
    """Whether something can be bound to it here; a machine may do without IPv6."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            probe.bind((address, 0))
    except (OSError, ValueError):
        return False
    return True


def peer_pid(sock: socket.socket) -> int:
    """The process that connected a unix socket; 0 where nothing tells."""
    try:
        if sys.platform == "darwin":
            data = sock.getsockopt(0, 2, 4)  # LOCAL_PEERPID at SOL_LOCAL
        else:  # struct ucred: pid, uid, gid
            data = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
    except OSError:
        return 0
    return int.from_bytes(data[:4], sys.byteorder)


class Packed(NamedTuple):
    """An end of a connection, as kernels write it."""

    address: bytes  # 4 or 16 bytes; never a mapped one
    port: int


def _pack(end: End) -> Packed | None:
    try:
        if ":" not in end[0]:
            return Packed(socket.inet_aton(end[0]), end[1])
        return Packed(_unmapped(socket.inet_pton(socket.AF_INET6, end[0])), end[1])
    except (OSError, ValueError):
        return None


def _unmapped(packed: bytes) -> bytes:
    return packed[12:] if packed.startswith(V4_MAPPED) else packed


# Linux: one question, one answer.

SOCK_DIAG, BY_FAMILY, ERROR = 4, 20, 2  # the netlink protocol and message types
ANY_COOKIE = (0xFFFFFFFF, 0xFFFFFFFF)
# States of a peer that is still there.  One that has sent its last word (a half-closed
# connection) waits for ours in FIN_WAIT1 or 2.
ESTABLISHED, FIN_WAIT1, FIN_WAIT2 = 1, 4, 5
CONNECTED = (ESTABLISHED, FIN_WAIT1, FIN_WAIT2)


def ask_kernel(near: Packed, far: Packed) -> Owner | None:
    """The owner of the near end, or None for one that nobody holds. Raises OSError."""
    family = socket.AF_INET6 if len(near.address) == 16 else socket.AF_INET
    question = struct.pack("=BBBBI", family, socket.IPPROTO_TCP, 0, 0, 0xFFFFFFFF)
    question += struct.pack("!HH16s16s", near.port, far.port, near.address, far.address)
    question += struct.pack("=III", 0, *ANY_COOKIE)
    head = struct.pack("=IHHII", 16 + len(question), BY_FAMILY, 1, 0, 0)
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, SOCK_DIAG) as kernel:
        kernel.send(head + question)
        answer = kernel.recv(4096, socket.MSG_DONTWAIT)
    if len(answer) < 20:
        raise OSError(errno.EPROTO, "a short answer")
    if struct.unpack_from("=H", answer, 4)[0] == ERROR:
        code = -struct.unpack_from("=i", answer, 16)[0]
        raise OSError(code, os.strerror(code))
    return parse_diag(answer[16:], near, far)


def parse_diag(body: bytes, near: Packed, far: Packed) -> Owner | None:
    """What struct inet_diag_msg says, if it speaks of this very connection.

    The kernel falls back to a listening socket, and the remains of a closed connection
    answer as user 0: hence the check of every part, of the state and of the inode.
    """
    if len(body) < 72:
        return None
    family, state = body[0], body[1]
    ports = struct.unpack_from("!HH", body, 4)
    size = 16 if family == socket.AF_INET6 else 4
    ends = (_unmapped(body[8 : 8 + size]), _unmapped(body[24 : 24 + size]))
    uid, inode = struct.unpack_from("=II", body, 64)
    if (*ports, *ends) != (near.port, far.port, near.address, far.address):
        return None
    return Owner(uid, inode) if state in CONNECTED and inode else None


def _can_see(near: Packed, far: Packed) -> bool:
    try:
        ask_kernel(near, far)
    except OSError:
        return False
    return True


# Linux without netlink: the same in a table for people.

TABLES = ("/proc/net/tcp", "/proc/net/tcp6")
TABLE_BYTES = 1 << 20  # some 7 000 connections, a few milliseconds; beyond: not told


def read_tables(
    near: Packed, far: Packed, tables: tuple[str, ...] = TABLES
) -> Owner | None:
    """The owner of the near end by the tables; None also for what is too far down."""
    left = TABLE_BYTES
    for table in tables:
        with suppress(OSError), open(table, "rb") as file:
            rows = file.read(left)
            left -= len(rows)
            owner = find_row(rows, near, far)
            if owner is not None:
                return owner
    return None


def find_row(rows: bytes, near: Packed, far: Packed) -> Owner | None:
    """The owner in the row of this connection; an IPv4 one may stand as mapped."""
    for mapped in (False, True):
        ends = f" {_row_end(near, mapped)} {_row_end(far, mapped)} ".encode()
        for part in rows.split(ends)[1:]:
            columns = part.partition(b"\n")[0].split()
            try:
                state = int(columns[0], 16)
                owner = Owner(int(columns[4]), int(columns[6]))
            except (ValueError, IndexError):
                continue
            if state in CONNECTED and owner.inode > 0 and owner.uid >= 0:
                return owner
    return None


def _row_end(end: Packed, mapped: bool) -> str:
    """An end as the tables spell it: words in the machine's own byte order."""
    packed = V4_MAPPED + end.address if mapped and len(end.address) == 4 else end[0]
    step = -1 if sys.byteorder == "little" else 1
    words = [packed[at : at + 4][::step] for at in range(0, len(packed), 4)]
    return f"{b''.join(words).hex().upper()}:{end.port:04X}"


# macOS: the whole table, record by record.

PCBLIST = b"net.inet.tcp.pcblist_n"
MAX_PCBLIST = 16 << 20
MAC_SOCKET, MAC_PCB, MAC_TCP = 0x01, 0x10, 0x20  # kinds of records
MAC_KINDS = {MAC_SOCKET: 76, MAC_PCB: 80, MAC_TCP: 40}  # the least length of each
MAC_IPV4, MAC_IPV6 = 1, 2  # inp_vflag
MAC_NOT_HELD = 1  # so_state: SS_NOFDREF, no process has it open
MAC_CONNECTED = (4, 6, 9)  # TCPS_ESTABLISHED, _FIN_WAIT_1, _FIN_WAIT_2


def parse_pcblist(data: bytes, near: Packed, far: Packed) -> Owner | None:
    """The owner of the near end in the kernel's table of TCP connections.

    Of each connection come several records in a row; its struct xinpcb_n is the first,
    and xtcpcb_n, which knows the state, the last.
    """
    matches, owner = False, None
    for kind, record in _records(data):
        if kind == MAC_PCB:
            matches, owner = _is_pcb_of(record, near, far), None
        elif kind == MAC_SOCKET and matches:
            uid, pid = struct.unpack_from("=Ii", record, 64)
            is_held = not struct.unpack_from("=H", record, 26)[0] & MAC_NOT_HELD
            owner = Owner(uid, pid=pid) if is_held else None
        elif kind == MAC_TCP and matches and owner is not None:
            state = struct.unpack_from("=i", record, 36)[0]
            if state in MAC_CONNECTED:
                return owner
    return None


def _records(data: bytes) -> Iterator[tuple[int, bytes]]:
    """The records of a known kind; each begins at a multiple of eight."""
    at = 0
    while at + 8 <= len(data):
        size, kind = struct.unpack_from("=II", data, at)
        if size < 8:
            return
        if at and kind in MAC_KINDS and MAC_KINDS[kind] <= size <= len(data) - at:
            yield kind, data[at : at + size]
        at += (size + 7) & ~7


def _is_pcb_of(record: bytes, near: Packed, far: Packed) -> bool:
    far_port, near_port = struct.unpack_from("!HH", record, 16)
    ends = record[64:80], record[48:64]
    if record[44] & MAC_IPV4:
        ends = ends[0][12:], ends[1][12:]
    elif not record[44] & MAC_IPV6:
        return False
    addresses = _unmapped(ends[0]), _unmapped(ends[1])
    return (near_port, far_port, *addresses) == (
        near.port, far.port, near.address, far.address
    )  # fmt: skip


def _sysctl(name: bytes) -> bytes:
    """A value of the kernel; empty when it cannot be had."""
    try:
        import ctypes

        libc = ctypes.CDLL(None, use_errno=True)
        size = ctypes.c_size_t(0)
        if libc.sysctlbyname(name, None, ctypes.byref(size), None, 0):
            return b""
        size = ctypes.c_size_t(min(size.value + (size.value >> 3), MAX_PCBLIST))
        buffer = ctypes.create_string_buffer(size.value)
        if libc.sysctlbyname(name, buffer, ctypes.byref(size), None, 0):
            return b""
        return buffer.raw[: size.value]
    except (ImportError, OSError, AttributeError):
        return b""
