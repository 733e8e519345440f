"""The running server: is it there, wait until it is, end it.

The server itself is asked, over its socket.  Only one that does not answer is ended by
its pid, and only if its command line is ours.  An end hands what waits back to the
terminals, or on to the server that starts next: hooks look for that one by themselves.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from feishuperm.errors import FeishupermError
from feishuperm.lib.config import state_dir
from feishuperm.lib.control import NotRunningError, ask_server

Clock = Callable[[], float]
Sleep = Callable[[float], None]

START_SECONDS = 20.0  # a loaded machine needs a few; one that needs more is stuck
STOP_SECONDS = 10.0
END_SECONDS = 3.0  # for each way to end a process, from waiting to killing
STEP = 0.05


class StuckError(FeishupermError):
    """A server that was told to end and does not."""


def tries(
    seconds: float, clock: Clock = time.monotonic, sleep: Sleep = time.sleep
) -> Iterator[None]:
    """One turn after the other, with a pause between, until the time is over."""
    deadline = clock() + seconds
    yield
    while clock() < deadline:
        sleep(STEP)
        yield


def running_status(socket: str = "") -> dict[str, Any] | None:
    """What the server on a socket says, None without one."""
    try:
        return ask_server({"command": "status"}, path=socket)
    except NotRunningError:
        return None


def wait_until_running(turns: Iterable[None] = ()) -> dict[str, Any]:
    """The status of a server that has just been started. Raises NotRunningError."""
    for _ in turns or tries(START_SECONDS):
        status = running_status()
        if status is not None:
            return status
    raise NotRunningError("it was started, but does not answer", "feishuperm serve")


def stop_server(socket: str = "", command: str = "stop") -> int:
    """End the server on a socket, if there is one; how many requests waited there.

    Raises FeishupermError when it refuses, StuckError when it does not go away.
    """
    waiting = 0
    for _ in tries(STOP_SECONDS):
        try:
            answer = ask_server({"command": command}, path=socket)
        except NotRunningError:
            return waiting
        waiting += int(answer.get("waiting", answer.get("released")) or 0)
    raise StuckError("the running server does not stop", "feishuperm status")


def hand_over(socket: str = "") -> str:
    """End the server for one that starts at once; how many requests it hands over."""
    waiting = stop_server(socket, "handover")
    return f"handed over to the new server: {waiting} waiting" if waiting else ""


def restart_in_place(socket: str, status: dict[str, Any]) -> None:
    """Let a server in a terminal start again there. Raises FeishupermError."""
    ask_server({"command": "handover", "again": True}, path=socket)
    for _ in tries(START_SECONDS):
        now = running_status(socket)
        if now is not None and now["started"] != status["started"]:
            return
    raise NotRunningError("it was started, but does not answer", "feishuperm serve")


# The process, where no service manager looks after it.


def pid_path(environ: Mapping[str, str]) -> str:
    """The file that names the background server's process."""
    return os.path.join(state_dir(environ), "serve.pid")


def background_pid(environ: Mapping[str, str]) -> int:
    """The process the pid file names, 0 without one. It may be long gone."""
    try:
        with open(pid_path(environ), encoding="ascii") as file:
            return int(file.read())
    except (OSError, ValueError):
        return 0


def is_server(pid: int, program: str) -> bool:
    """Whether a process is a living server of ours; numbers are used again."""
    line = command_line(pid) if pid > 0 else ""
    return program in line and line.endswith(" serve")


def command_line(pid: int) -> str:
    """The words of a process, empty when it is gone."""
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return os.fsdecode(file.read().rstrip(b"\0").replace(b"\0", b" "))
    except FileNotFoundError:
        if os.path.isdir("/proc/self"):
            return ""
    command = ["ps", "-ww", "-o", "command=", "-p", str(pid)]
    try:
        output = subprocess.run(command, capture_output=True, timeout=10).stdout
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return os.fsdecode(output.strip())


def end_background(
    environ: Mapping[str, str], program: str, seconds: float = END_SECONDS
) -> None:
    """End the background server if it lives: wait, ask, kill. Raises if it stays."""
    pid = background_pid(environ)
    for number in (0, signal.SIGTERM, signal.SIGKILL):
        if is_server(pid, program):
            _send_signal(pid, number)
        for _ in tries(seconds):
            if not is_server(pid, program):
                return
    raise StuckError(f"the server, process {pid}, does not end")


def _send_signal(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except OSError:  # gone, or not ours to end: the caller looks again
        pass
