"""The table of what was measured: nothing that fails a limit looks as if it held."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.bench import __main__ as bench
from tests.bench.table import ROWS_FILE, Row, markdown, read_rows, row


def test_rows_are_kept_and_read_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(ROWS_FILE, str(tmp_path / "rows"))
    assert row("hook", "floor", 1.05, 1.1) is True
    assert row("requests", "theirs", 4.9, 5.0, at_least=True) is False
    rows = read_rows(str(tmp_path / "rows"))
    assert [measured.holds for measured in rows] == [True, False]
    assert markdown(rows).splitlines()[2:] == [
        "| hook | floor | 1.05 times | at most 1.1 | holds |",
        "| requests | theirs | 4.90 times | at least 5 | **does not hold** |",
    ]


def test_limit_itself_holds() -> None:
    assert Row("a", "b", 60.0, 60).holds
    assert Row("a", "b", 5.0, 5, at_least=True).holds


def test_unknown_bench_is_refused_with_the_names() -> None:
    with pytest.raises(SystemExit, match="none is none of app, click, "):
        bench.benches(["none"])
