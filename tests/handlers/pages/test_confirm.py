"""The step before a decision: one button, and the words one has to agree to."""

from __future__ import annotations

from feishuperm.handlers.pages.confirm import confirm_page
from feishuperm.models.ask import Block
from tests.handlers.pages.page import ID, Page, make_ask
from tests.handlers.pages.test_request import QUESTIONS


def test_confirm_page_has_the_one_button_asked_for() -> None:
    ask = make_ask(rules=("Bash(y)",))
    offer = ask.offer("always")
    assert offer
    page = Page.of(confirm_page(ask, offer, f"always?id={ID}&sig=q", 9))
    assert [attrs["action"] for attrs in page.all("form")] == ["always"]
    assert page.button("always") == "始终允许"
    assert page.form("always") == {"id": ID, "sig": "q", "digest": "d16e57"}
    assert "Bash(y)" in page.text


def test_broad_rule_is_confirmed_under_its_words() -> None:
    words = "这个工具的任何调用都将直接通过"
    ask = make_ask(rules=("mcp__db__query",))
    offer = ask.offer("always")
    assert offer
    confirmed = offer._replace(confirm=words)
    page = Page.of(confirm_page(ask, confirmed, f"always?id={ID}&sig=q", 9))
    assert words in page.text
    assert page.form("always")["confirmed"] == "1"


def test_refusing_a_question_by_link_still_shows_the_question() -> None:
    ask = make_ask("question", {"questions": QUESTIONS})
    ask = ask._replace(blocks=(Block("question", "", "Which colour?"),))
    offer = ask.offer("deny")
    assert offer
    page = Page.of(confirm_page(ask, offer, f"deny?id={ID}", 9))
    assert "Which colour?" in page.text


def test_reason_that_was_typed_is_still_there_and_the_request_followed() -> None:
    ask = make_ask()
    offer = ask.offer("deny")
    assert offer
    page = Page.of(
        confirm_page(
            ask, offer, f"deny?id={ID}", 9, {"reason": ["<not> now"]}, "ev?id=1"
        )
    )
    (field,) = page.all("input", name="reason")
    assert field["value"] == "<not> now"
    assert page.all("main", **{"data-events": "ev?id=1"})
    assert "confirmed" not in page.form("deny"), "there was nothing to agree to"
