"""How dangerous a call is, in words: where `danger.reader` and `lib.text` meet.

What is named in a sentence has no secrets in it.  Nothing here blocks anything.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

from feishuperm.danger.places import UNKNOWN as HOLE
from feishuperm.danger.reader import Finding, Reading, read_call
from feishuperm.lib.display import one_line
from feishuperm.lib.log import log, redact
from feishuperm.models.kind import Say
from feishuperm.models.payload import DANGER, AskPayload

UNKNOWN = ("fact.unread", "fact.opaque")


def read_danger(
    payload: AskPayload, project: str, changed: dict[str, Any] | None = None
) -> Reading:
    """What there is to notice about a call, or about what runs in its place."""
    if changed:
        return _read(payload, project, changed)
    key = DANGER, project
    if key not in payload.known:
        payload.known[key] = _read(payload, project, payload.tool_input)
    reading: Reading = payload.known[key]
    return reading


def _read(payload: AskPayload, project: str, given: dict[str, Any]) -> Reading:
    name, home = payload.tool_name, os.path.expanduser("~")
    try:
        return read_call(name, given, project, home, payload.base.cwd, mask=redact)
    except Exception as error:  # a mistake of ours must not keep anybody waiting
        log(f"a call could not be read: {type(error).__name__}: {error}", "error")
        return Reading(facts=(Finding("fact.unread"),))


def sentences(findings: Iterable[Finding], say: Say) -> tuple[str, ...]:
    """What to show of some findings."""
    return tuple(
        say(finding.key, what=one_line(finding.what, 300)).rstrip("：: ")
        for finding in findings
    )


def names(reading: Reading) -> tuple[str, ...]:
    """The marks as the ledger and `status` name them: "delete", "root"."""
    return tuple(mark.key.partition(".")[2] for mark in reading.marks)


def is_clear(reading: Reading) -> bool:
    """Whether a call was read to its end, bears no mark and runs what can be told."""
    unknown = any(fact.key in UNKNOWN for fact in reading.facts)
    unknown = unknown or any(HOLE in path for path in reading.files)
    return not reading.marks and not unknown
