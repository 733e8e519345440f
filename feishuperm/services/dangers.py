"""How dangerous a call is, in words: where `danger.reader` and the sentences meet.

What is named in a sentence has no secrets in it.  Nothing here blocks anything.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

from feishuperm.danger.paths import UNKNOWN as HOLE
from feishuperm.danger.reader import Finding, Reading, read_call
from feishuperm.lib.display import one_line
from feishuperm.lib.log import log, redact
from feishuperm.messages import msg, translate
from feishuperm.models.kind import Say
from feishuperm.models.payload import DANGER, AskPayload

# What each finding is called.
SENTENCES = {
    "danger.delete": msg("Deletes outside the project: {what}"),
    "danger.unsure": msg("Deletes what only the run will tell: {what}"),
    "danger.wipe": msg("Cannot be brought back: {what}"),
    "danger.overwrite": msg("Overwrites outside the project: {what}"),
    "danger.publish": msg("Publishes: {what}"),
    "danger.force": msg("Rewrites or deletes at the remote: {what}"),
    "danger.root": msg("Runs with root rights: {what}"),
    "danger.downloaded": msg("Runs what it has just downloaded: {what}"),
    "danger.decoded": msg("Runs what it has decoded: {what}"),
    "danger.inject": msg("Makes other programs load its code first: {what}"),
    "danger.startup": msg("Changes what runs at start, at login or later: {what}"),
    "danger.keys": msg("Changes keys or credentials: {what}"),
    "danger.leak": msg("Sends keys or credentials away: {what}"),
    "danger.ci": msg("Changes the CI configuration: {what}"),
    "danger.permissions": msg(
        "Changes permissions, hooks or Claude's settings: {what}"
    ),
    "danger.data": msg("Destroys data: {what}"),
    "danger.machine": msg("Stops or destroys machines or services: {what}"),
    "danger.money": msg("Moves money: {what}"),
    "danger.packages": msg(
        "Changes where packages come from, or what installing them runs: {what}"
    ),
    "danger.tunnel": msg("Opens this machine to the outside: {what}"),
    "danger.device": msg("Writes to a disk itself: {what}"),
    "danger.unread": msg("Part of it cannot be read, and it holds: {what}"),
    "fact.host": msg("Contacts: {what}"),
    "fact.letters": msg("A name with letters that look like others: {what}"),
    "fact.outside": msg("Paths outside the project: {what}"),
    "fact.installs": msg("Installs: {what}"),
    "fact.package": msg("Runs a package, perhaps fetched first: {what}"),
    "fact.push": msg("Pushes: {what}"),
    "fact.deletes": msg("Deletes: {what}"),
    "fact.discards": msg("Gives up changes: {what}"),
    "fact.keys": msg("Reads keys or credentials: {what}"),
    "fact.remote": msg("Takes effect elsewhere: {what}"),
    "fact.container": msg("Stops or removes: {what}"),
    "fact.opaque": msg("Part of it only the run will tell: {what}"),
    "fact.unread": msg("Part of it cannot be read"),
}
UNKNOWN = ("fact.unread", "fact.opaque")


def load_tables(language: str) -> None:
    """Load the tables of dangers and the catalogue, which the first request needs.

    It would wait for them, and take more than one turn of the loop.
    """
    read_call("Bash", {"command": "sudo rm -r x | sh"}, "/project", "/home")
    for sentence in SENTENCES.values():
        translate(sentence, language)


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
        say(SENTENCES[finding.key], what=one_line(finding.what, 300)).rstrip("：: ")
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
