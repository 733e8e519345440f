"""The inbox over HTTP: its page, its stream, and the browsers that are let in.

Who may read it is the gate's business (`handlers.access`), what it looks like that of
`pages.inbox`, who listens that of `channels.inbox`.  Here are the items of what waits,
each made once, and the way from a ticket to a session.
"""

from __future__ import annotations

from collections.abc import Callable

from feishuperm.channels.inbox import InboxChannel
from feishuperm.errors import ProtocolError
from feishuperm.handlers.access import Gate
from feishuperm.handlers.pages.inbox import (
    Item,
    inbox_page,
    make_item,
    recent_item,
    state_json,
)
from feishuperm.handlers.pages.passes import pass_items, pass_list
from feishuperm.handlers.pages.result import live_json
from feishuperm.handlers.pages.sessions import again_page, session_list, ticket_page
from feishuperm.handlers.replies import (
    PRIVATE,
    as_json,
    in_pieces,
    page,
    refusal,
    to_home,
)
from feishuperm.handlers.turns import Reply, Slow
from feishuperm.models.ask import Ask, Outcome
from feishuperm.models.kind import KINDS
from feishuperm.models.request import Request
from feishuperm.protocol import http1
from feishuperm.protocol.http1 import Response, parse_form
from feishuperm.services.desk import Desk
from feishuperm.services.links import Links
from feishuperm.services.sessions import Tickets

TYPE_CHECKING = False
if TYPE_CHECKING:
    from feishuperm.server.connection import Exchange, Stream

Form = dict[str, list[str]]

SHOWN_WAITING = 50  # nobody reads a longer page; the count says how many there are
SHOWN_RECENT = 30
ITEM_SECONDS = 0.02  # for new items in one turn of the loop
CLOSED = 403, "page.inbox_closed"


