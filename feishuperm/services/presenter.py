"""Puts requests into words: a pending one as an `Ask`, an ended one as an `Outcome`.

It is the only maker of both, so that cards, pages, the inbox and the stream say the
same.  It decides nothing, changes no request and knows no surface; what may be done
with a request is the row of its kind.
"""

from __future__ import annotations

import os
import time
from collections.abc import Generator, Iterable, Iterator, Sequence
from functools import partial
from os.path import normpath
from typing import Any

from feishuperm.agents.table import ACP, CLAUDE, options_of
from feishuperm.agents.table import names as agent_names
from feishuperm.danger.paths import UNKNOWN as HOLE
from feishuperm.danger.reader import Finding, Reading, read_call
from feishuperm.lib.display import one_line, visible
from feishuperm.lib.files import current_branch
from feishuperm.lib.log import HIDDEN, Masked, finish, log, redact, redacting
from feishuperm.lib.tool import ToolDetail, extract_tool_detail
from feishuperm.messages import msg, text
from feishuperm.models import request as states
from feishuperm.models.ask import (
    FOREVER,
    WHILE,
    Ask,
    Block,
    Field,
    Notice,
    Offer,
    Outcome,
    Spent,
    fit,
    last_name,
)
from feishuperm.models.decision import Decision
from feishuperm.models.fields import list_at, part_at, text_at
from feishuperm.models.kind import (
    COMMAND,
    KINDS,
    REASON,
    TEXT,
    Action,
    Kind,
    Say,
    kind_of,
    offers,
)
from feishuperm.models.names import KEPT, TEST_TOOL
from feishuperm.models.payload import DANGER, AskPayload
from feishuperm.models.request import Request
from feishuperm.models.settings import Settings
from feishuperm.services.grants import Pass, Passes
from feishuperm.services.rule_writer import RulePlan, RuleWriter
from feishuperm.services.session_reader import figures, spent_by
from feishuperm.services.transcript import RAN, REFUSED
from feishuperm.tables import rows

LISTED = 10  # requests of a list in the chat
LINE = 100  # characters of what each is about
NAMED = 80  # of what a headline names
OPTION = 40  # of an agent's own words on a button
NAMED_WHOLE = 48  # of what it shows whole, even on a phone
UNLABELLED = ("code", "markdown")
SAID = "services/sentences.txt"
PASSES, PATIENCE, AT_TERMINAL = (
    rows(SAID, name) for name in ("passes", "patience", "at terminal")
)
RESULTS, ENDED, ENDED_LINES = (
    rows(SAID, name) for name in ("results", "ended", "ended lines")
)
TRIED = msg(
    "The session that asked tried to answer itself ({process}), and was refused."
)
STALE_PASS = msg("Pass {id} has ended: a file that it runs has changed")
TEST = msg("Claude Code test card")
REMARK = 2000  # characters of what the client says of an event
BRIEF = 20_000  # characters of all blocks; a card holds no more bytes
WORDS_READ = 8000  # characters of what Claude said: its last paragraph is in them
WORDS_SHOWN = 300
PROMPT_SHOWN = 120
RESULT_SHOWN = 160

KEY_BEGIN, KEY_END = "-----BEGIN ", "-----END "

SENTENCES = rows("danger/sentences.txt", "sentences")
# What an outcome says of a request as it is known.
AS_KNOWN = (
    *("id", "kind", "state", "action", "surface", "who", "ended", "ran"),
    *("project", "head", "answers"),
)
UNREAD = ("fact.unread", "fact.opaque")


