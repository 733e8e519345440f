"""The record of decisions: JSON lines that only their key can have written.

A server calls `recover()` at its start; `intend()` before it allows anything, which is
on the disk then, or OSError; `finish()` with the end.  `note()` is for ends that nobody
decided: the next `flush()` writes them, which is called every 0.1 s while it returns
anything, every second while there is a `problem`.

`intend()` and `flush()` hold the thread for `QUICK` seconds at most beside the disk's
own time.  What cannot be written (a lock held by another process, a full disk, a folder
that is read-only or gone) waits in memory, in its order, and is tried again by every
later call; what fits into the spool survives even a kill.  Past `MAX_WAITING` entries
the further ones are only counted; that number becomes an entry of its own (`event:
lost`) as soon as anything can be written.  A process that lives a moment calls
`append()`, which waits longer, and raises.  Several processes may write; they take
turns by a lock on the file.

A line.  Entries say what their caller wants; they get `time`, `seq` (1, 2, 3, ...),
`prev` (the hash of the line before) and `hash`, which is keyed: HMAC-SHA256 over the
rest of the line.  An end repeats the `seq` of its intent as `intent`.  Secrets are
masked here for every caller; of a rule that holds one, `marks` keeps a keyed hash, by
which `exact()` finds it again in a settings file.

The head is the last `seq` and `hash` that are safely on the disk.  It is kept in the
configuration folder, where nobody reaches it who cleans out, restores or rewrites the
state folder.  It is written in place, in one write of its full length, after the line
is synced: it may be behind the ledger for a moment, never ahead.  `base` in a line is
the last head that was synced when the line was written, if that is not the line before;
so a head that a crash or a power cut left behind can be told from one that somebody put
back.  A writer that finds the ledger's end missing or the head gone goes on, and says
so in its line (`gap`); nothing repairs itself silently.  A line that a crash cut off
stays, and the next one vouches for it (`torn`).  `services.ledger_check` judges.
"""

from __future__ import annotations

import errno
import hashlib
import hmac
import itertools
import json
import os
import re
import stat
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple

from feishuperm.errors import FileError
from feishuperm.lib.config import config_dir, state_dir
from feishuperm.lib.files import (
    acquire,
    open_append,
    private_dir,
    write_all,
    write_atomic,
)
from feishuperm.lib.log import mask
from feishuperm.messages import message_of, msg
from feishuperm.models.fields import decoded, number_at

Entry = dict[str, Any]
Name = tuple[str, str]  # a rule as shown, and its mark

WAIT = 5.0  # seconds; others hold the lock for one write and two fsyncs
STEP = 0.002  # between tries: no longer than others hold it, or the patient never win
QUICK = 0.03  # the same for a server, whose every other client waits meanwhile
MAX_WAITING = 10_000  # entries in memory: some MB, and hours of an ordinary day
MAX_BATCH = 1000  # entries written at once: some ten milliseconds
MAX_RECENT = 20_000  # entries that are handed out at once
DAY = 24 * 3600.0
SLACK = 3600.0  # how far back clocks are turned: entries are nearly in order of time
INTENT, REQUEST, LOST = "intent", "request", "lost"
START = "start"  # of a session from the chat; its intent says so in `of`
UNKNOWN = "unknown"  # the state of a request whose server died while it decided
BLOCK = 4 << 10  # what is read at first from the end of the file: a few lines
MAX_BLOCK = 64 << 10  # and at last, for a reader that goes on
MAX_LINE = 1 << 20  # bytes; entries are far shorter, so a longer line is none
MAX_TEXT = 8192  # characters of one value
LOOK_BACK = 1000  # lines among which the last entry is looked for
LATEST = 1e11  # seconds: the year 5138, and still a date that can be shown
TOO_LONG = b"\0"
KEY_BYTES = 32
# What others look up by its exact text; none of it comes out of a tool call.
EXACT = frozenset(("event", "id", "state", "action", "surface", "project", "session"))
RESERVED = ("seq", "prev", "base", "gap", "torn", "hash")
SEAL = re.compile(rb', "hash": "([^"]{64})"\}\Z')
SEAL_LENGTH = 77  # bytes of the above
SPOOL_BYTES = 16 << 10  # bytes: some twenty decisions, which is hours of tapping
SPOOL_END = b"\0"


