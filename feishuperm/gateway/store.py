"""What a gateway keeps, by what it is for; and what its replicas tell each other.

`FileStore` is for one gateway alone, `redis_store.RedisStore` is shared by replicas.
What an operation writes is there before anything that depends on it is said.

    kept for good                rows of tables
    machines                     id -> enrolment
    revoked                      id -> when; it outlives a late write of the enrolment
    at                           id -> where the machine is connected, since when
    muted                        id -> until when its owner wants no card
    cards:<machine>              request -> its card
    taps:<machine>               taps on their way to it, sealed
    shown:<machine>              key -> a message about one of its sessions

    kept for a while             texts with an end
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

An operation is one `Batch` of steps.  `StoreDown` means: nobody knows whether it was
done, tell the person to try again.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, Optional, Protocol, TypeVar

from feishuperm.app.store import MOST_SHOWN, OpenCard, Shown, lock_app
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

PARTS = {"HSET": 4, "HDEL": 3, "DEL": 2}  # of a line of the file, by its verb

K = TypeVar("K")
T = TypeVar("T")
Change = tuple[str, str, Optional[str]]  # table, row, text or None


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


class TapFacts(NamedTuple):
    """Everything that a tap is judged by."""

    is_new: bool
    is_carried: bool
    card: OpenCard | None
    machine: Machine | None
    location: Location | None


class Batch(Protocol):
    """Steps that a store takes together; those that ask have an answer each."""

    def put(self, table: str, row: str, text: str) -> Batch: ...
    def drop(self, table: str, row: str) -> Batch: ...
    def clear(self, table: str) -> Batch: ...
    def row(self, table: str, row: str) -> Batch: ...  # asks: its text, or None
    def rows(self, table: str) -> Batch: ...  # asks: texts by row
    def size(self, table: str) -> Batch: ...  # asks: how many rows

    def keep(self, name: str, text: str, seconds: int) -> Batch: ...
    def claim(self, name: str, text: str, seconds: int) -> Batch: ...
    # The one above keeps a text if there is none, and asks whether it did.
    def text(self, name: str) -> Batch: ...  # asks: it, or None
    def forget(self, name: str) -> Batch: ...  # asks: whether it was there
    def count(self, name: str, by: int, seconds: int) -> Batch: ...  # asks: the sum
    def extend(self, name: str, seconds: int) -> Batch: ...

    def clock(self) -> Batch: ...  # asks: the store's
    def tell(self, entry: str) -> Batch: ...

    async def done(self) -> list[Any]:
        """The answers, in their order. Raises StoreDown."""


class Store:
    """The operations, and the bus."""

    def __init__(self, app_id: str, secret: str, wall: Callable[[], float]) -> None:
        self._seal_key = hashlib.sha256(f"feishuperm bus {secret}".encode()).digest()
        self._app_id = app_id
        self._wall = wall
        self._on_entry: Callable[[dict[str, Any]], object] = lambda entry: None
        self._heard: dict[str, None] = {}  # what is read twice

    @property
    def problem(self) -> str:
        """Why it is not ready."""
        raise NotImplementedError

    @property
    def ready(self) -> bool:
        return not self.problem

    def _batch(self) -> Batch:
        raise NotImplementedError

    # Seals, the bus.

    def listen(self, on_entry: Callable[[dict[str, Any]], object]) -> None:
        """Whom to tell of every entry of the bus."""
        self._on_entry = on_entry

    def hear(self, entry: str | bytes) -> None:
        """Tell of an entry, once."""
        said = self.unsealed(entry)
        id = said.get("e", "")
        if id not in self._heard:
            remember(self._heard, id, None, REMEMBERED)
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

    def _entry(self, kind: str, **parts: Any) -> str:
        """What tells every replica something."""
        return self.sealed({"e": os.urandom(8).hex(), "k": kind, **parts})

    # Machines.

    async def machine(self, id: str) -> Machine | None:
        """An enrolment, unless it is revoked.

        A revoke is a row of its own, for ever: a replica that had read the machine
        before may write it back after.
        """
        steps = self._batch().row("machines", id).row("revoked", id)
        raw, revoked = await steps.done()
        return read(Machine, raw) if revoked is None else None

    async def machines(self) -> list[Machine]:
        """Every machine, the oldest first."""
        rows, revoked = await self._batch().rows("machines").rows("revoked").done()
        machines = _read_all(Machine, [rows[id] for id in rows if id not in revoked])
        return sorted(machines, key=lambda machine: machine.created)

    async def is_revoked(self, id: str) -> bool:
        return await _one(self._batch().row("revoked", id)) is not None

    async def put_machine(self, machine: Machine) -> None:
        await self._enrol(machine).done()

    def _enrol(self, machine: Machine) -> Batch:
        return self._batch().put("machines", machine.id, as_text(machine))

    async def rename_machine(self, machine: Machine) -> None:
        """Keep a machine by its new name, and tell every replica."""
        entry = self._entry("renamed", machine=machine.id, name=machine.name)
        await self._enrol(machine).tell(entry).done()

    async def revoke_machine(self, id: str) -> None:
        """Forget a machine, here and on every replica."""
        steps = self._batch().put("revoked", id, str(round(self._wall())))
        steps.drop("machines", id).drop("at", id).drop("muted", id)
        steps.clear(f"taps:{id}").clear(f"shown:{id}")
        await steps.tell(self._entry("revoked", machine=id)).done()

    async def log_in(
        self, machine: Machine, location: Location, restarted: bool = False
    ) -> bool:
        """A machine is here, with a new key; False if it is revoked meanwhile."""
        told = {"machine": machine.id, "peer": location.peer, "restarted": restarted}
        entry = self._entry("login", **told)
        steps = self._enrol(machine).put("at", machine.id, as_text(location))
        (revoked,) = await steps.tell(entry).row("revoked", machine.id).done()
        return revoked is None

    # Where they are, and which replicas live.

    async def location(self, id: str) -> Location | None:
        return read(Location, await _one(self._batch().row("at", id)))

    async def put_location(self, id: str, location: Location) -> None:
        await self._batch().put("at", id, as_text(location)).done()

    async def census(self, ids: Sequence[str]) -> list[tuple[Location | None, int]]:
        """Where each machine is, and how many of its cards are out."""
        steps = self._batch().rows("at")
        for id in ids:
            steps.size(f"cards:{id}")
        rows, *counts = await steps.done()
        return [(read(Location, rows.get(id)), n) for id, n in zip(ids, counts)]

    async def sign(self, replica: str, has_feishu: bool) -> tuple[float, str]:
        """Say that a replica lives, and whether it has Feishu.

        Returns the store's clock, and the replica that said last that it has.
        """
        steps = self._batch().keep(f"alive:{replica}", "1", ALIVE_SECONDS)
        steps.clock().text("feishu")
        if has_feishu:
            steps.keep("feishu", replica, ALIVE_SECONDS)
        now, holder = await steps.done()
        return now, holder or ""

    async def sign_off(self, replica: str) -> None:
        await self._batch().forget(f"alive:{replica}").done()

    async def alive(self, replicas: Sequence[str]) -> set[str]:
        """Which of these replicas live."""
        names = [name for name in replicas if name]
        steps = self._batch()
        for name in names:
            steps.text(f"alive:{name}")
        signs = await steps.done() if names else []
        return {name for name, sign in zip(names, signs) if sign is not None}

    async def may_warn(self, machine: str) -> bool:
        """Whether it is time to warn that a machine's key is used twice."""
        steps = self._batch().claim(f"twice:{machine}", "1", TWICE_SECONDS)
        return bool(await _one(steps))

    async def mute(self, machine: str, until: float) -> None:
        """Its owner wants no card until then; tell the replica that holds it."""
        entry = self._entry("muted", machine=machine, until=until)
        await self._batch().put("muted", machine, repr(until)).tell(entry).done()

    async def muted_until(self, machine: str) -> float:
        raw = await _one(self._batch().row("muted", machine))
        try:
            return float(raw or 0)
        except ValueError:  # somebody edited it
            return 0.0

    # Pairing.

    def _code(self, code: str) -> str:
        # Behind the app's id: the same code is another one at another gateway.
        whole = f"fp:{self._app_id}:code:{code}"
        return f"code:{hashlib.sha256(whole.encode()).hexdigest()}"

    async def open_code(self, code: str, joining: Joining) -> bool:
        """Keep a code; False if another machine has it."""
        name, text = self._code(code), as_text(joining)
        return bool(await _one(self._batch().claim(name, text, CODE_SECONDS)))

    async def drop_code(self, code: str) -> None:
        await self._batch().forget(self._code(code)).done()

    async def try_code(self, code: str, who: str) -> tuple[int, int, Joining | None]:
        """Count a try of somebody's, then look: many at once are not all the first.

        Returns their tries, wrong codes of everybody, and the machine.
        """
        steps = self._batch().count(f"wrong:{who}", 1, WRONG_SECONDS)
        tries, wrong, raw = await steps.text("wrong").text(self._code(code)).done()
        return tries, int(wrong or 0), read(Joining, raw)

    async def count_wrong_code(self, who: str) -> None:
        """Count it for all, and remember it and their tries for the whole time."""
        steps = self._batch().count("wrong", 1, WRONG_SECONDS)
        steps.extend("wrong", WRONG_SECONDS).extend(f"wrong:{who}", WRONG_SECONDS)
        await steps.done()

    async def spend_code(self, code: str, who: str) -> bool:
        """Forgive a try that was right; False if another was faster."""
        steps = self._batch().count(f"wrong:{who}", -1, WRONG_SECONDS)
        _, is_spent = await steps.forget(self._code(code)).done()
        return bool(is_spent)

    async def put_asked(self, joining: Joining) -> None:
        """Keep whom a machine's card went to."""
        name = f"join:{joining.id}"
        await self._batch().keep(name, as_text(joining), CODE_SECONDS).done()

    async def asked(self, id: str) -> Joining | None:
        return read(Joining, await _one(self._batch().text(f"join:{id}")))

    async def spend_asked(self, id: str) -> bool:
        """Whether this answer is the first."""
        return bool(await _one(self._batch().forget(f"join:{id}")))

    async def count_asked(self, who: str) -> tuple[bool, int]:
        """Whether a person was not asked lately; how many people were."""
        steps = self._batch().claim(f"asked:{who}", "1", ASKED_SECONDS)
        is_free, count = await steps.count("asked", 1, ASKED_SECONDS).done()
        return bool(is_free), count

    async def tell_joined(self, join: str, machine: Machine) -> None:
        """Tell the replica that holds a machine that its owner said yes."""
        entry = self._entry("joined", join=join, machine=to_plain(machine))
        await self._batch().tell(entry).done()

    # Cards.

    async def card(self, machine: str, id: str) -> OpenCard | None:
        return read(OpenCard, await _one(self._batch().row(f"cards:{machine}", id)))

    async def cards_of(self, machine: str) -> list[OpenCard]:
        rows = await _one(self._batch().rows(f"cards:{machine}"))
        return _read_all(OpenCard, rows.values())

    async def put_card(self, card: OpenCard) -> None:
        """Keep a card; one that is out is found by its message too."""
        steps = self._batch().put(f"cards:{card.machine}", card.ask.id, as_text(card))
        self._keep_message(steps, card)
        await steps.done()

    def _keep_message(self, steps: Batch, card: OpenCard) -> None:
        if card.message_id:
            about = json.dumps([card.machine, card.ask.id])
            steps.keep(f"message:{card.message_id}", about, MESSAGE_SECONDS)

    async def drop_card(self, machine: str, id: str) -> None:
        await self._batch().drop(f"cards:{machine}", id).done()

    async def card_of_message(self, message_id: str) -> OpenCard | None:
        """The card that a reply belongs to."""
        raw = await _one(self._batch().text(f"message:{message_id}"))
        return await self.card(*json.loads(raw)) if raw is not None else None

    async def put_record(self, card: OpenCard) -> None:
        """Keep a settled card, if this machine's records are not too much already."""
        kept, count = as_text(card), f"recorded:{card.machine}"
        steps = self._batch().count(count, len(kept), RECORD_SECONDS)
        if await _one(steps) <= MAX_RECORDS:
            name = f"record:{card.machine}:{card.ask.id}"
            await self._batch().keep(name, kept, RECORD_SECONDS).done()

    async def record(self, machine: str, id: str) -> OpenCard | None:
        name = f"record:{machine}:{id}"
        return read(OpenCard, await _one(self._batch().text(name)))

    # Messages about sessions, see `app.panels`.

    async def shown(self, machine: str) -> list[Shown]:
        rows = await _one(self._batch().rows(f"shown:{machine}"))
        return sorted(_read_all(Shown, rows.values()), key=lambda row: row.since)

    async def put_shown(self, machine: str, row: Shown) -> None:
        steps = self._batch().put(f"shown:{machine}", row.key, as_text(row))
        steps.size(f"shown:{machine}").row("revoked", machine)
        size, revoked = await steps.done()
        if revoked is not None:
            await self._batch().clear(f"shown:{machine}").done()
        elif size > MOST_SHOWN:
            for old in (await self.shown(machine))[:-MOST_SHOWN]:
                await self.drop_shown(machine, old.key)

    async def drop_shown(self, machine: str, key: str) -> None:
        await self._batch().drop(f"shown:{machine}", key).done()

    # Events and taps.

    async def is_new_event(self, id: str) -> bool:
        """Whether an event comes for the first time; it does not again."""
        steps = self._batch().claim(f"seen:{id}", SEEN, SEEN_SECONDS)
        return bool(await _one(steps))

    async def tap_facts(self, event: str, machine: str, request: str) -> TapFacts:
        """Note an event, and tell everything that it is judged by."""
        steps = self._batch().claim(f"seen:{event}", SEEN, SEEN_SECONDS)
        steps.text(f"seen:{event}").row(f"cards:{machine}", request)
        steps.row("machines", machine).row("revoked", machine).row("at", machine)
        is_new, state, card, enrolled, revoked, location = await steps.done()
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
        steps = self._keep_tap(tap)
        if event:
            steps.keep(f"seen:{event}", CARRIED, SEEN_SECONDS)
        await steps.tell(self._entry("tap", tap=tap)).done()

    async def note_sent(self, tap: dict[str, Any]) -> None:
        """A machine was given a tap: it may be given again when it comes back."""
        entry = self._entry("sent", tap=tap["tap"])
        await self._keep_tap({**tap, "sent": True}).tell(entry).done()

    def _keep_tap(self, tap: dict[str, Any]) -> Batch:
        return self._batch().put(f"taps:{tap['machine']}", tap["tap"], self.sealed(tap))

    async def drop_tap(self, machine: str, tap: str) -> None:
        await self._batch().drop(f"taps:{machine}", tap).done()

    async def tell_receipt(self, machine: str, tap: str, receipt: Any) -> None:
        """A tap is judged: tell the replica that a person waits at."""
        entry = self._entry("receipt", tap=tap, receipt=receipt)
        await self._batch().drop(f"taps:{machine}", tap).tell(entry).done()

    async def kept_taps(self, machine: str) -> dict[str, dict[str, Any]]:
        """Taps on their way to a machine; an empty one for what nobody sealed."""
        rows = await _one(self._batch().rows(f"taps:{machine}"))
        return {id: self._unsealed_tap(raw) for id, raw in rows.items()}

    def _unsealed_tap(self, raw: str) -> dict[str, Any]:
        try:
            return part_at(self.unsealed(raw))
        except ValueError:
            return {}


