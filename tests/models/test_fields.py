"""Parts of JSON that may be of any shape."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from feishuperm.models.fields import (
    decoded,
    list_at,
    part_at,
    path_at,
    text_at,
    value_at,
)
from tests.tables import every_row

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from("abc"), inner),
    max_leaves=8,
)


def test_part_of_the_right_type_is_handed_out_as_it_is() -> None:
    value = {"a": {"b": "text", "c": [1], "d": {"e": 2}}}
    assert text_at(value, "a", "b") == "text"
    assert list_at(value, "a", "c") == [1]
    assert part_at(value, "a", "d") == {"e": 2}
    assert value_at(value, "a", "d", "e") == 2
    assert part_at(value) is value


@given(JSON, st.lists(st.sampled_from("abc"), max_size=3))
def test_whatever_comes_each_reader_gives_its_own_type(
    value: object, keys: list[str]
) -> None:
    assert type(text_at(value, *keys)) is str
    assert type(part_at(value, *keys)) is dict
    assert type(list_at(value, *keys)) is list


@every_row("path", ["/a\0", "\ud800", "/a/\udfff/b"])
def test_text_that_no_path_can_be_is_empty(path: str) -> None:
    assert path_at({"cwd": path}, "cwd") == ""
    assert path_at({"cwd": "/\u00fc/\udcff"}, "cwd")  # bytes that are no UTF-8


@every_row("data", [b"", b"{", b"\xff", b"[" * 100_000, "nul"])
def test_what_is_no_json_is_none(data: str | bytes) -> None:
    assert decoded(data) is None


def test_json_is_decoded_from_text_and_bytes() -> None:
    assert decoded('{"a": 1}') == decoded(b'{"a": 1}') == {"a": 1}
