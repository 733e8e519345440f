"""The record of decisions: JSON lines that only their key can have written.

How to use it, in a process with one thread and a loop:

    ledger = Ledger()
    ledger.recover()                  # at start: closes what a crash left open
    intent = ledger.intend(entry)     # on the disk, or OSError: then do not allow
    ...write the rule, send the decision...
    ledger.finish(intent, entry)      # never raises
    ledger.note(entry)                # ends nobody decided; written with the next...
    ledger.flush()                    # ...call of this: every 0.1 s while it is not 0,
                                      # every second while there is a `problem`
    ledger.state()                    # the value of `ledger` in the server's status
    ledger.head()                     # eight characters for a card or a page

`intend()` and `flush()` hold the thread for `QUICK` seconds at most beside the disk's
own time.  What cannot be written (a lock held by somebody, a full disk, a folder that
is read-only or gone) waits in memory, in its order, and is tried again by every later
call; what fits into the spool (`services.ledger_spool`) survives even a kill.  Past
`MAX_WAITING` entries the further ones are only counted; that number becomes
an entry of its own (`event: lost`) as soon as anything can be written.  A process that
lives a moment calls `append()`, which waits longer, and raises.

What a line, the key and the head are, and how a crash or a forgery shows in them, is
told in `services.ledger_lines`; `services.ledger_check` looks for it.  Several
processes may write; they take turns by a lock on the file.
"""

from __future__ import annotations

import errno
import itertools
import json
import os
import stat
import time
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from feishuperm.lib.config import config_dir, state_dir
from feishuperm.lib.files import acquire, open_append
from feishuperm.services.ledger_lines import (
    MAX_LINE,
    RESERVED,
    Chain,
    Entry,
    Head,
    append_data,
    clean,
    decode,
    end_of,
    entry_time,
    gap_between,
    is_sealed,
    make_key,
    place_in,
    place_of,
    read_head,
    read_key,
    read_tail,
    reversed_lines,
    rule_mark,
    rule_names,
    seal,
    with_marks,
    write_head,
)
from feishuperm.services.ledger_spool import Spool

