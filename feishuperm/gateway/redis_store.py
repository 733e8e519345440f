"""The store of several gateways: Redis or Valkey, and how it is reached.

    redis://[user:password@]host[:port][/db]       rediss:// the same over TLS

What is kept where, and the operations, are told in `store`; the steps of one are one
batch of commands.  One connection is for commands, another waits for the bus.

What a person has to repair (a wrong password, a cluster) is a StoreRefusal; everything
else passes by itself.  No sentence holds the password.
"""

from __future__ import annotations

import socket
import ssl
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol
from urllib.parse import unquote, urlsplit

from feishuperm.errors import FeishupermError, SettingError
from feishuperm.gateway.store import Store, StoreDown
from feishuperm.lib.log import log
from feishuperm.lib.post import trusting
from feishuperm.lib.task import Promise
from feishuperm.messages import message_of, msg
from feishuperm.protocol.resp import PENDING, Failure, Part, ReplyReader, command

RUN_SECONDS = 1.0  # of the 2.5 that a tap has
BLOCK_SECONDS = 2.0  # of one read of the bus: as soon as that a dead line is noticed
BUS_LENGTH = 10_000  # entries that the bus keeps, about
COUNT = 500  # entries read at once
NOTHING = "0-0"
# After these the server is another one, or not itself: look for it again.
MOVED = frozenset(("READONLY", "MASTERDOWN", "UNBLOCKED", "NOREPLICAS", "NOAUTH"))
PORT = 6379
SCHEMES = "redis:// is without, rediss:// with TLS"
MUTE = (socket.timeout, ConnectionError)
SECONDS = 3.0  # a TLS hello to a plain port ends in silence, not in an error
FATAL = frozenset(("WRONGPASS", "NOPERM", "MOVED", "CROSSSLOT"))
MASTER = b"master"
Step = tuple[tuple[Part, ...], Callable[[Any], Any]]


class RedisConnection(Protocol):
    """See `server.redis`."""

    state: str
    detail: str  # why it is not up; empty while it is

    def start(self) -> None: ...

    def close(self) -> None: ...

    def drop(self, problem: str) -> None: ...

    def run(
        self,
        commands: Sequence[Sequence[Part]],
        seconds: float,
        done: Callable[[list[Any] | None], object],
    ) -> None: ...


class RedisStore(Store):
    """Two connections: one for commands, one that waits for the bus."""

    def __init__(
        self,
        app_id: str,
        connect: Callable[[Callable[[], object]], RedisConnection],
        secret: str = "",
        wall: Callable[[], float] = time.time,
    ) -> None:
        super().__init__(app_id, secret, wall)
        self._commands = connect(lambda: None)
        self._reader = connect(self._reader_changed)
        self._last = ""  # id of the last entry that was read; empty: not asked yet
        self._failure = ""

    @property
    def ready(self) -> bool:
        both = (self._commands, self._reader)
        return all(one.state == "up" for one in both) and not self._failure

    @property
    def problem(self) -> str:
        return self._commands.detail or self._reader.detail or self._failure

    def start(self) -> None:
        self._commands.start()
        self._reader.start()

    def close(self) -> None:
        self._commands.close()
        self._reader.close()

    # Steps are commands; with them what makes the same reply of Redis' own.

    def _do(self, *steps: Step) -> Promise[list[Any]]:
        promise: Promise[list[Any]] = Promise()

        def done(replies: list[Any] | None) -> None:
            failure = self._failed(replies, self._commands)
            if replies is None or failure:
                promise.fail(StoreDown(failure or self._commands.detail))
                return
            try:
                pairs = zip(steps, replies)
                promise.resolve([read(reply) for (_, read), reply in pairs])
            except (ValueError, TypeError, AttributeError):
                promise.fail(StoreDown("nonsense"))

        self._commands.run([command for command, _ in steps], RUN_SECONDS, done)
        return promise

    def _row(self, table: str, field: str) -> Step:
        return ("HGET", table, field), _text

    def _rows(self, table: str) -> Step:
        return ("HGETALL", table), _texts

    def _size(self, table: str) -> Step:
        return ("HLEN", table), int

    def _put(self, table: str, field: str, text: str) -> Step:
        return ("HSET", table, field, text), int

    def _drop(self, table: str, field: str) -> Step:
        return ("HDEL", table, field), bool

    def _drop_all(self, table: str) -> Step:
        return ("DEL", table), bool

    def _value(self, key: str) -> Step:
        return ("GET", key), _text

    def _keep(self, key: str, text: str, seconds: int) -> Step:
        return ("SET", key, text, "EX", seconds), bool

    def _keep_new(self, key: str, text: str, seconds: int) -> Step:
        return ("SET", key, text, "NX", "EX", seconds), bool

    def _count(self, key: str, by: int = 1) -> Step:
        return ("INCRBY", key, by), int

    def _extend(self, key: str, seconds: int) -> Step:
        return ("EXPIRE", key, seconds), bool

    def _forget(self, key: str) -> Step:
        return ("DEL", key), bool

    def _now(self) -> Step:
        return ("TIME",), _moment

    def _say(self, entry: str) -> Step:
        bus = self._key("bus")
        return ("XADD", bus, "MAXLEN", "~", BUS_LENGTH, "*", "d", entry), _text

    def _failed(self, replies: list[Any] | None, connection: RedisConnection) -> str:
        failures = [reply for reply in replies or () if isinstance(reply, Failure)]
        if not failures:
            self._failure = self._failure if replies is None else ""
            return ""
        said = str(failures[0])
        if said != self._failure:
            log(f"the engine refuses: {said}", "error")
        self._failure = said
        if failures[0].code in MOVED:
            connection.drop(said)
        return said

    # The bus.

    def _reader_changed(self) -> None:
        if self._reader.state == "up":
            last = ("XREVRANGE", self._key("bus"), "+", "-", "COUNT", 1)
            self._reader.run([last], RUN_SECONDS, self._find_place)

    def _find_place(self, replies: list[Any] | None) -> None:
        """Where to read on: where it was, or from now; all of it if time ran back."""
        if replies is None:
            return
        if self._failed(replies, self._reader):
            self._reader.drop(self._failure)
            return
        newest = replies[0][0][0].decode() if replies[0] else NOTHING
        if not self._last:
            self._last = newest
        elif _place(newest) < _place(self._last):
            self._last = NOTHING
        self._read_on()

    def _read_on(self) -> None:
        read = ("XREAD", "COUNT", COUNT, "BLOCK", int(BLOCK_SECONDS * 1000),
                "STREAMS", self._key("bus"), self._last)  # fmt: skip
        self._reader.run([read], BLOCK_SECONDS + RUN_SECONDS, self._read)

    def _read(self, replies: list[Any] | None) -> None:
        if replies is None:
            return
        if self._failed(replies, self._reader):
            self._reader.drop(self._failure)
            return
        for _, entries in replies[0] or ():
            for id, fields in entries:
                self._last = id.decode()
                if fields:
                    self._hear(fields[1])
        self._read_on()

    def _hear(self, entry: bytes) -> None:
        try:
            self.hear(entry)
        except (
            FeishupermError,
            LookupError,
            ValueError,
            TypeError,
            AttributeError,
        ) as error:  # somebody edited it
            log(f"an entry of the bus cannot be read: {error!r}", "warning")


