"""The ledger as a person reads it: a table, a verdict, a rule undone.

Whatever an entry holds stays on its line and in its cell, and no secret is shown, not
even one that was written down before secrets were masked.  It prints nothing and asks
no server; commands do.
"""

from __future__ import annotations

import csv
import io
import json
import re
import shlex
import sys
import time
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from datetime import time as time_of_day
from typing import NamedTuple

from feishuperm.agents.table import CLAUDE
from feishuperm.errors import FeishupermError
from feishuperm.lib.display import cut, one_line, pad, width
from feishuperm.lib.language import translate
from feishuperm.lib.log import mask
from feishuperm.messages import message_of, msg, word
from feishuperm.models.fields import list_at, number_at, text_at
from feishuperm.models.names import FORM, IDLE, TEST_TOOL
from feishuperm.models.request import GONE
from feishuperm.services.ledger import (
    EXACT,
    INTENT,
    REQUEST,
    START,
    Entry,
    Ledger,
    Name,
    entry_time,
    masked,
    number_of,
    rule_names,
)
from feishuperm.services.ledger_check import Report
from feishuperm.services.rule_writer import RuleWriter, settings_path

COLUMNS = (
    "time", "event", "id", "state", "action", "surface", "who", "tool", "summary",
    "project", "session", "machine", "rules", "reason", "detail",
)  # fmt: skip
FORMULAS = ("=", "+", "-", "@", "\t")  # what a spreadsheet would compute

HEADINGS = ("TIME", "ID", "TOOL", "DECISION", "BY", "DETAIL")
NARROW = ("TIME", "ID", "DECISION", "BY", "WHAT")
WIDE = 120  # columns; with fewer, the command would not be seen
NARROW_CELL, WIDE_CELL = 14, 40
SHORT_ID = re.compile(r"[0-9]+-[0-9a-f]{8}")
LOOKED_THROUGH = 1000  # entries, for the last rule of a chat
SPAN = re.compile(r"(\d{1,5})([smhd])")
SPANS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
CLOCK = re.compile(r"\d{1,2}:\d\d")
REFUSED = "refused"  # the event of an entry: nothing was done
UNDO = "undo"  # the event of an entry: rules were undone
# Names in the ledger, as people are told them.
CALLED = {
    GONE: "session ended",
    "revoke": "pass revoked",
    IDLE: "next step",
    FORM: "form",
    TEST_TOOL: "test card",
    "asked": "stop asked",
    "stopped": "turn stopped",
    "missed": "nothing left to stop",
}
# A card shows eight characters; fewer may be those of several entries.
HEAD = re.compile(r"[0-9a-fA-F]{8,64}")


# Shown.


def table(entries: Sequence[Entry], columns: int) -> str:
    """The entries below their headings, in columns that line up on a terminal.

    Where there is no room for all of it, the command has most of what there is.
    """
    undone = {str(entry.get("id")) for entry in entries if entry.get("event") == UNDO}
    narrow = columns < WIDE
    rows = [tuple(translate(word(name)) for name in (NARROW if narrow else HEADINGS))]
    rows += [_row(e, str(e.get("id")) in undone, narrow) for e in entries]
    widths = [max(map(width, column)) for column in zip(*rows)]
    lines = ("  ".join(map(pad, cells, widths)) for cells in rows)
    return "\n".join(cut(line, columns).rstrip() for line in lines)


def moment(text: str, now: float) -> float:
    """A date, a time of day or a span (`2h`, `3d`) back from now. Raises ValueError."""
    span = SPAN.fullmatch(text)
    if span:
        return now - int(span[1]) * SPANS[span[2]]
    if CLOCK.fullmatch(text):
        today = datetime.fromtimestamp(now)
        clock = datetime.combine(today, time_of_day.fromisoformat(text.zfill(5)))
        return (clock if clock <= today else clock - timedelta(days=1)).timestamp()
    return datetime.fromisoformat(text).timestamp()


def fits(person: str, machine: str) -> Callable[[Entry], bool]:
    """Whether an entry is of this person and machine; empty: of any."""
    wanted = [
        (key, name) for key, name in (("who", person), ("machine", machine)) if name
    ]
    return lambda entry: all(str(entry.get(key)) == name for key, name in wanted)


