"""How a gateway reaches its engine: an address in, a connected socket out; blocks.

    redis://[user:password@]host[:port][/db]       rediss:// the same over TLS
    redis+sentinel://host:port,host:port/master[/db]

What a person has to mend (a wrong password, a cluster) is an EngineRefusal; everything
else passes by itself.  No sentence holds the password.
"""

from __future__ import annotations

import socket
import ssl
from typing import Any, NamedTuple
from urllib.parse import unquote, urlsplit

from feishuperm.errors import FeishupermError, SettingError
from feishuperm.lib.post import trusting
from feishuperm.protocol.resp import PENDING, Failure, ReplyReader, command

PORT, SENTINEL_PORT = 6379, 26379
SCHEMES = "redis:// is without, rediss:// with TLS"
MUTE = (socket.timeout, ConnectionError)
SECONDS = 3.0  # a TLS hello to a plain port ends in silence, not in an error
FATAL = frozenset(("WRONGPASS", "NOPERM", "MOVED", "CROSSSLOT"))
MASTER = b"master"


class EngineRefusal(FeishupermError):
    """The engine will not have us, and trying again does not help."""


class Address(NamedTuple):
    """A parsed FEISHUPERM_ENGINE."""

    hosts: tuple[tuple[str, int], ...]
    secure: bool
    user: str
    password: str
    db: int
    master: str  # of a Sentinel; empty: the host is the server itself


def read_address(url: str) -> Address:
    """Raises SettingError, without the address: it may hold a password."""
    try:
        return _read_address(url)
    except ValueError:
        raise SettingError(
            "FEISHUPERM_ENGINE: its value is not redis://[user:password@]host[:port]"
            "[/db], rediss:// the same, or redis+sentinel://host:port,.../master[/db]"
        ) from None


def _read_address(url: str) -> Address:
    scheme, _, rest = url.partition("://")
    if scheme == "redis+sentinel":
        return _read_sentinels(rest)
    parts = urlsplit(url)
    if scheme not in ("redis", "rediss") or not parts.hostname:
        raise ValueError
    db = int(parts.path.strip("/") or 0)
    host = (parts.hostname, parts.port or PORT)
    user, password = unquote(parts.username or ""), unquote(parts.password or "")
    return Address((host,), scheme == "rediss", user, password, db, "")


def _read_sentinels(rest: str) -> Address:
    credentials, _, rest = rest.rpartition("@")
    names, *path = rest.split("/")
    if not path or not path[0]:
        raise ValueError
    user, _, password = credentials.partition(":")
    hosts = tuple(_host(name, SENTINEL_PORT) for name in names.split(","))
    db = int(path[1]) if len(path) > 1 and path[1] else 0
    return Address(hosts, False, unquote(user), unquote(password), db, path[0])


def _host(name: str, port: int) -> tuple[str, int]:
    host, _, number = name.rpartition(":")
    return (host, int(number)) if host else (name, port)


class MuteError(OSError):
    """It closed or said nothing: it restarts, or speaks TLS where we do not."""


class RedisDialler:
    """Dials one engine; what may be a wrong scheme is said until it has worked once."""

    def __init__(self, address: Address, ca_file: str = "") -> None:
        self._address = address
        self._ca_file = ca_file
        self._has_worked = False

    def __call__(self) -> socket.socket:
        try:
            sock = dial_redis(self._address, self._ca_file)
        except MuteError as error:
            if self._has_worked:
                raise
            raise OSError(f"{error}; {SCHEMES}") from None
        self._has_worked = True
        return sock


def dial_redis(address: Address, ca_file: str = "") -> socket.socket:
    """A connection that is logged in and in its database. Raises OSError, or above."""
    if not address.master:
        return _open(address, *address.hosts[0], ca_file)
    problem: Exception = OSError("no sentinel")
    for host, port in address.hosts:
        try:
            return _open(address, *_ask_sentinel(host, port, address.master), ca_file)
        except OSError as error:
            problem = error
    raise problem


def _ask_sentinel(host: str, port: int, master: str) -> tuple[str, int]:
    with socket.create_connection((host, port), SECONDS) as sock:
        reply = _ask(sock, "SENTINEL", "get-master-addr-by-name", master)
    if not isinstance(reply, list) or len(reply) != 2:
        raise EngineRefusal(f"the sentinel at {host} knows no master {master!r}")
    return reply[0].decode(), int(reply[1])


def _open(address: Address, host: str, port: int, ca_file: str) -> socket.socket:
    try:
        sock = socket.create_connection((host, port), SECONDS)
    except OSError as error:
        reason = error.strerror or str(error)
        raise OSError(f"the engine at {host}:{port}: {reason}") from None
    try:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if address.secure:
            sock = _secure(sock, host, ca_file)
        _log_in(sock, address, f"{host}:{port}")
        return sock
    except BaseException:
        sock.close()
        raise


def _secure(sock: socket.socket, host: str, ca_file: str) -> socket.socket:
    try:
        return trusting(ca_file).wrap_socket(sock, server_hostname=host)
    except (ssl.SSLEOFError, ssl.SSLZeroReturnError, *MUTE) as error:
        raise MuteError(_mute(error)) from None
    except OSError as error:
        said = error.strerror or error
        raise OSError(
            f"the engine at {host} speaks no TLS we trust ({said}); {SCHEMES}"
        ) from None


def _log_in(sock: socket.socket, address: Address, place: str) -> None:
    if address.password:
        user = (address.user,) if address.user else ()
        _check(_ask(sock, "AUTH", *user, address.password), place)
    if address.db:
        _check(_ask(sock, "SELECT", address.db), place)
    role = _ask(sock, "ROLE")
    _check(role, place)
    if isinstance(role, list) and role and role[0] != MASTER:
        raise OSError(f"the engine at {place} is a {role[0].decode()}, not a master")
    _check(_ask(sock, "GET", "fp:"), place)


def _check(reply: Any, place: str) -> None:
    if not isinstance(reply, Failure):
        return
    sentence = f"the engine at {place} says: {reply}"
    cluster = reply.code in ("MOVED", "CROSSSLOT") or "cluster mode" in reply.text
    if cluster:
        raise EngineRefusal(f"the engine at {place} is a cluster: not supported")
    fatal = reply.code in FATAL or (reply.code == "ERR" and "AUTH" in reply.text)
    if fatal or reply.code == "NOAUTH" or "DB index" in reply.text:
        raise EngineRefusal(sentence)
    raise OSError(sentence)


def _ask(sock: socket.socket, *parts: Any) -> Any:
    """One command, one reply."""
    try:
        sock.sendall(command(*parts))
        reader = ReplyReader()
        while (reply := reader.next_reply()) is PENDING:
            data = sock.recv(4096)
            if not data:
                raise ConnectionResetError
            reader.receive_data(data)
        return reply
    except MUTE as error:
        raise MuteError(_mute(error)) from None


def _mute(error: Exception) -> str:
    is_late = isinstance(error, socket.timeout)
    return "the engine does not answer" if is_late else "the engine closes"
