"""A user with an empty home, and how a step is run for them."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from feishuperm import __version__
from feishuperm.app.health import ok
from feishuperm.lib.control import NotRunningError
from feishuperm.setup import doctor
from feishuperm.setup.doctor import CHECKS
from feishuperm.setup.steps import Step
from tests.setup.patient import HEALTH, Patient


@pytest.fixture(autouse=True)
def no_fsync(monkeypatch: pytest.MonkeyPatch) -> None:
    """Thousands of small files need not reach the disk."""
    monkeypatch.setattr(os, "fsync", lambda fd: None)


@pytest.fixture
def environ(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """A user with an empty home."""
    home = tmp_path / "home"
    home.mkdir()
    for name in ("XDG_STATE_HOME", "XDG_CONFIG_HOME", "CLAUDE_CONFIG_DIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(home))
    return {"HOME": str(home)}


def run(step: Step) -> None:
    step.manifest.open()
    step.changes()
    step.apply()


@pytest.fixture
def bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """A user with an empty home, no server, and no variable but these two."""
    kept = {"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"}
    for name in [*os.environ]:
        if name not in kept:
            monkeypatch.delenv(name)
    for name, value in kept.items():
        monkeypatch.setenv(name, value)
    return kept


@pytest.fixture
def patient(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Patient]:
    status = {
        "version": __version__,
        "pid": 7,
        "http": "http://localhost:8080",
        "listens": "http://127.0.0.1:8080",
        "started": time.time() + 60,
        "channels": [
            {"name": name, "state": "up", "detail": ""}
            for name in ("inbox", "app", "webhook", "gateway")
        ],
    }
    monkeypatch.setattr(doctor, "settled_status", lambda *a, **k: dict(status))
    monkeypatch.setattr(doctor.server, "fetch", lambda *a, **k: (200, HEALTH))
    monkeypatch.setitem(CHECKS, "loop", lambda case: iter([ok("")]))
    yield Patient(tmp_path)


@pytest.fixture
def absent(patient: Patient, monkeypatch: pytest.MonkeyPatch) -> Patient:
    def refuse(*args: Any, **kwargs: Any) -> Any:
        raise NotRunningError("the server is not running")

    monkeypatch.setattr(doctor, "settled_status", refuse)
    return patient
