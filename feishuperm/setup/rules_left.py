"""The rules that "always allow" wrote into projects: who purges us is told of them.

Once the ledger is gone nobody can tell them from the person's own, so they are listed
first, and on a terminal taken back if the person says so.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from feishuperm.errors import FeishupermError
from feishuperm.lib.terminal import complain, say, show
from feishuperm.services.history import Standing, standing, undo
from feishuperm.services.ledger import Ledger
from feishuperm.services.rule_writer import RuleWriter


def rules_left(environ: Mapping[str, str]) -> list[Standing]:
    """What is still there; nothing if that cannot be told."""
    try:
        return standing(Ledger(environ=environ), RuleWriter())
    except OSError:
        return []


def tell(rows: Sequence[Standing]) -> None:
    """Name every rule below its project."""
    if not rows:
        return
    say(
        f'rules that "always allow" wrote are still in projects ({len(rows)}), and log '
        "undo cannot take them back any more:"
    )
    for project in dict.fromkeys(row.project for row in rows):
        show(f"  {project}")
        for row in rows:
            if row.project == project:
                show(f"    {row.rule}")


def offer(
    rows: Sequence[Standing], environ: Mapping[str, str], ask: Callable[[str], str]
) -> None:
    """Take them back, unless the person would rather keep them."""
    try:
        answer = ask("take them back first? [Y/n] ").strip().lower()
    except EOFError:
        answer = "n"
    if answer not in ("", "y", "yes"):
        return
    ledger = Ledger(environ=environ)
    for id in dict.fromkeys(row.id for row in rows):
        try:
            for line in undo(ledger, RuleWriter(), id):
                say(line)
        except FeishupermError as error:
            complain(error)
