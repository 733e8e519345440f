"""Letting clients in: who is refused, who is put out, and a file that is gone."""

from __future__ import annotations

import contextlib
import os
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from feishuperm.models.settings import EVERY_ADDRESS
from feishuperm.protocol.http1 import Request, Response
from feishuperm.server import connection as connection_module
from feishuperm.server import listen as accept_module
from feishuperm.server.connection import Exchange, HookConnection
from feishuperm.server.listen import (
    HookAcceptor,
    HttpAcceptor,
    Listener,
    client_network,
    listen_http,
    listen_unix,
)
from feishuperm.wire import frame
from tests.conftest import wait_until
from tests.server.conftest import HAS_IPV6, LoopDriver, dead_socket
from tests.tables import every_row

GET = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "s.sock")


class Servers:
    """Both acceptors on one loop, with a small limit, and clients to try them."""

    def __init__(
        self, driver: LoopDriver, path: str, hosts: Sequence[str] = ("127.0.0.1",)
    ) -> None:
        self.driver = driver
        self.hook_frames = 0
        self.hook_closes = 0
        self.requests: list[Request] = []
        self.clients: list[socket.socket] = []
        self.unix: Listener = listen_unix(path)
        self.http: Listener = listen_http(hosts, 0)
        loop = driver.loop
        self.hooks = HookAcceptor(loop, self.unix, self.on_frame, self.on_close, 2)
        self.browsers = HttpAcceptor(loop, self.http, self.on_request, 2)

    def on_frame(self, connection: HookConnection, kind: bytes, body: bytes) -> None:
        self.hook_frames += 1
        connection.send(b"A", b"55")

    def on_close(self, connection: HookConnection) -> None:
        self.hook_closes += 1

    def on_request(self, request: Request, exchange: Exchange) -> None:
        self.requests.append(request)
        exchange.reply(Response(200, b"page"))

    def hook(self) -> socket.socket:
        client = socket.socket(socket.AF_UNIX)
        client.connect(self.unix.path)
        return self.keep(client)

    def browser(self, host: str = "127.0.0.1") -> socket.socket:
        return self.keep(socket.create_connection((host, self.http.port), timeout=10))

    def keep(self, client: socket.socket) -> socket.socket:
        client.setblocking(False)
        self.clients.append(client)
        return client

    def reply(self, client: socket.socket, data: bytes = b"") -> bytes:
        """What the client gets for its data, up to a pause or the end."""
        got: list[bytes] = []

        def arrived() -> bool:
            try:
                got.append(client.recv(65536))
            except BlockingIOError:
                return False
            except ConnectionError:
                got.append(b"")
            return True

        if data:
            client.send(data)
        self.driver.until(arrived)
        return got[0]

    def close(self) -> None:
        self.hooks.close()
        self.browsers.close()
        for client in self.clients:
            client.close()
        for acceptor in (self.hooks, self.browsers):
            acceptor.close_all()
            assert not acceptor.connections


@pytest.fixture
def servers(driver: LoopDriver, path: str) -> Iterator[Servers]:
    servers = Servers(driver, path)
    yield servers
    servers.close()


def test_hook_beyond_the_limit_is_released_until_there_is_room(
    servers: Servers,
) -> None:
    question = frame(b"Q", b"event")
    inside = [servers.hook(), servers.hook()]
    for client in inside:
        assert servers.reply(client, question) == frame(b"A", b"55")
    refused = servers.hook()
    assert servers.reply(refused) == frame(b"R")
    assert servers.reply(refused) == b""
    inside.pop().close()
    servers.driver.until(lambda: len(servers.hooks.connections) == 1)
    assert servers.reply(servers.hook(), question) == frame(b"A", b"55")
    assert servers.hook_closes == 1


