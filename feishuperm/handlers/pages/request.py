"""The pages about one request: while it waits, the step before, the result of a tap.

The HTML of `pending` is the body of a request's page and what the inbox shows beside
its list.  At rest it is what a decision needs, in the order of the card; all else is
folded below "More".

A request has two forms, one whose buttons let something happen and one whose buttons
refuse, so that Enter in a field never means the opposite.  A button names its route and
its signature, and stands where it is wanted: the first of each form in a bar that stays
at the bottom of the screen.  With a command also comes what somebody made of it: nobody
changes a command and has the old one run.

What the scripts of open pages are told of a result stands here too: `outcome_box` is
how it looks, wherever it is shown in place.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape
from typing import Any, NamedTuple
from urllib.parse import parse_qsl

from feishuperm.handlers.pages.layout import (
    ICONS,
    Fact,
    Html,
    draw,
    exactly,
    facts,
    form,
    frame,
    hidden_fields,
    link_form,
    moment,
    page,
    said,
    shown,
)
from feishuperm.lib import markdown
from feishuperm.lib.display import one_line, visible
from feishuperm.lib.feishu import CHANGED, at_zero, rule_hint
from feishuperm.messages import msg, pmsg, text
from feishuperm.models.ask import (
    CUT_FIRST,
    DETAIL,
    ENDED,
    SETTLED,
    YES,
    Ask,
    Block,
    Field,
    Layout,
    Offer,
    Option,
    Outcome,
    Receipt,
)
from feishuperm.models.form import in_form
from feishuperm.models.names import INVALID, NO_REQUEST, SURFACES
from feishuperm.protocol.http1 import Response

Values = Mapping[str, Sequence[str]]
Links = Mapping[str, str]  # by the name of the action; a path and its query

LINE_LOOKS = {"+": "add", "-": "del", "@": "hunk"}  # by the first character, in a diff
MARKDOWN = "markdown"
PROSE = (MARKDOWN, "question", "text")
# How the pieces and spans of a plan are drawn.  Its headings stand below the page's.
PIECES = {
    **{f"h{n}": (f'<h{n + 2} class="md h{n}">', f"</h{n + 2}>") for n in range(1, 5)},
    "text": ('<div class="md">', "</div>"),
    "quote": ('<div class="md quote">', "</div>"),
    "table": ("<table>", "</table>"),
    "rule": ("<hr>", ""),
}
SPANS = {"bold": "b", "code": "code"}
COUNTED = 6  # digits of an item's number
PIECE = 50_000  # characters made into HTML at a time: about a millisecond
MANY_LINES = 20_000  # of a text whose lines are coloured; beyond, it is one colour
MULTIPLE = {"one": msg("Choose one"), "many": msg("Choose any")}
SUBJECT_LENGTH = 160
ALREADY = "已"  # the word in a Chinese sentence that the time goes with
WORDY = ("question", MARKDOWN)  # blocks whose first line says little


class Ways(NamedTuple):
    """Where a page about a request leads; empty: nowhere."""

    events: str = ""  # what is told of it from now on
    undo: str = ""
    revoke: str = ""  # ends the pass that it made


NOWHERE = Ways()


# While it waits.


def request_page(
    ask: Ask,
    links: Links,
    seconds_left: float,
    error: str = "",
    values: Values | None = None,
    events: str = "",
) -> Iterator[bytes]:
    """Everything about a pending request, as `pending` draws it."""
    body = pending(ask, links, seconds_left, error, values)
    return frame(ask.language, ask.heading, _main(body, events))


def confirm_page(
    ask: Ask,
    offer: Offer,
    link: str,
    seconds_left: float,
    values: Values | None = None,
    events: str = "",
) -> Iterator[bytes]:
    """What a button opens that must not decide by itself.

    The request and the one button asked for, with the words one has to agree to.
    """
    language, title = ask.language, text(ask.language, "Please confirm")
    notes = draw("undecided", language)
    if offer.confirm:
        notes = Html(notes + draw("agreed", words=offer.confirm))
    label = offer.submit if offer.needs else offer.label
    look = "plain" if ask.dangers or not offer.grants else "yes"
    bar = f'<div class="bar">{draw("button", look=look, label=label)}</div>'
    typed = _fields_of(ask, offer, values or {}, "confirm")
    agreed = (("confirmed", "1"),) if offer.confirm else ()
    button = form(link, typed + bar, "confirm", ("digest", ask.digest), *agreed)
    rules = facts(language, _rules(ask.rules_of(offer)))
    body = _article(
        ask, head(ask, clock(ask, seconds_left), title) + notes, button + rules
    )
    return frame(language, title, _main(body, events))


def _article(ask: Ask, top: str, below: str = "") -> Iterator[str]:
    """A request that cannot be answered as it stands, and where it comes from."""
    yield f'<article class="sheet request">{top}'
    yield from subject(ask)
    yield f"{below}{facts(ask.language, origin(ask))}</article>"


def _main(body: Iterable[str], events: str, look: str = "") -> Iterator[str]:
    """The main part of a page, which may follow its request."""
    look = f' class="{look}"' if look else ""
    yield f"<main{look}" + (f' data-events="{shown(events)}">' if events else ">")
    yield from body
    yield "</main>"


def pending(
    ask: Ask,
    links: Links,
    seconds_left: float,
    error: str = "",
    values: Values | None = None,
) -> Iterator[str]:
    """Everything about a request that can be answered.

    `error` is the sentence why an answer was not taken, `values` what it had filled in.
    """
    answers = _Answers(ask, links, values or {})
    yield f'<article class="sheet request" data-id="{shown(ask.id)}">'
    yield answers.forms()
    yield head(ask, clock(ask, seconds_left))
    yield f'<p class="note" role="alert">{shown(error)}</p>' if error else ""
    yield from subject(ask, asked_below=answers.ask_questions)
    if ask.partial or ask.masked:
        yield _whole(ask, links["request"])
    yield answers.fields()
    yield answers.rows()
    yield answers.more()
    yield "</article>"


def head(ask: Ask, timing: str = "", title: str = "") -> str:
    """What it is and where; the time that is left."""
    where, html = ask.headline, Html(timing)
    return draw("head", title=title or ask.heading, where=where, timing=html)


def clock(ask: Ask, seconds_left: float) -> str:
    """The time left: a moment for all, a countdown where scripts run; and what then."""
    until = time.strftime("%H:%M:%S", time.localtime(ask.created + ask.seconds))
    left = text(ask.language, "{left} left")
    seconds, zero = f"{seconds_left:.1f}", at_zero(ask)
    told = {"seconds": seconds, "left": left, "until": until, "zero": zero}
    return draw("clock", ask.language, **told)


def subject(ask: Ask, asked_below: bool = False) -> Iterator[str]:
    """What is dangerous, what it is about, why it is asked.

    `asked_below`: its questions are asked by the fields that answer them.
    """
    lines = "".join(f'<p class="danger">{shown(line)}</p>' for line in ask.dangers)
    yield f'<div role="alert">{lines}</div>' if lines else ""
    yield from _blocks(ask, asked_below)
    who, words = ask.host or "Claude", ""
    if ask.why:
        words = said(ask.language, "{agent} said: {what}", agent=who, what=ask.why)
    yield f'<p class="why"{"" if words else " hidden"}>{words}</p>'


def _blocks(ask: Ask, asked_below: bool) -> Iterator[str]:
    for place, block in enumerate(ask.blocks):
        if ask.cut and place == CUT_FIRST:
            left_out = said(
                ask.language, "⚠ {count} more items are not shown", count=ask.cut
            )
            yield f'<p class="note">{left_out}</p>'
        if block.kind != DETAIL and not (asked_below and block.kind == "question"):
            yield from _block(ask, block)
    if not ask.blocks and not asked_below:
        yield f'<p class="muted">{shown(ask.empty)}</p>'


def _whole(ask: Ask, link: str) -> str:
    note = ""
    if ask.masked:
        note = said(
            ask.language, "⚠ Secrets are masked as ***: the full request shows them"
        )
    return draw("whole", ask.language, note=Html(note), link=link)


def origin(ask: Ask) -> tuple[Fact, ...]:
    """Where a request comes from, for people who look it up."""
    return (
        Fact(msg("Tool"), ask.tool),
        Fact(msg("Project"), ask.project),
        Fact(msg("Branch"), ask.branch),
        Fact(msg("Agent"), ask.agent),
        Fact(msg("Session"), f"{ask.session} {ask.session_title}".strip()),
        Fact(msg("Time"), moment(ask.created)),
        Fact(msg("Request"), ask.id),
    )


def _block(ask: Ask, block: Block) -> Iterator[str]:
    label = f"<h3>{shown(block.label)}</h3>" if block.label else ""
    tag, look = ("div", "prose ") if block.kind in PROSE else ("pre", "")
    yield f'<section class="block">{label}<{tag} class="{look}{escape(block.kind)}">'
    yield from _content(block.kind, block.text)
    if block.hidden:
        yield draw("gap", ask.language, count=block.hidden)
        yield from _content(block.kind, block.tail)
    yield f"</{tag}></section>"


def _content(kind: str, source: str) -> Iterator[str]:
    """A text as HTML in pieces; blocks come with everything visible.

    Each line of a diff is an element, so that a changed one is coloured to the edge.
    """
    if kind == MARKDOWN:
        yield from _plan(markdown.parse(source))
    elif kind != "diff" or source.count("\n") > MANY_LINES:
        yield from _pieces(source)
    else:
        for line in source.split("\n"):
            yield f'<span class="{LINE_LOOKS.get(line[:1], "same")}">'
            yield from _pieces(line or " ")
            yield "\n</span>"


def _plan(pieces: Iterable[markdown.Piece]) -> Iterator[str]:
    """The paragraphs of a plan, its items in lists; only we write its tags."""
    lists: list[tuple[int, str]] = []  # depth and tag of those that are open
    for piece in pieces:
        tag, start, end = _tags(piece)
        place = (piece.depth if tag else -1, tag)
        while lists and lists[-1][0] >= place[0] and lists[-1] != place:
            yield f"</li></{lists.pop()[1]}>"
        if tag and lists[-1:] != [place]:
            lists.append(place)
            yield f"<{tag}>"
        elif tag:
            yield "</li>"
        yield start
        for row in piece.rows:
            yield "<tr>"
            for cell in row:
                yield "<td>"
                yield from _spans(cell)
                yield "</td>"
            yield "</tr>"
        yield from _spans(piece.spans)
        yield end
    while lists:
        yield f"</li></{lists.pop()[1]}>"


def _tags(piece: markdown.Piece) -> tuple[str, str, str]:
    """The list that a paragraph belongs to, if any, and its own tags.

    An item is left open, since a list may follow in it.  A number that nobody counts
    to is a text, and so is a box.
    """
    if piece.kind in PIECES:
        return ("", *PIECES[piece.kind])
    if piece.kind == "code":
        label = f"<b>{shown(piece.mark)}</b>" if piece.mark else ""
        return "", f"<pre>{label}", "</pre>"
    digits = piece.mark.rstrip(".)")
    if digits.isdecimal() and len(digits) <= COUNTED:
        return "ol", f'<li value="{int(digits)}"><span>', "</span>"
    if piece.mark == markdown.BULLET:
        return "ul", "<li><span>", "</span>"
    return "ul", f'<li class="box"><span>{shown(piece.mark)} ', "</span>"


def _spans(spans: markdown.Spans) -> Iterator[str]:
    for look, source in spans:
        yield f"<{SPANS[look]}>" if look else ""
        yield from _pieces(source)
        yield f"</{SPANS[look]}>" if look else ""


def _pieces(source: str) -> Iterator[str]:
    for start in range(0, len(source), PIECE):
        yield escape(source[start : start + PIECE])


# What may be answered.


class _Answers:
    """The buttons and fields of one request, each in its place."""

    def __init__(self, ask: Ask, links: Links, values: Values) -> None:
        self._ask = ask
        self._links = links
        self._values = values
        layout = Layout(ask, ask.offered)
        self._choice, self._edit = layout.choice, layout.edit
        self._bar, self._row = layout.first, layout.second
        self._folded = layout.folded
        self.ask_questions = any(o.needs and o.fields for o in ask.offered)

    def forms(self) -> str:
        """What the buttons and fields belong to, wherever they stand."""
        if not self._ask.offered and not self._ask.hold:
            return ""
        own = hidden_fields(("id", self._ask.id), ("digest", self._ask.digest))
        return "".join(
            f'<form id="{name}" method="post">{own}</form>'
            for name in ("grant", "refuse")
        )

    def fields(self) -> str:
        """Those that an answer cannot do without, and the options of one question."""
        ask = self._ask
        choice = ask.choice(self._choice) if self._choice else None
        if choice is None or self._choice is None:
            needed = [o for o in ask.offered if o.needs or o.words]
            return "".join(self._fields_of(o) for o in needed if o != self._edit)
        link = self._links[self._choice.name]
        legend = f'<p class="legend">{_asked(ask.language, choice)}</p>'
        options = "".join(
            draw("choice", name=choice.name, **_told(option))
            for option in choice.options
        )
        return form(link, legend + options, "stack", ("digest", ask.digest))

    def rows(self) -> str:
        """The two buttons most people want, always on the screen; those beside them."""
        bar = "".join(map(self._button, self._bar))
        return draw("bar", buttons=Html(bar)) + self._pair(self._row)

    def _pair(self, offers: Sequence[Offer]) -> str:
        """Buttons of the second rank beside each other."""
        drawn = Html("".join(map(self._button, offers)))
        return draw("pair", buttons=drawn) if drawn else ""

    def more(self) -> str:
        """All that is wanted seldom, folded; open if something in it was filled in."""
        ask = self._ask
        parts: list[str] = []
        if self._choice:
            own_words = self._choice._replace(
                fields=tuple(name for name in self._choice.fields if "_other" in name)
            )
            parts += (self._fields_of(own_words), self._button(self._choice))
        parts += (
            self._fields_of(offer)
            for offer in ask.offered
            if not offer.needs and not offer.words
        )
        if self._edit:
            parts += (self._fields_of(self._edit), self._button(self._edit))
        parts.append(self._pair(self._folded))
        label = said(ask.language, "Hold")
        hold = self._draw("hold", "refuse", "plain", label) if ask.hold else ""
        parts += (f'<div class="hold">{hold}</div>', _rule_part(ask), _known(ask))
        parts.append(facts(ask.language, origin(ask)))
        state = " open" if self._values else ""
        return draw("more", ask.language, state=state, inside=Html("".join(parts)))

    def _button(self, offer: Offer) -> str:
        look = offer.look
        if look == YES and (self._ask.dangers or offer in self._folded):
            look = "plain"
        label = shown(offer.submit if offer.needs else offer.label)
        more = f' data-key="{shown(offer.key)}"' if offer.key else ""
        asks = offer.confirm or (offer.grants and self._ask.dangers)
        more += " data-asks" if asks else ""
        if offer == self._edit:
            more += f' data-edits="{said(self._ask.language, CHANGED)}"'
        return self._draw(offer.name, _owner_of(offer), look, label, more)

    def _draw(
        self, name: str, owner: str, look: str, label: str, more: str = ""
    ) -> str:
        path, _, query = self._links[name].partition("?")
        signature = dict(parse_qsl(query)).get("sig", "")
        owned = {"owner": owner, "path": path, "signature": signature}
        return draw("route", look=look, label=Html(label), more=Html(more), **owned)

    def _fields_of(self, offer: Offer) -> str:
        return _fields_of(self._ask, offer, self._values, _owner_of(offer))


def _owner_of(offer: Offer) -> str:
    """The form that a button and its fields belong to."""
    return "grant" if offer.grants else "refuse"


def _rule_part(ask: Ask) -> str:
    """The rule that "always" writes, or why there is none."""
    if not ask.rules and not ask.rule_note:
        return ""
    rules = "".join(map(exactly, ask.rules))
    return f'<div><p class="muted">{shown(rule_hint(ask))}</p>{rules}</div>'


def _known(ask: Ask) -> str:
    """What else is worth knowing."""
    lines = [
        said(ask.language, "{label}: {value}", label=row.label, value=row.text)
        for row in ask.details
    ]
    lines += map(shown, ask.facts)
    if ask.prompt:
        lines.insert(0, said(ask.language, "Working on: {what}", what=ask.prompt))
    items = "".join(f"<li>{line}</li>" for line in lines)
    return f'<ul class="plain-facts">{items}</ul>' if items else ""


# Fields.


def _fields_of(ask: Ask, offer: Offer, values: Values, owner: str) -> str:
    """The fields of a button; a choice and its `..._other` stand together."""
    fields = [field for field in ask.fields if field.name in offer.fields]
    own_words = {f"{field.name}_other" for field in fields}
    drawn, inside = "", ""
    for field in reversed(fields):
        if field.type in MULTIPLE:
            drawn = _choice(ask.language, field, values, inside, owner) + drawn
            inside = ""
        elif field.name in own_words:
            inside = _text_field(field, values, owner, "field own")
        else:
            drawn = _text_field(field, values, owner, "field") + drawn
    return drawn


def _text_field(field: Field, values: Values, owner: str, look: str) -> str:
    value = (values.get(field.name) or (field.value,))[0]
    # A browser takes one line end away behind the tag.
    kind, start = ("lines", "\n") if field.type == "lines" else ("text", "")
    about = {"name": field.name, "limit": str(field.limit), "hint": field.hint}
    typed = Html(start + escape(value))
    return draw(kind, look=look, label=field.label, owner=owner, value=typed, **about)


def _told(option: Option) -> dict[str, Html]:
    """What an option sends, and its words."""
    detail = f'<span class="muted">{shown(option.detail)}</span>'
    words = f"<b>{shown(option.value)}</b>" + (detail if option.detail else "")
    return {"value": Html(escape(option.value)), "words": Html(f"<span>{words}</span>")}


def _asked(language: str, field: Field) -> str:
    words = [field.heading] if field.heading else []
    if field.options:
        words.append(text(language, MULTIPLE[field.type]))
    chips = "".join(f'<span class="chip">{shown(word)}</span>' for word in words)
    return f"<span>{chips}</span>{shown(field.label)}"


def _choice(
    language: str, field: Field, values: Values, inside: str, owner: str
) -> str:
    first = (field.value,) if field.value else ()
    chosen = frozenset(map(in_form, values.get(field.name) or first))
    kind = "checkbox" if field.type == "many" else "radio"
    options = "".join(
        draw(
            "tick",
            kind=kind,
            owner=owner,
            name=field.name,
            checked=" checked" if in_form(option.value) in chosen else "",
            **_told(option),
        )
        for option in field.options
    )
    legend = f"<legend>{_asked(language, field)}</legend>"
    return f"<fieldset>{legend}{options}{inside}</fieldset>"


# Once it has ended.


def record_page(ask: Ask, outcome: Outcome, ways: Ways = NOWHERE) -> Iterator[bytes]:
    """A request's own page after its end: a record of its result."""
    lines = "".join(f"<p>{shown(line)}</p>" for line in outcome.lines)
    lines += _result_line(outcome)
    rows = (*outcome_facts(outcome), *end_facts(outcome), _ledger_fact(outcome))
    top = (
        f'{head(ask)}<div class="outcome {outcome.look}">{shown(outcome.done)}{lines}'
        f"</div>{facts(ask.language, rows)}{undo_form(outcome, ways.undo)}"
    )
    return frame(ask.language, ask.heading, _main(_article(ask, top), ways.events))


