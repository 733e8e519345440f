"""Announces a request on every channel, and settles it on all of them.

A channel that pushes (Feishu) either shows the request or fails for good; a passive one
(the inbox) shows it to whoever looks.  When every pushing channel has failed and nobody
looks, no one will ever see the request: the notifier says so at once, so that nobody
waits for an answer that cannot come.
"""

from __future__ import annotations

from feishuperm.channels.base import Announcement
from feishuperm.lib.feishu import Button
from feishuperm.lib.git import current_branch
from feishuperm.lib.text import text
from feishuperm.models.action import ACTIONS
from feishuperm.models.names import DOCTOR_TOOL
from feishuperm.models.view import RequestView, view_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from feishuperm.channels.base import Channel
    from feishuperm.models.request import Request
    from feishuperm.services.links import Links

# Requests of our own that test the way from hook to server: no phone rings for them.
QUIET_TOOLS = frozenset((DOCTOR_TOOL,))

# The buttons of each kind of request: route and text.  A question is answered on its
# own page, since a bare "allow" answers nothing.
BUTTONS = {
    "permission": tuple((action.path, action.label) for action in ACTIONS.values()),
    "question": (
        ("/answer", "button.answer"),
        ("/deny", "button.deny"),
        ("/interrupt", "button.interrupt"),
    ),
    "plan": (
        ("/allow", "button.approve"),
        ("/deny", "button.reject"),
        ("/interrupt", "button.interrupt"),
    ),
}


class Notifier:
    """Knows the channels, the links and the language; decides nothing."""

    def __init__(
        self,
        channels: Sequence[Channel],
        links: Links,
        language: str,
        kinds: frozenset[str],
        seconds: int,
        delay: int,
        later: Callable[[float, Callable[[], None]], object],
        on_loop: Callable[[Callable[[], None]], object],
    ) -> None:
        self._channels = channels
        self._links = links
        self._language = language
        self._kinds = kinds
        self._seconds = seconds
        self._delay = delay
        self._later = later
        self._on_loop = on_loop  # channels report from their own threads

    def view(self, request: Request) -> RequestView:
        """What a person is shown of a request."""
        return view_of(
            request.payload(),
            request.id,
            request.project,
            current_branch(request.project),
            request.created,
            self._seconds,
        )

    def announce(
        self,
        request: Request,
        on_shown: Callable[[Request], None],
        on_failed: Callable[[Request, str], None],
        push: bool = True,
    ) -> None:
        """Show the request everywhere; one of the two callables may follow later.

        Without `push` only whoever looks sees it: the card is already out.
        """
        view = self.view(request)
        pushing = [
            channel
            for channel in self._channels
            if push and self._pushes(channel, view)
        ]
        failed: list[str] = []

        def done(shown: bool, detail: str) -> None:
            if shown:
                on_shown(request)
                return
            failed.append(detail)
            if len(failed) == len(pushing) and not self.watched():
                on_failed(request, "; ".join(failed))

        announcement = self._announcement(
            request,
            view,
            lambda shown, detail: self._on_loop(lambda: done(shown, detail)),
        )
        for channel in self._channels:
            if channel.passive:
                channel.announce(announcement)

        def send() -> None:
            if request.waits():
                for channel in pushing:
                    channel.announce(announcement)

        if self._delay:
            self._later(self._delay, send)
        else:
            send()

    def _pushes(self, channel: Channel, view: RequestView) -> bool:
        wanted = view.kind in self._kinds and view.tool_name not in QUIET_TOOLS
        return wanted and not channel.passive

    def _announcement(
        self, request: Request, view: RequestView, done: Callable[[bool, str], object]
    ) -> Announcement:
        buttons = tuple(
            Button(
                text(self._language, label),
                self._links.url(path, request.id),
                ACTIONS[path].style if path in ACTIONS else "primary_filled",
            )
            for path, label in BUTTONS[view.kind]
        )
        more = Button(
            text(self._language, "button.more"),
            self._links.url("/request", request.id),
            "default",
        )
        until = request.created + self._seconds
        return Announcement(view, buttons, more, until, request.waits, done)

    def watched(self) -> bool:
        """Whether somebody looks at a passive channel right now."""
        return any(channel.watched() for channel in self._channels if channel.passive)

    def pushes(self) -> bool:
        """Whether any channel reaches a person who does not look."""
        return any(not channel.passive for channel in self._channels)

    def settle(self, request: Request) -> None:
        """Tell every channel that the request has ended."""
        for channel in self._channels:
            channel.settle(request)

    def states(self) -> list[dict[str, str]]:
        """Name, state and detail of every channel, for `status`."""
        return [
            dict(zip(("name", "state", "detail"), (channel.name, *channel.state())))
            for channel in self._channels
        ]
