"""`feishuperm leave`: undo `feishuperm join`."""

from __future__ import annotations

import os

from feishuperm.lib.arguments import ArgumentParser
from feishuperm.lib.terminal import say
from feishuperm.setup.join import leave
from feishuperm.setup.service import running_status, try_restart


def main(args: list[str]) -> int:
    ArgumentParser("leave").parse_args(args)
    url = leave()
    if not url:
        say("this machine has joined no gateway")
        return 0
    say("left {}; its owner can revoke the machine there as well", url)
    if running_status() is not None:
        say(try_restart(os.environ))
    return 0
