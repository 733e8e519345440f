from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from feishuperm.handlers import access
from feishuperm.handlers.access import (
    OPEN_PATHS,
    WRONG_MOST,
    WRONG_SECONDS,
    Gate,
    WrongIds,
    is_local,
    own_names,
)
from feishuperm.lib.process_tree import Owner
from feishuperm.messages import text
from feishuperm.protocol.http1 import Request
from feishuperm.services.web_access import WebSessions
from tests.handlers.gates import (
    AGENT,
    LOCAL,
    NOWHERE,
    OTHER,
    OWN,
    PUBLIC,
    FakeClients,
    FakeOwners,
)
from tests.handlers.gates import make_gate as make
from tests.tables import every_row

PHONE = (
    "Mozilla/5.0 (Linux; Android 14; CUBOT X90) AppleWebKit/537.36 (KHTML, like Gecko)"
    " Chrome/120.0 Mobile Safari/537.36 Lark/7.30.0 LarkLocale/zh_CN"
)
DESKTOP = "Mozilla/5.0 (X11; Linux x86_64; rv:130.0) Gecko/20100101 Firefox/130.0"
NAVIGATION = {"sec_fetch_mode": "navigate", "sec_fetch_dest": "document"}


def request(
    path: str = "/allow",
    method: str = "GET",
    version: str = "1.1",
    peer: str = "127.0.0.1",
    local: str = "127.0.0.1",
    **headers: str,
) -> Request:
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    sent.setdefault("host", "localhost:8080")
    made = Request(method, path, {}, sent, version, peer=peer)
    made.peer_port, made.local, made.local_port = 50000, local, 8080
    return made


def status(gate: Gate, asked: Request) -> int:
    refusal = gate.refusal(asked)
    if refusal is None:
        return 200
    number, sentence = refusal
    assert text("zh", sentence) and text("en", sentence)
    return number


# The host.


@every_row(
    ("url", "local", "host"),
    [
        (LOCAL, "127.0.0.1", "localhost:8080"),
        (LOCAL, "127.0.0.1", "LocalHost"),
        (LOCAL, "127.0.0.1", "localhost.:8080"),
        (LOCAL, "127.0.0.1", "127.0.0.1:8080"),
        (LOCAL, "::1", "[::1]:8080"),
        (LOCAL, "::1", "[::1]"),
        (PUBLIC, "192.0.2.1", "box.example"),
        (PUBLIC, "192.0.2.1", "BOX.example:443"),
        (PUBLIC, "192.0.2.1", "192.0.2.1:8080"),
        (PUBLIC, "192.0.2.1", "mybox:8080"),
        (PUBLIC, "192.0.2.1", "mybox.local:8080"),
        (PUBLIC, "127.0.0.1", "127.0.0.1:8080"),  # a proxy on this machine
        ("http://192.0.2.1:8080/x", "192.0.2.1", "192.0.2.1:8080"),
    ],
)
def test_own_host_is_let_in(url: str, local: str, host: str) -> None:
    assert status(make(url), request(host=host, local=local)) == 200


def test_each_request_of_a_connection_has_to_name_a_host_of_ours() -> None:
    gate, memo = make(LOCAL), request().memo
    for host in ("localhost", "evil.test", "evil.test", "localhost", "127.0.0.1", ""):
        asked = request(host=host, local="127.0.0.1")
        asked.memo = memo
        is_ours = host in ("localhost", "127.0.0.1")
        assert status(gate, asked) == (200 if is_ours else 421)


@every_row(
    ("url", "local", "host"),
    [
        (LOCAL, "127.0.0.1", "rebound.example:8080"),
        (LOCAL, "127.0.0.1", "rebound.example"),
        (LOCAL, "127.0.0.1", "127.example.com"),
        (LOCAL, "127.0.0.1", "localhost.evil.test"),
        (LOCAL, "127.0.0.1", "evil.test.localhost"),
        (LOCAL, "127.0.0.1", "localhost:8081"),
        (LOCAL, "127.0.0.1", "192.0.2.1:8080"),
        (LOCAL, "127.0.0.1", ""),
        (LOCAL, "127.0.0.1", "localhost:"),
        (LOCAL, "127.0.0.1", "localhost:80:80"),
        (LOCAL, "127.0.0.1", "localhost:8080, localhost:8080"),
        (LOCAL, "127.0.0.1", "[::1"),
        (LOCAL, "127.0.0.1", "0.0.0.0:8080"),
        (PUBLIC, "192.0.2.1", "localhost:8080"),
        (PUBLIC, "192.0.2.1", "box.example.evil.test"),
        (PUBLIC, "192.0.2.1", "192.0.2.2:8080"),
    ],
)
@every_row("path", ["/allow", "/", "/status", *OPEN_PATHS])
def test_other_host_is_turned_away_on_every_route(
    url: str, local: str, host: str, path: str
) -> None:
    assert status(make(url), request(path, host=host, local=local)) == 421


