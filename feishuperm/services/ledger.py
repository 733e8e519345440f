"""The record of decisions: JSON lines that only their key can have written.

How to use it, in a process with one thread and a loop:

    ledger = Ledger()
    ledger.recover()                  # at start: closes what a crash left open
    ticket = ledger.intend(entry)     # on the disk, or OSError: then do not allow
    ...write the rule, send the decision...
    ledger.finish(ticket, entry)      # never raises
    ledger.note(entry)                # ends nobody decided; written with the next...
    ledger.flush()                    # ...call of this: every 0.1 s while it is not 0,
                                      # every second while there is a `problem`
    ledger.state()                    # the value of `ledger` in the server's status
    ledger.head()                     # eight characters for a card or a page

`intend()` and `flush()` hold the thread for `QUICK` seconds at most beside the disk's
own time.  What cannot be written (a lock held by somebody, a full disk, a folder that
is read-only or gone) waits in memory, in its order, and is tried again by every later
call. Past `MAX_WAITING` entries the further ones are only counted; that number becomes
an entry of its own (`event: lost`) as soon as anything can be written.  A process that
lives a moment calls `append()` or `extend()`, which wait longer, and raise.

Entries say what their caller wants; they get `time`, `seq` (1, 2, 3, ...), `prev` (the
hash of the line before) and `hash`, which is keyed: HMAC-SHA256 over the rest of the
line.  An end repeats the `seq` of its intent as `intent`.  Secrets are masked here,
whoever calls; of a rule that holds one, `marks` keeps a keyed hash, by which `exact()`
finds it again in a settings file.

The head, which is the last `seq` and `hash` that are safely on the disk, is kept in the
configuration folder: whoever cleans out, restores or rewrites the state folder does not
reach it, and it lives on the same disk as what the user already backs up.  It is
written in place, in one write of its full length, after the line is synced: it may be
behind the ledger for a moment, never ahead.  `base` in a line says which head it was
written upon, if not the line before; so a crash between line and head can be told from
a head that somebody put back.  A writer that finds the ledger's end missing or the head
gone goes on, and says so in its line (`gap`); nothing repairs itself silently.  A line
that a crash cut off stays, and the next one vouches for it (`torn`).
`services.ledger_check` looks for all of that.

A ledger from before there was a key goes on: its lines keep their plain chain, which
the first keyed line ends.  Several processes may write; they take turns by a lock on
the file.
"""

from __future__ import annotations

import errno
import hashlib
import hmac
import json
import os
import stat
import time
import zlib
from typing import Any, NamedTuple

from feishuperm.lib.config import config_dir, state_dir
from feishuperm.lib.files import acquire, open_append, private_dir, write_all
from feishuperm.lib.secrets import mask

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

Entry = dict[str, Any]

WAIT = 2.0  # seconds; others hold the lock for one write and two fsyncs
STEP = 0.002  # between tries: no longer than others hold it, or the patient never win
QUICK = 0.03  # the same for a server, whose every other client waits meanwhile
BLOCK = 64 << 10  # what is read at a time from the end of the file
MAX_LINE = 1 << 20  # bytes; none of ours comes near, so a longer one is no entry
MAX_TEXT = 8192  # characters of one value
MAX_WAITING = 10_000  # entries in memory: some MB, and hours of an ordinary day
MAX_BATCH = 1000  # entries written at once: some ten milliseconds
MAX_RECENT = 20_000  # entries that are handed out at once
LOOK_BACK = 1000  # lines among which the last entry is looked for
TOO_LONG = b"\0"
KEY_BYTES = 32
DAY = 24 * 3600.0
SLACK = 3600.0  # how far back clocks are turned: entries are nearly in order of time
INTENT, REQUEST, LOST = "intent", "request", "lost"
UNKNOWN = "unknown"  # the state of a request whose server died while it decided
# What others look up by its exact text; none of it comes out of a tool call.
EXACT = frozenset(("event", "id", "state", "action", "surface", "project", "session"))
RESERVED = ("seq", "prev", "base", "gap", "torn", "hash")
_SEAL = (b', "hash": "', b'"}')
_SEAL_LENGTH = 64 + len(_SEAL[0]) + len(_SEAL[1])


