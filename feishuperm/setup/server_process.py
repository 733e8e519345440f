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

from feishuperm.errors import FeishupermError
from feishuperm.lib.config import state_dir
from feishuperm.lib.control import NotRunningError, ask_server

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    Clock = Callable[[], float]
    Sleep = Callable[[float], None]

START_SECONDS = 20.0  # a loaded machine needs a few; one that needs more is stuck
STOP_SECONDS = 10.0
END_SECONDS = 3.0  # for each way to end a process, from waiting to killing
STEP = 0.05


def running_status(socket: str = "") -> dict[str, Any] | None:
    """What the server on a socket says, None without one."""
    try:
        return ask_server({"command": "status"}, path=socket)
    except NotRunningError:
        return None


def wait_until_running(
    seconds: float = START_SECONDS,
    clock: Clock = time.monotonic,
    sleep: Sleep = time.sleep,
) -> dict[str, Any]:
    """The status of a server that has just been started. Raises NotRunningError."""
    deadline = clock() + seconds
    while True:
        try:
            return ask_server({"command": "status"})
        except NotRunningError as error:
            if clock() >= deadline:
                hint = "see why: feishuperm serve"
                raise NotRunningError(f"it was started, but {error}", hint) from None
        sleep(STEP)


def stop_server(
    socket: str = "",
    seconds: float = STOP_SECONDS,
    clock: Clock = time.monotonic,
    sleep: Sleep = time.sleep,
    command: str = "stop",
) -> int:
    """End the server on a socket, if there is one; how many requests waited there.

    Raises FeishupermError when it refuses or does not go away.
    """
    waiting = 0
    deadline = clock() + seconds
    while True:
        try:
            answer = ask_server({"command": command}, path=socket)
        except NotRunningError:
            return waiting
        waiting += int(answer.get("waiting", answer.get("released")) or 0)
        if clock() >= deadline:
            raise FeishupermError(
                "the running server does not stop", "feishuperm status"
            )
        sleep(STEP)


def hand_over(socket: str = "") -> str:
    """End the server for one that starts at once; what became of what waits, in words.

    A server of an older version knows no hand-over and gives all of it back.
    """
    try:
        waiting = stop_server(socket, command="handover")
        where = "handed over to the new server"
    except FeishupermError:
        waiting = stop_server(socket)
        where = "handed back to the terminal"
    return f"{where}: {waiting} waiting" if waiting else ""


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
    environ: Mapping[str, str],
    program: str,
    seconds: float = END_SECONDS,
    clock: Clock = time.monotonic,
    sleep: Sleep = time.sleep,
) -> None:
    """End the background server if it lives: wait, ask, kill. Raises if it stays."""
    pid = background_pid(environ)
    for number in (0, signal.SIGTERM, signal.SIGKILL):
        deadline = clock() + seconds
        if is_server(pid, program):
            _send_signal(pid, number)
        while is_server(pid, program) and clock() < deadline:
            sleep(STEP)
    if is_server(pid, program):
        raise FeishupermError(f"the server, process {pid}, does not end")


def _send_signal(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except OSError:  # gone, or not ours to end: the caller looks again
        pass
