"""The pages about one request: its own, the step before a decision, the result."""

from __future__ import annotations

import re
import time
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from feishuperm.handlers.pages.request import (
    Ways,
    confirm_page,
    live_json,
    message_page,
    record_page,
    request_page,
    result_json,
    result_page,
    undone_page,
)
from feishuperm.models.ask import (
    ENDED,
    INCOMPLETE,
    REFUSED,
    SETTLED,
    UNKNOWN,
    Ask,
    Block,
    Receipt,
    shorten,
)
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
        field = "reason" if name in ("deny", "interrupt") else "command"
        assert page.forms[name].names() == [field]
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
    assert (
        "没有“始终允许”的原因：有通配符" in page_of(make_ask(rule_note="有通配符")).text
    )


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
    assert sorted(page.forms) == refusals()


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


def test_page_has_the_order_of_the_card() -> None:
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
        *("运行下载的内容", "curl x | sh", "装一下", "I will install <it>."),
        *("批准运行", "更多", "set things up", "连接 x.example"),
    )
    places = [page.text.index(words) for words in order]
    assert places == sorted(places)
    for words in order:
        assert page.text.count(words) == 1
    assert page.all("p", class_="danger")
    assert re.search(r"\d\d:\d\d 后自动拒绝", page.text)


def test_page_of_a_plain_call_has_no_mark_and_no_empty_words() -> None:
    page = page_of(make_ask(at_zero="terminal"))
    assert not page.all("p", class_="danger")
    assert "hidden" in page.all("p", class_="why")[0]
    assert re.search(r"\d\d:\d\d 后交回终端", page.text)


# The step before a decision.


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


# After a tap.


def test_deciding_tap_shows_success_and_what_was_done() -> None:
    """Scenario: 显示操作成功页面"""
    receipt = Receipt(SETTLED, make_outcome("已批准运行"))
    page = Page(result_page("zh", receipt, make_ask()))
    for expected in ("操作成功", "已批准运行", "Bash", "shop", "npm run build"):
        assert expected in page.text
    assert "请求无效或已过期" not in page.text


def test_result_shows_where_the_ledger_stands() -> None:
    for status in (SETTLED, ENDED):
        receipt = Receipt(status, make_outcome(head="5eaf00d"))
        assert "5eaf00d" in Page(result_page("zh", receipt)).text


def test_unknown_id_shows_invalid_page() -> None:
    """Scenario: 显示请求无效页面"""
    page = Page(result_page("zh", Receipt(UNKNOWN)))
    assert "请求无效或已过期" in page.text
    assert "操作成功" not in page.text


def test_tap_after_timeout_shows_expired_page() -> None:
    """Scenario: 超时后按钮点击处理"""
    lines = ("请求已过期：没有人及时操作。",)
    outcome = make_outcome("已超时，自动拒绝", action="", look="late", lines=lines)
    page = Page(result_page("zh", Receipt(ENDED, outcome), make_ask()))
    for expected in ("请求无效或已过期", "请求已过期", "自动拒绝"):
        assert expected in page.text


def test_second_tap_is_told_what_was_done_and_when_in_the_heading() -> None:
    """Scenario: 显示操作成功页面; the specified words stand below."""
    outcome = make_outcome("已拒绝运行", surface="inbox", reason="tests <first>")
    page = Page(result_page("zh", Receipt(ENDED, outcome)))
    when = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(outcome.ended))
    clock = time.strftime("%H:%M", time.localtime(outcome.ended))
    assert page.text.index(f"已于 {clock} 拒绝运行") < page.text.index(when)
    assert page.text.index("已拒绝运行") < page.text.index(when)
    assert page.text.index(when) < page.text.rindex("请求无效或已过期")
    for expected in ("收件箱", "tests <first>"):
        assert expected in page.text
    told = result_json("zh", Receipt(ENDED, outcome))
    assert told["over"] and "请求无效或已过期 · 已拒绝运行" in told["html"]


def test_every_rule_text_is_shown_exactly() -> None:
    rules = ("Edit(/a/<b>&.js)", "Edit(//a/<b>&.js)")
    receipt = Receipt(SETTLED, make_outcome("已始终允许", rules=rules))
    assert all(rule in Page(result_page("zh", receipt)).text for rule in rules)
    told = Page(result_json("zh", receipt)["html"].encode())
    assert all(rule in told.text for rule in rules)


