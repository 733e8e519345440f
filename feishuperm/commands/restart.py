"""`feishuperm restart`: start the server again, however it is kept running."""

from __future__ import annotations

import os

from feishuperm.lib.arguments import ArgumentParser
from feishuperm.lib.terminal import say
from feishuperm.setup.service import restart


def main(args: list[str]) -> int:
    ArgumentParser("restart").parse_args(args)
    say(restart(os.environ))
    return 0
