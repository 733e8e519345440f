"""Pages: what they say, and that nothing a tool call contains becomes markup."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import time
from html.parser import HTMLParser
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from feishuperm.handlers import pages
from feishuperm.lib.text import TEXTS, text
from feishuperm.models import request as states
from feishuperm.models.action import ACTIONS
from feishuperm.models.decision import Decision
from feishuperm.models.question import parse_answers
from feishuperm.models.request import TRANSITIONS, Request
from feishuperm.models.view import RequestView

ID = "1700000000-0badcafe"
VOID = {"meta", "link", "input", "path", "br"}
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


class Page(HTMLParser):
    """A parsed page: its text, its elements, and that every tag is closed in order."""

    def __init__(self, body: bytes) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str]]] = []
        self.text = ""
        self.scripts: list[str] = []
        self.styles: list[str] = []
        self._open: list[str] = []
        self.feed(body.decode())
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, {name: value or "" for name, value in attrs}))
        if tag not in VOID:
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        inside = self._open[-1] if self._open else ""
        if inside == "script":
            self.scripts.append(data)
        elif inside == "style":
            self.styles.append(data)
        else:
            self.text += data

    def all(self, tag: str, **wanted: str) -> list[dict[str, str]]:
        return [
            attrs
            for name, attrs in self.elements
            if name == tag and wanted.items() <= attrs.items()
        ]

    def form(self, path: str) -> dict[str, str]:
        """The hidden fields of the form that posts to a path."""
        start = self.elements.index(
            ("form", self.all("form", action=path, method="post")[0])
        )
        fields = {}
        for tag, attrs in self.elements[start + 1 :]:
            if tag == "form":
                break
            if tag == "input" and attrs["type"] == "hidden":
                fields[attrs["name"]] = attrs["value"]
        return fields


def make_view(
    tool_name: str = "Bash", tool_input: dict[str, Any] | None = None, **changes: Any
) -> RequestView:
    view = RequestView(
        id=ID,
        tool_name=tool_name,
        tool_input={"command": "npm run build"} if tool_input is None else tool_input,
        project="/home/u/shop",
        branch="main",
        session_id="5e55",
        agent="",
        created=1_700_000_000.0,
        seconds=55,
    )
    return view._replace(**changes)


def make_request(
    state: str, action: str = "", surface: str = "", tool_name: str = "Bash"
) -> Request:
    request = Request(ID, b"{}", tool_name, "/home/u/shop", 1_700_000_000.0)
    request.state = state
    request.action = action
    request.surface = surface
    request.ended = 1_700_000_020.0
    return request


def make_links(*names: str) -> dict[str, str]:
    return {name: f"/{name}?id={ID}&sig=s-{name}" for name in names}


FOUR = ("allow", "always", "deny", "interrupt")


# Results.


@pytest.mark.parametrize(
    ("action", "state", "done"),
    [
        ("allow", states.ALLOWED, "已批准运行"),
        ("always", states.ALLOWED, "已始终允许"),
        ("deny", states.DENIED, "已拒绝运行"),
        ("interrupt", states.DENIED, "已拒绝并中断"),
        ("answer", states.ANSWERED, "已提交回答"),
        ("approve", states.ANSWERED, "已批准计划"),
    ],
)
def test_deciding_tap_shows_success_and_what_was_done(
    action: str, state: str, done: str
) -> None:
    """Scenario: 显示操作成功页面"""
    request = make_request(state, action, "webhook")
    if action == "always":
        request.rules = ("Bash(npm run build)",)
    page = Page(pages.outcome_page("zh", request, fresh=True, view=make_view()))
    assert "操作成功" in page.text
    assert done in page.text
    assert "Bash" in page.text
    assert "shop" in page.text
    assert "请求无效或已过期" not in page.text


def test_always_that_wrote_nothing_does_not_claim_it_did() -> None:
    request = make_request(states.ALLOWED, "always", "webhook")
    request.note = "rule.wildcard"
    page = Page(pages.outcome_page("zh", request, fresh=True, view=make_view()))
    assert "已批准运行" in page.text and "已始终允许" not in page.text
    request.known_rules = ("Bash(ls)",)
    page = Page(pages.outcome_page("zh", request, fresh=True, view=make_view()))
    assert "已始终允许" in page.text and "Bash(ls)" in page.text


def test_unknown_id_shows_invalid_page() -> None:
    """Scenario: 显示请求无效页面"""
    page = Page(pages.outcome_page("zh", None))
    assert "请求无效或已过期" in page.text
    assert "操作成功" not in page.text


def test_tap_after_timeout_shows_expired_page() -> None:
    """Scenario: 超时后按钮点击处理"""
    request = make_request(states.EXPIRED)
    request.decision = Decision.deny("x")
    page = Page(pages.outcome_page("zh", request, view=make_view()))
    assert "请求无效或已过期" in page.text
    assert "请求已过期" in page.text
    assert "已自动拒绝" in page.text


def test_timeout_left_to_the_terminal_claims_no_denial() -> None:
    page = Page(pages.outcome_page("zh", make_request(states.EXPIRED)))
    assert "自动拒绝" not in page.text
    assert "终端" in page.text


def test_second_tap_is_told_which_decision_when_and_where() -> None:
    request = make_request(states.DENIED, "deny", "inbox")
    request.reason = "tests <first>"
    page = Page(pages.outcome_page("zh", request))
    when = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(request.ended))
    for expected in ("请求无效或已过期", "已拒绝运行", when, "收件箱", request.reason):
        assert expected in page.text


@pytest.mark.parametrize(
    ("state", "told"),
    [
        (states.TERMINAL, "请求已在终端处理"),
        (states.GONE, "会话已结束"),
        (states.RELEASED, "已交回终端"),
    ],
)
def test_late_tap_on_a_request_nobody_decided_here_says_how_it_ended(
    state: str, told: str
) -> None:
    request = make_request(state)
    request.reason = "internal words"
    page = Page(pages.outcome_page("zh", request))
    assert told in page.text
    assert "internal words" not in page.text


def test_always_shows_every_rule_text_exactly() -> None:
    request = make_request(states.ALLOWED, "always", "webhook", "Edit")
    request.rules = ("Edit(/a/<b>&.js)", "Edit(//a/<b>&.js)")
    page = Page(pages.outcome_page("zh", request, fresh=True))
    assert all(rule in page.text for rule in request.rules)
    told = pages.outcome_json("zh", request, fresh=True)
    assert [line for line in told["lines"] if request.rules[1] in line]


def test_note_says_why_no_rule_was_written() -> None:
    request = make_request(states.ALLOWED, "always", "webhook")
    request.note = "page.unknown"  # any sentence
    page = Page(pages.outcome_page("en", request, fresh=True))
    assert text("en", "page.unknown") in page.text


@pytest.mark.parametrize("language", ["zh", "en"])
def test_every_end_has_an_outcome(language: str) -> None:
    ends = {(row.state, row.name) for row in ACTIONS.values()}
    ends |= {(states.ANSWERED, "answer"), (states.ANSWERED, "approve")}
    ends |= {
        (end, "") for end in (states.EXPIRED, states.TERMINAL, states.GONE, "released")
    }
    assert {state for state, _ in ends} == TRANSITIONS[states.WAITING]
    for state, action in ends:
        for tool_name in ("Bash", "ExitPlanMode", "AskUserQuestion"):
            request = make_request(state, action, "somewhere", tool_name)
            Page(pages.outcome_page(language, request))
            assert pages.outcome_json(language, request, fresh=True)["ok"]
            assert pages.recent_item(language, request)["done"]


@pytest.mark.parametrize(
    ("tool_name", "done"),
    [("ExitPlanMode", "已拒绝计划"), ("AskUserQuestion", "已拒绝回答")],
)
def test_refusal_is_named_after_what_was_refused(tool_name: str, done: str) -> None:
    request = make_request(states.DENIED, "deny", "page", tool_name)
    assert done in Page(pages.outcome_page("zh", request, fresh=True)).text


# The request.


def test_request_page_shows_the_whole_command_and_posts_every_link() -> None:
    command = "\n".join(f"echo line {number}" for number in range(300))
    links = make_links(*FOUR, "request")
    view = make_view(tool_input={"command": command})
    rules = ["Bash(x)"]
    page = Page(
        pages.request_page("zh", view, links=links, seconds_left=40, rules=rules)
    )
    assert command in page.text
    assert "Bash(x)" in page.text
    for name in FOUR:
        assert page.form("/" + name) == {"id": ID, "sig": f"s-{name}"}
        assert page.all("button", form=f"form-{name}")
    assert page.all("input", name="reason", form="form-deny")
    assert page.all("span", **{"data-left": "40.0"})


def test_edit_is_shown_as_coloured_diff() -> None:
    edit = {"file_path": "/a.js", "old_string": "let a\nb", "new_string": "const a\nb"}
    page = Page(pages.request_page("zh", make_view("Edit", edit), links={}))
    assert len(page.all("span", **{"class": "add"})) == 1
    assert len(page.all("span", **{"class": "del"})) == 1
    assert "+const a" in page.text


def test_request_without_rule_says_why() -> None:
    page = Page(
        pages.request_page(
            "zh", make_view(), links=make_links(*FOUR), rule_note="有通配符"
        )
    )
    assert "不会写入规则：有通配符" in page.text


def test_settled_request_page_says_how_and_has_no_button() -> None:
    request = make_request(states.ALLOWED, "always", "webhook")
    request.rules = ("Bash(npm run build)",)
    page = Page(
        pages.request_page("zh", make_view(), links=make_links(*FOUR), request=request)
    )
    assert not page.all("button")
    assert not page.all("form")
    for expected in ("已始终允许", "飞书卡片", "Bash(npm run build)", "npm run build"):
        assert expected in page.text


def test_plan_page_offers_approval_and_rejection_and_no_rule() -> None:
    view = make_view("ExitPlanMode", {"plan": "# Title\n- step <one>"})
    links = make_links("allow", "deny", "interrupt")
    page = Page(pages.request_page("zh", view, links=links, seconds_left=9))
    for expected in ("批准计划", "拒绝计划", "# Title", "- step <one>"):
        assert expected in page.text
    assert "批准运行" not in page.text
    assert not page.all("form", action="/always")


def test_plan_without_a_file_is_said_to_be_empty() -> None:
    view = make_view("ExitPlanMode", {})
    page = Page(pages.request_page("zh", view, links=make_links("allow", "deny")))
    assert "没有计划文件" in page.text


def test_confirm_page_has_the_one_button_asked_for() -> None:
    action = ACTIONS["/always"]
    page = Page(
        pages.confirm_page(
            "zh", make_view(), action, f"/always?id={ID}&sig=q", rules=["Bash(y)"]
        )
    )
    assert [attrs["action"] for attrs in page.all("form")] == ["/always"]
    assert len(page.all("button")) == 1
    assert page.form("/always") == {"id": ID, "sig": "q"}
    assert "Bash(y)" in page.text


# Questions.


def question_page(**options: Any) -> Page:
    view = make_view("AskUserQuestion", {"questions": QUESTIONS})
    links = make_links("answer", "deny", "interrupt")
    return Page(pages.answer_page("zh", view, links=links, **options))


def test_answer_page_has_one_field_group_per_question() -> None:
    page = question_page()
    assert len(page.all("fieldset")) == 2
    assert [box["value"] for box in page.all("input", type="radio", name="q0")] == [
        "Red",
        "Blue",
    ]
    assert [box["value"] for box in page.all("input", type="checkbox", name="q1")] == [
        "S",
        "M",
        "L",
    ]
    assert page.all("input", type="text", name="q0_other")
    assert page.form("/answer") == {"id": ID, "sig": "s-answer"}
    assert page.form("/deny") == {"id": ID, "sig": "s-deny"}
    for expected in ("Which colour?", "warm", "Which sizes?", "可多选", "提交回答"):
        assert expected in page.text


def test_request_page_of_a_question_is_its_answer_form() -> None:
    view = make_view("AskUserQuestion", {"questions": QUESTIONS})
    page = Page(pages.request_page("zh", view, links=make_links("answer", "deny")))
    assert len(page.all("fieldset")) == 2


def test_refused_answer_keeps_what_was_filled_in() -> None:
    form = {"q1": ["M"], "q0_other": ['"><b>']}
    page = question_page(error="page.answer_unknown", form=form)
    checked = [attrs for _, attrs in page.elements if "checked" in attrs]
    assert [attrs["value"] for attrs in checked] == ["M"]
    assert page.all("input", name="q0_other", value='"><b>')
    assert "不在问题中" in page.text


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


@given(JSON_VALUES)
def test_odd_questions_never_break_the_form(questions: Any) -> None:
    view = make_view("AskUserQuestion", {"questions": questions})
    Page(pages.answer_page("zh", view, links=make_links("answer")))
    assert isinstance(parse_answers(questions, {"q0": ["x"]}), (str, dict))


# Safety.

NASTY = st.text(
    alphabet=st.one_of(
        st.sampled_from("<>&\"'`/={}\\\n\r\t\u202e\u200b\u2028\ud800"), st.characters()
    ),
    max_size=40,
)
INJECTIONS = ["</script><script>alert(1)</script>", '"><img src=x onerror=alert(1)>']


def every_page(value: str) -> list[bytes]:
    view = make_view(
        value or "Bash",
        {value: value, "command": value},
        project="/" + value,
        branch=value,
        session_id=value,
        agent=value,
    )
    question = {
        "question": value,
        "header": value,
        "options": [{"label": value, "description": value}],
    }
    asked = make_view("AskUserQuestion", {"questions": [question]})
    plan = make_view("ExitPlanMode", {"plan": value, "planFilePath": value})
    edit = make_view("Edit", {"old_string": value, "new_string": "n", value: value})
    request = make_request(states.DENIED, "deny", value)
    request.reason = request.project = value
    request.rules = (value,)
    links = make_links(*FOUR, "answer", "request")
    item = pages.inbox_item("zh", view, links=links, rules=[value], rule_note=value)
    recent = pages.recent_item("zh", request, value)
    boot = {"now": 1, "waiting": [item], "recent": [recent], "events": "/events"}
    return [
        *(
            pages.request_page("zh", shown, links=links, rules=[value])
            for shown in (view, asked, plan, edit)
        ),
        pages.request_page("zh", view, links=links, request=request),
        pages.answer_page("zh", asked, links=links, form={"q0_other": [value]}),
        pages.outcome_page("zh", request, view=view),
        pages.inbox_page("zh", boot),
    ]


def assert_harmless(body: bytes) -> None:
    page = Page(body)
    code = [script for script in page.scripts if not script.startswith('{"')]
    assert code in ([pages.PAGE_SCRIPT], [pages.INBOX_SCRIPT])
    assert not page.all("img")
    for _, attrs in page.elements:
        assert not any(name.startswith("on") or name == "style" for name in attrs)


@pytest.mark.parametrize("value", INJECTIONS)
def test_injected_markup_stays_text(value: str) -> None:
    for body in every_page(value):
        assert_harmless(body)


@given(NASTY)
def test_no_text_becomes_markup_in_any_page(value: str) -> None:
    for body in every_page(value):
        assert_harmless(body)


def test_direction_marks_are_spelled_out_everywhere() -> None:
    for body in every_page("a\u202eb"):
        shown = re.sub(r'value="[^"]*"', "", body.decode())
        assert "\u202e" not in shown
        assert "U+202E" in shown


@pytest.mark.parametrize("language", ["zh", "en"])
def test_policy_names_exactly_the_script_and_style_of_each_page(language: str) -> None:
    boot = {"now": 1, "waiting": [], "recent": [], "events": "/events"}
    bodies = (pages.outcome_page(language, None), pages.inbox_page(language, boot))
    policy = pages.content_security_policy()
    assert policy.startswith("default-src 'none'; ")
    assert "unsafe" not in policy
    for directive in (
        "frame-ancestors 'none'",
        "form-action 'self'",
        "connect-src 'self'",
        "base-uri 'none'",
    ):
        assert directive in policy
    for body in bodies:
        page = Page(body)
        for source in (*page.scripts[-1:], *page.styles):
            digest = base64.b64encode(hashlib.sha256(source.encode()).digest())
            assert f"'sha256-{digest.decode()}'" in policy
    assert ("Content-Security-Policy", policy) in pages.page_headers()


def test_no_page_names_another_place() -> None:
    for body in every_page("x"):
        assert b"http://" not in body
        assert b"https://" not in body
        assert b"@import" not in body
        assert b"url(" not in body


# The inbox.


def test_inbox_item_carries_what_the_script_needs() -> None:
    view = make_view("Edit", {"file_path": "/a", "old_string": "a", "new_string": "b"})
    links = make_links(*FOUR, "request")
    item = pages.inbox_item("zh", view, links=links, rules=["Edit(/a)"])
    assert item["deadline"] == view.created + 55
    assert item["links"] == links
    assert item["labels"]["always"] == "始终允许"
    assert [block["kind"] for block in item["blocks"]] == ["path", "diff"]
    assert item["rules"] == ["Edit(/a)"]
    json.dumps(item)


def test_long_content_in_the_inbox_keeps_both_ends() -> None:
    content = "start" + "x" * 50_000 + "end"
    view = make_view("Write", {"file_path": "/a", "content": content})
    block = pages.inbox_item("zh", view, links={})["blocks"][1]
    assert block["text"].startswith("start")
    assert block["tail"].endswith("end")
    assert len(block["text"] + block["tail"]) <= pages.INBOX_BLOCK


def test_inbox_without_scripts_links_to_every_waiting_request() -> None:
    links = make_links("request")
    item = pages.inbox_item("zh", make_view(), links=links)
    boot = {"now": 1, "waiting": [item], "recent": [], "events": "/events"}
    page = Page(pages.inbox_page("zh", boot))
    assert page.all("a", href=links["request"])


def test_recent_item_says_who_where_when_and_which_rule() -> None:
    request = make_request(states.ALLOWED, "always", "inbox")
    request.rules = ("Bash(x)",)
    assert pages.recent_item("zh", request) == {
        "id": ID,
        "what": "Bash",
        "project_name": "shop",
        "done": "已始终允许",
        "look": "good",
        "surface": "收件箱",
        "ended": request.ended,
        "rules": ["Bash(x)"],
        "reason": "",
        "notes": [],
    }


def test_every_text_the_script_asks_for_is_sent_and_no_more() -> None:
    asked = set(re.findall(r'"((?:inbox|page|button)\.[a-z_.]+)"', pages.INBOX_SCRIPT))
    assert asked == set(pages.INBOX_TEXTS)
    assert asked <= set(TEXTS)


@pytest.mark.parametrize("key", [key for key in TEXTS if key.startswith("inbox.")])
def test_no_inbox_text_is_left_over(key: str) -> None:
    blank = "{{" + key.partition(".")[2] + "}}"
    helped = [name for _, name in pages.KEYS]
    assert key in pages.INBOX_TEXTS or key in helped or blank in pages.INBOX
