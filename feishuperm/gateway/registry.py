"""Who is enrolled, and how one gets there: machines, codes, limits.

A code is six digits, good once and for ten minutes, kept as a hash, and bound to the
connection that shows it.  The person who says it is asked on a card, which names
machine, user and address; only then does the machine get an id and a key, and only when
it has stored them does the enrolment hold.  Guessing is counted per sender and in all.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from typing import Any

from feishuperm.errors import PayloadError
from feishuperm.gateway.machine_cards import join_card
from feishuperm.gateway.machine_connection import MachineLink, crowded
from feishuperm.gateway.store import Joining, Machine, Store
from feishuperm.lib.display import one_line
from feishuperm.lib.log import log
from feishuperm.messages import msg
from feishuperm.models.ask import from_plain
from feishuperm.models.fields import text_at
from feishuperm.protocol.machine import GOING_AWAY, TRY_LATER

TYPE_CHECKING = False
if TYPE_CHECKING:
    from feishuperm.gateway.hub import Hub

WRONG_EACH, WRONG_ALL = 5, 50  # codes in ten minutes, by one sender and by all
ASKED_ALL = 20  # cards in a minute that nobody asked for
MAX_NAME = 40
CODE_TRIES = 20  # for a code that nobody else has
JOIN_SECONDS = 600.0
JOINS_EACH = 20  # that wait for an owner, from one address
FULL = "too many machines are being paired"


class Registry:
    """Enrolments and codes, on the store; it knows no connection and no card."""

    def __init__(
        self,
        store: Store,
        owners: frozenset[str],
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._store = store
        self._owners = owners  # who may join; empty: anyone the app is visible to
        self._wall = wall

    def may_join(self, who: str) -> bool:
        return not self._owners or who in self._owners

    async def revoke(self, id: str) -> Machine | None:
        """Forget a machine, here and on every replica."""
        machine = await self._store.machine(id)
        if machine is not None:
            await self._store.revoke_machine(id)
        return machine

    async def rename(self, id: str, name: str) -> Machine | None:
        machine = await self._store.machine(id)
        if machine is None:
            return None
        named = machine._replace(name=await self._free_name(name, machine))
        await self._store.rename_machine(named)
        return named

    async def enrol(self, joining: Joining, who: str, who_name: str) -> Machine:
        """A machine that has been confirmed; it holds once it is put."""
        machine = Machine(
            f"m-{secrets.token_hex(6)}", joining.name, who, who_name, joining.user,
            joining.address, secrets.token_hex(32), "", self._wall(),
        )  # fmt: skip
        return machine._replace(name=await self._free_name(joining.name, machine))

    async def _free_name(self, name: str, machine: Machine) -> str:
        """The name, or the name with a number: a person's machines are told apart."""
        taken = {
            other.name
            for other in await self._store.machines()
            if other.owner == machine.owner and other.id != machine.id
        }
        wanted = clean_name(name)
        number, free = 1, wanted
        while free in taken:
            number += 1
            free = f"{wanted}-{number}"
        return free

    async def open_code(self, joining: Joining) -> str:
        """Six digits that nobody else has. Raises PayloadError if there are none."""
        for _ in range(CODE_TRIES):
            code = f"{secrets.randbelow(10**6):06d}"
            if await self._store.open_code(code, joining):
                return code
        raise PayloadError(FULL)

    async def spend_code(self, code: str, who: str) -> Joining | str:
        """The machine that shows this code, or the key of why not."""
        known = await self._store.try_code(code, who)
        if known.tries > WRONG_EACH:
            return msg("Too many wrong codes: try again in ten minutes")
        if known.wrong >= WRONG_ALL:
            return msg("Too many wrong codes: try again in ten minutes")
        joining = known.joining
        if joining is None or (joining.owner and joining.owner != who):
            await self._store.count_wrong_code(who)
            return msg("No machine shows this code, or it has expired")
        is_first = await self._store.spend_code(code, who)
        return (
            joining
            if is_first
            else msg("No machine shows this code, or it has expired")
        )

    async def ask(self, joining: Joining, who: str) -> Joining:
        """Keep whom a machine's card goes to."""
        asked = joining._replace(who=who, nonce=secrets.token_urlsafe(12))
        await self._store.put_asked(asked)
        return asked

    async def may_ask(self, who: str) -> bool:
        """Whether a person may be sent a card that they did not ask for."""
        is_free, count = await self._store.count_asked(who.lower())
        return is_free and count <= ASKED_ALL