class Place(NamedTuple):
    """A point in the chain; `base` is where the head was when it was written."""

    seq: int = 0
    hash: str = ""
    base: int = 0


class Head(NamedTuple):
    """The last place that was safely on the disk, or why that is not known."""

    seq: int = 0
    hash: str = ""
    why: str = ""


class Ticket(NamedTuple):
    """An intent that is on the disk."""

    seq: int
    entry: Entry


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
        self._lost = 0
        self._unsynced = False
        self._head = ""  # the last hash this process has put on the disk
        self._unkept = ""  # why it could not be kept apart

    # Writing, for those who can wait.

    def append(self, entry: Entry) -> Entry:
        """Add an entry and return it as stored. Raises OSError."""
        return self.extend([entry])[0]

    def extend(self, entries: Sequence[Entry]) -> list[Entry]:
        """Add several entries at the price of one. Raises OSError."""
        return self._write([clean(entry) for entry in entries], WAIT)

    # Writing, for the loop.

    def intend(self, entry: Entry) -> Ticket:
        """Put on the disk what is about to be done. Raises OSError, and soon."""
        intent = clean({**entry, "event": INTENT, "pid": os.getpid()})
        backlog = self._backlog()
        # The head is synced with the end, a tenth of a second later: a power cut before
        # that leaves it behind, which is told as what it is.
        stored = self._write([*backlog, intent], QUICK, sync_head=False)[-1]
        self._written(len(backlog), sync=False)
        return Ticket(stored["seq"], stored)

    def finish(self, ticket: Ticket, entry: Entry) -> None:
        """Tell what came of an intent, at once or as soon as possible."""
        self.note({**entry, "intent": ticket.seq})
        # Not synced: no crash of ours can lose it, and after a power cut the intent,
        # which is on the disk, tells as much.
        self.flush(sync=False)

    def note(self, entry: Entry) -> None:
        """Keep an entry for the next `flush()`."""
        if len(self._waiting) < MAX_WAITING:
            self._waiting.append({"time": round(self._clock(), 3), **clean(entry)})
        else:
            self._lost += 1

    def flush(self, sync: bool = True) -> int:
        """Write what waits, or a part of much; returns whether anything is left.

        Never raises: `problem` says why it did not succeed.
        """
        backlog = self._backlog()
        if backlog or (sync and self._unsynced):
            try:
                self._write(backlog, QUICK if sync else 0.0, sync)
            except OSError as error:
                self.problem = error.strerror or str(error)
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
        try:
            key = b"" if self._head else read_key(self.key_path)
            if key:
                self._head = read_head(self.head_path, key).hash
        except OSError:
            pass  # nobody is kept waiting for it
        return self._head[:8]

    def recover(self) -> list[Entry]:
        """Close the intents that a crash left open; returns the ends written."""
        ends = []
        for intent in self.open_intents():
            when = entry_time(intent)
            # A process of that number may be another one: no intent takes a minute.
            if self._clock() - when < 60 and _lives_elsewhere(intent.get("pid")):
                continue
            own = (*RESERVED, "time", "pid")
            end = {name: intent[name] for name in intent if name not in own}
            end.update(event=REQUEST, state=UNKNOWN, intent=intent["seq"], ended=when)
            ends.append(end)
            self.note(end)
        self.flush()
        return ends

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

    def _write(
        self,
        entries: Sequence[Entry],
        wait: float,
        sync: bool = True,
        sync_head: bool = True,
    ) -> list[Entry]:
        fd = self._open(wait)
        try:
            key = read_key(self.key_path) or make_key(self.key_path)
            size = os.fstat(fd).st_size
            last, torn = _tail(fd, size, key)
            head = read_head(self.head_path, key)
            chain = _Chain(key, last, torn, head, round(self._clock(), 3))
            stored = [chain.add(entry) for entry in entries]
            _append(fd, size, chain.data(), sync)
            if sync and chain.anchors():
                self._head = chain.last.hash
                self._unkept = write_head(self.head_path, key, chain.last, sync_head)
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
                    raise OSError(errno.EINVAL, "not a regular file")
                if os.path.samestat(state, os.stat(self.path)):
                    return fd
            except FileNotFoundError:
                pass
            except BaseException:
                os.close(fd)
                raise
            os.close(fd)  # somebody removed or replaced it while we waited
        raise OSError(errno.EBUSY, "another program keeps replacing it")

    # Reading.

    def entries(self) -> Iterator[Entry]:
        """Every entry that can be read, oldest first."""
        for line in self.lines():
            entry = decode(line)
            if entry is not None:
                yield entry

    def latest(self, most: int) -> list[Entry]:
        """The last entries, 0 for all, oldest first; of an intent only its end."""
        ended: set[int] = set()
        latest: list[Entry] = []
        for entry in self._backwards():
            ended.add(end_of(entry))
            if entry.get("event") != INTENT or place_in(entry) not in ended:
                latest.append(entry)
                if len(latest) == most:
                    break
        return latest[::-1]

    def recent(self, seconds: float) -> list[Entry]:
        """The entries of the last so many seconds, oldest first."""
        since = self._clock() - seconds
        latest: list[Entry] = []
        for entry in self._backwards():
            if entry_time(entry) >= since:
                latest.append(entry)
            if entry_time(entry) < since - SLACK or len(latest) >= MAX_RECENT:
                break
        return latest[::-1]

    def find(self, id: str) -> list[Entry]:
        """All entries about one request, oldest first."""
        return [entry for entry in self.entries() if entry.get("id") == id]

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
            ended.add(end_of(entry))
            if event == INTENT and place_in(entry) not in ended:
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
        rules, marks = entry.get("rules"), entry.get("marks")
        if not isinstance(rules, list):
            return []
        if not isinstance(marks, list) or len(marks) != len(rules):
            return [str(rule) for rule in rules]
        key = read_key(self.key_path)
        marked = {rule_mark(key, rule): rule for rule in present} if key else {}
        return [
            marked.get(mark, "") if mark else str(rule)
            for rule, mark in zip(rules, marks)
        ]

    def lines(self, size: int = -1) -> Iterator[bytes]:
        """Every line with its end, up to a size; too long ones come in pieces."""
        try:
            with open(self.path, "rb") as file:
                while size:
                    line = file.readline(min(size, MAX_LINE) if size > 0 else MAX_LINE)
                    if not line:
                        return
                    size -= len(line) if size > 0 else 0
                    yield line
        except FileNotFoundError:
            return

    def _backwards(self) -> Iterator[Entry]:
        try:
            fd = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return
        try:
            for line in reversed_lines(fd, os.fstat(fd).st_size):
                entry = decode(line)
                if entry is not None:
                    yield entry
        finally:
            os.close(fd)


