"""`feishuperm uninstall`: undo exactly what install did, by its manifest."""

from __future__ import annotations

import os
import shutil
import sys

from feishuperm.errors import FeishupermError
from feishuperm.lib.arguments import ArgumentParser
from feishuperm.lib.config import config_dir, state_dir
from feishuperm.lib.store import locked
from feishuperm.setup.installer import (
    Manifest,
    own_commands,
    purge_config,
    remove_folders,
    undo_commands,
    undo_program,
    undo_service,
    undo_settings,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    Undo = Callable[[dict[str, Any]], list[str]]

SUMMARY = "undo exactly what install did"
EPILOG = """\
Claude Code's settings come back byte for byte if nobody else changed them since;
otherwise exactly our own hooks leave them."""


def main(args: list[str]) -> int:
    parser = ArgumentParser("uninstall", SUMMARY, EPILOG)
    parser.add_argument(
        "--purge",
        action="store_true",
        help="also remove config.env, the decision log and everything else of ours",
    )
    parser.add_argument(
        "--dry-run", action="store_true", help="only say what would be done"
    )
    options = parser.parse_args(args)
    manifest = Manifest(os.environ)
    if options.dry_run:
        return rehearse(manifest, options.purge)
    with locked(manifest.path):
        failed = undo(manifest, options.purge, os.environ)
    if failed:
        return 1
    clean_up(manifest, options.purge, os.environ)
    return 0


def rehearse(manifest: Manifest, purge: bool) -> int:
    """Say what would be undone."""
    for name, record in manifest.records.items():
        if name != "state" and (name != "config" or purge):
            place = record.get("path") or record.get("archive") or record.get("kind")
            print(f"would undo {name.partition(':')[0]}: {place or 'its files'}")
    if not manifest.records:
        print("nothing is installed")
    return 0


def undo(manifest: Manifest, purge: bool, environ: Mapping[str, str]) -> bool:
    """Undo every record; whether something had to be left.

    The program stays as long as a hook in somebody's settings may still name it.
    """
    if not manifest.records:
        print("nothing is installed")
    failed = False
    for kind, undo_one in undoing(manifest, purge, environ):
        if failed and kind == "program":
            break
        for name, record in manifest.records.items():
            if name.partition(":")[0] != kind:
                continue
            try:
                for row in undo_one(record):
                    print(row)
            except FeishupermError as error:
                failed = True
                print(f"feishuperm: {error}", file=sys.stderr)
                if error.hint:
                    print(f"hint: {error.hint}", file=sys.stderr)
    return failed


def undoing(
    manifest: Manifest, purge: bool, environ: Mapping[str, str]
) -> list[tuple[str, Undo]]:
    """How each kind of record is undone, in order.

    The server is stopped while config.env still says where it listens, and the program
    is removed when nothing else has to be read from it.
    """
    own = own_commands(manifest.records.get("program", {}))
    return [
        ("service", lambda record: undo_service(record, environ)),
        ("commands", undo_commands),  # in a folder that `settings` may have made
        ("settings", lambda record: undo_settings({"commands": own, **record})),
        ("config", purge_config if purge else lambda record: []),
        ("program", undo_program),
    ]


def clean_up(manifest: Manifest, purge: bool, environ: Mapping[str, str]) -> None:
    """Remove what only an installed program needs, or everything."""
    folder = state_dir(environ)
    made = manifest.records.get("state", {}).get("folders", [])
    manifest.remove()
    for name in ("backups", "locks"):
        shutil.rmtree(os.path.join(folder, name), ignore_errors=True)
    if purge:
        shutil.rmtree(folder, ignore_errors=True)
        shutil.rmtree(config_dir(environ), ignore_errors=True)
        remove_folders(made)
    elif os.path.isdir(folder):
        print(f"kept: {config_dir(environ)} and {folder} (--purge removes them)")
