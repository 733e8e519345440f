"""The arguments of one command: argparse, with mistakes and help in our own words.

argparse words both differently in each Python and in English alone; here a mistake is
told like any other, in one line and a hint.  `version` and `supervisor` import this
for words only that they do not know: argparse takes longer to load than they to run.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator, Sequence

from feishuperm.errors import UsageError
from feishuperm.lib.display import filled
from feishuperm.lib.language import translate
from feishuperm.messages import msg
from feishuperm.models.names import COMMANDS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

COLUMNS = 68  # of the line of usage, behind its first word
WIDEST = 79
# Where lines of Chinese meet there is no space.
JOINED = re.compile("(?<=[\u3001-\uffef])\n(?=[\u3001-\uffef])|(?<=[，。；：、）])\n")
MARGIN = 24  # where help begins; a longer name has a line of its own


def number(word: str) -> int:
    try:
        return int(word)
    except ValueError:
        raise ValueError(msg("{!r} is no number", word)) from None


class ArgumentParser(argparse.ArgumentParser):
    """The arguments of one command; `usage` is for those that depend on each other."""

    def __init__(self, command: str, epilog: str = "", usage: str = "") -> None:
        self.command, self.own_usage = command, usage
        super().__init__(
            f"feishuperm {command}", epilog=epilog, add_help=False, allow_abbrev=False
        )

    def parse_args(self, args: Sequence[str]) -> argparse.Namespace:  # type: ignore[override]
        """The values. Raises UsageError; SystemExit after `--help`."""
        if {"-h", "--help"}.intersection(args):
            print(self.format_help(), flush=True)  # a full disk shows here
            raise SystemExit(0)
        options, rest = self.parse_known_intermixed_args(args)
        if rest and self._actions:
            self.error(msg("unknown argument {!r}", rest[0]))
        if rest:
            self.error(msg("{} takes no arguments, got {!r}", self.command, rest[0]))
        for action in self._actions:
            is_needed = action.nargs is None and not action.option_strings
            if is_needed and getattr(options, action.dest) is None:
                self.error(msg("{} is missing", _form(action)))
        return options

    def add_argument(self, *names: str, **rules: Any) -> argparse.Action:
        action = super().add_argument(*names, **rules)
        action.required = False  # `parse_args` looks: what is unknown is told first
        return action

    def error(self, message: str) -> NoReturn:
        """Raises UsageError, in our words for those of argparse."""
        name, _, problem = message.removeprefix("argument ").partition(": ")
        option = name.rpartition("/")[2]
        if problem == "expected one argument":
            message = msg("{} needs a value", option)
        elif problem[:26] == "ignored explicit argument ":
            message = msg("unknown argument {!r}", option + "=" + problem[27:-1])
        elif message.startswith("argument "):
            message = f"{option}: {problem}"
        raise UsageError(message, f"{self.prog} --help")

    def _get_value(self, action: argparse.Action, word: str) -> Any:
        """The value of a word; its type says what is wrong with it, by ValueError."""
        try:
            if action.choices and word not in action.choices:
                raise ValueError(msg("{!r} is not {}", word, ", ".join(action.choices)))
            return (action.type or str)(word)  # type: ignore[operator]
        except ValueError as error:
            name = [action.metavar or action.dest, *action.option_strings][-1]
            self.error(msg("{}: {}", name, error))

    def format_help(self) -> str:
        """What `--help` prints."""
        usage = f"{translate('usage:')} {self.own_usage or self._usage()}"
        ends = translate(self.epilog or "").split("\n\n")
        rows = "\n".join(self._rows())
        parts = (usage, translate(COMMANDS[self.command]), rows, *map(_paragraph, ends))
        return "\n\n".join(filter(None, parts))

    def _usage(self) -> str:
        lines = [f"{self.prog} [-h]"]
        for action in self._actions:
            form = _form(action, *action.option_strings[-1:])
            if len(lines[-1]) + len(form) > COLUMNS:
                lines.append(" " * len("usage:"))
            lines[-1] += f" [{form}]" if action.option_strings else f" {form}"
        return "\n".join(lines)

    def _rows(self) -> Iterator[str]:
        for action in [action for action in self._actions if action.help]:
            row = f"  {_form(action, *action.option_strings)}"
            if len(row) > MARGIN - 2:
                yield row
                row = ""
            for line in filled(translate(action.help or ""), WIDEST - MARGIN):
                yield f"{row:<{MARGIN}}{line}"
                row = ""


def _paragraph(text: str) -> str:
    """A paragraph as wide as a terminal; one that holds a list stays as it is."""
    if re.search("^ ", text, re.MULTILINE):
        return text
    return "\n".join(filled(JOINED.sub("", text), WIDEST))


def _form(action: argparse.Action, *names: str) -> str:
    """How it is written: `-r, --resume ID`."""
    value = action.metavar or "|".join(action.choices or ()) or action.dest.upper()
    value = f"[{value}]" if action.nargs == "?" else str(value)
    if not names:
        return value
    return ", ".join(names) + ("" if action.nargs == 0 else f" {value}")
