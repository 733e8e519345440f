"""The diff of two texts: right for all of them, and quick for hostile ones."""

from __future__ import annotations

import time

from hypothesis import given, settings
from hypothesis import strategies as st

from feishuperm.lib.tool import CHUNK, Budget, unified_diff
from tests.tables import every_row

LINES = st.lists(st.sampled_from(["a", "b", "", "c d", " x"]), max_size=30)


def applied(before: str, diff: str) -> str:
    """The text a diff leads to, applied as strictly as `patch` would."""
    old = before.split("\n") if before else []
    new: list[str] = []
    position = 0
    for line in diff.split("\n"):
        if line.startswith("@@"):
            span = line.split()[1][1:].split(",")
            start, count = int(span[0]), int(span[-1]) if len(span) > 1 else 1
            until = start if count == 0 else start - 1
            new += old[position:until]
            position = until
            continue
        mark, text = line[:1], line[1:]
        if mark in " -":
            assert old[position] == text
            position += 1
        if mark in " +":
            new.append(text)
    return "\n".join(new + old[position:])


@every_row(
    ("before", "after", "diff"),
    [
        ("same", "same", ""),
        ("a\nb\nc", "a\nB\nc", "@@ -1,3 +1,3 @@\n a\n-b\n+B\n c"),
        ("", "new\nfile", "@@ -0,0 +1,2 @@\n+new\n+file"),
        ("gone", "", "@@ -1 +0,0 @@\n-gone"),
        ("a", "a\n", "@@ -1 +1,2 @@\n a\n+"),
        (
            "1\n2\n3\n4\n5\n6\n7\n8\n9",
            "1\n2\n3\n4\nX\n6\n7\n8\n9",
            "@@ -2,7 +2,7 @@\n 2\n 3\n 4\n-5\n+X\n 6\n 7\n 8",
        ),
    ],
)
def test_change_is_shown_as_unified_diff(before: str, after: str, diff: str) -> None:
    assert unified_diff(before, after) == diff


def test_distant_changes_are_separate_hunks() -> None:
    before = "\n".join(str(number) for number in range(40))
    after = before.replace("3\n", "three\n", 1).replace("\n35", "\nthirty-five", 1)
    assert unified_diff(before, after).count("@@ -") == 2


@every_row("size", [1, CHUNK - 1, CHUNK, CHUNK + 1, 3 * CHUNK])
@every_row("put", [0, 1, CHUNK])
def test_one_line_put_into_a_long_text_is_found(size: int, put: int) -> None:
    lines = [str(number) for number in range(size)]
    before, after = "\n".join(lines), "\n".join([*lines[:put], "new", *lines[put:]])
    diff = unified_diff(before, after)
    assert applied(before, diff) == after
    assert len(diff.split("\n")) <= 8


def test_large_text_with_few_changes_is_matched_line_by_line() -> None:
    lines = [f"line {number}" for number in range(20_000)]
    changed = [f"{line}!" if line.endswith("777") else line for line in lines]
    diff = unified_diff("\n".join(lines), "\n".join(changed))
    assert diff.count("@@ -") == diff.count("\n+") == 20


def test_diffs_that_share_a_budget_show_both_texts_whole_once_it_is_spent() -> None:
    before, after = "a\nsame\nb", "A\nsame\nB"
    budget = Budget(20)
    assert unified_diff(before, after, budget).count("\n same") == 1
    while budget.steps >= 0:
        unified_diff(before, after, budget)
    plain = "@@ -1,3 +1,3 @@\n-a\n-same\n-b\n+A\n+same\n+B"
    assert unified_diff(before, after, budget) == plain


@settings(deadline=None)
@given(LINES, LINES)
def test_diff_leads_from_one_text_to_the_other(old: list[str], new: list[str]) -> None:
    before, after = "\n".join(old), "\n".join(new)
    for steps in (0, 50, 1_000_000):
        diff = unified_diff(before, after, Budget(steps))
        assert (applied(before, diff) if diff else before) == after


@every_row(
    ("before", "after"),
    [
        ("x\n" * 200_000, "x\n" * 100_000 + "y\n" * 100_000),
        ("a\nb\n" * 150 + "1", "b\na\n" * 150 + "2"),
        ("a\n" * 299 + "1", "2\n" + "a\n" * 297 + "3"),
        ("\n".join(map(str, range(50_000))), "\n".join(map(str, range(1, 50_001)))),
        ("one long line " * 500_000, "another long line " * 500_000),
        (
            "\n".join(f"a\nx{number}" for number in range(3000)),
            "\n".join(f"a\ny{number}" for number in range(3000)),
        ),
    ],
)
def test_large_and_repetitive_texts_take_a_bounded_time(
    before: str, after: str
) -> None:
    start = time.monotonic()
    diff = unified_diff(before, after)
    # Unbounded, the last of these takes minutes; the bound is not about speed.
    assert time.monotonic() - start < 20
    assert applied(before, diff) == after
