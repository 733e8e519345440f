"""The cards of a gateway: asks of many machines, each to its machine's owner.

Cards leave through outboxes in threads of their own, as those of one machine do.  Which
card belongs to which request is kept by the engine, so that any replica can judge a tap
on it and settle it.  What a tap means is never decided here.

    a card      the engine's row             what its machine is told
    leaves      without a message id         nothing yet
    is out      with one                     shown
    failed      none                         not shown, once
    settled     none, once it is a record    nothing: the machine said so

A step that the engine did not take is tried until it does.
"""

from __future__ import annotations

import hashlib
import json
import secrets
import threading
import time
from collections import Counter
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, NamedTuple, TypeVar

from feishuperm.channels.app.card import RECORD, Extra, ask_card, settled_card
from feishuperm.channels.app.health import name_of
from feishuperm.channels.base import gone
from feishuperm.channels.outbox import (
    TOO_MANY,
    Form,
    Job,
    Lanes,
    Outbox,
    RateLimit,
)
from feishuperm.gateway.engine import EngineDown
from feishuperm.gateway.registry import AnyEngine, Machine, read
from feishuperm.lib.feishu_app import AppApi, Result
from feishuperm.lib.log import log
from feishuperm.lib.task import Promise, run
from feishuperm.models.ask import Ask, Outcome, fit, to_plain

APP_LIMIT = ((45, 1.0), (990, 60.0))  # messages of one app
CHANGE_LIMIT = ((40, 1.0), (990, 60.0))
EACH_LIMIT = ((4, 1.0),)  # to one person, or of one message; Feishu refuses the sixth
EACH_CODES = frozenset((230020,))  # then
CHANGE_SECONDS = 120.0
AGAIN_SECONDS, AGAIN_MOST = 0.5, 8.0  # until a step is tried that the engine missed
NAME_SECONDS = 1.5  # of the 2.5 that a tap has
AFTER_ANSWER = 0.3  # a change that overtakes the answer to its tap would be undone
KEPT_SECONDS = 86400  # of which message is about what
RECORD_SECONDS = 3600  # in which a settled card may still tell what came of it
MAX_ROW = 1 << 17  # characters of a card in the engine
FILE_NAME = "request.txt"
# Of one machine's requests, until their cards have left; and of its records.
MAX_BYTES = 16 << 20
TOO_MUCH = "too much of this machine is on its way"
ENGINE_DOWN = "the gateway's engine does not answer"
UNSHOWABLE = "the gateway cannot show it"
TOO_LARGE = "it is too large for this gateway"
OTHER = "another request with this id is on its way"
ELSEWHERE = "it ended while its card left"

T = TypeVar("T")


class Sent(NamedTuple):
    """A card that is out, or on its way."""

    ask: Ask = Ask()
    machine: str = ""
    owner: str = ""
    nonce: str = ""
    message_id: str = ""  # empty until Feishu has told it
    grants: bool = False  # it shows the whole: it may be granted


