"""The store of several gateways: Redis or Valkey, and how it is reached.

    redis://[user:password@]host[:port][/db]       rediss:// the same over TLS

What is kept where, and the operations, are told in `store`; the steps of one are one
batch of commands: a table is a hash, a text a key with its end, the bus a stream, and
every name begins with `fp:<app id>:`.  One connection is for commands, another waits
for the bus.

A batch is promised its replies.  A reply that comes too late would answer the next
command, so a connection on which one was late is closed; every promise still open then
fails.  What a person has to repair (a wrong password, a cluster) is a StoreRefusal;
everything else passes by itself.  No sentence holds the password.
"""

from __future__ import annotations

import socket
import ssl
import time
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, NamedTuple, Optional
from urllib.parse import unquote, urlsplit

from feishuperm.errors import FeishupermError, ProtocolError, SettingError
from feishuperm.gateway.store import Batch, Store, StoreDown
from feishuperm.lib.log import log
from feishuperm.lib.post import trusting
from feishuperm.lib.task import Promise, run
from feishuperm.messages import message_of, msg
from feishuperm.protocol.resp import PENDING, Failure, Part, ReplyReader, command
from feishuperm.server.connection import Connection
from feishuperm.server.loop import Loop, Timer
from feishuperm.server.outgoing import CLOSED, UP, Backoff, OutgoingConnection

FIRST_PAUSE, LONGEST_PAUSE = 0.1, 5.0  # seconds between tries
RUN_SECONDS = 1.0  # of the 2.5 that a tap has
BLOCK_SECONDS = 2.0  # of one read of the bus: as soon as that a dead line is noticed
COUNT = 500  # entries read at once
BUS_LENGTH = 10_000  # entries that the bus keeps, about
NOTHING = "0-0"
# After these the server is another one, or not itself: look for it again.
MOVED = frozenset(("READONLY", "MASTERDOWN", "UNBLOCKED", "NOREPLICAS", "NOAUTH"))
PORT = 6379
SCHEMES = "redis:// is without, rediss:// with TLS"
MUTE = (socket.timeout, ConnectionError)
SECONDS = 3.0  # a TLS hello to a plain port ends in silence, not in an error
FATAL = frozenset(("WRONGPASS", "NOPERM", "MOVED", "CROSSSLOT"))
MASTER = b"master"
Reader = Callable[[Any], Any]  # of a reply
Replies = Promise[Optional[list[Any]]]  # None: nobody knows what happened


class _Batch(NamedTuple):
    """Some commands on their way."""

    size: int
    replies: list[Any]
    promise: Replies
    timer: Timer


class RedisSocket(Connection):
    """One connection, and the batches on their way."""

    __slots__ = ("_batches", "_reader", "problem")

    def __init__(
        self, loop: Loop, sock: socket.socket, on_close: Callable[[], object]
    ) -> None:
        self._reader = ReplyReader()
        self._batches: deque[_Batch] = deque()
        self.problem = ""  # why it is of no use
        super().__init__(loop, sock, lambda _: on_close())

    def run(self, commands: Sequence[Sequence[Part]], seconds: float) -> Replies:
        """Send a batch, and promise its replies."""
        # First, for it may raise: a batch that never left would be given the replies
        # of the next one.
        data = b"".join(command(*parts) for parts in commands)
        too_late = partial(self.drop, "it does not answer in time")
        timer = self.loop.call_at(self.loop.now() + seconds, too_late)
        promise = Replies()
        self._batches.append(_Batch(len(commands), [], promise, timer))
        self.write(data)
        return promise

    def drop(self, problem: str) -> None:
        """This connection is of no use."""
        self.problem = problem
        self.abort()

    def received(self, data: bytes) -> None:
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
            batch.promise.resolve(batch.replies)

    def closed(self) -> None:
        for batch in self._batches:
            batch.timer.cancel()
        super().closed()
        for batch in self._batches:
            batch.promise.resolve(None)


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
        self.live: RedisSocket | None = None

    def close(self) -> None:
        self.state = CLOSED
        if self.live is not None:
            self.live.close()

    def _failed(self, error: Exception) -> None:
        super()._failed(error)
        if isinstance(error, FeishupermError) and self.state != CLOSED:
            self._fatal(error)

    def _connected(self, dialled: tuple[socket.socket]) -> None:
        self.live = RedisSocket(self._loop, dialled[0], self._ended)
        self._backoff.worked()
        self._enter(UP, "")

    def _ended(self) -> None:
        ended, self.live = self.live, None
        if ended is not None and self.state != CLOSED:
            why = ended.problem or msg("the connection was cut")
            self._wait(why, self._backoff.failed())


