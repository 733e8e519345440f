"""The inbox: its page, and the same pieces of it as fragments for its script.

A request is drawn once, as HTML: the page holds it for browsers without scripts, and
the script swaps in what is new or has changed.  Each request is cut to a size; one that
was cut offers no button that grants: that is for the request's own page, one tap away.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from feishuperm.handlers.pages.layout import (
    INBOX,
    INBOX_SCRIPT,
    Fact,
    exactly,
    facts,
    fill,
    frame,
    link_form,
    moment,
    said,
    shown,
)
from feishuperm.handlers.pages.pieces import (
    MARKDOWN,
    Links,
    about,
    blocks,
    buttons,
    clock,
    open_link,
)
from feishuperm.handlers.pages.request import outcome_box, surface_name, undo_form
from feishuperm.lib.markdown import parse
from feishuperm.messages import msg, text
from feishuperm.models.ask import Ask, Block, Outcome, fit, last_name
from feishuperm.models.kind import KINDS
from feishuperm.models.request import Request
from feishuperm.services.grants import Pass, Passes
from feishuperm.services.web_access import Session

ITEM_LENGTH = 16_000  # characters of all blocks of a request
ROW_LENGTH = 120  # characters of a request in the list of a wide screen
# What the script says by itself.
TEXTS = {
    "inbox.live": msg("Live"),
    "inbox.lost": msg("Disconnected, reconnecting"),
    "inbox.expand": msg("Show all {lines} lines"),
    "inbox.collapse": msg("Show less"),
    "inbox.hidden": msg("… {lines} lines not shown …"),
    "inbox.sending": msg("Sending…"),
    "inbox.failed": msg("It was not sent. Please try again"),
    "inbox.arrived": msg("New request: {what}"),
    "inbox.settled": msg("Settled: {what}"),
    "inbox.ended": msg("No longer waiting"),
    "page.name": msg("Claude Code permission requests"),
}
# Keys that are no button's; those follow from `KINDS`.
KEYS = (
    ("1 9", msg("choose an option by its place")),
    ("r", msg("type a reason for denying")),
    ("Enter", msg("show all or less, open question")),
    ("?", msg("show or close this help")),
)
# The buttons that a person without a keyboard wants explained.
EXPLAINED = (
    (msg("Allow"), msg("lets this one call run")),
    (
        msg("Always allow"),
        msg("lets it run and writes the rule shown: it is not asked again"),
    ),
    (msg("Deny"), msg("refuses this one; a reason you type reaches Claude")),
    (msg("Deny and interrupt"), msg("refuses, and ends Claude's turn")),
    (msg("Answer"), msg("opens the question to be answered")),
    (msg("Hold"), msg("stops the clock while you read (with PERMISSION_HOLD)")),
)
# The blanks of inbox.html.
WORDS = {
    "title": msg("Inbox"),
    "live": msg("Live"),
    "help": msg("Help"),
    "help_close": msg("Close"),
    "noscript": msg("Live updates need JavaScript. Waiting requests:"),
    "waiting": msg("Waiting"),
    "ring": msg("Ring"),
    "notify": msg("Desktop notices"),
    "none": msg("Nothing is waiting"),
    "none_hint": msg(
        "When Claude Code needs a permission, asks a question or presents a "
        "plan, it appears here at once."
    ),
}
MOVES = ("j k ↓ ↑", msg("select a request"))


# Pending requests.


class Item(NamedTuple):
    """A pending request, drawn once."""

    card: str
    row: str  # its line in the list of a wide screen
    why: str = ""  # as it is drawn: it may be known a little later
    hold: bool = False  # drawn with the button that stops its clock

    def is_fresh(self, request: Request) -> bool:
        """Whether nothing that is drawn has changed since."""
        return self.why == request.why and not (self.hold and request.extended)


def make_item(ask: Ask, links: Links) -> Item:
    """One pending request. `links` has each offer by name, "request" and "hold"."""
    ask = fit(ask, ITEM_LENGTH)
    return Item(_card(ask, links), _row(ask), ask.why, ask.hold)


def _card(ask: Ask, links: Links) -> str:
    known = about(ask)
    known = f'<div class="about stack"{"" if known else " hidden"}>{known}</div>'
    asked_here = [offer for offer in ask.offered if ask.choice(offer)]
    note = (
        '<p class="note">'
        + said(ask.language, "⚠ Secrets are masked as ***: the full request shows them")
        + "</p>"
    )
    return "".join(
        (
            _head(ask, clock(ask, below=_hold(ask, links) if ask.hold else "")),
            *blocks(ask, asked_here, known),
            note if ask.masked else "",
            _more(ask, links["request"]),
            buttons(ask, links, ask.offered, in_inbox=True),
            "</div></article>",
        )
    )


def _head(ask: Ask, timing: str) -> str:
    name = _name(ask)
    label = f"{ask.heading}: {name}, {ask.project_name}"
    return (
        f'<article class="sheet item stack" id="request-{shown(ask.id)}" tabindex="-1"'
        f' aria-label="{shown(label)}"'
        f' data-news="{shown(f"{name} · {ask.project_name}")}">'
        f'<header class="head"><div><span class="tool">{shown(name)}</span>'
        f'<p class="where">{_where(ask)}</p></div>{timing}</header>'
        f'<div class="bar"><i></i></div><div class="body stack">'
    )


def _hold(ask: Ask, links: Links) -> str:
    """The button that stops the clock for a person who reads."""
    return link_form(links["hold"], said(ask.language, "Hold"), "link", "hold")


def _more(ask: Ask, link: str) -> str:
    """The way to the request's page; the script hides it where all is shown here."""
    look = "link" if ask.partial or ask.masked else "link more"
    return open_link(look, link, said(ask.language, "See the whole request"))