class Leaving:
    """A card on its way: whom to tell, and how its request ended meanwhile."""

    def __init__(self, digest: str, size: int = 0) -> None:
        self.digest = digest
        self.size = size  # of what is kept of it meanwhile
        self.ended: tuple[Outcome, str] | None = None
        self._result: tuple[bool, str] | None = None
        self._done: Callable[[bool, str], object] = lambda shown, detail: None

    def tell(self, done: Callable[[bool, str], object]) -> None:
        """Tell who asked last whether it is out, now or once that is known.

        Its machine asks again when it has come back, and has no other connection then.
        """
        self._done = done
        if self._result is not None:
            done(*self._result)

    def known(self, shown: bool, detail: str) -> None:
        self._result = shown, detail
        self._done(shown, detail)


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
        self._leaving: dict[tuple[str, str], Leaving] = {}
        self._bytes: Counter[str] = Counter()  # by machine, of all that has to leave
        # Cards that become records, and what is known of their requests by now.
        self._ending: dict[tuple[str, str], tuple[Outcome, str]] = {}
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
        self,
        machine: Machine,
        ask: Ask,
        done: Callable[[bool, str], object],
        seconds: float,
    ) -> None:
        """Show a request to the owner of its machine, for so many seconds."""
        key = machine.id, ask.id
        leaving = self._leaving.get(key)
        if leaving is not None:
            is_same = leaving.digest == ask.digest
            leaving.tell(done) if is_same else done(False, OTHER)
            return
        size = len(json.dumps(to_plain(ask)))
        if self._bytes[machine.id] + size > MAX_BYTES:
            done(False, TOO_MUCH)
            return
        self._weigh(machine.id, size)
        leaving = self._leaving[key] = Leaving(ask.digest, size)
        leaving.tell(done)
        try:
            await self._send(machine, ask, leaving, self._clock() + seconds)
        except Exception as error:
            down = isinstance(error, EngineDown)
            await self._failed(key, ENGINE_DOWN if down else UNSHOWABLE)
            raise

    async def _send(
        self, machine: Machine, ask: Ask, leaving: Leaving, until: float
    ) -> None:
        """Keep a card and queue it; one that is out stays as it is."""
        kept = await self.get(machine.id, ask.id)
        if kept is not None and kept.ask.digest == ask.digest and kept.message_id:
            await self._known_out(kept, leaving)  # it came back
            return
        # The same wherever and whenever it is made: should the engine lose the card, or
        # a replica die while it leaves, the next try finds the message that is out.
        nonce = self._engine.derived("card", machine.id, ask.id, ask.digest)
        card, whole = ask_card(ask, nonce, Extra(machine=machine.id))
        sent = Sent(fit(ask, RECORD), machine.id, machine.owner, nonce, "", whole)
        keeping = self._keeping(sent)
        if len(keeping[-1]) > MAX_ROW:
            await self._failed((machine.id, ask.id), TOO_LARGE)
            return
        await self._engine.run(keeping)
        uuid = hashlib.sha256(f"{machine.id} {nonce}".encode()).hexdigest()[:50]
        result: list[Result] = []

        def call() -> Result:
            result.append(self.api.send(machine.owner, card, uuid))
            return result[-1]

        def left(shown: bool, detail: str) -> None:
            message_id = result[-1].data.get("message_id") if shown else ""
            self._on_loop(partial(self._left, sent, ask, message_id, detail, until))

        wanted = lambda: leaving.ended is None  # noqa: E731
        self._cards.add(Job((Form(call),), until, True, wanted, left, machine.owner))

    def _left(
        self, sent: Sent, ask: Ask, message_id: Any, detail: str, until: float
    ) -> None:
        if isinstance(message_id, str) and message_id:
            self._go(self._is_out, sent._replace(message_id=message_id), ask, until)
        else:
            self._go(self._failed, (sent.machine, ask.id), detail)

    async def _failed(self, key: tuple[str, str], detail: str) -> None:
        """There is no card: nothing is left of it, here or in the engine."""
        self._leaving[key].known(False, detail)
        await self._insist(self._forget, *key)
        self._weigh(key[0], -self._leaving.pop(key).size)

    async def _is_out(self, sent: Sent, ask: Ask, until: float) -> None:
        """A card has left: keep which message it is."""
        leaving = self._leaving[sent.machine, ask.id]
        if not await self._insist(self._note_sent, sent):  # said another replica
            await self._failed((sent.machine, ask.id), ELSEWHERE)
            self._draw(sent, *(leaving.ended or (gone(ask, self._wall()), "")))
            return
        await self._known_out(sent, leaving)
        if leaving.ended is None and not sent.grants and not ask.partial:
            self._attach(sent, ask, until)

    async def _known_out(self, sent: Sent, leaving: Leaving) -> None:
        """A card is out; should its request have ended, it becomes a record."""
        leaving.known(True, "")
        del self._leaving[sent.machine, sent.ask.id]
        self._weigh(sent.machine, -leaving.size)
        if leaving.ended is not None:
            await self.settle(sent.machine, *leaving.ended)

    async def _note_sent(self, sent: Sent) -> bool:
        """Keep what is known of a card, unless its request has ended."""
        if await self.get(sent.machine, sent.ask.id) is None:
            return False
        key = self._engine.key("message", sent.message_id)
        about = json.dumps([sent.machine, sent.ask.id])
        await self._engine.run(
            self._keeping(sent), ("SET", key, about, "EX", KEPT_SECONDS)
        )
        return True

    def _attach(self, sent: Sent, ask: Ask, until: float) -> None:
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
            self._on_loop(partial(self._weigh, sent.machine, -len(content)))
            if shown:
                whole = sent._replace(grants=True)
                note = partial(self._go, self._insist, self._note_sent, whole)
                self._on_loop(note)

        self._weigh(sent.machine, len(content))
        self._change(sent.message_id, call, until - self._clock(), left)

    def _weigh(self, machine: str, size: int) -> None:
        """Count what a machine has to leave; one without any is not kept."""
        self._bytes[machine] += size
        if self._bytes[machine] <= 0:
            del self._bytes[machine]

    # Afterwards.

    async def settle(self, machine: str, outcome: Outcome, who: str = "") -> None:
        """A request ended: its card becomes a record, on every device.

        Until it has, the card is kept: should this replica die, the machine is told of
        it when it comes back, and settles it again.
        """
        key = machine, outcome.id
        leaving = self._leaving.get(key)
        if leaving is not None:
            leaving.ended = (outcome, who)
            return
        is_under_way = key in self._ending
        self._ending[key] = (outcome, who)
        if is_under_way:
            return  # drawn with what is known by then
        try:
            sent = await self._insist(self._make_record, *key)
        except BaseException:
            del self._ending[key]
            raise
        if sent is not None and sent.message_id:
            self._draw_end(sent, key)
        else:
            await self._end(key)

    def _draw_end(self, sent: Sent, key: tuple[str, str]) -> None:
        """Make a card a record; one change of it is under way at a time."""
        ending = self._ending[key]

        def done(shown: bool, detail: str) -> None:
            self._on_loop(partial(self._drawn, sent, key, ending, detail))

        try:
            self._draw(sent, *ending, done)
        except (LookupError, ValueError):  # nobody can show it; it is over all the same
            self._go(self._end, key)
            raise

    def _drawn(
        self, sent: Sent, key: tuple[str, str], drawn: tuple[Outcome, str], detail: str
    ) -> None:
        if detail == TOO_MANY:
            self._later(AGAIN_MOST, partial(self._draw_end, sent, key))
        elif self._ending[key] is not drawn:  # more is known by now
            self._draw_end(sent, key)
        else:
            self._go(self._end, key)

    async def _end(self, key: tuple[str, str]) -> None:
        del self._ending[key]
        await self._insist(self._forget, *key)

    async def _make_record(self, machine: str, id: str) -> Sent | None:
        """The card of a request, kept for what may be told of it afterwards."""
        sent = await self.get(machine, id)
        if sent is not None and sent.message_id:
            kept, key = json.dumps(to_plain(sent)), self._record_key(machine, id)
            count = self._engine.key("recorded", machine)
            _, size = await self._engine.run(
                ("SET", count, 0, "NX", "EX", RECORD_SECONDS),
                ("INCRBY", count, len(kept)),
            )
            if size <= MAX_BYTES:
                await self._engine.run(("SET", key, kept, "EX", RECORD_SECONDS))
        return sent

    async def update(self, machine: str, outcome: Outcome, who: str = "") -> None:
        """More is known of a request that has ended: its record says that too."""
        place = machine, outcome.id
        leaving = self._leaving.get(place)
        if leaving is not None and leaving.ended is not None:
            leaving.ended = (outcome, who)
            return
        if place in self._ending:
            self._ending[place] = (outcome, who)
            return
        sent = await self._insist(self._record, *place)
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
        change = partial(self._change, sent.message_id, call, RECORD_SECONDS, done)
        self._later(AFTER_ANSWER, change)

    async def _record(self, machine: str, id: str) -> Sent | None:
        (raw,) = await self._engine.run(("GET", self._record_key(machine, id)))
        return read(Sent, raw)

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
        forms = (Form(call),)
        self._changes.add(
            Job(forms, until, True, done=done, lane=message_id, lasts=True)
        )

    def _go(self, steps: Callable[..., Any], *parts: Any) -> None:
        run(steps(*parts), _report)

    async def _insist(
        self, step: Callable[..., Coroutine[Any, None, T]], *parts: Any
    ) -> T:
        """Take a step, again and again while the engine does not answer."""
        pause = AGAIN_SECONDS
        while True:
            try:
                return await step(*parts)
            except EngineDown:
                over: Promise[None] = Promise()
                self._later(pause, partial(over.resolve, None))
                await over
                pause = min(2 * pause, AGAIN_MOST)


def _report(error: Exception) -> None:
    if not isinstance(error, EngineDown):
        log(f"gateway cards: {type(error).__name__}: {error}", "error")
