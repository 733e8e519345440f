"""Connections over socket pairs: what peers send, hold back, or never read."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Callable, Iterator

import pytest

from feishuperm.errors import ProtocolError
from feishuperm.protocol.frames import (
    FrameReader,
)
from feishuperm.protocol.http1 import Request, Response, parse_form
from feishuperm.server import connection as connection_module
from feishuperm.server.connection import (
    NEVER,
    Exchange,
    HookConnection,
    HttpConnection,
    Stream,
)
from feishuperm.server.loop import WRITE
from feishuperm.wire import frame
from tests.server.conftest import LoopDriver

GET = b"GET /%d HTTP/1.1\r\nHost: x\r\n\r\n"


class Peer:
    """The other end of a socket pair, which never blocks."""

    def __init__(self, driver: LoopDriver) -> None:
        self.driver = driver
        self.sock, self.server_sock = socket.socketpair()
        self.sock.setblocking(False)
        self.got = b""
        self.closed = False

    def send(self, data: bytes) -> None:
        """Send everything, as fast as the server reads it."""
        while data:
            try:
                data = data[self.sock.send(data) :]
            except BlockingIOError:
                pass
            self.driver.step()

    def read(self) -> None:
        """Take whatever is there."""
        try:
            data = self.sock.recv(1 << 20)
        except BlockingIOError:
            return
        except ConnectionError:
            data = b""
        self.got += data
        self.closed = self.closed or not data

    def until(self, condition: Callable[[], object]) -> bytes:
        """Read until the condition holds; returns all that came so far."""

        def met() -> object:
            self.read()
            return condition()

        self.driver.until(met)
        return self.got

    def until_closed(self) -> bytes:
        return self.until(lambda: self.closed)


@pytest.fixture
def peer(driver: LoopDriver) -> Iterator[Peer]:
    peer = Peer(driver)
    yield peer
    peer.sock.close()
    peer.server_sock.close()


class Hook:
    """A hook connection and everything it reported."""

    def __init__(self, driver: LoopDriver, peer: Peer) -> None:
        self.frames: list[tuple[bytes, bytes]] = []
        self.closes = 0
        self.connection = HookConnection(
            driver.loop, peer.server_sock, self.on_frame, self.on_close
        )
        self.action: Callable[[], object] = lambda: None

    def on_frame(self, connection: HookConnection, kind: bytes, body: bytes) -> None:
        assert connection is self.connection
        self.frames.append((kind, body))
        self.action()

    def on_close(self, connection: HookConnection) -> None:
        assert connection is self.connection
        self.closes += 1


@pytest.fixture
def hook(driver: LoopDriver, peer: Peer) -> Hook:
    return Hook(driver, peer)


def test_frames_go_both_ways(driver: LoopDriver, peer: Peer, hook: Hook) -> None:
    peer.send(frame(b"Q", b"one") + frame(b"C", b"two"))
    driver.until(lambda: len(hook.frames) == 2)
    assert hook.frames == [(b"Q", b"one"), (b"C", b"two")]
    hook.connection.send(b"A", b"55")
    assert peer.until(lambda: peer.got) == frame(b"A", b"55")
    assert hook.closes == 0


def test_frame_byte_by_byte_and_nothing_is_held_afterwards(
    driver: LoopDriver, peer: Peer, hook: Hook
) -> None:
    for byte in frame(b"Q", b"event"):
        peer.send(bytes([byte]))
    driver.until(lambda: hook.frames)
    assert hook.frames == [(b"Q", b"event")]
    assert hook.connection._reader is None
    assert hook.connection._out is None


def test_hook_that_closes_is_noticed_once(
    driver: LoopDriver, peer: Peer, hook: Hook
) -> None:
    peer.send(frame(b"Q", b"event"))
    peer.sock.close()
    driver.until(lambda: hook.closes)
    hook.connection.close()
    hook.connection.send(b"D", b"too late")
    driver.step()
    assert hook.closes == 1
    assert driver.errors == []


def test_hook_that_closes_only_its_half_is_gone_too(
    driver: LoopDriver, peer: Peer, hook: Hook
) -> None:
    peer.sock.shutdown(socket.SHUT_WR)
    driver.until(lambda: hook.closes)
    assert peer.until_closed() == b""


@pytest.mark.parametrize("rubbish", [b"\0\0\0\0", b"GET / HTTP/1.1\r\n\r\n"])
def test_hook_that_talks_rubbish_is_released(
    driver: LoopDriver, peer: Peer, hook: Hook, rubbish: bytes
) -> None:
    peer.send(rubbish)
    assert peer.until_closed() == frame(b"R", b"")
    assert hook.closes == 1
    assert [type(error) for error in driver.errors] == [ProtocolError]


def test_hook_whose_handler_raises_is_released_and_not_asked_again(
    driver: LoopDriver, peer: Peer, hook: Hook
) -> None:
    hook.action = lambda: 1 // 0
    peer.send(frame(b"Q", b"event"))
    assert peer.until_closed() == frame(b"R", b"")
    assert hook.closes == 1
    assert [type(error) for error in driver.errors] == [ZeroDivisionError]


def test_frames_after_a_close_are_not_handed_over(peer: Peer, hook: Hook) -> None:
    hook.action = hook.connection.close
    peer.send(frame(b"Q", b"1") + frame(b"Q", b"2"))
    peer.until_closed()
    assert hook.frames == [(b"Q", b"1")]


def test_long_answer_arrives_whole_although_the_connection_is_closed_at_once(
    peer: Peer, hook: Hook
) -> None:
    body = b"x" * (3 << 20)
    hook.connection.send(b"D", body)
    hook.connection.close()
    assert hook.connection.sock is not None
    reader = FrameReader()
    reader.receive_data(peer.until_closed())
    assert reader.next_event() == (b"D", body)
    assert hook.closes == 1


def test_hook_that_never_reads_is_dropped_at_the_bound(
    driver: LoopDriver, hook: Hook
) -> None:
    sent = 0
    while hook.connection.sock is not None:
        hook.connection.send(b"J", b"x" * 65536)
        sent += 65536
        assert sent < connection_module.HOOK_BACKLOG + (8 << 20)
    assert hook.closes == 1


def test_hook_has_a_deadline_until_its_first_frame(
    driver: LoopDriver, peer: Peer, hook: Hook
) -> None:
    assert hook.connection.deadline == 1000.0 + connection_module.FIRST_FRAME_SECONDS
    peer.send(frame(b"Q", b"event"))
    driver.until(lambda: hook.frames)
    assert hook.connection.deadline == NEVER


class Web:
    """An HTTP connection that echoes the path, unless told otherwise."""

    def __init__(self, driver: LoopDriver, peer: Peer) -> None:
        self.requests: list[Request] = []
        self.exchanges: list[Exchange] = []
        self.closes = 0
        self.handler = self.echo
        self.connection = HttpConnection(
            driver.loop, peer.server_sock, self.on_request, self.on_close
        )

    def on_request(self, request: Request, exchange: Exchange) -> None:
        self.requests.append(request)
        self.handler(request, exchange)

    def on_close(self, connection: HttpConnection) -> None:
        self.closes += 1

    def echo(self, request: Request, exchange: Exchange) -> None:
        exchange.reply(Response(200, request.path.encode()))

    def keep(self, request: Request, exchange: Exchange) -> None:
        self.exchanges.append(exchange)


@pytest.fixture
def web(driver: LoopDriver, peer: Peer) -> Web:
    return Web(driver, peer)


def bodies(data: bytes) -> list[bytes]:
    """The bodies of responses that echo one path each."""
    return [part[-2:] for part in data.split(b"HTTP/1.1 200 OK")[1:]]


def test_connection_stays_open_and_answers_in_order(peer: Peer, web: Web) -> None:
    peer.send(GET % 1)
    peer.until(lambda: peer.got.endswith(b"/1"))
    peer.send(GET % 2 + GET % 3)
    assert bodies(peer.until(lambda: peer.got.endswith(b"/3"))) == [b"/1", b"/2", b"/3"]
    assert not peer.closed


def test_second_request_waits_for_the_late_answer_of_the_first(
    driver: LoopDriver, peer: Peer, web: Web
) -> None:
    web.handler = web.keep
    peer.send(GET % 1 + GET % 2)
    driver.until(lambda: web.exchanges)
    driver.step()
    assert len(web.requests) == 1
    web.handler = web.echo
    web.exchanges[0].reply(Response(200, b"/1"))
    assert bodies(peer.until(lambda: peer.got.endswith(b"/2"))) == [b"/1", b"/2"]


def test_second_reply_to_one_request_is_an_error(peer: Peer, web: Web) -> None:
    web.handler = web.keep
    peer.send(GET % 1)
    exchange = web.exchanges[0]
    exchange.reply(Response(200, b"/1"))
    with pytest.raises(RuntimeError):
        exchange.reply(Response(200, b"/1"))
    with pytest.raises(RuntimeError):
        exchange.stream()


def test_reply_to_a_client_that_left_goes_nowhere(
    driver: LoopDriver, peer: Peer, web: Web
) -> None:
    web.handler = web.keep
    peer.send(GET % 1)
    peer.sock.close()
    driver.step()
    web.exchanges[0].reply(Response(200, b"x" * 1_000_000))
    driver.until(lambda: web.closes)
    assert driver.errors == []


def test_client_that_closed_its_half_still_gets_every_answer(
    peer: Peer, web: Web
) -> None:
    web.handler = web.keep
    peer.send(GET % 1 + GET % 2)
    peer.sock.shutdown(socket.SHUT_WR)
    peer.driver.step()
    web.handler = web.echo
    web.exchanges[0].reply(Response(200, b"/1"))
    assert bodies(peer.until_closed()) == [b"/1", b"/2"]
    assert web.closes == 1


@pytest.mark.parametrize(
    "request_bytes",
    [
        b"GET /1 HTTP/1.0\r\n\r\n",
        b"GET /1 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
    ],
)
def test_connection_is_closed_when_the_client_wants_it_so(
    peer: Peer, web: Web, request_bytes: bytes
) -> None:
    peer.send(request_bytes + GET % 2)
    data = peer.until_closed()
    assert b"Connection: close" in data
    assert bodies(data) == [b"/1"]


def test_head_gets_no_body(peer: Peer, web: Web) -> None:
    peer.send(b"HEAD /1 HTTP/1.1\r\nHost: x\r\n\r\n" + GET % 2)
    data = peer.until(lambda: peer.got.endswith(b"/2"))
    assert data.count(b"\r\n\r\n/") == 1
    assert data.count(b"Content-Length: 2") == 2


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (b"rubbish\r\n\r\n", b"400"),
        (b"GET / HTTP/1.1\r\nHost: x\r\nA: " + b"a" * 20000, b"431"),
        (
            b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 2000000\r\n\r\n"
            + b"b" * 2_000_000,
            b"413",
        ),
    ],
)
def test_client_reads_why_it_was_refused_even_while_it_still_sends(
    peer: Peer, web: Web, data: bytes, status: bytes
) -> None:
    peer.send(data)
    got = peer.until_closed()
    assert got.startswith(b"HTTP/1.1 " + status)
    assert b"Connection: close" in got
    assert got.count(b"HTTP/1.1") == 1
    peer.sock.close()
    peer.driver.until(lambda: web.closes)
    assert web.requests == []


def test_refused_client_that_stays_is_past_its_deadline_soon(
    peer: Peer, web: Web
) -> None:
    peer.send(b"rubbish\r\n\r\n")
    peer.until_closed()
    assert web.connection.sock is not None
    limit = 1000.0 + connection_module.SECONDS["linger"]
    assert web.connection.deadline == limit
    peer.send(GET % 1)
    assert web.connection.deadline == limit
    assert web.requests == []


def test_exception_in_the_handler_is_a_500_and_a_close(
    driver: LoopDriver, peer: Peer, web: Web
) -> None:
    web.handler = lambda request, exchange: 1 // 0  # type: ignore[assignment]
    peer.send(GET % 1 + GET % 2)
    got = peer.until_closed()
    assert got.startswith(b"HTTP/1.1 500")
    assert got.count(b"HTTP/1.1") == 1
    assert [type(error) for error in driver.errors] == [ZeroDivisionError]


def test_exception_after_the_reply_only_closes(
    driver: LoopDriver, peer: Peer, web: Web
) -> None:
    def reply_and_raise(request: Request, exchange: Exchange) -> None:
        web.echo(request, exchange)
        raise ProtocolError("too late")

    web.handler = reply_and_raise
    peer.send(GET % 1)
    assert bodies(peer.until_closed()) == [b"/1"]
    assert len(driver.errors) == 1


def test_protocol_error_in_the_handler_is_answered_with_its_status(
    driver: LoopDriver, peer: Peer, web: Web
) -> None:
    web.handler = lambda request, exchange: parse_form(b"&" * 5000)  # type: ignore[assignment]
    peer.send(GET % 1)
    assert peer.until_closed().startswith(b"HTTP/1.1 400")
    assert driver.errors == []


def test_header_that_would_break_out_is_a_500(
    driver: LoopDriver, peer: Peer, web: Web
) -> None:
    evil = Response(302, headers=[("Location", "/\r\nX: y")])
    web.handler = lambda request, exchange: exchange.reply(evil)
    peer.send(GET % 1)
    assert peer.until_closed().startswith(b"HTTP/1.1 500")
    assert [type(error) for error in driver.errors] == [ValueError]


def test_large_answers_wait_for_a_slow_reader_and_no_more_requests_are_served(
    driver: LoopDriver, peer: Peer, web: Web
) -> None:
    page = b"p" * (2 << 20)
    web.handler = lambda request, exchange: exchange.reply(Response(200, page))
    peer.send(GET % 1 + GET % 2)
    driver.step()
    assert len(web.requests) == 1
    assert web.connection._mask & WRITE
    peer.until(lambda: len(peer.got) > 2 * len(page))
    assert peer.got.count(page) == 2
    assert web.connection._out is None


def test_client_that_sends_and_sends_is_not_read_beyond_the_bound(
    driver: LoopDriver, peer: Peer, web: Web
) -> None:
    web.handler = web.keep
    flood = GET % 1 * 40_000
    sent = 0
    idle = 0
    while idle < 20 and sent < len(flood):
        try:
            sent += peer.sock.send(flood[sent : sent + 65536])
            idle = 0
        except BlockingIOError:
            idle += 1
        driver.step()
    held = web.connection._reader.buffered
    limit = connection_module.PIPELINED + connection_module.RECEIVE_SIZE
    assert held <= limit < sent
    web.handler = web.echo
    web.exchanges[0].reply(Response(200, b"/1"))
    peer.until(lambda: len(web.requests) > held // len(GET))
    assert not peer.closed


def test_deadline_follows_what_is_waited_for(
    driver: LoopDriver, peer: Peer, web: Web
) -> None:
    def left() -> float:
        return web.connection.deadline - driver.clock()

    module = connection_module
    post = b"POST /1 HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\n"
    assert left() == module.SECONDS["head"]
    driver.advance(5)
    peer.send(post[:20])
    assert left() == module.SECONDS["head"] - 5
    peer.send(post[20:])
    assert left() == module.SECONDS["body"]
    driver.advance(5)
    peer.send(b"a")
    assert left() == module.SECONDS["body"] - 5
    peer.send(b"bc")
    assert left() == module.SECONDS["idle"]
    driver.advance(5)
    peer.send(post[:1])
    assert left() == module.SECONDS["head"]
    web.handler = web.keep
    peer.send(post[1:] + b"abc")
    assert left() == module.SECONDS["answer"]
    web.exchanges[0].reply(Response(200, b"x" * (4 << 20)))
    assert left() == module.SECONDS["send"]
    driver.advance(5)
    peer.send(post[:1])
    assert left() == module.SECONDS["send"] - 5
    peer.until(lambda: web.connection._out is None)
    assert left() == module.SECONDS["head"]


class Events:
    """The handler of a server-sent event stream."""

    def __init__(self, web: Web) -> None:
        self.stream: Stream | None = None
        self.closes = 0
        web.handler = self.open

    def open(self, request: Request, exchange: Exchange) -> None:
        self.stream = exchange.stream([("Cache-Control", "no-store")])
        self.stream.on_close = self.on_close

    def on_close(self) -> None:
        self.closes += 1


@pytest.fixture
def events(web: Web) -> Events:
    return Events(web)


def test_stream_sends_events_until_the_reader_leaves(
    driver: LoopDriver, peer: Peer, web: Web, events: Events
) -> None:
    peer.send(GET % 1)
    assert events.stream is not None
    events.stream.send(b"data: 1\n\n")
    events.stream.send(b"data: 2\n\n")
    got = peer.until(lambda: peer.got.endswith(b"data: 2\n\n"))
    head, _, body = got.partition(b"\r\n\r\n")
    assert b"Content-Type: text/event-stream" in head
    assert b"Cache-Control: no-store" in head
    assert b"Content-Length" not in head
    assert body == b"data: 1\n\ndata: 2\n\n"
    assert web.connection.deadline == NEVER
    assert not events.stream.closed
    peer.sock.close()
    driver.until(lambda: events.closes)
    assert events.stream.closed
    events.stream.send(b"data: 3\n\n")
    assert (events.closes, web.closes) == (1, 1)


def test_requests_behind_a_stream_are_ignored(
    peer: Peer, web: Web, events: Events
) -> None:
    peer.send(GET % 1 + GET % 2)
    peer.send(GET % 3)
    assert len(web.requests) == 1
    assert events.stream is not None
    events.stream.close()
    assert peer.until_closed().count(b"HTTP/1.1") == 1
    peer.driver.step()
    assert events.closes == 1


def test_stream_whose_reader_falls_behind_is_dropped(
    peer: Peer, web: Web, events: Events
) -> None:
    peer.send(GET % 1)
    assert events.stream is not None
    sent = 0
    while not events.stream.closed:
        events.stream.send(b"x" * 16384)
        sent += 16384
        assert sent < connection_module.STREAM_BACKLOG + (8 << 20)
    peer.driver.step()
    assert events.closes == 1


def test_one_large_event_is_no_reason_to_drop_the_reader(
    peer: Peer, events: Events
) -> None:
    peer.send(GET % 1)
    assert events.stream is not None
    events.stream.send(b"x" * (4 << 20))
    assert not events.stream.closed
    peer.until(lambda: peer.got.count(b"x") >= 4 << 20)


def test_stream_that_makes_no_progress_gets_a_deadline_and_loses_it_when_it_does(
    peer: Peer, web: Web, events: Events
) -> None:
    peer.send(GET % 1)
    assert events.stream is not None
    events.stream.send(b"x" * (4 << 20))
    limit = 1000.0 + connection_module.STREAM_SECONDS
    assert web.connection.deadline == limit
    peer.until(lambda: web.connection._out is None)
    assert web.connection.deadline == NEVER


def test_stream_lost_before_its_owner_listens_is_still_reported(
    driver: LoopDriver, peer: Peer, web: Web
) -> None:
    web.handler = web.keep
    peer.send(GET % 1)
    peer.sock.close()
    driver.step()
    stream = web.exchanges[0].stream()
    assert stream.closed
    closes: list[int] = []
    stream.on_close = lambda: closes.append(1)
    driver.step()
    assert closes == [1]


def test_head_of_a_stream_is_only_a_head(peer: Peer, events: Events) -> None:
    peer.send(b"HEAD / HTTP/1.1\r\nHost: x\r\n\r\n")
    assert peer.until_closed().endswith(b"\r\n\r\n")


# Many at once.


def test_pipelined_requests_are_served_a_few_per_turn(
    driver: LoopDriver, peer: Peer, web: Web
) -> None:
    peer.sock.send(b"".join(GET % number for number in range(200)))
    before = 0
    while before < 200:
        driver.step()
        served = len(web.requests) - before
        assert 0 < served <= 2 * connection_module.PER_TURN
        before += served
    paths = [request.path for request in web.requests]
    assert paths == [f"/{number}" for number in range(200)]


def test_pipelined_requests_before_a_half_close_are_all_answered(
    driver: LoopDriver, peer: Peer, web: Web
) -> None:
    peer.sock.send(b"".join(GET % number for number in range(20)))
    peer.sock.shutdown(socket.SHUT_WR)
    assert peer.until_closed().count(b"HTTP/1.1 200") == 20


def test_endless_pipelined_input_is_not_hoarded(
    driver: LoopDriver, peer: Peer, web: Web
) -> None:
    for _ in range(100):
        with contextlib.suppress(BlockingIOError):
            peer.sock.send(GET % 1 * 2000)
        driver.step()
        peer.read()
    limit = connection_module.PIPELINED + connection_module.RECEIVE_SIZE
    assert web.connection._reader.buffered <= limit


def test_failure_in_a_later_turn_costs_only_that_connection(
    driver: LoopDriver, peer: Peer, web: Web
) -> None:
    def fail_at_last(request: Request, exchange: Exchange) -> None:
        assert request.path != "/9"
        web.echo(request, exchange)

    web.handler = fail_at_last
    peer.sock.send(b"".join(GET % number for number in range(12)))
    got = peer.until_closed()
    assert got.count(b"HTTP/1.1 200") == 9
    assert got.count(b"HTTP/1.1 500") == 1
    assert [type(error) for error in driver.errors] == [AssertionError]


def test_requests_of_one_connection_share_one_memo(
    driver: LoopDriver, peer: Peer, web: Web
) -> None:
    peer.send(GET % 1 + GET % 2)
    driver.until(lambda: len(web.requests) == 2)
    first, second = web.requests
    assert first.memo is second.memo
    assert first.memo is web.connection.memo


def test_frames_are_served_a_few_per_turn_and_not_hoarded(
    driver: LoopDriver, peer: Peer, hook: Hook
) -> None:
    peer.sock.send(frame(b"N", b"notice") * 100)
    before = 0
    while before < 100:
        driver.step()
        served = len(hook.frames) - before
        assert 0 < served <= 2 * connection_module.PER_TURN
        before += served
        with contextlib.suppress(BlockingIOError):
            peer.sock.send(frame(b"N", b"!") * 10000)
        reader = hook.connection._reader
        assert reader is None or reader.buffered <= connection_module.RECEIVE_SIZE * 2
