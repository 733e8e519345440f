"""One replica with a store of its own, for every test of a gateway."""

from __future__ import annotations

from pathlib import Path

import pytest

from feishuperm.gateway.store import FileStore
from tests.gateway.parts import Bench, Clock


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def bench(tmp_path: Path, clock: Clock) -> Bench:
    store = FileStore("cli_x", str(tmp_path / "e"), clock)
    store.start()
    return Bench(store, clock)
