"""`machines`: what is asked of the gateway, and what is refused before it is asked."""

from __future__ import annotations

import json
from typing import Any

import pytest

from feishuperm.commands import machines
from feishuperm.errors import UsageError
from feishuperm.lib.control import NotRunningError

ROW = {
    "id": "m-1", "name": "box \x1b[2J", "owner": "ou_me", "address": "192.0.2.7",
    "connected": True, "since": 60, "waiting": 2,
}  # fmt: skip


class Gateway:
    """Keeps what it is asked, and answers by the command."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.asked: list[dict[str, Any]] = []
        self.answers: dict[str, Any] = {
            "machines": {"machines": [ROW]},
            "rename": {"name": "desk"},
            "revoke": {"revoked": ["m-1"]},
        }
        patch.setattr(machines, "ask_server", self._ask)
        patch.setenv("FEISHUPERM_LANG", "en")

    def _ask(self, command: dict[str, Any], path: str) -> Any:
        assert path.endswith("gateway.sock")
        self.asked.append(command)
        return self.answers[command["command"]]


@pytest.fixture
def gateway(monkeypatch: pytest.MonkeyPatch) -> Gateway:
    return Gateway(monkeypatch)


def test_machines_are_listed_a_line_each_and_cannot_play_with_the_terminal(
    gateway: Gateway, capsys: pytest.CaptureFixture[str]
) -> None:
    assert machines.main([]) == 0
    (line,) = capsys.readouterr().out.splitlines()
    assert "m-1" in line and "192.0.2.7" in line and "connected" in line
    assert "\x1b" not in line
    assert machines.main(["--json"]) == 0
    assert json.loads(capsys.readouterr().out) == [ROW]


def test_gateway_without_machines_says_how_one_joins(
    gateway: Gateway, capsys: pytest.CaptureFixture[str]
) -> None:
    gateway.answers["machines"] = {"machines": []}
    assert machines.main([]) == 0
    assert "feishuperm join" in capsys.readouterr().out


def test_machine_is_renamed_and_revoked(
    gateway: Gateway, capsys: pytest.CaptureFixture[str]
) -> None:
    assert machines.main(["rename", "m-1", "desk"]) == 0
    assert machines.main(["revoke", "m-1"]) == 0
    assert machines.main(["revoke", "--owner", "ou_me"]) == 0
    assert gateway.asked == [
        {"command": "rename", "id": "m-1", "name": "desk"},
        {"command": "revoke", "id": "m-1", "owner": ""},
        {"command": "revoke", "id": None, "owner": "ou_me"},
    ]
    assert "desk" in capsys.readouterr().out


@pytest.mark.parametrize(
    "words",
    [
        ["forget", "m-1"],
        ["rename", "m-1"],
        ["revoke"],
        ["revoke", "m-1", "--owner", "ou_me"],
        ["revoke", "m-1", "m-2"],
    ],
)
def test_half_a_command_changes_nothing(gateway: Gateway, words: list[str]) -> None:
    """Nor does one that names two machines: the second would stay."""
    with pytest.raises(UsageError):
        machines.main(words)
    assert gateway.asked == []


def test_word_that_is_no_action_is_named(gateway: Gateway) -> None:
    with pytest.raises(UsageError, match="'forget' is not rename, revoke"):
        machines.main(["forget"])
    assert gateway.asked == []


def test_no_gateway_here_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(command: Any, path: str) -> Any:
        raise NotRunningError("the server is not running", "feishuperm doctor")

    monkeypatch.setattr(machines, "ask_server", absent)
    with pytest.raises(NotRunningError, match="no gateway") as caught:
        machines.main([])
    assert caught.value.hint == "feishuperm gateway"
