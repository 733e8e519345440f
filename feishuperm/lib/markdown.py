"""Plans as people write them (headings, lists, code, tables), as data, not as markup.

`parse()` makes a flat list of pieces, each with spans of text; the code that draws them
escapes the texts.  A link, an image, a tag or a comment is the text it is written as:
what a person approves must not depend on what a renderer leaves out.  The only
characters that go are the marks themselves (`#`, `-`, `|`, `**`, backticks, `>`), where
they mean something; a test holds it to that.

The time is linear, whatever the text.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

MANY_LINES = 20_000  # beyond, a text is shown as it is
SHORT = 12  # and so is a long one whose lines have fewer characters than this
LONG = 10_000  # characters of a paragraph; a longer one has no looks
DEEPEST = 5  # levels of a list that are told apart
LEVELS = 4  # of headings
WIDEST = 20  # columns of a table; one with more is text
MOST_LINES = 500  # of one piece, which is made at once; the rest begins another one
HEADING = re.compile(r" {0,3}(#{1,6})[ \t]+(.*)")
FENCE = re.compile(r" {0,3}(`{3,}|~{3,})([^`]*)$")
ITEM = re.compile(r"([ \t]*)([-*+]|[0-9]{1,9}[.)])[ \t]+(.*)")
BOX = re.compile(r"\[([ xX])\][ \t]+")
QUOTE = re.compile(r" {0,3}> ?(.*)")
DELIMITER = re.compile(r"[ \t]*\|?[ \t]*:?-+:?[ \t]*(\|[ \t]*:?-*:?[ \t]*)*")
MARKS = re.compile(r"(`|\*\*)")
WORD = re.compile(r"[a-z0-9+#-]{1,20}")
INDENT = "\u3000"  # a wide blank: cards drop others at the start of a line
BULLET, EMPTY_BOX, FULL_BOX = "•", "☐", "☑"


class Span(NamedTuple):
    """A text in one look."""

    look: str  # "", "bold" or "code"
    text: str


Spans = tuple[Span, ...]


class Piece(NamedTuple):
    """One paragraph, or whatever stands in the place of one."""

    kind: str  # "h1" to "h4", "text", "item", "quote", "code", "table" or "rule"
    spans: Spans = ()
    mark: str = ""  # of an item; the language of code
    depth: int = 0  # of an item
    rows: tuple[tuple[Spans, ...], ...] = ()  # of a table; the first is its head


def parse(text: str) -> Iterator[Piece]:
    """The pieces of a text, one after the other: a long one takes its time."""
    lines = text.count("\n")
    is_dense = lines >= MOST_LINES and len(text) < lines * SHORT
    if is_dense or lines >= MANY_LINES:
        return iter((Piece("text", (Span("", text),)),))
    return _Reader(text.split("\n")).pieces()


class Part(NamedTuple):
    """A run of a text for readers that can draw little: no looks inside of it."""

    kind: str  # "heading", "text", "code" or "rule"
    text: str = ""
    language: str = ""  # of code, if it is a plain word


def flatten(text: str) -> list[Part]:
    """The pieces of a text, what stands below each other joined."""
    parts: list[Part] = []
    runs = itertools.groupby(map(_flat, parse(text)), lambda part: part.kind == "text")
    for is_text, run in runs:
        lines = "\n".join(part.text for part in run) if is_text else ""
        parts += [Part("text", lines)] if is_text else run
    return parts


def _flat(piece: Piece) -> Part:
    words = _words(piece.spans)
    if piece.kind == "code":
        if WORD.fullmatch(piece.mark.lower()):
            return Part("code", words, piece.mark.lower())
        # Anything may stand there, and nothing is approved that was not seen.
        return Part("code", f"{piece.mark}\n{words}" if piece.mark else words)
    if piece.kind == "table":
        return Part("text", "\n".join(" | ".join(map(_words, r)) for r in piece.rows))
    if piece.kind == "item":
        words = words.replace("\n", "\n" + INDENT * (piece.depth + 1))
        return Part("text", f"{INDENT * piece.depth}{piece.mark} {words}")
    if piece.kind == "quote":
        return Part("text", "> " + words.replace("\n", "\n> "))
    return Part(piece.kind if piece.kind in ("rule", "text") else "heading", words)


def _words(spans: Spans) -> str:
    return "".join(text for _, text in spans)


def spans(text: str) -> Spans:
    """A text with its bold and code parts."""
    if len(text) > LONG:
        return (Span("", text),)
    tokens = MARKS.split(text)  # every second one is a mark
    partner = _partners(tokens)
    made: list[Span] = []
    plain: list[str] = []
    place = 0
    while place < len(tokens):
        end = partner.get(place, 0)
        if not end or not _encloses(tokens, place, end):
            plain.append(tokens[place])
            place += 1
            continue
        made += [Span("", "".join(plain))] if any(plain) else []
        look = "code" if tokens[place] == "`" else "bold"
        made.append(Span(look, "".join(tokens[place + 1 : end])))
        plain, place = [], end + 1
    made += [Span("", "".join(plain))] if any(plain) else []
    return tuple(made)


def _partners(tokens: Sequence[str]) -> dict[int, int]:
    """For each mark the place of the next one alike."""
    last: dict[str, int] = {}
    partner = {}
    for place in range(len(tokens) - 2, 0, -2):
        partner[place] = last.get(tokens[place], 0)
        last[tokens[place]] = place
    return partner


def _encloses(tokens: Sequence[str], start: int, end: int) -> bool:
    """Whether two marks are around something; `2**3 and 4**5` has none that are."""
    inside, inmost = tokens[start + 1], tokens[end - 1]
    if not inside or not inmost:
        return False
    if tokens[start] == "`":
        return True
    before, after = tokens[start - 1][-1:], tokens[end + 1][:1]
    if inside[0].isspace() or inmost[-1].isspace():
        return False
    return not before.isalnum() and not after.isalnum()


class _Reader:
    """Goes over the lines once."""

    def __init__(self, lines: list[str]) -> None:
        self._lines = lines
        self._place = 0

    def pieces(self) -> Iterator[Piece]:
        while self._place < len(self._lines):
            line = self._next()
            if not line.strip():
                continue
            yield self._piece(line)

    def _piece(self, line: str) -> Piece:
        heading, fence = HEADING.fullmatch(line), FENCE.fullmatch(line)
        if heading:
            level = min(len(heading[1]), LEVELS)
            return Piece(f"h{level}", spans(heading[2].strip()))
        if fence:
            return self._code(fence[1], fence[2].strip())
        if _is_rule(line):
            return Piece("rule")
        if _is_delimiter(line, self._peek()):
            return self._table(line)
        item, quote = ITEM.fullmatch(line), QUOTE.fullmatch(line)
        if item:
            return self._item(*item.groups())
        if quote:
            return self._quote(quote[1])
        return self._text(line)

    def _next(self) -> str:
        self._place += 1
        return self._lines[self._place - 1]

    def _peek(self) -> str:
        """The line that follows; nothing at the end."""
        is_end = self._place >= len(self._lines)
        return "" if is_end else self._lines[self._place]

    def _code(self, fence: str, language: str) -> Piece:
        inside = []
        while self._place < len(self._lines):
            line = self._next()
            closing = line.strip()
            if len(closing) >= len(fence) and not closing.strip(fence[0]):
                break
            inside.append(line)
        return Piece("code", (Span("", "\n".join(inside)),), language)

    def _item(self, indent: str, mark: str, first: str) -> Piece:
        depth = min(len(indent.expandtabs(4)) // 2, DEEPEST)
        box = BOX.match(first)
        if box:
            mark = EMPTY_BOX if box[1] == " " else FULL_BOX
            first = first[box.end() :]
        elif not mark[0].isdigit():
            mark = BULLET
        lines = [first]
        while self._peek()[:2].isspace() and self._goes_on(lines):
            lines.append(self._next().strip())
        return Piece("item", spans("\n".join(lines)), mark, depth)

    def _quote(self, first: str) -> Piece:
        lines = [first]
        while len(lines) < MOST_LINES and (quote := QUOTE.fullmatch(self._peek())):
            lines.append(quote[1])
            self._next()
        return Piece("quote", spans("\n".join(lines)))

    def _text(self, first: str) -> Piece:
        lines = [first]
        while self._goes_on(lines):
            lines.append(self._next())
        return Piece("text", spans("\n".join(lines)))

    def _goes_on(self, lines: list[str]) -> bool:
        """Whether the next line is more of the same paragraph."""
        line = self._peek()
        if not line.strip() or _is_rule(line) or len(lines) >= MOST_LINES:
            return False
        begins = (HEADING, FENCE, ITEM, QUOTE)
        if any(pattern.fullmatch(line) for pattern in begins):
            return False
        after = self._lines[self._place + 1 : self._place + 2]
        return not (after and _is_delimiter(line, after[0]))

    def _table(self, head: str) -> Piece:
        self._next()  # the delimiter
        rows, left = [head], 2 * LONG
        while _is_row(self._peek(), left) and len(rows) < MOST_LINES:
            left -= len(self._peek())
            rows.append(self._next())
        return Piece("table", rows=tuple(map(_cells, rows)))


def _is_row(line: str, most: int) -> bool:
    return len(line) <= most and 0 < line.count("|") < WIDEST


def _is_rule(line: str) -> bool:
    marks = line.replace(" ", "").replace("\t", "")
    return len(marks) >= 3 and marks[0] in "-*_" and not marks.strip(marks[0])


def _is_delimiter(head: str, line: str) -> bool:
    """Whether a line makes the one above it the head of a table."""
    columns = head.count("|")
    if not 0 < columns < WIDEST or len(line) > len(head) + 1000 or "|" not in line:
        return False
    return line.count("|") < WIDEST and DELIMITER.fullmatch(line) is not None


def _cells(line: str) -> tuple[Spans, ...]:
    line = line.strip().removeprefix("|").removesuffix("|")
    return tuple(spans(cell.strip()) for cell in line.split("|"))
