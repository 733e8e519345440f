"""Who is let in through a listening socket, up to which limit, and who is put out.

A `HookAcceptor` lets in hooks of this user, an `HttpAcceptor` browsers, and among those
makes room when it is full.  What a connection then says is not its business; how its
address was claimed is told in `server.listen`.
"""

from __future__ import annotations

import errno
import itertools
import os
import socket
from collections.abc import Callable

from feishuperm.protocol.http1 import MAX_BODY, Request, plain_response
from feishuperm.server.connection import (
    Connection,
    Exchange,
    HookConnection,
    HttpConnection,
)
from feishuperm.server.listen import BACKLOG, Listener, ListenError, listen_unix
from feishuperm.server.loop import READ, Handler, Loop
from feishuperm.wire import frame, peer_uid

ACCEPTS_PER_TICK = 32  # so that a rush of new clients cannot starve the present ones
SWEEP_SECONDS = 5.0
PAUSE_SECONDS = 1.0  # when there is no file left even to refuse with
EXTRA = 32  # refused browsers that may linger beyond the cap to read why
# A browser that has said nothing for this long makes room for one of its neighbours.
# Shorter, and a burst of honest clients would close each other.
GRACE_SECONDS = 0.25
FILE_SECONDS = 1.0  # how soon a deleted socket file is noticed
FULL = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)


class Door(Handler):
    """One listening socket of an acceptor."""

    def __init__(self, loop: Loop, sock: socket.socket, acceptor: Acceptor) -> None:
        self.sock = sock
        self._loop = loop
        self._acceptor = acceptor
        loop.watch(sock.fileno(), READ, self)

    def handle(self, mask: int) -> None:
        for _ in range(ACCEPTS_PER_TICK):
            try:
                sock, address = self.sock.accept()
            except (BlockingIOError, InterruptedError, ConnectionError):
                return
            except OSError as error:
                if error.errno not in FULL:
                    raise
                self._acceptor.refuse_one(self)
                return
            self._acceptor.let_in(sock, address)

    def fail(self) -> None:
        """One client's trouble is no reason to turn all others away, nor to spin."""
        self.pause()

    def pause(self) -> None:
        """Accept nothing for a moment; the kernel keeps them in its queue."""
        self._loop.watch(self.sock.fileno(), 0, self)
        self._loop.call_at(self._loop.now() + PAUSE_SECONDS, self._resume)

    def _resume(self) -> None:
        if self.sock.fileno() >= 0:
            self._loop.watch(self.sock.fileno(), READ, self)

    def close(self) -> None:
        """Watch it no more; the listener closes the socket."""
        if self.sock.fileno() >= 0:
            self._loop.watch(self.sock.fileno(), 0, self)


class Acceptor:
    """Lets clients in up to a limit, counts them, and closes those past a deadline."""

    def __init__(self, loop: Loop, listener: Listener, limit: int) -> None:
        self.connections: dict[Connection, None] = {}  # oldest first
        self._loop = loop
        self._limit = limit
        self._sweeping = False
        self._reserve = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        self._listener = listener
        self._doors = [Door(loop, sock, self) for sock in listener.socks]

    def close(self) -> None:
        """Let nobody in any more; those who are in stay."""
        for door in self._doors:
            door.close()
        self._listener.close()
        if self._reserve >= 0:
            os.close(self._reserve)
            self._reserve = -1

    def close_all(self) -> None:
        """Close every connection, after what is buffered for it."""
        for connection in list(self.connections):
            connection.close()

    def connect(self, sock: socket.socket) -> Connection:
        """A connection for an accepted socket."""
        raise NotImplementedError

    def refuse(self, sock: socket.socket) -> None:
        """Say "busy" in the client's own protocol, and close."""
        say_and_close(sock, self.busy())

    def welcome(self, sock: socket.socket) -> bool:
        """Whether this peer may talk to us at all."""
        return True

    def make_room(self, address: object) -> bool:
        """Whether there is room for a client from this address, if need be made now."""
        return len(self.connections) < self._limit

    def let_in(self, sock: socket.socket, address: object) -> None:
        """Somebody has come through a door."""
        if not self.welcome(sock):
            sock.close()
        elif self.make_room(address):
            self._keep(self.connect(sock))
        else:
            self.refuse(sock)

    def _keep(self, connection: Connection) -> None:
        self.connections[connection] = None
        if not self._sweeping:
            self._sweeping = True
            self._sweep_later()

    def refuse_one(self, door: Door) -> None:
        """Out of files: give up the reserved one to tell the next client so."""
        if self._reserve >= 0:
            os.close(self._reserve)
            self._reserve = -1
        try:
            sock = door.sock.accept()[0]
            if self.welcome(sock):
                say_and_close(sock, self.busy())
            sock.close()
        except OSError:
            pass
        try:
            self._reserve = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            door.pause()

    def busy(self) -> bytes:
        """The bytes that say "busy"."""
        raise NotImplementedError

    def _sweep_later(self) -> None:
        self._loop.call_at(self._loop.now() + SWEEP_SECONDS, self._sweep)

    def _sweep(self) -> None:
        self._sweeping = bool(self.connections)
        if self._sweeping:
            self._sweep_later()
        now = self._loop.now()
        for connection in [c for c in self.connections if c.deadline <= now]:
            connection.abort()


