"""The inbox over HTTP: its requests, its stream, and who is let in."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from feishuperm.protocol.http1 import Response
from feishuperm.services.grants import Pass, Passes
from feishuperm.services.ledger import Ledger
from feishuperm.services.quiet import QuietHours
from tests.handlers.pages.page import ID, Page, make_ask
from tests.handlers.site import (
    BROWSER,
    NAVIGATES,
    OWN_PAGE,
    PUBLIC_SITE,
    Asked,
    Site,
    site,
    told,
)
from tests.tables import every_row


def many(count: int) -> list[Asked]:
    return [Asked(make_ask(id=f"{number}-00000000")) for number in range(count)]


def state_of(here: Site, full: bool = True) -> dict[str, Any]:
    event = here.callback.event(full)
    assert event.startswith(b"event: state\ndata: {") and event.endswith(b"}\n\n")
    assert event.count(b"\n") == 3
    state: dict[str, Any] = json.loads(event.partition(b"data: ")[2])
    return state


def drawn(state: dict[str, Any]) -> list[str]:
    """The ids of the requests that a state brings."""
    names = [name.partition("-") for name in state["fragments"]]
    return [id for kind, _, id in names if kind == "row"]


def test_request_is_drawn_once() -> None:
    asked = many(3)
    here = Site(*asked)
    for _ in range(5):
        state = state_of(here)
    assert [row.taken for row in asked] == [1, 1, 1]
    assert state["count"] == 3
    assert state["deadlines"]["1-00000000"] == 1_700_000_030.0


def test_open_pages_are_sent_only_what_they_do_not_have() -> None:
    here = Site(*many(2))
    assert len(drawn(state_of(here))) == 2
    assert len(drawn(state_of(here, full=False))) == 2, "others may be open"
    later = state_of(here, full=False)
    assert later["fragments"] == {} and len(later["deadlines"]) == 2
    here.desk.asked["9-00000000"] = Asked(make_ask(id="9-00000000"))
    changed = here.desk.asked["1-00000000"]
    changed.made, changed.why = changed.made._replace(why="because"), "because"
    assert sorted(drawn(state_of(here, full=False))) == ["1-00000000", "9-00000000"]
    assert len(drawn(state_of(here))) == 3, "a new page has nothing"
    assert state_of(here, full=False)["fragments"] == {}


def test_part_that_changed_back_reaches_the_page_that_saw_the_change() -> None:
    here = Site(*many(1))
    asked = here.desk.asked["0-00000000"]
    first = state_of(here, full=False)["fragments"]["recent-part"]
    asked.ended = True
    assert state_of(here)["fragments"]["recent-part"] != first
    asked.ended = False
    assert state_of(here, full=False)["fragments"]["recent-part"] == first


def test_settled_request_comes_with_how_it_ended() -> None:
    here = Site(*many(2))
    here.desk.asked["0-00000000"].ended = True
    state = state_of(here)
    assert list(state["deadlines"]) == ["1-00000000"]
    assert "已拒绝运行" in state["ended"]["0-00000000"]


def test_request_that_is_not_put_into_words_yet_is_listed_later() -> None:
    asked = Asked(make_ask())
    here = Site(asked)
    asked.is_worded = False
    assert drawn(state_of(here)) == [] and asked.taken == 0
    asked.is_worded = True
    assert drawn(state_of(here)) == [ID] and asked.taken == 1


def test_request_with_a_stopped_clock_is_drawn_again() -> None:
    asked = Asked(make_ask(hold=True))
    here = Site(asked)
    assert b'data-hold="1"' in here.send("GET", "/").body
    asked.made, asked.extended = make_ask(hold=False, seconds=355), True
    assert b'data-hold="1"' not in here.send("GET", "/").body
    assert asked.taken == 2


def test_row_says_when_its_card_was_read_and_a_line_that_it_is_quiet() -> None:
    asked = Asked(make_ask())
    here = Site(asked)
    page = here.send("GET", "/").body
    assert "已读".encode() not in page and b'id="quiet" hidden' in page
    asked.seen = 1_700_000_000.0
    read = time.strftime("已读 %H:%M", time.localtime(asked.seen))
    here.desk.notifier.quiet = QuietHours((0, 1439), "", lambda: 1_700_000_000.0)
    page = here.send("GET", "/").body
    assert read.encode() in page and b'id="quiet" hidden' not in page
    assert "免打扰时段：现在生效".encode() in page and asked.taken == 2


def test_what_was_not_shown_is_not_marked_as_shown() -> None:
    here = Site(*many(60))
    state = state_of(here)
    assert len(here.desk.seen) == 50
    assert state["count"] == 60 and len(state["deadlines"]) == 50


# The inbox from elsewhere.


def let_in(place: Site, response: Response) -> str:
    """The cookie of a response that opens the inbox to this browser alone."""
    cookie, _, flags = dict(response.headers)["Set-Cookie"].partition("; ")
    assert {"HttpOnly", "SameSite=Strict", "Secure"} <= set(flags.split("; "))
    assert place.send("GET", "/", cookie=cookie, **BROWSER).status == 200
    assert place.send("GET", "/status", cookie=cookie).status == 200
    assert place.send("GET", "/").status == 403
    return cookie


@every_row("origin", ["none", "cross-site"])
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


@every_row(
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
    assert b"<b>Firefox" not in page.body and told(page).count("Firefox, Android") == 3
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


def test_pass_is_revoked_from_the_inbox_by_a_form_of_ours() -> None:
    here = Site()
    assert here.press("/passes", **{"pass": "ab12cd34"}).status == 303
    assert here.desk.revoked == [("ab12cd34", "inbox")]
    evil = {"origin": "https://evil.example"}
    foreign = here.press("/passes", headers=evil, **{"pass": "all"})
    assert foreign.status == 403 and len(here.desk.revoked) == 1


def test_passes_are_listed_with_what_is_left(tmp_path: Path) -> None:
    here = Site()
    here.desk.passes = Passes(Ledger(str(tmp_path / "ledger.jsonl")))
    scope = Pass(rules=("Bash(ls)",), shown="Bash(ls)", project="/p/shop", calls=3)
    row = here.desk.passes.make(scope, 600, "command")
    body = here.tap("/").body.decode()
    assert "Bash(ls)" in body and "还可用 3 次" in body and row.id in body
    assert "撤销" in body and "shop" in body
