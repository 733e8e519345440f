"""What the supervisor adds to a review: the hook's whole run beside the reviewer's own.

    python3 build.py bench supervisor

One reviewer answers at once, so that nothing of our work hides behind it; the other
takes half a second, as the fastest real one does at least.  Each is timed by turns
alone and through the hook; medians of wall clock and of processor time are printed.
"""

from __future__ import annotations

import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

import build  # noqa: E402
from tests.bench.table import row  # noqa: E402

ROUNDS = 30
LIMIT = 60  # ms beside a reviewer of half a second, the fastest there is
EVENT = json.dumps({"hook_event_name": "Stop", "session_id": "s"}).encode()
VERDICT = '{"allow_stop": true, "feedback": "fine"}'


def timed(command: list[str], environ: dict[str, str]) -> tuple[float, float]:
    """Wall clock and processor time of one run, in milliseconds."""
    start, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(
        command, input=EVENT, env=environ, stdout=subprocess.DEVNULL, check=True
    )
    wall = time.perf_counter() - start
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    used = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
    return wall * 1000, used * 1000


def measure(pause: str, home: str) -> None:
    """Time one reviewer, alone and supervised."""
    reviewer = os.path.join(home, "reviewer.sh")
    with open(reviewer, "w", encoding="ascii") as file:
        file.write(f"cat >/dev/null; sleep {pause}; echo '{VERDICT}'\n")
    command = ["/bin/sh", reviewer]
    environ = {
        "HOME": home,
        "PATH": f"{os.path.dirname(os.path.realpath(sys.executable))}:/usr/bin:/bin",
        "SUPERVISOR_COMMAND": " ".join(command),
        "SUPERVISOR_MAX_ITERATIONS": "1000",
    }
    hook = [str(build.ARCHIVE), "supervisor"]
    pairs = [(timed(command, environ), timed(hook, environ)) for _ in range(ROUNDS)]
    wall, used = (
        [statistics.median(run[kind] for run in runs) for runs in zip(*pairs)]
        for kind in (0, 1)
    )
    print(f"reviewer of {pause} s: alone {wall[0]:.1f} ms, hook {wall[1]:.1f} ms")
    added = wall[1] - wall[0]
    print(f"  added {added:.1f} ms, of processor {used[1] - used[0]:.1f} ms")
    if pause != "0":
        row("supervisor", f"its reviewer of {pause} s", added, LIMIT, "ms more")


def main() -> None:
    for pause in ("0", "0.5"):
        with tempfile.TemporaryDirectory() as home:
            measure(pause, home)


if __name__ == "__main__":
    main()