class _Chain:
    """Lines that follow from the last one."""

    def __init__(
        self, key: bytes, last: Place, torn: bytes, head: Head, now: float
    ) -> None:
        self.last = last
        self._key = key
        self._now = now
        # What was there has numbers of its own, even if it is gone.
        self._seq = max(last.seq, head.seq)
        self._base = head.seq
        self._lines = [b""] if torn else []
        self._first: Entry = {}  # what only the first of them says
        self._gap = gap_between(head, last)
        if self._gap:
            self._first["gap"] = self._gap
        if torn:
            self._first["torn"] = hashlib.sha256(torn).hexdigest()

    def add(self, entry: Entry) -> Entry:
        """Chain an entry; returns it as stored."""
        stored = {"time": self._now, **with_marks(self._key, entry), **self._first}
        self._first = {}
        self._seq += 1
        if self._base != self._seq - 1:
            stored["base"] = self._base
        stored.update(seq=self._seq, prev=self.last.hash)
        line, digest = seal(self._key, stored)
        self._lines.append(line)
        self.last = Place(self._seq, digest, self._base)
        return {**stored, "hash": digest}

    def data(self) -> bytes:
        return b"\n".join([*self._lines, b""]) if any(self._lines) else b""

    def anchors(self) -> bool:
        """Whether the last line may become the head: not if that would hide a gap."""
        return any(self._lines) or (self.last.seq > 0 and not self._gap)


