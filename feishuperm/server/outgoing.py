"""An outgoing connection as the loop keeps it: dialled, watched, replaced.

Dialling (names, proxies, TLS, handshakes) blocks, so a short-lived thread does it and
hands over what it has connected; from then on the loop reads and writes it.  What is
spoken over it is a subclass's: `Link` below for Feishu's long connection, the others
are `server.machine_line` and `server.redis`.

    state       meaning                                       leads to
    dialling    a thread is on its way to the first socket    up, waiting
    up          one connection; a second may be on its way    up (the second took over),
                to replace it                                 waiting (it ended)
    waiting     until the next try; `detail` says why         dialling
    closed      the end
"""

from __future__ import annotations

import random
import socket
import ssl
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from feishuperm.errors import FeishupermError
from feishuperm.messages import message_of, msg
from feishuperm.protocol.long_connection import (
    Delivery,
    Endpoint,
    LongConnection,
    Refusal,
)
from feishuperm.server.connection import PER_TURN, Connection
from feishuperm.server.loop import Loop

BACKLOG = 4 << 20  # unread bytes after which the other end must be gone
DIALLING, UP, WAITING, CLOSED = "dialling", "up", "waiting", "closed"
# A connection whose handshake is done, and what came behind it.
Dialled = tuple[socket.socket, bytes, Endpoint]

FRESH_SECONDS = 60.0  # between two connections made because one seemed deaf
REPAIR_SECONDS = 60.0  # until the next try after a refusal that a person has to mend
LOOK_SECONDS = 5.0


