"""The long connection to Feishu as the loop keeps it: dialled, watched, replaced.

Dialling (names, proxies, TLS, two handshakes) blocks, so a short-lived thread does it
and hands over a connected socket; from then on the loop reads and writes it.  What the
bytes mean is `protocol.long_connection`'s, what a delivery means the owner's.

    state       meaning                                       leads to
    dialling    a thread is on its way to the first socket    up, waiting
    up          one connection; a second may be on its way    up (the second took over),
                to replace one that seems deaf                dialling (it ended)
    waiting     until the next try; `detail` says why         dialling
    closed      the end

The new connection is up before the old one goes, so that no tap falls between them; a
fresh one is made at most once in FRESH_SECONDS.
"""

from __future__ import annotations

import socket
import ssl
import threading
import time
from collections.abc import Callable
from typing import Any

from feishuperm.errors import FeishupermError
from feishuperm.protocol.long_connection import (
    Backoff,
    Delivery,
    Endpoint,
    LongConnection,
    Refusal,
)
from feishuperm.server.connection import Connection
from feishuperm.server.loop import Loop, Timer
from feishuperm.server.tls import Tls

# A connection whose handshake is done, and what came behind it.
Dialled = tuple[socket.socket, bytes, Endpoint]

FRESH_SECONDS = 60.0  # between two connections made because one seemed deaf
MEND_SECONDS = 60.0  # until the next try after a refusal that a person has to mend
LOOK_SECONDS = 5.0  # how often time is looked at: sleep, deafness
BACKLOG = 4 << 20  # unread bytes after which Feishu must be gone

DIALLING, UP, WAITING, CLOSED = "dialling", "up", "waiting", "closed"


class Outgoing(Connection):
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
        secure = isinstance(sock, ssl.SSLSocket)
        super().__init__(loop, Tls(sock) if secure else sock)  # type: ignore[arg-type]

    def received(self, data: bytes) -> None:
        # Decrypted bytes may be left inside, which no selector knows of.
        if isinstance(self.sock, Tls) and self.sock.pending():
            self.leave_rest()
        self._on_data(data)

    def go_on(self) -> None:
        self._read()

    def closed(self) -> None:
        self._on_close()


