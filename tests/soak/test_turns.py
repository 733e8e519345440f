"""The worst turn of the loop, in a smaller world than that of `build.py bench`."""

from __future__ import annotations

import pytest

from tests.bench.bench_turns import WORST, measure


@pytest.mark.parametrize("scene", ["forty", "pipelined", "growing", "crowd"])
def test_no_turn_of_the_loop_takes_long_whatever_waits(scene: str) -> None:
    _, work = measure(scene)
    assert work < WORST
