"""A second program on the same app is named, a connection of a moment ago is not."""

from __future__ import annotations

from feishuperm.gateway.crowd import PROBLEM, Crowd
from tests.gateway.parts import Clock


def test_second_look_that_still_counts_two_names_the_other_until_it_is_gone() -> None:
    clock, counts = Clock(), [2, 2, 1]
    crowd = Crowd(lambda: counts.pop(0), lambda fn: fn(), clock.later)
    crowd.look = crowd._work  # type: ignore[method-assign]
    crowd.look()
    assert crowd.problem == ""
    clock.turn(91)
    assert crowd.problem == PROBLEM
    clock.turn(91)
    assert crowd.problem == "" and counts == []


def test_connection_of_a_moment_ago_is_forgiven_and_nothing_more_is_asked() -> None:
    clock, asked = Clock(), [0]

    def count() -> int:
        asked[0] += 1
        return 2 if asked[0] == 1 else 1

    crowd = Crowd(count, lambda fn: fn(), clock.later)
    crowd.look = crowd._work  # type: ignore[method-assign]
    crowd.look()
    clock.turn(1000)
    assert crowd.problem == "" and asked == [2]


def test_lasting_second_one_is_named() -> None:
    clock = Clock()
    crowd = Crowd(lambda: 2, lambda fn: fn(), clock.later)
    crowd.seen(2)
    assert crowd.problem == ""
    crowd.seen(3)
    assert crowd.problem == PROBLEM
