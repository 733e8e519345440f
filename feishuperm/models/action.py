"""The four buttons, one row each: everything that differs between them is a column."""

from __future__ import annotations

from typing import NamedTuple

from feishuperm.models.decision import Decision


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

    def decision(self, message: str) -> Decision:
        """The decision this button stands for."""
        if not self.message:
            return Decision.allow()
        return Decision.deny(message, interrupt=self.interrupts)


ACTIONS = {
    action.path: action
    for action in (
        Action("/allow", "button.allow", "done.allow", "primary_filled", "allowed", "", False, False),
        Action("/always", "button.always", "done.always", "primary", "allowed", "", False, True),
        Action("/deny", "button.deny", "done.deny", "danger", "denied", "message.deny", False, False),
        Action("/interrupt", "button.interrupt", "done.interrupt", "danger_filled", "denied", "message.interrupt", True, False),
    )
}
