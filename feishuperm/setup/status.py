"""What the server says of itself, and how a person reads it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from feishuperm.lib.control import ask_server
from feishuperm.lib.display import one_line
from feishuperm.setup.service_step import kept_by

Status = dict[str, Any]


def read_status(socket: str, environ: Mapping[str, str]) -> Status:
    """The status of the server on a socket. Raises FeishupermError without one."""
    status = ask_server({"command": "status", "inbox": True}, path=socket)
    service = kept_by(status["pid"], environ)
    return {"running": True, "service": service, **status}


def inbox_link(socket: str = "") -> str:
    """A link that opens the inbox; once and for ten minutes, if it needs to."""
    return str(ask_server({"command": "status", "inbox": True}, path=socket)["inbox"])


def lines(status: Status, now: float) -> Iterator[str]:
    """The status for a person, each fact on a line that it cannot leave."""
    since = duration(now - float(status.get("started") or now))
    kept = f"({status['service']}, pid {status['pid']}, for {since})"
    yield one_line(f"feishuperm {status['version']} runs {kept}")
    yield row("inbox", status["inbox"])
    yield row("buttons", status["http"])
    yield row("socket", status["socket"])
    for channel in status["channels"]:
        detail = f": {channel['detail']}" if channel.get("detail") else ""
        yield row("channel", f"{channel['name']} {channel['state']}{detail}")
    waiting = status["waiting"]
    yield row("waiting", status.get("waiting_count", len(waiting)))
    for request in waiting:
        words = [one_line(str(request[key])) for key in ("id", "tool", "project")]
        words.append(f"{duration(request['seconds_left'])} left")
        if request.get("danger"):
            words.append(one_line(f"danger: {', '.join(request['danger'])}"))
        yield "  ".join(["", *words])


def row(name: str, value: object) -> str:
    return f"{name:<9}{one_line(str(value), 2000)}"


def duration(seconds: float) -> str:
    """A time span as short as it can be said."""
    whole = max(0, int(seconds))
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if whole >= size:
            return f"{whole // size} {unit}"
    return f"{whole} s"
