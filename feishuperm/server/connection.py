"""One client each: a waiting hook on the unix socket, a browser over HTTP.

Feeds bytes to `protocol`, hands over what comes out, and sends what it is given, never
waiting for anybody.  Knows no route and no request; the owner of the connection gets
callables called.  A peer that does not read is dropped at a bound, one that does not
write at a deadline, which the acceptor's sweep looks at (`server.listen`).  However
much a peer sends at once, a turn of the loop takes `PER_TURN` messages of it.

A hook connection has one state: open, until `closed()`.  An HTTP connection is in one
of these phases, whose row in `SECONDS` is its deadline:

    idle, head, body   the next request comes in               answer
    send               the last answer is leaving              idle, head, closed
    answer             a handler has the request               send, stream
                       (an upgrade takes the socket away)      closed
    stream             events go out until either ends         closed
    linger             refused: read and forget, so that the   closed
                       peer can read why
    closed             `sock` is None; the end

From every phase an error of the peer leads to linger or closed, and the peer's own end
to closed, once an answer under way has left.  Requests are answered in order: the next
one is looked at in the first four phases only, with nothing left to send.
"""

from __future__ import annotations

import math
import socket
import ssl
from collections.abc import Callable, Iterable
from typing import Any

from feishuperm.errors import ProtocolError
from feishuperm.protocol.frames import FrameReader
from feishuperm.protocol.http1 import (
    MAX_BODY,
    Request,
    RequestReader,
    Response,
    plain_response,
    stream_head,
)
from feishuperm.protocol.websocket import Conversation
from feishuperm.server.loop import READ, WRITE, Handler, Loop
from feishuperm.wire import frame

RECEIVE_SIZE = 65536
# How a socket, plain or TLS, says that it would have to wait.
NOT_NOW = (
    BlockingIOError,
    InterruptedError,
    ssl.SSLWantReadError,
    ssl.SSLWantWriteError,
)
NEVER = math.inf
PER_TURN = 4  # frames or requests of one peer, before others have their turn

FIRST_FRAME_SECONDS = 15.0  # a hook sends its event at once
HOOK_BACKLOG = 1 << 20  # unread bytes after which a hook must be a stopped process

WIRE_BACKLOG = 4 << 20  # unread bytes after which the other end must be gone

SECONDS = {
    "idle": 75.0,  # of keep-alive; longer than most proxies keep theirs
    "head": 15.0,  # for a whole request head, however slowly it drips
    "body": 60.0,  # for a form of at most 1 MiB over a bad line
    "answer": 300.0,  # for the handler of the request; a forgotten one must not leak
    "send": 60.0,  # without progress on a response
    "linger": 2.0,  # for a refused client to read why
}
PIPELINED = 65536  # bytes of further requests read while one is being answered

READING = ("idle", "head", "body", "send")  # phases in which the next request may come

STREAM_BACKLOG = 256 << 10  # unread bytes after which a page had better reload
STREAM_SECONDS = 30.0  # without progress on a stream: the phone is gone


