"""Words to the bot: what they mean, and what they never mean."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from feishuperm.app import chat
from feishuperm.app.chat import Command, Reply, read_command, read_reply
from feishuperm.models.ask import Ask, Field, Offer, Option
from feishuperm.models.kind import KINDS, offers
from tests.kinds import plain_buttons
from tests.tables import every_row


def say(key: str, **values: object) -> str:
    return key


def ask(kind: str, **tool_input: object) -> Ask:
    row = KINDS[kind]
    fields = row.fields(dict(tool_input), say)
    return Ask(
        "1-00000000", kind, actions=offers(row, fields, say, "Bash"), fields=fields
    )


PERMISSION = ask("permission", command="npm test")
PLAN = ask("plan", plan="do it")


def question(multiple: bool = False, count: int = 1) -> Ask:
    asked = {
        "question": "Which color?",
        "options": [{"label": "Red"}, {"label": "Blue sky"}, {"label": "3"}],
        "multiSelect": multiple,
    }
    return ask(
        "question", questions=[{**asked, "question": f"q{n}"} for n in range(count)]
    )


@every_row(
    ("text", "action"),
    [
        ("1", "allow"),
        ("2", "always"),
        ("3", "deny"),
        ("4", "interrupt"),
        ("批准", "allow"),
        (" Allow ", "allow"),
        ("@_user_1 批准", "allow"),
        ("始终", "always"),
        ("拒绝", "deny"),
        ("DENY", "deny"),
        ("中断", "interrupt"),
    ],
)
def test_word_below_a_card_is_its_button(text: str, action: str) -> None:
    reply = read_reply(text, PERMISSION)
    assert reply == Reply(action, {})


def test_numbers_are_those_of_the_plain_buttons_whatever_else_there_is() -> None:
    assert PERMISSION.offer("edit") is not None
    numbered: list[str | None] = [action.name for action in plain_buttons()]
    assert numbered[:4] == ["allow", "always", "deny", "interrupt"]
    replies = [read_reply(str(at + 1), PERMISSION) for at in range(len(numbered) + 1)]
    assert [reply and reply.action for reply in replies] == [*numbered, None]
    assert read_reply("edit", PERMISSION) is None


def test_rest_of_a_refusal_is_its_reason() -> None:
    assert read_reply("拒绝 先跑 测试", PERMISSION) == Reply(
        "deny", {"reason": ("先跑 测试",)}
    )
    assert read_reply("deny: not now", PERMISSION) == Reply(
        "deny", {"reason": ("not now",)}
    )


@every_row(
    "text",
    [
        "",
        "9",
        "0",
        "12",
        "-1",
        "批准 但是小心",
        "allow it later",
        "hello",
        "批准吗",
        "１",
    ],
)
def test_anything_else_below_a_permission_is_nothing(text: str) -> None:
    assert read_reply(text, PERMISSION) is None


def test_words_about_a_plan_send_it_back() -> None:
    assert read_reply("批准", PLAN) == Reply("approve", {})
    assert read_reply("改用 pytest", PLAN) == Reply(
        "deny", {"reason": ("改用 pytest",)}
    )
    assert read_reply("1", PLAN) == Reply("approve", {})


@every_row(
    ("text", "values"),
    [
        ("1", {"q0": ("Red",)}),
        ("blue SKY", {"q0": ("Blue sky",)}),
        ("3", {"q0": ("3",)}),
        ("green, please", {"q0_other": ("green, please",)}),
        ("9", {"q0_other": ("9",)}),
    ],
)
def test_text_below_a_question_is_a_choice_or_own_words(
    text: str, values: dict[str, tuple[str, ...]]
) -> None:
    assert read_reply(text, question()) == Reply("answer", values)


def test_several_choices_are_named_one_after_the_other() -> None:
    assert read_reply("1，3", question(True)) == Reply("answer", {"q0": ("Red", "3")})
    assert read_reply("1 green", question(True)) == Reply(
        "answer", {"q0_other": ("1 green",)}
    )


def test_refusing_to_answer_is_possible_in_words() -> None:
    assert read_reply("拒绝", question()) == Reply("deny", {})


def test_text_for_several_questions_answers_none() -> None:
    assert read_reply("1", question(count=2)) is None


@every_row(
    ("text", "command"),
    [
        ("状态", Command("status")),
        ("Status", Command("status")),
        ("静音", Command("mute", 3600)),
        ("mute 1h", Command("mute", 3600)),
        ("静音 30分钟", Command("mute", 1800)),
        ("mute 15", Command("mute", 900)),
        ("mute 999d", Command("mute", 7 * 86400)),
        ("恢复", Command("on")),
        ("？", Command("help")),
        ("mute later", None),
        ("status please", None),
        ("批准", None),
    ],
)
def test_command_on_its_own(text: str, command: Command | None) -> None:
    assert read_command(text) == command


@given(st.text(max_size=200))
def test_any_text_is_read_without_harm(text: str) -> None:
    for shown in (PERMISSION, PLAN, question(), question(True)):
        reply = read_reply(text, shown)
        assert reply is None or shown.offer(reply.action) is not None
    read_command(text)
    assert chat.read_span(text) >= 0


def test_button_that_grants_is_never_reached_by_a_longer_sentence() -> None:
    offer = Offer("go", "Go", look="yes", grants=True)
    shown = Ask(
        "1-00000000", actions=(offer,), fields=(Field("x", options=(Option(),)),)
    )
    assert read_reply("ok", shown) == Reply("go", {})
    assert read_reply("ok but wait", shown) is None


@every_row(
    ("text", "reply"),
    [
        ("继续，跑测试", Reply("send", {"text": ("继续，跑测试",)})),
        ("1", Reply("send", {"text": ("1",)})),
        ("批准", Reply("send", {"text": ("批准",)})),
        ("拒绝", Reply("deny", {})),
    ],
)
def test_words_to_a_session_that_is_done_are_what_it_gets(
    text: str, reply: Reply
) -> None:
    assert read_reply(text, ask("next")) == reply


def test_refused_call_is_let_through_by_a_word() -> None:
    assert read_reply("批准", ask("denied")) == Reply("allow", {})
    assert read_reply("2", ask("denied")) == Reply("deny", {})