class Presenter:
    """One per server: knows the language and the rules."""

    def __init__(self, settings: Settings, rule_writer: RuleWriter) -> None:
        self._language = settings.feishuperm_lang
        self._denies = [settings.denies_at_zero(agent) for agent in (False, True)]
        self._extends = settings.permission_hold > 0  # the deadline of what is read
        self._rule_writer = rule_writer
        self.say: Say = partial(text, self._language)

    def ask(self, request: Request, payload: AskPayload | None = None) -> Ask:
        """The whole request, as its own page shows it.

        Before its words are made, nobody knows whether a mask or a cut hides what a
        pass would let through: until then none is offered.
        """
        ask = self._ask(request, payload or request.payload(), 0)
        return ask if request.is_worded else _without_passes(ask)

    def brief(
        self, request: Request, payload: AskPayload
    ) -> Generator[None, None, Ask]:
        """The request for cards and lists: of bounded size, without its secrets.

        It is made in short steps, since a request may have megabytes.
        """
        ask = self._ask(request, payload, BRIEF)
        yield
        ask = yield from hiding(fit(ask, BRIEF))
        if KINDS[request.kind].alone:  # nothing of what it shows runs
            ask = ask._replace(veiled=False)
        return _without_passes(ask) if ask.masked or ask.partial else ask

    def whole(self, request: Request) -> Generator[None, None, Ask]:
        """The whole request without its secrets, made in short steps."""
        payload = request.payload()
        yield
        ask = self.ask(request, payload)
        yield
        return (yield from hiding(ask))

    def _ask(self, request: Request, payload: AskPayload, limit: int) -> Ask:
        kind = KINDS[request.kind]
        ask = plain_ask(payload, request.id, request.project, self._language, limit)
        say = partial(self.say, **agent_names(request.agent, payload.fields))
        fields = tuple(map(_seen, kind.fields(payload.tool_input, say)))
        may_extend = self._extends and not request.extended and not kind.seconds
        ask = ask._replace(
            created=request.created,
            seconds=request.seconds,
            hold=may_extend and request.waits(),
            at_zero=kind.at_zero or self._at_zero(request, kind),
            facts=(*ask.facts, *self._own_facts(request)),
            actions=offers(
                kind,
                fields,
                self.say,
                payload.tool_name,
                kind.may_grant(payload.tool_input),
            ),
            fields=fields,
            digest=request.short_digest(),
            why=request.why,
            prompt=request.prompt,
            session_title=request.session_title,
        )
        if payload.tool_name == TEST_TOOL:
            return self._test(ask)
        ask = _obeyed(ask, request)
        options = options_of(request.agent, payload.fields)
        ask = self._with_options(ask, kind, options) if options else ask
        if any(visible(field.value) != field.value for field in fields if field.edits):
            ask = ask.without_edit()  # a field would not show what is there
        return self._with_grants(ask, request, payload)

    def _at_zero(self, request: Request, kind: Kind) -> str:
        """What the settings have happen to it when its time is over."""
        denies = kind.expired and self._denies[request.from_agent]
        is_spared = request.spared or request.serial
        return "deny" if denies and not is_spared else "terminal"

    def _with_options(self, ask: Ask, kind: Kind, options: dict[str, str]) -> Ask:
        """The ask with an agent's own options as buttons, which take nothing along.

        Its words tell those of a sort apart, and say what lasts.
        """
        offers = []
        for name, own in options.items():
            row = kind.action(name)
            if row is not None:
                confirm = own if row.writes_rule else ""
                is_told = confirm or "-" in name or f"{name}-2" in options
                label = one_line(redact(own), OPTION) if is_told else ""
                label = label or self.say(row.label)
                offer = Offer(name, label, label, row.look, row.key, confirm=confirm)
                offers.append(offer._replace(grants=not row.message))
        lasting = tuple(offer.confirm for offer in offers if offer.confirm)
        return ask._replace(actions=tuple(offers), fields=(), rules=lasting)

    def _with_grants(self, ask: Ask, request: Request, payload: AskPayload) -> Ask:
        """The ask of a pending request with the rule and the passes it may make."""
        kind = KINDS[request.kind]
        if not request.waits():
            return _without_passes(ask)
        if request.agent != ACP and any(row.writes_rule for row in kind.actions):
            ask = self._with_rules(ask, kind, self.plan(request, payload))
        return self._with_passes(ask, request)

    def _test(self, ask: Ask) -> Ask:
        """A card that only tries whether a tap arrives: one sentence, one button."""
        tap = [offer for offer in ask.actions if offer.name == "allow"]
        said = self.say("Your phone is connected. Tap the button, that is all.")
        return ask.bare(said)._replace(
            title=self.say(TEST),
            heading=self.say(TEST),
            at_zero="",  # nothing is denied
            actions=tuple(offer._replace(label=self.say("Got it")) for offer in tap),
        )

    def _own_facts(self, request: Request) -> Iterator[str]:
        """Why it has less time than others; why a pass does not let it through."""
        if request.patience:
            sentence = PATIENCE[_asker(request)]
            yield self.say(sentence, seconds=request.patience)
        if request.stale_pass:
            yield self.say(STALE_PASS, id=request.stale_pass)

    def _with_passes(self, ask: Ask, request: Request) -> Ask:
        """The ask with what each pass would let through; or without their buttons."""
        if not request.passable:
            return _without_passes(ask)
        broad = any(offer.confirm for offer in ask.actions)
        rules = () if broad else ask.rules
        names = [offer.name for offer in ask.actions if offer.look == WHILE]
        words = {name: self.pass_words(name, request, rules) for name in names}
        return _with_words(ask, words)

    def pass_words(self, name: str, request: Request, rules: tuple[str, ...]) -> str:
        """What a person agrees to who makes a pass, word by word."""
        session, project = one_line(request.session, 8), last_name(request.project)
        span = self.say(PASSES[name], session=session, project=one_line(project, 60))
        bounds = self.say(PASSES["bounds"], folder=one_line(request.folder, 200))
        return f"{span}\n{self.pass_scope(request, rules)}\n{bounds}"

    def pass_scope(self, request: Request, rules: tuple[str, ...]) -> str:
        """What a pass is for: rules as "always" would write them, or this call."""
        if rules:
            return "\n".join(map(visible, rules))
        return self.say(
            "Only this very call: {what}",
            what=visible(request.detail or request.summary),
        )

    def _with_rules(self, ask: Ask, kind: Kind, plan: RulePlan) -> Ask:
        """The ask with what "always" would write, and what must be said before."""
        note, rules = plan.refusal or plan.note, plan.rules or plan.kept
        ask = ask._replace(rules=rules, rule_note=self.say(note) if note else "")
        writing = {row.name for row in kind.actions if row.writes_rule}
        if not rules:  # it would promise what no rule can keep
            return ask.keeping(lambda offer: offer.name not in writing)
        words = dict.fromkeys(writing, self.say(plan.confirm))
        return _with_words(ask, words) if plan.confirm else ask

    def plan(self, request: Request, payload: AskPayload) -> RulePlan:
        """The rules that an answer would write, or what another agent would keep."""
        if request.agent != CLAUDE:
            kept = tuple(map(str, list_at(payload.fields, "always")))
            return RulePlan(confirm=KEPT, kept=kept)
        return self._rule_writer.plan(
            payload.tool_name, payload.tool_input, request.project, payload.base.cwd
        )

    def tried(self, request: Request, now: float) -> Notice:
        """That the session which asks has tried to answer itself."""
        said = self.say(TRIED, process=request.tried)
        branch = current_branch(request.project)
        text = f"{said}\n{self.summary(request)}"
        return Notice("tried", now, request.project, branch, request.session, text)

    def made_pass(self, row: Pass, now: float) -> Notice:
        """That something goes through from now on which nobody tapped."""
        until = time.strftime("%H:%M", time.localtime(row.ends))
        said = self.say(
            "Allowed without asking until {time}. Not you? feishuperm passes revoke "
            "all, or revoke it in the inbox",
            time=until,
        )
        return Notice("pass", now, row.project, "", row.session, f"{said}\n{row.shown}")

    def pass_rows(self, passes: Passes) -> list[tuple[str, str, str]]:
        """What goes through without asking: its id, what it is, until when."""
        rows = []
        for row in passes.all()[:LISTED]:
            left = passes.left(row)
            until = time.strftime("%H:%M", time.localtime(row.ends))
            what = (one_line(redact(row.shown), 120), last_name(row.project))
            counted = "" if left is None else self.say("{count} calls left", count=left)
            ends = (self.say("until {until}", until=until), counted, row.id)
            shown, bounds = (" · ".join(filter(None, part)) for part in (what, ends))
            rows.append((row.id, shown, bounds))
        return rows

    def waiting(self, requests: list[Request]) -> list[tuple[str, str]]:
        """Pending requests: the title of each, and the first words of what it is."""
        rows = []
        for request in requests:
            name, detail = self.summary(request), one_line(request.detail, LINE)
            line = f"{name}: {detail}" if detail and detail not in name else name
            line = f"{line} · {last_name(request.project)}"
            title = self.say(KINDS[request.kind].title, **agent_names(request.agent))
            rows.append((title, line))
        return rows

    def summary(self, request: Request) -> str:
        """A request on one line, as people call it."""
        is_test = request.tool_name == TEST_TOOL
        noun = TEST if is_test else KINDS[request.kind].noun
        return self.say(noun) if noun else request.summary

    def outcome(self, request: Request) -> Outcome:
        """How a request ended; it must have."""
        row = KINDS[request.kind].action(request.action)
        done, look, line = _end(row, request)
        if row and request.tool_name == TEST_TOOL:
            done = msg("Received")
        rules = (*request.rules, *request.known_rules)
        same = {name: getattr(request, name) for name in AS_KNOWN}
        return Outcome(
            **same,
            language=self._language,
            done=self.say(done),
            look=look,
            lines=tuple(self._lines(request, line)),
            rules=tuple(map(redact, rules)),
            reason=redact(request.reason) if request.state == states.DENIED else "",
            summary=self.summary(request),
            detail=one_line(request.detail),
            result=self._result(request),
            result_look="good" if request.result[0] == RAN else "bad",
            undoable=bool(request.rules) and not request.undone,
            undone=tuple(map(redact, request.rules)) if request.undone else (),
            spent=self._spent(request),
        )

    def _lines(self, request: Request, line: str) -> Iterator[str]:
        """What there is to say about an end; `line` is what its state says."""
        called = agent_names(request.agent)
        for key in filter(None, (line, request.note)):
            yield self.say(key, **called)
        if request.is_given_back() and request.patience:
            yield self.say(AT_TERMINAL[_asker(request)])
        if request.tried:
            yield self.say(TRIED, process=request.tried)
        if request.grants:
            until = time.strftime("%H:%M", time.localtime(request.grants["ends"]))
            id = request.grants["id"]
            yield self.say("Pass {id}, until {until}", id=id, until=until)

    def _spent(self, request: Request) -> Spent:
        """What the turn has taken that ended before this request to go on."""
        if not KINDS[request.kind].alone or not request.raw:
            return Spent()
        path = request.payload().transcript_path()
        return spent_by(figures(path), request.ended)

    def _result(self, request: Request) -> str:
        """How the call went on, in words; empty as long as nobody knows."""
        how, detail = request.result
        if not how:
            return ""
        if how == RAN and request.state == states.ANSWERED:
            return self.say("{agent} has received it", **agent_names(request.agent))
        if how == REFUSED and request.state == states.TERMINAL:
            return self.say("it did not run")
        line = redact(detail.strip()).partition("\n")[0]
        return self.say(RESULTS[how], detail=one_line(line, RESULT_SHOWN))

    def answers(self, decision: Decision) -> tuple[str, ...]:
        """What was answered to each question, as it may be shown."""
        rows = part_at(decision.updated_input, "answers").items()
        pairs = (
            self.say("{label}: {value}", label=name, value=said) for name, said in rows
        )
        return tuple(one_line(redact(pair), WORDS_SHOWN) for pair in pairs)


