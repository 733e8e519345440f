"""The four buttons, one row each: everything that differs between them is a column."""

from __future__ import annotations

from typing import NamedTuple

from feishuperm.models.request import ALLOWED, DENIED


class Action(NamedTuple):
    """A button: its route, its texts, its looks and what it decides."""

    path: str
    label: str  # key of the button's text
    done: str  # key of the result page's text
    style: str  # Feishu button type
    state: str  # state of the request afterwards
    message: str  # key of the text the model sees, empty for an allow
    interrupts: bool
    writes_rule: bool

    @property
    def name(self) -> str:
        """The action's name in ledger, log and JSON."""
        return self.path[1:]


_ROWS = (
    Action("/allow", "button.allow", "done.allow", "primary_filled",
           ALLOWED, "", False, False),
    Action("/always", "button.always", "done.always", "primary",
           ALLOWED, "", False, True),
    Action("/deny", "button.deny", "done.deny", "danger",
           DENIED, "message.deny", False, False),
    Action("/interrupt", "button.interrupt", "done.interrupt", "danger_filled",
           DENIED, "message.interrupt", True, False),
)  # fmt: skip

ACTIONS = {row.path: row for row in _ROWS}
