from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from feishuperm.engine.run_mark import VARIABLE, RunMark, is_of_a_run


@pytest.fixture
def mark() -> Iterator[RunMark]:
    made = RunMark()
    yield made
    made.remove()


def test_run_keeps_its_own_sessions_and_no_other(mark: RunMark) -> None:
    environ = {VARIABLE: mark.path}
    assert is_of_a_run(environ, "any")  # the session has only begun
    mark.add("own")
    assert is_of_a_run(environ, "own")
    assert not is_of_a_run(environ, "another")
    mark.remove()
    assert not is_of_a_run(environ, "own")
    assert not is_of_a_run({}, "own")


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o606])
def test_file_of_a_project_silences_nobody(tmp_path: Path, mode: int) -> None:
    empty = tmp_path / "empty"
    empty.touch()
    empty.chmod(mode)
    assert not is_of_a_run({VARIABLE: str(empty)}, "s")


def test_device_and_link_silence_nobody(mark: RunMark, tmp_path: Path) -> None:
    link = tmp_path / "link"
    os.symlink(mark.path, link)
    for path in ("/dev/null", str(link), str(tmp_path)):
        assert not is_of_a_run({VARIABLE: path}, "s")
