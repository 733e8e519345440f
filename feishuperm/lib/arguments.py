"""The arguments of one command: argparse, with mistakes and help in our own words.

argparse words both differently in each Python and in English alone; here a mistake is
told like any other, in one line and a hint.  `version` and `supervisor` import this
for words only that they do not know: argparse takes longer to load than they to run.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from feishuperm.errors import UsageError
from feishuperm.lib.language import page
from feishuperm.messages import message_of, msg

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn


def number(word: str) -> int:
    try:
        return int(word)
    except ValueError:
        raise ValueError(msg("{!r} is no number", word)) from None


class ArgumentParser(argparse.ArgumentParser):
    """The arguments of one command; `flags` are its options that take no value."""

    def __init__(self, command: str, *flags: str) -> None:
        self.command = command
        super().__init__(f"feishuperm {command}", add_help=False, allow_abbrev=False)
        for flag in flags:
            self.add_argument(flag, action="store_true")

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
                self.error(msg("{} is missing", action.metavar or action.dest.upper()))
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
            self.error(msg("{}: {}", name, message_of(error)))

    def format_help(self) -> str:
        """What `--help` prints: a section of the page that tells of all commands."""
        section = page("commands", "txt").partition(f"## {self.command}: ")[2]
        summary, usage, *rest = section.partition("\n#")[0].strip().split("\n\n")
        return "\n\n".join((usage, summary, *rest))
