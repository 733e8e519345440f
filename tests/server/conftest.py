"""A loop that a test drives by hand, under a clock that the test moves."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest

from feishuperm.server.loop import Loop


class Clock:
    """Seconds that pass when the test says so."""

    def __init__(self) -> None:
        self.seconds = 1000.0

    def __call__(self) -> float:
        return self.seconds


class LoopDriver:
    """A loop on a fake clock, and the exceptions it reported."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.errors: list[Exception] = []
        self.loop = Loop(self.errors.append, clock=self.clock)

    def step(self) -> None:
        """One round that does not wait."""
        self.loop.call_soon_threadsafe(lambda: None)
        self.loop.tick()

    def advance(self, seconds: float) -> None:
        """Let time pass, then everything that is due happen."""
        self.clock.seconds += seconds
        self.step()

    def until(self, condition: Callable[[], object], seconds: float = 10) -> None:
        """Rounds until the condition holds; a failure, not a hang, if it never does."""
        limit = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < limit, "nothing happened"
            self.step()


@pytest.fixture
def driver() -> Iterator[LoopDriver]:
    driver = LoopDriver()
    yield driver
    driver.loop.close()
