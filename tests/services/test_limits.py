"""A session that goes on when its usage limit resets: once, and if a person said so."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from feishuperm.models.ask import NOTICE_PRESS, Notice
from feishuperm.models.panel import Asker, Panel, Told
from feishuperm.models.payload import parse_payload
from feishuperm.services.limits import PROMPT, Limits
from tests.fakes.claude_program import record_session
from tests.services import test_approvals as approvals
from tests.services.test_starts import Bench as Remote

TAP = Asker("ou_owner", "card", "app")
HOUR = 3600.0


class Bench:
    """The part for limits between a server's approvals and starts, and its clock."""

    def __init__(self, root: Path, **settings: str) -> None:
        self.remote = Remote(root, **settings)
        self.desk = approvals.Bench(
            Path(self.remote.shop),
            FEISHUPERM_NOTIFY="next,failure",
            FEISHU_WEBHOOK_URL="https://example.com/open-apis/bot/v2/hook/0123456789",
            FEISHU_APP_ID="cli_1",
            FEISHU_APP_SECRET="s",
        )
        self.session = record_session(self.remote.home, self.remote.shop)
        pattern = f".claude/projects/*/{self.session}.jsonl"
        (self.transcript,) = self.remote.home.glob(pattern)
        self.resets = self.remote.now + 3 * HOUR
        self.changed: list[tuple[str, Panel]] = []
        self.limits = self.serve()

    def serve(self) -> Limits:
        """The part, in a server that has just started."""
        self.desk.timers.calls.clear()
        return Limits(
            self.remote.starts,
            self.desk.approvals,
            lambda channel, panel: self.changed.append((channel, panel)),
            lambda s, fn: self.desk.timers.call_at(self.desk.timers.time + s, fn),
            "en",
            lambda: self.remote.now,
            str(self.remote.root / "limits.json"),
        )

    def fail(self, resets: float = 0.0, error: str = "rate_limit") -> Notice:
        """A turn fails as it does at the end of a plan's allowance."""
        limits = {"status": "rejected", "resetsAt": int(resets or self.resets)}
        line = {"isApiErrorMessage": True, "quotaLimits": limits, "error": error}
        with open(self.transcript, "a") as file:
            file.write(json.dumps(line, separators=(",", ":")) + "\n")
        event = {
            "session_id": self.session,
            "transcript_path": str(self.transcript),
            "hook_event_name": "StopFailure",
            "error": error,
            "last_assistant_message": "You've hit your limit · resets 3pm (UTC)",
        }
        payload = parse_payload(json.dumps(event).encode())
        notice = Notice("failure", self.remote.now, text="You've hit your limit")
        return self.limits.complete(notice, payload)

    def press(self, panel: str, asker: Asker = TAP) -> Told:
        told: list[Told] = []
        self.limits.press(panel, NOTICE_PRESS, "", asker, told.append)
        return told[0]

    def wait(self, seconds: float) -> None:
        self.remote.now += seconds
        self.desk.timers.turn(30.0)

    def idle(self) -> approvals.Waiter:
        """Nobody types for a minute: the session's hook asks what next."""
        event = {**approvals.IDLE, "session_id": self.session}
        return self.desk.bring({**event, "transcript_path": str(self.transcript)})

    def states(self) -> list[str]:
        rows: list[dict[str, Any]] = self.desk.ledger.waiting + self.desk.ledger.ends
        return [row["state"] for row in rows if row.get("action") == "limit"]


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def test_notice_of_a_limit_says_when_it_resets_and_has_a_button(bench: Bench) -> None:
    notice = bench.fail()
    assert notice.text.startswith("You've hit your limit\nIt resets at ")
    assert notice.panel.startswith(f"limit:{bench.session}:") and notice.button
    assert notice.bare().panel == notice.panel
    assert bench.press(notice.panel).status == "success"
    mode = os.stat(bench.remote.root / "limits.json").st_mode & 0o777
    assert mode == 0o600


@pytest.mark.parametrize(
    ("error", "hours"), [("rate_limit", -1), ("overloaded", 3), ("server_error", 3)]
)
def test_any_other_failure_has_no_button(
    bench: Bench, error: str, hours: float
) -> None:
    notice = bench.fail(bench.remote.now + hours * HOUR, error)
    assert (notice.text, notice.panel) == ("You've hit your limit", "")


def test_living_session_is_woken_once_by_its_open_request(bench: Bench) -> None:
    notice, waiter = bench.fail(), bench.idle()
    told = bench.press(notice.panel)
    assert told.status == "success" and "goes on at" in told.said
    bench.wait(3 * HOUR)
    assert waiter.frames[-1][0] == b"A"  # not yet: a minute after the reset
    bench.wait(90)
    assert json.loads(waiter.frames[-1][1]) == {"next": PROMPT}
    assert "went on" in bench.changed[-1][1].rows[0].block.text
    bench.idle()
    bench.wait(HOUR)
    assert bench.press(notice.panel).status == "error"
    assert bench.desk.ledger.intents[-1]["who"] == "ou_owner"
    assert len(bench.desk.ledger.intents) == 1
    assert bench.states() == ["armed"]