def _name(ask: Ask) -> str:
    """What a request is called: its tool, or what else waits for a person."""
    kind = KINDS[ask.kind]
    if kind.of_a_call:
        return ask.tool
    return ask.heading if kind.noun else f"{ask.heading} · {ask.tool}"


def _where(ask: Ask) -> str:
    return shown(" · ".join(filter(None, (ask.project_name, ask.branch, ask.agent))))


def _row(ask: Ask) -> str:
    line = shown(_subject(ask).partition("\n")[0][:ROW_LENGTH])
    return (
        f'<a class="button plain{" risky" if ask.dangers else ""}"'
        f' href="#request-{shown(ask.id)}"><span class="row"><b>{shown(_name(ask))}</b>'
        f'<span class="left"></span></span>{f"<code>{line}</code>" if line else ""}'
        f'<span class="muted">{_where(ask)}</span></a>'
    )


def _subject(ask: Ask) -> str:
    """The beginning of what is asked; a single choice asks the question itself."""
    choice = next(filter(None, map(ask.choice, ask.offered)), None)
    drawn = (row for row in ask.blocks if not (choice and row.kind == "question"))
    block = next(drawn, Block())
    if block.kind == MARKDOWN:
        first = next(parse(block.text), None)
        return "".join(span.text for span in first.spans) if first else ""
    return block.text or (choice.label if choice else "")


# Settled requests.


def ended_box(outcome: Outcome) -> str:
    """What the card of a request says that was settled elsewhere."""
    surface = surface_name(outcome.language, outcome.surface)
    return outcome_box(outcome.look, outcome.done, filter(None, [surface]))


def recent_list(language: str, rows: Iterable[tuple[Outcome, str]]) -> str:
    """The section of settled requests, each with the link that undoes its rules."""
    items = "".join(_recent(*row) for row in rows)
    title = said(language, "Recently settled")
    return (
        f'<section aria-labelledby="recent-title" id="recent-part"{_unless(items)}>'
        f'<h2 class="section" id="recent-title">{title}</h2>'
        f'<ul class="sheet recent" id="recent">{items}</ul></section>'
    )


def _recent(outcome: Outcome, undo: str) -> str:
    parts = [
        f'<div class="row"><span>{shown(outcome.summary)}</span>'
        f'<span class="done-{outcome.look}">{shown(outcome.done)}</span></div>'
    ]
    if outcome.detail:
        parts.append(f'<code class="detail">{shown(outcome.detail)}</code>')
    parts.append(_muted(_when_and_where(outcome)))
    if outcome.result:
        look = f"done-{outcome.result_look}"
        parts.append(f'<p class="{look}">{shown(outcome.result)}</p>')
    if outcome.ran:
        parts.append(exactly(outcome.ran))
    parts += (exactly(rule, rule in outcome.undone) for rule in outcome.rules)
    parts.append(undo_form(outcome, undo, "plain small"))
    parts += map(_muted, _notes(outcome))
    return f"<li>{''.join(parts)}</li>"


def _when_and_where(outcome: Outcome) -> str:
    ended = time.strftime("%H:%M:%S", time.localtime(outcome.ended))
    surface = surface_name(outcome.language, outcome.surface)
    parts = (last_name(outcome.project), ended, outcome.who, surface)
    return " · ".join(filter(None, parts))


def _notes(outcome: Outcome) -> Iterator[str]:
    yield from (*outcome.answers, *outcome.lines)
    for label, value in (
        (msg("Reason"), outcome.reason),
        (msg("Ledger"), outcome.head),
    ):
        if value:
            yield f"{text(outcome.language, label)}: {value}"


def _muted(line: str) -> str:
    return f'<p class="muted">{shown(line)}</p>'


def _unless(items: str) -> str:
    """The attribute that hides a section without items: the script swaps it whole."""
    return "" if items else " hidden"


# Passes, and the browsers that may read the inbox.


def pass_list(language: str, passes: Passes) -> str:
    """The section of passes, each with a button that ends it."""
    end = said(language, "Revoke")
    rows = "".join(
        f'<li class="stack">{exactly(row.shown)}'
        f'<span class="muted">{shown(_scope(language, passes, row))}</span>'
        f"{link_form('passes?pass=' + row.id, end, 'plain')}</li>"
        for row in passes.all()
    )
    every = link_form("passes?pass=all", said(language, "Revoke all"), "no")
    title = '<h2 class="section">' + said(language, "Passes") + "</h2>"
    return (
        f'<section id="passes"{_unless(rows)}>{title}'
        f'<ul class="sheet recent" id="pass-list">{rows}</ul>{every}</section>'
    )


