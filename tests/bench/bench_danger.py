"""The danger reader: precision and recall on the labelled calls, and its speed.

python3 build.py bench danger
"""

from __future__ import annotations

import itertools
import random
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from feishuperm.danger.reader import read_call  # noqa: E402
from tests.bench.table import row  # noqa: E402
from tests.danger.corpus import HOME, PROJECT, cases, right  # noqa: E402
from tests.danger.hostile import again, hostile, random_command  # noqa: E402

COMMANDS = 10_000
SEED = 12
LIMIT_MS = 50


def judge() -> None:
    """What is found, and what is said without need."""
    labelled = cases()
    dangerous = [case for case in labelled if case.is_dangerous]
    harmless = [case for case in labelled if not case.is_dangerous]
    marked = sum(right(case) for case in dangerous)
    wrongly = sum(bool(case.read().marks) for case in harmless)
    print(f"{len(dangerous)} dangerous calls, {len(harmless)} harmless ones")
    recall, precision = marked / len(dangerous), marked / (marked + wrongly)
    print(f"recall {recall:.4f}, precision {precision:.4f}")
    row("danger, recall", "labelled calls", recall, 1.0, "", at_least=True)
    share = wrongly / len(harmless)
    row("danger, harmless calls marked", "labelled calls", share, 0.05, "of them")


def milliseconds(command: str) -> float:
    """Processor time: what else the machine does is not the reader's."""
    started = time.process_time()
    read_call("Bash", {"command": command}, PROJECT, HOME)
    return (time.process_time() - started) * 1000


def measure() -> None:
    """The slowest of many that are random, and of those that are meant to be slow."""
    rng = random.Random(SEED)
    endless = [*hostile(), *again()]
    plain = (random_command(rng) for _ in range(COMMANDS - len(endless)))
    times = sorted(map(milliseconds, itertools.chain(endless, plain)))
    middle, slowest = times[len(times) // 2], times[-1]
    what = f"{COMMANDS} random and hostile commands, {len(endless)} of them endless"
    print(f"{what}: median {middle:.2f} ms, slowest {slowest:.1f} ms")
    row("danger, slowest reading", what, slowest, LIMIT_MS, "ms")


def main() -> int:
    judge()
    measure()
    return 0


if __name__ == "__main__":
    sys.exit(main())