def as_json(entries: Sequence[Entry]) -> str:
    """The entries with every field."""
    return json.dumps([_masked(entry) for entry in entries], indent=2)


def as_csv(entries: Sequence[Entry]) -> str:
    """The entries for a spreadsheet: one row each, and no cell that is a formula."""
    out = io.StringIO()
    rows = csv.writer(out, lineterminator="\n")
    rows.writerow(COLUMNS)
    for entry in map(_masked, entries):
        moment = _local_time(entry_time(entry), "%Y-%m-%dT%H:%M:%S")
        cells = (moment, *(_cell(entry.get(name)) for name in COLUMNS[1:]))
        rows.writerow(cells)
    return out.getvalue()


def _cell(value: object) -> str:
    text = " ".join(map(str, value)) if isinstance(value, list) else str(value or "")
    text = one_line(text, sys.maxsize)
    return f"'{text}" if text[:1] in FORMULAS else text


def _row(entry: Entry, undone: bool, narrow: bool) -> tuple[str, ...]:
    """An entry in the cells of one line; a narrow one names the tool with the rest."""
    id, tool = str(entry.get("id") or "-"), str(entry.get("tool") or "")
    tool = translate(word(CALLED[tool])) if tool in CALLED else tool
    agent = str(entry.get("agent") or CLAUDE)
    tool = tool if agent == CLAUDE else f"{agent} {tool}"
    by = translate(word(str(entry.get("surface") or "")))
    by = f"{by}: {entry['who']}" if entry.get("who") else by
    if narrow:
        form, most, cells = "%m-%d %H:%M", NARROW_CELL, [short_id(id)]
    else:
        form, most, cells = "%Y-%m-%d %H:%M:%S", WIDE_CELL, [id, tool]
    cells += [_decision(entry), by]
    return (
        _local_time(entry_time(entry), form),
        *(one_line(mask(cell or "-"), most) for cell in cells),
        one_line(mask(_what(entry, tool, undone, narrow) or "-"), sys.maxsize),
    )


def _what(entry: Entry, tool: str, undone: bool, narrow: bool) -> str:
    """What it was about: a command, a path, what a pass is for; and what came after."""
    is_pass = entry.get("event") == "pass"
    what = text_at(entry, *(("grants", "shown") if is_pass else ("detail",)))
    written = ", ".join(map(str, list_at(entry, "rules")))
    if not narrow:
        what = written or what
    else:
        what = what if tool in ("", "Bash") else f"{tool} {what}"
        what = f"! {what}" if entry.get("danger") else what
        what = f"{what} => {written}" if written else what
    return " ".join(filter(None, (what, *_after(entry, undone))))


def _after(entry: Entry, undone: bool) -> tuple[str, ...]:
    """What came after: its rules were undone, something ran, a person said or read."""
    wrote = list_at(entry, "rules") and entry.get("event") != UNDO
    return (
        translate("(undone)") if undone and wrote else "",
        f"-> {entry['ran']}" if entry.get("ran") else "",
        f"({entry['reason']})" if entry.get("reason") else "",
        f"({seen_at(number_at(entry, 'seen'))})" if entry.get("seen") else "",
    )


def seen_at(moment: float) -> str:
    """That a card was read, as a person at a terminal is told it."""
    return translate("seen {time}", time=_local_time(moment, "%H:%M"))


def short_id(id: str) -> str:
    """The end of an id, which tells requests apart and which `undo` takes too."""
    return id.rpartition("-")[2] if SHORT_ID.fullmatch(id) else id


def _decision(entry: Entry) -> str:
    code = entry.get("action") or entry.get("state") or entry.get("event")
    decision = translate(word(CALLED.get(str(code), str(code or ""))))
    if entry.get("event") == REFUSED:  # it was tried, by somebody who must not
        return f"{translate(word(REFUSED))}: {decision}"
    if entry.get("event") == START:
        return f"{decision}: {translate(word(str(entry.get('state'))))}"
    # Whether it reached the session is not known.
    unknown = entry.get("event") == INTENT or entry.get("state") == "unknown"
    return f"{decision} (?)" if unknown else decision


def _local_time(seconds: float, form: str) -> str:
    return time.strftime(form, time.localtime(seconds))


