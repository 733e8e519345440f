"""Answers that take more than one turn of the loop.

The loop serves everybody, so nobody may hold it: a page of some megabytes is made piece
by piece, and a link whose request is still on its way back waits for it.  Such an
answer is a generator: it yields the seconds until it wants to go on, and returns the
response.  There is no thread, and there are never more than `MAX_SLOW` of them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator
from typing import Union

from feishuperm.protocol.http1 import Response, plain_response

TYPE_CHECKING = False
if TYPE_CHECKING:
    from feishuperm.server.connection import Exchange

Slow = Generator[float, None, Response]
Reply = Union[Response, Slow]

TURN_SECONDS = 0.01  # a person notices a tenth of a second
MAX_SLOW = 50  # of 15 MB at the most, and a person opens one


class Turns:
    """Goes on with what is not finished."""

    def __init__(
        self,
        later: Callable[[float, Callable[[], None]], object],
        ticks: Callable[[], float] = time.monotonic,
    ) -> None:
        self._later = later
        self._ticks = ticks
        self._slow = 0

    def run(self, exchange: Exchange, steps: Slow) -> None:
        """Answer as soon as the steps are done: now, if they are few."""
        if self._slow >= MAX_SLOW:
            exchange.reply(plain_response(503))
            return
        self._slow += 1
        self._go_on(exchange, steps)

    def _go_on(self, exchange: Exchange, steps: Slow) -> None:
        until, wait = self._ticks() + TURN_SECONDS, 0.0
        try:
            while not wait and self._ticks() < until:
                wait = next(steps)
        except StopIteration as done:
            self._slow -= 1
            exchange.reply(done.value)
        except Exception:
            self._slow -= 1
            exchange.reply(plain_response(500))
            raise
        else:
            self._later(wait, lambda: self._go_on(exchange, steps))
