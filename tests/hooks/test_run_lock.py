"""Whose session a run looks after: nothing but the run itself can say so."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from feishuperm.hooks.application import RUN_VARIABLE, RunLock, is_of_a_run


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    return {"XDG_STATE_HOME": str(tmp_path)}


@pytest.fixture
def lock(environ: dict[str, str]) -> Iterator[RunLock]:
    made = RunLock(environ)
    environ[RUN_VARIABLE] = made.word
    yield made
    made.remove()


def test_run_keeps_its_own_sessions_and_no_other(
    lock: RunLock, environ: dict[str, str]
) -> None:
    assert is_of_a_run(environ, "any")  # the session has only begun
    lock.add("own")
    assert is_of_a_run(environ, "own")
    assert not is_of_a_run(environ, "another")
    lock.remove()
    assert not is_of_a_run(environ, "own")
    assert not is_of_a_run({}, "own")


def test_file_that_no_living_run_holds_silences_nobody(
    lock: RunLock, environ: dict[str, str]
) -> None:
    assert is_of_a_run(environ, "s")
    os.close(lock.fd)  # as when it is killed
    lock.fd = -1
    assert os.path.exists(lock.path)
    assert not is_of_a_run(environ, "s")


def test_file_of_a_project_silences_nobody(
    tmp_path: Path, environ: dict[str, str], lock: RunLock
) -> None:
    """Whatever a project names: a path, a device, a link, a file of its own."""
    runs = os.path.dirname(lock.path)
    empty = tmp_path / "empty"
    empty.touch(0o600)
    linked = "0" * 32
    os.symlink(lock.path, os.path.join(runs, linked))
    names = [str(empty), "/dev/null", lock.path, "", ".", "..", linked, "f" * 32]
    names += [f"../runs/{lock.word}", lock.word.upper(), lock.word + "\n"]
    for name in names:
        assert not is_of_a_run({**environ, RUN_VARIABLE: name}, "s"), name
    assert os.stat(lock.path).st_mode & 0o777 == 0o600
