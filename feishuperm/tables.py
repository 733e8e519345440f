"""Tables that are text: what people extend without reading code."""

from __future__ import annotations

import re
from functools import cache


@cache
def sections(file: str) -> dict[str, list[str]]:
    """The lines of a text file of this program, by the section they stand in.

    A name in brackets begins one; `# ` begins what is said to the reader alone.
    """
    read = __spec__.loader.get_data  # type: ignore[union-attr]
    found: dict[str, list[str]] = {}
    for line in read(__file__[: -len("tables.py")] + file).decode().splitlines():
        head = re.fullmatch(r"\[([\w .]+)\]", line)
        if head:
            lines = found.setdefault(head[1], [])
        elif line and not line.startswith("# ") and line != "#":
            lines.append(line)
    return found


def rows(file: str, section: str) -> dict[str, str]:
    """A section of lines that are each a name and what is said of it."""
    parts = (line.partition(" = ") for line in sections(file)[section])
    return {name: said for name, _, said in parts}
