"""The Feishu app: cards whose buttons call back, and words that answer them.

Cards leave through outboxes in threads of their own; taps and texts come in over the
long connection, on the loop.  A tap is judged here by who tapped (the operator's
open_id and nothing else), by the nonce of its card and by its message; what it means
is the desk's.  The final card travels in the answer to the tap, and again as a change
of the message for other devices.

The life of a card:

    queued -> out (message id known, kept over restarts) -> settled (no button left)
    queued -> dropped, if its request ended before it left

A request of which the card could not hold everything gets a file below it; only then
may anybody grant it.
"""

from __future__ import annotations

import secrets
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple, Protocol, TypeVar

from feishuperm.channels.app.burst import Burst
from feishuperm.channels.app.card import (
    HOLD,
    REVOKE,
    Extra,
    ask_card,
    is_offered,
    passes_card,
    settled_card,
)
from feishuperm.channels.app.events import is_nonce, read_event, read_tap, toast
from feishuperm.channels.app.health import Health
from feishuperm.channels.app.store import CardStore, Shown
from feishuperm.channels.app.talk import Talk
from feishuperm.channels.base import Announcement, Channel, gone
from feishuperm.channels.outbox import Form, Job, Outbox, RateLimit
from feishuperm.lib.feishu import build_notice_card
from feishuperm.lib.feishu_app import AppApi, Result
from feishuperm.lib.text import text
from feishuperm.models import ask as statuses
from feishuperm.models.ask import Answer, Ask, Notice, Outcome, Receipt
from feishuperm.models.fields import part_at, text_at
from feishuperm.wire import MAX_EVENT


class Line(Protocol):
    """The long connection, see `server.link`."""

    state: str
    detail: str
    since: float

    def start(self) -> None: ...

    def close(self) -> None: ...

    def card_sent(self) -> None: ...

    def cards_settled(self) -> None: ...


T = TypeVar("T")
PERSON_LIMIT = ((5, 1.0), (1000, 60.0))  # messages to one person, and of one app
CHANGE_LIMIT = ((40, 1.0), (1000, 60.0))
CHANGE_SECONDS = 120.0  # a card that could not be changed for so long stays as it is
RECORDS = 200  # settled cards that may still have to tell what came of it
NOTICE_SECONDS = 300.0
AFTER_ANSWER = 0.3  # a change that overtakes the answer to its tap would be undone
RETURN_SECONDS = 20.0  # in which hooks come back to a new server
REMEMBERED_EVENTS = 2000  # ids of taps and texts that were answered
LEAST_REMINDED = 20  # seconds; who has less needs no reminder
FILE_NAME = "request.txt"
STAND_IN_SECONDS = 8.0  # for a card to leave, where another channel could show it
EXAMINE_SECONDS = 3600.0  # between two looks at the app because nobody answered
MEND_SECONDS = 60.0  # the same while it is known that nobody can


class People(NamedTuple):
    """Who gets cards, and whose taps count."""

    receiver: str
    owners: frozenset[str]


class Counter(NamedTuple):
    """What the channel needs of the desk."""

    answer: Callable[[Answer], Receipt]
    waits: Callable[[str], bool]
    ask: Callable[[str], Ask | None]  # of a waiting request, as cards show it
    # The same with nothing cut, later; False if it is gone or has more bytes than that.
    whole: Callable[[str, int, Callable[[Ask], object]], bool]
    outcome: Callable[[str], Outcome | None]  # of one that has ended
    refused: Callable[[str, str, str], object]  # id, action, who: for the ledger
    status: Callable[[], list[tuple[str, str]]]  # what waits: its title, its words
    hold: Callable[[str, str], bool]  # id, who: somebody reads it, the clock stops
    left: Callable[[str], float]  # seconds that a waiting request has
    undo: Callable[[str], list[str]]  # who: take back the chat's last rule; slow
    # What goes through unasked: id, what it is, until when.
    pass_rows: Callable[[], list[tuple[str, str, str]]]
    revoke: Callable[[str, str], int]  # id or "all", who: how many passes ended


