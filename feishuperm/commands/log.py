"""`feishuperm log`: who decided what, when, by which surface, and which rule it wrote.

Shows the ledger, checks its chain, and undoes the rule of an "always allow".
"""

from __future__ import annotations

import contextlib
import json
import shutil
import sys
import time
from argparse import Namespace

from feishuperm.errors import FeishupermError
from feishuperm.lib.arguments import ArgumentParser, number
from feishuperm.lib.control import ask_server
from feishuperm.lib.language import translate
from feishuperm.lib.terminal import say
from feishuperm.messages import message_of, msg
from feishuperm.services import history
from feishuperm.services.ledger import Entry, Ledger
from feishuperm.services.ledger_check import check
from feishuperm.services.rule_writer import RuleWriter


def main(args: list[str]) -> int:
    options, ledger = _options(args), Ledger()
    if options.action == "undo":
        for line in history.undo(ledger, RuleWriter(), options.id, _tell_undone):
            say(line)
    elif options.action == "verify":
        return verify(ledger, options.head or "")
    elif options.action == "suggest":
        habits = history.habits(ledger, RuleWriter())
        rows = [habit._asdict() for habit in habits]
        said = "\n".join(history.suggest(habits))
        print(json.dumps(rows, indent=2) if options.json else said)
    else:
        fits = history.fits(options.person, options.machine)
        _show(ledger.latest(options.n, options.since, fits), options)
    return 0


def _options(args: list[str]) -> Namespace:
    """What is asked for. Ends the process where the words do not fit together."""
    parser = ArgumentParser("log", "--json", "--csv")
    add = parser.add_argument
    add("action", nargs="?", choices=("verify", "undo", "suggest"))
    add("id", nargs="?")
    add("-n", type=number, default=20, metavar="N")
    add("--since", type=_moment, default=0.0, metavar="WHEN")
    add("--person", default="")
    add("--machine", default="")
    add("--head")
    options = parser.parse_args(args)
    if (options.action == "undo") != (options.id is not None):
        parser.error(msg("undo needs the id of one request"))
    if options.n < 0:
        parser.error(msg("-n needs a number from 0 up"))
    if options.head is not None and not (
        options.action == "verify" and history.is_head(options.head)
    ):
        parser.error(msg("--head needs the 8 to 64 hex digits of a card, after verify"))
    return options


def _moment(text: str) -> float:
    try:
        return history.moment(text, time.time())
    except (ValueError, OverflowError):
        raise ValueError(
            msg("{!r} is no date, no time and no span such as 2h or 3d", text)
        ) from None


def _show(entries: list[Entry], options: Namespace) -> None:
    if options.csv:
        print(history.as_csv(entries), end="")
    elif options.json:
        print(history.as_json(entries))
    else:
        nothing = msg("nothing has been decided yet")
        if options.since or options.person or options.machine:
            nothing = msg("no entry fits")
        table = history.table(entries, _columns())
        print(table if entries else translate(nothing))


def _tell_undone(id: str) -> None:
    """Let a running server look: its pages strike the rules through."""
    with contextlib.suppress(FeishupermError):
        ask_server({"command": "undone", "id": id})


def verify(ledger: Ledger, head: str) -> int:
    """Say whether the chain holds, or name the lines where it does not."""
    try:
        report = check(ledger, head)
    except OSError as error:
        raise FeishupermError(
            msg("cannot read {}: {}", ledger.path, message_of(error))
        ) from None
    sentences, sound = history.verdict(report, _waiting(), head)
    for sentence in sentences:
        say("{}: {}", ledger.path, sentence)
    return 0 if sound else 1


def _waiting() -> int:
    """How many entries a running server could not write yet."""
    try:
        state = ask_server({"command": "status"}).get("ledger")
    except FeishupermError:
        return 0
    pending = state.get("pending") if isinstance(state, dict) else 0
    return pending if isinstance(pending, int) else 0


def _columns() -> int:
    """The terminal's width; a pipe or a file gets whole lines."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else sys.maxsize
