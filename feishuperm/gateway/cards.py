"""The cards of a gateway: asks of many machines, each to its machine's owner.

Cards leave through outboxes in threads of their own, as those of one machine do.  Which
card belongs to which request is kept by the engine, so that any replica can judge a tap
on it and settle it.  What a tap means is never decided here.
"""

from __future__ import annotations

import hashlib
import json
import secrets
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from feishuperm.channels.app.card import Extra, ask_card, settled_card
from feishuperm.channels.app.health import name_of
from feishuperm.channels.outbox import Form, Job, Lanes, Outbox, RateLimit
from feishuperm.gateway.engine import EngineDown
from feishuperm.gateway.registry import AnyEngine, Machine, read
from feishuperm.lib.feishu_app import AppApi, Result
from feishuperm.lib.log import log
from feishuperm.lib.task import Promise, run
from feishuperm.models.ask import Ask, Outcome, shorten, to_plain

APP_LIMIT = ((45, 1.0), (990, 60.0))  # messages of one app
CHANGE_LIMIT = ((40, 1.0), (990, 60.0))
EACH_LIMIT = ((4, 1.0),)  # to one person, or of one message; Feishu refuses the sixth
EACH_CODES = frozenset((230020,))  # then
CHANGE_SECONDS = 120.0
NAME_SECONDS = 1.5  # of the 2.5 that a tap has
AFTER_ANSWER = 0.3  # a change that overtakes the answer to its tap would be undone
KEPT_SECONDS = 86400  # of which message is about what
RECORD_SECONDS = 3600  # in which a settled card may still tell what came of it
BLOCK = 2_000  # characters of a block that a settled card shows again
FILE_NAME = "request.txt"


class Sent(NamedTuple):
    """A card that is out, or on its way."""

    ask: Ask = Ask()
    machine: str = ""
    owner: str = ""
    nonce: str = ""
    message_id: str = ""  # empty until Feishu has told it
    grants: bool = False  # it shows the whole: it may be granted


