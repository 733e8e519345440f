"""A mistake on the command line is one line and a hint."""

from __future__ import annotations

import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from feishuperm.errors import UsageError
from feishuperm.lib.arguments import ArgumentParser, number
from feishuperm.messages import message_of, text
from tests.tables import every_row


def demo() -> ArgumentParser:
    parser = ArgumentParser("demo")
    parser.add_argument("word", nargs="?")
    parser.add_argument("--number", type=number)
    parser.add_argument("-j", "--json", action="store_true")
    parser.add_argument("--kind", choices=("big", "small"))
    parser.add_argument("-s", "--session", nargs="?", const="this", metavar="ID")
    return parser


@every_row(
    ("args", "text"),
    [
        (["--nonsense"], "unknown argument '--nonsense'"),
        (["--numbe", "1"], "unknown argument '--numbe'"),
        (["--number", "x"], "--number: 'x' is no number"),
        (["--number"], "--number needs a value"),
        (["--number", "--json"], "--number needs a value"),
        (["--json=yes"], "unknown argument '--json=yes'"),
        (["--kind", "odd"], "--kind: 'odd' is not big, small"),
        (["a", "b"], "unknown argument 'b'"),
    ],
)
def test_mistake_is_told_with_the_command_that_explains(
    args: list[str], text: str
) -> None:
    with pytest.raises(UsageError) as caught:
        demo().parse_args(args)
    assert str(caught.value) == text
    assert caught.value.hint == "feishuperm demo --help"


@every_row(
    ("args", "name", "value"),
    [
        ([], "word", None),
        ([], "json", False),
        (["-j"], "json", True),
        (["--number=7"], "number", 7),
        (["x", "--number", "7"], "word", "x"),
        (["--kind", "big"], "kind", "big"),
        (["--session"], "session", "this"),
        (["--session", "--json"], "session", "this"),
        (["--session", "1"], "session", "1"),
        (["-s1"], "session", "1"),
        (["-"], "word", "-"),
        (["- one\n- two"], "word", "- one\n- two"),
    ],
)
def test_values_are_found_wherever_they_stand(
    args: list[str], name: str, value: object
) -> None:
    assert getattr(demo().parse_args(args), name) == value


def test_word_that_must_be_there_is_missed_by_its_name() -> None:
    parser = ArgumentParser("demo")
    parser.add_argument("folder")
    with pytest.raises(UsageError, match="FOLDER is missing"):
        parser.parse_args([])


def test_help_begins_with_usage_and_ends_with_0(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit) as caught:
        ArgumentParser("demo").parse_args(["--help"])
    assert caught.value.code == 0
    assert capsys.readouterr().out.startswith("usage: feishuperm demo [-h] ")


def test_letters_behind_a_flag_are_refused() -> None:
    """In words that depend on the Python."""
    with pytest.raises(UsageError, match="unknown argument"):
        demo().parse_args(["-jq"])


@given(st.lists(st.text(max_size=6) | st.sampled_from(["--number", "-s", "--", "="])))
def test_any_words_are_read_or_refused(args: list[str]) -> None:
    try:
        demo().parse_args(args)
    except (UsageError, SystemExit):
        pass


@every_row(
    ("args", "told"),
    [
        (["--kind", "odd"], "--kind：'odd' 不符合要求，应为：big, small"),
        (["--number", "x"], "--number：'x' 不是数字"),
        (["--words", "a 'b"], "--words：引号没有成对"),
    ],
)
def test_mistake_is_told_in_chinese(args: list[str], told: str) -> None:
    """Also what the standard library says of a value."""
    parser = demo()
    parser.add_argument("--words", type=shlex.split)
    with pytest.raises(UsageError) as caught:
        parser.parse_args(args)
    assert text("zh", message_of(caught.value)) == told
