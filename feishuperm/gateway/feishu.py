"""What comes in from Feishu: taps and texts, of whom, about what.

A tap is on a request's card, on a card that asks about a machine, or on the list of
one's machines.  A text is a pairing code, a word about one's machines, or the answer to
the card it is a reply to.  Identity is the operator's open_id and nothing else.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from typing import Any

from feishuperm.channels.app import chat
from feishuperm.channels.app.card import confirm_words
from feishuperm.channels.app.events import (
    is_nonce,
    is_old,
    read_event,
    said_in,
    toast,
)
from feishuperm.gateway.cards import Sent
from feishuperm.gateway.engine import EngineDown
from feishuperm.gateway.hub import Hub
from feishuperm.gateway.notes import (
    JOIN,
    REFUSE,
    RENAME,
    REVOKE,
    join_card,
    machines_card,
    note_card,
)
from feishuperm.gateway.registry import Machine
from feishuperm.gateway.taps import SEEN_SECONDS
from feishuperm.lib.log import log
from feishuperm.lib.task import run
from feishuperm.models.ask import Answer
from feishuperm.models.fields import part_at, text_at

CODE = re.compile(r"\d{6}\Z")
MACHINES = ("机器", "machines")
TWICE_SECONDS = 120.0  # between "always" and its second word


class Feishu:
    """Every message of the platform, understood and answered."""

    def __init__(
        self,
        hub: Hub,
        language: str,
        wall: Callable[[], float] = time.time,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._hub = hub
        self._language = language
        self._wall = wall
        self._clock = clock
        self._said: dict[tuple[str, str], float] = {}  # "always", said once

    def deliver(self, delivery: Any, answer: Callable[[dict[str, Any]], bool]) -> None:
        """A message of the platform; taps are answered when they are carried."""
        event = read_event(delivery.payload)
        kind = text_at(event, "header", "event_type")
        if kind == "card.action.trigger":

            def failed(error: Exception) -> None:
                if not isinstance(error, EngineDown):
                    log(f"a tap failed: {type(error).__name__}: {error}", "error")
                answer(toast("warning", self._hub.say("gateway.again")))

            run(self._answer_tap(event, answer), failed)
            return
        answer({})  # first: what a text leads to is told by texts
        if kind == "im.message.receive_v1":
            self._hub.go(self._text(event))

    async def _answer_tap(
        self, event: dict[str, Any], answer: Callable[[dict[str, Any]], bool]
    ) -> None:
        answer(await self._tap(event))

    async def _tap(self, event: dict[str, Any]) -> dict[str, Any]:
        who = text_at(event, "event", "operator", "open_id")
        action = part_at(event, "event", "action")
        value = part_at(action, "value")
        name = text_at(value, "action")
        if name in (JOIN, REFUSE) and not text_at(value, "digest"):
            return await self._paired(who, value)
        if name in (REVOKE, RENAME) and not text_at(value, "digest"):
            return await self._own_machine(who, value, action)
        return await self._hub.taps.tap(event)

    # Pairing.

    async def _paired(self, who: str, value: dict[str, Any]) -> dict[str, Any]:
        """The answer to "shall this machine's requests come to you?"."""
        say, registry = self._hub.say, self._hub.registry
        joining = await registry.asked(text_at(value, "id"))
        if joining is None or not is_nonce(value, joining.nonce):
            return toast("warning", say("pair.over"))
        if joining.who.startswith("ou_") and joining.who != who:
            return toast("error", say("pair.other"))
        if not registry.may_join(who):
            return toast("error", say("pair.forbidden"))
        if not await registry.spend_ask(joining.id):
            return toast("warning", say("pair.over"))
        if text_at(value, "action") == REFUSE:
            card = note_card(say("pair.refused", name=joining.name), self._language)
            return toast("info", say("pair.refused", name=joining.name), card)
        name = await self._hub.cards.name_of(who)
        if not await self._hub.pairing.confirmed(joining, who, name):
            return toast("warning", say("pair.over"))
        done = say("pair.done", name=joining.name)
        return toast("success", done, note_card(done, self._language))

    async def _code(self, code: str, who: str) -> str:
        """A pairing code: ask on a card before anything comes of it."""
        registry = self._hub.registry
        if not registry.may_join(who):
            return self._hub.say("pair.forbidden")
        joining = await registry.spend_code(code, who)
        if isinstance(joining, str):
            return self._hub.say(joining)
        asked = await registry.ask(joining, who)
        self._hub.cards.send(who, join_card(asked, self._language))
        return ""

    # One's own machines.

    async def _own_machine(
        self, who: str, value: dict[str, Any], action: dict[str, Any]
    ) -> dict[str, Any]:
        hub = self._hub
        machine = await hub.registry.get(text_at(value, "machine"))
        if machine is None or machine.owner != who:
            return toast("error", hub.say("gateway.not_yours"))
        if text_at(value, "action") == REVOKE:
            await hub.revoke(machine.id, who)
            said = hub.say("gateway.revoked", machine=machine.name)
        else:
            name = text_at(action, "form_value", "name")
            renamed = await hub.registry.rename(machine.id, name)
            said = hub.say("gateway.renamed", machine=renamed.name if renamed else "")
        rows = await hub.listing(who)
        return toast("success", said, machines_card(rows, self._language))

    # Texts.

    async def _text(self, event: dict[str, Any]) -> None:
        message = part_at(event, "event", "message")
        who = text_at(event, "event", "sender", "sender_id", "open_id")
        is_user = text_at(event, "event", "sender", "sender_type") == "user"
        message_id = text_at(message, "message_id")
        private = text_at(message, "chat_type") == "p2p"
        if not is_user or not who or not private or is_old(message, self._wall()):
            return
        key = self._hub.engine.key("seen", message_id)
        (fresh,) = await self._hub.engine.run(
            ("SET", key, "1", "NX", "EX", SEEN_SECONDS)
        )
        if fresh is None:
            return
        said = chat.cleaned(said_in(message))
        reply = await self._respond(said, who, message)
        if reply:
            self._hub.cards.reply(message_id, reply)

    async def _respond(self, said: str, who: str, message: dict[str, Any]) -> str:
        if CODE.match(said) and said.isascii():
            return await self._code(said, who)
        if said.lower() in MACHINES:
            rows = await self._hub.listing(who)
            self._hub.cards.send(who, machines_card(rows, self._language))
            return ""
        for key in ("parent_id", "root_id"):
            parent = text_at(message, key)
            sent = await self._hub.cards.about(parent) if parent else None
            if sent is not None:
                return await self._reply_to(sent, said, who)
        return self._hub.say("gateway.help")

    async def _reply_to(self, sent: Sent, said: str, who: str) -> str:
        """A text below a card is an answer, if it can be read as one."""
        say = self._hub.say
        machine = await self._hub.registry.get(sent.machine)
        if machine is None or machine.owner != who:
            return say("gateway.not_yours")
        reply = chat.read_reply(said, sent.ask)
        offer = sent.ask.offer(reply.action) if reply is not None else None
        if reply is None or offer is None:
            return say("chat.unclear")
        if offer.grants and not sent.grants:
            return say("answer.not_offered")
        words = confirm_words(offer, sent.ask)
        if words and not self._twice(who, f"{sent.machine} {sent.ask.id}"):
            return say("chat.always", rules=words)
        answer = Answer(sent.ask.id, reply.action, reply.values, "gateway", who,
                        sent.ask.digest, bool(words))  # fmt: skip
        return await self._carried(machine, sent, answer)

    async def _carried(self, machine: Machine, sent: Sent, answer: Answer) -> str:
        try:
            _, said = await self._hub.taps.carry(machine, sent, answer, self._clock())
        except EngineDown:
            return self._hub.say("gateway.again")
        return text_at(said, "toast", "content")

    def _twice(self, who: str, what: str) -> bool:
        now = self._clock()
        before = self._said.pop((who, what), -TWICE_SECONDS)
        if now - before < TWICE_SECONDS:
            return True
        self._said[who, what] = now
        while len(self._said) > 1000:
            del self._said[next(iter(self._said))]
        return False
