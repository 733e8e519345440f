"""`supervisor on`, `off`, `status`: what they change, and what they tell."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from feishuperm.errors import UsageError
from feishuperm.supervisor.supervisor import SupervisorState
from feishuperm.supervisor.switch import (
    CAP_VARIABLE,
    DEFAULT_CAP,
    _session_facts,
    cap_in_force,
    client_cap,
    configured_cap,
    current_session,
    print_session,
    reviewer_path,
    run_switch,
    slash_commands,
    wanted_cap,
)
from tests.tables import every_row


@every_row(("limit", "cap"), [(0, "8"), (20, "20"), (1000, "1000")])
def test_wanted_cap_never_lowers_the_clients_own(limit: int, cap: str) -> None:
    assert wanted_cap(limit) == cap


def test_slash_commands_switch_this_session() -> None:
    texts = slash_commands("/opt/bin/feishuperm")
    assert sorted(texts) == ["supervisor.md", "supervisoroff.md"]
    for name, value in (("supervisor.md", "on"), ("supervisoroff.md", "off")):
        command = f"/opt/bin/feishuperm supervisor {value} --session"
        assert f"!`{command}`" in texts[name]
        assert f"allowed-tools: Bash({command})" in texts[name]


@pytest.mark.parametrize(
    "found",
    [
        {"verdicts": 3, "count": "x", "switch": []},
        {"verdicts": [{"seconds": "long", "time": "now"}, 5]},
        {"verdicts": [{"seconds": None, "time": 1e300}]},
        {"verdicts": [{"seconds": float("nan"), "time": -1e300}]},
    ],
)
def test_status_takes_a_damaged_state_file(
    found: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    print_session(_session_facts("s1", found), 8)
    assert "session s1: " in capsys.readouterr().out


def test_state_that_somebody_edited_cannot_play_with_the_terminal(
    capsys: pytest.CaptureFixture[str],
) -> None:
    verdict = {"event": "\x1b[2J", "outcome": "\u202e", "time": 1, "seconds": 1}
    print_session(_session_facts("s1", {"verdicts": [verdict], "count": "\x07"}), 8)
    assert not {"\x1b", "\u202e", "\x07"} & set(capsys.readouterr().out)


@pytest.fixture
def project(home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project of a user with an empty home, in which the command is called."""
    folder = home / "project"
    (folder / ".claude").mkdir(parents=True)
    for name in ("XDG_STATE_HOME", "XDG_CONFIG_HOME", "CLAUDE_CONFIG_DIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.delenv(CAP_VARIABLE, raising=False)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("FEISHUPERM_LANG", "en")
    monkeypatch.setenv("CLAUDE_PROJECT_DIR", str(folder))
    return folder


def state(home: Path) -> SupervisorState:
    return SupervisorState(str(home / ".local/state/feishuperm/supervisor"))


def facts(capsys: pytest.CaptureFixture[str], session: str = "") -> dict[str, Any]:
    capsys.readouterr()
    run_switch("status", session, True)
    told: dict[str, Any] = json.loads(capsys.readouterr().out)
    return told


def test_project_is_switched_and_a_session_goes_before_it(
    project: Path, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run_switch("off", "", False)
    assert str(project) in capsys.readouterr().out
    assert not state(home).switched_on("s1", str(project))
    run_switch("on", "s1", False)
    assert state(home).switched_on("s1", str(project))
    assert not state(home).switched_on("s2", str(project))
    assert facts(capsys)["on"] is False and facts(capsys, "s1")["on"] is True


@pytest.mark.parametrize("session", ["../../x", "a b", "--all"])
def test_session_that_is_no_id_is_refused(project: Path, session: str) -> None:
    with pytest.raises(UsageError):
        run_switch("off", session, False)


def test_session_is_the_one_the_command_runs_in(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("CLAUDE_CODE_SESSION_ID", "s7")
    assert current_session() == "s7"
    monkeypatch.delenv("CLAUDE_CODE_SESSION_ID")
    with pytest.raises(UsageError, match="session"):
        current_session()


def test_status_says_when_nothing_calls_the_supervisor(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run_switch("on", "", False)
    capsys.readouterr()
    run_switch("status", "", False, registered=False)
    assert "install --supervisor" in capsys.readouterr().out
    run_switch("status", "", False, registered=True)
    assert "not registered" not in capsys.readouterr().out


@every_row(
    ("command", "found"),
    [("sh -x", True), ("no-such-reviewer", False), ("", False), ("'", False)],
)
def test_reviewer_that_is_not_there_is_told(command: str, found: bool) -> None:
    assert bool(reviewer_path(command)) is found


def test_cap_of_the_nearest_settings_file_counts(
    project: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert configured_cap() == (8, "its default")
    monkeypatch.setenv(CAP_VARIABLE, "12")
    assert configured_cap() == (12, "its environment")
    (home / ".claude").mkdir()
    user = home / ".claude" / "settings.json"
    user.write_text(json.dumps({"env": {CAP_VARIABLE: "20"}}))
    assert configured_cap() == (20, str(user))
    local = project / ".claude" / "settings.local.json"
    local.write_text(json.dumps({"env": {CAP_VARIABLE: 5}}))
    assert configured_cap() == (5, str(local))
    local.write_text("{")
    assert configured_cap() == (20, str(user)), "the client skips it too"
    local.write_text(json.dumps({"env": ["x"]}))
    assert configured_cap() == (20, str(user))


@pytest.mark.parametrize(
    ("cap", "words"), [("0", "none"), ("30", "takes 30"), ("3", "only 3")]
)
def test_cap_that_is_too_low_is_told_with_its_remedy(
    project: Path, monkeypatch: pytest.MonkeyPatch, cap: str, words: str
) -> None:
    monkeypatch.setenv(CAP_VARIABLE, cap)
    number, reason = cap_in_force(20)
    assert number == int(cap) and words in reason
    assert ("install --supervisor" in reason) is (cap == "3")


@every_row(
    ("value", "cap"),
    [("", 8), ("12", 12), ("0", 0), ("x", 8), ("-1", 8), ("１２", 8)],
)
def test_cap_is_read_as_the_client_reads_it(value: str, cap: int) -> None:
    assert client_cap(value) == cap


@every_row("value", ["9" * 5000, "²"])
def test_cap_that_no_machine_can_count_to_is_the_default(value: str) -> None:
    """It may come from a repository's settings."""
    assert client_cap(value) == DEFAULT_CAP
