"""Undoing what the manifest records, in an order in which nothing is missed.

Rules that "always allow" wrote into projects are listed before a purge: once the ledger
is gone nobody can tell them from the person's own.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

from feishuperm.errors import FeishupermError
from feishuperm.lib.config import config_dir, config_path, state_dir
from feishuperm.lib.terminal import complain, say, show
from feishuperm.messages import msg, word
from feishuperm.services import history
from feishuperm.services.history import Standing
from feishuperm.services.ledger import Ledger
from feishuperm.services.rule_writer import RuleWriter
from feishuperm.setup import agents, plugin, steps
from feishuperm.setup.claude_settings import undo_claude
from feishuperm.setup.join import undo_gateway
from feishuperm.setup.service import undo_service

Undo = Callable[[steps.Record], list[str]]


def rehearse(manifest: steps.Manifest, purge: bool) -> None:
    """Say what would be undone."""
    for name, record in manifest.records.items():
        if name != "state" and (name != "config" or purge):
            kept_by = word(record.get("kind", ""))
            place = record.get("path") or record.get("archive") or kept_by
            files = ", ".join(path for path in record if path[0] == "/")
            place = place or files or msg("its files")
            say("would undo {}: {}", word(name.partition(":")[0]), place)
    if not manifest.records:
        say("nothing is installed")


def purged(manifest: steps.Manifest, environ: Mapping[str, str]) -> list[str]:
    """What a purge removes that nobody else could bring back."""
    config = manifest.record("config").get("path") or config_path(environ)
    folders = [config_dir(environ), state_dir(environ)]
    apart = [] if os.path.dirname(config) in folders else [config]
    return [path for path in (*apart, *folders) if os.path.lexists(path)]


def undo(manifest: steps.Manifest, purge: bool, environ: Mapping[str, str]) -> bool:
    """Undo every record; whether nothing had to be left.

    The program stays as long as a hook in somebody's settings may still name it.
    """
    if not manifest.records:
        say("nothing is installed")
    good = True
    records = {**manifest.records, **agents.imported(manifest)}
    for kind, undo_record in order(manifest, purge, environ):
        if not good and kind == "program":
            break
        for name, record in records.items():
            if name.partition(":")[0] != kind:
                continue
            try:
                for row in undo_record(record):
                    say(row)
            except FeishupermError as error:
                complain(error)
                good = False
    return good


def order(
    manifest: steps.Manifest, purge: bool, environ: Mapping[str, str]
) -> list[tuple[str, Undo]]:
    """How each kind of record is undone, in order.

    The server is stopped while config.env still says where it listens, and the program
    is removed when nothing else has to be read from it.
    """
    own = steps.own_commands(manifest.record("program"))
    return [
        ("service", lambda record: undo_service(record, environ)),
        ("gateway", undo_gateway),
        ("commands", steps.undo_files),  # in a folder that `settings` may have made
        ("files", steps.undo_files),
        ("plugin", lambda record: plugin.undo(record, environ)),
        ("settings", lambda record: undo_claude({"commands": own, **record})),
        ("config", steps.purge_config if purge else lambda record: []),
        ("program", steps.undo_program),
    ]


def clean_up(manifest: steps.Manifest, purge: bool, environ: Mapping[str, str]) -> None:
    """Remove what only an installed program needs, or everything."""
    folder = state_dir(environ)
    records = manifest.records.values()
    made = [path for record in records for path in record.get("folders", [])]
    manifest.remove()
    for name in ("backups", "locks"):
        shutil.rmtree(os.path.join(folder, name), ignore_errors=True)
    if purge:
        shutil.rmtree(folder, ignore_errors=True)
        shutil.rmtree(config_dir(environ), ignore_errors=True)
        steps.remove_folders(made)
    elif os.path.isdir(folder):
        say("kept: {} and {} (`rm -r` removes them)", config_dir(environ), folder)


# The rules that "always allow" wrote into projects.


def rules_left(environ: Mapping[str, str]) -> list[Standing]:
    """What is still there; nothing if that cannot be told."""
    with suppress(OSError):
        return history.standing(Ledger(environ=environ), RuleWriter())
    return []


def tell(rows: Sequence[Standing]) -> None:
    """Name every rule below its project."""
    if not rows:
        return
    say(
        'rules that "always allow" wrote are still in projects ({}); after this, log '
        "undo cannot remove them any more:",
        len(rows),
    )
    for project in dict.fromkeys(row.project for row in rows):
        rules = [row.rule for row in rows if row.project == project]
        show("\n    ".join([f"  {project}", *rules]))


def offer(
    rows: Sequence[Standing], environ: Mapping[str, str], ask: Callable[[str], str]
) -> None:
    """Remove them, unless the person would rather keep them."""
    answer = "n"
    with suppress(EOFError):
        answer = ask(msg("remove them first? [Y/n] ")).strip().lower()
    if answer not in ("", "y", "yes"):
        return
    ledger = Ledger(environ=environ)
    for id in dict.fromkeys(row.id for row in rows):
        try:
            for line in history.undo(ledger, RuleWriter(), id):
                say(line)
        except FeishupermError as error:
            complain(error)
