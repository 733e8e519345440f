"""`feishuperm stop` and `restart`: the server, however it is kept running."""

from __future__ import annotations

import os

from feishuperm.lib.arguments import ArgumentParser
from feishuperm.lib.terminal import say
from feishuperm.setup import service


def main(args: list[str]) -> int:
    ArgumentParser("stop").parse_args(args)
    say(service.stop(os.environ))
    return 0


def restart(args: list[str]) -> int:
    ArgumentParser("restart").parse_args(args)
    say(service.restart(os.environ))
    return 0
