"""Puts requests into words: what waits as an `Ask`, what has ended as an `Outcome`.

It is the only maker of both, so that cards, pages, the inbox and the stream say the
same.  It decides nothing and knows no surface; what may be done with a request is the
row of its kind.  An event is decoded only where the caller has not done so already.
"""

from __future__ import annotations

from functools import partial

from feishuperm.lib.git import current_branch
from feishuperm.lib.text import text
from feishuperm.lib.tool import extract_tool_detail
from feishuperm.models import request as states
from feishuperm.models.ask import Ask, Outcome, shorten
from feishuperm.models.kind import KINDS, kind_of, offers

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from feishuperm.models.kind import Action, Say
    from feishuperm.models.payload import PermissionRequestPayload
    from feishuperm.models.request import Request
    from feishuperm.services.rule_writer import RulePlan, RuleWriter

BRIEF = 20_000  # characters of a block; a card holds fewer, and a list shows fewer

# How a request can end without a person's answer: what happened, and a line about it.
ENDS = {
    states.EXPIRED: ("ended.expired", ""),  # the line depends on the decision
    states.TERMINAL: ("ended.terminal", ""),
    states.GONE: ("ended.gone", "ended.gone_hint"),
    states.RELEASED: ("ended.released", "ended.released_hint"),
    states.UNKNOWN: ("ended.unknown", "ended.unknown_hint"),
}


class Presenter:
    """One per server: knows the language, the patience and the rules."""

    def __init__(
        self, language: str, seconds: int, at_zero: str, rule_writer: RuleWriter
    ) -> None:
        self._language = language
        self._seconds = seconds
        self._at_zero = at_zero
        self._rule_writer = rule_writer
        self.say: Say = partial(text, language)

    def ask(
        self, request: Request, payload: PermissionRequestPayload | None = None
    ) -> Ask:
        """The whole request, as its own page shows it."""
        payload = payload or request.payload()
        kind = KINDS[request.kind]
        ask = plain_ask(payload, request.id, request.project, self._language)
        fields = kind.fields(payload.tool_input, self.say)
        ask = ask._replace(
            created=request.created,
            seconds=self._seconds,
            at_zero=self._at_zero if kind.expired else "terminal",
            actions=offers(kind, fields, self.say),
            fields=fields,
            digest=request.short_digest(),
        )
        if request.waits() and any(row.writes_rule for row in kind.actions):
            plan = self.plan(request, payload)
            note = self.say(plan.refusal) if plan.refusal else ""
            ask = ask._replace(rules=plan.rules, rule_note=note)
        return ask

    def brief(
        self, request: Request, payload: PermissionRequestPayload | None = None
    ) -> Ask:
        """The request for cards and lists: of bounded size."""
        return shorten(self.ask(request, payload), BRIEF)

    def plan(self, request: Request, payload: PermissionRequestPayload) -> RulePlan:
        """The rules that an answer which writes them would write."""
        return self._rule_writer.plan(
            payload.tool_name, payload.tool_input, request.project, payload.base.cwd
        )

    def outcome(self, request: Request) -> Outcome:
        """How a request ended; it must have."""
        row = KINDS[request.kind].action(request.action)
        done, look, line = _action_end(row, request) if row else _other_end(request)
        rules = (*request.rules, *request.known_rules)
        lines = [self.say(key) for key in (line, request.note) if key]
        if request.tried:
            lines.append(self.say("ended.tried", process=request.tried))
        return Outcome(
            request.id,
            request.kind,
            self._language,
            request.state,
            request.action,
            request.surface,
            request.who,
            request.ended,
            self.say(done),
            look,
            tuple(lines),
            rules,
            request.reason if request.state == states.DENIED else "",
            request.summary,
            request.project,
            request.head,
        )


def plain_ask(
    payload: PermissionRequestPayload, id: str, project: str, language: str
) -> Ask:
    """What there is to see of an event, with nothing to answer."""
    say = partial(text, language)
    kind = kind_of(payload.tool_name)
    detail = extract_tool_detail(payload.tool_name, payload.tool_input)
    project = project or payload.base.cwd
    return Ask(
        id,
        kind.name,
        language,
        say(kind.title),
        say(kind.heading),
        payload.tool_name,
        detail.colour,
        detail.summary,
        tuple(
            block._replace(label=say(block.label)) if block.label else block
            for block in detail.blocks
        ),
        say(kind.empty),
        project,
        current_branch(project),
        payload.session_id(),
        _string(payload.fields.get("agent_type")),
    )


def _string(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _action_end(row: Action, request: Request) -> tuple[str, str, str]:
    """Text key, look and line of what a person did."""
    written = request.rules or request.known_rules
    done = row.once if row.writes_rule and not written else row.done
    return done, "bad" if row.message else "good", ""


def _other_end(request: Request) -> tuple[str, str, str]:
    """The same of what no person did."""
    done, line = ENDS[request.state]
    if request.state == states.EXPIRED:
        denied = request.decision is not None
        line = "ended.expired_denied" if denied else "ended.expired_terminal"
    return done, "late", line