class Connection(Handler):
    """A non-blocking socket with an output buffer; ends in exactly one `closed()`."""

    __slots__ = (
        "_finishing", "_mask", "_more", "_on_close", "_out", "deadline", "loop", "sock",
    )  # fmt: skip

    def __init__(
        self, loop: Loop, sock: socket.socket, on_close: Callable[[Any], object]
    ) -> None:
        sock.setblocking(False)
        self.loop = loop
        self._on_close = on_close
        self.sock: socket.socket | None = sock
        self.deadline = NEVER  # when the sweep may close it
        self._out: bytearray | None = None  # what the kernel did not take yet
        self._finishing = False  # close as soon as that is sent
        self._more = False  # `again()` was asked for, to go on in the next turn
        self._mask = READ
        loop.watch(sock.fileno(), READ, self)

    def handle(self, mask: int) -> None:
        if not mask:
            self._more = False
            if self.sock is not None:
                self.go_on()
        if mask & WRITE and self._out is not None:
            self._flush()
        if mask & READ and self.sock is not None:
            self._read()
        if self.sock is not None:
            self.pace()

    def fail(self) -> None:
        self.abort()

    def close(self) -> None:
        """Send what is buffered, then close."""
        self._finishing = True
        if self._out is None:
            self.abort()

    def abort(self) -> None:
        """Close at once."""
        sock = self.sock
        if sock is None:
            return
        self.loop.watch(sock.fileno(), 0, self)
        self.sock = self._out = None
        sock.close()
        self.closed()

    def closed(self) -> None:
        """The connection is over, ended by either side."""
        self._on_close(self)

    def received(self, data: bytes) -> None:
        """Some bytes came."""
        raise NotImplementedError

    def go_on(self) -> None:
        """The next turn, after `leave_rest()`."""
        raise NotImplementedError

    def leave_rest(self) -> None:
        """Take up the messages that are left in the next turn of the loop."""
        if not self._more and self.sock is not None:
            self._more = True
            self.loop.again(self)

    def pace(self) -> None:
        """Read no further while messages are left: they wait in the peer's buffer."""
        self._want(self._mask & ~READ if self._more else self._mask | READ)

    def ended(self) -> None:
        """The peer sends no more."""
        self.abort()

    def flushed(self) -> None:
        """The output buffer is empty again."""

    def write(self, data: bytes) -> None:
        """Send, or keep what the kernel does not take."""
        if self.sock is None:
            return
        if self._out is not None:
            self._out += data
            return
        sent = self._now(self.sock.send, data) or 0
        if sent < len(data) and self.sock is not None:
            self._out = bytearray(memoryview(data)[sent:])
            self._want(self._mask | WRITE)

    @property
    def backlog(self) -> int:
        """How many bytes wait for the peer to read."""
        return 0 if self._out is None else len(self._out)

    def _now(self, call: Callable[[Any], Any], what: object) -> Any:
        """What the kernel does at once; None: it has to wait, or the peer is gone."""
        try:
            return call(what)
        except NOT_NOW:
            return None
        except OSError:
            self.abort()
            return None

    def _read(self) -> None:
        assert self.sock is not None
        data = self._now(self.sock.recv, RECEIVE_SIZE)
        if data == b"":
            self.ended()
        elif data and not self._finishing:  # what comes behind the end is not even kept
            self.received(data)

    def _flush(self) -> None:
        assert self.sock is not None and self._out is not None
        sent = self._now(self.sock.send, self._out)
        if sent is None:
            return
        del self._out[:sent]
        self.progressed()
        if self._out:
            return
        self._out = None
        self._want(self._mask & ~WRITE)
        if self._finishing:
            self.abort()
        else:
            self.flushed()

    def progressed(self) -> None:
        """The peer took some of the output buffer."""

    def _want(self, mask: int) -> None:
        if self.sock is not None and mask != self._mask:
            self._mask = mask
            self.loop.watch(self.sock.fileno(), mask, self)


class HookConnection(Connection):
    """A hook, from its first frame until either side closes.

    `on_frame(connection, kind, body)` for each frame; `on_close(connection)` once, on
    either side's end.  `data` is the owner's: what this hook waits for.
    """

    __slots__ = ("_on_frame", "_reader", "data")

    def __init__(
        self,
        loop: Loop,
        sock: socket.socket,
        on_frame: Callable[[HookConnection, bytes, bytes], object],
        on_close: Callable[[HookConnection], object],
    ) -> None:
        self._on_frame = on_frame
        self._reader: FrameReader | None = None  # only while a frame is incomplete
        self.data: object = None
        super().__init__(loop, sock, on_close)
        self.deadline = loop.now() + FIRST_FRAME_SECONDS

    def send(self, kind: bytes, body: bytes = b"") -> None:
        """One frame to the hook; nothing if it is gone."""
        if self.backlog > HOOK_BACKLOG:
            self.abort()
        self.write(frame(kind, body))

    def received(self, data: bytes) -> None:
        reader = self._reader = self._reader or FrameReader()
        reader.receive_data(data)
        if not self._more:
            self.go_on()

    def go_on(self) -> None:
        reader = self._reader
        if reader is None:
            return
        try:
            for _ in range(PER_TURN):
                event = reader.next_event()
                if event is None or self.sock is None:
                    break
                self.deadline = NEVER
                self._on_frame(self, *event)
            else:
                self.leave_rest()
        except ProtocolError as error:
            self.loop.report(error)
            self.send(b"R")
            self.close()
        self._reader = reader if reader.buffered else None

    def fail(self) -> None:
        """The handler raised: the terminal decides. Just closing would mean "again"."""
        self.send(b"R")
        self.close()


