"""A few runs with faults; `build.py soak` makes a thousand."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.soak.faults import FAULTS, Run, Violation, judge_world
from tests.soak.world import Act, World


@pytest.mark.parametrize("platform", [False, True], ids=["inbox", "platform"])
def test_random_faults_lose_double_and_invent_nothing(
    pyz: Path, home: Path, platform: bool
) -> None:
    world = World(str(pyz), home, platform)
    rng = random.Random(f"short {platform}")
    violations: list[Violation] = []
    try:
        for faults in ([FAULTS[0]], [FAULTS[4]], [rng.choice(FAULTS)]):
            run = Run(world, rng)
            run.faults = faults
            run.names = [fault.__name__ for fault in faults]
            violations += run.play()
    finally:
        world.close()
    assert violations + judge_world(world) == []
    assert world.successes, "nothing was tapped, so nothing was tried"


def test_reckoning_notices_what_must_not_be(pyz: Path, home: Path) -> None:
    """A tap that is missing from the finger's list, and one that reached nobody."""
    world = World(str(pyz), home)
    try:
        run = Run(world, random.Random(7))
        run.faults = []
        assert run.play() == []
        decided = [hook for hook in run.hooks if hook.printed]
        world.acts = [act for act in world.acts if act.project != decided[0].project]
        decided[1].printed = b""
        world.successes.append(Act(decided[1].project, decided[1].id, "deny"))
        run._judge()
    finally:
        world.close()
    assert {violation.kind for violation in run.violations} >= {"unrecorded", "lost"}
