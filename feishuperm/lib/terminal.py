"""Words for the person at the terminal.

What came from outside (a path, a bot's answer, a tool's name) is made visible first, so
that no escape sequence in it can move the cursor or rewrite what stands there.  Lines
come in English and are told in the language of the person who reads them.
"""

from __future__ import annotations

import sys
from typing import Any

from feishuperm.errors import FeishupermError
from feishuperm.lib.display import visible
from feishuperm.lib.language import translate
from feishuperm.messages import message_of


def say(message: str, /, *args: Any, **values: Any) -> None:
    """A sentence on stdout, at once."""
    print(visible(translate(message, *args, **values)), flush=True)


def show(text: str) -> None:
    """What is no sentence, or is translated already, as it is."""
    print(visible(text), flush=True)


def warn(message: str, /, *args: Any, **values: Any) -> None:
    """What went wrong, on stderr."""
    said = visible(translate(message, *args, **values))
    print(f"feishuperm: {said}", file=sys.stderr)


def complain(error: FeishupermError) -> None:
    """An error and the command that repairs it."""
    warn(message_of(error))
    if error.hint:
        print(visible(translate("hint: {}", error.hint)), file=sys.stderr)


def can_ask() -> bool:
    """Whether a person can read a question and answer it."""
    return all(stream and stream.isatty() for stream in (sys.stdin, sys.stdout))


def ask(question: str, /, *args: Any) -> str:
    """What a person types behind a question, in small letters."""
    return input(translate(question, *args)).strip().lower()
