"""The desk as `callback` speaks to it, until the desk itself takes answers.

Everything here is what `services.desk` and its presenter will say; nothing is decided.
"""

from __future__ import annotations

from functools import partial

from feishuperm.lib.text import text
from feishuperm.lib.tool import extract_tool_detail
from feishuperm.models import ask as statuses
from feishuperm.models import request as states
from feishuperm.models.ask import Ask, Block, Outcome, Receipt
from feishuperm.models.kind import KINDS, kind_of, offers
from feishuperm.models.question import parse_answers

TYPE_CHECKING = False
if TYPE_CHECKING:
    from feishuperm.models.ask import Answer
    from feishuperm.models.kind import Kind
    from feishuperm.models.request import Request
    from feishuperm.services.desk import Desk

ENDS = {
    states.TERMINAL: ("ended.terminal", ""),
    states.GONE: ("ended.gone", "ended.gone_hint"),
    states.RELEASED: ("ended.released", "ended.released_hint"),
}


class Bridge:
    """A desk whose requests are asks and outcomes."""

    def __init__(self, desk: Desk, language: str) -> None:
        self._desk = desk
        self._language = language
        self.requests = desk.requests
        self.presenter = self
        self.seconds_left = desk.seconds_left
        self.say = partial(text, language)

    def kind(self, request: Request) -> Kind:
        return kind_of(request.tool_name)

    def ask(self, request: Request) -> Ask:
        kind, view = self.kind(request), self._desk.notifier.view(request)
        detail = extract_tool_detail(view.tool_name, view.tool_input)
        fields = kind.fields(view.tool_input, self.say)
        rules: tuple[str, ...] = ()
        note = ""
        if request.waits() and any(row.writes_rule for row in kind.actions):
            rules, refusal = self._desk.preview_rules(request)
            note = self.say(refusal) if refusal else ""
        return Ask(
            request.id,
            kind.name,
            self._language,
            self.say(kind.title),
            self.say(kind.heading),
            view.tool_name,
            detail.colour,
            detail.summary,
            tuple(
                Block(kind, self.say(label) if label else "", shown, language)
                for kind, label, shown, language in detail.blocks
            ),
            self.say(kind.empty),
            view.project,
            view.branch,
            view.session_id,
            view.agent,
            view.created,
            view.seconds,
            actions=offers(kind, fields, self.say),
            fields=fields,
            rules=rules,
            rule_note=note,
        )

    brief = ask

    def outcome(self, request: Request) -> Outcome:
        done, look, line = self._end(request)
        return Outcome(
            request.id,
            self.kind(request).name,
            self._language,
            request.state,
            request.action,
            request.surface,
            "",
            request.ended,
            self.say(done),
            look,
            tuple(self.say(key) for key in (line, request.note) if key),
            (*request.rules, *request.known_rules),
            request.reason if request.state == states.DENIED else "",
            request.summary,
            request.project,
        )

    def _end(self, request: Request) -> tuple[str, str, str]:
        row = self.kind(request).action(request.action)
        if row is not None:
            written = request.rules or request.known_rules
            done = "done.allow" if row.writes_rule and not written else row.done
            return done, "bad" if row.message else "good", ""
        if request.state == states.EXPIRED:
            how = "denied" if request.decision is not None else "terminal"
            return "ended.expired", "late", f"ended.expired_{how}"
        return (ENDS[request.state][0], "late", ENDS[request.state][1])

    def answer(self, answer: Answer) -> Receipt:
        request = self.requests.get(answer.id)
        if request is None:
            return Receipt(statuses.UNKNOWN)
        row = self.kind(request).action(answer.action)
        if row is not None and row.needs and request.waits():
            questions = request.payload().tool_input.get("questions")
            answers = parse_answers(questions, answer.values)
            if isinstance(answers, str):
                return Receipt(statuses.INCOMPLETE, error=self.say(answers))
            done = self._desk.answer(answer.id, answers, answer.surface)
        else:
            path = KINDS[self.kind(request).name].action(answer.action)
            name = path.path[1:] if path else ""
            reason = answer.value("reason")
            done = self._desk.decide(answer.id, name, answer.surface, reason)
        status = statuses.SETTLED if done else statuses.ENDED
        return Receipt(status, self.outcome(request))
