"""Units parse where they are used, hold no secret, and start what they name."""

from __future__ import annotations

import itertools
import os
import plistlib
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from feishuperm.errors import FeishupermError
from feishuperm.setup import service_unit
from feishuperm.setup.service_unit import (
    KINDS,
    BackgroundService,
    LaunchdService,
    SystemdService,
    choose_service,
    launchd_plist,
    systemd_unit,
)
from tests.conftest import wait_until

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
    unit.write_text(systemd_unit(str(program), environ))
    result = subprocess.run(
        ["systemd-analyze", "verify", "--user", str(unit)],
        env={**environ, "PATH": "/usr/bin:/bin", "XDG_RUNTIME_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=60,
    )
    complaints = [line for line in result.stderr.splitlines() if "feishuperm" in line]
    assert (result.returncode, complaints) == (0, [])


@pytest.mark.parametrize("name", NAMES)
def test_plist_parses_and_names_the_program(name: str) -> None:
    found = plistlib.loads(launchd_plist(f"/opt/{name}", {"XDG_STATE_HOME": "/s"}))
    assert found["ProgramArguments"] == [f"/opt/{name}", "serve"]
    assert found["EnvironmentVariables"] == {"XDG_STATE_HOME": "/s"}
    assert found["KeepAlive"] == {"SuccessfulExit": False}


@pytest.mark.parametrize("kind", KINDS)
def test_unit_holds_no_secret(kind: str) -> None:
    environ = {
        "HOME": "/h",
        "FEISHU_WEBHOOK_URL": "https://x/hook/secret",
        "FEISHU_WEBHOOK_SECRET": "secret",
        "ANTHROPIC_API_KEY": "secret",
    }
    assert b"secret" not in KINDS[kind]("/opt/feishuperm", environ).content()


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
    monkeypatch.setattr(service_unit, "stop_server", lambda: 0)
    program = tmp_path / "program"
    seen = tmp_path / "seen"
    program.write_text(f'#!/bin/sh\nenv >{seen}.part; echo "$@" >>{seen}.part\n'
                       f"mv {seen}.part {seen}\n")  # fmt: skip
    program.chmod(0o755)
    environ = {"HOME": str(tmp_path), "PATH": os.environ["PATH"], "TOKEN": "secret"}
    service = BackgroundService(str(program), environ)
    service.start()
    assert service.process.wait(20) == 0
    assert service_unit.background_pid(environ) == service.process.pid
    assert "secret" not in seen.read_text()
    assert seen.read_text().endswith("\nserve\n")


STUBBORN = "#!/bin/sh\ntrap '' TERM\n: >$0.ready\nwhile :; do sleep 0.02; done\n"


@pytest.fixture
def stuck(tmp_path: Path) -> Iterator[tuple[subprocess.Popen[bytes], dict[str, str]]]:
    """A background server that neither listens nor heeds SIGTERM."""
    program = tmp_path / "feishuperm"
    program.write_text(STUBBORN)
    program.chmod(0o755)
    environ = {"HOME": str(tmp_path)}
    process = subprocess.Popen([str(program), "serve"])
    wait_until((tmp_path / "feishuperm.ready").exists)
    pid = Path(service_unit.pid_path(environ))
    pid.parent.mkdir(parents=True)
    pid.write_text(f"{process.pid}\n")
    yield process, environ
    process.kill()
    process.wait()


def test_stopping_kills_a_background_server_that_does_not_listen(
    tmp_path: Path, stuck: tuple[subprocess.Popen[bytes], dict[str, str]]
) -> None:
    process, environ = stuck
    program = str(tmp_path / "feishuperm")
    now = itertools.count()
    service_unit.end_background(environ, program, 9, lambda: next(now), time.sleep)
    assert process.wait(20) == -signal.SIGKILL
    service_unit.stop_service(BackgroundService(program, environ), "/nonexistent")
    assert not os.path.exists(service_unit.pid_path(environ))


def test_process_of_another_with_the_same_number_is_left_alone(
    tmp_path: Path, stuck: tuple[subprocess.Popen[bytes], dict[str, str]]
) -> None:
    process, environ = stuck
    service_unit.end_background(environ, "/opt/feishuperm", 0)
    assert process.poll() is None


def test_server_that_stays_is_not_called_stopped(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    stuck: tuple[subprocess.Popen[bytes], dict[str, str]],
) -> None:
    process, environ = stuck
    program = str(tmp_path / "feishuperm")
    with monkeypatch.context() as patch:
        patch.setattr(os, "kill", lambda pid, number: None)
        with pytest.raises(FeishupermError, match=f"{process.pid}, does not end"):
            service_unit.end_background(environ, program, 0)


def test_socket_that_somebody_still_holds_is_told(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(service_unit, "stop_server", lambda socket: 0)
    path = str(tmp_path / "s")
    service = SystemdService("/opt/feishuperm", {}, Commands())
    with socket.socket(socket.AF_UNIX) as hung:
        hung.bind(path)
        hung.listen()
        with pytest.raises(FeishupermError, match="still listens"):
            service_unit.stop_service(service, path)
    service_unit.stop_service(service, path)


def test_waiting_for_a_server_that_never_comes_ends_with_a_hint(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PERMISSION_SOCKET_PATH", str(tmp_path / "none"))
    now = iter(range(100))
    with pytest.raises(FeishupermError, match="it was started, but") as caught:
        service_unit.wait_until_running(5, lambda: next(now), lambda seconds: None)
    assert "feishuperm serve" in caught.value.hint
