"""Broken input for every parser: seeded, so that each failure can be run again.

An input is a good one (a seed of its target) with a few things done to it.  A target
takes bytes and raises nothing: what it may refuse, it catches itself.  Three things are
looked at: that nothing escapes, that time grows with the length of the input and not
with its square, and that memory stays within a multiple of it.
"""

from __future__ import annotations

import random
import signal
import time
import traceback
import tracemalloc
from collections.abc import Callable, Sequence
from types import FrameType
from typing import NamedTuple

LONGEST = 4096  # of a usual input
HANG_SECONDS = 20
SLOW_SECONDS = 1.0  # for an input of a few kilobytes, on a machine with other work
LARGE = 128 << 10  # bytes whose time is compared with that of an eighth
EIGHTH = 8
SQUARE = 5.0  # times the linear growth; a square would be eight times
NOTICEABLE = 0.1  # seconds: below this, growth is not worth measuring
BYTES_PER_BYTE = 150  # of memory, for one byte of input: JSON makes `[` a list
BASE_BYTES = 32 << 20  # a file is read into one buffer of half that
GROWTHS = 12  # patterns tried per target

# What breaks parsers in general; a target adds the words of its own language.
WORDS = (
    *(b"\0", b"\n", b"\r\n", b"\r", b"\t", b" ", b'"', b"'", b"\\", b"{", b"}", b"["),
    *(b"]", b",", b":", b"=", b"&", b"%", b"%00", b"%u1234", b";", b"$", b"`", b"("),
    *(b")", b"-1", b"0", b"1e999", b"NaN", b"1" * 400, b"9" * 5000, b"null", b"true"),
    *("\u202e\u200b\ufeff".encode(), b"\xff", b"\xc3", b"\xed\xa0\x80", b"\\ud800"),
    *(b"../", b"/", b"~", b"#", b"<b>", b"&lt;", b"\x1b[31m", "你".encode(), b"\x7f"),
)


class Target(NamedTuple):
    """A parser: how it is called, and what it is meant for."""

    name: str
    run: Callable[[bytes], object]
    seeds: tuple[bytes, ...]
    words: tuple[bytes, ...] = ()


class Failure(Exception):
    """An input that a parser does not survive, with what is needed to see it again."""

    def __init__(self, target: Target, data: bytes, why: str) -> None:
        shown = repr(data if len(data) < 500 else data[:300] + b" ... " + data[-100:])
        super().__init__(f"{target.name}: {why}\ninput ({len(data)} bytes): {shown}")


class Hang(BaseException):
    """Not an Exception: no parser may catch it."""


def mutate(rng: random.Random, target: Target) -> bytes:
    """One input for a target."""
    data = bytearray(rng.choice(target.seeds))
    if rng.random() < 0.2:
        other = rng.choice(target.seeds)
        data[rng.randrange(len(data) + 1) :] = other[rng.randrange(len(other) + 1) :]
    for _ in range(rng.choice((1, 1, 2, 3, 6))):
        rng.choice(CHANGES)(rng, data, target)
    limit = LONGEST if rng.random() < 0.98 else LONGEST * 16
    return bytes(data[:limit])


def _flip(rng: random.Random, data: bytearray, _: Target) -> None:
    if data:
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)


def _insert(rng: random.Random, data: bytearray, _: Target) -> None:
    at = rng.randrange(len(data) + 1)
    data[at:at] = rng.getrandbits(8 * 4).to_bytes(4, "big")[: rng.randrange(1, 5)]


def _say(rng: random.Random, data: bytearray, target: Target) -> None:
    at = rng.randrange(len(data) + 1)
    data[at:at] = rng.choice((*WORDS, *target.words))


def _cut(rng: random.Random, data: bytearray, _: Target) -> None:
    start = rng.randrange(len(data) + 1)
    del data[start : start + rng.choice((1, 2, 8, 64))]


def _repeat(rng: random.Random, data: bytearray, _: Target) -> None:
    start = rng.randrange(len(data) + 1)
    piece = data[start : start + rng.choice((1, 2, 8, 40))]
    data[start:start] = piece * rng.choice((1, 2, 20, 300))


def _end(rng: random.Random, data: bytearray, _: Target) -> None:
    del data[rng.randrange(len(data) + 1) :]


CHANGES = (_flip, _flip, _insert, _say, _say, _say, _cut, _repeat, _end)


class Figures(NamedTuple):
    """What a run over one target came to."""

    name: str
    inputs: int
    slowest: float  # seconds


def fuzz(target: Target, inputs: int, seed: int) -> Figures:
    """Feed a target so many inputs. Raises Failure."""
    rng = random.Random(f"{seed} {target.name}")
    slowest = 0.0
    for _ in range(inputs):
        slowest = max(slowest, _feed(target, mutate(rng, target)))
    return Figures(target.name, inputs, slowest)


def _feed(target: Target, data: bytes) -> float:
    """How long one input takes. Raises Failure."""
    began = time.perf_counter()
    _survive(target, data)
    seconds = time.perf_counter() - began
    if seconds > SLOW_SECONDS and min(_time(target, data) for _ in range(3)) > (
        SLOW_SECONDS
    ):
        raise Failure(target, data, f"took {seconds:.1f} s")
    return seconds


def _survive(target: Target, data: bytes) -> None:
    before = signal.signal(signal.SIGALRM, _hang)
    left = signal.alarm(HANG_SECONDS)
    try:
        target.run(data)
    except Hang:
        raise Failure(target, data, f"not over after {HANG_SECONDS} s") from None
    except Exception:
        raise Failure(target, data, traceback.format_exc()) from None
    finally:
        signal.signal(signal.SIGALRM, before)
        signal.alarm(left)


def _hang(number: int, frame: FrameType | None) -> None:
    raise Hang


def _time(target: Target, data: bytes) -> float:
    """Seconds of work: how busy the machine is besides says nothing of a target."""
    began = time.process_time()
    target.run(data)
    return time.process_time() - began


def check_growth(
    target: Target, seed: int, patterns: int = GROWTHS, size: int = LARGE
) -> None:
    """See that a piece repeated eight times as often takes about that much longer."""
    rng = random.Random(f"{seed} {target.name} growth")
    pieces: Sequence[bytes] = [*target.words, *WORDS]
    for _ in range(patterns):
        whole = rng.choice(target.seeds)
        at = rng.randrange(len(whole) + 1)
        piece = rng.choice(pieces) if rng.random() < 0.7 else whole[at : at + 8]
        _check_pattern(target, whole[:at], piece or b"x", whole[at:], size)


def _check_pattern(
    target: Target, head: bytes, piece: bytes, tail: bytes, size: int
) -> None:
    large = head + piece * (size // len(piece)) + tail
    _survive(target, large)  # what it imports late is not the input's memory
    tracemalloc.start()
    try:
        _survive(target, large)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    if peak > BASE_BYTES + BYTES_PER_BYTE * len(large):
        raise Failure(target, large, f"took {peak >> 20} MB")
    if _time(target, large) < NOTICEABLE:
        return
    small = head + piece * (size // EIGHTH // len(piece)) + tail
    short = min(_time(target, small) for _ in range(3))
    long = min(_time(target, large) for _ in range(3))
    if long > NOTICEABLE and long > short * SQUARE * EIGHTH:
        raise Failure(target, large, f"{short:.3f} s became {long:.3f} s")
