"""Whether another program holds connections of our app: it would take taps away.

Feishu hands each tap to one connection of an app at random.  How many there are is
asked when ours comes up; a connection that was cut may be counted for a while, so only
a second look believes that there is another one.  Nothing is asked while all is well.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from feishuperm.lib.log import log

AGAIN_SECONDS = 90.0
PROBLEM = (
    "another program holds connections of this Feishu app and takes taps away: stop it,"
    " or let all gateways share FEISHUPERM_ENGINE"
)


class Crowd:
    """For a gateway without an engine, which must be alone."""

    def __init__(
        self,
        count: Callable[[], int],
        on_loop: Callable[[Callable[[], object]], object],
        later: Callable[[float, Callable[[], object]], object],
    ) -> None:
        self._count = count  # blocks
        self._on_loop = on_loop
        self._later = later
        self._was_many = False
        self.problem = ""

    def look(self) -> None:
        """Ask, in a thread of its own."""
        threading.Thread(target=self._work, name="crowd", daemon=True).start()

    def _work(self) -> None:
        count = self._count()
        self._on_loop(lambda: self.seen(count))

    def seen(self, count: int) -> None:
        """So many connections are counted."""
        is_many = count > 1
        if is_many and self._was_many and not self.problem:
            log(PROBLEM, "error")
        self.problem = PROBLEM if is_many and self._was_many else ""
        self._was_many = is_many
        if is_many:
            self._later(AGAIN_SECONDS, self.look)
