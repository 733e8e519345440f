"""The table of kinds: every row has its texts, and its answers become decisions."""

from __future__ import annotations

from functools import partial
from typing import Any

from feishuperm.messages import Message, text
from feishuperm.models.ask import Answer
from feishuperm.models.decision import Decision
from feishuperm.models.form import Wrong
from feishuperm.models.kind import KINDS, Kind, kind_of, offers
from feishuperm.models.names import DOCTOR_TOOL, NOT_OFFERED
from feishuperm.models.request import DENIED, TRANSITIONS, WAITING
from feishuperm.models.settings import notify_kinds
from tests.tables import every_row

ROWS = list(KINDS.values())
say = partial(text, "zh")
QUESTIONS = {
    "questions": [
        {"question": "Which?", "header": "Pick", "options": [{"label": "a"}]},
        {"question": "And?", "multiSelect": True, "options": [{"label": "b"}]},
    ]
}


def reply(kind: str, action: str, tool_input: Any = None, **values: str) -> Any:
    """What an answer becomes."""
    row = KINDS[kind]
    button = row.action(action)
    assert button is not None
    answer = Answer("1-a", action, {name: (text,) for name, text in values.items()})
    return row.reply(button, tool_input or {}, answer, say)


def output(decision: Decision) -> dict[str, Any]:
    found: dict[str, Any] = decision.to_hook_output()["hookSpecificOutput"]["decision"]
    return found


@every_row("row", ROWS)
def test_every_text_of_a_row_is_a_sentence(row: Kind) -> None:
    keys = {row.title, row.heading, row.empty, row.expired}
    for action in row.actions:
        keys |= {action.label, action.done, action.submit}
        keys |= {action.message, action.message_reason}
    assert all(isinstance(key, Message) for key in keys - {""})


@every_row("row", ROWS)
def test_buttons_of_a_row_have_names_routes_and_keys_of_their_own(row: Kind) -> None:
    for column in ("name", "path"):
        values = [getattr(action, column) for action in row.actions]
        assert len(set(values)) == len(values)
    keys = [action.key for action in row.actions if action.key]
    assert len(set(keys)) == len(keys)
    assert {action.state for action in row.actions} <= TRANSITIONS[WAITING]


@every_row("row", ROWS)
def test_every_kind_can_be_refused(row: Kind) -> None:
    refusals = {action.name for action in row.actions if action.message}
    assert refusals == {a.name for a in row.actions if a.state == DENIED}
    # A turn can only be ended where a call waits.
    assert refusals >= {"deny", *(["interrupt"] if row.of_a_call else [])}


def test_these_are_all_buttons_and_what_each_decides() -> None:
    """The one list of them that is typed again; other tests read it from the table."""
    assert {
        row.name: " ".join(f"{a.name}:{a.state}" for a in row.actions) for row in ROWS
    } == {
        "permission": "allow:allowed always:allowed deny:denied interrupt:denied"
        " edit:allowed minutes:allowed session:allowed",
        "question": "answer:answered deny:denied interrupt:denied",
        "plan": "approve:answered deny:denied interrupt:denied",
        "denied": "allow:allowed deny:denied",
        "form": "answer:answered deny:denied",
        "next": "send:answered deny:denied",
    }


def test_kind_of_a_tool() -> None:
    names = ("Bash", "AskUserQuestion", "ExitPlanMode", "mcp__a__b", DOCTOR_TOOL)
    kinds = [kind_of(name).name for name in names]
    assert kinds == ["permission", "question", "plan", "permission", "permission"]


def test_allow_lets_the_tool_run() -> None:
    for action in ("allow", "always"):
        assert output(reply("permission", action)) == {"behavior": "allow"}


CALL = {"command": "rm  -rf build\n", "description": "clean", "timeout": 5}


@every_row(
    "typed", [" rm -rf ./build ", "a\nb\n", "echo '好'", "x" * 1000, "rm  -rf build"]
)
def test_edited_command_runs_letter_by_letter_beside_the_rest_of_the_call(
    typed: str,
) -> None:
    decision = reply("permission", "edit", CALL, command=typed)
    assert output(decision)["updatedInput"] == {**CALL, "command": typed}


def test_browser_s_line_ends_are_no_change() -> None:
    decision = reply("permission", "edit", CALL, command="rm  -rf build\r\n")
    assert output(decision) == {"behavior": "allow"}
    decision = reply("permission", "edit", CALL, command="a\r\nb")
    assert output(decision)["updatedInput"]["command"] == "a\nb"


@every_row(
    ("call", "typed", "error"),
    [
        (CALL, "", "The command is empty; nothing was done."),
        (CALL, " \r\n\t", "The command is empty; nothing was done."),
        (
            CALL,
            "x" * 1001,
            "The command is longer than 1000 characters; nothing was done.",
        ),
        (CALL, "ls\0rm", NOT_OFFERED),
        ({"command": "x" * 1001}, "ls", NOT_OFFERED),
        ({"command": ["ls"]}, "ls", NOT_OFFERED),
        ({}, "ls", NOT_OFFERED),
    ],
)
def test_edited_command_is_never_cut_or_guessed(
    call: Any, typed: str, error: str
) -> None:
    assert reply("permission", "edit", call, command=typed) == error