def clean(entry: Entry) -> Entry:
    """An entry without secrets, and without what is not its caller's to say.

    Its rules are left to the writer, who has the key.
    """
    return {
        name: value if name in EXACT or name == "rules" else _masked(value)
        for name, value in entry.items()
        if name not in RESERVED
    }


def with_marks(key: bytes, entry: Entry) -> Entry:
    """A clean entry with its rules masked, and marks of those that held a secret."""
    rules = entry.get("rules")
    if not rules:
        return entry
    shown = _masked(rules)
    if shown == rules or entry.get("marks"):
        return {**entry, "rules": shown}
    marks = ["" if a == b else rule_mark(key, b) for a, b in zip(shown, rules)]
    return {**entry, "rules": shown, "marks": marks}


def _masked(value: Any) -> Any:
    if isinstance(value, str):
        # Masked before it is cut: half a secret looks like nothing.
        value = mask(value[: 2 * MAX_TEXT])
        return value if len(value) <= MAX_TEXT else value[: MAX_TEXT - 1] + "…"
    if isinstance(value, (list, tuple)):
        return [_masked(part) for part in value]
    if isinstance(value, dict):
        return {name: _masked(part) for name, part in value.items()}
    return value


def seal(key: bytes, entry: Entry) -> tuple[bytes, str]:
    """An entry as a line without its end, and the hash it carries."""
    body = json.dumps(entry).encode()
    digest = _mac(key, body)
    return body[:-1] + _SEAL[0] + digest.encode() + _SEAL[1], digest


def unseal(line: bytes) -> tuple[bytes, str]:
    """What a line's hash is about, and that hash; empty for a line without one."""
    start = len(line) - _SEAL_LENGTH
    if start < 1 or not line.startswith(_SEAL[0], start) or line[-2:] != _SEAL[1]:
        return b"", ""
    return line[:start] + b"}", line[start + len(_SEAL[0]) : -2].decode("latin-1")


def is_sealed(key: bytes, line: bytes) -> bool:
    """Whether a line was written with this key and not changed since."""
    body, digest = unseal(line)
    return bool(body) and hmac.compare_digest(_mac(key, body), digest)


def gap_between(head: Head, last: Place) -> str:
    """What is missing between the ledger's end and its head; empty when nothing is."""
    if head.seq == last.seq and (head.hash == last.hash or not last.seq):
        return head.why if head.why and head.why != "missing" else ""
    if not head.why and head.seq < last.seq and last.base == head.seq:
        return ""  # written, but the head not yet
    if head.why == "missing" and last.base == 0 and last.seq:
        return ""
    return head.why or f"{head.seq} {head.hash[:8]}"


def head_path_of(path: str, environ: Mapping[str, str]) -> str:
    """Where the head of a ledger is kept; another ledger has another."""
    checksum = zlib.crc32(os.fsencode(os.path.realpath(path)))
    return os.path.join(config_dir(environ), f"ledger-{checksum:08x}.head")


def read_head(path: str, key: bytes) -> Head:
    """The head, if it was written with this key. Raises OSError if out of files."""
    try:
        with open(path, "rb") as file:
            data = file.read(1024)
    except FileNotFoundError:
        return Head(why="missing")
    except OSError as error:
        if error.errno in (errno.EMFILE, errno.ENFILE):
            raise  # it will be read a little later
        return Head(why="unreadable")
    fields = data.decode("latin-1").split()
    if len(fields) != 4 or not fields[0].isdecimal():
        return Head(why="unreadable")
    if fields[2] != key_name(key):
        return Head(why="of another key")
    if _packed_head(key, Place(int(fields[0]), fields[1])) != data:
        return Head(why="unreadable")
    return Head(int(fields[0]), fields[1])


def write_head(path: str, key: bytes, place: Place, sync: bool = True) -> str:
    """Keep the head; returns why not. That is no failure of the entry."""
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    try:
        private_dir(os.path.dirname(path))
        fd = os.open(path, flags, 0o600)
        try:
            length = os.pwrite(fd, _packed_head(key, place), 0)
            os.ftruncate(fd, length)  # it is always the same, if nobody meddled
            if sync:
                os.fsync(fd)
        finally:
            os.close(fd)
    except OSError as error:
        return f"{path}: {error.strerror}"
    return ""


