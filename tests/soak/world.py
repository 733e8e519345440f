"""A server, its hooks, a person's finger and everything that can go wrong, for real.

Every part is the built file in a process of its own, in a home of its own.  The finger
writes down each tap before it is made: an allow that is not in that list was given by
nobody.  A hook is started by a shell that stands for the client, as Claude Code would,
so that the finger is no child of the session it answers.
"""

from __future__ import annotations

import contextlib
import fcntl
import http.client
import json
import os
import resource
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any, NamedTuple

from feishuperm import wire
from feishuperm.services.ledger import Ledger
from feishuperm.services.web_access import Links, load_key

ROOT = Path(__file__).resolve().parents[2]
FEISHU = ROOT / "tests" / "fakes" / "feishu.py"
HOST = "127.0.0.1"
SECONDS = 2  # that a person has
# What a hook may take from its start: the wait for an acknowledgement that came late
# because the server was frozen or away, the person's time, the guard, and some slack
# for a machine with other work.
LONGEST = SECONDS + wire.GUARD_SECONDS + 3.0
BROWSER = {
    "User-Agent": "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 Chrome/120.0",
    "Accept": "text/html",
    "Sec-Fetch-Site": "none",
    "Sec-Fetch-Mode": "navigate",
    "Sec-Fetch-Dest": "document",
    "Sec-Fetch-User": "?1",
}
DONE = {
    "allow": "已批准运行",
    "always": "已始终允许",
    "deny": "已拒绝运行",
    "interrupt": "已拒绝并中断",
}


class Act(NamedTuple):
    """One tap, written down before it was made."""

    project: str
    id: str
    action: str


class Hook:
    """A client that asks, and the hook it has started."""

    def __init__(self, world: World, number: int) -> None:
        self.project = str(world.home / "p" / str(number))
        os.makedirs(self.project)
        self.began = time.monotonic()
        self.ended = 0.0
        self.printed = b""
        self.killed = False
        self.id = ""
        event = {
            "session_id": f"s-{number}",
            "transcript_path": "",
            "cwd": self.project,
            "hook_event_name": "PermissionRequest",
            "tool_name": "Bash",
            "tool_input": {"command": f"echo {number}"},
        }
        self.client = subprocess.Popen(
            ["/bin/sh", "-c", '"$0" hook; :', world.pyz],
            env={**world.environ, "CLAUDE_PROJECT_DIR": self.project},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd=world.home,
        )
        assert self.client.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self.client.stdin.write(json.dumps(event).encode())
            self.client.stdin.close()
        self.reader = threading.Thread(target=self._read)
        self.reader.start()

    def _read(self) -> None:
        """The pipe ends when both the client and the hook have."""
        assert self.client.stdout is not None
        self.printed = self.client.stdout.read()
        self.ended = time.monotonic()
        self.client.stdout.close()
        self.client.wait()

    def kill(self) -> None:
        """End the hook, not its client."""
        pid = self.client.pid
        with contextlib.suppress(OSError, ProcessLookupError):
            children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
            for child in children:
                self.killed = True
                os.kill(int(child), signal.SIGKILL)

    def kill_client(self) -> None:
        """End the client; its hook lives on, and nobody reads what it says."""
        self.client.kill()

    def decision(self) -> dict[str, Any]:
        """What was printed; empty for nothing."""
        if not self.printed:
            return {}
        output = json.loads(self.printed)["hookSpecificOutput"]
        found: dict[str, Any] = output["decision"]
        return found