class Link:
    """Keeps one long connection up, and tells of what it brings."""

    def __init__(
        self,
        loop: Loop,
        dial: Callable[[], Dialled],
        on_delivery: Callable[[Delivery, Callable[[dict[str, Any]], bool]], object],
        on_change: Callable[[], object] = lambda: None,
        wall: Callable[[], float] = time.time,
        backoff: Backoff | None = None,
    ) -> None:
        self._loop = loop
        self._dial = dial
        self._on_delivery = on_delivery
        self._on_change = on_change
        self.wall = wall
        self._backoff = backoff or Backoff()
        self._live: _Live | None = None
        self._is_dialling = False
        self._is_card_out = False
        self._freshened = -FRESH_SECONDS
        self._look: Timer | None = None
        self.state = WAITING
        self.detail = "not connected yet"
        self.since = 0.0  # wall clock: up, or down, for so long

    def start(self) -> None:
        """Connect, and stay connected until `close()`."""
        self._begin()
        self._watch()

    def close(self) -> None:
        self._enter(CLOSED, "closed")
        if self._look is not None:
            self._look.cancel()
        if self._live is not None:
            self._live.end()

    def card_sent(self) -> None:
        """A card is out: its tap must be able to come in."""
        self._is_card_out = True
        if self._live is not None:
            self._live.long.card_sent(self._loop.now())
            self._live.flush()

    def cards_settled(self) -> None:
        """Nothing waits for a tap."""
        self._is_card_out = False
        if self._live is not None:
            self._live.long.cards_settled()

    # Dialling.

    def _begin(self) -> None:
        if self._is_dialling or self.state == CLOSED:
            return
        self._is_dialling = True
        if self._live is None:
            self._enter(DIALLING, self.detail)
        threading.Thread(target=self._work, name="dial", daemon=True).start()

    def _work(self) -> None:
        """In the thread: connect, and say how that went."""
        try:
            dialled = self._dial()
        except Exception as error:  # a thread that ends silently would be the last one
            failure = _tellable(error)
            self._loop.call_soon_threadsafe(lambda: self._failed(failure))
            return
        self._loop.call_soon_threadsafe(lambda: self._connected(dialled))

    def _failed(self, error: Exception) -> None:
        self._is_dialling = False
        if self.state == CLOSED or self._live is not None:
            return  # the old connection is still there
        fatal = isinstance(error, Refusal) and error.fatal
        wait = MEND_SECONDS if fatal else self._backoff.failed()
        self._enter(WAITING, error.key if isinstance(error, Refusal) else str(error))
        self._loop.call_at(self._loop.now() + wait, self._begin)

    def _connected(self, dialled: Dialled) -> None:
        self._is_dialling = False
        sock, rest, endpoint = dialled
        if self.state == CLOSED:
            sock.close()
            return
        old, self._live = self._live, _Live(self, self._loop, sock, endpoint)
        self._backoff.worked()
        self._enter(UP, "")
        if old is not None:
            old.end()
        if self._is_card_out:
            self._live.long.card_sent(self._loop.now())
        self._live.begin(rest)

    # What a connection reports.

    def ended(self, live: _Live) -> None:
        """A connection is over."""
        if live is not self._live or self.state == CLOSED:
            return
        self._live = None
        self._enter(WAITING, live.long.trouble or "the connection was cut")
        self._loop.call_at(self._loop.now() + self._backoff.failed(), self._begin)

    def delivered(self, live: _Live, delivery: Delivery) -> None:
        """A message came; the owner answers, at once or a little later."""

        def answer(reply: dict[str, Any]) -> bool:
            sent = live.long.answer(delivery, self._loop.now(), reply)
            live.flush()
            return sent and live.is_open

        self._on_delivery(delivery, answer)

    # Time.

    def _watch(self) -> None:
        if self.state == CLOSED:
            return
        now = self._loop.now()
        if self._live is not None:
            self._live.tick(now, self.wall())
        live = self._live
        if live is not None and live.long.is_deaf(now):
            self._freshen(now)
        self._look = self._loop.call_at(now + LOOK_SECONDS, self._watch)

    def _freshen(self, now: float) -> None:
        if now - self._freshened >= FRESH_SECONDS:
            self._freshened = now
            self._begin()

    def _enter(self, state: str, detail: str) -> None:
        if (self.state == UP) != (state == UP):
            self.since = self.wall()
        self.state, self.detail = state, detail
        self._on_change()


def _tellable(error: Exception) -> Exception:
    """The error, or its kind: only some are known to hold no address."""
    if isinstance(error, (OSError, FeishupermError)):
        return error
    return OSError(f"cannot dial: {type(error).__name__}")


class _Live:
    """One connection, its socket and its protocol."""

    def __init__(
        self, link: Link, loop: Loop, sock: socket.socket, endpoint: Endpoint
    ) -> None:
        self._link = link
        self._loop = loop
        self.long = LongConnection(endpoint, loop.now(), link.wall())
        self._wire = Outgoing(loop, sock, self._received, self._closed)

    @property
    def is_open(self) -> bool:
        return self._wire.sock is not None

    def begin(self, rest: bytes) -> None:
        if rest:
            self._received(rest)
        self.flush()

    def end(self) -> None:
        """Close, politely."""
        self.long.close()
        self._wire.write(self.long.data_to_send())
        self._wire.close()

    def tick(self, now: float, wall: float) -> None:
        self.long.tick(now, wall)
        self.flush()

    def flush(self) -> None:
        """Write what is due; a connection in trouble goes at once."""
        data = self.long.data_to_send()
        if data:
            self._wire.write(data)
        if self.long.trouble or self._wire.backlog > BACKLOG:
            self._wire.abort()

    def _received(self, data: bytes) -> None:
        self.long.receive_data(data, self._loop.now())
        delivery = self.long.next_event()
        while delivery is not None:
            self._link.delivered(self, delivery)
            delivery = self.long.next_event()
        self.flush()

    def _closed(self) -> None:
        self._link.ended(self)
