"""What can wait for a person: one row of `KINDS` per kind, and nowhere else.

A row says which events make it, what it is called, which buttons it has, what may be
filled in, what each answer becomes for the client, and what the model is told when the
time is over.  Cards, pages, the inbox and whatever comes later draw what the row says,
so a new kind or a new button is a row here and its texts in `lib.text`.

Texts are keys; `say` turns one into the person's language.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from feishuperm.models.ask import (
    FOREVER,
    NO,
    STOP,
    TEXT_LIMIT,
    WHILE,
    YES,
    Answer,
    Field,
    Offer,
    Option,
)
from feishuperm.models.decision import Decision
from feishuperm.models.form import (
    SCHEMA,
    Wrong,
    form_fields,
    is_address,
    parse_content,
)
from feishuperm.models.names import PLAN_TOOL, QUESTION_TOOL
from feishuperm.models.question import parse_answers, read_questions
from feishuperm.models.request import ALLOWED, ANSWERED, DENIED

Say = Callable[..., str]
ToolInput = dict[str, Any]
REASON, COMMAND, TEXT = "reason", "command", "text"
NEXT_SECONDS = 12 * 3600  # a session that is done waits over a night


class Action(NamedTuple):
    """A button: its texts, its looks and what it decides."""

    name: str  # in ledger, log and JSON
    path: str  # its route
    label: str  # key: on the button
    done: str  # key: once it is done
    look: str
    state: str  # of the request afterwards
    key: str = ""  # on a keyboard
    # Key of what the model is told, in kinds that tell it anything; empty: it lets
    # something happen.
    message: str = ""
    message_reason: str = ""  # the same, when a reason was typed
    interrupts: bool = False
    writes_rule: bool = False
    once: str = ""  # key: once it is done, if no rule and no change came of it
    reads: tuple[str, ...] = ()  # fields it takes along; ("*",): all of them
    needs: bool = False  # means nothing without its fields
    submit: str = ""  # key: on the button beside its fields, if it says more there
    words: bool = False  # a text that names no button is meant for it
    tools: frozenset[str] = frozenset()  # whose calls have it; empty: all
    reprieves: bool = False  # lets the refused call run when it comes again, once
    passes: int = 0  # seconds for which the same goes through without asking
    prompts: bool = False  # has the session do something new

    @property
    def lasts(self) -> bool:
        """Whether it reaches further than the one call that is asked about."""
        return self.writes_rule or self.passes > 0 or self.prompts

    @property
    def edits(self) -> bool:
        """Whether the person writes what runs."""
        return COMMAND in self.reads

    def ran(self, decision: Decision) -> str:
        """The command that runs instead of what was asked; empty: none does."""
        changed = decision.updated_input if self.edits else None
        return str(changed[COMMAND]) if changed else ""

    def reason(self, answer: Answer) -> str:
        """What the person typed, if this button takes it along."""
        typed = (name for name in (REASON, TEXT) if name in self.reads)
        return answer.value(next(typed, ""))


class Kind(NamedTuple):
    """A row: see the top of this file."""

    name: str
    tools: frozenset[str]  # whose requests are of this kind; empty: all others
    title: str  # key: of its card
    heading: str  # key: of its page
    empty: str  # key: where a call has nothing to show
    actions: tuple[Action, ...]
    fields: Callable[[ToolInput, Say], tuple[Field, ...]]
    # What an answer becomes, or the text key of what is wrong with it.
    reply: Callable[[Action, ToolInput, Answer, Say], Decision | str | Wrong]
    expired: str = "message.expired"  # key: what the model is told; empty: nothing
    event: str = "PermissionRequest"
    noun: str = ""  # key: what people call it; empty: by the name of its tool
    at_zero: str = ""  # what happens then, if not what the settings say
    lapsed: str = "ended.expired_terminal"  # key: once that has happened
    holds_desk: bool = False  # the terminal can do nothing while it waits
    seconds: int = 0  # a person has, if not as many as the settings say
    note: str = ""  # key: a sentence below what it is about
    alone: bool = False  # of those of one session only the newest waits
    typed_seconds: int = 0  # so long after a prompt somebody is at the desk
    content: str = ""  # what of the input must be there for anybody to grant it

    def may_grant(self, tool_input: ToolInput) -> bool:
        """Whether there is anything to grant: nobody approves a plan without text."""
        return not self.content or bool(str(tool_input.get(self.content) or "").strip())

    @property
    def of_a_call(self) -> bool:
        """Whether it is over as soon as a call is: the terminal asks the same."""
        return self.event == "PermissionRequest"

    def action(self, name: str) -> Action | None:
        return next((row for row in self.actions if row.name == name), None)

    def by_path(self, path: str) -> Action | None:
        return next((row for row in self.actions if row.path == path), None)


# The refusals every kind has.

DENY = Action(
    "deny", "/deny", "button.deny", "done.deny", NO, DENIED, "d",
    "message.deny", "message.deny_reason", reads=(REASON,),
)  # fmt: skip
INTERRUPT = Action(
    "interrupt", "/interrupt", "button.interrupt", "done.interrupt", STOP, DENIED, "i",
    "message.interrupt", interrupts=True,
)  # fmt: skip


# The model is told where somebody refused.
IN_THE_INBOX = {
    "message.deny": "message.deny_inbox",
    "message.deny_reason": "message.deny_reason_inbox",
    "message.interrupt": "message.interrupt_inbox",
}


def _reason(tool_input: ToolInput, say: Say) -> tuple[Field, ...]:
    return (Field(REASON, label=say("page.reason"), hint=say("page.reason_hint")),)


def _refusal(action: Action, answer: Answer, say: Say) -> Decision:
    reason = action.reason(answer) if action.message_reason else ""
    key = action.message_reason if reason else action.message
    if answer.surface == "inbox":
        key = IN_THE_INBOX.get(key, key)
    return Decision.deny(say(key, reason=reason), action.interrupts)


def _permission(
    action: Action, tool_input: ToolInput, answer: Answer, say: Say
) -> Decision | str:
    if action.message:
        return _refusal(action, answer, say)
    if action.edits:
        return _edited(tool_input, answer.values.get(COMMAND, ()))
    return Decision.allow()


def _edited(tool_input: ToolInput, values: tuple[str, ...]) -> Decision | str:
    """What runs is what was typed, letter by letter."""
    if not is_editable(tool_input):
        return "answer.not_offered"
    # A form of a browser ends its lines in another way.
    typed = "".join(values).replace("\r\n", "\n")
    if not typed.strip():
        return "answer.empty"
    if len(typed) > TEXT_LIMIT:
        return "answer.long"
    if "\0" in typed:  # no command holds one, and nobody sees it
        return "answer.not_offered"
    if typed == tool_input[COMMAND]:
        return Decision.allow()
    return Decision.allow(updated_input={**tool_input, COMMAND: typed})


def is_editable(tool_input: ToolInput) -> bool:
    """Whether a field can hold the command, and all of it."""
    command = tool_input.get(COMMAND)
    return isinstance(command, str) and 0 < len(command) <= TEXT_LIMIT


def _permission_fields(tool_input: ToolInput, say: Say) -> tuple[Field, ...]:
    reason = _reason(tool_input, say)
    if not is_editable(tool_input):
        return reason
    command = tool_input[COMMAND]
    return (*reason, Field(COMMAND, "lines", say("field.edited"), value=command))


def _plan(
    action: Action, tool_input: ToolInput, answer: Answer, say: Say
) -> Decision | str:
    if action.message:
        return _refusal(action, answer, say)
    # An empty updatedInput is what makes the client leave plan mode.
    return Decision.allow(updated_input={})


def _question(
    action: Action, tool_input: ToolInput, answer: Answer, say: Say
) -> Decision | str:
    if action.message:
        return _refusal(action, answer, say)
    answers = parse_answers(tool_input.get("questions"), answer.values)
    if isinstance(answers, str):
        return answers
    # The client wants the questions repeated in full beside the answers.
    return Decision.allow(updated_input={**tool_input, "answers": answers})


def _denied(
    action: Action, tool_input: ToolInput, answer: Answer, say: Say
) -> Decision | str:
    if action.message:
        return Decision.other({}, denies=True)
    return Decision.other(
        {"hookSpecificOutput": {"hookEventName": "PermissionDenied", "retry": True}}
    )


def _next(
    action: Action, tool_input: ToolInput, answer: Answer, say: Say
) -> Decision | str:
    """The hook prints none of it: it wakes the session with the text."""
    if action.message:
        return Decision.other({}, denies=True)
    typed = answer.value(TEXT).replace("\r\n", "\n")
    return Decision.other({"next": typed}) if typed else "answer.nothing"


def _next_fields(tool_input: ToolInput, say: Say) -> tuple[Field, ...]:
    return (Field(TEXT, "lines", say("page.next_text"), say("page.next_hint")),)


def _form(
    action: Action, tool_input: ToolInput, answer: Answer, say: Say
) -> Decision | str | Wrong:
    said: dict[str, Any] = {"hookEventName": "Elicitation", "action": "decline"}
    if not action.message:
        said["action"] = "accept"
        if not is_address(tool_input):
            content = parse_content(tool_input.get(SCHEMA), answer.values, say)
            if isinstance(content, Wrong):
                return content
            said["content"] = content
    return Decision.other({"hookSpecificOutput": said}, denies=bool(action.message))


def _no_fields(tool_input: ToolInput, say: Say) -> tuple[Field, ...]:
    return ()


def _question_fields(tool_input: ToolInput, say: Say) -> tuple[Field, ...]:
    fields: list[Field] = []
    for number, question in enumerate(read_questions(tool_input.get("questions"))):
        many = question.multiple
        hint = "page.answer_other_multi" if many else "page.answer_other_single"
        fields += (
            Field(
                f"q{number}",
                "many" if many else "one",
                question.text,
                heading=question.header,
                options=tuple(Option(*option) for option in question.options),
            ),
            Field(
                f"q{number}_other",
                label=say("page.answer_other"),
                hint=say(hint) if question.options else "",
            ),
        )
    return (*fields, *_reason(tool_input, say))


_ROWS = (
    Kind(
        "permission", frozenset(), "card.title", "page.request", "page.nothing",
        (
            Action("allow", "/allow", "button.allow", "done.allow", YES, ALLOWED, "a"),
            Action("always", "/always", "button.always", "done.always", FOREVER,
                   ALLOWED, "w", writes_rule=True, once="done.allow"),
            DENY,
            INTERRUPT,
            Action("edit", "/edit", "button.edit", "done.edit", YES, ALLOWED,
                   once="done.allow", reads=(COMMAND,), needs=True,
                   tools=frozenset(("Bash",))),
            Action("minutes", "/minutes", "button.minutes", "done.minutes", WHILE,
                   ALLOWED, passes=600),
            Action("session", "/session", "button.session", "done.session", WHILE,
                   ALLOWED, passes=24 * 3600),
        ),
        _permission_fields, _permission,
    ),
    Kind(
        "question", frozenset((QUESTION_TOOL,)),
        "card.title_question", "card.title_question", "page.nothing",
        (
            Action("answer", "/answer", "button.answer", "done.answer", YES, ANSWERED,
                   reads=("*",), needs=True, submit="button.submit", words=True),
            DENY._replace(label="button.decline", done="done.deny_question"),
            INTERRUPT,
        ),
        _question_fields, _question, noun="kind.question",
    ),
    Kind(
        "plan", frozenset((PLAN_TOOL,)),
        "card.title_plan", "card.title_plan", "page.plan_empty",
        (
            Action("approve", "/allow", "button.approve", "done.approve", YES, ANSWERED,
                   "a"),
            DENY._replace(label="button.reject", done="done.deny_plan", words=True),
            INTERRUPT,
        ),
        _reason, _plan, noun="kind.plan", content="plan",
    ),
    Kind(
        "denied", frozenset(), "card.title_denied", "card.title_denied", "page.nothing",
        (
            Action("allow", "/allow", "button.once", "done.once", YES, ALLOWED, "a",
                   reprieves=True),
            DENY._replace(label="button.stand", done="done.stand",
                          message="done.stand", message_reason="", reads=()),
        ),
        _no_fields, _denied, expired="", event="PermissionDenied",
        at_zero="stands", lapsed="ended.expired_stands", holds_desk=True,
    ),
    Kind(
        "form", frozenset(), "card.title_form", "card.title_form", "page.nothing",
        (
            Action("answer", "/answer", "button.submit", "done.submit", YES, ANSWERED,
                   reads=("*",), needs=True, words=True),
            DENY._replace(label="button.refuse", done="done.refuse",
                          message="done.refuse", message_reason="", reads=()),
        ),
        form_fields, _form, expired="", event="Elicitation", noun="kind.form",
        holds_desk=True, typed_seconds=6,
    ),
    Kind(
        "next", frozenset(), "card.title_next", "card.title_next", "page.next_empty",
        (
            Action("send", "/answer", "button.send", "done.send", YES, ANSWERED,
                   reads=(TEXT,), needs=True, words=True, prompts=True),
            DENY._replace(label="button.end", done="done.end",
                          message="done.end", message_reason="", reads=()),
        ),
        _next_fields, _next, expired="", event="Notification", noun="kind.next",
        seconds=NEXT_SECONDS, note="page.next_note", alone=True,
    ),
)  # fmt: skip

KINDS = {row.name: row for row in _ROWS}


def kind_of(tool_name: str, event: str = "PermissionRequest") -> Kind:
    """The row of a request."""
    rows = [row for row in KINDS.values() if row.event == event]
    own = (row for row in rows if tool_name in row.tools)
    return next(own, None) or next(row for row in rows if not row.tools)


def offers(
    kind: Kind, fields: tuple[Field, ...], say: Say, tool: str = "", grants: bool = True
) -> tuple[Offer, ...]:
    """The buttons of a row, as they are offered for a call of this tool.

    Without `grants` only those that refuse.
    """
    names = tuple(field.name for field in fields)
    return tuple(
        Offer(
            row.name,
            say(row.label),
            say(row.submit or row.label),
            row.look,
            row.key,
            tuple(name for name in names if name != REASON)
            if row.reads == ("*",)
            else tuple(name for name in row.reads if name in names),
            row.needs,
            grants=not row.message,
            words=row.words,
        )
        for row in kind.actions
        if not row.tools or (tool in row.tools and set(row.reads) <= set(names))
        if grants or row.message
    )
