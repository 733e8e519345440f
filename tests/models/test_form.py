"""Forms of MCP servers: what is understood, what is shown, what is taken."""

from __future__ import annotations

import json
from functools import partial
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from feishuperm.messages import Message, text
from feishuperm.models.form import (
    MAX_FIELDS,
    Wrong,
    can_be_answered,
    form_fields,
    parse_content,
    read_form,
)
from feishuperm.models.names import NOT_OFFERED
from tests.tables import every_row

say = partial(text, "zh")


def schema(required: bool = True, **rules: Any) -> dict[str, Any]:
    """A form with one field, `x`."""
    names = ["x"] if required else []
    return {"type": "object", "properties": {"x": rules}, "required": names}


WRONG = {
    "“{field}” is missing.": "missing",
    "“{field}” is too short or too long.": "wrong_length",
    "“{field}” does not have the required format.": "wrong_format",
    "“{field}” must be a number.": "wrong_number",
    "“{field}” must be a whole number.": "wrong_integer",
    "“{field}” is out of range.": "wrong_range",
    "“{field}” holds a choice that was not offered.": "wrong_choice",
    "“{field}” has too few or too many choices.": "wrong_count",
}


def content(rules: dict[str, Any], *given: str, required: bool = True) -> Any:
    """What the server gets for the field, or the key of what is wrong."""
    parsed = parse_content(schema(required, **rules), {"f0": given}, say)
    if isinstance(parsed, Wrong):
        assert parsed.field == "x" and isinstance(parsed.key, Message)
        assert "{" not in say(parsed.key, field="x")
        return WRONG[parsed.key]
    return parsed.get("x", "absent")


STRING, NUMBER, INTEGER = {"type": "string"}, {"type": "number"}, {"type": "integer"}
ENUM = {"type": "string", "enum": ["a", "b\nc"], "enumNames": ["Apple"]}
TITLED = {"type": "string", "oneOf": [{"const": "a", "title": "Apple"}]}
MANY = {"type": "array", "items": {"type": "string", "enum": ["a", "b", "c"]}}
TAKEN: list[tuple[dict[str, Any], tuple[str, ...], Any]] = [
    (STRING, ("Bob",), "Bob"),
    (STRING, (" Bob\r\nBy ",), "Bob\nBy"),
    (STRING, (), "missing"),
    (STRING, (" \n ",), "missing"),
    ({**STRING, "minLength": 3}, ("ab",), "wrong_length"),
    ({**STRING, "minLength": 3}, ("中文字",), "中文字"),
    ({**STRING, "maxLength": 3}, ("abcd",), "wrong_length"),
    (STRING, ("x" * 1001,), "wrong_length"),
    ({**STRING, "format": "email"}, ("a@b.cn",), "a@b.cn"),
    ({**STRING, "format": "email"}, ("a@b",), "wrong_format"),
    ({**STRING, "format": "email"}, ("a b@c.cn",), "wrong_format"),
    ({**STRING, "format": "uri"}, ("https://a.cn/?x=1",), "https://a.cn/?x=1"),
    ({**STRING, "format": "uri"}, ("a.cn",), "wrong_format"),
    ({**STRING, "format": "date"}, ("2026-02-28",), "2026-02-28"),
    ({**STRING, "format": "date"}, ("2026-02-30",), "wrong_format"),
    ({**STRING, "format": "date"}, ("28.2.2026",), "wrong_format"),
    ({**STRING, "format": "date-time"}, ("2026-01-31T08:30:00Z",),
     "2026-01-31T08:30:00Z"),
    ({**STRING, "format": "date-time"}, ("2026-01-31T08:30:00.123456789+08:00",),
     "2026-01-31T08:30:00.123456789+08:00"),
    ({**STRING, "format": "date-time"}, ("2026-01-31T25:30:00Z",), "wrong_format"),
    ({**STRING, "format": "date-time"}, ("2026-01-31T08:30:00",), "wrong_format"),
    (INTEGER, ("42",), 42),
    (INTEGER, ("-7.0",), -7),
    (INTEGER, ("4.2",), "wrong_integer"),
    (INTEGER, ("４２",), "wrong_integer"),
    (INTEGER, ("9" * 31,), "wrong_integer"),
    (NUMBER, ("4.25",), 4.25),
    (NUMBER, ("1e3",), 1000.0),
    (NUMBER, ("1e999",), "wrong_range"),
    (NUMBER, ("nan",), "wrong_number"),
    (NUMBER, ("0x10",), "wrong_number"),
    ({**NUMBER, "minimum": 1, "maximum": 5}, ("5",), 5),
    ({**NUMBER, "minimum": 1, "maximum": 5}, ("5.1",), "wrong_range"),
    ({**INTEGER, "minimum": 1}, ("0",), "wrong_range"),
    ({"type": "boolean"}, ("是",), True),
    ({"type": "boolean"}, ("否",), False),
    ({"type": "boolean"}, ("true",), "wrong_choice"),
    ({"type": "boolean"}, ("是", "否"), "wrong_choice"),
    (ENUM, ("a",), "a"),
    (ENUM, ("b\r\nc",), "b\nc"),
    (ENUM, ("Apple",), "wrong_choice"),
    (ENUM, ("a", "b\nc"), "wrong_choice"),
    (TITLED, ("a",), "a"),
    (MANY, ("c", "a"), ["c", "a"]),
    (MANY, ("a", "a"), "wrong_choice"),
    (MANY, ("a", "d"), "wrong_choice"),
    ({**MANY, "minItems": 2}, ("a",), "wrong_count"),
    ({**MANY, "maxItems": 1}, ("a", "b"), "wrong_count"),
]  # fmt: skip