def _asker(request: Request) -> str:
    """Whose hook shows no dialog while it waits."""
    return "serial" if request.serial else "subagent"


def _seen(field: Field) -> Field:
    """The field without a default that it would not show as it is."""
    is_seen = field.edits or visible(field.value) == field.value
    return field if is_seen else field._replace(value="")


def _with_words(ask: Ask, words: dict[str, str]) -> Ask:
    """The ask with what a person has to agree to, by the name of the button."""
    offers = [o._replace(confirm=words.get(o.name, o.confirm)) for o in ask.actions]
    return ask._replace(actions=tuple(offers))


def _obeyed(ask: Ask, request: Request) -> Ask:
    """The ask without the buttons that an agent cannot obey."""
    if request.agent == CLAUDE:
        return ask
    ask = ask.keeping(lambda offer: offer.name in request.offered)
    return ask if "edit" in request.offered else ask.without_edit()


def _without_passes(ask: Ask) -> Ask:
    return ask.keeping(lambda offer: offer.look != WHILE)


def plain_ask(
    payload: AskPayload,
    id: str,
    project: str,
    language: str,
    limit: int = 0,
) -> Ask:
    """What there is to see of an event, with nothing to answer."""
    say = partial(text, language)
    kind = kind_of(payload.tool_name, payload.EVENT)
    detail = extract_tool_detail(payload.tool_name, payload.tool_input, limit)
    blocks = (*detail.blocks, *remark_blocks(payload, say))
    project = project or payload.base.cwd
    heading = kind.heading if payload.agent == CLAUDE else kind.title
    called = agent_names(payload.agent, payload.fields)
    reading = read_danger(payload, project)
    return Ask(
        id,
        kind.name,
        language,
        say(kind.title, **called),
        say(heading, **called),
        say(kind.noun) if kind.noun else payload.tool_name,
        detail.colour,
        say(kind.noun) if kind.noun else redact(detail.summary),
        "" if kind.noun else what_it_does(detail, project, say),
        tuple(_told(blocks, detail, project, say)),
        empty=say(kind.empty),
        project=project,
        branch=current_branch(project),
        session=payload.session_id(),
        agent=text_at(payload.fields, "agent_type"),
        host="" if payload.agent == CLAUDE else called["client"],
        dangers=sentences(reading.marks, say),
        facts=sentences(reading.facts, say),
    )


