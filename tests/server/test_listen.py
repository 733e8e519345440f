"""Claiming addresses: who wins, who is refused, and what is left untouched."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import re
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from feishuperm.models.settings import EVERY_ADDRESS, LOOPBACK
from feishuperm.protocol.frames import frame
from feishuperm.protocol.http1 import Request, Response
from feishuperm.server import connection as connection_module
from feishuperm.server import listen as listen_module
from feishuperm.server.connection import Exchange, HookConnection
from feishuperm.server.listen import (
    HookAcceptor,
    HttpAcceptor,
    Listener,
    ListenError,
    listen_http,
    listen_unix,
    neighbourhood,
)
from tests.conftest import wait_until
from tests.server.conftest import LoopDriver


def has_ipv6() -> bool:
    try:
        with socket.socket(socket.AF_INET6) as sock:
            sock.bind(("::1", 0))
    except OSError:
        return False
    return True


HAS_IPV6 = has_ipv6()
needs_ipv6 = pytest.mark.skipif(not HAS_IPV6, reason="this machine has no ::1")
GET = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "s.sock")


def dead_socket(path: str) -> None:
    """A socket file whose server is gone."""
    with socket.socket(socket.AF_UNIX) as sock:
        sock.bind(path)


def is_live(path: str) -> bool:
    with socket.socket(socket.AF_UNIX) as sock:
        return sock.connect_ex(path) == 0


def test_socket_is_private_and_nothing_lies_beside_it(
    path: str, tmp_path: Path
) -> None:
    before = os.umask(0)
    try:
        listener = listen_unix(path)
    finally:
        after = os.umask(before)
    assert after == 0
    assert stat.S_IMODE(os.lstat(path).st_mode) == 0o600
    assert os.listdir(tmp_path) == ["s.sock"]
    assert is_live(path)
    listener.close()
    listener.close()
    assert os.listdir(tmp_path) == []


def test_second_server_is_refused_and_the_first_lives_on(path: str) -> None:
    first = listen_unix(path)
    with pytest.raises(ListenError, match="already running") as error:
        listen_unix(path)
    assert error.value.hint
    assert is_live(path)
    first.close()
    listen_unix(path).close()


def test_server_with_a_full_backlog_counts_as_alive(path: str) -> None:
    with socket.socket(socket.AF_UNIX) as sock, contextlib.ExitStack() as clients:
        sock.bind(path)
        sock.listen(0)
        for _ in range(3):
            client = clients.enter_context(socket.socket(socket.AF_UNIX))
            client.setblocking(False)
            client.connect_ex(path)
        with pytest.raises(ListenError, match="already running"):
            listen_unix(path)


def test_stale_socket_is_replaced(path: str) -> None:
    dead_socket(path)
    listener = listen_unix(path)
    assert is_live(path)
    listener.close()


@pytest.mark.parametrize("kind", ["file", "folder", "link to a dead socket"])
def test_what_is_not_a_socket_is_refused_and_kept(path: str, kind: str) -> None:
    if kind == "file":
        Path(path).write_text("mine")
    elif kind == "folder":
        os.mkdir(path)
    else:
        dead_socket(path + ".real")
        os.symlink(path + ".real", path)
    before = os.lstat(path)
    with pytest.raises(ListenError, match="not a socket"):
        listen_unix(path)
    assert os.lstat(path) == before


def test_socket_of_another_user_is_refused_and_kept(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    dead_socket(path)
    if os.geteuid() == 0:
        os.chown(path, 12345, -1)
        claim = listen_unix
    else:
        stranger = os.geteuid() + 1
        monkeypatch.setattr(os, "geteuid", lambda: stranger)
        claim = listen_module._clear
    before = os.lstat(path)
    with pytest.raises(ListenError, match=re.escape(path) + " belongs to another user"):
        claim(path)
    assert os.lstat(path) == before


def test_lock_file_of_another_user_is_refused_and_kept(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path(path + ".lock").touch()
    stranger = os.geteuid() + 1
    monkeypatch.setattr(os, "geteuid", lambda: stranger)
    with pytest.raises(ListenError, match="lock belongs to another user"):
        listen_unix(path)
    assert os.path.exists(path + ".lock")


def test_lock_file_that_is_a_link_is_not_followed(path: str, tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    os.symlink(victim, path + ".lock")
    with pytest.raises(ListenError, match="cannot write"):
        listen_unix(path)
    assert not victim.exists()


def test_lock_file_left_by_a_crash_does_not_matter(path: str) -> None:
    Path(path + ".lock").touch()
    dead_socket(path)
    listen_unix(path).close()
    assert not os.path.exists(path + ".lock")


def test_lock_file_that_its_last_owner_removed_is_no_claim(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock = fcntl.flock

    def too_late(fd: int, operation: int) -> None:
        os.unlink(path + ".lock")
        lock(fd, operation)

    monkeypatch.setattr(fcntl, "flock", too_late)
    with pytest.raises(ListenError, match="already running"):
        listen_unix(path)
    assert not os.path.exists(path)


def test_missing_folder_is_named_with_the_command_that_makes_it(
    tmp_path: Path,
) -> None:
    with pytest.raises(ListenError, match="no folder") as error:
        listen_unix(str(tmp_path / "no" / "s.sock"))
    assert error.value.hint == f"mkdir -p {tmp_path}/no"


def test_path_that_is_too_long_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ListenError, match="too long"):
        listen_unix(str(tmp_path / ("x" * 120)))


def test_close_leaves_the_socket_of_a_successor(path: str) -> None:
    first = listen_unix(path)
    os.unlink(path)
    second = listen_unix(path)
    first.close()
    assert is_live(path)
    second.close()


RACER = """
import sys
from feishuperm.server.listen import ListenError, listen_unix
for line in sys.stdin:
    try:
        listener = listen_unix(line.strip())
        print("won", flush=True)
    except ListenError as error:
        listener = None
        print("already running" in str(error) and "lost", flush=True)
    sys.stdin.readline()
    if listener:
        listener.close()
    print("closed", flush=True)
