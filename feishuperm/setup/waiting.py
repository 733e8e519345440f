"""How long a request waits for a person: `install --wait`, and what that sets.

Three things have to fit: the wait, what happens at its end, and the time-out that
Claude Code gives the hook.  The specified 55 s and a refusal are the default of the
settings; who is away from the desk waits longer and leaves the rest to the terminal.
"""

from __future__ import annotations

import re

from feishuperm.lib.terminal import ask, say

USUAL = 600  # seconds that `install` offers on a terminal
SHORT = 60  # up to here a wait ends as specified: with a refusal
LONGEST = 86400
DURATION = re.compile(r"([0-9]{1,5})([smh]?)")
UNITS = {"": 1, "s": 1, "m": 60, "h": 3600}
SECONDS = "PERMISSION_REQUEST_TIMEOUT"
ACTION = "PERMISSION_TIMEOUT_ACTION"


def duration(text: str) -> int:
    """Seconds of `10m`, `55s` or `600`. Raises ValueError."""
    match = DURATION.fullmatch(text.strip().lower())
    seconds = int(match[1]) * UNITS[match[2]] if match else 0
    if not 0 < seconds <= LONGEST:
        raise ValueError(f"{text!r} is no duration: from 1s to 24h, such as 10m")
    return seconds


def wait_settings(seconds: int) -> dict[str, str]:
    """The settings for a wait of so many seconds."""
    action = "deny" if seconds <= SHORT else "terminal"
    return {SECONDS: str(seconds), ACTION: action}


def ask_wait() -> dict[str, str]:
    """Offer the longer wait; Enter takes it."""
    say(
        "A request waits 55 seconds for you and is then refused. It can also\n"
        "wait 10 minutes and then leave the answer to the terminal, where the\n"
        "dialog stays open."
    )
    answer = ask("Wait 10 minutes? [Y/n] ")
    return wait_settings(55 if answer in ("n", "no") else USUAL)
