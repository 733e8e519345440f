"""Promises are kept once, and steps go on when what they wait for has come."""

from __future__ import annotations

from typing import Any

import pytest

from feishuperm.lib.task import Promise, run
from tests.gateway.parts import kept
from tests.tables import every_row


def started(steps: Any) -> tuple[list[Any], list[Exception]]:
    results: list[Any] = []
    errors: list[Exception] = []

    async def outer() -> None:
        results.append(await steps)

    run(outer(), errors.append)
    return results, errors


def test_steps_wait_for_a_value_and_go_on_with_it() -> None:
    promise: Promise[int] = Promise()

    async def steps() -> int:
        return await promise + 1

    results, errors = started(steps())
    assert results == [] and not promise.is_kept
    promise.resolve(7)
    assert (results, errors) == ([8], [])


def test_value_that_is_there_makes_nobody_wait() -> None:
    assert started(kept("now")) == (["now"], [])


def test_failure_is_raised_where_it_is_awaited() -> None:
    promise: Promise[int] = Promise()

    async def steps() -> str:
        with pytest.raises(ValueError, match="bad"):
            await promise
        return "caught"

    results, _ = started(steps())
    promise.fail(ValueError("bad"))
    assert results == ["caught"]


def test_failure_that_nobody_catches_is_told() -> None:
    promise: Promise[int] = Promise()
    results, errors = started(promise)
    promise.fail(ValueError("bad"))
    assert results == [] and str(errors[0]) == "bad"


def test_steps_that_fail_at_once_are_told() -> None:
    async def steps() -> None:
        raise KeyError("x")

    assert isinstance(started(steps())[1][0], KeyError)


@every_row("first", [True, False])
def test_first_word_counts_and_later_ones_change_nothing(first: bool) -> None:
    promise: Promise[int] = Promise()
    results, errors = started(promise)
    if first:
        promise.resolve(1)
        promise.fail(ValueError("late"))
    else:
        promise.fail(ValueError("first"))
        promise.resolve(2)
    promise.resolve(3)
    assert (results, [str(error) for error in errors]) == (
        ([1], []) if first else ([], ["first"])
    )


def test_everybody_who_waits_goes_on_in_the_order_they_came() -> None:
    promise: Promise[str] = Promise()
    heard: list[str] = []
    for name in "ab":
        promise.then(lambda name=name: heard.append(name))  # type: ignore[misc]
    promise.resolve("x")
    promise.then(lambda: heard.append("late"))
    assert heard == ["a", "b", "late"]
