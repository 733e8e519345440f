"""Where a gateway keeps what must survive it, and what its replicas tell each other.

The verbs are commands of Redis, a handful of them: `run()` takes some and promises
their replies.  Without an engine they are carried out here, on a file; with one they go
there, and every replica hears what any of them appends to the bus.

    keys, each behind `fp:<app id>:`
    machines          hash: id -> enrolment
    revoked           hash: id -> when; it outlives a late write of the enrolment
    at                hash: id -> where it is connected, since when
    alive:<replica>   there while the replica lives
    feishu            a replica that has Feishu; there while one has
    cards:<machine>   hash: request -> its card
    record:<machine>:<request>   a card that is settled, for an hour
    recorded:<machine>   characters of those in this hour
    message:<id>      which machine and request a message is about
    taps:<machine>    hash: taps on their way to it
    seen:<event>      an event that was taken up
    code:<hash>, join:<id>, wrong, wrong:<sender>, asked:<person>   pairing
    bus               stream of everything above that others must act on

`EngineDown` means: nothing is known, tell the person to try again.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from feishuperm.channels.app.store import hold
from feishuperm.errors import FeishupermError, FileError
from feishuperm.lib.files import open_append, write_all, write_atomic
from feishuperm.lib.log import log
from feishuperm.lib.task import Promise
from feishuperm.models.fields import decoded
from feishuperm.protocol.machine import is_proof, prove
from feishuperm.protocol.resp import Failure, Part


class Line(Protocol):
    """A connection to Redis, see `server.redis`."""

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


RUN_SECONDS = 1.0  # of the 2.5 that a tap has
BLOCK_SECONDS = 2.0  # of one read of the bus: as soon as that a dead line is noticed
BUS_LENGTH = 10_000  # entries that the bus keeps, about
COUNT = 500  # entries read at once
REMEMBERED = 5_000  # of the bus, to hear none twice
COMPACT = 20_000  # lines of the file before it is written anew
SWEEP = 1000  # keys in memory, or twice as many as last stayed, before what ended goes
NOTHING = "0-0"
KEPT = ("HSET", "HDEL", "DEL")  # commands that are in the file
SEAL, SEAL_SIZE = "feishuperm bus v1", 64  # characters of a proof


class EngineDown(FeishupermError):
    """The engine did not do it, or nobody knows whether it did."""


class Engine:
    """What both engines have in common: keys, the bus, how one appends to it."""

    def __init__(self, app_id: str, secret: str = "") -> None:
        self._seal_key = hashlib.sha256(f"feishuperm bus {secret}".encode()).digest()
        self._prefix = f"fp:{app_id}:"
        self._on_entry: Callable[[dict[str, Any]], object] = lambda entry: None
        self._heard: OrderedDict[str, None] = OrderedDict()  # what is read twice

    def listen(self, on_entry: Callable[[dict[str, Any]], object]) -> None:
        """Whom to tell of every entry of the bus."""
        self._on_entry = on_entry

    def hear(self, entry: bytes) -> None:
        """Tell of an entry, once."""
        said = self.unsealed(entry)
        id = said.get("e", "")
        if id in self._heard:
            return
        self._heard[id] = None
        if len(self._heard) > REMEMBERED:
            self._heard.popitem(last=False)
        self._on_entry(said)

    def sealed(self, value: Any) -> str:
        """A value as only a gateway of this app can have written it.

        Anyone who writes to the engine has the machines' keys, and not the app's
        secret: neither a tap, nor when it was, can be made or changed there.
        """
        said = json.dumps(value)
        return prove(self._seal_key, SEAL, said) + said

    def unsealed(self, raw: bytes) -> Any:
        """The value again. Raises ValueError for what nobody sealed."""
        proof, said = (part.decode() for part in (raw[:SEAL_SIZE], raw[SEAL_SIZE:]))
        if not is_proof(proof, self._seal_key, SEAL, said):
            raise ValueError("not sealed by a gateway of this app")
        return decoded(said)

    def derived(self, *parts: str) -> str:
        """A word that every gateway of this app makes of these parts, and nobody else.

        96 bits, as many as a random one would have.
        """
        return prove(self._seal_key, *parts)[:24]

    def key(self, *parts: str) -> str:
        return self._prefix + ":".join(parts)

    def entry(self, kind: str, **parts: Any) -> tuple[Part, ...]:
        """The command that tells every replica something."""
        said = self.sealed({"e": os.urandom(8).hex(), "k": kind, **parts})
        return ("XADD", self.key("bus"), "MAXLEN", "~", BUS_LENGTH, "*", "d", said)


# One gateway alone: a file.


class FileEngine(Engine):
    """A journal of JSON lines, read at the start and written anew when it is long.

    What has to last is in it, synced, before `run()` returns; what ends by itself
    within minutes (`EX`) is only in memory, but for cards and messages.
    """

    def __init__(
        self,
        app_id: str,
        path: str,
        wall: Callable[[], float] = time.time,
        secret: str = "",
    ) -> None:
        super().__init__(app_id, secret)
        self._path = path
        self._wall = wall
        self._texts: dict[str, tuple[bytes, float]] = {}  # value, end (0: none)
        self._hashes: dict[str, dict[str, bytes]] = {}
        self._said: list[bytes] = []  # to the bus, by the commands under way
        self._lines = 0
        self._full = SWEEP
        self._torn = False  # the file may end in the middle of a line
        self._lock: object = None  # kept for as long as this gateway lives
        self.problem = ""

    @property
    def ready(self) -> bool:
        return not self.problem

    def start(self) -> None:
        """Read the file. Raises UsageError if another gateway has it."""
        self._lock = hold(self._path + ".lock")
        try:
            with open(self._path, "rb") as file:
                for line in file:
                    self._replay(line)
        except FileNotFoundError:
            pass
        except OSError as error:
            raise FileError(f"cannot read {self._path}: {error.strerror}") from None
        self._compact()

    def close(self) -> None:
        """Nothing is open between two calls."""

    def run(self, *commands: Sequence[Part]) -> Promise[list[Any]]:
        promise: Promise[list[Any]] = Promise()
        kept: list[list[str]] = []
        texts = [[_text(part) for part in parts] for parts in commands]
        replies = [self._do(parts, kept) for parts in texts]
        self._forget()
        said, self._said = self._said, []
        try:
            self._keep(kept)
        except (OSError, FileError) as error:
            self.problem = getattr(error, "strerror", "") or str(error)
            log(f"the gateway's file cannot be written: {self.problem}", "error")
            promise.fail(EngineDown(self.problem))
            return promise
        for entry in said:  # only now: what somebody acts on is on the disk
            self.hear(entry)
        promise.resolve(replies)
        return promise

    def _keep(self, kept: list[list[str]]) -> None:
        if not kept and not self._torn:
            return
        if self._torn:  # nothing can be appended to half a line
            self._compact()
        else:
            self._torn = True
            self._append(kept)
        self._torn, self.problem = False, ""
        if self._lines > COMPACT:
            self._compact()

    def _append(self, kept: list[list[str]]) -> None:
        fd = open_append(self._path)
        try:
            write_all(fd, b"".join(json.dumps(k).encode() + b"\n" for k in kept))
            os.fsync(fd)
        finally:
            os.close(fd)
        self._lines += len(kept)

    def _compact(self) -> None:
        lines = [
            ["HSET", key, field, value.decode(errors="surrogatepass")]
            for key, fields in self._hashes.items()
            for field, value in fields.items()
        ]
        data = b"".join(json.dumps(line).encode() + b"\n" for line in lines)
        write_atomic(self._path, data, 0o600)
        self._lines = len(lines)

    def _replay(self, line: bytes) -> None:
        try:
            parts = decoded(line)
            if not isinstance(parts, list) or {*map(type, parts)} != {str}:
                raise ValueError
            if parts[0] not in KEPT:
                raise ValueError
            self._do(parts, [])
        except (ValueError, IndexError, KeyError):
            log("a line of the gateway's file cannot be read", "warning")

    def _do(self, parts: list[str], kept: list[list[str]]) -> Any:
        name, *rest = parts
        key = rest.pop(0) if rest else ""
        if name == "HSET" or (name in KEPT and key in self._hashes):
            kept.append(parts)
        return _COMMANDS[name](self, key, rest)

    # The commands, as Redis has them.

    def _get(self, key: str, rest: list[str]) -> Any:
        value, until = self._texts.get(key, (b"", -1.0))
        if until < 0 or (until and until <= self._wall()):
            self._texts.pop(key, None)
            return None
        return value

    def _set(self, key: str, rest: list[str]) -> Any:
        options = rest[1:]
        if "NX" in options and self._get(key, []) is not None:
            return None
        seconds = float(options[options.index("EX") + 1]) if "EX" in options else 0.0
        until = self._wall() + seconds if seconds else 0.0
        self._texts[key] = (_bytes(rest[0]), until)
        return b"OK"

    def _incrby(self, key: str, rest: list[str]) -> Any:
        self._get(key, [])
        value, until = self._texts.get(key, (b"0", 0.0))
        count = int(value) + int(rest[0])
        self._texts[key] = (b"%d" % count, until)
        return count

    def _expire(self, key: str, rest: list[str]) -> Any:
        value = self._get(key, [])
        if value is None:
            return 0
        if "NX" not in rest or not self._texts[key][1]:
            self._texts[key] = (value, self._wall() + float(rest[0]))
        return 1

    def _del(self, key: str, rest: list[str]) -> Any:
        text, fields = self._texts.pop(key, None), self._hashes.pop(key, None)
        return int(text is not None or fields is not None)

    def _hset(self, key: str, rest: list[str]) -> Any:
        fields = self._hashes.setdefault(key, {})
        new = rest[0] not in fields
        fields[rest[0]] = _bytes(rest[1])
        return int(new)

    def _hget(self, key: str, rest: list[str]) -> Any:
        return self._hashes.get(key, {}).get(rest[0])

    def _hgetall(self, key: str, rest: list[str]) -> Any:
        return [
            part
            for field, value in self._hashes.get(key, {}).items()
            for part in (_bytes(field), value)
        ]

    def _hlen(self, key: str, rest: list[str]) -> Any:
        return len(self._hashes.get(key, {}))

    def _hdel(self, key: str, rest: list[str]) -> Any:
        gone = self._hashes.get(key, {}).pop(rest[0], None)
        if not self._hashes.get(key, {"": b""}):
            del self._hashes[key]
        return int(gone is not None)

    def _exists(self, key: str, rest: list[str]) -> Any:
        return int(self._get(key, []) is not None or key in self._hashes)

    def _time(self, key: str, rest: list[str]) -> Any:
        seconds, part = divmod(self._wall(), 1)
        return [b"%d" % seconds, b"%d" % (part * 1e6)]

    def _xadd(self, key: str, rest: list[str]) -> Any:
        self._said.append(rest[-1].encode())
        return b"0-1"

    def _forget(self) -> None:
        """Now and then, drop what has ended."""
        if len(self._texts) > self._full:
            now = self._wall()
            self._texts = {
                key: value
                for key, value in self._texts.items()
                if not value[1] or value[1] > now
            }
            self._full = max(SWEEP, 2 * len(self._texts))


_COMMANDS: dict[str, Callable[[FileEngine, str, list[str]], Any]] = {
    "GET": FileEngine._get,
    "SET": FileEngine._set,
    "INCR": lambda engine, key, rest: engine._incrby(key, ["1"]),
    "INCRBY": FileEngine._incrby,
    "EXPIRE": FileEngine._expire,
    "DEL": FileEngine._del,
    "HSET": FileEngine._hset,
    "HGET": FileEngine._hget,
    "HGETALL": FileEngine._hgetall,
    "HLEN": FileEngine._hlen,
    "HDEL": FileEngine._hdel,
    "EXISTS": FileEngine._exists,
    "TIME": FileEngine._time,
    "XADD": FileEngine._xadd,
}


# Several gateways: Redis or Valkey.


class RedisEngine(Engine):
    """Two connections: one for commands, one that waits for the bus."""

    # After these the server is another one, or not itself: look for it again.
    MOVED = frozenset(("READONLY", "MASTERDOWN", "UNBLOCKED", "NOREPLICAS", "NOAUTH"))

    def __init__(
        self,
        app_id: str,
        line: Callable[[Callable[[], object]], Line],
        secret: str = "",
    ) -> None:
        super().__init__(app_id, secret)
        self._commands = line(lambda: None)
        self._reader = line(self._reader_changed)
        self._last = ""  # id of the last entry that was read; empty: not asked yet
        self._failure = ""

    @property
    def ready(self) -> bool:
        lines = (self._commands, self._reader)
        return all(line.state == "up" for line in lines) and not self._failure

    @property
    def problem(self) -> str:
        return self._commands.detail or self._reader.detail or self._failure

    def start(self) -> None:
        self._commands.start()
        self._reader.start()

    def close(self) -> None:
        self._commands.close()
        self._reader.close()

    def run(self, *commands: Sequence[Part]) -> Promise[list[Any]]:
        promise: Promise[list[Any]] = Promise()

        def done(replies: list[Any] | None) -> None:
            failure = self._failed(replies, self._commands)
            if replies is None or failure:
                promise.fail(EngineDown(failure or self._commands.detail))
            else:
                promise.resolve(replies)

        self._commands.run(commands, RUN_SECONDS, done)
        return promise

    def _failed(self, replies: list[Any] | None, line: Line) -> str:
        failures = [reply for reply in replies or () if isinstance(reply, Failure)]
        if not failures:
            self._failure = self._failure if replies is None else ""
            return ""
        said = str(failures[0])
        if said != self._failure:
            log(f"the engine refuses: {said}", "error")
        self._failure = said
        if failures[0].code in self.MOVED:
            line.drop(said)
        return said

    # The bus.

    def _reader_changed(self) -> None:
        if self._reader.state == "up":
            last = ("XREVRANGE", self.key("bus"), "+", "-", "COUNT", 1)
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
                "STREAMS", self.key("bus"), self._last)  # fmt: skip
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


def _text(part: Part) -> str:
    return part.decode() if isinstance(part, bytes) else str(part)


def _bytes(text: str) -> bytes:
    return text.encode(errors="surrogatepass")