class Place(NamedTuple):
    """A point in the chain: that of a line, or the one that the head names."""

    seq: int = 0
    hash: str = ""
    base: int = 0  # the last head that survives a power cut, as far as it was known
    why: str = ""  # of a head that cannot be told


class Line(NamedTuple):
    """What a line of the file holds."""

    entry: Entry | None = None
    place: Place | None = None  # where it stands, as far as it says so
    sealed: bool = False  # whether the key wrote it, and nobody has changed it since


class Ledger:
    """One ledger file, made with its first entry."""

    def __init__(
        self,
        path: str = "",
        clock: Callable[[], float] = time.time,
        environ: Mapping[str, str] = os.environ,
        head_path: str = "",
    ) -> None:
        self.path = path or os.path.join(state_dir(environ), "ledger.jsonl")
        self.key_path = os.path.splitext(self.path)[0] + ".key"
        # Beside a file that was named; the user's own has its head elsewhere.
        self.head_path = head_path or (
            f"{path}.head" if path else head_path_of(self.path, environ)
        )
        self.problem = ""  # why the last attempt failed
        self._clock = clock
        self._waiting: list[Entry] = []
        self._spool_path = os.path.splitext(self.path)[0] + ".late"
        self._spooled = False  # whether anything is kept there
        self._lost = 0
        self._unsynced = False
        self._head = ""  # the last hash this process has put on the disk
        self._unkept = ""  # why it could not be kept apart

    # Writing.

    def append(self, entry: Entry) -> Entry:
        """Add an entry and return it as stored; may wait. Raises OSError."""
        return self._write([clean(entry)], WAIT)[0]

    def intend(self, entry: Entry) -> int:
        """Put on the disk what is about to be done; returns its number.

        Raises OSError, and soon.
        """
        intent = clean({**entry, "event": INTENT, "pid": os.getpid()})
        backlog = self._backlog()
        # The head is synced with the end, a tenth of a second later: a tap waits for
        # the disk once.
        stored = self._write([*backlog, intent], QUICK, sync_head=False)[-1]
        self._written(len(backlog), sync=False)
        return number_of(stored, "seq")

    def finish(self, intent: int, entry: Entry) -> None:
        """Write the result of an intent, at once or as soon as possible."""
        self.note({**entry, "intent": intent})
        # Not synced: no crash of the server can lose it, and after a power cut the
        # intent, which is on the disk, tells as much.
        self.flush(sync=False)

    def note(self, entry: Entry) -> None:
        """Keep an entry for the next `flush()`."""
        if len(self._waiting) < MAX_WAITING:
            self._waiting.append({"time": round(self._clock(), 3), **clean(entry)})
        else:
            self._lost += 1

    def flush(self, sync: bool = True) -> int:
        """Write pending entries, some of many; returns whether any are left.

        Never raises: `problem` says why it did not succeed.
        """
        backlog = self._backlog()
        if backlog or (sync and self._unsynced):
            try:
                self._write(backlog, QUICK if sync else 0.0, sync)
            except OSError as error:
                self.problem = message_of(error)
                self._spill()
            else:
                self._written(len(backlog), sync)
        return self.pending() + self._unsynced

    def pending(self) -> int:
        """How many entries could not be written yet."""
        return len(self._waiting) + self._lost

    def state(self) -> dict[str, Any]:
        """For `status` and `doctor`, and for `log verify`, which asks the server."""
        return {
            "head": self.head(),
            "pending": self.pending(),
            "problem": self.problem or self._unkept,
        }

    def head(self) -> str:
        """The first characters of the last hash on the disk, for a person to keep."""
        if not self._head:
            with suppress(OSError):  # it is read at the next call
                key = read_key(self.key_path)
                self._head = read_head(self.head_path, key).hash if key else ""
        return self._head[:8]

    def recover(self) -> list[Entry]:
        """Write what the last server left to be written, and close its open intents.

        Returns the ends of those.
        """
        if not self._waiting:
            self._waiting = self.late()
        self._spill()  # which takes its room while there is some
        ended = {number_of(entry, "intent") for entry in self._waiting}
        ends = []
        for intent in self.open_intents():
            when = entry_time(intent)
            # A process of that number may be another one: no intent takes a minute.
            lives = self._clock() - when < 60 and _lives_elsewhere(intent.get("pid"))
            if lives or intent["seq"] in ended:
                continue
            own = (*RESERVED, "time", "pid")
            end = {name: intent[name] for name in intent if name not in own}
            event = START if intent.get("of") == START else REQUEST
            end.update(event=event, state=UNKNOWN, intent=intent["seq"], ended=when)
            ends.append(end)
            self.note(end)
        self.flush()
        return ends

    def late(self) -> list[Entry]:
        """The entries in the spool that did not reach the ledger."""
        lines = read_spool(self._spool_path)
        if not lines:
            return []
        key = read_key(self.key_path)
        kept = [row.entry for row in (read_line(x, key) for x in lines) if row.sealed]
        # Written, and then there was no time to clear the spool.
        written = {str(entry.get("late")) for entry in self.recent(DAY)}
        return [entry for entry in kept if entry and entry.get("late") not in written]

    def _spill(self) -> None:
        """Put pending entries where a kill cannot take them."""

        def lines(key: bytes) -> Iterator[bytes]:
            for entry in self._waiting if key else ():
                entry.setdefault("late", os.urandom(8).hex())
                yield seal(key, with_marks(key, entry))[0]

        with suppress(OSError):
            write_spool(self._spool_path, lines(read_key(self.key_path)))
            self._spooled = True

    def _backlog(self) -> list[Entry]:
        """What is to be written next; what was lost is told at the end."""
        backlog = self._waiting[:MAX_BATCH]
        if self._lost and len(backlog) == len(self._waiting):
            backlog.append({"event": LOST, "count": self._lost})
        return backlog

    def _written(self, count: int, sync: bool = True) -> None:
        if count > len(self._waiting):
            self._lost = 0
        del self._waiting[:count]
        self.problem = ""
        self._unsynced = not sync
        if sync and self._spooled and not self._waiting:
            write_spool(self._spool_path, ())
            self._spooled = False

    def _write(
        self,
        entries: Sequence[Entry],
        wait: float,
        sync: bool = True,
        sync_head: bool = True,
    ) -> list[Entry]:
        """Chain entries to the last line, all of them or none. Raises OSError."""
        fd = self._open(wait)
        try:
            key = read_key(self.key_path) or make_key(self.key_path)
            size = os.fstat(fd).st_size
            last, torn = read_tail(fd, size, key)
            head = read_head(self.head_path, key)
            now = round(self._clock(), 3)
            rows = [{"time": now, **with_marks(key, entry)} for entry in entries]
            lines, stored = chain(key, rows, last, head, torn)
            try:
                write_all(fd, b"".join(line + b"\n" for line in lines))
                if sync:
                    os.fsync(fd)
            except OSError:
                os.ftruncate(fd, size)  # a full disk must not leave half an entry
                raise
            if stored:
                last = Place(stored[-1]["seq"], stored[-1]["hash"])
            # Without a new line, the last one becomes the head unless that hides a gap.
            if sync and last.seq and (stored or not gap_between(head, last)):
                self._head = last.hash
                kept = last._replace(base=last.seq if sync_head else head.base)
                self._unkept = write_head(self.head_path, key, kept)
            return stored
        finally:
            os.close(fd)

    def _open(self, wait: float) -> int:
        """The locked file. Raises OSError."""
        for _ in range(3):
            fd = open_append(self.path)
            try:
                acquire(fd, wait, sleep=lambda _: time.sleep(STEP))
                state = os.fstat(fd)
                if not stat.S_ISREG(state.st_mode):
                    raise OSError(errno.EINVAL, msg("not a regular file"))
                if os.path.samestat(state, os.stat(self.path)):
                    return fd
            except FileNotFoundError:
                pass
            except BaseException:
                os.close(fd)
                raise
            os.close(fd)  # somebody removed or replaced it while we waited
        raise OSError(errno.EBUSY, msg("another program keeps replacing it"))

    # Reading.

    def entries(self, *parts: str) -> Iterator[Entry]:
        """Every entry that can be read, oldest first; those with one of these in them.

        Decoding a line takes twenty times as long as looking for a part of it.
        """
        wanted = [part.encode() for part in parts]
        with suppress(FileNotFoundError), open(self.path, "rb") as file:
            for line in iter(partial(file.readline, MAX_LINE), b""):
                if not wanted or any(part in line for part in wanted):
                    entry = decode(line)
                    if entry is not None:
                        yield entry

    def latest(
        self,
        most: int,
        since: float = 0.0,
        fits: Callable[[Entry], bool] = lambda entry: True,
    ) -> list[Entry]:
        """The last entries, 0 for all, oldest first; of an intent only its end."""
        ended: set[int] = set()
        latest: list[Entry] = []
        for entry in self._backwards(since):
            ended.add(number_of(entry, "intent"))
            is_over = entry.get("event") == INTENT and number_of(entry, "seq") in ended
            if not is_over and fits(entry):
                latest.append(entry)
                if len(latest) == most:
                    break
        return latest[::-1]

    def recent(self, seconds: float) -> list[Entry]:
        """The entries of the last so many seconds, oldest first."""
        since = self._clock() - seconds
        newer = self._backwards(since - SLACK)
        entries = (entry for entry in newer if entry_time(entry) >= since)
        return list(itertools.islice(entries, MAX_RECENT))[::-1]

    def vouched(self, seconds: float) -> list[Entry]:
        """The same as far as it can be relied on; nothing where the end is missing.

        Each line is sealed and follows from the one before, up to the head.
        """
        key, since = read_key(self.key_path), self._clock() - seconds
        if not key:
            return []
        head = read_head(self.head_path, key)
        latest: list[Entry] = []
        lines = self._backward_lines()
        next(lines, b"")  # what follows the last line end
        for line in lines:
            entry, place, sealed = read_line(line, key)
            if not sealed or place is None or entry is None:
                break
            follows = (
                latest[-1].get("prev") == place.hash
                if latest
                else not gap_between(head, place)
            )
            if not follows or entry_time(entry) < since:
                break
            latest.append(entry)
        return latest[::-1]

    def find(self, id: str, since: float = 0.0) -> list[Entry]:
        """All entries about one request, oldest first; `since` it came, if known."""
        entries = self.entries(json.dumps(id))
        if since:
            entries = reversed(list(self._backwards(since - SLACK)))
        return [entry for entry in entries if entry.get("id") == id]

    def open_intents(self) -> list[Entry]:
        """Intents without an end, oldest first.

        A server leaves them when it dies, and closes those of the one before it: so it
        is enough to look a day beyond the last thing that any server wrote.
        """
        ended = {0}
        intents: list[Entry] = []
        latest = 0.0
        for entry in self._backwards():
            event, when = entry.get("event"), entry_time(entry)
            ended.add(number_of(entry, "intent"))
            if event == INTENT and number_of(entry, "seq") not in ended:
                intents.append(entry)
            if event in (INTENT, REQUEST):
                latest = max(latest, when)
                if when < latest - DAY:
                    break
        return intents[::-1]

    def exact(self, entry: Entry, present: Sequence[str]) -> list[str]:
        """The rules of an entry as they stand in a settings file.

        `present` are the rules in that file: one that holds a secret is known by its
        mark only, and an empty text stands for it when it is not there any more.
        """
        names = rule_names(entry)
        key = read_key(self.key_path) if any(mark for _, mark in names) else b""
        marked = {rule_mark(key, rule): rule for rule in present} if key else {}
        return [marked.get(mark, "") if mark else rule for rule, mark in names]

    def _backwards(self, oldest: float = 0.0) -> Iterator[Entry]:
        """From the end, up to the first that is older."""
        for line in self._backward_lines():
            entry = decode(line)
            if entry is not None and entry_time(entry) < oldest:
                return
            if entry is not None:
                yield entry

    def _backward_lines(self) -> Iterator[bytes]:
        try:
            fd = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        except FileNotFoundError:
            return
        try:
            yield from reversed_lines(fd, os.fstat(fd).st_size)
        finally:
            os.close(fd)


