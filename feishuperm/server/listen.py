"""Listening sockets: how an address is claimed, who is let in, and who is put out.

Claiming a unix socket is a race when a stale file is in the way: between the look and
the unlink another server may have put its own there.  So it happens under a lock file
beside the socket, which is gone again when `listen_unix()` returns; from then on the
listening socket itself is the proof that a server lives.

A browser that is told `localhost` tries ::1 as readily as 127.0.0.1, and anyone who has
an account here may listen on either.  So `listen_http()` takes the same port on every
address it is given, or none; only a family that the machine lacks is left out.

A `HookAcceptor` lets in hooks of this user, an `HttpAcceptor` browsers, and among those
makes room when it is full.  What a connection then says is not its business.
"""

from __future__ import annotations

import errno
import fcntl
import itertools
import os
import socket
import ssl
import stat
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from feishuperm.errors import FeishupermError, SettingError
from feishuperm.messages import message_of, msg
from feishuperm.protocol.http1 import MAX_BODY, Request, plain_response
from feishuperm.server.connection import (
    Connection,
    Exchange,
    HookConnection,
    HttpConnection,
)
from feishuperm.server.loop import READ, Handler, Loop
from feishuperm.tables import rows
from feishuperm.wire import frame, peer_uid

BACKLOG = 1024
PORT_TRIES = 20  # for a free port that is free in both families
SAID = rows("server/sentences.txt", "listening")
OTHER_PATH = msg(SAID["other path"])
NO_SUCH_FAMILY = (errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL, errno.EPROTONOSUPPORT)
ACCEPTS_PER_TICK = 32  # so that a rush of new clients cannot starve the present ones
SWEEP_SECONDS = 5.0
PAUSE_SECONDS = 1.0  # when there is no file left even to refuse with
EXTRA = 32  # refused browsers that may linger beyond the cap to read why
# A browser that has said nothing for this long makes room for one of its neighbours.
# Shorter, and a burst of honest clients would close each other.
GRACE_SECONDS = 0.25
FILE_SECONDS = 1.0  # how soon a deleted socket file is noticed
FULL = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)


# Claiming an address.


class ListenError(FeishupermError):
    """An address that cannot be listened on, and why."""


class Listener:
    """A claimed address, of HTTP perhaps several. `close()` gives it back."""

    def __init__(self, socks: list[socket.socket], path: str = "") -> None:
        for sock in socks:
            sock.setblocking(False)
        self.socks = socks
        self.path = path  # of a unix socket
        self.port: int = 0 if path else socks[0].getsockname()[1]  # of HTTP
        self._identity = _identity(path) if path else None

    def is_bound(self) -> bool:
        """Whether the file of a unix socket is still the one we made."""
        return self._identity is not None and self._identity == _identity(self.path)

    def close(self) -> None:
        """Stop listening; the file goes too, unless it is somebody else's by now."""
        if self.is_bound():
            os.unlink(self.path)
        self._identity = None
        for sock in self.socks:
            sock.close()


def listen_unix(path: str) -> Listener:
    """A listening unix socket only this user can reach. Raises ListenError."""
    folder = os.path.dirname(path)
    if not os.path.isdir(folder):
        raise ListenError(msg(SAID["no folder"], folder), f"mkdir -p {folder}")
    lock = _lock(path)
    try:
        _clear(path)
        return Listener([_bind_unix(path)], path)
    finally:
        # Still locked: a process that opened this file meanwhile gives up.
        os.unlink(path + ".lock")
        os.close(lock)


def _lock(path: str) -> int:
    """The claim to replace what is at `path`, as an open file. Raises ListenError."""
    name = path + ".lock"
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        fd = os.open(name, flags, 0o600)
    except OSError as error:
        why = message_of(error)
        raise ListenError(msg(SAID["no writing"], name, why), OTHER_PATH) from None
    held = os.fstat(fd)
    is_own = held.st_uid == os.geteuid()
    if is_own:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if (held.st_dev, held.st_ino) == _identity(name):
                return fd  # not removed by its last owner meanwhile
        except OSError:
            pass  # another server has it
    os.close(fd)
    raise _already_running(path) if is_own else _not_own(name)


def _clear(path: str) -> None:
    """Remove a dead server's socket, and nothing else. Raises ListenError."""
    try:
        there = os.lstat(path)
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(there.st_mode):
        raise ListenError(msg(SAID["no socket"], path), OTHER_PATH)
    if there.st_uid != os.geteuid():
        raise _not_own(path)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.setblocking(False)
        if probe.connect_ex(path) != errno.ECONNREFUSED:  # a full backlog is life too
            raise _already_running(path)
    os.unlink(path)


