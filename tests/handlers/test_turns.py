"""Answers over several turns of the loop."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any, cast

import pytest

from feishuperm.handlers.turns import MAX_SLOW, Turns
from feishuperm.protocol.http1 import Response


class Bench:
    """Turns with a clock and timers of their own."""

    def __init__(self) -> None:
        self.time = 0.0
        self.due: list[tuple[float, Callable[[], None]]] = []
        self.replies: list[Response] = []
        self.turns = Turns(
            lambda seconds, fn: self.due.append((seconds, fn)), lambda: self.time
        )

    def reply(self, response: Response) -> None:
        self.replies.append(response)

    def run(self, steps: Generator[float, None, Response]) -> None:
        self.turns.run(cast(Any, self), steps)


def test_short_work_is_answered_at_once() -> None:
    def steps() -> Generator[float, None, Response]:
        yield 0.0
        return Response(200)

    bench = Bench()
    bench.run(steps())
    assert [reply.status for reply in bench.replies] == [200]
    assert bench.due == []


def test_long_work_gives_the_loop_back_every_few_milliseconds() -> None:
    bench = Bench()

    def steps() -> Generator[float, None, Response]:
        for _ in range(10):
            bench.time += 0.004
            yield 0.0
        return Response(200)

    bench.run(steps())
    turns = 1
    while bench.due:
        bench.due.pop()[1]()
        turns += 1
    assert turns == 4
    assert len(bench.replies) == 1


def test_waiting_asks_for_its_own_moment() -> None:
    def steps() -> Generator[float, None, Response]:
        yield 0.5
        return Response(200)

    bench = Bench()
    bench.run(steps())
    assert [seconds for seconds, _ in bench.due] == [0.5]
    assert bench.replies == []


def test_error_is_answered_and_reported() -> None:
    def steps() -> Generator[float, None, Response]:
        yield 0.0
        raise RuntimeError("broken")

    bench = Bench()
    with pytest.raises(RuntimeError):
        bench.run(steps())
    assert [reply.status for reply in bench.replies] == [500]


def test_more_than_can_be_kept_are_turned_away_until_others_are_done() -> None:
    def steps() -> Generator[float, None, Response]:
        yield 1.0
        return Response(200)

    bench = Bench()
    for _ in range(MAX_SLOW + 1):
        bench.run(steps())
    assert [reply.status for reply in bench.replies] == [503]
    bench.due.pop()[1]()
    bench.run(steps())
    assert [reply.status for reply in bench.replies] == [503, 200]
