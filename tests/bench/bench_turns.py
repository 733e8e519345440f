"""How long one turn of the server's loop takes at worst, whatever waits.

    forty      forty commands of 3 MB wait, two inbox pages are open, one is tapped
    pipelined  two hundred requests in one packet, for the page of a 3 MB command
    expiring   five thousand requests end in the same moment
    growing    fifty transcripts of 8 MB, each with a line of 4 MB being added
    crowd      2 200 idle connections of one machine, and somebody who wants a page
    large      a call of 4 MB, one of each of `TEXTS`: card, file, page, inbox, refusal

The server runs in a process of its own.  Each turn is timed from when it woke up, by
the clock and in seconds of work: where others use the machine too, only the second
tells about the server.
"""

from __future__ import annotations

import base64
import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from feishuperm import wire  # noqa: E402
from feishuperm.services.web_access import Links, load_key  # noqa: E402
from tests.bench.table import row  # noqa: E402
from tests.fakes.feishu import APP_ID, APP_SECRET  # noqa: E402
from tests.fakes.feishu_app import OWNER, FakePlatform  # noqa: E402

WORST = 0.050  # seconds that nothing may exceed
WORST_LARGE = 0.100  # while a call of 4 MB is taken in and shown
BIG = 3 << 20
SERVER = """
import os, signal, sys, time
from feishuperm.commands.serve import Server
from feishuperm.lib.config import load_settings
server = Server(load_settings())
loop = server.loop
tick, longest = loop.tick, 0.0
def timed():
    global longest
    began = time.thread_time()
    tick()
    longest = max(longest, time.thread_time() - began)
loop.tick = timed
def tell(number, frame):
    global longest
    print(f"{loop.longest:.4f} {longest:.4f}", flush=True)
    loop.longest = longest = 0.0
signal.signal(signal.SIGUSR1, tell)
print(server.url, flush=True)
try:
    server.run()
finally:
    server.close()
"""


