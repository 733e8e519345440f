"""The Feishu app: cards whose buttons call back, and words that answer them.

Cards leave through outboxes in threads of their own, which get values and return
values: what is known of a card changes on the loop only.  Taps and texts come in over
the long connection, on the loop.  A tap is judged here by the person who tapped (the
operator's open_id and nothing else), by the nonce of its card and by its message; what
it means is for the approvals to say.  The final card travels in the answer to the tap,
and again as a change of the message for other devices.

The life of a card:

    queued (nonce kept: a thumb may be faster than Feishu's answer)
      -> out (message id known, kept over restarts) -> settled (no button left)
      -> dropped, if its request ended before it left

A request of which the card could not hold everything gets a file below it; only then
may anybody grant it.

A text below a card answers its request, any other is a command, and what is neither is
asked back (`app.chat`).  A stranger's text does nothing, nor does one that comes so
late that nobody waits.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

from feishuperm.app import chat
from feishuperm.app.api import AppApi, Result, attach
from feishuperm.app.bursts import Burst
from feishuperm.app.cards import (
    AFTER_ANSWER,
    CHANGE_SECONDS,
    HOLD,
    STAND_IN_SECONDS,
    Extra,
    Pace,
    ask_card,
    escalate,
    file_of,
    hurried_card,
    open_card,
    settled_card,
)
from feishuperm.app.health import READ_EVENT, Connection, Health
from feishuperm.app.panels import (
    STOPPED,
    PanelCards,
    Press,
    notice_card,
    read_press,
)
from feishuperm.app.pin import Pin
from feishuperm.app.store import MOST_SHOWN, OpenCard, Shown
from feishuperm.app.taps import (
    clock_stopped,
    is_changed,
    is_nonce,
    is_old,
    read_event,
    read_tap,
    receipt_toast,
    said_in,
    toast,
    unfit,
    unoffered,
)
from feishuperm.channels.base import (
    Announcement,
    ApprovalsPort,
    Channel,
    SessionsPort,
    gone,
    keep_last,
)
from feishuperm.channels.outbox import OnLoop, Sender, nonce
from feishuperm.errors import FileError, PayloadError
from feishuperm.lib.feishu import CHANGED
from feishuperm.lib.files import private_dir, read_json, write_atomic
from feishuperm.lib.log import log
from feishuperm.lib.task import Later, at_once, run
from feishuperm.messages import msg
from feishuperm.models import ask as statuses
from feishuperm.models.ask import (
    LARGEST,
    Answer,
    Ask,
    Notice,
    Outcome,
    Receipt,
    from_plain,
    shorten,
    to_plain,
)
from feishuperm.models.fields import list_at, part_at, text_at
from feishuperm.models.names import INVALID, NOT_OFFERED, SERVED_COMMANDS
from feishuperm.models.panel import Asker, Panel
from feishuperm.wire import MAX_EVENT, RETURN_SECONDS

MOST_CARDS = 1_000  # open cards, as many as an outbox queues
BLOCK = 2_000  # characters of a block that a settled card shows again
# Beside the cards: whether the chat is muted, what shows sessions, whose list the chat
# is on top of and whether reading is told.
MUTED, SHOWN, KEPT = "muted.json", "shown.json", "kept.json"
MOST_READ = 500  # messages of one event
RECORDS = 200  # settled cards that may still have to tell the result
REMEMBERED_EVENTS = 2000  # ids of taps and texts that were answered
EXAMINE_SECONDS = 3600.0  # between two looks at the app because nobody answered
REPAIR_SECONDS = 60.0  # the same while it is known that nobody can
HELP = msg(
    "Reply to a card: 1-4, allow, always, deny [reason], interrupt, or the answer "
    "itself. Commands: status, sessions, progress [id], start <project> <text>, "
    "continue <id> <text>, mute [time], on, passes, undo."
)


class People(NamedTuple):
    """Who gets cards, and whose taps count."""

    receiver: str
    owners: frozenset[str]


class CardStore:
    """Which card belongs to which request: kept over restarts.

    A folder of this user's alone with one small JSON file for each card: a thousand may
    be open, and none of them is written again because of another.  A server that comes
    back knows its open cards by it: taps on them are checked against the nonce, and
    requests that ended meanwhile are settled.
    """

    def __init__(
        self, folder: str, told: Callable[[Ask], Ask] = lambda ask: ask
    ) -> None:
        self._folder = folder
        self._told = told  # what may be told of an ask that was kept
        self._cards: dict[str, OpenCard] = {}
        self.get = self._cards.get
        self.muted_until = 0.0  # wall clock
        self.kept: dict[str, Any] = {}
        self._shown: dict[str, Shown] = {}  # by key, the newest last
        self._load()

    async def by_message(self, message_id: str) -> OpenCard | None:
        """The card that a reply belongs to; a gateway's store has to wait for it."""
        cards = self._cards.values()
        return next((card for card in cards if card.message_id == message_id), None)

    def all(self) -> list[OpenCard]:
        return list(self._cards.values())

    def put(self, card: OpenCard) -> OpenCard:
        """Keep a card, with as much of its ask as its record shows."""
        card = card._replace(ask=shorten(card.ask, BLOCK))
        self._cards[card.ask.id] = card
        self._write(_name(card.ask.id), to_plain(card))
        while len(self._cards) > MOST_CARDS:
            self.drop(next(iter(self._cards)))
        return card

    def mute(self, until: float) -> None:
        self.muted_until = until
        self._write(MUTED, until)

    def keep(self, **values: object) -> None:
        self.kept.update(values)
        self._write(KEPT, self.kept)

    async def shown(self, place: str) -> list[Shown]:
        """Messages about sessions, see `app.panels`; here is one place."""
        return list(self._shown.values())

    async def put_shown(self, place: str, row: Shown) -> None:
        self._shown.pop(row.key, None)
        keep_last(self._shown, row.key, row, MOST_SHOWN)
        self._write_shown()

    async def drop_shown(self, place: str, key: str) -> None:
        self._shown.pop(key, None)
        self._write_shown()

    def _write_shown(self) -> None:
        self._write(SHOWN, {"rows": [to_plain(row) for row in self._shown.values()]})

    def drop(self, id: str) -> None:
        if self._cards.pop(id, None) is None:
            return
        try:
            os.unlink(os.path.join(self._folder, _name(id)))
        except OSError:  # it could not be written either; settling it twice is no harm
            pass

    def _write(self, name: str, value: object) -> None:
        data = json.dumps(value).encode()
        try:
            private_dir(self._folder)
            write_atomic(os.path.join(self._folder, name), data, 0o600, lasting=False)
        except (OSError, FileError) as error:
            log(f"open cards are not kept: {error}", "error")

    def _load(self) -> None:
        """Read what was kept; the names begin with the time, so in that order."""
        try:
            names = sorted(os.listdir(self._folder))
        except OSError:
            return
        for name in names:
            try:
                self._take(name, read_json(os.path.join(self._folder, name)))
            except (FileError, PayloadError) as error:
                log(f"an open card is forgotten: {error}", "warning")

    def _take(self, name: str, kept: Any) -> None:
        if name == MUTED:
            is_moment = isinstance(kept, (int, float)) and 0 <= kept < LARGEST
            self.muted_until = float(kept) if is_moment else 0.0
            return
        if name == KEPT:
            self.kept = part_at(kept)
            return
        if name == SHOWN:
            rows = [from_plain(Shown, row) for row in list_at(kept, "rows")]
            self._shown = {row.key: row for row in rows[-MOST_SHOWN:]}
            return
        card = from_plain(OpenCard, kept)
        if card.nonce and name == _name(card.ask.id):
            self._cards[card.ask.id] = card._replace(ask=self._told(card.ask))