def _scope(language: str, passes: Passes, row: Pass) -> str:
    """Where a pass holds, until when, and for how many calls."""
    left = passes.left(row)
    parts = (
        last_name(row.project),
        row.session[:8],
        text(language, "until {until}", until=moment(row.ends)),
        "" if left is None else text(language, "{count} calls left", count=left),
        row.id,
    )
    return " · ".join(filter(None, parts))


def session_list(language: str, rows: Sequence[Session], own: Session | None) -> str:
    """Every browser that may read the inbox, each with a button to send it away."""
    if not rows:
        return ""
    items = "".join(_session(language, row, own) for row in rows)
    every = link_form("sessions?all=1", said(language, "Sign all out"), "no")
    title = (
        '<h2 class="section">' + said(language, "Browsers that are let in") + "</h2>"
    )
    return f'<section>{title}<ul class="sheet recent">{items}</ul>{every}</section>'


def _session(language: str, row: Session, own: Session | None) -> str:
    mark = (" · " + said(language, "this one")) if own and row.id == own.id else ""
    rows = (
        Fact(msg("Address"), row.address),
        Fact(msg("Since"), moment(row.created)),
        Fact(msg("Last seen"), moment(row.seen)),
    )
    label = said(language, "Sign out")
    end = link_form(f"sessions?session={row.id}", label, "plain")
    heading = f'<div class="row"><span>{shown(row.browser)}{mark}</span></div>'
    return f'<li class="stack">{heading}{facts(language, rows)}{end}</li>'


# Pages.


def inbox_page(
    language: str,
    items: Sequence[Item],
    count: int = 0,
    parts: Mapping[str, str] | None = None,
    sessions: str = "",
) -> Iterator[bytes]:
    """The inbox; `parts` are the sections that its script swaps, as HTML by name."""
    texts = {key: text(language, sentence) for key, sentence in TEXTS.items()}
    values = {
        **{name: said(language, sentence) for name, sentence in WORDS.items()},
        "count": str(count or ""),
        "any": " hidden" if items else "",
        "none_yet": "" if items else " hidden",
        "rows": "".join(item.row for item in items),
        "parts": "".join((parts or {}).values()) + sessions,
        "keys": _help(language),
        "buttons": _button_help(language),
        "note": said(
            language,
            "No mark does not mean safe: only the text of the call is read; nothing "
            "is run and no model is asked.",
        ),
        "texts": json.dumps(texts, ensure_ascii=False),
    }
    top, below = INBOX.split("{{items}}")
    cards = (item.card for item in items)
    body = (fill(top, **values), *cards, fill(below, **values))
    return frame(language, text(language, "Inbox"), body, INBOX_SCRIPT)


def ticket_page(language: str, ticket: str) -> bytes:
    """What a link to the inbox opens: its button, not the link, uses it up."""
    label = said(language, "Open the inbox")
    form = link_form(f".?ticket={ticket}", label, "yes")
    note = (
        '<p class="note">'
        + said(language, "This link works once, within ten minutes.")
        + "</p>"
    )
    return _way_in(language, note + form)


def again_page(language: str) -> bytes:
    """For a browser that comes from another site: it keeps its cookie back then."""
    link = '<p><a href=".">' + said(language, "Open the inbox") + "</a></p>"
    note = (
        '<p class="note">'
        + said(
            language,
            "The inbox opens on the machine that runs the server, or with the "
            "link that feishuperm status prints.",
        )
        + "</p>"
    )
    return _way_in(language, link + note)


def _way_in(language: str, body: str) -> bytes:
    title = text(language, "Open the inbox")
    sheet = f'<section class="sheet stack">{body}</section>'
    body = f"<main><h1>{shown(title)}</h1>{sheet}</main>"
    return b"".join(frame(language, title, [body]))


# Help.


def _pressed() -> dict[str, str]:
    """The keys of all buttons, each with the label of the first that has it."""
    actions = [action for kind in KINDS.values() for action in kind.actions]
    return {
        key: next(action.label for action in actions if action.key == key)
        for key in dict.fromkeys(action.key for action in actions if action.key)
    }


def _help(language: str) -> str:
    """What each key does: moving, every button that has one, and the rest."""
    rows = (MOVES, *_pressed().items(), *KEYS)
    return "".join(
        f"<dt>{_keys(keys)}</dt><dd>{said(language, label)}</dd>"
        for keys, label in rows
    )


def _button_help(language: str) -> str:
    """What the buttons do, for people without a keyboard."""
    return "".join(
        f"<dt>{said(language, label)}</dt><dd>{said(language, about)}</dd>"
        for label, about in EXPLAINED
    )


def _keys(keys: str) -> str:
    return " ".join(f"<kbd>{shown(key)}</kbd>" for key in keys.split(" "))
