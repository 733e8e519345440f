"""A connection to Redis or Valkey as the loop keeps it: dialled, watched, replaced.

Dialling (names, TLS, a password) blocks, so a short-lived thread does it and hands over
a connected socket.  Commands go out in batches and each batch is promised its replies.
A reply that comes too late would answer the next command, so a connection on which one
was late is closed; every promise still open then fails.

    state      meaning                                leads to
    down       nobody has connected yet, or it ended  dialling, after a pause
    dialling   a thread is on its way                 up, down
    up         batches are answered in order          down
    closed     the end
"""

from __future__ import annotations

import random
import socket
import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from feishuperm.errors import FeishupermError, ProtocolError
from feishuperm.protocol.resp import PENDING, Part, ReplyReader, command
from feishuperm.server.link import Outgoing
from feishuperm.server.loop import Loop, Timer

FIRST_PAUSE, LONGEST_PAUSE = 0.1, 5.0  # seconds between tries, with jitter
DOWN, DIALLING, UP, CLOSED = "down", "dialling", "up", "closed"


class _Batch(NamedTuple):
    """Some commands on their way."""

    size: int
    replies: list[Any]
    done: Callable[[list[Any] | None], object]
    timer: Timer


class RedisLine:
    """One connection that comes back; `on_change()` when it went up or down."""

    def __init__(
        self,
        loop: Loop,
        dial: Callable[[], socket.socket],
        on_change: Callable[[], object],
        fatal: Callable[[Exception], object] = lambda error: None,
    ) -> None:
        self._loop = loop
        self._dial = dial
        self._on_change = on_change
        self._fatal = fatal
        self._wire: Outgoing | None = None
        self._reader = ReplyReader()
        self._batches: deque[_Batch] = deque()
        self._failures = 0
        self.state = DOWN
        self.problem = "not connected yet"

    def start(self) -> None:
        """Connect, and stay connected until `close()`."""
        if self.state != DOWN:
            return
        self.state = DIALLING
        threading.Thread(target=self._work, name="redis", daemon=True).start()

    def close(self) -> None:
        self.state = CLOSED
        if self._wire is not None:
            self._wire.close()

    def run(
        self,
        commands: Sequence[Sequence[Part]],
        seconds: float,
        done: Callable[[list[Any] | None], object],
    ) -> None:
        """Send a batch; `done` gets its replies, or None: who knows what happened."""
        if self.state != UP or self._wire is None:
            done(None)
            return
        # First, for it may raise: a batch that never left would be given the replies
        # of the next one.
        data = b"".join(command(*parts) for parts in commands)
        timer = self._loop.call_at(self._loop.now() + seconds, self._too_late)
        self._batches.append(_Batch(len(commands), [], done, timer))
        self._wire.write(data)

    def drop(self, problem: str) -> None:
        """This connection is of no use: get another one."""
        self.problem = problem
        if self._wire is not None:
            self._wire.abort()

    # Dialling.

    def _work(self) -> None:
        """In the thread: connect, and say how that went."""
        try:
            sock = self._dial()
        except (OSError, FeishupermError, ProtocolError) as error:
            failure = error
            self._loop.call_soon_threadsafe(lambda: self._failed(failure))
            return
        self._loop.call_soon_threadsafe(lambda: self._connected(sock))

    def _failed(self, error: Exception) -> None:
        if self.state == CLOSED:
            return
        self.state, self.problem = DOWN, str(error)
        if isinstance(error, FeishupermError):
            self._fatal(error)
        self._on_change()
        self._again()

    def _again(self) -> None:
        longest = min(FIRST_PAUSE * 2**self._failures, LONGEST_PAUSE)
        self._failures = min(self._failures + 1, 10)
        pause = longest * (0.5 + random.random())
        self._loop.call_at(self._loop.now() + pause, self.start)

    def _connected(self, sock: socket.socket) -> None:
        if self.state == CLOSED:
            sock.close()
            return
        self._reader = ReplyReader()
        self._wire = Outgoing(self._loop, sock, self._received, self._ended)
        self._failures = 0
        self.state, self.problem = UP, ""
        self._on_change()

    # What comes.

    def _received(self, data: bytes) -> None:
        self._reader.receive_data(data)
        try:
            reply = self._reader.next_reply()
            while reply is not PENDING:
                self._take(reply)
                reply = self._reader.next_reply()
        except ProtocolError as error:
            self.drop(str(error))

    def _take(self, reply: Any) -> None:
        if not self._batches:
            raise ProtocolError("a reply that nobody asked for")
        batch = self._batches[0]
        batch.replies.append(reply)
        if len(batch.replies) == batch.size:
            self._batches.popleft()
            batch.timer.cancel()
            batch.done(batch.replies)

    def _too_late(self) -> None:
        self.drop("it does not answer in time")

    def _ended(self) -> None:
        self._wire = None
        batches, self._batches = self._batches, deque()
        for batch in batches:
            batch.timer.cancel()
        if self.state != CLOSED:
            self.state = DOWN
            self.problem = self.problem or "the connection was cut"
            self._again()
            self._on_change()
        for batch in batches:
            batch.done(None)
