"""Taps on their way: from a card to the machine that asked, and back with its verdict.

A tap goes to the machine that asked, and the machine judges it; here it is checked who
tapped and on which card.  It is put into the store first, and the replica that holds
the machine's socket delivers it; the receipt comes back the same way.

    a tap                               what the person is told
    of a stranger, on another's card    refused, at once
    the machine is away                 so; nothing is kept
    settled there within 2.5 s          what was done, and the settled card
    delivered, no receipt yet           sent; the card follows
    nobody delivered it                 the machine is away; nothing is kept
    the store does not answer           try again

The replica that has delivered a tap says so when the receipt is late (`sent`).  Such a
tap is delivered again to a machine that comes back within REPLAY_SECONDS; the machine
applies each once.
"""

from __future__ import annotations

import json
import secrets
import time
from contextlib import suppress
from functools import partial
from typing import Any

from feishuperm.app.bursts import ALL_NO, ALL_YES
from feishuperm.app.cards import HOLD, open_card, settled_card
from feishuperm.app.store import OpenCard
from feishuperm.app.taps import (
    clock_stopped,
    is_changed,
    read_tap,
    receipt_toast,
    toast,
    unfit,
    unoffered,
)
from feishuperm.gateway.machines import MachineLink
from feishuperm.gateway.store import Location, Machine, StoreDown, TapFacts
from feishuperm.lib.display import one_line
from feishuperm.lib.feishu import CHANGED
from feishuperm.lib.log import log
from feishuperm.lib.task import Promise, together
from feishuperm.messages import msg
from feishuperm.models import ask as statuses
from feishuperm.models.ask import Answer, Receipt, from_plain, to_plain
from feishuperm.models.fields import part_at, text_at
from feishuperm.models.names import INVALID, NOT_AS_SHOWN
from feishuperm.protocol.machine import (
    EXTEND,
    PANELS,
    TAP,
    prove,
    tap_parts,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from feishuperm.gateway.hub import Hub

ANSWER_SECONDS = 2.5  # of the three that Feishu gives
# When a tap without a receipt is told as delivered, and the last moment to deliver it
# first: later its person is told that the machine is away.
SENT_SECONDS, FIRST_SECONDS = 1.0, 2.0
REPLAY_SECONDS = 60.0  # in which a machine that comes back still gets a tap
SENT, AWAY = "sent", "away"  # to a machine without a receipt so far; or not even that
UNHEARD = {SENT: msg("Sent to {machine}"), AWAY: msg("{machine} is not connected")}
MAX_RECEIPT = 65_536  # characters of what a machine says of a tap
# What a machine says of a tap, as it is counted; anything else counts as refused.
COUNTED = {
    statuses.SETTLED: "settled", statuses.ENDED: "ended", statuses.UNKNOWN: "ended",
    statuses.INCOMPLETE: "again", statuses.CONFIRM: "again",
    statuses.EXTENDED: "settled",
}  # fmt: skip
SHARED = {"success": "settled", "info": "sent", "warning": "again"}  # by toast


class Taps:
    """Every tap that this replica was given, or has to deliver."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self._receipts: dict[str, Promise[Receipt]] = {}  # by tap
        self._sent: set[str] = set()  # of those, what a machine was given

    async def tap(self, event: dict[str, Any]) -> dict[str, Any]:
        """The answer to a tap on a request's card: a toast, and the card as it is."""
        began = self._hub.clock()
        try:
            result, reply = await self._tap(event, began)
        except StoreDown:
            result, reply = self._again()
        self._hub.metrics.tap(result, self._hub.clock() - began)
        return reply

    async def _tap(
        self, event: dict[str, Any], began: float
    ) -> tuple[str, dict[str, Any]]:
        who = text_at(event, "event", "operator", "open_id")
        value = part_at(event, "event", "action", "value")
        id, machine_id = text_at(value, "id"), text_at(value, "machine")
        event_id = text_at(event, "header", "event_id") or secrets.token_hex(8)
        facts = await self._hub.store.tap_facts(event_id, machine_id, id)
        machine, sent = facts.machine, facts.card
        if machine is None or (sent is None and not self._may_share(machine, value)):
            return "ended", self._toast("warning", INVALID)
        if who != machine.owner:
            self.refused(machine, id, text_at(value, "action"), who)
            owner = machine.name_of(machine.owner)
            return "stranger", self._toast(
                "error", msg("Only {owner} may do this"), owner=owner
            )
        if not facts.is_new:  # sent is only what the store has
            return self._sent_to(machine) if facts.is_carried else self._again()
        return await self._tap_card(machine, facts, event, event_id, began)

    async def _tap_card(
        self,
        machine: Machine,
        facts: TapFacts,
        event: dict[str, Any],
        event_id: str,
        began: float,
    ) -> tuple[str, dict[str, Any]]:
        """A tap of the machine's owner that is new."""
        sent, location, who = facts.card, facts.location, machine.owner
        action = part_at(event, "event", "action")
        value = part_at(action, "value")
        message_id = text_at(event, "event", "context", "open_message_id")
        if sent is None or sent.shared:
            given = value, message_id, who
            return await self._tap_shared(machine, location, given, began, event_id)
        answer = read_tap(sent.ask, value, action, who)
        can = location.can if location is not None else ()
        refusal = unfit(sent, value, message_id) or _other(sent, answer, can)
        if refusal:
            self.refused(machine, sent.ask.id, answer.action, who)
            return "refused", self._toast("error", refusal)
        if is_changed(sent.ask, answer, action):
            return "refused", self._toast("warning", CHANGED)
        return await self.carry(machine, location, sent, answer, began, event_id)

    def _may_share(self, machine: Machine, value: dict[str, Any]) -> bool:
        """Whether a tap on no card that is known may be on one of many."""
        is_all = text_at(value, "action") in (ALL_YES, ALL_NO)
        return is_all or self._hub.cards.leaving_burst(machine.id, value) is not None

    def _again(self) -> tuple[str, dict[str, Any]]:
        return "again", self._toast("warning", msg("Please tap again"))

    def _sent_to(self, machine: Machine) -> tuple[str, dict[str, Any]]:
        return SENT, toast("info", self.unheard(machine, SENT))

    async def _tap_shared(
        self,
        machine: Machine,
        location: Location | None,
        given: tuple[dict[str, Any], str, str],
        began: float,
        event: str,
    ) -> tuple[str, dict[str, Any]]:
        """A tap on a card of many: one of its rows, or all that it shows."""
        value, message_id, who = given
        burst = self._hub.cards.leaving_burst(machine.id, value)
        if burst is None:
            own = await self._hub.store.cards_of(machine.id)
            rows = [card for card in own if card.shared]
            cards = [card for card in rows if card.message_id == message_id]
            if not cards:
                return "ended", self._toast("warning", INVALID)
            burst = self._hub.cards.burst_of(cards)
        if location is None or not await self._hub.is_connected(location):
            return AWAY, self._away(machine, location)
        carry = partial(self._carry_rows, machine, began, event)
        reply = await burst.tap(value, who, "gateway", carry)
        kind = text_at(reply, "toast", "type")
        return SHARED.get(kind, "refused"), reply

    async def _carry_rows(
        self, machine: Machine, began: float, event: str, answers: list[Answer]
    ) -> list[Receipt]:
        """Take several answers to their machine at once."""
        steps = [self._send(machine, answer, began, event) for answer in answers]
        receipts = await together(steps)
        for answer, given in zip(answers, receipts):
            self._log(machine, answer, given)
        return [
            Receipt(statuses.INCOMPLETE, error=self.unheard(machine, given.status))
            if given.status in UNHEARD
            else given
            for given in receipts
        ]

    def unheard(self, machine: Machine, status: str) -> str:
        return self._hub.say(UNHEARD[status], machine=machine.name)

    def _log(self, machine: Machine, answer: Answer, receipt: Receipt) -> None:
        what = f"{answer.id} {answer.action}".strip()
        log(f"{machine.id}: {what} by {answer.who}: {receipt.status}")

    def _toast(self, kind: str, key: str, **values: object) -> dict[str, Any]:
        return toast(kind, self._hub.say(key, **values))

    async def carry(
        self,
        machine: Machine,
        location: Location | None,
        sent: OpenCard,
        answer: Answer,
        began: float,
        event: str = "",
    ) -> tuple[str, dict[str, Any]]:
        """Take an answer to its machine, and come back with what it said."""
        if location is None or not await self._hub.is_connected(location):
            return AWAY, self._away(machine, location)
        receipt = await self._send(machine, answer, began, event)
        if receipt.status == AWAY:
            return AWAY, self._away(machine, None)
        self._log(machine, answer, receipt)
        self._hub.record(
            {"event": "carried", "id": answer.id, "action": answer.action,
             "who": answer.who, "surface": "gateway", "machine": machine.id,
             "state": receipt.status, "tool": sent.ask.tool,
             "summary": sent.ask.summary}
        )  # fmt: skip
        if receipt.status == SENT:
            return self._sent_to(machine)
        counted = COUNTED.get(receipt.status, "refused")
        if receipt.status == statuses.EXTENDED:
            return counted, await self._extended(sent, receipt)
        return counted, self._in_words(machine, sent, receipt)

    async def ask(self, machine: Machine, answer: Answer, seconds: float) -> Receipt:
        """What a machine says to a command within so many seconds.

        It travels as a tap without a request, and the machine judges it like one.
        """
        location = await self._hub.store.location(machine.id)
        if location is None or not await self._hub.is_connected(location):
            return Receipt(AWAY)
        if PANELS not in location.can:
            old = self._hub.say("its feishuperm is too old for that")
            return Receipt(statuses.REFUSED, error=old)
        began = self._hub.clock() + seconds - ANSWER_SECONDS
        receipt = await self._send(machine, answer, began)
        self._log(machine, answer, receipt)
        return receipt

    async def _send(
        self, machine: Machine, answer: Answer, began: float, event: str = ""
    ) -> Receipt:
        """What a machine said to an answer; that it was sent, or could not be."""
        tap = secrets.token_hex(12)
        carried = {
            "tap": tap,
            "machine": machine.id,
            "answer": to_plain(answer._replace(surface="gateway")),
            "at": self._hub.now(),
            "replica": self._hub.replica,
        }
        promise = self._receipts[tap] = Promise[Receipt]()
        left = max(0.1, began + ANSWER_SECONDS - self._hub.clock())
        self._hub.later(left, lambda: promise.resolve(self._so_far(tap)))
        try:
            await self._hub.store.put_tap(carried, event)
            receipt = await promise
        finally:
            del self._receipts[tap]
            self._sent.discard(tap)
        if receipt.status == AWAY:
            self._hub.go(self._hub.store.drop_tap(machine.id, tap))
            if not self._hub.ready:
                raise StoreDown(self._hub.store.problem)
        return receipt

    def _so_far(self, tap: str) -> Receipt:
        return Receipt(SENT if tap in self._sent else AWAY)

    async def _extended(self, sent: OpenCard, receipt: Receipt) -> dict[str, Any]:
        """There is more time; the card follows on other devices."""
        said = clock_stopped(self._hub.say, receipt.outcome.ended)
        card = await self._hub.store.card(sent.machine, sent.ask.id)
        is_new = card is not None and not card.ask.hold and not card.ask.is_cut
        return toast("success", said, open_card(card) if is_new and card else None)

    def _in_words(
        self, machine: Machine, sent: OpenCard, receipt: Receipt
    ) -> dict[str, Any]:
        """What a machine said, as the person is told."""
        over = self._hub.gone(sent.ask)
        if receipt.status == statuses.UNKNOWN:
            self._hub.go(self._hub.cards.settle(machine.id, over))
        lost = over.done, settled_card(sent.ask, over, machine=sent.machine)
        again = self._hub.say(msg("Please tap again"))
        signer = partial(self._hub.signer, machine)
        return receipt_toast(sent, receipt, signer, lost, again)

    def _away(self, machine: Machine, last: Location | None) -> dict[str, Any]:
        """No card with it: the request may have ended, and its card be a record."""
        said = self.unheard(machine, AWAY)
        if last is not None and last.since and not last.replica:
            since = time.strftime("%H:%M", time.localtime(last.since))
            said += self._hub.say(" (since {time})", time=since)
        return toast("warning", said)

    def refused(self, machine: Machine, id: str, action: str, who: str) -> None:
        id, action, who = (one_line(part, 64) for part in (id, action, who))
        log(f"{machine.id} {id}: refused {action!r} to {who}", "warning")
        self._hub.record(
            {"event": "refused", "id": id, "action": action, "who": who,
             "machine": machine.id}
        )  # fmt: skip

    def receipt(self, link: MachineLink, message: dict[str, Any]) -> None:
        """A machine tells what came of a tap."""
        tap = text_at(message, "tap")
        receipt = from_plain(Receipt, message.get("receipt"))
        if tap not in link.taps:
            return  # not one of its own
        if len(json.dumps(message["receipt"])) > MAX_RECEIPT:
            receipt = receipt.bare("")
        link.taps.discard(tap)
        waiting = self._receipts.get(tap)
        if waiting is not None:
            waiting.resolve(receipt)
        store, machine = self._hub.store, link.machine.id
        if waiting is None:  # at another replica
            steps = store.tell_receipt(machine, tap, to_plain(receipt))
        else:
            steps = store.drop_tap(machine, tap)
        self._hub.take(link, steps)

    def heard(self, entry: dict[str, Any]) -> None:
        tap = entry["tap"]
        link = self._hub.connected.get(tap["machine"])
        if link is not None and self._age(tap) <= FIRST_SECONDS:
            self._deliver(link, tap)

    def _deliver(self, link: MachineLink, tap: dict[str, Any]) -> None:
        """Hand a tap to its machine, with the proof that we have its key."""
        id, answer, at = tap["tap"], tap["answer"], self._moment(link, tap)
        link.taps.add(id)
        parts = tap_parts(link.machine.id, id, answer, at)
        proof = prove(bytes.fromhex(link.machine.key), TAP, *parts)
        link.send("tap", tap=id, answer=answer, at=at, proof=proof)
        if "sent" not in tap:
            self._hub.later(SENT_SECONDS, partial(self._say_sent, link, tap))

    def _moment(self, link: MachineLink, tap: dict[str, Any]) -> float:
        """When a tap was, by the clock that its machine was told at the login.

        That clock goes on evenly, whatever is set at either end meanwhile.
        """
        return link.came + self._hub.clock() - link.came_clock - self._age(tap)

    def _age(self, tap: dict[str, Any]) -> float:
        return max(0.0, self._hub.now() - float(tap["at"]))

    def _say_sent(self, link: MachineLink, tap: dict[str, Any]) -> None:
        """A machine was given a tap and says nothing yet."""
        is_here = self._hub.connected.get(link.machine.id) is link
        if is_here and tap["tap"] in link.taps:
            self._hub.go(self._hub.store.note_sent(tap))

    def heard_sent(self, entry: dict[str, Any]) -> None:
        tap = str(entry.get("tap"))
        if tap in self._receipts:
            self._sent.add(tap)

    async def deliver_kept(self, link: MachineLink, machine: Machine) -> None:
        """Taps that were on their way when the machine's last connection ended."""
        kept = await self._hub.store.kept_taps(machine.id)
        for id, tap in kept.items():
            if self._hub.connected.get(machine.id) is not link:
                return
            limit = REPLAY_SECONDS if "sent" in tap else FIRST_SECONDS
            with suppress(ValueError, LookupError, TypeError):  # somebody edited it
                if self._age(tap) <= limit:
                    self._deliver(link, tap)
                    continue
            await self._hub.store.drop_tap(machine.id, id)

    def heard_receipt(self, entry: dict[str, Any]) -> None:
        waiting = self._receipts.get(str(entry.get("tap")))
        if waiting is not None:
            waiting.resolve(from_plain(Receipt, entry.get("receipt")))


def _other(sent: OpenCard, answer: Answer, can: tuple[str, ...]) -> str:
    """Why an answer cannot be one to this card; a text key."""
    if answer.digest != sent.ask.digest:
        return NOT_AS_SHOWN
    if answer.action == HOLD and EXTEND in can:
        return ""
    return unoffered(sent, answer.action)
