"""An executor in an empty project, and a clone that brings a callback."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.hooks.parts import Bench, Clone


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


@pytest.fixture
def clone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Clone:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    made = Clone(tmp_path)
    callback = {"event": "Stop", "type": "script", "script": ".claude/hooks/a.py"}
    made.write(".claude/settings.json", {"feishuperm": {"callbacks": [callback]}})
    made.write(".claude/hooks/a.py", "def hook(*_): return {}\n")
    return made
