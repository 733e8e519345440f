"""The change between two texts as a unified diff, in bounded time.

Only text is known here, no files: positions count from the start of the given texts.
`difflib` may need time that grows with the square of its input or worse, and the input
comes from a model.  So equal heads and tails are taken off first, the steps of matching
the rest are counted, and where they exceed the budget it is shown as all of the old
lines, then all of the new.  Several diffs can share one budget.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from difflib import Match, SequenceMatcher
from itertools import accumulate

Opcode = tuple[str, int, int, int, int]

CONTEXT = 3  # unchanged lines around a change, as everywhere
MAX_STEPS = 500_000  # a twentieth of a second; a person's edits need some thousand
MAX_LINES = 50_000  # that differ: nobody reads them line by line
CHUNK = 1024  # lines compared at once
# The marks of one opcode: what it takes from the old text and from the new one.
MARKS = {
    "equal": (" ", ""),
    "delete": ("-", ""),
    "insert": ("", "+"),
    "replace": ("-", "+"),
}


class Budget:
    """What all diffs of one tool call may cost together."""

    def __init__(self, steps: int = MAX_STEPS) -> None:
        self.steps = steps

    def spend(self, steps: int) -> None:
        self.steps -= steps
        if self.steps < 0:
            raise _Spent


class _Spent(Exception):
    """Matching would take too long."""


class _Matcher(SequenceMatcher[str]):
    """Pays for each search before it is made."""

    def __init__(self, old: Sequence[str], new: Sequence[str], budget: Budget) -> None:
        lines = len(old) + len(new)
        budget.spend(lines if lines <= MAX_LINES else budget.steps + 1)
        super().__init__(None, old, new, autojunk=False)
        self.budget = budget
        # A search looks, for each of its old lines, at every equal line of the new.
        equal = Counter(new)
        self.costs = [0, *accumulate(equal[line] + 1 for line in old)]

    def find_longest_match(
        self, alo: int = 0, ahi: int | None = None, blo: int = 0, bhi: int | None = None
    ) -> Match:
        end = -1 if ahi is None else ahi
        self.budget.spend(self.costs[end] - self.costs[alo])
        return super().find_longest_match(alo, ahi, blo, bhi)


def unified_diff(before: str, after: str, budget: Budget | None = None) -> str:
    """The hunks that lead from one text to the other; empty when they are equal."""
    old, new = _lines(before), _lines(after)
    if old == new:
        return ""
    groups = _Changes(old, new, budget or Budget()).get_grouped_opcodes(CONTEXT)
    return "\n".join(part for group in groups for part in _hunk(group, old, new))


def _lines(text: str) -> list[str]:
    # Not splitlines(): it also splits at characters that end no line in a file.
    return text.split("\n") if text else []


class _Changes(SequenceMatcher[str]):
    """The changes inside of equal heads and tails."""

    def __init__(self, old: list[str], new: list[str], budget: Budget) -> None:
        super().__init__()
        self.changes = _opcodes(old, new, budget)

    def get_opcodes(self) -> list[Opcode]:  # type: ignore[override]
        return self.changes


def _opcodes(old: list[str], new: list[str], budget: Budget) -> list[Opcode]:
    head = _common(old, new)
    tail = _common(old[head:][::-1], new[head:][::-1])
    old_end, new_end = len(old) - tail, len(new) - tail
    equal_head = ("equal", 0, head, 0, head)
    equal_tail = ("equal", old_end, len(old), new_end, len(new))
    changes = [
        (tag, a + head, b + head, c + head, d + head)
        for tag, a, b, c, d in _changes(old[head:old_end], new[head:new_end], budget)
    ]
    return [equal_head, *changes, equal_tail]


def _changes(old: list[str], new: list[str], budget: Budget) -> list[Opcode]:
    if old and new and frozenset(old).isdisjoint(new):  # like most edits
        return [("replace", 0, len(old), 0, len(new))]
    try:
        return _Matcher(old, new, budget).get_opcodes()  # type: ignore[return-value]
    except _Spent:
        return [("replace", 0, len(old), 0, len(new))]


def _common(old: list[str], new: list[str]) -> int:
    """How many lines both begin with."""
    size = min(len(old), len(new))
    count = 0
    while old[count : count + CHUNK] == new[count : count + CHUNK] and count < size:
        count += CHUNK
    while count < size and old[count] == new[count]:
        count += 1
    return min(count, size)


def _hunk(group: list[Opcode], old: Sequence[str], new: Sequence[str]) -> list[str]:
    first, last = group[0], group[-1]
    lines = [f"@@ -{_range(first[1], last[2])} +{_range(first[3], last[4])} @@"]
    for tag, a, b, c, d in group:
        removed, added = MARKS[tag]
        lines += _marked(removed, old[a:b]) + _marked(added, new[c:d])
    return lines


def _marked(mark: str, lines: Sequence[str]) -> list[str]:
    """The lines as one text, each behind its mark; nothing where there is none."""
    return [mark + f"\n{mark}".join(lines)] if mark and lines else []


def _range(start: int, end: int) -> str:
    """Lines start..end-1 the way diff writes them, counted from one."""
    if end - start == 1:
        return str(start + 1)
    return f"{start + 1 if end > start else start},{end - start}"