def test_edit_is_offered_for_commands_that_a_field_holds() -> None:
    row = KINDS["permission"]

    def names(tool: str, call: dict[str, Any]) -> list[str]:
        return [o.name for o in offers(row, row.fields(call, say), say, tool)]

    assert "edit" in names("Bash", CALL)
    assert "edit" not in names("mcp__shell__run", CALL)
    assert "edit" not in names("Bash", {"command": "x" * 1001})
    assert "edit" not in names("Bash", {"command": 5})


def test_typed_reason_reaches_the_model_unless_the_turn_ends() -> None:
    told = output(reply("permission", "deny", reason=" not now "))
    assert told == {"behavior": "deny", "message": "用户通过飞书拒绝：not now"}
    told = output(reply("plan", "interrupt", reason="not now"))
    assert told["message"] == "用户通过飞书拒绝并中断"
    assert told["interrupt"] is True


@every_row(
    ("action", "reason", "message"),
    [
        ("deny", "", "用户在收件箱拒绝"),
        ("deny", "不行", "用户在收件箱拒绝：不行"),
        ("interrupt", "", "用户在收件箱拒绝并中断"),
    ],
)
@every_row("kind", ["permission", "plan", "question"])
def test_refusal_in_the_inbox_does_not_speak_of_feishu(
    kind: str, action: str, reason: str, message: str
) -> None:
    row = KINDS[kind]
    button = row.action(action)
    assert button is not None
    answer = Answer("1-a", action, {"reason": (reason,)}, "inbox")
    decision = row.reply(button, {}, answer, say)
    assert isinstance(decision, Decision)
    assert output(decision)["message"] == message


def test_approved_plan_has_an_empty_updated_input() -> None:
    assert output(reply("plan", "approve"))["updatedInput"] == {}


def test_answered_question_repeats_the_questions_beside_the_answers() -> None:
    found = output(reply("question", "answer", QUESTIONS, q0="a", q1_other="c"))
    assert found["updatedInput"] == {
        **QUESTIONS,
        "answers": {"Which?": "a", "And?": "c"},
    }


def test_question_without_an_answer_is_sent_back() -> None:
    assert reply("question", "answer", QUESTIONS) == "Answer at least one question."
    assert (
        reply("question", "answer", QUESTIONS, q0="z")
        == "One choice was not offered. Please choose again."
    )


def test_fields_of_a_question_are_its_choices_ones_own_words_and_a_reason() -> None:
    fields = KINDS["question"].fields(QUESTIONS, say)
    assert [(field.name, field.type) for field in fields] == [
        ("q0", "one"),
        ("q0_other", "text"),
        ("q1", "many"),
        ("q1_other", "text"),
        ("reason", "text"),
    ]
    buttons = offers(KINDS["question"], fields, say)
    assert buttons[0].fields == ("q0", "q0_other", "q1", "q1_other")
    assert buttons[0].needs
    assert buttons[1].fields == ("reason",)


def test_only_what_lets_something_happen_grants() -> None:
    granting = [
        (row.name, offer.name)
        for row in ROWS
        for offer in offers(row, (), say)
        if offer.grants
    ]
    assert granting == [
        ("permission", "allow"),
        ("permission", "always"),
        ("permission", "minutes"),
        ("permission", "session"),
        ("question", "answer"),
        ("plan", "approve"),
        ("next", "send"),
        ("denied", "allow"),
        ("form", "answer"),
    ]


def test_text_for_a_session_that_is_done() -> None:
    sent = reply("next", "send", text=" go on\r\nand test ")
    assert sent.to_hook_output() == {"next": "go on\nand test"}
    assert reply("next", "send", text=" \n ") == "It is empty; nothing was sent."
    assert reply("next", "deny").to_stdout() == b""


FORM_INPUT = {
    "message": "Who?",
    "mode": "form",
    "requested_schema": {
        "type": "object",
        "properties": {"name": {"type": "string"}, "age": {"type": "integer"}},
        "required": ["name"],
    },
}


def test_form_is_accepted_with_its_content_or_declined() -> None:
    def said(decision: Any) -> Any:
        output = decision.to_hook_output()["hookSpecificOutput"]
        assert output.pop("hookEventName") == "Elicitation"
        return output

    filled = reply("form", "answer", FORM_INPUT, f0="Bob", f1="42")
    assert said(filled) == {"action": "accept", "content": {"name": "Bob", "age": 42}}
    assert reply("form", "answer", FORM_INPUT, f1="42") == Wrong(
        "“{field}” is missing.", "name"
    )
    assert said(reply("form", "deny", FORM_INPUT)) == {"action": "decline"}
    assert reply("form", "deny").is_denial()
    address = {"mode": "url", "url": "https://example.com"}
    assert said(reply("form", "answer", address)) == {"action": "accept"}


def test_call_that_auto_mode_refused_may_be_tried_again() -> None:
    retry = {"hookSpecificOutput": {"hookEventName": "PermissionDenied", "retry": True}}
    assert reply("denied", "allow").to_hook_output() == retry
    assert reply("denied", "deny").to_stdout() == b""
    assert reply("denied", "deny").is_denial()


def test_every_kind_has_its_word_in_the_setting_that_chooses_cards() -> None:
    assert set(KINDS) <= set(notify_kinds())
