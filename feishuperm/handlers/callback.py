"""HTTP: routes, parameters and replies; what they mean is the desk's business.

The buttons' routes are those of `KINDS`; the others stand in `ROUTES`.  A GET of a
button's link decides, as the cards promise; a HEAD, a preview or a prefetch gets a page
whose button decides.  A press or a form is a POST from one of our own pages.  Each of
them becomes an `Answer`, and what the desk says to it becomes a page.
"""

from __future__ import annotations

import json
import time

from feishuperm import __version__
from feishuperm.errors import ProtocolError
from feishuperm.handlers.access import OPEN_PATHS, WrongIds
from feishuperm.handlers.pages import layout
from feishuperm.handlers.pages.confirm import confirm_page
from feishuperm.handlers.pages.inbox import (
    Item,
    inbox_page,
    make_item,
    recent_item,
    state_json,
)
from feishuperm.handlers.pages.request import record_page, request_page
from feishuperm.handlers.pages.result import message_page, result_json, result_page
from feishuperm.handlers.pages.sessions import (
    again_page,
    session_list,
    ticket_page,
)
from feishuperm.handlers.turns import Turns
from feishuperm.lib.text import text
from feishuperm.models import ask as statuses
from feishuperm.models.ask import Answer, Receipt
from feishuperm.models.kind import KINDS
from feishuperm.protocol.http1 import Response, parse_form

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

    from feishuperm.channels.inbox import InboxChannel
    from feishuperm.handlers.access import Gate
    from feishuperm.handlers.turns import Reply, Slow
    from feishuperm.lib.ancestry import Suspect
    from feishuperm.models.ask import Ask
    from feishuperm.models.request import Request
    from feishuperm.models.settings import Settings
    from feishuperm.protocol import http1
    from feishuperm.server.connection import Exchange, Stream
    from feishuperm.services.desk import Desk
    from feishuperm.services.links import Links
    from feishuperm.services.sessions import Sessions, Tickets

    Route = Callable[["Callback", http1.Request], Reply]
    Form = dict[str, list[str]]

HTML = "text/html; charset=utf-8"
JSON = "application/json; charset=utf-8"
PRIVATE = (("Cache-Control", "no-store"), ("X-Content-Type-Options", "nosniff"))
IN_PLACE = "x-feishuperm"  # the inbox asks for JSON instead of a page
SHOWN_WAITING = 50  # nobody reads a longer page; the count says how many there are
SHOWN_RECENT = 30
SMALL = 64 << 10  # bytes of an event that may be decoded to remind of it
RETURN_SECONDS = 10.0  # hooks whose server ended look for the next one so long
HOLD_SECONDS = 3.0  # a browser waits for a request to come back; then it asks again
LOOK_SECONDS = 0.1
ITEM_SECONDS = 0.02  # for new items of the inbox in one turn of the loop
OWN_FIELDS = ("id", "sig", "digest", "confirmed")  # of a form, besides the person's

# What a person is told, by the status of a request that cannot be served.
REFUSALS = {
    400: "page.unknown",
    403: "page.foreign",
    410: "page.unknown",
    429: "page.too_many",
}
# How a page is sent that says what the desk said.
STATUSES = {
    statuses.UNKNOWN: 404,
    statuses.INCOMPLETE: 400,
    statuses.REFUSED: 403,
}


class NotYetError(Exception):
    """A good link names a request that its hook has not brought back."""