class Backoff:
    """How long to wait before the next try; never in step with other machines."""

    def __init__(
        self,
        first: float = 0.5,
        most: float = 30.0,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self._first = first
        self._most = most
        self._jitter = jitter
        self._failures = 0

    def failed(self) -> float:
        """Seconds until the next try."""
        longest = min(self._most, self._first * 2.0 ** min(self._failures, 10))
        self._failures += 1
        return longest * (0.5 + self._jitter() / 2)

    def worked(self) -> None:
        self._failures = 0


class OutgoingSocket(Connection):
    """A connected socket, plain or TLS, on the loop."""

    __slots__ = ("_on_close", "_on_data")

    def __init__(
        self,
        loop: Loop,
        sock: socket.socket,
        on_data: Callable[[bytes], object],
        on_close: Callable[[], object],
    ) -> None:
        self._on_data = on_data
        self._on_close = on_close
        super().__init__(loop, sock)

    def received(self, data: bytes) -> None:
        if self.is_half_read():
            self.leave_rest()
        self._on_data(data)

    def is_half_read(self) -> bool:
        """Whether decrypted bytes are left inside, which no selector knows of."""
        return isinstance(self.sock, ssl.SSLSocket) and self.sock.pending() > 0

    def go_on(self) -> None:
        self._read()

    def closed(self) -> None:
        self._on_close()


class OutgoingConnection:
    """Dials, and again after each end, until it is closed.

    What `dial` brings is a tuple, a connected socket first; what becomes of it is a
    subclass's (`_connected`).
    """

    def __init__(
        self,
        loop: Loop,
        dial: Callable[[], Any],
        on_change: Callable[[], object],
        backoff: Backoff,
    ) -> None:
        self._loop = loop
        self._dial = dial
        self._on_change = on_change
        self._backoff = backoff
        self._is_dialling = False
        self.state = WAITING
        self.detail = msg("not connected yet")

    def start(self) -> None:
        """Connect, and stay connected until it is closed."""
        if self._is_dialling or self.state == CLOSED:
            return
        self._is_dialling = True
        if self.state != UP:
            self._enter(DIALLING, self.detail)
        threading.Thread(target=self._work, name="dial", daemon=True).start()

    def _work(self) -> None:
        """In the thread: connect, and say how that went."""
        try:
            done = partial(self._dialled, self._dial())
        except Exception as error:  # a thread that ends silently would be the last one
            done = partial(self._failed, _tellable(error))
        self._loop.call_soon_threadsafe(done)

    def _dialled(self, dialled: Any) -> None:
        self._is_dialling = False
        if self.state == CLOSED:
            dialled[0].close()
        else:
            self._connected(dialled)

    def _connected(self, dialled: Any) -> None:
        raise NotImplementedError

    def _failed(self, error: Exception) -> None:
        self._is_dialling = False
        if self.state not in (UP, CLOSED):
            self._wait(message_of(error), self._pause(error))

    def _pause(self, error: Exception) -> float:
        """Seconds until the next try, after this one failed."""
        return self._backoff.failed()

    def _wait(self, why: str, seconds: float) -> None:
        """It is down; try again a little later, whatever the owner makes of that."""
        self._loop.call_at(self._loop.now() + seconds, self._try_again)
        self._enter(WAITING, why)

    def _try_again(self) -> None:
        if self.state == WAITING:
            self.start()

    def _enter(self, state: str, detail: str) -> None:
        self.state, self.detail = state, detail
        self._on_change()


def _tellable(error: Exception) -> Exception:
    """The error, or its kind: only some are known to hold no address."""
    if isinstance(error, (OSError, FeishupermError)):
        return error
    return OSError(msg("cannot dial: {}", type(error).__name__))


class SpokenConnection(OutgoingConnection):
    """A line with a protocol that finds its other end dead, if it is asked often."""

    def __init__(
        self,
        loop: Loop,
        dial: Callable[[], Any],
        on_change: Callable[[], object],
        look_seconds: float,
        wall: Callable[[], float],
        backoff: Backoff,
    ) -> None:
        super().__init__(loop, dial, on_change, backoff)
        self._look_seconds = look_seconds
        self.wall = wall
        self._live: LiveSocket | None = None
        self._watch()

    def close(self) -> None:
        """The end, politely."""
        self._enter(CLOSED, "closed")
        if self._live is not None:
            self._live.end()

    def heard(self, live: LiveSocket, message: Any) -> None:
        """A connection has brought something."""
        raise NotImplementedError

    def over(self, live: LiveSocket) -> None:
        """A connection has ended."""
        if live is not self._live:
            return
        self._live = None
        if self.state != CLOSED:
            why = live.wire.trouble or msg("the connection was cut")
            self._wait(why, self._backoff.failed())

    def _watch(self) -> None:
        """Look at the time now and then: for silence, and for sleep."""
        if self.state == CLOSED:
            return
        now = self._loop.now()
        self._loop.call_at(now + self._look_seconds, self._watch)
        if self._live is not None:
            self._live.wire.tick(now, self.wall())
            self._live.flush()


class LiveSocket(OutgoingSocket):
    """One connection of a line, and what is spoken over it."""

    __slots__ = ("_line", "wire")

    def __init__(
        self, line: SpokenConnection, loop: Loop, sock: socket.socket, wire: Any
    ) -> None:
        self._line = line
        self.wire = wire  # a `Conversation`
        super().__init__(loop, sock, self._take, lambda: line.over(self))

    def end(self) -> None:
        """Say goodbye, and close."""
        self.wire.close()
        self.write(self.wire.data_to_send())
        self.close()

    def flush(self) -> None:
        """Write what is due; a connection in trouble goes at once."""
        data = self.wire.data_to_send()
        if data:
            self.write(data)
        if self.wire.trouble or self.backlog > BACKLOG:
            self.abort()

    def begin(self, rest: bytes) -> None:
        """What came behind the handshake comes first."""
        self._take(rest) if rest else self.flush()

    def _take(self, data: bytes) -> None:
        now = self.loop.now()
        self.wire.notice_sleep(now, self._line.wall())
        self.wire.receive_data(data, now)
        self._hand_over()

    def go_on(self) -> None:
        self._hand_over()
        if not self._more and self.sock is not None and self.is_half_read():
            self._read()

    def _hand_over(self) -> None:
        """Tell of what came, so much in a turn: others have theirs."""
        for _ in range(PER_TURN):
            message = self.wire.next_event()
            if message is None:
                break
            self._line.heard(self, message)
        if message is not None or self.wire.is_behind:
            self.leave_rest()
        self.flush()


class Link(SpokenConnection):
    """The long connection to Feishu: one that is up, and perhaps a fresh one beside it.

    What the bytes mean is told in `protocol.long_connection`; what a delivery means is
    the owner's.  A connection that seems deaf is replaced, by one that is up before the
    old one goes, so that no tap falls between them; at most once in FRESH_SECONDS.
    """

    def __init__(
        self,
        loop: Loop,
        dial: Callable[[], Dialled],
        on_delivery: Callable[[Delivery, Callable[[dict[str, Any]], bool]], object],
        on_change: Callable[[], object] = lambda: None,
        wall: Callable[[], float] = time.time,
        backoff: Backoff | None = None,
        may_freshen: bool = True,
    ) -> None:
        self._on_delivery = on_delivery
        self._may_freshen = may_freshen
        self._is_card_out = False
        self._freshened = -FRESH_SECONDS
        self.since = 0.0  # wall clock: up, or down, for so long
        super().__init__(
            loop, dial, on_change, LOOK_SECONDS, wall, backoff or Backoff()
        )

    def card_sent(self) -> None:
        """A card is out: its tap must be able to come in."""
        self._is_card_out = True
        if self._live is not None:
            self._live.wire.card_sent(self._loop.now())
            self._live.flush()

    def cards_settled(self) -> None:
        """Nothing waits for a tap."""
        self._is_card_out = False
        if self._live is not None:
            self._live.wire.cards_settled()

    def heard(self, live: LiveSocket, delivery: Delivery) -> None:
        """A message came; the owner answers, at once or a little later."""

        def answer(reply: dict[str, Any]) -> bool:
            sent: bool = live.wire.answer(delivery, self._loop.now(), reply)
            live.flush()
            return sent and live.sock is not None

        self._on_delivery(delivery, answer)

    def _pause(self, error: Exception) -> float:
        fatal = isinstance(error, Refusal) and error.fatal
        return REPAIR_SECONDS if fatal else super()._pause(error)

    def _connected(self, dialled: Dialled) -> None:
        sock, rest, endpoint = dialled
        long = LongConnection(endpoint, self._loop.now(), self.wall())
        live = LiveSocket(self, self._loop, sock, long)
        old, self._live = self._live, live
        self._backoff.worked()
        self._enter(UP, "")
        if old is not None:
            old.end()
        if self._is_card_out:
            long.card_sent(self._loop.now())
        live.begin(rest)

    def _watch(self) -> None:
        super()._watch()
        now = self._loop.now()
        is_due = self._may_freshen and now - self._freshened >= FRESH_SECONDS
        if is_due and self._live is not None and self._live.wire.is_deaf(now):
            self._freshened = now
            self.start()

    def _enter(self, state: str, detail: str) -> None:
        if (self.state == UP) != (state == UP):
            self.since = self.wall()
        super()._enter(state, detail)
