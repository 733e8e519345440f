"""Broken and endless commands: nothing escapes, and the work is bounded."""

from __future__ import annotations

import random
import sys
import time
from types import FrameType

import pytest

from feishuperm.danger.reader import read_call
from tests.conftest import is_thorough
from tests.danger.hostile import HEADS, PIECES, again, random_command
from tests.tables import every_row

MOST_SECONDS = 1.0  # of this thread alone; each of them takes some hundredths
MOST_CALLS = 150_000  # of functions, for any input: some twenty milliseconds


def calls_of(command: str, tool: str = "Bash", key: str = "command") -> int:
    """How many functions are called to read something."""
    count = 0

    def counting(frame: FrameType, event: str, arg: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(counting)
    try:
        read_call(tool, {key: command}, "/home/me/app", "/home/me")
    finally:
        sys.setprofile(None)
    return count


def test_random_commands_are_read() -> None:
    rng = random.Random(12)
    for _ in range(2000):
        read_call("Bash", {"command": random_command(rng)}, "/home/me/app", "/home/me")


@every_row("piece", PIECES)
def test_work_does_not_grow_with_a_megabyte_of_anything(piece: str) -> None:
    for head in HEADS if is_thorough() else HEADS[:1]:
        command = head + piece * ((1 << 20) // len(piece))
        assert calls_of(command) < MOST_CALLS, head


@pytest.mark.full
def test_long_text_that_is_used_again_and_again_is_paid_for_each_time() -> None:
    for command in again():
        reading = read_call("Bash", {"command": command}, "/home/me/app", "/home/me")
        assert any(fact.key == "fact.unread" for fact in reading.facts), command[-40:]
        assert calls_of(command) < MOST_CALLS, command[-40:]


def test_work_for_sql_and_powershell_is_bounded_too() -> None:
    for piece in PIECES:
        command = piece * (200_000 // len(piece))
        read_call("PowerShell", {"command": command}, "/home/me/app", "/home/me")
        read_call("mcp__db__query", {"sql": command}, "/home/me/app", "/home/me")


@every_row(
    "command",
    [
        "cat > x <<'E'\n#!" + "a" * 30_000 + "!\nE\n./x",
        "1" * 30_000 + "!",
        "python3 <<'E'\n" + "execute" * 3_000 + "\nE\n",
        "python3 <<'E'\n" + "remove_file" * 2_500 + "\nE\n",
        "node -e '" + "exec" * 7_000 + "'",
        "awk '" + "print" * 4_000 + "'",
        "psql <<'E'\n" + "copy " * 6_000 + "\nE\n",
    ],
)
def test_no_pattern_goes_over_the_same_text_again_and_again(command: str) -> None:
    began = time.thread_time()
    read_call("Bash", {"command": command}, "/home/me/app", "/home/me")
    assert time.thread_time() - began < MOST_SECONDS


@every_row("depth", [30, 3000])
def test_deep_nesting_is_not_taken_for_harmless(depth: int) -> None:
    for opening in ("$(", '"$(', "(", "${a:-", "<("):
        reading = read_call(
            "Bash",
            {"command": opening * depth + "rm -rf ~"},
            "/home/me/app",
            "/home/me",
        )
        assert reading.marks, opening


def test_end_of_a_very_long_command_is_not_taken_for_harmless() -> None:
    for padding in ("a ", "echo x;", "'x' ", "\n"):
        command = padding * 40_000 + "; rm -rf ~"
        reading = read_call("Bash", {"command": command}, "/home/me/app", "/home/me")
        assert reading.marks, padding
