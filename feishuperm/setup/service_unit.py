"""Keeping `serve` running: a systemd user unit, a launchd agent, or a bare process.

Each way can be installed, started, stopped and removed; what is common (is the server
there, did it come up) is asked of the server itself over its socket.  Only a server
that does not answer is ended by its pid, and only if its command line is ours.
Neither a unit nor a command line ever holds a secret: `serve` reads config.env.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

from feishuperm.errors import FeishupermError
from feishuperm.lib.config import state_dir
from feishuperm.lib.control import NotRunningError, ask_server, is_listening
from feishuperm.lib.store import private_dir, write_atomic

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    Run = Callable[[list[str]], int]

UNIT = "feishuperm.service"
LABEL = "com.feishuperm.serve"
START_SECONDS = 20.0  # a loaded machine needs a few; one that needs more is stuck
STOP_SECONDS = 10.0
END_SECONDS = 3.0  # for each way to end a process, from waiting to killing
# What decides where `serve` finds its files; without them it would read other ones.
PLACES = ("XDG_CONFIG_HOME", "XDG_STATE_HOME", "CLAUDE_CONFIG_DIR", "FEISHUPERM_CONFIG")
# What a server started by us inherits beside that; the rest of a shell's environment,
# with whatever keys and tokens it holds, is none of its business.
INHERITED = (
    "HOME", "PATH", "USER", "LOGNAME", "SHELL", "LANG", "LC_ALL", "TZ", "TMPDIR",
    "XDG_RUNTIME_DIR", "http_proxy", "https_proxy", "no_proxy", "HTTP_PROXY",
    "HTTPS_PROXY", "NO_PROXY", "SSL_CERT_FILE", "SSL_CERT_DIR", *PLACES,
)  # fmt: skip


def run_quietly(command: list[str]) -> int:
    """The exit code of a command whose words nobody needs; 127 when it cannot run."""
    try:
        return subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=60,
        ).returncode
    except (OSError, subprocess.TimeoutExpired):
        return 127


class Service:
    """One way to keep the server running; `program` is the path of the link."""

    kind = ""
    path = ""  # the unit file, if any
    keeps = ""  # what a person should know about it

    def __init__(
        self, program: str, environ: Mapping[str, str], run: Run = run_quietly
    ) -> None:
        self.program = program
        self.environ = environ
        self.run = run

    def content(self) -> bytes:
        """What the unit file should hold."""
        return b""

    def works(self) -> bool:
        """Whether this machine has it."""
        raise NotImplementedError

    def start(self) -> None:
        """Start the server, or restart it with the files of today."""
        raise NotImplementedError

    def stop(self) -> None:
        """Stop the server and forget the unit, if it was known."""
        raise NotImplementedError

    def must(self, command: list[str], hint: str) -> None:
        if self.run(command):
            raise FeishupermError(f"{' '.join(command)} failed", hint)


class SystemdService(Service):
    """A user unit; lives as long as the user is logged in, or for ever with linger."""

    kind = "systemd"
    keeps = "to keep it running after you log out: loginctl enable-linger"

    def __init__(
        self, program: str, environ: Mapping[str, str], run: Run = run_quietly
    ) -> None:
        super().__init__(program, environ, run)
        base = environ.get("XDG_CONFIG_HOME") or f"{environ.get('HOME', '')}/.config"
        self.path = f"{base}/systemd/user/{UNIT}"

    def works(self) -> bool:
        return self.run(["systemctl", "--user", "show-environment"]) == 0

    def content(self) -> bytes:
        return systemd_unit(self.program, self.environ).encode()

    def start(self) -> None:
        hint = f"journalctl --user -u {UNIT} -n 20"
        self.must(["systemctl", "--user", "daemon-reload"], hint)
        self.must(["systemctl", "--user", "enable", UNIT], hint)
        self.must(["systemctl", "--user", "restart", UNIT], hint)

    def stop(self) -> None:
        self.run(["systemctl", "--user", "disable", "--now", UNIT])


class LaunchdService(Service):
    """An agent of the user's graphical session."""

    kind = "launchd"
    keeps = "it starts again at every login"

    def __init__(
        self, program: str, environ: Mapping[str, str], run: Run = run_quietly
    ) -> None:
        super().__init__(program, environ, run)
        self.path = f"{environ.get('HOME', '')}/Library/LaunchAgents/{LABEL}.plist"
        self.domain = f"gui/{os.getuid()}"

    def works(self) -> bool:
        return sys.platform == "darwin" and self.run(["launchctl", "list"]) == 0

    def content(self) -> bytes:
        return launchd_plist(self.program, self.environ)

    def start(self) -> None:
        self.run(["launchctl", "bootout", f"{self.domain}/{LABEL}"])
        if self.run(["launchctl", "bootstrap", self.domain, self.path]):
            hint = f"launchctl print {self.domain}/{LABEL}"
            self.must(["launchctl", "load", "-w", self.path], hint)

    def stop(self) -> None:
        if self.run(["launchctl", "bootout", f"{self.domain}/{LABEL}"]):
            self.run(["launchctl", "unload", "-w", self.path])


