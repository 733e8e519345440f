"""`feishuperm doctor`: check every hop from hook to phone, or explain a number."""

from __future__ import annotations

import json
import os

from feishuperm.errors import FeishupermError
from feishuperm.lib.arguments import ArgumentParser
from feishuperm.lib.feishu_app import CODES as API_CODES
from feishuperm.lib.feishu_app import page_of
from feishuperm.lib.terminal import say, show
from feishuperm.lib.tongue import translate
from feishuperm.setup.case import FAIL, Case
from feishuperm.setup.doctor import Finding, examine
from feishuperm.setup.phone_codes import CODES

SUMMARY = "check every hop from hook to phone"
EPILOG = """\
One line per check: ok, warn or fail, what was found, and the command that mends it.
Sends one test card to a group bot. Exit code 1 if anything fails.
With a NUMBER that a phone shows when a tap fails: what it means and what mends it."""


def main(args: list[str]) -> int:
    parser = ArgumentParser("doctor", SUMMARY, EPILOG)
    number = "such as 200340, as a phone shows it"
    parser.add_argument("number", nargs="?", type=int, metavar="NUMBER", help=number)
    parser.add_argument("--json", action="store_true", help="for programs")
    options = parser.parse_args(args)
    if options.number is not None:
        return explain(options.number)
    findings: list[Finding] = []
    for finding in examine(Case(os.environ, os.getcwd())):
        findings.append(finding)
        if not options.json:
            show(finding.line())  # at once: a slow check must not hide those before it
    if options.json:
        print(json.dumps([finding._asdict() for finding in findings], indent=2))
    return 1 if any(finding.state == FAIL for finding in findings) else 0


def explain(number: int) -> int:
    """Say what a number of Feishu's means, and what mends it."""
    if number in CODES:
        meaning, cure = CODES[number]
    elif number in API_CODES:
        meaning = API_CODES[number][1]
        cure = "feishuperm doctor names the page" if page_of(number) else ""
    else:
        raise FeishupermError(f"{number} is no number we know", "feishuperm doctor")
    say(f"{number}: {meaning}")
    if cure:
        show(f"  -> {translate(cure)}")
    return 0
