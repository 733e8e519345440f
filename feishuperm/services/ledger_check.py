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
import re
from typing import NamedTuple

from feishuperm.lib.files import acquire
from feishuperm.messages import message_of, msg
from feishuperm.services.ledger import (
    INTENT,
    LOST,
    WAIT,
    Entry,
    Head,
    Ledger,
    Place,
    decode,
    end_of,
    entry_place,
    entry_time,
    gap_between,
    is_mac,
    read_head,
    read_key,
    unseal,
)

READ = 16 << 20  # bytes of a look at its end: some twenty thousand entries
MOST = 100  # sentences of one sort; a file full of rubbish needs no more
# How long entries may stand without their head being written: a server syncs its ends
# every tenth of a second.
LAG_SECONDS = 10.0
# How most lines begin and end.
_BEGIN = re.compile(rb'\{"time": ([0-9]{1,11}(?:\.[0-9]{1,6})?), "event": "(\w{1,20})"')
_END = re.compile(
    rb'(?:, "intent": (\d{1,18}))?(?:, "base": (\d{1,18}))?, "seq": (\d{1,18})'
    rb', "prev": "([0-9a-f]{0,64})", "hash": "[0-9a-f]{64}"\}\Z'
)


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
    reader = _Reader(key, expected, head.lower())
    begin = max(0, size - most) if most else 0
    for number, line in enumerate(ledger.lines(size, begin)):
        if number or not begin:  # the first is a part of one
            reader.line(line)
        else:
            reader.begin()
    reader.end()
    late = len(ledger.late())
    if late:
        reader.missing.append(msg("{} entries wait for being written", late))
    if locked:
        reader.missing.append(msg("entries cannot be written now: {}", locked))
    return reader.report()._replace(part=begin > 0)


