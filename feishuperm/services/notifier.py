"""Announces an ask on every channel, and settles it on all of them.

A channel that pushes (Feishu) either shows the request or fails for good; a passive one
(the inbox) shows it to whoever looks.  When every pushing channel has failed and nobody
looks, no one will ever see the request: the notifier says so at once, so that nobody
waits for an answer that cannot come.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from feishuperm.channels.base import Announcement, Channel
from feishuperm.models.ask import Ask, Notice, Outcome
from feishuperm.models.kind import KINDS
from feishuperm.models.request import Request

# Whoever sits at a desk that is held can do nothing: what has not left by then is given
# up.  The first channel has eight of these seconds, the one that stands in the rest.
DESK_SECONDS = 12


class Reports(NamedTuple):
    """Whom to tell how the showing of a request goes."""

    shown: Callable[[Request], None]
    failed: Callable[[Request, str], None]  # nobody will ever see it
    lost: Callable[[Request], None] = lambda request: None  # nobody can answer it now


class Showing:
    """One request on its way to the channels, each of which gets it once."""

    def __init__(
        self,
        notifier: Notifier,
        request: Request,
        ask: Ask,
        reports: Reports,
        pushing: Sequence[Channel],
        renew: Callable[[], Ask] | None,
        is_back: bool,
    ) -> None:
        self._is_back = is_back
        self._notifier = notifier
        self._request = request
        self._ask = ask
        self._reports = reports
        self._pushing = pushing
        self._renew = renew
        self._failed: list[str] = []
        self._announced: set[str] = set()  # names of channels that were given it
        self._there: set[str] = set()  # of those that show it
        names = {channel.name for channel in pushing}
        self._first = [c for c in pushing if c.stands_in_for not in names]

    def show(self, channels: Sequence[Channel]) -> None:
        for channel in channels if self._request.waits() else ():
            if channel.name in self._announced:
                continue
            self._announced.add(channel.name)
            renew = None if channel.passive else self._renew
            ask = renew() if renew else self._ask
            channel.announce(ask, self._announcement(channel.name))

    def show_when_free(self, hold: Callable[[], float]) -> None:
        """Give it to those who send it out, once nothing holds it back."""
        wait = hold() if self._first and self._request.waits() else 0.0
        if wait > 0:
            self._notifier.later(wait, lambda: self.show_when_free(hold))
        else:
            self.show(self._first)

    def _announcement(self, name: str) -> Announcement:
        """Channels report from their own threads."""
        on_loop = self._notifier.on_loop
        others = self._stand_ins(name)
        seconds = self._ask.seconds
        if KINDS[self._ask.kind].holds_desk:
            seconds = min(seconds, DESK_SECONDS)
        return Announcement(
            self._ask.created + seconds,
            self._request.waits,
            lambda shown, detail: on_loop(lambda: self._done(name, shown, detail)),
            lambda: on_loop(lambda: self._lost(name)),
            (lambda: on_loop(lambda: self.show(others))) if others else None,
            self._is_back,
        )

    def _stand_ins(self, name: str) -> list[Channel]:
        return [c for c in self._pushing if c.stands_in_for == name]

    def _done(self, name: str, shown: bool, detail: str) -> None:
        if shown:
            self._there.add(name)
            self._reports.shown(self._request)
            return
        self._failed.append(detail)
        self.show(self._stand_ins(name))
        everywhere = len(self._failed) == len(self._pushing)
        if everywhere and not self._notifier.watched():
            self._reports.failed(self._request, "; ".join(self._failed))

    def _lost(self, name: str) -> None:
        self._there.discard(name)
        if not self._there and not self._notifier.watched():
            self._reports.lost(self._request)


class Notifier:
    """Knows the channels; decides nothing."""

    def __init__(
        self,
        channels: Sequence[Channel],
        kinds: frozenset[str],
        delay: int,
        later: Callable[[float, Callable[[], None]], object],
        on_loop: Callable[[Callable[[], None]], object],
        changed: Callable[[], object] = lambda: None,
    ) -> None:
        self._channels = channels
        self._kinds = kinds  # that are pushed to people
        self._delay = delay
        self.later = later
        self.on_loop = on_loop  # channels report from their own threads
        self._changed = changed  # pages of one request follow it, with any channel

    def announce(
        self,
        request: Request,
        ask: Ask,
        reports: Reports,
        push: bool = True,
        hold: Callable[[], float] = lambda: 0.0,
        renew: Callable[[], Ask] | None = None,
    ) -> None:
        """Show the request everywhere; something of `reports` may follow later.

        Without `push` only whoever looks sees it, and a channel whose card is out, to
        watch over it.  A card goes out once `hold` says 0, as `renew` makes it then.
        """
        muted = any(channel.muted() for channel in self._channels)
        holds_desk = KINDS[ask.kind].holds_desk
        pushing = self._pushing(ask, push and not muted, not push)
        showing = Showing(self, request, ask, reports, pushing, renew, not push)
        showing.show(self._passive())

        idle = holds_desk and not pushing
        if push and (muted or idle) and not self.watched():
            reports.failed(request, "muted in the chat" if muted else "nobody looks")
        elif self._delay and not holds_desk:
            self.later(self._delay, lambda: showing.show_when_free(hold))
        else:
            showing.show_when_free(hold)

    def _pushing(self, ask: Ask, push: bool, is_back: bool) -> list[Channel]:
        """Those that send it out, or have sent it before."""
        wanted = push and ask.kind in self._kinds
        return [
            channel
            for channel in self._channels
            if not channel.passive and (wanted or channel.keeps(ask.id, is_back))
        ]

    def _passive(self) -> list[Channel]:
        return [channel for channel in self._channels if channel.passive]

    def watched(self) -> bool:
        """Whether somebody looks at a passive channel right now."""
        return any(channel.watched() for channel in self._passive())

    def renew(self) -> None:
        """More is known of what waits: whoever looks sees it."""
        for channel in self._channels:
            channel.renew()
        self._changed()

    def settle(self, outcome: Outcome) -> None:
        """Tell every channel that a request has ended."""
        for channel in self._channels:
            channel.settle(outcome)
        self._changed()

    def update(self, outcome: Outcome) -> None:
        """More is known of a request that has ended."""
        for channel in self._channels:
            channel.update(outcome)
        self._changed()

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
