"""Who is enrolled, and how one gets there: machines, codes, limits.

A code is six digits, good once and for ten minutes, kept as a hash, and bound to the
connection that shows it.  Whoever says it is asked on a card, which names machine, user
and address; only then does the machine get an id and a key, and only when it has stored
them does the enrolment hold.  Guessing is counted per sender and in all.

Everything is kept by the engine; nothing here knows a socket or a card.
"""

from __future__ import annotations

import hashlib
import json
import secrets
import time
from collections.abc import Callable
from typing import NamedTuple, TypeVar, Union

from feishuperm.errors import PayloadError
from feishuperm.gateway.engine import FileEngine, RedisEngine
from feishuperm.lib.display import one_line
from feishuperm.models.ask import from_plain, to_plain

AnyEngine = Union[FileEngine, RedisEngine]

T = TypeVar("T")
CODE_SECONDS = 600
WRONG_EACH, WRONG_ALL = 5, 50  # codes in WRONG_SECONDS, by one sender and by all
WRONG_SECONDS = 600
ASKED_SECONDS = 60  # between two cards that one person did not ask for
ASKED_ALL = 20  # of those in that time, whomever they are for
MAX_NAME = 40
CODE_TRIES = 20  # for a code that nobody else has


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
    owner: str = ""  # who may say yes; empty: whoever says the code
    who: str = ""  # who was asked
    nonce: str = ""


