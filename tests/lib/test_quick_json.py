"""The short way gives what `json` gives, or raises what `json` raises."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from feishuperm.lib import quick_json
from tests.conftest import ROOT

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


def outcome(function: Any, argument: Any) -> tuple[Any, str]:
    try:
        return repr(function(argument)), ""
    except (ValueError, RecursionError) as error:
        return type(error), str(error)


@given(values)
def test_values_are_written_and_read_alike(value: Any) -> None:
    text = json.dumps(value)
    assert quick_json.dumps(value) == text
    assert quick_json.dumps(value, False) == json.dumps(value, ensure_ascii=False)
    assert repr(quick_json.loads(text)) == repr(json.loads(text))


@given(st.text(alphabet='{}[]":,\\ \n\tuade019-+.eNI\ud800'))
def test_any_text_has_the_same_outcome(text: str) -> None:
    assert outcome(quick_json.loads, text) == outcome(json.loads, text)


@pytest.mark.parametrize(
    "text",
    [
        *("", " ", "{} ", "\n[1]\n", "{} {}", "{}x", "\ufeff{}", "[1,]", '{"a" 1}'),
        *('"\\ud800"', '"\x01"', "NaN", "-Infinity", "nul", "1e999", "\xa0{}"),
        '{"a": 1, "a": 2}',
    ],
)
def test_odd_text_has_the_same_outcome(text: str) -> None:
    assert outcome(quick_json.loads, text) == outcome(json.loads, text)


@pytest.mark.parametrize("codec", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le"])
def test_bytes_are_read_in_every_encoding_of_json(codec: str) -> None:
    assert quick_json.loads('{"a": "验收"}'.encode(codec)) == {"a": "验收"}


@given(st.binary())
def test_any_bytes_have_the_same_outcome(data: bytes) -> None:
    assert outcome(quick_json.loads, data) == outcome(json.loads, data)


def test_constants_can_be_refused() -> None:
    def refuse(name: str) -> None:
        raise ValueError(f"no {name}")

    with pytest.raises(ValueError, match="no NaN"):
        quick_json.loads("[NaN]", refuse)


def test_nesting_without_end_is_refused() -> None:
    with pytest.raises(RecursionError):
        quick_json.loads("[" * 200_000)


def test_what_is_no_json_value_is_refused() -> None:
    with pytest.raises(TypeError, match="set is not JSON serializable"):
        quick_json.dumps({"a": {1}})


def test_without_the_c_code_json_does_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "_json", None)
    assert quick_json.loads(' {"a": [1]}') == {"a": [1]}
    assert quick_json.dumps({"a": [1]}) == '{"a": [1]}'


@pytest.mark.parametrize("text", ["{not json", '["\x01"]', "[1 2]", "nul", '"\\q"'])
def test_bad_text_is_a_value_error_where_json_was_never_loaded(text: str) -> None:
    code = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "from feishuperm.lib.quick_json import loads\n"
        "try:\n    loads(sys.argv[2])\n"
        "except ValueError as error:\n    print(error)"
    )
    ran = subprocess.run(
        [sys.executable, "-I", "-S", "-c", code, str(ROOT), text],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert ran.stdout.strip() == outcome(json.loads, text)[1], ran.stderr


def test_plain_values_load_neither_json_nor_re() -> None:
    code = (
        "import sys; sys.path.insert(0, sys.argv[1]); "
        "from feishuperm.lib.quick_json import dumps, loads; "
        """print(dumps(loads('{"a": [1, 2.5, null]}'))); """
        "print(*{'json', 're'} & set(sys.modules))"
    )
    ran = subprocess.run(
        [sys.executable, "-I", "-S", "-c", code, str(ROOT)],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert ran.stdout.splitlines() == ['{"a": [1, 2.5, null]}', ""], ran.stderr
