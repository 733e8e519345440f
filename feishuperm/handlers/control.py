"""Commands that `status`, `doctor`, `install` and friends send over the unix socket.

Whoever can open the socket is the user, or a program of theirs: the agent is one, so
no command decides anything.  One row of `COMMANDS` per command: a dict in, a dict out;
`error` says what was wrong.
"""

from __future__ import annotations

import os
import time

from feishuperm import __version__

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from feishuperm.services.desk import Desk
    from feishuperm.services.links import Links
    from feishuperm.services.notices import Notices

    Reply = dict[str, Any]

SHOWN_WAITING = 100  # a longer list helps nobody at a terminal


class Control:
    """Answers control commands."""

    def __init__(
        self,
        desk: Desk,
        links: Links,
        notices: Notices,
        addresses: dict[str, str],
        stop: Callable[[], None],
        hand_over: Callable[[], int],
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._desk = desk
        self._links = links
        self._notices = notices
        self._addresses = addresses
        self._stop = stop
        self._hand_over = hand_over
        self._clock = clock
        self._started = clock()

    def __call__(self, command: dict[str, Any]) -> Reply:
        row = COMMANDS.get(str(command.get("command")))
        if row is None:
            return {"error": f"unknown control command {command.get('command')!r}"}
        return row(self, command)

    def status(self, command: dict[str, Any]) -> Reply:
        """What `status` shows and `doctor` judges."""
        requests = self._desk.requests
        return {
            "version": __version__,
            "pid": os.getpid(),
            "started": self._started,
            **self._addresses,
            "inbox": self._links.inbox_url(self._clock()),
            "channels": self._desk.notifier.states(),
            "waiting_count": requests.waiting_count(),
            "waiting": [
                {
                    "id": request.id,
                    "tool": request.tool_name,
                    "project": request.project,
                    "shown": request.shown,
                    "seconds_left": self._desk.seconds_left(request),
                }
                for request in requests.waiting()[:SHOWN_WAITING]
            ],
        }

    def release(self, command: dict[str, Any]) -> Reply:
        """Hand what waits back to the terminals."""
        return {"released": self._desk.release_all("released by the user")}

    def stop(self, command: dict[str, Any]) -> Reply:
        """End the server, after this answer is out."""
        released = self._desk.close()
        self._stop()
        return {"released": released}

    def handover(self, command: dict[str, Any]) -> Reply:
        """End the server and leave what waits to the next one, which starts soon."""
        return {"waiting": self._hand_over()}

    def notice(self, command: dict[str, Any]) -> Reply:
        """Send a card that asks nothing."""
        return {"queued": self._notices.command(command)}


COMMANDS: dict[str, Callable[[Control, dict[str, Any]], Reply]] = {
    "status": Control.status,
    "release": Control.release,
    "stop": Control.stop,
    "handover": Control.handover,
    "notice": Control.notice,
}
