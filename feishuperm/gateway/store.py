"""What a gateway keeps, by what it is for; and what its replicas tell each other.

`FileStore` is for one gateway alone, `redis_store.RedisStore` is shared by replicas.
What an operation writes is there before anything that depends on it is said.

    kept for good                in the file, or a hash of Redis
    machines                     id -> enrolment
    revoked                      id -> when; it outlives a late write of the enrolment
    at                           id -> where the machine is connected, since when
    muted                        id -> until when its owner wants no card
    cards:<machine>              request -> its card
    taps:<machine>               taps on their way to it, sealed

    kept for a while             in memory, or a key of Redis with its end
    alive:<replica>              there while the replica lives
    feishu                       a replica that has Feishu; there while one has
    record:<machine>:<request>   a card that is settled
    recorded:<machine>           characters of those in this hour
    message:<id>                 which machine and request a message is about
    seen:<event>                 an event that was taken up
    code:<hash>, join:<id>       machines that wait for their owner
    wrong, wrong:<sender>        wrong codes
    asked, asked:<person>        cards that nobody asked for
    twice:<machine>              a warning that its key is used twice

    bus                          entries that every replica hears, sealed

Every name begins with `fp:<app id>:`.  `StoreDown` means: nobody knows whether it was
done, tell the person to try again.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, NamedTuple, TypeVar

from feishuperm.app.store import OpenCard, lock_app
from feishuperm.errors import FeishupermError, FileError, PayloadError
from feishuperm.lib.files import open_append, write_all, write_atomic
from feishuperm.lib.log import log
from feishuperm.messages import message_of, msg
from feishuperm.models.ask import from_plain, to_plain
from feishuperm.models.fields import decoded, part_at
from feishuperm.protocol.machine import is_proof, prove

ALIVE_SECONDS = 6  # that a replica counts as alive after its last sign
CODE_SECONDS = 600  # that a code, or a card about a machine, is good
WRONG_SECONDS = 600  # in which wrong codes are counted
ASKED_SECONDS = 60  # between two cards that one person did not ask for
TWICE_SECONDS = 60  # between two warnings that a key is used twice
SEEN_SECONDS = 8 * 3600  # Feishu sends a message again for six hours
MESSAGE_SECONDS = 86400  # of which message is about what
RECORD_SECONDS = 3600  # in which a settled card may still tell the result
MAX_RECORDS = 16 << 20  # characters of one machine's records in that time
REMEMBERED = 5_000  # entries of the bus, to hear none twice
COMPACT = 20_000  # lines of the file before it is written again
SWEEP = 1000  # values in memory, or twice as many as last stayed, before ended ones go
SEAL, SEAL_SIZE = "feishuperm bus v1", 64  # characters of a proof
SEEN, CARRIED = "seen", "carried"  # what is known of an event

JOURNALED = ("HSET", "HDEL", "DEL")
BUS_LENGTH = 10_000  # entries that the bus keeps, about

T = TypeVar("T")
Step = tuple[Any, ...]  # a command of Redis; its key without the app's prefix


class StoreDown(FeishupermError):
    """The store did not do it, or nobody knows whether it did."""


# What is kept. Their fields are the keys in the store: other versions read them.


class Machine(NamedTuple):
    """An enrolment."""

    id: str = ""
    name: str = ""
    owner: str = ""  # open_id
    owner_name: str = ""
    user: str = ""
    address: str = ""
    key: str = ""  # hex
    next: str = ""  # a key that the machine may have stored already
    created: float = 0.0
    previous: str = ""  # the key before: good until the next login

    def name_of(self, who: str) -> str:
        """How a card of this machine names somebody."""
        return (self.owner_name if who == self.owner else "") or person(who)


class Joining(NamedTuple):
    """A machine that waits for its owner."""

    id: str = ""
    replica: str = ""
    name: str = ""
    user: str = ""
    address: str = ""
    owner: str = ""  # who may say yes; empty: anyone who says the code
    who: str = ""  # who was asked
    nonce: str = ""


class Location(NamedTuple):
    """Where a machine is connected; without a replica: where it last was."""

    replica: str = ""
    peer: str = ""  # the connection's id
    instance: str = ""
    address: str = ""
    since: float = 0.0
    can: tuple[str, ...] = ()  # what else the machine understands


# What some operations tell at once.


class CodeTry(NamedTuple):
    """What is known of a code that somebody says."""

    tries: int  # by this person, this one included
    wrong: int  # codes by everybody
    joining: Joining | None


class TapFacts(NamedTuple):
    """Everything that a tap is judged by."""

    is_new: bool
    is_carried: bool
    card: OpenCard | None
    machine: Machine | None
    location: Location | None


class Store:
    """The operations, and the bus.

    Each is made of steps, which are commands of Redis: `RedisStore` sends them in one
    batch, `FileStore` takes them in memory and in its file.  Replies are texts,
    numbers, or None; of HGETALL a dict, of TIME seconds.
    """

    def __init__(self, app_id: str, secret: str, wall: Callable[[], float]) -> None:
        self._seal_key = hashlib.sha256(f"feishuperm bus {secret}".encode()).digest()
        self._prefix = f"fp:{app_id}:"
        self._wall = wall
        self._on_entry: Callable[[dict[str, Any]], object] = lambda entry: None
        self._heard: OrderedDict[str, None] = OrderedDict()  # what is read twice

    @property
    def problem(self) -> str:
        """Why it is not ready."""
        raise NotImplementedError

    @property
    def ready(self) -> bool:
        return not self.problem

    async def _do(self, *steps: Step) -> list[Any]:
        """Take some steps together. Raises StoreDown."""
        raise NotImplementedError

    async def _one(self, *step: Any) -> Any:
        """The reply to one step. Raises StoreDown."""
        return (await self._do(step))[0]

    def _named(self, step: Step) -> Step:
        """A step with its key as it is in the store."""
        return (*step[:1], *(self._prefix + key for key in step[1:2]), *step[2:])

    # Seals, the bus.

    def listen(self, on_entry: Callable[[dict[str, Any]], object]) -> None:
        """Whom to tell of every entry of the bus."""
        self._on_entry = on_entry

    def hear(self, entry: str | bytes) -> None:
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

        Anyone who writes to the store has the machines' keys, and not the app's
        secret: neither a tap, nor when it was, can be made or changed there.
        """
        said = json.dumps(value)
        return prove(self._seal_key, SEAL, said) + said

    def unsealed(self, raw: str | bytes) -> Any:
        """The value again. Raises ValueError for what nobody sealed."""
        text = raw.decode() if isinstance(raw, bytes) else raw
        proof, said = text[:SEAL_SIZE], text[SEAL_SIZE:]
        if not is_proof(proof, self._seal_key, SEAL, said):
            raise ValueError("not sealed by a gateway of this app")
        return decoded(said)

    def derived(self, *parts: str) -> str:
        """A word that every gateway of this app makes of these parts, and nobody else.

        96 bits, as many as a random one would have.
        """
        return prove(self._seal_key, *parts)[:24]

    def _tell(self, kind: str, **parts: Any) -> Step:
        """The step that tells every replica something."""
        entry = self.sealed({"e": os.urandom(8).hex(), "k": kind, **parts})
        return "XADD", "bus", "MAXLEN", "~", BUS_LENGTH, "*", "d", entry

    # Machines.

    async def machine(self, id: str) -> Machine | None:
        """An enrolment, unless it is revoked.

        A revoke is a row of its own, for ever: a replica that had read the machine
        before may write it back after.
        """
        raw, revoked = await self._do(("HGET", "machines", id), ("HGET", "revoked", id))
        return read(Machine, raw) if revoked is None else None

    async def machines(self) -> list[Machine]:
        """Every machine, the oldest first."""
        rows, revoked = await self._do(("HGETALL", "machines"), ("HGETALL", "revoked"))
        machines = [read(Machine, rows[id]) for id in rows if id not in revoked]
        kept = [machine for machine in machines if machine is not None]
        return sorted(kept, key=lambda machine: machine.created)

    async def is_revoked(self, id: str) -> bool:
        return await self._one("HGET", "revoked", id) is not None

    async def put_machine(self, machine: Machine) -> None:
        await self._do(_enrol(machine))

    async def rename_machine(self, machine: Machine) -> None:
        """Keep a machine by its new name, and tell every replica."""
        told = self._tell("renamed", machine=machine.id, name=machine.name)
        await self._do(_enrol(machine), told)

    async def revoke_machine(self, id: str) -> None:
        """Forget a machine, here and on every replica."""
        await self._do(
            ("HSET", "revoked", id, str(round(self._wall()))),
            ("HDEL", "machines", id),
            ("DEL", f"taps:{id}"),
            ("HDEL", "muted", id),
            self._tell("revoked", machine=id),
        )

    async def log_in(self, machine: Machine, location: Location) -> bool:
        """A machine is here, with a new key; False if it is revoked meanwhile."""
        peer, instance = location.peer, location.instance
        *_, revoked = await self._do(
            _enrol(machine),
            ("HSET", "at", machine.id, as_text(location)),
            self._tell("login", machine=machine.id, peer=peer, instance=instance),
            ("HGET", "revoked", machine.id),
        )
        return revoked is None

    # Where they are, and which replicas live.

    async def location(self, id: str) -> Location | None:
        return read(Location, await self._one("HGET", "at", id))

    async def put_location(self, id: str, location: Location) -> None:
        await self._one("HSET", "at", id, as_text(location))

    async def drop_location(self, id: str) -> None:
        await self._one("HDEL", "at", id)

    async def census(self, ids: Sequence[str]) -> list[tuple[Location | None, int]]:
        """Where each machine is, and how many of its cards are out."""
        rows, *counts = await self._do(
            ("HGETALL", "at"), *(("HLEN", f"cards:{id}") for id in ids)
        )
        return [(read(Location, rows.get(id)), n) for id, n in zip(ids, counts)]

    async def sign(self, replica: str, has_feishu: bool) -> tuple[float, str]:
        """Say that a replica lives, and whether it has Feishu.

        Returns the store's clock, and the replica that said last that it has.
        """
        lives = "SET", f"alive:{replica}", "1", "EX", ALIVE_SECONDS
        holds = "SET", "feishu", replica, "EX", ALIVE_SECONDS
        _, now, holder, *_ = await self._do(
            lives, ("TIME",), ("GET", "feishu"), *((holds,) if has_feishu else ())
        )
        return now, holder or ""

    async def sign_off(self, replica: str) -> None:
        await self._one("DEL", f"alive:{replica}")

    async def alive(self, replicas: Sequence[str]) -> set[str]:
        """Which of these replicas live."""
        names = [name for name in replicas if name]
        steps = [("GET", f"alive:{name}") for name in names]
        signs = await self._do(*steps) if names else []
        return {name for name, sign in zip(names, signs) if sign is not None}

    async def may_warn(self, machine: str) -> bool:
        """Whether it is time to warn that a machine's key is used twice."""
        return bool(await self._one(*_new(f"twice:{machine}", "1", TWICE_SECONDS)))

    async def mute(self, machine: str, until: float) -> None:
        """Its owner wants no card until then; tell the replica that holds it."""
        told = self._tell("muted", machine=machine, until=until)
        await self._do(("HSET", "muted", machine, repr(until)), told)

    async def muted_until(self, machine: str) -> float:
        try:
            return float(await self._one("HGET", "muted", machine) or 0)
        except ValueError:  # somebody edited it
            return 0.0

    # Pairing.

    def _code_key(self, code: str) -> str:
        # Behind the app's id: the same code is another one at another gateway.
        whole = f"{self._prefix}code:{code}"
        return f"code:{hashlib.sha256(whole.encode()).hexdigest()}"

    async def open_code(self, code: str, joining: Joining) -> bool:
        """Keep a code; False if another machine has it."""
        kept = _new(self._code_key(code), as_text(joining), CODE_SECONDS)
        return bool(await self._one(*kept))

    async def drop_code(self, code: str) -> None:
        await self._one("DEL", self._code_key(code))

    async def try_code(self, code: str, who: str) -> CodeTry:
        """Count a try of somebody's, then look: many at once are not all the first."""
        _, tries, wrong, raw = await self._do(
            _new(f"wrong:{who}", "0", WRONG_SECONDS),
            ("INCRBY", f"wrong:{who}", 1),
            ("GET", "wrong"),
            ("GET", self._code_key(code)),
        )
        return CodeTry(tries, int(wrong or 0), read(Joining, raw))

    async def extend_tries(self, who: str) -> None:
        """Remember somebody's tries for the whole time again."""
        await self._one("EXPIRE", f"wrong:{who}", WRONG_SECONDS)

    async def count_wrong_code(self) -> None:
        await self._do(("INCRBY", "wrong", 1), ("EXPIRE", "wrong", WRONG_SECONDS))

    async def spend_code(self, code: str, who: str) -> bool:
        """Forgive a try that was right; False if another was faster."""
        forgiven = "INCRBY", f"wrong:{who}", -1
        _, is_spent = await self._do(forgiven, ("DEL", self._code_key(code)))
        return bool(is_spent)

    async def put_asked(self, joining: Joining) -> None:
        """Keep whom a machine's card went to."""
        key = f"join:{joining.id}"
        await self._one("SET", key, as_text(joining), "EX", CODE_SECONDS)

    async def asked(self, id: str) -> Joining | None:
        return read(Joining, await self._one("GET", f"join:{id}"))

    async def spend_asked(self, id: str) -> bool:
        """Whether this answer is the first."""
        return bool(await self._one("DEL", f"join:{id}"))

    async def count_asked(self, who: str) -> tuple[bool, int]:
        """Whether a person was not asked lately; how many people were."""
        is_free, _, count = await self._do(
            _new(f"asked:{who}", "1", ASKED_SECONDS),
            _new("asked", "0", ASKED_SECONDS),
            ("INCRBY", "asked", 1),
        )
        return bool(is_free), count

    async def tell_joined(self, join: str, machine: Machine) -> None:
        """Tell the replica that holds a machine that its owner said yes."""
        await self._do(self._tell("joined", join=join, machine=to_plain(machine)))

    # Cards.

    async def card(self, machine: str, id: str) -> OpenCard | None:
        return read(OpenCard, await self._one("HGET", f"cards:{machine}", id))

    async def cards_of(self, machine: str) -> list[OpenCard]:
        rows = await self._one("HGETALL", f"cards:{machine}")
        cards = (read(OpenCard, raw) for raw in rows.values())
        return [card for card in cards if card is not None]

    async def put_card(self, card: OpenCard) -> None:
        """Keep a card; one that is out is found by its message too."""
        table = f"cards:{card.machine}"
        steps: list[Step] = [("HSET", table, card.ask.id, as_text(card))]
        if card.message_id:
            about = json.dumps([card.machine, card.ask.id])
            key = f"message:{card.message_id}"
            steps.append(("SET", key, about, "EX", MESSAGE_SECONDS))
        await self._do(*steps)

    async def drop_card(self, machine: str, id: str) -> None:
        await self._one("HDEL", f"cards:{machine}", id)

    async def card_of_message(self, message_id: str) -> OpenCard | None:
        """The card that a reply belongs to."""
        raw = await self._one("GET", f"message:{message_id}")
        return await self.card(*json.loads(raw)) if raw is not None else None

    async def put_record(self, card: OpenCard) -> None:
        """Keep a settled card, if this machine's records are not too much already."""
        kept, count = as_text(card), f"recorded:{card.machine}"
        _, size = await self._do(
            _new(count, "0", RECORD_SECONDS), ("INCRBY", count, len(kept))
        )
        if size <= MAX_RECORDS:
            key = f"record:{card.machine}:{card.ask.id}"
            await self._one("SET", key, kept, "EX", RECORD_SECONDS)

    async def record(self, machine: str, id: str) -> OpenCard | None:
        return read(OpenCard, await self._one("GET", f"record:{machine}:{id}"))

    # Events and taps.

    async def is_new_event(self, id: str) -> bool:
        """Whether an event comes for the first time; it does not again."""
        return bool(await self._one(*_new(f"seen:{id}", SEEN, SEEN_SECONDS)))

    async def tap_facts(self, event: str, machine: str, request: str) -> TapFacts:
        """Note an event, and tell everything that it is judged by."""
        is_new, state, card, enrolled, revoked, location = await self._do(
            _new(f"seen:{event}", SEEN, SEEN_SECONDS),
            ("GET", f"seen:{event}"),
            ("HGET", f"cards:{machine}", request),
            ("HGET", "machines", machine),
            ("HGET", "revoked", machine),
            ("HGET", "at", machine),
        )
        return TapFacts(
            bool(is_new),
            state == CARRIED,
            read(OpenCard, card),
            read(Machine, enrolled) if revoked is None else None,
            read(Location, location),
        )

    async def put_tap(self, tap: dict[str, Any], event: str = "") -> None:
        """Keep a tap until its machine has judged it, and tell who holds the machine.

        Its event, if it is one, is known as carried from then on.
        """
        carried = "SET", f"seen:{event}", CARRIED, "EX", SEEN_SECONDS
        await self._do(
            ("HSET", f"taps:{tap['machine']}", tap["tap"], self.sealed(tap)),
            *((carried,) if event else ()),
            self._tell("tap", tap=tap),
        )

    async def note_sent(self, tap: dict[str, Any]) -> None:
        """A machine was given a tap: it may be given again when it comes back."""
        kept = self.sealed({**tap, "sent": True})
        await self._do(
            ("HSET", f"taps:{tap['machine']}", tap["tap"], kept),
            self._tell("sent", tap=tap["tap"]),
        )

    async def drop_tap(self, machine: str, tap: str) -> None:
        await self._one("HDEL", f"taps:{machine}", tap)

    async def tell_receipt(self, machine: str, tap: str, receipt: Any) -> None:
        """A tap is judged: tell the replica that a person waits at."""
        told = self._tell("receipt", tap=tap, receipt=receipt)
        await self._do(("HDEL", f"taps:{machine}", tap), told)

    async def kept_taps(self, machine: str) -> dict[str, dict[str, Any]]:
        """Taps on their way to a machine; an empty one for what nobody sealed."""
        rows = await self._one("HGETALL", f"taps:{machine}")
        return {id: self._unsealed_tap(raw) for id, raw in rows.items()}

    def _unsealed_tap(self, raw: str) -> dict[str, Any]:
        try:
            return part_at(self.unsealed(raw))
        except ValueError:
            return {}


