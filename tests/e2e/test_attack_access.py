"""Who is not the person tries to answer: another user, a web page, the agent itself.

Every attack runs against the built file with real processes; after each, the person's
own good link still works.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.conftest import free_port, wait_until
from tests.e2e.test_denied import DENIED
from tests.fakes.model import text, tool
from tests.lab import Lab
from tests.served import Served, decision, event, finish

OTHER_UID = 65534
PYTHON = "/usr/bin/python3"  # one that other users can run
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another user")


@pytest.fixture
def served(pyz: Path, home: Path) -> Iterator[Served]:
    with Served(pyz, home) as server:
        yield server


def query(link: str) -> str:
    return urlsplit(link).query


def tap_as_person(served: Served, hook: Any, id: str) -> None:
    """The good link works, whatever happened before."""
    assert served.waiting() == [id]
    assert hook.poll() is None
    assert "操作成功" in served.get(f"/allow?id={id}").text
    assert decision(finish(hook))["behavior"] == "allow"


# Another user of this machine.


def as_other(code: str, *arguments: str) -> str:
    """What a program of another user prints."""
    result = subprocess.run(
        [PYTHON, "-I", "-c", textwrap.dedent(code), *arguments],
        user=OTHER_UID,
        group=OTHER_UID,
        extra_groups=[],
        cwd="/",
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert result.returncode == 0, result.stderr
    return result.stdout


GET = """
    import http.client, json, sys
    port, cookie, *paths = sys.argv[1:]
    seen = []
    for host in ("127.0.0.1", "::1", "localhost"):
        for path in paths:
            connection = http.client.HTTPConnection(host, int(port), timeout=9)
            method = "POST" if path.startswith("POST ") else "GET"
            target, _, body = path.removeprefix("POST ").partition(" ")
            connection.request(method, target, body or None, {"Cookie": cookie})
            answer = connection.getresponse()
            seen.append((answer.status, answer.read().decode()))
            connection.close()
    print(json.dumps(seen))
"""


@as_root
def test_other_user_gets_nothing_even_with_every_link(served: Served) -> None:
    """Links were read from a process list; the inbox cookie came to his own port."""
    hook, id = served.ask(event())
    good = [served.link(f"/{name}?id={id}") for name in ("allow", "always", "deny")]
    forms = [f"POST /{name} {query(link)}" for name, link in zip(("allow",), good)]
    forms.append(f"POST /undo {query(served.link(f'/undo?id={id}'))}")
    seen = json.loads(
        as_other(
            GET,
            str(served.port),
            "feishuperm-8080=x",
            *good,
            *forms,
            served.link(f"/request?id={id}"),
            served.link(f"/events?id={id}"),
            "/",
            "/status",
            "/events",
            "/sessions",
        )
    )
    assert {status for status, _ in seen} == {403}
    assert not any("npm run build" in body or "sig=" in body for _, body in seen)
    tap_as_person(served, hook, id)


@as_root
def test_deny_that_was_replayed_as_allow_denies_nothing_and_allows_nothing(
    served: Served,
) -> None:
    hook, id = served.ask(event())
    signed = query(served.link(f"/deny?id={id}"))
    forged = [f"/allow?{signed}", f"/always?{signed}", f"POST /allow {signed}"]
    seen = json.loads(as_other(GET, str(served.port), "", *forged))
    assert {status for status, _ in seen} == {403}
    for path in forged[:2]:  # not even for the right user
        assert served.request("GET", path, None, {}).status == 404
    tap_as_person(served, hook, id)


TAKE = """
    import socket, sys
    for host in ("::1", "127.0.0.1", "::", "0.0.0.0"):
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        sock = socket.socket(family)
        for option in (socket.SO_REUSEADDR, socket.SO_REUSEPORT):
            sock.setsockopt(socket.SOL_SOCKET, option, 1)
        try:
            sock.bind((host, int(sys.argv[1])))
            sock.listen()
            print("took", host)
        except OSError:
            pass
