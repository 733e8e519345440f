"""`feishuperm restart`: start the server anew, however it is kept running."""

from __future__ import annotations

import os

from feishuperm.lib.arguments import ArgumentParser
from feishuperm.lib.terminal import say
from feishuperm.setup.service_step import restart

SUMMARY = "start the server anew; what waits goes on waiting"


def main(args: list[str]) -> int:
    ArgumentParser("restart", SUMMARY).parse_args(args)
    say(restart(os.environ))
    return 0
