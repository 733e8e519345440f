"""Undoing what the manifest records, in an order in which nothing is missed."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Mapping

from feishuperm.errors import FeishupermError
from feishuperm.lib.config import config_dir, config_path, state_dir
from feishuperm.lib.terminal import complain, say
from feishuperm.setup.claude_step import undo_claude, undo_slash
from feishuperm.setup.config_step import purge_config
from feishuperm.setup.files import remove_folders
from feishuperm.setup.gateway_install import undo_gateway
from feishuperm.setup.manifest import Manifest, Record
from feishuperm.setup.program_step import own_commands, undo_program
from feishuperm.setup.service_step import undo_service

Undo = Callable[[Record], list[str]]


def rehearse(manifest: Manifest, purge: bool) -> None:
    """Say what would be undone."""
    for name, record in manifest.records.items():
        if name != "state" and (name != "config" or purge):
            place = record.get("path") or record.get("archive") or record.get("kind")
            say(f"would undo {name.partition(':')[0]}: {place or 'its files'}")
    if not manifest.records:
        say("nothing is installed")


def purged(manifest: Manifest, environ: Mapping[str, str]) -> list[str]:
    """What a purge removes that nobody else could bring back."""
    config = manifest.record("config").get("path") or config_path(environ)
    folders = [config_dir(environ), state_dir(environ)]
    apart = [] if os.path.dirname(config) in folders else [config]
    return [path for path in (*apart, *folders) if os.path.lexists(path)]


def undo(manifest: Manifest, purge: bool, environ: Mapping[str, str]) -> bool:
    """Undo every record; whether nothing had to be left.

    The program stays as long as a hook in somebody's settings may still name it.
    """
    if not manifest.records:
        say("nothing is installed")
    good = True
    for kind, undo_record in order(manifest, purge, environ):
        if not good and kind == "program":
            break
        for name, record in manifest.records.items():
            if name.partition(":")[0] == kind:
                good = _try(undo_record, record) and good
    return good


def _try(undo_record: Undo, record: Record) -> bool:
    try:
        for row in undo_record(record):
            say(row)
    except FeishupermError as error:
        complain(error)
        return False
    return True


def order(
    manifest: Manifest, purge: bool, environ: Mapping[str, str]
) -> list[tuple[str, Undo]]:
    """How each kind of record is undone, in order.

    The server is stopped while config.env still says where it listens, and the program
    is removed when nothing else has to be read from it.
    """
    own = own_commands(manifest.record("program"))
    return [
        ("service", lambda record: undo_service(record, environ)),
        ("gateway", undo_gateway),
        ("commands", undo_slash),  # in a folder that `settings` may have made
        ("settings", lambda record: undo_claude({"commands": own, **record})),
        ("config", purge_config if purge else lambda record: []),
        ("program", undo_program),
    ]


def clean_up(manifest: Manifest, purge: bool, environ: Mapping[str, str]) -> None:
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
        remove_folders(made)
    elif os.path.isdir(folder):
        say(f"kept: {config_dir(environ)} and {folder} (`rm -r` removes them)")
