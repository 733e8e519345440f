"""Settings texts are edited in place: every byte that is not ours stays.

`tests/setup/test_hook_entries.py` puts hooks into texts of every layout.
"""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from feishuperm.lib import settings_editor as editor
from tests.tables import every_row


@every_row(
    ("data", "problem"),
    [
        (b'{"a": 1', "not JSON"),
        (b'{"a": 1,}', "not JSON"),
        (b'{ // why\n "a": 1}', "not JSON"),
        (b'{"a": NaN}', "NaN"),
        (b'{"a": 1} x', "text after"),
        (b"[]", "not a JSON object"),
        (b'"text"', "not a JSON object"),
        (b"null", "not a JSON object"),
        (b'{"a": "\xff"}', "not UTF-8"),
        (b'{"a": "tab\there"}', "not JSON"),
        (b"[" * 100_000, "nested too deeply"),
    ],
)
def test_what_is_no_settings_file_is_refused(data: bytes, problem: str) -> None:
    with pytest.raises(editor.SettingsError, match=problem):
        editor.decode(data)


def test_value_is_set_and_dropped_without_a_trace() -> None:
    text = '{\n  "permissions": {\n    "allow": []\n  }\n}\n'
    path = ("permissions", "defaultMode")
    after = editor.set_value(text, path, "default")
    assert editor.get_value(after, path) == "default"
    assert editor.drop_value(after, path, text) == text


def test_objects_on_the_way_are_made_and_removed() -> None:
    after = editor.set_value("{}", ("env", "A"), "1")
    assert json.loads(after) == {"env": {"A": "1"}}
    assert editor.drop_value(after, ("env", "A")) == "{}"


def test_existing_value_is_replaced_in_place() -> None:
    text = '{"a": {"b":   1 , "c": 2}}'
    assert editor.set_value(text, ("a", "b"), 3) == '{"a": {"b":   3 , "c": 2}}'


@given(st.binary(max_size=60))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    try:
        text = editor.decode(data)
    except editor.SettingsError:
        return
    assert editor.encode(text) == data
