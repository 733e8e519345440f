"""`feishuperm doctor`: check every hop from hook to phone, or explain a number."""

from __future__ import annotations

import json
import os

from feishuperm.app.api import CODES as API_CODES
from feishuperm.app.api import page_of
from feishuperm.errors import FeishupermError
from feishuperm.lib.arguments import ArgumentParser, number
from feishuperm.lib.language import translate
from feishuperm.lib.terminal import say, show
from feishuperm.messages import msg
from feishuperm.setup.checks import FAIL, DoctorContext
from feishuperm.setup.doctor import CODES, Finding, examine

EPILOG = msg("""\
One line per check: ok, warn or fail, what was found, and the command that mends it.
Sends one test card to a group bot. Exit code 1 if anything fails.
With a NUMBER that a phone shows when a tap fails: what it means and what mends it.""")


def main(args: list[str]) -> int:
    parser = ArgumentParser("doctor", EPILOG)
    shown = msg("such as 200340, as a phone shows it")
    parser.add_argument("number", nargs="?", type=number, help=shown)
    parser.add_argument("--json", action="store_true", help=msg("for programs"))
    options = parser.parse_args(args)
    if options.number is not None:
        return explain(options.number)
    findings: list[Finding] = []
    for finding in examine(DoctorContext(os.environ, os.getcwd())):
        findings.append(finding)
        if not options.json:
            show(finding.line())  # at once: a slow check must not hide those before it
    if options.json:
        print(json.dumps([finding._asdict() for finding in findings], indent=2))
    return 1 if any(finding.state == FAIL for finding in findings) else 0


def explain(code: int) -> int:
    """Say what a number of Feishu's means, and what mends it."""
    if code in CODES:
        meaning, cure = CODES[code]
    elif code in API_CODES:
        meaning = API_CODES[code][1]
        cure = msg("feishuperm doctor names the page") if page_of(code) else ""
    else:
        raise FeishupermError(msg("{} is no number we know", code), "feishuperm doctor")
    say("{}: {}", code, meaning)
    if cure:
        show(f"  -> {translate(cure)}")
    return 0
