"""Which language the command line speaks, and how an English line becomes Chinese.

What the settings say, if they say it; else what the locale names; else English.  Cards
and pages have the settings' own default, whatever a terminal is set to.

The sentences of the command line are English where they are made; `lib/chinese.py` has
the same in Chinese.  `translate()` is called where a line is printed: it finds the row
whose English fits the finished line, and puts what stood in its holes into the Chinese.
A line without a row stays as it is, and no character of a hole is ever lost: what came
from outside may be endless and may look like a sentence of ours.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Mapping
from functools import cache

from feishuperm.errors import UsageError
from feishuperm.lib.config import config_path, read_config
from feishuperm.models.names import LANGUAGES

# The literals around the holes of the English, and the Chinese.
Row = tuple[list[str], str]

KEY = "FEISHUPERM_LANG"
# In the order in which a system asks them; the first that is set counts.
LOCALE = ("LC_ALL", "LC_MESSAGES", "LANG")
NO_LANGUAGE = ("", "c", "posix")
# A hole of the Chinese: the next one, or one by its number; with `~` it may hold a
# sentence of ours, which is translated too.
HOLE = re.compile(r"\{([1-9]?)(~?)\}")
DEEPEST = 4  # sentences inside of sentences; a line from outside may nest for ever


def of_locale(environ: Mapping[str, str]) -> str:
    """The language a locale names, of those we speak; empty if it names none."""
    value = next((environ[name] for name in LOCALE if environ.get(name)), "")
    name = value.partition(".")[0].partition("@")[0].lower()
    if name in NO_LANGUAGE:
        return ""
    return "zh" if name.partition("_")[0] in ("zh", "chinese") else "en"


def language(environ: Mapping[str, str] = os.environ) -> str:
    """What to speak to whoever typed a command."""
    try:
        given = environ.get(KEY) or read_config(config_path(environ)).get(KEY, "")
    except UsageError:
        given = ""
    return given if given in LANGUAGES else of_locale(environ) or "en"


def translate(line: str) -> str:
    """A line of the command line in the language of whoever reads it."""
    if language() == "en" or not can_show("中"):
        return line
    return _chinese().translate(line)


def can_show(text: str) -> bool:
    """Whether the terminal's encoding has these characters at all."""
    try:
        text.encode(getattr(sys.stdout, "encoding", None) or "utf-8")
    except (LookupError, UnicodeEncodeError):
        return False
    return True


@cache
def _chinese() -> Catalogue:
    from feishuperm.lib.chinese import ROWS  # late: nobody else needs it

    return Catalogue(ROWS)


class Catalogue:
    """Rows of English and Chinese, for lines of which only the English is known."""

    def __init__(self, rows: Iterable[tuple[str, str]]) -> None:
        self.whole: dict[str, str] = {}  # without a hole
        self.rows: list[Row] = []  # the most exact first
        for english, chinese in rows:
            if "{}" in english:
                self.rows.append((english.split("{}"), chinese))
            else:
                self.whole[english] = chinese
        self.rows.sort(key=_rank)
        self.openings = {literals[0] for literals, _ in self.rows}

    def translate(self, line: str, depth: int = DEEPEST) -> str:
        """The line in Chinese, or as it is."""
        chinese = self._sentence(line, depth)
        words = line.lstrip(" ")
        if chinese is None and words != line:
            chinese = self._sentence(words, depth)
            return line if chinese is None else line[: -len(words)] + chinese
        return line if chinese is None else chinese

    def _sentence(self, line: str, depth: int) -> str | None:
        framed = self._framed(line)
        if framed is not None or not depth:
            return framed
        for literals, chinese in self.rows:
            holes = find_holes(line, literals)
            if holes is not None:
                return self._filled(chinese, holes, depth - 1)
        # A path, and what is the matter with it.
        name, colon, rest = line.partition(": ")
        said = self._sentence(rest, depth - 1) if colon else None
        return None if said is None else f"{name}: {said}"

    def _framed(self, line: str) -> str | None:
        """A sentence without holes; or one with a name or number in front of it, or
        with an address, or what is in brackets, behind it."""
        if line in self.whole:
            return self.whole[line]
        name, colon, _ = line.partition(": ")
        is_name = " " not in name and name + colon not in self.openings
        front = name + colon if is_name else ""
        words, back = line[len(front) :], ""
        for mark, last in ((": http", ""), (" (", ")")):
            start, part, end = words.rpartition(mark)
            if part and end.endswith(last) and words not in self.whole:
                words, back = start, part + end + back
        return front + self.whole[words] + back if words in self.whole else None

    def _filled(self, chinese: str, holes: list[str], depth: int) -> str:
        rest = iter(holes)

        def fill(match: re.Match[str]) -> str:
            hole = holes[int(match[1]) - 1] if match[1] else next(rest)
            return self.translate(hole, depth) if match[2] else hole

        return HOLE.sub(fill, chinese)


def _rank(row: Row) -> tuple[bool, int]:
    """Where a row is tried: `hint: {}`, `{}; skipped` are around other sentences."""
    literals, chinese = row
    before = literals[0].endswith(": ")
    after = not literals[0] and literals[-1] != "" and chinese.startswith("{~}")
    return not (before or after), -sum(map(len, literals))


def find_holes(line: str, literals: list[str]) -> list[str] | None:
    """What stands between the literals of a row; None if they are not all there.

    From left to right, each at its first place: no other choice could fit where this
    one does not, so nothing is tried twice.
    """
    first, *inner, last = literals
    start, end = len(first), len(line) - len(last)
    if start > end or not line.startswith(first) or not line.endswith(last):
        return None
    holes = []
    for literal in inner:
        place = line.find(literal, start, end)
        if place < 0:
            return None
        holes.append(line[start:place])
        start = place + len(literal)
    return [*holes, line[start:end]]
