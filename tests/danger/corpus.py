"""The labelled calls of `tests/data/danger_corpus.txt`."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, NamedTuple

from feishuperm.danger.reader import Reading, read_call

FILE = Path(__file__).resolve().parents[1] / "data" / "danger_corpus.txt"
PROJECT, HOME = "/home/me/app", "/home/me"


class Case(NamedTuple):
    label: str  # "danger.KEY", "fact.KEY", "quiet" or "none"
    reason: str
    line: str

    def read(self) -> Reading:
        tool, tool_input = call(self.line)
        return read_call(tool, tool_input, PROJECT, HOME)

    @property
    def is_dangerous(self) -> bool:
        return self.label.startswith("danger.")


def call(line: str) -> tuple[str, dict[str, Any]]:
    """The tool and the input that a line of the corpus stands for."""
    if line.startswith("@"):
        name, _, plain = line[1:].partition(" ")
        return name, json.loads(plain)
    return "Bash", {"command": line.replace("⏎", "\n")}


def cases() -> list[Case]:
    label = reason = ""
    read = []
    head = True
    for line in FILE.read_text(encoding="utf-8").splitlines():
        match = re.fullmatch(r"\[(none|quiet|(?:danger|fact)\.\w+)\] (.+)", line)
        if match:
            label, reason = match.groups()
            head = False
        elif line and not head and not line.startswith("# Written"):
            read.append(Case(label, reason, line))
    return read


def right(case: Case) -> bool:
    """Whether the reader says of a call what its label says."""
    reading = case.read()
    marks = {mark.key for mark in reading.marks}
    facts = {fact.key for fact in reading.facts}
    if case.is_dangerous:
        return case.label in marks
    if marks:
        return False
    if case.label == "none":
        return not facts
    return case.label == "quiet" or case.label in facts
