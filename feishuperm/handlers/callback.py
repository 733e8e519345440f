"""HTTP: routes, parameters and replies; what they mean is the desk's business.

One row of `ROUTES` per path and method.  GET on the four buttons decides, as the cards
promise; a HEAD, a preview or a prefetch gets a page whose button decides.  A route that
takes a request id checks its link first and counts the wrong ones.
"""

from __future__ import annotations

import json
import time

from feishuperm import __version__
from feishuperm.errors import ProtocolError
from feishuperm.handlers import pages
from feishuperm.handlers.access import (
    WrongIds,
    is_finger,
    is_local,
    is_own_form,
    is_own_user,
)
from feishuperm.lib.text import text
from feishuperm.models.action import ACTIONS
from feishuperm.models.question import parse_answers
from feishuperm.models.request import QUESTION_TOOL
from feishuperm.models.settings import url_origin
from feishuperm.models.view import kind_of
from feishuperm.protocol.http1 import Response, parse_form

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from feishuperm.channels.inbox import InboxChannel
    from feishuperm.models.request import Request
    from feishuperm.models.settings import Settings
    from feishuperm.models.view import RequestView
    from feishuperm.protocol import http1
    from feishuperm.server.connection import Exchange
    from feishuperm.services.desk import Desk
    from feishuperm.services.links import Links

    Route = Callable[["Callback", http1.Request], Response]

HTML = "text/html; charset=utf-8"
JSON = "application/json; charset=utf-8"
PRIVATE = (("Cache-Control", "no-store"), ("X-Content-Type-Options", "nosniff"))
IN_PLACE = "x-feishuperm"  # the inbox asks for JSON instead of a page
SHOWN_WAITING = 50  # nobody reads a longer page; the count says how many there are
SHOWN_RECENT = 30
MAX_REASON = 1000  # characters, as the page's own field

# What a person is told, by the status of a request that cannot be served.
REFUSALS = {400: "page.unknown", 403: "page.foreign", 429: "page.too_many"}

# The links of each kind of request, beside the one to its own page.
LINKS = {
    "permission": tuple(ACTIONS),
    "plan": ("/allow", "/deny", "/interrupt"),
    "question": ("/answer", "/deny", "/interrupt"),
}


