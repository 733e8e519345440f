"""Which user is at the other end of a TCP connection on this machine.

Loopback belongs to everybody who has an account here.  Linux tells the owner of each
socket; where nothing tells, the answer is None and the caller has to decide.
"""

from __future__ import annotations

import socket
import sys

TABLES = ("/proc/net/tcp", "/proc/net/tcp6")
MAPPED = bytes(10) + b"\xff\xff"  # how an IPv4 address looks in the second table
NOBODY = -1  # the tables are there, and the connection is not in them
ADDRESS, OWNER = 1, 7  # columns


def tcp_owner(address: str, port: int, tables: tuple[str, ...] = TABLES) -> int | None:
    """The user id behind a peer's address and port; NOBODY, or None: cannot tell."""
    names = _names(address, port)
    readable = False
    for table in tables:
        try:
            with open(table, encoding="ascii") as file:
                for line in file:
                    columns = line.split()
                    if columns[ADDRESS] in names:
                        return int(columns[OWNER])
        except (OSError, ValueError, IndexError):
            continue
        readable = True
    return NOBODY if readable else None


def _names(address: str, port: int) -> tuple[str, ...]:
    """The ways the tables may spell an end: words in the machine's own byte order."""
    try:
        if ":" in address:
            ends = [socket.inet_pton(socket.AF_INET6, address)]
        else:
            packed = socket.inet_aton(address)
            ends = [packed, MAPPED + packed]
    except (OSError, ValueError):
        return ()
    return tuple(f"{_words(end)}:{port:04X}" for end in ends)


def _words(packed: bytes) -> str:
    step = -1 if sys.byteorder == "little" else 1
    words = [packed[at : at + 4][::step] for at in range(0, len(packed), 4)]
    return b"".join(words).hex().upper()
