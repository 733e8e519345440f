"""`feishuperm status`: is it running, which channels are up, what is waiting."""

from __future__ import annotations

import json
import os
import time

from feishuperm.lib.arguments import ArgumentParser
from feishuperm.lib.config import load_settings
from feishuperm.lib.control import NotRunningError, ask_server
from feishuperm.setup.installer import Manifest
from feishuperm.setup.service_unit import background_pid

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

SUMMARY = "is it running, which channels are up, what is waiting"


def main(args: list[str]) -> int:
    parser = ArgumentParser("status", SUMMARY)
    parser.add_argument("--json", action="store_true", help="for programs")
    options = parser.parse_args(args)
    socket = load_settings().permission_socket_path
    try:
        status = ask_server({"command": "status", "inbox": True}, path=socket)
    except NotRunningError as error:
        if not options.json:
            raise
        print(json.dumps({"running": False, "error": str(error)}, indent=2))
        return 1
    status = {"running": True, "service": kept_by(status["pid"]), **status}
    if options.json:
        print(json.dumps(status, indent=2, ensure_ascii=False))
    else:
        print("\n".join(lines(status, time.time())))
    return 0


def kept_by(pid: int) -> str:
    """What keeps the server running: systemd, launchd, background, or a person."""
    kind = str(Manifest(os.environ).records.get("service", {}).get("kind", ""))
    if kind == "background" and background_pid(os.environ) != pid:
        return "foreground"
    return kind or "foreground"


def lines(status: dict[str, Any], now: float) -> Iterator[str]:
    """The status for a person."""
    since = duration(now - float(status.get("started") or now))
    yield (
        f"feishuperm {status['version']} runs ({status['service']}, "
        f"pid {status['pid']}, for {since})"
    )
    yield f"inbox    {status['inbox']}"
    yield f"buttons  {status['http']}"
    yield f"socket   {status['socket']}"
    for channel in status["channels"]:
        detail = f": {channel['detail']}" if channel.get("detail") else ""
        yield f"channel  {channel['name']} {channel['state']}{detail}"
    waiting = status["waiting"]
    yield f"waiting  {status.get('waiting_count', len(waiting))}"
    for request in waiting:
        left = duration(request["seconds_left"])
        yield f"  {request['id']}  {request['tool']}  {request['project']}  {left} left"


def duration(seconds: float) -> str:
    """A time span as short as it can be said."""
    whole = max(0, int(seconds))
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if whole >= size:
            return f"{whole // size} {unit}"
    return f"{whole} s"
