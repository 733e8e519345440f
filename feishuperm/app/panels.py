"""Panels as cards: drawn, shown to one person each, changed in place, pressed.

A panel is a card that asks for no permission (`models.panel`).  For each message this
remembers the nonce of its buttons, who has it and which session it is about.  What a
press means is for the service that made the panel: here it is judged by the person who
tapped, by the nonce and by the message.

    a message      its row                 a press on it
    is on its way  without a message id    counts by its nonce
    is out         with one                counts by nonce, message and person
    has ended      without a panel, or     the service says what it can do
                   none

A button without a nonce stands on a card that is no panel, and only opens one.

A panel changes at most every EVERY seconds, all panels together as `Sender.panels` lets
them, and each has one change under way at most: what comes meanwhile is drawn after it.
"""

from __future__ import annotations

import json
import math
import secrets
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, NamedTuple, Protocol

from feishuperm.app import cards
from feishuperm.app.api import Result
from feishuperm.app.store import Shown, below
from feishuperm.app.taps import is_nonce, toast
from feishuperm.lib import feishu
from feishuperm.lib.display import one_line, visible
from feishuperm.lib.feishu import Card, Element
from feishuperm.lib.log import log, report
from feishuperm.lib.task import Promise, run
from feishuperm.messages import msg, text
from feishuperm.models import panel as looks
from feishuperm.models.ask import (
    NOTICE_PRESS,
    YES,
    Block,
    Field,
    Notice,
    shorten_block,
    to_plain,
)
from feishuperm.models.fields import part_at, text_at
from feishuperm.models.names import NOT_AS_SHOWN
from feishuperm.models.panel import Button, Panel, Row, Told

TYPE_CHECKING = False
if TYPE_CHECKING:
    from feishuperm.channels.outbox import Sender

# Of a header, by the look of the panel.
COLOURS = {looks.OPEN: "blue", looks.GOOD: "green", looks.OVER: "grey"}
WORDS = "words"  # the field of a panel
MOST_ROWS, MOST_ELEMENTS = 40, 195  # Feishu takes 200 elements
ABREAST = 3  # buttons beside each other
NOTE, CONFIRM = 300, 600  # characters of a small line, of what has to be agreed to
EVERY = 5.0  # seconds between two changes of a panel
CHANGE_SECONDS = 10.0  # for a change to leave; a newer one follows
ANSWER_SECONDS = 2.5  # of the three that Feishu gives
REFUSALS = 3  # in a row, then a panel is left as it is
MOST_LOOKS = 500
ASKED_SECONDS = 3600.0  # in which a panel may change that nobody asked for again
MOST_CARRIED = 60_000  # characters of a panel on its way to a gateway
MOST_WORDS = 10_000  # characters behind a command
MOST_SAID = 2_000
REPLACED = msg("A newer card shows this")
STOPPED = msg("The server stopped; send the command again for a new card")
WORKING = msg("On its way: the card follows")
TOO_LONG = msg("That is too long: write at most {count} characters")

Then = Callable[[Told], object]
Answered = dict[str, Any]  # what a press is answered with


class Shelf(Protocol):
    """Where rows are kept, MOST_SHOWN of each place: a machine, or here."""

    async def shown(self, place: str) -> list[Shown]: ...

    async def put_shown(self, place: str, row: Shown) -> None: ...

    async def drop_shown(self, place: str, key: str) -> None: ...


class Press(NamedTuple):
    """A tap on a button of a panel, or on one that opens it."""

    panel: str
    action: str
    words: str
    who: str
    message_id: str
    machine: str
    value: dict[str, Any]


def read_press(event: dict[str, Any]) -> Press | None:
    """What was pressed; None if the tap is on something else."""
    action = part_at(event, "event", "action")
    value = part_at(action, "value")
    if not text_at(value, "panel"):
        return None
    return Press(
        text_at(value, "panel"),
        text_at(value, "press"),
        text_at(action, "form_value", WORDS).strip(),
        text_at(event, "event", "operator", "open_id"),
        text_at(event, "event", "context", "open_message_id"),
        text_at(value, "machine"),
        value,
    )


