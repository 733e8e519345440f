"""The pieces that a request is drawn from: head, blocks, fields, buttons.

A link is `allow?id=...&sig=...`.  A button posts the query of its link as form fields
to its path; the inbox's script posts the same form, so an answer always arrives in one
shape.  Each button is a form of its own with the fields it takes along, so that Enter
in one of them can only mean that button.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape

from feishuperm.handlers.pages.layout import (
    Fact,
    exactly,
    facts,
    form,
    moment,
    said,
    shown,
)
from feishuperm.lib import markdown
from feishuperm.lib.feishu import at_zero
from feishuperm.messages import msg, text
from feishuperm.models.ask import (
    CUT_FIRST,
    FOREVER,
    NO,
    STOP,
    WHILE,
    YES,
    Ask,
    Block,
    Field,
    Offer,
    Option,
)
from feishuperm.models.form import in_form

Values = Mapping[str, Sequence[str]]
Links = Mapping[str, str]  # by the name of the action

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
SPANS = {"bold": "b", "code": "code"}
COUNTED = 6  # digits of an item's number
PIECE = 50_000  # characters made into HTML at a time: about a millisecond
MANY_LINES = 20_000  # of a text whose lines are coloured; beyond, it is one colour
# The parts of a page's foot, and how the buttons look that stand there.
GROUPS = {
    "agree": (YES,),
    "refuse": (NO, STOP),
    "while": (WHILE,),
    "lasting": (FOREVER,),
}
MULTIPLE = {"one": msg("Choose one"), "many": msg("Choose any")}


# What is asked.


def followed(events: str) -> str:
    """The attribute by which a page's script follows its request."""
    return f' data-events="{shown(events)}"' if events else ""


def sheet(ask: Ask, body: Iterable[str], events: str = "") -> Iterator[str]:
    """The main part of a page about one request, which may follow it."""
    yield f'<main{followed(events)}><article class="sheet stack">'
    yield from body
    below = facts(ask.language, _origin(ask))
    yield f'</article><section class="sheet">{below}</section></main>'


def _origin(ask: Ask) -> tuple[Fact, ...]:
    return (
        Fact(msg("Project"), ask.project),
        Fact(msg("Branch"), ask.branch),
        Fact(msg("Agent"), ask.agent),
        Fact(msg("Session"), ask.session),
        Fact(msg("Time"), moment(ask.created)),
        Fact(msg("Request"), ask.id),
    )


def head(ask: Ask, title: str, clock: str = "") -> str:
    branch = f" · {ask.branch}" if ask.branch else ""
    return (
        f'<header class="head"><div><h1>{shown(title)}</h1>'
        f'<p class="where">{shown(ask.project_name + branch)}</p></div>{clock}'
        f'</header><p><span class="tool">{shown(ask.tool)}</span></p>'
    )


def clock(ask: Ask, seconds_left: float | None = None, below: str = "") -> str:
    """The time left: a moment for all, a countdown where scripts run; and what then.

    The inbox's script is told what is left apart, since a card is drawn once.
    """
    until = time.strftime("%H:%M:%S", time.localtime(ask.created + ask.seconds))
    left = f' data-seconds="{ask.seconds}"'
    if seconds_left is not None:
        left = f' data-left="{seconds_left:.1f}"'
    return (
        f'<div class="timing"><span class="clock" role="timer"{left} data-text="'
        + said(ask.language, "{left} left")
        + '" data-over="'
        + said(ask.language, "Time is over")
        + '">'
        + said(ask.language, "Decide before {until}", until=until)
        + f'</span><span class="zero">{shown(at_zero(ask))}</span>{below}</div>'
    )


def blocks(
    ask: Ask, offers: Sequence[Offer] = (), known: str | None = None
) -> Iterator[str]:
    """What the request is about; questions are left to the `offers` that ask them.

    `known` is what stands behind the first block instead of `about`.
    """
    known = about(ask) if known is None else known
    asked = any(offer.needs and offer.fields for offer in offers)
    for place, block in enumerate(ask.blocks):
        if ask.cut and place == CUT_FIRST:
            left_out = said(
                ask.language, "⚠ {count} more items are not shown", count=ask.cut
            )
            yield f'<p class="note">{left_out}</p>'
        if not (asked and block.kind == "question"):
            yield from _block(ask, block)
        if not place:
            yield known
    if not ask.blocks:
        yield known if asked else f'<p class="muted">{shown(ask.empty)}</p>{known}'


