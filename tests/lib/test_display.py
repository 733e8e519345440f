"""What a person cannot see is spelled out, and nothing else is touched."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from feishuperm.lib import display
from feishuperm.lib.display import one_line, visible
from tests.tables import every_row

UNSEEN_CATEGORIES = ("Cc", "Cf", "Cs", "Co", "Zl", "Zp")


@every_row(
    ("text", "shown"),
    [
        ("rm -rf ./build", "rm -rf ./build"),
        ("two\nlines\tand a tab", "two\nlines\tand a tab"),
        ("中文，ü, 😀 and the wide\u3000space", "中文，ü, 😀 and the wide\u3000space"),
        ("a\u202eb", "a⟦U+202E⟧b"),
        ("zero\u200bwidth", "zero⟦U+200B⟧width"),
        ("no\u00a0break", "no⟦U+00A0⟧break"),
        ("\x1b[2K\rhidden", "⟦U+001B⟧[2K⟦U+000D⟧hidden"),
        ("nul\x00del\x7f", "nul⟦U+0000⟧del⟦U+007F⟧"),
        ("half \ud83d of a pair", "half ⟦U+D83D⟧ of a pair"),
        ("tag \U000e0041", "tag ⟦U+E0041⟧"),
        ("hangul filler \u3164", "hangul filler ⟦U+3164⟧"),
        ("line\u2028separator", "line⟦U+2028⟧separator"),
    ],
)
def test_text_is_shown_with_its_invisible_characters_spelled(
    text: str, shown: str
) -> None:
    assert visible(text) == shown


def test_every_control_format_and_private_character_is_spelled() -> None:
    unseen = [
        chr(point)
        for point in range(0x110000)
        if unicodedata.category(chr(point)) in UNSEEN_CATEGORIES
        and chr(point) not in "\n\t"
    ]
    missed = [f"U+{ord(char):04X}" for char in unseen if visible(char) == char]
    assert missed == []


@settings(deadline=None)
@given(st.text(st.characters(exclude_categories=())))
def test_shown_text_can_be_encoded_and_is_not_changed_twice(text: str) -> None:
    shown = visible(text)
    shown.encode()
    assert visible(shown) == shown


def test_one_line_joins_lines_and_cuts() -> None:
    assert one_line(" a\n b\t c ") == "a b c"
    assert one_line("x" * 300, 10) == "x" * 9 + "…"
    assert one_line("a\u202eb") == "a⟦U+202E⟧b"


def test_one_line_says_that_something_was_cut_off_behind_many_blanks() -> None:
    assert one_line("ls" + " " * 1000 + "; rm -rf x", 10) == "ls…"


MANY = "".join(map(chr, range(0x200B, 0x200B + 2 * display.FEW)))


@pytest.mark.parametrize(
    "text", ["\u00ad", "a\u00ad", "\x00", "\ue000\U000f0000", MANY]
)
def test_text_full_of_invisible_characters_is_spelled_without_a_call_for_each(
    text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[int] = []
    real = display._Spelled.__missing__

    def missing(table: display._Spelled, point: int) -> int | str:
        calls.append(point)
        return real(table, point)

    monkeypatch.setattr(display._Spelled, "__missing__", missing)
    assert visible(text * 100_000) == visible(text) * 100_000
    assert len(calls) <= 2 * len(text)


def test_ordinary_text_is_the_very_same() -> None:
    for text in ("ls -la\n\t", "列出文件：全部，再见。", "naïve café №5 😀"):
        assert visible(text) is text
