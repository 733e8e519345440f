"""The inbox over HTTP: its page, its stream, and the browsers that are let in.

Who may read it is the gate's business (`handlers.access`), what it looks like that of
`pages.inbox`, who listens that of `channels.inbox`.  Here are the rows of the pending
requests, each drawn once, and the way from a ticket to a session.

What an open page is sent is a state: who is pending until when, and the fragments of
HTML that it does not have yet.  A page that connects gets all of them.
"""

from __future__ import annotations

import json
from collections.abc import Callable

from feishuperm.channels.inbox import InboxChannel
from feishuperm.errors import ProtocolError
from feishuperm.handlers.access import Gate
from feishuperm.handlers.pages.inbox import (
    Row,
    again_page,
    ended_box,
    inbox_page,
    make_row,
    pass_list,
    quiet_line,
    recent_list,
    session_list,
    ticket_page,
)
from feishuperm.handlers.pages.layout import (
    PRIVATE,
    Reply,
    Slow,
    as_json,
    in_pieces,
    page,
    to_home,
)
from feishuperm.handlers.pages.request import live_json, refusal
from feishuperm.messages import msg
from feishuperm.models.ask import Ask, Outcome
from feishuperm.models.kind import KINDS
from feishuperm.models.request import Request
from feishuperm.protocol import http1
from feishuperm.protocol.http1 import Response, parse_form
from feishuperm.services.approvals import Approvals
from feishuperm.services.web_access import Links, LoginTokens

TYPE_CHECKING = False
if TYPE_CHECKING:
    from feishuperm.server.connection import Exchange, Stream

Form = dict[str, list[str]]

SHOWN_WAITING = 50  # nobody reads a longer page; the count says how many there are
SHOWN_RECENT = 30
CLOSED = (
    403,
    msg(
        "The inbox opens on the machine that runs the server, or with the link that "
        "feishuperm status prints."
    ),
)


