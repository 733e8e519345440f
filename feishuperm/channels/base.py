"""What a channel is: a place where an ask can be shown and answered.

A pushing channel (Feishu) sends the ask out and says later whether it arrived; a
passive one (the inbox) shows it to whoever looks.  Nothing here blocks: slow work
happens in the channel's own thread, and `done` may be called from there.  Answers do
not come back through this interface: they enter the desk by its one door.

A new channel is one more file with this shape, and one more row where `serve` lists
them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from feishuperm.lib.text import text
from feishuperm.models.ask import Ask, Notice, Outcome


class Channel:
    """The shape every channel has, and what most of them do."""

    name = ""
    passive = False  # shows only to whoever looks
    stands_in_for = ""  # the channel that goes before it, as long as it can

    def start(self) -> None:
        """Begin to work; nothing is announced before."""

    def announce(self, ask: Ask, announcement: Announcement) -> None:
        """Show a request."""

    def renew(self) -> None:
        """More is known of what waits; a card that is out may stay as it is."""

    def settle(self, outcome: Outcome) -> None:
        """A request has ended, here or elsewhere."""

    def update(self, outcome: Outcome) -> None:
        """More is known of a request that has ended."""

    def notify(self, notice: Notice) -> None:
        """Tell something that needs no answer to people who do not look."""

    def watched(self) -> bool:
        """Whether somebody looks right now (passive channels only)."""
        return False

    def muted(self) -> bool:
        """Whether the person wants no request pushed for a while."""
        return False

    def keeps(self, id: str, is_back: bool = False) -> bool:
        """Whether a card of this request is out that it can still change.

        Of one that came back, also whether there may be one: it is not known yet.
        """
        return False

    def state(self) -> tuple[str, str]:
        """`up` or `down`, and a detail a person can act on."""
        return "up", ""

    def facts(self) -> Mapping[str, Any]:
        """What else `status` tells of it."""
        return {}

    def busy(self) -> bool:
        """Whether something is on its way that should arrive before the end."""
        return False

    def close(self) -> None:
        """Stop working; what is still on its way may be dropped."""


class AbsentChannel(Channel):
    """A channel that is set up and cannot be used; a person has to repair it."""

    def __init__(self, name: str, problem: str) -> None:
        self.name = name
        self._problem = problem

    def announce(self, ask: Ask, announcement: Announcement) -> None:
        announcement.done(False, self._problem)

    def state(self) -> tuple[str, str]:
        return "down", self._problem


class Announcement(NamedTuple):
    """How long an ask is of use, and whom to tell what became of it."""

    until: float  # wall clock: later it is of no use
    wanted: Callable[[], bool]  # whether the request still waits
    done: Callable[[bool, str], object]  # shown?, and if not for good: why
    lost: Callable[[], object] = lambda: None  # shown, but nobody can answer there now
    # Let another channel show it too, since no answer can come back; None: none could.
    stand_in: Callable[[], object] | None = None
    is_back: bool = False  # it was shown before its hook came back


def gone(ask: Ask, now: float, key: str = "ended.gone") -> Outcome:
    """The end of a request of which nothing more is known."""
    done, hint = text(ask.language, key), text(ask.language, f"{key}_hint")
    return Outcome(
        ask.id, ask.kind, ask.language, "gone", ended=now, done=done, lines=(hint,)
    )
