"""Scenes that would hold the loop, in a smaller world than that of `build.py bench`.

Each scene must come to its end, with everybody answered.  The bench judges how long a
turn may take; here ten times as long is too long, of work, on whatever machine.
"""

from __future__ import annotations

import pytest

from tests.bench.bench_turns import WORST, measure


@pytest.mark.parametrize("scene", ["forty", "pipelined", "growing", "crowd"])
def test_loop_serves_everybody_whatever_waits(scene: str) -> None:
    clock, work = measure(scene)
    print(f"longest turn {clock * 1000:.1f} ms, of work {work * 1000:.1f} ms")
    assert work < 10 * WORST
