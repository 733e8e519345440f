"""Command-line arguments: one parser for every command.

A command says what it takes in the words of argparse; this is the part of argparse that
our commands need, because the whole of it would take longer to load than `version` or a
switch of the supervisor takes to run.  A mistake is told like any other, in one line
and a hint.
"""

from __future__ import annotations

from feishuperm.errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence
    from typing import Any, NoReturn

COLUMNS = 79
MARGIN = 24  # where help begins; a longer name has a line of its own


class Options:
    """What was given: one attribute per argument."""

    def __init__(self, values: dict[str, Any]) -> None:
        self.__dict__.update(values)

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(name)


class Argument:
    """One option, or one word by its place."""

    def __init__(
        self,
        names: tuple[str, ...],
        action: str = "store",
        nargs: str = "",
        default: Any = None,
        const: Any = None,
        choices: Collection[str] = (),
        type: Callable[[str], Any] = str,
        metavar: str = "",
        help: str = "",
        dest: str = "",
    ) -> None:
        self.names = names
        self.name = names[-1]
        self.dest = dest or self.name.lstrip("-").replace("-", "_")
        self.is_option = self.name.startswith("-")
        self.is_flag = action == "store_true"
        self.may_miss = nargs == "?"
        self.default = False if self.is_flag else default
        self.const = const  # the value of an option that is given without one
        self.choices = choices
        self.type = type
        self.metavar = metavar or "|".join(choices) or self.dest.upper()
        self.help = help

    def form(self) -> str:
        """How it is written: `-r, --resume ID`."""
        value = f"[{self.metavar}]" if self.may_miss else self.metavar
        if not self.is_option:
            return value
        return ", ".join(self.names) + ("" if self.is_flag else f" {value}")

    def usage(self) -> str:
        """Its part of the line of usage."""
        form = self.form().rpartition(", ")[2]
        return f"[{form}]" if self.is_option else form

    def read(self, word: str) -> Any:
        """The value of a word. Raises ValueError that says what is wrong."""
        if self.choices and word not in self.choices:
            raise ValueError(f"{word!r} is not {', '.join(self.choices)}")
        try:
            return self.type(word)
        except ValueError:
            raise ValueError(f"{word!r} is no {self.type.__name__}") from None


class ArgumentParser:
    """The arguments of one command."""

    def __init__(
        self, command: str, summary: str, epilog: str = "", usage: str = ""
    ) -> None:
        self.prog = f"feishuperm {command}"
        self.summary = summary
        self.epilog = epilog
        self.usage = usage  # for commands whose arguments depend on each other
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
                print(self.format_help())
                raise SystemExit(0)
            if _is_option(word):
                self._read_option(word, words, values)
            elif places:
                self._store(values, places.pop(0), word)
            else:
                self._unknown(word)
        for argument in places:
            if not argument.may_miss:
                self.error(f"{argument.metavar} is missing")
        return Options(values)

    def error(self, message: str) -> NoReturn:
        raise UsageError(message, f"{self.prog} --help")

    def _unknown(self, word: str) -> NoReturn:
        if self.arguments:
            self.error(f"unknown argument {word!r}")
        self.error(f"{self.prog.partition(' ')[2]} takes no arguments, got {word!r}")

    def _read_option(self, word: str, rest: list[str], values: dict[str, Any]) -> None:
        name, equals, value = word.partition("=")
        if not word.startswith("--") and len(word) > 2:
            name, equals, value = word[:2], "=", word[2:]  # -n5
        argument = next((a for a in self.arguments if name in a.names), None)
        if argument is None or (argument.is_flag and equals):
            self._unknown(word)
        if argument.is_flag:
            values[argument.dest] = True
        elif equals:
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
        paragraphs = [f"usage: {self.usage or self._usage()}", self.summary]
        if self.arguments:
            paragraphs.append("\n".join(self._rows()))
        return "\n\n".join(filter(None, [*paragraphs, self.epilog]))

    def _usage(self) -> str:
        words = [self.prog, "[-h]", *(argument.usage() for argument in self.arguments)]
        lines = [""]
        for word in words:
            if len(lines[-1]) + len(word) > COLUMNS - 8:
                lines.append(" " * len("usage:"))
            lines[-1] += f" {word}" if lines[-1] else word
        return "\n".join(lines)

    def _rows(self) -> Iterator[str]:
        for argument in self.arguments:
            if not argument.help:
                continue
            row = f"  {argument.form()}"
            if len(row) > MARGIN - 2:
                yield row
                row = ""
            yield f"{row:<{MARGIN}}{argument.help}"


def _is_option(word: str) -> bool:
    """A prompt may well begin with a dash; an option never holds a blank."""
    return word.startswith("-") and word != "-" and not any(map(str.isspace, word))
