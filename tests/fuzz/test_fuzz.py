"""A few hundred broken inputs for every parser; `build.py soak` feeds a million."""

from __future__ import annotations

import re

import pytest

from tests.fuzz.fuzzing import Failure, Target, check_growth, fuzz
from tests.fuzz.targets import TARGETS
from tests.tables import every_row

NAMES = [target.name for target in TARGETS]


@every_row("target", TARGETS)
def test_seeds_are_taken(target: Target) -> None:
    for seed in (*target.seeds, b""):
        target.run(seed)


@every_row("target", TARGETS)
def test_broken_input_raises_nothing(target: Target) -> None:
    assert fuzz(target, 200, seed=1).inputs == 200


@every_row("target", TARGETS)
def test_time_and_memory_grow_with_the_input_alone(target: Target) -> None:
    check_growth(target, seed=1, patterns=2, size=32 << 10)


def raising(data: bytes) -> None:
    assert b"\xff" not in data


def quadratic(data: bytes) -> None:
    for end in range(len(data)):
        data[:end].count(b"x")


def test_exception_that_escapes_is_told_with_its_input() -> None:
    target = Target("bad", raising, (b"seed",))
    with pytest.raises(Failure, match=r"bad: (?s:.*)AssertionError(?s:.*)\\xff"):
        fuzz(target, 10_000, seed=1)


def test_quadratic_time_is_noticed() -> None:
    with pytest.raises(Failure, match=re.compile("slow: .* s became")):
        check_growth(Target("slow", quadratic, (b"seed",)), 1, 1, size=64 << 10)


def test_memory_out_of_proportion_is_noticed() -> None:
    target = Target("fat", lambda data: [data[:n] for n in range(20_000)], (b"x",))
    with pytest.raises(Failure, match="MB"):
        check_growth(target, seed=1, patterns=1)
