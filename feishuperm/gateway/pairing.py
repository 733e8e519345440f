"""Machines that want in: from the six digits to an enrolment that holds.

The code is shown on the connection it is bound to; who says it, and who confirms, is
`gateway.feishu`'s; that a machine has stored its key is told here.
"""

from __future__ import annotations

from typing import Any

from feishuperm.gateway.notes import join_card
from feishuperm.gateway.peer import Peer, Wire, crowded
from feishuperm.gateway.registry import Joining, Machine, clean_name
from feishuperm.lib.display import one_line
from feishuperm.lib.log import log
from feishuperm.models.ask import from_plain, to_plain
from feishuperm.models.fields import text_at
from feishuperm.protocol.machine import GOING_AWAY, TRY_LATER

TYPE_CHECKING = False
if TYPE_CHECKING:
    from feishuperm.gateway.hub import Hub

JOIN_SECONDS = 600.0
JOINS_EACH = 20  # that wait for an owner, from one address
FULL = "too many machines are being paired"


class Pairing:
    """Those on this replica."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub

    async def join(self, wire: Wire, peer: Peer, message: dict[str, Any]) -> None:
        owner = text_at(message, "owner")[:200]
        if not self._make_room(wire):
            wire.end(TRY_LATER, FULL)
            return
        self._hub.early.pop(wire, None)
        joining = Joining(
            peer.id, self._hub.replica, clean_name(message.get("name")),
            one_line(text_at(message, "user"), 40), wire.address,
            owner if owner.startswith("ou_") else "",
        )  # fmt: skip
        peer.joining = joining
        code = await self._hub.registry.open_code(joining)
        peer.code, peer.busy = code, False
        if wire not in self._hub.peers:
            await self._hub.registry.drop_code(code)
            return
        wire.send("code", code=code, seconds=int(JOIN_SECONDS))
        if owner:
            await self._ask_owner(joining, owner)

    def _make_room(self, wire: Wire) -> bool:
        """Whether a machine may wait for an owner; the largest crowd makes room."""
        waiting = [peer for peer in self._hub.peers if peer.data.joining is not None]
        if sum(peer.source == wire.source for peer in waiting) >= JOINS_EACH:
            return False
        if len(waiting) >= self._hub.room.joins:
            oldest = crowded(waiting)[0]
            if oldest.source == wire.source:
                return False
            oldest.end(TRY_LATER, FULL)
        return True

    async def _ask_owner(self, joining: Joining, owner: str) -> None:
        """Send the confirming card to whoever the machine named."""
        if owner.startswith("ou_") and not self._hub.registry.may_join(owner):
            return
        if await self._hub.registry.may_ask(owner):
            asked = await self._hub.registry.ask(joining, owner)
            self._hub.cards.send(owner, join_card(asked, self._hub.language))

    async def confirmed(self, joining: Joining, who: str, name: str) -> bool:
        """The owner said yes: tell the replica that holds the machine."""
        machine = await self._hub.registry.enrol(joining, who, name)
        key = self._hub.engine.key("alive", joining.replica)
        (alive,) = await self._hub.engine.run(("EXISTS", key))
        if not alive:
            return False
        await self._hub.engine.run(
            self._hub.engine.entry("joined", join=joining.id, machine=to_plain(machine))
        )
        return True

    def joined(self, entry: dict[str, Any]) -> None:
        wires = (w for w in self._hub.peers if w.data.id == entry.get("join"))
        wire = next(wires, None)
        if wire is None or wire.data.joining is None:
            return
        machine = from_plain(Machine, entry.get("machine"))
        wire.data.enrolled, wire.data.code = machine, ""
        wire.send(
            "joined",
            machine=machine.id,
            key=machine.key,
            name=machine.name,
            owner=machine.owner,
            owner_name=machine.owner_name,
        )

    async def stored(self, wire: Wire, peer: Peer, machine: Machine) -> None:
        """The machine has its key: from now on it is enrolled."""
        peer.enrolled = None
        await self._hub.registry.put(machine)
        log(f"{machine.id} {machine.name} joined for {machine.owner}")
        self._hub.record(
            {"event": "joined", "id": machine.id, "who": machine.owner,
             "surface": "card",
             "summary": f"{machine.name} {machine.user} {machine.address}"}
        )  # fmt: skip
        wire.send("enrolled")
        wire.end(GOING_AWAY, "joined")