class Inbox:
    """Everything about the inbox that comes over HTTP."""

    def __init__(
        self,
        desk: Desk,
        gate: Gate,
        links: Links,
        tickets: Tickets,
        channel: InboxChannel,
        language: str,
        clock: Callable[[], float],
        ticks: Callable[[], float],
    ) -> None:
        self._desk = desk
        self._gate = gate
        self._links = links
        self._tickets = tickets
        self._channel = channel
        self._language = language
        self._clock = clock
        self._ticks = ticks
        self._items: dict[str, Item] = {}  # of what waits, by request id
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
        own = self._gate.session(request)
        rows = pass_list(self._language, self._pass_items())
        rows += session_list(self._language, self._gate.sessions.all(), own)
        state = self._state(seen=self._gate.is_finger(request))
        items = list(self._items.values())
        ended = [(outcome, self._undo(outcome)) for outcome in self._recent()]
        made = inbox_page(self._language, state, items, rows, ended)
        return in_pieces(made, 200, *headers)

    def revoke(self, request: http1.Request) -> Response:
        """End a pass, or all of them."""
        form = own_form(self._gate, request)
        if not self._gate.may_read(request):
            return refusal(self._language, *CLOSED)
        for id in form.get("pass", ()):
            self._desk.revoke_passes(id, "inbox")
        return to_home()

    def _pass_items(self) -> list[dict[str, str]]:
        return pass_items(self._language, self._desk.passes)

    def dismiss(self, request: http1.Request) -> Response:
        """End a session, or all of them, and what they have open."""
        form = own_form(self._gate, request)
        if not self._gate.may_read(request):
            return refusal(self._language, *CLOSED)
        for id in form.get("session", ()):
            self._gate.sessions.revoke(id)
        if "all" in form:
            self._gate.sessions.revoke("all")
        left = {row.id for row in self._gate.sessions.all()}
        for stream, id in self._streams:
            if id not in left:
                stream.close()
        return to_home()

    # The stream.

    def listen(self, request: http1.Request, exchange: Exchange) -> None:
        """A page wants to be told of every change."""
        gate = self._gate
        if not gate.may_read(request) or not gate.is_own_script(request):
            exchange.reply(refusal(self._language, *CLOSED))
            return
        stream = exchange.stream(PRIVATE)
        session = gate.session(request)
        self._streams = [pair for pair in self._streams if not pair[0].closed]
        if session is not None:
            self._streams.append((stream, session.id))
        self._channel.open(stream)

    def follow(self, exchange: Exchange, asked: Request) -> None:
        """The page of a request gets every change of that one."""
        self._channel.follow(exchange.stream(PRIVATE), lambda: self._of_one(asked))

    def _of_one(self, asked: Request) -> bytes:
        if asked.waits():
            state = {"waits": True, "left": self._desk.seconds_left(asked)}
        else:
            state = {"waits": False, **live_json(self._desk.presenter.outcome(asked))}
        return b"event: state\ndata: " + as_json(state).body + b"\n"

    def event(self) -> bytes:
        """The state as a server-sent event."""
        return b"event: state\ndata: " + self._state() + b"\n\n"

    def _state(self, seen: bool = True) -> bytes:
        """Everything the inbox shows; `seen` if somebody has the page open."""
        waiting = self._desk.requests.waiting()
        shown = self._drawn(waiting[:SHOWN_WAITING])
        for asked in shown if seen else ():
            self._desk.requests.mark_shown(asked)
        now = self._clock()
        return state_json(
            self._items.values(),
            now=now,
            waiting_count=len(waiting),
            passes=self._pass_items(),
            deadlines={row.id: now + self._desk.seconds_left(row) for row in shown},
            recent=[recent_item(row, self._undo(row)) for row in self._recent()],
        )

    def _recent(self) -> list[Outcome]:
        outcome = self._desk.presenter.outcome
        return [outcome(row) for row in self._desk.requests.recent(SHOWN_RECENT)]

    def _undo(self, outcome: Outcome) -> str:
        """The link that takes back what was written; empty if nothing was."""
        return self._links.path("/undo", outcome.id)[1:] if outcome.undoable else ""

    # Items.

    def arrived(self, ask: Ask) -> None:
        """Draw a large request while its event is decoded; a small one can wait."""
        if not ask.partial:
            return
        waiting = {row.id for row in self._desk.requests.waiting()[:SHOWN_WAITING]}
        self._items = {id: self._items[id] for id in self._items if id in waiting}
        if ask.id in waiting:
            self._items[ask.id] = make_item(ask, links_of(self._links, ask))

    def _drawn(self, waiting: list[Request]) -> list[Request]:
        """Make the items of these; returns those that are made.

        An item is made once.  Many large ones at a time would hold the loop: what is
        not made in this turn is in the next state.
        """
        before, until = self._items, self._ticks() + ITEM_SECONDS
        self._items = {
            row.id: before[row.id]
            for row in waiting
            if row.id in before and before[row.id].is_fresh(row)
        }
        for asked in waiting:
            if asked.id not in self._items and asked.is_worded:
                ask = self._desk.presenter.brief(asked)
                self._items[asked.id] = make_item(ask, links_of(self._links, ask))
                if self._ticks() > until:
                    self._channel.refresh()
                    break
        return [asked for asked in waiting if asked.id in self._items]


def links_of(links: Links, ask: Ask) -> dict[str, str]:
    """Every link of a request by the name of its button, and its own page.

    They are relative, since a proxy may add a prefix.
    """
    paths = {row.name: row.path for row in KINDS[ask.kind].actions}
    paths.update(request="/request", hold="/hold")
    return {name: links.path(path, ask.id)[1:] for name, path in paths.items()}


def own_form(gate: Gate, request: http1.Request) -> Form:
    """The fields of a form of ours. Raises ProtocolError for another site's."""
    if not gate.is_own_form(request):
        raise ProtocolError("a form of another site", 403)
    return parse_form(request.body)