def result_page(
    language: str, receipt: Receipt, ask: Ask | None = None, ways: Ways = NOWHERE
) -> bytes:
    """The page after a tap. `ask` is what it was about, if that is still known."""
    outcome = receipt.outcome
    if receipt.status == SETTLED:
        heading = text(language, pmsg("page", "Done"))
        below = [f'<p class="done">{shown(outcome.done)}</p>']
        lines = [*outcome.lines, text(language, "You can close this page.")]
        look, sign = outcome.look, "check"
    elif receipt.status == ENDED:
        heading = _dated(outcome)
        when = f"{outcome.done} · {moment(outcome.ended)}"
        below = [f'<p class="line">{shown(when)}</p>']
        below.append(f'<p class="done">{said(language, INVALID)}</p>')
        lines, look, sign = [*outcome.lines], "late", "clock"
    else:
        return message_page(language, INVALID, text(language, NO_REQUEST))
    below.append(_result_line(outcome))
    below += [f'<p class="line">{shown(line)}</p>' for line in lines]
    if ways.revoke:
        below.append(link_form(ways.revoke, said(language, "Revoke"), "plain"))
    rows = outcome_facts(outcome)
    if receipt.status == ENDED:
        rows += end_facts(outcome)[1:]  # it is said above when
    if ask is not None:  # a short reminder of which request it was
        rows += (
            Fact(msg("Tool"), ask.tool),
            Fact(msg("Project"), ask.project_name),
            Fact(msg("Branch"), ask.branch),
        )
    rows += (_ledger_fact(outcome),)
    about = facts(language, rows) + _first_line(ask) + undo_form(outcome, ways.undo)
    return _verdict(language, heading, "".join(below), about, look, sign, ways.events)


