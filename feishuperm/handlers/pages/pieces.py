"""How a request is drawn: what is asked, and what may be answered.

The same HTML is the body of a request's page and what the inbox shows beside its list.
At rest it is what a decision needs, in the order of the card; all else is folded below
"More".

A request has two forms, one whose buttons let something happen and one whose buttons
refuse, so that Enter in a field never means the opposite.  A button names its route and
its signature, and stands where it is wanted: the first of each form in a bar that stays
at the bottom of the screen.  With a command also comes what somebody made of it: nobody
changes a command and has the old one run.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape
from urllib.parse import parse_qsl

from feishuperm.handlers.pages.layout import (
    Fact,
    exactly,
    facts,
    form,
    hidden_fields,
    moment,
    said,
    shown,
)
from feishuperm.lib import markdown
from feishuperm.lib.feishu import CHANGED, at_zero, rule_hint
from feishuperm.messages import msg, text
from feishuperm.models.ask import (
    CUT_FIRST,
    DETAIL,
    YES,
    Ask,
    Block,
    Field,
    Layout,
    Offer,
    Option,
)
from feishuperm.models.form import in_form

Values = Mapping[str, Sequence[str]]
Links = Mapping[str, str]  # by the name of the action; a path and its query

# Lines of a block that look different, by their first character.
LINE_LOOKS = {
    "diff": {"+": "add", "-": "del", "@": "hunk"},
}
MARKDOWN = "markdown"
PROSE = (MARKDOWN, "question", "text")
# How the pieces and spans of a plan are drawn.  Its headings stand below the page's.
HEADINGS = {f"h{level}": f"h{level + 2}" for level in range(1, 5)}
PIECES = {
    **{f"h{level}": f"md h{level}" for level in range(1, 5)},
    "text": "md",
    "quote": "md quote",
}
SIMPLE = {"table": ("<table>", "</table>"), "rule": ("<hr>", "")}
SPANS = {"bold": "b", "code": "code"}
COUNTED = 6  # digits of an item's number
PIECE = 50_000  # characters made into HTML at a time: about a millisecond
MANY_LINES = 20_000  # of a text whose lines are coloured; beyond, it is one colour
MULTIPLE = {"one": msg("Choose one"), "many": msg("Choose any")}


# A pending request.


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
    yield answers.bar()
    yield answers.second_row()
    yield answers.more()
    yield "</article>"


def head(ask: Ask, timing: str = "", title: str = "") -> str:
    """What it is and where; the time that is left."""
    return (
        f'<header class="head"><div><h1>{shown(title or ask.heading)}</h1>'
        f'<p class="where">{shown(ask.headline)}</p></div>{timing}</header>'
    )


def clock(ask: Ask, seconds_left: float) -> str:
    """The time left: a moment for all, a countdown where scripts run; and what then."""
    until = time.strftime("%H:%M:%S", time.localtime(ask.created + ask.seconds))
    return (
        f'<div class="timing"><span class="clock" role="timer"'
        f' data-left="{seconds_left:.1f}" data-text="'
        + said(ask.language, "{left} left")
        + '" data-over="'
        + said(ask.language, "Time is over")
        + '">'
        + said(ask.language, "Decide before {until}", until=until)
        + f'</span><span class="zero">{shown(at_zero(ask))}</span></div>'
    )


def subject(ask: Ask, asked_below: bool = False) -> Iterator[str]:
    """What is dangerous, what it is about, why it is asked.

    `asked_below`: its questions are asked by the fields that answer them.
    """
    lines = "".join(f'<p class="danger">{shown(line)}</p>' for line in ask.dangers)
    yield f'<div role="alert">{lines}</div>' if lines else ""
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
    words = said(ask.language, "Claude said: {what}", what=ask.why) if ask.why else ""
    yield f'<p class="why"{"" if words else " hidden"}>{words}</p>'


def _whole(ask: Ask, link: str) -> str:
    note = ""
    if ask.masked:
        note = said(
            ask.language, "⚠ Secrets are masked as ***: the full request shows them"
        )
    label = said(ask.language, "See the whole request")
    return (
        f'<p class="muted">{note}</p>'
        f'<a class="button plain" href="{shown(link)}">{label}</a>'
    )


def origin(ask: Ask) -> tuple[Fact, ...]:
    """Where a request comes from, for people who look it up."""
    return (
        Fact(msg("Tool"), ask.tool),
        Fact(msg("Project"), ask.project),
        Fact(msg("Branch"), ask.branch),
        Fact(msg("Agent"), ask.agent),
        Fact(msg("Session"), ask.session),
        Fact(msg("Time"), moment(ask.created)),
        Fact(msg("Request"), ask.id),
    )


def _block(ask: Ask, block: Block) -> Iterator[str]:
    label = f"<h3>{shown(block.label)}</h3>" if block.label else ""
    tag, look = ("div", "prose ") if block.kind in PROSE else ("pre", "")
    yield f'<section class="block">{label}<{tag} class="{look}{escape(block.kind)}">'
    yield from _content(block.kind, block.text)
    if block.hidden:
        left_out = said(
            ask.language, "… ({count} characters left out here) …", count=block.hidden
        )
        yield f'<span class="gap">{left_out}</span>'
        yield from _content(block.kind, block.tail)
    yield f"</{tag}></section>"


def _content(kind: str, source: str) -> Iterator[str]:
    if kind == MARKDOWN:
        return _plan(markdown.parse(source))
    return _lines(source, LINE_LOOKS.get(kind))


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
    if piece.kind in SIMPLE:
        return ("", *SIMPLE[piece.kind])
    if piece.kind == "code":
        label = f"<b>{shown(piece.mark)}</b>" if piece.mark else ""
        return "", f"<pre>{label}", "</pre>"
    if piece.kind != "item":
        tag = HEADINGS.get(piece.kind, "div")
        return "", f'<{tag} class="{PIECES[piece.kind]}">', f"</{tag}>"
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


def _lines(source: str, looks: Mapping[str, str] | None) -> Iterator[str]:
    """A text as HTML in pieces; blocks come with everything visible.

    Where lines have looks, each is an element, so that a changed one is coloured to the
    edge.
    """
    if not looks or source.count("\n") > MANY_LINES:
        yield from _pieces(source)
        return
    for line in source.split("\n"):
        yield f'<span class="{looks.get(line[:1], "same")}">'
        yield from _pieces(line or " ")
        yield "\n</span>"


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
        needed = [o for o in ask.offered if (o.needs or o.words) and o != self._edit]
        if self._choice is None:
            return "".join(map(self._fields_of, needed))
        choice = ask.choice(self._choice)
        assert choice is not None
        link = self._links[self._choice.name]
        legend = f'<p class="legend">{_asked(ask.language, choice)}</p>'
        options = "".join(_option_button(choice, option) for option in choice.options)
        return form(link, legend + options, "stack", ("digest", ask.digest))

    def bar(self) -> str:
        """The two buttons that most people want, always on the screen."""
        drawn = "".join(map(self._button, self._bar))
        return f'<div class="bar">{drawn}<p class="told" role="alert"></p></div>'

    def second_row(self) -> str:
        drawn = "".join(map(self._button, self._row))
        return f'<div class="pair">{drawn}</div>' if drawn else ""

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
        if self._folded:
            drawn = "".join(map(self._button, self._folded))
            parts.append(f'<div class="pair">{drawn}</div>')
        parts += (self._hold(), _rules(ask), _known(ask))
        parts.append(facts(ask.language, origin(ask)))
        state = " open" if self._values else ""
        summary = said(ask.language, "More")
        return (
            f'<details class="more"{state}><summary>{summary}</summary>'
            f'<div class="stack">{"".join(parts)}</div></details>'
        )

    def _hold(self) -> str:
        """The button that stops the clock for a person who reads."""
        button = ""
        if self._ask.hold:
            label = said(self._ask.language, "Hold")
            button = self._draw("hold", "refuse", "plain", label)
        return f'<div class="hold">{button}</div>'

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
        return self._draw(offer.name, owner_of(offer), look, label, more)

    def _draw(
        self, name: str, owner: str, look: str, label: str, more: str = ""
    ) -> str:
        path, _, query = self._links[name].partition("?")
        signature = dict(parse_qsl(query)).get("sig", "")
        return (
            f'<button class="{escape(look)}" form="{owner}" formaction="{shown(path)}"'
            f' name="sig" value="{shown(signature)}"{more}>{label}</button>'
        )

    def _fields_of(self, offer: Offer) -> str:
        return fields_of(self._ask, offer, self._values, owner_of(offer))


def owner_of(offer: Offer) -> str:
    """The form that a button and its fields belong to."""
    return "grant" if offer.grants else "refuse"


def _rules(ask: Ask) -> str:
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


def fields_of(ask: Ask, offer: Offer, values: Values, owner: str) -> str:
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
    name = (
        f'form="{owner}" name="{shown(field.name)}" maxlength="{field.limit}"'
        f' autocomplete="off" placeholder="{shown(field.hint)}"'
    )
    drawn = f'<input type="text" {name} value="{escape(value)}">'
    if field.type == "lines":
        # A browser takes one line end away behind the tag.
        drawn = f'<textarea {name} spellcheck="false">\n{escape(value)}</textarea>'
    return f'<label class="{look}">{shown(field.label)}{drawn}</label>'


def _option_button(field: Field, option: Option) -> str:
    return (
        f'<button class="option" name="{shown(field.name)}"'
        f' value="{escape(option.value)}">{_option_words(option)}</button>'
    )


def _option_words(option: Option) -> str:
    detail = f'<span class="muted">{shown(option.detail)}</span>'
    words = f"<b>{shown(option.value)}</b>" + (detail if option.detail else "")
    return f"<span>{words}</span>"


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
        f'<label class="option"><input type="{kind}" form="{owner}"'
        f' name="{shown(field.name)}" value="{escape(option.value)}"'
        f"{' checked' if in_form(option.value) in chosen else ''}>"
        f"{_option_words(option)}</label>"
        for option in field.options
    )
    legend = f"<legend>{_asked(language, field)}</legend>"
    return f"<fieldset>{legend}{options}{inside}</fieldset>"