class HookAcceptor(Acceptor):
    """Hooks of this user; one too many is released to its terminal."""

    def __init__(
        self,
        loop: Loop,
        listener: Listener,
        on_frame: Callable[[HookConnection, bytes, bytes], object],
        on_close: Callable[[HookConnection], object],
        limit: int,
    ) -> None:
        self._on_frame = on_frame
        self._on_close = on_close
        self._forget = self._closed  # one bound method for all, not one for each
        self._problem = ""  # why the socket file could not be made again
        super().__init__(loop, listener, limit)

    def keep_bound(self, report: Callable[[str], object]) -> None:
        """From now on, bind anew when the socket file is deleted or replaced.

        Hooks that are connected need no file.  What a living server has put there in
        our place is left alone; `report` is told, and once it is gone we are back.
        """

        def look() -> None:
            if self._reserve < 0:  # closed
                return
            self._loop.call_at(self._loop.now() + FILE_SECONDS, look)
            if not self._listener.is_bound():
                self._bind_anew(report)

        look()

    def _bind_anew(self, report: Callable[[str], object]) -> None:
        path = self._listener.path
        try:
            listener = listen_unix(path)
        except ListenError as error:
            if str(error) != self._problem:
                self._problem = str(error)
                report(f"the socket file was deleted or replaced; {error}")
            return
        self._problem = ""
        for door in self._doors:
            for _ in range(BACKLOG // ACCEPTS_PER_TICK):
                door.handle(READ)  # who had connected before the file was gone
            door.close()
        self._listener.close()
        self._listener = listener
        self._doors = [Door(self._loop, sock, self) for sock in listener.socks]
        report(f"{path} was deleted or replaced; it is bound anew")

    def connect(self, sock: socket.socket) -> Connection:
        return HookConnection(self._loop, sock, self._on_frame, self._forget)

    def welcome(self, sock: socket.socket) -> bool:
        try:
            return bool(peer_uid(sock) == os.geteuid())
        except OSError:
            return False  # gone already

    def busy(self) -> bytes:
        return frame(b"R")

    def _closed(self, connection: HookConnection) -> None:
        self.connections.pop(connection, None)
        self._on_close(connection)


class HttpAcceptor(Acceptor):
    """Browsers; one too many takes the place of an idle one, or gets a 503.

    Whoever holds the most connections loses the first: a crowd from one address holds
    off nobody else, and inside the crowd the newest are served.
    """

    def __init__(
        self,
        loop: Loop,
        listener: Listener,
        on_request: Callable[[Request, Exchange], object],
        limit: int,
        secure: Callable[[socket.socket], socket.socket] = lambda sock: sock,
        max_body: int = MAX_BODY,
    ) -> None:
        self._max_body = max_body
        self._on_request = on_request
        self._secure = secure
        self._forget = self._closed
        self._crowds: dict[str, dict[HttpConnection, None]] = {}  # each oldest first
        super().__init__(loop, listener, limit)

    def connect(self, sock: socket.socket) -> HttpConnection:
        connection = HttpConnection(
            self._loop,
            self._secure(sock),
            self._on_request,
            self._forget,
            self._max_body,
        )
        crowd = self._crowds.setdefault(neighbourhood(connection.peer[0]), {})
        crowd[connection] = None
        return connection

    def make_room(self, address: object) -> bool:
        if super().make_room(address):
            return True
        own = neighbourhood(address[0] if isinstance(address, tuple) else "")
        crowd = max(self._crowds.values(), key=len, default={})
        outnumbered = len(crowd) > len(self._crowds.get(own, ())) + 1
        latest = self._loop.now() - (0 if outnumbered else GRACE_SECONDS)
        # More than one goes when some that were refused are still reading why.
        surplus = len(self.connections) - self._limit + 1
        idle = (c for c in crowd if c.waits_since <= latest)
        for connection in list(itertools.islice(idle, surplus)):
            connection.abort()
        return super().make_room(address)

    def refuse(self, sock: socket.socket) -> None:
        if len(self.connections) >= self._limit + EXTRA:
            return super().refuse(sock)
        connection = self.connect(sock)
        self._keep(connection)
        connection.refuse(503)

    def busy(self) -> bytes:
        return plain_response(503).encode()

    def _closed(self, connection: HttpConnection) -> None:
        self.connections.pop(connection, None)
        key = neighbourhood(connection.peer[0])
        crowd = self._crowds.get(key, {})
        crowd.pop(connection, None)
        if not crowd:
            self._crowds.pop(key, None)


def neighbourhood(address: str) -> str:
    """Addresses that one machine can have at will count as one."""
    if address.startswith("127.") or address == "::1":
        return "loopback"
    if ":" not in address:
        return address
    packed = socket.inet_pton(socket.AF_INET6, address.partition("%")[0])
    return packed[:8].hex()


def say_and_close(sock: socket.socket, data: bytes) -> None:
    """Send a few bytes if the peer can take them right now, and close."""
    try:
        sock.setblocking(False)
        sock.send(data)
        sock.shutdown(socket.SHUT_WR)
        sock.recv(65536)  # unread input would turn the close into a reset
    except OSError:
        pass
    sock.close()
