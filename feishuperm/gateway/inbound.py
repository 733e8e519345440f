"""What comes in from Feishu: taps and texts, of whom, about what.

A tap is on a request's card, on a card that asks about a machine, or on the list of
one's machines.  A text is a pairing code, a word about one's machines, or the answer to
the card it is a reply to.  Identity is the operator's open_id and nothing else.
"""

from __future__ import annotations

import re
import secrets
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from feishuperm.app import chat
from feishuperm.app.panels import read_press
from feishuperm.app.store import OpenCard
from feishuperm.app.taps import is_nonce, is_old, read_event, said_in, toast
from feishuperm.gateway.hub import Hub
from feishuperm.gateway.machines import JOIN, REFUSE, note_card
from feishuperm.gateway.store import Machine, StoreDown
from feishuperm.lib.feishu import callback_button, card_frame, div, note, plain
from feishuperm.lib.log import log
from feishuperm.lib.task import run
from feishuperm.messages import msg, pmsg, text
from feishuperm.models.fields import part_at, text_at
from feishuperm.models.names import SERVED_COMMANDS

CODE = re.compile(r"\d{6}\Z")
MACHINES = ("机器", "machines")
LOOK_AGAIN_SECONDS = 90.0
PROBLEM = msg(
    "another program holds connections of this Feishu app and takes taps away: "
    "stop it, or let all gateways share FEISHUPERM_ENGINE"
)
NOT_YOURS = msg("This machine is not yours")
NO_MACHINE = msg(
    "No machine yet. Run feishuperm join there and send me its six digits."
)
NOT_LISTED = msg("You are not on this gateway's list (GATEWAY_OWNERS)")
REVOKE, RENAME = "revoke", "rename"  # buttons
MOST = 14  # machines on one card: Feishu takes 200 elements, and each has 13
MOST_ASKED = 50  # machines of one person that a command goes to


