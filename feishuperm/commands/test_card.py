"""`feishuperm test-card`: a real card through the running server, and its tap."""

from __future__ import annotations

import os
import sys
import time

from feishuperm.errors import FeishupermError
from feishuperm.lib.arguments import ArgumentParser
from feishuperm.lib.config import load_settings
from feishuperm.lib.control import ask_server
from feishuperm.lib.program import hook_output, start_hook

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

SUMMARY = "send a real card and wait for the tap"
EPILOG = """\
Needs a running server with a Feishu group bot. Exit code 1 if the card does not get out
or nobody taps in time."""
TOOL = "feishuperm-test"


def main(args: list[str]) -> int:
    parser = ArgumentParser("test-card", SUMMARY, EPILOG)
    parser.parse_args(args)
    settings = load_settings()
    status = ask_server({"command": "status"}, path=settings.permission_socket_path)
    channel = webhook_of(status)
    seconds = settings.permission_request_timeout
    hook = start_hook(event(), os.environ)
    print(f"a card is on its way; tap a button within {seconds} seconds")
    if channel:
        print(f"the group bot is {channel}")
    print(f"no card? the inbox shows it too: {status['inbox']}")
    sys.stdout.flush()
    started = time.monotonic()
    output = hook_output(hook, seconds + 10.0)
    if not output:
        raise FeishupermError("nobody could see the card", "feishuperm doctor")
    print(f"after {time.monotonic() - started:.1f} s the hook printed:\n  {output}")
    return 0


def webhook_of(status: dict[str, Any]) -> str:
    """The state of the group bot. Raises FeishupermError without one."""
    for channel in status["channels"]:
        if channel["name"] == "webhook":
            return f"{channel['state']} {channel.get('detail', '')}".strip()
    raise FeishupermError(
        "the server has no Feishu group bot", "feishuperm install, or feishuperm demo"
    )


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
