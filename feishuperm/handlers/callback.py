"""HTTP: routes, parameters and replies; what they mean is for the approvals to say.

The buttons' routes are those of `KINDS`; the others stand in `ROUTES`.  A GET of a
button's link decides, as the cards promise; a HEAD, a preview or a prefetch gets a page
whose button decides.  A press or a form is a POST from one of our own pages.  Each of
them becomes an `Answer`, and what they say to it becomes a page.
"""

from __future__ import annotations

import hashlib
import pkgutil
import re
import time
from collections.abc import Callable, Generator
from typing import Any

from feishuperm import __version__
from feishuperm.channels.inbox import InboxChannel
from feishuperm.errors import ProtocolError
from feishuperm.handlers.access import FOREIGN, OPEN_PATHS, Gate, WrongIds, is_local
from feishuperm.handlers.inbox import CLOSED, Form, Inbox, links_of, own_form
from feishuperm.handlers.pages.layout import Reply, Slow, as_json, in_pieces, page
from feishuperm.handlers.pages.request import (
    NOWHERE,
    Values,
    Ways,
    confirm_page,
    message,
    pending,
    record_page,
    refusal,
    request_page,
    result_json,
    result_page,
    undone_page,
)
from feishuperm.lib.feishu import CHANGED
from feishuperm.lib.files import read_bytes
from feishuperm.lib.process_tree import Suspect
from feishuperm.lib.program import archive_path
from feishuperm.messages import msg, text
from feishuperm.models import ask as statuses
from feishuperm.models.ask import FOREVER, WHILE, Answer, Receipt
from feishuperm.models.kind import COMMAND, KINDS, Action
from feishuperm.models.names import NO_REQUEST
from feishuperm.models.request import Request
from feishuperm.models.settings import Settings
from feishuperm.protocol import http1
from feishuperm.protocol.http1 import Response, parse_form, plain_response
from feishuperm.services.approvals import Approvals, is_hidden_from
from feishuperm.services.web_access import Links, LoginTokens
from feishuperm.wire import RETURN_SECONDS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from feishuperm.server.connection import Exchange

    Route = Callable[["Callback", http1.Request], Reply]

IN_PLACE = "x-feishuperm"  # the inbox asks for JSON instead of a page
EVENTS, UNDO = "/events", "/undo"
INBOX_PATHS = ("/", EVENTS, "/sessions", "/passes")
SMALL = 64 << 10  # bytes of an event that may be decoded to remind of it
HOLD_SECONDS = 3.0  # a browser waits for a request to come back; then it asks again
LOOK_SECONDS = 0.1
TURN_SECONDS = 0.01  # a person notices a tenth of a second
MAX_SLOW = 50  # of 15 MB at the most, and a person opens one
OWN_FIELDS = ("id", "sig", "digest", "confirmed")  # of a form, besides the person's

# What a person is told, by the status of a request that cannot be served.
REFUSALS = {
    400: NO_REQUEST,
    403: FOREIGN,
    410: NO_REQUEST,
    429: msg("Too many invalid links. Try again later."),
}
# How a page is sent that says what the approvals said.
STATUSES = {statuses.UNKNOWN: 404, statuses.INCOMPLETE: 400, statuses.REFUSED: 403}
MAX_ARCHIVE = 64 << 20
PROGRAM, SUMS = "/feishuperm.pyz", "/SHA256SUMS"
SHARED = ("/install.sh", PROGRAM, SUMS)
SAFE_HOST = re.compile(r"[A-Za-z0-9._:\[\]-]{1,255}\Z")


class SlowReplies:
    """Answers, and goes on with what is not finished."""

    def __init__(
        self,
        later: Callable[[float, Callable[[], None]], object],
        ticks: Callable[[], float] = time.monotonic,
    ) -> None:
        self._later = later
        self._ticks = ticks
        self._slow = 0

    def run(self, exchange: Exchange, reply: Reply) -> None:
        """Answer as soon as the steps are done: now, if they are few."""
        if isinstance(reply, Response):
            exchange.reply(reply)
        elif callable(reply):
            reply(exchange)
        elif self._slow >= MAX_SLOW:
            exchange.reply(plain_response(503))
        else:
            self._slow += 1
            self._go_on(exchange, reply)

    def _go_on(self, exchange: Exchange, steps: Slow) -> None:
        until, wait = self._ticks() + TURN_SECONDS, 0.0
        try:
            while not wait and self._ticks() < until:
                wait = next(steps)
        except StopIteration as done:
            self._slow -= 1
            exchange.reply(done.value)
        except Exception:
            self._slow -= 1
            exchange.reply(plain_response(500))
            raise
        else:
            self._later(wait, lambda: self._go_on(exchange, steps))