"""


@as_root
def test_no_address_that_localhost_means_is_left_to_another_user(
    served: Served,
) -> None:
    assert as_other(TAKE, str(served.port)) == ""
    addresses = {
        row[4][0]
        for row in socket.getaddrinfo("localhost", served.port, type=socket.SOCK_STREAM)
    }
    assert addresses <= {"127.0.0.1", "::1"}


HOLD = """
    import socket, sys
    sock = socket.socket(socket.AF_INET6)
    sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
    sock.bind(("::1", int(sys.argv[1])))
    sock.listen()
    print("ready", flush=True)
    sys.stdin.read()
"""


@as_root
def test_server_does_not_start_beside_another_users_half_of_localhost(
    pyz: Path, home: Path
) -> None:
    port = free_port()
    other = subprocess.Popen(
        [PYTHON, "-I", "-c", textwrap.dedent(HOLD), str(port)],
        user=OTHER_UID,
        cwd="/",
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert other.stdout
    assert other.stdout.readline() == b"ready\n"
    served = Served(pyz, home)
    environ = {**served.environ, "CALLBACK_SERVER_PORT": str(port)}
    result = subprocess.run(
        [served.pyz, "serve"], env=environ, capture_output=True, text=True, timeout=30
    )
    other.communicate()
    assert result.returncode == 1
    assert str(port) in result.stderr


GUESS = """
    import http.client, sys
    port, known = sys.argv[1:]
    seen = set()
    for number in range(300):
        source = (f"127.0.{number % 200}.{number % 250 + 1}", 0)
        connection = http.client.HTTPConnection(
            "127.0.0.1", int(port), timeout=9, source_address=source)
        connection.request("GET", f"/allow?id={known}&sig={number:022d}")
        seen.add(connection.getresponse().status)
        connection.close()
    print(*sorted(seen))
"""


@as_root
@pytest.mark.parametrize("signing", ["on", "off"])
def test_guesses_from_many_addresses_find_nothing_and_lock_nobody_out(
    pyz: Path, home: Path, signing: str
) -> None:
    with Served(pyz, home, CALLBACK_LINK_SIGNING=signing) as served:
        hook, id = served.ask(event())
        assert as_other(GUESS, str(served.port), id) == "403\n"
        tap_as_person(served, hook, id)


SHARED = """
    import http.client, socket, sys
    port, own, path = sys.argv[1:]
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        sock.bind(("127.0.0.1", int(own)))
        sock.settimeout(9)
        sock.connect(("127.0.0.1", int(port)))
    except OSError as error:
        print("no connection")
        sys.exit()
    connection = http.client.HTTPConnection("127.0.0.1", int(port))
    connection.sock = sock
    connection.request("GET", path)
    print(connection.getresponse().status)
