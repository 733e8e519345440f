"""Listening sockets: how they are claimed, and who is let in.

Knows addresses, users and limits; what a connection then says is not its business.
`listen_unix()` and `listen_http()` claim an address or say why not; a `HookAcceptor`
and an `HttpAcceptor` let clients in through it.

Claiming a unix socket is a race when a stale file is in the way: between the look and
the unlink another server may have put its own there.  So it happens under a lock file
beside the socket, which is gone again when `listen_unix()` returns; from then on the
listening socket itself is the proof that a server lives.
"""

from __future__ import annotations

import errno
import fcntl
import os
import socket
import stat

from feishuperm.errors import FeishupermError
from feishuperm.protocol.frames import frame
from feishuperm.protocol.http1 import plain_response
from feishuperm.server.connection import HookConnection, HttpConnection
from feishuperm.server.loop import READ, Handler
from feishuperm.wire import peer_uid

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from feishuperm.protocol.http1 import Request
    from feishuperm.server.connection import Connection, Exchange
    from feishuperm.server.loop import Loop

BACKLOG = 1024
ACCEPTS_PER_TICK = 64  # so that a rush of new clients cannot starve the present ones
SWEEP_SECONDS = 5.0
PAUSE_SECONDS = 1.0  # when there is no file left even to refuse with
EXTRA = 32  # refused browsers that may linger beyond the cap to read why
OTHER_PATH = "set PERMISSION_SOCKET_PATH to another path"
FULL = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)


class ListenError(FeishupermError):
    """An address that cannot be listened on, and why."""


class Listener:
    """A claimed address. `close()` gives it back."""

    __slots__ = ("_identity", "path", "port", "sock")

    def __init__(self, sock: socket.socket, path: str = "", port: int = 0) -> None:
        sock.setblocking(False)
        self.sock = sock
        self.path = path  # of a unix socket
        self.port = port  # of HTTP
        self._identity = _identity(path) if path else None

    def close(self) -> None:
        """Stop listening; the file goes too, unless it is somebody else's by now."""
        if self._identity is not None and self._identity == _identity(self.path):
            os.unlink(self.path)
        self._identity = None
        self.sock.close()


def listen_unix(path: str) -> Listener:
    """A listening unix socket only this user can reach. Raises ListenError.

    Changes the umask for a moment: call it before any thread is started.
    """
    folder = os.path.dirname(path)
    if not os.path.isdir(folder):
        raise ListenError(f"no folder {folder} for the socket", f"mkdir -p {folder}")
    lock = _lock(path)
    try:
        _clear(path)
        return Listener(_bind_unix(path), path=path)
    finally:
        # Still locked: whoever opened this file meanwhile finds it gone, and gives up.
        os.unlink(path + ".lock")
        os.close(lock)


def _lock(path: str) -> int:
    """The claim to replace what is at `path`, as an open file. Raises ListenError."""
    name = path + ".lock"
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        fd = os.open(name, flags, 0o600)
    except OSError as error:
        raise ListenError(
            f"cannot write {name}: {error.strerror}", OTHER_PATH
        ) from None
    owner = os.fstat(fd).st_uid
    if owner == os.geteuid() and _take_lock(fd, name):
        return fd
    os.close(fd)
    if owner != os.geteuid():
        raise ListenError(f"{name} belongs to another user", OTHER_PATH)
    raise _already_running(path)


def _take_lock(fd: int, name: str) -> bool:
    """Whether the lock is ours, and its file not removed by its last owner."""
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    found = os.fstat(fd)
    return (found.st_dev, found.st_ino) == _identity(name)


def _clear(path: str) -> None:
    """Remove a dead server's socket, and nothing else. Raises ListenError."""
    try:
        found = os.lstat(path)
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(found.st_mode):
        raise ListenError(f"{path} exists and is not a socket", OTHER_PATH)
    if found.st_uid != os.geteuid():
        raise ListenError(f"{path} belongs to another user", OTHER_PATH)
    if _is_alive(path):
        raise _already_running(path)
    os.unlink(path)


