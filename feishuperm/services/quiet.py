"""Quiet hours (`FEISHUPERM_QUIET`): a time of each night in which nothing is sent.

A night is a pair of moments, made from the local day that a moment lies in.  So a clock
that is set, or a machine that slept, finds itself in a night or outside of one, and no
timer has to have seen its borders.  Where the local clock jumps, the system says which
moment a border is; a night still begins once and ends once.

    awake -> quiet      the clock passes the beginning
    quiet -> awake      the clock passes the end, or a person ends this night early

An early end is kept in a file, with the end that the night would have had: it counts
for that night alone, and over a restart.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator
from typing import Any

from feishuperm.errors import FileError
from feishuperm.lib.config import state_dir
from feishuperm.lib.files import private_dir, read_json, write_atomic
from feishuperm.lib.log import log
from feishuperm.messages import msg
from feishuperm.models.settings import Settings

DAY_SECONDS = 86400.0
NONE = (0.0, 0.0)
NOW = msg("now, until {time}: no card or notice is sent")
LIFTED = msg("ended early for this night")


class QuietHours:
    """When nothing is sent; `hours` are minutes of the day, None: never."""

    def __init__(
        self,
        hours: tuple[int, int] | None = None,
        path: str = "",
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.hours = hours
        self._path = path
        self._clock = clock
        self._lifted = NONE  # when a night was ended early, and the end it had
        try:
            at, planned = map(float, read_json(path)) if hours else NONE
            self._lifted = at, planned
        except (FileError, TypeError, ValueError):
            pass  # mostly there is no such file

    def now(self) -> tuple[float, float]:
        """The night that it is, or else the next one: when it begins and ends."""
        now = self._clock()
        return next((night for night in self._nights(now) if now < night[1]), NONE)

    def until(self) -> float:
        """When it is quiet until; 0 while it is not."""
        begin, end = self.now() if self.hours else NONE
        return end if begin <= self._clock() < end else 0.0

    def overlaps(self, first: float, last: float) -> bool:
        """Whether a part of this time is quiet, or was."""
        first, last = sorted((first, last))  # somebody may have set the clock back
        if last - first >= DAY_SECONDS:
            return self.hours is not None
        nights = self._nights(first)
        return any(begin <= last and first < end for begin, end in nights)

    def lift(self) -> bool:
        """End this night early; False if it is not quiet."""
        until = self.until()
        if not until:
            return False
        self._lifted = self._clock(), until
        try:
            private_dir(os.path.dirname(self._path))
            write_atomic(self._path, json.dumps(self._lifted).encode(), 0o600)
        except (OSError, FileError) as error:
            log(f"the early end of quiet hours is not kept: {error}", "error")
        return True

    def _nights(self, moment: float) -> Iterator[tuple[float, float]]:
        """The nights around a moment, in their order."""
        if self.hours is None:
            return
        (begin, end), (year, month, day) = self.hours, time.localtime(moment)[:3]
        for first in (day - 1, day, day + 1):
            borders = (first, begin), (first + (end <= begin), end)
            opens, closes = (
                time.mktime((year, month, date, *divmod(minutes, 60), 0, 0, 0, -1))
                for date, minutes in borders
            )
            yield opens, self._lifted[0] if closes == self._lifted[1] else closes

    def describe(self) -> dict[str, Any] | None:
        """What `status --json` says; None where no hours are set."""
        if self.hours is None:
            return None
        until, state = self.until(), ""
        if until:
            ends = time.strftime("%H:%M", time.localtime(until))
            state = msg(NOW, time=ends)
        elif self._lifted[0] <= self._clock() < self._lifted[1]:
            state = LIFTED
        hours = "-".join("{:02}:{:02}".format(*divmod(m, 60)) for m in self.hours)
        return {"hours": hours, "until": until or None, "state": state}


def quiet_hours(settings: Settings) -> QuietHours:
    """The quiet hours of this user, as they stand now."""
    return QuietHours(
        settings.feishuperm_quiet, os.path.join(state_dir(), "quiet.json")
    )
