"""The registry: what events, requests and looks make of a session, and its panel."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest

from feishuperm.lib.process_tree import Client
from feishuperm.models.panel import Asker, Panel, Told
from feishuperm.models.payload import TITLE, parse_payload
from feishuperm.models.request import Request
from feishuperm.services import sessions as module
from feishuperm.services.session_look import Look, Seen
from feishuperm.services.session_reader import Figures
from feishuperm.services.sessions import (
    ENDED,
    IDLE,
    SESSIONS_MOST,
    SILENT_SECONDS,
    WAITING,
    WORKING,
    Session,
    Sessions,
)
from tests.tables import every_row

SECRET = "sk-ant-0123456789abcdef0123"
CLIENT = Client(1, 1, frozenset())


class Place:
    """A registry with a clock, a client that says what it is told, and threads that
    come back when they are told to."""

    def __init__(self, **more: Any) -> None:
        self.now = 1_000_000.0
        self.works: list[Any] = []
        self.known: Any = None
        self.sessions = Sessions(
            lambda: self.now, lambda work, then: self.works.append(then),
            language="en", environ={"HOME": "/home/user"}, **more,
        )  # fmt: skip

    def event(
        self, name: str, id: str = "s1", agent: str = "claude", **more: Any
    ) -> Any:
        fields = {"session_id": id, "cwd": "/work/shop", "hook_event_name": name}
        if name.endswith("ToolUse") or name == "PermissionRequest":
            fields |= {"tool_name": "Bash", "tool_input": {"command": "npm test"}}  # type: ignore[dict-item]
        payload = parse_payload({**fields, **more})
        return self.sessions.event(payload, "/work/shop", agent)

    def ask(self, id: str = "r1", kind: str = "permission") -> Request:
        request = Request(id, b"", "Bash", "/work/shop", self.now, kind=kind)
        request.detail = "npm test"
        return request

    def look(self, *rows: Seen, problem: str = "", later: float = 5.0) -> list[str]:
        """Let somebody look."""
        done: list[str] = []
        began, self.now = self.now + 1, self.now + later
        self.sessions.refresh(lambda: done.append("looked"))
        self.works.pop()(Look(began, rows, problem))
        return done

    def panel(self, *rows: Seen, problem: str = "") -> Panel:
        told: list[Told] = []
        asker = Asker("ou_1", "message", "app")
        self.sessions.command("sessions", "", asker, told.append)
        assert not told
        self.works.pop()(Look(self.now, rows, problem))
        return told[0].panel


@pytest.fixture
def place() -> Place:
    return Place()


COMPACT = {"source": "compact"}
ASKED = {"notification_type": "permission_prompt"}


@every_row(
    ("events", "state"),
    [
        ([("SessionStart", {})], IDLE),
        ([("UserPromptSubmit", {})], WORKING),
        ([("UserPromptSubmit", {}), ("Stop", {})], IDLE),
        ([("UserPromptSubmit", {}), ("StopFailure", {})], IDLE),
        ([("UserPromptSubmit", {}), ("SessionStart", COMPACT)], WORKING),
        ([("UserPromptSubmit", {}), ("Notification", ASKED)], WAITING),
        ([("Notification", ASKED), ("PostToolUse", {})], WORKING),
        ([("Stop", {}), ("Notification", {"notification_type": "idle_prompt"})], IDLE),
        ([("UserPromptSubmit", {}), ("Notification", {})], WORKING),
        ([("Stop", {}), ("PermissionRequest", {"agent_id": "a1"})], IDLE),
        ([("PermissionRequest", {"agent_id": "a1"})], WORKING),
        ([("PermissionRequest", {}), ("SubagentStop", {})], WORKING),
        ([("Stop", {}), ("SessionEnd", {})], ENDED),
        ([("SessionEnd", {}), ("UserPromptSubmit", {})], WORKING),
        ([("Unheard", {})], IDLE),
    ],
)
def test_state_is_what_events_say(
    events: list[tuple[str, dict[str, Any]]], state: str
) -> None:
    place = Place()
    for name, more in events:
        session = place.event(name, **more)
    assert session.state == state


def test_state_lasts_since_it_began_not_since_it_was_heard_last(place: Place) -> None:
    session = place.event("UserPromptSubmit")
    place.now += 60
    place.event("PreToolUse")
    assert (session.state, session.since) == (WORKING, place.now - 60)
    place.now += 60
    place.event("Stop")
    assert (session.state, session.since) == (IDLE, place.now)


def test_session_waits_as_long_as_one_of_its_requests_does(place: Place) -> None:
    session = place.event("PermissionRequest")
    first, second = place.ask(), place.ask("r2")
    first.created = 5.0
    session.waits_for(first)
    session.waits_for(second)
    assert (session.state, session.since) == (WAITING, 5.0)
    assert session.doing == "Bash: npm test"
    first.end("allowed", place.now)
    assert (session.state, session.since) == (WAITING, second.created)
    second.end("expired", place.now)
    assert session.state == WORKING


def test_request_that_only_offers_to_go_on_is_waited_for_by_nobody(
    place: Place,
) -> None:
    session = place.event("Notification", notification_type="idle_prompt")
    session.waits_for(place.ask(kind="next"))
    session.waits_for(None)
    assert session.state == IDLE


def test_secrets_of_a_call_are_masked_and_it_is_one_line(place: Place) -> None:
    command = f"API_KEY={SECRET} run\nmore \u202e"
    session = place.event("PreToolUse", tool_input={"command": command})
    assert session.doing == "Bash: API_KEY=*** run more ⟦U+202E⟧"
    place.look(Seen("s1", "busy", figures=Figures(running=f"Bash: TOKEN={SECRET}")))
    assert SECRET not in json.dumps(place.sessions.rows())


def test_title_that_the_client_gave_is_known_to_later_events(place: Place) -> None:
    place.event("UserPromptSubmit", session_title=f"Fix token={SECRET}\n" + "x" * 99)
    fields = {"session_id": "s1", "hook_event_name": "Stop"}
    payload = parse_payload(fields)
    session = place.sessions.event(payload, "")
    assert session.title.startswith("Fix token=*** xxx") and len(session.title) == 60
    assert payload.known[TITLE] == session.title and session.project == "/work/shop"


def test_events_of_the_doctor_and_of_no_session_are_not_kept(place: Place) -> None:
    place.event("PermissionRequest", tool_name="feishuperm-doctor")
    place.event("UserPromptSubmit", id="")
    assert place.sessions.rows() == []


def test_only_so_many_are_kept_those_heard_of_last(place: Place) -> None:
    for number in range(SESSIONS_MOST + 50):
        place.event("UserPromptSubmit", id=f"s{number}")
        place.event("PreToolUse", id="s0")
    known = {row["id"] for row in place.sessions.rows()}
    assert len(known) == SESSIONS_MOST and {"s0", "s249"} <= known
    place.look(*(Seen(f"t{n}", "busy") for n in range(SESSIONS_MOST)))
    assert {row["id"] for row in place.sessions.rows()} == known


# Looks.


@every_row(
    ("seen", "told"),
    [
        (Seen("t", "busy", figures=Figures(prompted=7.0, last=9.0)), (WORKING, 7.0)),
        (Seen("t", "idle", figures=Figures(prompted=7.0, last=9.0)), (IDLE, 9.0)),
        (Seen("t", "waiting", "permission prompt"), (WAITING, 1_000_001.0)),
        (Seen("t", "blocked"), (WAITING, 1_000_001.0)),
        (Seen("t", "some new word"), (WORKING, 1_000_001.0)),
        (Seen("t", figures=Figures(last=9.0)), (ENDED, 9.0)),
    ],
)
def test_session_of_which_no_event_came_is_as_the_client_says(
    seen: Seen, told: tuple[str, float]
) -> None:
    """After a restart of the server, for one."""
    place = Place()
    assert place.look(seen) == ["looked"]
    (session,) = place.sessions.all()
    assert (session.state, session.since) == told
    assert session.doing == seen.waits_for


@every_row(
    ("turn", "state"),
    [
        (Figures(last=999_990.0), WORKING),
        (Figures(last=999_990.0, is_over=True), IDLE),
        (Figures(last=999_990.0 - SILENT_SECONDS), ENDED),
    ],
)
def test_without_a_client_that_lists_them_transcripts_tell(
    turn: Figures, state: str
) -> None:
    place = Place()
    place.look(Seen("t", figures=turn), problem="no claude here")
    assert [row["state"] for row in place.sessions.rows()] == [state]
    assert place.sessions.problem == "no claude here"


def test_session_whose_turn_was_interrupted_is_idle_once_somebody_looks(
    place: Place,
) -> None:
    """No hook tells of an interruption."""
    session = place.event("PreToolUse")
    place.look(Seen("s1", "idle", figures=Figures(last=place.now)))
    assert session.state == IDLE and session.doing == "Bash: npm test"


def test_event_that_comes_during_a_look_counts_before_it(place: Place) -> None:
    session = place.event("Stop")
    place.sessions.refresh(lambda: None)
    began, place.now = place.now, place.now + 1
    place.event("UserPromptSubmit")
    place.works.pop()(Look(began, (Seen("s1", "idle"),)))
    assert session.state == WORKING


@every_row(
    ("agent", "transcript", "problem", "gone", "hours", "state"),
    [
        ("claude", "", "", False, 0, ENDED),
        ("claude", "/home/user/.claude/projects/x/s1.jsonl", "", False, 0, ENDED),
        ("claude", "/elsewhere/projects/x/s1.jsonl", "", False, 0, WORKING),
        ("claude", "/home/user/.claude-two/projects/x/s1.jsonl", "", False, 0, WORKING),
        ("claude", "", "no list", False, 0, WORKING),
        ("claude", "", "no list", True, 0, ENDED),
        ("claude", "", "no list", False, 13, ENDED),
        ("codex", "", "", False, 0, WORKING),
        ("codex", "", "", True, 0, ENDED),
        ("codex", "", "", False, 13, ENDED),
    ],
)
def test_session_that_ended_without_a_word_is_seen_to_have_ended(
    agent: str, transcript: str, problem: str, gone: bool, hours: int, state: str
) -> None:
    place = Place(is_gone=lambda client: gone)
    session = place.event("PreToolUse", agent=agent, transcript_path=transcript)
    session.client = CLIENT
    place.look(Seen("s1"), problem=problem, later=5)
    place.now += hours * 3600
    place.look(Seen("s1"), problem=problem, later=5)
    assert session.state == state


@every_row(
    ("turn", "state"),
    [
        (Figures(last=999_990.0), WORKING),
        (Figures(last=999_990.0, is_over=True), ENDED),
        (Figures(last=999_990.0 - SILENT_SECONDS), ENDED),
    ],
)
def test_session_without_a_terminal_is_never_listed_and_ends_with_its_turn(
    turn: Figures, state: str
) -> None:
    place = Place()
    heard = place.event("PreToolUse", id="h")
    rows = [Seen(id, figures=turn, is_headless=True) for id in ("h", "t")]
    place.now = heard.heard = 999_990.0 - SILENT_SECONDS
    place.look(*rows, later=1_000_000.0 - place.now)
    place.look(*rows)
    assert [row["state"] for row in place.sessions.rows()] == [state] * 2


def test_session_that_goes_on_at_a_terminal_is_no_background_job_any_more(
    place: Place,
) -> None:
    place.look(Seen("s1", "idle", job="5f0c2d1e"))
    place.look(Seen("s1"))
    assert place.sessions.rows()[0]["background"]
    place.look(Seen("s1", "busy"))
    assert not place.sessions.rows()[0]["background"]


def test_one_look_serves_all_who_ask_meanwhile_and_a_lost_one_is_given_up(
    place: Place,
) -> None:
    done: list[int] = []
    for number in range(3):
        place.sessions.refresh(lambda number=number: done.append(number))  # type: ignore[misc]
    assert len(place.works) == 1 and place.sessions.is_looking()
    place.now += module.LOOK_SECONDS
    assert not place.sessions.is_looking()
    place.sessions.refresh(lambda: done.append(3))
    assert len(place.works) == 2
    place.works[1](Look(place.now))
    assert done == [0, 1, 2, 3] and not place.sessions.is_looking()


def test_look_is_told_the_transcripts_of_claudes_own_sessions(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[Any] = []
    monkeypatch.setattr(
        module, "look", lambda known, environ: asked.append(known) or Look(0.0)
    )
    sessions = Sessions(environ={})
    place = SimpleNamespace(sessions=sessions)
    event = Place.event.__get__(place)
    event("Stop", id="a", transcript_path="/a.jsonl")
    event("Stop", id="b", agent="codex", transcript_path="/b.jsonl")
    sessions.refresh(lambda: None)
    assert asked == [{"a": "/a.jsonl"}]


# Words and panels.


def test_session_is_found_by_its_id_its_folder_or_its_title(place: Place) -> None:
    first = place.event("Stop", id="5f0c2d1e-1", session_title="Fix it")
    second = place.event("Stop", id="5f0c9999-2")
    find = place.sessions.find
    assert find("5f0c2") == [first] and set(find("5f0c")) == {first, second}
    assert find("Fix it") == [first] and set(find("shop")) == {first, second}
    assert set(find("/work/shop/")) == {first, second} and find("nothing") == []


def test_rows_say_what_is_known_and_null_where_nothing_is(place: Place) -> None:
    place.event("UserPromptSubmit", session_title="Fix it", permission_mode="plan")
    figures = Figures(tokens=48_000, cost=0.35, running="Bash: npm test")
    place.look(Seen("s1", "busy", figures=figures), Seen("b1", "idle", job="b1"))
    assert place.sessions.rows() == [
        {
            "id": "b1", "short": "b1", "agent": "claude", "project": "", "title": "",
            "state": "idle", "since": 1_000_001, "doing": "", "tokens": None,
            "cost": None, "background": True,
        },
        {
            "id": "s1", "short": "s1", "agent": "claude", "project": "/work/shop",
            "title": "Fix it", "state": "working", "since": 1_000_000,
            "doing": "Bash: npm test", "tokens": 48_000, "cost": 0.35,
            "background": False,
        },
    ]  # fmt: skip


def test_card_has_a_row_for_each_session_with_its_button(place: Place) -> None:
    place.event("PermissionRequest", id="codex-1", agent="codex")
    place.event("UserPromptSubmit", session_title="Fix [it](x)")
    panel = place.panel(Seen("s1", "busy", figures=Figures(tokens=48_000)))
    assert (panel.id, panel.title, panel.headline) == (
        "sessions",
        "Sessions",
        "working 2",
    )
    first, second = panel.rows
    assert (first.block.kind, first.block.text) == ("text", "shop · codex-1")
    assert first.note == "working · 0 s · Codex · Bash: npm test"
    assert second.block.text == "shop · Fix [it](x)"
    assert second.note == "working · 0 s · context: 48k tokens"
    (button,) = second.buttons
    assert (button.action, button.panel) == ("open", "progress:s1")
    assert [button.action for button in panel.buttons] == ["again"]


def test_card_counts_what_does_not_fit_and_says_why_it_may_be_wrong(
    place: Place,
) -> None:
    for number in range(30):
        place.event("Stop", id=f"s{number}")
    panel = place.panel(problem="no claude")
    assert len(panel.rows) == module.SHOWN + 1 and "idle 30" in panel.headline
    assert f"{30 - module.SHOWN} more" in panel.note
    assert "no claude" in panel.rows[-1].block.text
    assert "no claude" not in str(panel.bare("titles alone"))


def test_card_without_sessions_says_so_and_can_be_drawn_again(place: Place) -> None:
    panel = place.panel()
    assert panel.rows[0].block.text == "No session is known"
    told: list[Told] = []
    asker = Asker("ou_1", "card", "app")
    place.sessions.press("sessions", "again", "", asker, told.append)
    place.works.pop()(Look(place.now, (Seen("t", "busy"),)))
    assert len(told[0].panel.rows) == 1 and told[0].panel.rows[0].buttons


def test_session_that_lives_stands_before_one_that_has_ended(place: Place) -> None:
    place.event("Stop", id="old")
    place.now += 9
    place.event("SessionEnd", id="over")
    assert [session.id for session in place.sessions.all()] == ["old", "over"]


def test_new_session_is_idle_and_has_a_short_id() -> None:
    session = Session("5f0c2d1e-0000")
    assert (session.short, session.state, session.row()["since"]) == (
        "5f0c2d1e", IDLE, None,
    )  # fmt: skip
