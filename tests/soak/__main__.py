"""`python -m tests.soak [RUNS [SEED]]`: random faults against the built file."""

from __future__ import annotations

import random
import sys
from pathlib import Path

from tests.soak.faults import Run, Soak, Violation
from tests.soak.world import ROOT, World

RUNS = 1000
GROWN_BYTES = 40 << 20  # of a server, over the runs of its world
GROWN_DESCRIPTORS = 4


class Faults(Soak):
    """Half of the worlds with the platform, all of them watched for growth."""

    taps = successes = 0

    def world(self, number: int, home: Path) -> World:
        return World(self.pyz, home, platform=number % 2 == 1)

    def look(self, world: World, rng: random.Random) -> list[Violation]:
        return growth(world, rng)

    def count(self, world: World) -> None:
        super().count(world)
        self.taps += len(world.acts)
        self.successes += len(world.successes)


def growth(world: World, rng: random.Random) -> list[Violation]:
    """Descriptors and memory of a server before and after runs without faults."""
    world.start()
    before = world.descriptors(), world.memory()
    for _ in range(3):
        run = Run(world, rng)
        run.faults, run.names = [], []
        run.play()
    grown = world.descriptors() - before[0], world.memory() - before[1]
    if grown[0] > GROWN_DESCRIPTORS or grown[1] > GROWN_BYTES:
        return [Violation("broken", f"grew by {grown[0]} files, {grown[1]} bytes")]
    return []


def main(arguments: list[str]) -> int:
    """Run the faults and print what came of them. 1 if anything did."""
    runs = int(arguments[0]) if arguments else RUNS
    seed = int(arguments[1]) if len(arguments) > 1 else 1
    soak = Faults(str(ROOT / "dist" / "feishuperm.pyz"), runs, seed)
    seconds = soak.play()
    print(
        f"soak: {soak.runs} runs, {soak.hooks} hooks, {soak.taps} taps of which"
        f" {soak.successes} decided, {seconds:.0f} s (seed {seed})"
    )
    soak.tell()
    # Where no tap decides anything, nothing was tried.
    return int(bool(soak.violations) or soak.successes < soak.taps // 4)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