def what_it_does(detail: ToolDetail, project: str, say: Say) -> str:
    """A call in a few words: "Edit src/price.js (+2 −2)"."""
    sentence, named = detail.what
    named = one_line(redact(_in_project(named, project)), NAMED)
    words = say(sentence, what=named).rstrip("：: ")
    diffs = [block for block in detail.blocks if block.kind == "diff"]
    if not diffs or any(block.hidden for block in diffs):
        return words
    added, removed = (
        sum(f"\n{block.text}".count(f"\n{sign}") for block in diffs) for sign in "+-"
    )
    counts = {"added": added, "removed": removed}
    return say("{what} (+{added} −{removed})", what=words, **counts)


def _told(
    blocks: Sequence[Block], detail: ToolDetail, project: str, say: Say
) -> Iterator[Block]:
    """The blocks in the person's language, but for what the headline says.

    The first has no label: a command is known as one.
    """
    is_first = True
    for block in blocks:
        is_named = block.text == detail.what[1] and not block.hidden
        shown = _in_project(block.text, project) if block.kind == "path" else block.text
        is_named = is_named and len(blocks) > 1 and len(shown) <= NAMED_WHOLE
        if is_named and redact(shown) == shown == one_line(shown):
            continue
        label = "" if is_first and block.kind in UNLABELLED else block.label
        label = say(label) if label else ""
        is_first = False
        yield block._replace(label=label, text=shown)


