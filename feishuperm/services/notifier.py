"""Announces a request on every channel, and settles it on all of them.

A channel that pushes (Feishu) either shows the request or fails for good; a passive one
(the inbox) shows it to anyone who looks.  When every pushing channel has failed and
nobody looks, no person will ever see the request: the notifier says so at once, so that
the session does not wait for an answer that cannot come.

Where cards are titles, everything that leaves this machine is made bare here.

In quiet hours nothing goes to a channel that pushes, unless its card is out already.
What is still pending when they end is shown then.  It is looked for every few seconds
and not at one moment: a machine that slept has missed that.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from feishuperm.channels.base import Announcement, Channel, bare_ask
from feishuperm.lib.log import log
from feishuperm.lib.task import Later
from feishuperm.models.ask import Notice, Outcome
from feishuperm.models.kind import KINDS
from feishuperm.models.names import TEST_TOOL
from feishuperm.models.request import Request
from feishuperm.services.quiet import QuietHours
from feishuperm.services.request_manager import RequestManager

# A person at a blocked terminal can do nothing: a card that has not left by then is
# given up.  The first channel has eight of these seconds, its stand-in the rest.
BLOCKED_SECONDS = 12
LOOK_SECONDS = 5.0  # between two looks whether it is quiet


class Showing:
    """A pending request, and what became of it on the channels that push."""

    __slots__ = ("announced", "failed", "is_back", "pushing", "request", "there")

    def __init__(self, request: Request, pushing: list[Channel], is_back: bool) -> None:
        self.request = request
        self.pushing = pushing
        self.is_back = is_back
        self.announced: tuple[str, ...] = ()  # names of channels that were given it
        self.there: tuple[str, ...] = ()  # of those where it can be answered
        self.failed: dict[str, str] = {}  # of those that cannot show it, and why

    def first(self) -> list[Channel]:
        """Those that show it before others stand in for them."""
        names = [channel.name for channel in self.pushing]
        return [c for c in self.pushing if c.stands_in_for not in names]

    def stand_ins(self, name: str) -> list[Channel]:
        return [c for c in self.pushing if c.stands_in_for == name]


class Notifier:
    """Knows the channels; decides nothing."""

    def __init__(
        self,
        channels: Sequence[Channel],
        kinds: frozenset[str],
        later: Later,
        changed: Callable[[], object] = lambda: None,
        titles_only: bool = False,
        quiet: QuietHours | None = None,
    ) -> None:
        self._channels = channels
        self._kinds = kinds  # that are pushed to people
        self._later = later
        self._changed = changed  # pages of one request follow it, with any channel
        self._titles_only = titles_only
        self.quiet = quiet or QuietHours()
        self._was_quiet = self.quiet.until() > 0
        self._showings: dict[str, Showing] = {}  # of pending requests, by id
        if self.quiet.hours:
            self._look()

    def serve(
        self, requests: RequestManager, delay: Callable[[Request], float]
    ) -> None:
        """Whose requests these are; `delay`: seconds to think of a card again."""
        self._requests, self._card_delay = requests, delay

    def announce(self, request: Request, push: bool = True) -> None:
        """Show the request everywhere.

        Without `push` only people who look see it, and a channel whose card is out
        watches over it.
        """
        pushers = self._that_are(passive=False)
        muted = any(channel.muted() for channel in pushers)
        # Of what has come in this night, no card is out that a hook could know of.
        is_held = self._is_quiet(request) and request.created >= self.quiet.now()[0]
        is_back = not push and not is_held
        # Those that send it out, or have sent it before.
        wanted = not is_back and not muted and request.kind in self._kinds
        pushing = [c for c in pushers if wanted or c.keeps(request.id, is_back)]
        showing = Showing(request, pushing, is_back)
        if pushing:
            self._showings[request.id] = showing
        self._show(showing, self._that_are(passive=True))

        why = self._why_unseen(showing, muted)
        if push and why and not self.watched():
            self._give_up(request, why)
        else:
            self._show_when_free(showing)

    def _why_unseen(self, showing: Showing, muted: bool) -> str:
        """Why waiting for a channel that pushes is no use; empty: it may show it."""
        if muted:
            return "muted in the chat"
        request = showing.request
        is_silent = not showing.pushing or self._is_quiet(request)
        blocks = KINDS[request.kind].blocks_terminal
        return "nobody looks" if blocks and is_silent else ""

    def _that_are(self, passive: bool) -> list[Channel]:
        """Those that show it to people who look, or the others."""
        return [channel for channel in self._channels if channel.passive is passive]

    def _give_up(self, request: Request, why: str) -> None:
        """No person will ever see it."""
        log(f"{request.id}: no surface could show it, left to the terminal: {why}")
        self._requests.release(request, why)

    def _show(self, showing: Showing, channels: Sequence[Channel]) -> None:
        for channel in channels:
            ask = showing.request.ask()
            if ask is None or not showing.request.waits():
                return
            is_held = not channel.passive and self._is_quiet(showing.request)
            if is_held and channel.keeps(ask.id, showing.is_back):
                is_held = False
            if channel.name in showing.announced or is_held:
                continue
            showing.announced += (channel.name,)
            told = bare_ask(ask) if self._is_bare(channel) else ask
            channel.announce(told, self._announcement(showing, channel.name))

    def _show_when_free(self, showing: Showing) -> None:
        """Give it to those who send it out, once nothing delays its card."""
        request = showing.request
        waits = showing.pushing and request.waits()
        wait = self._card_delay(request) if waits else 0.0
        if wait > 0:
            self._later(wait, partial(self._show_when_free, showing))
        else:
            self._show(showing, showing.first())

    def _announcement(self, showing: Showing, name: str) -> Announcement:
        request = showing.request
        seconds = request.seconds
        if KINDS[request.kind].blocks_terminal:
            seconds = min(seconds, BLOCKED_SECONDS)
        until, (night, _) = request.created + seconds, self.quiet.now()
        if request.created < night < until:  # no card leaves later
            until = night
        return Announcement(
            request.id,
            name,
            until,
            self,
            showing.is_back,
            bool(showing.stand_ins(name)),
        )

    # What channels report.

    def is_wanted(self, id: str) -> bool:
        showing = self._showings.get(id)
        return showing is not None and showing.request.waits()

    def shown(self, id: str, channel: str) -> None:
        showing = self._showings.get(id)
        if showing is not None:
            showing.there = (*showing.there, channel)
            self._requests.mark_shown(showing.request)

    def failed(self, id: str, channel: str, why: str) -> None:
        showing = self._showings.get(id)
        if showing is None:
            return
        if self._is_quiet(showing.request):  # it is tried again afterwards
            showing.announced = tuple(n for n in showing.announced if n != channel)
            return
        showing.failed[channel] = why
        self._show(showing, showing.stand_ins(channel))
        everywhere = len(showing.failed) == len(showing.pushing)
        if everywhere and not self.watched():
            self._give_up(showing.request, "; ".join(showing.failed.values()))

    def lost(self, id: str, channel: str) -> None:
        showing = self._showings.get(id)
        if showing is None:
            return
        showing.there = tuple(name for name in showing.there if name != channel)
        if not showing.there and not self.watched():
            self._requests.mark_lost(showing.request)

    def stand_in(self, id: str, channel: str) -> None:
        showing = self._showings.get(id)
        if showing is not None:
            self._show(showing, showing.stand_ins(channel))

    # What channels are told.

    def watched(self) -> bool:
        """Whether somebody looks at a passive channel right now."""
        return any(channel.watched() for channel in self._that_are(passive=True))

    def _is_bare(self, channel: Channel) -> bool:
        """Whether a channel leaves this machine and may tell titles only."""
        return self._titles_only and not channel.passive

    def renew(self) -> None:
        """More is known of pending requests: people who look see it."""
        for channel in self._channels:
            channel.renew()
        self._changed()

    def settle(self, outcome: Outcome) -> None:
        """Tell every channel that a request has ended."""
        self._showings.pop(outcome.id, None)
        for channel in self._channels:
            channel.settle(outcome.bare() if self._is_bare(channel) else outcome)
        self._changed()

    def update(self, outcome: Outcome) -> None:
        """More is known of a request that has ended."""
        for channel in self._channels:
            channel.update(outcome.bare() if self._is_bare(channel) else outcome)
        self._changed()

    def notify(self, notice: Notice) -> None:
        """Tell something on every channel, unless it is quiet."""
        if self.quiet.until():
            return
        for channel in self._channels:
            channel.notify(notice.bare() if self._is_bare(channel) else notice)

    # Quiet hours.

    def _is_quiet(self, request: Request) -> bool:
        """Whether nothing may leave; a person has just asked for a test card."""
        return self.quiet.until() > 0 and request.tool_name != TEST_TOOL

    def end_quiet(self) -> bool:
        """A person wants cards again, for this night; whether it was quiet."""
        lifted = self.quiet.lift()
        self._notice_end()
        return lifted

    def _look(self) -> None:
        self._notice_end()
        self._later(LOOK_SECONDS, self._look)

    def _notice_end(self) -> None:
        """Show what was held, once it is not quiet any more."""
        was, self._was_quiet = self._was_quiet, self.quiet.until() > 0
        if was == self._was_quiet:
            return
        for showing in () if self._was_quiet else list(self._showings.values()):
            self._show_when_free(showing)
            for name in list(showing.failed):
                self._show(showing, showing.stand_ins(name))
        self._changed()

    def look(self) -> bool:
        """Let every channel see how it is; whether one of them is still looking."""
        return sum(channel.look() for channel in self._channels) > 0

    def states(self) -> list[dict[str, Any]]:
        """Name, state and detail of every channel, for `status`."""
        rows = [(c, *c.state()) for c in self._channels]
        return [
            {"name": c.name, "state": state, "detail": detail, **c.facts()}
            for c, state, detail in rows
        ]