def _enrol(machine: Machine) -> Step:
    return "HSET", "machines", machine.id, as_text(machine)


def _new(key: str, text: str, seconds: int) -> Step:
    """The step that keeps a text for a while, if there is none; whether it did."""
    return "SET", key, text, "NX", "EX", seconds


class FileStore(Store):
    """One gateway alone: a journal, read at the start, written again when it is long.

    Tables are in the file, synced, before an operation returns and before any entry
    is heard; what ends by itself is only in memory.  A line of the file is a step that
    changes a table.
    """

    def __init__(
        self,
        app_id: str,
        path: str,
        wall: Callable[[], float] = time.time,
        secret: str = "",
    ) -> None:
        super().__init__(app_id, secret, wall)
        self._path = path
        self._tables: dict[str, dict[str, str]] = {}
        self._values = Expiring(wall)
        self._changes: list[Step] = []  # not yet in the file
        self._entries: list[str] = []  # not yet told
        self._lines = 0
        self._torn = False  # the file may end in the middle of a line
        self._lock: object = None  # kept for as long as this gateway lives
        self._problem = ""

    @property
    def problem(self) -> str:
        return self._problem

    def start(self) -> None:
        """Read the file. Raises UsageError if another gateway has it."""
        self._lock = lock_app(self._path + ".lock")
        try:
            with open(self._path, "rb") as file:
                for line in file:
                    self._replay(line)
        except FileNotFoundError:
            pass
        except OSError as error:
            raise FileError(
                msg("cannot read {}: {}", self._path, message_of(error))
            ) from None
        self._changes.clear()
        self._compact()

    def close(self) -> None:
        """Nothing is open between two calls."""

    async def _do(self, *steps: Step) -> list[Any]:
        replies = [self._take(step) for step in steps]
        changes, self._changes = self._changes, []
        entries, self._entries = self._entries, []
        try:
            self._save(changes)
        except (OSError, FileError) as error:
            self._problem = message_of(error)
            log(f"the gateway's file cannot be written: {self._problem}", "error")
            raise StoreDown(self._problem) from None
        for entry in entries:  # only now: what somebody acts on is on the disk
            self.hear(entry)
        return replies

    def _take(self, step: Step) -> Any:
        verb, *parts = self._named(step)
        return self._verbs[verb](self, *parts)

    def _rows(self, table: str) -> dict[str, str]:
        return self._tables.get(table, {})

    def _put(self, table: str, field: str, text: str) -> None:
        self._tables.setdefault(table, {})[field] = text
        self._changes.append(("HSET", table, field, text))

    def _drop(self, table: str, field: str) -> None:
        rows = self._rows(table)
        if rows.pop(field, None) is not None:
            self._changes.append(("HDEL", table, field))
            if not rows:
                del self._tables[table]

    def _forget(self, key: str) -> bool:
        if self._tables.pop(key, None) is None:
            return self._values.forget(key)
        self._changes.append(("DEL", key))
        return True

    _verbs: ClassVar[dict[str, Callable[..., Any]]] = {
        "HGET": lambda self, table, field: self._rows(table).get(field),
        "HGETALL": lambda self, table: dict(self._rows(table)),
        "HLEN": lambda self, table: len(self._rows(table)),
        "HSET": _put,
        "HDEL": _drop,
        "DEL": _forget,
        "GET": lambda self, key: self._values.get(key),
        "SET": lambda self, *parts: self._values.keep(*parts),
        "INCRBY": lambda self, key, by: self._values.count(key, by),
        "EXPIRE": lambda self, key, seconds: self._values.extend(key, seconds),
        "TIME": lambda self: self._wall(),
        "XADD": lambda self, *parts: self._entries.append(parts[-1]),
    }

    # The file.

    def _replay(self, line: bytes) -> None:
        try:
            verb, *parts = decoded(line)
            if verb not in JOURNALED or {*map(type, parts)} != {str}:
                raise ValueError
            self._verbs[verb](self, *parts)
        except (ValueError, LookupError, TypeError):
            log("a line of the gateway's file cannot be read", "warning")

    def _save(self, changes: list[Step]) -> None:
        if not changes and not self._torn:
            return
        if self._torn:  # nothing can be appended to half a line
            self._compact()
        else:
            self._torn = True
            self._append(changes)
        self._torn, self._problem = False, ""
        if self._lines > COMPACT:
            self._compact()

    def _append(self, changes: list[Step]) -> None:
        fd = open_append(self._path)
        try:
            write_all(fd, as_lines(changes))
            os.fsync(fd)
        finally:
            os.close(fd)
        self._lines += len(changes)

    def _compact(self) -> None:
        lines = [
            ("HSET", table, field, text)
            for table, rows in self._tables.items()
            for field, text in rows.items()
        ]
        write_atomic(self._path, as_lines(lines), 0o600)
        self._lines = len(lines)


