"""What test-card says while it waits, and how it ends."""

from __future__ import annotations

import json
from typing import Any

import pytest

from feishuperm.errors import FeishupermError
from feishuperm.lib.control import NotRunningError
from feishuperm.setup.checks import bot_problem, is_late, watch
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


def watched(answers: list[Any]) -> str:
    """Watch through a list of answers of the server, without any real time."""
    rest = iter(answers)

    def ask() -> dict[str, Any]:
        answer = next(rest)
        if isinstance(answer, Exception):
            raise answer
        return answer  # type: ignore[no-any-return]

    hook: Any = Hook(len(answers))
    return watch(hook, ask, 1.0, lambda: 0.0, lambda seconds: None)


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
    times = iter(range(1000))
    watch(hook, lambda: status("up"), 3.0, lambda: next(times), lambda seconds: None)
    assert hook.looks > 900


def test_server_without_a_bot_is_refused() -> None:
    with pytest.raises(FeishupermError, match="no Feishu group bot"):
        bot_problem({"channels": [{"name": "inbox", "state": "up", "detail": ""}]})


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