# Drawing.


def panel_card(panel: Panel, nonce: str, machine: str = "") -> Card:
    """A panel with as many rows, and as much of each, as a card holds."""
    rows = (row._replace(block=_seen(row.block)) for row in panel.rows)
    panel = panel._replace(rows=tuple(rows))
    count = min(len(panel.rows), MOST_ROWS)
    while count and _size(_panel_card(panel, nonce, machine, count, 1)) > MOST_ELEMENTS:
        count -= 1

    def build(limit: int) -> Card:
        return _panel_card(panel, nonce, machine, count, limit)

    whole = build(cards.BUDGET)
    return whole if _fits(whole) else feishu.longest(build, _fits, cards.FOLD * 4, 50)


def _panel_card(panel: Panel, nonce: str, machine: str, count: int, limit: int) -> Card:
    draw = _Buttons(panel, nonce, machine)
    elements: list[Element] = []
    for row in panel.rows[:count]:
        elements += _row(row, draw, panel.language, limit)
    left_out = panel.cut + len(panel.rows) - count
    more = text(panel.language, "{count} more", count=left_out) if left_out else ""
    elements += [
        *feishu.notes(more),
        *_below(panel, draw),
        *feishu.notes(one_line(panel.note, NOTE)),
    ]
    where, colour = one_line(panel.headline), COLOURS.get(panel.look, "grey")
    return feishu.card_frame(panel.title, where, colour, where, elements)


def _row(row: Row, draw: _Buttons, language: str, limit: int) -> list[Element]:
    """Its text, and its buttons: one beside it, several below."""
    block = shorten_block(row.block, limit)
    shown = cards.folded_block(block, language) if block.text else []
    shown += feishu.notes(one_line(row.note, NOTE))
    if len(row.buttons) == 1 and shown:
        beside = feishu.columns([shown, [draw.button(row.buttons[0])]])
        beside["columns"][0]["weight"] = 3
        return [beside]
    return [*shown, *draw.rows(row.buttons)]


def _seen(block: Block) -> Block:
    return block._replace(text=visible(block.text), tail=visible(block.tail))


def _below(panel: Panel, draw: _Buttons) -> list[Element]:
    """The panel's own buttons; with a field they are in a form with it."""
    if not panel.field or not panel.buttons:
        return draw.rows(panel.buttons)
    field = Field(WORDS, "lines", panel.field, panel.hint)
    draw.in_form = True
    inside = [*cards.field_input(field), *draw.rows(panel.buttons)]
    return [{"tag": "form", "name": "form", "elements": inside}]


class _Buttons:
    """The buttons of one card: one of them may be blue."""

    def __init__(self, panel: Panel, nonce: str, machine: str) -> None:
        self._panel = panel.id
        self._mark = {"nonce": nonce, **({"machine": machine} if machine else {})}
        self._has_primary = False
        self._count = 0
        self.in_form = False

    def rows(self, buttons: tuple[Button, ...]) -> list[Element]:
        drawn = [self.button(button) for button in buttons]
        starts = range(0, len(drawn), ABREAST)
        return [feishu.columns([[b] for b in drawn[i : i + ABREAST]]) for i in starts]

    def button(self, button: Button) -> Element:
        value = {"panel": button.panel or self._panel, "press": button.action}
        is_primary = button.look == YES and not self._has_primary
        self._has_primary = self._has_primary or is_primary
        style = feishu.STYLES[YES] if is_primary else "default"
        drawn = feishu.callback_button(button.label, style, {**value, **self._mark})
        self._count += 1
        if self.in_form:
            drawn.update(name=f"press_{self._count}", form_action_type="submit")
        if button.confirm:
            title = feishu.plain(one_line(button.label, feishu.LABEL))
            words = feishu.plain(one_line(button.confirm, CONFIRM))
            drawn["confirm"] = {"title": title, "text": words}
        return drawn


