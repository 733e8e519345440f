"""Command-line arguments: one parser for every command.

A command says what it takes in the words of argparse; this is the part of argparse that
our commands need, because the whole of it would take longer to load than `version` or a
switch of the supervisor takes to run.  A mistake is told like any other, in one line
and a hint.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from types import SimpleNamespace

from feishuperm.errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

COLUMNS = 68  # of the line of usage, behind its first word
MARGIN = 24  # where help begins; a longer name has a line of its own
Options = SimpleNamespace  # what was given: one attribute per argument


class Argument:
    """One option, or one word by its place."""

    def __init__(
        self,
        names: tuple[str, ...],
        action: str = "",
        nargs: str = "",
        default: Any = None,
        const: Any = None,
        choices: Collection[str] = (),
        type: Callable[[str], Any] = str,
        metavar: str = "",
        help: str = "",
        dest: str = "",
    ) -> None:
        self.names, self.name, self.help = names, names[-1], help
        self.dest = dest or self.name.lstrip("-").replace("-", "_")
        self.is_option = self.name.startswith("-")
        self.is_flag = action == "store_true"
        self.may_miss = nargs == "?"
        self.default = False if self.is_flag else default
        self.const = const  # the value of an option that is given without one
        self.choices, self.type = choices, type
        value = metavar or "|".join(choices) or self.dest.upper()
        self.value = f"[{value}]" if self.may_miss else value

    def form(self, *names: str) -> str:
        """How it is written: `-r, --resume ID`."""
        if not self.is_option:
            return self.value
        return ", ".join(names) + ("" if self.is_flag else f" {self.value}")

    def read(self, word: str) -> Any:
        """The value of a word. Raises ValueError that says what is wrong."""
        if self.choices and word not in self.choices:
            raise ValueError(f"{word!r} is not {', '.join(self.choices)}")
        try:
            return self.type(word)
        except ValueError:
            if self.type is int:
                raise ValueError(f"{word!r} is no number") from None
            raise  # the type's own words


class ArgumentParser:
    """The arguments of one command; `usage` is for those that depend on each other."""

    def __init__(
        self, command: str, summary: str, epilog: str = "", usage: str = ""
    ) -> None:
        self.prog = f"feishuperm {command}"
        self.summary, self.epilog, self.usage = summary, epilog, usage
        self.arguments: list[Argument] = []

    def add_argument(self, *names: str, **rules: Any) -> None:
        """One more; the rules are those of `Argument`."""
        self.arguments.append(Argument(names, **rules))

    def parse_args(self, args: Sequence[str]) -> Options:
        """The values. Raises UsageError; SystemExit after `--help`."""
        values = {argument.dest: argument.default for argument in self.arguments}
        places = [argument for argument in self.arguments if not argument.is_option]
        words = list(args)
        while words:
            word = words.pop(0)
            if word in ("--help", "-h"):
                print(self.format_help(), flush=True)  # a full disk shows here
                raise SystemExit(0)
            if _is_option(word):
                self._read_option(word, words, values)
            elif places:
                self._store(values, places.pop(0), word)
            else:
                self._unknown(word)
        for argument in places:
            if not argument.may_miss:
                self.error(f"{argument.value} is missing")
        return Options(**values)

    def error(self, message: str) -> NoReturn:
        raise UsageError(message, f"{self.prog} --help")

    def _unknown(self, word: str) -> NoReturn:
        if self.arguments:
            self.error(f"unknown argument {word!r}")
        self.error(f"{self.prog.partition(' ')[2]} takes no arguments, got {word!r}")

    def _read_option(self, word: str, rest: list[str], values: dict[str, Any]) -> None:
        name, value = _parted(word)
        argument = next((a for a in self.arguments if name in a.names), None)
        if argument is None or (argument.is_flag and value is not None):
            self._unknown(word)
        if argument.is_flag:
            values[argument.dest] = True
        elif value is not None:
            self._store(values, argument, value)
        elif rest and not _is_option(rest[0]):
            self._store(values, argument, rest.pop(0))
        elif argument.may_miss:
            values[argument.dest] = argument.const
        else:
            self.error(f"{name} needs a value")

    def _store(self, values: dict[str, Any], argument: Argument, word: str) -> None:
        try:
            values[argument.dest] = argument.read(word)
        except ValueError as error:
            self.error(f"{argument.name}: {error}")

    def format_help(self) -> str:
        """What `--help` prints."""
        from feishuperm.lib.tongue import translate  # late: few ask for help

        usage = f"{translate('usage:')} {self.usage or self._usage()}"
        rows = "\n".join(self._rows(translate))
        parts = (usage, translate(self.summary), rows, translate(self.epilog))
        return "\n\n".join(filter(None, parts))

    def _usage(self) -> str:
        lines = [f"{self.prog} [-h]"]
        for argument in self.arguments:
            form = argument.form(argument.name)
            if len(lines[-1]) + len(form) > COLUMNS:
                lines.append(" " * len("usage:"))
            lines[-1] += f" [{form}]" if argument.is_option else f" {form}"
        return "\n".join(lines)

    def _rows(self, translate: Callable[[str], str]) -> Iterator[str]:
        for argument in (a for a in self.arguments if a.help):
            row = f"  {argument.form(*argument.names)}"
            if len(row) > MARGIN - 2:
                yield row
                row = ""
            yield f"{row:<{MARGIN}}{translate(argument.help)}"


def _parted(word: str) -> tuple[str, str | None]:
    """An option, and the value that is written with it: `--to=x`, `-n5`."""
    if not word.startswith("--"):
        return word[:2], word[2:] or None
    name, equals, value = word.partition("=")
    return name, value if equals else None


def _is_option(word: str) -> bool:
    """A prompt may well begin with a dash; no option holds a blank or is a number."""
    is_value = word[1:].isdigit() or any(map(str.isspace, word))
    return word.startswith("-") and word != "-" and not is_value
