"""The server from outside: where it can listen, how it is kept running and ended.

The server itself is asked, over its socket.  Only one that does not answer is ended by
its pid, and only if its command line is ours.  An end hands pending requests back to
the terminals, or on to the server that starts next: hooks look for that one by
themselves.  Neither a unit nor a command line ever holds a secret: `serve` reads
config.env.
"""

from __future__ import annotations

import errno
import os
import pkgutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any
from urllib.parse import urlencode, urlsplit

from feishuperm.errors import FeishupermError
from feishuperm.lib.config import home, load_settings, state_dir
from feishuperm.lib.control import NotRunningError, ask_server, is_listening
from feishuperm.lib.files import private_dir, read_bytes, write_atomic
from feishuperm.lib.post import Call, call
from feishuperm.messages import message_of, msg, word
from feishuperm.models.settings import BY_KEY, Settings
from feishuperm.setup.steps import Manifest, Record, Step, remove_file, remove_folders

NEAR_PORTS = range(8081, 8100)  # close to the usual one, so a person can remember it
FORM = {"Content-Type": "application/x-www-form-urlencoded"}


def port_number(text: str) -> str:
    """What `--port` was given. Raises ValueError that says what it may be."""
    try:
        return str(BY_KEY["CALLBACK_SERVER_PORT"].parse(text))
    except ValueError:
        raise ValueError(
            msg("{!r} is not a port: use 1 to 65535, or 0 for a free one", text)
        ) from None


def port_settings(port: int | str) -> dict[str, str]:
    """The two settings that a port of one's own needs; 0: any that is free now.

    It stays the same from then on: cards that are out lead to it.
    """
    if not str(port).strip("0"):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
    return {
        "CALLBACK_SERVER_PORT": str(port),
        "CALLBACK_SERVER_URL": f"http://localhost:{port}",
    }


def port_of(status: dict[str, Any] | None) -> int:
    """The port that a server with this status holds, 0 without one."""
    return (urlsplit(str(status["listens"])).port or 0) if status else 0


def check_port(settings: Settings, own: int) -> None:
    """Raise FeishupermError where the server could not listen.

    A port that our own server holds will be free; its host still has to be good.
    """
    port = settings.callback_server_port
    if not can_listen(settings.http_hosts(), 0 if port == own else port):
        raise FeishupermError(
            msg("port {} is taken by another program", port),
            msg("choose another one: feishuperm install --port N"),
        )


def can_listen(hosts: Sequence[str], port: int) -> bool:
    """Whether a server could listen on all of its addresses.

    Only the first has to be there: an address of a missing family is free. Raises
    FeishupermError for a first one that is not here.
    """
    for host in hosts:
        try:
            _bind(host, port)
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                return False
            if host == hosts[0]:
                raise FeishupermError(
                    msg("cannot listen on {}:{}: {}", host, port, message_of(error)),
                    msg("set CALLBACK_SERVER_HOST to an address of this machine"),
                ) from None
    return True


