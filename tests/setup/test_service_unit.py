"""Units parse where they are used, hold no secret, and start what they name."""

from __future__ import annotations

import os
import plistlib
import shutil
import subprocess
from pathlib import Path

import pytest

from feishuperm.errors import FeishupermError
from feishuperm.setup import service as service_module
from feishuperm.setup.service import (
    SERVICE_MANAGERS,
    BackgroundService,
    LaunchdService,
    SystemdService,
    background_pid,
    choose_service,
)
from tests.tables import every_row

NAMES = ["plain", "with blank", "per%cent", 'quo"te', "dol$lar", "中文", "back\\slash"]


class Commands:
    """Stands for the system: remembers what was run, fails what it is told to."""

    def __init__(self, *failing: str) -> None:
        self.failing = failing
        self.ran: list[str] = []

    def __call__(self, command: list[str]) -> int:
        self.ran.append(" ".join(command))
        return int(any(word in self.ran[-1] for word in self.failing))


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="no systemd here")
@pytest.mark.parametrize("name", NAMES)
def test_unit_passes_systemd_analyze_verify(tmp_path: Path, name: str) -> None:
    program = tmp_path / name / "feishuperm"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    environ = {"HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path / name)}
    unit = tmp_path / "feishuperm.service"
    unit.write_bytes(SystemdService(str(program), environ).content)
    result = subprocess.run(
        ["systemd-analyze", "verify", "--user", str(unit)],
        env={**environ, "PATH": "/usr/bin:/bin", "XDG_RUNTIME_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=60,
    )
    complaints = [line for line in result.stderr.splitlines() if "feishuperm" in line]
    assert (result.returncode, complaints) == (0, [])


@every_row("name", NAMES)
def test_plist_parses_and_names_the_program(name: str) -> None:
    environ = {"HOME": "/h", "XDG_STATE_HOME": "/s"}
    found = plistlib.loads(LaunchdService(f"/opt/{name}", environ).content)
    assert found["ProgramArguments"] == [f"/opt/{name}", "serve"]
    assert found["EnvironmentVariables"] == {"XDG_STATE_HOME": "/s"}
    assert found["KeepAlive"] == {"SuccessfulExit": False}


@every_row("kind", SERVICE_MANAGERS)
def test_unit_holds_no_secret(kind: str) -> None:
    environ = {
        "HOME": "/h",
        "FEISHU_WEBHOOK_URL": "https://x/hook/secret",
        "FEISHU_WEBHOOK_SECRET": "secret",
        "ANTHROPIC_API_KEY": "secret",
    }
    assert b"secret" not in SERVICE_MANAGERS[kind]("/opt/feishuperm", environ).content


def test_systemd_is_taken_where_its_user_manager_answers() -> None:
    service = choose_service("/opt/feishuperm", {"HOME": "/h"}, Commands())
    assert service.kind == "systemd"
    assert service.path == "/h/.config/systemd/user/feishuperm.service"


def test_background_is_taken_where_no_manager_answers() -> None:
    commands = Commands("systemctl", "launchctl")
    assert choose_service("/opt/feishuperm", {}, commands).kind == "background"


def test_systemd_start_enables_and_restarts() -> None:
    commands = Commands()
    SystemdService("/opt/feishuperm", {}, commands).start()
    assert commands.ran == [
        "systemctl --user daemon-reload",
        "systemctl --user enable feishuperm.service",
        "systemctl --user restart feishuperm.service",
    ]


def test_failing_start_says_where_to_look() -> None:
    service = SystemdService("/opt/feishuperm", {}, Commands("restart"))
    with pytest.raises(FeishupermError, match=r"restart .* failed") as caught:
        service.start()
    assert "journalctl" in caught.value.hint


def test_launchd_falls_back_to_the_old_way() -> None:
    commands = Commands("bootstrap")
    LaunchdService("/opt/feishuperm", {"HOME": "/h"}, commands).start()
    plist = "/h/Library/LaunchAgents/com.feishuperm.serve.plist"
    assert commands.ran[-1] == f"launchctl load -w {plist}"


def test_background_server_gets_no_foreign_variable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A shell's keys and tokens are none of the server's business."""
    monkeypatch.setattr(service_module, "stop_server", lambda: 0)
    program = tmp_path / "program"
    seen = tmp_path / "seen"
    program.write_text(f'#!/bin/sh\nenv >{seen}.part; echo "$@" >>{seen}.part\n'
                       f"mv {seen}.part {seen}\n")  # fmt: skip
    program.chmod(0o755)
    environ = {"HOME": str(tmp_path), "PATH": os.environ["PATH"], "TOKEN": "secret"}
    service = BackgroundService(str(program), environ)
    service.start()
    assert service.process.wait(20) == 0
    assert background_pid(environ) == service.process.pid
    assert "secret" not in seen.read_text()
    assert seen.read_text().endswith("\nserve\n")


@every_row(("kind", "asks"), [("systemd", "systemctl"), ("launchd", "")])
def test_manager_that_does_not_answer_is_refused_before_anything_changes(
    kind: str, asks: str
) -> None:
    commands = Commands("systemctl", "launchctl")
    service = SERVICE_MANAGERS[kind]("/opt/feishuperm", {"HOME": "/h"}, commands)
    with pytest.raises(FeishupermError, match="nothing was changed") as caught:
        service.must_work()
    assert asks in str(caught.value)
    assert caught.value.hint == "feishuperm install --service background"


def test_halted_service_stays_enabled() -> None:
    commands = Commands()
    SystemdService("/opt/feishuperm", {}, commands).halt()
    LaunchdService("/opt/feishuperm", {"HOME": "/h"}, commands).halt()
    assert "disable" not in " ".join(commands.ran) and len(commands.ran) == 2