class Callback:
    """Answers every HTTP request."""

    def __init__(
        self,
        desk: Desk,
        gate: Gate,
        links: Links,
        tickets: Tickets,
        sessions: Sessions,
        inbox: InboxChannel,
        settings: Settings,
        status: Callable[[], dict[str, Any]],
        share: Callable[[http1.Request], Response | None],
        later: Callable[[float, Callable[[], None]], object],
        clock: Callable[[], float] = time.time,
        ticks: Callable[[], float] = time.monotonic,
    ) -> None:
        self._desk = desk
        self._gate = gate
        self._links = links
        self._tickets = tickets
        self._sessions = sessions
        self._inbox = inbox
        self._language = settings.feishuperm_lang
        self._asks_first = settings.asks_first
        self._status = status
        self._share = share
        self._clock = clock
        self._ticks = ticks
        self._health = self._json({"ok": True, "version": __version__})
        self._wrong_ids = WrongIds()
        self._turns = Turns(later, ticks)
        self._started = ticks()
        self._items: dict[str, Item] = {}  # of what waits, by request id
        self._streams: list[tuple[Stream, str]] = []  # with the id of their session

    def on_request(self, request: http1.Request, exchange: Exchange) -> None:
        """Answer one request; `/events` keeps its exchange as a stream."""
        refusal = self._gate.refusal(request)
        if refusal is not None:
            exchange.reply(self._refusal(*refusal))
            return
        if request.path == "/events" and request.method == "GET":
            self._events(request, exchange)
            return
        reply = self._respond(request)
        if isinstance(reply, Response):
            exchange.reply(reply)
        else:
            self._turns.run(exchange, reply)

    def _respond(self, request: http1.Request) -> Reply:
        suspect = None if request.path in OPEN_PATHS else self._gate.suspect(request)
        if suspect is not None:
            return self._expose(request, suspect)
        routes = ROUTES.get(request.path)
        if routes is None and any(row.by_path(request.path) for row in KINDS.values()):
            routes = BUTTON
        if routes is None:
            return self._share(request) or self._refusal(404, "page.not_found")
        route = routes.get("GET" if request.method == "HEAD" else request.method)
        if route is None:
            allowed = ", ".join(["HEAD", *routes])
            return Response(405, b"wrong method\n", headers=[("Allow", allowed)])
        try:
            return self._take(route, request)
        except NotYetError:
            return self._await(route, request)

    def _take(self, route: Route, request: http1.Request) -> Reply:
        try:
            return route(self, request)
        except ProtocolError as error:
            return self._refusal(error.status, REFUSALS[error.status])

    def _await(self, route: Route, request: http1.Request) -> Slow:
        """Wait a little for a hook that has lost its server to come back."""
        until = self._ticks() + HOLD_SECONDS
        while self._ticks() < until:
            yield LOOK_SECONDS
            try:
                reply = self._take(route, request)
            except NotYetError:
                continue
            return reply if isinstance(reply, Response) else (yield from reply)
        page = message_page(
            self._language,
            "page.returning",
            text(self._language, "page.returning_hint"),
        )
        response = self._page(page, 503)
        if request.method == "GET":
            response.headers = (*response.headers, ("Refresh", "2"))
        return response

    # A request's own routes.

    def tap(self, request: http1.Request) -> Reply:
        """A button's link was opened."""
        asked = self._find(request, request.query)
        if asked is None or not asked.waits():
            return self._over(request, asked)
        row = KINDS[asked.kind].by_path(request.path)
        if row is None or row.needs:  # not this request's, or more than a tap
            return self._whole(asked)
        asks = self._asks_first(grants=not row.message)
        if asks or not self._gate.is_finger(request):
            return self._confirm(asked, row.name)
        return self._answer(request, asked, Answer(asked.id, row.name, surface="link"))

    def press(self, request: http1.Request) -> Reply:
        """A button of one of our own pages was pressed."""
        form = self._form(request)
        own = {name: form[name][0] for name in OWN_FIELDS if name in form}
        asked = self._find(request, own)
        if asked is None or not asked.waits():
            return self._over(request, asked)
        row = KINDS[asked.kind].by_path(request.path)
        if row is None:
            return self._whole(asked)
        answer = Answer(
            asked.id,
            row.name,
            {name: tuple(form[name]) for name in form if name not in OWN_FIELDS},
            "inbox" if IN_PLACE in request.headers else "page",
            digest=own.get("digest", ""),
            confirmed=own.get("confirmed") == "1",
        )
        return self._answer(request, asked, answer)

    def _expose(self, request: http1.Request, suspect: Suspect) -> Response:
        """The session that asks must neither answer nor see the ways to answer."""
        id = request.query.get("id") or parse_form(request.body).get("id", [""])[0]
        receipt = self._desk.refuse(id, request.path[1:], str(suspect))
        if IN_PLACE in request.headers:
            return self._json(result_json(self._language, receipt), 403)
        page = message_page(self._language, "page.refused", receipt.error)
        return self._page(page, 403)

    def show(self, request: http1.Request) -> Reply:
        """The whole request."""
        asked = self._find(request, request.query)
        if asked is None or not asked.raw:
            return self._over(request, asked)
        if self._gate.is_finger(request):
            self._desk.requests.mark_shown(asked)
        return self._whole(asked)

    def _answer(self, request: http1.Request, asked: Request, answer: Answer) -> Reply:
        """Hand an answer in, and say what came of it."""
        suspect = self._gate.suspect(request, afresh=True)
        if suspect is not None:
            return self._expose(request, suspect)
        receipt = self._desk.answer(answer)
        if IN_PLACE in request.headers:
            status = STATUSES.get(receipt.status, 200)
            return self._json(result_json(self._language, receipt), status)
        if receipt.status == statuses.CONFIRM:
            return self._confirm(asked, answer.action, receipt.error, answer)
        if receipt.status == statuses.INCOMPLETE:
            return self._whole(asked, receipt.error, answer)
        return self._result(receipt, asked)

    def _over(self, request: http1.Request, asked: Request | None) -> Response:
        """What became of a request that no longer waits."""
        receipt = Receipt(statuses.UNKNOWN)
        if asked is not None:
            outcome = self._desk.presenter.outcome(asked)
            receipt = Receipt(statuses.ENDED, outcome)
        if IN_PLACE in request.headers:
            status = STATUSES.get(receipt.status, 200)
            return self._json(result_json(self._language, receipt), status)
        return self._result(receipt, asked)

    def _result(self, receipt: Receipt, asked: Request | None) -> Response:
        status = STATUSES.get(receipt.status, 200)
        if receipt.status == statuses.REFUSED:
            page = message_page(self._language, "page.refused", receipt.error)
            return self._page(page, status)
        is_small = asked is not None and 0 < len(asked.raw) <= SMALL
        ask = self._desk.presenter.brief(asked) if asked and is_small else None
        return self._page(result_page(self._language, receipt, ask), status)

    def _whole(
        self, asked: Request, error: str = "", answer: Answer | None = None
    ) -> Slow:
        """A request's own page: what may be answered, or how it ended."""
        ask = self._desk.presenter.ask(asked)
        yield 0.0
        if not asked.waits():
            pieces = record_page(ask, self._desk.presenter.outcome(asked))
        else:
            left = self._desk.seconds_left(asked)
            values = answer.values if answer else None
            pieces = request_page(ask, self._links_of(ask), left, error, values)
        return (yield from self._pieces(pieces, 400 if error else 200))

    def _pieces(self, pieces: Iterable[bytes], status: int = 200) -> Slow:
        """A page that is made over several turns, if it is large."""
        made = []
        for piece in pieces:
            made.append(piece)
            yield 0.0
        return self._page(b"".join(made), status)

    def _confirm(
        self, asked: Request, name: str, words: str = "", answer: Answer | None = None
    ) -> Slow:
        """The step before a decision; `words` are to be agreed to."""
        ask = self._desk.presenter.ask(asked)
        offer = ask.offer(name)
        yield 0.0
        if offer is None:
            return (yield from self._whole(asked))
        if words:
            offer = offer._replace(confirm=words)
        link, left = self._links_of(ask)[name], self._desk.seconds_left(asked)
        values = answer.values if answer else None
        pieces = confirm_page(ask, offer, link, left, values)
        return (yield from self._pieces(pieces))

    # The inbox.

    def home(self, request: http1.Request) -> Reply:
        """The inbox page, with its first state inside; or the way in by a ticket."""
        if self._gate.may_read(request):
            return self._inbox_page(request)
        ticket = request.query.get("ticket", "")
        if self._tickets.is_good(ticket):
            if not self._gate.is_visit(request):
                return self._page(ticket_page(self._language, ticket))
            # Here and now: sent on to it, a browser that comes from another site would
            # keep its strict cookie back.
            self._tickets.spend(ticket)
            return self._inbox_page(request, ("Set-Cookie", self._open(request)))
        if request.headers.get("sec-fetch-site") == "cross-site":
            return self._page(again_page(self._language), 403)
        return self._refusal(403, "page.inbox_closed")

    def enter(self, request: http1.Request) -> Response:
        """The button behind a ticket was pressed: it becomes a session."""
        if not self._tickets.spend(self._form(request).get("ticket", [""])[0]):
            return self._refusal(403, "page.inbox_closed")
        return self._home_again(("Set-Cookie", self._open(request)))

    def _open(self, request: http1.Request) -> str:
        """A new session; the cookie that hands it over."""
        agent = request.headers.get("user-agent", "")
        return self._sessions.open(request.peer, agent)

    @staticmethod
    def _home_again(*headers: tuple[str, str]) -> Response:
        """Go on to the inbox; relative, since a proxy may add a prefix."""
        return Response(303, headers=[*PRIVATE, ("Location", "."), *headers])

    def _inbox_page(self, request: http1.Request, *headers: tuple[str, str]) -> Slow:
        own = self._gate.session(request)
        rows = session_list(self._language, self._sessions.all(), own)
        state = self._state(seen=self._gate.is_finger(request))
        items = list(self._items.values())
        response = yield from self._pieces(
            inbox_page(self._language, state, items, rows)
        )
        response.headers = (*response.headers, *headers)
        return response

    def dismiss(self, request: http1.Request) -> Response:
        """End a session, or all of them, and what they have open."""
        form = self._form(request)
        if not self._gate.may_read(request):
            return self._refusal(403, "page.inbox_closed")
        for id in form.get("session", ()):
            self._sessions.revoke(id)
        if "all" in form:
            self._sessions.revoke_all()
        left = {row.id for row in self._sessions.all()}
        for stream, id in self._streams:
            if id not in left:
                stream.close()
        return self._home_again()

    def _events(self, request: http1.Request, exchange: Exchange) -> None:
        gate = self._gate
        if not gate.may_read(request) or not gate.is_own_script(request):
            exchange.reply(self._refusal(403, "page.inbox_closed"))
            return
        suspect = gate.suspect(request)
        if suspect is not None:
            exchange.reply(self._expose(request, suspect))
            return
        stream = exchange.stream(PRIVATE)
        session = gate.session(request)
        self._streams = [pair for pair in self._streams if not pair[0].closed]
        if session is not None:
            self._streams.append((stream, session.id))
        self._inbox.open(stream)

    def arrived(self, ask: Ask) -> None:
        """Draw a large request while its event is decoded; a small one can wait."""
        if not ask.partial:
            return
        waiting = {row.id for row in self._desk.requests.waiting()[:SHOWN_WAITING]}
        self._items = {id: self._items[id] for id in self._items if id in waiting}
        if ask.id in waiting:
            self._items[ask.id] = make_item(ask, self._links_of(ask))

    def event(self) -> bytes:
        """The inbox's state as a server-sent event."""
        return b"event: state\ndata: " + self._state() + b"\n\n"

    def _state(self, seen: bool = True) -> bytes:
        """Everything the inbox shows; `seen` if somebody has the page open."""
        waiting = self._desk.requests.waiting()
        shown = self._drawn(waiting[:SHOWN_WAITING])
        for asked in shown if seen else ():
            self._desk.requests.mark_shown(asked)
        now, outcome = self._clock(), self._desk.presenter.outcome
        return state_json(
            self._items.values(),
            now=now,
            waiting_count=len(waiting),
            deadlines={row.id: now + self._desk.seconds_left(row) for row in shown},
            recent=[
                recent_item(outcome(row))
                for row in self._desk.requests.recent(SHOWN_RECENT)
            ],
        )

    def _drawn(self, waiting: list[Request]) -> list[Request]:
        """Make the items of these; returns those that are made.

        An item is made once.  Many large ones at a time would hold the loop: what is
        not made in this turn is in the next state.
        """
        before, until = self._items, self._ticks() + ITEM_SECONDS
        self._items = {row.id: before[row.id] for row in waiting if row.id in before}
        for asked in waiting:
            if asked.id not in self._items:
                ask = self._desk.presenter.brief(asked)
                self._items[asked.id] = make_item(ask, self._links_of(ask))
                if self._ticks() > until:
                    self._inbox.refresh()
                    break
        return [asked for asked in waiting if asked.id in self._items]

    # For programs.

    def status(self, request: http1.Request) -> Response:
        """What `feishuperm status` shows."""
        if not self._gate.may_read(request):
            return self._refusal(403, "page.inbox_closed")
        return self._json(self._status())

    def health(self, request: http1.Request) -> Response:
        return self._health

    # Parts.

    def _form(self, request: http1.Request) -> Form:
        """The fields of a form of ours. Raises ProtocolError for another site's."""
        if not self._gate.is_own_form(request):
            raise ProtocolError("a form of another site", 403)
        return parse_form(request.body)

    def _find(self, request: http1.Request, fields: dict[str, str]) -> Request | None:
        """The request a link names. Raises ProtocolError for a link that names none.

        Unsigned ids are short enough to be tried out, so whoever sent too many wrong
        ones is not even looked up.  A signature cannot be tried out: nobody is counted.
        """
        id = fields.get("id", "")
        if not id:
            raise ProtocolError("a link without id")
        if self._links.signs:
            return self._find_signed(request.path, id, fields.get("sig", ""))
        now = self._ticks()
        # Apart by where a tap comes from: no page shuts out who taps in the chat.
        sender = request.peer + request.headers.get("sec-fetch-site", "")
        if self._wrong_ids.too_many(sender, now):
            raise ProtocolError("too many wrong ids", 429)
        asked = self._desk.requests.get(id)
        # What cannot decide may guess: no page elsewhere can lock its reader out.
        if asked is None and self._gate.is_finger(request):
            self._wrong_ids.add(sender, now)
        return asked

    def _find_signed(self, path: str, id: str, signature: str) -> Request | None:
        """The same by a signed link. Raises NotYetError where it may still come."""
        if not self._links.good(path, id, signature):
            return None
        asked = self._desk.requests.get(id)
        if asked is None:
            if self._ticks() < self._started + RETURN_SECONDS:
                raise NotYetError
            raise ProtocolError("a request that is long forgotten", 410)
        return asked

    def _links_of(self, ask: Ask) -> dict[str, str]:
        """Every link of a request by the name of its button, and its own page.

        They are relative, since a proxy may add a prefix.
        """
        paths = {row.name: row.path for row in KINDS[ask.kind].actions}
        paths["request"] = "/request"
        return {
            name: self._links.path(path, ask.id)[1:] for name, path in paths.items()
        }

    def _refusal(self, status: int, key: str) -> Response:
        title = "page.invalid" if key == "page.unknown" else "page.refused"
        return self._page(
            message_page(self._language, title, text(self._language, key)), status
        )

    @staticmethod
    def _page(body: bytes, status: int = 200) -> Response:
        return Response(status, body, HTML, layout.HEADERS)

    @staticmethod
    def _json(value: object, status: int = 200) -> Response:
        return Response(status, json.dumps(value).encode() + b"\n", JSON, PRIVATE)


# A button's link is opened or its form is sent.
BUTTON: dict[str, Route] = {"GET": Callback.tap, "POST": Callback.press}
ROUTES: dict[str, dict[str, Route]] = {
    "/request": {"GET": Callback.show},
    "/": {"GET": Callback.home, "POST": Callback.enter},
    "/sessions": {"POST": Callback.dismiss},
    "/status": {"GET": Callback.status},
    "/healthz": {"GET": Callback.health},
}
