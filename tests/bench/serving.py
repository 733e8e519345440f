"""What the benches of the server share: the built `serve`, hooks, and clicks."""

from __future__ import annotations

import json
import os
import resource
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from feishuperm import wire  # noqa: E402

ARCHIVE = ROOT / "dist" / "feishuperm.pyz"


def event(project: str, size: int = 600, session: int = 0) -> bytes:
    """A permission request of about `size` bytes."""
    fields = {
        "session_id": f"5c8e1f6e-0000-4000-8000-{session:012}",
        "transcript_path": project + "/t.jsonl",
        "cwd": project,
        "permission_mode": "default",
        "hook_event_name": "PermissionRequest",
        "tool_name": "Bash",
        "tool_input": {"command": "npm run build", "description": ""},
    }
    missing = size - len(json.dumps(fields, separators=(",", ":")))
    fields["tool_input"] = {"command": "npm run build", "description": "d" * missing}
    return json.dumps(fields, separators=(",", ":")).encode()


def go_first() -> None:
    """Where it is allowed, let this process and its children run before others."""
    try:
        os.nice(-15)
    except OSError:
        pass


class BuiltServer:
    """The built file's `serve`, in a home of its own, with an hour for everybody."""

    def __init__(self, archive: Path = ARCHIVE, **settings: str) -> None:
        _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        self._folder = tempfile.TemporaryDirectory()
        self.home = self._folder.name
        with socket.socket() as sock:
            sock.bind(("127.0.0.1", 0))
            self.port: int = sock.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self.environment = {
            "PATH": os.environ["PATH"],
            "HOME": self.home,
            "CALLBACK_SERVER_PORT": str(self.port),
            "CALLBACK_SERVER_URL": f"http://localhost:{self.port}",
            "CALLBACK_LINK_SIGNING": "off",  # clicks here know no key
            "PERMISSION_SOCKET_PATH": self.home + "/s.sock",
            "PERMISSION_REQUEST_TIMEOUT": "3600",
            **settings,
        }
        self.process = subprocess.Popen(
            [str(archive), "serve"],
            env=self.environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        self._wait()

    def _wait(self) -> None:
        until = time.monotonic() + 15
        while time.monotonic() < until:
            try:
                self.connect().close()
                self.get("/healthz")
                return
            except OSError:
                time.sleep(0.05)
        raise SystemExit("serve did not start")

    def close(self) -> None:
        self.process.terminate()
        self.process.wait(30)
        self._folder.cleanup()

    def kill(self) -> None:
        """End it without the goodbyes to everybody who waits."""
        self.process.kill()
        self.process.wait(30)
        self._folder.cleanup()

    def connect(self) -> socket.socket:
        sock = socket.socket(socket.AF_UNIX)
        sock.settimeout(30)
        sock.connect(self.home + "/s.sock")
        return sock

    def park(self, number: int, session: int = 0) -> tuple[socket.socket, str]:
        """A hook that waits; returns once the server has registered it."""
        sock = self.connect()
        request_id = f"{int(time.time())}-{number:08x}"
        parts = (b"1", request_id.encode(), b"", b"", event(self.home, session=session))
        sock.sendall(wire.frame(b"Q", b"\0".join(parts)))
        kind, _ = wire.receive_frame(sock)
        if kind != b"A":
            raise SystemExit(f"hook {number} was not registered: {kind!r}")
        return sock, request_id

    def control(self, command: str) -> dict[str, object]:
        with self.connect() as sock:
            body = json.dumps({"command": command}).encode()
            sock.sendall(wire.frame(b"C", body))
            value: dict[str, object] = json.loads(wire.receive_frame(sock)[1])
        return value

    def get(self, path: str) -> bytes:
        """The whole answer to one GET on a connection of its own, as a tap makes."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=30) as sock:
            head = f"GET {path} HTTP/1.1\r\nHost: localhost:{self.port}\r\n"
            sock.sendall(f"{head}Connection: close\r\n\r\n".encode())
            return sock.makefile("rb").read()

    def rss(self) -> int:
        """Resident memory of the server, in bytes."""
        command = ["ps", "-o", "rss=", "-p", str(self.process.pid)]
        return int(subprocess.run(command, capture_output=True).stdout) * 1024