def _masked(entry: Entry) -> Entry:
    return {
        name: value if name in EXACT else masked(value) for name, value in entry.items()
    }


# Suggested.

HABIT = 10  # approvals that make one
HABIT_SECONDS = 30 * 86400.0


class Habit(NamedTuple):
    """A call that people let run again and again, and never refused."""

    project: str
    rule: str  # exact; it would cover the call
    times: int


def habits(ledger: Ledger, writer: RuleWriter) -> list[Habit]:
    """What a rule or a pass would save taps for, most taps first.

    Nothing is written here: that takes a tap, or a person at a terminal.
    """
    times: dict[tuple[str, str], int] = {}
    refused = set()
    for entry in ledger.recent(HABIT_SECONDS):
        # A bare name would let every call of its tool run.
        exact = (rule for rule in map(str, list_at(entry, "would")) if rule[-1:] == ")")
        for key in ((str(entry.get("project")), rule) for rule in exact):
            times[key] = times.get(key, 0) + 1
            if entry.get("denied"):
                refused.add(key)
    found = [
        Habit(project, rule, count)
        for (project, rule), count in times.items()
        if count >= HABIT and (project, rule) not in refused
    ]
    found = [row for row in found if row.rule not in writer.rules(row.project)]
    return sorted(found, key=lambda row: (-row.times, row.project, row.rule))


def suggest(rows: Sequence[Habit]) -> list[str]:
    """The habits as sentences, each with the command that makes a pass for it."""
    lines: list[str] = []
    for project, rule, times in rows:
        command = f"feishuperm passes add {shlex.quote(rule)}"
        place = f"--project {shlex.quote(project)}"
        lines += (
            translate("{}: allowed {} times, never refused", one_line(project), times),
            f"    {one_line(rule, sys.maxsize)}",
            f"    {one_line(f'{command} {place}', sys.maxsize)}",
        )
    if rows:
        lines.append(
            translate("To write a rule for good, tap 始终允许 on the next card of one.")
        )
    return lines or [translate("no call was allowed {} times in a month", HABIT)]


# Checked.


def is_head(text: str) -> bool:
    """Whether a text can be what a card showed of a head."""
    return HEAD.fullmatch(text) is not None


def verdict(report: Report, waiting: int = 0, head: str = "") -> tuple[list[str], bool]:
    """What to tell of a check, and whether all is well.

    `waiting` is how many entries a running server could not write; `head` what a person
    was shown.
    """
    missing = list(report.missing)
    if waiting:
        missing.append(
            msg("{} entries are not written yet: the server holds them", waiting)
        )
    sentences = [*report.problems, *missing, *report.notes]
    sound = not report.problems and not missing
    if head and report.after < 0:
        sound = False
        sentences.append(msg("no entry has the head {}: this is another ledger", head))
    elif head:
        sentences.append(
            msg("the head {} is there; {} entries came after", head, report.after)
        )
    total = report.total
    if sound:
        sentences.append(msg("{} entries, nothing was changed", total))
    elif not report.problems:
        sentences.append(
            msg("{} entries, none was changed, but some are not there", total)
        )
    return sentences, sound


# Undone.


class Undone(NamedTuple):
    """What an undo did."""

    id: str  # of the request, whole
    project: str
    rules: dict[str, bool]  # that it wrote, as they may be shown: was each still there?
    entry: Entry  # for the ledger; empty: none of them was


def undo_rules(
    ledger: Ledger, writer: RuleWriter, id: str, since: float = 0.0
) -> Undone:
    """Take the rules that one request wrote out of the settings, and nothing else.

    `since` says when the request came, if that is known.  An intent that a crash left
    open counts as written: the file shows whether it was.  The caller records `entry`.
    Raises FeishupermError.
    """
    entries = ledger.find(id, since) or _by_short_id(ledger, id)
    if not entries:
        raise FeishupermError(msg("no request {} in the ledger", id), "feishuperm log")
    whole, project = str(entries[0].get("id")), str(entries[0].get("project"))
    written = _written(ledger, entries, writer.rules(project))
    if not written:
        raise FeishupermError(msg("request {} wrote no rule", id))
    # A rule that is back since an earlier undo is another request's.
    done = _undone_names(entries)
    open_rules = [rule for name, rule in written if rule and name not in done]
    removed = writer.undo(project, open_rules) if open_rules else ()
    rules = {mask(shown): rule in removed for (shown, _), rule in written}
    entry = {"event": UNDO, "id": whole, "project": project, "rules": list(removed)}
    return Undone(whole, project, rules, entry if removed else {})


