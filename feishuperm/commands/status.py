"""`feishuperm status`: is it running, which channels are up, what is waiting."""

from __future__ import annotations

import json
import os
import time

from feishuperm.lib.arguments import ArgumentParser
from feishuperm.lib.config import load_settings
from feishuperm.lib.control import NotRunningError
from feishuperm.lib.terminal import say
from feishuperm.setup.status import lines, read_status

SUMMARY = "is it running, which channels are up, what is waiting"


def main(args: list[str]) -> int:
    parser = ArgumentParser("status", SUMMARY)
    parser.add_argument("--json", action="store_true", help="for programs")
    options = parser.parse_args(args)
    socket = load_settings().permission_socket_path
    try:
        status = read_status(socket, os.environ)
    except NotRunningError as error:
        if not options.json:
            raise
        print(json.dumps({"running": False, "error": str(error)}, indent=2))
        return 1
    if options.json:
        print(json.dumps(status, indent=2))
    else:
        say("\n".join(lines(status, time.time())))
    return 0
