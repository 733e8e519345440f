"""A scene in which no program does anything: it is written down who is called."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from feishuperm.danger.places import Ground
from feishuperm.danger.scene import (
    ANY,
    NOTHING,
    UNSEEN,
    Arg,
    Args,
    Findings,
    Flow,
    Program,
    Scene,
)
from feishuperm.danger.shell import Budget
from tests.danger.corpus import HOME, PROJECT

# Programs that the stage knows; all others are strangers to it.
NAMES = ("rm", "sudo", "sh", "bash", "cat", "echo", "python", "make")


class Stage:
    """The scene of a call, what was called in it and what was noted."""

    def __init__(self, names: Sequence[str] = NAMES) -> None:
        self.calls: list[str] = []
        self.findings = Findings(str)
        programs: dict[str, Program] = dict.fromkeys(names, self._called)
        programs[ANY] = self._stranger
        ground = Ground(PROJECT, HOME)
        self.scene = Scene(ground, PROJECT, programs, self.findings, Budget())

    def _called(self, scene: Scene, name: str, args: Args, flow: Flow) -> Flow:
        self.calls.append(" ".join([name, *args]))
        return UNSEEN

    def _stranger(self, scene: Scene, name: str, args: Args, flow: Flow) -> Flow:
        return self._called(scene, args[0], args[1:], flow)

    def play(self, program: Program, command: str, flow: Flow = NOTHING) -> Flow:
        """One program with its arguments, as a shell would tell them apart."""
        name, *words = shlex.split(command)
        return program(self.scene, name, [Arg(word) for word in words], flow)

    @property
    def notes(self) -> list[str]:
        """Marks, then facts: each key with what it is about."""
        levels = {**self.findings.marks, **self.findings.facts}
        return [f"{key} {', '.join(whats)}".strip() for key, whats in levels.items()]
