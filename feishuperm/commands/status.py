"""`feishuperm status`: is it running, which channels are up, what is waiting."""

from __future__ import annotations

import json
import os
import shutil
import time

from feishuperm.lib.arguments import ArgumentParser
from feishuperm.lib.config import load_settings
from feishuperm.lib.control import NotRunningError
from feishuperm.lib.language import translate
from feishuperm.lib.terminal import show
from feishuperm.messages import msg
from feishuperm.services.history import habits
from feishuperm.services.ledger import Ledger
from feishuperm.services.rule_writer import RuleWriter
from feishuperm.setup.status import (
    gateway_lines,
    lines,
    qr_lines,
    read_gateway,
    read_status,
)


def main(args: list[str]) -> int:
    options = ArgumentParser("status", "--json", "--qr").parse_args(args)
    socket = load_settings().permission_socket_path
    gateway = read_gateway(os.environ)
    try:
        status = read_status(socket, os.environ)
    except NotRunningError as error:
        if gateway is not None and not options.json:
            show("\n".join(gateway_lines(gateway)))
            return 0
        if not options.json:
            raise
        print(json.dumps({"running": False, "error": str(error)}, indent=2))
        return 1
    if options.json:
        own = {} if gateway is None else {"gateway": gateway}
        print(json.dumps({**status, **own}, indent=2))
    elif options.qr:
        columns = shutil.get_terminal_size().columns
        print("\n".join(qr_lines(status["inbox"], columns)))
    else:
        show("\n".join(lines(status, time.time())))
        count = len(habits(Ledger(), RuleWriter()))
        if count:
            habit = msg(
                "calls that you keep allowing: {}; feishuperm log suggest", count
            )
            show(translate(habit))
        if gateway is not None:
            show("\n".join(gateway_lines(gateway)))
    return 0
