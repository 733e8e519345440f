"""Routes, parameters and replies over a desk that only writes down what it is told."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any, cast
from urllib.parse import urlencode

import pytest

from feishuperm.handlers.access import Gate
from feishuperm.handlers.callback import Callback
from feishuperm.handlers.turns import MAX_SLOW
from feishuperm.lib.peer import Owner
from feishuperm.models import ask as statuses
from feishuperm.models.ask import Answer, Ask, Block, Outcome, Receipt
from feishuperm.models.kind import KINDS, Kind
from feishuperm.models.settings import Settings
from feishuperm.protocol.http1 import Request, Response
from feishuperm.services.links import Links
from feishuperm.services.sessions import Sessions, Tickets
from tests import asks
from tests.handlers.gates import (
    AGENT,
    LOCAL,
    NOWHERE,
    OTHER,
    OWN,
    FakeClients,
    FakeOwners,
)
from tests.handlers.pages.page import ID, Page, make_ask, make_outcome
from tests.kinds import extra

LINKS = Links("http://localhost:8080", b"k" * 32, True)
__all__ = ["extra"]
PHONE = {"sec-fetch-mode": "navigate", "sec-fetch-dest": "document"}
NAVIGATES = {"sec_fetch_mode": "navigate", "sec_fetch_dest": "document"}
PREVIEW = {"user-agent": "Slackbot-LinkExpanding 1.0"}


class Asked:
    """A request as the desk keeps it."""

    def __init__(self, ask: Ask, ended: bool = False, raw: bytes = b"{}") -> None:
        self.id = ask.id
        self.kind = ask.kind
        self.raw = raw
        self.ask = ask
        self.ended = ended

    def waits(self) -> bool:
        return not self.ended


class FakeDesk:
    """Knows requests, takes answers, decides nothing."""

    def __init__(self, *asked: Asked) -> None:
        self.asked = {row.id: row for row in asked}
        self.answers: list[Answer] = []
        self.refused: list[tuple[str, str, str]] = []
        self.seen: list[str] = []
        self.receipt = Receipt(statuses.SETTLED, make_outcome())
        self.requests = self
        self.presenter = self
        self.made = 0

    def get(self, id: str) -> Asked | None:
        return self.asked.get(id)

    def waiting(self) -> list[Asked]:
        return [row for row in self.asked.values() if row.waits()]

    def recent(self, most: int) -> list[Asked]:
        return [row for row in self.asked.values() if not row.waits()][:most]

    def mark_shown(self, asked: Asked) -> None:
        self.seen.append(asked.id)

    def seconds_left(self, asked: Asked) -> int:
        return 30

    def ask(self, asked: Asked) -> Ask:
        self.made += 1
        return asked.ask

    brief = ask

    def outcome(self, asked: Asked) -> Outcome:
        return make_outcome("已拒绝运行", id=asked.id)

    def refuse(self, id: str, what: str, who: str) -> Receipt:
        self.refused.append((id, what, who))
        return Receipt(statuses.REFUSED, error=f"not for {who}")

    def answer(self, answer: Answer) -> Receipt:
        self.answers.append(answer)
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

    def open(self, stream: FakeStream) -> None:
        assert stream in self.streams

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
        self.tickets, self.sessions = Tickets(), Sessions(NOWHERE, url)
        self.clients, self.owners = FakeClients(), FakeOwners(OWN)
        gate = Gate(url, self.sessions, self.clients, self.owners, [])
        self.callback = Callback(
            cast(Any, self.desk),
            gate,
            LINKS,
            self.tickets,
            self.sessions,
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


# Taps.


@pytest.mark.parametrize("kind", list(KINDS))
def test_every_action_of_a_kind_has_a_route_and_is_handed_to_the_desk(
    kind: str,
) -> None:
    for row in KINDS[kind].actions:
        here = site(kind)
        response = here.tap(row.path)
        if row.needs:
            assert here.desk.answers == []
            assert f'action="{row.path[1:]}"'.encode() in response.body
        else:
            assert here.desk.answers == [Answer(ID, row.name, surface="link")]
            assert "操作成功" in told(response)
        assert response.status == 200


def test_link_of_an_action_the_kind_does_not_have_shows_the_page() -> None:
    here = site("plan")
    assert "批准计划" in told(here.tap("/always"))
    assert "批准计划" in told(here.press("/answer"))
    assert here.desk.answers == []


@pytest.mark.parametrize(
    "headers",
    [
        PREVIEW,
        {"purpose": "prefetch"},
        {"sec-fetch-dest": "image", "sec-fetch-site": "cross-site"},
    ],
)
def test_machine_gets_a_page_whose_button_decides(headers: dict[str, str]) -> None:
    here = site()
    response = here.tap("/allow", **headers)
    assert "请确认操作" in told(response)
    assert Page(response.body).button("allow") == "批准运行"
    assert here.desk.answers == []


def test_head_decides_nothing_and_nothing_counts_as_seen() -> None:
    here = site()
    for path in ("/allow", "/request"):
        here.send("HEAD", LINKS.path(path, ID))
    here.send("HEAD", "/")
    here.tap("/request", **PREVIEW)
    assert here.desk.answers == [] and here.desk.seen == []
    here.tap("/request", **PHONE)
    assert here.desk.seen == [ID]


def test_confirmation_shows_the_page_for_every_action() -> None:
    here = site(CALLBACK_CONFIRM="on")
    for path in ("/allow", "/always", "/deny", "/interrupt"):
        assert "请确认操作" in told(here.tap(path))
    assert here.desk.answers == []


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_wrong_signature_is_an_unknown_request(method: str) -> None:
    here = site()
    body = urlencode({"id": ID, "sig": LINKS.signature("/deny", ID)})
    query = f"?{body}" if method == "GET" else ""
    response = here.send(method, "/allow" + query, body)
    assert response.status == 404
    assert "请求无效或已过期" in told(response)
    assert here.desk.answers == []


def test_link_without_id_is_a_bad_request() -> None:
    assert site().send("GET", "/allow").status == 400


# Presses and forms.


def test_press_carries_what_was_filled_in_and_no_more() -> None:
    here = site()
    here.press("/deny", reason="tests first", digest="d1", confirmed="1")
    values = {"reason": ("tests first",)}
    answer = Answer(ID, "deny", values, "page", digest="d1", confirmed=True)
    assert here.desk.answers == [answer]


def test_several_choices_of_one_field_arrive_in_order() -> None:
    here = site("question")
    here.press("/answer", q0=["S", "L"], q0_other="XL")
    assert here.desk.answers[0].values == {"q0": ("S", "L"), "q0_other": ("XL",)}


def test_press_in_the_inbox_is_answered_in_place() -> None:
    here = site()
    response = here.press("/allow", headers={"x_feishuperm": "1"})
    assert here.desk.answers[0].surface == "inbox"
    reply = json.loads(response.body)
    assert reply["ok"] and reply["over"] and "已批准运行" in reply["title"]


@pytest.mark.parametrize(
    "headers",
    [{"origin": "https://evil.test"}, {"origin": "null"}],
)
def test_form_of_another_site_is_refused(headers: dict[str, str]) -> None:
    here = site()
    assert here.press("/allow", headers=headers).status == 403
    assert here.desk.answers == []


# What the desk says.


@pytest.mark.parametrize(
    ("receipt", "status", "page"),
    [
        (Receipt(statuses.SETTLED, make_outcome()), 200, "操作成功"),
        (Receipt(statuses.ENDED, make_outcome()), 200, "请求无效或已过期"),
        (Receipt(statuses.UNKNOWN), 404, "请求无效或已过期"),
        (Receipt(statuses.INCOMPLETE, error="请至少"), 400, "请至少"),
        (Receipt(statuses.CONFIRM, error="任何调用"), 200, "任何调用"),
        (Receipt(statuses.REFUSED, error="来自会话本身"), 403, "来自会话本身"),
    ],
)
def test_each_receipt_has_its_page_and_its_json(
    receipt: Receipt, status: int, page: str
) -> None:
    here = site()
    here.desk.receipt = receipt
    pressed = here.press("/always")
    assert (pressed.status, page in told(pressed)) == (status, True)
    in_place = here.press("/always", headers={"x_feishuperm": "1"})
    assert in_place.status == status
    assert json.loads(in_place.body)["ok"] is (receipt.status == statuses.SETTLED)


def test_words_to_agree_to_come_back_with_the_next_press() -> None:
    here = site()
    here.desk.receipt = Receipt(statuses.CONFIRM, error="任何调用")
    form = Page(here.tap("/always").body).form("always")
    assert form["confirmed"] == "1"
    assert form["sig"] == LINKS.signature("/always", ID)


def test_incomplete_answer_comes_back_as_it_was_filled_in() -> None:
    here = site("question")
    here.desk.receipt = Receipt(statuses.INCOMPLETE, error="请至少回答一个问题")
    response = here.press("/deny", reason="not <now>")
    assert Page(response.body).all("input", name="reason", value="not <now>")


# Requests that are on their way back.


def test_good_link_waits_for_a_hook_that_returns_to_a_new_server() -> None:
    here = Site()
    assert here.tap("/allow").status == 0  # not answered yet
    here.wait()
    assert here.replies == []
    here.desk.asked[ID] = Asked(make_ask())
    here.wait()
    assert "操作成功" in told(here.replies[0])
    assert [answer.action for answer in here.desk.answers] == ["allow"]


def test_request_that_does_not_come_back_is_asked_for_again_and_never_unknown() -> None:
    here = Site()
    here.tap("/allow")
    while not here.replies:
        here.wait()
    assert here.time < 4
    assert here.replies[0].status == 503
    assert "没有做任何决定" in told(here.replies[0])
    assert dict(here.replies[0].headers)["Refresh"] == "2"
    here.press("/deny")
    while not here.replies:
        here.wait()
    assert "Refresh" not in dict(here.replies[0].headers)


def test_good_link_of_a_forgotten_request_is_gone_and_a_bad_one_waits_for_nothing() -> (
    None
):
    here = Site()
    assert here.send("GET", f"/allow?id={ID}&sig=bad").status == 404
    here.time = 60.0
    gone = here.tap("/allow")
    assert gone.status == 410
    assert "请求无效或已过期" in told(gone)


def test_waiting_for_hooks_is_bounded() -> None:
    here = Site()
    statuses_seen = [here.tap("/allow").status for _ in range(MAX_SLOW + 1)]
    assert statuses_seen == [0] * MAX_SLOW + [503]


# Large pages.


def test_large_page_is_made_over_several_turns_and_whole() -> None:
    text = "<x>" * 1_000_000
    here = Site(Asked(make_ask(blocks=(Block("code", "", text),))))
    ticking = iter(range(10**9))
    here.callback._turns._ticks = lambda: next(ticking) * 0.004
    assert here.tap("/request").status == 0
    turns = 0
    while not here.replies:
        here.wait()
        turns += 1
    assert turns > 20
    assert text in told(here.replies[0])


# Requests that have ended.


def test_ended_request_is_never_handed_to_the_desk_again() -> None:
    here = Site(Asked(make_ask(), ended=True))
    for response in (here.tap("/allow"), here.press("/allow")):
        assert response.status == 200
        assert "已拒绝运行" in told(response)
    in_place = here.press("/allow", headers={"x_feishuperm": "1"})
    assert not json.loads(in_place.body)["ok"]
    assert here.desk.answers == []


def test_page_of_an_ended_request_is_a_record() -> None:
    page = Page(Site(Asked(make_ask(), ended=True)).tap("/request").body)
    assert "npm run build" in page.text and "已拒绝运行" in page.text
    assert not page.all("form")


def test_request_of_which_only_its_end_is_known_shows_that() -> None:
    here = Site(Asked(make_ask(), ended=True, raw=b""))
    assert "已拒绝运行" in told(here.tap("/request"))
    assert here.desk.made == 0


# Routes.


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/nothing", 404),
        ("POST", "/request", 405),
        ("PUT", "/allow", 405),
        ("GET", "/healthz", 200),
        ("HEAD", "/healthz", 200),
        ("POST", "/healthz", 405),
    ],
)
def test_wrong_paths_and_methods_are_refused(
    method: str, path: str, status: int
) -> None:
    response = site().send(method, path)
    assert response.status == status
    if status == 405:
        assert "HEAD" in dict(response.headers)["Allow"]


def test_kind_and_button_of_tomorrow_need_no_line_here(extra: Kind) -> None:
    ask = asks.make_ask("TripTool", {"to": "Rome"}, id=ID)
    here = Site(Asked(ask))
    page = Page(here.tap("/request").body)
    assert "行程" in page.text and "Rome" in page.text
    assert page.button("later") == "以后再说"
    state = json.loads(here.callback.inbox.event().partition(b"data: ")[2])
    offers = {offer["name"]: offer for offer in state["waiting"][0]["offers"]}
    assert offers["later"]["label"] == "以后再说" and offers["later"]["key"] == "l"
    home = Page(here.send("GET", "/").body)
    assert home.button("later") == "以后再说"
    assert "l" in json.loads(home.scripts[0])["keys"]
    assert "操作成功" in told(here.tap("/later"))
    here.press("/later")
    surfaces = [(answer.action, answer.surface) for answer in here.desk.answers]
    assert surfaces == [("later", "link"), ("later", "page")]


def test_button_of_tomorrow_is_on_old_requests_too(extra: Kind) -> None:
    here = Site(Asked(asks.make_ask("Bash", id=ID)))
    names = ["allow", "always", "deny", "interrupt", "later"]
    assert sorted(Page(here.tap("/request").body).forms) == names


# The stream.


def many(count: int) -> list[Asked]:
    return [Asked(make_ask(id=f"{number}-00000000")) for number in range(count)]


def test_item_of_a_request_is_made_once() -> None:
    here = Site(*many(3))
    for _ in range(5):
        state = json.loads(here.callback.inbox.event().partition(b"data: ")[2])
    assert here.desk.made == 3
    assert state["waiting_count"] == 3
    assert state["deadlines"]["1-00000000"] == 1_700_000_030.0


def test_large_request_is_drawn_when_it_arrives_and_a_small_one_when_looked_at() -> (
    None
):
    large = make_ask(blocks=(Block("code", "", "start", hidden=1, tail="end"),))
    here = Site(Asked(large))
    here.callback.inbox.arrived(large)
    here.callback.inbox.arrived(make_ask(id="small"))
    state = json.loads(here.callback.inbox.event().partition(b"data: ")[2])
    assert [item["id"] for item in state["waiting"]] == [ID]
    assert here.desk.made == 0


def test_many_new_items_are_made_over_several_turns() -> None:
    here = Site(*many(10))
    slow = here.desk.brief

    def brief(asked: Asked) -> Ask:
        here.time += 0.012
        return slow(asked)

    here.desk.brief = brief  # type: ignore[method-assign]
    counts = []
    while not counts or here.inbox.refreshed == len(counts):
        state = json.loads(here.callback.inbox.event().partition(b"data: ")[2])
        counts.append(len(state["waiting"]))
    assert counts == [2, 4, 6, 8, 10, 10]


def test_what_was_not_shown_is_not_marked_as_shown() -> None:
    here = Site(*many(60))
    here.callback.inbox.event()
    assert len(here.desk.seen) == 50


# Who is let in.

PUBLIC_SITE = {"CALLBACK_SERVER_URL": "https://box.example"}
BROWSER = {"user_agent": "Mozilla/5.0 (X11) Firefox/130.0"}
OWN_PAGE = {"origin": "https://box.example", **BROWSER}


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"host": "rebound.example:8080"}, 421),
        ({"origin": "https://evil.test"}, 403),
        ({"origin": "null"}, 403),
        ({"connection": "Upgrade", "upgrade": "websocket"}, 400),
    ],
)
@pytest.mark.parametrize("path", ["/allow", "/", "/status", "/events", "/healthz"])
def test_hostile_page_gets_nothing_on_any_route(
    path: str, headers: dict[str, str], status: int
) -> None:
    place = site()
    target = LINKS.path(path, ID)
    assert place.send("GET", target, **headers).status == status
    assert not place.desk.answers and not place.desk.seen


@pytest.mark.parametrize("owner", [OTHER, None])
def test_other_user_of_this_machine_gets_nothing_with_a_good_link(
    owner: Owner | None,
) -> None:
    place = site()
    place.owners.owner = owner
    for path in ("/allow", "/deny", "/request"):
        assert place.tap(path).status == 403
    assert place.press("/allow").status == 403
    for path in ("/", "/status", "/events"):
        assert place.send("GET", path).status == 403
    assert place.send("GET", "/healthz").status == 200
    assert not place.desk.answers and not place.desk.seen


def test_session_that_asks_is_refused_and_named() -> None:
    place = site()
    place.clients.answer = AGENT
    refused = place.tap("/allow")
    assert refused.status == 403 and "curl (pid 51)" in told(refused)
    assert place.press("/always", headers={"x_feishuperm": "1"}).status == 403
    for path in ("/", "/status", "/events"):
        assert place.send("GET", path).status == 403
    assert not place.desk.answers and not place.desk.seen
    assert place.desk.refused[:2] == [
        (ID, "allow", "curl (pid 51)"),
        (ID, "always", "curl (pid 51)"),
    ]
    place.clients.answer = None
    assert place.tap("/allow").status == 200
    assert len(place.desk.answers) == 1


def test_wrong_unsigned_ids_of_a_page_do_not_shut_out_the_chat() -> None:
    place = site(CALLBACK_LINK_SIGNING="off")
    place.callback._links = Links(LOCAL, b"", False)
    page = {"sec_fetch_site": "cross-site", **BROWSER, **NAVIGATES}
    for _ in range(30):
        place.send("GET", "/allow?id=wrong", **page)
    assert place.send("GET", f"/allow?id={ID}", **page).status == 429
    tap = {**page, "sec_fetch_site": "none"}
    assert place.send("GET", f"/allow?id={ID}", **tap).status == 200


# The inbox from elsewhere.


def let_in(place: Site, response: Response) -> str:
    """The cookie of a response that opens the inbox to this browser alone."""
    cookie, _, flags = dict(response.headers)["Set-Cookie"].partition("; ")
    assert {"HttpOnly", "SameSite=Strict", "Secure"} <= set(flags.split("; "))
    assert place.send("GET", "/", cookie=cookie, **BROWSER).status == 200
    assert place.send("GET", "/status", cookie=cookie).status == 200
    assert place.send("GET", "/").status == 403
    return cookie


@pytest.mark.parametrize("origin", ["none", "cross-site"])
def test_link_to_the_inbox_opens_it_once(origin: str) -> None:
    place = site(**PUBLIC_SITE)
    link = f"/?ticket={place.tickets.make()}"
    came = {**BROWSER, **NAVIGATES, "sec_fetch_site": origin}
    entered = place.send("GET", link, **came)
    assert entered.status == 200 and "npm run build" in told(entered)
    cookie = let_in(place, entered)
    again = place.send("GET", link, **came)
    assert again.status == 403 and "npm run build" not in told(again)
    assert place.send("GET", link, cookie=cookie, **BROWSER).status == 200


@pytest.mark.parametrize(
    ("method", "headers"),
    [
        ("HEAD", BROWSER),
        ("GET", {"user_agent": "Slackbot-LinkExpanding 1.0"}),
        ("GET", {**BROWSER, "sec_purpose": "prefetch"}),
        ("GET", {**BROWSER, "sec_fetch_dest": "iframe", "sec_fetch_mode": "navigate"}),
    ],
)
def test_preview_of_the_link_to_the_inbox_does_not_use_it_up(
    method: str, headers: dict[str, str]
) -> None:
    place = site(**PUBLIC_SITE)
    ticket = place.tickets.make()
    landing = place.send(method, f"/?ticket={ticket}", **headers)
    assert landing.status == 200 and "Set-Cookie" not in dict(landing.headers)
    assert place.sessions.all() == []
    form = Page(landing.body).forms["."]
    assert form.hidden() == {"ticket": ticket}
    body = urlencode(form.hidden())
    assert place.send("POST", "/", body, origin="https://evil.test").status == 403
    assert place.send("POST", "/", body, **BROWSER).status == 403  # no proof of a page
    entered = place.send("POST", "/", body, **OWN_PAGE)
    assert (entered.status, dict(entered.headers)["Location"]) == (303, ".")
    let_in(place, entered)
    assert place.send("POST", "/", body, **OWN_PAGE).status == 403


def test_browser_from_another_site_is_asked_to_come_again() -> None:
    """It keeps a strict cookie back on its way from there."""
    place = site(**PUBLIC_SITE)
    page = place.send("GET", "/", sec_fetch_site="cross-site", **BROWSER)
    assert page.status == 403 and b'<a href=".">' in page.body


def test_sessions_are_listed_and_ended() -> None:
    place = site(**PUBLIC_SITE)
    cookies = [
        place.sessions.open("192.0.2.7", "<b>Firefox</b> Android").partition(";")[0]
        for _ in range(3)
    ]
    page = place.send("GET", "/", cookie=cookies[0])
    assert b"<b>" not in page.body and told(page).count("Firefox, Android") == 3
    ids = re.findall(r'name="session" value="([0-9a-f]+)"', page.body.decode())
    assert len(ids) == 3
    chosen = urlencode({"session": ids[0]})
    assert place.send("POST", "/sessions", chosen, **OWN_PAGE).status == 403
    sent = {**OWN_PAGE, "cookie": cookies[0]}
    foreign = {**sent, "sec_fetch_site": "cross-site"}
    assert place.send("POST", "/sessions", chosen, **foreign).status == 403
    assert place.send("POST", "/sessions", chosen, **sent).status == 303
    assert len(place.sessions.all()) == 2
    left = next(row for row in cookies if place.sessions.find(row, ""))
    every = {**OWN_PAGE, "cookie": left}
    assert place.send("POST", "/sessions", "all=1", **every).status == 303
    assert place.sessions.all() == []
    assert place.send("GET", "/", cookie=left).status == 403


def test_browser_that_is_sent_away_loses_what_it_has_open() -> None:
    place = site(**PUBLIC_SITE)
    first, second = (
        place.sessions.open("192.0.2.7", "Firefox").partition(";")[0] for _ in range(2)
    )
    for cookie in (first, second):
        place.send("GET", "/events", cookie=cookie)
    session = place.sessions.find(second, "")
    assert session
    sent = {**OWN_PAGE, "cookie": first}
    place.send("POST", "/sessions", urlencode({"session": session.id}), **sent)
    assert [stream.closed for stream in place.inbox.streams] == [False, True]
