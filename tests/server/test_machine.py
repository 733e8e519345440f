"""A machine's connection on the gateway's loop: the door, messages, and its end."""

from __future__ import annotations

import base64
import socket
from collections.abc import Iterator
from typing import Any

import pytest

from feishuperm.protocol import websocket
from feishuperm.protocol.http1 import Request, Response
from feishuperm.protocol.machine import POLICY, PROTOCOLS, MachineWire
from feishuperm.protocol.websocket import accept_key
from feishuperm.server import connection as module
from feishuperm.server.machine import MachineConnection, upgrade
from tests.server.conftest import LoopDriver

KEY = base64.b64encode(bytes(16)).decode()
HEADERS = {
    "upgrade": "websocket", "connection": "keep-alive, Upgrade",
    "sec-websocket-version": "13", "sec-websocket-key": KEY,
    "sec-websocket-protocol": f"other, {PROTOCOLS[0]}",
}  # fmt: skip


class Exchange:
    """A request that can be answered or taken over."""

    def __init__(self, sock: socket.socket | None, **headers: str) -> None:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        self.request = Request("GET", "/machine", {}, {**HEADERS, **named})
        self.answer: Response | None = None
        self.rest = b""
        self._sock = sock

    def reply(self, response: Response) -> None:
        self.answer = response

    def upgrade(self) -> tuple[socket.socket, bytes] | None:
        return None if self._sock is None else (self._sock, self.rest)


class Bench:
    """One machine, seen from both ends."""

    def __init__(self, driver: LoopDriver) -> None:
        self.driver = driver
        self.far, self.near = socket.socketpair()
        self.far.setblocking(False)
        self.wire = MachineWire(True, 0.0)
        self.messages: list[dict[str, Any]] = []
        self.closed: list[Any] = []
        self.connection: Any = None
        self.head = b""

    def open(self, rest: bytes = b"", **headers: str) -> Exchange:
        exchange: Any = Exchange(self.near, **headers)
        exchange.rest = rest
        self.connection = upgrade(
            exchange, self.driver.loop, "192.0.2.7", ("192.0.2.7", ""),
            lambda connection, message: self.messages.append(message),
            self.closed.append,
        )  # fmt: skip
        return exchange  # type: ignore[no-any-return]

    def read(self) -> list[dict[str, Any]]:
        """The messages that reached the machine."""
        self.driver.step()
        try:
            data = self.far.recv(1 << 20)
        except BlockingIOError:
            data = b""
        if data.startswith(b"HTTP/1.1"):
            self.head, _, data = data.partition(b"\r\n\r\n")
        self.wire.receive_data(data, 0.0)
        return list(iter(self.wire.next_event, None))

    def say(self, kind: str, **parts: Any) -> None:
        self.wire.send(kind, **parts)
        self.far.sendall(self.wire.data_to_send())


@pytest.fixture
def bench(driver: LoopDriver) -> Iterator[Bench]:
    made = Bench(driver)
    yield made
    made.far.close()
    made.near.close()


def test_machine_is_let_in_with_the_version_in_common(bench: Bench) -> None:
    bench.open()
    bench.connection.send("hello", nonce="n")
    assert bench.read() == [{"t": "hello", "nonce": "n"}]
    head = bench.head.decode()
    assert head.startswith("HTTP/1.1 101 ")
    assert f"Sec-WebSocket-Accept: {accept_key(KEY)}" in head
    assert f"Sec-WebSocket-Protocol: {PROTOCOLS[0]}" in head
    assert bench.connection.address == "192.0.2.7"


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"origin": "https://evil.example"}, 403),
        ({"upgrade": "h2c"}, 426),
        ({"sec_websocket_version": "8"}, 426),
        ({"connection": "keep-alive"}, 400),
        ({"sec_websocket_key": "short"}, 400),
        ({"sec_websocket_protocol": "feishuperm.99"}, 400),
    ],
)
def test_request_that_cannot_be_a_machines_is_refused(
    bench: Bench, headers: dict[str, str], status: int
) -> None:
    exchange = bench.open(**headers)
    assert bench.connection is None
    assert exchange.answer is not None and exchange.answer.status == status


def test_client_that_left_meanwhile_is_nobody(driver: LoopDriver) -> None:
    exchange: Any = Exchange(None)
    opened = upgrade(exchange, driver.loop, "", ("", ""), pytest.fail, pytest.fail)
    assert opened is None and exchange.answer is None


def test_what_came_with_the_request_is_read(bench: Bench) -> None:
    bench.wire.send("login", machine="m-1")
    bench.open(bench.wire.data_to_send())
    assert bench.messages == [{"t": "login", "machine": "m-1"}]


def test_messages_arrive_in_order_a_few_each_turn(bench: Bench) -> None:
    bench.open()
    count = module.PER_TURN * 2 + 1
    for number in range(count):
        bench.wire.send("n", number=number)
    bench.far.sendall(bench.wire.data_to_send())
    bench.driver.step()
    assert 0 < len(bench.messages) <= module.PER_TURN * 2
    bench.driver.until(lambda: len(bench.messages) == count)
    assert [message["number"] for message in bench.messages] == list(range(count))


