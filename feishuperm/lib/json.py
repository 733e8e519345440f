"""`json_get()`: one field out of JSON, by a dotted path, whatever the data is like.

There is one parser, the standard library's.  Bad data, a missing field and null all
give the default, so a caller never has to guard.  `has_more_parts()` tells beforehand
whether decoding would take long.
"""

from __future__ import annotations

import re
from json.decoder import scanstring  # type: ignore[attr-defined]
from typing import Any

from feishuperm.models.fields import decoded


def json_get(data: object, path: str, default: Any = None) -> Any:
    """The value at `path`, e.g. "tool_input.questions.0.header".

    `data` is JSON as text or bytes, or already decoded.
    """
    value = decoded(data) if isinstance(data, (str, bytes, bytearray)) else data
    for key in path.split(".") if path else ():
        value = _step(value, key)
    return default if value is None else value


def has_more_parts(data: bytes, most: int) -> bool:
    """Whether this JSON has more than so many values; False if it cannot be read.

    A text of megabytes is decoded in no time, a million small values are not.
    """
    if sum(map(data.count, (b",", b"[", b"{"))) <= most:
        return False
    try:
        text = data.decode()
        count = position = 0
        while count <= most:
            match = _MARK.search(text, position)
            if match is None:
                return False
            position = match.end()
            if match.group() == '"':
                position = scanstring(text, position, False)[1]
            else:
                count += 1
    except ValueError:
        return False
    return True


_MARK = re.compile(r'["\[{,]')


def _step(value: object, key: str) -> Any:
    if isinstance(value, dict):
        return value.get(key)
    if isinstance(value, (list, tuple)) and key.isascii() and key.isdigit():
        return value[int(key)] if len(key) < 10 and int(key) < len(value) else None
    return None
