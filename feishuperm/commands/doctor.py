"""`feishuperm doctor`: check every hop from hook to phone."""

from __future__ import annotations

import json
import os
import sys

from feishuperm.lib.arguments import ArgumentParser
from feishuperm.setup.doctor import CHECKS, FAIL, Doctor, Finding

SUMMARY = "check every hop from hook to phone"
EPILOG = """\
One line per check: ok, warn or fail, what was found, and the command that mends it.
Sends one test card. Exit code 1 if anything fails."""


def main(args: list[str]) -> int:
    parser = ArgumentParser("doctor", SUMMARY, EPILOG)
    parser.add_argument("--json", action="store_true", help="for programs")
    options = parser.parse_args(args)
    findings: list[Finding] = []
    for finding in Doctor(os.environ, os.getcwd()).examine():
        findings.append(finding)
        if not options.json:
            print(line(finding))
            sys.stdout.flush()  # a slow check must not hide the ones before it
    if options.json:
        rows = [finding._asdict() for finding in findings]
        print(json.dumps(rows, indent=2, ensure_ascii=False))
    return 1 if any(finding.state == FAIL for finding in findings) else 0


def line(finding: Finding) -> str:
    """One finding as a person reads it."""
    width = max(len(name) for name, _ in CHECKS)
    text = f"{finding.state:<4}  {finding.check:<{width}}  {finding.text}"
    return f"{text}  -> {finding.fix}" if finding.fix else text
