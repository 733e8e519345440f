"""Parts of decoded JSON, whatever it is like: what is not of its type is empty.

Events, transcripts, settings and answers come from elsewhere, and any of them may hold
anything.  Whoever asks here for a text, an object or a list gets one.
"""

from __future__ import annotations

import json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


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


def part_at(value: object, *keys: str) -> dict[str, Any]:
    """An object inside others; empty if it is not there."""
    part = value_at(value, *keys)
    return part if isinstance(part, dict) else {}


def list_at(value: object, *keys: str) -> list[Any]:
    """A list inside objects; empty if it is not there."""
    items = value_at(value, *keys)
    return items if isinstance(items, list) else []
