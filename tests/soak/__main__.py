"""`python -m tests.soak [RUNS [SEED]]`: random faults against the built file."""

from __future__ import annotations

import random
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path

from tests.soak.faults import KINDS, Run, Violation, judge_world
from tests.soak.world import ROOT, World

RUNS = 1000
WORLDS = 4  # at a time; most of a run is waiting
RUNS_PER_WORLD = 25
GROWN_BYTES = 40 << 20  # of a server, over the runs of its world
GROWN_DESCRIPTORS = 4


class Soak:
    """All runs, shared out among threads."""

    def __init__(self, pyz: str, runs: int, seed: int) -> None:
        self.pyz = pyz
        self.seed = seed
        self.left = list(range(-(-runs // RUNS_PER_WORLD)))
        self.runs = 0
        self.hooks = 0
        self.taps = 0
        self.successes = 0
        self.faults: Counter[str] = Counter()
        self.violations: list[Violation] = []
        self.lock = threading.Lock()

    def work(self) -> None:
        while True:
            with self.lock:
                if not self.left:
                    return
                number = self.left.pop()
            with tempfile.TemporaryDirectory(prefix="soak") as folder:
                self._live(number, Path(folder))

    def _live(self, number: int, home: Path) -> None:
        """One world: some runs, then a look at what is left."""
        rng = random.Random(f"{self.seed} {number}")
        world = World(self.pyz, home, platform=number % 2 == 1)
        violations: list[Violation] = []
        try:
            for _ in range(RUNS_PER_WORLD):
                run = Run(world, rng)
                violations += run.play()
                with self.lock:
                    self.runs += 1
                    self.faults.update(run.names or ["none"])
            violations += growth(world, rng)
        except Exception as error:  # of the soak itself; it must not go unnoticed
            violations.append(Violation("broken", f"the run: {error!r} {world.log()}"))
        finally:
            world.close()
        violations += judge_world(world)
        with self.lock:
            self.violations += violations
            self.hooks += world.hooks
            self.taps += len(world.acts)
            self.successes += len(world.successes)
        for violation in violations:
            print(f"soak: world {number}: {violation}", flush=True)


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
    soak = Soak(str(ROOT / "dist" / "feishuperm.pyz"), runs, seed)
    began = time.monotonic()
    threads = [threading.Thread(target=soak.work) for _ in range(WORLDS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    counts = Counter(violation.kind for violation in soak.violations)
    print(
        f"soak: {soak.runs} runs, {soak.hooks} hooks, {soak.taps} taps of which"
        f" {soak.successes} decided, {time.monotonic() - began:.0f} s (seed {seed})"
    )
    print("soak: faults " + ", ".join(f"{n} {c}" for n, c in soak.faults.items()))
    print("soak: " + ", ".join(f"{counts[kind]} {kind}" for kind in KINDS))
    # Where no tap decides anything, nothing was tried.
    return int(bool(soak.violations) or soak.successes < soak.taps // 4)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
