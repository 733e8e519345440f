"""Tables that are text: what people extend without reading code."""

from __future__ import annotations


def sections(file: str) -> dict[str, list[str]]:
    """The lines of a text file of this program, by the section they stand in.

    A line in brackets begins one; `# ` begins what is said to the reader alone.
    """
    read = __spec__.loader.get_data  # type: ignore[union-attr]
    found: dict[str, list[str]] = {}
    for line in read(__file__[: -len("tables.py")] + file).decode().splitlines():
        if line[:1] == "[" and line[1:-1].replace(" ", "").isalnum():
            lines = found[line[1:-1]] = []
        elif line and not line.startswith("# "):
            lines.append(line)
    return found