def _is_alive(path: str) -> bool:
    """Whether somebody listens; a full backlog is a sign of life too."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.setblocking(False)
        return probe.connect_ex(path) != errno.ECONNREFUSED


def _bind_unix(path: str) -> socket.socket:
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    old = os.umask(0o177)  # mode 0600 from its first moment
    try:
        sock.bind(path)
        sock.listen(BACKLOG)
    except OSError as error:
        sock.close()
        raise ListenError(
            f"cannot listen on {path}: {error.strerror or error}", OTHER_PATH
        ) from None
    finally:
        os.umask(old)
    return sock


def _already_running(path: str) -> ListenError:
    return ListenError(f"a server is already running on {path}", "feishuperm status")


def _identity(path: str) -> tuple[int, int] | None:
    try:
        found = os.lstat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def listen_http(host: str, port: int) -> Listener:
    """A listening TCP socket; an empty host means every address. Raises ListenError."""
    family, address = _resolve(host, port)
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        # Accepted sockets inherit it; a stream's small writes must not wait.
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if family == socket.AF_INET6 and not host:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        sock.bind(address)
        sock.listen(BACKLOG)
    except OSError as error:
        sock.close()
        raise _http_error(error, host, port) from None
    return Listener(sock, port=sock.getsockname()[1])


def _resolve(host: str, port: int) -> tuple[int, tuple[object, ...]]:
    if not host:
        dual = socket.has_dualstack_ipv6()
        family = socket.AF_INET6 if dual else socket.AF_INET
        return family, ("::" if dual else "0.0.0.0", port)
    try:
        found = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
    except (OSError, UnicodeError):
        raise ListenError(
            f"CALLBACK_SERVER_HOST: {host!r} is not an address of this machine"
        ) from None
    return found[0][0], found[0][4]


def _http_error(error: OSError, host: str, port: int) -> ListenError:
    if error.errno == errno.EADDRINUSE:
        return ListenError(
            f"port {port} is taken by another program (CALLBACK_SERVER_PORT)",
            "set CALLBACK_SERVER_PORT to a free port, "
            "and the port in CALLBACK_SERVER_URL with it",
        )
    if error.errno == errno.EACCES:
        return ListenError(
            f"port {port} needs a privilege this user does not have "
            "(CALLBACK_SERVER_PORT)",
            "set CALLBACK_SERVER_PORT to 1024 or more",
        )
    if error.errno == errno.EADDRNOTAVAIL:
        return ListenError(
            f"CALLBACK_SERVER_HOST: {host!r} is not an address of this machine"
        )
    return ListenError(
        f"cannot listen on {host or 'any address'} port {port}: {error.strerror}"
    )


class Acceptor(Handler):
    """Lets clients in up to a limit, counts them, and closes those past a deadline."""

    def __init__(self, loop: Loop, listener: Listener, limit: int) -> None:
        self.connections: set[Connection] = set()
        self._loop = loop
        self._listener = listener
        self._limit = limit
        self._sweeping = False
        self._reserve = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        loop.watch(listener.sock.fileno(), READ, self)

    def handle(self, mask: int) -> None:
        for _ in range(ACCEPTS_PER_TICK):
            try:
                sock = self._listener.sock.accept()[0]
            except (BlockingIOError, InterruptedError, ConnectionError):
                return
            except OSError as error:
                if error.errno not in FULL:
                    raise
                self._refuse_one()
                return
            self._let_in(sock)

    def fail(self) -> None:
        """One client's trouble is no reason to turn all others away, nor to spin."""
        self._pause()

    def close(self) -> None:
        """Let nobody in any more; those who are in stay."""
        if self._listener.sock.fileno() >= 0:
            self._loop.watch(self._listener.sock.fileno(), 0, self)
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
        raise NotImplementedError

    def welcome(self, sock: socket.socket) -> bool:
        """Whether this peer may talk to us at all."""
        return True

    def _let_in(self, sock: socket.socket) -> None:
        if not self.welcome(sock):
            sock.close()
        elif len(self.connections) >= self._limit:
            self.refuse(sock)
        else:
            self._keep(self.connect(sock))

    def _keep(self, connection: Connection) -> None:
        self.connections.add(connection)
        if not self._sweeping:
            self._sweeping = True
            self._sweep_later()

    def _refuse_one(self) -> None:
        """Out of files: give up the reserved one to tell the next client so."""
        if self._reserve >= 0:
            os.close(self._reserve)
            self._reserve = -1
        try:
            sock = self._listener.sock.accept()[0]
            if self.welcome(sock):
                say_and_close(sock, self.busy())
            sock.close()
        except OSError:
            pass
        try:
            self._reserve = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            self._pause()

    def busy(self) -> bytes:
        """The bytes that say "busy"."""
        raise NotImplementedError

    def _pause(self) -> None:
        """Accept nothing for a moment; the kernel keeps them in its queue."""
        fd = self._listener.sock.fileno()
        self._loop.watch(fd, 0, self)
        self._loop.call_at(self._loop.now() + PAUSE_SECONDS, self._resume)

    def _resume(self) -> None:
        fd = self._listener.sock.fileno()
        if fd >= 0:
            self._loop.watch(fd, READ, self)

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
        super().__init__(loop, listener, limit)

    def connect(self, sock: socket.socket) -> Connection:
        return HookConnection(self._loop, sock, self._on_frame, self._forget)

    def welcome(self, sock: socket.socket) -> bool:
        try:
            return bool(peer_uid(sock) == os.geteuid())
        except OSError:
            return False  # gone already

    def refuse(self, sock: socket.socket) -> None:
        say_and_close(sock, self.busy())

    def busy(self) -> bytes:
        return frame(b"R")

    def _closed(self, connection: HookConnection) -> None:
        self.connections.discard(connection)
        self._on_close(connection)


class HttpAcceptor(Acceptor):
    """Browsers; one too many gets a 503."""

    def __init__(
        self,
        loop: Loop,
        listener: Listener,
        on_request: Callable[[Request, Exchange], object],
        limit: int,
    ) -> None:
        self._on_request = on_request
        self._forget = self._closed
        super().__init__(loop, listener, limit)

    def connect(self, sock: socket.socket) -> HttpConnection:
        return HttpConnection(self._loop, sock, self._on_request, self._forget)

    def refuse(self, sock: socket.socket) -> None:
        if len(self.connections) >= self._limit + EXTRA:
            say_and_close(sock, self.busy())
            return
        connection = self.connect(sock)
        self._keep(connection)
        connection.refuse(503)

    def busy(self) -> bytes:
        return plain_response(503).encode()

    def _closed(self, connection: HttpConnection) -> None:
        self.connections.discard(connection)


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