class WireConnection(Connection):
    """An open WebSocket, whichever end dialled; `wire` is what is spoken over it.

    `on_message(connection, message)` for each message; `on_close(connection)` once.
    """

    __slots__ = ("_held", "_on_message", "_wall", "wire")

    def __init__(
        self,
        loop: Loop,
        sock: socket.socket,
        wire: Conversation,
        on_message: Callable[[Any, Any], object],
        on_close: Callable[[Any], object],
        wall: Callable[[], float] = lambda: 0.0,  # whose sleep is noticed otherwise
    ) -> None:
        self.wire: Any = wire
        self._on_message = on_message
        self._wall = wall
        self._held = False
        super().__init__(loop, sock, on_close)

    def flush(self) -> None:
        """Write what is due; a connection in trouble goes at once."""
        data = self.wire.data_to_send()
        if data:
            self.write(data)
        if self.wire.trouble or self.backlog > WIRE_BACKLOG:
            self.abort()

    def end(self, code: int = 0, reason: str = "") -> None:
        """Close, and say why."""
        self.wire.close(code or self.wire.goodbye, reason)
        self.write(self.wire.data_to_send())
        self.close()

    def hold(self, held: bool) -> None:
        """Whether what the peer says next has to wait in its own buffer."""
        self._held = held
        if not held:
            self.leave_rest()

    def tick(self, now: float) -> None:
        """Time has passed: look for silence, and for sleep."""
        self.wire.tick(now, self._wall())
        self.flush()
        if self._finishing:
            self.abort()  # it had the time since the last tick to read why

    def received(self, data: bytes) -> None:
        now = self.loop.now()
        self.wire.notice_sleep(now, self._wall())
        self.wire.receive_data(data, now)
        if not self._more:
            self.go_on()

    def go_on(self) -> None:
        message = None
        for _ in range(PER_TURN):
            message = None if self._held else self.wire.next_event()
            if message is None:
                break
            self._on_message(self, message)
        if not self._held and (message is not None or self.wire.is_behind):
            self.leave_rest()
        self.flush()

    def pace(self) -> None:
        if self._held:
            self._want(self._mask & ~READ)
        else:
            super().pace()


class Exchange:
    """One request's answer: one of `reply()`, `stream()`, `upgrade()`, now or later."""

    __slots__ = ("_connection", "request")

    def __init__(self, connection: HttpConnection, request: Request) -> None:
        self._connection: HttpConnection | None = connection
        self.request = request

    def reply(self, response: Response) -> None:
        """Send the whole answer; nothing if the client is gone. Raises ValueError."""
        request = self.request
        data = response.encode(request.keep_alive, request.method != "HEAD")
        self.take().answer(data, request.keep_alive)

    def stream(self, headers: Iterable[tuple[str, str]] = ()) -> Stream:
        """Send the head of server-sent events, which follow. Raises ValueError."""
        stream = self.take().start_stream(stream_head(headers))
        if self.request.method == "HEAD":
            stream.close()
        return stream

    def upgrade(self) -> tuple[socket.socket, bytes] | None:
        """The socket, for another protocol, and what came behind the request.

        None if the client is gone.
        """
        return self.take().give_away()

    def take(self) -> HttpConnection:
        """The connection, for the one answer it gets."""
        connection, self._connection = self._connection, None
        if connection is None:
            raise RuntimeError("this request has been answered")
        return connection


