"""Panels of machines: what their sessions do, shown to their owners.

A machine fills its panels and judges every press; a command or a press of the owner
travels as a tap without a request does (`taps.Taps.ask`), and its receipt holds what is
to be told.  So a machine can show a card only in answer to its owner, to nobody else,
and change it only for a while (`app.panels`).  Which message shows what is in the
store: any replica can judge a press, and the one that holds the machine changes the
card.

    the machine                      its open panels
    says what changed                change in place
    is away for AWAY_SECONDS         freeze: it is not connected
    comes back as another process    freeze: it was started again
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import partial
from typing import Any

from feishuperm.app.panels import (
    MOST_WORDS,
    STOPPED,
    TOO_LONG,
    PanelCards,
    Press,
    Then,
    inert,
)
from feishuperm.app.taps import toast
from feishuperm.errors import PayloadError
from feishuperm.gateway.machines import MachineLink
from feishuperm.gateway.store import Machine, StoreDown
from feishuperm.gateway.taps import AWAY, MAX_RECEIPT, SENT, UNHEARD
from feishuperm.lib.task import together
from feishuperm.messages import msg
from feishuperm.models import ask as statuses
from feishuperm.models.ask import Answer, Receipt, from_plain
from feishuperm.models.fields import decoded
from feishuperm.models.names import INVALID
from feishuperm.models.panel import ERROR, INFO, SUCCESS, WARNING, Panel, Told
from feishuperm.protocol.machine import PRESS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from feishuperm.gateway.hub import Hub

WAIT_SECONDS = 20.0  # for a machine that has to look at its sessions first
AWAY_SECONDS = 10.0  # in which a machine may come back
MAX_NAME = 200  # characters of the id of a panel, or of a session
# Changes that a machine may tell: as many as its cards may be, should all end at once.
PANEL_LIMIT = ((200, 1.0), (1200, 60.0))
UNREADABLE = msg("{machine} said something that this gateway cannot read")
WHICH = msg("Which machine? Write its name behind the first word: {names}")


class MachinePanels:
    """Every panel of every machine, as far as this replica has to do with it."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self.shown = PanelCards(hub.store, hub.cards.sender)

    # In.

    async def command(
        self, machines: Sequence[Machine], name: str, words: str, who: str
    ) -> str:
        """Ask machines; their cards follow, what they say otherwise is returned."""
        if len(words) > MOST_WORDS:
            return self._hub.say(TOO_LONG, count=MOST_WORDS)
        if name == "start" and len(machines) > 1:
            names = "、".join(machine.name for machine in machines)
            return self._hub.say(WHICH, names=names)
        steps = [self._command(machine, name, words, who) for machine in machines]
        told = list(zip(machines, await together(steps)))
        if words and any(each.panel.id for _, each in told):
            return ""  # of the others, none knows what was meant
        has_lines = name in ("status", "undo")
        lines = (_line(machine, each, has_lines) for machine, each in told if each.said)
        return "\n".join(lines)

    async def _command(self, machine: Machine, name: str, words: str, who: str) -> Told:
        told = await self._ask(machine, name, who, words=words)
        if told.panel.id:
            self.shown.show(machine.id, who, told.panel)
        return told

    async def press(self, event: str, press: Press) -> dict[str, Any]:
        """The answer to a press: of the owner, on one of the machine's messages."""
        hub, who = self._hub, press.who
        machine = await hub.store.machine(press.machine)
        if machine is None:
            return toast(WARNING, hub.say(INVALID))
        if who != machine.owner:
            hub.taps.refused(machine, press.panel, press.action, who)
            owner = machine.name_of(machine.owner)
            return toast(ERROR, hub.say("Only {owner} may do this", owner=owner))
        sent = hub.taps.unheard(machine, SENT)
        if not await hub.store.is_new_event(event):
            return toast(INFO, sent)

        def ask(then: Then) -> None:
            given = {"panel": press.panel, PRESS: press.action, "words": press.words}
            hub.go(self._answer(then, machine, who, given))

        return await self.shown.press(machine.id, press, ask, sent)

    async def _answer(
        self, then: Then, machine: Machine, who: str, given: dict[str, str]
    ) -> None:
        then(await self._ask(machine, PRESS, who, **given))

    async def _ask(self, machine: Machine, name: str, who: str, **values: str) -> Told:
        given: dict[str, tuple[str, ...]] = {
            key: (value,) for key, value in values.items()
        }
        answer = Answer("", name, given, "gateway", who)
        try:
            receipt = await self._hub.taps.ask(machine, answer, WAIT_SECONDS)
        except StoreDown:  # nobody can say that it was sent
            return Told(self._hub.say("Please tap again"), WARNING, fixed=True)
        return self._told(machine, receipt)

    def _told(self, machine: Machine, receipt: Receipt) -> Told:
        """What a machine says to its owner."""
        if receipt.status in (SENT, AWAY):
            said = self._hub.say(UNHEARD[receipt.status], machine=machine.name)
            return Told(said, WARNING, fixed=True)
        if receipt.status != statuses.TOLD:
            return Told(receipt.error, ERROR)
        try:
            told = from_plain(Told, decoded("".join(receipt.outcome.lines[:1])))
            panel = self._named(machine, told.panel)
        except PayloadError:
            said = self._hub.say(UNREADABLE, machine=machine.name)
            return Told(said, ERROR)
        known = (SUCCESS, INFO, WARNING, ERROR)
        status = told.status if told.status in known else INFO
        return told._replace(panel=panel, status=status, fixed=False)

    def _named(self, machine: Machine, panel: Panel) -> Panel:
        """A machine's panel as it is shown here. Raises PayloadError."""
        if max(len(panel.id), len(panel.session)) > MAX_NAME:
            raise PayloadError("a panel with a long id")
        headline = " · ".join(filter(None, (machine.name, panel.headline)))
        return panel._replace(headline=headline, language=self._hub.language)

    # Out.

    def changed(self, link: MachineLink, message: dict[str, Any]) -> None:
        """A machine says how one of its panels looks now."""
        if not self._hub.may_send(f"{link.machine.id} panels", PANEL_LIMIT):
            return
        if len(json.dumps(message.get("panel"))) > MAX_RECEIPT:
            raise PayloadError("a panel that is too large")
        panel = from_plain(Panel, message.get("panel"))
        named = self._named(link.machine, panel)
        self._hub.take(link, self.shown.change(link.machine.id, named))

    def restarted(self, machine: str) -> None:
        """A new process of a machine knows nothing of its panels."""
        self._hub.go(self.shown.freeze(machine, STOPPED))

    def left(self, machine: Machine) -> None:
        """A machine has left; it may come back at once."""
        later = partial(self._freeze, machine)
        self._hub.later(AWAY_SECONDS, lambda: self._hub.go(later()))

    async def _freeze(self, machine: Machine) -> None:
        location = await self._hub.store.location(machine.id)
        if location is None or not await self._hub.is_connected(location):
            why = self._hub.say(UNHEARD[AWAY], machine=machine.name)
            await self.shown.freeze(machine.id, why)


def _line(machine: Machine, told: Told, has_lines: bool) -> str:
    """What a machine says, behind its name; this gateway's own words name it."""
    said = inert(told.said)
    apart = "\n" if has_lines and told.status == SUCCESS else " "
    return said if told.fixed else f"{machine.name}:{apart}{said}"
