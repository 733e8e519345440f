from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from feishuperm.services.web_access import (
    IDLE_SECONDS,
    MAX_SESSIONS,
    MAX_TOKENS,
    SEEN_SECONDS,
    SESSION_SECONDS,
    TOKEN_SECONDS,
    LoginTokens,
    Session,
    WebSessions,
)
from tests.tables import every_row

PHONE = (
    "Mozilla/5.0 (iPhone; CPU iPhone OS 17_0 like Mac OS X) AppleWebKit/605.1.15"
    " (KHTML, like Gecko) Version/17.0 Mobile/15E148 Safari/604.1"
)


class Clock:
    def __init__(self) -> None:
        self.now = 1_700_000_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state" / "sessions.json"


def make(path: Path, clock: Clock, url: str = "http://box:8080") -> WebSessions:
    return WebSessions(str(path), url, clock)


def cookie(header: str) -> str:
    """What the browser sends back."""
    return header.partition(";")[0]


# LoginTokens.


def test_ticket_is_good_once(clock: Clock) -> None:
    tickets = LoginTokens(clock)
    ticket = tickets.make()
    assert tickets.is_good(ticket) and tickets.is_good(ticket)
    assert tickets.spend(ticket)
    assert not tickets.spend(ticket)
    assert not tickets.is_good(ticket)


def test_ticket_is_good_for_ten_minutes(clock: Clock) -> None:
    tickets = LoginTokens(clock)
    ticket = tickets.make()
    clock.now += TOKEN_SECONDS - 1
    assert tickets.is_good(ticket)
    clock.now += 2
    assert not tickets.is_good(ticket)
    assert not tickets.spend(ticket)


def test_oldest_ticket_gives_way(clock: Clock) -> None:
    tickets = LoginTokens(clock)
    made = [tickets.make() for _ in range(MAX_TOKENS + 1)]
    assert [tickets.is_good(ticket) for ticket in made] == [False] + [True] * 20


@every_row("ticket", ["", "x", "ü\udc80"])
def test_wrong_ticket_opens_nothing(ticket: str) -> None:
    tickets = LoginTokens()
    tickets.make()
    assert not tickets.spend(ticket)


# WebSessions.


def test_session_is_known_by_its_cookie_alone(path: Path, clock: Clock) -> None:
    sessions = make(path, clock)
    header = sessions.open("192.0.2.7", PHONE)
    session = sessions.find("a=b; " + cookie(header) + "; c=d", "192.0.2.8")
    assert session is not None
    assert (session.address, session.browser) == ("192.0.2.8", "Safari, iPhone")
    for wrong in ("", "feishuperm-8080=", "feishuperm-8080=x", session.hash):
        assert sessions.find(wrong, "") is None
    assert sessions.find(cookie(header).replace("8080", "8081"), "") is None


def test_cookie_is_out_of_reach_of_scripts_and_other_sites(
    path: Path, clock: Clock
) -> None:
    plain = make(path, clock).open("", "")
    assert plain.startswith("feishuperm-8080=")
    attributes = {part.strip() for part in plain.split(";")[1:]}
    assert attributes == {
        "Path=/", f"Max-Age={SESSION_SECONDS}", "HttpOnly", "SameSite=Strict"
    }  # fmt: skip
    secure = make(path, clock, "https://box.example").open("", "")
    assert secure.startswith("__Host-feishuperm-443=")
    assert secure.endswith("; Secure")


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("http://box", "feishuperm-80"),
        ("http://[::1]:8080", "feishuperm-8080"),
        ("http://[::1]", "feishuperm-80"),
        ("https://u:p@box:8443/path", "__Host-feishuperm-8443"),
    ],
)
def test_two_servers_of_a_host_have_two_cookies(
    path: Path, clock: Clock, url: str, name: str
) -> None:
    assert make(path, clock, url).cookie_name == name


def test_neighbours_cookie_of_the_same_name_does_not_hide_ours(
    path: Path, clock: Clock
) -> None:
    sessions = make(path, clock)
    good = cookie(sessions.open("", ""))
    assert sessions.find(f"feishuperm-8080=evil; {good}", "")
    evil = "; ".join(["feishuperm-8080=evil"] * 500)
    assert sessions.find(f"{evil}; {good}", "") is None  # and little work


