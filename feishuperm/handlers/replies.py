"""The shapes of answers: a page, JSON, a refusal, a way on; now, or over many turns.

The loop serves everybody, so nobody may hold it: a page of some megabytes is made piece
by piece, and a link whose request is still on its way back waits for it.  Such an
answer is a generator: it yields the seconds until it wants to go on, and returns the
response.  There is no thread, and there are never more than `MAX_SLOW` of them.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Generator, Iterable
from typing import Union

from feishuperm.handlers.pages.layout import HEADERS
from feishuperm.handlers.pages.request import message_page
from feishuperm.messages import msg, text
from feishuperm.models.names import INVALID, NO_REQUEST
from feishuperm.protocol.http1 import Response, plain_response

HTML = "text/html; charset=utf-8"
JSON = "application/json; charset=utf-8"
PRIVATE = (("Cache-Control", "no-store"), ("X-Content-Type-Options", "nosniff"))
TYPE_CHECKING = False
if TYPE_CHECKING:
    from feishuperm.server.connection import Exchange

Slow = Generator[float, None, Response]
# The last: a stream of events, which keeps its exchange.
Reply = Union[Response, Slow, Callable[["Exchange"], None]]

TURN_SECONDS = 0.01  # a person notices a tenth of a second
MAX_SLOW = 50  # of 15 MB at the most, and a person opens one


class SlowReplies:
    """Answers, and goes on with what is not finished."""

    def __init__(
        self,
        later: Callable[[float, Callable[[], None]], object],
        ticks: Callable[[], float] = time.monotonic,
    ) -> None:
        self._later = later
        self._ticks = ticks
        self._slow = 0

    def run(self, exchange: Exchange, reply: Reply) -> None:
        """Answer as soon as the steps are done: now, if they are few."""
        if isinstance(reply, Response):
            exchange.reply(reply)
        elif callable(reply):
            reply(exchange)
        elif self._slow >= MAX_SLOW:
            exchange.reply(plain_response(503))
        else:
            self._slow += 1
            self._go_on(exchange, reply)

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


def page(body: bytes, status: int = 200, *headers: tuple[str, str]) -> Response:
    """A page, whole."""
    return Response(status, body, HTML, (*HEADERS, *headers))


def in_pieces(
    pieces: Iterable[bytes], status: int = 200, *headers: tuple[str, str]
) -> Slow:
    """A page that is made over several turns, if it is large."""
    made = bytearray()  # millions of pieces would take long to be let go of
    for piece in pieces:
        made += piece
        yield 0.0
    return page(bytes(made), status, *headers)


def message(
    language: str, status: int, title: str, sentence: str, *headers: tuple[str, str]
) -> Response:
    """A page with one sentence; `title` is a text key."""
    return page(message_page(language, title, sentence), status, *headers)


def refusal(language: str, status: int, key: str) -> Response:
    """A page that says why not; `key` is the sentence's."""
    title = INVALID if key == NO_REQUEST else msg("This cannot be opened")
    return message(language, status, title, text(language, key))


def as_json(value: object, status: int = 200) -> Response:
    """For programs, and for the inbox's script."""
    return Response(status, json.dumps(value).encode() + b"\n", JSON, PRIVATE)


def to_home(*headers: tuple[str, str]) -> Response:
    """Go on to the inbox; relative, since a proxy may add a prefix."""
    return Response(303, headers=[*PRIVATE, ("Location", "."), *headers])
