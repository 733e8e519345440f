"""A server is asked first, ended by force last, and never mistaken for another."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from feishuperm.errors import FeishupermError
from feishuperm.lib.control import NotRunningError
from feishuperm.setup import service
from feishuperm.setup.service import BackgroundService, end_server
from tests.conftest import wait_until

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
    pid = Path(service.pid_path(environ))
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
    service.end_background(environ, program, 0.2)
    assert process.wait(20) == -signal.SIGKILL
    end_server(BackgroundService(program, environ), "/nonexistent", for_good=True)
    assert not os.path.exists(service.pid_path(environ))


def test_process_of_another_with_the_same_number_is_left_alone(
    tmp_path: Path, stuck: tuple[subprocess.Popen[bytes], dict[str, str]]
) -> None:
    process, environ = stuck
    service.end_background(environ, "/opt/feishuperm", 0)
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
            service.end_background(environ, program, 0)


def test_waiting_for_a_server_that_never_comes_ends_with_a_hint(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PERMISSION_SOCKET_PATH", str(tmp_path / "none"))
    monkeypatch.setattr(service, "tries", lambda seconds: [None, None])
    with pytest.raises(FeishupermError, match="the server was started, but") as caught:
        service.wait_until_running()
    assert "feishuperm serve" in caught.value.hint


TWICE = ["handover"] * 2


class Answers:
    """Stands for the server: one answer per question, then it is gone."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self.asked: list[str] = []

    def __call__(self, command: dict[str, str], path: str = "") -> Any:
        self.asked.append(command["command"])
        if not self.answers:
            raise NotRunningError("gone")
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


@pytest.mark.parametrize(
    ("answers", "said", "asked"),
    [
        (
            [{"waiting": 2}],
            "pending requests handed over to the new server: 2",
            ["handover"] * 2,
        ),
        ([{"waiting": 0}], "", TWICE),
        ([], "", ["handover"]),
    ],
)
def test_planned_end_hands_over_what_is_pending(
    monkeypatch: pytest.MonkeyPatch, answers: list[Any], said: str, asked: list[str]
) -> None:
    server = Answers(*answers)
    monkeypatch.setattr(service, "ask_server", server)
    assert service.hand_over("/s") == said
    assert server.asked == asked


def test_server_that_refuses_to_end_is_not_called_ended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    refusal = FeishupermError("not from inside a session")
    monkeypatch.setattr(service, "ask_server", Answers(refusal, refusal))
    with pytest.raises(FeishupermError, match="not from inside a session"):
        service.hand_over("/s")


def test_tries_are_spread_over_their_time(monkeypatch: pytest.MonkeyPatch) -> None:
    times, pauses = iter([0.0, 0.0, 1.0, 2.0]), []
    monkeypatch.setattr(service.time, "monotonic", lambda: next(times))
    monkeypatch.setattr(service.time, "sleep", pauses.append)
    assert len(list(service.tries(2.0))) == 3 and pauses == [service.STEP] * 2


def test_server_that_goes_on_answering_is_stuck(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(service, "ask_server", lambda command, path: {})
    monkeypatch.setattr(service, "tries", lambda seconds: iter([None, None]))
    with pytest.raises(service.StuckError, match="does not stop"):
        service.stop_server("/s")
