"""`feishuperm doctor`: check every hop from hook to phone, or explain a number."""

from __future__ import annotations

import json
import os

from feishuperm.app.api import CODES as API_CODES
from feishuperm.app.api import page_of
from feishuperm.app.health import FAIL
from feishuperm.errors import FeishupermError
from feishuperm.lib.arguments import ArgumentParser, number
from feishuperm.lib.language import translate
from feishuperm.lib.terminal import say, show
from feishuperm.messages import msg
from feishuperm.setup.doctor import DoctorContext, Row, examine
from feishuperm.tables import sections


def main(args: list[str]) -> int:
    parser = ArgumentParser("doctor", "--json")
    parser.add_argument("number", nargs="?", type=number)
    options = parser.parse_args(args)
    if options.number is not None:
        return explain(options.number)
    here = DoctorContext(os.environ, os.getcwd())
    rows: list[Row] = []
    for row in examine(here):
        rows.append(row._replace(fix=here.typed(row.fix)))
        if not options.json:  # at once: a slow check must not hide those before it
            show(row.line(here.typed))
    if options.json:
        print(json.dumps([row._asdict() for row in rows], indent=2))
    return 1 if any(row.state == FAIL for row in rows) else 0


def phone_codes() -> dict[int, tuple[str, str]]:
    """The numbers that a phone shows: what each means, and what repairs it."""
    rows = (line.split(" = ") for line in sections("lib/feishu_codes.txt")["phone"])
    return {
        int(code): (msg(said), msg(cure))
        for codes, said, cure in rows
        for code in codes.split()
    }


def explain(code: int) -> int:
    """Say what a number of Feishu's means, and what repairs it."""
    known = phone_codes()
    if code in known:
        meaning, cure = known[code]
    elif code in API_CODES:
        meaning = API_CODES[code][1]
        cure = msg("feishuperm doctor names the page") if page_of(code) else ""
    else:
        raise FeishupermError(msg("unknown error code: {}", code), "feishuperm doctor")
    say("{}: {}", code, meaning)
    if cure:
        show(f"  -> {translate(cure)}")
    return 0
