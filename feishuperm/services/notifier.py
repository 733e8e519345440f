"""Announces an ask on every channel, and settles it on all of them.

A channel that pushes (Feishu) either shows the request or fails for good; a passive one
(the inbox) shows it to whoever looks.  When every pushing channel has failed and nobody
looks, no one will ever see the request: the notifier says so at once, so that nobody
waits for an answer that cannot come.
"""

from __future__ import annotations

from feishuperm.channels.base import Announcement
from feishuperm.models.kind import KINDS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from feishuperm.channels.base import Channel
    from feishuperm.models.ask import Ask, Notice, Outcome
    from feishuperm.models.request import Request


class Notifier:
    """Knows the channels; decides nothing."""

    def __init__(
        self,
        channels: Sequence[Channel],
        kinds: frozenset[str],
        delay: int,
        later: Callable[[float, Callable[[], None]], object],
        on_loop: Callable[[Callable[[], None]], object],
    ) -> None:
        self._channels = channels
        self._kinds = kinds  # that are pushed to people
        self._delay = delay
        self._later = later
        self._on_loop = on_loop  # channels report from their own threads

    def announce(
        self,
        request: Request,
        ask: Ask,
        on_shown: Callable[[Request], None],
        on_failed: Callable[[Request, str], None],
        push: bool = True,
        hold: Callable[[], float] = lambda: 0.0,
        renew: Callable[[], Ask] | None = None,
        on_lost: Callable[[Request], None] = lambda request: None,
    ) -> None:
        """Show the request everywhere; one of the callables may follow later.

        Without `push` only whoever looks sees it, and a channel whose card is out, to
        watch over it.  A card goes out once `hold` says 0, as `renew` makes it then.
        """
        muted = any(channel.muted() for channel in self._channels)
        wanted = push and ask.kind in self._kinds and not muted
        pushing = [
            channel
            for channel in self._channels
            if not channel.passive and (wanted or channel.keeps(ask.id))
        ]
        names = {channel.name for channel in pushing}
        first = [c for c in pushing if c.stands_in_for not in names]
        failed: list[str] = []
        showing: set[str] = set()

        def done(name: str, shown: bool, detail: str) -> None:
            if shown:
                showing.add(name)
                on_shown(request)
                return
            failed.append(detail)
            show([c for c in pushing if c.stands_in_for == name])
            if len(failed) == len(pushing) and not self.watched():
                on_failed(request, "; ".join(failed))

        def lost(name: str) -> None:
            showing.discard(name)
            if not showing and not self.watched():
                on_lost(request)

        def announcement(name: str) -> Announcement:
            return Announcement(
                ask.created + ask.seconds,
                request.waits,
                lambda shown, detail: self._on_loop(lambda: done(name, shown, detail)),
                lambda: self._on_loop(lambda: lost(name)),
            )

        def show(channels: Sequence[Channel]) -> None:
            for channel in channels if request.waits() else ():
                newest = renew() if renew and not channel.passive else ask
                channel.announce(newest, announcement(channel.name))

        def show_when_free() -> None:
            wait = hold() if first and request.waits() else 0.0
            if wait > 0:
                self._later(wait, show_when_free)
            else:
                show(first)

        show([channel for channel in self._channels if channel.passive])
        idle = KINDS[ask.kind].holds_desk and not pushing
        if push and (muted or idle) and not self.watched():
            on_failed(request, "muted in the chat" if muted else "nobody looks")
        elif self._delay:
            self._later(self._delay, show_when_free)
        else:
            show_when_free()

    def watched(self) -> bool:
        """Whether somebody looks at a passive channel right now."""
        return any(channel.watched() for channel in self._channels if channel.passive)

    def renew(self) -> None:
        """More is known of what waits: whoever looks sees it."""
        for channel in self._channels:
            channel.renew()

    def settle(self, outcome: Outcome) -> None:
        """Tell every channel that a request has ended."""
        for channel in self._channels:
            channel.settle(outcome)

    def notify(self, notice: Notice) -> None:
        """Tell something on every channel."""
        for channel in self._channels:
            channel.notify(notice)

    def states(self) -> list[dict[str, Any]]:
        """Name, state and detail of every channel, for `status`."""
        return [
            {
                **dict(zip(("name", "state", "detail"), (c.name, *c.state()))),
                **c.facts(),
            }
            for c in self._channels
        ]
