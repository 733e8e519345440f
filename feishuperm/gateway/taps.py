"""Taps on their way: from a card to the machine that asked, and back with its verdict.

A tap goes to the machine that asked, and the machine judges it; here it is checked who
tapped and on which card.  It is put into the engine first, and whichever replica holds
the machine's socket delivers it; the receipt comes back the same way.

    a tap                               what the person is told
    of a stranger, on another's card    refused, at once
    the machine is away                 so; nothing is kept
    settled there within 2.5 s          what was done, and the settled card
    delivered, no receipt yet           sent; the card follows
    nobody delivered it                 the machine is away; nothing is kept
    the engine does not answer          try again

The replica that has delivered a tap says so when the receipt is late (`sent`).  Such a
tap is delivered again to a machine that comes back within REPLAY_SECONDS; the machine
applies each once.
"""

from __future__ import annotations

import json
import secrets
import time
from functools import partial
from typing import Any

from feishuperm.channels.app.card import settled_card
from feishuperm.channels.app.events import is_nonce, read_tap, toast
from feishuperm.gateway.cards import Sent
from feishuperm.gateway.engine import EngineDown
from feishuperm.gateway.peer import Peer, Place, Wire
from feishuperm.gateway.registry import Machine, read
from feishuperm.lib.display import one_line
from feishuperm.lib.log import log
from feishuperm.lib.task import Promise
from feishuperm.models import ask as statuses
from feishuperm.models.ask import Answer, Receipt, from_plain, to_plain
from feishuperm.models.fields import part_at, text_at
from feishuperm.protocol.machine import TAP, prove, tap_parts

TYPE_CHECKING = False
if TYPE_CHECKING:
    from feishuperm.gateway.hub import Hub

ANSWER_SECONDS = 2.5  # of the three that Feishu gives
# When a tap without a receipt is told as delivered, and the last moment to deliver it
# first: later its person is told that the machine is away.
SENT_SECONDS, FIRST_SECONDS = 1.0, 2.0
REPLAY_SECONDS = 60.0  # in which a machine that comes back still gets a tap
SEEN_SECONDS = 8 * 3600  # Feishu sends a message again for six hours
MAX_RECEIPT = 65_536  # characters of what a machine says of a tap
SEEN, CARRIED = "seen", "carried"  # what is known of an event
# What a machine says of a tap, as it is counted; anything else counts as refused.
COUNTED = {
    statuses.SETTLED: "settled", statuses.ENDED: "ended", statuses.UNKNOWN: "ended",
    statuses.INCOMPLETE: "again", statuses.CONFIRM: "again",
}  # fmt: skip


