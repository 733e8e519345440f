"""Change one list inside a JSON text and leave every other byte as it was.

Settings files belong to their users: their order, indentation, escapes and number forms
are not ours to tidy.  So the text is spliced, never written anew from decoded values.
The text must be JSON already; what the lists mean is the caller's business.
"""

from __future__ import annotations

import json
import re
from typing import Any, NamedTuple

_DECODER = json.JSONDecoder()
_BLANKS = re.compile(r"[ \t\r\n]*")
_INDENT = re.compile(r"\n([ \t]+)\S")


class Part(NamedTuple):
    """A member of an object or an item of an array, by its place in the text."""

    key: str  # empty for an item
    start: int  # of the key or the item
    value: int
    end: int


class StructureError(ValueError):
    """The text is JSON, but not of the shape that the path asks for."""


def append_items(text: str, path: tuple[str, ...], items: list[str]) -> str:
    """Add strings to the list at `path`, making what is missing on the way."""
    start = _value_start(text, 0)
    for depth, key in enumerate(path):
        _require(text, start, "{")
        part = _member(text, start, key)
        if part is None:
            empty = "[]" if depth == len(path) - 1 else "{}"
            text = _append(text, start, f"{_quote(key)}: {empty}")
            part = _member(text, start, key)
            assert part is not None
        start = part.value
    _require(text, start, "[")
    for item in items:
        text = _append(text, start, _quote(item))
    return text


def remove_items(text: str, path: tuple[str, ...], items: list[str]) -> str:
    """Take every one of these strings out of the list at `path`, if there is one."""
    start = find(text, path)
    if start is None or text[start] != "[":
        return text
    for index in range(len(_parts(text, start)) - 1, -1, -1):
        part = _parts(text, start)[index]
        if _DECODER.raw_decode(text, part.value)[0] in items:
            text = _remove(text, start, index)
    return text


def items_at(text: str, path: tuple[str, ...]) -> list[Any]:
    """The list at `path`; empty when there is none."""
    start = find(text, path)
    if start is None or text[start] != "[":
        return []
    items: list[Any] = _DECODER.raw_decode(text, start)[0]
    return items


def find(text: str, path: tuple[str, ...]) -> int | None:
    """Where the value at `path` begins."""
    start = _value_start(text, 0)
    for key in path:
        part = _member(text, start, key) if text[start] == "{" else None
        if part is None:
            return None
        start = part.value
    return start


def _member(text: str, start: int, key: str) -> Part | None:
    # Of two equal keys the last one counts, for every reader of JSON we know.
    for part in reversed(_parts(text, start)):
        if part.key == key:
            return part
    return None


def _parts(text: str, start: int) -> list[Part]:
    """What the object or array at `start` consists of."""
    parts = []
    position = _value_start(text, start + 1)
    while text[position] not in "]}":
        part = _part(text, position, text[start] == "{")
        parts.append(part)
        position = _value_start(text, part.end)
        if text[position] == ",":
            position = _value_start(text, position + 1)
    return parts


def _part(text: str, position: int, named: bool) -> Part:
    key, value = "", position
    if named:
        key, end = _DECODER.raw_decode(text, position)
        value = _value_start(text, _value_start(text, end) + 1)
    return Part(key, position, value, _DECODER.raw_decode(text, value)[1])


def _append(text: str, start: int, piece: str) -> str:
    parts = _parts(text, start)
    if not parts:
        return _fill_empty(text, start, piece)
    end = parts[-1].end
    return f"{text[:end]},{_gap(text, start, parts)}{piece}{text[end:]}"


def _gap(text: str, start: int, parts: list[Part]) -> str:
    """The blanks in front of a part, as this container has them already."""
    if len(parts) > 1:
        comma = text.index(",", parts[-2].end)
        return text[comma + 1 : parts[-1].start]
    return text[start + 1 : parts[0].start] or " "


def _fill_empty(text: str, start: int, piece: str) -> str:
    close = _value_start(text, start + 1)
    outside = text[:start].strip() + text[close + 1 :].strip()
    if outside and "\n" not in text.strip():
        return text[: start + 1] + piece + text[close:]
    line = text[text.rfind("\n", 0, start) + 1 : start]
    outer = line[: len(line) - len(line.lstrip(" \t"))]
    found = _INDENT.search(text)
    unit = found.group(1) if found else "  "
    newline = "\r\n" if "\r\n" in text else "\n"
    inner = f"{newline}{outer}{unit}{piece}{newline}{outer}"
    return text[: start + 1] + inner + text[close:]


def _remove(text: str, start: int, index: int) -> str:
    parts = _parts(text, start)
    if index:
        return text[: parts[index - 1].end] + text[parts[index].end :]
    if len(parts) > 1:
        return text[: parts[0].start] + text[parts[1].start :]
    return text[: start + 1] + text[_value_start(text, parts[0].end) :]


def _value_start(text: str, position: int) -> int:
    match = _BLANKS.match(text, position)
    assert match is not None
    return match.end()


def _require(text: str, start: int, opening: str) -> None:
    if text[start] != opening:
        raise StructureError(f"expected {opening} at character {start}")


def _quote(value: str) -> str:
    return json.dumps(value, ensure_ascii=False)
