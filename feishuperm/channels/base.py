"""What a channel is: a place where a request can be shown and answered.

A pushing channel (Feishu) sends the request out and says later whether it arrived; a
passive one (the inbox) shows it to whoever looks.  Announcing never blocks: slow work
happens in the channel's own thread, and `done` may be called from there.  A new channel
is one more file with this shape, and one more row where `serve` lists them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from feishuperm.lib.feishu import Button, Notice
from feishuperm.models.view import RequestView

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Protocol

    from feishuperm.models.request import Request

    class Channel(Protocol):
        """The shape every channel has."""

        name: str
        passive: bool  # shows only to whoever looks

        def announce(self, announcement: Announcement) -> None:
            """Show a request."""

        def settle(self, request: Request) -> None:
            """A request has ended, here or elsewhere."""

        def notify(self, notice: Notice) -> None:
            """Tell something that needs no answer; a passive channel may ignore it."""

        def watched(self) -> bool:
            """Whether somebody looks right now (passive channels only)."""

        def state(self) -> tuple[str, str]:
            """`up` or `down`, and a detail a person can act on."""


class Announcement(NamedTuple):
    """A request to show, and how to answer it."""

    view: RequestView
    buttons: tuple[Button, ...]
    more: Button  # opens the whole request
    until: float  # wall clock: later it is of no use
    wanted: Callable[[], bool]  # whether the request still waits
    done: Callable[[bool, str], object]  # shown?, and if not for good: why
