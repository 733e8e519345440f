"""Many requests of one session at once: one card, a line and two buttons each.

    collecting   lines are gathered for a moment, then the card leaves
    out          further lines change the card; every end changes it too
    over         no line waits: the card is a record, and the next burst gets its own

"All" means what the card showed when it was drawn: its digest covers the lines it
offers, and a card that has changed since refuses it.  A line that cannot be judged by
one line (something is cut, masked or has to be filled in) offers its refusal only.
"Allow all" leaves these out, and every line with a danger, and says which.
"""

from __future__ import annotations

import hashlib
from functools import partial
from typing import Any, ClassVar

from feishuperm.channels.app.card import Mark, button
from feishuperm.channels.app.events import is_nonce, toast
from feishuperm.channels.app.store import Shown
from feishuperm.channels.base import Announcement
from feishuperm.lib.display import one_line
from feishuperm.lib.feishu import card_frame, coloured, columns, div, note
from feishuperm.lib.feishu_app import Result
from feishuperm.lib.text import text
from feishuperm.models import ask as statuses
from feishuperm.models.ask import NO, YES, Answer, Ask, Offer, Outcome, Receipt

TYPE_CHECKING = False
if TYPE_CHECKING:
    from feishuperm.channels.app.channel import AppChannel

GATHER_SECONDS = 0.5  # for more lines, before the card leaves or changes
MOST_LINES = 16  # a card may hold 200 elements and 30 kB; a line takes nine, and 2 kB
LINE = 200  # characters of a request
DANGERS = 120  # characters about what is dangerous in it
NAME, NAMED = 40, 3  # characters of what was left out, and how many are named
ALL_YES, ALL_NO = "all:yes", "all:no"


class Line:
    """One request of a burst."""

    def __init__(self, ask: Ask, announcement: Announcement | None) -> None:
        self.ask = ask
        self.announcement = announcement  # until the card with this line is out
        self.outcome: Outcome | None = None

    def offer(self, look: str) -> Offer | None:
        """The button of that look, if one line is enough to tap it."""
        for offer in self.ask.actions:
            if offer.look == look and not offer.needs and not offer.confirm:
                return offer if look == NO or self._is_plain() else None
        return None

    def is_for_all(self, look: str) -> bool:
        """Whether "all" covers it: what is dangerous is allowed by itself or not."""
        return self.offer(look) is not None and (look == NO or not self.ask.dangers)

    def _is_plain(self) -> bool:
        return (
            not self.ask.partial and not self.ask.masked and len(self._whole()) <= LINE
        )

    def words(self) -> str:
        whole = self._whole()
        rest = "\n…" if len(whole) > LINE or self.ask.partial else ""
        return f"{self.ask.tool}: {whole[:LINE]}{rest}"

    def _whole(self) -> str:
        """Everything there is to see of the request."""
        labelled = len(self.ask.blocks) > 1
        blocks = [
            f"{block.label}: {block.text}" if block.label and labelled else block.text
            for block in self.ask.blocks
        ]
        return "\n".join(blocks) or self.ask.empty or self.ask.summary


