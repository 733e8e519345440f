"""A child process: what it says, what it cannot do to us, and its end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from feishuperm.lib import child
from feishuperm.lib.child import RESULT, RESULT_FD, STDERR, STDOUT, Child, signals_after
from tests.conftest import ROOT, wait_until
from tests.tables import every_row

ENV = {"PATH": "/usr/bin:/bin"}


def shell(script: str, data: bytes = b"", **options: Any) -> Child:
    return Child([child.SHELL, "-c", script], data, ENV, **options)


def is_alive(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_child_is_given_its_input_and_its_words_are_kept(tmp_path: Path) -> None:
    script = "cat; pwd; echo $PATH; echo no >&2; exit 3"
    process = shell(script, b"in\n", cwd=str(tmp_path))
    assert process.run(20) == 3
    assert process.output(STDOUT).decode() == f"in\n{tmp_path}\n/usr/bin:/bin\n"
    assert process.output(STDERR) == b"no\n"


def test_output_that_nobody_reads_goes_nowhere() -> None:
    process = shell("echo yes; echo no >&2", outputs=(STDOUT,))
    assert process.run(20) == 0
    assert process.output(STDOUT) == b"yes\n" and STDERR not in process.outputs


def test_result_has_a_descriptor_of_its_own() -> None:
    process = shell(
        f"echo said; echo answer > /dev/fd/${RESULT_FD}", outputs=(STDOUT, RESULT)
    )
    assert process.run(20) == 0
    assert process.output(RESULT) == b"answer\n"


def test_child_that_does_not_read_its_input_stops_nobody() -> None:
    assert shell("exit 0", b"x" * (1 << 20)).run(20) == 0


def test_flood_is_read_and_most_of_it_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(child, "MAX_OUTPUT", 1000)
    process = shell("head -c 1000000 /dev/zero")
    assert process.run(20) == 0
    assert 1000 < len(process.output(STDOUT)) < 200_000


def test_process_that_holds_the_pipes_is_not_waited_for() -> None:
    process = shell("sleep 60 & echo $!")
    assert process.run(20) == 0
    os.kill(int(process.output(STDOUT)), signal.SIGKILL)


def test_slow_child_is_ended_with_all_it_started() -> None:
    process = shell("sleep 60 & echo $!; wait")
    while not process.output(STDOUT).endswith(b"\n"):
        process.turn(1)
    assert process.run(0) is None
    assert process.code == -signal.SIGKILL
    grandchild = int(process.output(STDOUT))
    wait_until(lambda: not is_alive(grandchild))


def test_child_that_is_killed_from_elsewhere_is_over() -> None:
    process = shell("sleep 60")
    process.kill()
    assert process.run(20) == -signal.SIGKILL
    process.kill()  # and once more does no harm


def test_nothing_is_left_open() -> None:
    before = sorted(os.listdir("/proc/self/fd"))
    shell("echo x", outputs=(STDOUT, STDERR, RESULT)).run(20)
    with pytest.raises(OSError, match="No such file"):
        Child(["/no/such/program"], b"x", ENV)
    assert sorted(os.listdir("/proc/self/fd")) == before


def test_child_that_a_signal_meets_at_its_start_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[int] = []
    start = subprocess.Popen.__init__

    def interrupted(self: Any, *args: Any, **rules: Any) -> None:
        start(self, *args, **rules)
        started.append(self.pid)
        raise SystemExit

    monkeypatch.setattr(subprocess.Popen, "__init__", interrupted)
    with pytest.raises(SystemExit):
        Child(["/bin/sleep", "60"], b"", {}, str(tmp_path))
    assert not is_alive(started[0])


def test_signal_before_the_number_of_a_child_is_known_waits_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[int] = []
    start = subprocess.Popen._execute_child  # type: ignore[attr-defined]

    def interrupted(self: Any, *args: Any, **rules: Any) -> None:
        start(self, *args, **rules)
        started.append(self.pid)
        del self.pid  # the system has it, and nobody else yet
        os.kill(os.getpid(), signal.SIGTERM)
        self.pid = started[0]

    def leave(number: int, frame: object) -> None:
        raise SystemExit

    monkeypatch.setattr(subprocess.Popen, "_execute_child", interrupted)
    before = signal.signal(signal.SIGTERM, leave)
    try:
        with pytest.raises(SystemExit):
            Child(["/bin/sleep", "60"], b"", {}, str(tmp_path))
        assert signal.getsignal(signal.SIGTERM) is leave
    finally:
        signal.signal(signal.SIGTERM, before)
    assert not is_alive(started[0])


def test_child_that_nobody_took_is_ended(tmp_path: Path) -> None:
    child = Child(["/bin/sleep", "60"], b"", {}, str(tmp_path))
    pid = child.pid
    del child
    assert not is_alive(pid)


def test_signals_wait_while_an_answer_may_hold_a_secret() -> None:
    came: list[str] = []
    over = threading.Event()  # a thread that would be given what the first one blocks
    thread = threading.Thread(target=over.wait)
    thread.start()
    before = signal.signal(signal.SIGINT, lambda *_: came.append("interrupt"))
    try:
        with signals_after():
            os.kill(os.getpid(), signal.SIGINT)
            came.append("kept")
        assert came == ["kept", "interrupt"]
    finally:
        signal.signal(signal.SIGINT, before)
        over.set()
        thread.join()


@every_row(("action", "code"), [("DFL", -signal.SIGHUP), ("IGN", 0)])
def test_signal_that_ends_a_process_waits_and_one_that_does_not_is_let_be(
    action: str, code: int
) -> None:
    script = f"""
import os, signal
from feishuperm.lib.child import signals_after
signal.signal(signal.SIGHUP, signal.SIG_{action})
with signals_after():
    os.kill(os.getpid(), signal.SIGHUP)
    os.write(1, b"kept")
"""
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, timeout=30)
    assert (done.stdout, done.returncode) == (b"kept", code)
