"""From a click to the exit of the hook's process, with a thousand requests waiting.

    python3 build.py bench click

The hooks are real processes of the built file, the click is a GET on a fresh
connection, and the clock stops when the process is gone.  The floor is how long a
process that waits in `read` takes to go when it is told to: no hook can be faster.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.bench.serving import ARCHIVE, BuiltServer, event, go_first
from tests.bench.table import row

HOOKS = 20
CROWD = 1000
LIMIT = 0.020


def start_hooks(server: BuiltServer) -> dict[str, subprocess.Popen[bytes]]:
    """Real hooks that wait, by request id."""
    hooks = {}
    for number in range(HOOKS):
        project = f"{server.home}/project-{number}"
        os.mkdir(project)
        process = subprocess.Popen(
            [str(ARCHIVE), "hook"],
            env={**server.environment, "CLAUDE_PROJECT_DIR": project},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert process.stdin is not None
        process.stdin.write(event(project))
        process.stdin.close()
        hooks[project] = process
    return {id: hooks[project] for id, project in registered(server).items()}


def registered(server: BuiltServer) -> dict[str, str]:
    """The project of every request that waits, by id, once all hooks are there."""
    until = time.monotonic() + 20
    while time.monotonic() < until:
        waiting = server.control("status")["waiting"]
        assert isinstance(waiting, list)
        if len(waiting) == HOOKS:
            return {row["id"]: row["project"] for row in waiting}
        time.sleep(0.05)
    raise SystemExit("the hooks did not register")


def click(server: BuiltServer, id: str, process: subprocess.Popen[bytes]) -> float:
    """Seconds from the click to the end of the process."""
    start = time.perf_counter()
    server.get(f"/allow?id={id}")
    process.wait(30)
    end = time.perf_counter()
    assert process.stdout is not None
    with process.stdout as output:
        if b'"allow"' not in output.read():
            raise SystemExit("the hook did not print the decision")
    return end - start


def floor() -> float:
    """Seconds from closing a pipe to the end of the `cat` that reads it."""
    process = subprocess.Popen(["cat"], stdin=subprocess.PIPE)
    assert process.stdin is not None
    time.sleep(0.02)
    start = time.perf_counter()
    process.stdin.close()
    process.wait(30)
    return time.perf_counter() - start


def main() -> int:
    go_first()
    server = BuiltServer()
    crowd = []
    try:
        hooks = start_hooks(server)
        crowd = [server.park(number)[0] for number in range(CROWD)]
        times = sorted(click(server, *hook) for hook in hooks.items())
    finally:
        for sock in crowd:
            sock.close()
        server.close()
    least = statistics.median(floor() for _ in range(HOOKS))
    median = statistics.median(times)
    print(
        f"click to hook exit, {CROWD} waiting: median {median * 1e3:.1f} ms, "
        f"worst of {HOOKS} {times[-1] * 1e3:.1f} ms; "
        f"{median / least:.1f} times the end of a `cat` ({least * 1e3:.1f} ms)"
    )
    what = f"tap to the hook's exit, {CROWD} waiting"
    row(what, "median by the clock", median * 1e3, LIMIT * 1e3, "ms")
    return 0


if __name__ == "__main__":
    sys.exit(main())