class Inbox:
    """Everything about the inbox that comes over HTTP."""

    def __init__(
        self,
        approvals: Approvals,
        gate: Gate,
        links: Links,
        tickets: LoginTokens,
        channel: InboxChannel,
        language: str,
        clock: Callable[[], float],
    ) -> None:
        self._approvals = approvals
        self._gate = gate
        self._links = links
        self._tickets = tickets
        self._channel = channel
        self._language = language
        self._clock = clock
        self._rows: dict[str, Row] = {}  # of pending requests, by id
        self._known: dict[str, str] = {}  # fragments that every open page has
        self._streams: list[tuple[Stream, str]] = []  # with the id of their session

    # The page, and the way in.

    def home(self, request: http1.Request) -> Reply:
        """The page, with its first state inside; or the way in by a ticket."""
        if self._gate.may_read(request):
            return self._page(request)
        ticket = request.query.get("ticket", "")
        if self._tickets.is_good(ticket):
            if not self._gate.is_visit(request):
                return page(ticket_page(self._language, ticket))
            # Here and now: sent on to it, a browser that comes from another site would
            # keep its strict cookie back.
            self._tickets.spend(ticket)
            return self._page(request, self._session_cookie(request))
        if request.headers.get("sec-fetch-site") == "cross-site":
            return page(again_page(self._language), 403)
        return refusal(self._language, *CLOSED)

    def enter(self, request: http1.Request) -> Response:
        """The button behind a ticket was pressed: it becomes a session."""
        form = own_form(self._gate, request)
        if not self._tickets.spend(form.get("ticket", [""])[0]):
            return refusal(self._language, *CLOSED)
        return to_home(self._session_cookie(request))

    def _session_cookie(self, request: http1.Request) -> tuple[str, str]:
        agent = request.headers.get("user-agent", "")
        return "Set-Cookie", self._gate.sessions.open(request.peer, agent)

    def _page(self, request: http1.Request, *headers: tuple[str, str]) -> Slow:
        drawn = self._draw(is_seen=self._gate.looks_human(request))
        made = inbox_page(
            self._language,
            [self._rows[asked.id] for asked in drawn],
            len(self._approvals.requests.waiting()),
            self._parts(self._recent()),
            session_list(
                self._language, self._gate.sessions.all(), self._gate.session(request)
            ),
        )
        return in_pieces(made, 200, *headers)

    def end_passes(self, request: http1.Request) -> Response:
        """End a pass, or all of them."""
        form = own_form(self._gate, request)
        if not self._gate.may_read(request):
            return refusal(self._language, *CLOSED)
        for id in form.get("pass", ()):
            self._approvals.revoke_passes(id, "inbox")
        return to_home()

    def sign_out(self, request: http1.Request) -> Response:
        """End a session, or all of them, and what they have open."""
        form = own_form(self._gate, request)
        if not self._gate.may_read(request):
            return refusal(self._language, *CLOSED)
        for id in (*form.get("session", ()), *form.keys() & {"all"}):
            self._gate.sessions.revoke(id)
        left = {row.id for row in self._gate.sessions.all()}
        for stream, id in self._streams:
            if id not in left:
                stream.close()
        return to_home()

    # The stream.

    def listen(self, request: http1.Request) -> Reply:
        """A page wants to be told of every change."""
        gate = self._gate
        if not gate.may_read(request) or not gate.is_own_script(request):
            return refusal(self._language, *CLOSED)

        def start(exchange: Exchange) -> None:
            stream = exchange.stream(PRIVATE)
            session = gate.session(request)
            self._streams = [pair for pair in self._streams if not pair[0].closed]
            if session is not None:
                self._streams.append((stream, session.id))
            self._channel.open(stream)

        return start

    def follow(self, asked: Request) -> Reply:
        """The page of a request gets every change of that one."""

        def start(exchange: Exchange) -> None:
            stream = exchange.stream(PRIVATE)
            self._channel.follow(stream, lambda: self._of_one(asked))

        return start

    def _of_one(self, asked: Request) -> bytes:
        if asked.waits():
            state = {"waits": True, "left": self._approvals.seconds_left(asked.id)}
        else:
            state = {"waits": False, **live_json(self._approvals.outcome_of(asked))}
        return b"event: state\ndata: " + as_json(state).body + b"\n"

    def event(self, full: bool) -> bytes:
        """The state as a server-sent event: for a new page, or for all that are open.

        Open pages are only sent the fragments that have changed.  A new page may have
        seen one that is unknown to the others: that one is sent to all of them again.
        """
        shown = self._draw()
        now, recent = self._clock(), self._recent()
        fragments = self._parts(recent)
        fragments.update((f"row-{id}", row.html) for id, row in self._rows.items())
        same = {n: html for n, html in fragments.items() if self._known.get(n) == html}
        self._known = same if full else fragments
        news = {n: html for n, html in fragments.items() if full or n not in same}
        state = {
            "now": now,
            "count": len(self._approvals.requests.waiting()),
            "deadlines": {
                row.id: now + self._approvals.seconds_left(row.id) for row in shown
            },
            "ended": {outcome.id: ended_box(outcome) for outcome in recent},
            "fragments": news,
        }
        data = json.dumps(state, ensure_ascii=False).encode(errors="replace")
        return b"event: state\ndata: " + data + b"\n\n"

    def _parts(self, recent: list[Outcome]) -> dict[str, str]:
        """The sections that change, by the names of their elements."""
        link = self._links.path
        rows = ((outcome, link("/request", outcome.id)[1:]) for outcome in recent)
        return {
            "quiet": quiet_line(self._language, self._approvals.notifier.quiet),
            "recent-part": recent_list(self._language, rows),
            "passes": pass_list(self._language, self._approvals.passes),
        }

    def _recent(self) -> list[Outcome]:
        outcome = self._approvals.outcome_of
        return [outcome(row) for row in self._approvals.requests.recent(SHOWN_RECENT)]

    def _draw(self, is_seen: bool = True) -> list[Request]:
        """Draw the pending requests, each once; returns them, and marks them as shown.

        One that is not put into words yet is in a later state.
        """
        waiting = self._approvals.requests.waiting()[:SHOWN_WAITING]
        before, self._rows = self._rows, {}
        for asked in waiting:
            row = before.get(asked.id)
            ask = None if row and row.is_fresh(asked) else asked.ask()
            if ask is not None:
                row = make_row(ask, links_of(self._links, ask), asked.seen)
            if row is not None:
                self._rows[asked.id] = row
        drawn = [asked for asked in waiting if asked.id in self._rows]
        for asked in drawn if is_seen else ():
            self._approvals.requests.mark_shown(asked)
        return drawn


def links_of(links: Links, ask: Ask) -> dict[str, str]:
    """Every link of a request by the name of its button, and its own page.

    They are relative, since a proxy may add a prefix.
    """
    rows = (KINDS[ask.kind].action(offer.name) for offer in ask.actions)
    paths = {row.name: row.path for row in rows if row}
    paths.update(request="/request", hold="/hold")
    return {name: links.path(path, ask.id)[1:] for name, path in paths.items()}


def own_form(gate: Gate, request: http1.Request) -> Form:
    """The fields of a form of our pages. Raises ProtocolError for another site's."""
    if not gate.is_own_form(request):
        raise ProtocolError("a form of another site", 403)
    return parse_form(request.body)