class BackgroundService(Service):
    """A process of our own, where there is no service manager: containers, WSL."""

    kind = "background"
    keeps = "no service manager here: after a reboot, run `feishuperm install` again"

    def works(self) -> bool:
        return True

    def start(self) -> None:
        stop_server()
        end_background(self.environ, self.program)
        environ = {key: self.environ[key] for key in INHERITED if key in self.environ}
        private_dir(state_dir(self.environ))
        self.process = subprocess.Popen(
            [self.program, "serve"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,  # it keeps a log of its own
            stderr=subprocess.DEVNULL,
            env=environ,
            cwd="/",
            start_new_session=True,
        )
        write_atomic(pid_path(self.environ), b"%d\n" % self.process.pid, 0o600)

    def stop(self) -> None:
        end_background(self.environ, self.program)
        try:
            os.unlink(pid_path(self.environ))
        except FileNotFoundError:
            pass


KINDS: dict[str, type[Service]] = {
    service.kind: service
    for service in (SystemdService, LaunchdService, BackgroundService)
}


def choose_service(
    program: str, environ: Mapping[str, str], run: Run = run_quietly
) -> Service:
    """The first way that works on this machine."""
    services = (kind(program, environ, run) for kind in KINDS.values())
    return next(service for service in services if service.works())


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


def wait_until_running(
    seconds: float = START_SECONDS,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
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
        sleep(0.05)


def stop_server(
    socket: str = "",
    seconds: float = STOP_SECONDS,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> int:
    """End the server on a socket, if there is one; how many requests it released.

    Raises FeishupermError when it does not go away.
    """
    released = 0
    deadline = clock() + seconds
    while True:
        try:
            answer = ask_server({"command": "stop"}, path=socket)
        except NotRunningError:
            return released
        released += int(answer.get("released") or 0)
        if clock() >= deadline:
            raise FeishupermError(
                "the running server does not stop", "feishuperm status"
            )
        sleep(0.05)


def stop_service(service: Service, socket: str) -> None:
    """Stop a server for good: ask, then use force. Raises while one still listens."""
    try:
        stop_server(socket)
    except FeishupermError:  # it is told once more, by its manager or by a signal
        pass
    service.stop()
    if is_listening(socket):
        raise FeishupermError(
            f"a server still listens on {socket}", "end it by hand: feishuperm status"
        )


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
        found = subprocess.run(command, capture_output=True, timeout=10).stdout
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return os.fsdecode(found.strip())


def end_background(
    environ: Mapping[str, str],
    program: str,
    seconds: float = END_SECONDS,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """End the background server if it lives: wait, ask, kill. Raises if it stays."""
    pid = background_pid(environ)
    for number in (0, signal.SIGTERM, signal.SIGKILL):
        deadline = clock() + seconds
        if is_server(pid, program):
            _send_signal(pid, number)
        while is_server(pid, program) and clock() < deadline:
            sleep(0.05)
    if is_server(pid, program):
        raise FeishupermError(f"the server, process {pid}, does not end")


def _send_signal(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except OSError:  # gone, or not ours to end: the caller looks again
        pass


# Unit files.


def systemd_unit(program: str, environ: Mapping[str, str]) -> str:
    """A user unit. "Always allow" writes in project folders, so no ProtectHome.

    The program is a script for sh; naming sh takes paths that systemd would refuse.
    """
    places = "".join(
        f"Environment={_systemd_quoted(f'{key}={environ[key]}', dollar='$')}\n"
        for key in PLACES
        if environ.get(key)
    )
    return f"""\
[Unit]
Description=feishuperm, answers for Claude Code from Feishu

[Service]
ExecStart=/bin/sh {_systemd_quoted(program)} serve
{places}Restart=on-failure
RestartSec=2
NoNewPrivileges=yes
LimitNOFILE=65536

[Install]
WantedBy=default.target
"""


def _systemd_quoted(text: str, dollar: str = "$$") -> str:
    """A word; a dollar sign starts a variable in a command, but not in a setting."""
    for sign, escaped in (("\\", "\\\\"), ('"', '\\"'), ("%", "%%"), ("$", dollar)):
        text = text.replace(sign, escaped)
    return f'"{text}"'


def launchd_plist(program: str, environ: Mapping[str, str]) -> bytes:
    """A launch agent."""
    import plistlib

    places = {key: environ[key] for key in PLACES if environ.get(key)}
    return plistlib.dumps(
        {
            "Label": LABEL,
            "ProgramArguments": [program, "serve"],
            "EnvironmentVariables": places,
            "RunAtLoad": True,
            "KeepAlive": {"SuccessfulExit": False},
            "SoftResourceLimits": {"NumberOfFiles": 8192},
        }
    )
