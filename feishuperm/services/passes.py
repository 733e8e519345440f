"""Passes: the same thing goes through without asking, for a while.

A pass is for exactly one call (by its digest), or for rule texts exactly as "always"
would write them; for some minutes, some calls, a session or a project; in the folder
where it was made; and for a call that runs local files only as long as they stay as
they were.  It compares texts and nothing else, so it never widens: a rule with a `*` in
it matches nothing.

The ledger is where passes are kept.  Who makes one is in it before the pass counts;
each use is in it, synced, before anything is allowed; so is each end.  A server that
starts again learns from its sealed lines what is left, and whatever breaks in between,
there is never a use more than was granted.

    made -> used ... -> over       by time, by its last use, by a person, by a reboot,
                                   by a change of what it runs

A revocation that the disk does not take must hold too: passes name the era they were
made in, which is a file that can be removed even then.

Time is over by either clock, the wall's or the machine's own: setting one back never
prolongs anything.

What a call runs: `danger.command_table` says which of its words could be files; here
the disk is asked.  A file that was not there is none, so one that comes later makes a
difference too.
"""

from __future__ import annotations

import fnmatch
import hashlib
import itertools
import os
import re
import stat
import time
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from feishuperm.danger.command_table import ENTRIES
from feishuperm.danger.reader import read_call
from feishuperm.errors import FeishupermError, FileError, PayloadError
from feishuperm.lib.files import read_bytes, write_atomic
from feishuperm.lib.log import log, redact
from feishuperm.messages import message_of, msg
from feishuperm.models.ask import from_plain, to_plain
from feishuperm.services.ledger import Ledger

DAY = 24 * 3600  # seconds: no pass lives longer
MADE, REVOKED = "pass", "revoke"  # events of the ledger
CHANGED = "changed"  # the surface of an end that a changed file brought
MARK = "passes.era"  # beside the ledger
MOST = 100  # at a time; nobody oversees more
SMALL = 64  # bytes of an era, or of a boot
# Which start of the machine its own clock counts from, where that is told.
BOOT_ID = "/proc/sys/kernel/random/boot_id"
BASH = "Bash("
MAX_FILES = 64  # files of a call
MAX_NAMES = 500  # names that may be files: some ten milliseconds
MAX_LISTED = 1000  # names that are compared with a pattern
MAX_READ = (
    4 << 20
)  # bytes of all of them: a few milliseconds; beyond, who and when tells
_PATTERN = frozenset("*?[")
_EXACT = re.compile(r"(Bash|Edit|Read|WebFetch)\((.+)\)", re.DOTALL)
_WIDE = {
    "Bash": re.compile(r".*\*", re.DOTALL),
    "Edit": re.compile(r"(?!//)|.*(?<!\\)[*?\[]", re.DOTALL),
    "Read": re.compile(r"(?!//)|.*(?<!\\)[*?\[]", re.DOTALL),
    "WebFetch": re.compile(r"(?!domain:[a-z0-9.-]+\Z)"),
}


class Pass(NamedTuple):
    """One pass. Every field has a default, of the type it has in the ledger."""

    id: str = ""
    rules: tuple[str, ...] = ()  # any of these
    call: str = ""  # or exactly this call, by its digest
    shown: str = ""  # what it is for, as a person reads it
    session: str = ""
    project: str = ""  # empty: wherever the session is
    folder: str = ""  # where the call must be made; empty: wherever that is
    files: str = ""  # digest of the local files that it runs
    made: float = 0.0  # wall clock
    ends: float = 0.0  # the same
    until: float = 0.0  # by the machine's own clock
    boot: str = ""  # which counts from this start on
    era: str = ""  # of the file without which it is not restored
    calls: int = 0  # how many are granted; 0: not counted
    who: str = ""


class Call(NamedTuple):
    """A call that asks."""

    rules: tuple[str, ...]
    digest: str
    session: str
    project: str
    folder: str = ""
    files: str = ""