def carried(panel: Panel) -> Panel:
    """A panel as a gateway is given it: no more than a card could hold."""
    kept, cut = panel.rows[:MOST_ROWS], len(panel.rows[MOST_ROWS:])
    for limit in (cards.FOLD * 4, cards.FOLD, cards.PREVIEW, feishu.LABEL):
        rows = (r._replace(block=shorten_block(r.block, limit)) for r in kept)
        short = panel._replace(rows=tuple(rows), cut=panel.cut + cut)
        if len(json.dumps(json.dumps(to_plain(short)))) <= MOST_CARRIED:  # in a receipt
            return short
    title = one_line(panel.title)
    return Panel(panel.id, panel.language, title, cut=panel.cut + len(panel.rows))


def notice_card(notice: Notice, language: str, machine: str = "") -> Card:
    """The card of a notice, with the button that it may have."""
    card = feishu.build_notice_card(notice, language)
    if notice.panel and notice.button:
        drawn = cards.open_button(notice.button, notice.panel, NOTICE_PRESS, machine)
        card["body"]["elements"].append(drawn)
    return card


def _size(part: object) -> int:
    """How many elements Feishu counts."""
    if isinstance(part, dict):
        return ("tag" in part) + sum(map(_size, part.values()))
    return sum(map(_size, part)) if isinstance(part, list) else 0


def _fits(card: Card) -> bool:
    is_small = len(feishu.encode(card).encode()) <= cards.BUDGET
    return is_small and _size(card) <= MOST_ELEMENTS


def has_ended(panel: Panel) -> bool:
    """Whether it says itself that it is over; its service may add how it went."""
    buttons = [*panel.buttons, *(b for row in panel.rows for b in row.buttons)]
    return panel.look != looks.OPEN and not buttons


# Messages.


class Look:
    """What a message shows, and what it has to show next."""

    def __init__(self, panel: Panel) -> None:
        self.panel = panel  # the newest
        self.drawn = Panel()
        self.changed_at = self.held_until = -math.inf  # monotonic
        self.is_timed = self.is_last = False
        self.is_busy = True  # a message is under way
        self.refusals = 0