def test_sentences_of_the_outcome_are_said() -> None:
    receipt = Receipt(SETTLED, make_outcome(lines=("命令中含有 *",)))
    assert "命令中含有 *" in Page(result_page("zh", receipt)).text
    assert "<p>命令中含有 *</p>" in result_json("zh", receipt)["html"]


@every_row("status", [INCOMPLETE, REFUSED])
def test_answer_that_was_not_taken_leaves_the_request_open(status: str) -> None:
    told = result_json("zh", Receipt(status, error="因为"))
    assert not told["over"]
    assert told["html"].endswith(">因为</div>")


def test_plan_and_question_need_no_line_of_their_text_on_the_result() -> None:
    plan = make_ask("plan", blocks=(Block("markdown", "", "# Title"),))
    receipt = Receipt(SETTLED, make_outcome("已批准计划"))
    assert "# Title" not in Page(result_page("zh", receipt, plan)).text


def test_message_page_says_its_sentence() -> None:
    page = Page(message_page("en", "This cannot be opened", "why <not>"))
    assert "why <not>" in page.text


def test_surface_without_a_name_is_shown_as_it_is() -> None:
    outcome = make_outcome(surface="pigeon", who="Ann")
    assert "Ann · pigeon" in Page(result_page("zh", Receipt(ENDED, outcome))).text


@every_row(
    ("language", "done", "heading"),
    [
        ("zh", "已批准运行", "已于 {} 批准运行"),
        ("zh", "请求已过期", "请求已于 {} 过期"),
        ("zh", "结果未知", "结果未知 · {}"),
        ("en", "Allowed", "Allowed at {}"),
    ],
)
def test_second_tap_is_headed_by_what_was_done_when(
    language: str, done: str, heading: str
) -> None:
    outcome = make_outcome(done, language=language)
    clock = time.strftime("%H:%M", time.localtime(outcome.ended))
    page = Page(result_page(language, Receipt(ENDED, outcome)))
    assert heading.format(clock) in page.text


def test_result_says_how_the_call_went_on_or_leaves_room_for_it() -> None:
    outcome = make_outcome(result="已运行，退出码 3", result_look="bad")
    page = Page(result_page("zh", Receipt(SETTLED, outcome)))
    (shown,) = page.all("p", id="result")
    assert shown["class"] == "result bad" and "hidden" not in shown
    assert "已运行，退出码 3" in page.text
    (shown,) = Page(result_page("zh", Receipt(SETTLED, make_outcome()))).all(
        "p", id="result"
    )
    assert "hidden" in shown


@every_row("status", [SETTLED, ENDED])
def test_rule_that_was_written_can_be_taken_back_from_the_result(status: str) -> None:
    outcome = make_outcome("已始终允许", rules=("Bash(x)",), undoable=True)
    ways = Ways("events?id=1&sig=e", "undo?id=1&sig=u")
    page = Page(result_page("zh", Receipt(status, outcome), None, ways))
    assert page.form("undo") == {"id": "1", "sig": "u"}
    assert page.all("main", **{"data-events": "events?id=1&sig=e"})
    once = make_outcome("已批准运行")
    assert not Page(result_page("zh", Receipt(status, once), None, ways)).forms


def test_open_page_is_told_the_end_and_the_result_as_markup_of_ours() -> None:
    outcome = make_outcome(reason="<b>", result="已运行完毕", result_look="good")
    told = live_json(outcome)
    box = Page(told["html"].encode())
    assert box.all("div", class_="outcome good", role="status") and not box.all("b")
    for words in ("已批准运行", "<b>", "网页", "已运行完毕"):
        assert words in box.text
    assert told["result"] == "已运行完毕" and told["result_look"] == "good"


def test_rule_that_was_taken_back_is_struck_through() -> None:
    outcome = make_outcome("已始终允许", rules=("Bash(x)",), undone=("Bash(x)",))
    page = Page(undone_page("zh", outcome))
    assert page.all("s") and "Bash(x)" in page.text and "已撤销" in page.text
