"""`feishuperm machines`: on a gateway, which machines have joined it."""

from __future__ import annotations

import json
from typing import Any

from feishuperm.lib.arguments import ArgumentParser
from feishuperm.lib.config import gateway_socket
from feishuperm.lib.control import NotRunningError, ask_server
from feishuperm.lib.display import one_line
from feishuperm.lib.language import translate
from feishuperm.lib.terminal import say
from feishuperm.messages import msg


def main(args: list[str]) -> int:
    """List, rename, or revoke."""
    parser = ArgumentParser("machines", "--json")
    parser.add_argument("action", nargs="?", choices=("rename", "revoke"))
    parser.add_argument("id", nargs="?")
    parser.add_argument("name", nargs="?")
    parser.add_argument("--owner", default="")
    options = parser.parse_args(args)
    if options.action is None:
        return _list(options.json)
    names_one = bool(options.id) != bool(options.owner)  # a machine, or a person
    if options.action == "rename" and options.id and options.name:
        answer = _ask(command="rename", id=options.id, name=options.name)
        say("{} is now {}", options.id, answer["name"])
    elif options.action == "revoke" and names_one and not options.name:
        answer = _ask(command="revoke", id=options.id, owner=options.owner)
        say("revoked {}", ", ".join(answer["revoked"]))
    else:
        parser.error(msg("which machine?"))
    return 0


def _ask(**command: Any) -> dict[str, Any]:
    path = gateway_socket()
    try:
        return ask_server(command, path=path)
    except NotRunningError:
        raise NotRunningError(
            msg("no gateway runs here for this user"), "feishuperm gateway"
        ) from None


def _list(as_json: bool) -> int:
    rows = _ask(command="machines")["machines"]
    if as_json:
        print(json.dumps(rows, indent=2))
    elif not rows:
        say("no machine has joined yet: feishuperm join ADDRESS")
    for row in () if as_json else rows:
        state = translate("connected" if row["connected"] else "away")
        facts = (row["id"], row["name"], row["owner"], row["address"], state,
                 translate("{} s", row['since']),
                 translate("{} waiting", row['waiting']))  # fmt: skip
        print("  ".join(one_line(str(fact), 40) for fact in facts))
    return 0
