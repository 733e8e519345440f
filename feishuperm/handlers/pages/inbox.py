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
    Html,
    draw,
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
    # What is shown beside the list changes with why and hold: its script looks at them.
    html = draw(
        "row",
        id=ask.id,
        risky=" risky" if ask.dangers else "",
        cut="" if whole else " cut",
        name=name,
        why=ask.why,
        hold=int(ask.hold),
        link=links["request"],
        what=Html(what),
        until=until,
        where=where,
        buttons=Html(_row_buttons(ask, links, whole)),
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
        return draw("view", ask.language, name=_name(ask), link=links["request"])
    drawn = ""
    for offer in filter(None, offers):
        label, key = text(ask.language, SHORT[offer.look]), offer.key
        named = {"label": label, "name": _name(ask), "what": whole[0]}
        button = draw("short", look=offer.look, key=key, **named)
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
    items = Html("".join(_recent(*row) for row in rows))
    return draw("recent", language, items=items, gone=_unless(items))


def _recent(outcome: Outcome, link: str) -> str:
    done = outcome.done
    if outcome.undone:
        done += " · " + text(outcome.language, "Undone")
    ended = time.strftime("%H:%M", time.localtime(outcome.ended))
    what = outcome.detail or outcome.summary
    parts = (what, *outcome.answers, last_name(outcome.project), outcome.result)
    told = {"done": done, "what": " · ".join(filter(None, parts)), "ended": ended}
    return draw("settled", link=link, look=outcome.look, **told)


def _unless(items: str) -> str:
    """The attribute that hides a section without items: the script swaps it whole."""
    return "" if items else " hidden"


# Passes, and the browsers that may read the inbox.


def pass_list(language: str, passes: Passes) -> str:
    """The section of passes, each with a button that ends it."""
    end = said(language, "Revoke")
    drawn = (
        draw(
            "pass",
            shown=Html(exactly(row.shown)),
            scope=_scope(language, passes, row),
            end=link_form("passes?pass=" + row.id, end, "plain"),
        )
        for row in passes.all()
    )
    rows = Html("".join(drawn))
    every = link_form("passes?pass=all", said(language, "Revoke all"), "plain")
    return draw("passes", language, rows=rows, every=every, gone=_unless(rows))


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
    items = Html("".join(_session(language, row, own) for row in rows))
    every = link_form("sessions?all=1", said(language, "Sign all out"), "plain")
    return draw("sessions", language, items=items, every=every)


def _session(language: str, row: Session, own: Session | None) -> str:
    name = row.browser
    if own and row.id == own.id:
        name += " · " + text(language, "this one")
    end = link_form(f"sessions?session={row.id}", said(language, "Sign out"), "plain")
    seen, address = moment(row.seen), row.address
    return draw("session", language, name=name, address=address, time=seen, end=end)


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
    body = fill(
        INBOX,
        language,
        count=count or "",
        any=" hidden" if rows else "",
        none_yet="" if rows else " hidden",
        rows=Html("".join(row.html for row in rows)),
        parts=Html("".join((parts or {}).values())),
        sessions=Html(sessions),
        keys=Html(_help(language)),
        texts=Html(json.dumps(texts, ensure_ascii=False)),
    )
    return frame(language, text(language, "Inbox"), [body], INBOX_SCRIPT)


def ticket_page(language: str, ticket: str) -> bytes:
    """What a link to the inbox opens: its button, not the link, uses it up."""
    button = link_form(f".?ticket={ticket}", said(language, "Open the inbox"), "yes")
    return _way_in(language, draw("ticket", language, button=button))


def again_page(language: str) -> bytes:
    """For a browser that comes from another site: it keeps its cookie back then."""
    return _way_in(language, draw("again", language))


def _way_in(language: str, body: Html) -> bytes:
    title = text(language, "Open the inbox")
    return b"".join(frame(language, title, [draw("entrance", language, body=body)]))


# Help.


def _help(language: str) -> str:
    """What each key does that is a button's."""
    actions = [action for kind in KINDS.values() for action in kind.actions]
    labels: dict[str, str] = {}
    for action in actions:  # of several buttons with a key, the first names it
        labels.setdefault(action.key, action.label)
    labels.pop("", None)
    return "".join(
        f"<dt><kbd>{shown(key)}</kbd></dt><dd>{said(language, label)}</dd>"
        for key, label in labels.items()
    )
