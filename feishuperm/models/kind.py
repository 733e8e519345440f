"""What can wait for a person: one row of `KINDS` per kind, and nowhere else.

A row says which events make it, what it is called, which buttons it has, what may be
filled in, what each answer becomes for the client, and what the model is told when the
time is over.  Cards, pages, the inbox and whatever comes later draw what the row says,
so a new kind or a new button is a row here and its sentences.

Texts are keys; `say` turns one into the person's language.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from feishuperm.messages import msg
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
)
from feishuperm.models.decision import Decision
from feishuperm.models.form import (
    SCHEMA,
    Wrong,
    form_fields,
    is_address,
    parse_answers,
    parse_content,
    read_questions,
)
from feishuperm.models.names import EXPIRED, NOT_OFFERED, PLAN_TOOL, QUESTION_TOOL
from feishuperm.models.request import ALLOWED, ANSWERED, DENIED

Say = Callable[..., str]
ToolInput = dict[str, Any]
REASON, COMMAND, TEXT = "reason", "command", "text"
OWN_WORDS = "_other"  # the end of the name of a field beside the choices of a question
NEXT_SECONDS = 12 * 3600  # a session that is done waits over a night


class Action(NamedTuple):
    """A button: its texts, its looks and what it decides."""

    name: str  # in ledger, log and JSON
    path: str  # its route
    label: str  # on the button
    done: str  # once it is done
    look: str
    state: str  # of the request afterwards
    key: str = ""  # on a keyboard
    # Key of what the model is told, in kinds that tell it anything; empty: it lets
    # something happen.
    message: str = ""
    message_reason: str = ""  # the same, when a reason was typed
    interrupts: bool = False
    writes_rule: bool = False
    once: str = ""  # once it is done, if no rule and no change came of it
    reads: tuple[str, ...] = ()  # fields it takes along; ("*",): all of them
    needs: bool = False  # means nothing without its fields
    submit: str = ""  # on the button beside its fields, if it says more there
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
    title: str  # of its card
    heading: str  # of its page
    empty: str  # where a call has nothing to show
    actions: tuple[Action, ...]
    fields: Callable[[ToolInput, Say], tuple[Field, ...]]
    # What an answer that lets something happen becomes, or what is wrong with it.
    grant: Callable[[Action, ToolInput, Answer, Say], Decision | str | Wrong]
    refusal: Decision | None = None  # what any other becomes, if no plain denial
    expired: str = EXPIRED  # what the model is told; empty: nothing
    event: str = "PermissionRequest"
    noun: str = ""  # what people call it; empty: by the name of its tool
    at_zero: str = ""  # what happens then, if not what the settings say
    lapsed: str = msg("Timed out, left to the terminal")  # once that has happened
    blocks_terminal: bool = False  # the terminal can do nothing while it is pending
    seconds: int = 0  # a person has, if not as many as the settings say
    note: str = ""  # a sentence below what it is about
    alone: bool = False  # of those of one session only the newest waits
    typed_seconds: int = 0  # so long after a prompt its person is taken to be typing
    content: str = ""  # what of the input must be there for anybody to grant it

    def reply(
        self, action: Action, tool_input: ToolInput, answer: Answer, say: Say
    ) -> Decision | str | Wrong:
        """What an answer becomes, or the sentence about what is wrong with it."""
        if not action.message:
            return self.grant(action, tool_input, answer, say)
        if self.refusal is not None:
            return self.refusal
        reason = action.reason(answer) if action.message_reason else ""
        key = action.message_reason if reason else action.message
        if answer.surface == "inbox":
            key = IN_THE_INBOX.get(key, key)
        return Decision.deny(say(key, reason=reason), action.interrupts)

    def typed(self, action: Action, answer: Answer) -> list[str]:
        """What the person wrote in their own words: none of it was offered to them."""
        own = self.tools == {QUESTION_TOOL} and action.reads == ("*",)
        names = [name for name in answer.values if own and name.endswith(OWN_WORDS)]
        return list(filter(None, (action.reason(answer), *map(answer.value, names))))

    def may_grant(self, tool_input: ToolInput) -> bool:
        """Whether there is anything to grant: nobody approves a plan without text."""
        return not self.content or bool(str(tool_input.get(self.content) or "").strip())

    @property
    def of_a_call(self) -> bool:
        """Whether it is over as soon as a call is: the terminal asks the same."""
        return self.event == "PermissionRequest"

    def action(self, name: str) -> Action | None:
        """The button of this name; an agent may offer a second of it, as "allow-2"."""
        base, dash, number = name.partition("-")
        row = next((row for row in self.actions if row.name == base), None)
        if row is None or not dash:
            return row
        return row._replace(name=name, path=f"{row.path}-{number}")

    def by_path(self, path: str) -> Action | None:
        """The button that a page or link names."""
        base, dash, number = path.partition("-")
        row = next((row for row in self.actions if row.path == base), None)
        return row and self.action(row.name + dash + number)


# The refusals every kind has.

DENY = Action(
    "deny", "/deny", msg("Deny"), msg("Denied"), NO, DENIED, "d",
    msg("Denied by the user in Feishu"), msg("Denied by the user in Feishu: {reason}"),
    reads=(REASON,),
)  # fmt: skip
INTERRUPT = Action(
    "interrupt", "/interrupt", msg("Deny and interrupt"), msg("Denied and interrupted"),
    STOP, DENIED, "i",
    msg("Denied and interrupted by the user in Feishu"), interrupts=True,
)  # fmt: skip


# The model is told where somebody refused.
IN_THE_INBOX = {
    DENY.message: msg("Denied by the user in the inbox"),
    DENY.message_reason: msg("Denied by the user in the inbox: {reason}"),
    INTERRUPT.message: msg("Denied and interrupted by the user in the inbox"),
}


def _reason(
    say: Say,
    label: str = msg("Reason for denying"),
    hint: str = msg("Optional. Sent to {agent}"),
) -> tuple[Field, ...]:
    return (Field(REASON, label=say(label), hint=say(hint)),)


def _permission(
    action: Action, tool_input: ToolInput, answer: Answer, say: Say
) -> Decision | str:
    """What runs is what was asked, or what was typed, letter by letter."""
    if not action.edits:
        return Decision.allow()
    if not is_editable(tool_input):
        return NOT_OFFERED
    # A form of a browser ends its lines in another way.
    typed = "".join(answer.values.get(COMMAND, ())).replace("\r\n", "\n")
    if not typed.strip():
        return msg("The command is empty; nothing was done.")
    if len(typed) > TEXT_LIMIT:
        return msg("The command is longer than 1000 characters; nothing was done.")
    if "\0" in typed:  # no command holds one, and nobody sees it
        return NOT_OFFERED
    if typed == tool_input[COMMAND]:
        return Decision.allow()
    return Decision.allow(updated_input={**tool_input, COMMAND: typed})


def is_editable(tool_input: ToolInput) -> bool:
    """Whether a field can hold the command, and all of it."""
    command = tool_input.get(COMMAND)
    return isinstance(command, str) and 0 < len(command) <= TEXT_LIMIT


def _permission_fields(tool_input: ToolInput, say: Say) -> tuple[Field, ...]:
    reason = _reason(say)
    if not is_editable(tool_input):
        return reason
    command = tool_input[COMMAND]
    return (*reason, Field(COMMAND, "lines", say("Changed command"), value=command))


def _question(
    action: Action, tool_input: ToolInput, answer: Answer, say: Say
) -> Decision | str:
    answers = parse_answers(tool_input.get("questions"), answer.values)
    if isinstance(answers, str):
        return answers
    # The client wants the questions repeated in full beside the answers.
    return Decision.allow(updated_input={**tool_input, "answers": answers})


def _next(
    action: Action, tool_input: ToolInput, answer: Answer, say: Say
) -> Decision | str:
    """The hook prints none of it: it wakes the session with the text."""
    typed = answer.value(TEXT).replace("\r\n", "\n")
    nothing = msg("It is empty; nothing was sent.")
    return Decision.other({"next": typed}) if typed else nothing


def _form(
    action: Action, tool_input: ToolInput, answer: Answer, say: Say
) -> Decision | Wrong:
    said: dict[str, Any] = {"action": "accept"}
    if not is_address(tool_input):
        content = parse_content(tool_input.get(SCHEMA), answer.values, say)
        if isinstance(content, Wrong):
            return content
        said["content"] = content
    return Decision.said("Elicitation", said)


def _question_fields(tool_input: ToolInput, say: Say) -> tuple[Field, ...]:
    fields: list[Field] = []
    added, instead = msg("Added to the choices above"), msg("Replaces the choice above")
    for question in read_questions(tool_input.get("questions")):
        hint = say(added if question.type == "many" else instead)
        own = say("Other (in your own words)")
        hint = hint if question.options else ""
        fields += (question, Field(question.name + OWN_WORDS, label=own, hint=hint))
    return (*fields, *_reason(say, msg("Reason for not answering")))


RETRY = Decision.said("PermissionDenied", {"retry": True})
SILENT_DENIAL = Decision.other({}, denies=True)
NEXT_NOTE = msg(
    "Claude is told that this text came from outside the session and was not typed in "
    "the terminal; it cannot approve anything."
)
KINDS = {row.name: row for row in (
    Kind(
        "permission", frozenset(), msg("{client} permission request"),
        msg("Permission request"), msg("(no parameters)"),
        (
            Action("allow", "/allow", msg("Allow"), msg("Allowed"), YES, ALLOWED, "a"),
            Action("always", "/always", msg("Always allow"), msg("Always allowed"),
                   FOREVER, ALLOWED, "w", writes_rule=True, once=msg("Allowed")),
            DENY,
            INTERRUPT,
            Action("edit", "/edit", msg("Edit and allow"), msg("Edited and allowed"),
                   YES, ALLOWED, once=msg("Allowed"), reads=(COMMAND,), needs=True,
                   tools=frozenset(("Bash",))),
            Action("minutes", "/minutes", msg("Allow for 10 minutes"),
                   msg("Allowed for 10 minutes"), WHILE, ALLOWED, passes=600),
            Action("session", "/session", msg("Allow in this session"),
                   msg("Allowed in this session"), WHILE, ALLOWED, passes=24 * 3600),
        ),
        _permission_fields, _permission,
    ),
    Kind(
        "question", frozenset((QUESTION_TOOL,)),
        msg("{client} asks"), msg("{client} asks"), msg("(no parameters)"),
        (
            Action("answer", "/answer", msg("Answer"), msg("Answered"), YES, ANSWERED,
                   reads=("*",), needs=True, submit=msg("Submit"), words=True),
            DENY._replace(label=msg("Skip question"),
                          done=msg("Question declined")),
            INTERRUPT,
        ),
        _question_fields, _question, noun=msg("Question"),
    ),
    Kind(
        "plan", frozenset((PLAN_TOOL,)),
        msg("Claude Code plan"), msg("Claude Code plan"), msg("(no plan file)"),
        (
            Action("approve", "/allow", msg("Approve plan"), msg("Plan approved"), YES,
                   ANSWERED, "a"),
            DENY._replace(label=msg("Send the plan back"), done=msg("Plan sent back"),
                          words=True),
            INTERRUPT,
        ),
        # An empty updatedInput is what makes the client leave plan mode.
        lambda _, say: _reason(
            say, msg("What should change?"), msg("Sent to Claude with the plan")
        ),
        lambda *_: Decision.allow(updated_input={}),
        noun=msg("Plan"), content="plan",
    ),
    Kind(
        "next", frozenset(), msg("Claude Code is done. What next?"),
        msg("Claude Code is done. What next?"), msg("(no last words)"),
        (
            Action("send", "/answer", msg("Send"), msg("Sent"), YES, ANSWERED,
                   reads=(TEXT,), needs=True, words=True, prompts=True),
            DENY._replace(label=msg("End here"), done=msg("Ended here"),
                          message=msg("Ended here"), message_reason="", reads=()),
        ),
        lambda _, say: (Field(TEXT, "lines", say("What to do next"),
                              say("For example: go on, run the tests")),),
        _next, SILENT_DENIAL, expired="", event="Notification",
        noun=msg("Done"), seconds=NEXT_SECONDS, note=NEXT_NOTE, alone=True,
    ),
    Kind(
        "denied", frozenset(), msg("Auto mode has refused"),
        msg("Auto mode has refused"), msg("(no parameters)"),
        (
            Action("allow", "/allow", msg("Let it run once"),
                   msg("It may run once, within ten minutes"), YES, ALLOWED, "a",
                   reprieves=True),
            DENY._replace(label=msg("Leave it refused"), done=msg("It stays refused"),
                          message=msg("It stays refused"), message_reason="", reads=()),
        ),
        lambda *_: (), lambda *_: RETRY, SILENT_DENIAL, expired="",
        event="PermissionDenied",
        at_zero="stands", lapsed=msg("Timed out, still refused"), blocks_terminal=True,
    ),
    Kind(
        "form", frozenset(), msg("Claude Code form"), msg("Claude Code form"),
        msg("(no parameters)"),
        (
            Action("answer", "/answer", msg("Submit"), msg("Submitted"), YES, ANSWERED,
                   reads=("*",), needs=True, words=True),
            DENY._replace(label=msg("Decline"), done=msg("Declined"),
                          message=msg("Declined"), message_reason="", reads=()),
        ),
        form_fields, _form, Decision.said("Elicitation", {"action": "decline"}, True),
        expired="", event="Elicitation", noun=msg("Form"),
        blocks_terminal=True, typed_seconds=6,
    ),
)}  # fmt: skip


def kind_of(tool_name: str, event: str = "PermissionRequest") -> Kind:
    """The row of a request; those of some tools stand below the one of all others."""
    rows = [row for row in KINDS.values() if row.event == event]
    return [row for row in rows if tool_name in row.tools or not row.tools][-1]


def offers(
    kind: Kind, fields: tuple[Field, ...], say: Say, tool: str = "", grants: bool = True
) -> tuple[Offer, ...]:
    """The buttons of a row, as they are offered for a call of this tool.

    Without `grants` only those that refuse.
    """
    names = [field.name for field in fields]
    offered = []
    for row in kind.actions:
        if row.tools and not (tool in row.tools and set(row.reads) <= set(names)):
            continue
        if not grants and not row.message:
            continue
        taken = tuple(name for name in row.reads if name in names)
        if row.reads == ("*",):
            taken = tuple(name for name in names if name != REASON)
        label = say(row.label)
        submit = say(row.submit) if row.submit else label
        offer = Offer(row.name, label, submit, row.look, row.key, taken, row.needs)
        offered.append(offer._replace(grants=not row.message, words=row.words))
    return tuple(offered)