def undone_page(language: str, outcome: Outcome) -> bytes:
    """The page after "undo"."""
    below, about = draw("undone", language), facts(language, outcome_facts(outcome))
    return _verdict(language, text(language, "Undone"), below, about, "good", "check")


def undo_form(outcome: Outcome, link: str) -> str:
    """The button that undoes what was written, where there is anything."""
    if not link or not outcome.undoable:
        return ""
    return link_form(link, said(outcome.language, "Undo"), "plain", "undo")


def _dated(outcome: Outcome) -> str:
    """What was done, and when, as a heading."""
    clock = time.strftime("%H:%M", time.localtime(outcome.ended))
    if outcome.language == "zh" and ALREADY in outcome.done:
        return outcome.done.replace(ALREADY, f"{ALREADY}于 {clock} ", 1)
    return text(outcome.language, "{done} at {time}", done=outcome.done, time=clock)


def _result_line(outcome: Outcome) -> str:
    """How the call went on; the script fills it in as soon as that is known."""
    look = outcome.result_look if outcome.result else ""
    gap = "" if outcome.result else " hidden"
    return draw("result", look=look, gap=gap, result=outcome.result)


def message_page(language: str, title: str, sentence: str) -> bytes:
    """A page with one sentence; `title` is a text key."""
    line = draw("line", line=sentence)
    return _verdict(language, text(language, title), line, "", "late", "ask")