def _bind(host: str, port: int) -> None:
    """Try an address as the server would. Raises OSError."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            probe.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        probe.bind((host, port))


def free_port(hosts: Sequence[str]) -> int:
    """A free port near the usual one. Raises FeishupermError."""
    for port in NEAR_PORTS:
        if can_listen(hosts, port):
            return port
    raise FeishupermError(
        msg("ports 8080 to {} are all taken", NEAR_PORTS[-1]),
        "feishuperm install --port N",
    )


# The running server: is it there, wait until it is, end it.


START_SECONDS = 20.0  # a loaded machine needs a few; one that needs more is stuck
STOP_SECONDS = 10.0
END_SECONDS = 3.0  # for each way to end a process, from waiting to killing
STEP = 0.05


class StuckError(FeishupermError):
    """A server that was told to end and does not."""


def tries(seconds: float) -> Iterator[None]:
    """One turn after the other, with a pause between, until the time is over."""
    deadline = time.monotonic() + seconds
    yield
    while time.monotonic() < deadline:
        time.sleep(STEP)
        yield


def running_status(socket: str = "") -> dict[str, Any] | None:
    """What the server on a socket says, None without one."""
    try:
        return ask_server({"command": "status"}, path=socket)
    except NotRunningError:
        return None


def wait_until_running(socket: str = "", before: Any = None) -> dict[str, Any]:
    """The status of a server that has just been started; not that of the one `before`.

    Raises NotRunningError.
    """
    for _ in tries(START_SECONDS):
        status = running_status(socket)
        if status is not None and status.get("started") != before:
            return status
    raise NotRunningError(
        msg("the server was started, but does not answer"), "feishuperm serve"
    )


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
    raise StuckError(msg("the running server does not stop"), "feishuperm status")


def hand_over(socket: str = "") -> str:
    """End the server for one that starts at once; how many requests it hands over."""
    waiting = stop_server(socket, "handover")
    return (
        msg("pending requests handed over to the new server: {}", waiting)
        if waiting
        else ""
    )


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
    """Whether a process is our server and lives; numbers are used again."""
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
            with suppress(OSError):  # gone, or another user's: looked at again below
                os.kill(pid, number)
        for _ in tries(seconds):
            if not is_server(pid, program):
                return
    raise StuckError(msg("the server, process {}, does not end", pid))


def fetch(
    url: str, form: Mapping[str, str] | None = None, timeout: float = 10.0
) -> tuple[int, str]:
    """Status and text of a page, past any proxy; with `form` it is posted.

    Raises OSError.
    """
    method, body = "GET" if form is None else "POST", urlencode(form or {}).encode()
    reply = call(Call(method, url, body, FORM), timeout, environ={})
    return reply.status, reply.body.decode("utf-8", "replace")


# Keeping it running: a systemd user unit, a launchd agent, or a bare process.


Run = Callable[[list[str]], int]

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
    hint = ""  # the command that shows what it said last
    instead = "feishuperm install --service background"  # where it does not work
    path = ""  # of the unit file, if any
    content = b""  # what that should hold

    def __init__(
        self, program: str, environ: Mapping[str, str], run: Run | None = None
    ) -> None:
        self.program = program
        self.environ = environ
        self.run = run or run_quietly
        self.places = {key: environ[key] for key in PLACES if environ.get(key)}

    def works(self) -> bool:
        """Whether this machine has it."""
        return True

    def start(self) -> None:
        """Start the server, or restart it. Raises FeishupermError."""
        raise NotImplementedError

    def halt(self) -> None:
        """End the server, however it feels about that, until the next login."""
        raise NotImplementedError

    def stop(self) -> None:
        """End the server and forget the unit, if it was known."""
        self.halt()

    def must_run(self, *words: str) -> None:
        if self.run([*words]) != 0:
            raise FeishupermError(msg("{} failed", " ".join(words)), self.hint)

    def must_work(self) -> None:
        """Raise FeishupermError where it would fail, before anything is changed."""
        if not self.works():
            problem = msg(
                "{} cannot keep the server running here: {} does not answer; "
                "nothing was changed",
                self.kind,
                self.asks,
            )
            raise FeishupermError(problem, self.instead)


CTL = ("systemctl", "--user")


class SystemdService(Service):
    """A user unit; lives as long as the user is logged in, or for ever with linger.

    "Always allow" writes in project folders, so no ProtectHome.  The program is a
    script for sh; naming sh takes paths that systemd would refuse.  Sessions that were
    started from the chat go on when the server ends.
    """

    kind = "systemd"
    keeps = msg("to keep it running after you log out: loginctl enable-linger")
    asks = "`systemctl --user`"
    unit, role = "feishuperm.service", "serve"

    def __init__(
        self, program: str, environ: Mapping[str, str], run: Run | None = None
    ) -> None:
        super().__init__(program, environ, run)
        self.hint = f"journalctl --user -u {self.unit} -n 20"
        base = environ.get("XDG_CONFIG_HOME") or f"{home(environ)}/.config"
        self.path = f"{base}/systemd/user/{self.unit}"
        places = "".join(
            f"Environment={_systemd_quoted(f'{key}={value}', dollar='$')}\n"
            for key, value in self.places.items()
        )
        text = (pkgutil.get_data("feishuperm", "setup/unit.service") or b"").decode()
        text = text.replace("ROLE", self.role).replace("PLACES\n", places, 1)
        self.content = text.replace("PROGRAM", _systemd_quoted(program), 1).encode()

    def works(self) -> bool:
        return self.run([*CTL, "show-environment"]) == 0

    def start(self) -> None:
        self.must_run(*CTL, "daemon-reload")
        self.must_run(*CTL, "enable", self.unit)
        self.must_run(*CTL, "restart", self.unit)

    def halt(self) -> None:
        self.run([*CTL, "stop", self.unit])

    def stop(self) -> None:
        self.run([*CTL, "disable", "--now", self.unit])


def _systemd_quoted(text: str, dollar: str = "$$") -> str:
    """A word; a dollar sign starts a variable in a command, but not in a setting."""
    for sign, escaped in (("\\", "\\\\"), ('"', '\\"'), ("%", "%%"), ("$", dollar)):
        text = text.replace(sign, escaped)
    return f'"{text}"'


class LaunchdService(Service):
    """An agent of the user's graphical session; older systems load and unload it."""

    kind = "launchd"
    keeps = msg("it starts again at every login")
    asks = "`launchctl`"
    domain = f"gui/{os.getuid()}"
    unit = f"{domain}/{LABEL}"
    hint = f"launchctl print {unit}"

    def __init__(
        self, program: str, environ: Mapping[str, str], run: Run | None = None
    ) -> None:
        import plistlib

        super().__init__(program, environ, run)
        self.path = f"{home(environ)}/Library/LaunchAgents/{LABEL}.plist"
        self.content = plistlib.dumps(
            {
                "Label": LABEL,
                "ProgramArguments": [program, "serve"],
                "EnvironmentVariables": self.places,
                "RunAtLoad": True,
                "KeepAlive": {"SuccessfulExit": False},
                "AbandonProcessGroup": True,  # sessions started from the chat go on
                "SoftResourceLimits": {"NumberOfFiles": 8192},
            }
        )

    def works(self) -> bool:
        return sys.platform == "darwin" and self.run(["launchctl", "list"]) == 0

    def start(self) -> None:
        self.halt()
        if self.run(["launchctl", "bootstrap", self.domain, self.path]) != 0:
            self.must_run("launchctl", "load", "-w", self.path)

    def halt(self) -> None:
        self.run(["launchctl", "bootout", self.unit])

    def stop(self) -> None:
        if self.run(["launchctl", "bootout", self.unit]) != 0:
            self.run(["launchctl", "unload", "-w", self.path])


