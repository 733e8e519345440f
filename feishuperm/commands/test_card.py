"""`feishuperm test-card`: a real card through the running server, and its tap."""

from __future__ import annotations

import json
import os
import sys
import time

from feishuperm.errors import FeishupermError
from feishuperm.lib.arguments import ArgumentParser
from feishuperm.lib.config import load_settings
from feishuperm.lib.control import NotRunningError, ask_server
from feishuperm.lib.program import hook_output, start_hook
from feishuperm.lib.text import TEXTS

TYPE_CHECKING = False
if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable
    from typing import Any

SUMMARY = "send a real card and wait for the tap"
EPILOG = """\
Needs a running server with a Feishu group bot. Exit code 1 if the card does not get out
or nobody taps in time."""
TOOL = "feishuperm-test"
POLL_SECONDS = 0.25


def main(args: list[str]) -> int:
    parser = ArgumentParser("test-card", SUMMARY, EPILOG)
    parser.parse_args(args)
    settings = load_settings()

    def ask() -> dict[str, Any]:
        return ask_server({"command": "status"}, path=settings.permission_socket_path)

    status = ask()
    bot_problem(status)  # raises without a bot
    seconds = settings.permission_request_timeout
    hook = start_hook(event(), os.environ)
    print(f"a card is on its way; tap a button within {seconds} seconds")
    print(f"no card? the inbox shows it too: {status['inbox']}")
    sys.stdout.flush()
    started = time.monotonic()
    problem = watch(hook, ask, started + seconds + 10.0)
    output = hook_output(hook, 0.0)
    if not output:
        raise FeishupermError(problem or "nobody saw the card", "feishuperm doctor")
    if is_late(output):
        raise FeishupermError(f"nobody tapped within {seconds} seconds")
    print(f"after {time.monotonic() - started:.1f} s the hook printed:\n  {output}")
    return 0


def watch(
    hook: subprocess.Popen[bytes],
    ask: Callable[[], dict[str, Any]],
    until: float,
    clock: Callable[[], float] = time.monotonic,
    pause: Callable[[float], object] = time.sleep,
) -> str:
    """Wait for the hook's end and tell of a broken bot at once; its last problem."""
    told = problem = ""
    while hook.poll() is None and clock() < until:
        try:
            problem = bot_problem(ask())
        except NotRunningError as error:  # the hook waits for it to come back
            problem = str(error)
        if problem and problem != told:
            print(problem)
            sys.stdout.flush()
            told = problem
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
    """A request for a tool that nobody has, so that no rule can ever match it."""
    return {
        "session_id": "feishuperm-test-card",
        "transcript_path": "",
        "cwd": os.getcwd(),
        "hook_event_name": "PermissionRequest",
        "permission_mode": "default",
        "tool_name": TOOL,
        "tool_input": {
            "text": "A card from `feishuperm test-card`. Any button will do."
        },
    }
