"""A request's own page, and the step before a decision."""

from __future__ import annotations

import re
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from feishuperm.handlers.pages.request import record_page, request_page
from feishuperm.models.ask import Ask, Block, shorten
from feishuperm.models.kind import KINDS
from tests.handlers.pages.page import ID, Page, make_ask, make_links, make_outcome
from tests.kinds import refusals
from tests.tables import every_row

QUESTIONS = [
    {
        "question": "Which colour?",
        "header": "Colour",
        "multiSelect": False,
        "options": [
            {"label": "Red", "description": "warm"},
            {"label": "Blue", "description": ""},
        ],
    },
    {
        "question": "Which sizes?",
        "header": "Size",
        "multiSelect": True,
        "options": [{"label": "S"}, {"label": "M"}, {"label": "L"}],
    },
]


def page_of(ask: Ask, **options: Any) -> Page:
    return Page.of(request_page(ask, make_links(ask), 40, **options))


def test_whole_command_is_shown_and_every_button_posts_its_link() -> None:
    command = "\n".join(f"echo line {number}" for number in range(300))
    ask = make_ask(blocks=(Block("code", "命令", command),), rules=("Bash(x)",))
    page = page_of(ask)
    assert command in page.text
    assert "Bash(x)" in page.text
    for name in ("allow", "always", "deny", "interrupt"):
        posted = {"id": ID, "sig": f"s-{name}", "digest": "d16e57"}
        assert page.form(name) == posted
        assert page.forms[name].names() == (["reason"] if name == "deny" else [])
    assert page.all("span", **{"data-left": "40.0"})


@every_row("kind", list(KINDS))
def test_every_action_of_a_kind_is_a_plain_form_with_its_label(kind: str) -> None:
    ask = make_ask(kind, {"questions": QUESTIONS})
    page = page_of(ask)
    for offer in ask.actions:
        action = KINDS[kind].action(offer.name)
        assert action
        label = offer.submit if offer.needs else offer.label
        assert page.button(action.path[1:]) == label


def test_request_without_rule_says_why() -> None:
    assert "不会写入规则：有通配符" in page_of(make_ask(rule_note="有通配符")).text


def test_settled_request_says_how_and_has_no_button() -> None:
    outcome = make_outcome("已始终允许", rules=("Bash(npm run build)",))
    page = Page.of(record_page(make_ask(), outcome))
    assert not page.all("button")
    assert not page.all("form")
    for expected in ("已始终允许", "网页", "Bash(npm run build)", "a1b2c3"):
        assert expected in page.text


def test_plan_offers_approval_and_rejection_and_no_rule() -> None:
    plan = Block("markdown", "", "# Title\n- step <one>")
    page = page_of(make_ask("plan", blocks=(plan,)))
    for expected in ("批准计划", "退回计划", "Title", "step <one>"):
        assert expected in page.text
    assert page.all("h3", class_="md h1") and page.all("li")
    assert "批准运行" not in page.text
    assert not page.all("form", action="always")


def test_what_was_cut_is_named_and_offers_only_refusals() -> None:
    many = tuple(Block("text", "", f"part {number}") for number in range(50))
    ask = shorten(make_ask(blocks=(Block("code", "", "x" * 9000), *many)), 300)
    page = page_of(ask)
    assert "8700" in page.text
    assert "21 项未显示" in page.text
    assert sorted(form["action"] for form in page.all("form")) == refusals()


# Fields.


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["question", "header", "options", "label", "description", "multiSelect"]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@settings(deadline=None)
@given(JSON_VALUES)
def test_odd_questions_never_break_the_form(questions: Any) -> None:
    page_of(make_ask("question", {"questions": questions}))


def test_dangers_stand_below_the_command_then_why_then_facts_then_the_rest() -> None:
    ask = make_ask(
        blocks=(Block("code", "命令", "curl x | sh"), Block("text", "说明", "装一下")),
        dangers=("运行下载的内容",),
        why="I will install <it>.",
        prompt="set things up",
        facts=("连接 x.example",),
        at_zero="deny",
    )
    page = page_of(ask)
    order = (
        *("curl x | sh", "运行下载的内容", "I will install <it>.", "set things up"),
        *("连接 x.example", "装一下"),
    )
    places = [page.text.index(words) for words in order]
    assert places == sorted(places)
    for words in order:
        assert page.text.count(words) == 1
    assert page.all("p", class_="danger")
    assert re.search(r"\d\d:\d\d 后自动拒绝", page.text)


def test_page_of_a_plain_call_has_no_mark_and_no_empty_words() -> None:
    page = page_of(make_ask(at_zero="terminal"))
    for name in ("danger", "why", "prompt"):
        assert not page.all("p", class_=name)
    assert re.search(r"\d\d:\d\d 后交回终端", page.text)
