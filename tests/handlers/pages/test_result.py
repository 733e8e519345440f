"""What a person is told after a tap."""

from __future__ import annotations

import time

from feishuperm.handlers.pages.result import (
    Ways,
    dated,
    message_page,
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
    Block,
    Receipt,
)
from tests.handlers.pages.page import Page, make_ask, make_outcome
from tests.tables import every_row


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
    assert not told["ok"] and told["over"] and "已拒绝运行" in told["title"]


def test_every_rule_text_is_shown_exactly() -> None:
    rules = ("Edit(/a/<b>&.js)", "Edit(//a/<b>&.js)")
    receipt = Receipt(SETTLED, make_outcome("已始终允许", rules=rules))
    assert all(rule in Page(result_page("zh", receipt)).text for rule in rules)
    told = result_json("zh", receipt)
    assert [line for line in told["lines"] if rules[1] in line]


def test_sentences_of_the_outcome_are_said() -> None:
    receipt = Receipt(SETTLED, make_outcome(lines=("命令中含有 *",)))
    assert "命令中含有 *" in Page(result_page("zh", receipt)).text
    assert "命令中含有 *" in result_json("zh", receipt)["lines"]


@every_row("status", [INCOMPLETE, REFUSED])
def test_answer_that_was_not_taken_leaves_the_request_open(status: str) -> None:
    told = result_json("zh", Receipt(status, error="因为"))
    assert not told["ok"] and not told["over"]
    assert told["lines"] == ["因为"]


def test_plan_and_question_need_no_line_of_their_text_on_the_result() -> None:
    plan = make_ask("plan", blocks=(Block("markdown", "", "# Title"),))
    receipt = Receipt(SETTLED, make_outcome("已批准计划"))
    assert "# Title" not in Page(result_page("zh", receipt, plan)).text


def test_message_page_says_its_sentence() -> None:
    page = Page(message_page("en", "page.refused", "why <not>"))
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
    assert dated(outcome) == heading.format(clock)


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


def test_rule_that_was_taken_back_is_struck_through() -> None:
    outcome = make_outcome("已始终允许", rules=("Bash(x)",), undone=("Bash(x)",))
    page = Page(undone_page("zh", outcome))
    assert page.all("s") and "Bash(x)" in page.text and "已撤销" in page.text