def _bind_unix(path: str) -> socket.socket:
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    # Private from its first moment.  The mask is that of every thread: with a stricter
    # one, a folder that another thread makes now would be of no use to it.
    old = os.umask(0o077)
    try:
        sock.bind(path)
        os.chmod(path, 0o600)
        sock.listen(BACKLOG)
    except OSError as error:
        sock.close()
        why = message_of(error)
        raise ListenError(msg(SAID["no socket there"], path, why), OTHER_PATH) from None
    finally:
        os.umask(old)
    return sock


def _not_own(path: str) -> ListenError:
    return ListenError(msg(SAID["not own"], path), OTHER_PATH)


def _already_running(path: str) -> ListenError:
    return ListenError(msg(SAID["running"], path), "feishuperm status")


def _identity(path: str) -> tuple[int, int] | None:
    try:
        there = os.lstat(path)
    except OSError:
        return None
    return there.st_dev, there.st_ino


def listen_http(hosts: Sequence[str], port: int) -> Listener:
    """Listening TCP sockets, one for each host, on one port. Raises ListenError.

    The first host must be an address of this machine; of the others, those of a family
    that the machine does not have are left out.
    """
    tries = 1 if port else PORT_TRIES  # port 0: the next one may be free
    while True:
        tries -= 1
        taken = port
        socks: list[socket.socket] = []
        try:
            for host in hosts:
                try:
                    socks.append(_bind_http(host, taken))
                except OSError as error:
                    if not socks or error.errno not in NO_SUCH_FAMILY:
                        raise
                taken = socks[0].getsockname()[1]
            return Listener(socks)
        except (OSError, UnicodeError) as error:
            for sock in socks:
                sock.close()
            number = getattr(error, "errno", None)
            if number != errno.EADDRINUSE or not tries:
                raise _http_error(error, number, host, taken) from None


def _bind_http(host: str, port: int) -> socket.socket:
    """A listening socket. Raises OSError, and UnicodeError for a name that is none."""
    place = socket.getaddrinfo(
        host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )[0]
    sock = socket.socket(place[0], socket.SOCK_STREAM)
    try:
        # Past the remains of old connections, not past another listener: Linux lets
        # nobody share a port that is listened on without SO_REUSEPORT.
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        # Accepted sockets inherit it; a stream's small writes must not wait.
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if place[0] == socket.AF_INET6:  # IPv4 has a socket of its own
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        sock.bind(place[4])
        sock.listen(BACKLOG)
    except OSError:
        sock.close()
        raise
    return sock


def _http_error(
    error: Exception, number: int | None, host: str, port: int
) -> ListenError:
    if number == errno.EADDRINUSE:
        return ListenError(msg(SAID["taken"], port, host), msg(SAID["move both"]))
    if number == errno.EACCES:
        return ListenError(msg(SAID["privilege"], port), msg(SAID["move up"]))
    no_name = isinstance(error, (socket.gaierror, UnicodeError))
    if no_name or number == errno.EADDRNOTAVAIL:
        return ListenError(msg(SAID["not here"], host))
    return ListenError(msg(SAID["no listening"], host, port, message_of(error)))


# Letting in.


class ListenSocket(Handler):
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
        """Accept nothing for a moment; the kernel keeps them in its queue.

        One client's trouble is no reason to turn all others away, nor to spin.
        """
        self.watch(0)
        later = self._loop.now() + PAUSE_SECONDS
        self._loop.call_at(later, lambda: self.watch(READ))

    def watch(self, mask: int) -> None:
        """Accept, or with 0 do not; the listener closes the socket."""
        if self.sock.fileno() >= 0:
            self._loop.watch(self.sock.fileno(), mask, self)


