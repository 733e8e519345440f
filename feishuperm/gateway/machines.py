"""Machines: their connections, and how one gets in.

A code is six digits, good once and for ten minutes, kept as a hash, and bound to the
connection that shows it.  The person who says it is asked on a card, which names
machine, user and address; only then does the machine get an id and a key, and only when
it has stored them does the enrolment hold.  Guessing is counted per sender and in all.
"""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Iterable
from functools import partial
from typing import Any, NamedTuple

from feishuperm.errors import PayloadError
from feishuperm.gateway.store import Joining, Machine
from feishuperm.lib.display import one_line
from feishuperm.lib.feishu import callback_button, card_frame, columns, div, note
from feishuperm.lib.log import log
from feishuperm.messages import msg, text
from feishuperm.models.ask import from_plain
from feishuperm.models.fields import text_at
from feishuperm.protocol.machine import GOING_AWAY, TRY_LATER
from feishuperm.server.machine import MachineConnection

TYPE_CHECKING = False
if TYPE_CHECKING:
    from feishuperm.gateway.hub import Hub

# Who connects, and, where that is a proxy nobody vouches for, whom it names.
Source = tuple[str, str]
VIA = "via "  # before the proxy's address, in place of one that only the proxy knows
JOIN, REFUSE = "join", "refuse"  # buttons
WRONG_EACH, WRONG_ALL = 5, 50  # codes in ten minutes, by one sender and by all
ASKED_ALL = 20  # cards in a minute that nobody asked for
MAX_NAME = 40
CODE_TRIES = 20  # for a code that nobody else has
JOIN_SECONDS = 600.0
JOINS_EACH = 20  # that wait for an owner, from one address
FULL = "too many machines are being paired"


class Room(NamedTuple):
    """How many connections of each kind a gateway holds at once."""

    early: int = 2_048  # that have not logged in
    joins: int = 200  # that wait for an owner
    machines: int = 1 << 17


ROOM = Room()


class MachineLink:
    """A connection, whose `data` it is, with what is known of it."""

    def __init__(self, connection: MachineConnection, now: float) -> None:
        self.address = connection.address
        self.source = connection.source
        self.send = connection.send
        self.connection = connection
        self.end = connection.end
        self.id = secrets.token_hex(8)
        self.nonce = secrets.token_hex(16)
        self.since = now
        self.machine = Machine()  # without an id: not logged in
        self.joining: Joining | None = None
        self.enrolled: Machine | None = None  # told to the machine, not yet stored
        self.code = ""
        self.instance = ""
        self.fresh = ""  # the key to come
        self.waiting: set[str] = set()
        self.back: set[str] = set()  # of those, what has not come back yet
        self.taps: set[str] = set()  # handed over, without a receipt so far
        self.claims = ""  # the machine that it says it is
        self.busy = False  # a login or a join is under way
        # When it logged in, by the store's clock and by ours.
        self.came = self.came_clock = 0.0
        self.odd = False  # it has said something that cannot be read
        self.can: tuple[str, ...] = ()  # what else the machine understands
        self.muted_until = 0.0  # by the store's clock
        self.steps = 0  # that its messages have the store take, not yet done


def crowded(connections: Iterable[MachineLink]) -> list[MachineLink]:
    """Those of the source that has the most, oldest first; all, if all are of one.

    First by who connects, then by whom a proxy names: a crowd holds off nobody else,
    and nobody is put out for what another client of the same proxy does.
    """
    crowd = list(connections)
    for depth in (1, 2):
        counts = Counter(each.source[:depth] for each in crowd)
        most = max(counts, key=lambda source: counts[source], default=())
        crowd = [each for each in crowd if each.source[:depth] == most]
    return crowd


