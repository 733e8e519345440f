"""Many requests of one session at once: one card, a row and two buttons each.

    collecting   rows are gathered for a moment, then the card leaves
    leaving      what changes meanwhile is drawn once its message has an id
    out          further rows change the card; every end changes it too
    over         no row is pending: the card is a record, the next burst gets its own

"All" means what the card showed when it was drawn: its digest covers the rows it
offers, and a card that has changed since refuses it.  A row that cannot be judged by
its few words (something is cut, masked or has to be filled in) offers its refusal only.
"Allow all" leaves these out, and every row with a danger, and says which.
"""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Protocol

from feishuperm.app.api import Result
from feishuperm.app.cards import (
    CHANGE_SECONDS,
    STAND_IN_SECONDS,
    Mark,
    answer_button,
    button,
    escalate,
)
from feishuperm.app.store import OpenCard
from feishuperm.app.taps import is_nonce, toast
from feishuperm.lib.display import one_line
from feishuperm.lib.feishu import card_frame, columns, div, note
from feishuperm.messages import msg, text
from feishuperm.models import ask as statuses
from feishuperm.models.ask import NO, YES, Answer, Ask, Offer, Outcome, Receipt
from feishuperm.models.names import NOT_AS_SHOWN, NOT_OFFERED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from feishuperm.channels.outbox import Sender

GATHER_SECONDS = 0.5  # for more rows, before the card leaves or changes
MOST_ROWS = 12  # a card may hold 200 elements and 30 kB; a row takes nine, and 2.4 kB
WORDS = 200  # characters of a request
DANGERS = 120  # characters about what is dangerous in it
NAME, NAMED = 40, 3  # characters of what was left out, and how many are named
ALL_YES, ALL_NO = "all:yes", "all:no"
LEFT_OUT = msg(
    "“Allow all shown” leaves out {count} that are dangerous or not shown whole"
)
Carry = Callable[[list[Answer]], Awaitable[list[Receipt]]]


class BurstHost(Protocol):
    """Who sends the card of a burst and keeps its rows."""

    @property
    def sender(self) -> Sender: ...

    @property
    def urgent(self) -> bool:
        """Whether a card may buzz."""

    def seconds_left(self, burst: Burst, id: str) -> int | None:
        """Of a pending request; None: it is not there."""

    def report_row(self, announcement: Any, result: Result) -> None:
        """A row is out, or will never be."""

    def keep_row(self, card: OpenCard) -> object: ...

    def buzz(self, burst: Burst) -> None: ...

    def drop_row(self, burst: Burst, id: str) -> None: ...

    def is_calm(self, message_id: str, machine: str) -> bool:
        """Whether nothing may remind of a card."""

    def burst_over(self, burst: Burst) -> None:
        """Nothing is pending on this card any more."""


class BurstRow:
    """One request of a burst.

    `announcement` is whom it belongs to until a card with this row is out: what that
    is, its host knows.
    """

    def __init__(self, ask: Ask, announcement: Any = None) -> None:
        self.ask = ask
        self.announcement = announcement
        self.outcome: Outcome | None = None

    def offer(self, look: str) -> Offer | None:
        """The button of that look, if a row is enough to tap it."""
        for offer in self.ask.actions:
            if offer.look == look and not offer.needs and not offer.confirm:
                hides = self.ask.partial or self.ask.masked
                is_plain = not hides and len(self._whole()) <= WORDS
                return offer if look == NO or is_plain else None
        return None

    def offers(self) -> list[Offer]:
        return [offer for offer in map(self.offer, (YES, NO)) if offer is not None]

    def is_for_all(self, look: str) -> bool:
        """Whether "all" covers it: what is dangerous is allowed by itself or not."""
        return self.offer(look) is not None and (look == NO or not self.ask.dangers)

    def answer(self, action: str, who: str, surface: str) -> Answer:
        return Answer(self.ask.id, action, {}, surface, who, self.ask.digest)

    def words(self) -> str:
        whole = self._whole()
        rest = "\n…" if len(whole) > WORDS or self.ask.partial else ""
        name = self.ask.what or self.ask.tool
        return f"{name}\n{whole[:WORDS]}{rest}"

    def _whole(self) -> str:
        """Everything there is to see of the request."""
        labelled = len(self.ask.blocks) > 1
        blocks = [
            text(
                self.ask.language,
                "{label}: {value}",
                label=block.label,
                value=block.text,
            )
            if block.label and labelled
            else block.text
            for block in self.ask.blocks
        ]
        return "\n".join(blocks) or self.ask.empty or self.ask.summary