WAIT = 5.0  # seconds; others hold the lock for one write and two fsyncs
STEP = 0.002  # between tries: no longer than others hold it, or the patient never win
QUICK = 0.03  # the same for a server, whose every other client waits meanwhile
MAX_WAITING = 10_000  # entries in memory: some MB, and hours of an ordinary day
MAX_BATCH = 1000  # entries written at once: some ten milliseconds
MAX_RECENT = 20_000  # entries that are handed out at once
DAY = 24 * 3600.0
SLACK = 3600.0  # how far back clocks are turned: entries are nearly in order of time
INTENT, REQUEST, LOST = "intent", "request", "lost"
UNKNOWN = "unknown"  # the state of a request whose server died while it decided


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
        self._spool = Spool(os.path.splitext(self.path)[0] + ".late")
        self._spooled = 0  # how many of the waiting are there too
        self._lost = 0
        self._unsynced = False
        self._head = ""  # the last hash this process has put on the disk
        self._unkept = ""  # why it could not be kept apart

    # Writing, for those who can wait.

    def append(self, entry: Entry) -> Entry:
        """Add an entry and return it as stored. Raises OSError."""
        return self._write([clean(entry)], WAIT)[0]

    # Writing, for the loop.

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
        return place_in(stored)

    def finish(self, intent: int, entry: Entry) -> None:
        """Tell what came of an intent, at once or as soon as possible."""
        self.note({**entry, "intent": intent})
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
        try:
            key = b"" if self._head else read_key(self.key_path)
            if key:
                self._head = read_head(self.head_path, key).hash
        except OSError:
            pass  # nobody is kept waiting for it
        return self._head[:8]

    def recover(self) -> list[Entry]:
        """Write what the last server left to be written, and close its open intents.

        Returns the ends of those.
        """
        self._spool.prepare()
        if not self._waiting:
            self._waiting = self.late()
            self._spooled = len(self._waiting)
        ended = {end_of(entry) for entry in self._waiting}
        ends = []
        for intent in self.open_intents():
            when = entry_time(intent)
            # A process of that number may be another one: no intent takes a minute.
            lives = self._clock() - when < 60 and _lives_elsewhere(intent.get("pid"))
            if lives or intent["seq"] in ended:
                continue
            own = (*RESERVED, "time", "pid")
            end = {name: intent[name] for name in intent if name not in own}
            end.update(event=REQUEST, state=UNKNOWN, intent=intent["seq"], ended=when)
            ends.append(end)
            self.note(end)
        self.flush()
        return ends

    def late(self) -> list[Entry]:
        """The entries in the spool that did not reach the ledger."""
        lines = self._spool.read()
        if not lines:
            return []
        key = read_key(self.key_path)
        entries = [decode(line) for line in lines if key and is_sealed(key, line)]
        # Written, and then there was no time to clear the spool.
        written = {str(entry.get("late")) for entry in self.recent(DAY)}
        return [row for row in entries if row and row.get("late") not in written]

    def _spill(self) -> None:
        """Put what waits where a kill cannot take it."""
        try:
            key = read_key(self.key_path)
        except OSError:
            return
        entries = self._waiting[self._spooled :]
        for entry in entries:
            entry.setdefault("late", os.urandom(8).hex())
        lines = [seal(key, with_marks(key, entry))[0] for entry in entries]
        if key and lines and self._spool.add(lines):
            self._spooled = len(self._waiting)

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
        self._spooled = max(0, self._spooled - count)
        self.problem = ""
        self._unsynced = not sync
        if sync and not self._waiting:
            self._spool.clear()

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
            last, torn = read_tail(fd, size, key)
            head = read_head(self.head_path, key)
            chain = Chain(key, last, torn, head, round(self._clock(), 3))
            stored = [chain.add(entry) for entry in entries]
            append_data(fd, size, chain.data(), sync)
            if sync and chain.anchors():
                self._head = chain.last.hash
                kept = chain.last.seq if sync_head else head.synced
                self._unkept = write_head(self.head_path, key, chain.last, kept)
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

    def entries(self, *parts: str) -> Iterator[Entry]:
        """Every entry that can be read, oldest first; those with one of these in them.

        Decoding a line takes twenty times as long as looking for a part of it.
        """
        wanted = [part.encode() for part in parts]
        for line in self.lines():
            if not wanted or any(part in line for part in wanted):
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
        newer = self._newer(since - SLACK)
        entries = (entry for entry in newer if entry_time(entry) >= since)
        return list(itertools.islice(entries, MAX_RECENT))[::-1]

    def vouched(self, seconds: float) -> list[Entry]:
        """The same as far as it can be relied on; nothing where the end is missing.

        Each line is sealed and follows from the one before, up to the head.
        """
        key, since = read_key(self.key_path), self._clock() - seconds
        head = read_head(self.head_path, key) if key else Head(why="missing")
        latest: list[Entry] = []
        lines = self._backward_lines() if key else iter(())
        next(lines, b"")  # what follows the last line end
        for line in lines:
            place, entry = place_of(line), decode(line)
            if place is None or entry is None or not is_sealed(key, line):
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
        if not since:
            return [e for e in self.entries(json.dumps(id)) if e.get("id") == id]
        entries = self._newer(since - SLACK)
        return [entry for entry in entries if entry.get("id") == id][::-1]

    def _newer(self, oldest: float) -> Iterator[Entry]:
        """From the end, up to the first that is older."""
        return itertools.takewhile(
            lambda entry: entry_time(entry) >= oldest, self._backwards()
        )

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
        names = rule_names(entry)
        key = read_key(self.key_path) if any(mark for _, mark in names) else b""
        marked = {rule_mark(key, rule): rule for rule in present} if key else {}
        return [marked.get(mark, "") if mark else rule for rule, mark in names]

    def lines(self, size: int = -1, begin: int = 0) -> Iterator[bytes]:
        """Every line with its end, up to a size; too long ones come in pieces."""
        size -= begin
        try:
            with open(self.path, "rb") as file:
                file.seek(begin)
                while size:
                    line = file.readline(min(size, MAX_LINE) if size > 0 else MAX_LINE)
                    if not line:
                        return
                    size -= len(line) if size > 0 else 0
                    yield line
        except FileNotFoundError:
            return

    def _backwards(self) -> Iterator[Entry]:
        for line in self._backward_lines():
            entry = decode(line)
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


def head_path_of(path: str, environ: Mapping[str, str]) -> str:
    """Where the head of a ledger is kept; another ledger has another."""
    checksum = zlib.crc32(os.fsencode(os.path.realpath(path)))
    return os.path.join(config_dir(environ), f"ledger-{checksum:08x}.head")


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
