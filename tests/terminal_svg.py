"""What a terminal shows, drawn as a small SVG for the README.

Text stays text; the half blocks of a QR code become one path.  A caption says what the
picture is.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Sequence
from html import escape
from itertools import groupby

from tests.terminal import BLOCKS, STYLE, THEMES, painted

WIDTH, HEIGHT = 8, 16  # of a cell; a module of a code is a square of WIDTH
MARGIN = 12
FONT = "ui-monospace,Menlo,Consolas,'Noto Sans Mono CJK SC',monospace"
STYLES = f"text{{font:13px {FONT};fill:#ccc;white-space:pre}}.c{{fill:#8a8a8a}}"


def terminal_svg(drawn: str, caption: str) -> str:
    """A picture of a screen, as tmux captures it with its colours."""
    lines = STYLE.sub("", drawn).rstrip().split("\n")
    rows = painted(drawn, THEMES["dark"])
    columns = max(cells(line) for line in lines)
    width = columns * WIDTH + 2 * MARGIN
    height = (len(lines) + 2) * HEIGHT + 2 * MARGIN
    texts = "".join(
        text for number, line in enumerate(lines) for text in drawn_line(line, number)
    )
    note = at(0, len(lines) + 1, caption, ' class="c"')
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}">'
        f"<style>{STYLES}</style>"
        f'<rect width="{width}" height="{height}" rx="8" fill="#1e1e1e"/>'
        f'<g transform="translate({MARGIN} {MARGIN})">{code(rows)}{texts}{note}'
        "</g></svg>\n"
    )


def cells(text: str) -> int:
    """How many columns a text takes."""
    return sum(1 + (unicodedata.east_asian_width(c) in "WF") for c in text)


def drawn_line(line: str, number: int) -> Iterator[str]:
    """A line in pieces of equally wide characters, since fonts do not agree."""
    if not BLOCKS.keys().isdisjoint(line):
        return
    place = 0
    for _, group in groupby(line.rstrip(), cells):
        piece = "".join(group)
        if piece.strip():
            yield at(place, number, piece)
        place += cells(piece)


def at(column: int, line: int, text: str, more: str = "") -> str:
    length = cells(text) * WIDTH
    x, y = column * WIDTH, (line + 0.75) * HEIGHT
    return f'<text x="{x}" y="{y:g}" textLength="{length}"{more}>{escape(text)}</text>'


def code(rows: Sequence[Sequence[int]]) -> str:
    """The dark modules of a QR code as strokes on a white ground."""
    strokes = []
    marked = [y for y, row in enumerate(rows) if 255 in row]
    for y in marked:
        x = 0
        for grey, run in groupby(rows[y]):
            length = len(list(run))
            if grey == 0:
                strokes.append(f"M{x} {y}h{length}")
            x += length
    size = max(row.count(255) + row.count(0) for row in rows)
    return (
        f'<g transform="scale({WIDTH})" shape-rendering="crispEdges">'
        f'<rect y="{marked[0]}" width="{size}" height="{len(marked)}" fill="#fff"/>'
        f'<path transform="translate(0 .5)" stroke="#000" d="{"".join(strokes)}"/></g>'
    )
