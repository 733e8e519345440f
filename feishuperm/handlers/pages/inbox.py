"""The inbox: its page, and the same pieces of it as fragments for its script.

A pending request is one row: what, where, the time left.  A row is drawn here, once;
the page holds it for browsers without scripts, and the script swaps in what is new or
has changed.  A row opens the request's page, or beside it on a wide screen.  It decides
by itself only where all of the call stands in it and nothing about that is dangerous.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from feishuperm.handlers.pages.layout import (
    INBOX,
    INBOX_SCRIPT,
    exactly,
    fill,
    form,
    frame,
    link_form,
    moment,
    said,
    shown,
)
from feishuperm.handlers.pages.request import MARKDOWN, Links, outcome_box, surface_name
from feishuperm.lib.display import one_line, width
from feishuperm.lib.markdown import parse
from feishuperm.messages import msg, pmsg, text
from feishuperm.models.ask import NO, YES, Ask, Block, Outcome, last_name
from feishuperm.models.kind import KINDS
from feishuperm.models.request import Request
from feishuperm.services.grants import Pass, Passes
from feishuperm.services.quiet import QuietHours
from feishuperm.services.web_access import Session

ROW_LENGTH = 120  # characters of a request that does not fit
ROW_COLUMNS = 80  # of a call that does: two lines on a phone
SHELL = "bash"  # the language of a block
FITTING = ("code", "path", "text", "detail")  # kinds of blocks that a row can hold
SHORT = {YES: pmsg("row", "Allow"), NO: pmsg("row", "Deny")}
# What the script says by itself.
TEXTS = {
    "inbox.live": msg("Live"),
    "inbox.lost": msg("Disconnected, reconnecting"),
    "inbox.sending": msg("Sending…"),
    "inbox.failed": msg("It was not sent. Please try again"),
    "inbox.arrived": msg("New request: {what}"),
    "inbox.settled": msg("Settled: {what}"),
    "inbox.ended": msg("No longer waiting"),
    "page.name": msg("Claude Code permission requests"),
}
QUIET_HOURS = msg("Quiet hours: {state}")
# Keys that are no button's; those follow from `KINDS`.
MOVES = ("j k ↓ ↑", msg("select a request"))
KEYS = (
    ("1 9", msg("choose an option by its place")),
    ("r", msg("type a reason for denying")),
    ("Enter", msg("open the request")),
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
    (msg("Hold"), msg("stops the clock while you read (with PERMISSION_HOLD)")),
)
# The blanks of inbox.html.
WORDS = {
    "title": msg("Inbox"),
    "live": msg("Live"),
    "menu": msg("Menu"),
    "help": msg("Help"),
    "noscript": msg("Live updates need JavaScript. Waiting requests:"),
    "ring": msg("Ring"),
    "notify": msg("Desktop notices"),
    "none": msg("Nothing is waiting"),
    "none_hint": msg(
        "When Claude Code needs a permission, asks a question or presents a "
        "plan, it appears here at once."
    ),
    "waiting": msg("Waiting"),
    "chosen": msg("Selected request"),
}


# Pending requests.


class Row(NamedTuple):
    """A pending request, drawn once."""

    html: str
    why: str = ""  # as it is drawn: it may be known a little later
    hold: bool = False  # drawn with the button that stops its clock
    seen: float = 0.0  # drawn with when its card was read

    def is_fresh(self, request: Request) -> bool:
        """Whether nothing that is drawn has changed since."""
        is_same = (self.why, self.seen) == (request.why, request.seen)
        return is_same and not (self.hold and request.extended)


def make_row(ask: Ask, links: Links, seen: float = 0.0) -> Row:
    """One pending request. `links` has each offer by name, and "request"."""
    whole = _whole_call(ask)
    until = time.strftime("%H:%M", time.localtime(ask.created + ask.seconds))
    title = f"<b>{shown(_name(ask))}</b>"
    if whole:  # a command is known as one; of another call the tool says what it does
        lines = "".join(f"<code>{shown(line)}</code>" for line in whole)
        what = lines if ask.blocks[0].language == SHELL else title + lines
    else:
        line = one_line(_subject(ask), ROW_LENGTH)
        danger = f"<i>{shown(ask.dangers[0])}</i>" if ask.dangers else ""
        what = title + danger + (f"<code>{shown(line)}</code>" if line else "")
    name = " · ".join(filter(None, (_name(ask), ask.project_name)))
    read = time.strftime("%H:%M", time.localtime(seen))
    was_read = text(ask.language, "seen {time}", time=read) if seen else ""
    parts = (ask.host, ask.project_name, ask.branch, ask.agent, was_read)
    where = " · ".join(filter(None, parts))
    # What is shown beside the list changes with these two: its script looks at them.
    state = f' data-why="{shown(ask.why)}" data-hold="{int(ask.hold)}"'
    html = (
        f'<li class="row{" risky" if ask.dangers else ""}{"" if whole else " cut"}"'
        f' id="row-{shown(ask.id)}" data-id="{shown(ask.id)}"'
        f' data-news="{shown(name)}"{state}>'
        f'<a class="what" href="{shown(links["request"])}">{what}</a>'
        f'<p class="where"><span class="left">{until}</span> {shown(where)}</p>'
        f'<div class="do">{_row_buttons(ask, links, whole)}</div></li>'
    )
    return Row(html, ask.why, ask.hold, seen)


def _whole_call(ask: Ask) -> list[str]:
    """All that would run, line by line; empty if a row has no room for it.

    A person who presses a button of a row has seen nothing else.
    """
    kind, lines = KINDS[ask.kind], [block.text for block in ask.blocks]
    if not kind.of_a_call or kind.noun or ask.dangers or ask.partial or ask.masked:
        return []
    is_short = sum(map(width, lines)) <= ROW_COLUMNS
    return lines if is_short and all(map(_fits, ask.blocks)) else []


def _fits(block: Block) -> bool:
    return block.kind in FITTING and bool(block.text.strip()) and "\n" not in block.text


def _row_buttons(ask: Ask, links: Links, whole: list[str]) -> str:
    """Yes on the left and no on the right; or the way to where they are."""
    offers = [
        next((o for o in ask.offered if o.look == look and not o.needs), None)
        for look in (YES, NO)
    ]
    if not whole or None in offers or any(o and o.confirm for o in offers):
        label = said(ask.language, "View")
        name = shown(f"{text(ask.language, 'View')} {_name(ask)}")
        link = shown(links["request"])
        return f'<a class="button plain" aria-label="{name}" href="{link}">{label}</a>'
    drawn = ""
    for offer in filter(None, offers):
        label = text(ask.language, SHORT[offer.look])
        button = (
            f'<button class="{offer.look}" data-key="{shown(offer.key)}"'
            f' aria-label="{shown(f"{label} {_name(ask)} {whole[0]}")}">'
            f"{shown(label)}</button>"
        )
        drawn += form(links[offer.name], button, "", ("digest", ask.digest))
    return drawn


def _name(ask: Ask) -> str:
    """What a request is called: its tool, or what else waits for a person."""
    kind = KINDS[ask.kind]
    if kind.of_a_call:
        return ask.what or ask.summary or ask.tool or ask.title
    return ask.heading if kind.noun else f"{ask.heading} · {ask.tool}"


def _subject(ask: Ask) -> str:
    """The beginning of what is asked; a single choice asks the question itself."""
    choice = next(filter(None, map(ask.choice, ask.offered)), None)
    drawn = (row for row in ask.blocks if not (choice and row.kind == "question"))
    block = next(drawn, Block())
    if block.kind == MARKDOWN:
        first = next(parse(block.text), None)
        return "".join(span.text for span in first.spans) if first else ""
    return block.text or (choice.label if choice else "")


def quiet_line(language: str, quiet: QuietHours) -> str:
    """A line about quiet hours, hidden while they change nothing."""
    state = (quiet.describe() or {}).get("state", "")
    words = text(language, QUIET_HOURS, state=state) if state else ""
    return f'<p class="note" id="quiet"{_unless(words)}>{shown(words)}</p>'


# Settled requests.


def ended_box(outcome: Outcome) -> str:
    """What stands in the place of the buttons of a request settled elsewhere."""
    surface = surface_name(outcome.language, outcome.surface)
    return outcome_box(outcome.look, outcome.done, filter(None, [surface]))


def recent_list(language: str, rows: Iterable[tuple[Outcome, str]]) -> str:
    """The section of settled requests, one line each, with the link to its page."""
    items = "".join(_recent(*row) for row in rows)
    title = said(language, "Recently settled")
    return (
        f'<section aria-labelledby="recent-title" id="recent-part"{_unless(items)}>'
        f'<h2 class="section" id="recent-title">{title}</h2>'
        f'<ul class="sheet lines" id="recent">{items}</ul></section>'
    )


def _recent(outcome: Outcome, link: str) -> str:
    done = outcome.done
    if outcome.undone:
        done += " · " + text(outcome.language, "Undone")
    ended = time.strftime("%H:%M", time.localtime(outcome.ended))
    what = outcome.detail or outcome.summary
    parts = (what, *outcome.answers, last_name(outcome.project), outcome.result)
    return (
        f'<li><a href="{shown(link)}"><b class="done-{outcome.look}">{shown(done)}</b>'
        f" <span>{shown(' · '.join(filter(None, parts)))}</span>"
        f" <time>{ended}</time></a></li>"
    )


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
    every = link_form("passes?pass=all", said(language, "Revoke all"), "plain")
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
    every = link_form("sessions?all=1", said(language, "Sign all out"), "plain")
    title = said(language, "Signed-in browsers")
    return (
        f'<details><summary>{title}</summary><ul class="recent">{items}</ul>'
        f"{every}</details>"
    )


def _session(language: str, row: Session, own: Session | None) -> str:
    name = row.browser
    if own and row.id == own.id:
        name += " · " + text(language, "this one")
    seen = text(language, "last seen {time}", time=moment(row.seen))
    end = link_form(f"sessions?session={row.id}", said(language, "Sign out"), "plain")
    about = f'<p class="muted">{shown(f"{row.address} · {seen}")}</p>'
    return f'<li class="stack"><span>{shown(name)}</span>{about}{end}</li>'


# Pages.


def inbox_page(
    language: str,
    rows: Sequence[Row],
    count: int = 0,
    parts: Mapping[str, str] | None = None,
    sessions: str = "",
) -> Iterator[bytes]:
    """The inbox; `parts` are the sections that its script swaps, as HTML by name."""
    texts = {key: text(language, sentence) for key, sentence in TEXTS.items()}
    values = {
        **{name: said(language, sentence) for name, sentence in WORDS.items()},
        "count": str(count or ""),
        "any": " hidden" if rows else "",
        "none_yet": "" if rows else " hidden",
        "rows": "".join(row.html for row in rows),
        "parts": "".join((parts or {}).values()),
        "sessions": sessions,
        "keys": _help(language),
        "buttons": "".join(
            f"<dt>{said(language, label)}</dt><dd>{said(language, about)}</dd>"
            for label, about in EXPLAINED
        ),
        "note": said(
            language,
            "No mark does not mean safe: only the text of the call is read; nothing "
            "is run and no model is asked.",
        ),
        "texts": json.dumps(texts, ensure_ascii=False),
    }
    body = [fill(INBOX, **values)]
    return frame(language, text(language, "Inbox"), body, INBOX_SCRIPT)


def ticket_page(language: str, ticket: str) -> bytes:
    """What a link to the inbox opens: its button, not the link, uses it up."""
    button = link_form(f".?ticket={ticket}", said(language, "Open the inbox"), "yes")
    note = said(language, "This link works once, within ten minutes.")
    return _way_in(language, f'<p class="note">{note}</p>{button}')


def again_page(language: str) -> bytes:
    """For a browser that comes from another site: it keeps its cookie back then."""
    link = said(language, "Open the inbox")
    note = said(
        language,
        "The inbox opens on the machine that runs the server, or with the link that "
        "feishuperm status prints.",
    )
    return _way_in(language, f'<p><a href=".">{link}</a></p><p class="note">{note}</p>')


def _way_in(language: str, body: str) -> bytes:
    title = text(language, "Open the inbox")
    sheet = f'<section class="sheet stack">{body}</section>'
    body = f"<main><h1>{shown(title)}</h1>{sheet}</main>"
    return b"".join(frame(language, title, [body]))


# Help.


def _help(language: str) -> str:
    """What each key does: moving, every button that has one, and the rest."""
    actions = [action for kind in KINDS.values() for action in kind.actions]
    labels: dict[str, str] = {}
    for action in actions:  # of several buttons with a key, the first names it
        labels.setdefault(action.key, action.label)
    labels.pop("", None)
    return "".join(
        f"<dt>{' '.join(f'<kbd>{shown(key)}</kbd>' for key in keys.split(' '))}</dt>"
        f"<dd>{said(language, label)}</dd>"
        for keys, label in (MOVES, *labels.items(), *KEYS)
    )
