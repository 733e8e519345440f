"""Ten thousand waiting hooks: memory for each, and what a click costs beside them.

    python3 build.py bench parked

The built file serves.  A click is a GET on a fresh connection; it is timed from its
first byte to the decision that arrives at the hook.  Two servers, one with the crowd
and one without, are clicked in turns, so that this machine's noise falls on both
alike.  The file limit may make the crowd smaller; then the line says so.
"""

from __future__ import annotations

import resource
import statistics
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from feishuperm import wire
from tests.bench.serving import BuiltServer, go_first
from tests.bench.table import row

CROWD = 10_000
CLICKS = 300
WARM, PROBE = 1 << 24, 2 << 24  # numbers of requests that are not of the crowd
BYTES_LIMIT = 4096
RATIO_LIMIT = 1.5


def click(server: BuiltServer, number: int) -> float:
    """Seconds from click to decision."""
    sock, request_id = server.park(number)
    with sock:
        start = time.perf_counter()
        server.get(f"/allow?id={request_id}")
        kind, _ = wire.receive_frame(sock)
        end = time.perf_counter()
    if kind != b"D":
        raise SystemExit(f"the click on {request_id} decided nothing: {kind!r}")
    return end - start


def show(name: str, seconds: list[float]) -> float:
    seconds.sort()
    median = statistics.median(seconds)
    last = seconds[int(len(seconds) * 0.99)]
    print(f"click, {name}: median {median * 1e3:.2f} ms, p99 {last * 1e3:.2f} ms")
    return median


def main() -> int:
    go_first()
    quiet, crowded = BuiltServer(), BuiltServer()
    try:
        for number in range(20):  # everything the first clicks import or allocate
            click(quiet, WARM + number)
            click(crowded, WARM + number)
        size = min(CROWD, resource.getrlimit(resource.RLIMIT_NOFILE)[0] - 200)
        before = crowded.rss()
        start = time.monotonic()
        crowd = [crowded.park(number)[0] for number in range(size)]
        took = time.monotonic() - start
        each = (crowded.rss() - before) / size
        print(f"{size} hooks parked in {took:.1f} s, {each:.0f} bytes each")
        times: tuple[list[float], list[float]] = ([], [])
        for number in range(CLICKS):
            times[0].append(click(quiet, PROBE + number))
            times[1].append(click(crowded, PROBE + number))
        ratio = show(f"{size} wait", times[1]) / show("nobody waits", times[0])
    finally:
        crowded.kill()
        quiet.close()
    del crowd
    row("a waiting hook", f"memory, {size} of them", each, BYTES_LIMIT, "bytes")
    row(f"a tap beside {size} waiting", "a tap beside none, time", ratio, RATIO_LIMIT)
    return 0


if __name__ == "__main__":
    sys.exit(main())