class Timed:
    """A server that tells how long its longest turn was since it was last asked."""

    def __init__(self, **settings: str) -> None:
        self.folder = tempfile.TemporaryDirectory()
        self.home = self.folder.name
        self.environ = {
            "PATH": os.environ["PATH"],
            "HOME": self.home,
            "PYTHONPATH": str(ROOT),
            "CALLBACK_SERVER_PORT": "0",
            "PERMISSION_SOCKET_PATH": self.home + "/s.sock",
            "PERMISSION_REQUEST_TIMEOUT": "300",
            "FEISHUPERM_LOG_LEVEL": "error",
            **settings,
        }
        self.process = subprocess.Popen(
            [sys.executable, "-c", SERVER],
            env=self.environ,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        url = self._line()
        self.port = int(url.rpartition(":")[2])
        self.kept: list[socket.socket] = []
        self.number = 0
        self.worst = 0.0, 0.0  # of what was asked for so far

    def _line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def longest(self) -> tuple[float, float]:
        """Seconds by the clock, and of work; the next question starts anew."""
        self.process.send_signal(signal.SIGUSR1)
        clock, work = map(float, self._line().split())
        return clock, work

    def close(self) -> None:
        self.process.kill()
        self.process.communicate(timeout=30)
        for sock in self.kept:
            sock.close()
        self.folder.cleanup()

    def hook(self, size: int = 0, transcript: str = "") -> str:
        """A command that waits; its id."""
        command = "echo " + "x y; " * (size // 5)
        return self.call("Bash", {"command": command}, transcript)

    def call(self, tool: str, given: dict[str, Any], transcript: str = "") -> str:
        """A call that waits; its id."""
        self.number += 1
        id = f"{int(time.time())}-{self.number:08x}"
        event = {
            "session_id": f"s-{self.number}",
            "transcript_path": transcript or self.home + "/t.jsonl",
            "cwd": self.home,
            "hook_event_name": "PermissionRequest",
            "tool_name": tool,
            "tool_input": given,
        }
        raw = json.dumps(event, ensure_ascii=False).encode()
        sock = socket.socket(socket.AF_UNIX)
        sock.settimeout(60)
        sock.connect(self.home + "/s.sock")
        parts = (b"1", id.encode(), b"", b"", raw)
        sock.sendall(wire.frame(b"Q", b"\0".join(parts)))
        kind, _ = wire.receive_frame(sock)  # type: ignore[arg-type]
        assert kind == b"A", kind
        self.kept.append(sock)
        return id

    def links(self) -> Links:
        key = load_key(self.home + "/.local/state/feishuperm/key")
        return Links(f"http://localhost:{self.port}", key, True)

    def browser(self, source: str = "127.0.0.1") -> socket.socket:
        place = ("127.0.0.1", self.port)
        sock = socket.create_connection(place, timeout=60, source_address=(source, 0))
        self.kept.append(sock)
        return sock

    def get(self, path: str) -> bytes:
        """The whole answer to one GET."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=60) as sock:
            head = (
                f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
            )
            sock.sendall(head.encode())
            with sock.makefile("rb") as answer:
                return answer.read()


def forty(server: Timed) -> None:
    for _ in range(2):
        server.browser().sendall(b"GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n")
    ids = [server.hook(BIG) for _ in range(40)]
    server.get("/")
    server.get("/status")
    links = server.links()
    server.get(links.path("/request", ids[0]))
    for id, action in zip(ids, ("/deny", "/allow", "/always", "/interrupt")):
        assert b" 200 " in server.get(links.path(action, id))[:20]
    for _ in range(4):
        server.get("/healthz")
        time.sleep(0.3)


def pipelined(server: Timed) -> None:
    page = server.links().path("/request", server.hook(BIG))
    line = f"GET {page} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()
    sock = server.browser()
    sock.sendall(line * 200)
    heads = 0
    while heads < 20:
        heads += len(re.findall(b"HTTP/1.1 [0-9]", sock.recv(1 << 20)))


def expiring(server: Timed) -> None:
    for _ in range(5000):
        server.hook()
    # Frozen past every deadline, so that all of them are met in one moment.
    server.process.send_signal(signal.SIGSTOP)
    time.sleep(int(server.environ["PERMISSION_REQUEST_TIMEOUT"]))
    server.process.send_signal(signal.SIGCONT)
    for sock in server.kept:
        while wire.receive_frame(sock)[0] not in (b"R", b"D"):  # type: ignore[arg-type]
            pass


def growing(server: Timed) -> None:
    line = json.dumps({"type": "user", "message": {"content": "x" * 500}}) + "\n"
    call = {
        "type": "tool_use",
        "id": "t",
        "name": "Bash",
        "input": {"command": "echo "},
    }
    paths = [f"{server.home}/{number}.jsonl" for number in range(50)]
    for path in paths:
        with open(path, "w") as file:
            file.write(line * ((8 << 20) // len(line)))
            file.write(
                json.dumps({"type": "assistant", "message": {"content": [call]}}) + "\n"
            )
        server.hook(transcript=path)
    for _ in range(4):
        for path in paths:
            with open(path, "a") as file:
                file.write('{"type": "user", "x": "' + "y" * (1 << 20))
        time.sleep(0.6)
    for path in paths:
        with open(path, "a") as file:
            file.write('"}\n' + line * 2000)
    time.sleep(2)


def crowd(server: Timed) -> None:
    for number in range(2200):  # more than the server lets in
        server.browser(f"127.0.{number % 7}.{number % 250 + 1}")
    time.sleep(0.3)
    assert b"200" in server.get("/healthz")[:20]


LARGE = wire.MAX_EVENT - 2000  # bytes of an event
NOISE = base64.b64encode(bytes(range(251)) * (LARGE // 335)).decode()
TEXTS = {
    "tokens": "eyJ",
    "equals": "=",
    "base64": NOISE,
    "lines of base64": "\n".join(re.findall(".{1,76}", NOISE)),
    "pairs": "API_KEY=abcdef123456\nname=bob\n",
    "names": "token secret password key ",
    "json": '{"password": "abc", "items": [{"a": "b"}, {"token": "x y"}]},',
    "one line": "lorem ipsum dolor ",
    "short lines": "x\n",
    "addresses": "https://user:pw@host.example/path?key=abc&sig=1 ",
    "chinese": "这是一个普通的中文文本，没有任何秘密。\n",
    "chinese pairs": "密码：什么\n",
    "brackets": "[",
    "headers": "Authorization: Bearer abc\n",
    "commands": "mysql -pabc; curl -u a:b x\n",
    "keys": "-----BEGIN PRIVATE KEY-----",
    "quotes": 'TOKEN="',
    "backslashes": "\\",
    "unseen": "a\u200bb\u202e",
    "many unseen": "".join(map(chr, range(0xE000, 0xE080))),
    "controls": "".join(map(chr, range(0x80, 0xA0))),
}


def fill(part: str, size: int = LARGE) -> str:
    """As much of a text as an event of this size holds."""
    weight = len(json.dumps(part, ensure_ascii=False).encode()) - 2
    return part * (size // weight) or part[: len(part) * size // weight]


def calls(part: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """One call of each kind that holds such a text."""
    half = fill(part, LARGE // 2)
    edits = [{"old_string": fill(part, LARGE // 2000), "new_string": "y"}] * 1900
    yield "Write", {"file_path": "/tmp/a.txt", "content": fill(part)}
    yield "Edit", {"file_path": "/tmp/a", "old_string": half, "new_string": half + "x"}
    yield "MultiEdit", {"file_path": "/tmp/a", "edits": edits}
    yield "Bash", {"command": "echo " + fill(part)}
    yield "mcp__a__b", {"a": {"b": [fill(part)]}}


def large(server: Timed) -> None:
    server.browser().sendall(b"GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n")
    links = server.links()
    for name, part in TEXTS.items():
        for tool, given in calls(part):
            id = server.call(tool, given)
            server.get("/")
            server.get(links.path("/request", id))
            server.get(links.path("/allow", id))
            time.sleep(1)
            server.get(links.path("/deny", id))
            clock, work = server.longest()
            server.worst = max(server.worst, (clock, work), key=lambda pair: pair[1])
            if work > WORST:
                print(f"turns: {name:16} {tool:10} {work * 1000:7.1f} ms", flush=True)


SCENES: dict[str, tuple[Callable[[Timed], None], dict[str, str]]] = {
    "forty": (forty, {}),
    "pipelined": (pipelined, {}),
    "expiring": (expiring, {"PERMISSION_REQUEST_TIMEOUT": "20"}),
    "growing": (growing, {}),
    "crowd": (crowd, {}),
    "large": (large, {}),
}


def measure(name: str) -> tuple[float, float]:
    """The longest turn of one scene: seconds by the clock, and of work."""
    scene, settings = SCENES[name]
    with FakePlatform() as feishu:
        if name == "large":  # with cards, and the files below them
            settings = {
                "FEISHU_APP_ID": APP_ID,
                "FEISHU_APP_SECRET": APP_SECRET,
                "FEISHU_BASE_URL": feishu.base_url,
                "FEISHU_RECEIVE_ID": OWNER,
            }
        server = Timed(**settings)
        try:
            scene(server)
            return server.worst if name == "large" else server.longest()
        finally:
            server.close()


def main(names: list[str]) -> int:
    worst = {"large": 0.0, "other": 0.0}
    for name in names or list(SCENES):
        clock, work = measure(name)
        sort = name if name in worst else "other"
        worst[sort] = max(worst[sort], work)
        print(
            f"turns: {name:10} longest {clock * 1000:7.1f} ms,"
            f" of work {work * 1000:7.1f} ms",
            flush=True,
        )
    held = True
    for sort, limit in (("other", WORST), ("large", WORST_LARGE)):
        what = "the longest turn of the loop"
        what += ", with 4 MB pending" if sort == "large" else ""
        row(what, "of work", worst[sort] * 1000, limit * 1000, "ms")
        held = held and worst[sort] <= limit
    return int(not held)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
