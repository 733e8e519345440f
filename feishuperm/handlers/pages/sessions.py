"""The way into the inbox from elsewhere, and the list of who has gone that way."""

from __future__ import annotations

from collections.abc import Sequence

from feishuperm.handlers.pages.layout import (
    Fact,
    facts,
    frame,
    link_form,
    moment,
    say,
    shown,
)
from feishuperm.lib.text import text
from feishuperm.services.sessions import Session


def ticket_page(language: str, ticket: str) -> bytes:
    """What a link to the inbox opens: its button, not the link, uses it up."""
    title = text(language, "page.open_inbox")
    form = link_form(f".?ticket={ticket}", shown(title), "yes")
    note = f'<p class="note">{say(language, "session.once")}</p>'
    return _sheet(language, title, note + form)


def again_page(language: str) -> bytes:
    """For a browser that comes from another site: it keeps its cookie back then."""
    title = text(language, "page.open_inbox")
    link = f'<p><a href=".">{say(language, "page.open_inbox")}</a></p>'
    note = f'<p class="note">{say(language, "page.inbox_closed")}</p>'
    return _sheet(language, title, link + note)


def session_list(language: str, rows: Sequence[Session], own: Session | None) -> str:
    """Every browser that may read the inbox, each with a button to send it away."""
    if not rows:
        return ""
    items = "".join(_session(language, row, own) for row in rows)
    every = link_form("sessions?all=1", say(language, "session.end_all"), "no")
    title = f'<h2 class="section">{say(language, "session.title")}</h2>'
    return f'<section>{title}<ul class="sheet recent">{items}</ul>{every}</section>'


def _session(language: str, row: Session, own: Session | None) -> str:
    mark = f" · {say(language, 'session.own')}" if own and row.id == own.id else ""
    rows = (
        Fact("session.address", row.address),
        Fact("session.created", moment(row.created)),
        Fact("session.seen", moment(row.seen)),
    )
    label = say(language, "session.end")
    end = link_form(f"sessions?session={row.id}", label, "plain")
    heading = f'<div class="row"><span>{shown(row.browser)}{mark}</span></div>'
    return f'<li class="stack">{heading}{facts(language, rows)}{end}</li>'


def _sheet(language: str, title: str, body: str) -> bytes:
    sheet = f'<section class="sheet stack">{body}</section>'
    body = f"<main><h1>{shown(title)}</h1>{sheet}</main>"
    return b"".join(frame(language, title, [body]))