# The spool: what the ledger cannot take now, where there is room for it already.


def read_spool(path: str) -> list[bytes]:
    """The lines that are kept; none if it cannot be read."""
    try:
        with open(path, "rb") as file:
            data = file.read(SPOOL_BYTES).partition(SPOOL_END)[0]
    except OSError:
        return []
    return data.split(b"\n")[:-1]


def write_spool(path: str, lines: Iterable[bytes]) -> None:
    """Keep these lines, as many as there is room for; it never raises.

    A full disk has no room for another line, and a lock that another process holds
    keeps the ledger shut; a server that is killed meanwhile must not lose its entries.
    So the file has its full length from the start, and is overwritten in place: its
    lines, then a zero byte.  As long as lines only join those that are there, a crash
    at any moment leaves whole lines.
    """
    kept = b""
    for line in lines:
        if len(kept) + len(line) + 1 >= SPOOL_BYTES:
            break
        kept += line + b"\n"
    with suppress(OSError):
        _overwrite(path, kept.ljust(SPOOL_BYTES, SPOOL_END), sync=True)


def _overwrite(path: str, data: bytes, sync: bool) -> None:
    """Write a private file in place, which is always of this length. Raises OSError."""
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    private_dir(os.path.dirname(path))
    fd = os.open(path, flags, 0o600)
    try:
        os.ftruncate(fd, os.pwrite(fd, data, 0))
        if sync:
            os.fsync(fd)
    finally:
        os.close(fd)