def _packed_head(key: bytes, place: Place) -> bytes:
    body = f"{place.seq:020d} {place.hash} {key_name(key)}"
    return f"{body} {_mac(key, b'head ' + body.encode())}\n".encode()


def read_key(path: str) -> bytes:
    """The key; empty when there is none. Raises OSError when it may not be read."""
    try:
        with open(path, "rb") as file:
            key = file.read(KEY_BYTES + 1)
    except FileNotFoundError:
        return b""
    return key if len(key) == KEY_BYTES else b""


def make_key(path: str) -> bytes:
    """A new key, whole or not at all; only who holds the ledger's lock may call."""
    key = os.urandom(KEY_BYTES)
    temporary = f"{path}.{os.urandom(8).hex()}"
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        try:
            write_all(fd, key)
            os.fsync(fd)
        finally:
            os.close(fd)
        os.rename(temporary, path)
    except OSError:
        os.unlink(temporary)
        raise
    return key


def key_name(key: bytes) -> str:
    """By what a key is told from another without showing it."""
    return _mac(key, b"name")[:16]


def rule_mark(key: bytes, rule: str) -> str:
    """What the ledger keeps of a rule that must not stand in it."""
    return _mac(key, b"rule " + rule.encode("utf-8", "surrogatepass"))[:32]


def line_hash(line: bytes) -> str:
    """What the next line says of this one, in a ledger without a key."""
    return hashlib.sha256(line).hexdigest()


def entry_time(entry: Entry) -> float:
    """When an entry was written, in seconds."""
    value = entry.get("time")
    return value if isinstance(value, (int, float)) else 0.0


def place_in(entry: Entry) -> int:
    """An entry's number; 0 for one without."""
    seq = entry.get("seq")
    return seq if isinstance(seq, int) else 0


def end_of(entry: Entry) -> int:
    """The number of the intent that an entry ends; 0 if it ends none."""
    intent = entry.get("intent")
    return intent if isinstance(intent, int) else 0


def decode(line: bytes) -> Entry | None:
    """The entry in a line, None if it holds none."""
    try:
        entry = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return entry if isinstance(entry, dict) else None


def place_of(line: bytes) -> Place | None:
    """Where a keyed line stands, as far as it says so."""
    body, digest = unseal(line)
    entry = decode(body) if body else None
    seq = entry.get("seq") if entry else None
    if entry is None or not isinstance(seq, int):
        return None
    base = entry.get("base", seq - 1)
    return Place(seq, digest, base if isinstance(base, int) else seq - 1)


def reversed_lines(fd: int, size: int) -> Iterator[bytes]:
    """The lines of a file from its end; what follows the last line end comes first.

    In place of a line that is too long for an entry comes a zero byte.
    """
    data, start, skipping = b"", size, False
    while start > 0:
        length = min(BLOCK, start)
        start -= length
        data, *lines = (os.pread(fd, length, start) + data).split(b"\n")
        if lines and skipping:
            lines[-1], skipping = TOO_LONG, False
        yield from reversed(lines)
        if skipping or len(data) > MAX_LINE:
            data, skipping = b"", True
    yield TOO_LONG if skipping else data


def _tail(fd: int, size: int, key: bytes) -> tuple[Place, bytes]:
    """The last entry's place, and what a crash left behind it."""
    lines = reversed_lines(fd, size)
    torn = next(lines, b"")
    likely = plain = None
    for number, line in enumerate(lines):
        place = place_of(line)
        if place is not None and is_sealed(key, line):
            return place, torn
        likely = likely or place
        if number == 0 and place is None and decode(line) is not None:
            plain = Place(0, line_hash(line))
        if number >= LOOK_BACK:
            break
    return likely or plain or Place(), torn


def _append(fd: int, size: int, data: bytes, sync: bool) -> None:
    try:
        write_all(fd, data)
        if sync:
            os.fsync(fd)
    except OSError:
        os.ftruncate(fd, size)  # a full disk must not leave half an entry
        raise


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