def test_end_says_why_and_is_told_once(bench: Bench) -> None:
    bench.open()
    bench.connection.end(POLICY, "revoked")
    bench.read()
    assert (bench.wire.code, bench.wire.trouble) == (POLICY, "revoked")
    bench.far.close()
    bench.driver.until(lambda: bench.closed)
    bench.connection.send("late")
    bench.connection.end()
    bench.driver.step()
    assert bench.closed == [bench.connection]


def test_machine_that_leaves_says_why(bench: Bench) -> None:
    bench.open()
    bench.wire.close(1001, "restarts")
    bench.far.sendall(bench.wire.data_to_send())
    bench.driver.until(lambda: bench.closed)
    assert bench.connection.wire.trouble == "restarts"


def test_nonsense_ends_its_connection(bench: Bench) -> None:
    bench.open()
    bench.far.sendall(b"\xff" * 20)
    bench.driver.until(lambda: bench.closed)
    assert bench.connection.wire.trouble and bench.messages == []


def test_long_message_is_for_who_has_logged_in(bench: Bench) -> None:
    bench.open()
    bench.connection.wire.trust()
    bench.say("ask", text="x" * 100_000)
    bench.driver.until(lambda: bench.messages)
    other = Bench(bench.driver)
    other.open()
    other.say("ask", text="x" * 100_000)
    other.driver.until(lambda: other.closed)
    assert other.messages == []
    other.far.close()


def test_silent_machine_is_asked_and_then_given_up(bench: Bench) -> None:
    bench.open()
    now = bench.driver.clock.seconds
    bench.connection.tick(now + 30)
    bench.read()
    assert bench.wire.data_to_send(), "a pong to its ping"
    bench.connection.tick(now + 61)
    bench.driver.until(lambda: bench.closed)


def test_machine_that_does_not_read_is_let_go(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "WIRE_BACKLOG", 100_000)
    bench.open()
    for _ in range(50):
        bench.connection.send("n", text="x" * 20_000)
    bench.driver.until(lambda: bench.closed)
    assert isinstance(bench.connection, MachineConnection)


def flood(bench: Bench, data: bytes, turns: int = 40) -> int:
    """Send as much as the gateway takes in some turns; the most bytes it held."""
    most, rest = 0, b""
    for _ in range(turns):
        try:
            while True:
                rest = rest or data
                rest = rest[bench.far.send(rest) :]
        except (BlockingIOError, BrokenPipeError):
            pass
        bench.driver.step()
        most = max(most, bench.connection.wire._socket.buffered)
    return most


@pytest.mark.parametrize("size", [0, 100, 30_000])
def test_machine_that_sends_faster_than_it_is_read_waits_in_its_own_buffer(
    bench: Bench, size: int
) -> None:
    bench.open()
    bench.connection.wire.trust()
    bench.wire.send("ask", filling="x" * size)
    data = bench.wire.data_to_send() * 50
    assert flood(bench, data) < 4 * 65_536
    before = len(bench.messages)
    bench.driver.until(lambda: len(bench.messages) > before + 2)


def test_machine_whose_messages_are_held_waits_in_its_own_buffer(bench: Bench) -> None:
    bench.open()
    bench.connection.hold(True)
    bench.wire.send("ask")
    assert flood(bench, bench.wire.data_to_send() * 500) < 3 * 65_536
    assert bench.messages == []
    bench.connection.hold(False)
    bench.driver.until(lambda: len(bench.messages) > 5000)


def test_flood_of_pings_leaves_others_their_turn(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.open()
    pongs: list[bytes] = []
    wire = bench.connection.wire._socket
    monkeypatch.setattr(wire, "send_pong", lambda data: pongs.append(data) or b"")
    bench.far.sendall(bytes((0x89, 0x80, 0, 0, 0, 0)) * 10_000)
    bench.driver.step()
    assert 0 < len(pongs) <= websocket.FRAMES
    bench.driver.until(lambda: len(pongs) == 10_000)


def test_nothing_is_kept_of_what_comes_behind_the_end(bench: Bench) -> None:
    """A machine that is told to go, does not read why, and goes on sending."""
    bench.open()
    bench.connection.write(b"x" * (3 << 20))
    bench.connection.end(POLICY, "log in first")
    assert bench.connection.backlog
    assert flood(bench, b"x" * 65_536) <= 65_536 and bench.closed == []
    bench.connection.tick(bench.driver.clock())
    assert bench.closed == [bench.connection]


def test_machine_that_breaks_a_rule_and_does_not_read_is_gone_at_once(
    bench: Bench,
) -> None:
    bench.open()
    bench.connection.write(b"x" * (3 << 20))
    bench.far.sendall(b"\xff" * 64)
    bench.driver.until(lambda: bench.closed)
