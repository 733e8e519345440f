from __future__ import annotations

import pytest

from feishuperm.services.history import as_csv, cut, is_head, table, verdict, width
from feishuperm.services.ledger_check import Report

MOMENT = 1794801600.0


def test_terminal_cuts_lines_at_its_width() -> None:
    entry = {"time": MOMENT, "id": "1", "detail": "中" * 50}
    for columns in (61, 62):
        widths = [width(row) for row in table([entry], columns).split("\n")]
        assert max(widths) in (columns - 1, columns)


def test_width_counts_columns() -> None:
    assert width("a中e\u0301") == 4
    assert cut("a中b", 3) == "a中"
    assert cut("a中b", 2) == "a"


@pytest.mark.parametrize(
    ("report", "waiting", "head", "last", "sound"),
    [
        (Report(3, 3), 0, "", "3 entries, nothing was changed", True),
        (
            Report(3, 1),
            0,
            "",
            "3 entries, the first 2 of them without a key, nothing was changed",
            True,
        ),
        (Report(3), 0, "", "3 entries, nothing was changed", True),
        (Report(3, 3, problems=("bad",)), 0, "", "bad", False),
        (
            Report(3, 3, missing=("gone",)),
            0,
            "",
            "3 entries, none was changed, but some are not there",
            False,
        ),
        (
            Report(3, 3),
            1,
            "",
            "3 entries, none was changed, but some are not there",
            False,
        ),
        (Report(3, 3, notes=("crash",)), 0, "", "3 entries, nothing was changed", True),
        (Report(3, 3, after=2), 0, "x", "3 entries, nothing was changed", True),
    ],
)
def test_verdict_in_one_sentence(
    report: Report, waiting: int, head: str, last: str, sound: bool
) -> None:
    sentences, all_well = verdict(report, waiting, head)
    assert (sentences[-1], all_well) == (last, sound)


@pytest.mark.parametrize(
    ("text", "good"),
    [
        ("0123abcd", True),
        ("0123ABCD" * 8, True),
        ("0123abc", False),
        ("0123abcg", False),
    ],
)
def test_head_is_hex_and_long_enough(text: str, good: bool) -> None:
    assert is_head(text) is good


def test_spreadsheet_gets_rows_and_no_formula() -> None:
    entry = {
        "time": MOMENT, "event": "request", "id": "1-a", "who": "=HYPERLINK(1)",
        "summary": 'say "a,b"', "rules": ["Bash(ls)"], "reason": "two\nlines",
    }  # fmt: skip
    head, row = as_csv([entry]).splitlines()
    assert head.startswith("time,event,id,state,action,surface,who")
    assert "'=HYPERLINK(1)" in row and '"say ""a,b"""' in row and "Bash(ls)" in row