class Registry:
    """Enrolments and codes, through the engine."""

    def __init__(
        self,
        engine: AnyEngine,
        owners: frozenset[str],
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._engine = engine
        self._owners = owners  # who may join; empty: whom the app is visible to
        self._wall = wall

    def may_join(self, who: str) -> bool:
        return not self._owners or who in self._owners

    # Machines.

    async def get(self, id: str) -> Machine | None:
        raw, revoked = await self._engine.run(
            ("HGET", self._key("machines"), id), self.is_revoked(id)
        )
        return read(Machine, raw) if revoked is None else None

    async def all(self) -> list[Machine]:
        flat, gone = await self._engine.run(
            ("HGETALL", self._key("machines")), ("HGETALL", self._key("revoked"))
        )
        revoked = set(gone[::2])
        machines = [
            read(Machine, raw)
            for id, raw in zip(flat[::2], flat[1::2])
            if id not in revoked
        ]
        kept = [machine for machine in machines if machine is not None]
        return sorted(kept, key=lambda machine: machine.created)

    def is_revoked(self, id: str) -> tuple[str, ...]:
        """The command whose reply is nothing while a machine may be enrolled.

        A revoke is a row of its own, for ever: whoever had read the machine before it
        may write the machine back after it.
        """
        return ("HGET", self._key("revoked"), id)

    async def was_revoked(self, id: str) -> bool:
        (revoked,) = await self._engine.run(self.is_revoked(id))
        return revoked is not None

    async def put(self, machine: Machine) -> None:
        await self._engine.run(self.putting(machine))

    def putting(self, machine: Machine) -> tuple[str, ...]:
        """The command that keeps a machine."""
        plain = json.dumps(to_plain(machine))
        return ("HSET", self._key("machines"), machine.id, plain)

    async def revoke(self, id: str) -> Machine | None:
        """Forget a machine, here and on every replica."""
        machine = await self.get(id)
        if machine is not None:
            await self._engine.run(
                ("HSET", self._key("revoked"), id, round(self._wall())),
                ("HDEL", self._key("machines"), id),
                ("DEL", self._key("taps", id)),
                self._engine.entry("revoked", machine=id),
            )
        return machine

    async def rename(self, id: str, name: str) -> Machine | None:
        machine = await self.get(id)
        if machine is None:
            return None
        named = machine._replace(name=await self._free_name(name, machine))
        await self._engine.run(
            self.putting(named),
            self._engine.entry("renamed", machine=id, name=named.name),
        )
        return named

    async def enrol(self, joining: Joining, who: str, who_name: str) -> Machine:
        """A machine that has been confirmed; it holds once `put()`."""
        machine = Machine(
            f"m-{secrets.token_hex(6)}", joining.name, who, who_name, joining.user,
            joining.address, secrets.token_hex(32), "", self._wall(),
        )  # fmt: skip
        return machine._replace(name=await self._free_name(joining.name, machine))

    async def _free_name(self, name: str, machine: Machine) -> str:
        """The name, or the name with a number: a person's machines are told apart."""
        others = await self.all()
        taken = {
            other.name
            for other in others
            if other.owner == machine.owner and other.id != machine.id
        }
        wanted = clean_name(name)
        number, free = 1, wanted
        while free in taken:
            number += 1
            free = f"{wanted}-{number}"
        return free

    # Codes.

    async def open_code(self, joining: Joining) -> str:
        """Six digits that nobody else has. Raises PayloadError if there are none."""
        for _ in range(CODE_TRIES):
            code = f"{secrets.randbelow(10**6):06d}"
            (taken,) = await self._engine.run(
                ("SET", self._code_key(code), json.dumps(to_plain(joining)),
                 "NX", "EX", CODE_SECONDS)
            )  # fmt: skip
            if taken is not None:
                return code
        raise PayloadError("too many machines are being paired")

    async def drop_code(self, code: str) -> None:
        await self._engine.run(("DEL", self._code_key(code)))

    async def spend_code(self, code: str, who: str) -> Joining | str:
        """The machine that shows this code, or the key of why not.

        A try is counted before it is looked at, or many at once would all be the first.
        """
        mine, in_all = self._key("wrong", who), self._key("wrong")
        _, tries, wrong, raw = await self._engine.run(
            ("SET", mine, 0, "NX", "EX", WRONG_SECONDS),
            ("INCR", mine),
            ("GET", in_all),
            ("GET", self._code_key(code)),
        )
        if tries > WRONG_EACH:
            return "pair.locked"
        await self._engine.run(("EXPIRE", mine, WRONG_SECONDS))
        if int(wrong or 0) >= WRONG_ALL:
            return "pair.locked"
        joining = read(Joining, raw)
        if joining is None or (joining.owner and joining.owner != who):
            await self._engine.run(("INCR", in_all), ("EXPIRE", in_all, WRONG_SECONDS))
            return "pair.wrong"
        _, gone = await self._engine.run(
            ("INCRBY", mine, -1), ("DEL", self._code_key(code))
        )
        return joining if gone else "pair.wrong"  # another one was faster

    async def ask(self, joining: Joining, who: str) -> Joining:
        """Keep whom a machine's card went to."""
        asked = joining._replace(who=who, nonce=secrets.token_urlsafe(12))
        plain = json.dumps(to_plain(asked))
        key = self._key("join", joining.id)
        await self._engine.run(("SET", key, plain, "EX", CODE_SECONDS))
        return asked

    async def asked(self, id: str) -> Joining | None:
        (raw,) = await self._engine.run(("GET", self._key("join", id)))
        return read(Joining, raw)

    async def spend_ask(self, id: str) -> bool:
        """Whether this answer is the first."""
        (gone,) = await self._engine.run(("DEL", self._key("join", id)))
        return bool(gone)

    async def may_ask(self, who: str) -> bool:
        """Whether a person may be sent a card that they did not ask for."""
        key, in_all = self._key("asked", who.lower()), self._key("asked")
        free, _, count = await self._engine.run(
            ("SET", key, "1", "NX", "EX", ASKED_SECONDS),
            ("SET", in_all, "0", "NX", "EX", ASKED_SECONDS),
            ("INCR", in_all),
        )
        return free is not None and count <= ASKED_ALL

    def _code_key(self, code: str) -> str:
        # Behind the app's id: the same code is another one at another gateway.
        digest = hashlib.sha256(self._key("code", code).encode()).hexdigest()
        return self._key("code", digest)

    def _key(self, *parts: str) -> str:
        return self._engine.key(*parts)


def read(shape: type[T], raw: object) -> T | None:
    """A value as the engine kept it; None if there is none, or somebody edited it."""
    if not isinstance(raw, bytes):
        return None
    try:
        return from_plain(shape, json.loads(raw))
    except (ValueError, PayloadError, RecursionError):
        return None


def clean_name(name: object) -> str:
    """A name that fits on a card."""
    text = one_line(name, MAX_NAME).strip() if isinstance(name, str) else ""
    return text or "machine"


def person(who: str) -> str:
    """Somebody whose name is not known."""
    return f"…{who[-6:]}" if who else ""
