"""Words for the person at the terminal.

What came from outside (a path, a bot's answer, a tool's name) is made visible first, so
that no escape sequence in it can move the cursor or rewrite what stands there.  Lines
come in English and are told in the language of whoever reads them.
"""

from __future__ import annotations

import sys

from feishuperm.errors import FeishupermError
from feishuperm.lib.display import visible
from feishuperm.lib.tongue import translate


def say(text: str) -> None:
    """One line or more on stdout, at once."""
    print(visible(translate(text)), flush=True)


def show(text: str) -> None:
    """What is no sentence of ours, or is translated already, as it is."""
    print(visible(text), flush=True)


def warn(text: str) -> None:
    """What went wrong, on stderr."""
    print(f"feishuperm: {visible(translate(text))}", file=sys.stderr)


def complain(error: FeishupermError) -> None:
    """An error and the command that mends it."""
    warn(str(error))
    if error.hint:
        hint = translate(f"hint: {error.hint}")
        print(visible(hint), file=sys.stderr)


def can_ask() -> bool:
    """Whether a person can read a question and answer it."""
    return all(stream and stream.isatty() for stream in (sys.stdin, sys.stdout))


def ask(question: str) -> str:
    """What a person types behind a question, in small letters."""
    return input(translate(question)).strip().lower()