def _in_project(path: str, project: str) -> str:
    inside = project and path.startswith(f"{project}/")
    return path[len(project) + 1 :] if inside and normpath(path) == path else path


def remark_blocks(payload: AskPayload, say: Say) -> Iterator[Block]:
    """Below what an event is about: what the client says of it, and what we do."""
    remark = payload.remark()[:REMARK]
    if remark:
        yield Block("text", msg("Why it was refused"), visible(remark))
    note = kind_of(payload.tool_name, payload.EVENT).note
    if note:
        yield Block("text", "", say(note))


def brief_ask(payload: AskPayload, id: str, project: str, language: str) -> Ask:
    """The same as a card may show it: masked, of bounded size."""
    ask = plain_ask(payload, id, project, language, BRIEF)
    return finish(hiding(fit(ask, BRIEF)))


def hiding(ask: Ask) -> Generator[None, None, Ask]:
    """The same in short steps, for one of megabytes.

    What lasts is offered only where all of it is shown.
    """
    blocks, veiled = [], False
    for block in ask.blocks:
        whole_keys = _key_hidden(block.tail)
        start: Masked = yield from redacting(block.text)
        end: Masked = yield from redacting(whole_keys)
        blocks.append(block._replace(text=start.text, tail=end.text))
        veiled |= start.veiled or end.veiled or whole_keys != block.tail
    fields: list[Field] = []
    for field in ask.fields:
        fields.append((yield from _hiding_field(field)))
        veiled |= len(fields[-1].options) < len(field.options)
    rules = tuple(map(redact, ask.rules))
    if (*blocks, *fields, *rules) == (*ask.blocks, *ask.fields, *ask.rules):
        return ask
    lasting = (FOREVER, WHILE)
    return ask._replace(
        blocks=tuple(blocks),
        rules=(),
        rule_note=text(ask.language, "Part of it is masked: the full request offers it")
        if ask.rules
        else ask.rule_note,
        actions=tuple(offer for offer in ask.actions if offer.look not in lasting),
        fields=tuple(fields),
        masked=True,
        veiled=veiled,
    ).without_edit()


