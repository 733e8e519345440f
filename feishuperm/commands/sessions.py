"""`feishuperm sessions`: what runs, waits or has ended on this machine."""

from __future__ import annotations

import json
import shutil
import time
from typing import Any

from feishuperm.lib.arguments import ArgumentParser
from feishuperm.lib.control import NotRunningError, ask_server
from feishuperm.lib.display import cut, one_line, pad, width
from feishuperm.lib.feishu import spent
from feishuperm.lib.language import duration, translate
from feishuperm.lib.terminal import show, warn
from feishuperm.messages import msg
from feishuperm.models.ask import Spent, last_name
from feishuperm.services.sessions import (
    LOOK_SECONDS,
    NO_LIST,
    NONE_KNOWN,
    STATES,
    Sessions,
)
from feishuperm.setup.service import tries

LEAST = 40  # columns
NO_SERVER = msg("the server is not running: nobody knows which requests are pending")


def main(args: list[str]) -> int:
    as_json = ArgumentParser("sessions", "--json").parse_args(args).json
    try:
        rows, problem = _ask()
    except NotRunningError:
        sessions = Sessions()
        sessions.refresh(lambda: None)
        rows, problem = sessions.rows(), sessions.problem
        warn(NO_SERVER)
    if problem:
        warn(NO_LIST, translate(problem))  # the server tells it in English
    if as_json:
        print(json.dumps(rows, indent=2))
    else:
        columns = max(LEAST, shutil.get_terminal_size().columns)
        lines = [line(row, columns, time.time()) for row in rows]
        show("\n".join(lines or [translate(NONE_KNOWN)]))
    return 0


def _ask() -> tuple[list[dict[str, Any]], str]:
    """The server's list, once it has looked. Raises FeishupermError."""
    reply = ask_server({"command": "sessions", "look": True})
    for _ in tries(LOOK_SECONDS):
        if not reply["busy"]:
            break
        reply = ask_server({"command": "sessions"})
    return reply["sessions"], reply["problem"]


def line(row: dict[str, Any], columns: int, now: float) -> str:
    """A session for a person: what is cut is what it does, not what it costs."""
    since, project = row["since"], last_name(row["project"])
    took = duration(now - since) if since else ""
    fixed = [(row["short"], 8), (translate(STATES[row["state"]]), 15), (took, 7)]
    agent = row["agent"] if row["agent"] != "claude" else ""
    named = (project, agent, row["title"], row["doing"])
    told = one_line(" · ".join(filter(None, named)), 1000)
    cost = -1.0 if row["cost"] is None else row["cost"]
    figures = spent(translate, Spent(0.0, 0, row["tokens"] or 0, cost))
    head = "".join(f"{pad(text, size)}  " for text, size in fixed)
    room = columns - width(head) - (width(figures) + 3 if figures else 0)
    if width(told) > room:
        told = cut(told, room - 1) + "…"
    return head + " · ".join(filter(None, (told, figures)))