class Stream:
    """An endless answer, such as server-sent events."""

    def __init__(self, connection: HttpConnection) -> None:
        self._connection = connection
        # Called once, without arguments, soon after the reader is gone.
        self.on_close: Callable[[], object] = lambda: None

    @property
    def closed(self) -> bool:
        """Whether the reader is gone."""
        return self._connection.sock is None

    def over(self) -> None:
        """In the next turn: it may be lost before its owner has set `on_close`."""
        loop = self._connection.loop
        loop.call_at(loop.now(), lambda: self.on_close())

    def send(self, data: bytes) -> None:
        """Send, or drop a reader that is too far behind."""
        self._connection.stream_data(data)

    def close(self) -> None:
        """End it, after what is buffered."""
        self._connection.close()


class HttpConnection(Connection):
    """A browser: requests in, one answer at a time out, in order.

    `on_request(request, exchange)` for each; the next request is looked at when this
    one is answered and its answer has left.  Every request names both ends of the
    connection, and shares the one `memo` of it.
    """

    __slots__ = (
        "_busy", "_ended", "_exchange", "_local", "_on_request", "_phase", "_reader",
        "_stream", "memo", "peer",
    )  # fmt: skip

    def __init__(
        self,
        loop: Loop,
        sock: socket.socket,
        on_request: Callable[[Request, Exchange], object],
        on_close: Callable[[HttpConnection], object],
        max_body: int = MAX_BODY,
    ) -> None:
        self._on_request = on_request
        self.peer = address_of(sock.getpeername)
        self._local = address_of(sock.getsockname)
        self.memo: dict[str, Any] = {}  # the owner's, about this peer
        self._reader = RequestReader(max_body)
        self._exchange: Exchange | None = None  # the last one handed out
        self._stream: Stream | None = None
        self._busy = False  # inside `_serve`, which must not call itself
        self._ended = False  # the peer sends no more
        super().__init__(loop, sock, on_close)
        self._expect("head")

    @property
    def waits_since(self) -> float:
        """Since when the peer has kept us waiting; NEVER while it waits for us."""
        if self._phase in (*READING, "linger"):
            return self.deadline - SECONDS[self._phase]
        return NEVER

    def received(self, data: bytes) -> None:
        if self._phase in (*READING, "answer"):
            self._reader.receive_data(data)
            self.go_on()

    def go_on(self) -> None:
        if self._more:
            self._wait()
        elif not self._busy:
            self._serve()

    def pace(self) -> None:
        """`_wait` does it: an answer's end must see that the peer has left."""

    def ended(self) -> None:
        """The peer may have closed only its half: answers under way still go out."""
        under_way = self._phase == "answer" or self._more or self._out is not None
        if self._phase == "stream" or not under_way:
            self.abort()
        else:
            self._ended = True
            self._want(self._mask & ~READ)

    def fail(self) -> None:
        """A handler raised: say so if nothing has been said yet."""
        if self._phase == "answer":
            self.refuse(500)
        else:
            self.abort()

    def refuse(self, status: int) -> None:
        """Answer with an error and close, leaving the peer time to read it.

        Closing with unread input would reset the connection and may destroy the answer.
        """
        if self._phase == "answer" and self._exchange is not None:
            self._exchange.take()
        self._expect("linger")
        self.write(plain_response(status).encode())
        if self._out is None:
            self.flushed()

    def answer(self, data: bytes, keep_alive: bool) -> None:
        """Send an encoded response; used by `Exchange`."""
        if self.sock is None:
            return
        self._expect("send")
        self.write(data)
        if not keep_alive:
            self.close()
        if not self._busy:
            self.go_on()

    def start_stream(self, head: bytes) -> Stream:
        """Turn into a stream; used by `Exchange`."""
        stream = self._stream = Stream(self)
        if self.sock is None:
            stream.over()
        else:
            keep_alive_probe(self.sock)
            self._phase, self.deadline = "stream", NEVER
            self.stream_data(head)
        return stream

    def give_away(self) -> tuple[socket.socket, bytes] | None:
        """Let go of the socket without closing it; used by `Exchange`."""
        sock = self.sock
        if sock is None:
            return None
        self.loop.watch(sock.fileno(), 0, self)
        self.sock = None
        self.closed()
        return sock, self._reader.rest()

    def stream_data(self, data: bytes) -> None:
        """Send within the bounds of a stream; used by `Stream`."""
        if self.backlog > STREAM_BACKLOG:
            self.abort()
        self.write(data)
        if self._out is not None and self.deadline == NEVER:
            self.deadline = self.loop.now() + STREAM_SECONDS

    def progressed(self) -> None:
        if self._phase == "stream":
            self.deadline = self.loop.now() + STREAM_SECONDS if self._out else NEVER
        elif self._phase in READING:
            self._expect("send")

    def flushed(self) -> None:
        if self._phase in READING:
            self.go_on()
        elif self._phase == "linger" and self.sock is not None:
            try:  # everything is said; the peer, who may still be sending, has to close
                self.sock.shutdown(socket.SHUT_WR)
            except OSError:
                self.abort()
            if self._ended:
                self.abort()

    def closed(self) -> None:
        self._phase = "closed"
        super().closed()
        if self._stream is not None:
            self._stream.over()

    def _serve(self) -> None:
        """Hand out requests until one waits for its answer or input runs out."""
        event = None
        self._busy = True
        try:
            for _ in range(PER_TURN):
                event = None
                if self._phase not in READING or self._out is not None:
                    break
                event = self._reader.next_event()
                if event is None:
                    break
                self._dispatch(event)
            else:
                self.leave_rest()
        except ProtocolError as error:
            if event is not None and self._phase != "answer":
                raise  # a handler's, and it has answered
            self.refuse(error.status)
        finally:
            self._busy = False
        self._wait()

    def _dispatch(self, request: Request) -> None:
        request.peer, request.peer_port = self.peer
        request.local, request.local_port = self._local
        request.memo = self.memo
        self._expect("answer")
        self._exchange = exchange = Exchange(self, request)
        self._on_request(request, exchange)

    def _expect(self, phase: str) -> None:
        """Give the peer, or the handler, the time that its next step may take."""
        self._phase = phase  # the key of SECONDS that `deadline` was set by
        self.deadline = self.loop.now() + SECONDS[phase]

    def _wait(self) -> None:
        """Set what comes next, and by when: an answer, its departure, more input."""
        phase = self._phase
        if phase in READING:
            phase = self._reader.state if self._out is None else "send"
            if phase != self._phase:
                self._expect(phase)
        elif phase != "answer":
            return
        if phase in ("answer", "send") or self._more:
            if self._reader.buffered > PIPELINED:
                self._want(self._mask & ~READ)
        elif self._ended:
            self.abort()
        elif self._mask != READ:
            self._want(READ)


def address_of(ask: Callable[[], object]) -> tuple[str, int]:
    """The address and port of one end, or nothing for a socket without.

    An IPv4 address looks the same through a dual-stack socket.
    """
    try:
        name = ask()
    except OSError:
        name = None
    if not isinstance(name, tuple):
        return "", 0
    return name[0].removeprefix("::ffff:"), name[1]


def keep_alive_probe(sock: socket.socket) -> None:
    """Notice within a minute or so that a phone has left without saying goodbye."""
    options = (
        (socket.SOL_SOCKET, "SO_KEEPALIVE", 1),
        (socket.IPPROTO_TCP, "TCP_KEEPIDLE", 30),
        (socket.IPPROTO_TCP, "TCP_KEEPALIVE", 30),  # its name on macOS
        (socket.IPPROTO_TCP, "TCP_KEEPINTVL", 10),
        (socket.IPPROTO_TCP, "TCP_KEEPCNT", 3),
        (socket.IPPROTO_TCP, "TCP_USER_TIMEOUT", 30000),
    )
    for level, name, value in options:
        try:
            sock.setsockopt(level, getattr(socket, name), value)
        except (AttributeError, OSError):
            pass  # not known here, or not a TCP socket
