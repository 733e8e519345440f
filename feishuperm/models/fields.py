"""Parts of decoded JSON, whatever it is like: what is not of its type is empty.

Events, transcripts, settings and answers come from elsewhere, and any of them may hold
anything.  A caller that asks here for a text, an object or a list gets one.
"""

from __future__ import annotations

import json
import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

LARGEST = 1e15  # the largest number that anybody means


def decoded(data: str | bytes | bytearray) -> Any:
    """What a JSON text holds; None for one that holds null, or cannot be read."""
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        return None


def value_at(value: object, *keys: str) -> Any:
    """Whatever lies inside objects; None if it is not there."""
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def text_at(value: object, *keys: str) -> str:
    """A text inside objects; empty if it is not there."""
    text = value_at(value, *keys)
    return text if isinstance(text, str) else ""


def path_at(value: object, *keys: str) -> str:
    """A text inside objects that a file's path could be; empty if there is none."""
    text = text_at(value, *keys)
    try:
        return "" if b"\0" in os.fsencode(text) else text
    except UnicodeEncodeError:  # half of a character
        return ""


def number_at(value: object, *keys: str) -> float:
    """A number inside objects; 0 if it is not there, or too large to count with."""
    number = value_at(value, *keys)
    known = isinstance(number, (int, float)) and -LARGEST < number < LARGEST
    return float(number) if known else 0.0


def part_at(value: object, *keys: str) -> dict[str, Any]:
    """An object inside others; empty if it is not there."""
    part = value_at(value, *keys)
    return part if isinstance(part, dict) else {}


def list_at(value: object, *keys: str) -> list[Any]:
    """A list inside objects; empty if it is not there."""
    items = value_at(value, *keys)
    return items if isinstance(items, list) else []