class Passes:
    """Those that are still good."""

    def __init__(
        self,
        ledger: Ledger,
        clock: Callable[[], float] = time.time,
        ticks: Callable[[], float] = time.monotonic,
        boot: str | None = None,
    ) -> None:
        self._ledger = ledger
        self._clock = clock
        self._ticks = ticks
        self._boot = _text_of(BOOT_ID) if boot is None else boot
        self._era = ""
        self._mark = os.path.join(os.path.dirname(ledger.path), MARK)
        self.rows: dict[str, Pass] = {}  # some of them may be over
        self._uses: dict[str, int] = {}

    # Made.

    def draft(self, scope: Pass, seconds: float) -> Pass:
        """A pass that begins now; it counts once it is recorded and `add`ed."""
        seconds = min(max(1.0, seconds), DAY)
        now, ticks = self._clock(), self._ticks()
        return scope._replace(
            id=os.urandom(4).hex(),
            made=round(now, 3),
            ends=round(now + seconds, 3),
            until=round(ticks + seconds, 3),
            boot=self._boot,
            era=self._begin_era(),
        )

    def has_room(self) -> bool:
        return len(self.all()) < MOST

    def add(self, row: Pass) -> None:
        """Let a pass count; it is in the ledger."""
        self.rows[row.id] = row
        self._uses[row.id] = 0

    def make(self, scope: Pass, seconds: float, surface: str) -> Pass:
        """Record a pass and let it count. Raises FeishupermError."""
        if not self.has_room():
            raise FeishupermError(
                msg("there are {} passes already", MOST), "passes revoke"
            )
        row = self.draft(scope, seconds)
        entry = {
            "id": row.id,
            "action": MADE,
            "surface": surface,
            "who": row.who,
            "project": row.project,
            "session": row.session,
            "grants": to_plain(row),
        }
        try:
            ticket = self._ledger.intend(entry)
        except OSError as error:
            raise FeishupermError(
                msg("it cannot be recorded: {}", message_of(error))
            ) from None
        self._ledger.finish(ticket, {**entry, "event": MADE})
        self.add(row)
        return row

    # Used.

    def find(self, call: Call) -> Pass | None:
        """The pass for a call, if there is one that is still good."""
        return next((row for row in self.all() if covers(row, call)), None)

    def end_stale(self, call: Call) -> list[Pass]:
        """End those for this call that were made before its files changed."""
        rows = [row for row in self.all() if covers(row, call, any_files=True)]
        stale = [row for row in rows if row.files != call.files]
        return [end for row in stale for end in self.revoke(row.id, CHANGED)]

    def spend(self, id: str) -> None:
        """Count a use; it is in the ledger, and nothing is allowed yet."""
        self._uses[id] += 1
        self._drop_over()

    # Over.

    def all(self) -> list[Pass]:
        """Those that are good now, oldest first."""
        self._drop_over()
        return list(self.rows.values())

    def left(self, row: Pass) -> int | None:
        """How many calls are left; None: they are not counted."""
        return row.calls - self._uses[row.id] if row.calls else None

    def seconds_left(self, row: Pass) -> int:
        left = min(row.ends - self._clock(), row.until - self._ticks())
        return max(0, int(left))

    def revoke(self, id: str, surface: str, who: str = "") -> list[Pass]:
        """End one pass, or all of them, at once; returns those that ended.

        It holds even if the disk does not take it now: then it is written later, and
        the era ends, so that a server which starts before restores no pass.
        """
        ended = [row for row in self.all() if id in (row.id, "all")]
        for row in ended:
            del self.rows[row.id]
            entry = {"event": REVOKED, "id": row.id, "action": REVOKED}
            where = {"project": row.project, "session": row.session}
            self._ledger.note({**entry, **where, "surface": surface, "who": who})
            log(f"pass {row.id} is revoked")
        if ended:
            self._ledger.flush()
        if self._ledger.pending():
            self._end_era()
        return ended

    def _begin_era(self) -> str:
        """What a pass must name to be restored; those before it name another."""
        if not self._era:
            era = os.urandom(8).hex()
            try:
                write_atomic(self._mark, era.encode(), mode=0o600)
                self._era = era
            except FileError as error:
                log(f"passes end with this server: {error}", "warning")
        return self._era

    def _end_era(self) -> None:
        self._era = ""
        try:
            os.unlink(self._mark)
        except FileNotFoundError:
            pass
        except OSError as error:
            log(f"{self._mark}: {message_of(error)}", "error")

    def _drop_over(self) -> None:
        now, ticks = self._clock(), self._ticks()
        for row in list(self.rows.values()):
            timely = now < row.ends and ticks < row.until
            if not timely or (row.calls and self._uses[row.id] >= row.calls):
                del self.rows[row.id]

    # Kept.

    def restore(self, entries: Iterable[dict[str, Any]]) -> None:
        """Learn from the ledger's sealed lines what an earlier server left."""
        self._era = _text_of(self._mark)
        used: dict[str, set[str]] = {}
        for entry in entries:
            if entry.get("event") == REVOKED:
                self.rows.pop(str(entry.get("id")), None)
            elif isinstance(entry.get("pass"), str):  # an intent, or its end
                used.setdefault(entry["pass"], set()).add(str(entry.get("id")))
            elif entry.get("event") in (MADE, "request"):
                self._restore_one(entry)
        for id in self.rows:
            self._uses[id] = len(used.get(id, ()))
        self._drop_over()

    def _restore_one(self, entry: dict[str, Any]) -> None:
        row = read_pass(entry.get("grants"))
        if row is None or entry.get("state") == "unknown":
            return
        if not row.era or (row.boot, row.era) != (self._boot, self._era):
            return
        span = row.ends - row.made
        # What lasts longer than any pass was not written by us.
        if 0 < span <= DAY and row.until <= self._ticks() + DAY:
            self.rows[row.id] = row


def covers(row: Pass, call: Call, any_files: bool = False) -> bool:
    """Whether a pass is for this very call, made where and as it is."""
    if row.files != call.files and not any_files:
        return False
    if row.folder and row.folder != call.folder:
        return False
    if row.session and row.session != call.session:
        return False
    if row.project and row.project != call.project:
        return False
    if not row.session and not row.project:
        return False
    if row.call:
        return row.call == call.digest
    return bool(set(row.rules) & set(call.rules))


