"""Cards and messages: what they say, what they can never become, how they are sent."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from feishuperm.lib import log as logging
from feishuperm.lib.feishu import (
    CODES,
    NO_CONTENT,
    RETRY,
    SIMPLER,
    STYLES,
    UNCOUNTED,
    Bot,
    SendResult,
    at_zero,
    build_notice_card,
    build_permission_card,
    build_text_message,
    card_message,
    judge,
    permission_messages,
    send_feishu_card,
    sign,
    time_hint,
)
from feishuperm.lib.post import Reply, post_json
from feishuperm.messages import text
from feishuperm.models.ask import NOTICES, YES, Notice
from feishuperm.models.kind import KINDS, Action
from feishuperm.models.names import LANGUAGES
from tests.asks import ID, URL, make_ask, url
from tests.conftest import examples
from tests.fakes.feishu import (
    TOKEN,
    FakeFeishu,
    Fault,
    check_card,
    every_element,
    every_text,
    every_url,
)
from tests.kinds import buttons, refusals
from tests.lib.samples import CALLS
from tests.tables import every_row

# What a tap alone decides; a field to fill in is the page's.
ACTIONS = [
    row for row in KINDS["permission"].actions if not row.needs and not row.passes
]
MORE = url("/request", ID)
OK = Reply(200, {}, b'{"code":0,"msg":"success"}')
# What would be live in Feishu's markdown, wherever it stands.
HOSTILE = (
    "<at id=all></at>",
    '<at user_id="all">x</at>',
    "< AT id=ou_1>",
    "<person id='ou_1'></person>",
    "[link](https://evil.example)",
    "![image](img_key)",
    "```\n<at id=all></at>\n```",
    "``` ~~~ ````",
    ":OK: **bold** # head | a | b |\n|---|---|",
    "<font color=red>x</font><hr><br/>",
    "</at><raw></raw><link url='x'>",
    "\u202e\u200b\x00\x1b[0m\ud800",
    "{braces} {0} %s $x",
)
TEXTS = st.lists(
    st.one_of(st.sampled_from(HOSTILE), st.text(st.characters(exclude_categories=()))),
    max_size=4,
).map("".join)


def size(message: dict[str, Any]) -> int:
    """Bytes on the wire, with the longest signature there is."""
    signed = {"timestamp": "1700000000", "sign": "x" * 44, **message}
    text = json.dumps(signed, ensure_ascii=False, separators=(",", ":"))
    return len(text.encode())


def markdown(card: dict[str, Any]) -> list[str]:
    """Every text that Feishu would parse."""
    return [
        one["content"]
        for one in every_element(card)
        if one["tag"] in ("markdown", "lark_md")
    ]


def assert_inert(card: dict[str, Any]) -> None:
    """Parsed texts are fences with one beginning, one end and no known tag."""
    for content in markdown(card):
        first, _, rest = content.partition("\n")
        inside, _, last = rest.rpartition("\n")
        assert re.fullmatch(r"```[a-z]*", first)
        assert last == "```"
        assert "```" not in inside
        assert not re.search(r"<\s*/?\s*(at|person|a|font|link|raw)\b", inside, re.I)


@pytest.fixture(autouse=True, scope="module")
def log_file(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    path = str(tmp_path_factory.mktemp("log") / "log")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(logging._LOG, "path", path)
        yield path


@every_row("language", LANGUAGES)
@every_row("tool_name", CALLS)
def test_card_of_every_tool_passes_the_strict_fake(
    tool_name: str, language: str
) -> None:
    ask = make_ask(tool_name, CALLS[tool_name], language)
    check_card(build_permission_card(ask, url, "ou_abc"))
    check_card(build_permission_card(ask))
    check_card(build_permission_card(ask, url, detail=False))


def test_card_says_everything_the_seed_asks_for() -> None:
    """Seed: 卡片消息内容完整"""
    request = make_ask("Bash", {"command": "npm run build", "description": "Build it"})
    card = build_permission_card(request, url)
    text = "\n".join(every_text(card))
    assert card["header"]["title"]["content"] == "Claude Code 权限请求"
    for said in (
        "运行命令：Build it · my-project",
        "项目：/home/me/my-project",
        "分支：feature/x",
        "工具：Bash",
        "会话：01234567",
        f"请求：{ID}",
        "npm run build",
        "请在 55 秒内操作",
    ):
        assert said in text
    assert re.search(r"时间：20\d\d-\d\d-\d\d \d\d:\d\d:\d\d", text)
    assert text.count("Build it") == text.count("工具") == 1  # neither is repeated


def test_strongest_colour_is_not_on_what_ends_the_turn() -> None:
    assert STYLES == {YES: "primary_filled"}


def test_option_is_never_broken_inside_its_dashes() -> None:
    """A line may end between two dashes, unless something joins them."""
    request = make_ask("Bash", {"command": "x", "description": "uses --mode fast"})
    said = "\n".join(every_text(build_permission_card(request, url)))
    assert "--mode" not in said and "-\u2060-mode" in said


@every_row(
    ("base", "opens"), [("https://perm.example", True), ("http://localhost:1", False)]
)
def test_inbox_is_one_tap_away_where_a_phone_can_open_it(
    base: str, opens: bool
) -> None:
    card = build_permission_card(
        make_ask("Bash"), lambda path, id: f"{base}{path}?id={id}"
    )
    labels = [e["text"]["content"] for e in every_element(card) if e["tag"] == "button"]
    assert ("收件箱" in labels) is opens
    assert (f'"{base}/"' in json.dumps(card)) is opens
    assert "ticket" not in json.dumps(card)  # everybody in the group would have it


def test_title_card_says_nothing_of_the_call() -> None:
    request = make_ask("Bash", {"command": "cat /etc/secret-path", "description": "d"})
    request = request.bare("not told")
    for message in permission_messages(request, url):
        said = json.dumps(message(), ensure_ascii=False)
        for word in ("secret-path", "my-project", "feature/x", "Bash", "/allow", "npm"):
            assert word not in said, word
    card = permission_messages(request, url)[0]()["card"]
    check_card(card)
    labels = [e["text"]["content"] for e in every_element(card) if e["tag"] == "button"]
    refusing = [text("zh", a.label) for a in buttons() if a.name in refusals()]
    assert labels == ["查看", *refusing]
    assert text("zh", NO_CONTENT) in json.dumps(card, ensure_ascii=False)
    near = build_permission_card(request, lambda path, id: f"http://localhost{path}")
    assert "not told" in json.dumps(near)  # a phone opens no such page
    [bare] = [m()["card"] for m in permission_messages(request)[:1]]
    assert every_url(bare) == []


@every_row("row", ACTIONS)
def test_card_has_the_button(row: Action) -> None:
    """Seed: 卡片包含批准按钮; 始终允许按钮; 拒绝按钮; 拒绝并中断按钮"""
    card = build_permission_card(make_ask("Bash"), url)
    [button] = [
        element
        for element in every_element(card)
        if element["tag"] == "button"
        and element["text"]["content"] == text("zh", row.label)
    ]
    [behavior] = button["behaviors"]
    assert behavior["type"] == "open_url"
    assert behavior["default_url"] == f"{URL}{row.path}?id={ID}"
    assert button["type"] == STYLES.get(row.look, "default")


def test_four_buttons_stand_in_two_rows() -> None:
    """Left lets it happen, right refuses: no thumb slips from one to the other."""
    card = build_permission_card(make_ask("Bash", CALLS["Bash"]), url)
    (shown,) = [e for e in card["body"]["elements"] if e["tag"] == "column_set"]
    groups = [
        [button["text"]["content"] for button in column["elements"]]
        for column in shown["columns"]
    ]
    assert groups == [["批准运行", "始终允许"], ["拒绝运行", "拒绝并中断"]]


def test_card_without_buttons_is_the_same_template() -> None:
    """Seed: 交互式和降级模式复用相同的卡片模板 (飞书卡片函数库); 服务不可用时降级"""
    request = make_ask("Bash", CALLS["Bash"])
    full = build_permission_card(request, url)
    bare = build_permission_card(request)
    assert every_url(bare) == []
    assert bare["header"] == full["header"]
    first, *_ = bare["body"]["elements"]
    assert full["body"]["elements"][0] == first
    assert "请在终端操作" in every_text(bare)
    assert not any("秒内操作" in text for text in every_text(bare))


def test_card_in_english_has_no_chinese() -> None:
    card = build_permission_card(make_ask("Bash", language="en"), url)
    assert not re.search("[\u4e00-\u9fff]", json.dumps(card, ensure_ascii=False))


def test_subagent_is_named() -> None:
    card = build_permission_card(make_ask("Bash", {"command": "ls"}, agent="Explore"))
    assert "子代理：Explore" in "\n".join(every_text(card))


def test_preview_and_header_never_carry_the_command() -> None:
    card = build_permission_card(make_ask("Bash", {"command": "curl -u me:SECRET x"}))
    assert "SECRET" not in json.dumps([card["config"], card["header"]])
    assert card["config"]["summary"]["content"] == "Claude Code 权限请求 · Bash"
    assert card["config"]["enable_forward"] is False


@every_row(
    ("at", "content"),
    [
        ("all", "<at id=all></at>"),
        ("ou_a1B2", "<at id=ou_a1B2></at>"),
        ("", None),
        ("all></at><at id=ou_x", None),
        ("ou_x\n", None),
        ("a b", None),
    ],
)
def test_owner_is_mentioned_by_setting_only(at: str, content: str | None) -> None:
    card = build_permission_card(make_ask("Read", {"file_path": "/x"}), at=at)
    assert markdown(card) == ([content] if content else [])


@every_row("text", HOSTILE)
@every_row(
    ("tool_name", "keys"),
    [
        ("Bash", ("command", "description")),
        ("Write", ("file_path", "content")),
        ("Edit", ("file_path", "new_string", "old_string")),
        ("ExitPlanMode", ("plan",)),
        ("mcp__a__b", ("x",)),
    ],
)
def test_hostile_text_stays_text(
    tool_name: str, keys: tuple[str, ...], text: str
) -> None:
    tool_input = {key: f"{key} {text}" for key in keys}
    card = build_permission_card(make_ask(tool_name, tool_input), url)
    check_card(card)
    assert_inert(card)


@settings(max_examples=examples(150), deadline=None)
@given(
    st.sampled_from(list(CALLS)),
    st.sampled_from(LANGUAGES),
    st.dictionaries(
        st.sampled_from(["command", "file_path", "content", "plan", "old_string", "zz"])
        | st.text(max_size=5),
        TEXTS
        | st.integers(1, 9000).map(lambda count: '<at id=all>\u4e2d"\\\n' * count),
        max_size=4,
    ),
    TEXTS,
)
def test_any_request_makes_a_card_that_is_taken(
    tool_name: str, language: str, extra: dict[str, str], name: str
) -> None:
    request = make_ask(
        tool_name,
        {**CALLS[tool_name], **extra},
        language,
        project="/" + name,
        branch=name,
        session=name,
        agent=name,
    )
    card = build_permission_card(request, url)
    check_card(card)
    assert_inert(card)
    assert size(card_message(card)) <= 20_000
    message = build_text_message(request)
    assert "<" not in message["content"]["text"]
    assert "://" not in message["content"]["text"]
    assert size(message) <= 20_000


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(sorted(NOTICES)), st.sampled_from(LANGUAGES), TEXTS, TEXTS)
def test_any_notice_makes_a_card_that_is_taken(
    kind: str, language: str, text: str, name: str
) -> None:
    notice = Notice(kind, 1.0, name, name, name, text * 50, 75.0)
    card = build_notice_card(notice, language)
    check_card(card)
    assert_inert(card)
    assert size(card_message(card)) <= 20_000


def test_long_command_keeps_both_ends_and_says_what_is_missing() -> None:
    command = "echo start; " + "x" * 100_000 + "; rm -rf /"
    card = build_permission_card(make_ask("Bash", {"command": command}), url)
    [content] = markdown(card)
    assert content.startswith("```bash\necho start; ")
    assert content.endswith("; rm -rf /\n```")
    left_out = int(re.search(r"此处省略 (\d+) 个字符", content).group(1))  # type: ignore[union-attr]
    assert content.count("x") + left_out == 100_000
    assert any("只保留首尾" in text for text in every_text(card))
    assert MORE in every_url(card)
    assert 19_900 < size(card_message(card)) <= 20_000


def test_short_parts_stay_whole_beside_a_long_one() -> None:
    request = make_ask(
        "Bash", {"command": "x" * 50_000, "description": "What it is for"}
    )
    texts = every_text(build_permission_card(request))
    assert "运行命令：What it is for · my-project" in texts


def test_many_parts_show_the_first_and_the_last() -> None:
    edits = [{"old_string": f"old{n}.", "new_string": f"new{n}."} for n in range(500)]
    card = build_permission_card(make_ask("MultiEdit", {"edits": edits}), url)
    check_card(card)
    text = "\n".join(every_text(card))
    assert "+new0." in text
    assert "+new499." in text
    assert "+new250." not in text
    assert "另有 470 项未显示" in text


@every_row("language", LANGUAGES)
@every_row("kind", NOTICES)
def test_notice_card_of_every_kind_passes_the_strict_fake(
    kind: str, language: str
) -> None:
    notice = Notice(kind, 1.0, "/home/me/proj", "main", "0123456789", "All done.", 3725)
    card = build_notice_card(notice, language, "all")
    check_card(card)
    text = "\n".join(every_text(card))
    assert "Claude Code" in card["header"]["title"]["content"]
    assert "proj" in text
    assert "01234567" in text
    assert "All done." in text
    assert "1:02:05" in text


def test_unreadable_request_makes_a_card_that_says_so() -> None:
    """Seed: JSON 解析失败降级处理"""
    card = build_notice_card(Notice("unreadable", 1.0), "zh")
    check_card(card)
    assert card["header"]["title"]["content"] == "Claude Code 权限请求"
    assert "收到一个权限请求，但无法解析详情，请在终端查看" in every_text(card)


def test_text_message_tells_the_same_and_holds_no_address() -> None:
    request = make_ask(
        "Bash", {"command": "curl http://x/y && echo '<at user_id=\"all\">'"}
    )
    text = build_text_message(request)["content"]["text"]
    for said in ("Claude Code 权限请求", "my-project", "feature/x", "Bash", ID, "curl"):
        assert said in text
    assert "://" not in text
    assert "<" not in text


def test_signature_is_the_documented_one() -> None:
    assert sign("1599360473", "demo") == "l1N0gAcBjdwBvGm1xMjOF0XSyaLRpR7tuO5dHfhAYc8="


def body(code: int, msg: str = "x", **extra: object) -> bytes:
    return json.dumps({"code": code, "msg": msg, **extra}).encode()


@every_row(
    ("reply", "ok", "code", "retry", "fallback"),
    [
        (Reply(200, {}, body(0)), True, 0, False, False),
        (Reply(200, {}, b'{"StatusCode":0,"StatusMessage":"success"}'), True, 0, 0, 0),
        (Reply(200, {}, b'{"StatusCode":19001,"code":0}'), True, 0, False, False),
        (Reply(200, {}, b'{"StatusCode":0,"code":19001}'), False, 19001, False, False),
        (Reply(200, {}, b"{}"), False, -1, False, False),
        (Reply(200, {}, b'{"code":"0"}'), False, -1, False, False),
        (Reply(200, {}, b'{"code":false}'), False, -1, False, False),
        (Reply(200, {}, b"<html>portal</html>"), False, -1, False, False),
        (Reply(302, {}, body(0)), False, 0, False, False),
        (Reply(404, {}, b"404 page not found"), False, -1, False, False),
        (Reply(500, {}, b"oops"), False, -1, True, False),
        (Reply(502, {}, body(0)), False, 0, True, False),
        (Reply(429, {}, b""), False, -1, True, False),
        (Reply(400, {}, body(99991400)), False, 99991400, True, False),
        (Reply(200, {}, body(11232)), False, 11232, True, False),
        (Reply(200, {}, body(11246)), False, 11246, False, True),
        (Reply(200, {}, body(77777)), False, 77777, False, True),
        (Reply(200, {}, body(19024)), False, 19024, False, False),
        (Reply(200, {}, body(19001, "11232 11246")), False, 19001, False, False),
    ],
)
def test_answer_is_judged_by_its_code(
    reply: Reply, ok: bool, code: int, retry: bool, fallback: bool
) -> None:
    result = judge(reply)
    assert result[:2] == (ok, code)
    assert (result.retry, result.fallback) == (bool(retry), bool(fallback))
    assert bool(result.message) != ok


RETRYABLE = {11232, 11233, 11247, 99991400, 2200}
FINAL = {19001, 19007, 19021, 19022, 19024, 11231, 11237, 11242, 11249}


@every_row("code", sorted(CODES))
def test_code_is_retried_simplified_or_final(code: int) -> None:
    verdict, advice = CODES[code]
    assert (verdict == RETRY) == (code in RETRYABLE)
    assert (verdict not in (RETRY, SIMPLER)) == (code in FINAL)
    assert judge(Reply(200, {}, body(code))).message == f"{code}: {advice}"


@every_row(
    ("headers", "seconds"),
    [
        ({"x-ogw-ratelimit-reset": "2"}, 2.0),
        ({"retry-after": "7"}, 7.0),
        ({"x-ogw-ratelimit-reset": "99999"}, 60.0),
        ({"x-ogw-ratelimit-reset": "-1"}, 0.0),
        ({"x-ogw-ratelimit-reset": "²"}, 0.0),
        ({}, 0.0),
    ],
)
def test_wait_that_feishu_asks_for_is_kept(
    headers: dict[str, str], seconds: float
) -> None:
    assert judge(Reply(429, headers, body(99991400))).retry_after == seconds


class Posts:
    """A list of answers instead of a network."""

    def __init__(self, *replies: Reply | OSError) -> None:
        self.replies = list(replies)
        self.bodies: list[dict[str, Any]] = []

    def __call__(self, url: str, body: bytes) -> Reply:
        self.bodies.append(json.loads(body))
        reply = self.replies.pop(0)
        if isinstance(reply, OSError):
            raise reply
        return reply


def test_card_is_sent_signed() -> None:
    posts = Posts(OK)
    result = send_feishu_card(
        URL, {"schema": "2.0"}, "demo", posts, lambda: 1599360473.9
    )
    assert result == SendResult(True, 0, "")
    assert posts.bodies == [
        {
            "timestamp": "1599360473",
            "sign": "l1N0gAcBjdwBvGm1xMjOF0XSyaLRpR7tuO5dHfhAYc8=",
            "msg_type": "interactive",
            "card": {"schema": "2.0"},
        }
    ]


def test_card_is_not_signed_without_a_secret() -> None:
    posts = Posts(OK)
    send_feishu_card(URL, {}, post=posts)
    assert posts.bodies == [{"msg_type": "interactive", "card": {}}]


def test_refused_signature_is_made_anew_once() -> None:
    clock = iter((1.0, 4000.0))
    posts = Posts(Reply(200, {}, body(19021)), OK)
    assert send_feishu_card(URL, {}, "s", posts, lambda: next(clock)).ok
    assert [sent["timestamp"] for sent in posts.bodies] == ["1", "4000"]
    posts = Posts(Reply(200, {}, body(19021)), Reply(200, {}, body(19021)))
    assert not send_feishu_card(URL, {}, "s", posts).ok
    assert len(posts.bodies) == 2
    posts = Posts(Reply(200, {}, body(19021)))
    assert not send_feishu_card(URL, {}, "", posts).ok


def test_failure_is_logged_and_returned_without_secrets(log_file: str) -> None:
    """Seed: Webhook 请求失败静默处理"""
    with FakeFeishu(secret="right", limits=False) as feishu:
        refused = send_feishu_card(feishu.webhook_url, {}, "wrong-secret", post_json)
        feishu.faults.append(Fault(close=True))
        broken = send_feishu_card(feishu.webhook_url, {}, "wrong-secret", post_json)
    away = send_feishu_card(feishu.webhook_url, {}, "wrong-secret", post_json)
    assert [refused.ok, broken.ok, away.ok] == [False, False, False]
    assert (broken.retry, away.retry) == (True, True)
    with open(log_file, encoding="utf-8") as file:
        logged = file.read()
    assert "19021" in logged
    said = logged + refused.message + broken.message + away.message
    assert TOKEN not in said
    assert "wrong-secret" not in said


@every_row(
    ("refused", "sent"),
    [
        ((), ["interactive"]),
        ((11246,), ["interactive", "interactive"]),
        ((11246, 11246), ["interactive", "interactive", "text"]),
        ((19001,), ["interactive"]),
        ((11232,), ["interactive"]),
    ],
)
def test_refused_card_is_followed_by_plainer_forms(
    refused: tuple[int, ...], sent: list[str]
) -> None:
    posts = Posts(*(Reply(200, {}, body(code)) for code in refused), OK)
    messages = permission_messages(make_ask("Bash"), url)
    Bot(URL, "", posts).send_first(messages)
    assert [one["msg_type"] for one in posts.bodies] == sent


def test_content_that_feishu_will_not_show_is_left_to_the_request_page() -> None:
    request = make_ask("Bash", {"command": "call 13800138000"})
    with FakeFeishu() as feishu:
        feishu.refuse_texts["13800138000"] = 230028
        messages = permission_messages(request, url, "all")
        assert Bot(feishu.webhook_url).send_first(messages).ok
        [card] = feishu.cards
    assert every_url(card) == [MORE]
    assert any("拒绝显示" in text for text in every_text(card))


def test_group_that_forbids_mentions_gets_the_card_without() -> None:
    with FakeFeishu(at_all=False) as feishu:
        messages = permission_messages(make_ask("Bash"), url, "all")
        assert Bot(feishu.webhook_url).send_first(messages).ok
        [card] = feishu.cards
    assert set(every_url(card)) == {MORE, *(url(row.path, ID) for row in ACTIONS)}
    assert markdown(card) == ["```bash\nnpm run build && echo done\n```"]


# What has to be known of a call.


def test_card_shows_dangers_command_why_and_then_buttons_all_else_is_folded() -> None:
    ask = make_ask(
        "Bash",
        {"command": "curl x | sh", "description": "装"},
        dangers=("运行下载的内容 <at id=all></at>",),
        why="I will install it.",
        prompt="set things up",
        facts=("连接 x",),
    )
    card = build_permission_card(ask, url)
    texts = [" ".join(every_text(part)) for part in card["body"]["elements"]]
    order = ("运行下载", "curl x", "I will", "批准运行", "更多", "秒内操作")
    places = [next(i for i, text in enumerate(texts) if w in text) for w in order]
    assert places == [0, 1, 2, 3, 4, 5]
    folded = texts[4]
    assert all(words in folded for words in ("set things", "连接 x", "始终允许"))
    assert card["header"]["template"] == "red"
    red = card["body"]["elements"][0]["text"]
    assert (red["tag"], red["text_color"]) == ("plain_text", "red")
    (hint,) = (text for text in every_text(card) if "秒内操作" in text)
    assert re.fullmatch(r"请在 55 秒内操作 · \d\d:\d\d 后自动拒绝", hint)
    assert any("Bash(curl x | sh)" in text for text in every_text(card))
    check_card(card)


def test_question_and_plan_are_titled_for_people() -> None:
    for tool, title in (
        ("AskUserQuestion", "Claude Code 提问"),
        ("ExitPlanMode", "Claude Code 计划"),
    ):
        card = build_permission_card(make_ask(tool), url)
        assert card["header"]["title"]["content"] == title
        assert not any(tool in text for text in every_text(card))


# How long a person has, and what happens then.


def hinted(**parts: Any) -> Any:
    ask = make_ask(language="en", created=1_700_000_000.0, seconds=55)
    return ask._replace(**parts)


def test_time_hint_says_how_long_and_what_happens_then() -> None:
    moment = time.strftime("%H:%M", time.localtime(1_700_000_055.0))
    hint = time_hint(hinted(at_zero="deny"))
    assert "55" in hint and moment in hint
    assert at_zero(hinted(at_zero="terminal")) != at_zero(hinted(at_zero="deny"))


def test_request_without_an_end_of_its_own_names_none() -> None:
    assert at_zero(hinted(at_zero="")) == ""
    assert time_hint(hinted(at_zero="")) == "Answer within 55 seconds"


def test_nobody_is_told_the_seconds_of_many_hours() -> None:
    long = hinted(seconds=UNCOUNTED, at_zero="terminal")
    assert str(UNCOUNTED) not in time_hint(long) and time_hint(long)
    assert str(UNCOUNTED - 1) in time_hint(hinted(seconds=UNCOUNTED - 1))
