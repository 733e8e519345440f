"""The built file as a running gateway, and machines that have joined it."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import random
import re
import socket
import ssl
import subprocess
import threading
from pathlib import Path
from typing import Any

from tests.conftest import clean_env, wait_until
from tests.fakes.feishu import APP_ID, APP_SECRET
from tests.fakes.feishu_app import OWNER, FakePlatform
from tests.served import Running

LISTENS = re.compile(r"gateway listens on \w+ port (\d+)")


class RunningGateway(Running):
    """`gateway` in a home of its own; a context manager that ends what it started."""

    command = "gateway"

    def __init__(
        self, pyz: Path, home: Path, feishu: FakePlatform, **settings: str
    ) -> None:
        home.mkdir(exist_ok=True)
        environ = clean_env(
            home,
            FEISHU_APP_ID=APP_ID,
            FEISHU_APP_SECRET=APP_SECRET,
            FEISHU_BASE_URL=feishu.base_url,
            **{"GATEWAY_HOST": "127.0.0.1", "GATEWAY_PORT": "0", **settings},
        )
        super().__init__(pyz, home, environ)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def __enter__(self) -> RunningGateway:
        self.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self.stop()

    def start(self) -> None:
        """Start it, on the port it had before if it had one."""
        if self.port:
            self.environ["GATEWAY_PORT"] = str(self.port)
        before = self.log.stat().st_size if self.log.exists() else 0
        self.launch()

        def port() -> int:
            match = LISTENS.search(self.output()[before:])
            return int(match[1]) if match else 0

        self.port = wait_until(port)
        wait_until(lambda: self.get("/readyz")[0] == 200)

    def get(self, path: str, **headers: str) -> tuple[int, str]:
        connection = self._connection()
        try:
            connection.request("GET", path, headers=headers)
            response = connection.getresponse()
            return response.status, response.read().decode()
        except OSError:
            return 0, ""
        finally:
            connection.close()

    def _connection(self) -> http.client.HTTPConnection:
        cert = self.environ.get("GATEWAY_CERT")
        if not cert:
            return http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
        context = ssl.create_default_context(cafile=cert)
        return http.client.HTTPSConnection(
            "127.0.0.1", self.port, timeout=10, context=context
        )

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """A command of the gateway's operator."""
        return subprocess.run(
            [self.pyz, *arguments], env=self.environ, cwd=self.home, text=True,
            capture_output=True, timeout=30, stdin=subprocess.DEVNULL, check=False,
        )  # fmt: skip

    def machines(self) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = json.loads(self.run("machines", "--json").stdout)
        return rows


class Join:
    """`join` as a person's terminal runs it."""

    def __init__(self, pyz: Path, home: Path, url: str, *options: str) -> None:
        """Begin; `code()` waits for the six digits."""
        home.mkdir(exist_ok=True)
        self.environ = clean_env(home, PERMISSION_SOCKET_PATH=str(home / "s.sock"))
        self.process = subprocess.Popen(
            [str(pyz), "join", url, *options],
            env=self.environ,
            cwd=home,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self.said = ""

    def code(self) -> str:
        assert self.process.stdout
        for line in self.process.stdout:
            self.said += line
            match = re.match(r"(?:配对码|pairing code) (\d{6})$", line)
            if match:
                return match[1]
        raise AssertionError(self.said)

    def finish(self) -> str:
        out, _ = self.process.communicate(timeout=30)
        self.said += out
        return self.said

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self.process.kill()
        self.process.communicate()


def join(
    pyz: Path,
    home: Path,
    gateway: RunningGateway | Balancer,
    feishu: FakePlatform,
    *options: str,
    who: str = OWNER,
) -> str:
    """Join a machine whose owner says the code and confirms; what `join` said."""
    joining = Join(pyz, home, gateway.url, *options)
    try:
        cards = len(feishu.app_messages)
        feishu.say(joining.code(), who=who)
        wait_until(lambda: len(feishu.app_messages) > cards)
        tap = feishu.tap(feishu.last, "确认添加", who=who)
        assert tap.ok and tap.toast["type"] == "success", tap
        said = joining.finish()
        assert joining.process.returncode == 0, said
        return said
    finally:
        joining.close()


def enrolment(home: Path) -> dict[str, Any]:
    path = home / ".config" / "feishuperm" / "gateway.json"
    assert os.stat(path).st_mode & 0o777 == 0o600
    kept: dict[str, Any] = json.loads(path.read_text())
    return kept


class RedisServer:
    """A real redis-server of its own, with its journal on; it can be killed."""

    def __init__(self, home: Path, **options: str) -> None:
        home.mkdir(exist_ok=True)
        self.home = home
        self.port = free_port()
        self.options = options
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        password = self.options.get("requirepass", "")
        credentials = f":{password}@" if password else ""
        return f"redis://{credentials}127.0.0.1:{self.port}"

    def __enter__(self) -> RedisServer:
        self.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self.kill()

    def start(self) -> None:
        settings = {
            "port": str(self.port), "bind": "127.0.0.1", "dir": str(self.home),
            "appendonly": "yes", "appendfsync": "everysec", "save": "",
            "daemonize": "no", **self.options,
        }  # fmt: skip
        flags = [part for key in settings for part in (f"--{key}", settings[key])]
        with open(self.home / "redis.log", "ab") as log:
            self.process = subprocess.Popen(
                ["redis-server", *flags], stdout=log, stderr=log, cwd=self.home
            )
        wait_until(self.answers)

    def answers(self) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", self.port), 1) as sock:
                sock.sendall(b"*1\r\n$4\r\nPING\r\n")
                return sock.recv(64)[:5] in (b"+PONG", b"-NOAU")
        except OSError:
            return False

    def kill(self) -> None:
        assert self.process is not None
        self.process.kill()
        self.process.wait(10)


class Balancer:
    """One address in front of several gateways; each connection to a living one."""

    def __init__(self, seed: int = 0) -> None:
        self._random = random.Random(seed)
        self.ports: list[int] = []
        self._server = socket.create_server(("127.0.0.1", 0), backlog=512)
        self.port: int = self._server.getsockname()[1]
        self._open: set[socket.socket] = set()
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def close(self) -> None:
        self._server.close()
        self.cut()

    def cut(self) -> None:
        """End every connection that passes here."""
        for sock in list(self._open):
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._server.accept()
            except OSError:
                return
            threading.Thread(target=self._pass, args=(client,), daemon=True).start()

    def _pass(self, client: socket.socket) -> None:
        ports = self._random.sample(self.ports, len(self.ports))
        for port in ports:
            try:
                server = socket.create_connection(("127.0.0.1", port), 2)
            except OSError:
                continue
            server.settimeout(None)
            self._open |= {client, server}
            for one, other in ((client, server), (server, client)):
                threading.Thread(target=_pump, args=(one, other), daemon=True).start()
            return
        client.close()


def _pump(one: socket.socket, other: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := one.recv(65536):
            other.sendall(data)
    for sock in (one, other):
        with contextlib.suppress(OSError):
            sock.shutdown(socket.SHUT_RDWR)
    one.close()  # each way closes what it reads


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as sock:
        port: int = sock.getsockname()[1]
        return port
