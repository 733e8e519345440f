"""A card through the running server, and what becomes of it."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Callable
from typing import Any

from feishuperm.errors import FeishupermError
from feishuperm.lib.control import NotRunningError
from feishuperm.lib.program import permission_event
from feishuperm.lib.terminal import say
from feishuperm.lib.text import TEXTS
from feishuperm.models.names import TEST_TOOL

POLL_SECONDS = 0.25


def watch(
    hook: subprocess.Popen[bytes],
    ask: Callable[[], dict[str, Any]],
    until: float,
    clock: Callable[[], float] = time.monotonic,
    pause: Callable[[float], object] = time.sleep,
) -> str:
    """Wait for the hook's end and tell of a broken bot at once; its last problem."""
    said = problem = ""
    while hook.poll() is None and clock() < until:
        try:
            problem = bot_problem(ask())
        except NotRunningError as error:  # the hook waits for it to come back
            problem = str(error)
        if problem and problem != said:
            say(problem)
            said = problem
        pause(POLL_SECONDS)
    return problem


def bot_problem(status: dict[str, Any]) -> str:
    """What is wrong with the group bot, if anything. Raises without one."""
    for channel in status["channels"]:
        if channel["name"] == "webhook":
            down = channel["state"] != "up"
            return f"the group bot is down: {channel['detail']}" if down else ""
    raise FeishupermError(
        "the server has no Feishu group bot", "feishuperm install, or feishuperm demo"
    )


def is_late(output: str) -> bool:
    """Whether this is the server's own answer for a request nobody answered."""
    decision = json.loads(output)["hookSpecificOutput"]["decision"]
    return decision.get("message") in TEXTS["message.expired"]


def event() -> dict[str, Any]:
    """The request that the card is about."""
    text = "A card from `feishuperm test-card`. Any button will do."
    return permission_event(TEST_TOOL, {"text": text}, os.getcwd())
