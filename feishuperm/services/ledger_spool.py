"""What the ledger cannot take now, kept where there is room for it already.

A full disk has no room for another line, and a lock that somebody holds keeps the
ledger shut; a server that is killed meanwhile must not take its entries along.  So this
file is made when a server starts, at its full length, and is overwritten in place: its
lines, then a zero byte.  A line is only ever added behind the others or given up with
all of them, so a crash at any moment leaves whole lines.

It knows lines and nothing of what is in them.  Nothing here raises: it is the second
best place already.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress

from feishuperm.lib.files import private_dir

SIZE = 16 << 10  # bytes: some twenty decisions, which is hours of tapping
END = b"\0"


class Spool:
    """One file, of one server at a time."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._end = 0  # where the next line goes

    def prepare(self) -> None:
        """Take the room while there is some."""
        with suppress(OSError):
            private_dir(os.path.dirname(self.path))
            size = os.path.getsize(self.path) if os.path.exists(self.path) else 0
            if size < SIZE:
                self._put(END * (SIZE - size), size, os.O_CREAT)

    def read(self) -> list[bytes]:
        """The lines that are kept."""
        try:
            with open(self.path, "rb") as file:
                data = file.read(SIZE).partition(END)[0]
        except OSError:
            return []
        *lines, _ = data.split(b"\n")
        self._end = sum(len(line) + 1 for line in lines)
        return lines

    def add(self, lines: Sequence[bytes]) -> bool:
        """Keep some more; whether there was room."""
        data = b"\n".join([*lines, b""])
        if self._end + len(data) >= SIZE or not self._put(data + END, self._end):
            return False
        self._end += len(data)
        return True

    def clear(self) -> None:
        """Give all of them up."""
        if self._end and self._put(END, 0):
            self._end = 0

    def _put(self, data: bytes, place: int, flags: int = 0) -> bool:
        flags |= os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW
        try:
            fd = os.open(self.path, flags, 0o600)
            try:
                whole = os.pwrite(fd, data, place) == len(data)
                os.fsync(fd)
            finally:
                os.close(fd)
        except OSError:
            return False
        return whole