def test_machine_has_its_own_names() -> None:
    assert socket.gethostname() in own_names()


@given(st.text(), st.text())
def test_any_host_and_origin_are_judged(host: str, origin: str) -> None:
    refusal = make().refusal(request(host=host, origin=origin))
    assert refusal is None or refusal[0] in (403, 421)


# Other protocols, other sites.


@every_row(
    "headers",
    [
        {"connection": "Upgrade", "upgrade": "websocket"},
        {"connection": "keep-alive, upgrade"},
        {"upgrade": "h2c"},
    ],
)
def test_handshake_is_never_a_tap(headers: dict[str, str]) -> None:
    """A WebSocket of a hostile page brings no Sec-Fetch header."""
    assert status(make(), request(**headers)) == 400


@every_row("method", ["GET", "POST"])
@every_row(
    ("url", "origin", "expected"),
    [
        (LOCAL, "http://localhost:8080", 200),
        (LOCAL, "http://127.0.0.1:8080", 403),  # the page was opened as localhost
        (LOCAL, "http://localhost:3000", 403),
        (LOCAL, "http://localhost", 403),
        (LOCAL, "https://evil.test", 403),
        (LOCAL, "null", 403),
        (LOCAL, "", 403),
        (PUBLIC, "https://box.example", 200),
        (PUBLIC, "https://box.example:443", 403),
        (PUBLIC, "http://box.example", 403),
        (PUBLIC, "https://box.example.evil.test", 403),
    ],
)
def test_foreign_page_is_turned_away(
    method: str, url: str, origin: str, expected: int
) -> None:
    assert status(make(url), request(method=method, origin=origin)) == expected


def test_proxy_may_name_us_otherwise_than_the_browser() -> None:
    gate = make(PUBLIC)
    assert gate.refusal(request(origin="https://box.example")) is None
    plain = make("http://box.example:80")
    behind = request(local="192.0.2.1", host="box.example", origin="http://box.example")
    assert plain.refusal(behind) is None


# Users of this machine.


@every_row("owner", [OTHER, None])
def test_other_user_of_this_machine_is_turned_away(owner: Owner | None) -> None:
    """ "Cannot tell" is no."""
    gate = make(owner=owner)
    for path in ("/", "/allow", "/status", "/request", "/events", "/nothing"):
        assert status(gate, request(path)) == 403
    for path in OPEN_PATHS:
        assert status(gate, request(path)) == 200


@every_row(
    "proxied",
    [
        request(version="1.0"),  # nginx in front
        request(x_forwarded_for="192.0.2.7"),
        request(forwarded="for=192.0.2.7"),
        request(cf_connecting_ip="192.0.2.7"),
        request(via="1.1 proxy"),
    ],
)
def test_world_behind_a_proxy_of_our_own_is_turned_away(proxied: Request) -> None:
    assert status(make(), proxied) == 403
    assert status(make(PUBLIC), proxied) == 200


def test_public_address_is_for_everybody_with_a_link() -> None:
    assert (
        status(make(PUBLIC, owner=None), request(local="192.0.2.1", host="mybox"))
        == 200
    )


def test_kernel_is_asked_once_per_connection() -> None:
    owners = FakeOwners(OWN)
    gate = Gate(LOCAL, WebSessions(NOWHERE, LOCAL), FakeClients(), owners, [])
    first, second = request(), request("/")
    second.memo = first.memo
    assert status(gate, first) == status(gate, second) == 200
    assert owners.asked == [(("127.0.0.1", 8080), ("127.0.0.1", 50000))]


