"""The inbox: pages in a browser that show every request, live.

It is passive: it shows a request to anyone who has a page open.  What the pages are
sent is made by `render`, given from above: everything for a page that connects, the
changes for all that are open.  This file only knows who listens, and sends changes at
most once per turn of the loop, however many requests change in it.  The page of one
request follows that alone, and does not count as somebody who looks at the inbox.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from feishuperm.channels.base import Announcement, Channel
from feishuperm.messages import msg
from feishuperm.models.ask import Ask, Outcome


class Stream(Protocol):
    """An open page, as far as a channel knows it."""

    on_close: Callable[[], object]

    def send(self, data: bytes) -> None: ...


PING_SECONDS = 25.0  # proxies drop connections that are silent for half a minute


class InboxChannel(Channel):
    """The open inbox pages; they close with the server's connections."""

    name = "inbox"
    passive = True

    def __init__(
        self,
        render: Callable[[bool], bytes],
        later: Callable[[float, Callable[[], None]], object],
    ) -> None:
        self._render = render
        self._later = later
        # Open pages: what is sent to one of a single request; None: the whole inbox.
        self._pages: dict[Stream, Callable[[], bytes] | None] = {}
        self._due = False

    def start(self) -> None:
        self._ping()

    def announce(self, ask: Ask, announcement: Announcement) -> None:
        self.refresh()

    def settle(self, outcome: Outcome) -> None:
        self.refresh()

    update = settle

    def _looking(self) -> list[Stream]:
        return [stream for stream, render in self._pages.items() if render is None]

    def watched(self) -> bool:
        return bool(self._looking())

    def state(self) -> tuple[str, str]:
        return "up", msg("{} open", len(self._looking()))

    def open(self, stream: Stream) -> None:
        """A page connected: it gets the state now, and every change from now on."""
        self._keep(stream, None, self._render(True))

    def follow(self, stream: Stream, render: Callable[[], bytes]) -> None:
        """A page of one request connected: it gets what `render` makes of that."""
        self._keep(stream, render, render())

    def _keep(
        self, stream: Stream, render: Callable[[], bytes] | None, state: bytes
    ) -> None:
        stream.on_close = lambda: self._pages.pop(stream, None)
        self._pages[stream] = render
        stream.send(state)

    def refresh(self) -> None:
        """Send what has changed to all pages, soon."""
        if self._pages and not self._due:
            self._due = True
            self._later(0.0, self._broadcast)

    renew = refresh

    def _broadcast(self) -> None:
        self._due = False
        state = self._render(False) if self.watched() else b""
        for stream, render in list(self._pages.items()):
            stream.send(render() if render else state)

    def _ping(self) -> None:
        """A comment line: proxies drop silent connections, and so does a dead page."""
        for stream in list(self._pages):
            stream.send(b": ping\n\n")
        self._later(PING_SECONDS, self._ping)
