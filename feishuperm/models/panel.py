"""A card that asks for no permission, and may change where it stands: a panel.

What sessions do, how one of them goes on, a start that has to be confirmed.  A service
makes it (`services.sessions`), in answer to a command in the chat or to a press of a
button; the channel that carried the question shows it to the person who asked, as one
message, and changes that message in place.  Nothing else ever sends one.

Plain values, which survive JSON: a gateway shows the panels of other machines.
"""

from __future__ import annotations

from typing import NamedTuple

from feishuperm.models.ask import NO, PARTS, STOP, WHILE, Block

OPEN, GOOD, OVER = "open", "good", "over"  # how a panel looks: it may change; it ended
# How a press went, for the toast that answers it.
SUCCESS, INFO, WARNING, ERROR = "success", "info", "warning", "error"


class Button(NamedTuple):
    """A button of a panel; a press names it by its action.

    One that opens another panel (`progress:ID`, from the list of sessions) presses that
    one: the card with the list stays, and the other panel gets a message of its own.
    """

    action: str = ""
    label: str = ""
    look: str = WHILE
    confirm: str = ""  # asks once more, with these words
    reads: bool = False  # takes along what the panel's field holds
    panel: str = ""  # id of another panel that it presses; empty: its own


class Row(NamedTuple):
    """A part of a panel: what it shows, a small line below that, and its buttons."""

    block: Block = Block()
    note: str = ""
    buttons: tuple[Button, ...] = ()


class Panel(NamedTuple):
    """What a card shows; one message per id and person."""

    id: str = ""  # "sessions", "progress:1a2b3c4d"; a press brings it back
    language: str = "zh"
    title: str = ""
    headline: str = ""
    look: str = OPEN
    rows: tuple[Row, ...] = ()
    field: str = ""  # label of a text field; empty: there is none
    hint: str = ""
    buttons: tuple[Button, ...] = ()  # below all rows
    note: str = ""  # the last, small line: time, context, cost; why it changes no more
    session: str = ""  # id of the session it is about
    cut: int = 0  # rows left out
    is_bare: bool = False  # it quotes nothing that must not leave

    def frozen(self, why: str) -> Panel:
        """The panel as it stays: no button, no field, and why."""
        rows = tuple(row._replace(buttons=()) for row in self.rows)
        return self._replace(rows=rows, field="", buttons=(), look=OVER, note=why)

    def bare(self, sentence: str) -> Panel:
        """The same where cards are titles: no content, and where it is shown.

        Nobody starts or sends what is not shown: only what ends something is left.
        The note of one session holds figures; that of a list may name files.
        """
        if self.is_bare:
            return self
        row = Row(Block("text", "", sentence))
        left = (b for b in self.buttons if not b.reads and b.look in (NO, STOP, WHILE))
        buttons = (b._replace(confirm=b.confirm and sentence) for b in left)
        return Panel(
            self.id, self.language, self.title, "", self.look, (row,),
            buttons=tuple(buttons), note=self.note if self.session else "",
        )  # fmt: skip


class Asker(NamedTuple):
    """A person who wrote a command or pressed a button, and where."""

    who: str = ""  # open_id, checked by the channel
    surface: str = ""  # "message", "card" or "gateway", as in the ledger
    channel: str = ""  # by name: it shows the panel


class Told(NamedTuple):
    """What a command or a press led to."""

    said: str = ""  # a sentence; below a message, or in a toast
    status: str = SUCCESS
    panel: Panel = Panel()  # to show, or to change what was pressed; without id: none
    fixed: bool = False  # what is said quotes nothing of any session


PARTS[Panel, "rows"] = Row
PARTS[Panel, "buttons"] = PARTS[Row, "buttons"] = Button
