"""A shell in which no program does anything: it is written down which one is called."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from feishuperm.danger.command_table import programs
from feishuperm.danger.interpreter import (
    ANY,
    NOTHING,
    UNSEEN,
    Arg,
    Args,
    Call,
    Output,
    Program,
    ShellState,
)
from feishuperm.danger.paths import PathRules
from feishuperm.danger.reader import functions
from feishuperm.shell.reader import Budget
from tests.danger.corpus import HOME, PROJECT

# Programs that the stage knows; all others are unknown to it.
NAMES = ("rm", "sudo", "sh", "bash", "cat", "echo", "python", "make")


class Stage:
    """The shell of a call, what was called in it and what was noted."""

    def __init__(self, names: Sequence[str] = NAMES) -> None:
        self.calls: list[str] = []
        known: dict[str, Program] = dict.fromkeys(names, self._called)
        known[ANY] = self._unknown
        rules = PathRules(PROJECT, HOME)
        self.state = ShellState(rules, PROJECT, known, str, Budget())

    def _called(self, state: ShellState, call: Call) -> Output:
        self.calls.append(" ".join([call.name, *call.args]))
        return UNSEEN

    def _unknown(self, state: ShellState, call: Call) -> Output:
        return self._called(state, Call(call.args[0], call.args[1:]))

    def play(self, command: str, given: Output = NOTHING) -> Output:
        """One program of the table, with words as a shell would tell them apart."""
        name, *words = shlex.split(command)
        return self.follow(name, [Arg(word) for word in words], given)

    def follow(self, name: str, args: Sequence[Arg], given: Output = NOTHING) -> Output:
        """One program of the table; one that it does not know is followed as such."""
        row = programs().get(name)
        if row is None:
            args = [Arg(name), *args]
        call = Call(name, Args(args), given, row.valued if row else "")
        return functions()[name if row else ANY](self.state, call) or NOTHING

    @property
    def notes(self) -> list[str]:
        """Marks, then facts: each key with what it is about."""
        levels = {**self.state.marks, **self.state.facts}
        return [f"{key} {', '.join(whats)}".strip() for key, whats in levels.items()]
