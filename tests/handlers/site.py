"""A callback around a desk that only writes down what it is told, and a browser."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast
from urllib.parse import urlencode

from feishuperm.handlers.access import Gate
from feishuperm.handlers.callback import Callback
from feishuperm.models import ask as statuses
from feishuperm.models.ask import Answer, Ask, Outcome, Receipt
from feishuperm.models.settings import Settings
from feishuperm.protocol.http1 import Request, Response
from feishuperm.services.grants import Passes
from feishuperm.services.ledger import Ledger
from feishuperm.services.quiet import QuietHours
from feishuperm.services.web_access import Links, LoginTokens, WebSessions
from tests.handlers.gates import LOCAL, NOWHERE, OWN, FakeClients, FakeOwners
from tests.handlers.pages.page import ID, Page, make_ask, make_outcome

LINKS = Links("http://localhost:8080", b"k" * 32, True)
NAVIGATES = {"sec_fetch_mode": "navigate", "sec_fetch_dest": "document"}
PUBLIC_SITE = {"CALLBACK_SERVER_URL": "https://box.example"}
BROWSER = {"user_agent": "Mozilla/5.0 (X11) Firefox/130.0"}
OWN_PAGE = {"origin": "https://box.example", **BROWSER}


class Asked:
    """A request as the desk keeps it."""

    def __init__(self, ask: Ask, ended: bool = False, raw: bytes = b"{}") -> None:
        self.id = ask.id
        self.kind = ask.kind
        self.raw = raw
        self.made = ask
        self.taken = 0  # how often somebody wanted to show it
        self.ended = ended
        self.why = ask.why
        self.extended, self.seen = False, 0.0
        self.masked, self.veiled = ask.masked, ask.veiled
        self.danger = ask.dangers
        self.is_worded = True
        self.grants: dict[str, object] = {}

    def payload(self) -> Any:
        return SimpleNamespace(tool_input={"command": "npm run build"})

    def ask(self) -> Ask | None:
        if not self.is_worded:
            return None
        self.taken += 1
        return self.made

    def waits(self) -> bool:
        return not self.ended


class FakeDesk:
    """Knows requests, takes answers, decides nothing."""

    def __init__(self, *asked: Asked) -> None:
        self.asked = {row.id: row for row in asked}
        self.answers: list[Answer] = []
        self.refused: list[tuple[str, str, str]] = []
        self.undone: list[tuple[str, str]] = []
        self.seen: list[str] = []
        self.held: list[str] = []
        self.receipt = Receipt(statuses.SETTLED, make_outcome())
        self.requests = self
        self.presenter = self
        self.made = 0
        self.passes = Passes(Ledger("/proc/nowhere/ledger"))
        self.revoked: list[tuple[str, str]] = []
        self.notifier = SimpleNamespace(quiet=QuietHours())

    def revoke_passes(self, id: str, surface: str) -> list[str]:
        self.revoked.append((id, surface))
        return [id]

    def get(self, id: str) -> Asked | None:
        return self.asked.get(id)

    def waiting(self) -> list[Asked]:
        return [row for row in self.asked.values() if row.waits()]

    def recent(self, most: int) -> list[Asked]:
        return [row for row in self.asked.values() if not row.waits()][:most]

    def mark_shown(self, asked: Asked) -> None:
        self.seen.append(asked.id)

    def extend_deadline(self, id: str) -> bool:
        self.held.append(id)
        return True

    def seconds_left(self, id: str) -> int:
        return 30

    def ask(self, asked: Asked, payload: object = None) -> Ask:
        self.made += 1
        return asked.made

    def outcome_of(self, asked: Asked) -> Outcome:
        return make_outcome("已拒绝运行", id=asked.id)

    def refuse(self, id: str, what: str, who: str) -> Receipt:
        self.refused.append((id, what, who))
        return Receipt(statuses.REFUSED, error=f"not for {who}")

    def answer(self, answer: Answer) -> Receipt:
        self.answers.append(answer)
        return self.receipt

    def undo(self, id: str, surface: str) -> Receipt:
        self.undone.append((id, surface))
        return self.receipt


class FakeStream:
    """An open page."""

    closed = False

    def close(self) -> None:
        self.closed = True


class FakeInbox:
    """Counts what it is asked for."""

    def __init__(self) -> None:
        self.refreshed = 0
        self.streams: list[FakeStream] = []
        self.followed: list[bytes] = []

    def open(self, stream: FakeStream) -> None:
        assert stream in self.streams

    def follow(self, stream: FakeStream, render: Callable[[], bytes]) -> None:
        assert stream in self.streams
        self.followed.append(render())

    def refresh(self) -> None:
        self.refreshed += 1


class Site:
    """A callback around a fake desk, and requests to it."""

    def __init__(self, *asked: Asked, **settings: str) -> None:
        self.desk = FakeDesk(*asked)
        self.inbox = FakeInbox()
        self.time = 0.0
        self.due: list[tuple[float, Callable[[], None]]] = []
        url = settings.get("CALLBACK_SERVER_URL", LOCAL)
        self.tickets, self.sessions = LoginTokens(), WebSessions(NOWHERE, url)
        self.clients, self.owners = FakeClients(), FakeOwners(OWN)
        gate = Gate(url, self.sessions, self.clients, self.owners, [])
        self.callback = Callback(
            cast(Any, self.desk),
            gate,
            LINKS,
            self.tickets,
            cast(Any, self.inbox),
            Settings({"CALLBACK_LINK_SIGNING": "on", **settings}),
            lambda: {"waiting": []},
            lambda request: None,
            lambda seconds, fn: self.due.append((self.time + seconds, fn)),
            lambda: 1_700_000_000.0,
            lambda: self.time,
        )

    def send(self, method: str, path: str, body: str = "", **headers: str) -> Response:
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        sent.setdefault("host", "localhost:8080")
        target, _, query = path.partition("?")
        pairs = dict(pair.split("=", 1) for pair in query.split("&") if pair)
        request = Request(method, target, pairs, sent, body=body.encode())
        request.peer = request.local = "127.0.0.1"
        request.local_port = 8080
        self.replies: list[Response] = []

        class Exchange:
            reply = self.replies.append
            stream = self.open_stream

        self.callback.on_request(request, cast(Any, Exchange()))
        return self.replies[0] if self.replies else Response(0)

    def open_stream(self, headers: object) -> FakeStream:
        self.inbox.streams.append(FakeStream())
        return self.inbox.streams[-1]

    def wait(self) -> None:
        """Let the next turn come that somebody has asked for."""
        self.due.sort(key=lambda pair: pair[0])
        self.time, fn = self.due.pop(0)
        fn()

    def tap(self, path: str, id: str = ID, **headers: str) -> Response:
        return self.send("GET", LINKS.path(path, id), **headers)

    def press(self, path: str, id: str = ID, **fields: Any) -> Response:
        headers = fields.pop("headers", {})
        form = {"id": id, "sig": LINKS.signature(path, id), **fields}
        return self.send("POST", path, urlencode(form, doseq=True), **headers)


def site(kind: str = "permission", **settings: str) -> Site:
    return Site(Asked(make_ask(kind)), **settings)


def told(response: Response) -> str:
    return Page(response.body).text
