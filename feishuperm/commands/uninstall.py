"""`feishuperm uninstall`: undo exactly what install did, by its manifest."""

from __future__ import annotations

import os
import shutil
import sys

from feishuperm.errors import FeishupermError
from feishuperm.lib.arguments import ArgumentParser
from feishuperm.lib.config import config_dir, state_dir
from feishuperm.lib.files import locked
from feishuperm.services.installer import (
    Manifest,
    purge_config,
    undo_commands,
    undo_program,
    undo_service,
    undo_settings,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

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
        if name != "config" or purge:
            place = record.get("path") or record.get("archive") or record.get("kind")
            print(f"would undo {name.partition(':')[0]}: {place or 'its files'}")
    if not manifest.records:
        print("nothing is installed")
    return 0


def undo(manifest: Manifest, purge: bool, environ: Mapping[str, str]) -> bool:
    """Undo every record, the program last; whether anything had to be left."""
    if not manifest.records:
        print("nothing is installed")
    failed = False
    for name in sorted(manifest.records, key=lambda name: name == "program"):
        try:
            for row in undoing(name, purge, environ)(manifest.records[name]):
                print(row)
        except FeishupermError as error:
            failed = True
            print(f"feishuperm: {error}", file=sys.stderr)
            if error.hint:
                print(f"hint: {error.hint}", file=sys.stderr)
    return failed


def undoing(
    name: str, purge: bool, environ: Mapping[str, str]
) -> Callable[[dict[str, Any]], list[str]]:
    """How one kind of record is undone."""
    if name.startswith("settings:"):
        return undo_settings
    return {
        "commands": undo_commands,
        "service": lambda record: undo_service(record, environ),
        "config": purge_config if purge else lambda record: [],
        "program": undo_program,
    }[name]


def clean_up(manifest: Manifest, purge: bool, environ: Mapping[str, str]) -> None:
    """Remove what only an installed program needs, or everything."""
    folder = state_dir(environ)
    manifest.remove()
    for name in ("backups", "locks"):
        shutil.rmtree(os.path.join(folder, name), ignore_errors=True)
    if purge:
        shutil.rmtree(folder, ignore_errors=True)
        shutil.rmtree(config_dir(environ), ignore_errors=True)
    elif os.path.isdir(folder):
        print(f"kept: {config_dir(environ)} and {folder} (--purge removes them)")