"""


@pytest.fixture
def racers() -> Iterator[list[subprocess.Popen[str]]]:
    racers = [
        subprocess.Popen(
            [sys.executable, "-c", RACER],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(2)
    ]
    yield racers
    for racer in racers:
        racer.communicate(timeout=30)


def tell(racers: list[subprocess.Popen[str]], line: str) -> list[str]:
    """Give both the same line at once; what each said."""
    for racer in racers:
        assert racer.stdin is not None
        racer.stdin.write(line + "\n")
        racer.stdin.flush()
    return [
        (racer.stdout and racer.stdout.readline().strip()) or "" for racer in racers
    ]


def test_of_two_servers_that_start_at_once_exactly_one_wins(
    racers: list[subprocess.Popen[str]], tmp_path: Path
) -> None:
    for attempt in range(50):
        path = str(tmp_path / f"{attempt}.sock")
        dead_socket(path)
        assert sorted(tell(racers, path)) == ["lost", "won"]
        assert is_live(path)
        assert tell(racers, "") == ["closed", "closed"]
        assert not os.path.exists(path)


def test_taken_port_is_named_with_its_setting() -> None:
    listener = listen_http(["127.0.0.1"], 0)
    with pytest.raises(ListenError) as error:
        listen_http(["127.0.0.1"], listener.port)
    listener.close()
    assert f"port {listener.port}" in str(error.value)
    assert "CALLBACK_SERVER_PORT" in str(error.value)
    assert "CALLBACK_SERVER_PORT" in error.value.hint


@pytest.mark.parametrize("host", ["192.0.2.1", "x" * 70 + ".example"])
def test_foreign_address_is_named_with_its_setting(host: str) -> None:
    with pytest.raises(ListenError, match="CALLBACK_SERVER_HOST.*" + host):
        listen_http([host], 0)


def test_port_that_was_just_closed_can_be_used_again() -> None:
    listener = listen_http(["127.0.0.1"], 0)
    with socket.create_connection(("127.0.0.1", listener.port), timeout=10) as client:
        accepted, _ = listener.socks[0].accept()
        accepted.close()
        client.recv(1)
        listener.close()
    listen_http(["127.0.0.1"], listener.port).close()


def listening(family: int, host: str, port: int = 0, *, v6only: int = 1) -> Any:
    """Somebody else's listening socket, as permissive as it can be made."""
    sock = socket.socket(family)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    if family == socket.AF_INET6:
        sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, v6only)
    try:
        sock.bind((host, port))
        sock.listen()
    except OSError:
        sock.close()
        raise
    return sock


