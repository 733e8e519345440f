"""`feishuperm leave`: undo `feishuperm join`."""

from __future__ import annotations

import os

from feishuperm.lib.arguments import ArgumentParser
from feishuperm.lib.terminal import say
from feishuperm.setup.joining import leave
from feishuperm.setup.server_process import running_status
from feishuperm.setup.service_step import try_restart

SUMMARY = "leave the gateway that this machine has joined"


def main(args: list[str]) -> int:
    ArgumentParser("leave", SUMMARY).parse_args(args)
    url = leave()
    if not url:
        say("this machine has joined no gateway")
        return 0
    say(f"left {url}; its owner can revoke the machine there as well")
    if running_status() is not None:
        say(try_restart(os.environ))
    return 0