# What an entry holds.


def clean(entry: Entry) -> Entry:
    """An entry without secrets, and without what is not its caller's to say.

    Its rules are left to the writer, who has the key.
    """
    return {
        name: value if name in EXACT or name == "rules" else masked(value)
        for name, value in entry.items()
        if name not in RESERVED
    }


def with_marks(key: bytes, entry: Entry) -> Entry:
    """A clean entry with its rules masked, and marks of those that held a secret."""
    rules = entry.get("rules")
    if not rules:
        return entry
    shown = masked(rules)
    if shown == rules or entry.get("marks"):
        return {**entry, "rules": shown}
    marks = ["" if a == b else rule_mark(key, b) for a, b in zip(shown, rules)]
    return {**entry, "rules": shown, "marks": marks}


def masked(value: Any) -> Any:
    """A value without secrets, of a length that an entry may have."""
    if isinstance(value, str):
        # Masked before it is cut: half a secret looks like nothing.
        value = mask(value[: 2 * MAX_TEXT])
        return value if len(value) <= MAX_TEXT else value[: MAX_TEXT - 1] + "…"
    if isinstance(value, (list, tuple)):
        return [masked(part) for part in value]
    if isinstance(value, dict):
        return {str(name): masked(part) for name, part in value.items()}
    # Nothing that JSON does not know may stop the entries behind it.
    return value if value is None or isinstance(value, (int, float)) else str(value)


