"""The change between two texts as a unified diff, in bounded time.

Only text is known here, no files: positions count from the start of the given texts.
`difflib` may need time that grows with the square of its input or worse, and the input
comes from a model.  So equal heads and tails are taken off first, and if the rest is
still large it is shown as all of the old lines, then all of the new.
"""

from __future__ import annotations

from difflib import SequenceMatcher

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    Opcode = tuple[str, int, int, int, int]

CONTEXT = 3  # unchanged lines around a change, as everywhere
# 300 lines against 300: the worst input found takes a fraction of a second.
MAX_MATCH = 90_000
# The marks of one opcode: what it takes from the old text and from the new one.
MARKS = {
    "equal": (" ", ""),
    "delete": ("-", ""),
    "insert": ("", "+"),
    "replace": ("-", "+"),
}


def unified_diff(before: str, after: str) -> str:
    """The hunks that lead from one text to the other; empty when they are equal."""
    old, new = _lines(before), _lines(after)
    if old == new:
        return ""
    return "\n".join(
        line for group in _groups(_opcodes(old, new)) for line in _hunk(group, old, new)
    )


def _lines(text: str) -> list[str]:
    # Not splitlines(): it also splits at characters that end no line in a file.
    return text.split("\n") if text else []


def _opcodes(old: Sequence[str], new: Sequence[str]) -> list[Opcode]:
    head = _common(old, new)
    tail = _common(old[head:][::-1], new[head:][::-1])
    old_end, new_end = len(old) - tail, len(new) - tail
    equal_head = ("equal", 0, head, 0, head)
    equal_tail = ("equal", old_end, len(old), new_end, len(new))
    return [equal_head, *_changes(old, new, head, old_end, new_end), equal_tail]


def _changes(
    old: Sequence[str], new: Sequence[str], head: int, old_end: int, new_end: int
) -> list[Opcode]:
    if (old_end - head) * (new_end - head) > MAX_MATCH:
        return [("replace", head, old_end, head, new_end)]
    matcher = SequenceMatcher(
        None, old[head:old_end], new[head:new_end], autojunk=False
    )
    return [
        (tag, a + head, b + head, c + head, d + head)
        for tag, a, b, c, d in matcher.get_opcodes()
    ]


def _common(old: Sequence[str], new: Sequence[str]) -> int:
    """How many lines both begin with."""
    for count, (left, right) in enumerate(zip(old, new)):
        if left != right:
            return count
    return min(len(old), len(new))


def _groups(opcodes: list[Opcode]) -> list[list[Opcode]]:
    """Changes near each other, each group with its context."""
    groups: list[list[Opcode]] = [[]]
    last = len(opcodes) - 1
    for index, (tag, a, b, c, d) in enumerate(opcodes):
        if tag != "equal":
            groups[-1].append((tag, a, b, c, d))
            continue
        before, after = (
            (0 if index == last else CONTEXT),
            (0 if index == 0 else CONTEXT),
        )
        if b - a <= before + after:
            groups[-1].append((tag, a, b, c, d))
            continue
        groups[-1].append((tag, a, a + after, c, c + after))
        groups.append([(tag, b - before, b, d - before, d)])
    return [group for group in groups if any(op[0] != "equal" for op in group)]


def _hunk(group: list[Opcode], old: Sequence[str], new: Sequence[str]) -> list[str]:
    first, last = group[0], group[-1]
    lines = [f"@@ -{_range(first[1], last[2])} +{_range(first[3], last[4])} @@"]
    for tag, a, b, c, d in group:
        removed, added = MARKS[tag]
        lines += [removed + line for line in old[a:b] if removed]
        lines += [added + line for line in new[c:d] if added]
    return lines


def _range(start: int, end: int) -> str:
    """Lines start..end-1 the way diff writes them, counted from one."""
    if end - start == 1:
        return str(start + 1)
    return f"{start + 1 if end > start else start},{end - start}"