def test_ended_session_is_continued_once(bench: Bench) -> None:
    bench.press(bench.fail().panel)
    bench.wait(4 * HOUR)
    bench.wait(4 * HOUR)
    (call,) = bench.remote.claude.calls()
    assert call.arguments == ["--bg", "--resume", bench.session]
    assert call.text == PROMPT
    assert bench.remote.entries()[-1]["state"] == "started"


def test_nothing_happens_unless_somebody_pressed_or_after_pressing_again(
    bench: Bench,
) -> None:
    notice = bench.fail()
    assert "goes on at" in bench.press(notice.panel).said
    assert "Cancelled" in bench.press(notice.panel).said
    bench.wait(4 * HOUR)
    assert bench.remote.claude.calls() == []
    assert bench.states() == ["armed", "cancelled"]


def test_same_limit_met_again_leaves_the_promise_as_it_is(bench: Bench) -> None:
    bench.press(bench.fail().panel)
    assert bench.fail(bench.resets + 1).button == "Cancel"
    bench.wait(4 * HOUR)
    assert len(bench.remote.claude.calls()) == 1


def test_promise_outlives_a_restart_and_is_kept_by_one_server(bench: Bench) -> None:
    bench.press(bench.fail().panel)
    bench.limits = bench.serve()
    bench.wait(4 * HOUR)
    assert len(bench.remote.claude.calls()) == 1
    bench.limits = bench.serve()
    bench.wait(HOUR)
    assert len(bench.remote.claude.calls()) == 1


def test_sessions_that_met_the_same_limit_go_on_one_after_the_other(
    bench: Bench,
) -> None:
    bench.press(bench.fail().panel)
    first = bench.session
    bench.session = record_session(bench.remote.home, bench.remote.shop)
    pattern = f".claude/projects/*/{bench.session}.jsonl"
    (bench.transcript,) = bench.remote.home.glob(pattern)
    bench.press(bench.fail().panel)
    bench.remote.holds = True
    bench.wait(4 * HOUR)
    assert len(bench.remote.held) == 1
    bench.remote.held.pop()()
    bench.wait(30)
    bench.remote.held.pop()()
    calls = bench.remote.claude.calls()
    assert [call.arguments[-1] for call in calls] == [first, bench.session]


def test_file_that_makes_no_sense_is_forgotten_and_does_no_harm(bench: Bench) -> None:
    for text in ("{", "[]", '{"limit:x": 7}', '{"limit:x": {"resets": 1e99}}'):
        (bench.remote.root / "limits.json").write_text(text)
        bench.limits = bench.serve()
        bench.wait(HOUR)
    assert bench.remote.claude.calls() == [] and bench.states() == []


def test_press_that_names_no_limit_to_come_promises_nothing(bench: Bench) -> None:
    for rest in (
        "",
        "x",
        ":4000000000",
        "x:1e99",
        "x:99",
        f"x:{bench.remote.now:.0f}9",
    ):
        assert bench.press(f"limit:{rest}").status == "error"
    past = bench.remote.now - 61
    assert bench.press(f"limit:{bench.session}:{past:.0f}").status == "error"
    assert bench.states() == []


@pytest.mark.parametrize(
    "asker",
    [
        Asker("ou_stranger", "card", "app"),
        Asker("ou_owner", "gateway", "gateway"),
        Asker("", "card", "app"),
    ],
)
def test_only_owners_press_it(bench: Bench, asker: Asker) -> None:
    notice = bench.fail()
    assert bench.press(notice.panel, asker).status == "error"
    bench.wait(4 * HOUR)
    assert bench.remote.claude.calls() == [] and bench.states() == []


@pytest.mark.parametrize(
    ("settings", "alive", "said"),
    [
        ({"FEISHUPERM_REMOTE": "off"}, False, "install --remote"),
        ({}, True, "still runs"),
    ],
)
def test_what_cannot_go_on_is_told_as_a_notice(
    tmp_path: Path, settings: dict[str, str], alive: bool, said: str
) -> None:
    bench = Bench(tmp_path, **settings)
    bench.press(bench.fail().panel)
    if alive:
        bench.remote.claude.live(**{bench.session: "interactive"})
    bench.wait(4 * HOUR)
    assert bench.remote.claude.calls() == []
    assert said in bench.changed[-1][1].rows[0].block.text
    assert said in bench.desk.channel.notices[-1].text
    assert sorted(bench.states()) == ["armed", "failed"]


def test_disk_that_takes_nothing_promises_nothing(bench: Bench) -> None:
    notice = bench.fail()
    (bench.remote.root / "limits.json").mkdir()
    assert bench.press(notice.panel).status == "error"
    bench.wait(4 * HOUR)
    assert bench.remote.claude.calls() == []