class World:
    """One home with its server, its platform and its finger."""

    def __init__(self, pyz: str, home: Path, platform: bool = False) -> None:
        self.pyz = pyz
        self.home = home
        self.port = free_port()
        self.platform_port = free_port() if platform else 0
        self.environ = {
            "PATH": "/usr/bin:/bin",
            "HOME": str(home),
            "LANG": "C.UTF-8",
            "PERMISSION_SOCKET_PATH": str(home / "s.sock"),
            "PERMISSION_REQUEST_TIMEOUT": str(SECONDS),
            "CALLBACK_SERVER_PORT": str(self.port),
            "CALLBACK_SERVER_URL": f"http://localhost:{self.port}",
        }
        if platform:
            base = f"http://{HOST}:{self.platform_port}"
            token = "11111111-2222-3333-4444-555555555555"
            self.environ["FEISHU_WEBHOOK_URL"] = f"{base}/open-apis/bot/v2/hook/{token}"
        self.server: subprocess.Popen[bytes] | None = None
        self.platform: subprocess.Popen[bytes] | None = None
        self.acts: list[Act] = []
        self.successes: list[Act] = []
        self.hooks = 0

    # The server.

    def start(self) -> None:
        """Start the server unless it runs; returns when it answers."""
        if self.server is not None and self.server.poll() is None:
            return
        with open(self.home / "serve.log", "ab") as log:
            self.server = subprocess.Popen(
                [self.pyz, "serve"],
                env=self.environ,
                cwd=self.home,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        until = time.monotonic() + 20
        while self.control(command="status") is None:
            assert self.server.poll() is None, self.log()
            assert time.monotonic() < until, "the server does not answer"
            time.sleep(0.02)

    def log(self) -> str:
        return (self.home / "serve.log").read_text()[-3000:]

    def control(self, **command: object) -> dict[str, Any] | None:
        try:
            sock = wire.connect(os.fsencode(self.environ["PERMISSION_SOCKET_PATH"]))
        except wire.NoServer:
            return None
        try:
            sock.settimeout(10)
            sock.sendall(wire.frame(b"C", json.dumps(command).encode()))
            kind, body = wire.receive_frame(sock)
        except OSError:
            return None
        finally:
            sock.close()
        answer: dict[str, Any] | None = json.loads(body) if kind == b"J" else None
        return answer

    def end(self, number: int) -> None:
        """End the server by a signal, whatever it is doing."""
        if self.server is not None and self.server.poll() is None:
            self.server.send_signal(number)
            self.server.wait(15)

    def close(self) -> None:
        self.end(signal.SIGTERM)
        self.stop_platform()

    # The platform.

    def start_platform(self) -> None:
        if not self.platform_port or self.platform is not None:
            return
        self.platform = subprocess.Popen(
            [sys.executable, str(FEISHU), str(self.platform_port)],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        assert self.platform.stdout is not None
        self.platform.stdout.readline()

    def stop_platform(self) -> None:
        if self.platform is not None:
            self.platform.kill()
            self.platform.communicate()
            self.platform = None

    # Hooks.

    def hook(self) -> Hook:
        self.hooks += 1
        return Hook(self, self.hooks)

    def learn_ids(self, hooks: list[Hook]) -> None:
        """Ask the server under which ids they wait; some may not be there yet."""
        status = self.control(command="status")
        by_project = {hook.project: hook for hook in hooks}
        for row in (status or {}).get("waiting", ()):
            if row["project"] in by_project:
                by_project[row["project"]].id = row["id"]

    # The finger.

    def links(self) -> Links:
        key = load_key(str(self.home / ".local" / "state" / "feishuperm" / "key"))
        return Links(f"http://localhost:{self.port}", key, True)

    def tap(self, hook: Hook, action: str) -> str:
        """Tap a button; what the page said, empty when there was no answer."""
        act = Act(hook.project, hook.id, action)
        self.acts.append(act)
        page = self.get(self.links().path(f"/{action}", hook.id))
        if "操作成功" in page:
            self.successes.append(act)
        return page

    def get(self, path: str) -> str:
        connection = http.client.HTTPConnection(HOST, self.port, timeout=10)
        try:
            connection.request("GET", path, headers=BROWSER)
            return connection.getresponse().read().decode()
        except (OSError, http.client.HTTPException):
            return ""
        finally:
            connection.close()

    # What can go wrong around a server.

    def ledger(self) -> Ledger:
        return Ledger(environ=self.environ)

    @contextlib.contextmanager
    def ledger_locked(self) -> Any:
        path = self.ledger().path
        if not os.path.exists(path):
            yield
            return
        with open(path, "rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield

    @contextlib.contextmanager
    def limited(self, kind: int, soft: int) -> Any:
        """A resource of the server is at its end."""
        assert self.server is not None
        pid = self.server.pid
        try:
            before = resource.prlimit(pid, kind)
            resource.prlimit(pid, kind, (soft, before[1]))
        except (OSError, ValueError):
            yield
            return
        try:
            yield
        finally:
            with contextlib.suppress(OSError):
                resource.prlimit(pid, kind, before)

    def descriptors(self) -> int:
        assert self.server is not None
        return len(os.listdir(f"/proc/{self.server.pid}/fd"))

    def memory(self) -> int:
        """Resident memory of the server, in bytes."""
        assert self.server is not None
        fields = Path(f"/proc/{self.server.pid}/statm").read_text().split()
        return int(fields[1]) * resource.getpagesize()


def free_port() -> int:
    """A port that is free in both families."""
    for _ in range(50):
        with socket.socket() as sock:
            sock.bind((HOST, 0))
            port: int = sock.getsockname()[1]
            try:
                with socket.socket(socket.AF_INET6) as other:
                    other.bind(("::1", port))
            except OSError as error:
                if "in use" in str(error):
                    continue
            return port
    raise OSError("no free port")