STRANGERS = [
    pytest.param(socket.AF_INET, "127.0.0.1", 1, id="127.0.0.1"),
    pytest.param(socket.AF_INET, "0.0.0.0", 1, id="every IPv4 address"),
    pytest.param(socket.AF_INET6, "::1", 1, id="::1", marks=needs_ipv6),
    pytest.param(socket.AF_INET6, "::", 1, id="every IPv6 address", marks=needs_ipv6),
    pytest.param(socket.AF_INET6, "::", 0, id="every address", marks=needs_ipv6),
]


@pytest.mark.parametrize(("family", "host", "v6only"), STRANGERS)
def test_port_that_another_holds_on_either_loopback_is_refused(
    family: int, host: str, v6only: int
) -> None:
    with listening(family, host, v6only=v6only) as stranger:
        port = stranger.getsockname()[1]
        with pytest.raises(ListenError, match=f"port {port} on .* is taken by another"):
            listen_http(LOOPBACK, port)
    listen_http(LOOPBACK, port).close()  # and nothing of it was kept


@pytest.mark.parametrize(("family", "host", "v6only"), STRANGERS)
def test_nobody_can_listen_beside_us_on_either_loopback(
    family: int, host: str, v6only: int
) -> None:
    listener = listen_http(LOOPBACK, 0)
    with pytest.raises(OSError):
        listening(family, host, listener.port, v6only=v6only)
    listener.close()


@needs_ipv6
def test_free_port_is_free_in_both_families(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first port offered is somebody's on ::1; the next one is taken."""
    resolve = listen_module._resolve
    with listening(socket.AF_INET6, "::1") as stranger:
        offered = [stranger.getsockname()[1]]

        def offer(host: str, port: int) -> Any:
            return resolve(host, port or (offered.pop() if offered else 0))

        monkeypatch.setattr(listen_module, "_resolve", offer)
        listener = listen_http(LOOPBACK, 0)
        assert not offered
        assert listener.port != stranger.getsockname()[1]
        assert {sock.getsockname()[1] for sock in listener.socks} == {listener.port}
        assert [sock.getsockname()[0] for sock in listener.socks] == list(LOOPBACK)
        listener.close()


@pytest.mark.parametrize("number", [errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL])
def test_machine_without_ipv6_listens_on_what_it_has(
    monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    make = socket.socket

    def without_ipv6(family: int, kind: int) -> socket.socket:
        if family == socket.AF_INET6:
            raise OSError(number, "no")
        return make(family, kind)

    monkeypatch.setattr(listen_module.socket, "socket", without_ipv6)
    listener = listen_http(LOOPBACK, 0)
    assert [sock.getsockname()[0] for sock in listener.socks] == ["127.0.0.1"]
    listener.close()
    with pytest.raises(ListenError, match="::1"):
        listen_http(LOOPBACK[::-1], 0)


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
    servers.driver.clock.seconds += listen_module.GRACE_SECONDS
    assert servers.reply(servers.browser(), GET).startswith(b"HTTP/1.1 200")
    assert servers.reply(idle[0]) == b""  # the one that never said a word
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
    assert not servers.browsers._crowds.get("192.0.2.7")


@pytest.mark.parametrize(
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
    assert (neighbourhood(one) == neighbourhood(other)) is alike


def test_flood_of_browsers_beyond_the_limit_is_bounded(servers: Servers) -> None:
    limit = 2 + listen_module.EXTRA
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
    servers.driver.advance(connection_module.HEAD_SECONDS + 1)
    assert servers.reply(slow) == b""
    assert servers.reply(silent_hook) == b""
    assert len(servers.browsers.connections) == len(servers.hooks.connections) == 1
    servers.driver.advance(connection_module.IDLE_SECONDS + 1)
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
    servers.driver.advance(listen_module.SWEEP_SECONDS)
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
        self.servers.driver.advance(listen_module.FILE_SECONDS)

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
    assert len(bound.reports) == 1 and "bound anew" in bound.reports[0]
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
    servers.driver.clock.seconds += listen_module.FILE_SECONDS
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
    driver.advance(listen_module.PAUSE_SECONDS)
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