def test_connection_of_a_real_client_is_known_by_the_kernel() -> None:
    gate = Gate(LOCAL, WebSessions(NOWHERE, LOCAL), FakeClients())
    server = socket.create_server(("127.0.0.1", 0))
    with server, socket.create_connection(server.getsockname()) as client:
        accepted = server.accept()[0]
        asked = request()
        asked.local, asked.local_port = accepted.getsockname()
        asked.peer, asked.peer_port = client.getsockname()
        owner = gate.owner(asked)
        accepted.close()
    assert owner is not None and owner.uid == os.geteuid()


@every_row("peer", ["127.0.0.1", "127.3.2.1", "::1"])
@every_row("host", ["localhost", "127.0.0.1:8080", "[::1]:8080"])
def test_browser_on_this_machine_is_local(peer: str, host: str) -> None:
    assert is_local(request(peer=peer, host=host))


@every_row(
    "outside",
    [
        request(peer="192.0.2.7"),
        request(host="rebound.example:8080"),
        request(host="127.example.com"),
        request(host=""),
        request(version="1.0"),
        request(x_forwarded_for="192.0.2.7"),
        request(via="1.1 proxy"),
    ],
)
def test_world_behind_loopback_is_not_local(outside: Request) -> None:
    assert not is_local(outside)


# Fingers.

FINGERS: list[dict[str, str]] = [
    {"user_agent": PHONE},
    {"user_agent": DESKTOP, "sec_fetch_site": "none", "sec_fetch_dest": "document"},
    {"user_agent": PHONE, "sec_fetch_site": "cross-site", **NAVIGATION},
    {"user_agent": DESKTOP, "sec_fetch_site": "same-origin", **NAVIGATION},
]
MACHINES: list[dict[str, str]] = [
    {"user_agent": PHONE, "purpose": "prefetch"},
    {"user_agent": PHONE, "sec_purpose": "prefetch;prerender"},
    {"user_agent": PHONE, "x_moz": "prefetch"},
    {"user_agent": PHONE, "x_purpose": "Preview"},
    {"user_agent": "Slackbot-LinkExpanding 1.0"},
    {"user_agent": "facebookexternalhit/1.1"},
    {"user_agent": "Mozilla/5.0 (compatible; Googlebot/2.1; +http://google.com/bot)"},
    {"user_agent": "Mozilla/5.0 (compatible; PetalBot;+https://webmaster.example)"},
    {"user_agent": "Mozilla/5.0 (X11) HeadlessChrome/120.0 Safari/537.36"},
    {"user_agent": "Mozilla/5.0 (X11) PhantomJS/2.1"},
    {"user_agent": "Mozilla/5.0 urlscan.example"},
    {"user_agent": PHONE, "sec_fetch_dest": "image", "sec_fetch_site": "cross-site"},
    {"user_agent": PHONE, "sec_fetch_dest": "iframe", "sec_fetch_mode": "navigate"},
    {"user_agent": PHONE, "sec_fetch_dest": "empty", "sec_fetch_site": "cross-site"},
    {"user_agent": PHONE, "sec_fetch_dest": "empty", "sec_fetch_mode": "cors"},
    {"user_agent": PHONE, "sec_fetch_mode": "websocket"},
    {"user_agent": PHONE, "sec_fetch_mode": "no-cors"},
    {"user_agent": PHONE, "sec_fetch_site": "cross-site"},
]


@every_row("url", [LOCAL, PUBLIC])
@every_row("headers", FINGERS)
def test_tap_is_a_finger(headers: dict[str, str], url: str) -> None:
    assert make(url).looks_human(request(**headers))


@every_row("url", [LOCAL, PUBLIC])
@every_row("headers", MACHINES)
def test_machine_is_no_finger(headers: dict[str, str], url: str) -> None:
    assert not make(url).looks_human(request(**headers))


@every_row("agent", ["", "curl/8.0", "python-requests/2.31", "Go-http"])
def test_plain_program_decides_on_this_machine_only(agent: str) -> None:
    assert make(LOCAL).looks_human(request(user_agent=agent))
    assert make(LOCAL).looks_human(request())
    assert not make(PUBLIC).looks_human(request(user_agent=agent))


@every_row("method", ["HEAD", "OPTIONS", "POST"])
def test_other_methods_are_no_tap(method: str) -> None:
    assert not make().looks_human(request(method=method, user_agent=PHONE))


# Forms and scripts of our own.


