"""The list of passes: where each holds, and the buttons that end it."""

from __future__ import annotations

from pathlib import Path

import pytest

from feishuperm.handlers.pages.passes import pass_items, pass_list
from feishuperm.services.ledger import Ledger
from feishuperm.services.passes import Pass, Passes
from tests.handlers.pages.page import Page

EVIL = "Bash(<script>x</script> \u202e)"


@pytest.fixture
def passes(tmp_path: Path) -> Passes:
    return Passes(Ledger(str(tmp_path / "ledger.jsonl")))


def add(passes: Passes, **parts: object) -> None:
    scope = Pass(rules=("Bash(ls)",), shown="Bash(ls)", project="/home/me/shop")
    row = passes.draft(scope._replace(**parts), 600)  # type: ignore[arg-type]
    passes.add(row)


def page(passes: Passes) -> Page:
    return Page(pass_list("en", pass_items("en", passes)).encode())


def test_pass_says_what_it_lets_through_where_and_how_often(passes: Passes) -> None:
    add(passes, calls=3, session="0123456789abcdef")
    text = page(passes).text
    for words in ("Bash(ls)", "shop", "01234567", "3"):
        assert words in text
    assert "89abcdef" not in text and "/home/me" not in text


def test_each_pass_has_a_button_and_all_have_one(passes: Passes) -> None:
    for _ in range(2):
        add(passes)
    drawn = page(passes)
    ids = [row.id for row in passes.all()]
    posted = [field["value"] for field in drawn.all("input", name="pass")]
    assert posted == [*ids, "all"]
    assert {form["action"] for form in drawn.all("form")} == {"passes"}


def test_what_a_pass_is_for_is_spelled_out_and_no_markup(passes: Passes) -> None:
    add(passes, shown=EVIL, project=f"/p/{EVIL}")
    drawn = page(passes)
    assert drawn.scripts == [] and "\u202e" not in drawn.text
    assert "<script>" in drawn.text


def test_section_without_passes_is_there_and_hidden(passes: Passes) -> None:
    (section,) = page(passes).all("section")
    assert "hidden" in section
    add(passes)
    (section,) = page(passes).all("section")
    assert "hidden" not in section
