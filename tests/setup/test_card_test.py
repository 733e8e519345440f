"""What test-card says while it waits, and how it ends."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

from feishuperm.app.api import REPAIR
from feishuperm.app.health import FAIL, OK
from feishuperm.errors import FeishupermError
from feishuperm.lib.control import NotRunningError
from feishuperm.messages import msg
from feishuperm.setup import checks
from feishuperm.setup.checks import (
    channel_finding,
    is_late,
    missed,
    obstacle,
    tell_tap,
    watch,
)
from tests.tables import every_row


def status(state: str, detail: str = "") -> dict[str, Any]:
    return {"channels": [{"name": "webhook", "state": state, "detail": detail}]}


class Hook:
    """A process that ends after so many looks."""

    def __init__(self, looks: int) -> None:
        self.looks = looks

    def poll(self) -> int | None:
        self.looks -= 1
        return 0 if self.looks < 0 else None


@pytest.fixture(autouse=True)
def no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks, "POLL_SECONDS", 0.0)


def watched(answers: list[Any]) -> str:
    """Watch through a list of answers of the server, without any real time."""
    rest = iter(answers)

    def ask() -> dict[str, Any]:
        answer = next(rest)
        if isinstance(answer, Exception):
            raise answer
        return answer  # type: ignore[no-any-return]

    hook: Any = Hook(len(answers))
    found = watch(hook, ask, math.inf)
    return found.text if found else ""


def test_broken_bot_is_told_once_and_at_once(
    capsys: pytest.CaptureFixture[str],
) -> None:
    down = status("down", "no answer")
    problem = watched([status("up", "nothing sent yet"), down, down])
    assert problem == "the group bot is down: no answer"
    assert capsys.readouterr().out == f"{problem}\n"


def test_bot_that_recovers_is_no_problem(capsys: pytest.CaptureFixture[str]) -> None:
    assert watched([status("down", "busy"), status("up")]) == ""
    assert capsys.readouterr().out == "the group bot is down: busy\n"


def test_server_that_restarts_does_not_end_the_wait() -> None:
    assert watched([NotRunningError("gone"), status("up")]) == ""


def test_wait_has_an_end() -> None:
    hook: Any = Hook(1000)
    watch(hook, lambda: status("up"), 0.0)
    assert hook.looks > 900


def test_server_without_a_bot_is_refused() -> None:
    with pytest.raises(FeishupermError, match="no Feishu group bot"):
        obstacle({"channels": [{"name": "inbox", "state": "up", "detail": ""}]})


@every_row(
    ("message", "late"),
    [
        ("权限请求超时，自动拒绝", True),
        ("用户通过飞书拒绝", False),
        ("", False),
    ],
)
def test_deny_of_the_clock_is_no_tap(message: str, late: bool) -> None:
    decision = {"behavior": "deny", "message": message}
    output = {"hookSpecificOutput": {"decision": decision}}
    assert is_late(json.dumps(output)) is late


def channel(name: str, state: str, detail: str = "", **facts: Any) -> dict[str, Any]:
    return {"name": name, "state": state, "detail": detail, **facts}


def test_one_way_that_is_up_will_do() -> None:
    rows = [channel("app", "down", "cut"), channel("webhook", "up")]
    assert obstacle({"channels": rows}) is None
    assert obstacle({"channels": rows[:1]}) == channel_finding(rows[0])


PAGE = "https://open.feishu.cn/app/cli_1/version"


@every_row(
    ("row", "text", "fix"),
    [
        (channel("app", "up", "nothing sent yet"), "", ""),
        (channel("app", "down", "h: the proxy refuses the connection: 403 Forbidden"),
         "the proxy refuses", "NO_PROXY"),
        (channel("app", "down", msg("{}: {}", "not published", PAGE)),
         "the app is down: not published", f"open {PAGE}"),
        (channel("app", "up", msg(REPAIR, "the app has 2 connections", "stop it"),
                 connections=2), "the app has 2 connections", "stop it"),
        (channel("gateway", "down", "the gateway has revoked this machine", url="u"),
         "the gateway has revoked this machine", "feishuperm join u"),
        (channel("gateway", "down", "Connection refused", url="u"),
         "the gateway is down: Connection refused", "check the network"),
    ],
)  # fmt: skip
def test_reason_is_one_sentence_with_what_repairs_it(
    row: dict[str, Any], text: str, fix: str
) -> None:
    finding = channel_finding(row)
    assert finding.state == (FAIL if text else OK)
    assert text in finding.text and fix in finding.fix
    assert PAGE not in finding.text


def test_tap_that_did_not_come_has_the_reason_of_the_doctor() -> None:
    broken = channel_finding(channel("app", "down", "cut"))
    late, lost = missed(None, 55.2, True), missed(None, 3.0, False)
    assert str(late) == "nobody tapped within 55 seconds"
    assert str(lost) == "nobody saw the card"
    told = missed(broken, 55.2, True)
    assert (str(told), told.hint) == broken[1:]


@every_row(
    ("surface", "said"),
    [
        ("card", "Got your tap (18.9 s). Your phone is connected.\n"),
        ("inbox", "Answered in the inbox. To try your phone: feishuperm test-card\n"),
    ],
)
def test_tap_is_told_by_where_it_came_from(
    capsys: pytest.CaptureFixture[str], surface: str, said: str
) -> None:
    tell_tap(surface, 18.94)
    assert capsys.readouterr().out == said
