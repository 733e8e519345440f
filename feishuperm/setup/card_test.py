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
from feishuperm.services.ledger import Ledger

POLL_SECONDS = 0.25
LOOKED_AT = 50  # entries of the ledger; others may be answered meanwhile
BOTS = {"app": "the app", "webhook": "the group bot", "gateway": "the gateway"}


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
    """What is wrong with app, group bot and gateway, if anything. Raises without any.

    One that is up will do: the bot stands in for an app that cannot send.
    """
    channels = [channel for channel in status["channels"] if channel["name"] in BOTS]
    if not channels:
        raise FeishupermError(
            "the server has no Feishu group bot, no app and no gateway",
            "feishuperm install --setup, or feishuperm demo",
        )
    if any(channel["state"] == "up" for channel in channels):
        return ""
    return f"{BOTS[channels[0]['name']]} is down: {channels[0]['detail']}"


def last_answer(ledger: Ledger) -> tuple[str, str]:
    """Where the last test card was answered, and by whom; empty if it was not."""
    for entry in reversed(ledger.latest(LOOKED_AT)):
        if entry.get("tool") == TEST_TOOL:
            return str(entry.get("surface") or ""), str(entry.get("who") or "")
    return "", ""


def is_allowed(output: str) -> bool:
    """Whether the tap was one that allows."""
    decision = json.loads(output)["hookSpecificOutput"]["decision"]
    return bool(decision.get("behavior") == "allow")


def is_late(output: str) -> bool:
    """Whether this is the server's own answer for a request nobody answered."""
    decision = json.loads(output)["hookSpecificOutput"]["decision"]
    return decision.get("message") in TEXTS["message.expired"]


def event() -> dict[str, Any]:
    """The request that the card is about."""
    text = "A card from `feishuperm test-card`. Any button will do."
    return permission_event(TEST_TOOL, {"text": text}, os.getcwd())
