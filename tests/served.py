"""The built file as a running server, with hooks as separate processes around it."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import signal
import subprocess
import urllib.parse
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple

from feishuperm import wire
from feishuperm.models.settings import Settings
from feishuperm.services.web_access import Links
from tests.conftest import clean_env, wait_until

EVENT = {
    "session_id": "5f0c2d1e-0000-4000-8000-000000000001",
    "transcript_path": "/nonexistent/transcript.jsonl",
    "cwd": "/tmp",
    "permission_mode": "default",
    "hook_event_name": "PermissionRequest",
    "tool_name": "Bash",
    "tool_input": {"command": "npm run build", "description": "build it"},
}


def event(tool_name: str = "Bash", **tool_input: Any) -> dict[str, Any]:
    """A PermissionRequest; without input, that of `npm run build`."""
    if not tool_input:
        tool_input = EVENT["tool_input"]  # type: ignore[assignment]
    return {**EVENT, "tool_name": tool_name, "tool_input": tool_input}


class Answer(NamedTuple):
    """An HTTP response."""

    status: int
    text: str
    headers: dict[str, str]


class Running:
    """A long-running command of the built file, in a home of its own."""

    command = ""

    def __init__(self, pyz: Path, home: Path, environ: dict[str, str]) -> None:
        self.pyz = str(pyz)
        self.home = home
        self.environ = environ
        self.port = 0
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def log(self) -> Path:
        return self.home / f"{self.command}.log"

    def launch(self) -> None:
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(
                [self.pyz, self.command],
                env=self.environ,
                cwd=self.home,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    def output(self) -> str:
        return self.log.read_bytes().decode(errors="replace")

    def kill(self) -> None:
        """End it as a crash would."""
        assert self.process is not None
        self.process.kill()
        self.process.wait(30)

    def stop(self) -> int:
        """End it as an operator would; its exit code."""
        assert self.process is not None
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        return self.process.wait(30)


class Served(Running):
    """`serve` in a home of its own; a context manager that ends what it started."""

    command = "serve"

    def __init__(self, pyz: Path, home: Path, **settings: str) -> None:
        self.project = home / "project"
        self.project.mkdir(exist_ok=True)
        self.socket = str(home / "s.sock")
        environ = clean_env(
            home,
            PERMISSION_SOCKET_PATH=self.socket,
            CALLBACK_SERVER_PORT="0",
            **settings,
        )
        super().__init__(pyz, home, environ)
        self.hooks: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> Served:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()
        for hook in self.hooks:
            if hook.poll() is None:
                hook.kill()
            hook.communicate()

    # The server.

    def start(self) -> None:
        self.launch()
        status = wait_until(self.status)
        self.port = urllib.parse.urlsplit(status["listens"]).port or 0

    def status(self) -> dict[str, Any] | None:
        """The server's own account of itself, or None while it is not there."""
        assert self.process is not None and self.process.poll() is None, self.output()
        return self.control(command="status")

    def control(self, **command: Any) -> dict[str, Any] | None:
        """One control command; None when no server answers."""
        try:
            sock = wire.connect(os.fsencode(self.socket))
        except wire.NoServer:
            return None
        sock.settimeout(10)
        sock.sendall(wire.frame(b"C", json.dumps(command).encode()))
        kind, body = wire.receive_frame(sock)
        sock.close()
        answer: dict[str, Any] | None = json.loads(body) if kind == b"J" else None
        return answer

    # Hooks.

    def hook(self, body: dict[str, Any] | bytes, kind: str = "", **environ: str) -> Any:
        """Start a hook with an event; returns the process."""
        process = subprocess.Popen(
            [self.pyz, "hook", *([kind] if kind else [])],
            env={
                **self.environ,
                "CLAUDE_PROJECT_DIR": str(self.project),
                **environ,
            },
            cwd=self.home,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        self.hooks.append(process)
        assert process.stdin is not None
        raw = body if isinstance(body, bytes) else json.dumps(body).encode()
        process.stdin.write(raw)
        process.stdin.close()
        process.stdin = None
        return process

    def ask(
        self, body: dict[str, Any], kind: str = "", **environ: str
    ) -> tuple[Any, str]:
        """Start a hook and wait until it is registered; (process, request id)."""
        before = set(self.waiting())
        process = self.hook(body, kind, **environ)
        new = wait_until(lambda: set(self.waiting()) - before)
        return process, new.pop()

    def waiting(self) -> list[str]:
        """The ids that wait, oldest first."""
        status = self.status()
        return [row["id"] for row in status["waiting"]] if status else []

    # A browser.

    def link(self, path: str) -> str:
        """`/allow?id=...` with the signature the server gives it, if it signs."""
        name, _, id = path.partition("?id=")
        if not id or "&" in id:
            return path
        signs = Settings(self.environ).signs_links()
        key = self.home / ".local" / "state" / "feishuperm" / "key"
        kept = key.read_bytes() if key.is_file() else b""
        return Links("", kept, signs).path(name, id)

    def get(self, path: str, method: str = "GET", **headers: str) -> Answer:
        """Open a page; a link that names a request is signed as on its card."""
        return self.request(method, self.link(path), None, headers)

    def post(self, path: str, **fields: str | list[str]) -> Answer:
        """Send a form, signed as the page has it."""
        _, _, signed = self.link(f"{path}?id={fields.get('id', '')}").partition("&")
        body = urllib.parse.urlencode(fields, doseq=True)
        body = f"{body}&{signed}" if signed else body
        form = {
            "Content-Type": "application/x-www-form-urlencoded",
            "Origin": f"http://127.0.0.1:{self.port}",  # as a page of ours has it
        }
        return self.request("POST", path, body, form)

    @contextlib.contextmanager
    def watched(self) -> Iterator[None]:
        """While somebody looks at the inbox."""
        page = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        page.request("GET", "/events")
        stream = page.getresponse()
        stream.readline()
        try:
            yield
        finally:
            stream.close()
            page.close()

    def ledger(self) -> list[dict[str, Any]]:
        """Every entry, oldest first."""
        path = self.home / ".local" / "state" / "feishuperm" / "ledger.jsonl"
        text = path.read_text() if path.exists() else ""
        return [json.loads(line) for line in text.splitlines()]

    def enter_inbox(self) -> str:
        """Use the link that `status` prints; returns the cookie it becomes."""
        status = self.control(command="status", inbox=True)
        assert status is not None
        ticket = status["inbox"].partition("?ticket=")[2]
        preview = self.get(f"/?ticket={ticket}", User_Agent="Slackbot 1.0")
        assert ticket and ticket in preview.text
        entered = self.post("/", ticket=ticket)
        assert entered.status == 303, entered.text
        return entered.headers["Set-Cookie"].partition(";")[0]

    def request(
        self, method: str, path: str, body: str | None, headers: dict[str, str]
    ) -> Answer:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        connection.request(method, path, body, sent)
        response = connection.getresponse()
        text = response.read().decode()
        answer = Answer(response.status, text, dict(response.getheaders()))
        connection.close()
        return answer


def finish(process: Any, timeout: float = 60) -> str:
    """What a hook printed; it must have ended well."""
    out, err = process.communicate(timeout=timeout)
    assert process.returncode == 0, err
    printed: str = out.decode()
    return printed


def decision(printed: str) -> dict[str, Any]:
    """The decision inside a hook's output."""
    output = json.loads(printed)["hookSpecificOutput"]
    assert output["hookEventName"] == "PermissionRequest"
    found: dict[str, Any] = output["decision"]
    return found


class Transcript:
    """What the client writes down."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "session.jsonl"
        self.path.touch()

    def write(self, kind: str, *content: dict[str, Any], **fields: Any) -> None:
        entry = {"type": kind, "message": {"content": list(content)}, **fields}
        with self.path.open("a") as file:
            file.write(json.dumps(entry) + "\n")

    def call(self, said: str, **tool_input: Any) -> None:
        self.write("user", {"type": "text", "text": "修好构建\n谢谢"})
        self.write("assistant", {"type": "text", "text": said})
        use = {"type": "tool_use", "id": "toolu_1", "name": "Bash", "input": tool_input}
        self.write("assistant", use)

    def result(self, content: str, is_error: bool = False) -> None:
        ended = {"type": "tool_result", "tool_use_id": "toolu_1", "content": content}
        self.write("user", {**ended, "is_error": is_error})