def about(ask: Ask) -> str:
    """What has to be known of it: what is dangerous, why it is asked, what it does."""
    dangers = "".join(f'<p class="danger">{shown(line)}</p>' for line in ask.dangers)
    plain = "".join(f"<li>{shown(line)}</li>" for line in ask.facts)
    return (
        (f'<div role="alert">{dangers}</div>' if dangers else "")
        + _words(ask, "why", ask.why)
        + _words(ask, "prompt", ask.prompt)
        + (f'<ul class="plain-facts">{plain}</ul>' if plain else "")
    )


WORDS = {"why": msg("Claude said:"), "prompt": msg("Working on:")}


def _words(ask: Ask, name: str, words: str) -> str:
    if not words:
        return ""
    label = said(ask.language, WORDS[name])
    return f'<p class="{name}"><span>{label}</span> {shown(words)}</p>'


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
    """The paragraphs of a plan, its items in lists."""
    lists: list[tuple[int, str]] = []  # depth and tag of those that are open
    for piece in pieces:
        tag = _list_tag(piece)
        place = (piece.depth if tag else -1, tag)
        while lists and lists[-1][0] >= place[0] and lists[-1] != place:
            yield f"</li></{lists.pop()[1]}>"
        if tag and lists[-1:] != [place]:
            lists.append(place)
            yield f"<{tag}>"
        elif tag:
            yield "</li>"
        yield from _piece(piece)
    while lists:
        yield f"</li></{lists.pop()[1]}>"


def _list_tag(piece: markdown.Piece) -> str:
    """The kind of list that an item belongs to; empty: it is no item."""
    if piece.kind != "item":
        return ""
    return "ol" if _item_number(piece) is not None else "ul"


def _item_number(piece: markdown.Piece) -> int | None:
    """What an item is counted as; a number that nobody counts to is a text."""
    digits = piece.mark.rstrip(".)")
    return int(digits) if digits.isdecimal() and len(digits) <= COUNTED else None


def _item_mark(piece: markdown.Piece) -> str:
    """What stands before an item's words: a box, if it has one."""
    drawn = piece.mark == markdown.BULLET or _item_number(piece) is not None
    return "" if drawn else f"{piece.mark} "


def _item(piece: markdown.Piece) -> tuple[str, str]:
    """The tags of an item, which is left open: a list may follow in it."""
    number, mark = _item_number(piece), _item_mark(piece)
    value = "" if number is None else f' value="{number}"'
    look = ' class="box"' if mark else ""
    return f"<li{value}{look}><span>{shown(mark)}", "</span>"


def _piece(piece: markdown.Piece) -> Iterator[str]:
    """A paragraph of a plan; only we write its tags."""
    start, end = _tags(piece)
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


def _tags(piece: markdown.Piece) -> tuple[str, str]:
    if piece.kind == "table":
        return "<table>", "</table>"
    if piece.kind == "rule":
        return "<hr>", ""
    if piece.kind == "item":
        return _item(piece)
    if piece.kind == "code":
        label = f"<b>{shown(piece.mark)}</b>" if piece.mark else ""
        return f"<pre>{label}", "</pre>"
    tag = HEADINGS.get(piece.kind, "div")
    return f'<{tag} class="{PIECES[piece.kind]}">', f"</{tag}>"


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


def buttons(
    ask: Ask,
    links: Links,
    offers: Sequence[Offer],
    values: Values | None = None,
    in_inbox: bool = False,
) -> str:
    """What lets it happen first, the refusals apart from it, what outlives it last.

    In the inbox a button has its key, and opens its page if a press is not enough.
    """
    drawn = {
        look: "".join(
            _form(ask, offer, links[offer.name], values or {}, in_inbox)
            for offer in offers
            if offer.look in looks
        )
        for look, looks in GROUPS.items()
    }
    refusals, lasting = drawn["refuse"], drawn["lasting"]
    parts = [drawn["agree"]]
    if refusals:
        parts.append(f'<div class="refuse"><div class="pair">{refusals}</div></div>')
    if drawn["while"]:
        parts.append(f'<div class="while pair">{drawn["while"]}</div>')
    if lasting:
        rules = "".join(map(exactly, ask.rules))
        parts.append(
            f'<div class="lasting"><p class="muted">{shown(rule_hint(ask))}</p>'
            f"{rules}{lasting}</div>"
        )
    return f'<div class="actions">{"".join(parts)}</div>'


def rule_hint(ask: Ask) -> str:
    """The sentence above the rules, or why there are none."""
    if ask.rule_note and not ask.rules:
        return text(ask.language, "No rule will be written: {why}", why=ask.rule_note)
    # With a note it is not true that nobody asks any more.
    hint = (
        msg("Writes this rule for the project:")
        if ask.rule_note
        else msg("Never ask again; writes this rule for the project:")
    )
    return " ".join((ask.rule_note, text(ask.language, hint))).strip()


