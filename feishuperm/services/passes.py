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
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from feishuperm.errors import FeishupermError, FileError, PayloadError
from feishuperm.lib.files import read_bytes, write_atomic
from feishuperm.lib.log import log, redact
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
        self._rows: dict[str, Pass] = {}
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
        self._rows[row.id] = row
        self._uses[row.id] = 0

    def make(self, scope: Pass, seconds: float, surface: str) -> Pass:
        """Record a pass and let it count. Raises FeishupermError."""
        if not self.has_room():
            raise FeishupermError(f"there are {MOST} passes already", "passes revoke")
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
            raise FeishupermError(f"it cannot be recorded: {error.strerror}") from None
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
        return list(self._rows.values())

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
            del self._rows[row.id]
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
            log(f"{self._mark}: {error.strerror}", "error")

    def _drop_over(self) -> None:
        now, ticks = self._clock(), self._ticks()
        for row in list(self._rows.values()):
            timely = now < row.ends and ticks < row.until
            if not timely or (row.calls and self._uses[row.id] >= row.calls):
                del self._rows[row.id]

    # Kept.

    def restore(self, entries: Iterable[dict[str, Any]]) -> None:
        """Learn from the ledger's sealed lines what an earlier server left."""
        self._era = _text_of(self._mark)
        used: dict[str, set[str]] = {}
        for entry in entries:
            if entry.get("event") == REVOKED:
                self._rows.pop(str(entry.get("id")), None)
            elif isinstance(entry.get("pass"), str):  # an intent, or its end
                used.setdefault(entry["pass"], set()).add(str(entry.get("id")))
            elif entry.get("event") in (MADE, "request"):
                self._restore_one(entry)
        for id in self._rows:
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
            self._rows[row.id] = row


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
    """A pass for whoever lists them."""
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
            f"{rule!r} is no exact rule",
            "as Bash(npm test), Edit(//abs/path), Read(//abs/path), "
            "WebFetch(domain:host): a whole tool has no pass",
        )
    if _WIDE[match[1]].match(match[2]):
        raise FeishupermError(f"{rule!r} is not exact", "a pass has no wildcards")
    if redact(rule) != rule:
        raise FeishupermError("the rule holds a secret, which a pass would keep")


def _text_of(path: str) -> str:
    """What a small file holds; empty: it is not told."""
    try:
        return (read_bytes(path, SMALL) or b"").decode("ascii").strip()
    except (FileError, ValueError):
        return ""
