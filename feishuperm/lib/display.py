"""Make text safe to look at: what the eye cannot see is spelled out.

A command is approved by what a person reads.  A direction mark, a zero-width letter or
an escape sequence makes the reading differ from the running, so each becomes its code
point in brackets.  Markup is not known here: cards and pages escape for themselves.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator

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

_UNSEEN_RUN = re.compile(_UNSEEN.pattern + "+")

# Most of any text, and taken out at once: a search through megabytes of them would be
# felt by everybody who waits for the server.
_PLAIN = bytes((9, 10, *range(32, 127)))
_COMMON = re.compile("[^\u4e00-\u9fff\u3001-\u301f\uff01-\uff5e]")
MARK = "\0"  # takes no room: it stands for the beginning or the end of bold words
# A word, or one Chinese character with the punctuation that may not leave it.
WORDS = re.compile(
    "[（「“《]*(?:[\u2e80-\u9fff\uac00-\ud7ff]|[^\\s\u2e80-\u9fff\uff00-\uffef“”]+)"
    "[，。、；：？！）」”》…]*|\\S"
)
SHORT = 1000  # characters that may be searched one by one
FEW = 20  # kinds of character that are replaced one after the other
KNOWN = 5000  # characters whose spelling is kept


def count_unseen(text: str) -> int:
    """How many characters of a text the eye cannot see."""
    others = _others(text)
    if not _COMMON.search(others):
        return 0
    return len(others) - len(_UNSEEN_RUN.sub("", others))


def first_seen(text: str) -> str:
    """The first character that is no blank and that the eye can see; empty: none."""
    shown = (c for c in text if c.isprintable() and not c.isspace())
    return next((c for c in shown if not _UNSEEN.match(c)), "")


def _others(text: str) -> str:
    """What of a text is not plain."""
    rest = text.encode("utf-8", "surrogatepass").translate(None, _PLAIN)
    return rest.decode("utf-8", "surrogatepass")


def visible(text: str) -> str:
    """The text with every invisible character written as `⟦U+202E⟧`."""
    if text.isascii() and text.isprintable():
        return text
    if len(text) < SHORT and not _UNSEEN.search(text):
        return text
    others = _others(text)
    if not _COMMON.search(others):
        return text
    unseen = {character for character in set(others) if _UNSEEN.match(character)}
    if len(unseen) > FEW:
        # One call per match would take seconds for some MB of nothing but these.
        if len(_SPELLED) > KNOWN:
            _SPELLED.clear()
        return text.translate(_SPELLED)
    for character in unseen:
        text = text.replace(character, _spelled(character))
    return text


def one_line(text: str, limit: int = 200) -> str:
    """The text made visible, on one line, and cut to `limit` characters."""
    head = text[: limit * 2]  # blanks between words take room too
    is_plain = head.isascii() and head.isprintable()
    line = " ".join((head if is_plain else visible(head)).split())
    whole = len(head) == len(text) and len(line) <= limit
    return line if whole else line[: limit - 1] + "…"


class _Spelled(dict[int, "int | str"]):
    """What to show for each character, worked out when a text first holds it."""

    def __missing__(self, point: int) -> int | str:
        unseen = _UNSEEN.match(chr(point))
        self[point] = _spelled(chr(point)) if unseen else point
        return self[point]


def _spelled(character: str) -> str:
    return f"⟦U+{ord(character):04X}⟧"


_SPELLED = _Spelled()


def width(text: str) -> int:
    """How many columns a terminal gives a text."""
    seen = [c for c in text if c != MARK and not unicodedata.combining(c)]
    return len(seen) + sum(unicodedata.east_asian_width(c) in "WF" for c in seen)


def pad(text: str, columns: int) -> str:
    """A text with blanks up to a width."""
    return text + " " * (columns - width(text))


def cut(text: str, columns: int) -> str:
    """As much of a text as fits."""
    used = 0
    for index, character in enumerate(text):
        used += width(character)
        if used > columns:
            return text[:index]
    return text


def filled(text: str, columns: int) -> Iterator[str]:
    """A text in lines of so many columns."""
    line, used = "", 0
    for match in WORDS.finditer(text):
        word = match[0]
        gap = " " if match.start() and text[match.start() - 1].isspace() else ""
        size = width(word)
        if line and used + len(gap) + size > columns:
            yield line
            line, used, gap = "", 0, ""
        line, used = line + gap + word, used + len(gap) + size
    yield line