class Pairing:
    """Machines at this replica that want in: from the six digits to an enrolment."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub

    async def join(self, link: MachineLink, message: dict[str, Any]) -> None:
        owner = text_at(message, "owner")[:200]
        if not self._make_room(link):
            link.end(TRY_LATER, FULL)
            return
        self._hub.early.pop(link, None)
        joining = Joining(
            link.id, self._hub.replica, clean_name(message.get("name")),
            one_line(text_at(message, "user"), 40), link.address,
            owner if owner.startswith("ou_") else "",
        )  # fmt: skip
        link.joining = joining
        code = await self._hub.registry.open_code(joining)
        link.code, link.busy = code, False
        if link not in self._hub.connections:
            await self._hub.store.drop_code(code)
            return
        link.send("code", code=code, seconds=int(JOIN_SECONDS))
        if owner:
            await self._ask_owner(joining, owner)

    def _make_room(self, link: MachineLink) -> bool:
        """Whether a machine may wait for an owner; the largest crowd makes room."""
        waiting = [each for each in self._hub.connections if each.joining]
        if sum(each.source == link.source for each in waiting) >= JOINS_EACH:
            return False
        if len(waiting) >= self._hub.room.joins:
            oldest = crowded(waiting)[0]
            if oldest.source == link.source:
                return False
            oldest.end(TRY_LATER, FULL)
        return True

    async def _ask_owner(self, joining: Joining, owner: str) -> None:
        """Send the confirming card to the person whom the machine named."""
        if owner.startswith("ou_") and not self._hub.registry.may_join(owner):
            return
        if await self._hub.registry.may_ask(owner):
            asked = await self._hub.registry.ask(joining, owner)
            self._hub.cards.send(owner, join_card(asked, self._hub.language))

    async def confirmed(self, joining: Joining, who: str, name: str) -> bool:
        """The owner said yes: tell the replica that holds the machine."""
        machine = await self._hub.registry.enrol(joining, who, name)
        if not await self._hub.store.alive([joining.replica]):
            return False
        await self._hub.store.tell_joined(joining.id, machine)
        return True

    def joined(self, entry: dict[str, Any]) -> None:
        found = (each for each in self._hub.connections if each.id == entry.get("join"))
        link = next(found, None)
        if link is None or link.joining is None:
            return
        machine = from_plain(Machine, entry.get("machine"))
        link.enrolled, link.code = machine, ""
        link.send(
            "joined",
            machine=machine.id,
            key=machine.key,
            name=machine.name,
            owner=machine.owner,
            owner_name=machine.owner_name,
        )

    async def stored(self, link: MachineLink, machine: Machine) -> None:
        """The machine has its key: from now on it is enrolled."""
        link.enrolled = None
        await self._hub.store.put_machine(machine)
        log(f"{machine.id} {machine.name} joined for {machine.owner}")
        self._hub.record(
            {"event": "joined", "id": machine.id, "who": machine.owner,
             "surface": "card",
             "summary": f"{machine.name} {machine.user} {machine.address}"}
        )  # fmt: skip
        link.send("enrolled")
        link.end(GOING_AWAY, "joined")


def clean_name(name: object) -> str:
    """A name that fits on a card."""
    text = one_line(name, MAX_NAME).strip() if isinstance(name, str) else ""
    return text or "machine"