class Inbound:
    """Every message of the platform, understood and answered."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self.say = hub.say
        self._language = hub.language
        find = hub.store.card_of_message
        self._replies = chat.Replies(hub.say, "gateway", find, hub.later, hub.clock)

    def deliver(self, delivery: Any, answer: Callable[[dict[str, Any]], bool]) -> None:
        """A message of the platform; taps are answered when they are carried."""
        event = read_event(delivery.payload)
        kind = text_at(event, "header", "event_type")
        if kind == "card.action.trigger":
            run(self._answer_tap(event, answer), partial(self._tap_failed, answer))
            return
        answer({})  # first: what a text leads to is told by texts
        if kind == "im.message.receive_v1":
            self._hub.go(self._text(event))

    async def _answer_tap(
        self, event: dict[str, Any], answer: Callable[[dict[str, Any]], bool]
    ) -> None:
        answer(await self._tap(event))

    def _tap_failed(
        self, answer: Callable[[dict[str, Any]], bool], error: Exception
    ) -> None:
        if not isinstance(error, StoreDown):
            log(f"a tap failed: {type(error).__name__}: {error}", "error")
        answer(toast("warning", self.say("Please tap again")))

    async def _tap(self, event: dict[str, Any]) -> dict[str, Any]:
        who = text_at(event, "event", "operator", "open_id")
        action = part_at(event, "event", "action")
        value = part_at(action, "value")
        name = text_at(value, "action")
        press = read_press(event)
        if press is not None:
            event_id = text_at(event, "header", "event_id") or secrets.token_hex(8)
            return await self._hub.panels.press(event_id, press)
        if not text_at(value, "digest"):  # on no request's card
            if name in (JOIN, REFUSE):
                return await self._paired(who, value)
            if name in (REVOKE, RENAME):
                return await self._own_machine(who, value, action)
        return await self._hub.taps.tap(event)

    # Pairing.

    async def _paired(self, who: str, value: dict[str, Any]) -> dict[str, Any]:
        """The answer to "send this machine's requests to you?"."""
        say, pairing = self.say, self._hub.pairing
        over = toast(
            "warning", say("This pairing has ended: run feishuperm join again")
        )
        joining = await self._hub.store.asked(text_at(value, "id"))
        if joining is None or not is_nonce(value, joining.nonce):
            return over
        if joining.who.startswith("ou_") and joining.who != who:
            return toast("error", say("This card is for somebody else"))
        if not pairing.may_join(who):
            return toast("error", say(NOT_LISTED))
        if not await self._hub.store.spend_asked(joining.id):
            return over
        if text_at(value, "action") == REFUSE:
            kind, done = "info", say("{name} was not added", name=joining.name)
        else:
            name = await self._hub.cards.name_of(who)
            if not await pairing.confirmed(joining, who, name):
                return over
            kind, done = "success", say("{name} is added", name=joining.name)
        return toast(kind, done, note_card(done, self._language))

    async def _code(self, code: str, who: str) -> str:
        """A pairing code: ask on a card before anything happens."""
        pairing = self._hub.pairing
        if not pairing.may_join(who):
            return self.say(NOT_LISTED)
        joining = await pairing.spend_code(code, who)
        if isinstance(joining, str):
            return self.say(joining)
        await pairing.ask(joining, who)
        return ""

    # One's own machines.

    async def _own_machine(
        self, who: str, value: dict[str, Any], action: dict[str, Any]
    ) -> dict[str, Any]:
        hub, say = self._hub, self.say
        machine = await hub.store.machine(text_at(value, "machine"))
        if machine is None or machine.owner != who:
            return toast("error", say(NOT_YOURS))
        if text_at(value, "action") == REVOKE:
            await hub.revoke(machine.id, who)
            said = say("{machine} is revoked", machine=machine.name)
        else:
            name = text_at(action, "form_value", "name")
            renamed = await hub.pairing.rename(machine.id, name)
            said = say("Renamed to {machine}", machine=(renamed or machine).name)
        rows = await hub.listing(who)
        return toast("success", said, machines_card(rows, self._language))

    # Texts.

    async def _text(self, event: dict[str, Any]) -> None:
        message = part_at(event, "event", "message")
        who = text_at(event, "event", "sender", "sender_id", "open_id")
        is_user = text_at(event, "event", "sender", "sender_type") == "user"
        message_id = text_at(message, "message_id")
        private = text_at(message, "chat_type") == "p2p"
        if not is_user or not who or not private or is_old(message, self._hub.wall()):
            return
        if not await self._hub.store.is_new_event(message_id):
            return
        said = chat.cleaned(said_in(message))
        try:
            reply = await self._respond(said, who, message)
        except StoreDown:
            reply = self.say("Please tap again")
        self._hub.cards.sender.tell(message_id, reply)

    async def _respond(self, said: str, who: str, message: dict[str, Any]) -> str:
        if CODE.match(said) and said.isascii():
            return await self._code(said, who)
        if said.lower() in MACHINES:
            rows = await self._hub.listing(who)
            self._hub.cards.sender.send(who, machines_card(rows, self._language))
            return ""
        is_leaving = partial(self._is_leaving, who)
        sent = await self._replies.card_above(message, is_leaving)
        if sent is not None:
            return await self._reply_to(sent, said, who)
        told = await self._go_on(said, who, message)
        return await self._obey(said, who) if told is None else told

    async def _is_leaving(self, who: str) -> bool:
        """Whether a card is on its way to somebody."""
        for machine in await self._machines_of(who):
            if await self._hub.cards.is_leaving(machine.id):
                return True
        return False

    async def _reply_to(self, sent: OpenCard, said: str, who: str) -> str:
        """A text below a card is an answer, if it can be read as one."""
        machine = await self._hub.store.machine(sent.machine)
        if machine is None or machine.owner != who:
            return self.say(NOT_YOURS)
        if sent.shared:
            return self.say("That card holds several requests: please tap its buttons.")
        answer = self._replies.read(sent, said, who)
        if isinstance(answer, str):
            return answer
        location = await self._hub.store.location(machine.id)
        _, told = await self._hub.taps.carry(
            machine, location, sent, answer, self._hub.clock()
        )
        return text_at(told, "toast", "content")

    async def _go_on(self, said: str, who: str, message: dict[str, Any]) -> str | None:
        """What the session says to a text below a card about it; None: it is none."""
        panels, is_reply = self._hub.panels, bool(text_at(message, "parent_id"))
        for machine in await self._machines_of(who) if is_reply else ():
            session = await panels.shown.session_of(machine.id, message)
            if session and said and not chat.is_answer(said):
                words = f"{session} {said}"
                return await panels.command([machine], "continue", words, who)
        return None

    # Commands, for all machines of the person who writes, or for one.

    async def _obey(self, said: str, who: str) -> str:
        own = await self._machines_of(who)
        said, name = chat.names_machine(said, [machine.name for machine in own])
        command = chat.read_command(said)
        if command is None or command.name == "help":
            return self.say(
                "Send six digits to add a machine, `machines` to see and revoke "
                "them; reply to a card to answer it. Commands: status, sessions, "
                "progress [machine] [id], start [machine] <project> <text>, "
                "continue <id> <text>, mute [machine] [time], on, passes, undo."
            )
        machines = [machine for machine in own if name in ("", machine.name)]
        if not machines:
            return self.say(NO_MACHINE)
        if command.name in SERVED_COMMANDS:
            panels, words = self._hub.panels, command.words
            return await panels.command(machines, command.name, words, who)
        return await self._mute(machines, command)

    async def _machines_of(self, who: str) -> list[Machine]:
        machines = await self._hub.store.machines()
        return [machine for machine in machines if machine.owner == who][:MOST_ASKED]

    async def _mute(self, machines: list[Machine], command: chat.Command) -> str:
        """Want no card for a while, or want them again."""
        until = self._hub.now() + command.seconds if command.name == "mute" else 0.0
        for machine in machines:
            await self._hub.store.mute(machine.id, until)
        return chat.muted(self.say, until)


def machines_card(rows: list[dict[str, Any]], language: str) -> dict[str, Any]:
    """One's own machines, to rename and to revoke."""
    elements: list[dict[str, Any]] = []
    for row in rows[:MOST]:
        elements += _machine(row, partial(text, language))
    if not rows:
        elements = [div(text(language, NO_MACHINE))]
    elif len(rows) > MOST:
        elements.append(note(text(language, "{count} more", count=len(rows) - MOST)))
    title = text(language, "My machines")
    return card_frame(title, "", "blue", str(len(rows)), elements)


