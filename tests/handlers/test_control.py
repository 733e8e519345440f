from __future__ import annotations

from pathlib import Path
from typing import Any, cast

from feishuperm.handlers.permission import COMMANDS, FOR_PERSONS, FOR_SESSIONS, Control
from feishuperm.services.grants import Passes
from feishuperm.services.ledger import Ledger
from feishuperm.services.quiet import QuietHours
from feishuperm.services.sessions import Sessions
from feishuperm.services.web_access import Links, LoginTokens
from tests.handlers.gates import AGENT, FakeClients
from tests.tables import every_row


class FakeDesk:
    """A desk, its requests, its notifier and its presenter in one."""

    def __init__(self) -> None:
        self.requests = self.notifier = self.presenter = self
        self.quiet, self.has_receipts = QuietHours(), False
        self.refused: list[tuple[str, str, str]] = []
        self.done: list[str] = []
        self.passes = Passes(Ledger("/proc/nowhere/ledger"))

    def revoke_passes(self, id: str, surface: str) -> list[Any]:
        return []

    def tell_pass(self, row: Any) -> None:
        self.done.append(f"told of {row.shown}")

    def refuse(self, *what: str) -> None:
        self.refused.append(what)  # type: ignore[arg-type]

    def learn_undo(self, id: str) -> bool:
        self.done.append("undone")
        return True

    def states(self) -> list[object]:
        return []

    def ledger_state(self) -> dict[str, object]:
        return {"pending": 2, "problem": "No space left on device"}

    def waiting(self) -> list[object]:
        return []

    def waiting_count(self) -> int:
        return 0

    def release_all(self, reason: str) -> int:
        self.done.append("release")
        return 0

    def close(self) -> int:
        self.done.append("stop")
        return 0

    def command(self, command: object) -> bool:
        self.done.append("notice")
        return True


class Socket:
    """A control handler, and commands to it."""

    def __init__(self, url: str = "https://box.example") -> None:
        self.desk, self.clients, self.tickets = FakeDesk(), FakeClients(), LoginTokens()
        self.control = Control(
            cast(Any, self.desk),
            Links(url, b"k" * 32, True),
            self.tickets,
            self.clients,
            cast(Any, self.desk),
            Sessions(),
            {"http": url},
            lambda: None,
            lambda again: self.desk.done.append("handover") or 0,
        )

    def send(self, name: str, pid: int = 7, **more: object) -> dict[str, Any]:
        return self.control.reply_to({"command": name, **more}, pid)


def test_control_socket_decides_nothing() -> None:
    assert not {"decide", "allow", "answer"} & set(COMMANDS)
    assert "error" in Socket().send("decide", id="1", action="allow")


@every_row(
    "name", [name for name in COMMANDS if name not in (*FOR_SESSIONS, *FOR_PERSONS)]
)
def test_command_of_the_session_that_asks_is_refused_and_written_down(
    name: str,
) -> None:
    place = Socket()
    place.clients.answer = AGENT
    assert "curl (pid 51)" in place.send(name)["error"]
    assert place.desk.refused == [("", name, "curl (pid 51)")]
    assert not place.desk.done
    place.clients.answer = None
    assert "error" not in place.send(name)
    assert place.desk.done == [name]
    assert place.clients.asked == [(7, False)] * 2


def test_supervisor_of_a_session_may_tell_what_went_wrong() -> None:
    place = Socket()
    place.clients.answer = AGENT
    assert "error" not in place.send("notice")
    assert place.desk.done == ["notice"]


def test_status_has_a_way_into_the_inbox_for_who_asks_for_it() -> None:
    place = Socket()
    assert place.send("status")["inbox"] == "https://box.example/"
    link = place.send("status", inbox=True)["inbox"]
    base, _, ticket = link.partition("?ticket=")
    assert base == "https://box.example/" and place.tickets.is_good(ticket)


def test_status_gives_no_session_a_way_into_the_inbox() -> None:
    place = Socket()
    place.clients.answer = AGENT
    status = place.send("status", inbox=True)
    assert status["inbox"] == "https://box.example/" and "error" not in status
    assert place.clients.asked == [(7, True)]
    assert not place.desk.refused


def test_own_user_on_this_machine_needs_no_ticket() -> None:
    place = Socket("http://localhost:8080")
    assert place.send("status", inbox=True)["inbox"] == "http://localhost:8080/"


@every_row("name", FOR_PERSONS)
def test_no_session_makes_a_pass_whether_it_asked_before_or_not(name: str) -> None:
    place = Socket()
    place.clients.answer = AGENT
    assert "curl (pid 51)" in place.send(name, rule="Bash(ls)", minutes=1)["error"]
    assert place.desk.refused == [("", name, "curl (pid 51)")]
    assert place.clients.asked == [(7, True)]
    assert not place.desk.passes.all()


@every_row(
    "more",
    [
        {"rule": "Bash(*)"},
        {"rule": "Bash(ls)", "project": ""},
        {"rule": "Bash(ls)", "minutes": "10"},
        {"rule": "Bash(ls)", "minutes": 10, "calls": None},
        {"rule": "Bash(ls)", "minutes": 10, "calls": 0},  # the disk does not take it
    ],
)
def test_pass_that_is_not_exact_or_cannot_be_recorded_is_not_made(
    more: dict[str, Any],
) -> None:
    place = Socket()
    command = {"minutes": 10, "calls": 0, "project": "/p", **more}
    assert place.send("pass_add", **command)["error"]
    assert not place.desk.passes.all()


def test_pass_is_made_listed_and_revoked(tmp_path: Path) -> None:
    place = Socket()
    place.desk.passes = Passes(Ledger(str(tmp_path / "ledger.jsonl")))
    made = place.send(
        "pass_add", rule="Bash(ls)", minutes=10, calls=2, project=str(tmp_path)
    )["pass"]
    assert (made["rules"], made["calls_left"]) == (["Bash(ls)"], 2)
    assert (made["project"], made["session"]) == (str(tmp_path), "")
    assert 590 <= made["seconds_left"] <= 600
    assert [row["id"] for row in place.send("passes")["passes"]] == [made["id"]]
    assert place.desk.done == ["told of Bash(ls)"]
    assert place.send("pass_revoke", id="nothing") == {"revoked": []}


def test_pass_of_a_session_is_bound_to_it_alone(tmp_path: Path) -> None:
    place = Socket()
    place.desk.passes = Passes(Ledger(str(tmp_path / "ledger.jsonl")))
    made = place.send(
        "pass_add", rule="Bash(ls)", minutes=9, calls=0, session="s", project="/p"
    )["pass"]
    assert (made["project"], made["session"], made["calls_left"]) == ("", "s", None)
