"""The shapes of answers, and answers over several turns of the loop."""

from __future__ import annotations

import json
from collections.abc import Callable, Generator
from typing import Any, cast

import pytest

from feishuperm.handlers.callback import MAX_SLOW, SlowReplies
from feishuperm.handlers.pages.layout import (
    HEADERS,
    as_json,
    in_pieces,
    page,
    to_home,
)
from feishuperm.handlers.pages.request import refusal
from feishuperm.protocol.http1 import Response
from tests.handlers.pages.page import Page


def test_page_carries_its_policy_and_what_else_it_is_given() -> None:
    response = page(b"x", 400, ("Refresh", "2"))
    assert response.status == 400
    assert list(response.headers) == [*HEADERS, ("Refresh", "2")]


def test_page_in_pieces_gives_way_after_each() -> None:
    steps = in_pieces([b"a", b"b"], 200, ("X", "y"))
    assert [next(steps), next(steps)] == [0.0, 0.0]
    with pytest.raises(StopIteration) as done:
        next(steps)
    assert done.value.value.body == b"ab"
    assert ("X", "y") in done.value.value.headers


def test_refusal_says_why() -> None:
    response = refusal(
        "zh",
        403,
        (
            "The inbox opens on the machine that runs the server, or with the link "
            "that feishuperm status prints."
        ),
    )
    assert response.status == 403
    assert "feishuperm status" in Page(response.body).text


def test_json_and_the_way_on_are_never_stored() -> None:
    for response in (as_json({"a": 1}), to_home(("Set-Cookie", "c=1"))):
        assert ("Cache-Control", "no-store") in list(response.headers)
    assert json.loads(as_json({"a": 1}).body) == {"a": 1}
    assert ("Location", ".") in list(to_home().headers)


# Over several turns.


class Bench:
    """SlowReplies with a clock and timers of their own."""

    def __init__(self) -> None:
        self.time = 0.0
        self.due: list[tuple[float, Callable[[], None]]] = []
        self.replies: list[Response] = []
        self.turns = SlowReplies(
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
