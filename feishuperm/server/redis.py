"""A connection to Redis or Valkey; `server.outgoing` dials it and keeps it up.

Commands go out in batches and each batch is promised its replies.  A reply that comes
too late would answer the next command, so a connection on which one was late is closed;
every promise still open then fails.
"""

from __future__ import annotations

import socket
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

from feishuperm.errors import FeishupermError, ProtocolError
from feishuperm.messages import msg
from feishuperm.protocol.resp import PENDING, Part, ReplyReader, command
from feishuperm.server.loop import Loop, Timer
from feishuperm.server.outgoing import (
    CLOSED,
    UP,
    Backoff,
    OutgoingConnection,
    OutgoingSocket,
)

FIRST_PAUSE, LONGEST_PAUSE = 0.1, 5.0  # seconds between tries


class _Batch(NamedTuple):
    """Some commands on their way."""

    size: int
    replies: list[Any]
    done: Callable[[list[Any] | None], object]
    timer: Timer


class RedisLine(OutgoingConnection):
    """One connection that comes back; `on_change()` when it went up or down."""

    def __init__(
        self,
        loop: Loop,
        dial: Callable[[], socket.socket],
        on_change: Callable[[], object],
        fatal: Callable[[Exception], object] = lambda error: None,
    ) -> None:
        backoff = Backoff(FIRST_PAUSE, LONGEST_PAUSE)
        super().__init__(loop, lambda: (dial(),), on_change, backoff)
        self._fatal = fatal
        self._wire: OutgoingSocket | None = None
        self._reader = ReplyReader()
        self._batches: deque[_Batch] = deque()

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
        too_late = partial(self.drop, "it does not answer in time")
        timer = self._loop.call_at(self._loop.now() + seconds, too_late)
        self._batches.append(_Batch(len(commands), [], done, timer))
        self._wire.write(data)

    def drop(self, problem: str) -> None:
        """This connection is of no use: get another one."""
        self.detail = problem
        if self._wire is not None:
            self._wire.abort()

    def _failed(self, error: Exception) -> None:
        super()._failed(error)
        if isinstance(error, FeishupermError) and self.state != CLOSED:
            self._fatal(error)

    def _connected(self, dialled: tuple[socket.socket]) -> None:
        self._reader = ReplyReader()
        self._wire = OutgoingSocket(self._loop, dialled[0], self._received, self._ended)
        self._backoff.worked()
        self._enter(UP, "")

    def _received(self, data: bytes) -> None:
        self._reader.receive_data(data)
        problem = ""
        try:
            reply = self._reader.next_reply()
            while reply is not PENDING:
                self._take(reply)
                reply = self._reader.next_reply()
        except ProtocolError as error:
            problem = str(error)
        # Not above: errors of those who wait would hold this one, with all that came.
        if problem:
            self.drop(problem)

    def _take(self, reply: Any) -> None:
        if not self._batches:
            raise ProtocolError("a reply that nobody asked for")
        batch = self._batches[0]
        batch.replies.append(reply)
        if len(batch.replies) == batch.size:
            self._batches.popleft()
            batch.timer.cancel()
            batch.done(batch.replies)

    def _ended(self) -> None:
        self._wire, self._reader = None, ReplyReader()
        batches, self._batches = self._batches, deque()
        for batch in batches:
            batch.timer.cancel()
        if self.state != CLOSED:
            why = self.detail or msg("the connection was cut")
            self._wait(why, self._backoff.failed())
        for batch in batches:
            batch.done(None)