def _hiding_field(field: Field) -> Generator[None, None, Field]:
    """The field without its secrets: no default that is one, no choice that names one.

    What is chosen is known by its very words, so a choice cannot be masked.
    """
    if field.name in (REASON, COMMAND, TEXT):  # what these say is ours
        return field
    told: dict[str, Any] = {}
    for name in ("label", "hint", "heading"):
        shown: Masked = yield from redacting(getattr(field, name))
        told[name] = shown.text
    options = []
    for option in field.options:
        value: Masked = yield from redacting(option.value)
        detail: Masked = yield from redacting(option.detail)
        if value.text == option.value:
            options.append(option._replace(detail=detail.text))
    if redact(field.value) != field.value:
        told["value"] = ""
    return field._replace(**told, options=tuple(options))


def _key_hidden(tail: str) -> str:
    """Without the end of a private key whose beginning was cut off."""
    end = tail.find(KEY_END)
    if end >= 0 and not 0 <= tail.find(KEY_BEGIN) < end:
        return HIDDEN + tail[end:]
    return tail


def last_paragraph(said: str) -> str:
    """The end of what Claude said: one line, without secrets."""
    end = said
    if len(said) > WORDS_READ:  # half a word may be half a secret
        end = said[-WORDS_READ:].partition(" ")[2]
    end = redact(_key_hidden(end)).rstrip()
    return one_line(end.rpartition("\n\n")[2], WORDS_SHOWN)


def _end(row: Action | None, request: Request) -> tuple[str, str, str]:
    """Text key, look and line of what a person did, or of what happened instead."""
    if row is not None:
        more = request.rules or request.known_rules or request.ran
        done = row.once if row.once and not more else row.done
        return done, "bad" if row.message else "good", ""
    done, line = (table.get(request.state, "") for table in (ENDED, ENDED_LINES))
    if request.state == states.EXPIRED and request.decision is not None:
        done = msg("Timed out, denied automatically")
    elif request.state == states.EXPIRED:
        done = KINDS[request.kind].lapsed
    return done, "late", line


def context(said: str, prompt: str) -> tuple[str, str]:
    """Why a call is made, and what the session works on, as they may be shown."""
    first = redact(prompt[:WORDS_READ].strip()).partition("\n")[0]
    return last_paragraph(said), one_line(first, PROMPT_SHOWN)


# How dangerous a call is.  What is named in a sentence has no secrets in it; nothing
# here blocks anything.


def load_tables(language: str) -> None:
    """Load the tables of dangers and the catalogue, which the first request needs.

    It would wait for them, and take more than one turn of the loop.
    """
    read_call("Bash", {"command": "sudo rm -r x | sh"}, "/project", "/home")
    for sentence in SENTENCES.values():
        text(language, sentence)


def read_danger(
    payload: AskPayload, project: str, changed: dict[str, Any] | None = None
) -> Reading:
    """What there is to notice about a call, or about what runs in its place."""
    known: Reading | None = None if changed else payload.known.get((DANGER, project))
    if known is not None:
        return known
    name, given, home = payload.tool_name, payload.tool_input, os.path.expanduser("~")
    given, cwd = changed or given, payload.base.cwd
    try:
        reading = read_call(name, given, project, home, cwd, mask=redact)
    except Exception as error:  # our mistake must not keep anybody waiting
        log(f"a call could not be read: {type(error).__name__}: {error}", "error")
        reading = Reading(facts=(Finding("fact.unread"),))
    if not changed:
        payload.known[DANGER, project] = reading
    return reading


def sentences(findings: Iterable[Finding], say: Say) -> tuple[str, ...]:
    """What to show of some findings."""
    return tuple(
        say(SENTENCES[finding.key], what=one_line(finding.what, 300)).rstrip("：: ")
        for finding in findings
    )


def names(reading: Reading) -> tuple[str, ...]:
    """The marks as the ledger and `status` name them: "delete", "root"."""
    return tuple(mark.key.partition(".")[2] for mark in reading.marks)


def is_clear(reading: Reading) -> bool:
    """Whether a call was read to its end, bears no mark and runs what can be told."""
    unknown = any(fact.key in UNREAD for fact in reading.facts)
    unknown = unknown or any(HOLE in path for path in reading.files)
    return not reading.marks and not unknown
