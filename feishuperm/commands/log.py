"""`feishuperm log`: who decided what, when, by which surface, and which rule it wrote.

Shows the ledger, checks its chain, and takes back the rule of an "always allow".
"""

from __future__ import annotations

import json
import shutil
import sys
import time
import unicodedata

from feishuperm.errors import FeishupermError
from feishuperm.lib.arguments import ArgumentParser
from feishuperm.lib.display import one_line
from feishuperm.services.ledger import Ledger, entry_time
from feishuperm.services.ledger_check import check
from feishuperm.services.rule_writer import RuleWriter, settings_path

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

SUMMARY = "the decision ledger: show, verify, take a rule back"
SHOWN = 20
USAGE = """feishuperm log [-n N] [--json]
       feishuperm log verify
       feishuperm log undo ID"""
EPILOG = """\
verify checks that no line was changed, taken out or put in; undo ID takes back the
rules that "always allow" wrote for a request."""
HEADINGS = ("TIME", "ID", "TOOL", "DECISION", "BY", "DETAIL")


def main(args: list[str]) -> int:
    parser = ArgumentParser("log", SUMMARY, EPILOG, USAGE)
    add = parser.add_argument
    add("action", nargs="?", choices=("verify", "undo"))
    add("id", nargs="?")
    many = f"the last N entries (default {SHOWN}, 0 for all)"
    add("-n", type=int, default=SHOWN, metavar="N", help=many)
    add("--json", action="store_true", help="as JSON, with every field")
    options = parser.parse_args(args)
    if (options.action == "undo") != (options.id is not None):
        parser.error("undo needs the id of one request")
    if options.n < 0:
        parser.error("-n needs a number from 0 up")
    if options.action == "undo":
        return undo(Ledger(), options.id)
    if options.action == "verify":
        return verify(Ledger())
    entries = list(Ledger().entries())[-options.n :]
    text = json.dumps(entries, indent=2) if options.json else table(entries, _columns())
    print(text)
    return 0


def verify(ledger: Ledger) -> int:
    """Say whether the chain holds, or name the lines where it does not."""
    report = check(ledger)
    for sentence in (*report.problems, *report.missing, *report.notes):
        print(f"{ledger.path}: {sentence}")
    if report.sound():
        print(f"{ledger.path}: {report.total} entries, nothing was changed")
    return 0 if report.sound() else 1


def undo(ledger: Ledger, id: str) -> int:
    """Take back what one request's "always" wrote, and nothing else."""
    entries = ledger.find(id)
    written = _rules(entries, "request")
    if not entries:
        raise FeishupermError(f"no request {id} in the ledger", "feishuperm log")
    if not written:
        raise FeishupermError(f"request {id} wrote no rule")
    # A rule that is back since an earlier undo is another request's.
    rules = [rule for rule in written if rule not in _rules(entries, "undo")]
    project = str(entries[0].get("project"))
    removed = RuleWriter().undo(project, rules) if rules else ()
    if removed:
        _record(ledger, id, project, removed)
        print(f"{settings_path(project)}: a session that runs keeps this until it ends")
    for rule in written:
        state = "removed" if rule in removed else "not there any more"
        print(f"{state}: {one_line(rule, sys.maxsize)}")
    return 0


def table(entries: Sequence[dict[str, Any]], columns: int) -> str:
    """The entries below their headings, in columns that line up on a terminal."""
    rows = [HEADINGS, *(_row(entry) for entry in entries)]
    widths = [max(map(width, column)) for column in zip(*rows)]
    lines = []
    for row in rows:
        cells = [cell + " " * (widths[i] - width(cell)) for i, cell in enumerate(row)]
        lines.append(cut("  ".join(cells), columns).rstrip())
    return "\n".join(lines)


def width(text: str) -> int:
    """How many columns a terminal gives a text."""
    return sum(_cell_width(character) for character in text)


def cut(text: str, columns: int) -> str:
    """As much of a text as fits."""
    used = 0
    for index, character in enumerate(text):
        used += _cell_width(character)
        if used > columns:
            return text[:index]
    return text


def _cell_width(character: str) -> int:
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def _rules(entries: Sequence[dict[str, Any]], event: str) -> list[str]:
    return [
        str(rule)
        for entry in entries
        if entry.get("event") == event
        for rule in entry.get("rules") or ()
    ]


def _record(ledger: Ledger, id: str, project: str, rules: Sequence[str]) -> None:
    entry = {"event": "undo", "id": id, "surface": "command", "project": project}
    try:
        ledger.append({**entry, "rules": list(rules)})
    except OSError as error:
        raise FeishupermError(
            f"removed the rules, but cannot write {ledger.path}: {error.strerror}"
        ) from None


def _row(entry: dict[str, Any]) -> tuple[str, ...]:
    """One entry; whatever it holds stays on its line and in its cell."""
    decision = entry.get("action") or entry.get("state") or entry.get("event")
    rules = entry.get("rules") or ()
    detail = ", ".join(map(str, rules)) if rules else entry.get("detail")
    if entry.get("reason"):
        detail = f"{detail or ''} ({entry['reason']})"
    cells = (entry.get("id"), entry.get("tool"), decision, entry.get("surface"))
    shown = [one_line(str(cell or "-"), 40) for cell in cells]
    return (
        _local_time(entry_time(entry)),
        *shown,
        one_line(str(detail or "-"), sys.maxsize),
    )


def _local_time(seconds: float) -> str:
    try:
        return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(seconds))
    except (OverflowError, ValueError):  # written by somebody else
        return "-"


def _columns() -> int:
    """The terminal's width; a pipe or a file gets whole lines."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else sys.maxsize