class Burst:
    """The card of a session that asks for much at once."""

    def __init__(
        self,
        host: BurstHost,
        session: str,
        nonce: str,
        receiver: str,
        machine: str = "",
    ) -> None:
        self._host = host
        self.session = session
        self.nonce = nonce
        self.receiver = receiver
        self.machine = machine
        self._rows: dict[str, BurstRow] = {}
        self.is_due = False  # the card is drawn in a moment
        self._is_leaving = False  # sent, and its message has no id yet
        self._hurry = ""  # a reminder
        self.message_id = ""
        self.is_watched = False  # reminders are on their way
        self.is_elsewhere = False  # only its rows are known here

    def takes(self) -> bool:
        """Whether one more row fits, and the card is not over."""
        return not self.is_over() and len(self._rows) < MOST_ROWS

    def holds(self, id: str) -> bool:
        return id in self._rows

    def add(self, ask: Ask, announcement: Any) -> None:
        self._rows[ask.id] = BurstRow(ask, announcement)
        self._redraw()

    def restore(self, asks: list[Ask]) -> None:
        """Have the rows of a card that is out already."""
        self._rows = {ask.id: BurstRow(ask) for ask in asks}

    def settle(self, outcome: Outcome) -> None:
        self._rows[outcome.id].outcome = outcome
        self._redraw()

    def is_over(self) -> bool:
        return not self._waiting()

    async def tap(
        self, value: dict[str, Any], who: str, surface: str, carry: Carry
    ) -> dict[str, Any]:
        """The answer to a tap on this card."""
        if not is_nonce(value, self.nonce):
            return self._toast("error", NOT_AS_SHOWN)
        name = value.get("action")
        if name in (ALL_YES, ALL_NO):
            if value.get("digest") != self._digest():
                changed = msg("The card has changed: please tap again")
                return self._toast("warning", changed)
            look = YES if name == ALL_YES else NO
            return await self._answer_all(look, who, surface, carry)
        row = self._rows.get(str(value.get("id")))
        if row is None or value.get("digest") != row.ask.digest:
            return self._toast("error", NOT_AS_SHOWN)
        if name not in [offer.name for offer in row.offers()]:
            return self._toast("error", NOT_OFFERED)
        (receipt,) = await carry([row.answer(str(name), who, surface)])
        if receipt.outcome.done:
            return self._told("success", receipt.outcome.done)
        return self._failed(receipt)

    async def _answer_all(
        self, look: str, who: str, surface: str, carry: Carry
    ) -> dict[str, Any]:
        covered = [row for row in self._waiting() if row.is_for_all(look)]
        offers = [(row, row.offer(look)) for row in covered]
        answers = [row.answer(o.name, who, surface) for row, o in offers if o]
        receipts = await carry(answers)
        failed = [receipt for receipt in receipts if not receipt.outcome.done]
        if failed:
            return self._failed(failed[0])
        left_out = [row for row in self._waiting() if row not in covered]
        if not left_out:
            return self._toast("success", msg("All of them are settled"))
        names = "；".join(one_line(row.words(), NAME) for row in left_out[:NAMED])
        key = msg("{count} are settled; left out: {what}")
        return self._toast("success", key, count=len(covered), what=names)

    def _failed(self, receipt: Receipt) -> dict[str, Any]:
        again = receipt.status in (statuses.INCOMPLETE, statuses.UNKNOWN)
        return toast("warning" if again else "error", receipt.error)

    def _toast(self, kind: str, key: str, **values: object) -> dict[str, Any]:
        return self._told(kind, self._say(key, **values))

    def _told(self, kind: str, words: str) -> dict[str, Any]:
        """With the card as it is, unless another gateway draws it."""
        return toast(kind, words, None if self.is_elsewhere else self._card())

    # The card.

    def _waiting(self) -> list[BurstRow]:
        return [row for row in self._rows.values() if row.outcome is None]

    def _digest(self) -> str:
        """Of the pending rows, and of what each of them is about."""
        parts = [f"{row.ask.id} {row.ask.digest}" for row in self._waiting()]
        return hashlib.sha256("\n".join(sorted(parts)).encode()).hexdigest()[:16]

    def _card(self) -> dict[str, Any]:
        elements = [note(self._hurry)] if self._hurry and not self.is_over() else []
        for row in self._rows.values():
            elements += self._row_elements(row)
        elements += self._all_elements()
        first = next(iter(self._rows.values())).ask
        title = f"{first.title} ×{len(self._rows)}"
        risky = any(row.ask.dangers for row in self._waiting())
        colour = "grey" if self.is_over() else "red" if risky else first.colour
        where = " · ".join(filter(None, (first.machine, first.project_name)))
        return card_frame(title, where, colour, first.summary, elements)

    def _row_elements(self, row: BurstRow) -> list[dict[str, Any]]:
        if row.outcome is not None:
            done, result = row.outcome.done, row.outcome.result
            parts = (done, result, one_line(row.words(), WORDS))
            return [note(" · ".join(filter(None, parts)))]
        mark = Mark(row.ask.id, row.ask.digest, self.nonce, self.machine)
        buttons = [[answer_button(offer, row.ask, mark)] for offer in row.offers()]
        dangers = one_line("；".join(row.ask.dangers), DANGERS)
        red = [div(dangers, text_color="red")] if dangers else []
        return [*red, div(row.words()), *([columns(buttons)] if buttons else [])]

    def _all_elements(self) -> list[dict[str, Any]]:
        waiting = self._waiting()
        if len(waiting) < 2:
            return []
        mark = Mark(self.session, self._digest(), self.nonce, self.machine)
        buttons = [button(self._say(msg("Deny all shown")), NO, mark, ALL_NO)]
        left_out = sum(not row.is_for_all(YES) for row in waiting)
        hints = []
        if left_out < len(waiting):
            yes = button(self._say(msg("Allow all shown")), YES, mark, ALL_YES)
            buttons.insert(0, yes)
            if left_out:
                hints = [note(self._say(LEFT_OUT, count=left_out))]
        return [{"tag": "hr"}, *hints, columns([[button] for button in buttons])]

    def _say(self, key: str, **values: object) -> str:
        first = next(iter(self._rows.values())).ask
        return text(first.language, key, **values)

    # Time.

    def seconds_left(self) -> int:
        """Until the first of the pending ones runs out of time."""
        left = (self._host.seconds_left(self, row.ask.id) for row in self._waiting())
        # After a restart some hooks are not back yet.
        return min((seconds for seconds in left if seconds is not None), default=0)

    def watch(self) -> None:
        """Remind of the card by its first row that runs out of time; once."""
        if not self.is_watched:
            self.is_watched = True
            urge = self._urge if self._host.urgent else None
            escalate(self._host.sender.later, self.seconds_left(), self._remind, urge)

    def _remind(self) -> None:
        """Say below the card, and on it, that time runs out."""
        if self._may_remind():
            left = self.seconds_left()
            self._hurry = self._host.sender.say_left(self.message_id, left, self.nonce)
            self._redraw()

    def _urge(self) -> None:
        if self._may_remind():
            self._host.buzz(self)

    def _may_remind(self) -> bool:
        return not (self.is_over() or self._host.is_calm(self.message_id, self.machine))

    # Sending.

    def _redraw(self) -> None:
        """Send or change the card, a little later: more may come."""
        if not self.is_due:
            self.is_due = True
            if not self._is_leaving:
                self._host.sender.later(GATHER_SECONDS, self._draw)

    def _draw(self) -> None:
        self.is_due = False
        if not self.message_id and self.is_over():
            self._host.burst_over(self)
            return
        new = [row for row in self._rows.values() if row.announcement is not None]
        self._is_leaving = not self.message_id
        stands_in = any(row.announcement.has_stand_in for row in new)
        seconds = STAND_IN_SECONDS if stands_in else CHANGE_SECONDS
        sender, card, sent = (
            self._host.sender,
            self._card(),
            partial(self._on_sent, new),
        )
        call = partial(sender.api.send, self.receiver, card, f"b-{self.nonce}")
        if self.message_id:
            call = partial(sender.api.update, self.message_id, card)
        sender.card(call, seconds, sent, "", self.receiver, not new)

    def _on_sent(self, new: list[BurstRow], result: Result) -> None:
        """The card with these rows is out, or will never be."""
        was_leaving, self._is_leaving = self._is_leaving, False
        message_id = result.data.get("message_id") if result.ok else None
        if isinstance(message_id, str) and not self.message_id:
            self.message_id = message_id
        for row in new:
            self._on_row_sent(row, result)
        if was_leaving and self.is_due:  # something changed while it left
            self._host.sender.later(GATHER_SECONDS, self._draw)
        if not result.ok:
            return
        for id, row in self._rows.items():
            if row.outcome is not None:
                self._host.drop_row(self, id)
        if self.is_over():
            self._host.burst_over(self)
        else:
            self.watch()

    def _on_row_sent(self, row: BurstRow, result: Result) -> None:
        announcement, row.announcement = row.announcement, None
        if announcement is not None:  # else another change was out before
            self._host.report_row(announcement, result)
        if result.ok and row.outcome is None:
            owner = self.receiver if self.machine else ""
            about = self.nonce, self.message_id, True, self.machine, owner, True
            self._host.keep_row(OpenCard(row.ask, *about))