async def _one(steps: Batch) -> Any:
    """The only answer to some steps. Raises StoreDown."""
    (answer,) = await steps.done()
    return answer


class FileStore(Store):
    """One gateway alone: a journal, read at the start, written again when it is long.

    Tables are in the file, synced, before an operation returns and before any entry
    is heard; texts that end are only in memory, and of the cards in the file it is
    known again which message they are.  A line of the file is a row and its
    text, or a row that went, in the words and names of Redis: 0.2.0 reads them too, and
    would write a file of other lines again without them, every enrolment with them.
    The store is its own batch: nothing else happens between its first step, done in
    memory at once, and the last.
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
        self._prefix = f"fp:{app_id}:"
        self._tables: dict[str, dict[str, str]] = {}
        self._texts: dict[str, tuple[str, float]] = {}  # and when they end
        self._full = SWEEP
        self._changes: list[Change] = []  # of this batch: not yet in the file
        self._entries: list[str] = []  # not yet told
        self._answers: list[Any] = []
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
        self._compact()
        for table in [name for name in self._tables if name.startswith("cards:")]:
            for card in _read_all(OpenCard, self._rows(table).values()):
                self._keep_message(self, card)

    def close(self) -> None:
        """Nothing is open between two calls."""

    def _batch(self) -> Batch:
        self._changes, self._entries, self._answers = [], [], []
        return self

    async def done(self) -> list[Any]:
        entries, answers = self._entries, self._answers
        try:
            self._save(self._changes)
        except (OSError, FileError) as error:
            self._problem = message_of(error)
            log(f"the gateway's file cannot be written: {self._problem}", "error")
            raise StoreDown(self._problem) from None
        for entry in entries:  # only now: what somebody acts on is on the disk
            self.hear(entry)
        return answers

    # Steps: rows.

    def put(self, table: str, row: str, text: str) -> FileStore:
        return self._change(table, row, text)

    def drop(self, table: str, row: str) -> FileStore:
        return self._change(table, row, None) if row in self._rows(table) else self

    def clear(self, table: str) -> FileStore:
        for row in list(self._rows(table)):
            self._change(table, row, None)
        return self

    def row(self, table: str, row: str) -> FileStore:
        return self._answer(self._rows(table).get(row))

    def rows(self, table: str) -> FileStore:
        return self._answer(dict(self._rows(table)))

    def size(self, table: str) -> FileStore:
        return self._answer(len(self._rows(table)))

    def _rows(self, table: str) -> dict[str, str]:
        return self._tables.get(table, {})

    def _change(self, table: str, row: str, text: str | None) -> FileStore:
        rows = self._tables.setdefault(table, {})
        if text is None:
            rows.pop(row, None)
        else:
            rows[row] = text
        if not rows:
            del self._tables[table]
        self._changes.append((table, row, text))
        return self

    def _answer(self, said: object) -> FileStore:
        self._answers.append(said)
        return self

    # Steps: texts, time, the bus.

    def keep(self, name: str, text: str, seconds: int) -> FileStore:
        self._texts[name] = text, self._wall() + seconds
        if len(self._texts) > self._full:
            for each in list(self._texts):
                self._text(each)
            self._full = max(SWEEP, 2 * len(self._texts))
        return self

    def _text(self, name: str) -> str | None:
        """A text, unless it has ended: then it goes."""
        text, end = self._texts.get(name, ("", 0.0))
        if end > self._wall():
            return text
        self._texts.pop(name, None)
        return None

    def claim(self, name: str, text: str, seconds: int) -> FileStore:
        is_new = self._text(name) is None
        if is_new:
            self.keep(name, text, seconds)
        return self._answer(is_new)

    def text(self, name: str) -> FileStore:
        return self._answer(self._text(name))

    def forget(self, name: str) -> FileStore:
        is_there = self._text(name) is not None
        self._texts.pop(name, None)
        return self._answer(is_there)

    def count(self, name: str, by: int, seconds: int) -> FileStore:
        if self._text(name) is None:
            self.keep(name, "0", seconds)
        text, end = self._texts[name]
        self._texts[name] = str(int(text) + by), end
        return self._answer(int(text) + by)

    def extend(self, name: str, seconds: int) -> FileStore:
        text = self._text(name)
        return self if text is None else self.keep(name, text, seconds)

    def clock(self) -> FileStore:
        return self._answer(self._wall())

    def tell(self, entry: str) -> FileStore:
        self._entries.append(entry)
        return self

    # The file.

    def _replay(self, raw: bytes) -> None:
        try:
            line = decoded(raw)
            if len(line) != PARTS[line[0]] or {*map(type, line)} != {str}:
                raise ValueError
            table = line[1].removeprefix(self._prefix)
            text = line[3] if line[3:] else None
            for row in line[2:3] or list(self._rows(table)):
                self._change(table, row, text)
        except (ValueError, LookupError, TypeError):
            log("a line of the gateway's file cannot be read", "warning")

    def _save(self, changes: list[Change]) -> None:
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

    def _append(self, changes: list[Change]) -> None:
        fd = open_append(self._path)
        try:
            write_all(fd, self._as_lines(changes))
            os.fsync(fd)
        finally:
            os.close(fd)
        self._lines += len(changes)

    def _compact(self) -> None:
        tables = self._tables.items()
        kept = [(name, *row) for name, rows in tables for row in rows.items()]
        write_atomic(self._path, self._as_lines(kept), 0o600)
        self._lines = len(kept)

    def _as_lines(self, changes: Iterable[Change]) -> bytes:
        lines = [
            ("HDEL", self._prefix + table, row)
            if text is None
            else ("HSET", self._prefix + table, row, text)
            for table, row, text in changes
        ]
        return b"".join(json.dumps(line).encode() + b"\n" for line in lines)


def as_text(value: Any) -> str:
    """A value as a store keeps it."""
    return json.dumps(to_plain(value))


def read(shape: type[T], raw: object) -> T | None:
    """A value as a store kept it; None if there is none, or somebody edited it."""
    if not isinstance(raw, (str, bytes)):
        return None
    try:
        return from_plain(shape, json.loads(raw))
    except (ValueError, PayloadError, RecursionError):
        return None


def _read_all(shape: type[T], texts: Iterable[str]) -> list[T]:
    return [value for value in (read(shape, raw) for raw in texts) if value is not None]


def remember(known: dict[K, T], key: K, value: T, most: int) -> None:
    """Keep a value, and the newest of the others."""
    known.pop(key, None)
    known[key] = value
    if len(known) > most:
        del known[next(iter(known))]


def person(who: str) -> str:
    """Somebody whose name is not known."""
    return f"…{who[-6:]}" if who else ""
