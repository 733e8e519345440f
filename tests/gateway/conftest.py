"""One replica with an engine of its own, for every test of a gateway."""

from __future__ import annotations

from pathlib import Path

import pytest

from feishuperm.gateway.engine import FileEngine
from tests.gateway.parts import Bench, Clock


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def bench(tmp_path: Path, clock: Clock) -> Bench:
    engine = FileEngine("cli_x", str(tmp_path / "e"), clock)
    engine.start()
    return Bench(engine, clock)
