"""Listening sockets: how an address is claimed, or why it cannot be.

Knows addresses and users; who is let in through them is decided in `server.accept`.

Claiming a unix socket is a race when a stale file is in the way: between the look and
the unlink another server may have put its own there.  So it happens under a lock file
beside the socket, which is gone again when `listen_unix()` returns; from then on the
listening socket itself is the proof that a server lives.

A browser that is told `localhost` tries ::1 as readily as 127.0.0.1, and whoever has an
account here may listen on either.  So `listen_http()` takes the same port on every
address it is given, or none; only a family that the machine lacks is left out.
"""

from __future__ import annotations

import errno
import fcntl
import os
import socket
import stat
from collections.abc import Sequence

from feishuperm.errors import FeishupermError

BACKLOG = 1024
PORT_TRIES = 20  # for a free port that is free in both families
OTHER_PATH = "set PERMISSION_SOCKET_PATH to another path"
NO_SUCH_FAMILY = (errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL, errno.EPROTONOSUPPORT)


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
        raise ListenError(f"no folder {folder} for the socket", f"mkdir -p {folder}")
    lock = _lock(path)
    try:
        _clear(path)
        return Listener([_bind_unix(path)], path)
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
    held = os.fstat(fd)
    return (held.st_dev, held.st_ino) == _identity(name)


def _clear(path: str) -> None:
    """Remove a dead server's socket, and nothing else. Raises ListenError."""
    try:
        there = os.lstat(path)
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(there.st_mode):
        raise ListenError(f"{path} exists and is not a socket", OTHER_PATH)
    if there.st_uid != os.geteuid():
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
    # Private from its first moment.  The mask is that of every thread: with a stricter
    # one, a folder that another thread makes now would be of no use to it.
    old = os.umask(0o077)
    try:
        sock.bind(path)
        os.chmod(path, 0o600)
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
        there = os.lstat(path)
    except OSError:
        return None
    return there.st_dev, there.st_ino


def listen_http(hosts: Sequence[str], port: int) -> Listener:
    """Listening TCP sockets, one for each host, on one port. Raises ListenError.

    The first host must be an address of this machine; of the others, those of a family
    that the machine does not have are left out.
    """
    for attempt in range(PORT_TRIES):
        try:
            return Listener(_bind_all(hosts, port))
        except _PortTaken as taken:
            if port or attempt + 1 == PORT_TRIES:
                raise ListenError(str(taken), taken.hint) from None
    raise AssertionError  # the last attempt has returned or raised


class _PortTaken(ListenError):
    """Another program has the port: with port 0, the next one may be free."""


def _bind_all(hosts: Sequence[str], port: int) -> list[socket.socket]:
    socks: list[socket.socket] = []
    try:
        for host in hosts:
            sock = _bind_http(host, port, optional=bool(socks))
            if sock is not None:
                socks.append(sock)
                port = sock.getsockname()[1]
    except ListenError:
        for sock in socks:
            sock.close()
        raise
    return socks


def _bind_http(host: str, port: int, optional: bool) -> socket.socket | None:
    family, address = _resolve(host, port)
    sock = None
    try:
        sock = socket.socket(family, socket.SOCK_STREAM)
        # Past the remains of old connections, not past another listener: Linux lets
        # nobody share a port that is listened on without SO_REUSEPORT.
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        # Accepted sockets inherit it; a stream's small writes must not wait.
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if family == socket.AF_INET6:  # IPv4 has a socket of its own
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        sock.bind(address)
        sock.listen(BACKLOG)
    except OSError as error:
        if sock is not None:
            sock.close()
        if optional and error.errno in NO_SUCH_FAMILY:
            return None
        raise _http_error(error, host, port) from None
    return sock


def _resolve(host: str, port: int) -> tuple[int, tuple[object, ...]]:
    try:
        places = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
    except (OSError, UnicodeError):
        raise ListenError(
            f"CALLBACK_SERVER_HOST: {host!r} is not an address of this machine"
        ) from None
    return places[0][0], places[0][4]


def _http_error(error: OSError, host: str, port: int) -> ListenError:
    if error.errno == errno.EADDRINUSE:
        return _PortTaken(
            f"port {port} on {host} is taken by another program (CALLBACK_SERVER_PORT)",
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
    return ListenError(f"cannot listen on {host} port {port}: {error.strerror}")