class PanelCards:
    """Every panel that an app shows. All of it happens on the loop."""

    def __init__(
        self,
        shelf: Shelf,
        sender: Sender,
    ) -> None:
        self._shelf, self._sender = shelf, sender
        self._clock, self._wall, self._say = sender.clock, sender.wall, sender.say
        self._looks: dict[str, Look] = {}  # by key, of what was shown from here

    # Out.

    def show(self, place: str, who: str, panel: Panel) -> None:
        """A new message for one person; the one before it freezes."""
        self.go(self._show(place, who, panel))

    async def _show(self, place: str, who: str, panel: Panel) -> None:
        for old in await self._shelf.shown(place):
            if (old.panel, old.who) == (panel.id, who):
                self._freeze(place, old, REPLACED)
        key, session = secrets.token_urlsafe(12), panel.session
        now, title = self._wall(), one_line(panel.title)
        row = Shown(key, "", panel.id, title, who, session, now)
        look = self._look(row, panel)
        await self._shelf.put_shown(place, row)
        card = panel_card(panel, row.key, place)
        result = await self._sender.send(who, card, row.key)
        message_id = text_at(result.data, "message_id")
        look.is_busy = False
        if not result.ok or not message_id:
            log(f"a card was not shown: {result.message}", "warning")
            await self._end(place, row)
            return
        row = row._replace(message_id=message_id)
        await self._shelf.put_shown(place, row)
        look.drawn, look.changed_at = panel, self._clock()
        await self._go_on(place, row, look)

    async def change(self, place: str, panel: Panel) -> None:
        """A panel looks different now, wherever it is shown."""
        for row in await self._shelf.shown(place):
            is_asked_for = self._wall() - row.since <= ASKED_SECONDS
            if row.panel == panel.id and is_asked_for:
                look = self._look(row, panel)
                if not look.is_last:  # else it is being frozen, and stays so
                    look.panel = panel
                    self._schedule(place, row, look)

    def _look(self, row: Shown, panel: Panel) -> Look:
        """What a message shows; one that was shown elsewhere is as good as new."""
        look = self._looks.get(row.key)
        if look is None:
            look = self._looks[row.key] = Look(panel)
            look.is_busy = not row.message_id
            while len(self._looks) > MOST_LOOKS:
                del self._looks[next(iter(self._looks))]
        return look

    async def freeze(self, place: str, why: str) -> None:
        """Nothing will change any more: every panel says so, now."""
        for row in await self._shelf.shown(place):
            if row.panel:
                self._freeze(place, row, why)

    def _freeze(self, place: str, row: Shown, why: str) -> None:
        """What it showed stays, as far as that is known here."""
        look = self._look(row, Panel(row.panel, title=row.title, session=row.session))
        if not has_ended(look.panel):
            look.panel = look.panel.frozen(self._say(why))
        look.changed_at = look.held_until = -math.inf
        look.is_last = True
        redraw = look.panel != look.drawn
        self.go((self._redraw if redraw else self._go_on)(place, row, look))

    def _schedule(self, place: str, row: Shown, look: Look) -> None:
        if look.is_timed or look.is_busy or look.panel == look.drawn:
            return
        look.is_timed = True
        self._sender.later(self._wait(look), partial(self._due, place, row, look))

    def _wait(self, look: Look) -> float:
        now = self._clock()
        free_at = max(look.changed_at + EVERY, look.held_until)
        return max(0.0, free_at - now, self._sender.panels.wait(now))

    def _due(self, place: str, row: Shown, look: Look) -> None:
        look.is_timed = False
        if self._wait(look) > 0:
            self._schedule(place, row, look)
        else:
            self.go(self._redraw(place, row, look))

    async def _redraw(self, place: str, row: Shown, look: Look) -> None:
        if look.is_busy or look.panel == look.drawn:
            return
        look.is_busy, panel, now = True, look.panel, self._clock()
        self._sender.panels.note(now)
        look.changed_at = now
        card = panel_card(panel, row.key, place)
        result = await self._sender.redraw(
            row.message_id, card, CHANGE_SECONDS, waited_for=False
        )
        look.is_busy = False
        if result.ok:
            look.drawn, look.refusals = panel, 0
        elif result.code > 0:  # an answer of Feishu's: it may have been deleted
            look.refusals += 1
        await self._go_on(place, row, look)

    async def _go_on(self, place: str, row: Shown, look: Look) -> None:
        """What is next for a message: a change, or nothing any more."""
        is_over = look.is_last and look.panel == look.drawn
        if is_over or look.refusals >= REFUSALS:
            await self._end(place, row)
        else:
            self._schedule(place, row, look)

    async def _end(self, place: str, row: Shown) -> None:
        """It will not change; replies below it are still about its session."""
        self._looks.pop(row.key, None)
        if row.message_id and row.session:
            await self._shelf.put_shown(place, row._replace(panel=""))
        else:
            await self._shelf.drop_shown(place, row.key)

    def link(self, place: str, message_id: str, session: str) -> None:
        """Replies below this message are about a session."""
        if message_id and session:
            row = below(message_id, session, self._wall())
            self.go(self._shelf.put_shown(place, row))

    def noticed(self, place: str, session: str, sent: Promise[Result]) -> None:
        """A notice leaves: replies below it are about its session."""

        async def steps() -> None:
            self.link(place, text_at((await sent).data, "message_id"), session)

        self.go(steps())

    async def session_of(self, place: str, message: dict[str, Any]) -> str:
        """The session of the card that a text is a reply to; empty: none is known."""
        above = (text_at(message, key) for key in ("parent_id", "root_id"))
        ids = [*filter(None, above)]
        rows = await self._shelf.shown(place) if ids else []
        found = {row.message_id: row.session for row in rows}
        return next((found[id] for id in ids if found.get(id)), "")

    # In.

    def command(
        self,
        place: str,
        who: str,
        message_id: str,
        words: str,
        ask: Callable[[Then], object],
    ) -> None:
        """A command in the chat: words below it, a card to the person who wrote."""
        if len(words) > MOST_WORDS:
            self._sender.tell(message_id, self._say(TOO_LONG, count=MOST_WORDS))
        else:
            ask(partial(self.told, place, who, message_id))

    def told(self, place: str, who: str, message_id: str, told: Told) -> None:
        """What a command led to, or a press whose answer came too late for its tap."""
        if told.said:
            self._sender.tell(message_id, inert(self._say(told.said)))
        if told.panel.id:
            self.show(place, who, told.panel)

    async def press(
        self, place: str, press: Press, ask: Callable[[Then], object], slow: str = ""
    ) -> Answered:
        """The answer to a press; `slow` is said if what it led to comes later."""
        rows = await self._shelf.shown(place)
        row = next((row for row in rows if _is_on(row, press)), None)
        opens = press.action in (cards.OPENS, NOTICE_PRESS)
        is_bare = opens and not text_at(press.value, "nonce")
        if row is None and not is_bare and any(_is_about(row, press) for row in rows):
            return toast(looks.ERROR, self._say(NOT_AS_SHOWN))
        if row is not None:
            row = row._replace(since=self._wall(), message_id=press.message_id)
            await self._shelf.put_shown(place, row)
        look = self._looks.get(row.key) if row else None
        if look is not None:  # a change that overtakes the answer would be undone
            look.held_until = self._clock() + ANSWER_SECONDS + cards.AFTER_ANSWER
        late = partial(self._pressed_late, place, press, row)
        told = await self._in_time(ask, late)
        if told is None:
            return toast(looks.INFO, slow or self._say(WORKING))
        return self._answer(place, press, row, told)

    def _in_time(
        self, ask: Callable[[Then], object], late: Then
    ) -> Promise[Told | None]:
        """What is told while Feishu waits; else None, and `late` is told."""
        first = Promise["Told | None"]()

        def then(told: Told) -> None:
            if first.is_kept:
                late(told)
            else:
                first.resolve(told)

        ask(then)
        if not first.is_kept:
            self._sender.later(ANSWER_SECONDS, partial(first.resolve, None))
        return first

    def _answer(
        self, place: str, press: Press, row: Shown | None, told: Told
    ) -> Answered:
        said = self._say(told.said) if told.said else ""
        reply = toast(told.status, said) if said else {}
        if row is not None and told.panel.id == row.panel:
            self._shows(place, row, told.panel)
            card = panel_card(told.panel, row.key, place)
            return {**reply, "card": {"type": "raw", "data": card}}
        if told.panel.id:
            self.show(place, press.who, told.panel)
        return reply

    def _pressed_late(
        self, place: str, press: Press, row: Shown | None, told: Told
    ) -> None:
        if row is not None and told.panel.id == row.panel:
            self._shows(place, row, told.panel)
            told = told._replace(panel=Panel())
        self.told(place, press.who, press.message_id, told)

    def _shows(self, place: str, row: Shown, panel: Panel) -> None:
        """The answer to a press leaves: other devices see the card after it."""
        look = self._look(row, panel)
        look.panel, look.held_until = panel, self._clock() + cards.AFTER_ANSWER
        self._schedule(place, row, look)

    def go(self, steps: Coroutine[Any, None, object]) -> None:
        run(steps, report)


def _is_on(row: Shown, press: Press) -> bool:
    """Whether a press is on this very message, by the person who has it."""
    is_there = row.message_id in ("", press.message_id) and row.who == press.who
    return bool(row.panel) and is_there and is_nonce(press.value, row.key)


def _is_about(row: Shown, press: Press) -> bool:
    is_same = row.panel == press.panel or is_nonce(press.value, row.key)
    return bool(row.panel) and is_same


def inert(said: str) -> str:
    """Words as a text message shows them: no mention in it, nothing unseen."""
    return visible(said)[:MOST_SAID].replace("<", "＜")