def _form(ask: Ask, offer: Offer, link: str, values: Values, in_inbox: bool) -> str:
    """One button with all it sends; a single choice has one for each option too."""
    label = offer.submit if offer.needs else offer.label
    digest = ("digest", ask.digest)
    choice, first = ask.choice(offer), ""
    if choice is not None and not (in_inbox and offer.confirm):
        legend = f'<p class="legend">{_asked(ask.language, choice)}</p>'
        options = "".join(_option_button(choice, option) for option in choice.options)
        first = form(link, legend + options, "stack", digest)
        offer = offer._replace(fields=(f"{choice.name}_other",))
    key = f' data-key="{shown(offer.key)}"' if in_inbox and offer.key else ""
    if in_inbox and opens_page(offer):
        return first + open_link(offer.look, link, shown(offer.label), key)
    button = f'<button class="{escape(offer.look)}"{key}>{shown(label)}</button>'
    drawn = first + form(link, _fields(ask, offer, values) + button, "stack", digest)
    if not ask.edits(offer):
        return drawn
    # It is wanted seldom; what was typed and not taken is seen again at once.
    state = " open" if offer.fields[0] in values else ""
    return f"<details{state}><summary>{shown(label)}</summary>{drawn}</details>"


def opens_page(offer: Offer) -> bool:
    """Whether the inbox has no room for all a button needs: words, or own answers."""
    has_own_words = any(name.endswith("_other") for name in offer.fields)
    return bool(offer.confirm) or (offer.needs and has_own_words)


def open_link(look: str, link: str, label: str, key: str = "") -> str:
    """A link that looks like a button; `label` and `key` are HTML."""
    return f'<a class="button {look}" href="{shown(link)}"{key}>{label}</a>'


def _option_button(field: Field, option: Option) -> str:
    return (
        f'<button class="option" name="{shown(field.name)}"'
        f' value="{escape(option.value)}">{_option_words(option)}</button>'
    )


def _option_words(option: Option) -> str:
    detail = f'<span class="muted">{shown(option.detail)}</span>'
    words = f"<b>{shown(option.value)}</b>" + (detail if option.detail else "")
    return f"<span>{words}</span>"


# Fields.


def _fields(ask: Ask, offer: Offer, values: Values) -> str:
    """The fields of a button; a choice and its `..._other` stand together."""
    fields = [field for field in ask.fields if field.name in offer.fields]
    own_words = {f"{field.name}_other" for field in fields}
    drawn, inside = "", ""
    for field in reversed(fields):
        if field.type in MULTIPLE:
            drawn = _choice(ask.language, field, values, inside) + drawn
            inside = ""
        elif field.name in own_words:
            inside = _text_field(field, values, "field own")
        else:
            drawn = _text_field(field, values) + drawn
    return drawn


def _text_field(field: Field, values: Values, look: str = "field") -> str:
    value = (values.get(field.name) or (field.value,))[0]
    name = (
        f'name="{shown(field.name)}" maxlength="{field.limit}" autocomplete="off"'
        f' placeholder="{shown(field.hint)}"'
    )
    drawn = f'<input type="text" {name} value="{escape(value)}">'
    if field.type == "lines":
        # A browser takes one line end away behind the tag.
        drawn = f'<textarea {name} spellcheck="false">\n{escape(value)}</textarea>'
    return f'<label class="{look}">{shown(field.label)}{drawn}</label>'


def _asked(language: str, field: Field) -> str:
    words = [field.heading] if field.heading else []
    if field.options:
        words.append(text(language, MULTIPLE[field.type]))
    chips = "".join(f'<span class="chip">{shown(word)}</span>' for word in words)
    return f"<span>{chips}</span>{shown(field.label)}"


def _choice(language: str, field: Field, values: Values, inside: str) -> str:
    first = (field.value,) if field.value else ()
    chosen = frozenset(map(in_form, values.get(field.name) or first))
    kind = "checkbox" if field.type == "many" else "radio"
    options = "".join(
        f'<label class="option"><input type="{kind}" name="{shown(field.name)}"'
        f' value="{escape(option.value)}"'
        f"{' checked' if in_form(option.value) in chosen else ''}>"
        f"{_option_words(option)}</label>"
        for option in field.options
    )
    legend = f"<legend>{_asked(language, field)}</legend>"
    return f"<fieldset>{legend}{options}{inside}</fieldset>"
