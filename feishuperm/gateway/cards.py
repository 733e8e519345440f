"""The cards of a gateway: asks of many machines, each to its machine's owner.

Cards leave through outboxes in threads of their own, as those of one machine do.  Which
card belongs to which request is in the store, so that any replica can judge a tap on it
and settle it.  What a tap means is never decided here.

    a card      the store's row              what its machine is told
    leaves      without a message id         nothing yet
    is out      with one                     shown
    failed      none                         not shown, once
    settled     none, once it is a record    nothing: the machine said so

A step that the store did not take is tried until it does.
"""

from __future__ import annotations

import hashlib
import json
import threading
import time
from collections import Counter
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, NamedTuple, TypeVar

from feishuperm.app.api import AppApi, Result, attach
from feishuperm.app.bursts import Burst
from feishuperm.app.cards import (
    AFTER_ANSWER,
    CHANGE_SECONDS,
    RECORD,
    Extra,
    Pace,
    ask_card,
    escalate,
    file_of,
    hurried_card,
    open_card,
    settled_card,
)
from feishuperm.app.health import name_of
from feishuperm.app.store import OpenCard, below
from feishuperm.app.taps import is_nonce
from feishuperm.channels.base import gone
from feishuperm.channels.outbox import NOT_WANTED, TOO_MANY, Sender, nonce
from feishuperm.gateway.store import (
    RECORD_SECONDS,
    Machine,
    Store,
    StoreDown,
    as_text,
    remember,
)
from feishuperm.lib.log import log
from feishuperm.lib.task import Promise, pause, run
from feishuperm.messages import msg
from feishuperm.models.ask import Ask, Outcome, fit, to_plain
from feishuperm.models.fields import text_at

AGAIN_SECONDS, AGAIN_MOST = 0.5, 8.0  # until a step is tried that the store missed
NAME_SECONDS = 1.5  # of the 2.5 that a tap has
MAX_ENDS = 20_000  # requests with a card, of all machines
MAX_ROWS, MAX_SHARED = 2_000, 1 << 14  # requests that share a card; bytes of each
MAX_ROW = 1 << 17  # characters of a card in the store
MAX_BYTES = 16 << 20  # of one machine's requests, until their cards have left
TOO_MUCH = "too much of this machine is on its way"
STORE_DOWN = msg("the gateway's engine does not answer")
UNSHOWABLE = "the gateway cannot show it"
TOO_LARGE = "it is too large for this gateway"
OTHER = "another request with this id is on its way"
ELSEWHERE = "it ended while its card left"

T = TypeVar("T")


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


class RowAsked(NamedTuple):
    """A request that shares a card, until that is out."""

    key: tuple[str, str]
    leaving: Leaving
    has_stand_in: bool = False


