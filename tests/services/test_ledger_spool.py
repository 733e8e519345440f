from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import settings as limits
from hypothesis import strategies as st

from feishuperm.services.ledger import SPOOL_BYTES, Spool


@pytest.fixture
def spool(tmp_path: Path) -> Spool:
    spool = Spool(str(tmp_path / "late"))
    spool.prepare()
    return spool


def test_room_is_taken_at_once_and_for_this_user_alone(spool: Spool) -> None:
    state = os.stat(spool.path)
    assert (state.st_size, stat.S_IMODE(state.st_mode)) == (SPOOL_BYTES, 0o600)
    assert state.st_blocks * 512 >= SPOOL_BYTES
    spool.add([b"a"])
    spool.prepare()
    assert spool.read() == [b"a"]


def test_lines_are_kept_in_order_and_given_up_together(spool: Spool) -> None:
    assert spool.read() == []
    assert spool.add([b"a", b"b"]) and spool.add([b"c" * 100])
    again = Spool(spool.path)
    assert again.read() == [b"a", b"b", b"c" * 100]
    assert again.add([b"d"])
    assert spool.read() == [b"a", b"b", b"c" * 100, b"d"]
    again.clear()
    assert Spool(spool.path).read() == []
    assert again.add([b"e"])
    assert Spool(spool.path).read() == [b"e"], "nothing of what was there before"
    assert os.stat(spool.path).st_size == SPOOL_BYTES


def test_no_more_is_taken_than_there_is_room(spool: Spool) -> None:
    assert spool.add([b"x" * (SPOOL_BYTES - 100)])
    assert not spool.add([b"y" * 100])
    assert spool.add([b"z"])
    assert len(spool.read()) == 2
    assert os.stat(spool.path).st_size == SPOOL_BYTES


def test_without_its_file_nothing_is_kept_and_nothing_raised(tmp_path: Path) -> None:
    for path in (tmp_path / "none", tmp_path, tmp_path / "none" / "none"):
        spool = Spool(str(path))
        assert spool.read() == []
        assert not spool.add([b"a"])
        spool.clear()
    (tmp_path / "file").write_text("in the way")
    Spool(str(tmp_path / "file" / "none")).prepare()


@limits(deadline=None, max_examples=60)
@given(
    st.lists(st.binary(min_size=1, max_size=30).filter(lambda b: not {0, 10} & set(b))),
    st.integers(0, 400),
)
def test_every_cut_leaves_whole_lines(
    tmp_path_factory: pytest.TempPathFactory, lines: list[bytes], size: int
) -> None:
    spool = Spool(str(tmp_path_factory.mktemp("spool") / "late"))
    spool.prepare()
    spool.add(lines)
    path = Path(spool.path)
    data = path.read_bytes()
    path.write_bytes(data[:size] + b"\0" * (SPOOL_BYTES - size))
    kept = Spool(spool.path).read()
    assert kept == lines[: len(kept)]
