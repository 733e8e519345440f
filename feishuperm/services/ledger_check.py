"""Looks for what was changed in a ledger, and for what is missing.

Everything is read once, line by line.  A `Report` keeps three things apart: `problems`
are lines that are not as they were written, and ends that were cut off; `missing` are
entries that were never written, or not yet; `notes` are what a crash explains.  What it
cannot see: a ledger, its key and its head all replaced by somebody who may write them.
Against that there is the head on a card or a page: `--head`.

`services.ledger` says what the fields of a line mean.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from typing import NamedTuple

from feishuperm.lib.files import acquire
from feishuperm.messages import message_of, msg
from feishuperm.services.ledger import (
    INTENT,
    LOST,
    MAX_LINE,
    WAIT,
    Entry,
    Ledger,
    Place,
    entry_time,
    gap_between,
    number_of,
    read_head,
    read_key,
    read_line,
)
from feishuperm.tables import rows

SAID = rows("services/sentences.txt", "ledger")
READ = 16 << 20  # bytes of a look at its end: some twenty thousand entries
MOST = 100  # sentences of one sort; a file full of rubbish needs no more
# How long entries may stand without their head being written: a server syncs its ends
# every tenth of a second.
LAG_SECONDS = 10.0


class Report(NamedTuple):
    """What was found out about a ledger."""

    total: int = 0  # entries
    head: str = ""  # hash of the last one
    problems: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    after: int = -1  # entries that follow the head asked for; -1: it is not there
    part: bool = False  # only its end was read

    def sound(self) -> bool:
        return not self.problems and not self.missing


def check(ledger: Ledger, head: str = "", most: int = 0) -> Report:
    """Read the ledger; `head` is what a person was shown. Raises OSError.

    With `most`, the last so many bytes of a longer one: as what is before them is not
    known, what is wrong is named by a whole check alone.
    """
    key = read_key(ledger.key_path)
    size, expected, locked = _snapshot(ledger, key)
    begin = max(0, size - most) if most else 0
    reader = _Reader(key, expected, head.lower(), begin > 0)
    for line in _lines(ledger.path, begin, size):
        reader.line(line)
    reader.end()
    late = len(ledger.late())
    if late:
        reader.missing.append(msg(SAID["late"], late))
    if locked:
        reader.missing.append(msg(SAID["locked"], locked))
    return Report(
        reader.count,
        reader.last.hash,
        *(_some(reader.problems), _some(reader.missing), _some(reader.notes)),
        reader.after,
        begin > 0,
    )


def _snapshot(ledger: Ledger, key: bytes) -> tuple[int, Place, str]:
    """Size and head of one moment, and why nothing could be written in it."""
    fd, locked = -1, ""
    try:
        fd = os.open(ledger.path, os.O_RDWR | os.O_CLOEXEC)
        acquire(fd, WAIT)
    except FileNotFoundError:
        return 0, read_head(ledger.head_path, key), ""
    except OSError as error:
        held = msg("another process holds the lock")
        locked = message_of(error) if fd < 0 else held
    try:
        size = os.stat(fd if fd >= 0 else ledger.path).st_size
        return size, read_head(ledger.head_path, key), locked
    finally:
        if fd >= 0:
            os.close(fd)


def _lines(path: str, begin: int, size: int) -> Iterator[bytes]:
    """Every line with its end, up to a size; too long ones come in pieces."""
    if not size:
        return
    with open(path, "rb") as file:
        file.seek(begin)
        if begin:
            file.readline(size - begin)  # a part of one
        while file.tell() < size:
            line = file.readline(min(size - file.tell(), MAX_LINE))
            if not line:
                return
            yield line


class _Reader:
    """Follows the chain through a file."""

    def __init__(self, key: bytes, head: Place, wanted: str, inside: bool) -> None:
        self.problems: list[str] = []
        self.missing: list[str] = []
        self.notes: list[str] = []
        self._key = key
        self._head = head
        self._wanted = wanted
        self._inside = inside  # the next line follows from one that was not read
        self._number = int(inside)  # of the line
        self.count = 0
        self.last = Place()
        self._when = self._since = 0.0  # of the last line, of the first beyond the head
        self._gap = ""  # of the last line
        self._torn: tuple[int, bytes] = (0, b"")  # a line that may be vouched for
        self._strange: tuple[int, int] = (0, 0)  # lines of no key, or another
        self._intents: dict[int, str] = {}  # sentences about those without an end
        self.after = -1

    # Line by line.

    def line(self, line: bytes) -> None:
        self._number += 1
        whole, line = line.endswith(b"\n"), line.rstrip(b"\n")
        entry, place, sealed = read_line(line, self._key)
        if whole and entry is not None and place is not None:
            self.count += 1
            if sealed:
                self._settle()
                self._judge_torn(entry.get("torn"))
                self._follow(entry, place)
                self._learn(entry, place)
                self._when = entry_time(entry)
            else:  # told of with those before it
                first, last = self._strange
                if not first or last != self._number - 1:
                    self._settle()
                    first = self._number
                self._strange = first, self._number
            self.last = place
            return
        self._settle()
        if whole and entry is not None:
            self._problem("no key", self._number)
        else:
            self._judge_torn()
            self._torn = self._number, line

    def _follow(self, entry: Entry, place: Place) -> None:
        """Whether this line comes after the last one."""
        expected = self.last.seq + 1
        gap = str(entry.get("gap", ""))
        if gap and gap != self._gap:  # while a head cannot be written, once is enough
            seq, _, hash = gap.partition(" ")
            if seq.isdecimal():
                self._problem("lost end", self._number, seq, hash)
            else:
                self._problem("odd head", self._number, gap)
        self._gap = gap
        is_first, self._inside = self._inside, False
        if is_first:
            self.count = place.seq
        elif place.seq > expected:
            self._problem("missing", self._number, expected, place.seq - 1)
        elif entry.get("prev") != self.last.hash or place.seq < expected:
            before = msg("line {}", self._number - 1) if self._number > 1 else None
            self._problem("breaks off", self._number, before or msg("the start"))

    def _learn(self, entry: Entry, place: Place) -> None:
        """What the entry means for the report, beside being one."""
        if place.seq == self._head.seq + 1:
            self._since = entry_time(entry)
        if self.after >= 0:
            self.after += 1
        elif self._wanted and place.hash.startswith(self._wanted):
            self.after = 0
        named = self._number, entry.get("id"), entry.get("action")
        ends = number_of(entry, "intent")
        if entry.get("event") == INTENT:
            self._intents[place.seq] = msg(SAID["open"], *named)
        elif ends:
            self._intents.pop(ends, None)
            if entry.get("state") == "unknown":
                self._note("unknown", *named)
        elif entry.get("event") == LOST:
            self.missing.append(msg(SAID["lost"], self._number, entry.get("count")))

    def _judge_torn(self, vouched: object = None) -> None:
        """What became of a line that is no entry, now that the next one is here."""
        number, data = self._torn
        self._torn = 0, b""
        if not number:
            return
        if hashlib.sha256(data).hexdigest() == vouched:
            self._note("torn", number)
        else:
            self._problem("no entry", number)

    def _settle(self) -> None:
        """Tell of lines that were not written with the key, all at once."""
        first, last = self._strange
        self._strange = 0, 0
        if not first:
            return
        lines = msg("line {}", first)
        if first != last:
            lines = msg("lines {} to {}", first, last)
        self._problem("changed" if self._key else "key missing", lines)

    # At the end.

    def end(self) -> None:
        self._settle()
        if self._torn[0]:
            self._note("unfinished", self._torn[0])
        self.missing += self._intents.values()
        gap = gap_between(self._head, self.last)
        if gap:
            self._judge_end(gap, self._head)
        elif self._head.seq < self.last.seq:
            count = self.last.seq - self._head.seq
            if self._when - self._since <= LAG_SECONDS:
                self._note("lag", count)
            else:
                self._problem("no head", count)

    def _judge_end(self, gap: str, head: Place) -> None:
        if head.why:
            self._problem("unsure", gap)
        elif head.seq > self.last.seq:
            self._problem("cut", self.last.seq + 1, head.seq)
        else:
            self._problem("put back", head.seq, head.hash[:8])

    def _problem(self, name: str, *about: object) -> None:
        if len(self.problems) <= MOST:
            self.problems.append(msg(SAID[name], *about))

    def _note(self, name: str, *about: object) -> None:
        if len(self.notes) <= MOST:
            self.notes.append(msg(SAID[name], *about))


def _some(sentences: list[str]) -> tuple[str, ...]:
    more = [] if len(sentences) <= MOST else [msg("... and more")]
    return (*sentences[:MOST], *more)