class RedisStore(Store):
    """Two connections: one for commands, one that waits for the bus."""

    def __init__(
        self,
        app_id: str,
        connect: Callable[[Callable[[], object]], RedisLine],
        secret: str = "",
        wall: Callable[[], float] = time.time,
    ) -> None:
        super().__init__(app_id, secret, wall)
        self._prefix = f"fp:{app_id}:"
        self._commands = connect(lambda: None)
        self._reader = connect(self._reader_changed)
        self._last = ""  # id of the last entry that was read; empty: not asked yet
        self._failure = ""

    @property
    def ready(self) -> bool:
        are_up = self._commands.state == self._reader.state == UP
        return are_up and not self._failure

    @property
    def problem(self) -> str:
        return self._commands.detail or self._reader.detail or self._failure

    def start(self) -> None:
        self._commands.start()
        self._reader.start()

    def close(self) -> None:
        self._commands.close()
        self._reader.close()

    def _batch(self) -> Batch:
        return RedisBatch(self._prefix, partial(self._run, self._commands))

    async def _run(
        self,
        line: RedisLine,
        commands: Sequence[Sequence[Part]],
        seconds: float = RUN_SECONDS,
    ) -> list[Any]:
        """The replies to some commands. Raises StoreDown."""
        live = line.live
        replies = None if live is None else await live.run(commands, seconds)
        if live is None or replies is None:
            raise StoreDown(line.detail)
        failures = [reply for reply in replies if isinstance(reply, Failure)]
        said = str(failures[0]) if failures else ""
        was, self._failure = self._failure, said
        if not failures:
            return replies
        if said != was:
            log(f"the engine refuses: {said}", "error")
        if failures[0].code in MOVED or line is self._reader:
            live.drop(said)
        raise StoreDown(said)

    # The bus.

    def _reader_changed(self) -> None:
        if self._reader.state == UP:
            run(self._follow(), self._lost_track)

    def _lost_track(self, error: Exception) -> None:
        """Nobody hears the bus: that must not look like a bus that is silent."""
        if isinstance(error, StoreDown):  # of which the connection tells itself
            return
        log(f"the engine said something odd: {error!r}", "error")
        if self._reader.live is not None:
            self._reader.live.drop("the engine said something odd")

    async def _follow(self) -> None:
        """Hear the bus for as long as this connection is up."""
        bus = self._prefix + "bus"
        newest = "XREVRANGE", bus, "+", "-", "COUNT", 1
        (entries,) = await self._run(self._reader, [newest])
        self._find_place(entries[0][0].decode() if entries else NOTHING)
        while True:
            read = ("XREAD", "COUNT", COUNT, "BLOCK", int(BLOCK_SECONDS * 1000),
                    "STREAMS", bus, self._last)  # fmt: skip
            seconds = BLOCK_SECONDS + RUN_SECONDS
            (streams,) = await self._run(self._reader, [read], seconds)
            for _, entries in streams or ():
                self._hear_all(entries)

    def _find_place(self, newest: str) -> None:
        """Where to read on: where it was, or from now; all of it if time ran back."""
        if not self._last:
            self._last = newest
        elif _place(newest) < _place(self._last):
            self._last = NOTHING

    def _hear_all(self, entries: list[Any]) -> None:
        for id, fields in entries:
            self._last = id.decode()
            try:
                if fields:
                    self.hear(fields[1])
            except EDITED as error:
                log(f"an entry of the bus cannot be read: {error!r}", "warning")


# What hearing an entry raises that somebody edited.
EDITED = (FeishupermError, LookupError, ValueError, TypeError, AttributeError)


def _place(id: str) -> tuple[int, int]:
    first, _, second = id.partition("-")
    return int(first), int(second or 0)


def _text(reply: bytes | None) -> str | None:
    return None if reply is None else reply.decode(errors="surrogatepass")


def _texts(reply: list[bytes]) -> dict[str, str]:
    texts = [each.decode(errors="surrogatepass") for each in reply]
    return dict(zip(texts[::2], texts[1::2]))


def _moment(reply: list[bytes]) -> float:
    seconds, micros = reply
    return int(seconds) + int(micros) / 1e6


def _step(verb: str, reader: Reader | None = None) -> Callable[..., RedisBatch]:
    def add(batch: RedisBatch, *parts: Part) -> RedisBatch:
        return batch.add(reader, verb, *parts)

    return add


class RedisBatch:
    """The commands that some steps are, and what makes answers of their replies."""

    def __init__(
        self, prefix: str, run: Callable[[list[Any]], Awaitable[list[Any]]]
    ) -> None:
        self._prefix = prefix
        self._run = run
        self._commands: list[tuple[Part, ...]] = []
        self._readers: list[Reader | None] = []

    put = _step("HSET")
    drop = _step("HDEL")
    clear = _step("DEL")
    row = _step("HGET", _text)
    rows = _step("HGETALL", _texts)
    size = _step("HLEN", int)
    text = _step("GET", _text)
    forget = _step("DEL", bool)
    extend = _step("EXPIRE")

    def keep(self, name: str, text: str, seconds: int) -> RedisBatch:
        return self.add(None, "SET", name, text, "EX", seconds)

    def claim(self, name: str, text: str, seconds: int) -> RedisBatch:
        return self.add(bool, "SET", name, text, "NX", "EX", seconds)

    def count(self, name: str, by: int, seconds: int) -> RedisBatch:
        self.add(None, "SET", name, "0", "NX", "EX", seconds)
        return self.add(int, "INCRBY", name, by)

    def clock(self) -> RedisBatch:
        return self.add(_moment, "TIME")

    def tell(self, entry: str) -> RedisBatch:
        return self.add(None, "XADD", "bus", "MAXLEN", "~", BUS_LENGTH, "*", "d", entry)

    def add(self, reader: Reader | None, verb: str, *parts: Part) -> RedisBatch:
        """A command; the first of its parts is a name."""
        named = (self._prefix + str(name) for name in parts[:1])
        self._commands.append((verb, *named, *parts[1:]))
        self._readers.append(reader)
        return self

    async def done(self) -> list[Any]:
        replies = zip(self._readers, await self._run(self._commands))
        try:
            return [reader(reply) for reader, reply in replies if reader is not None]
        except (ValueError, TypeError, AttributeError):
            raise StoreDown("nonsense") from None


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
        raise _mute(error) from None
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
        raise _mute(error) from None


def _mute(error: Exception) -> OSError:
    """It closed or said nothing: it restarts, or speaks TLS where we do not."""
    is_late = isinstance(error, socket.timeout)
    said = "the engine does not answer" if is_late else "the engine closes"
    return OSError(f"{said}; {SCHEMES}")
