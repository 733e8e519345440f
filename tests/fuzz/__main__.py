"""`python -m tests.fuzz [INPUTS [SEED]]`: the long form, with figures."""

from __future__ import annotations

import resource
import sys
import time

from tests.fuzz.fuzzing import Failure, Target, check_growth, fuzz
from tests.fuzz.targets import TARGETS

INPUTS = 1_000_000
BATCH = 5000  # inputs between two looks at the memory
GROWN_MB = 64  # of the whole process, after its first batch over all targets


def main(arguments: list[str]) -> int:
    """Feed every target its share. 1 if any did not survive."""
    inputs = int(arguments[0]) if arguments else INPUTS
    seed = int(arguments[1]) if len(arguments) > 1 else 1
    began = time.monotonic()
    share = -(-inputs // len(TARGETS))
    failures = 0
    for target in TARGETS:
        fuzz(target, 100, seed + 1_000_000)  # warm, so that memory has its level
    level = peak_mb()
    for target in TARGETS:
        failures += not feed(target, share, seed)
    grown = peak_mb() - level
    print(
        f"fuzz: {share * len(TARGETS)} inputs, {len(TARGETS)} parsers,"
        f" {failures} failed, {time.monotonic() - began:.0f} s,"
        f" memory +{grown:.0f} MB (seed {seed})"
    )
    return int(failures > 0 or grown > GROWN_MB)


def feed(target: Target, share: int, seed: int) -> bool:
    """Whether a target survives its share."""
    began = time.monotonic()
    slowest = 0.0
    try:
        for done in range(0, share, BATCH):
            figures = fuzz(target, min(BATCH, share - done), seed + done)
            slowest = max(slowest, figures.slowest)
        check_growth(target, seed)
    except Failure as failure:
        print(f"fuzz: FAILED {failure}", flush=True)
        return False
    print(
        f"fuzz: {target.name:18} {share:8} inputs  slowest {slowest * 1000:7.1f} ms"
        f"  {time.monotonic() - began:5.1f} s",
        flush=True,
    )
    return True


def peak_mb() -> float:
    """The most memory this process ever had."""
    used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return used / (1 << 20 if sys.platform == "darwin" else 1 << 10)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