class Burst:
    """The card of a session that asks for much at once."""

    SECONDS: ClassVar[float] = 10.0
    MOST: ClassVar[int] = 5  # requests in so many seconds that get cards of their own

    def __init__(self, channel: AppChannel, session: str, nonce: str) -> None:
        self._channel = channel
        self.session = session
        self.nonce = nonce
        self._lines: dict[str, Line] = {}
        self.is_due = False  # the card is drawn in a moment
        self._hurry = ""  # a reminder
        self.message_id = ""
        self.is_watched = False  # reminders are on their way

    def takes(self) -> bool:
        """Whether one more line fits, and the card is not over."""
        waiting = any(line.outcome is None for line in self._lines.values())
        return waiting and len(self._lines) < MOST_LINES

    def holds(self, id: str) -> bool:
        return id in self._lines

    def add(self, ask: Ask, announcement: Announcement | None) -> None:
        self._lines[ask.id] = Line(ask, announcement)
        self._redraw()

    def restore(self, asks: list[Ask]) -> None:
        """Take back the lines of a card that is out already."""
        self._lines = {ask.id: Line(ask, None) for ask in asks}

    def settle(self, outcome: Outcome) -> None:
        self._lines[outcome.id].outcome = outcome
        self._redraw()

    def is_over(self) -> bool:
        return all(line.outcome is not None for line in self._lines.values())

    def tap(
        self, value: dict[str, Any], action: dict[str, Any], who: str
    ) -> dict[str, Any]:
        """The answer to a tap on this card."""
        if not is_nonce(value, self.nonce):
            return self._toast("error", "answer.other")
        name = value.get("action")
        if name in (ALL_YES, ALL_NO):
            if value.get("digest") != self._digest():
                return self._toast("warning", "burst.changed")
            look = YES if name == ALL_YES else NO
            return self._answer_all(look, who)
        line = self._lines.get(str(value.get("id")))
        if line is None or value.get("digest") != line.ask.digest:
            return self._toast("error", "answer.other")
        return self._answered(line, str(name), who)

    def _answer_all(self, look: str, who: str) -> dict[str, Any]:
        covered = [line for line in self._waiting() if line.is_for_all(look)]
        offers = [(line, line.offer(look)) for line in covered]
        receipts = [self._answer(line, o.name, who) for line, o in offers if o]
        failed = [receipt for receipt in receipts if not receipt.outcome.done]
        if failed:
            return self._failed(failed[0])
        left_out = self._waiting()
        if not left_out:
            return self._toast("success", "burst.done")
        names = "；".join(one_line(line.words(), NAME) for line in left_out[:NAMED])
        return self._toast("success", "burst.left", count=len(covered), what=names)

    def _answer(self, line: Line, action: str, who: str) -> Receipt:
        answer = Answer(line.ask.id, action, {}, "card", who, line.ask.digest)
        return self._channel.counter.answer(answer)

    def _answered(self, line: Line, action: str, who: str) -> dict[str, Any]:
        if action not in [o.name for o in (line.offer(YES), line.offer(NO)) if o]:
            return self._toast("error", "answer.not_offered")
        receipt = self._answer(line, action, who)
        if receipt.outcome.done:
            return toast("success", receipt.outcome.done, self._card())
        return self._failed(receipt)

    def _failed(self, receipt: Receipt) -> dict[str, Any]:
        if receipt.error:
            again = receipt.status == statuses.INCOMPLETE
            return toast("warning" if again else "error", receipt.error)
        return toast("warning", self._channel.missing())

    def _toast(self, kind: str, key: str, **values: object) -> dict[str, Any]:
        return toast(kind, self._say(key, **values), self._card())

    # The card.

    def _waiting(self) -> list[Line]:
        return [line for line in self._lines.values() if line.outcome is None]

    def _digest(self) -> str:
        """Of the lines that wait, and of what each of them is about."""
        parts = [f"{line.ask.id} {line.ask.digest}" for line in self._waiting()]
        return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]

    def _card(self) -> dict[str, Any]:
        elements = [note(self._hurry)] if self._hurry and not self.is_over() else []
        for line in self._lines.values():
            elements += self._line_elements(line)
        elements += self._all_elements()
        first = next(iter(self._lines.values())).ask
        title = f"{first.title} ×{len(self._lines)}"
        colour = "grey" if self.is_over() else first.colour
        return card_frame(title, first.project_name, colour, first.summary, elements)

    def _line_elements(self, line: Line) -> list[dict[str, Any]]:
        if line.outcome is not None:
            done, result = line.outcome.done, line.outcome.result
            parts = (done, result, one_line(line.words(), LINE))
            return [note(" · ".join(filter(None, parts)))]
        mark = Mark(line.ask.id, line.ask.digest, self.nonce)
        offers = [o for o in (line.offer(YES), line.offer(NO)) if o is not None]
        buttons = [[button(o.label, o.look, mark, o.name)] for o in offers]
        dangers = one_line("；".join(line.ask.dangers), DANGERS)
        red = [coloured(dangers, "red")] if dangers else []
        return [div(line.words()), *red, *([columns(buttons)] if buttons else [])]

    def _all_elements(self) -> list[dict[str, Any]]:
        waiting = self._waiting()
        if len(waiting) < 2:
            return []
        mark = Mark(self.session, self._digest(), self.nonce)
        buttons = [button(self._say("burst.deny_all"), NO, mark, ALL_NO)]
        left_out = sum(not line.is_for_all(YES) for line in waiting)
        hints = []
        if left_out < len(waiting):
            yes = button(self._say("burst.allow_all"), YES, mark, ALL_YES)
            buttons.insert(0, yes)
            if left_out:
                hints.append(note(self._say("burst.not_all", count=left_out)))
        return [{"tag": "hr"}, *hints, columns([[button] for button in buttons])]

    def _say(self, key: str, **values: object) -> str:
        first = next(iter(self._lines.values())).ask
        return text(first.language, key, **values)

    # Time.

    def ends(self) -> float:
        """When the first of those that wait runs out of time; wall clock."""
        waiting = self._waiting()
        return min(line.ask.created + line.ask.seconds for line in waiting)

    def hurry(self, words: str) -> None:
        """Say on the card that time runs out."""
        self._hurry = words
        self._redraw()

    # Sending.

    def _redraw(self) -> None:
        """Send or change the card, a little later: more may come."""
        if not self.is_due:
            self.is_due = True
            self._channel.later(GATHER_SECONDS, self._draw)

    def _draw(self) -> None:
        self.is_due = False
        if not self.message_id and self.is_over():
            self._channel.burst_over(self)
            return
        new = [line for line in self._lines.values() if line.announcement is not None]
        send = partial(self._send, self._card())
        stands_in = any(line.announcement.stand_in for line in new if line.announcement)
        self._channel.send_burst(send, partial(self._left, new), stands_in, not new)

    def _send(self, card: dict[str, Any]) -> Result:
        """In the outbox's thread: the card, or its change once it is out."""
        api, receiver = self._channel.api, self._channel.people.receiver
        if self.message_id:
            return api.update(self.message_id, card)
        result = api.send(receiver, card, f"b-{self.nonce}")
        message_id = result.data.get("message_id") if result.ok else None
        if isinstance(message_id, str):
            self.message_id = message_id
        return result

    def _left(self, new: list[Line], shown: bool, detail: str) -> None:
        """The card with these lines is out, or will never be."""
        for line in new:
            if line.announcement is not None:
                line.announcement.done(shown, detail)
                line.announcement = None
            if shown and line.outcome is None:
                card = Shown(line.ask, self.nonce, self.message_id, True)
                self._channel.store.put(card)
        if shown:
            for id, line in self._lines.items():
                if line.outcome is not None:
                    self._channel.store.drop(id)
            if self.is_over():
                self._channel.burst_over(self)
            else:
                self._channel.watch_burst(self)