class Cards:
    """One app's cards. Everything but the sending happens on the loop."""

    def __init__(
        self,
        api: AppApi,
        store: Store,
        on_loop: Callable[[Callable[[], object]], object],
        later: Callable[[float, Callable[[], object]], object],
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
        urgent: bool = False,
        language: str = "zh",
    ) -> None:
        self.sender = Sender(api, "gateway", on_loop, later, clock, wall, language)
        self.urgent = urgent
        self._store = store
        self._on_loop = on_loop
        self._clock = clock
        self._leaving: dict[tuple[str, str], Leaving] = {}
        self._bytes: Counter[str] = Counter()  # by machine, of all that has to leave
        # Cards that become records, and what is known of their requests by now.
        self._ending: dict[tuple[str, str], tuple[Outcome, str]] = {}
        self._ends: dict[tuple[str, str], float] = {}  # when pending requests do
        self._calm: dict[str, tuple[float, float]] = {}  # by machine, see `hush`
        self._pace = Pace(clock, MAX_ENDS)
        self._bursts: dict[tuple[str, str], Burst] = {}  # by machine and session
        # By request, also for what is told of it afterwards.
        self._rows: dict[tuple[str, str], Burst] = {}

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
            down = isinstance(error, StoreDown)
            await self._failed(key, STORE_DOWN if down else UNSHOWABLE)
            raise

    async def _send(
        self, machine: Machine, ask: Ask, leaving: Leaving, until: float
    ) -> None:
        """Keep a card and queue it; one that is out stays as it is."""
        kept = await self._store.card(machine.id, ask.id)
        if kept is not None and kept.ask.digest == ask.digest and kept.message_id:
            remember(self._ends, sent_key(kept), until, MAX_ENDS)
            await self._known_out(kept, leaving)  # it came back
            if kept.ask.seconds != ask.seconds:
                await self._insist(self._show_extended, kept, ask)
            return
        # The same wherever and whenever it is made: should the store lose the card, or
        # a replica die while it leaves, the next try finds the message that is out.
        mark = self._store.derived("card", machine.id, ask.id, ask.digest)
        card, whole = ask_card(ask, mark, Extra(machine=machine.id))
        sent = OpenCard(fit(ask, RECORD), mark, "", whole, machine.id, machine.owner)
        size = len(as_text(sent))
        if size > MAX_ROW:
            await self._failed((machine.id, ask.id), TOO_LARGE)
            return
        is_burst = self._pace.is_burst(ask.session, machine.id)
        if kept is None and is_burst and size <= MAX_SHARED:
            self._join_burst(machine, sent.ask, leaving, until)
            return
        await self._store.put_card(sent)
        uuid = hashlib.sha256(f"{machine.id} {mark}".encode()).hexdigest()[:50]
        if leaving.ended is not None:
            await self._failed((machine.id, ask.id), NOT_WANTED)
            return
        call = partial(self.sender.api.send, machine.owner, card, uuid)
        self._go(self._leave, sent, ask, until, call)

    async def _leave(
        self, sent: OpenCard, ask: Ask, until: float, call: Callable[[], Result]
    ) -> None:
        """Send a card, and keep which message it is."""
        key, left = sent_key(sent), Promise[Result]()
        seconds = until - self._clock()
        self.sender.card(call, seconds, left.resolve, " ".join(key), sent.owner)
        result = await left
        message_id = result.data.get("message_id") if result.ok else ""
        if not isinstance(message_id, str) or not message_id:
            await self._failed(key, result.message)
            return
        sent, leaving = sent._replace(message_id=message_id), self._leaving[key]
        if not await self._insist(self._note_sent, sent):  # said another replica
            await self._failed(key, ELSEWHERE)
            over = gone(ask, self.sender.wall()), ""
            await self._draw(sent, *(leaving.ended or over))
            return
        remember(self._ends, key, until, MAX_ENDS)
        await self._known_out(sent, leaving)
        if leaving.ended is None:
            self._watch(sent, until)
            if not sent.grants and not ask.partial:
                await self._attach(sent, ask, until)

    async def _failed(self, key: tuple[str, str], detail: str) -> None:
        """There is no card: nothing is left of it, here or in the store."""
        self._leaving[key].known(False, detail)
        await self._insist(self._store.drop_card, *key)
        self._weigh(key[0], -self._leaving.pop(key).size)

    async def _known_out(self, sent: OpenCard, leaving: Leaving) -> None:
        """A card is out; should its request have ended, it becomes a record."""
        leaving.known(True, "")
        del self._leaving[sent.machine, sent.ask.id]
        self._weigh(sent.machine, -leaving.size)
        if leaving.ended is not None:
            await self.settle(sent.machine, *leaving.ended)

    async def is_leaving(self, machine: str) -> bool:
        """Whether a card of a machine's is on its way, as far as it is known here.

        One of many is in the store once it is out, any other before it leaves.
        """
        if any(key[0] == machine for key in self._leaving):
            return True
        kept = await self._store.cards_of(machine)
        return any(not card.message_id for card in kept)

    async def _note_sent(self, sent: OpenCard) -> bool:
        """Keep what is known of a card, unless its request has ended."""
        if await self._store.card(sent.machine, sent.ask.id) is None:
            return False
        await self._store.put_card(sent)
        return True

    async def _attach(self, sent: OpenCard, ask: Ask, until: float) -> None:
        """Put the whole below a card that could not hold it, then offer everything."""
        content = file_of(ask)
        full, _ = ask_card(ask, sent.nonce, Extra(attached=True, machine=sent.machine))
        name = f"f-{sent.nonce}"
        call = partial(attach, self.sender.api, sent.message_id, content, name, full)
        self._weigh(sent.machine, len(content))
        left = until - self._clock()
        result = await self.sender.queue(call, left, message_id=sent.message_id)
        self._weigh(sent.machine, -len(content))
        if result.ok:
            await self._insist(self._note_sent, sent._replace(grants=True))

    def _weigh(self, machine: str, size: int) -> None:
        """Count what a machine has to leave; one without any is not kept."""
        self._bytes[machine] += size
        if self._bytes[machine] <= 0:
            del self._bytes[machine]

    # Many requests of a session at once share a card: it is a host of `Burst`.

    def _join_burst(
        self, machine: Machine, ask: Ask, leaving: Leaving, until: float
    ) -> None:
        place = machine.id, ask.session
        burst = self._bursts.get(place)
        if burst is None or not burst.takes():
            burst = Burst(self, ask.session, nonce(), machine.owner, machine.id)
            self._bursts[place] = burst
        key = machine.id, ask.id
        remember(self._ends, key, until, MAX_ENDS)
        remember(self._rows, key, burst, MAX_ROWS)
        burst.add(ask, RowAsked(key, leaving))

    async def _restore_burst(self, sent: OpenCard) -> Burst:
        """The card of many that another gateway drew, or this one before it ended."""
        cards = await self._store.cards_of(sent.machine)
        fellows = [card for card in cards if card.message_id == sent.message_id]
        if all(card.ask.id != sent.ask.id for card in fellows):
            fellows.append(sent)
        known = (self._rows.get(sent_key(card)) for card in fellows)
        found = next((burst for burst in known if burst is not None), None)
        if found is not None and found.holds(sent.ask.id):
            return found  # another end of this card was faster
        burst = self.burst_of(fellows)
        burst.is_elsewhere, burst.is_watched = False, True
        for card in fellows:
            remember(self._rows, sent_key(card), burst, MAX_ROWS)
        return burst

    def burst_of(self, cards: list[OpenCard]) -> Burst:
        """The card of many that these rows stand on, to answer a tap by."""
        first = cards[0]
        burst = Burst(self, first.ask.session, first.nonce, first.owner, first.machine)
        burst.message_id, burst.is_elsewhere = first.message_id, True
        burst.restore([card.ask for card in cards])
        return burst

    def leaving_burst(self, machine: str, value: dict[str, Any]) -> Burst | None:
        """The card of many of a tap that is faster than the id of its message."""
        place = machine, text_at(value, "id")  # of a row's request, or the session
        burst = self._rows.get(place) or self._bursts.get(place)
        if burst is None or burst.message_id or not is_nonce(value, burst.nonce):
            return None
        return burst

    def seconds_left(self, burst: Burst, id: str) -> int | None:
        ends = self._ends.get((burst.machine, id))
        return None if ends is None else max(0, round(ends - self._clock()))

    def report_row(self, announcement: RowAsked, result: Result) -> None:
        key, leaving, _ = announcement
        if self._leaving.get(key) is not leaving:
            return  # it has ended
        if result.ok:
            leaving.known(True, "")
            self._weigh(key[0], -self._leaving.pop(key).size)
        else:
            self._rows.pop(key, None)
            self._go(self._failed, key, result.message)

    def keep_row(self, card: OpenCard) -> None:
        self._go(self._insist, self._store.put_card, card)

    def drop_row(self, burst: Burst, id: str) -> None:
        self._go(self._insist, self._store.drop_card, burst.machine, id)

    def buzz(self, burst: Burst) -> None:
        self.sender.buzz(burst.message_id, burst.receiver)

    def burst_over(self, burst: Burst) -> None:
        place = burst.machine, burst.session
        if self._bursts.get(place) is burst:
            del self._bursts[place]

    def _settle_row(self, key: tuple[str, str], burst: Burst, outcome: Outcome) -> None:
        """A request that shares a card has ended."""
        leaving = self._leaving.pop(key, None)
        if leaving is not None:
            leaving.known(False, NOT_WANTED)
            self._weigh(key[0], -leaving.size)
        burst.settle(outcome)

    # Time.

    def hush(self, machine: str, span: list[Any]) -> None:
        """From when to when nothing may remind of a machine's cards, in seconds."""
        if len(span) == 2 and all(isinstance(part, (int, float)) for part in span):
            begin, end = (part + self._clock() for part in span)
            remember(self._calm, machine, (begin, end), MAX_ENDS)

    def is_calm(self, message_id: str, machine: str) -> bool:
        begin, end = self._calm.get(machine, (0.0, 0.0))
        return begin <= self._clock() < end

    def _watch(self, sent: OpenCard, until: float) -> None:
        """A card is out: remind of it in time."""
        urge = partial(self._urge, sent) if self.urgent else None
        remind = partial(self._go, self._remind, *sent_key(sent))
        escalate(self.sender.later, until - self._clock(), remind, urge)

    async def _remind(self, machine: str, id: str) -> None:
        """Half the time is over: say so below the card, and on it."""
        sent = await self._store.card(machine, id)
        if sent is None or (machine, id) not in self._ends:
            return
        if self.is_calm(sent.message_id, machine):
            return
        left = max(0, round(self._ends[machine, id] - self._clock()))
        hurry = self.sender.say_left(sent.message_id, left, sent.nonce)
        hurried = None if sent.ask.is_cut else hurried_card(sent, sent.ask, hurry)
        if hurried is not None:
            self._change_open(sent, hurried, left)

    def _urge(self, sent: OpenCard) -> None:
        """Let the card buzz for the last third."""
        is_calm = self.is_calm(sent.message_id, sent.machine)
        if sent_key(sent) in self._ends and not is_calm:
            self.sender.buzz(sent.message_id, sent.owner)

    async def _show_extended(self, kept: OpenCard, ask: Ask) -> None:
        """A request has more time: its card says so, unless it has ended."""
        longer = kept._replace(ask=fit(ask, RECORD))
        if await self._note_sent(longer):
            card = open_card(longer._replace(ask=ask))
            change = partial(self._change_open, longer, card, CHANGE_SECONDS)
            self.sender.later(AFTER_ANSWER, change)

    def _change_open(
        self, sent: OpenCard, card: dict[str, Any], seconds: float
    ) -> None:
        """Change the card of a pending request; one that has ended is a record."""
        if sent_key(sent) in self._ends:
            self.sender.redraw(sent.message_id, card, seconds)

    # Afterwards.

    async def settle(self, machine: str, outcome: Outcome, who: str = "") -> None:
        """A request ended: its card becomes a record, on every device.

        Until it has, the card is kept: should this replica die, the machine is told of
        it when it comes back, and settles it again.
        """
        key = machine, outcome.id
        self._ends.pop(key, None)
        if self._is_noted(key, (outcome, who)):
            return
        self._ending[key] = (outcome, who)
        try:
            sent = await self._insist(self._make_record, *key)
        except BaseException:
            del self._ending[key]
            raise
        if sent is not None and sent.shared:
            del self._ending[key]
            burst = await self._insist(self._restore_burst, sent)
            self._settle_row(key, burst, outcome)
        elif sent is not None and sent.message_id:
            self._go(self._draw_end, sent, key)
        else:
            await self._end(key)

    async def _draw_end(self, sent: OpenCard, key: tuple[str, str]) -> None:
        """Make a card a record; again if more is known by then."""
        drawn = None
        try:
            while drawn is not self._ending[key]:
                drawn = self._ending[key]
                result = await self._draw(sent, *drawn)
                if result.message == TOO_MANY:
                    drawn = None
                    await pause(self.sender.later, AGAIN_MOST)
        except (LookupError, ValueError) as error:
            _report(error)  # nobody can show it; it is over all the same
        await self._end(key)

    async def _end(self, key: tuple[str, str]) -> None:
        del self._ending[key]
        await self._insist(self._store.drop_card, *key)

    async def _make_record(self, machine: str, id: str) -> OpenCard | None:
        """The card of a request, kept for what may be told of it afterwards."""
        sent = await self._store.card(machine, id)
        if sent is not None and sent.message_id:
            await self._store.put_record(sent)
        if sent is not None and sent.message_id and sent.ask.session:
            about = below(sent.message_id, sent.ask.session, self.sender.wall())
            await self._store.put_shown(machine, about)
        return sent

    async def update(self, machine: str, outcome: Outcome, who: str = "") -> None:
        """More is known of a request that has ended: its record says that too."""
        key = machine, outcome.id
        if self._is_noted(key, (outcome, who), is_update=True):
            return
        sent = await self._insist(self._store.record, *key)
        if sent is not None and not sent.shared:
            self._go(self._draw, sent, outcome, who)

    def _is_noted(
        self, key: tuple[str, str], end: tuple[Outcome, str], is_update: bool = False
    ) -> bool:
        """Whether what is under way with the card draws this end too."""
        leaving = self._leaving.get(key)
        if key in self._rows:
            self._settle_row(key, self._rows[key], end[0])
        elif leaving is not None and (leaving.ended or not is_update):
            leaving.ended = end
            self.sender.cards.cancel(" ".join(key))
        elif key in self._ending:
            self._ending[key] = end
        else:
            return False
        return True

    async def _draw(self, sent: OpenCard, outcome: Outcome, who: str) -> Result:
        """Make a card the record of how its request ended, after the tap's answer."""
        record = settled_card(sent.ask, outcome, who, sent.machine)
        await pause(self.sender.later, AFTER_ANSWER)
        return await self.sender.redraw(sent.message_id, record, RECORD_SECONDS)

    def name_of(self, who: str) -> Promise[str]:
        """A person's name in the directory; empty if that takes too long."""
        promise: Promise[str] = Promise()

        def work() -> None:
            name = name_of(self.sender.api, who)
            self._on_loop(lambda: promise.resolve(name))

        threading.Thread(target=work, name="name", daemon=True).start()
        self.sender.later(NAME_SECONDS, lambda: promise.resolve(""))
        return promise

    def _go(self, steps: Callable[..., Any], *parts: Any) -> None:
        run(steps(*parts), _report)

    async def _insist(
        self, step: Callable[..., Coroutine[Any, None, T]], *parts: Any
    ) -> T:
        """Take a step, again and again while the store does not answer."""
        seconds = AGAIN_SECONDS
        while True:
            try:
                return await step(*parts)
            except StoreDown:
                await pause(self.sender.later, seconds)
                seconds = min(2 * seconds, AGAIN_MOST)


def sent_key(sent: OpenCard) -> tuple[str, str]:
    return sent.machine, sent.ask.id


def _report(error: Exception) -> None:
    if not isinstance(error, StoreDown):
        log(f"gateway cards: {type(error).__name__}: {error}", "error")
