"""A ledger of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from feishuperm.services.ledger import Ledger


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger(str(tmp_path / "state" / "ledger.jsonl"), clock=lambda: 1000.0)