class Callback:
    """Answers every HTTP request."""

    def __init__(
        self,
        desk: Desk,
        links: Links,
        inbox: InboxChannel,
        settings: Settings,
        status: Callable[[], dict[str, Any]],
        share: Callable[[http1.Request], Response | None],
        clock: Callable[[], float] = time.time,
        ticks: Callable[[], float] = time.monotonic,
    ) -> None:
        self._desk = desk
        self._links = links
        self._inbox = inbox
        self._language = settings.feishuperm_lang
        self._confirms = settings.callback_confirm == "on"
        self._status = status
        self._share = share
        self._clock = clock
        self._ticks = ticks
        self._stays_here = settings.url_is_local()
        self._origin = url_origin(settings.callback_server_url)
        self._health = self._json({"ok": True, "version": __version__})
        self._wrong_ids = WrongIds()
        self._items: dict[str, dict[str, Any]] = {}  # of the inbox, by request id

    def on_request(self, request: http1.Request, exchange: Exchange) -> None:
        """Answer one request; `/events` keeps its exchange as a stream."""
        if request.path == "/events" and request.method == "GET":
            self._events(request, exchange)
        else:
            exchange.reply(self._respond(request))

    def _respond(self, request: http1.Request) -> Response:
        routes = ROUTES.get(request.path)
        if routes is None:
            return self._share(request) or self._refusal(404, "page.not_found")
        route = routes.get("GET" if request.method == "HEAD" else request.method)
        if route is None:
            allowed = ", ".join(["HEAD", *routes])
            return Response(405, b"wrong method\n", headers=[("Allow", allowed)])
        try:
            return route(self, request)
        except ProtocolError as error:
            return self._refusal(error.status, REFUSALS[error.status])

    # The four buttons.

    def tap(self, request: http1.Request) -> Response:
        """A button link was opened."""
        found = self._find(request, request.query)
        if found is None or not found.waits():
            return self._outcome(request, found, fresh=False)
        action = ACTIONS[request.path]
        if found.tool_name == QUESTION_TOOL and not action.message:
            return self._whole(found)  # a bare allow is not an answer: here is the form
        if self._confirms or request.method == "HEAD" or not is_finger(request):
            view = self._desk.notifier.view(found)
            link = self._link(request.path, found)
            rules, note = self._rules(found)
            left = self._desk.seconds_left(found)
            return self._page(
                pages.confirm_page(
                    self._language, view, action, link,
                    seconds_left=left, rules=rules, rule_note=note,
                )
            )  # fmt: skip
        decided = self._desk.decide(found.id, action.name, "webhook")
        return self._outcome(request, found, decided)

    def press(self, request: http1.Request) -> Response:
        """A button of one of our own pages was pressed."""
        form = self._form(request)
        found = self._find(request, form)
        if found is None or not found.waits():
            return self._outcome(request, found, fresh=False)
        action = ACTIONS[request.path]
        if found.tool_name == QUESTION_TOOL and not action.message:
            return self._whole(found)
        reason = form.get("reason", "").strip()[:MAX_REASON]
        surface = self._surface(request)
        decided = self._desk.decide(found.id, action.name, surface, reason)
        return self._outcome(request, found, decided)

    # Reading and answering.

    def show(self, request: http1.Request) -> Response:
        """The whole request."""
        found = self._find(request, request.query)
        if found is None or not found.raw:
            return self._outcome(request, found, fresh=False)
        if self._is_seen(request):
            self._desk.requests.mark_shown(found)
        return self._whole(found)

    def answer(self, request: http1.Request) -> Response:
        """The form of a question was sent."""
        fields = self._fields(request)
        found = self._find(request, _first(fields))
        if found is None or not found.waits():
            return self._outcome(request, found, fresh=False)
        questions = found.payload().tool_input.get("questions")
        answers = parse_answers(questions, fields)
        if isinstance(answers, str):
            return self._whole(found, answers, fields)
        decided = self._desk.answer(found.id, answers, self._surface(request))
        return self._outcome(request, found, decided)

    def _whole(
        self, found: Request, error: str = "", form: dict[str, list[str]] | None = None
    ) -> Response:
        """A request's own page: buttons, a form, or how it ended."""
        view = self._desk.notifier.view(found)
        links = self._links_of(found)
        left = self._desk.seconds_left(found)
        if error:
            page = pages.answer_page(
                self._language, view, links=links, seconds_left=left,
                error=error, form=form,
            )  # fmt: skip
            return self._page(page, 400)
        rules, note = self._rules(found)
        page = pages.request_page(
            self._language, view, links=links, seconds_left=left, request=found,
            rules=rules, rule_note=note,
        )  # fmt: skip
        return self._page(page)

    # The inbox.

    def home(self, request: http1.Request) -> Response:
        """The inbox page, with its first state inside."""
        if not self._is_owner(request):
            return self._refusal(403, "page.inbox_closed")
        query = {
            key: request.query[key] for key in ("until", "sig") if key in request.query
        }
        signed = "&".join(f"{key}={value}" for key, value in query.items())
        state = self.state(seen=self._is_seen(request))
        boot = {**state, "events": "events" + ("?" + signed if signed else "")}
        return self._page(pages.inbox_page(self._language, boot))

    def _events(self, request: http1.Request, exchange: Exchange) -> None:
        if not self._is_owner(request) or not is_finger(request):
            exchange.reply(self._refusal(403, "page.inbox_closed"))
            return
        self._inbox.open(exchange.stream(PRIVATE))

    def event(self) -> bytes:
        """The inbox's state as a server-sent event."""
        return b"event: state\ndata: " + json.dumps(self.state()).encode() + b"\n\n"

    def state(self, seen: bool = True) -> dict[str, Any]:
        """Everything the inbox shows; `seen` if somebody has the page open."""
        requests = self._desk.requests
        waiting = requests.waiting()
        for request in waiting[:SHOWN_WAITING] if seen else ():
            requests.mark_shown(request)
        return {
            "now": self._clock(),
            "waiting_count": len(waiting),
            "waiting": self._waiting_items(waiting[:SHOWN_WAITING]),
            "recent": [
                pages.recent_item(self._language, found, found.summary)
                for found in requests.recent(SHOWN_RECENT)
            ],
        }

    def _waiting_items(self, waiting: list[Request]) -> list[dict[str, Any]]:
        """The items of these requests; one is made once, however often it is sent."""
        known = self._items
        self._items = {
            found.id: known.get(found.id) or self._waiting_item(found)
            for found in waiting
        }
        now = self._clock()
        return [
            {**self._items[found.id], "deadline": now + self._desk.seconds_left(found)}
            for found in waiting
        ]

    def _waiting_item(self, found: Request) -> dict[str, Any]:
        view = self._desk.notifier.view(found)
        rules, note = self._rules(found)
        return pages.inbox_item(
            self._language,
            view,
            links=self._links_of(found),
            rules=rules,
            rule_note=note,
        )

    # For programs.

    def status(self, request: http1.Request) -> Response:
        """What `feishuperm status` shows."""
        if not self._is_owner(request):
            return self._refusal(403, "page.inbox_closed")
        return self._json(self._status())

    def health(self, request: http1.Request) -> Response:
        return self._health

    # Parts.

    def _find(self, request: http1.Request, fields: dict[str, str]) -> Request | None:
        """The request a link names. Raises ProtocolError for a link that names none.

        Unsigned ids are short enough to be tried out, so whoever sent too many wrong
        ones is not even looked up.  A signature cannot be tried out: a good one always
        works, whatever others behind the same address do.
        """
        id, now = fields.get("id", ""), self._ticks()
        if not id:
            raise ProtocolError("a link without id")
        signed = self._links.signs
        tried = self._wrong_ids.too_many(request.peer, now)
        good = self._links.good(request.path, id, fields.get("sig", ""))
        found = self._desk.requests.get(id) if good and (signed or not tried) else None
        if found is None:
            if tried:
                raise ProtocolError("too many wrong ids", 429)
            # What cannot decide may guess: no page elsewhere can lock its reader out.
            if is_finger(request):
                self._wrong_ids.add(request.peer, now)
        return found

    def _form(self, request: http1.Request) -> dict[str, str]:
        return _first(self._fields(request))

    def _fields(self, request: http1.Request) -> dict[str, list[str]]:
        if not is_own_form(request, self._origin):
            raise ProtocolError("a form of another site", 403)
        return parse_form(request.body)

    def _links_of(self, found: Request) -> dict[str, str]:
        """Every link of a request by its name."""
        paths = (*LINKS[kind_of(found.tool_name)], "/request")
        return {path[1:]: self._link(path, found) for path in paths}

    def _link(self, path: str, found: Request) -> str:
        """A link as our own pages use it: relative, since a proxy may add a prefix."""
        return self._links.path(path, found.id)[1:]

    def _rules(self, found: Request) -> tuple[tuple[str, ...], str]:
        """What "always" would write, or the sentence why nothing."""
        if not found.waits() or kind_of(found.tool_name) != "permission":
            return (), ""
        rules, refusal = self._desk.preview_rules(found)
        return rules, text(self._language, refusal) if refusal else ""

    def _is_owner(self, request: http1.Request) -> bool:
        """Whether the inbox may be opened: from this machine, or by a signed link.

        Once people reach us from elsewhere, through a tunnel perhaps, what comes over
        loopback may be anybody, whatever host it names: then only the link counts.
        """
        if self._stays_here and is_local(request) and is_own_user(request):
            return True
        return self._links.inbox_good(request.query, self._clock())

    @staticmethod
    def _is_seen(request: http1.Request) -> bool:
        """Whether a person will look at the answer."""
        return request.method == "GET" and is_finger(request)

    @staticmethod
    def _surface(request: http1.Request) -> str:
        return "inbox" if IN_PLACE in request.headers else "page"

    def _outcome(
        self, request: http1.Request, found: Request | None, fresh: bool
    ) -> Response:
        """What came of it, as a page or for the inbox's script."""
        status = 200 if found else 404
        if IN_PLACE in request.headers:
            return self._json(
                pages.outcome_json(self._language, found, fresh=fresh), status
            )
        view = self._view(found)
        page = pages.outcome_page(self._language, found, fresh=fresh, view=view)
        return self._page(page, status)

    def _view(self, found: Request | None) -> RequestView | None:
        if found is None or not found.raw:
            return None
        return self._desk.notifier.view(found)

    def _refusal(self, status: int, key: str) -> Response:
        detail = pages.Detail("", text(self._language, key))
        title = "page.invalid" if key == "page.unknown" else "page.refused"
        page = pages.result_page(
            self._language, title_key=title, details=[detail], icon="ask"
        )
        return self._page(page, status)

    @staticmethod
    def _page(body: bytes, status: int = 200) -> Response:
        return Response(status, body, HTML, pages.page_headers())

    @staticmethod
    def _json(value: object, status: int = 200) -> Response:
        return Response(status, json.dumps(value).encode() + b"\n", JSON, PRIVATE)


def _first(fields: dict[str, list[str]]) -> dict[str, str]:
    return {name: values[0] for name, values in fields.items() if values}


ROUTES: dict[str, dict[str, Route]] = {
    **{path: {"GET": Callback.tap, "POST": Callback.press} for path in ACTIONS},
    "/request": {"GET": Callback.show},
    "/answer": {"GET": Callback.show, "POST": Callback.answer},
    "/": {"GET": Callback.home},
    "/status": {"GET": Callback.status},
    "/healthz": {"GET": Callback.health},
}