def _machine(row: dict[str, Any], say: Callable[..., str]) -> list[dict[str, Any]]:
    moment = time.strftime("%m-%d %H:%M", time.localtime(time.time() - row["since"]))
    key = (
        msg("connected since {time}") if row["connected"] else msg("away since {time}")
    )
    state = say(key, time=moment)
    words = say(
        "Revoke {machine}? Its requests no longer come here, and its open cards stop "
        "working.",
        machine=row["name"],
    )
    value = {"machine": row["id"], "action": REVOKE}
    revoke = {
        **callback_button(say(pmsg("machine", "Revoke")), "default", value),
        "confirm": {"title": plain(row["name"]), "text": plain(words)},
    }
    rename = {
        **callback_button(say("Rename"), "default", {**value, "action": RENAME}),
        "name": f"submit_{row['id']}",
        "form_action_type": "submit",
    }
    entry = {
        "tag": "input", "name": "name", "width": "fill", "max_length": 40,
        "default_value": row["name"],
    }  # fmt: skip
    form = {"tag": "form", "name": f"form_{row['id']}", "elements": [entry, rename]}
    facts = f"{row['address']} · {state} · {row['id']}"
    return [div(row["name"]), note(facts), form, revoke, {"tag": "hr"}]


class SecondConnection:
    """Whether another program holds connections of this app: it would take taps away.

    Feishu hands each tap to one connection of an app at random.  How many there are is
    asked when ours comes up; a connection that was cut may be counted for a while, so
    only a second look believes that there is another one.  Nothing is asked while all
    is well.  For a gateway that shares no store, which must be alone.
    """

    def __init__(
        self,
        count: Callable[[], int],
        on_loop: Callable[[Callable[[], object]], object],
        later: Callable[[float, Callable[[], object]], object],
    ) -> None:
        self._count = count  # blocks
        self._on_loop = on_loop
        self._later = later
        self._was_many = False
        self.problem = ""

    def look(self) -> None:
        """Ask, in a thread of its own."""
        threading.Thread(target=self._work, name="second", daemon=True).start()

    def _work(self) -> None:
        count = self._count()
        self._on_loop(lambda: self.seen(count))

    def seen(self, count: int) -> None:
        """So many connections are counted."""
        is_many = count > 1
        if is_many and self._was_many and not self.problem:
            log(PROBLEM, "error")
        self.problem = PROBLEM if is_many and self._was_many else ""
        self._was_many = is_many
        if is_many:
            self._later(LOOK_AGAIN_SECONDS, self.look)