def _name(id: str) -> str:
    """The file of a request's card; ids are digits and letters (`protocol.frames`)."""
    return f"{id}.json"


def no_page(id: str) -> str:
    """A phone can open no page of this server."""
    return ""


class AppChannel(Channel):
    """One app, one person's machine."""

    name = "app"

    def __init__(
        self,
        api: AppApi,
        people: People,
        approvals: ApprovalsPort,
        sessions: SessionsPort,
        store: CardStore,
        connect: Callable[[Callable[..., object], Callable[[], object]], Connection],
        on_loop: OnLoop,
        later: Later,
        language: str = "zh",
        urgent: bool = False,
        page: Callable[[str], str] = no_page,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self.people, self.approvals = people, approvals
        self.sessions = sessions
        self.store = store
        self._language = language
        self.urgent = urgent
        self._page = page  # the address of a request's own, if a phone can open it
        self._clock, self._wall = clock, wall
        self._back_by = clock() + RETURN_SECONDS
        self._shown_to: dict[str, Announcement] = {}  # by pending request, card out
        self._is_deaf = False  # no tap can arrive
        self.sender = Sender(
            api, "app", on_loop, later, clock, wall, language, self._heard
        )  # fmt: skip
        self.say, self._queue = self.sender.say, self.sender.queue
        self._health = Health(
            api, people.owners, self._queue, later, clock, self._reach_changed
        )
        self._line = connect(self.deliver, self._health.line_changed)
        self._health.line = self._line
        find = store.by_message
        self._replies = chat.Replies(self.say, "message", find, later, clock)
        self._answered: dict[str, dict[str, Any]] = {}  # events, latest last
        # Where an ended request was shown, latest last: its card, or one of many.
        self._records: dict[str, OpenCard | Burst] = {}
        self._changing = 0  # cards that are changed in a moment
        self._bursts: list[Burst] = []  # those with a pending row
        self._pace = Pace(clock)
        own = [people.receiver] if people.receiver.startswith("ou_") else []
        self._pin = Pin(
            api, own, [id for id in list_at(store.kept, "pinned") if str(id) == id],
            lambda ids: store.keep(pinned=ids), self._queue, later, clock,
        )  # fmt: skip
        self._read_at: dict[str, float] = {}  # by message, latest last
        self._panels = PanelCards(store, self.sender)

    def _heard(self, result: Result) -> None:
        self._health.note(result.message)

    # The interface of a channel.

    def start(self) -> None:
        self._take_bursts_back()
        self.sender.start()
        self._line.start()
        for card in self.store.all():
            self._end(card, self.approvals.outcome(card.ask.id))
        if self.store.kept.get("reads"):
            self.approvals.note_seen((), 0.0)
        self.sender.later(RETURN_SECONDS, self._settle_lost)

    def close(self) -> None:
        self._line.close()
        self.sender.close()

    def muted(self) -> bool:
        return self._wall() < self.store.muted_until

    def keeps(self, id: str, is_back: bool = False) -> bool:
        card = self.store.get(id)
        return card is not None and bool(card.message_id)

    def state(self) -> tuple[str, str]:
        trouble = self._health.trouble()
        if trouble:
            return "down", trouble
        state, detail = self.sender.cards.state()
        warning = self._health.warning()
        if self.muted() and not warning:
            until = time.strftime("%H:%M", time.localtime(self.store.muted_until))
            return state, msg("muted until {}", until)
        return state, (state == "up" and warning) or detail

    def look(self) -> bool:
        return self._health.count()

    def facts(self) -> Mapping[str, Any]:
        up = self._line.state == "up"
        count = self._health.connections
        return {
            "connected_since": round(self._line.since, 3) if up else None,
            **({"connections": count} if count > 1 else {}),
        }

    def busy(self) -> bool:
        """Whether a card is still to be changed."""
        due = self._pin.is_due or self._changing > 0
        due = due or any(burst.is_due for burst in self._bursts)
        return due or self.sender.changes.busy() or self.sender.cards.busy()

    def notify(self, notice: Notice) -> None:
        card = notice_card(notice, self._language)
        sent = self.sender.send(self.people.receiver, card, waited_for=False)
        self._panels.noticed("", notice.session_id, sent)

    def change(self, panel: Panel) -> None:
        self._panels.go(self._panels.change("", panel))

    def stopping(self) -> None:
        self._panels.go(self._panels.freeze("", STOPPED))

    def announce(self, ask: Ask, announcement: Announcement) -> None:
        """Show a request, or leave it to another channel while no tap can arrive."""
        if not announcement.has_stand_in or not self._health.trouble():
            self._show(ask, announcement)
        elif (patience := self._health.patience()) > 0:
            show = partial(self._show_or_leave, ask, announcement)
            self.sender.later(patience, show)
        else:
            self._show_or_leave(ask, announcement)

    def report_row(self, announcement: Announcement, result: Result) -> None:
        """The card of a request is out, or will never be."""
        if not result.ok:
            announcement.failed(result.message)
            return
        announcement.shown()
        if self.approvals.is_pending(announcement.id):
            self._shown_to[announcement.id] = announcement
            self._is_deaf = bool(self._health.trouble())
            if self._is_deaf:
                announcement.lost()

    def _reach_changed(self) -> None:
        """Taps cannot arrive any more, or can again: so says each pending request."""
        was, self._is_deaf = self._is_deaf, bool(self._health.trouble())
        for announcement in self._shown_to.values() if was != self._is_deaf else ():
            announcement.lost() if self._is_deaf else announcement.shown()

    def _show_or_leave(self, ask: Ask, announcement: Announcement) -> None:
        trouble = self._health.trouble()
        if trouble or not announcement.is_wanted():
            announcement.failed(trouble)
            self._health.look(REPAIR_SECONDS)  # it may have been repaired meanwhile
        else:
            self._show(ask, announcement)

    def _show(self, ask: Ask, announcement: Announcement) -> None:
        """Queue the card of a request, or a row of the card of many."""
        if announcement.has_stand_in:
            self._health.stand_ins[ask.id] = announcement
        kept = self.store.get(ask.id)
        if kept is not None and kept.ask.digest != ask.digest:
            kept = None
        if kept is not None and kept.message_id:
            self._resume(kept, announcement)
        elif kept is None and self._pace.is_burst(ask.session):
            self._join_burst(ask, announcement)
        else:
            self._send_card(ask, kept.nonce if kept else nonce(), announcement)

    def _send_card(self, ask: Ask, mark: str, announcement: Announcement) -> None:
        """Keep what a tap on the card must bring back, then let the card leave."""
        card, whole = ask_card(ask, mark, Extra(page=self._page(ask.id)))
        opened = self.store.put(OpenCard(ask, mark, "", whole))
        left = announcement.until - self._wall()
        if announcement.has_stand_in:
            left = min(left, STAND_IN_SECONDS)
        receiver = self.people.receiver
        call = partial(self.sender.api.send, receiver, card, ask.id)
        done = partial(self._on_card_sent, opened, announcement)
        self.sender.card(call, left, done, ask.id, receiver)

    def renew(self) -> None:
        """An open card stays as it was read, but for the time it has."""
        for card in [card for card in self.store.all() if card.ask.hold]:
            ends = card.ask.created + card.ask.seconds
            if self._wall() + self.approvals.seconds_left(card.ask.id) > ends + 1:
                self._show_extended(card)

    def settle(self, outcome: Outcome) -> None:
        """A request ended: its card becomes a record, on every device."""
        id = outcome.id
        self._replies.forget(id)
        self._shown_to.pop(id, None)
        self._health.stand_ins.pop(id, None)
        self.sender.cards.cancel(id)
        self.sender.changes.cancel(id)
        burst, shown = self.burst_of(id), self.store.get(id)
        if burst is not None:
            burst.settle(outcome)
            keep_last(self._records, id, burst, RECORDS)
            if burst.is_over():
                self.sender.changes.cancel(burst.nonce)
        elif shown is not None:
            self._changing += 1
            self.sender.later(AFTER_ANSWER, partial(self._change, shown, outcome, 1))
        if shown is not None and outcome.state == "expired":
            self._health.look(EXAMINE_SECONDS)
        self._watch_line()

    def update(self, outcome: Outcome) -> None:
        """The result is known: its record says that too."""
        record = self._records.get(outcome.id)
        if isinstance(record, Burst):
            record.settle(outcome)
        elif record is not None:
            drawn = self._record(record.ask, outcome)
            self.sender.redraw(record.message_id, drawn, CHANGE_SECONDS)

    # Cards out.

    def _record(self, ask: Ask, outcome: Outcome) -> dict[str, Any]:
        return settled_card(ask, outcome, self._signer(outcome.who))

    def _resume(self, card: OpenCard, announcement: Announcement) -> None:
        """A request has come back whose card is out since the server before."""
        burst = self.burst_of(card.ask.id)
        self.keep_row(card)
        if burst is not None:
            announcement.shown()
            burst.watch()
        else:
            self.report_row(announcement, Result(True, 0, ""))
            self._watch(card)

    def _on_card_sent(
        self, opened: OpenCard, announcement: Announcement, result: Result
    ) -> None:
        """A card is out, or will never be."""
        id = opened.ask.id
        self.report_row(announcement, result)
        is_pending, outcome = self.approvals.is_pending(id), self.approvals.outcome(id)
        card = self.store.get(id) or opened
        message_id = result.data.get("message_id")
        if isinstance(message_id, str):
            card = card._replace(message_id=message_id)
        if not result.ok and not is_pending:
            self.store.drop(id)
        elif result.ok and is_pending:
            self._watch(self.keep_row(card))
        elif result.ok and outcome is not None:
            self._change(card, outcome)

    def _watch(self, card: OpenCard) -> None:
        """A card is out: complete it, and remind of it in time."""
        id = card.ask.id
        if not card.grants:
            self.approvals.whole(id, MAX_EVENT, self._attach)
        left = self.approvals.seconds_left(id)
        urge = partial(self._urge, id) if self.urgent else None
        escalate(self.sender.later, left, partial(self._remind, id), urge)

    def _attach(self, whole: Ask) -> None:
        """Put the whole below a card that could not hold it, then offer everything."""
        id, card = whole.id, self.store.get(whole.id)
        # Only its page shows what a mask hides, or what is not told at all.
        if card is None or whole.veiled or whole.titled:
            return

        def done(result: Result) -> None:
            """The whole is below the card: now everything may be granted."""
            card = self.store.get(id)
            if result.ok and card is not None:
                self.store.put(card._replace(grants=True))

        extra = Extra(attached=True, page=self._page(id))
        full, _ = ask_card(whole, card.nonce, extra)
        given = card.message_id, file_of(whole), f"f-{id}", full
        left = self.approvals.seconds_left(id)
        call = partial(attach, self.sender.api, *given)
        self._queue(call, left, done, id, card.message_id)

    def _change(self, card: OpenCard, outcome: Outcome, announced: int = 0) -> None:
        """Turn a card into the record of how its request ended."""
        id = card.ask.id
        self._changing -= announced
        if not card.message_id:  # it may have left meanwhile
            card = self.store.get(id) or card
        if not card.message_id:
            self.store.drop(id)
            return

        def done(result: Result) -> None:
            """A card that Feishu did not hear of is kept for the next server."""
            if result.code >= 0:
                self.store.drop(id)

        outcome = self.approvals.outcome(id) or outcome  # more may be known
        self._panels.link("", card.message_id, card.ask.session)
        keep_last(self._records, id, card, RECORDS)
        drawn = self._record(card.ask, outcome)
        self.sender.redraw(card.message_id, drawn, CHANGE_SECONDS, done)

    def _remind(self, id: str) -> None:
        """Half the time is over: say so on the card and once below it."""
        card, ask = self.store.get(id), self.approvals.ask(id)
        if card is None or ask is None or self.is_calm(card.message_id):
            return
        left = self.approvals.seconds_left(id)
        hurry = self.sender.say_left(card.message_id, left, id)
        hurried = hurried_card(card, ask, hurry, self._page(id))
        if hurried is not None:
            self.sender.redraw(card.message_id, hurried, left, key=id)

    def _urge(self, id: str) -> None:
        """Let the card buzz for the last third."""
        card = self.store.get(id)
        is_pending = card is not None and self.approvals.is_pending(id)
        if card is not None and is_pending and not self.is_calm(card.message_id):
            self.buzz(card)

    def is_calm(self, message_id: str, machine: str = "") -> bool:
        """Whether nothing may remind of a card: it is quiet, or all of it was read."""
        begin, end = self.approvals.quiet_hours()
        seen = [row.seen for row in self.store.all() if row.message_id == message_id]
        return begin <= self._wall() < end or (all(seen) and bool(seen))

    def _watch_line(self) -> None:
        """As long as a card is pending: its taps must arrive, its chat is on top."""
        is_pending = self.approvals.is_pending
        ids = [card.ask.id for card in self.store.all() if card.message_id]
        is_out = any(map(is_pending, ids))
        self._line.watch(is_out)
        self._pin.want(is_out)

    def buzz(self, shown: OpenCard | Burst) -> None:
        for owner in sorted(self.people.owners):
            self.sender.buzz(shown.message_id, owner)

    def _settle_lost(self) -> None:
        """After a restart: what nobody came back for has ended meanwhile."""
        for card in self.store.all():
            if not self.approvals.is_pending(card.ask.id):
                outcome = self.approvals.outcome(card.ask.id)
                self._end(card, outcome or gone(card.ask, self._wall()))
        self._watch_line()

    def _end(self, card: OpenCard, outcome: Outcome | None) -> None:
        burst = self.burst_of(card.ask.id)
        if outcome is not None:
            burst.settle(outcome) if burst else self._change(card, outcome)

    # Many requests at once.

    def _take_bursts_back(self) -> None:
        """After a restart: cards that several requests share are bursts.

        So is one of which a single row is left: it shows no more of it than it did.
        """
        by_message: dict[str, list[OpenCard]] = {}
        for card in self.store.all():
            by_message.setdefault(card.message_id, []).append(card)
        for message_id, cards in by_message.items():
            if message_id and (len(cards) > 1 or cards[0].shared):
                burst = self._new_burst(cards[0].ask.session, cards[0].nonce)
                burst.message_id = message_id
                burst.restore([card.ask for card in cards])

    def _join_burst(self, ask: Ask, announcement: Announcement) -> None:
        bursts = (b for b in self._bursts if b.session == ask.session and b.takes())
        burst = next(bursts, None) or self._new_burst(ask.session, nonce())
        burst.add(ask, announcement)

    def _new_burst(self, session: str, mark: str) -> Burst:
        self._bursts.append(Burst(self, session, mark, self.people.receiver))
        return self._bursts[-1]

    def seconds_left(self, burst: Burst, id: str) -> int | None:
        is_pending = self.approvals.is_pending(id)
        return self.approvals.seconds_left(id) if is_pending else None

    def drop_row(self, burst: Burst, id: str) -> None:
        self.store.drop(id)

    def burst_over(self, burst: Burst) -> None:
        """Nothing is pending on this card any more."""
        self._panels.link("", burst.message_id, burst.session)
        if burst in self._bursts:
            self._bursts.remove(burst)

    def burst_of(self, id: str) -> Burst | None:
        return next((burst for burst in self._bursts if burst.holds(id)), None)

    # Panels.

    def _command(self, name: str, words: str, who: str, message_id: str) -> None:
        ask = partial(
            self.sessions.command, name, words, Asker(who, "message", self.name)
        )
        self._panels.command("", who, message_id, words, ask)

    def _press(
        self,
        press: Press,
        event_id: str,
        answer: Callable[[dict[str, Any]], bool],
    ) -> None:
        """A press is answered when its service has, or its time is over."""

        async def steps() -> None:
            asker = Asker(press.who, "card", self.name)
            ask = partial(
                self.sessions.press, press.panel, press.action, press.words, asker
            )
            reply = await self._panels.press("", press, ask)
            keep_last(self._answered, event_id, reply, REMEMBERED_EVENTS)
            answer(reply)

        if event_id and event_id in self._answered:
            answer(self._answered[event_id])
        elif press.who not in self.people.owners:
            answer(self._only_owners(press.panel, press.action, press.who))
        else:
            self._health.tapped()
            keep_last(self._answered, event_id, {}, REMEMBERED_EVENTS)
            run(steps(), _raise)

    # Taps in.

    def deliver(self, delivery: Any, answer: Callable[[dict[str, Any]], bool]) -> None:
        """A message of the platform: understand it, do it, answer it."""
        event = read_event(delivery.payload)
        kind = text_at(event, "header", "event_type")
        press = read_press(event)
        if kind == "card.action.trigger" and press is not None:
            self._press(press, text_at(event, "header", "event_id"), answer)
            return
        if kind == "card.action.trigger":
            answer(self._once(event, self._tap, "header", "event_id"))
            return
        answer({})  # first: what a text leads to is told by texts; others come again
        if kind == "im.message.receive_v1":
            self._once(event, self._text, "event", "message", "message_id")
        if kind == READ_EVENT:
            self._read(part_at(event, "event"))

    def _read(self, event: dict[str, Any]) -> None:
        """Messages of the bot were read; what their owner does is another matter."""
        who, moment = text_at(event, "reader", "reader_id", "open_id"), self._wall()
        read = {"create_time": text_at(event, "reader", "read_time")}
        if who not in self.people.owners or is_old(read, moment):
            return
        if not self.store.kept.get("reads"):
            self.store.keep(reads=True)
        self.approvals.note_seen((), moment)
        ids = [str(id) for id in list_at(event, "message_id_list")[:MOST_READ]]
        for id in ids:
            keep_last(self._read_at, id, moment, REMEMBERED_EVENTS)
        for card in self.store.all():
            if card.message_id in ids:
                self.keep_row(card)

    def keep_row(self, card: OpenCard) -> OpenCard:
        """Keep a card that is out; it may have been read before its id was known.

        A row that came on a card after that was read is not seen yet.
        """
        at = self._read_at.get(card.message_id, 0.0)
        if not card.seen and at >= card.ask.created:
            card = card._replace(seen=at)
        if card.seen:
            self.approvals.note_seen((card.ask.id,), card.seen)
        card = self.store.put(card)
        self._watch_line()
        return card

    def _once(
        self,
        event: dict[str, Any],
        act: Callable[[dict[str, Any]], dict[str, Any]],
        *key: str,
    ) -> dict[str, Any]:
        """Act on an event, unless it was delivered before: then answer the same."""
        id = text_at(event, *key)
        if id and id in self._answered:
            return self._answered[id]
        reply = act(event)
        keep_last(self._answered, id, reply, REMEMBERED_EVENTS)
        return reply

    def _tap(self, event: dict[str, Any]) -> dict[str, Any]:
        """The answer to a tap: a toast, and the card as it is now."""
        who = text_at(event, "event", "operator", "open_id")
        action = part_at(event, "event", "action")
        value = part_at(action, "value")
        id, name = text_at(value, "id"), text_at(value, "action")
        if who not in self.people.owners:
            return self._only_owners(id, name, who)
        self._health.tapped()
        message_id = text_at(event, "event", "context", "open_message_id")
        burst = self._burst_at(message_id, value)
        if burst is not None:
            return at_once(burst.tap(value, who, "card", self._answer_rows))
        card = self.store.get(id)
        if card is None:
            return self._stale(id)
        wrong = unfit(card, value, message_id)
        if wrong:
            self.approvals.note_refused(id, name, who)
            return toast("error", self.say(wrong))
        if not card.message_id:
            card = self.keep_row(card._replace(message_id=message_id))
        if name == HOLD:
            return self._extend(card, who)
        answer = read_tap(card.ask, value, action, who)
        wrong = unoffered(card, answer.action)
        if wrong:
            return toast("error", self.say(wrong))
        if is_changed(card.ask, answer, action):
            return toast("warning", self.say(CHANGED))
        receipt, lost = self.approvals.answer(answer), None
        if self._clock() >= self._back_by:
            lost = self._record(card.ask, gone(card.ask, self._wall()))
        return receipt_toast(card, receipt, self._signer, (self._missing(), lost))

    def _only_owners(self, id: str, name: str, who: str) -> dict[str, Any]:
        self.approvals.note_refused(id, name, who)
        owners = "、".join(map(self._name, sorted(self.people.owners)))
        return toast("error", self.say("Only {owner} may do this", owner=owners))

    async def _answer_rows(self, answers: list[Answer]) -> list[Receipt]:
        receipts = map(self.approvals.answer, answers)
        return [r._replace(error=r.error or self._missing()) for r in receipts]

    def _extend(self, card: OpenCard, who: str) -> dict[str, Any]:
        """Somebody reads: give them time, and show until when.

        Where that is new, `renew` changes the card on the other devices.
        """
        id = card.ask.id
        is_extended = self.approvals.extend_deadline(id, who)
        ask = self.approvals.ask(id)
        if ask is None:
            return self._stale(id)
        if not is_extended:
            return toast("error", self.say(NOT_OFFERED))
        ends = self._wall() + self.approvals.seconds_left(id)
        said = clock_stopped(self.say, ends)
        return toast("success", said, self._drawn(card, ask))

    def _show_extended(self, card: OpenCard) -> None:
        """Draw a card with the time that it has now."""
        id = card.ask.id
        ask = self.approvals.ask(id)
        if ask is None:
            return
        known = card.ask._replace(seconds=ask.seconds, hold=ask.hold)
        self.store.put(card._replace(ask=known))
        drawn = self._drawn(card, ask)

        def redraw() -> None:
            if self.approvals.is_pending(id):
                self.sender.redraw(card.message_id, drawn, CHANGE_SECONDS, key=id)

        self.sender.later(AFTER_ANSWER, redraw)

    def _drawn(self, card: OpenCard, ask: Ask) -> dict[str, Any]:
        """The card of a pending request as it looks now."""
        return open_card(card._replace(ask=ask), self._page(ask.id))

    def _missing(self) -> str:
        """What is said of a request that is not here: not yet, or not any more."""
        if self._clock() < self._back_by:
            return self.say("The server has just restarted: please tap again")
        return self.say("The session has ended")

    def _stale(self, id: str) -> dict[str, Any]:
        """A tap on a card that is not open any more."""
        outcome = self.approvals.outcome(id)
        if outcome is None:
            return toast("warning", self.say(INVALID))
        moment = time.strftime("%H:%M:%S", time.localtime(outcome.ended))
        return toast("info", f"{outcome.done} {moment}")

    def _burst_at(self, message_id: str, value: dict[str, Any]) -> Burst | None:
        """The burst of a tap; before its message has an id, that of the nonce."""
        for burst in self._bursts:
            is_early = not burst.message_id and is_nonce(value, burst.nonce)
            if burst.message_id == message_id or is_early:
                return burst
        return None

    # Texts in.

    def _text(self, event: dict[str, Any]) -> dict[str, Any]:
        """A text of somebody's; what it leads to is told below it."""
        message = part_at(event, "event", "message")
        who = text_at(event, "event", "sender", "sender_id", "open_id")
        kind = text_at(event, "event", "sender", "sender_type")
        owners = self.people.owners
        if kind != "user" or who not in owners or is_old(message, self._wall()):
            return {}
        run(self._respond(message, said_in(message), who), _raise)
        return {}

    async def _respond(self, message: dict[str, Any], said: str, who: str) -> None:
        """Tell below a text what it led to; most texts in a group are for others."""
        card = await self._replies.card_above(message, self._is_leaving)
        session = "" if card else await self._panels.session_of("", message)
        in_group = text_at(message, "chat_type") == "group"
        is_ours = card is not None or bool(session) or chat.MENTION.search(said)
        if in_group and not is_ours:
            return
        if session and said and not chat.is_answer(chat.cleaned(said)):
            words = f"{session} {chat.cleaned(said)}"
            self._command("continue", words, who, text_at(message, "message_id"))
            return
        answer = self._answer_text(message, card, said, who) if said else self.say(HELP)
        self.sender.tell(text_at(message, "message_id"), answer)

    async def _is_leaving(self) -> bool:
        bursts = any(not burst.message_id for burst in self._bursts)
        return bursts or any(not card.message_id for card in self.store.all())

    def _answer_text(
        self, message: dict[str, Any], card: OpenCard | None, said: str, who: str
    ) -> str:
        """What to say to a text; empty where it is said by a card, or later."""
        if card is not None and self.burst_of(card.ask.id) is not None:
            return self.say("That card holds several requests: please tap its buttons.")
        if card is not None:
            return self._answer_card(card, said, who)
        if text_at(message, "parent_id"):
            return self.say("That request has ended.")
        command = chat.read_command(said)
        if command is not None:
            return self._obey(command, who, text_at(message, "message_id"))
        is_pending = self.approvals.is_pending
        asks = [card.ask for card in self.store.all() if is_pending(card.ask.id)]
        if len(asks) == 1 and chat.read_reply(said, asks[0]) is not None:
            meant = asks[0].summary or asks[0].title
            return self.say(
                "Did you mean “{what}”? Please reply to its card.", what=meant
            )
        return self.say(HELP)

    def _answer_card(self, card: OpenCard, said: str, who: str) -> str:
        """A text below a card: its request gets it as an answer."""
        answer = self._replies.read(card, said, who)
        if isinstance(answer, str):
            return answer
        receipt = self.approvals.answer(answer)
        ended = receipt.status in (statuses.SETTLED, statuses.ENDED)
        return receipt.outcome.done if ended else receipt.error or self._missing()

    def _obey(self, command: chat.Command, who: str, message_id: str) -> str:
        """Do what a command says; what is told of it, unless that comes later."""
        if command.name in SERVED_COMMANDS:
            self._command(command.name, command.words, who, message_id)
            return ""
        if command.name in ("mute", "on"):
            until = self._wall() + command.seconds if command.name == "mute" else 0.0
            self.store.mute(until)
            if not until and self.approvals.end_quiet():
                return self.say(chat.QUIET_IS_OVER)
            return chat.muted(self.say, until)
        return self.say(HELP)

    # Small things.

    def _signer(self, who: str) -> str:
        """A person as their own chat names them."""
        own_chat = not self.people.receiver.startswith("oc_")
        is_you = own_chat and self.people.owners == {who}
        return self.say(msg("You")) if is_you else self._name(who)

    def _name(self, who: str) -> str:
        """A person as a card names them: by the end of their id, if nothing better."""
        return self._health.names.get(who) or (f"…{who[-6:]}" if who else "")


def _raise(error: Exception) -> None:
    raise error  # the loop reports it