def rule_mark(key: bytes, rule: str) -> str:
    """What the ledger keeps of a rule that must not stand in it."""
    return _mac(key, b"rule " + rule.encode("utf-8", "surrogatepass"))[:32]


def rule_names(entry: Entry) -> list[Name]:
    """The rules of an entry, each with its mark; that is empty where none is kept."""
    rules, marks = entry.get("rules"), entry.get("marks")
    if not isinstance(rules, list):
        return []
    if not isinstance(marks, list) or len(marks) != len(rules):
        marks = [""] * len(rules)
    return [(str(rule), str(mark)) for rule, mark in zip(rules, marks)]


def entry_time(entry: Entry) -> float:
    """When an entry was written, in seconds; 0 if somebody edited that."""
    value = number_at(entry, "time")
    return value if 0 <= value < LATEST else 0.0


def number_of(entry: Entry, name: str) -> int:
    """An entry's own number (`seq`), or of the intent that it ends; 0: it has none."""
    return int(number_at(entry, name))


# Lines.


def seal(key: bytes, entry: Entry) -> tuple[bytes, str]:
    """An entry as a line without its end, and the hash it carries."""
    body = json.dumps(entry).encode()
    digest = _mac(key, body)
    return body[:-1] + b', "hash": "%s"}' % digest.encode(), digest


