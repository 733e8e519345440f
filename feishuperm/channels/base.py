"""What a channel is: a place where an ask can be shown and answered.

A pushing channel (Feishu) sends the ask out and says later whether it arrived; a
passive one (the inbox) shows it to whoever looks.  Nothing here blocks: slow work
happens in the channel's own thread, and `done` may be called from there.  Answers do
not come back through this interface: they enter the desk by its one door.

A new channel is one more file with this shape, and one more row where `serve` lists
them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any, Protocol

    from feishuperm.models.ask import Ask, Notice, Outcome

    class Channel(Protocol):
        """The shape every channel has."""

        name: str
        passive: bool  # shows only to whoever looks
        stands_in_for: str  # the channel that goes before it, as long as it can

        def start(self) -> None:
            """Begin to work; nothing is announced before."""

        def announce(self, ask: Ask, announcement: Announcement) -> None:
            """Show a request."""

        def renew(self) -> None:
            """More is known of what waits; only a passive channel need show it."""

        def settle(self, outcome: Outcome) -> None:
            """A request has ended, here or elsewhere."""

        def update(self, outcome: Outcome) -> None:
            """More is known of a request that has ended."""

        def notify(self, notice: Notice) -> None:
            """Tell something that needs no answer; a passive channel may ignore it."""

        def watched(self) -> bool:
            """Whether somebody looks right now (passive channels only)."""

        def muted(self) -> bool:
            """Whether the person wants no request pushed for a while."""

        def keeps(self, id: str) -> bool:
            """Whether a card of this request is out that it can still change."""

        def state(self) -> tuple[str, str]:
            """`up` or `down`, and a detail a person can act on."""

        def facts(self) -> Mapping[str, Any]:
            """What else `status` tells of it."""

        def busy(self) -> bool:
            """Whether something is on its way that should arrive before the end."""

        def close(self) -> None:
            """Stop working; what is still on its way may be dropped."""


class Announcement(NamedTuple):
    """How long an ask is of use, and whom to tell what became of it."""

    until: float  # wall clock: later it is of no use
    wanted: Callable[[], bool]  # whether the request still waits
    done: Callable[[bool, str], object]  # shown?, and if not for good: why
    lost: Callable[[], object] = lambda: None  # shown, but nobody can answer there now
    # Let another channel show it too, since no answer can come back; None: none could.
    stand_in: Callable[[], object] | None = None