def undo(
    ledger: Ledger,
    writer: RuleWriter,
    id: str,
    tell: Callable[[str], object] = lambda id: None,
) -> list[str]:
    """Undo what one request's "always" wrote, and record it; says what it did.

    `tell` gets the id of the request once that is in the ledger.  Raises
    FeishupermError.
    """
    done = undo_rules(ledger, writer, id)
    said = []
    if done.entry:
        _append(ledger, {**done.entry, "surface": "command"})
        tell(done.id)
        path = settings_path(done.project)
        said.append(msg("{}: a session that runs keeps this until it ends", path))
    for rule, removed in done.rules.items():
        shown = one_line(rule, sys.maxsize)
        gone = msg("not there any more: {}", shown)
        said.append(msg("removed: {}", shown) if removed else gone)
    return said


def undo_last(
    ledger: Ledger, writer: RuleWriter, surfaces: Sequence[str], who: str
) -> Undone | None:
    """Undo the last rules that were written from these surfaces, and record it.

    Rules that are gone already are skipped.  Raises FeishupermError.
    """
    entries = ledger.latest(LOOKED_THROUGH)
    undone = {str(entry.get("id")) for entry in entries if entry.get("event") == UNDO}
    for entry in reversed(entries):
        id, wrote = str(entry.get("id")), entry.get("rules")
        if entry.get("event") != REQUEST or id in undone or not wrote:
            continue
        if entry.get("surface") not in surfaces:
            continue
        done = undo_rules(ledger, writer, id)
        if done.entry:
            _append(ledger, {**done.entry, "surface": "message", "who": who})
            return done
    return None


def _append(ledger: Ledger, entry: Entry) -> None:
    try:
        ledger.append(entry)
    except OSError as error:
        why = message_of(error)
        raise FeishupermError(
            msg("removed the rules, but cannot write {}: {}", ledger.path, why)
        ) from None


def _by_short_id(ledger: Ledger, id: str) -> list[Entry]:
    """The entries of the one request whose id ends so; none if there are several."""
    named = ledger.entries(json.dumps(id)[1:-1])
    entries = [entry for entry in named if short_id(str(entry.get("id"))) == id]
    return entries if len({str(entry.get("id")) for entry in entries}) == 1 else []


class Standing(NamedTuple):
    """A rule written by feishuperm that is still in a project's settings."""

    id: str  # of the request that wrote it
    project: str
    rule: str  # as it may be shown


def standing(ledger: Ledger, writer: RuleWriter) -> list[Standing]:
    """Every rule that "always" wrote and nobody took out, project by project."""
    requests: dict[str, list[Entry]] = {}
    for entry in ledger.entries('"rules": ["', f'"event": "{UNDO}"'):
        if entry.get("rules") or entry.get("event") == UNDO:
            requests.setdefault(str(entry.get("id")), []).append(entry)
    rows: list[Standing] = []
    for id, entries in requests.items():
        project = str(entries[0].get("project"))
        present = writer.rules(project)
        done = _undone_names(entries)
        rows += (
            Standing(id, project, name[0])
            for name, rule in _written(ledger, entries, present)
            if rule in present and name not in done
        )
    return sorted(set(rows), key=lambda row: (row.project, row.rule))


def _written(
    ledger: Ledger, entries: Sequence[Entry], present: Sequence[str]
) -> list[tuple[Name, str]]:
    """The rules that a request wrote, by name and as they stand in the file."""
    ended = {number_of(entry, "intent") for entry in entries}
    pairs: list[tuple[Name, str]] = []
    for entry in entries:
        is_open = entry.get("event") == INTENT and number_of(entry, "seq") not in ended
        if is_open or entry.get("event") == REQUEST:
            pairs += zip(rule_names(entry), ledger.exact(entry, present))
    return pairs


def _undone_names(entries: Sequence[Entry]) -> set[Name]:
    undone = [entry for entry in entries if entry.get("event") == UNDO]
    return {name for entry in undone for name in rule_names(entry)}
