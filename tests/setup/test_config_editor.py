"""config.env is changed line by line."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from feishuperm.errors import UsageError
from feishuperm.setup.config_editor import HEADER, merge_config
from feishuperm.wire import parse_config


@pytest.mark.parametrize(
    ("before", "changes", "after"),
    [
        (b"", {"A": "1"}, HEADER + b"A=1\n"),
        (b"# mine\nB=2\n", {"A": "1"}, b"# mine\nB=2\nA=1\n"),
        (b"A=0\nB=2\n", {"A": "1"}, b"A=1\nB=2\n"),
        (b"A=0\nA=9\n", {"A": "1"}, b"A=0\nA=1\n"),
        (b"#A=0\n", {"A": "1"}, b"#A=0\nA=1\n"),
        (b" A = 0\n", {"A": "1"}, b"A=1\n"),
        (b"B=2", {"A": "1"}, b"B=2\nA=1\n"),
        (b"B=2\r\n", {"A": "1"}, b"B=2\r\nA=1\r\n"),
        (b"B=2\n", {}, b"B=2\n"),
        (b"B=2\n", {"A": "'x'"}, b"B=2\nA=\"'x'\"\n"),
    ],
)
def test_only_asked_keys_change(
    before: bytes, changes: dict[str, str], after: bytes
) -> None:
    assert merge_config(before, changes) == after


@pytest.mark.parametrize("value", ["a\nFEISHUPERM_LANG=en", "a\r", " a", "a "])
def test_value_that_a_line_cannot_hold_is_refused(value: str) -> None:
    with pytest.raises(UsageError, match="A: a value cannot hold"):
        merge_config(b"", {"A": value})


@given(
    st.text(max_size=40).filter(lambda value: len(value.splitlines()) < 2),
    st.binary(max_size=40),
)
def test_whatever_is_taken_reads_back(value: str, before: bytes) -> None:
    try:
        data = merge_config(before, {"KEY": value})
    except (UsageError, UnicodeEncodeError):
        return
    assert parse_config(data)[b"KEY"] == value.encode()


def test_exported_key_is_changed_where_it_stands() -> None:
    data = b"# mine\nexport FEISHU_AT=all\nX=1\n"
    assert merge_config(data, {"FEISHU_AT": "me"}) == b"# mine\nFEISHU_AT=me\nX=1\n"