class Acceptor:
    """Lets clients in up to a limit, counts them, and closes those past a deadline."""

    def __init__(self, loop: Loop, listener: Listener, limit: int) -> None:
        self.connections: dict[Connection, None] = {}  # oldest first
        self._loop = loop
        self._limit = limit
        self._sweeping = False
        self._forget = self._closed  # one bound method for all, not one for each
        self._reserve = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        self._listen(listener)

    def _listen(self, listener: Listener) -> None:
        self._listener = listener
        self._sockets = [ListenSocket(self._loop, one, self) for one in listener.socks]

    def close(self) -> None:
        """Let nobody in any more; those who are in stay."""
        for listening in self._sockets:
            listening.watch(0)
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

    def busy(self) -> bytes:
        """What says "busy" in the client's own protocol."""
        raise NotImplementedError

    def refuse(self, sock: socket.socket) -> None:
        """Say "busy", and close."""
        say_and_close(sock, self.busy())

    def welcome(self, sock: socket.socket) -> bool:
        """Whether this peer may talk to us at all."""
        return True

    def make_room(self, address: object) -> bool:
        """Whether there is room for a client from this address, if need be made now."""
        return len(self.connections) < self._limit

    def let_in(self, sock: socket.socket, address: object) -> None:
        """Somebody has connected."""
        if not self.welcome(sock):
            sock.close()
        elif self.make_room(address):
            self._keep(self.connect(sock))
        else:
            self.refuse(sock)

    def _keep(self, connection: Connection) -> None:
        self.connections[connection] = None
        if not self._sweeping:
            self._sweep_later()

    def _closed(self, connection: Any) -> None:
        self.connections.pop(connection, None)

    def refuse_one(self, listening: ListenSocket) -> None:
        """Out of files: give up the reserved one to tell the next client so."""
        if self._reserve >= 0:
            os.close(self._reserve)
            self._reserve = -1
        try:
            sock = listening.sock.accept()[0]
            if self.welcome(sock):
                say_and_close(sock, self.busy())
            sock.close()
        except OSError:
            pass
        try:
            self._reserve = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            listening.fail()

    def _sweep_later(self) -> None:
        self._sweeping = bool(self.connections)
        if self._sweeping:
            self._loop.call_at(self._loop.now() + SWEEP_SECONDS, self._sweep)

    def _sweep(self) -> None:
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
        self._problem = ""  # why the socket file could not be made again
        super().__init__(loop, listener, limit)

    def keep_bound(self, report: Callable[[str], object]) -> None:
        """From now on, bind again when the socket file is deleted or replaced.

        Hooks that are connected need no file.  What a living server has put there in
        our place is left alone; `report` is told, and once it is gone we are back.
        """

        def look() -> None:
            if self._reserve < 0:  # closed
                return
            self._loop.call_at(self._loop.now() + FILE_SECONDS, look)
            if not self._listener.is_bound():
                self._bind_again(report)

        look()

    def _bind_again(self, report: Callable[[str], object]) -> None:
        path = self._listener.path
        try:
            listener = listen_unix(path)
        except ListenError as error:
            if str(error) != self._problem:
                self._problem = str(error)
                report(f"the socket file was deleted or replaced; {error}")
            return
        self._problem = ""
        for listening in self._sockets:
            for _ in range(BACKLOG // ACCEPTS_PER_TICK):
                listening.handle(READ)  # who had connected before the file was gone
            listening.watch(0)
        self._listener.close()
        self._listen(listener)
        report(f"{path} was deleted or replaced; it is bound again")

    def connect(self, sock: socket.socket) -> Connection:
        return HookConnection(self._loop, sock, self._on_frame, self._forget)

    def welcome(self, sock: socket.socket) -> bool:
        try:
            return bool(peer_uid(sock) == os.geteuid())
        except OSError:
            return False  # gone already

    def busy(self) -> bytes:
        return frame(b"R")

    def _closed(self, connection: Any) -> None:
        super()._closed(connection)
        self._on_close(connection)


class HttpAcceptor(Acceptor):
    """Browsers; one too many takes the place of an idle one, or gets a 503.

    The holder of most connections loses the first: a crowd from one address holds
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
        # Connections by network, each oldest first.
        self._networks: dict[str, dict[HttpConnection, None]] = {}
        super().__init__(loop, listener, limit)

    def connect(self, sock: socket.socket) -> HttpConnection:
        connection = HttpConnection(
            self._loop,
            self._secure(sock),
            self._on_request,
            self._forget,
            self._max_body,
        )
        network = client_network(connection.peer[0])
        self._networks.setdefault(network, {})[connection] = None
        return connection

    def make_room(self, address: object) -> bool:
        if super().make_room(address):
            return True
        own = client_network(address[0] if isinstance(address, tuple) else "")
        crowd = max(self._networks.values(), key=len, default={})
        outnumbered = len(crowd) > len(self._networks.get(own, ())) + 1
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

    def _closed(self, connection: Any) -> None:
        super()._closed(connection)
        key = client_network(connection.peer[0])
        crowd = self._networks.get(key, {})
        crowd.pop(connection, None)
        if not crowd:
            self._networks.pop(key, None)


def client_network(address: str) -> str:
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


def server_side(
    cert_file: str, key_file: str
) -> Callable[[socket.socket], socket.socket]:
    """What makes an accepted socket a TLS one. Raises SettingError."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    try:
        context.load_cert_chain(cert_file, key_file or None)
    except (OSError, ssl.SSLError) as error:
        reason = getattr(error, "reason", "") or message_of(error)
        raise SettingError(msg(SAID["no certificate"], cert_file, reason)) from None
    return partial(context.wrap_socket, server_side=True, do_handshake_on_connect=False)