def test_browser_beyond_the_limit_gets_503_until_there_is_room(
    servers: Servers,
) -> None:
    inside = [servers.browser(), servers.browser()]
    for client in inside:
        assert servers.reply(client, GET).startswith(b"HTTP/1.1 200")
    refused = servers.browser()
    assert servers.reply(refused, GET).startswith(b"HTTP/1.1 503")
    assert servers.reply(refused) == b""
    refused.close()
    inside.pop().close()
    servers.driver.until(lambda: len(servers.browsers.connections) == 1)
    assert servers.reply(servers.browser(), GET).startswith(b"HTTP/1.1 200")
    assert len(servers.requests) == 3


def test_idle_browsers_make_room_after_a_moment(servers: Servers) -> None:
    idle = [servers.browser(), servers.browser()]
    servers.driver.until(lambda: len(servers.browsers.connections) == 2)
    assert servers.reply(idle[1], GET).startswith(b"HTTP/1.1 200")
    servers.driver.clock.seconds += accept_module.GRACE_SECONDS
    assert servers.reply(servers.browser(), GET).startswith(b"HTTP/1.1 200")
    assert servers.reply(idle[0]) == b""  # the one that never said a word
    assert len(servers.browsers.connections) == 2


def test_those_who_were_refused_do_not_keep_others_out(servers: Servers) -> None:
    for _ in range(6):
        servers.browser()
    servers.driver.until(lambda: len(servers.browsers.connections) == 6)
    servers.driver.clock.seconds += accept_module.GRACE_SECONDS
    assert servers.reply(servers.browser(), GET).startswith(b"HTTP/1.1 200")
    assert len(servers.browsers.connections) == 2


def test_browser_that_is_being_answered_is_not_put_out(servers: Servers) -> None:
    exchanges: list[Exchange] = []
    keep = [servers.browser(), servers.browser()]
    servers.browsers._on_request = lambda _, exchange: exchanges.append(exchange)
    for client in keep:
        client.send(GET)
    servers.driver.until(lambda: len(exchanges) == 2)
    servers.driver.clock.seconds += 10
    assert servers.reply(servers.browser()).startswith(b"HTTP/1.1 503")
    for client, exchange in zip(keep, exchanges):
        exchange.reply(Response(200))
        assert servers.reply(client).startswith(b"HTTP/1.1 200")


def test_crowd_from_one_address_holds_off_nobody_else(servers: Servers) -> None:
    crowd = [servers.browser(), servers.browser()]
    servers.driver.until(lambda: len(servers.browsers.connections) == 2)
    assert servers.browsers.make_room(("192.0.2.7", 50000))
    assert servers.reply(crowd[0]) == b""
    assert not servers.browsers._networks.get("192.0.2.7")


@every_row(
    ("one", "other", "alike"),
    [
        ("127.0.0.1", "127.9.9.9", True),
        ("127.0.0.1", "::1", True),
        ("192.0.2.1", "192.0.2.2", False),
        ("2001:db8::1", "2001:db8::ffff:1", True),
        ("fe80::1%lo", "fe80::2", True),
        ("2001:db8::1", "2001:db8:0:1::1", False),
    ],
)
def test_addresses_that_one_machine_can_have_count_as_one(
    one: str, other: str, alike: bool
) -> None:
    assert (client_network(one) == client_network(other)) is alike


def test_flood_of_browsers_beyond_the_limit_is_bounded(servers: Servers) -> None:
    limit = 2 + accept_module.EXTRA
    for _ in range(limit + 10):
        servers.browser()
    last = servers.clients[-1]
    assert servers.reply(last).startswith(b"HTTP/1.1 503")
    assert len(servers.browsers.connections) <= limit


def test_hook_of_another_user_is_closed_without_a_word(
    servers: Servers, monkeypatch: pytest.MonkeyPatch
) -> None:
    stranger = os.geteuid() + 1
    monkeypatch.setattr(os, "geteuid", lambda: stranger)
    assert servers.reply(servers.hook(), frame(b"Q", b"event")) == b""
    assert servers.hook_frames == 0


