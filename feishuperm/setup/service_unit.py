"""Keeping `serve` running: a systemd user unit, a launchd agent, or a bare process.

Each way can be installed, started, stopped and removed.  Neither a unit nor a command
line ever holds a secret: `serve` reads config.env.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Mapping

from feishuperm.errors import FeishupermError
from feishuperm.lib.config import home, state_dir
from feishuperm.lib.files import private_dir, write_atomic
from feishuperm.setup.files import remove_file
from feishuperm.setup.server_process import end_background, pid_path, stop_server

Run = Callable[[list[str]], int]

UNIT = "feishuperm.service"
LABEL = "com.feishuperm.serve"
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
    nowhere = subprocess.DEVNULL
    try:
        return subprocess.run(
            command, stdin=nowhere, stdout=nowhere, stderr=nowhere, timeout=60
        ).returncode
    except (OSError, subprocess.TimeoutExpired):
        return 127


class Service:
    """One way to keep the server running; `program` is the path of the link."""

    kind = ""
    keeps = ""  # what a person should know about it
    asks = ""  # what has to answer for it to work

    def __init__(
        self, program: str, environ: Mapping[str, str], run: Run = run_quietly
    ) -> None:
        self.program = program
        self.environ = environ
        self.run = run
        self.path = self.unit_path()

    def unit_path(self) -> str:
        """The unit file, if any."""
        return ""

    def content(self) -> bytes:
        """What the unit file should hold."""
        return b""

    def works(self) -> bool:
        """Whether this machine has it."""
        return True

    def start(self) -> None:
        """Start the server, or restart it with the files of today."""
        raise NotImplementedError

    def halt(self) -> None:
        """End the server, however it feels about that; it may be started again."""
        raise NotImplementedError

    def stop(self) -> None:
        """End the server and forget the unit, if it was known."""
        raise NotImplementedError

    def must(self, command: list[str], hint: str) -> None:
        if self.run(command):
            raise FeishupermError(f"{' '.join(command)} failed", hint)

    def must_work(self) -> None:
        """Raise FeishupermError where it would fail, before anything is changed."""
        if not self.works():
            raise FeishupermError(
                f"{self.kind} cannot keep the server running here: {self.asks} does "
                "not answer; nothing was changed",
                "feishuperm install --service background",
            )


class SystemdService(Service):
    """A user unit; lives as long as the user is logged in, or for ever with linger."""

    kind = "systemd"
    keeps = "to keep it running after you log out: loginctl enable-linger"
    asks = "`systemctl --user`"
    unit, role = UNIT, "serve"

    def unit_path(self) -> str:
        base = self.environ.get("XDG_CONFIG_HOME") or f"{home(self.environ)}/.config"
        return f"{base}/systemd/user/{self.unit}"

    def works(self) -> bool:
        return self.run(["systemctl", "--user", "show-environment"]) == 0

    def content(self) -> bytes:
        return systemd_unit(self.program, self.environ, self.role).encode()

    def start(self) -> None:
        unit = self.unit
        for words in (["daemon-reload"], ["enable", unit], ["restart", unit]):
            self.must(["systemctl", "--user", *words], self.journal())

    def journal(self) -> str:
        """The command that shows what it said last."""
        return f"journalctl --user -u {self.unit} -n 20"

    def halt(self) -> None:
        self.run(["systemctl", "--user", "stop", self.unit])

    def stop(self) -> None:
        self.run(["systemctl", "--user", "disable", "--now", self.unit])


class LaunchdService(Service):
    """An agent of the user's graphical session."""

    kind = "launchd"
    keeps = "it starts again at every login"
    asks = "`launchctl`"
    target = f"gui/{os.getuid()}"

    def unit_path(self) -> str:
        return f"{home(self.environ)}/Library/LaunchAgents/{LABEL}.plist"

    def works(self) -> bool:
        return sys.platform == "darwin" and self.run(["launchctl", "list"]) == 0

    def content(self) -> bytes:
        return launchd_plist(self.program, self.environ)

    def start(self) -> None:
        self.run(["launchctl", "bootout", f"{self.target}/{LABEL}"])
        if self.run(["launchctl", "bootstrap", self.target, self.path]):
            hint = f"launchctl print {self.target}/{LABEL}"
            self.must(["launchctl", "load", "-w", self.path], hint)

    def halt(self) -> None:
        self.run(["launchctl", "bootout", f"{self.target}/{LABEL}"])

    def stop(self) -> None:
        if self.run(["launchctl", "bootout", f"{self.target}/{LABEL}"]):
            self.run(["launchctl", "unload", "-w", self.path])


class BackgroundService(Service):
    """A process of our own, where there is no service manager: containers, WSL."""

    kind = "background"
    keeps = "no service manager here: after a reboot, run `feishuperm restart`"

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

    def halt(self) -> None:
        end_background(self.environ, self.program)
        remove_file(pid_path(self.environ))

    stop = halt


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


# Unit files.


def systemd_unit(program: str, environ: Mapping[str, str], role: str = "serve") -> str:
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
ExecStart=/bin/sh {_systemd_quoted(program)} {role}
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
