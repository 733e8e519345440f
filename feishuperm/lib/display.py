"""Make text safe to look at: what the eye cannot see is spelled out.

A command is approved by what a person reads.  A direction mark, a zero-width letter or
an escape sequence makes the reading differ from the running, so each becomes its code
point in brackets.  Markup is not known here: cards and pages escape for themselves.
"""

from __future__ import annotations

import re

# Controls, format and direction marks, line and paragraph separators, blanks that are
# no space to a shell, letters drawn as nothing, variation selectors, lone surrogates,
# and everything for private use or tagging.  Newline and tab stay, and so does the wide
# ideographic space: it is plain to see and common in Chinese text.
_UNSEEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\xa0\xad\u034f\u0600-\u0605\u061c\u06dd\u070f\u0890\u0891"
    "\u08e2\u115f\u1160\u1680\u17b4\u17b5\u180b-\u180f\u2000-\u200f\u2028-\u202f"
    "\u205f-\u206f\u2800\u3164\ud800-\uf8ff\ufdd0-\ufdef\ufe00-\ufe0f\ufeff\uffa0"
    "\ufff0-\ufffb\ufffe\uffff\U000110bd\U000110cd\U00013430-\U0001345f"
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U0010ffff]"
)


# The same among ASCII, where a megabyte can be looked at in a millisecond.
_UNSEEN_ASCII = bytes(code for code in range(128) if _UNSEEN.match(chr(code)))


def visible(text: str) -> str:
    """The text with every invisible character written as `⟦U+202E⟧`."""
    if text.isascii():
        plain = len(text.encode().translate(None, _UNSEEN_ASCII)) == len(text)
    else:
        plain = _UNSEEN.search(text) is None
    # One call per match would take seconds for some MB of nothing but these.
    return text if plain else text.translate(_Spelled())


def one_line(text: str, limit: int = 200) -> str:
    """The text made visible, on one line, and cut to `limit` characters."""
    head = text[: limit * 2]  # blanks between words take room too
    line = " ".join(visible(head).split())
    whole = len(head) == len(text) and len(line) <= limit
    return line if whole else line[: limit - 1] + "…"


class _Spelled(dict[int, "int | str"]):
    """What to show for each character, worked out when a text first holds it."""

    def __missing__(self, point: int) -> int | str:
        unseen = _UNSEEN.match(chr(point))
        self[point] = f"⟦U+{point:04X}⟧" if unseen else point
        return self[point]
