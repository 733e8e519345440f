"""Calls let through once: never twice, never another, never late, over restarts too."""

from __future__ import annotations

import os
import random
from pathlib import Path
from typing import Any

import pytest

from feishuperm.models.payload import PreToolUsePayload
from feishuperm.models.request import Request
from feishuperm.services.grants import ONCE_SECONDS as SECONDS
from feishuperm.services.grants import AskMark, OneTimeAllows, call_digest
from feishuperm.services.ledger import Ledger
from feishuperm.services.request_manager import ledger_entry

CALL: dict[str, Any] = {
    "session_id": "s-1",
    "cwd": "/srv/shop",
    "hook_event_name": "PreToolUse",
    "tool_name": "Bash",
    "tool_input": {"command": "python3 mk.py", "description": "make it"},
}


def call(**changes: Any) -> PreToolUsePayload:
    return PreToolUsePayload({**CALL, **changes})


class Room:
    """A server's memory and the disk it is kept on."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.time = 1_700_000_000.0
        self.ticks = 5.0
        self.mark = folder / "s.sock.retry"
        self.restart()

    def restart(self) -> None:
        self.ledger = Ledger(str(self.folder / "ledger.jsonl"), lambda: self.time)
        self.allows = OneTimeAllows(
            self.ledger,
            AskMark(str(self.folder / "s.sock")),
            lambda: self.time,
            lambda: self.ticks,
        )
        self.allows.restore(self.ledger.vouched(SECONDS))

    def grant(self, id: str = "1-a", **changes: Any) -> None:
        """What a person's answer does."""
        payload = call(**changes)
        request = Request(id, b"", payload.tool_name, "/srv/shop", self.time)
        request.session, request.call = payload.session_id(), call_digest(payload)
        self.allows.grant(request)
        request.state, request.ended = "allowed", self.time
        self.ledger.append(ledger_entry(request))

    def spend(self, **changes: Any) -> str:
        return self.allows.spend(call(**changes))

    def pass_time(self, seconds: float) -> None:
        self.time += seconds
        self.ticks += seconds


@pytest.fixture
def room(tmp_path: Path) -> Room:
    return Room(tmp_path)


def test_call_is_let_through_once(room: Room) -> None:
    assert room.spend() == ""
    room.grant()
    assert room.mark.exists()
    assert (room.spend(), room.spend()) == ("1-a", "")
    assert not room.mark.exists()


OTHER_CALLS = {
    "command": {"tool_input": {"command": "python3 mk.py "}},
    "more input": {"tool_input": {"command": "python3 mk.py", "timeout": 1}},
    "flag": {"tool_input": {"command": "python3 mk.py", "run_in_background": True}},
    "flag off": {"tool_input": {"command": "python3 mk.py", "timeout": False}},
    "tool": {"tool_name": "mcp__a__Bash"},
    "folder": {"cwd": "/"},
    "session": {"session_id": "s-2"},
    "no session": {"session_id": ""},
    "nothing": {"tool_input": {}},
}


@pytest.mark.parametrize("other", OTHER_CALLS)
def test_nothing_else_is_let_through(room: Room, other: str) -> None:
    room.grant()
    assert room.spend(**OTHER_CALLS[other]) == ""
    assert room.spend() == "1-a"


def test_same_call_in_other_words_is_the_same_call(room: Room) -> None:
    room.grant()
    again = {"description": "try it again", "command": "python3 mk.py"}
    assert room.spend(tool_input=again) == "1-a"


def test_words_of_another_tool_are_part_of_its_call(room: Room) -> None:
    room.grant(tool_name="mcp__a__b")
    changed = {"command": "python3 mk.py", "description": "another"}
    assert room.spend(tool_name="mcp__a__b", tool_input=changed) == ""


def test_ten_minutes_are_the_end_of_it(room: Room) -> None:
    room.grant()
    room.pass_time(SECONDS)
    assert room.spend() == ""
    assert not room.mark.exists()


def test_what_is_left_survives_a_restart(room: Room) -> None:
    room.grant()
    room.pass_time(400)
    room.restart()
    assert room.mark.exists()
    assert (room.spend(), room.spend()) == ("1-a", "")


def test_what_is_spent_stays_spent_after_a_restart(room: Room) -> None:
    room.grant()
    assert room.spend() == "1-a"
    room.restart()
    assert room.spend() == ""


def test_restart_gives_no_more_time(room: Room) -> None:
    room.grant()
    room.pass_time(400)
    room.restart()
    room.pass_time(200)
    assert room.spend() == ""


def test_clock_set_back_gives_no_more_time(room: Room) -> None:
    room.grant()
    room.time -= 300
    room.restart()
    assert room.spend() == ""
    assert not room.mark.exists()


def test_clock_set_back_a_little_gives_no_more_time_either(room: Room) -> None:
    room.grant()
    room.pass_time(599)
    room.time -= 500
    room.restart()
    room.pass_time(1)
    assert room.spend() == ""


def test_nothing_runs_that_cannot_be_written_down(room: Room) -> None:
    room.grant()
    os.rename(room.folder / "ledger.jsonl", room.folder / "kept")
    (room.folder / "ledger.jsonl").mkdir()
    assert room.spend() == ""
    (room.folder / "ledger.jsonl").rmdir()
    os.rename(room.folder / "kept", room.folder / "ledger.jsonl")
    assert room.spend() == "1-a"


def test_both_are_in_the_ledger(room: Room) -> None:
    room.grant()
    room.spend()
    ends = room.ledger.latest(0)
    assert [(end["id"], end["event"]) for end in ends] == [
        ("1-a", "request"),
        ("1-a", "retry"),
    ]
    assert ends[0]["call"] == ends[1]["call"]


def test_line_that_somebody_added_makes_no_reprieve(room: Room) -> None:
    room.grant()
    path = room.folder / "ledger.jsonl"
    lines = path.read_bytes()
    room.spend()
    path.write_bytes(path.read_bytes() + lines)
    room.restart()
    assert room.spend() == ""


def test_ledger_whose_end_was_taken_away_makes_no_reprieve(room: Room) -> None:
    room.grant()
    path = room.folder / "ledger.jsonl"
    lines = path.read_bytes()
    room.spend()
    room.ledger.flush()
    path.write_bytes(lines)
    room.restart()
    assert room.spend() == ""


def test_mark_that_is_somebody_elses_link_is_left_alone(room: Room) -> None:
    target = room.folder / "precious"
    room.mark.symlink_to(target)
    room.grant()
    assert not target.exists()
    assert room.spend() == "1-a"


@pytest.mark.parametrize("seed", range(20))
def test_never_more_uses_than_answers(room: Room, seed: int) -> None:
    """Random answers, calls, restarts, waits and clock jumps."""
    chance = random.Random(seed)
    granted: dict[str, float] = {}
    for step in range(60):
        action = chance.choice(("grant", "spend", "spend", "restart", "wait", "jump"))
        if action == "grant":
            granted[f"{step}-a"] = room.ticks
            room.grant(f"{step}-a")
        elif action == "spend":
            id = room.spend()
            # Popping twice fails: none is used twice, none after its time.
            assert not id or room.ticks - granted.pop(id) < SECONDS
        elif action == "restart":
            room.restart()
        elif action == "wait":
            room.pass_time(chance.choice((1, 100, 599)))
        else:
            room.time += chance.choice((-5000, -300, 300, 5000))
