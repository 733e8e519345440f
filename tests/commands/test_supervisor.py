"""The supervisor's command: whose environment it reviews in."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from feishuperm.commands import supervisor as command
from feishuperm.supervisor import supervisor


class Reviewer:
    """Takes the supervisor's place and keeps what it was given."""

    made: list[Any]

    def __init__(self, settings: Any, environ: Any, started: float) -> None:
        Reviewer.made = [settings, environ]

    def handle(self, raw: bytes) -> None:
        return None

    def report(self) -> None:
        pass


@pytest.mark.parametrize("name", ["settings.json", "settings.local.json"])
def test_project_cannot_choose_the_reviewer(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "project" / ".claude"
    folder.mkdir(parents=True)
    evil = {"SUPERVISOR_COMMAND": "./evil.sh", "BASH_ENV": "./evil.sh"}
    (folder / name).write_text(json.dumps({"env": evil}))
    for key, value in evil.items():
        monkeypatch.setenv(key, value)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("CLAUDE_PROJECT_DIR", str(folder.parent))
    monkeypatch.delenv("CLAUDE_PID", raising=False)
    monkeypatch.setattr(supervisor, "Supervisor", Reviewer)
    monkeypatch.setattr(command.wire, "read_all", lambda fd: b"{}")
    command.handle_event(time.monotonic())
    settings, environ = Reviewer.made
    assert settings.supervisor_command == "claude"
    assert not set(evil) & set(environ)


def test_reviewer_of_the_users_own_choice_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SUPERVISOR_COMMAND", "my-reviewer")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("CLAUDE_PROJECT_DIR", str(tmp_path))
    monkeypatch.setattr(supervisor, "Supervisor", Reviewer)
    monkeypatch.setattr(command.wire, "read_all", lambda fd: b"{}")
    command.handle_event(time.monotonic())
    assert Reviewer.made[0].supervisor_command == "my-reviewer"


def test_status_says_that_a_supervisor_nobody_calls_is_not_registered(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("CLAUDE_PROJECT_DIR", str(tmp_path / "project"))
    for name in ("CLAUDE_CONFIG_DIR", "XDG_STATE_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
    missing = "but not registered: feishuperm install --supervisor"
    assert command.main(["status"]) == 0
    said = capsys.readouterr().out
    assert said.startswith("supervisor on for ") and missing in said
    command.main(["status", "--json"])
    assert json.loads(capsys.readouterr().out)["registered"] is False
    entry = {"type": "command", "command": "/x/bin/feishuperm-supervisor"}
    folder = tmp_path / ".claude"
    folder.mkdir()
    hooks = {"Stop": [{"hooks": [entry]}]}
    (folder / "settings.json").write_text(json.dumps({"hooks": hooks}))
    command.main(["status"])
    assert missing not in capsys.readouterr().out