class Taps:
    """Every tap that this replica was given, or has to deliver."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self._receipts: dict[str, Promise[Receipt | None]] = {}  # by tap
        self._sent: set[str] = set()  # of those, what a machine was given

    async def tap(self, event: dict[str, Any]) -> dict[str, Any]:
        """The answer to a tap on a request's card: a toast, and the card as it is."""
        began = self._hub.clock()
        try:
            result, reply = await self._tap(event, began)
        except EngineDown:
            result, reply = "again", self._toast("warning", "gateway.again")
        self._hub.metrics.tap(result, self._hub.clock() - began)
        return reply

    async def _tap(
        self, event: dict[str, Any], began: float
    ) -> tuple[str, dict[str, Any]]:
        who = text_at(event, "event", "operator", "open_id")
        action = part_at(event, "event", "action")
        value = part_at(action, "value")
        id, machine_id = text_at(value, "id"), text_at(value, "machine")
        key = self._hub.engine.key
        event_id = text_at(event, "header", "event_id") or secrets.token_hex(8)
        seen = key("seen", event_id)
        fresh, state, raw, enrolled, revoked = await self._hub.engine.run(
            ("SET", seen, SEEN, "NX", "EX", SEEN_SECONDS),
            ("GET", seen),
            ("HGET", key("cards", machine_id), id),
            ("HGET", key("machines"), machine_id),
            self._hub.registry.is_revoked(machine_id),
        )
        machine = read(Machine, enrolled) if revoked is None else None
        sent = read(Sent, raw)
        if machine is None or sent is None:
            return "ended", self._toast("warning", "page.invalid")
        if who != machine.owner:
            self._refused(machine, id, text_at(value, "action"), who)
            owner = machine.name_of(machine.owner)
            return "stranger", self._toast("error", "answer.only_owner", owner=owner)
        if fresh is None:
            return self._told_twice(machine, state == CARRIED.encode())
        answer = read_tap(sent.ask, value, action, who)
        message_id = text_at(event, "event", "context", "open_message_id")
        refusal = self._unfit(sent, value, message_id, answer)
        if refusal:
            self._refused(machine, id, answer.action, who)
            return "refused", self._toast("error", refusal)
        carried = ("SET", seen, CARRIED, "EX", SEEN_SECONDS)
        return await self.carry(machine, sent, answer, began, carried)

    def _told_twice(
        self, machine: Machine, is_carried: bool
    ) -> tuple[str, dict[str, Any]]:
        """An event that came before: sent is only what the engine has."""
        if is_carried:
            return "sent", self._toast("info", "gateway.sent", machine=machine.name)
        return "again", self._toast("warning", "gateway.again")

    def _toast(self, kind: str, key: str, **values: object) -> dict[str, Any]:
        return toast(kind, self._hub.say(key, **values))

    def _unfit(
        self, sent: Sent, value: dict[str, Any], message_id: str, answer: Answer
    ) -> str:
        """Why a tap cannot be one on this card; a text key."""
        if not is_nonce(value, sent.nonce) or sent.message_id not in ("", message_id):
            return "answer.other"
        if answer.digest != sent.ask.digest:
            return "answer.other"
        offer = sent.ask.offer(answer.action)
        if offer is None or (offer.grants and not sent.grants):
            return "answer.not_offered"
        return ""

    async def carry(
        self,
        machine: Machine,
        sent: Sent,
        answer: Answer,
        began: float,
        *noting: tuple[str | int, ...],
    ) -> tuple[str, dict[str, Any]]:
        """Take an answer to its machine, and come back with what it said.

        `noting` are commands that go into the engine together with the tap.
        """
        place = await self._hub.place(machine.id)
        if place is None:
            last = await self._hub.place(machine.id, alive_only=False)
            return "away", self._away(machine, last)
        tap = secrets.token_hex(12)
        carried = {
            "tap": tap,
            "machine": machine.id,
            "answer": to_plain(answer._replace(surface="gateway")),
            "at": self._hub.now(),
            "replica": self._hub.replica,
        }
        promise: Promise[Receipt | None] = Promise()
        self._receipts[tap] = promise
        left = max(0.1, began + ANSWER_SECONDS - self._hub.clock())
        self._hub.later(left, lambda: promise.resolve(None))
        try:
            await self._hub.engine.run(
                (
                    "HSET",
                    self._hub.engine.key("taps", machine.id),
                    tap,
                    self._hub.engine.sealed(carried),
                ),
                *noting,
                self._hub.engine.entry("tap", tap=carried),
            )
            receipt = await promise
            is_sent = tap in self._sent
        finally:
            del self._receipts[tap]
            self._sent.discard(tap)
        if receipt is None and not is_sent:
            key = self._hub.engine.key("taps", machine.id)
            self._hub.go(self._hub.run(("HDEL", key, tap)))
            if not self._hub.ready:
                raise EngineDown(self._hub.engine.problem)
            return "away", self._away(machine, None)
        self._log_tap(machine, sent, answer, receipt)
        if receipt is None:
            return "sent", self._toast("info", "gateway.sent", machine=machine.name)
        counted = COUNTED.get(receipt.status, "refused")
        return counted, self._in_words(machine, sent, receipt)

    def _log_tap(
        self, machine: Machine, sent: Sent, answer: Answer, receipt: Receipt | None
    ) -> None:
        status = receipt.status if receipt else "sent"
        log(f"{machine.id} {answer.id}: {answer.action} by {answer.who}: {status}")
        self._hub.record(
            {"event": "carried", "id": answer.id, "action": answer.action,
             "who": answer.who, "surface": "gateway", "machine": machine.id,
             "state": status, "tool": sent.ask.tool, "summary": sent.ask.summary}
        )  # fmt: skip

    def _in_words(
        self, machine: Machine, sent: Sent, receipt: Receipt
    ) -> dict[str, Any]:
        """What a machine said, as the person is told."""
        if receipt.status in (statuses.SETTLED, statuses.ENDED):
            outcome = receipt.outcome
            card = settled_card(sent.ask, outcome, machine.name_of(outcome.who))
            fresh = receipt.status == statuses.SETTLED
            return toast("success" if fresh else "info", outcome.done, card)
        if receipt.status == statuses.UNKNOWN:
            over = self._hub.gone(sent.ask, "ended.gone")
            self._hub.go(self._hub.cards.settle(machine.id, over))
            return toast("warning", over.done, settled_card(sent.ask, over))
        again = receipt.status in (statuses.INCOMPLETE, statuses.CONFIRM)
        said = receipt.error or self._hub.say("gateway.again")
        return toast("warning" if again else "error", said)

    def _away(self, machine: Machine, last: Place | None) -> dict[str, Any]:
        """No card with it: the request may have ended, and its card be a record."""
        said = self._hub.say("gateway.away", machine=machine.name)
        if last is not None and last.since and not last.replica:
            since = time.strftime("%H:%M", time.localtime(last.since))
            said += self._hub.say("gateway.since", time=since)
        return toast("warning", said)

    def _refused(self, machine: Machine, id: str, action: str, who: str) -> None:
        id, action, who = (one_line(part, 64) for part in (id, action, who))
        log(f"{machine.id} {id}: refused {action!r} to {who}", "warning")
        self._hub.record(
            {"event": "refused", "id": id, "action": action, "who": who,
             "machine": machine.id}
        )  # fmt: skip

    def receipt(self, wire: Wire, peer: Peer, message: dict[str, Any]) -> None:
        """A machine tells what came of a tap."""
        assert peer.machine is not None
        tap = text_at(message, "tap")
        receipt = from_plain(Receipt, message.get("receipt"))
        if tap not in peer.taps:
            return  # not one of its own
        if len(json.dumps(message["receipt"])) > MAX_RECEIPT:
            receipt = receipt.bare("")
        peer.taps.discard(tap)
        waiting = self._receipts.get(tap)
        if waiting is not None:
            waiting.resolve(receipt)
        done = [("HDEL", self._hub.engine.key("taps", peer.machine.id), tap)]
        if waiting is None:
            entry = self._hub.engine.entry(
                "receipt", tap=tap, receipt=to_plain(receipt)
            )
            done.append(entry)  # type: ignore[arg-type]
        self._hub.take(wire, self._hub.run(*done))

    def heard(self, entry: dict[str, Any]) -> None:
        tap = entry["tap"]
        wire = self._hub.connected.get(tap["machine"])
        if wire is not None and self._age(tap) <= FIRST_SECONDS:
            self._deliver(wire, tap)

    def _deliver(self, wire: Wire, tap: dict[str, Any]) -> None:
        """Hand a tap to its machine, with the proof that we have its key."""
        machine: Machine = wire.data.machine
        wire.data.taps.add(tap["tap"])
        answer = tap["answer"]
        at = self._moment(wire.data, tap)
        parts = tap_parts(machine.id, tap["tap"], answer, at)
        proof = prove(bytes.fromhex(machine.key), TAP, *parts)
        wire.send("tap", tap=tap["tap"], answer=answer, at=at, proof=proof)
        if "sent" not in tap:
            late = partial(self._say_sent, wire, tap)
            self._hub.later(SENT_SECONDS, late)

    def _moment(self, peer: Peer, tap: dict[str, Any]) -> float:
        """When a tap was, by the clock that its machine was told at the login.

        That clock goes on evenly, whatever is set at either end meanwhile.
        """
        told: float = peer.came + self._hub.clock() - peer.came_clock
        return told - self._age(tap)

    def _age(self, tap: dict[str, Any]) -> float:
        age: float = self._hub.now() - tap["at"]
        return max(0.0, age)

    def _say_sent(self, wire: Wire, tap: dict[str, Any]) -> None:
        """A machine was given a tap and says nothing yet."""
        machine: Machine = wire.data.machine
        is_here = self._hub.connected.get(machine.id) is wire
        if not is_here or tap["tap"] not in wire.data.taps:
            return
        kept = self._hub.engine.sealed({**tap, "sent": True})
        key = self._hub.engine.key("taps", machine.id)
        entry = self._hub.engine.entry("sent", tap=tap["tap"])
        self._hub.go(self._hub.run(("HSET", key, tap["tap"], kept), entry))

    def heard_sent(self, entry: dict[str, Any]) -> None:
        tap = str(entry.get("tap"))
        if tap in self._receipts:
            self._sent.add(tap)

    async def deliver_kept(self, wire: Wire, machine: Machine) -> None:
        """Taps that were on their way when the machine's last connection ended."""
        key = self._hub.engine.key("taps", machine.id)
        (flat,) = await self._hub.engine.run(("HGETALL", key))
        for id, raw in zip(flat[::2], flat[1::2]):
            if self._hub.connected.get(machine.id) is not wire:
                return
            try:
                tap: Any = self._hub.engine.unsealed(raw)
                limit = REPLAY_SECONDS if "sent" in tap else FIRST_SECONDS
                late = not self._age(tap) <= limit
                if not late:
                    self._deliver(wire, tap)
            except (ValueError, LookupError, TypeError):  # somebody edited it
                late = True
            if late:
                await self._hub.engine.run(("HDEL", key, id))

    def heard_receipt(self, entry: dict[str, Any]) -> None:
        waiting = self._receipts.get(str(entry.get("tap")))
        if waiting is not None:
            waiting.resolve(from_plain(Receipt, entry.get("receipt")))
