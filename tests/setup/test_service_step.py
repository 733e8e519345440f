"""The service is changed, stopped and restarted however it is kept running."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

import pytest

from feishuperm.errors import FeishupermError
from feishuperm.setup import service as service_module
from feishuperm.setup.service import (
    BackgroundService,
    ServiceStep,
    StuckError,
    SystemdService,
    end_server,
    restart,
    stop,
)
from feishuperm.setup.steps import Manifest
from tests.setup.conftest import run


def test_service_step_is_silent_the_second_time(environ: dict[str, str]) -> None:
    manifest = Manifest(environ)
    service = BackgroundService("/opt/feishuperm", environ)
    run(ServiceStep(manifest, service, "/s"))
    assert ServiceStep(manifest, service, "/s").changes() == []


def test_server_of_before_is_undone_when_its_kind_or_socket_changes(
    environ: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    stopped: list[tuple[str, str]] = []
    monkeypatch.setattr(
        service_module,
        "end_server",
        lambda service, socket, for_good: stopped.append((service.kind, socket)),
    )
    manifest = Manifest(environ)
    systemd = SystemdService("/opt/feishuperm", environ, lambda command: 0)
    run(ServiceStep(manifest, systemd, "/old"))
    unit = Path(systemd.path)
    assert unit.exists() and stopped == []
    background = BackgroundService("/opt/feishuperm", environ)
    monkeypatch.setattr(service_module, "run_quietly", lambda command: 0)
    for path in ("/old", "/new"):
        step = ServiceStep(manifest, background, path)
        assert step.changes() == ["keep the server running (background)"]
        run(step)
    assert not unit.exists()
    assert stopped == [("systemd", "/old"), ("background", "/old")]
    assert manifest.records["service"]["socket"] == "/new"


def test_socket_that_somebody_still_holds_is_told(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(service_module, "stop_server", lambda socket: 0)
    path = str(tmp_path / "s")
    service = SystemdService("/opt/feishuperm", {}, lambda command: 0)
    with socket.socket(socket.AF_UNIX) as hung:
        hung.bind(path)
        hung.listen()
        with pytest.raises(FeishupermError, match="still listening"):
            end_server(service, path, for_good=True)
    end_server(service, path, for_good=True)


class Machine:
    """A machine with a service; writes down what is done to it."""

    def __init__(self, patch: pytest.MonkeyPatch, environ: dict[str, str]) -> None:
        self.done: list[str] = []
        self.works = True
        self.status: dict[str, Any] | None = {
            "pid": 7,
            "listens": "http://127.0.0.1:8080",
        }
        service = SystemdService("/opt/feishuperm", environ)
        run(ServiceStep(Manifest(environ), service, "/s"))
        patch.setattr(service_module, "running_status", lambda path: self.status)
        patch.setattr(service_module, "is_listening", lambda path: False)
        patch.setattr(service_module, "stop_server", self.doing("stop", 2))
        patch.setattr(service_module, "hand_over", self.doing("hand over", "kept"))
        patch.setattr(service_module, "wait_until_running", lambda: {"pid": 8})
        patch.setattr(service_module, "check_port", lambda settings, own: None)
        for name in ("start", "halt"):
            patch.setattr(SystemdService, name, self.doing(name, None))
        patch.setattr(SystemdService, "works", lambda service: self.works)

    def doing(self, what: str, answer: Any) -> Any:
        def do(subject: object) -> Any:
            self.done.append(what)
            return answer

        return do


@pytest.fixture
def machine(environ: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> Machine:
    return Machine(monkeypatch, environ)


def test_restart_hands_over_before_the_service_starts_anew(
    machine: Machine, environ: dict[str, str]
) -> None:
    assert restart(environ) == "restarted (systemd, pid 8); kept"
    assert machine.done == ["hand over", "start"]


def test_restart_starts_a_server_that_is_not_there(
    machine: Machine, environ: dict[str, str]
) -> None:
    machine.status = None
    assert restart(environ).startswith("restarted")
    assert machine.done[-1] == "start"


def test_restart_that_cannot_work_leaves_the_running_server(
    machine: Machine, environ: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    machine.works = False
    with pytest.raises(FeishupermError, match="nothing was changed"):
        restart(environ)
    machine.works = True

    def taken(settings: object, own: int) -> None:
        raise FeishupermError(f"port is taken, ours is {own}")

    monkeypatch.setattr(service_module, "check_port", taken)
    with pytest.raises(FeishupermError, match="ours is 8080"):
        restart(environ)
    assert machine.done == []


def test_restart_without_a_server_says_what_keeps_one(
    environ: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service_module, "running_status", lambda path: None)
    with pytest.raises(FeishupermError, match="no server is running") as caught:
        restart(environ)
    assert caught.value.hint.endswith("feishuperm install")


def test_server_in_a_terminal_restarts_there(
    environ: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    statuses = [{"pid": 9, "started": at} for at in (1.0, 1.0, 2.0)]
    asked: list[dict[str, Any]] = []
    monkeypatch.setattr(service_module, "running_status", lambda path: statuses.pop(0))
    monkeypatch.setattr(
        service_module, "ask_server", lambda command, path: asked.append(command)
    )
    assert restart(environ) == "restarted (foreground, pid 9)"
    assert asked == [{"command": "handover", "again": True}] and not statuses


def test_stop_ends_the_server_and_says_when_it_comes_back(
    machine: Machine, environ: dict[str, str]
) -> None:
    assert stop(environ) == (
        "stopped the server; 2 pending returned to the terminal; "
        "it starts again at the next login"
    )
    assert machine.done == ["stop", "halt"]


def test_stop_without_a_server_is_success(
    machine: Machine, environ: dict[str, str]
) -> None:
    machine.status = None
    assert stop(environ) == "the server is not running"
    assert machine.done == []


def test_stop_uses_force_on_an_installed_server_that_does_not_heed(
    machine: Machine, environ: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: str) -> int:
        raise StuckError("the running server does not stop")

    monkeypatch.setattr(service_module, "stop_server", refuse)
    assert stop(environ).startswith("stopped the server")
    assert machine.done == ["halt"]


def test_stop_uses_no_force_on_a_server_that_refuses(
    machine: Machine, environ: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a session's own process may not ask for, it gets in no other way."""

    def refuse(path: str) -> int:
        raise FeishupermError("not from inside a session")

    monkeypatch.setattr(service_module, "stop_server", refuse)
    with pytest.raises(FeishupermError, match="not from inside a session"):
        stop(environ)
    assert machine.done == []
