"""Whose session a run looks after: nothing but the run itself can say so."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from feishuperm.engine.run_mark import VARIABLE, RunMark, is_of_a_run


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    return {"XDG_STATE_HOME": str(tmp_path)}


@pytest.fixture
def mark(environ: dict[str, str]) -> Iterator[RunMark]:
    made = RunMark(environ)
    environ[VARIABLE] = made.word
    yield made
    made.remove()


def test_run_keeps_its_own_sessions_and_no_other(
    mark: RunMark, environ: dict[str, str]
) -> None:
    assert is_of_a_run(environ, "any")  # the session has only begun
    mark.add("own")
    assert is_of_a_run(environ, "own")
    assert not is_of_a_run(environ, "another")
    mark.remove()
    assert not is_of_a_run(environ, "own")
    assert not is_of_a_run({}, "own")


def test_file_that_no_living_run_holds_silences_nobody(
    mark: RunMark, environ: dict[str, str]
) -> None:
    assert is_of_a_run(environ, "s")
    os.close(mark.fd)  # as when it is killed
    mark.fd = -1
    assert os.path.exists(mark.path)
    assert not is_of_a_run(environ, "s")


def test_file_of_a_project_silences_nobody(
    tmp_path: Path, environ: dict[str, str], mark: RunMark
) -> None:
    """Whatever a project names: a path, a device, a link, a file of its own."""
    runs = os.path.dirname(mark.path)
    empty = tmp_path / "empty"
    empty.touch(0o600)
    linked = "0" * 32
    os.symlink(mark.path, os.path.join(runs, linked))
    names = [str(empty), "/dev/null", mark.path, "", ".", "..", linked, "f" * 32]
    names += [f"../runs/{mark.word}", mark.word.upper(), mark.word + "\n"]
    for name in names:
        assert not is_of_a_run({**environ, VARIABLE: name}, "s"), name
    assert os.stat(mark.path).st_mode & 0o777 == 0o600
