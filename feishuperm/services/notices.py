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
        if row is not None and row.kind in self._kinds:
            self._tell(event_notice(payload, project, self._clock()))

    def unreadable(self, project: str) -> None:
        """A permission request came that nobody can read."""
        self._tell(unreadable_notice(project, self._clock()))

    def command(self, command: dict[str, Any]) -> bool:
        """A notice from another of our own commands; False if its kind is unknown."""
        kind = str(command.get("kind"))
        if kind not in NOTICES:
            return False
        project = str(command.get("project") or "")
        self._tell(
            Notice(
                kind,
                self._clock(),
                project,
                current_branch(project),
                str(command.get("session") or ""),
                str(command.get("text") or ""),
            )
        )
        return True

    def _tell(self, notice: Notice) -> None:
        log(f"notice: {notice.kind}", "debug")
        for channel in self._channels:
            channel.notify(notice)


def event_notice(payload: HookPayload, project: str, now: float) -> Notice:
    """What there is to tell of an event."""
    row = NOTICE_EVENTS[payload.hook_event_name()]
    project = project or payload.base.cwd
    started = turn_started(payload.transcript_path()) if row.kind == "stop" else 0.0
    return Notice(
        row.kind,
        now,
        project,
        current_branch(project),
        payload.session_id(),
        row.text(payload),
        now - started if started else 0.0,
    )


def unreadable_notice(project: str, now: float) -> Notice:
    """A request that came and could not be read."""
    return Notice("unreadable", now, project, current_branch(project))