class Expiring:
    """Texts that end by themselves, in memory."""

    def __init__(self, wall: Callable[[], float]) -> None:
        self._wall = wall
        self._texts: dict[str, tuple[str, float]] = {}  # and when they end (0: never)
        self._full = SWEEP

    def get(self, key: str) -> str | None:
        text, until = self._texts.get(key, ("", -1.0))
        if until < 0 or (until and until <= self._wall()):
            self._texts.pop(key, None)
            return None
        return text

    def keep(self, key: str, text: str, *options: Any) -> bool:
        """Whether it is kept: with "NX" only if there is none. The last is its time."""
        if "NX" in options and self.get(key) is not None:
            return False
        self._texts[key] = text, self._wall() + options[-1]
        self._sweep()
        return True

    def count(self, key: str, by: int) -> int:
        """The number then; one that begins here has no end."""
        self.get(key)
        text, until = self._texts.get(key, ("0", 0.0))
        self._texts[key] = str(int(text) + by), until
        return int(text) + by

    def extend(self, key: str, seconds: float) -> None:
        text = self.get(key)
        if text is not None:
            self.keep(key, text, seconds)

    def forget(self, key: str) -> bool:
        is_there = self.get(key) is not None
        self._texts.pop(key, None)
        return is_there

    def _sweep(self) -> None:
        """Now and then, drop what has ended."""
        if len(self._texts) > self._full:
            now = self._wall()
            self._texts = {
                key: value
                for key, value in self._texts.items()
                if not value[1] or value[1] > now
            }
            self._full = max(SWEEP, 2 * len(self._texts))


def as_text(value: Any) -> str:
    """A value as a store keeps it."""
    return json.dumps(to_plain(value))


def as_lines(lines: list[Step]) -> bytes:
    return b"".join(json.dumps(line).encode() + b"\n" for line in lines)


def read(shape: type[T], raw: object) -> T | None:
    """A value as a store kept it; None if there is none, or somebody edited it."""
    if not isinstance(raw, (str, bytes)):
        return None
    try:
        return from_plain(shape, json.loads(raw))
    except (ValueError, PayloadError, RecursionError):
        return None


def person(who: str) -> str:
    """Somebody whose name is not known."""
    return f"…{who[-6:]}" if who else ""
