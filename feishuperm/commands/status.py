"""`feishuperm status`: is it running, which channels are up, what is waiting."""

from __future__ import annotations

import json
import os
import shutil
import time
from contextlib import suppress
from typing import Any

from feishuperm.errors import FeishupermError
from feishuperm.lib.arguments import ArgumentParser
from feishuperm.lib.config import load_settings
from feishuperm.lib.control import NotRunningError
from feishuperm.lib.language import translate
from feishuperm.lib.terminal import show
from feishuperm.messages import msg
from feishuperm.services.history import habits
from feishuperm.services.ledger import Ledger
from feishuperm.services.rule_writer import RuleWriter
from feishuperm.setup.doctor import DoctorContext, asks_enough
from feishuperm.setup.status import (
    brief,
    gateway_lines,
    lines,
    qr_lines,
    read_gateway,
    read_status,
)


def main(args: list[str]) -> int:
    options = ArgumentParser("status", "--json", "--qr", "--brief").parse_args(args)
    socket = load_settings().permission_socket_path
    if options.brief:
        return show_brief(socket)
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


def show_brief(socket: str) -> int:
    """Where one stands; whatever is missing is no error."""
    status: dict[str, Any] | None = None
    with suppress(FeishupermError):
        status = read_status(socket, os.environ)
    context = DoctorContext(os.environ, os.getcwd())
    installed = status is not None or bool(context.manifest.record("program"))
    show("\n".join(brief(status, installed, asks_enough(context))))
    return 0
