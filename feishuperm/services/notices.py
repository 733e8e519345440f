"""Cards that tell and do not ask: a turn that ended, a failure, a request nobody could
read.  Which events make one is a setting; how a card looks is the channel's business.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

from feishuperm.channels.base import Channel
from feishuperm.lib.git import current_branch
from feishuperm.lib.log import log
from feishuperm.models.ask import NOTICES, Notice
from feishuperm.models.notice import NOTICE_EVENTS
from feishuperm.models.payload import HookPayload
from feishuperm.services.transcript import turn_started


class Notices:
    """Turns events into notices and hands them to every channel."""

    def __init__(
        self,
        channels: Sequence[Channel],
        kinds: frozenset[str],
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._channels = channels
        self._kinds = kinds
        self._clock = clock

    def event(self, payload: HookPayload, project: str) -> None:
        """An event came by; tell of it if the user asked for its kind."""
        row = NOTICE_EVENTS.get(payload.hook_event_name())
        if row is None or row.kind not in self._kinds:
            return
        started = turn_started(payload.transcript_path()) if row.kind == "stop" else 0.0
        seconds = self._clock() - started if started else 0.0
        project = project or payload.base.cwd
        self._tell(row.kind, project, payload.session_id(), row.text(payload), seconds)

    def unreadable(self, project: str) -> None:
        """A permission request came that nobody can read."""
        self._tell("unreadable", project)

    def command(self, command: dict[str, Any]) -> bool:
        """A notice from another of our own commands; False if its kind is unknown."""
        kind = str(command.get("kind"))
        if kind not in NOTICES:
            return False
        names = ("project", "session", "text")
        project, session, text = (str(command.get(name) or "") for name in names)
        self._tell(kind, project, session, text)
        return True

    def _tell(
        self,
        kind: str,
        project: str,
        session: str = "",
        text: str = "",
        seconds: float = 0.0,
    ) -> None:
        log(f"notice: {kind}", "debug")
        now, branch = self._clock(), current_branch(project)
        notice = Notice(kind, now, project, branch, session, text, seconds)
        for channel in self._channels:
            channel.notify(notice)