def message(
    language: str, status: int, title: str, sentence: str, *headers: tuple[str, str]
) -> Response:
    """A page with one sentence; `title` is a text key."""
    return page(message_page(language, title, sentence), status, *headers)


def refusal(language: str, status: int, key: str) -> Response:
    """A page that says why not; `key` is the sentence's."""
    title = INVALID if key == NO_REQUEST else msg("This cannot be opened")
    return message(language, status, title, text(language, key))


def _verdict(
    language: str,
    heading: str,
    below: str,
    about: str,
    look: str,
    sign: str,
    events: str = "",
) -> bytes:
    body = (
        draw("verdict", icon=ICONS[sign], heading=heading, below=Html(below)),
        f'<section class="sheet stack">{about}</section>' if about else "",
    )
    return b"".join(frame(language, heading, _main(body, events, f"look-{look}")))


# For the scripts of open pages.


def outcome_box(look: str, title: str, lines: Iterable[str] = ()) -> str:
    """How a request ended, in the place of its buttons."""
    below = "".join(f"<p>{shown(line)}</p>" for line in lines)
    return f'<div class="outcome {look}" role="status">{shown(title)}{below}</div>'


def live_json(outcome: Outcome) -> dict[str, Any]:
    """What a page that is open gets to know of the end of its request."""
    result = (outcome.result,) if outcome.result else ()
    return {
        "html": _ended(outcome, outcome.look, outcome.done, end_facts(outcome), result),
        "result": outcome.result,
        "result_look": outcome.result_look,
        "undone": [visible(rule) for rule in outcome.undone],
    }


