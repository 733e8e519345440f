"""Which language the command line speaks, and how a line gets into it."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from feishuperm.lib import tongue
from feishuperm.lib.chinese import ROWS
from feishuperm.lib.tongue import (
    DEEPEST,
    Catalogue,
    find_holes,
    language,
    of_locale,
    translate,
)
from tests.tables import every_row


@every_row(
    ("environ", "named"),
    [
        ({}, ""),
        ({"LANG": "C"}, ""),
        ({"LANG": "C.UTF-8"}, ""),
        ({"LANG": "POSIX"}, ""),
        ({"LANG": "zh_CN.UTF-8"}, "zh"),
        ({"LANG": "zh_TW"}, "zh"),
        ({"LANG": "en_US.UTF-8"}, "en"),
        ({"LANG": "de_DE@euro"}, "en"),
        ({"LANG": "zh_CN.UTF-8", "LC_ALL": "C"}, ""),
        ({"LANG": "zh_CN.UTF-8", "LC_MESSAGES": "en_GB"}, "en"),
        ({"LANG": "en_US", "LC_ALL": ""}, "en"),
    ],
)
def test_language_a_locale_names(environ: dict[str, str], named: str) -> None:
    assert of_locale(environ) == named


def test_settings_count_before_the_locale(tmp_path: Path) -> None:
    config = tmp_path / "config.env"
    environ = {"LANG": "zh_CN.UTF-8", "FEISHUPERM_CONFIG": str(config)}
    assert language(environ) == "zh"
    assert language({**environ, "LANG": "C"}) == "en"
    config.write_text("FEISHUPERM_LANG=en\n")
    assert language(environ) == "en"
    assert language({**environ, "FEISHUPERM_LANG": "zh"}) == "zh"
    config.write_text("FEISHUPERM_LANG=klingon\n")
    assert language(environ) == "zh"
    config.write_text("no line of ours\n")
    assert language(environ) == "zh"


SMALL = Catalogue(
    (
        ("nothing is there", "什么都没有"),
        ("cannot read {}: {}", "无法读取 {}：{~}"),
        ("{} is not {}", "{} 不是 {}"),
        ("{} is not a number", "{} 不是数字"),
        ("set {} in {}", "在 {2} 里设置 {1}"),
        ("kept{}", "保留{~}"),
        ("; {} more", "；另有 {} 个"),
        ("it is not so", "并非如此"),
        ("note: {}", "注意：{~}"),
        ("{}, and so on", "{~}，等等"),
        ("said: {}", "说：{}"),
    )
)


@every_row(
    ("english", "chinese"),
    [
        ("nothing is there", "什么都没有"),
        ("    nothing is there", "    什么都没有"),
        ("nothing is there ", "nothing is there "),
        ("Nothing is there", "Nothing is there"),
        ("", ""),
        ("x is not a number", "x 不是数字"),  # the most exact row
        ("x is not y", "x 不是 y"),
        ("set A in /b in c", "在 /b in c 里设置 A"),
        ("cannot read /x: nothing is there", "无法读取 /x：什么都没有"),
        ("cannot read nothing is there: y", "无法读取 nothing is there：y"),
        ("kept; 3 more", "保留；另有 3 个"),
        ("kept", "保留"),
        ("/etc/x: nothing is there", "/etc/x: 什么都没有"),
        ("10: nothing is there: https://page", "10: 什么都没有: https://page"),
        ("nothing is there (a or b)", "什么都没有 (a or b)"),
        ("10: it is not so (a): https://page", "10: 并非如此 (a): https://page"),
        ("note: it is not so", "注意：并非如此"),
        ("said: x is not y", "说：x is not y"),  # somebody else's words
        ("set A in b, and so on", "在 b 里设置 A，等等"),
        ("10: it is not so", "10: 并非如此"),  # not the row with two holes
        ("a line of somebody else's", "a line of somebody else's"),
    ],
)
def test_line_is_put_into_chinese_by_the_row_that_fits_best(
    english: str, chinese: str
) -> None:
    assert SMALL.translate(english) == chinese


@given(st.lists(st.sampled_from(["a", " is not ", "{}", ": ", "kept", "; ", "in "])))
def test_holes_and_literals_together_are_the_line(parts: list[str]) -> None:
    line = "".join(parts)
    for literals in (["", " is not ", ""], ["kept", "; ", "in "], ["", ": ", ": ", ""]):
        holes = find_holes(line, literals)
        if holes is not None:
            ends = zip(literals, [*holes, ""])
            assert "".join(literal + hole for literal, hole in ends) == line


@pytest.mark.parametrize("part", ["a: ", " is not ", "; ", "cannot read x: ", " ("])
def test_endless_line_is_looked_at_a_few_times_only(
    part: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = 0

    def counted(line: str, literals: list[str]) -> list[str] | None:
        nonlocal looks
        looks += 1
        return find_holes(line, literals)

    monkeypatch.setattr(tongue, "find_holes", counted)
    line = part * 10_000
    catalogue = Catalogue(ROWS)
    chinese = catalogue.translate(line)
    assert looks <= len(ROWS) * 2 * DEEPEST
    assert chinese.count("x") == line.count("x")


def test_line_is_english_unless_chinese_is_asked_for(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("FEISHUPERM_CONFIG", str(tmp_path / "none"))
    monkeypatch.setenv("FEISHUPERM_LANG", "en")
    assert translate("nothing is installed") == "nothing is installed"
    monkeypatch.setenv("FEISHUPERM_LANG", "zh")
    assert translate("nothing is installed") == "没有安装任何东西"


@pytest.mark.parametrize(
    ("encoding", "said"),
    [("gbk", "没有安装任何东西"), ("latin-1", "nothing is installed")],
)
def test_terminal_that_cannot_show_chinese_is_told_in_english(
    encoding: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FEISHUPERM_LANG", "zh")
    stream = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
    monkeypatch.setattr("sys.stdout", stream)
    assert translate("nothing is installed") == said
