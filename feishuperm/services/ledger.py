"""The record of decisions: JSON lines, each carrying the hash of the line before.

It is only ever added to.  A line that was changed, taken out or put in breaks the chain
at the next one, which `verify()` names; cutting lines off the end cannot be seen, as in
any record that its owner can write.  What an entry says is the caller's business; this
adds `time` and `prev`.  The file is private: it holds command lines, and rules in full,
because a rule can only be taken back by its exact text.

An entry is on the disk before `append()` returns: nobody is told of a decision that a
power cut could undo.  Several processes may append; they take turns by a lock on the
file itself.
"""

from __future__ import annotations

import os
import time

from feishuperm.lib import quick_json
from feishuperm.lib.config import state_dir
from feishuperm.lib.store import acquire, open_append, write_all

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import Any

    Entry = dict[str, Any]

WAIT = 1.0  # seconds; others hold the lock for one write and one fsync
BLOCK = 64 << 10  # read from the end of the file to find its last line


def _load_sha256() -> Any:
    """That of hashlib, if possible without OpenSSL, which takes long to load."""
    for name in ("_sha2", "_sha256", "hashlib"):
        try:
            return __import__(name).sha256
        except ImportError:
            pass


SHA256 = _load_sha256()


class Ledger:
    """One ledger file, made with its first entry."""

    def __init__(self, path: str = "", clock: Callable[[], float] = time.time) -> None:
        self.path = path or os.path.join(state_dir(), "ledger.jsonl")
        self._clock = clock

    def append(self, entry: Entry) -> Entry:
        """Add an entry and return it as stored. Raises OSError."""
        return self.extend([entry])[0]

    def extend(self, entries: Sequence[Entry]) -> list[Entry]:
        """Add several entries at the price of one. Raises OSError."""
        fd = open_append(self.path)
        try:
            acquire(fd, WAIT)
            return self._extend(fd, entries)
        finally:
            os.close(fd)

    def _extend(self, fd: int, entries: Sequence[Entry]) -> list[Entry]:
        size = os.fstat(fd).st_size
        last, torn = _last_line(fd, size)
        previous = line_hash(last) if size else ""
        # What a crash left of a line stays, and gets the line end it is lacking.
        lines = [b""] if torn else []
        added = []
        for entry in entries:
            stored = {"time": round(self._clock(), 3), **entry, "prev": previous}
            line = quick_json.dumps(stored).encode()
            previous = line_hash(line)
            lines.append(line)
            added.append(stored)
        try:
            write_all(fd, b"\n".join([*lines, b""]))
            os.fsync(fd)
        except OSError:
            os.ftruncate(fd, size)  # a full disk must not leave half an entry
            raise
        return added

    def entries(self) -> Iterator[Entry]:
        """Every entry that can be read, oldest first."""
        for line in self._lines():
            entry = _decode(line)
            if entry is not None:
                yield entry

    def recent(self, seconds: float) -> list[Entry]:
        """The entries of the last so many seconds, oldest first."""
        since = self._clock() - seconds
        return [entry for entry in self.entries() if entry_time(entry) >= since]

    def find(self, id: str) -> list[Entry]:
        """All entries about one request, oldest first."""
        return [entry for entry in self.entries() if entry.get("id") == id]

    def verify(self) -> list[str]:
        """What is wrong, one sentence per line that is not as it was written."""
        problems = []
        previous = ""
        for number, line in enumerate(self._lines(), 1):
            entry = _decode(line)
            if not line.endswith(b"\n"):
                problems.append(
                    f"line {number}: cut off, the last write did not finish"
                )
            elif entry is None:
                problems.append(f"line {number}: not a ledger entry")
            elif entry.get("prev") != previous:
                before = f"line {number - 1}" if number > 1 else "the start"
                problems.append(f"line {number}: does not follow from {before}")
            previous = line_hash(line.rstrip(b"\n"))
        return problems

    def _lines(self) -> Iterator[bytes]:
        try:
            with open(self.path, "rb") as file:
                yield from file
        except FileNotFoundError:
            return


def line_hash(line: bytes) -> str:
    """What the next line says of this one."""
    digest: str = SHA256(line).hexdigest()
    return digest


def entry_time(entry: Entry) -> float:
    """When an entry was written, in seconds."""
    value = entry.get("time")
    return value if isinstance(value, (int, float)) else 0.0


def _last_line(fd: int, size: int) -> tuple[bytes, bool]:
    """The last line without its end, and whether that end is missing."""
    data = b""
    start = size
    while start > 0 and b"\n" not in data[:-1]:
        length = min(max(BLOCK, len(data)), start)
        start -= length
        data = os.pread(fd, length, start) + data
    torn = bool(data) and not data.endswith(b"\n")
    line = data if torn else data[:-1]
    return line.rpartition(b"\n")[2], torn


def _decode(line: bytes) -> Entry | None:
    try:
        entry = quick_json.loads(line)
    except (ValueError, RecursionError):
        return None
    return entry if isinstance(entry, dict) else None