def result_json(language: str, receipt: Receipt) -> dict[str, Any]:
    """What the inbox shows in the place of a request's buttons."""
    outcome = receipt.outcome
    if receipt.status == SETTLED:
        return {"over": True, "html": _ended(outcome, outcome.look, outcome.done)}
    if receipt.status == ENDED:
        title = f"{text(language, INVALID)} · {outcome.done}"
        box = _ended(outcome, "late", title, end_facts(outcome))
        return {"over": True, "html": box}
    title = receipt.error or text(language, NO_REQUEST)
    return {"over": not receipt.error, "html": outcome_box("late", title)}


def _ended(
    outcome: Outcome,
    look: str,
    title: str,
    more: tuple[Fact, ...] = (),
    last: tuple[str, ...] = (),
) -> str:
    """How a request ended, with everything that is to be said about it."""
    language = outcome.language
    undone = " · " + text(language, "Undone")
    lines = (
        f"{text(language, row.label)}: {row.value}{undone if row.struck else ''}"
        for row in (*outcome_facts(outcome), *more)
        if row.value
    )
    return outcome_box(look, title, (*outcome.lines, *lines, *last))


# Facts about a decision.


def outcome_facts(outcome: Outcome) -> tuple[Fact, ...]:
    """What came with a decision."""
    return (
        Fact(msg("Ran instead"), outcome.ran, True),
        *(Fact(pmsg("fact", "Answer"), answer) for answer in outcome.answers),
        *_rules(outcome.rules, outcome.undone),
        Fact(msg("Reason"), outcome.reason),
    )


def _rules(rules: tuple[str, ...], undone: tuple[str, ...] = ()) -> Iterator[Fact]:
    return (Fact(msg("Rule"), rule, True, rule in undone) for rule in rules)


def _ledger_fact(outcome: Outcome) -> Fact:
    """Where the ledger stood after it: `log verify --head` takes that."""
    return Fact(msg("Ledger"), outcome.head)


def end_facts(outcome: Outcome) -> tuple[Fact, ...]:
    """When and where it ended, for people who did not do it."""
    surface = surface_name(outcome.language, outcome.surface)
    return (
        Fact(msg("Settled at"), moment(outcome.ended)),
        Fact(msg("Settled by"), " · ".join(filter(None, (outcome.who, surface)))),
    )


def surface_name(language: str, surface: str) -> str:
    """Where somebody decided, in words."""
    return text(language, SURFACES.get(surface, surface))


def _first_line(ask: Ask | None) -> str:
    """Of what was asked, to recognise it by."""
    if ask is None or not ask.blocks or ask.blocks[0].kind in WORDY:
        return ""
    subject = one_line(ask.blocks[0].text, SUBJECT_LENGTH)
    return f'<code class="rule">{escape(subject)}</code>'
