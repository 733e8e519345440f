"""Words for the person at the terminal.

What came from outside (a path, a bot's answer, a tool's name) is made visible first, so
that no escape sequence in it can move the cursor or rewrite what stands there.
"""

from __future__ import annotations

import sys

from feishuperm.errors import FeishupermError
from feishuperm.lib.display import visible


def say(text: str) -> None:
    """One line or more on stdout, at once."""
    print(visible(text), flush=True)


def warn(text: str) -> None:
    """What went wrong, on stderr."""
    print(f"feishuperm: {visible(text)}", file=sys.stderr)


def complain(error: FeishupermError) -> None:
    """An error and the command that mends it."""
    warn(str(error))
    if error.hint:
        print(f"hint: {visible(error.hint)}", file=sys.stderr)