@every_row(
    ("headers", "local", "public"),
    [
        ({}, True, False),
        ({"origin": "http://localhost:8080"}, True, True),
        ({"origin": "https://box.example"}, False, True),
        ({"origin": "https://evil.test"}, False, False),
        ({"origin": "null"}, False, False),
        ({"sec_fetch_site": "cross-site"}, False, False),
        ({"sec_fetch_site": "same-site"}, False, False),
        ({"sec_fetch_site": "same-origin"}, True, True),
        ({"sec_fetch_site": "none"}, True, False),
        (
            {"sec_fetch_site": "cross-site", "origin": "http://localhost:8080"},
            False,
            False,
        ),
    ],
)
def test_only_our_own_pages_may_post(
    headers: dict[str, str], local: bool, public: bool
) -> None:
    form = request(method="POST", **headers)
    assert make(LOCAL).is_own_form(form) == local
    assert make(PUBLIC).is_own_form(form) == public


@every_row(
    ("headers", "own"),
    [
        ({"sec_fetch_site": "same-origin", "sec_fetch_dest": "empty"}, True),
        ({}, True),
        ({"sec_fetch_site": "cross-site", "sec_fetch_mode": "cors"}, False),
        ({"origin": "https://evil.test"}, False),
    ],
)
def test_only_our_own_scripts_may_listen(headers: dict[str, str], own: bool) -> None:
    assert make().is_own_script(request("/events", **headers)) == own


# The inbox.


def test_inbox_on_this_machine_is_for_its_user_whatever_the_cookie(
    tmp_path: Path,
) -> None:
    """A cookie of localhost is sent to every port, other users' servers included."""
    sessions = WebSessions(str(tmp_path / "sessions.json"), LOCAL)
    cookie = sessions.open("", "").partition(";")[0]
    assert make(LOCAL, OWN, sessions=sessions).may_read(request("/"))
    for owner in (OTHER, None):
        gate = make(LOCAL, owner, sessions=sessions)
        assert not gate.may_read(request("/", cookie=cookie))


def test_inbox_of_a_public_address_is_for_sessions_only(tmp_path: Path) -> None:
    sessions = WebSessions(str(tmp_path / "sessions.json"), PUBLIC)
    cookie = sessions.open("", "").partition(";")[0]
    assert make(PUBLIC, None, sessions=sessions).may_read(request("/", cookie=cookie))
    gate = make(PUBLIC, OWN, sessions=sessions)
    assert not gate.may_read(request("/"))
    assert not gate.may_read(request("/", cookie=cookie + "x"))


# The session itself.


def test_asking_session_is_named() -> None:
    assert make(suspect=AGENT).suspect(request()) == AGENT
    assert make().suspect(request()) is None


def test_connection_is_looked_at_again_before_it_decides(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Unless that was a moment ago, as for the one request of a tap."""
    now = [100.0]
    monkeypatch.setattr(access.time, "monotonic", lambda: now[0])
    clients, asked = FakeClients(), request()
    gate = Gate(LOCAL, WebSessions(NOWHERE, LOCAL), clients, FakeOwners(OWN), [])
    assert gate.suspect(asked) is None
    clients.answer = AGENT
    assert gate.suspect(asked, afresh=True) is None
    now[0] += 0.1
    assert gate.suspect(asked) is None
    assert gate.suspect(asked, afresh=True) == clients.answer


def test_who_hides_on_this_machine_is_a_suspect_and_who_is_elsewhere_is_not() -> None:
    gate = make(PUBLIC, owner=None)
    assert gate.suspect(request(peer="127.0.0.1")) is not None
    assert gate.suspect(request(peer="192.0.2.7")) is None


def test_too_many_wrong_ids_stop_one_address_for_a_while() -> None:
    wrong = WrongIds()
    for _ in range(WRONG_MOST - 1):
        wrong.add("192.0.2.7", 1000.0)
    assert not wrong.too_many("192.0.2.7", 1000.0)
    wrong.add("192.0.2.7", 1000.0)
    assert wrong.too_many("192.0.2.7", 1001.0)
    assert not wrong.too_many("192.0.2.8", 1001.0)
    assert not wrong.too_many("192.0.2.7", 1001.0 + WRONG_SECONDS)


@given(st.text(max_size=200))
def test_any_name_of_a_browser_is_judged_in_little_time(agent: str) -> None:
    assert access.ROBOTS.search(agent.lower()) is None or len(agent) > 2