def read_pass(value: object) -> Pass | None:
    """A pass as it was kept; None for anything else."""
    try:
        row = from_plain(Pass, value)
    except PayloadError:
        return None
    return row if row.id and row.calls >= 0 else None


def describe(passes: Passes, row: Pass) -> dict[str, Any]:
    """A pass as a list shows it."""
    return {
        "id": row.id,
        "shown": row.shown,
        "rules": list(row.rules),
        "session": row.session,
        "project": row.project,
        "folder": row.folder,
        "made": row.made,
        "ends": row.ends,
        "seconds_left": passes.seconds_left(row),
        "calls_left": passes.left(row),
        "who": row.who,
    }


def check_rule(rule: str) -> None:
    """Raises FeishupermError for a rule that is not exact, or not to be kept."""
    match = _EXACT.fullmatch(rule)
    if match is None:
        raise FeishupermError(
            msg("{!r} is no exact rule", rule),
            msg(
                "as Bash(npm test), Edit(//abs/path), Read(//abs/path), "
                "WebFetch(domain:host): a whole tool has no pass"
            ),
        )
    if _WIDE[match[1]].match(match[2]):
        raise FeishupermError(
            msg("{!r} is not exact", rule), msg("a pass has no wildcards")
        )
    if redact(rule) != rule:
        raise FeishupermError(msg("the rule holds a secret, which a pass would keep"))


def _text_of(path: str) -> str:
    """What a small file holds; empty: it is not told."""
    try:
        return (read_bytes(path, SMALL) or b"").decode("ascii").strip()
    except (FileError, ValueError):
        return ""


# What is in the files that a call may run.


def digest_of(paths: Iterable[str]) -> str:
    """What is in the files among these; empty: none of them is one.

    Where they cannot all be looked at, it is like no other.
    """
    digest, left = hashlib.sha256(), MAX_READ
    files, is_whole = _files(paths)
    for path in files:
        found, size = _content(path, left)
        left -= size
        digest.update(b"%s\0%s\0" % (os.fsencode(path), found))
    if not is_whole:
        return os.urandom(32).hex()
    return digest.hexdigest() if files else ""


def rule_digest(rule: str, folder: str) -> str:
    """The same of what a rule lets run in a folder."""
    command = rule[len(BASH) : -1] if rule.startswith(BASH) else ""
    home, call = os.path.expanduser("~"), {"command": command}
    return digest_of(read_call("Bash", call, folder, home, folder).files)


def _files(paths: Iterable[str]) -> tuple[list[str], bool]:
    """Those that are files, each once, links resolved; and whether these are all."""
    seen: dict[str, None] = {}
    left = MAX_NAMES
    for path in paths:
        names, known = _named(path, left)
        left -= len(names)
        if not known or left < 0 or len(seen) > MAX_FILES:
            return [], False
        reals = map(os.path.realpath, names)
        seen.update(dict.fromkeys(filter(os.path.isfile, reals)))
    return list(seen), len(seen) <= MAX_FILES


def _named(path: str, most: int) -> tuple[list[str], bool]:
    """What a word may mean: itself, what a pattern matches, what runs of a folder.

    And whether that can be told by a look at so many.
    """
    if "\0" in path:
        return [], False
    names, known = [path], True
    if not _PATTERN.isdisjoint(path):
        matches, known = _matches(path)
        names += matches
    if len(names) > most:
        return [], False
    folders = [name for name in names if os.path.isdir(name)]
    return names + [os.path.join(f, entry) for f in folders for entry in ENTRIES], known


def _matches(path: str) -> tuple[list[str], bool]:
    """What a pattern matches, and whether that is all: no disk is searched for it."""
    found, left = ["/"], MAX_LISTED
    for part in path.split("/")[1:]:
        if _PATTERN.isdisjoint(part):
            found = [os.path.join(folder, part) for folder in found]
            continue
        folders, found = found, []
        for folder in folders:
            names = _listed(folder, left)
            left -= len(names)
            if left < 0:
                return [], False
            found += [os.path.join(folder, n) for n in fnmatch.filter(names, part)]
    return found, True


def _listed(folder: str, most: int) -> list[str]:
    """The names in a folder, in one order; one more than so many: there are more."""
    try:
        with os.scandir(folder) as entries:
            return sorted(e.name for e in itertools.islice(entries, most + 1))
    except OSError:
        return []


def _content(path: str, left: int) -> tuple[bytes, int]:
    """What tells this content from another, and how many bytes were read for it."""
    try:
        # Nobody waits for the other end of a pipe that has taken its place.
        with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb") as file:
            about = os.fstat(file.fileno())
            if about.st_size <= left and stat.S_ISREG(about.st_mode):
                data = file.read(left)
                return hashlib.sha256(data).digest(), len(data)
    except OSError:
        return b"unread", 0
    # Nobody sets the time of a change back but who owns the machine.
    facts = about.st_dev, about.st_ino, about.st_size, about.st_ctime_ns
    return repr(facts).encode(), 0
