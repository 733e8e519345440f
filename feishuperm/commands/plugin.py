"""`feishuperm plugin`: the folder of the Claude Code plugin, kept up to date."""

from __future__ import annotations

import os

from feishuperm.errors import FeishupermError
from feishuperm.lib.arguments import ArgumentParser
from feishuperm.lib.config import load_settings
from feishuperm.lib.files import locked
from feishuperm.messages import msg
from feishuperm.setup import plugin
from feishuperm.setup.steps import Manifest, hook_link


def main(args: list[str]) -> int:
    ArgumentParser("plugin").parse_args(args)
    manifest = Manifest(os.environ)
    if not hook_link(manifest):
        raise FeishupermError(msg("feishuperm is not installed"), "feishuperm install")
    with locked(manifest.path):
        manifest = Manifest(os.environ)  # an install may just have ended
        settings = load_settings(os.environ, lenient=True)
        step = plugin.step(manifest, hook_link(manifest), settings)
        step.changes()  # refuses what cannot be written
        step.apply()
    step.tell_kept()
    print(plugin.folder(os.environ))
    return 0
