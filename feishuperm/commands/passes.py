"""`feishuperm passes`: what goes through without asking for a while.

Lists passes, makes one after showing its exact scope, and ends them.  There is no
option to answer for the person: what nobody has read is not let through.
"""

from __future__ import annotations

import json
import os
import time
from typing import Any

from feishuperm.errors import UsageError
from feishuperm.lib.arguments import ArgumentParser, number
from feishuperm.lib.control import ask_server
from feishuperm.lib.display import one_line
from feishuperm.lib.language import translate
from feishuperm.lib.process_tree import require_person
from feishuperm.lib.terminal import ask, say, show
from feishuperm.messages import msg
from feishuperm.services.grants import check_rule

MINUTES, DAY = 10, 24 * 60
NO_PASSES = msg("there are no passes")


def main(args: list[str]) -> int:
    parser = ArgumentParser("passes", "--json")
    add = parser.add_argument
    add("action", nargs="?", choices=("add", "revoke"))
    add("what", nargs="?")
    add("--calls", type=number)
    add("--minutes", type=number)
    add("--session")
    add("--project")
    options = parser.parse_args(args)
    if options.action is None:
        return _list(options.json)
    if not options.what:
        is_add = options.action == "add"
        parser.error(msg("add what?") if is_add else msg("revoke what?"))
    if options.action == "revoke":
        return _revoke(options.what)
    return _add(options)


def _list(as_json: bool) -> int:
    passes = ask_server({"command": "passes"})["passes"]
    if as_json:
        print(json.dumps(passes, indent=2))
    elif not passes:
        say(NO_PASSES)
    for row in () if as_json else passes:
        show("\n".join(lines(row)))
    return 0


def lines(row: dict[str, Any]) -> list[str]:
    """A pass for a person."""
    ends = time.strftime("%H:%M", time.localtime(float(row["ends"])))
    left = row["calls_left"]
    counted = "" if left is None else msg(", {} calls left", left)
    minutes = -(-int(row["seconds_left"]) // 60)
    place = msg("session {}", row["session"][:8]) if row["session"] else row["project"]
    scope = msg("in {}, until {} ({} min){}", place, ends, minutes, counted)
    return [
        one_line(f"{row['id']}  {row['shown']}", 2000),
        one_line(translate(scope), 2000),
    ]


def _revoke(id: str) -> int:
    revoked = ask_server({"command": "pass_revoke", "id": id})["revoked"]
    for done in revoked:
        say("revoked: {}", done)
    if not revoked:
        say(msg("there is no pass {}", one_line(id)) if id != "all" else NO_PASSES)
    return 0 if revoked or id == "all" else 1


def _bounds(options: Any) -> tuple[int, int]:
    """For how many minutes and calls; 0 calls are as many as there are."""
    bounded = options.calls is not None or options.session
    if any(n is not None and n < 1 for n in (options.minutes, options.calls)):
        raise UsageError(msg("--minutes and --calls need a number from 1 up"), "")
    minutes = options.minutes or (DAY if bounded else MINUTES)
    return min(minutes, DAY), options.calls or 0


def _add(options: Any) -> int:
    """Show the scope, word by word, and make the pass if a person says so."""
    check_rule(options.what)
    minutes, calls = _bounds(options)
    require_person(os.environ)
    project = os.path.realpath(options.project or ".")
    where = msg("session {}", options.session) if options.session else project
    say("without asking:")
    show("  " + options.what.replace("\n", "\n  "))
    counted = msg("in {}, for {} minutes and {} calls", where, minutes, calls)
    say(counted if calls else msg("in {}, for {} minutes", where, minutes))
    if ask("create this pass? [y/N] ") not in ("y", "yes"):
        say("not made")
        return 1
    made = ask_server(
        {
            "command": "pass_add",
            "rule": options.what,
            "minutes": minutes,
            "calls": calls,
            "session": options.session or "",
            "project": project,
        }
    )["pass"]
    show("\n".join(lines(made)))
    return 0