def _snapshot(ledger: Ledger, key: bytes) -> tuple[int, Head, str]:
    """Size and head of one moment, and why nothing could be written in it."""
    try:
        fd = os.open(ledger.path, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return 0, read_head(ledger.head_path, key), ""
    except OSError as error:
        size = os.stat(ledger.path).st_size
        return size, read_head(ledger.head_path, key), message_of(error)
    try:
        locked = ""
        try:
            acquire(fd, WAIT)
        except OSError:
            locked = msg("another process holds the lock")
        return os.fstat(fd).st_size, read_head(ledger.head_path, key), locked
    finally:
        os.close(fd)


class _Reader:
    """Follows the chain through a file."""

    def __init__(self, key: bytes, head: Head, wanted: str) -> None:
        self.problems: list[str] = []
        self.missing: list[str] = []
        self.notes: list[str] = []
        self._key = key
        self._head = head
        self._wanted = wanted
        self._number = 0  # of the line
        self._count = 0
        self._last = Place()
        self._when = self._since = 0.0  # of the last line, of the first beyond the head
        self._gap = ""  # of the last line
        self._torn: tuple[int, bytes] = (0, b"")  # a line that may be vouched for
        self._strange: tuple[int, int] = (0, 0)  # lines of no key, or another
        self._intents: dict[int, tuple[int, bytes]] = {}
        self._after = -1
        self._inside = False  # whether the next line follows from one that is unknown

    # Line by line.

    def begin(self) -> None:
        """Lines that are not read came before."""
        self._inside = True

    def line(self, line: bytes) -> None:
        self._number += 1
        whole, line = line.endswith(b"\n"), line.rstrip(b"\n")
        body, digest = unseal(line) if whole else (b"", "")
        if body:
            self._keyed_line(line, body, digest)
            return
        self._settle()
        entry = decode(line) if whole else None
        if entry is None:
            self._judge_torn()
            self._torn = self._number, line
        else:
            self._problem(msg("line {}: written without the key", self._number))

    def _keyed_line(self, line: bytes, body: bytes, digest: str) -> None:
        sealed = is_mac(self._key, body, digest)
        entry = (peek(line) if sealed else None) or decode(line)
        place = entry_place(entry, digest)
        self._count += 1
        if entry is None or place is None or not sealed:
            first, last = self._strange
            if not first or last != self._number - 1:
                self._settle()
                first = self._number
            self._strange = first, self._number
            self._last = place or self._last
            return
        self._settle()
        self._judge_torn(entry.get("torn"))
        self._follow(entry, place)
        self._watch(entry, place, line)
        self._last, self._when = place, entry_time(entry)

    def _follow(self, entry: Entry, place: Place) -> None:
        """Whether this line comes after the last one."""
        expected = self._last.seq + 1
        gap = str(entry.get("gap", ""))
        if gap and gap != self._gap:  # while a head cannot be written, once is enough
            self._problem(f"line {self._number}: {_gap_sentence(gap)}")
        self._gap = gap
        is_first, self._inside = self._inside, False
        if is_first:
            self._count = place.seq
        elif place.seq > expected:
            self._problem(
                msg(
                    "line {}: entries {} to {} are missing before it",
                    self._number,
                    expected,
                    place.seq - 1,
                )
            )
        elif entry.get("prev") != self._last.hash or place.seq < expected:
            self._problem(
                msg("line {}: does not follow from {}", self._number, self._before())
            )

    def _watch(self, entry: Entry, place: Place, line: bytes) -> None:
        """What the entry means for the report, beside being one."""
        if place.seq == self._head.seq + 1:
            self._since = entry_time(entry)
        if self._after >= 0:
            self._after += 1
        elif self._wanted and place.hash.startswith(self._wanted):
            self._after = 0
        event = entry.get("event")
        if event == INTENT:
            self._intents[place.seq] = self._number, line
        elif end_of(entry):
            self._intents.pop(end_of(entry), None)
            if entry.get("state") == "unknown":
                self._note(
                    msg(
                        "line {}: request {}: the server ended while it decided ({}); "
                        "the decision may have reached the session",
                        self._number,
                        entry.get("id"),
                        entry.get("action"),
                    )
                )
        elif event == LOST:
            self.missing.append(
                msg(
                    "line {}: {} entries before it could not be written, and were too "
                    "many to keep",
                    self._number,
                    entry.get("count"),
                )
            )

    def _judge_torn(self, vouched: object = None) -> None:
        """What became of a line that is no entry, now that the next one is here."""
        number, data = self._torn
        self._torn = 0, b""
        if not number:
            return
        if hashlib.sha256(data).hexdigest() == vouched:
            self._note(msg("line {}: cut off by a crash", number))
        else:
            self._problem(msg("line {}: not a ledger entry", number))

    def _settle(self) -> None:
        """Tell of lines that were not written with the key, all at once."""
        first, last = self._strange
        self._strange = 0, 0
        if first:
            lines = (
                msg("line {}", first)
                if first == last
                else msg("lines {} to {}", first, last)
            )
            if self._key:
                self._problem(msg("{}: changed, or not written with this key", lines))
            else:
                self._problem(msg("{}: the key to check it with is missing", lines))

    # At the end.

    def end(self) -> None:
        self._settle()
        if self._torn[0]:
            self._note(
                msg("line {}: cut off, the last write did not finish", self._torn[0])
            )
        for number, line in self._intents.values():
            entry = decode(line) or {}
            self.missing.append(
                msg(
                    "line {}: request {} was being decided ({}) and its end is not "
                    "written",
                    number,
                    entry.get("id"),
                    entry.get("action"),
                )
            )
        gap = gap_between(self._head, self._last)
        if gap:
            self._problem(_end_sentence(gap, self._head, self._last))
        elif self._head.seq < self._last.seq:
            self._judge_lag()

    def _judge_lag(self) -> None:
        count = self._last.seq - self._head.seq
        if self._when - self._since <= LAG_SECONDS:
            self._note(
                msg(
                    "the last {} entries are newer than the head: a writer was "
                    "stopped, or is about to write it",
                    count,
                )
            )
        else:
            self._problem(
                msg(
                    "the head was not written for the last {} entries: whether any "
                    "were cut off after them cannot be told",
                    count,
                )
            )

    def report(self) -> Report:
        return Report(
            self._count,
            self._last.hash,
            _some(self.problems),
            _some(self.missing),
            _some(self.notes),
            self._after,
        )

    def _problem(self, sentence: str) -> None:
        if len(self.problems) <= MOST:
            self.problems.append(sentence)

    def _note(self, sentence: str) -> None:
        if len(self.notes) <= MOST:
            self.notes.append(sentence)

    def _before(self) -> str:
        return (
            msg("line {}", self._number - 1) if self._number > 1 else msg("the start")
        )


def _some(sentences: list[str]) -> tuple[str, ...]:
    more = [] if len(sentences) <= MOST else [msg("... and more")]
    return (*sentences[:MOST], *more)


def _gap_sentence(gap: str) -> str:
    seq, _, hash = gap.partition(" ")
    if seq.isdecimal():
        return msg(
            "when it was written, the ledger had lost its end: entry {} ({})", seq, hash
        )
    return msg("when it was written, the head was {}", gap)


def _end_sentence(gap: str, head: Head, last: Place) -> str:
    if head.why:
        return msg("the head is {}: whether entries were cut off cannot be told", gap)
    if head.seq > last.seq:
        return msg("entries {} to {} were cut off the end", last.seq + 1, head.seq)
    return msg(
        "the head is that of entry {} ({}), put back by hand", head.seq, head.hash[:8]
    )


def peek(line: bytes) -> Entry | None:
    """What a check wants to know of a sealed line; None if it has to be decoded.

    A quote inside a value has a backslash before it, so what looks like a name is one.
    """
    if b'"gap": ' in line or b'"torn": ' in line or b'"state": "unknown"' in line:
        return None
    places = (
        line.find(name) for name in (b', "intent": ', b', "base": ', b', "seq": ')
    )
    place = next((place for place in places if place >= 0), len(line))
    begin, end = _BEGIN.match(line), _END.match(line, place)
    if begin is None or end is None or begin[2] == b"lost":
        return None
    entry = {"time": float(begin[1]), "event": begin[2].decode()}
    if end[1] is not None:
        entry["intent"] = int(end[1])
    seq = int(end[3])
    base = seq - 1 if end[2] is None else int(end[2])
    return {**entry, "base": base, "seq": seq, "prev": end[4].decode()}