@every_row(("rules", "given", "taken"), TAKEN)
def test_what_is_filled_in_is_taken_as_the_schema_wants_it(
    rules: dict[str, Any], given: tuple[str, ...], taken: Any
) -> None:
    value = content(rules, *given)
    assert value == taken and type(value) is type(taken)


def test_what_is_not_required_may_be_left_out() -> None:
    assert content(STRING, required=False) == "absent"
    assert content({**STRING, "minLength": 3}, "", required=False) == "absent"


NOT_UNDERSTOOD = {
    "nothing": None,
    "no object": {"type": "array"},
    "a pattern": schema(type="string", pattern="^(a+)+$"),
    "an object inside": schema(type="object", properties={}),
    "several types": schema(type=["string", "null"]),
    "no type": schema(description="x"),
    "a reference": schema(**{"$ref": "#/x"}),
    "another format": schema(type="string", format="ipv4"),
    "a format that is a list": schema(type="string", format=["email"]),
    "a format of choices": schema(type="string", enum=["a"], format={}),
    "numbers to choose from": schema(type="string", enum=[1, 2]),
    "nothing to choose from": schema(type="string", enum=[]),
    "the same twice": schema(type="string", enum=["a\r\nb", "a\nb"]),
    "a list of anything": schema(type="array", items={"type": "string"}),
    "a list of nothing": schema(type="array"),
    "a limit in words": schema(type="string", minLength="3"),
    "a limit that is none": schema(type="number", minimum=True),
    "required and not there": {"type": "object", "properties": {}, "required": ["x"]},
    "conditions": {**schema(type="string"), "if": {}},
    "too many fields": {
        "type": "object",
        "properties": {str(n): STRING for n in range(MAX_FIELDS + 1)},
    },
}


@every_row("case", NOT_UNDERSTOOD)
def test_what_is_not_understood_is_left_to_the_terminal(case: str) -> None:
    asked = NOT_UNDERSTOOD[case]
    assert read_form(asked) is None
    assert not can_be_answered({"mode": "form", "requested_schema": asked})
    assert parse_content(asked, {}, say) == Wrong(NOT_OFFERED)


def test_address_can_be_answered_and_has_no_fields() -> None:
    address = {"mode": "url", "url": "https://example.com"}
    assert can_be_answered(address) and form_fields(address, say) == ()
    assert not can_be_answered({"mode": "url"})
    assert not can_be_answered({"mode": "url", "url": "javascript:alert(1)"})


def test_fields_say_what_the_server_wants() -> None:
    rules = {
        "n": {"type": "integer", "title": "Age", "description": "In years",
              "minimum": 0, "maximum": 150, "default": 30},
        "b": {"type": "boolean", "default": False},
        "e": {**ENUM, "default": "a"},
        "m": MANY,
    }  # fmt: skip
    asked = {"type": "object", "properties": rules, "required": ["n"]}
    number, yes, one, many = form_fields({"requested_schema": asked}, say)
    assert (number.name, number.type, number.label, number.value) == (
        "f0",
        "text",
        "Age（必填）",
        "30",
    )
    assert number.hint == "In years · 整数 · 0–150"
    assert (yes.type, [o.value for o in yes.options], yes.value) == (
        "one",
        ["是", "否"],
        "否",
    )
    assert (one.type, one.value, one.options[0].detail) == ("one", "a", "Apple")
    assert (many.type, len(many.options)) == ("many", 3)


@every_row(
    ("limits", "hint"),
    [
        ({"minLength": 2}, "≥ 2 个字符"),
        ({"maxLength": 9}, "≤ 9 个字符"),
        ({"minLength": 2, "maxLength": 9}, "2–9 个字符"),
    ],
)
def test_limits_are_told(limits: dict[str, int], hint: str) -> None:
    asked = schema(type="string", **limits)
    assert form_fields({"requested_schema": asked}, say)[0].hint == hint


PLAIN = st.none() | st.booleans() | st.integers() | st.text(max_size=5)
JSON = st.recursive(
    PLAIN,
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(
        st.sampled_from(
            ["type", "properties", "required", "enum", "items", "oneOf", "const",
             "format", "minimum", "maxLength", "default", "title", "x"]
        )
        | st.text(max_size=3),
        inner,
        max_size=4,
    ),
    max_leaves=12,
)  # fmt: skip


@given(JSON, st.lists(st.text(max_size=8), max_size=3))
def test_whatever_a_server_sends_is_read_or_left(asked: Any, given: list[str]) -> None:
    rules = {"type": "object", "properties": {"x": asked}}
    for form in (asked, rules):
        if read_form(form) is not None:
            fields = form_fields({"requested_schema": form}, say)
            values = {field.name: tuple(given) for field in fields}
            parsed = parse_content(form, values, say)
            assert isinstance(parsed, Wrong) or json.dumps(parsed)
