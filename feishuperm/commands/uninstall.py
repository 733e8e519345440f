"""`feishuperm uninstall`: undo exactly what install did, by its manifest."""

from __future__ import annotations

import os

from feishuperm.lib.arguments import ArgumentParser
from feishuperm.lib.files import locked
from feishuperm.lib.language import spoken
from feishuperm.lib.terminal import ask, can_ask, say
from feishuperm.setup import uninstall
from feishuperm.setup.steps import Manifest


def main(args: list[str]) -> int:
    options = ArgumentParser("uninstall", "--purge", "--dry-run").parse_args(args)
    spoken()  # decided now: config.env may go
    manifest = Manifest(os.environ)
    left = uninstall.rules_left(os.environ) if options.purge else []
    if options.dry_run:
        uninstall.rehearse(manifest, options.purge)
        uninstall.tell(left)
        return 0
    doomed = uninstall.purged(manifest, os.environ) if options.purge else []
    if doomed:
        say("about to remove: {}", ", ".join(doomed))
    uninstall.tell(left)
    if left and can_ask():
        uninstall.offer(left, os.environ, ask)
    with locked(manifest.path):
        manifest = Manifest(os.environ)  # an install may just have ended
        good = uninstall.undo(manifest, options.purge, os.environ)
        if good:
            uninstall.clean_up(manifest, options.purge, os.environ)
    return 0 if good else 1