class Cards:
    """One app's cards. Everything but the sending happens on the loop."""

    def __init__(
        self,
        api: AppApi,
        engine: AnyEngine,
        on_loop: Callable[[Callable[[], object]], object],
        later: Callable[[float, Callable[[], object]], object],
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self.api = api
        self._engine = engine
        self._on_loop = on_loop
        self._later = later
        self._clock = clock
        self._wall = wall
        # Cards that leave or become records, and how their requests ended meanwhile.
        self._leaving: dict[tuple[str, str], tuple[Outcome, str] | None] = {}
        self._cards, self._changes = (
            Outbox(name, RateLimit(limits), lanes=Lanes(EACH_LIMIT, EACH_CODES))
            for name, limits in (
                ("gateway", APP_LIMIT),
                ("gateway changes", CHANGE_LIMIT),
            )
        )

    def start(self) -> None:
        self._cards.start()
        self._changes.start()

    def close(self) -> None:
        self._cards.close()
        self._changes.close()

    # Out.

    async def announce(
        self, machine: Machine, ask: Ask, done: Callable[[bool, str], object]
    ) -> None:
        """Show a request to the owner of its machine; raises EngineDown."""
        kept = await self.get(machine.id, ask.id)
        if kept is not None and kept.ask.digest == ask.digest and kept.message_id:
            done(True, "")  # it came back, and its card is out
            return
        nonce = kept.nonce if kept is not None else secrets.token_urlsafe(12)
        card, whole = ask_card(ask, nonce, Extra(machine=machine.id))
        sent = Sent(shorten(ask, BLOCK), machine.id, machine.owner, nonce, "", whole)
        await self._engine.run(self._keeping(sent))
        uuid = hashlib.sha256(f"{machine.id} {ask.id}".encode()).hexdigest()[:50]
        result: list[Result] = []

        def call() -> Result:
            result.append(self.api.send(machine.owner, card, uuid))
            return result[-1]

        def left(shown: bool, detail: str) -> None:
            message_id = result[-1].data.get("message_id") if shown else ""
            self._on_loop(partial(self._left, sent, ask, message_id, done, detail))

        until = self._clock() + ask.created + ask.seconds - self._wall()
        key = machine.id, ask.id
        self._leaving[key] = None
        self._cards.add(
            Job((Form(call),), until, True, lambda: self._leaving.get(key) is None,
                left, machine.owner)
        )  # fmt: skip

    def _left(
        self,
        sent: Sent,
        ask: Ask,
        message_id: Any,
        done: Callable[[bool, str], object],
        detail: str,
    ) -> None:
        ended = self._leaving.pop((sent.machine, ask.id), None)
        if not isinstance(message_id, str) or not message_id:
            done(False, detail)
            if ended is not None:
                self._go(self._forget, sent.machine, ask.id)
            return
        done(True, "")
        out = sent._replace(message_id=message_id)
        self._go(self._note_sent, out)
        if ended is not None:
            self._go(self.settle, sent.machine, *ended)
        elif not sent.grants and not ask.partial:
            self._attach(out, ask)

    async def _note_sent(self, sent: Sent) -> None:
        key = self._engine.key("message", sent.message_id)
        about = json.dumps([sent.machine, sent.ask.id])
        await self._engine.run(
            self._keeping(sent), ("SET", key, about, "EX", KEPT_SECONDS)
        )

    async def _note_whole(self, sent: Sent) -> None:
        """What has ended meanwhile stays ended."""
        if await self.get(sent.machine, sent.ask.id) is not None:
            await self._note_sent(sent)

    def _attach(self, sent: Sent, ask: Ask) -> None:
        """Put the whole below a card that could not hold it, then offer everything."""
        content = "\n\n".join(
            f"{block.label}\n{block.text}" if block.label else block.text
            for block in ask.blocks
        ).encode(errors="replace")
        full, _ = ask_card(ask, sent.nonce, Extra(attached=True, machine=sent.machine))

        def call() -> Result:
            result = self.api.upload(FILE_NAME, content)
            if not result.ok:
                return result
            key = {"file_key": result.data.get("file_key")}
            uuid = f"f-{sent.nonce}"
            result = self.api.reply(sent.message_id, key, uuid, "file")
            return self.api.update(sent.message_id, full) if result.ok else result

        def left(shown: bool, detail: str) -> None:
            if shown:
                whole = sent._replace(grants=True)
                self._on_loop(partial(self._go, self._note_whole, whole))

        seconds = ask.created + ask.seconds - self._wall()
        self._change(sent.message_id, call, seconds, left)

    # Afterwards.

    async def settle(self, machine: str, outcome: Outcome, who: str = "") -> None:
        """A request ended: its card becomes a record, on every device.

        Until it has, the card is kept: should this replica die, the machine is told of
        it when it comes back, and settles it again.
        """
        key = machine, outcome.id
        is_leaving = key in self._leaving
        self._leaving[key] = (outcome, who)
        if is_leaving:
            return
        try:
            sent = await self._make_record(*key)
        finally:  # what is known by now
            outcome, who = self._leaving.pop(key) or (outcome, who)
        if sent is None:
            return
        forget = partial(self._go, self._forget, *key)
        if not sent.message_id:
            forget()
            return
        try:
            self._draw(sent, outcome, who, lambda *result: self._on_loop(forget))
        except (LookupError, ValueError):  # nobody can show it; it is over all the same
            forget()
            raise

    async def _make_record(self, machine: str, id: str) -> Sent | None:
        """The card of a request, kept for what may be told of it afterwards."""
        sent = await self.get(machine, id)
        if sent is not None and sent.message_id:
            kept, key = json.dumps(to_plain(sent)), self._record_key(machine, id)
            await self._engine.run(("SET", key, kept, "EX", RECORD_SECONDS))
        return sent

    async def update(self, machine: str, outcome: Outcome, who: str = "") -> None:
        """More is known of a request that has ended: its record says that too."""
        if self._leaving.get((machine, outcome.id)) is not None:
            self._leaving[machine, outcome.id] = (outcome, who)
            return
        key = self._record_key(machine, outcome.id)
        (raw,) = await self._engine.run(("GET", key))
        sent = read(Sent, raw)
        if sent is not None:
            self._draw(sent, outcome, who)

    def _draw(
        self,
        sent: Sent,
        outcome: Outcome,
        who: str,
        done: Callable[[bool, str], object] = lambda shown, detail: None,
    ) -> None:
        """Make a card the record of how its request ended, after the tap's answer."""
        record = settled_card(sent.ask, outcome, who)
        call = partial(self.api.update, sent.message_id, record)
        change = partial(self._change, sent.message_id, call, CHANGE_SECONDS, done)
        self._later(AFTER_ANSWER, change)

    def _record_key(self, machine: str, id: str) -> str:
        return self._engine.key("record", machine, id)

    async def _forget(self, machine: str, id: str) -> None:
        await self._engine.run(("HDEL", self._engine.key("cards", machine), id))

    async def get(self, machine: str, id: str) -> Sent | None:
        (raw,) = await self._engine.run(
            ("HGET", self._engine.key("cards", machine), id)
        )
        return read(Sent, raw)

    async def of(self, machine: str) -> list[Sent]:
        (flat,) = await self._engine.run(
            ("HGETALL", self._engine.key("cards", machine))
        )
        cards = [read(Sent, raw) for raw in flat[1::2]]
        return [card for card in cards if card is not None]

    async def about(self, message_id: str) -> Sent | None:
        """The card that a reply belongs to."""
        (raw,) = await self._engine.run(
            ("GET", self._engine.key("message", message_id))
        )
        if raw is None:
            return None
        machine, id = json.loads(raw)
        return await self.get(machine, id)

    def _keeping(self, sent: Sent) -> tuple[str, ...]:
        plain = json.dumps(to_plain(sent))
        return ("HSET", self._engine.key("cards", sent.machine), sent.ask.id, plain)

    # Other messages.

    def send(
        self,
        receiver: str,
        card: dict[str, Any],
        done: Callable[[bool, str], object] = lambda shown, detail: None,
    ) -> None:
        """A card of the gateway's own."""
        uuid = secrets.token_urlsafe(12)
        call = partial(self.api.send, receiver, card, uuid)
        until = self._clock() + CHANGE_SECONDS
        self._cards.add(
            Job(
                (Form(call),),
                until,
                True,
                done=lambda shown, detail: self._on_loop(partial(done, shown, detail)),
                lane=receiver,
            )
        )

    def name_of(self, who: str) -> Promise[str]:
        """A person's name in the directory; empty if that takes too long."""
        promise: Promise[str] = Promise()

        def work() -> None:
            name = name_of(self.api, who)
            self._on_loop(lambda: promise.resolve(name))

        threading.Thread(target=work, name="name", daemon=True).start()
        self._later(NAME_SECONDS, lambda: promise.resolve(""))
        return promise

    def reply(self, message_id: str, said: str) -> None:
        """A text below a person's message."""
        if message_id:
            uuid = secrets.token_urlsafe(12)
            call = partial(self.api.reply, message_id, {"text": said}, uuid, "text")
            self._change(message_id, call, CHANGE_SECONDS)

    def _change(
        self,
        message_id: str,
        call: Callable[[], Result],
        seconds: float,
        done: Callable[[bool, str], object] = lambda shown, detail: None,
    ) -> None:
        until = self._clock() + seconds
        self._changes.add(Job((Form(call),), until, True, done=done, lane=message_id))

    def _go(self, steps: Callable[..., Any], *parts: Any) -> None:
        run(steps(*parts), _report)


def _report(error: Exception) -> None:
    if not isinstance(error, EngineDown):
        log(f"gateway cards: {type(error).__name__}: {error}", "error")
