from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import settings as limits
from hypothesis import strategies as st

from feishuperm.services.ledger import SPOOL_BYTES, read_spool, write_spool


@pytest.fixture
def path(tmp_path: Path) -> str:
    path = str(tmp_path / "late")
    write_spool(path, ())
    return path


def test_room_is_taken_at_once_and_for_this_user_alone(path: str) -> None:
    state = os.stat(path)
    assert (state.st_size, stat.S_IMODE(state.st_mode)) == (SPOOL_BYTES, 0o600)
    assert state.st_blocks * 512 >= SPOOL_BYTES
    assert read_spool(path) == []


def test_lines_are_kept_in_order_and_given_up_together(path: str) -> None:
    for lines in ([b"a", b"b"], [b"a", b"b", b"c" * 100], [], [b"e"]):
        write_spool(path, lines)
        assert read_spool(path) == lines, "nothing of what was there before"
        assert os.stat(path).st_size == SPOOL_BYTES


def test_no_more_is_taken_than_there_is_room(path: str) -> None:
    write_spool(path, [b"x" * (SPOOL_BYTES - 100), b"y" * 100])
    assert read_spool(path) == [b"x" * (SPOOL_BYTES - 100)]
    assert os.stat(path).st_size == SPOOL_BYTES


def test_without_its_file_nothing_is_kept_and_nothing_raised(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    for path in (tmp_path, tmp_path / "file" / "none"):
        assert read_spool(str(path)) == []
        write_spool(str(path), [b"a"])
        assert read_spool(str(path)) == []


@limits(deadline=None, max_examples=60)
@given(
    st.lists(st.binary(min_size=1, max_size=30).filter(lambda b: not {0, 10} & set(b))),
    st.integers(0, 400),
)
def test_every_cut_leaves_whole_lines(
    tmp_path_factory: pytest.TempPathFactory, lines: list[bytes], size: int
) -> None:
    path = tmp_path_factory.mktemp("spool") / "late"
    write_spool(str(path), lines)
    data = path.read_bytes()
    path.write_bytes(data[:size] + b"\0" * (SPOOL_BYTES - size))
    kept = read_spool(str(path))
    assert kept == lines[: len(kept)]