def chain(
    key: bytes, rows: Sequence[Entry], last: Place, head: Place, torn: bytes
) -> tuple[list[bytes], list[Entry]]:
    """Rows as lines that follow from the last one, and as they are stored.

    The first alone tells what is wrong with what is before it.
    """
    gap = gap_between(head, last)
    said: Entry = {"gap": gap} if gap else {}
    lines, stored = [], []
    if torn:
        said["torn"] = hashlib.sha256(torn).hexdigest()
    # What was there has numbers of its own, even if it is gone.
    seq, previous = max(last.seq, head.seq), last.hash
    for number, row in enumerate(rows, seq + 1):
        row = {**row, **said}
        if head.base != number - 1:
            row["base"] = head.base
        row.update(seq=number, prev=previous)
        line, previous = seal(key, row)
        # What a crash cut off stays, on a line of its own.
        lines.append(b"\n" + line if "torn" in said else line)
        stored.append({**row, "hash": previous})
        said = {}
    return lines, stored


def decode(line: bytes) -> Entry | None:
    """The entry in a line, None if it holds none."""
    entry = decoded(line)
    return entry if isinstance(entry, dict) else None


def read_line(line: bytes, key: bytes) -> Line:
    """What a line holds; one without a hash at its end is not sealed."""
    entry, found = decode(line), SEAL.search(line, max(0, len(line) - SEAL_LENGTH))
    if entry is None or found is None:
        return Line(entry)
    # As bytes: of texts `hmac` takes none that is not ASCII, and a file holds anything.
    digest = _mac(key, line[: found.start()] + b"}").encode()
    sealed = bool(key) and hmac.compare_digest(digest, found[1])
    seq, base = entry.get("seq"), entry.get("base")
    if not isinstance(seq, int):
        return Line(entry, None, sealed)
    base = base if isinstance(base, int) else seq - 1
    return Line(entry, Place(seq, found[1].decode("latin-1"), base), sealed)


def reversed_lines(fd: int, size: int) -> Iterator[bytes]:
    """The lines of a file from its end; what follows the last line end comes first.

    In place of a line that is too long for an entry comes a zero byte.
    """
    data, start, skipping = b"", size, False
    block = BLOCK
    while start > 0:
        length = min(block, start)
        block = min(2 * block, MAX_BLOCK)
        start -= length
        data, *lines = (os.pread(fd, length, start) + data).split(b"\n")
        if lines and skipping:
            lines[-1], skipping = TOO_LONG, False
        yield from reversed(lines)
        if skipping or len(data) > MAX_LINE:
            data, skipping = b"", True
    yield TOO_LONG if skipping else data


