"""Editing Claude Code's settings as text: what is not ours keeps every byte.

A settings file belongs to its owner: key order, indentation, line ends, byte order mark
and duplicate keys stay as they are.  So nothing is parsed and written back; the places
of values are found in the text, and text is put in or cut out there.

It refuses what it cannot be sure of (not JSON, a key of the wrong type) and says where.
It reads and writes no files.  A path is a tuple of keys and list indexes; of duplicate
keys the last counts, as it does for Claude Code.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, NamedTuple, Union

from feishuperm.errors import FeishupermError
from feishuperm.lib.files import json_problem, refuse_constant
from feishuperm.messages import msg

BOM = "\ufeff"
MISSING: Any = object()
SPACE = re.compile(r"[ \t\r\n]*")
Path = tuple[Union[str, int], ...]


class SettingsError(FeishupermError):
    """A settings text that cannot be edited safely."""


class Item(NamedTuple):
    """A member of an object or an element of a list, by its places in the text."""

    key: str  # empty in a list
    start: int  # of the key; in a list, of the value
    value: int
    end: int


class Style(NamedTuple):
    """How a text is laid out; an empty `newline` means everything on one line."""

    newline: str
    indent: str
    colon: str
    comma: str


# As floats, numbers of any length can be read; they are only compared, never written.
_DECODER = json.JSONDecoder(
    parse_int=float, parse_float=float, parse_constant=refuse_constant
)


# Bytes and text.


def decode(data: bytes) -> str:
    """The text of a settings file, byte order mark included. Raises SettingsError."""
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise SettingsError(json_problem(error)) from None
    _check(text)
    return text


def encode(text: str) -> bytes:
    """The bytes of an edited text. Raises SettingsError."""
    _check(text)
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError:
        raise SettingsError(msg("the path of the program is not UTF-8")) from None


# Values.


def get_value(text: str, path: Path) -> Any:
    """The value at a path, numbers as floats; MISSING when there is none."""
    place = _find(text, path)
    return MISSING if place is None else _DECODER.raw_decode(text, place.value)[0]


def set_value(text: str, path: Path, value: Any) -> str:
    """The text with one value set; objects on the way are made. Raises."""
    place = _find(text, path)
    if place is not None:
        return text[: place.value] + json.dumps(value) + text[place.end :]
    depth = len(path) - 1
    while _find(text, path[:depth]) is None and depth:
        depth -= 1
    for key in reversed(path[depth + 1 :]):
        value = {key: value}
    return _insert(text, path[:depth], value, str(path[depth]))


def add_item(text: str, path: Path, value: Any) -> str:
    """The text with one item more in a list, which is made if missing. Raises."""
    if _find(text, path) is None:
        return set_value(text, path, [value])
    _find(text, (*path, 0))  # refuses what is no list
    return _insert(text, path, value)


def drop_value(text: str, path: Path, original: str = "") -> str:
    """The text without one value, and without the objects that are empty for it.

    What `original` holds too is kept, empty or not.
    """
    if _find(text, path) is None:
        return text
    return prune(cut(text, path), path[:-1], original)


# Places.


def _check(text: str) -> int:
    """Where the object starts, the end of the text when it is empty. Raises."""
    start = _skip(text, len(BOM) if text.startswith(BOM) else 0)
    if start == len(text):
        return start
    try:
        _, end = _DECODER.raw_decode(text, start)
    except (ValueError, RecursionError) as error:
        raise SettingsError(json_problem(error)) from None
    rest = _skip(text, end)
    if rest != len(text):
        line = text.count("\n", 0, rest) + 1
        raise SettingsError(msg("line {}: not JSON: text after the object", line))
    if text[start] != "{":
        raise SettingsError(msg("not a JSON object"))
    return start


def _skip(text: str, at: int) -> int:
    match = SPACE.match(text, at)
    return match.end() if match else at


def _items(text: str, start: int) -> Iterator[Item]:
    """The items of the container at `start`."""
    named = text[start] == "{"
    at = _skip(text, start + 1)
    while text[at] not in "}]":
        first, key = at, ""
        if named:
            key, at = _DECODER.raw_decode(text, at)
            at = _skip(text, _skip(text, at) + 1)  # past the colon
        end = _DECODER.raw_decode(text, at)[1]
        yield Item(key, first, at, end)
        at = _skip(text, end)
        if text[at] == ",":
            at = _skip(text, at + 1)


def _find(text: str, path: Path) -> Item | None:
    """The place of a value, None when there is none. Raises SettingsError."""
    start = _check(text)
    if start == len(text):
        return None
    place = Item("", start, start, _DECODER.raw_decode(text, start)[1])
    for depth, step in enumerate(path):
        is_key = isinstance(step, str)
        kind, name = ("{", msg("an object")) if is_key else ("[", "a list")
        if text[place.value] != kind:
            where = ".".join(map(str, path[:depth])) or msg("the file")
            raise SettingsError(msg("{} is not {}", where, name))
        items = enumerate(_items(text, place.value))
        found = [item for number, item in items if step in (number, item.key)]
        if not found:
            return None
        place = found[-1]
    return place


# Text in and out.


def _insert(text: str, path: Path, value: Any, key: str = "") -> str:
    """The text with an item more at the end of a container."""
    place = _find(text, path)
    if place is None:  # nothing but white space, or nothing at all
        text = (BOM if text.startswith(BOM) else "") + "{}\n"
        place = _find(text, path)
        assert place is not None
    items = list(_items(text, place.value))
    if items:
        return _append(text, place.value, items, value, key)
    style = _style(text)
    line = text[text.rfind("\n", 0, place.value) + 1 : place.value].lstrip(BOM)
    margin = line[: len(line) - len(line.lstrip(" \t"))]
    inside = _render(value, key, style, margin + style.indent)
    if style.newline:
        inside = style.newline + margin + style.indent + inside + style.newline + margin
    return text[: place.value + 1] + inside + text[place.end - 1 :]


def _append(text: str, start: int, items: list[Item], value: Any, key: str) -> str:
    style, end = _style(text), items[-1].end
    lead = text[start + 1 : items[0].start]
    if "\n" in lead:
        margin = lead.rpartition("\n")[2]
        piece = (style.newline or "\n") + margin + _render(value, key, style, margin)
    else:
        flat = style._replace(newline="")
        piece = style.comma[1:] + _render(value, key, flat, "")
    return text[:end] + "," + piece + text[end:]


def cut(text: str, path: Path) -> str:
    """The text without one item and the comma that parted it from its neighbour."""
    place, parent = _find(text, path), _find(text, path[:-1])
    assert place is not None and parent is not None
    items = list(_items(text, parent.value))
    index = items.index(place)
    if len(items) == 1:
        return text[: parent.value + 1] + text[parent.end - 1 :]
    if index:
        return text[: items[index - 1].end] + text[place.end :]
    return text[: place.start] + text[items[1].start :]


def prune(text: str, path: Path, original: str) -> str:
    """Cut what is empty now, from the inside out, unless `original` holds it too."""
    while path:
        place, parent = _find(text, path), _find(text, path[:-1])
        if place is None or parent is None or get_value(text, path):
            return text
        twins = [item for item in _items(text, parent.value) if item.key == place.key]
        if len(twins) > 1:  # cutting would revive a duplicate
            return text
        with suppress(SettingsError):
            if _find(original, path) is not None:
                return text
        text, path = cut(text, path), path[:-1]
    return text


def _style(text: str) -> Style:
    """The layout of a text, by its first member."""
    start = _check(text)
    first = next(_items(text, start), None)
    if first is None:
        return Style("\r\n" if "\r\n" in text else "\n", "  ", ": ", ", ")
    lead = text[start + 1 : first.start]
    newline = ("\r\n" if "\r\n" in lead else "\n") if "\n" in lead else ""
    colon = ": " if text[first.value - 1] in " \t\r\n" else ":"
    comma = "," if colon == ":" else ", "
    return Style(newline, lead.rpartition("\n")[2] if newline else "", colon, comma)


def _render(value: Any, key: str, style: Style, margin: str) -> str:
    separators = (",", style.colon) if style.newline else (style.comma, style.colon)
    indent = style.indent if style.newline else None
    shown = json.dumps(value, ensure_ascii=False, indent=indent, separators=separators)
    if style.newline:
        shown = shown.replace("\n", style.newline + margin)
    return f"{json.dumps(key)}{style.colon}{shown}" if key else shown