def test_silent_clients_are_closed_and_waiting_hooks_are_not(servers: Servers) -> None:
    waiting, silent_hook = servers.hook(), servers.hook()
    servers.reply(waiting, frame(b"Q", b"event"))
    slow, idle = servers.browser(), servers.browser()
    servers.reply(idle, GET)
    slow.send(b"GET / HT")
    servers.driver.until(lambda: len(servers.browsers.connections) == 2)
    servers.driver.advance(connection_module.SECONDS["head"] + 1)
    assert servers.reply(slow) == b""
    assert servers.reply(silent_hook) == b""
    assert len(servers.browsers.connections) == len(servers.hooks.connections) == 1
    servers.driver.advance(connection_module.SECONDS["idle"] + 1)
    assert servers.reply(idle) == b""
    servers.driver.advance(24 * 3600)
    assert servers.reply(waiting, frame(b"Q", b"event")) == frame(b"A", b"55")


def test_owner_that_raises_does_not_end_the_sweeping(
    servers: Servers, driver: LoopDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(servers.hooks, "_on_close", lambda connection: 1 // 0)
    for _ in range(2):
        silent = servers.hook()
        driver.until(lambda: servers.hooks.connections)
        driver.advance(connection_module.FIRST_FRAME_SECONDS + 1)
        assert servers.reply(silent) == b""
    assert [type(error) for error in driver.errors] == [ZeroDivisionError] * 2


def test_nothing_is_swept_when_nobody_is_there(servers: Servers) -> None:
    servers.reply(servers.browser(), GET)
    servers.clients[0].close()
    servers.driver.until(lambda: not servers.browsers.connections)
    servers.driver.advance(accept_module.SWEEP_SECONDS)
    servers.driver.step()
    assert servers.driver.loop._timeout() is None


def test_every_address_is_reachable_and_ipv4_looks_like_ipv4(
    driver: LoopDriver, path: str
) -> None:
    servers = Servers(driver, path, EVERY_ADDRESS)
    hosts = ["127.0.0.1", *(["::1"] if HAS_IPV6 else [])]
    for host in hosts:
        assert servers.reply(servers.browser(host), GET).startswith(b"HTTP/1.1 200")
    assert [request.peer for request in servers.requests] == hosts
    assert [request.local for request in servers.requests] == hosts
    assert {request.local_port for request in servers.requests} == {servers.http.port}
    servers.close()


class Bound:
    """A hook acceptor that keeps its file, and what it said about that."""

    def __init__(self, servers: Servers) -> None:
        self.reports: list[str] = []
        self.servers = servers
        servers.hooks.keep_bound(self.reports.append)

    def later(self) -> None:
        self.servers.driver.advance(accept_module.FILE_SECONDS)

    def is_answered(self) -> bool:
        client = self.servers.hook()
        return self.servers.reply(client, frame(b"Q", b"event")) == frame(b"A", b"55")


@pytest.fixture
def bound(servers: Servers) -> Bound:
    return Bound(servers)


@pytest.mark.parametrize("replaced", [False, True], ids=["deleted", "replaced"])
def test_socket_file_is_bound_anew_and_connected_hooks_stay(
    bound: Bound, servers: Servers, path: str, replaced: bool
) -> None:
    waiting = servers.hook()
    servers.reply(waiting, frame(b"Q", b"event"))
    bound.later()
    assert bound.reports == []
    os.unlink(path)
    if replaced:
        dead_socket(path)
    bound.later()
    assert len(bound.reports) == 1 and "bound again" in bound.reports[0]
    assert stat.S_IMODE(os.lstat(path).st_mode) == 0o600
    assert bound.is_answered()
    assert servers.reply(waiting, frame(b"Q", b"event")) == frame(b"A", b"55")
    assert servers.hook_closes == 0
    servers.hooks.close()
    assert not os.path.exists(path)


def test_hook_that_connected_before_the_file_was_deleted_is_let_in(
    bound: Bound, servers: Servers, path: str
) -> None:
    early = servers.hook()
    os.unlink(path)
    servers.driver.clock.seconds += accept_module.FILE_SECONDS
    servers.driver.loop._run_timers()  # before the loop has looked at the socket
    assert servers.reply(early, frame(b"Q", b"event")) == frame(b"A", b"55")


def test_socket_of_a_living_server_is_never_taken(
    bound: Bound, servers: Servers, path: str
) -> None:
    os.unlink(path)
    other = listen_unix(path)
    before = os.lstat(path)
    for _ in range(3):
        bound.later()
    assert os.lstat(path).st_ino == before.st_ino
    assert len(bound.reports) == 1 and "already running" in bound.reports[0]
    other.close()
    bound.later()
    assert bound.is_answered()


def test_closed_acceptor_binds_nothing(
    bound: Bound, servers: Servers, path: str
) -> None:
    servers.hooks.close()
    bound.later()
    assert not os.path.exists(path)
    assert bound.reports == []


def test_trouble_with_accepting_is_reported_and_pauses(
    servers: Servers, driver: LoopDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(sock: socket.socket) -> None:
        sock.close()
        raise RuntimeError("no")

    monkeypatch.setattr(servers.browsers, "connect", fail)
    servers.browser()
    driver.until(lambda: driver.errors)
    monkeypatch.undo()
    late = servers.browser()
    driver.step()
    assert not servers.browsers.connections
    driver.advance(accept_module.PAUSE_SECONDS)
    assert servers.reply(late, GET).startswith(b"HTTP/1.1 200")
    assert len(driver.errors) == 1


OUT_OF_FILES = """
import resource, sys
from feishuperm.protocol.http1 import Response
from feishuperm.server.listen import HookAcceptor, HttpAcceptor
from feishuperm.server.listen import listen_http, listen_unix
from feishuperm.server.loop import Loop
resource.setrlimit(resource.RLIMIT_NOFILE, (30, 30))
errors = []
loop = Loop(errors.append)
http = listen_http(["127.0.0.1"], 0)
HookAcceptor(loop, listen_unix(sys.argv[1]), lambda c, kind, body: c.send(b"A", b"9"),
             lambda c: None, 1000)
def on_request(request, exchange):
    exchange.reply(Response(200, str(errors).encode()))
HttpAcceptor(loop, http, on_request, 1000)
print(http.port, flush=True)
loop.run()
"""


@pytest.fixture
def starved(path: str) -> Iterator[int]:
    """The HTTP port of a server that may open thirty files and thinks otherwise."""
    process = subprocess.Popen(
        [sys.executable, "-c", OUT_OF_FILES, path], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    yield int(process.stdout.readline())
    process.kill()
    process.communicate(timeout=30)


def first_bytes(client: socket.socket, data: bytes, size: int = 12) -> bytes:
    client.settimeout(30)
    try:
        client.sendall(data)
    except ConnectionError:
        pass  # the refusal came first
    try:
        return client.recv(size)
    except ConnectionResetError:
        return b"reset"


def test_server_out_of_files_refuses_politely_and_recovers(
    starved: int, path: str
) -> None:
    with contextlib.ExitStack() as stack:
        hooks = []
        for _ in range(40):
            client = stack.enter_context(socket.socket(socket.AF_UNIX))
            client.connect(path)
            hooks.append(first_bytes(client, frame(b"Q", b"event")))
        address = ("127.0.0.1", starved)
        browser = stack.enter_context(socket.create_connection(address, timeout=30))
        refused = browser.recv(12)
    accepted = hooks.count(frame(b"A", b"9"))
    assert 10 < accepted < 30
    assert hooks[accepted:] == [frame(b"R")] * (40 - accepted)
    assert refused == b"HTTP/1.1 503"

    def page() -> bytes:
        with socket.create_connection(address, timeout=30) as browser:
            return first_bytes(browser, GET, 1000)

    answer = wait_until(lambda: b"200 OK" in (got := page()) and got)
    assert answer.endswith(b"\r\n\r\n[]")