class NotYetError(Exception):
    """A good link names a request that its hook has not brought back."""


class Callback(Inbox):
    """Answers every HTTP request."""

    def __init__(
        self,
        approvals: Approvals,
        gate: Gate,
        links: Links,
        tickets: LoginTokens,
        inbox: InboxChannel,
        settings: Settings,
        status: Callable[[], dict[str, Any]],
        share: Callable[[http1.Request], Response | None],
        later: Callable[[float, Callable[[], None]], object],
        clock: Callable[[], float] = time.time,
        ticks: Callable[[], float] = time.monotonic,
    ) -> None:
        language = settings.feishuperm_lang
        super().__init__(approvals, gate, links, tickets, inbox, language, clock)
        self._asks_first = settings.asks_first
        surfaces = settings.surfaces()
        self._has_inbox = "inbox" in surfaces
        self._pages_answer = not surfaces.isdisjoint(("inbox", "webhook"))
        self._status = status
        self._share = share
        self._ticks = ticks
        self._health = as_json({"ok": True, "version": __version__})
        self._wrong_ids = WrongIds()
        self._slow = SlowReplies(later, ticks)
        self._started = ticks()

    def on_request(self, request: http1.Request, exchange: Exchange) -> None:
        """Answer one request; `/events` keeps its exchange as a stream."""
        self._slow.run(exchange, self._respond(request))

    def _respond(self, request: http1.Request) -> Reply:
        reason = self._gate.refusal(request)
        if reason is not None:
            return refusal(self._language, *reason)
        suspect = None if request.path in OPEN_PATHS else self._gate.suspect(request)
        if suspect is not None:
            return self._expose(request, suspect)
        of_one = request.path == EVENTS and "id" in request.query
        if request.path in INBOX_PATHS and not (of_one or self._has_inbox):
            switched_off = msg("FEISHUPERM_SURFACES has switched the inbox off.")
            return refusal(self._language, 403, switched_off)
        return self._route(request)

    def _route(self, request: http1.Request) -> Reply:
        routes = ROUTES.get(request.path)
        if routes is None and any(row.by_path(request.path) for row in KINDS.values()):
            routes = BUTTON
        if routes is None:
            return self._share(request) or refusal(
                self._language, 404, msg("There is no such page")
            )
        route = routes.get("GET" if request.method == "HEAD" else request.method)
        if route is None:
            allowed = ", ".join(["HEAD", *routes])
            return Response(405, b"wrong method\n", headers=[("Allow", allowed)])
        reply = self._tried(route, request)
        return self._await(route, request) if reply is None else reply

    def _tried(self, route: Route, request: http1.Request) -> Reply | None:
        """The answer; None while a hook may still bring the request back."""
        try:
            return route(self, request)
        except NotYetError:
            return None
        except ProtocolError as error:
            return refusal(self._language, error.status, REFUSALS[error.status])

    def _await(self, route: Route, request: http1.Request) -> Slow:
        """Wait a little for a hook that has lost its server to come back."""
        until = self._ticks() + HOLD_SECONDS
        while self._ticks() < until:
            yield LOOK_SECONDS
            reply = self._tried(route, request)
            if isinstance(reply, Generator):
                reply = yield from reply
            if isinstance(reply, Response):  # a stream waits for nobody
                return reply
        again = (("Refresh", "2"),) if request.method == "GET" else ()
        sentence = text(
            self._language,
            "The server has just restarted and this request is not back yet. Nothing "
            "was decided; try again in a moment.",
        )
        return message(
            self._language, 503, msg("The request is on its way back"), sentence, *again
        )

    # A request's own routes.

    def tap(self, request: http1.Request) -> Reply:
        """A button's link was opened."""
        asked = self._find(request, request.query)
        if asked is None or not asked.waits():
            return self._over(request, asked)
        row = KINDS[asked.kind].by_path(request.path)
        if row is None or row.needs:  # not this request's, or more than a tap
            self._opened(request, asked)
            return self._whole(asked, request)
        lasts = row.look in (FOREVER, WHILE)
        asks = self._asks_first(grants=not row.message, lasts=lasts)
        asks = asks or is_hidden_from(asked, row, "link")
        if asks or not self._gate.looks_human(request):
            self._opened(request, asked)
            return self._confirm(asked, request, row.name)
        return self._answer(request, asked, Answer(asked.id, row.name, surface="link"))

    def press(self, request: http1.Request) -> Reply:
        """A button of one of our own pages was pressed."""
        form, asked = self._sent(request)
        if asked is None or not asked.waits():
            return self._over(request, asked)
        row = KINDS[asked.kind].by_path(request.path)
        # A person with a link may allow what was asked, not write what runs.
        if row is None or (row.edits and not self._gate.may_read(request)):
            return self._whole(asked, request)
        answer = Answer(
            asked.id,
            row.name,
            {name: tuple(form[name]) for name in form if name not in OWN_FIELDS},
            "inbox" if IN_PLACE in request.headers else "page",
            digest=form.get("digest", [""])[0],
            confirmed=form.get("confirmed", [""])[0] == "1",
        )
        if not row.message:
            first = self._before_granting(asked, row, answer)
            if first is not None:
                return self._say(request, asked, answer, first)
        return self._answer(request, asked, answer)

    def _before_granting(
        self, asked: Request, row: Action, answer: Answer
    ) -> Receipt | None:
        """Why a page's button does not let it happen yet."""
        if COMMAND in answer.values and not row.edits:
            typed = "".join(answer.values[COMMAND]).replace("\r\n", "\n")
            if typed != asked.payload().tool_input.get(COMMAND):
                changed = text(self._language, CHANGED)
                return Receipt(statuses.INCOMPLETE, error=changed)
        if asked.danger and not answer.confirmed:
            marked = text(self._language, "This call is marked as dangerous.")
            return Receipt(statuses.CONFIRM, error=marked)
        return None

    def _expose(self, request: http1.Request, suspect: Suspect) -> Response:
        """The session that asks must neither answer nor see the ways to answer."""
        id = request.query.get("id") or parse_form(request.body).get("id", [""])[0]
        receipt = self._approvals.refuse(id, request.path[1:], str(suspect))
        return self._result(request, receipt, None)

    def show(self, request: http1.Request) -> Reply:
        """The whole request."""
        asked = self._find(request, request.query)
        if asked is None or not asked.raw:
            return self._over(request, asked)
        self._opened(request, asked)
        return self._whole(asked, request)

    def hold(self, request: http1.Request) -> Reply:
        """Somebody says that they are reading: the clock stops."""
        _, asked = self._sent(request)
        if asked is None or not asked.waits():
            return self._over(request, asked)
        held = self._approvals.extend_deadline(asked.id)
        if IN_PLACE in request.headers:
            return as_json({"over": False, "held": held})
        return self._whole(asked, request)

    def _opened(self, request: http1.Request, asked: Request) -> None:
        """A page shows a request: to a person, as far as can be told, who reads it."""
        if self._gate.looks_human(request):
            self._approvals.requests.mark_shown(asked)
            self._approvals.extend_deadline(asked.id)

    def _answer(self, request: http1.Request, asked: Request, answer: Answer) -> Reply:
        """Hand an answer in, and say what it did."""
        suspect = self._gate.suspect(request, afresh=True)
        if suspect is not None:
            return self._expose(request, suspect)
        return self._say(request, asked, answer, self._approvals.answer(answer))

    def _say(
        self, request: http1.Request, asked: Request, answer: Answer, receipt: Receipt
    ) -> Reply:
        """What the approvals said to an answer, as a page or in place."""
        in_place = IN_PLACE in request.headers
        if receipt.status == statuses.CONFIRM and not in_place:
            return self._confirm(
                asked, request, answer.action, receipt.error, answer.values
            )
        if receipt.status == statuses.INCOMPLETE and not in_place:
            return self._whole(asked, request, receipt.error, answer.values)
        return self._result(request, receipt, asked)

    def revoke(self, request: http1.Request) -> Response:
        """End the pass that an answer to this request has made."""
        _, asked = self._sent(request)
        if asked is None or not asked.grants:
            return self._over(request, asked)
        ended = self._approvals.revoke_passes(str(asked.grants["id"]), "page")
        done = text(self._language, "{count} passes revoked", count=len(ended))
        return message(self._language, 200, msg("Passes"), done)

    def _over(self, request: http1.Request, asked: Request | None) -> Response:
        """What became of a request that no longer waits."""
        receipt = Receipt(statuses.UNKNOWN)
        if asked is not None:
            receipt = Receipt(statuses.ENDED, self._approvals.outcome_of(asked))
        return self._result(request, receipt, asked)

    def _result(
        self, request: http1.Request, receipt: Receipt, asked: Request | None
    ) -> Response:
        """What the approvals said; as JSON for a page that shows it in place."""
        status = STATUSES.get(receipt.status, 200)
        if IN_PLACE in request.headers:
            return as_json(result_json(self._language, receipt), status)
        if receipt.status == statuses.REFUSED:
            return message(
                self._language, status, msg("This cannot be opened"), receipt.error
            )
        is_small = asked is not None and 0 < len(asked.raw) <= SMALL
        ask = asked.ask() if asked and is_small else None
        ways = self._ways(asked)
        if asked is not None and receipt.status == statuses.SETTLED and asked.grants:
            revoke = self._links.path("/revoke", asked.id)[1:]
            ways = ways._replace(revoke=revoke)
        return page(result_page(self._language, receipt, ask, ways), status)

    def _whole(
        self,
        asked: Request,
        request: http1.Request,
        error: str = "",
        values: Values | None = None,
    ) -> Slow:
        """A request's own page: what may be answered, or how it ended.

        Beside the inbox's list it is a part of that page, without the secrets.
        """
        in_place = IN_PLACE in request.headers and asked.waits()
        brief = asked.ask() if in_place else None
        payload = None if brief else asked.payload()
        yield 0.0
        ask = brief or self._approvals.presenter.ask(asked, payload)
        if not self._gate.may_read(request):
            ask = ask.without_edit()
        if not self._pages_answer:
            ask = ask._replace(actions=(), fields=(), hold=False)
        yield 0.0
        ways = self._ways(asked)
        left = self._approvals.seconds_left(asked.id)
        links = links_of(self._links, ask)
        if not asked.waits():
            pieces = record_page(ask, self._approvals.outcome_of(asked), ways)
        elif in_place:
            drawn = pending(ask, links, left)
            pieces = (piece.encode(errors="replace") for piece in drawn)
        else:
            pieces = request_page(ask, links, left, error, values, ways.events)
        return (yield from in_pieces(pieces, 400 if error else 200))

    def _confirm(
        self,
        asked: Request,
        request: http1.Request,
        name: str,
        words: str = "",
        values: Values | None = None,
    ) -> Slow:
        """The step before a decision; `words` are to be agreed to."""
        payload = asked.payload()
        yield 0.0
        ask = self._approvals.presenter.ask(asked, payload)
        offer = ask.offer(name)
        yield 0.0
        if offer is None:
            return (yield from self._whole(asked, request))
        offer = offer._replace(confirm=offer.confirm or words)
        link = links_of(self._links, ask)[name]
        left, events = self._approvals.seconds_left(asked.id), self._ways(asked).events
        pieces = confirm_page(ask, offer, link, left, values, events)
        return (yield from in_pieces(pieces))

    # After the decision.

    def events(self, request: http1.Request) -> Reply:
        """A page wants to be told what changes: in the inbox, or of one request."""
        if "id" not in request.query:
            return self.listen(request)
        try:
            asked = self._find(request, request.query)
        except (ProtocolError, NotYetError):
            asked = None
        if asked is None or not self._gate.is_own_script(request):
            return refusal(self._language, 403, NO_REQUEST)
        return self.follow(asked)

    def undo(self, request: http1.Request) -> Response:
        """Undo the rules that a request wrote."""
        _, asked = self._sent(request)
        suspect = self._gate.suspect(request, afresh=True)
        if suspect is not None:
            return self._expose(request, suspect)
        receipt = Receipt(statuses.UNKNOWN)
        if asked is not None:
            receipt = self._approvals.undo(asked.id, "page")
        if receipt.status != statuses.SETTLED:
            return self._result(request, receipt, asked)
        return page(undone_page(self._language, receipt.outcome))

    def _ways(self, asked: Request | None) -> Ways:
        """Where a page about a request leads."""
        if asked is None:
            return NOWHERE
        undo = self._links.path(UNDO, asked.id)[1:] if self._pages_answer else ""
        return Ways(self._links.path(EVENTS, asked.id)[1:], undo)

    # For programs.

    def status(self, request: http1.Request) -> Response:
        """What `feishuperm status` shows."""
        if not self._gate.may_read(request):
            return refusal(self._language, *CLOSED)
        return as_json(self._status())

    def health(self, request: http1.Request) -> Response:
        return self._health

    # Parts.

    def _sent(self, request: http1.Request) -> tuple[Form, Request | None]:
        """One of our forms, and the request it names. Raises ProtocolError."""
        form = own_form(self._gate, request)
        return form, self._find(request, {name: form[name][0] for name in form})

    def _find(self, request: http1.Request, fields: dict[str, str]) -> Request | None:
        """The request a link names. Raises ProtocolError for a link that names none.

        Raises NotYetError where its hook may still bring it back.

        Unsigned ids are short enough to be tried out, so a sender of too many wrong
        ones is not even looked up.  A signature cannot be tried out: nobody is counted.
        """
        id = fields.get("id", "")
        if not id:
            raise ProtocolError("a link without id")
        if self._links.signs:
            if not self._links.good(request.path, id, fields.get("sig", "")):
                return None
            asked = self._approvals.requests.get(id)
            if asked is None and self._ticks() < self._started + RETURN_SECONDS:
                raise NotYetError
            if asked is None:
                raise ProtocolError("a request that is long forgotten", 410)
            return asked
        now = self._ticks()
        # Apart by where a tap comes from: no page shuts out who taps in the chat.
        sender = request.peer + request.headers.get("sec-fetch-site", "")
        if self._wrong_ids.too_many(sender, now):
            raise ProtocolError("too many wrong ids", 429)
        asked = self._approvals.requests.get(id)
        # What cannot decide may guess: no page elsewhere can lock its reader out.
        if asked is None and self._gate.looks_human(request):
            self._wrong_ids.add(sender, now)
        return asked


