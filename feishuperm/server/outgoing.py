"""An outgoing connection as the loop keeps it: dialled, watched, replaced.

Dialling (names, proxies, TLS, handshakes) blocks, so a short-lived thread does it and
hands over what it has connected; from then on the loop reads and writes it.  What is
spoken over it is a subclass's: `Link` below for Feishu's long connection, the others
are `server.machine.MachineLine` and `gateway.redis_store.RedisLine`.

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
from feishuperm.protocol.websocket import Conversation
from feishuperm.server.connection import WireConnection
from feishuperm.server.loop import Loop

DIALLING, UP, WAITING, CLOSED = "dialling", "up", "waiting", "closed"
# A connection whose handshake is done, and what came behind it.
Dialled = tuple[socket.socket, bytes, Endpoint]

FRESH_SECONDS = 60.0  # between two connections made because one seemed deaf
REPAIR_SECONDS = 60.0  # until the next try after a refusal that a person has to repair
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
        except (OSError, FeishupermError) as error:
            done = partial(self._failed, error)
        except Exception as error:  # a thread that ends silently would be the last one
            # Only its kind: nobody knows whether its text holds the address.
            told = msg("cannot dial: {}", type(error).__name__)
            done = partial(self._failed, OSError(told))
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
            fatal = isinstance(error, Refusal) and error.fatal
            pause = REPAIR_SECONDS if fatal else self._backoff.failed()
            self._wait(message_of(error), pause)

    def _wait(self, why: str, seconds: float) -> None:
        """It is down; try again a little later, whatever the owner makes of that."""

        def again() -> None:
            if self.state == WAITING:
                self.start()

        self._loop.call_at(self._loop.now() + seconds, again)
        self._enter(WAITING, why)

    def _enter(self, state: str, detail: str) -> None:
        self.state, self.detail = state, detail
        self._on_change()


class SpokenConnection(OutgoingConnection):
    """A WebSocket whose protocol finds its other end dead, if it is asked often."""

    def __init__(
        self,
        loop: Loop,
        dial: Callable[[], Any],
        on_change: Callable[[], object],
        look_seconds: float,
        wall: Callable[[], float],
        backoff: Backoff | None,
    ) -> None:
        super().__init__(loop, dial, on_change, backoff or Backoff())
        self._look_seconds = look_seconds
        self.wall = wall
        self._live: WireConnection | None = None
        self._is_card_out = False
        self._look()

    def close(self) -> None:
        """The end, politely."""
        self._enter(CLOSED, "closed")
        if self._live is not None:
            self._live.end()

    def watch(self, is_card_out: bool) -> None:
        """While a card is out its tap must be able to come in: find a dead end soon."""
        self._is_card_out = is_card_out
        if self._live is not None:
            self._live.wire.watch(is_card_out, self._loop.now())
            self._live.flush()

    def _take_over(self, sock: socket.socket, wire: Conversation, rest: bytes) -> None:
        """Use a connection that was dialled; the one before it, if any, goes."""
        old, self._live = (
            self._live,
            WireConnection(self._loop, sock, wire, self.heard, self.over, self.wall),
        )
        self._enter(UP, "")
        if old is not None:
            old.end()
        self.watch(self._is_card_out)
        if rest and self._live is not None:
            self._live.received(rest)

    def heard(self, live: WireConnection, message: Any) -> None:
        """A connection has brought something."""
        raise NotImplementedError

    def over(self, live: WireConnection) -> None:
        """A connection has ended."""
        if live is not self._live:
            return
        self._live = None
        if self.state != CLOSED:
            why = live.wire.trouble or msg("the connection was cut")
            self._wait(why, self._backoff.failed())

    def _look(self) -> None:
        """Look at the time now and then: for silence, and for sleep."""
        if self.state == CLOSED:
            return
        now = self._loop.now()
        self._loop.call_at(now + self._look_seconds, self._look)
        if self._live is not None:
            self._live.tick(now)


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
        self._freshened = -FRESH_SECONDS
        self.since = 0.0  # wall clock: up, or down, for so long
        super().__init__(loop, dial, on_change, LOOK_SECONDS, wall, backoff)

    def heard(self, live: WireConnection, delivery: Delivery) -> None:
        """A message came; the owner answers, at once or a little later."""

        def answer(reply: dict[str, Any]) -> bool:
            sent: bool = live.wire.answer(delivery, self._loop.now(), reply)
            live.flush()
            return sent and live.sock is not None

        self._on_delivery(delivery, answer)

    def _connected(self, dialled: Dialled) -> None:
        sock, rest, endpoint = dialled
        self._backoff.worked()
        wire = LongConnection(endpoint, self._loop.now(), self.wall())
        self._take_over(sock, wire, rest)

    def _look(self) -> None:
        super()._look()
        now = self._loop.now()
        is_due = self._may_freshen and now - self._freshened >= FRESH_SECONDS
        if is_due and self._live is not None and self._live.wire.is_deaf(now):
            self._freshened = now
            self.start()

    def _enter(self, state: str, detail: str) -> None:
        if (self.state == UP) != (state == UP):
            self.since = self.wall()
        super()._enter(state, detail)
