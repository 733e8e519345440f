"""`feishuperm doctor`: check every hop from hook to phone."""

from __future__ import annotations

import json
import os

from feishuperm.lib.arguments import ArgumentParser
from feishuperm.lib.terminal import say
from feishuperm.setup.case import FAIL, Case
from feishuperm.setup.doctor import Finding, examine

SUMMARY = "check every hop from hook to phone"
EPILOG = """\
One line per check: ok, warn or fail, what was found, and the command that mends it.
Sends one test card. Exit code 1 if anything fails."""


def main(args: list[str]) -> int:
    parser = ArgumentParser("doctor", SUMMARY, EPILOG)
    parser.add_argument("--json", action="store_true", help="for programs")
    options = parser.parse_args(args)
    findings: list[Finding] = []
    for finding in examine(Case(os.environ, os.getcwd())):
        findings.append(finding)
        if not options.json:
            say(finding.line())  # at once: a slow check must not hide those before it
    if options.json:
        print(json.dumps([finding._asdict() for finding in findings], indent=2))
    return 1 if any(finding.state == FAIL for finding in findings) else 0
