"""`feishuperm stop`: end the server, however it is kept running."""

from __future__ import annotations

import os

from feishuperm.lib.arguments import ArgumentParser
from feishuperm.lib.terminal import say
from feishuperm.setup.service import stop


def main(args: list[str]) -> int:
    ArgumentParser("stop").parse_args(args)
    say(stop(os.environ))
    return 0