class AppChannel(Channel):
    """One app. Everything but the outboxes' sending happens on the loop."""

    name = "app"

    def __init__(
        self,
        api: AppApi,
        people: People,
        counter: Counter,
        store: CardStore,
        line: Callable[[Callable[..., object], Callable[[], object]], Line],
        on_loop: Callable[[Callable[[], object]], object],
        later: Callable[[float, Callable[[], None]], object],
        language: str = "zh",
        urgent: bool = False,
        page: Callable[[str], str] = lambda id: "",
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
        nonce: Callable[[], str] = lambda: secrets.token_urlsafe(12),
    ) -> None:
        self.api = api
        self.people = people
        self.counter = counter
        self.store = store
        self._on_loop = on_loop
        self.later = later
        self._language = language
        self._urgent = urgent
        self._page = page
        self._clock = clock
        self._wall = wall
        self._nonce = nonce
        self._back_by = clock() + RETURN_SECONDS
        self._shown_to: dict[str, Announcement] = {}  # by pending request, card out
        self._is_deaf = False  # no tap can arrive
        self._health = Health(
            api, people.owners, self._queue, on_loop, later, clock, self._reach_changed
        )
        self._line = line(self.deliver, self._health.line_changed)
        self._health.line = self._line
        self._cards = Outbox("app", RateLimit(PERSON_LIMIT))
        self._changes = Outbox("app changes", RateLimit(CHANGE_LIMIT))
        self._talk = Talk(self, clock, wall)
        self._answered: OrderedDict[str, dict[str, Any]] = OrderedDict()
        self._records: dict[str, Shown] = {}  # settled, latest last
        self._shared: dict[str, Burst] = {}  # the same of those that share a card
        self._changing = 0  # cards that are changed in a moment
        self._bursts: list[Burst] = []  # those with a line that waits
        self._recent: dict[str, deque[float]] = {}  # by session

    # The interface of a channel.

    def start(self) -> None:
        self._take_bursts_back()
        self._cards.start()
        self._changes.start()
        self._line.start()
        for card in self.store.all():
            outcome = self.counter.outcome(card.ask.id)
            if outcome is not None:
                self._end(card, outcome)
        self.later(RETURN_SECONDS, self._settle_lost)

    def close(self) -> None:
        self._line.close()
        self._cards.close()
        self._changes.close()

    def muted(self) -> bool:
        return self._wall() < self.store.muted_until

    def keeps(self, id: str, is_back: bool = False) -> bool:
        card = self.store.get(id)
        return card is not None and bool(card.message_id)

    def state(self) -> tuple[str, str]:
        trouble = self._health.trouble()
        if trouble:
            return "down", trouble
        state, detail = self._cards.state()
        if self.muted():
            until = time.strftime("%H:%M", time.localtime(self.store.muted_until))
            return state, f"muted until {until}"
        return state, (state == "up" and self._health.warning()) or detail

    def facts(self) -> Mapping[str, Any]:
        up = self._line.state == "up"
        return {"connected_since": round(self._line.since, 3) if up else None}

    def busy(self) -> bool:
        """Whether a card is still to be changed."""
        due = self._changing > 0 or any(burst.is_due for burst in self._bursts)
        return due or self._changes.busy() or self._cards.busy()

    def notify(self, notice: Notice) -> None:
        card = partial(build_notice_card, notice, self._language)
        uuid = self._nonce()
        receiver = self.people.receiver
        call = lambda: self.api.send(receiver, card(), uuid)  # noqa: E731
        until = self._clock() + NOTICE_SECONDS
        self._cards.add(Job(self._forms(call), until, False))

    def announce(self, ask: Ask, announcement: Announcement) -> None:
        """Show a request, or leave it to another channel while no tap can arrive."""
        done = partial(self._told, ask.id, announcement)
        announcement = announcement._replace(done=done)
        if announcement.stand_in is None or not self._health.trouble():
            self._show(ask, announcement)
            return
        patience = self._health.patience()
        if patience > 0:
            self.later(patience, partial(self._show_or_leave, ask, announcement))
        else:
            self._show_or_leave(ask, announcement)

    def _told(
        self, id: str, announcement: Announcement, shown: bool, detail: str
    ) -> None:
        announcement.done(shown, detail)
        if shown and self.counter.waits(id):
            self._shown_to[id] = announcement
            self._is_deaf = bool(self._health.trouble())
            if self._is_deaf:
                announcement.lost()

    def _reach_changed(self) -> None:
        """Taps cannot arrive any more, or can again: so says each pending request."""
        was, self._is_deaf = self._is_deaf, bool(self._health.trouble())
        for announcement in self._shown_to.values() if was != self._is_deaf else ():
            announcement.lost() if self._is_deaf else announcement.done(True, "")

    def _show_or_leave(self, ask: Ask, announcement: Announcement) -> None:
        trouble = self._health.trouble()
        if trouble or not announcement.wanted():
            announcement.done(False, trouble)
            self._health.look(MEND_SECONDS)  # it may have been mended meanwhile
        else:
            self._show(ask, announcement)

    def _show(self, ask: Ask, announcement: Announcement) -> None:
        """Queue the card of a request, or a line of the card of many."""
        if announcement.stand_in is not None:
            self._health.stand_ins[ask.id] = announcement.stand_in
        kept = self.store.get(ask.id)
        if kept is not None and kept.ask.digest != ask.digest:
            kept = None
        if kept is not None and kept.message_id:
            self._take_back(kept, ask, announcement)
            return
        if kept is None and self._is_burst(ask):
            self._join_burst(ask, announcement)
            return
        nonce = kept.nonce if kept is not None else self._nonce()
        card, whole = ask_card(ask, nonce, Extra(page=self._page(ask.id)))
        until, wanted, done, _, stand_in, _ = announcement
        shown = Shown(ask, nonce, "", whole)
        left = until - self._wall()
        job = Job(
            self._forms(partial(self._send_card, shown, card)),
            self._clock() + (left if stand_in is None else min(left, STAND_IN_SECONDS)),
            True,
            wanted,
            lambda shown, detail: self._on_loop(
                partial(self._left, ask, whole, done, shown, detail)
            ),
        )
        self._cards.add(job)

    def renew(self) -> None:
        """A card that waits stays as it was read, but for the time it has."""
        for card in self.store.all():
            ends = card.ask.created + card.ask.seconds
            id = card.ask.id
            if card.ask.hold and self._wall() + self.counter.left(id) > ends + 1:
                self._hold_card(card)

    def settle(self, outcome: Outcome) -> None:
        """A request ended: its card becomes a record, on every device."""
        self._talk.forget(outcome.id)
        self._shown_to.pop(outcome.id, None)
        self._health.stand_ins.pop(outcome.id, None)
        burst = self.burst_of(outcome.id)
        if burst is not None:
            burst.settle(outcome)
            _keep(self._shared, outcome.id, burst)
        shown = self.store.get(outcome.id)
        if shown is not None and burst is None:
            self._changing += 1
            self.later(AFTER_ANSWER, partial(self._change_now, shown, outcome))
        if shown is not None and outcome.state == "expired":
            self._health.look(EXAMINE_SECONDS)
        if not any(self.counter.waits(card.ask.id) for card in self.store.all()):
            self._line.cards_settled()

    def update(self, outcome: Outcome) -> None:
        """What came of it is known: its record says that too."""
        burst, card = self._shared.get(outcome.id), self._records.get(outcome.id)
        if burst is not None:
            burst.settle(outcome)
        elif card is not None:
            record = self._record(card.ask, outcome)
            call = partial(self.api.update, card.message_id, record)
            self._queue(call, CHANGE_SECONDS)

    def _forms(self, call: Callable[[], Result]) -> tuple[Form, ...]:
        """One call, in an outbox's thread."""

        def send() -> Result:
            result = call()
            self._health.note(result.message)
            return result

        return (Form(send),)

    # Cards out.

    def _record(self, ask: Ask, outcome: Outcome) -> dict[str, Any]:
        return settled_card(ask, outcome, self._name(outcome.who))

    def _take_back(self, card: Shown, ask: Ask, announcement: Announcement) -> None:
        """A request has come back whose card is out since the server before."""
        burst = self.burst_of(card.ask.id)
        if burst is not None:
            self._line.card_sent()
            announcement.done(True, "")
            self.watch_burst(burst)
        else:
            self._left(ask, card.grants, announcement.done, True, "")

    def _send_card(self, shown: Shown, card: dict[str, Any]) -> Result:
        """In the outbox's thread: send, and keep the message's id.

        The nonce is kept first: a thumb may be faster than Feishu's answer to us.
        """
        id = shown.ask.id
        if self.store.get(id) is None:
            self.store.put(shown)
        result = self.api.send(self.people.receiver, card, id)
        message_id = result.data.get("message_id") if result.ok else None
        if isinstance(message_id, str):
            self.store.put(shown._replace(message_id=message_id))
        return result

    def _left(
        self,
        ask: Ask,
        whole: bool,
        done: Callable[[bool, str], object],
        shown: bool,
        detail: str,
    ) -> None:
        """A card is out, or will never be."""
        done(shown, detail)
        card = self.store.get(ask.id)
        if not shown or card is None:
            if not self.counter.waits(ask.id):
                self.store.drop(ask.id)
            return
        if not self.counter.waits(ask.id):
            outcome = self.counter.outcome(ask.id)
            if outcome is not None:
                self._change(card, outcome)
            return
        self._line.card_sent()
        if not whole:
            self._attach(card)
        ends = ask.created + ask.seconds
        self._escalate(ends, partial(self._remind, ask.id), partial(self._urge, ask.id))

    def _escalate(
        self, ends: float, remind: Callable[[], None], urge: Callable[[], None]
    ) -> None:
        """Remind at half time, buzz for the last third."""
        left = ends - self._wall()
        if left >= LEAST_REMINDED:
            self.later(left / 2, remind)
        if self._urgent:
            self.later(left * 2 / 3, urge)

    def _attach(self, card: Shown) -> None:
        """Put the whole below a card that could not hold it, then offer everything."""
        self.counter.whole(card.ask.id, MAX_EVENT, partial(self._attach_whole, card))

    def _attach_whole(self, card: Shown, whole: Ask) -> None:
        # Only its page shows what a mask hides, or what is not told at all.
        if whole.veiled or whole.titled or not self.counter.waits(whole.id):
            return
        content = "\n\n".join(
            f"{block.label}\n{block.text}" if block.label else block.text
            for block in whole.blocks
        ).encode(errors="replace")
        extra = Extra(attached=True, page=self._page(card.ask.id))
        full, _ = ask_card(whole, card.nonce, extra)

        def call() -> Result:
            result = self.api.upload(FILE_NAME, content)
            if not result.ok:
                return result
            key = {"file_key": result.data.get("file_key")}
            result = self.api.reply(card.message_id, key, f"f-{card.ask.id}", "file")
            if not result.ok or not self.counter.waits(card.ask.id):
                return result
            result = self.api.update(card.message_id, full)
            if result.ok and self.store.get(card.ask.id) is not None:
                self.store.put(card._replace(grants=True))
            return result

        self._queue(call, whole.created + whole.seconds - self._wall())

    def _change_now(self, card: Shown, outcome: Outcome) -> None:
        self._changing -= 1
        self._change(card, outcome)

    def _change(self, card: Shown, outcome: Outcome) -> None:
        """Turn a card into the record of how its request ended."""
        if not card.message_id:  # it may have left meanwhile
            card = self.store.get(card.ask.id) or card
        if not card.message_id:
            self.store.drop(card.ask.id)
            return
        outcome = self.counter.outcome(card.ask.id) or outcome  # more may be known
        record = self._record(card.ask, outcome)
        _keep(self._records, card.ask.id, card)

        def call() -> Result:
            result = self.api.update(card.message_id, record)
            if not result.retry:
                self.store.drop(card.ask.id)
            return result

        self._queue(call, CHANGE_SECONDS)

    def _queue(
        self,
        call: Callable[[], Result],
        seconds: float,
        wanted: Callable[[], bool] = lambda: True,
    ) -> None:
        until = self._clock() + seconds
        self._changes.add(Job(self._forms(call), until, True, wanted, lasts=True))

    def _remind(self, id: str) -> None:
        """Half the time is over: say so on the card and once below it."""
        card, ask = self.store.get(id), self.counter.ask(id)
        if card is None or ask is None:
            return
        waits = partial(self.counter.waits, id)
        ends = ask.created + ask.seconds
        left, hurry = self._say_left(card.message_id, ends, f"r-{id}", waits)
        hurried = self._hurried(card, ask, hurry)
        if hurried is not None:
            change = partial(self.api.update, card.message_id, hurried)
            self._queue(change, left, waits)

    def _say_left(
        self, message_id: str, ends: float, uuid: str, waits: Callable[[], bool]
    ) -> tuple[float, str]:
        """Say below a card how much time is left; returns it, and what was said."""
        left = max(0, round(ends - self._wall()))
        hurry = text(self._language, "card.hurry", seconds=left)
        content = {"text": hurry}
        self._queue(
            partial(self.api.reply, message_id, content, uuid, "text"), left, waits
        )
        return left, hurry

    def _hurried(self, card: Shown, ask: Ask, hurry: str) -> dict[str, Any] | None:
        """The card with a reminder; None if it would then hold less than before."""
        extra = Extra(attached=card.grants, page=self._page(card.ask.id))
        before, after = (
            ask_card(ask, card.nonce, extra._replace(hurry=words))
            for words in ("", hurry)
        )
        return after[0] if before[1] == after[1] else None

    def _urge(self, id: str) -> None:
        """Let the card buzz for the last third."""
        card = self.store.get(id)
        if card is not None and self.counter.waits(id):
            self._buzz(card.message_id)

    def _buzz(self, message_id: str) -> None:
        for owner in sorted(self.people.owners):
            self._queue(partial(self.api.urge, message_id, owner), 30.0)

    def _settle_lost(self) -> None:
        """After a restart: what nobody came back for has ended meanwhile."""
        for card in self.store.all():
            if not self.counter.waits(card.ask.id):
                outcome = self.counter.outcome(card.ask.id)
                self._end(card, outcome or gone(card.ask, self._wall()))

    def _end(self, card: Shown, outcome: Outcome) -> None:
        burst = self.burst_of(card.ask.id)
        if burst is not None:
            burst.settle(outcome)
        else:
            self._change(card, outcome)

    def _take_bursts_back(self) -> None:
        """After a restart: cards that several requests share are bursts."""
        by_message: dict[str, list[Shown]] = {}
        for card in self.store.all():
            by_message.setdefault(card.message_id, []).append(card)
        for message_id, cards in by_message.items():
            if len(cards) > 1 and message_id:
                burst = Burst(self, cards[0].ask.session, cards[0].nonce)
                burst.message_id = message_id
                burst.restore([card.ask for card in cards])
                self._bursts.append(burst)

    # Many requests at once.

    def _is_burst(self, ask: Ask) -> bool:
        """Whether a session has asked for more than a person can tap apart."""
        times = self._recent.setdefault(ask.session, deque())
        now = self._clock()
        while times and times[0] <= now - Burst.SECONDS:
            times.popleft()
        times.append(now)
        if len(self._recent) > 200:
            del self._recent[next(iter(self._recent))]
        return bool(ask.session) and len(times) > Burst.MOST

    def _join_burst(self, ask: Ask, announcement: Announcement) -> None:
        bursts = (b for b in self._bursts if b.session == ask.session and b.takes())
        burst = next(bursts, None)
        if burst is None:
            burst = Burst(self, ask.session, self._nonce())
            self._bursts.append(burst)
        burst.add(ask, announcement)

    def watch_burst(self, burst: Burst) -> None:
        """Remind of the card of many by its first line that runs out; once."""
        if burst.is_watched:
            return
        burst.is_watched = True

        def remind() -> None:
            if not burst.is_over():
                uuid = f"r-{burst.nonce}"
                waits = lambda: not burst.is_over()  # noqa: E731
                _, hurry = self._say_left(burst.message_id, burst.ends(), uuid, waits)
                burst.hurry(hurry)

        def urge() -> None:
            if not burst.is_over():
                self._buzz(burst.message_id)

        self._escalate(burst.ends(), remind, urge)

    def send_burst(
        self,
        call: Callable[[], Result],
        done: Callable[[bool, str], object],
        stands_in: bool,
        is_change: bool,
    ) -> None:
        """Queue the card of a burst, or a change of it without a new line."""

        def left(shown: bool, detail: str) -> None:
            done(shown, detail)
            if shown and not all(burst.is_over() for burst in self._bursts):
                self._line.card_sent()

        until = self._clock() + (STAND_IN_SECONDS if stands_in else CHANGE_SECONDS)
        told = lambda *how: self._on_loop(partial(left, *how))  # noqa: E731
        forms = self._forms(call)
        self._cards.add(Job(forms, until, True, done=told, lasts=is_change))

    def burst_over(self, burst: Burst) -> None:
        """Nothing waits on this card any more."""
        if burst in self._bursts:
            self._bursts.remove(burst)

    def burst_of(self, id: str) -> Burst | None:
        return next((burst for burst in self._bursts if burst.holds(id)), None)

    # Taps and texts in.

    def deliver(self, delivery: Any, answer: Callable[[dict[str, Any]], bool]) -> None:
        """A message of the platform: understand it, do it, answer it."""
        event = read_event(delivery.payload)
        kind = text_at(event, "header", "event_type")
        if kind == "card.action.trigger":
            answer(self._once(event, self._tap))
        elif kind == "im.message.receive_v1":
            answer({})  # first: what a text leads to is told by texts
            self._once(event, self._talk.take, ("event", "message", "message_id"))
        else:
            answer({})  # unknown events are acknowledged, or they come again

    def _once(
        self,
        event: dict[str, Any],
        act: Callable[[dict[str, Any]], dict[str, Any]],
        key: tuple[str, ...] = ("header", "event_id"),
    ) -> dict[str, Any]:
        """Act on an event, unless it was delivered before: then answer the same."""
        id = text_at(event, *key)
        if id and id in self._answered:
            return self._answered[id]
        reply = act(event)
        self._answered[id] = reply
        while len(self._answered) > REMEMBERED_EVENTS:
            self._answered.popitem(last=False)
        return reply

    def _tap(self, event: dict[str, Any]) -> dict[str, Any]:
        """The answer to a tap: a toast, and the card as it is now."""
        who = text_at(event, "event", "operator", "open_id")
        action = part_at(event, "event", "action")
        value = part_at(action, "value")
        id = text_at(value, "id")
        if who not in self.people.owners:
            self.counter.refused(id, text_at(value, "action"), who)
            owners = "、".join(map(self._name, sorted(self.people.owners)))
            return toast("error", self.say("answer.only_owner", owner=owners))
        self._health.tapped()
        if text_at(value, "action") == REVOKE:
            return self._revoke(id, who)
        message_id = text_at(event, "event", "context", "open_message_id")
        burst = self._burst_at(message_id, value)
        if burst is not None:
            return burst.tap(value, action, who)
        card = self.store.get(id)
        if card is None:
            return self._stale(id)
        if not _same(card, value, message_id):
            self.counter.refused(id, text_at(value, "action"), who)
            return toast("error", self.say("answer.other"))
        if not card.message_id:
            card = card._replace(message_id=message_id)
            self.store.put(card)
        if text_at(value, "action") == HOLD:
            return self._hold(card, who)
        answer = read_tap(card.ask, value, action, who)
        if not self._may(card, answer.action):
            return toast("error", self.say("answer.not_offered"))
        return self._receipt(card, self.counter.answer(answer))

    def _revoke(self, id: str, who: str) -> dict[str, Any]:
        """A pass ends, by its button; to end one twice is no harm."""
        count = self.counter.revoke(id, who)
        said = self.say("pass.revoked", count=count)
        return toast("success" if count else "info", said, self.passes_card())

    def passes_card(self) -> dict[str, Any]:
        return passes_card(self.counter.pass_rows(), self._nonce(), self._language)

    def _hold(self, card: Shown, who: str) -> dict[str, Any]:
        """Somebody reads: stop the clock, and show until when."""
        is_held = self.counter.hold(card.ask.id, who)
        if not is_held and self.counter.waits(card.ask.id):
            return toast("error", self.say("answer.not_offered"))
        drawn = self._hold_card(card)
        if drawn is None:
            return self._stale(card.ask.id)
        ends = self._wall() + self.counter.left(card.ask.id)
        moment = time.strftime("%H:%M", time.localtime(ends))
        return toast("success", self.say("answer.held", time=moment), drawn)

    def _hold_card(self, card: Shown) -> dict[str, Any] | None:
        """Draw a card with the time that it has now; None if it waits no more."""
        id = card.ask.id
        ask = self.counter.ask(id)
        if ask is None:
            return None
        held = card.ask._replace(seconds=ask.seconds, hold=ask.hold)
        self.store.put(card._replace(ask=held))
        extra = Extra(attached=card.grants, page=self._page(id))
        drawn, _ = ask_card(ask, card.nonce, extra)
        change = partial(self.api.update, card.message_id, drawn)
        waits = partial(self.counter.waits, id)
        self.later(AFTER_ANSWER, lambda: self._queue(change, CHANGE_SECONDS, waits))
        return drawn

    def _may(self, card: Shown, action: str) -> bool:
        """Whether the card offers this: nobody grants what it does not show whole."""
        offer = card.ask.offer(action)
        if offer is None or not is_offered(offer, card.ask):
            return False
        return card.grants or not offer.grants

    def _receipt(self, card: Shown, receipt: Receipt) -> dict[str, Any]:
        if receipt.status in (statuses.SETTLED, statuses.ENDED):
            outcome = receipt.outcome
            record = self._record(card.ask, outcome)
            fresh = receipt.status == statuses.SETTLED
            return toast("success" if fresh else "info", outcome.done, record)
        if receipt.status == statuses.UNKNOWN:
            is_late = self._clock() >= self._back_by
            lost = self._record(card.ask, gone(card.ask, self._wall()))
            return toast("warning", self.missing(), lost if is_late else None)
        again = receipt.status in (statuses.INCOMPLETE, statuses.CONFIRM)
        return toast("warning" if again else "error", receipt.error)

    def missing(self) -> str:
        """What is said of a request that is not here: not yet, or not any more."""
        is_early = self._clock() < self._back_by
        return self.say("answer.again" if is_early else "ended.gone")

    def _stale(self, id: str) -> dict[str, Any]:
        """A tap on a card that is not open any more."""
        outcome = self.counter.outcome(id)
        if outcome is None:
            return toast("warning", self.say("page.invalid"))
        moment = time.strftime("%H:%M:%S", time.localtime(outcome.ended))
        return toast("info", f"{outcome.done} {moment}")

    def _burst_at(self, message_id: str, value: dict[str, Any]) -> Burst | None:
        """The burst of a tap; before its message has an id, that of the nonce."""
        for burst in self._bursts:
            is_early = not burst.message_id and is_nonce(value, burst.nonce)
            if burst.message_id == message_id or is_early:
                return burst
        return None

    def tell(self, message_id: str, said: str | Callable[[], str]) -> None:
        """Say something below a message; what is slow to make is made in a thread."""
        if not message_id:
            return
        uuid, made = self._nonce(), [] if callable(said) else [said]

        def call() -> Result:
            if not made and callable(said):  # once, however often it is sent
                made.append(said())
            return self.api.reply(message_id, {"text": made[0]}, uuid, "text")

        self._queue(call, NOTICE_SECONDS)

    def show_passes(self, message_id: str) -> None:
        """What goes through without asking, with a button to end each of it."""
        call = partial(self.api.reply, message_id, self.passes_card(), self._nonce())
        self._queue(call, NOTICE_SECONDS)

    # Small things.

    def say(self, key: str, **values: object) -> str:
        return text(self._language, key, **values)

    def _name(self, who: str) -> str:
        """A person as a card names them: by the end of their id, if nothing better."""
        return self._health.names.get(who) or (f"…{who[-6:]}" if who else "")


def _same(card: Shown, value: dict[str, Any], message_id: str) -> bool:
    """Whether a tap comes from the very card that was sent for its request.

    Nobody can know the nonce of a card whose message has no id yet but its receiver.
    """
    return card.message_id in ("", message_id) and is_nonce(value, card.nonce)


def _keep(records: dict[str, T], id: str, record: T) -> None:
    """Remember the last so many."""
    records[id] = record
    while len(records) > RECORDS:
        del records[next(iter(records))]
