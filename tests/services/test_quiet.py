"""Quiet hours: nights by the local clock, and what they hold back."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from datetime import datetime, timezone
from pathlib import Path

import pytest

from feishuperm.errors import SettingError
from feishuperm.models import request as states
from feishuperm.models.ask import Notice
from feishuperm.models.names import TEST_TOOL
from feishuperm.models.settings import Settings
from feishuperm.protocol.frames import SHOWN
from feishuperm.services.quiet import QuietHours
from tests.lib.samples import CALLS
from tests.served import EVENT
from tests.services.test_approvals import ID, Bench, Channel, Waiter

NIGHT = "22:00-08:00"  # the clock of a `Bench` begins at 22:13:20, in UTC
BERLIN = "CET-1CEST,M3.5.0,M10.5.0/3"


@pytest.fixture(autouse=True)
def zone(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    go(monkeypatch, "UTC")
    yield monkeypatch
    monkeypatch.undo()
    time.tzset()


def go(monkeypatch: pytest.MonkeyPatch, place: str) -> None:
    """The machine is somewhere else now."""
    monkeypatch.setenv("TZ", place)
    time.tzset()


def moment(said: str) -> float:
    """In UTC, where no offset is said."""
    at = datetime.fromisoformat(said)
    return (at if at.tzinfo else at.replace(tzinfo=timezone.utc)).timestamp()


class Clock:
    """Hours, and a wall clock to set."""

    def __init__(self, hours: str, path: str = "") -> None:
        self.hours = Settings({"FEISHUPERM_QUIET": hours}).feishuperm_quiet
        self.path = path
        self.at = 0.0
        self.restart()

    def restart(self) -> None:
        self.quiet = QuietHours(self.hours, self.path, lambda: self.at)

    def until(self, said: str) -> str:
        """When the night ends that it is, by the local clock."""
        self.at = moment(said)
        until = self.quiet.until()
        return time.strftime("%d %H:%M", time.localtime(until)) if until else ""


@pytest.mark.parametrize(
    ("value", "hours"),
    [
        ("", None),
        ("22:00-08:00", (1320, 480)),
        (" 7:05 - 9:30 ", (425, 570)),
        ("00:00-23:59", (0, 1439)),
    ],
)
def test_hours_are_read(value: str, hours: tuple[int, int] | None) -> None:
    assert Settings({"FEISHUPERM_QUIET": value}).feishuperm_quiet == hours


@pytest.mark.parametrize(
    "value",
    [
        *("22:00", "22-8", "24:00-08:00", "22:60-08:00", "08:00-08:00", "on", "-"),
        *("22:00-08:00-09:00", "22:00:00-08:00", "-1:00-08:00"),
        "22:00-23:00,01:00-02:00",
    ],
)
def test_bad_hours_name_key_value_and_what_is_allowed(value: str) -> None:
    with pytest.raises(SettingError) as caught:
        Settings({"FEISHUPERM_QUIET": value})
    for part in ("FEISHUPERM_QUIET", value, "22:00-08:00"):
        assert part in str(caught.value)
    # A hook never fails for it.
    assert Settings({"FEISHUPERM_QUIET": value}, lenient=True).feishuperm_quiet is None


def test_night_goes_over_midnight() -> None:
    clock = Clock(NIGHT)
    assert clock.until("2026-03-01T21:59:59") == ""
    assert clock.until("2026-03-01T22:00:00") == "02 08:00"
    assert clock.until("2026-03-02T00:00:00") == "02 08:00"
    assert clock.until("2026-03-02T07:59:59") == "02 08:00"
    assert clock.until("2026-03-02T08:00:00") == ""
    assert clock.until("2026-12-31T23:00:00") == "01 08:00"


def test_hours_of_one_day_end_on_that_day() -> None:
    clock = Clock("12:00-13:30")
    assert clock.until("2026-03-01T12:30:00") == "01 13:30"
    assert clock.until("2026-03-01T14:00:00") == ""
    assert clock.until("2026-03-01T11:59:00") == ""


def test_nothing_is_quiet_without_hours() -> None:
    quiet = QuietHours(None, "", lambda: 1e9)
    assert (quiet.now(), quiet.until(), quiet.lift()) == ((0.0, 0.0), 0.0, False)
    assert not quiet.overlaps(0, 1e9) and quiet.describe() is None


@pytest.mark.parametrize(
    ("night", "inside", "outside", "ends"),
    [
        # The clock jumps from 2 to 3, and back from 3 to 2.
        ("03-28T22:00+01:00", "03-29T04:00+02:00", "03-29T08:00+02:00", "29 08:00"),
        ("10-24T22:00+02:00", "10-25T03:30+01:00", "10-25T08:00+01:00", "25 08:00"),
    ],
)
def test_summer_time_moves_no_border(
    zone: pytest.MonkeyPatch, night: str, inside: str, outside: str, ends: str
) -> None:
    go(zone, BERLIN)
    clock = Clock(NIGHT)
    for said in (night, inside):
        assert clock.until(f"2026-{said}") == ends
    assert clock.until(f"2026-{outside}") == ""


def test_hour_that_comes_twice_ends_a_night_once(zone: pytest.MonkeyPatch) -> None:
    go(zone, BERLIN)
    clock = Clock("22:00-02:30")
    sayings = (
        "01:59+02:00",
        "02:29+02:00",
        "02:31+02:00",
        "02:29+01:00",
        "02:31+01:00",
    )
    found = [bool(clock.until(f"2026-10-25T{said}")) for said in sayings]
    assert found[:2] == [True, True] and found[-1] is False
    # Whichever of the two the system takes for the border, it is one.
    assert sum(a != b for a, b in zip(found, found[1:])) == 1


def test_border_in_an_hour_that_does_not_exist_is_passed_all_the_same(
    zone: pytest.MonkeyPatch,
) -> None:
    go(zone, BERLIN)
    clock = Clock("22:00-02:30")
    assert clock.until("2026-03-29T01:00+01:00")
    assert not clock.until("2026-03-29T04:00+02:00")


def test_person_who_travels_has_quiet_hours_where_they_are(
    zone: pytest.MonkeyPatch,
) -> None:
    clock = Clock(NIGHT)
    assert not clock.until("2026-03-01T20:00")
    go(zone, "CST-8")
    assert clock.until("2026-03-01T20:00") == "02 08:00"  # it is 4 in the morning


def test_night_that_was_ended_early_is_over_and_the_next_one_is_quiet(
    tmp_path: Path,
) -> None:
    clock = Clock(NIGHT, str(tmp_path / "state" / "quiet.json"))
    assert clock.until("2026-03-01T23:00")
    assert clock.quiet.lift() and not clock.quiet.lift()
    for _ in range(2):
        for said in ("2026-03-01T23:00", "2026-03-02T03:00", "2026-03-02T07:59"):
            assert clock.until(said) == "", said
        assert clock.until("2026-03-02T22:00") == "03 08:00"
        clock.restart()  # the same after a restart
    clock.at = moment("2026-03-02T03:00")
    state = clock.quiet.describe()
    assert state is not None and state["until"] is None and "early" in state["state"]


@pytest.mark.parametrize("kept", ["", "[]", "5", '["a", "b"]', "[1e300, 2e300]", "{}"])
def test_early_end_that_cannot_be_read_ends_nothing(tmp_path: Path, kept: str) -> None:
    path = tmp_path / "quiet.json"
    path.write_text(kept)
    assert Clock(NIGHT, str(path)).until("2026-03-01T23:00") == "02 08:00"


def test_overlap_covers_a_clock_that_was_set_and_a_machine_that_slept() -> None:
    clock = Clock(NIGHT)
    at = moment
    rows = [
        ("2026-03-01T21:00", "2026-03-01T21:30", False),
        ("2026-03-01T21:59", "2026-03-01T22:01", True),  # it begins
        ("2026-03-02T07:59", "2026-03-02T08:01", True),  # it ends
        ("2026-03-01T21:59", "2026-03-02T08:01", True),  # slept over all of it
        ("2026-03-02T08:01", "2026-03-02T07:59", True),  # set back
        ("2026-03-02T08:00", "2026-03-02T08:01", False),
        ("1970-01-02T12:00", "2026-03-02T12:00", True),  # a clock without battery
    ]
    found = [clock.quiet.overlaps(at(a), at(b)) for a, b, _ in rows]
    assert found == [expected for _, _, expected in rows]


# What requests and notices make of it.


@pytest.fixture
def night(tmp_path: Path) -> Bench:
    return Bench(tmp_path, FEISHUPERM_QUIET=NIGHT)


def evening(tmp_path: Path, minutes: float, **settings: str) -> Bench:
    """A bench so many minutes before its quiet hours."""
    begin = 22 * 60 + 13 + minutes
    hours = f"{int(begin // 60)}:{int(begin % 60):02}-08:00"
    return Bench(tmp_path, FEISHUPERM_QUIET=hours, **settings)


def kinds(waiter: Waiter) -> list[bytes]:
    return [kind for kind, _ in waiter.frames]


def test_request_of_the_night_has_no_card_and_is_not_denied(night: Bench) -> None:
    waiter = night.ask()
    assert night.channel.asks == [] and night.request.waits()
    assert len(night.inbox.asks) == 1
    night.approvals.requests.mark_shown(night.request)  # somebody looks at the inbox
    ((ask, _),) = night.inbox.asks
    assert ask.at_zero == "terminal"
    night.timers.turn(60.0)
    assert night.request.state == states.EXPIRED and waiter.frames[-1] == (b"R", b"")


@pytest.mark.parametrize("action", ["deny", "terminal"])
def test_subagent_of_the_night_is_given_back(tmp_path: Path, action: str) -> None:
    bench = Bench(tmp_path, FEISHUPERM_QUIET=NIGHT, PERMISSION_SUBAGENT_ACTION=action)
    call = {"tool_name": "Bash", "tool_input": CALLS["Bash"], "agent_id": "a1"}
    waiter = bench.bring({**EVENT, **call})
    bench.approvals.requests.mark_shown(bench.request)
    bench.timers.turn(60.0)
    assert waiter.frames[-1] == (b"R", b"")


def test_request_that_is_pending_in_the_morning_gets_its_card(tmp_path: Path) -> None:
    bench = Bench(
        tmp_path, FEISHUPERM_QUIET="22:00-22:14", PERMISSION_REQUEST_TIMEOUT="120"
    )
    waiter = bench.ask()
    bench.timers.turn(30.0)
    assert bench.channel.asks == []
    bench.timers.turn(20.0)
    ((_, announcement),) = bench.channel.asks
    announcement.shown()
    bench.timers.turn(100.0)  # a part of its time was quiet
    assert waiter.frames[-1] == (b"R", b"")


def test_card_that_is_out_stays_and_its_request_is_not_denied(tmp_path: Path) -> None:
    bench = evening(tmp_path, 1)  # 40 s from now
    waiter = bench.ask()
    ((_, announcement),) = bench.channel.asks
    announcement.shown()
    assert announcement.until == 1_700_000_040.0  # nothing leaves later
    bench.timers.turn(60.0)
    assert waiter.frames[-1] == (b"R", b"")
    assert [outcome.id for outcome in bench.channel.outcomes] == [ID]


def test_day_is_as_ever(tmp_path: Path) -> None:
    bench = Bench(tmp_path, FEISHUPERM_QUIET="09:00-10:00")
    waiter = bench.ask()
    ((ask, announcement),) = bench.channel.asks
    announcement.shown()
    assert ask.at_zero == "deny"
    bench.timers.turn(60.0)
    assert waiter.decision()["behavior"] == "deny"


def test_person_who_wants_cards_again_gets_those_that_are_pending(night: Bench) -> None:
    waiter = night.ask()
    night.timers.turn(10.0)
    assert night.approvals.end_quiet() and not night.approvals.end_quiet()
    ((_, announcement),) = night.channel.asks
    announcement.shown()
    night.ask(id="1700000000-00000002")
    assert len(night.channel.asks) == 2
    night.timers.turn(60.0)
    assert waiter.frames[-1] == (b"R", b"")  # it came in the night


def test_card_that_failed_in_the_night_is_tried_in_the_morning(tmp_path: Path) -> None:
    bench = Bench(
        tmp_path, FEISHUPERM_QUIET="22:14-22:15", PERMISSION_REQUEST_TIMEOUT="600"
    )
    bench.ask()
    ((_, announcement),) = bench.channel.asks
    bench.timers.turn(60.0)
    announcement.failed("no time left to send it")
    assert bench.request.waits()
    bench.timers.turn(60.0)
    assert len(bench.channel.asks) == 2


def test_other_channel_stands_in_for_none_in_the_night(tmp_path: Path) -> None:
    bench = evening(tmp_path, 1)
    other = Channel("webhook")
    other.stands_in_for = bench.channel.name
    bench.approvals.notifier._channels = [bench.inbox, bench.channel, other]
    bench.ask()
    ((_, announcement),) = bench.channel.asks
    bench.timers.turn(45.0)
    announcement.stand_in()
    announcement.failed("the line is down")
    assert other.asks == [] and bench.request.waits()


def test_hook_that_is_back_in_the_night_has_its_card_watched(tmp_path: Path) -> None:
    bench = Bench(tmp_path, FEISHUPERM_QUIET="22:13-08:00")
    bench.channel.kept = True
    call = {"tool_name": "Bash", "tool_input": CALLS["Bash"]}
    bench.bring({**EVENT, **call}, shown=SHOWN, left=0)  # 55 seconds ago
    ((_, announcement),) = bench.channel.asks
    assert announcement.is_back


def test_request_of_this_night_gets_its_card_though_the_server_restarted(
    tmp_path: Path,
) -> None:
    bench = Bench(
        tmp_path, FEISHUPERM_QUIET="22:00-22:14", PERMISSION_REQUEST_TIMEOUT="600"
    )
    call = {"tool_name": "Bash", "tool_input": CALLS["Bash"]}
    bench.bring({**EVENT, **call}, shown=SHOWN, left=590)  # the inbox has shown it
    assert bench.channel.asks == []
    bench.timers.turn(60.0)
    assert len(bench.channel.asks) == 1


def test_what_only_a_person_can_end_is_left_to_the_terminal_at_once(
    night: Bench,
) -> None:
    waiter = night.bring({**EVENT, "hook_event_name": "PermissionDenied"})
    assert kinds(waiter)[-1] == b"R"


def test_test_card_leaves_in_the_night(night: Bench) -> None:
    night.ask(TEST_TOOL)
    assert len(night.channel.asks) == 1


def test_notice_of_the_night_is_not_told(tmp_path: Path) -> None:
    bench = Bench(tmp_path, FEISHUPERM_QUIET="22:00-22:14")
    for kind in ("stop", "failure", "tried"):
        bench.approvals.notifier.notify(Notice(kind, 0.0))
    assert bench.channel.notices == []
    bench.timers.turn(60.0)
    bench.approvals.notifier.notify(Notice("stop", 0.0))
    assert [notice.kind for notice in bench.channel.notices] == ["stop"]


def test_early_end_is_kept_for_the_next_server(night: Bench, tmp_path: Path) -> None:
    assert night.approvals.end_quiet()
    at, planned = json.loads((tmp_path / "quiet.json").read_text())
    assert (at, planned) == (1_700_000_000.0, moment("2023-11-15T08:00"))
    again = Bench(tmp_path, FEISHUPERM_QUIET=NIGHT)
    again.ask()
    assert len(again.channel.asks) == 1