class Pairing:
    """From the six digits to an enrolment; names, codes, limits."""

    def __init__(self, hub: Hub, owners: frozenset[str]) -> None:
        self._hub = hub
        self._owners = owners  # who may join; empty: anyone the app is visible to

    def may_join(self, who: str) -> bool:
        return not self._owners or who in self._owners

    # Codes.

    async def open_code(self, joining: Joining) -> str:
        """Six digits that nobody else has. Raises PayloadError if there are none."""
        for _ in range(CODE_TRIES):
            code = f"{secrets.randbelow(10**6):06d}"
            if await self._hub.store.open_code(code, joining):
                return code
        raise PayloadError(FULL)

    async def spend_code(self, code: str, who: str) -> Joining | str:
        """The machine that shows this code, or the key of why not."""
        store = self._hub.store
        tries, wrong, joining = await store.try_code(code, who)
        if tries > WRONG_EACH or wrong >= WRONG_ALL:
            return msg("Too many wrong codes: try again in ten minutes")
        if joining is None or joining.owner not in ("", who):
            await store.count_wrong_code(who)
        elif await store.spend_code(code, who):
            return joining
        return msg("No machine shows this code, or it has expired")

    async def may_ask(self, who: str) -> bool:
        """Whether a person may be sent a card that they did not ask for."""
        is_free, count = await self._hub.store.count_asked(who.lower())
        return is_free and count <= ASKED_ALL

    async def ask(self, joining: Joining, who: str) -> None:
        """Send a person the card that confirms a machine."""
        asked = joining._replace(who=who, nonce=secrets.token_urlsafe(12))
        await self._hub.store.put_asked(asked)
        self._hub.cards.sender.send(who, join_card(asked, self._hub.language))

    # Machines at this replica that want in.

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
        code = await self.open_code(joining)
        link.code, link.busy = code, False
        if link not in self._hub.connections:
            await self._hub.store.drop_code(code)
            return
        link.send("code", code=code, seconds=int(JOIN_SECONDS))
        is_out = joining.owner and not self.may_join(owner)
        if owner and not is_out and await self.may_ask(owner):
            await self.ask(joining, owner)

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

    async def confirmed(self, joining: Joining, who: str, name: str) -> bool:
        """The owner said yes: tell the replica that holds the machine."""
        machine = await self.enrol(joining, who, name)
        if not await self._hub.store.alive([joining.replica]):
            return False
        await self._hub.store.tell_joined(joining.id, machine)
        return True

    async def enrol(self, joining: Joining, who: str, who_name: str) -> Machine:
        """A machine that has been confirmed; it holds once it is put."""
        machine = Machine(
            f"m-{secrets.token_hex(6)}", joining.name, who, who_name, joining.user,
            joining.address, secrets.token_hex(32), "", self._hub.wall(),
        )  # fmt: skip
        return await self._named(machine, joining.name)

    async def rename(self, id: str, name: str) -> Machine | None:
        machine = await self._hub.store.machine(id)
        if machine is not None:
            machine = await self._named(machine, name)
            await self._hub.store.rename_machine(machine)
        return machine

    async def _named(self, machine: Machine, name: str) -> Machine:
        """By that name, or with a number: a person's machines are told apart."""
        taken = {
            other.name
            for other in await self._hub.store.machines()
            if other.owner == machine.owner and other.id != machine.id
        }
        wanted = free = clean_name(name)
        number = 1
        while free in taken:
            number += 1
            free = f"{wanted}-{number}"
        return machine._replace(name=free)

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


def note_card(said: str, language: str) -> dict[str, Any]:
    """A sentence."""
    return card_frame(
        text(language, "feishuperm gateway"), "", "grey", said, [div(said)]
    )


def join_card(joining: Joining, language: str) -> dict[str, Any]:
    """Should this machine's requests come to you? The three facts to look at."""
    say = partial(text, language)
    value = {"id": joining.id, "nonce": joining.nonce}
    yes, no = {**value, "action": JOIN}, {**value, "action": REFUSE}
    elements = [
        div(say("Machine: {name}", name=joining.name)),
        div(say("User: {user}", user=joining.user)),
        div(_address(joining.address, language)),
        note(
            say(
                "Its requests will come to you, and your taps decide them. "
                "Confirm only a machine that you are adding yourself right now."
            )
        ),
        columns(
            [
                [callback_button(say("Add it"), "primary_filled", yes)],
                [callback_button(say("Not mine"), "default", no)],
            ]
        ),
    ]
    return card_frame(say("Add this machine?"), "", "blue", joining.name, elements)


def _address(address: str, language: str) -> str:
    """Where it is; a proxy's address is told as that, not as the machine's."""
    if address.startswith(VIA):
        proxy = address[len(VIA) :]
        return text(
            language,
            "Address: not known (it comes through the proxy {proxy})",
            proxy=proxy,
        )
    return text(language, "Address: {address}", address=address)