def read_tail(fd: int, size: int, key: bytes) -> tuple[Place, bytes]:
    """The last entry's place, and what a crash left behind it."""
    lines = reversed_lines(fd, size)
    torn = next(lines, b"")
    likely = None
    for line in itertools.islice(lines, LOOK_BACK):
        _, place, sealed = read_line(line, key)
        if place is not None and sealed:
            return place, torn
        likely = likely or place
    return likely or Place(), torn


# The head, and the key.


def gap_between(head: Place, last: Place) -> str:
    """What is missing between the ledger's end and its head; empty when nothing is."""
    if head.seq == last.seq and (head.hash == last.hash or not last.seq):
        return head.why if head.why and head.why != "missing" else ""
    if not head.why and last.base <= head.seq < last.seq:
        return ""  # written, but the head not yet
    if head.why == "missing" and last.base == 0 and last.seq:
        return ""
    return head.why or f"{head.seq} {head.hash[:8]}"


def read_head(path: str, key: bytes) -> Place:
    """The head, if it was written with this key. Raises OSError if out of files."""
    try:
        with open(path, "rb") as file:
            data = file.read(1024)
    except FileNotFoundError:
        return Place(why="missing")
    except OSError as error:
        if error.errno in (errno.EMFILE, errno.ENFILE):
            raise  # it will be read a little later
        return Place(why="unreadable")
    fields = data.decode("latin-1").split()
    if len(fields) != 5 or not (fields[0] + fields[1]).isdecimal():
        return Place(why="unreadable")
    head = Place(int(fields[0]), fields[2], int(fields[1]))
    if fields[3] != key_name(key):
        return Place(why=msg("of another key"))
    return head if _packed_head(key, head) == data else Place(why="unreadable")


def write_head(path: str, key: bytes, head: Place) -> str:
    """Keep the head; returns why not. That is no failure of the entry.

    It is synced if its `base`, the last head that is, is to be itself.
    """
    try:
        _overwrite(path, _packed_head(key, head), sync=head.base == head.seq)
    except OSError as error:
        return f"{path}: {message_of(error)}"
    return ""


def _packed_head(key: bytes, head: Place) -> bytes:
    body = f"{head.seq:020d} {head.base:020d} {head.hash} {key_name(key)}"
    return f"{body} {_mac(key, b'head ' + body.encode())}\n".encode()


def head_path_of(path: str, environ: Mapping[str, str]) -> str:
    """Where the head of a ledger is kept; another ledger has another."""
    checksum = zlib.crc32(os.fsencode(os.path.realpath(path)))
    return os.path.join(config_dir(environ), f"ledger-{checksum:08x}.head")


def read_key(path: str) -> bytes:
    """The key; empty when there is none. Raises OSError when it may not be read."""
    try:
        with open(path, "rb") as file:
            key = file.read(KEY_BYTES + 1)
    except FileNotFoundError:
        return b""
    return key if len(key) == KEY_BYTES else b""


def make_key(path: str) -> bytes:
    """A new key; only who holds a lock may call. Raises OSError."""
    key = os.urandom(KEY_BYTES)
    try:
        write_atomic(path, key, mode=0o600)
    except FileError as error:
        raise OSError(errno.EIO, str(error)) from None
    return key


def key_name(key: bytes) -> str:
    """By what a key is told from another without showing it."""
    return _mac(key, b"name")[:16]


def _mac(key: bytes, data: bytes) -> str:
    return hmac.digest(key, data, "sha256").hex()


def _lives_elsewhere(pid: object) -> bool:
    """Whether another process that may still finish its intent is there."""
    if not isinstance(pid, int) or pid <= 0 or pid == os.getpid():
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        pass
    return True
