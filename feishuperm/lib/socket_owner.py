"""Who is at the other end of a connection on this machine, as the kernel knows it.

Loopback belongs to everybody who has an account here, so an address proves nothing.
A TCP connection is looked up by all four of its parts, ours and theirs: a listening
socket, the leftover of a closed connection or another one from the same port is never
taken for it.  Only a socket that some process still holds counts; what a process has
let go of belongs to nobody.  "Cannot tell" is None, and callers take it for a no.

Linux answers one question about one connection over netlink (INET_DIAG), in some
twenty microseconds; where that is not allowed, its table of connections is read, up to
a bound.  macOS hands out its whole table, in records that the kernel and `netstat` of
the same release agree on; each names its own kind and length.
"""

from __future__ import annotations

import errno
import os
import socket
import struct
import sys
from collections.abc import Iterator
from typing import NamedTuple

End = tuple[str, int]  # address and port

V4_MAPPED = bytes(10) + b"\xff\xff"  # how an IPv4 address looks to an IPv6 socket


class Owner(NamedTuple):
    """Who holds a socket."""

    uid: int
    inode: int = 0  # of the socket, on Linux
    pid: int = 0  # on macOS


class TcpOwners:
    """Looks up owners; remembers only which way of asking works here."""

    def __init__(self, platform: str = sys.platform) -> None:
        self._is_mac = platform == "darwin"
        self._diag_answers = False  # it has found a connection before

    def find(self, ours: End, theirs: End) -> Owner | None:
        """The owner of their end of a connection; None: nobody here, or unknown."""
        near, far = _pack(ours), _pack(theirs)
        if near is None or far is None:
            return None
        if self._is_mac:
            return parse_pcblist(_sysctl(PCBLIST), far, near)
        try:
            owner = ask_kernel(far, near)
        except FileNotFoundError:
            # There is no such connection, or nobody who could say: our own end shows.
            if self._diag_answers or _can_see(near, far):
                self._diag_answers = True
                return None
        except OSError:
            pass
        else:
            self._diag_answers = True
            return owner
        return read_tables(far, near)


def is_here(address: str) -> bool:
    """Whether an address is one of this machine's: then something can be bound to it.

    Where a machine may bind what it does not have (`ip_nonlocal_bind`), only loopback
    can be told apart.
    """
    if ":" in address:
        return address == "::1" or (_binds(address) and not _binds("2001:db8::1"))
    return address.startswith("127.") or (_binds(address) and not _binds("192.0.2.1"))


def _binds(address: str) -> bool:
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
    scope: int = 0  # the interface of a link-local address


def _pack(end: End) -> Packed | None:
    address, _, scope = end[0].partition("%")
    try:
        if ":" not in address:
            return Packed(socket.inet_aton(address), end[1])
        packed = socket.inet_pton(socket.AF_INET6, address)
        index = socket.if_nametoindex(scope) if scope else 0
    except (OSError, ValueError):
        return None
    return Packed(_unmapped(packed), end[1], index)


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
    question += struct.pack("=III", near.scope, *ANY_COOKIE)
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
        return ask_kernel(near, far) is not None
    except OSError:
        return False


# Linux without netlink: the same in a table for people.

TABLES = ("/proc/net/tcp", "/proc/net/tcp6")
TABLE_BYTES = 1 << 20  # some 7 000 connections, a few milliseconds; beyond: not told


def read_tables(
    near: Packed, far: Packed, tables: tuple[str, ...] = TABLES
) -> Owner | None:
    """The owner of the near end by the tables; None also for what is too far down."""
    left = TABLE_BYTES
    for table in tables:
        try:
            with open(table, "rb") as file:
                rows = file.read(left)
        except OSError:
            continue
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
