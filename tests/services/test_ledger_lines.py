"""Lines on the disk: sealed with a key, chained, readable from either end."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as limits
from hypothesis import strategies as st

from feishuperm.services import ledger as module
from feishuperm.services.ledger import (
    MAX_TEXT,
    Ledger,
    Line,
    Place,
    clean,
    decode,
    key_name,
    make_key,
    read_head,
    read_key,
    read_line,
    reversed_lines,
    rule_mark,
    seal,
    write_head,
)
from feishuperm.services.ledger_check import check
from tests.tables import every_row

KEY, OTHER = b"k" * 32, b"o" * 32


@limits(deadline=None, max_examples=60)
@given(
    st.lists(
        st.binary(max_size=9).map(lambda data: data.replace(b"\n", b"")), max_size=9
    ),
    st.integers(1, 12),
)
def test_lines_backwards_are_the_lines_forwards(
    tmp_path_factory: pytest.TempPathFactory, lines: list[bytes], block: int
) -> None:
    path = tmp_path_factory.mktemp("lines") / "file"
    path.write_bytes(b"\n".join(lines))
    with pytest.MonkeyPatch.context() as patch, path.open("rb") as file:
        patch.setattr(module, "BLOCK", block)
        backwards = list(reversed_lines(file.fileno(), path.stat().st_size))
    assert backwards[::-1] == (lines or [b""])


def test_long_values_are_cut_and_long_lines_chained(ledger: Ledger) -> None:
    for length in (10, 70_000, 10):
        ledger.append({"detail": "x" * length, "many": ["y" * 1000] * (length // 100)})
    assert check(ledger).sound()
    assert [len(entry["detail"]) for entry in ledger.entries()] == [10, MAX_TEXT, 10]


def test_secret_at_the_cut_leaves_nothing_of_itself(ledger: Ledger) -> None:
    for before in range(MAX_TEXT - 60, MAX_TEXT + 5):
        detail = "x" * before + " ghp_" + "S3CR3T" * 6
        stored = ledger.append({"detail": detail})["detail"]
        assert len(stored) <= MAX_TEXT
        assert "S3" not in stored


def test_sealed_line_is_known_by_its_key_alone() -> None:
    line, hash = seal(KEY, {"id": "1", "reason": "不行", "seq": 4})
    entry, place, sealed = read_line(line, KEY)
    assert sealed and place == Place(4, hash, 3)
    assert entry is not None and entry["reason"] == "不行"
    for other in (OTHER, b""):
        assert not read_line(line, other).sealed
    assert not read_line(line.replace(b'"1"', b'"2"'), KEY).sealed
    forged, _ = seal(b"", {"seq": 4})
    assert not read_line(forged, b"").sealed


@every_row("line", [b"", b"{", b"[]", b"7", b"\xff", b"null"])
def test_line_that_is_no_entry_reads_as_none(line: bytes) -> None:
    assert decode(line) is None and read_line(line, KEY) == Line()


def test_head_comes_back_as_it_was_and_a_forged_one_does_not(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "head"
    assert read_head(str(path), KEY).why == "missing"
    assert write_head(str(path), KEY, Place(7, "ab" * 32, 6)) == ""
    assert read_head(str(path), KEY) == Place(7, "ab" * 32, 6)
    assert read_head(str(path), OTHER).why == "of another key"
    assert path.stat().st_mode & 0o777 == 0o600
    data = path.read_bytes()
    for forged in (data.replace(b"7 ", b"9 "), data[:-2], b"", b"\xff" * 2000):
        path.write_bytes(forged)
        assert read_head(str(path), KEY).why == "unreadable"
    assert write_head(f"{path}/below", KEY, Place()), "it says why not"


def test_key_is_made_once_and_is_this_users_alone(tmp_path: Path) -> None:
    path = str(tmp_path / "key")
    assert read_key(path) == b""
    key = make_key(path)
    assert len(key) >= 32 and read_key(path) == key
    assert os.stat(path).st_mode & 0o777 == 0o600
    assert key_name(key) != key_name(OTHER) and key.hex() not in key_name(key)


def test_mark_of_a_rule_tells_nothing_of_it() -> None:
    rule = "Bash(TOKEN=s3cr3t npm test)"
    assert rule_mark(KEY, rule) == rule_mark(KEY, rule) != rule_mark(OTHER, rule)
    assert "s3cr3t" not in rule_mark(KEY, rule)


def test_entry_is_masked_and_cut_before_it_is_written() -> None:
    entry: Any = {"id": "1", "detail": "x" * (MAX_TEXT * 2), "reason": "TOKEN=s3cr3t0"}
    cleaned = clean(entry)
    assert len(cleaned["detail"]) <= MAX_TEXT and "s3cr3t0" not in str(cleaned)