def test_session_outlives_a_restart_and_the_file_holds_no_secret(
    path: Path, clock: Clock
) -> None:
    sent = cookie(make(path, clock).open("192.0.2.7", PHONE))
    assert make(path, clock).find(sent, "192.0.2.7")
    assert sent.partition("=")[2] not in path.read_text()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_session_ends_when_idle_and_at_the_latest_after_a_month(
    path: Path, clock: Clock
) -> None:
    sessions = make(path, clock)
    sent = cookie(sessions.open("", ""))
    start = clock.now
    while clock.now - start < SESSION_SECONDS - IDLE_SECONDS / 2:
        assert sessions.find(sent, "")
        clock.now += IDLE_SECONDS / 2
    clock.now = start + SESSION_SECONDS + 1
    assert sessions.find(sent, "") is None
    again = cookie(sessions.open("", ""))
    clock.now += IDLE_SECONDS + 1
    assert sessions.find(again, "") is None
    assert sessions.all() == []


def test_session_from_the_future_is_no_good(path: Path, clock: Clock) -> None:
    sent = cookie(make(path, clock).open("", ""))
    clock.now -= SEEN_SECONDS * 2
    assert make(path, clock).find(sent, "") is None


def test_seeing_a_session_is_written_down_now_and_then(
    path: Path, clock: Clock
) -> None:
    sessions = make(path, clock)
    sent = cookie(sessions.open("", ""))
    before = path.stat().st_ino
    clock.now += SEEN_SECONDS / 2
    sessions.find(sent, "")
    assert path.stat().st_ino == before
    clock.now += SEEN_SECONDS
    sessions.find(sent, "")
    assert make(path, clock).all()[0].seen == clock.now


def test_one_or_all_sessions_can_be_ended(path: Path, clock: Clock) -> None:
    sessions = make(path, clock)
    sent = [cookie(sessions.open(f"192.0.2.{n}", "")) for n in range(3)]
    first = sessions.find(sent[0], "")
    assert first is not None
    assert sessions.revoke(first.id)
    assert not sessions.revoke(first.id)
    assert not sessions.revoke("")
    assert sessions.find(sent[0], "") is None
    assert make(path, clock).find(sent[1], "")
    assert sessions.revoke("all") == 2
    assert make(path, clock).all() == []
    assert sessions.find(sent[2], "") is None


def test_session_not_seen_for_longest_gives_way(path: Path, clock: Clock) -> None:
    sessions = make(path, clock)
    sent = []
    for _ in range(MAX_SESSIONS + 1):
        clock.now += 1
        sent.append(cookie(sessions.open("", "")))
    assert sessions.find(sent[0], "") is None
    assert all(sessions.find(one, "") for one in sent[1:])


def test_sessions_that_cannot_be_kept_still_work(tmp_path: Path, clock: Clock) -> None:
    (tmp_path / "file").write_bytes(b"")
    sessions = make(tmp_path / "file" / "sessions.json", clock)
    assert sessions.find(cookie(sessions.open("", "")), "")


ROW = Session("1", "2", 1.7e9, 1.7e9, "", "")._asdict()


@pytest.mark.parametrize(
    "content",
    [
        "", "{", "{}", "[1]", "[{}]", json.dumps([{**ROW, "created": "x"}]),
        json.dumps([{**ROW, "more": 1}]), json.dumps([{**ROW, "seen": True}]),
    ],
)  # fmt: skip
def test_file_of_another_shape_lets_nobody_in(
    path: Path, clock: Clock, content: str
) -> None:
    path.parent.mkdir()
    path.write_text(content)
    assert make(path, clock).all() == []


@given(st.text(), st.text())
def test_any_cookie_header_is_read(cookies: str, agent: str) -> None:
    sessions = WebSessions("/dev/null/none", "http://box", Clock())
    assert sessions.find(cookies, "") is None
    assert Session(agent=agent).browser