def _place(id: str) -> tuple[int, int]:
    first, _, second = id.partition("-")
    return int(first), int(second or 0)


def _text(reply: bytes | None) -> str | None:
    return None if reply is None else reply.decode(errors="surrogatepass")


def _texts(reply: list[bytes]) -> dict[str | None, str | None]:
    return {_text(field): _text(text) for field, text in zip(reply[::2], reply[1::2])}


def _moment(reply: list[bytes]) -> float:
    seconds, micros = reply
    return int(seconds) + int(micros) / 1e6


# How it is reached: an address in, a connected socket out; blocks.


class StoreRefusal(FeishupermError):
    """The store will not have us, and trying again does not help."""


class Address(NamedTuple):
    """A parsed FEISHUPERM_ENGINE."""

    host: str
    port: int
    secure: bool
    user: str
    password: str
    db: int


def read_address(url: str) -> Address:
    """Raises SettingError, without the address: it may hold a password."""
    try:
        parts = urlsplit(url)
        if parts.scheme not in ("redis", "rediss") or not parts.hostname:
            raise ValueError
        return Address(
            parts.hostname,
            parts.port or PORT,
            parts.scheme == "rediss",
            unquote(parts.username or ""),
            unquote(parts.password or ""),
            int(parts.path.strip("/") or 0),
        )
    except ValueError:
        raise SettingError(
            msg(
                "FEISHUPERM_ENGINE: its value is not "
                "redis://[user:password@]host[:port][/db], or rediss:// the same"
            )
        ) from None


class MuteError(OSError):
    """It closed or said nothing: it restarts, or speaks TLS where we do not."""


class RedisDialler:
    """Dials one server; what may be a wrong scheme is said until it has worked once."""

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
    place = f"{address.host}:{address.port}"
    try:
        sock = socket.create_connection((address.host, address.port), SECONDS)
    except OSError as error:
        reason = message_of(error)
        raise OSError(f"the engine at {place}: {reason}") from None
    try:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if address.secure:
            sock = _secure(sock, address.host, ca_file)
        _log_in(sock, address, place)
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
        said = message_of(error)
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
        raise StoreRefusal(msg("the engine at {} is a cluster: not supported", place))
    fatal = reply.code in FATAL or (reply.code == "ERR" and "AUTH" in reply.text)
    if fatal or reply.code == "NOAUTH" or "DB index" in reply.text:
        raise StoreRefusal(sentence)
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
