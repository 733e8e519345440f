"""Fields by a dotted path; bad data gives the default."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from feishuperm.lib.json import has_more_parts, json_get
from tests.tables import every_row

EVENT = (
    '{"tool_name": "Bash", "tool_input": {"command": "ls", "file_path": "/a",'
    ' "pattern": "*.py", "edits": [{"old": 1}, {"old": 2}]}, "none": null, "": {"": 5}}'
)


@every_row("data", [EVENT, EVENT.encode(), __import__("json").loads(EVENT)])
@every_row(
    ("path", "value"),
    [
        ("tool_name", "Bash"),
        ("tool_input.command", "ls"),
        ("tool_input.file_path", "/a"),
        ("tool_input.pattern", "*.py"),
        ("tool_input.edits.1.old", 2),
        ("tool_input.edits.2.old", "default"),
        ("tool_input.edits.-1", "default"),
        ("tool_input.edits.٣", "default"),
        ("tool_input.command.0", "default"),
        ("missing", "default"),
        ("none", "default"),
        ("none.deeper", "default"),
    ],
)
def test_field_is_found_by_its_path(data: object, path: str, value: object) -> None:
    """Scenario: JSON 解析函数库; Scenario: 无 jq 环境下使用原生命令解析;
    Scenario: jq 可用时优先使用 (there is one parser here, and it is always at hand)"""
    """Seed: JSON 解析函数库; 无 jq 环境下使用原生命令解析"""
    assert json_get(data, path, "default") == value


@every_row(
    "data", ["", "{", b"\xff\xfe\x00", "[" * 100_000, "5", None, object(), "NaN{"]
)
def test_unreadable_data_gives_the_default(data: object) -> None:
    assert json_get(data, "a.b", "default") == "default"


def test_empty_path_is_the_whole() -> None:
    assert json_get("[1]", "") == [1]


@settings(deadline=None)
@given(st.one_of(st.text(), st.binary(), st.recursive(st.none(), st.lists)), st.text())
def test_nothing_raises(data: Any, path: str) -> None:
    json_get(data, path)


@given(
    st.recursive(
        st.text() | st.integers() | st.booleans() | st.none(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
        max_leaves=30,
    ),
    st.integers(0, 40),
)
def test_parts_are_counted_whatever_the_texts_hold(value: Any, most: int) -> None:
    data = json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass")
    assert has_more_parts(data, most) == (parts(value) > most)


def parts(value: Any) -> int:
    """Brackets that open, and commas."""
    if not isinstance(value, (list, dict)):
        return 0
    inner = list(value.values()) if isinstance(value, dict) else value
    return 1 + max(0, len(inner) - 1) + sum(map(parts, inner))


@given(st.binary(max_size=50))
def test_parts_of_rubbish_can_be_asked_for(data: bytes) -> None:
    has_more_parts(data, 0)