"""


def reusable(port: int = 0) -> socket.socket:
    """A socket whose port others may share."""
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    sock.bind(("127.0.0.1", port))
    return sock


@as_root
def test_port_shared_with_the_persons_own_connection_proves_nothing(
    served: Served,
) -> None:
    hook, id = served.ask(event())
    with socket.create_server(("127.0.0.1", 0)) as elsewhere, reusable() as own:
        own.connect(elsewhere.getsockname())
        port = str(own.getsockname()[1])
        link = served.link(f"/allow?id={id}")
        assert as_other(SHARED, str(served.port), port, link) == "403\n"
    tap_as_person(served, hook, id)


@as_root
def test_remains_of_the_persons_own_connection_prove_nothing(served: Served) -> None:
    """A row in TIME_WAIT says user 0, whoever comes next from its port."""
    hook, id = served.ask(event())
    own = reusable()
    port = own.getsockname()[1]
    own.connect(("127.0.0.1", served.port))
    own.close()
    link = served.link(f"/allow?id={id}")
    told = as_other(SHARED, str(served.port), str(port), link)
    assert told in ("403\n", "no connection\n")
    tap_as_person(served, hook, id)


# A web page in the person's own browser.

HANDSHAKE = {
    "Connection": "Upgrade",
    "Upgrade": "websocket",
    "Sec-WebSocket-Version": "13",
    "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
}


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        (HANDSHAKE, 400),
        ({**HANDSHAKE, "Origin": "https://evil.test"}, 400),
        ({"Origin": "https://evil.test"}, 403),
        ({"Origin": "null"}, 403),
        ({"Host": "rebound.evil.test"}, 421),
        ({"Host": "localhost:1"}, 421),
    ],
)
def test_page_can_neither_tap_nor_read_nor_lock_out(
    served: Served, headers: dict[str, str], status: int
) -> None:
    hook, id = served.ask(event())
    for path in (served.link(f"/allow?id={id}"), f"/allow?id={id}", "/", "/healthz"):
        assert served.request("GET", path, None, headers).status == status
    for _ in range(40):
        served.request("GET", "/allow?id=1700000000-00000000", None, headers)
    tap_as_person(served, hook, id)


def test_many_requests_at_once_cost_one_look_at_their_sender(served: Served) -> None:
    """Pipelined requests of one connection; the others are served meanwhile."""
    with socket.create_connection(("127.0.0.1", served.port), timeout=20) as sock:
        head = f"GET /request?id=x HTTP/1.1\r\nHost: localhost:{served.port}\r\n\r\n"
        sock.sendall(head.encode() * 500)
        assert served.get("/healthz").status == 200
        received = b""
        while received.count(b"HTTP/1.1 404") < 500:
            part = sock.recv(1 << 16)
            assert part
            received += part


# The agent.

FAKE_CLIENT = textwrap.dedent(
    """
    import json, os, subprocess, sys
    pyz, event, kind = sys.argv[1:]
    environ = dict(os.environ, CLAUDECODE="1", CLAUDE_PID=str(os.getpid()),
                   CLAUDE_CODE_SESSION_ID="11111111-2222-4333-8444-555555555555")
    hook = subprocess.Popen(
        ["/bin/sh", "-c", f"{pyz} hook {kind}; :"], env=environ, start_new_session=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    hook.stdin.write(event.encode())
    hook.stdin.close()
    for line in sys.stdin:
        command = json.loads(line)
        if command is None:
            print(json.dumps(hook.stdout.read().decode()), flush=True)
            break
        done = subprocess.run(command, env=environ, capture_output=True, text=True,
                              timeout=50)
        print(json.dumps([done.returncode, done.stdout, done.stderr]), flush=True)
    """
)


class FakeClient:
    """A process that runs a hook and commands as the real client does."""

    def __init__(
        self, served: Served, asked: dict[str, Any] | None = None, kind: str = ""
    ) -> None:
        before = set(served.waiting())
        words = [served.pyz, json.dumps(asked or event()), kind]
        self.process = subprocess.Popen(
            [sys.executable, "-c", FAKE_CLIENT, *words],
            env={**served.environ, "CLAUDE_PROJECT_DIR": str(served.project)},
            cwd=served.home,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.id: str = wait_until(lambda: set(served.waiting()) - before).pop()

    def __enter__(self) -> FakeClient:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.process.kill()
        self.process.communicate()

    def run(self, *command: str) -> tuple[int, str, str]:
        """What a command prints that the agent runs."""
        code, out, err = self._ask(command)
        return code, out, err

    def printed(self) -> str:
        """What the hook printed in the end."""
        printed: str = self._ask(None)
        return printed

    def _ask(self, command: Any) -> Any:
        assert self.process.stdin and self.process.stdout
        self.process.stdin.write(json.dumps(command) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())


# Prints the status of what it was told to send, also when it was cut off.
TAP = textwrap.dedent(
    """
    import http.client, os, sys
    way, out, host, port, method, path, body = sys.argv[1:]
    if way == "cut off":
        for _ in range(2):
            if os.fork():
                os._exit(0)
            os.setsid()
    connection = http.client.HTTPConnection(host, int(port), timeout=9)
    connection.request(method, path, body or None)
    answer = connection.getresponse()
    with open(out + ".new", "w") as file:
        file.write(f"{answer.status} {answer.read().decode()}")
    os.rename(out + ".new", out)
    """
)


@pytest.mark.parametrize("way", ["straight", "cut off"])
@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
@pytest.mark.parametrize(
    ("method", "name"),
    [
        *(("GET", "allow"), ("POST", "always"), ("GET", "request"), ("GET", "")),
        *(("POST", "undo"), ("GET", "events")),
    ],
)
def test_session_cannot_answer_itself(
    served: Served, tmp_path: Path, way: str, host: str, method: str, name: str
) -> None:
    """It has the good link, by the key that its user can read."""
    out = tmp_path / "answer"
    with FakeClient(served) as agent:
        link = served.link(f"/{name}?id={agent.id}") if name else "/"
        path, _, rest = link.partition("?")
        target, body = (path, rest) if method == "POST" else (link, "")
        address = (host, str(served.port), method, target, body)
        agent.run(sys.executable, "-c", TAP, way, str(out), *address)
        wait_until(out.exists)
        status, _, page = out.read_text().partition(" ")
        assert status == "403" and "python" in page and "sig=" not in page
        assert served.waiting() == [agent.id]
        page = served.get(f"/allow?id={agent.id}").text
        assert "操作成功" in page
        assert ("曾试图自己回答" in page) == bool(name)
        assert decision(agent.printed())["behavior"] == "allow"
        entries = wait_until(lambda: refusals(served))
    assert entries[0]["action"] == name and entries[0]["who"].startswith("python")
    assert entries[0]["id"] == (agent.id if name else "")
    verify = subprocess.run(
        [served.pyz, "log", "verify"], env=served.environ, timeout=30
    )
    assert verify.returncode == 0


def refusals(served: Served) -> list[dict[str, Any]]:
    """What the ledger says was tried."""
    path = served.home / ".local" / "state" / "feishuperm" / "ledger.jsonl"
    if not path.exists():
        return []
    entries = map(json.loads, path.read_text().splitlines())
    return [entry for entry in entries if entry.get("event") == "refused"]


SEND = textwrap.dedent(
    """
    import json, sys
    sys.path.insert(0, sys.argv[1] + "/site-packages")
    from feishuperm.errors import FeishupermError
    from feishuperm.lib.control import ask_server
    try:
        print(json.dumps(ask_server(json.loads(sys.argv[2]), path=sys.argv[3])))
    except FeishupermError as error:
        print("refused:", error)
    """
)


def test_session_cannot_let_its_own_refused_call_through(
    served: Served, tmp_path: Path
) -> None:
    """Neither by a tap, nor by a file, nor by a line in the ledger."""
    out = tmp_path / "out"
    with served.watched(), FakeClient(served, DENIED, "denied") as agent:
        link = served.link(f"/allow?id={agent.id}")
        address = ("127.0.0.1", str(served.port), "GET", link, "")
        agent.run(sys.executable, "-c", TAP, "plain", str(out), *address)
        assert wait_until(lambda: out.exists() and out.read_text()).startswith("403")
        assert served.waiting() == [agent.id]
        (served.home / "s.sock.retry").touch()
        forged = {"event": "request", "id": agent.id, "state": "allowed", "until": 9e9}
        ledger = served.home / ".local" / "state" / "feishuperm" / "ledger.jsonl"
        with ledger.open("a") as file:
            file.write(json.dumps(forged) + "\n")
        served.kill()
        served.start()
        call = served.hook({**DENIED, "hook_event_name": "PreToolUse"}, "denied")
        assert finish(call) == ""


def test_session_cannot_command_the_server(served: Served) -> None:
    with FakeClient(served) as agent:

        def send(**command: Any) -> str:
            wish = json.dumps(command)
            program = (sys.executable, "-I", "-c", SEND, served.pyz)
            return agent.run(*program, wish, served.socket)[1]

        for name in ("stop", "release", "handover"):
            assert "of a session that asks" in send(command=name), name
        for action in ("allow", "always", "deny"):
            told = send(command="decide", id=agent.id, action=action)
            assert "unknown control command" in told
        status = json.loads(send(command="status", inbox=True))
        assert status["waiting_count"] == 1
        assert served.waiting() == [agent.id]
        assert "操作成功" in served.get(f"/deny?id={agent.id}").text
        assert decision(agent.printed())["behavior"] == "deny"


def test_session_gets_no_way_into_the_inbox(pyz: Path, home: Path) -> None:
    public = {
        "CALLBACK_SERVER_URL": "http://box.example.test",
        "CALLBACK_SERVER_HOST": "127.0.0.1",
    }
    with Served(pyz, home, **public) as served, FakeClient(served) as agent:
        _, out, _ = agent.run(served.pyz, "status", "--json")
        assert json.loads(out)["inbox"] == "http://box.example.test/"
        cookie = served.enter_inbox()
        assert served.get("/", Cookie=cookie).status == 200
        assert "ticket" not in served.get("/status", Cookie=cookie).text


def test_stale_client_is_no_reason_to_refuse_the_person(served: Served) -> None:
    """The session ended; whoever comes later with its pid is somebody else."""
    with FakeClient(served) as agent:
        served.get(f"/deny?id={agent.id}")
        agent.printed()
    hook, id = served.ask(event())
    tap_as_person(served, hook, id)


# The real client.

AGENT_SCRIPT = """
import http.client, json, os, sys, time
sys.path.insert(0, sys.argv[1] + "/site-packages")
from feishuperm.services.web_access import Links
from feishuperm.lib.control import ask_server
sock, key, port, out = sys.argv[2:]
if os.fork():
    os._exit(0)
os.setsid()
if os.fork():
    os._exit(0)
until = time.monotonic() + 60
while time.monotonic() < until:
    waiting = ask_server({"command": "status"}, path=sock)["waiting"]
    if waiting:
        break
    time.sleep(0.05)
links = Links("", open(key, "rb").read(), True)
connection = http.client.HTTPConnection("127.0.0.1", int(port), timeout=9)
connection.request("GET", links.path("/allow", waiting[0]["id"]))
answer = connection.getresponse()
with open(out + ".new", "w") as file:
    file.write(f"{answer.status} {answer.read().decode()}")
os.rename(out + ".new", out)
"""


@pytest.mark.claude
def test_real_agent_with_the_key_in_its_hands_is_refused(lab: Lab) -> None:
    """A command that was allowed stays behind, and taps for the next one."""
    home = Path(lab.root) / "server"
    home.mkdir()
    with Served(Path(lab.pyz), home) as served:
        lab.socket = served.socket
        lab.pyz_hook("PermissionRequest", matcher="*", timeout=60)
        script = Path(lab.write("agent.py", AGENT_SCRIPT))
        out = Path(lab.root) / "answer"
        key = home / ".local" / "state" / "feishuperm" / "key"
        words = (sys.executable, "-I", script, lab.pyz, served.socket, key)
        command = " ".join(map(str, (*words, served.port, out)))
        first = tool("Bash", command=command, description="x")
        second = tool("Bash", command="touch made", description="x")
        lab.model.push([first], [second], [text("bye")])
        lab.session("go")
        id = wait_until(served.waiting, timeout=40)[0]
        assert "操作成功" in served.get(f"/allow?id={id}").text
        wait_until(out.exists, timeout=40)
        assert out.read_text().startswith("403 ")
        again = served.waiting()
        assert len(again) == 1 and again != [id]
        assert not (Path(lab.project) / "made").exists()
        page = served.get(f"/deny?id={again[0]}").text
        assert "操作成功" in page and "曾试图自己回答" in page
        told = wait_until(lambda: lab.model.tool_results().get(second["id"]), 40)
        assert told.is_error and "拒绝" in told.text