# A button's link is opened or its form is sent.
BUTTON: dict[str, Route] = {"GET": Callback.tap, "POST": Callback.press}
ROUTES: dict[str, dict[str, Route]] = {
    "/request": {"GET": Callback.show},
    "/hold": {"POST": Callback.hold},
    "/": {"GET": Callback.home, "POST": Callback.enter},
    EVENTS: {"GET": Callback.events},
    UNDO: {"POST": Callback.undo},
    "/sessions": {"POST": Callback.sign_out},
    "/passes": {"POST": Callback.end_passes},
    "/revoke": {"POST": Callback.revoke},
    "/status": {"GET": Callback.status},
    "/healthz": {"GET": Callback.health},
}


# Installing from here.


class Share:
    """Hands this very version on, for the paths in SHARED; None otherwise.

    The script that goes out holds the address and the checksum of the file that goes
    out.  The file is kept in memory from the start: an upgrade replaces it on the disk,
    and a script and a file of two versions must never meet.
    """

    def __init__(
        self, settings: Settings, archive: bytes | None = None, script: bytes = b""
    ) -> None:
        if archive is None:
            path = archive_path()
            archive = (read_bytes(path, MAX_ARCHIVE) if path else None) or b""
        self._who = settings.callback_share_installer
        self._url = settings.callback_server_url
        self._archive = archive
        self._digest = hashlib.sha256(archive).hexdigest()
        self._script = script or pkgutil.get_data("feishuperm", "web/install.sh") or b""

    def __call__(self, request: http1.Request) -> Response | None:
        near = is_local(request)
        is_open = self._who == "on" or (self._who == "auto" and near)
        if request.path not in SHARED or not self._archive or not is_open:
            return None
        if request.method not in ("GET", "HEAD"):
            return Response(405, b"wrong method\n", headers=[("Allow", "GET, HEAD")])
        if request.path == PROGRAM:
            return Response(200, self._archive, "application/octet-stream")
        if request.path == SUMS:  # for `install.sh --from URL`
            return Response(200, f"{self._digest}  feishuperm.pyz\n".encode())
        # How the caller reached us; from afar, how people are meant to.
        host = request.headers.get("host", "")
        url = f"http://{host}" if near and SAFE_HOST.match(host) else self._url
        script = fill_installer(self._script, __version__, url + PROGRAM, self._digest)
        return Response(200, script, "text/x-shellscript; charset=utf-8")


def fill_installer(script: bytes, version: str, url: str, sha256: str) -> bytes:
    """install.sh made for one file: its version, its address, its checksum."""
    for name, value in (("version", version), ("url", url), ("sha256", sha256)):
        quoted = value.replace("'", "'\\''")  # a URL may hold one; it must not get out
        line = f"\n{name}='{quoted}'\n".encode()
        script = script.replace(f"\n{name}=''\n".encode(), line, 1)
    return script