class BackgroundService(Service):
    """A process of our own, where there is no service manager: containers, WSL."""

    kind = "background"
    keeps = msg("no service manager here: after a reboot, run `feishuperm restart`")

    def start(self) -> None:
        stop_server()
        end_background(self.environ, self.program)
        private_dir(state_dir(self.environ))
        self.process = subprocess.Popen(
            [self.program, "serve"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,  # it keeps a log of its own
            stderr=subprocess.DEVNULL,
            env={key: self.environ[key] for key in INHERITED if key in self.environ},
            cwd="/",
            start_new_session=True,
        )
        write_atomic(pid_path(self.environ), b"%d\n" % self.process.pid, 0o600)

    def halt(self) -> None:
        end_background(self.environ, self.program)
        remove_file(pid_path(self.environ))


SERVICE_MANAGERS: dict[str, type[Service]] = {
    service.kind: service
    for service in (SystemdService, LaunchdService, BackgroundService)
}


def choose_service(
    program: str, environ: Mapping[str, str], run: Run | None = None
) -> Service:
    """The first way that works on this machine."""
    services = (kind(program, environ, run) for kind in SERVICE_MANAGERS.values())
    return next(service for service in services if service.works())


# The unit file and its server, as an install has recorded them.


class ServiceStep(Step):
    """The unit file. Starting and stopping is the caller's, at the right moment."""

    name = "service"

    def __init__(self, manifest: Manifest, service: Service, socket: str) -> None:
        super().__init__(manifest)
        self.service = service
        # The socket is where its server will listen.
        kind, program = service.kind, service.program
        self.here = {"kind": kind, "program": program, "socket": socket}

    def changes(self) -> list[str]:
        if self._wants_unit():
            return [msg("write {}", self.service.path)]
        if not self.record or self._moves():
            return [msg("keep the server running ({})", word(self.service.kind))]
        return []

    def _wants_unit(self) -> bool:
        path = self.service.path
        return bool(path) and read_bytes(path) != self.service.content

    def _moves(self) -> bool:
        """Whether the earlier install runs its server in another way or place."""
        return any(self.record.get(k, v) != v for k, v in self.here.items())

    def apply(self) -> None:
        if self._moves():
            undo_service(self.record, self.service.environ)
        path = self.service.path
        self.save([os.path.dirname(path)], {**self.here, "path": path})
        if self._wants_unit():
            write_atomic(path, self.service.content, 0o644)


def recorded_service(record: Record, environ: Mapping[str, str]) -> Service:
    """The service that an install has recorded."""
    return SERVICE_MANAGERS[record["kind"]](record["program"], environ)


def end_server(service: Service | None, socket: str, for_good: bool = False) -> int:
    """Ask a server to end, then let its service use force; how many requests waited.

    Raises FeishupermError when it refuses, and while one still listens.
    """
    released = 0
    try:
        released = stop_server(socket)
    except StuckError:
        if service is None:
            raise
    if service is not None:
        service.stop() if for_good else service.halt()
    if is_listening(socket):
        raise FeishupermError(
            msg("a server is still listening on {}", socket),
            msg("end it by hand: feishuperm status"),
        )
    return released


def undo_service(record: Record, environ: Mapping[str, str]) -> list[str]:
    """Stop the server and remove its unit. Raises FeishupermError while it lives."""
    service = recorded_service(record, environ)
    end_server(service, record["socket"], for_good=True)
    remove_file(record.get("path", ""))
    if record["kind"] == "systemd":
        service.run(["systemctl", "--user", "daemon-reload"])
    remove_folders(record.get("folders", []))
    return [msg("stopped the server")]


def kept_by(pid: int, environ: Mapping[str, str]) -> str:
    """What keeps the server running: systemd, launchd, background, or a person."""
    kind = str(Manifest(environ).record("service").get("kind", ""))
    if kind == "background" and background_pid(environ) != pid:
        return "foreground"
    return kind or "foreground"


def stop(environ: Mapping[str, str]) -> str:
    """End the server; pending requests go back to the terminals. What was done."""
    record = Manifest(environ).record("service")
    socket, status = find_server(record, environ)
    if status is None and not is_listening(socket):
        return msg("the server is not running")
    service = recorded_service(record, environ) if record else None
    released = end_server(service, socket)
    more = msg("; it starts again at the next login") if record.get("path") else ""
    if released:
        more = msg("; {} pending returned to the terminal{}", released, more)
    return msg("stopped the server{}", more)


def restart(environ: Mapping[str, str]) -> str:
    """Start the server again, and hand it the pending requests. What was done.

    All that can be known to fail is tried while the old one still runs.
    """
    record = Manifest(environ).record("service")
    socket, status = find_server(record, environ)
    if status and kept_by(status["pid"], environ) == "foreground":
        ask_server({"command": "handover", "again": True}, path=socket)
        wait_until_running(socket, status["started"])
        return msg("restarted (foreground, pid {})", status["pid"])
    if not record:
        raise FeishupermError(
            msg("no installed server to restart: no server is running"),
            msg("keep one running: feishuperm install"),
        )
    service = recorded_service(record, environ)
    service.must_work()
    check_port(load_settings(environ), port_of(status))
    waiting = hand_over(socket)
    service.start()
    pid = wait_until_running()["pid"]
    more = msg("; {}", waiting) if waiting else ""
    return msg("restarted ({}, pid {}){}", word(service.kind), pid, more)


def try_restart(environ: Mapping[str, str]) -> str:
    """Start an installed server again for new settings, or say why it could not be."""
    try:
        return restart(environ)
    except FeishupermError as error:
        return msg("the server has to be restarted to use it: {}", error)


def find_server(
    record: Record, environ: Mapping[str, str]
) -> tuple[str, dict[str, Any] | None]:
    """Where the server is and what it says: by the settings, else by the record."""
    paths = [load_settings(environ).permission_socket_path, record.get("socket", "")]
    for path in filter(None, paths):
        status = running_status(path)
        if status is not None:
            return path, status
    return paths[0], None
