"""A reviewer's verdict: what it is, and how it is read out of what was printed.

It knows no process: the bytes may come from anywhere, in whatever wrapping.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from feishuperm.errors import FeishupermError
from feishuperm.models.fields import decoded, text_at

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

MAX_TEXT = 64 << 10  # where a verdict is looked for, from the end
MAX_STARTS = 2000  # opening braces that are tried in a text without a whole object
FENCED = re.compile(r"```[\w-]*[ \t]*\r?\n(.*?)```", re.DOTALL)


class ReviewError(FeishupermError):
    """A review without a verdict; `problem` is the last part of a key in `lib.text`."""

    def __init__(self, problem: str, detail: str) -> None:
        super().__init__(detail)
        self.problem = problem


class Verdict:
    """What a reviewer said."""

    def __init__(self, allow_stop: bool, feedback: str) -> None:
        self.allow_stop = allow_stop
        self.feedback = feedback


def read_verdict(output: bytes) -> Verdict:
    """The verdict in what a reviewer printed. Raises ReviewError."""
    text = output.decode("utf-8", "replace").strip()
    if not text:
        raise ReviewError("silent", "the reviewer printed nothing")
    envelope = _envelope(text)
    if envelope.get("is_error") is True:
        subtype = re.sub(r"\W", "", str(envelope.get("subtype")))
        raise ReviewError("failed", f"the reviewer reports an error: {subtype}")
    said = text_at({"result": text, **envelope}, "result")
    values = (envelope.get("structured_output"), *_values(said))
    verdict = next(filter(None, map(_verdict, values)), None)
    if verdict is None:
        raise ReviewError("garbled", "no verdict in what the reviewer printed")
    return verdict


def _envelope(text: str) -> dict[str, Any]:
    """The client's last result message; empty when the text is something else.

    It is the whole output, the last item of a list (setting `verbose`), or a last line.
    """
    for part in (text, *reversed(text.splitlines())):
        value = decoded(part)
        for item in reversed(value if isinstance(value, list) else [value]):
            if isinstance(item, dict) and item.get("type") == "result":
                return item
    return {}


def _values(text: str) -> Iterator[Any]:
    """Where a verdict may be: the text, its fenced blocks, its objects; last first."""
    yield decoded(text)
    text = text[-MAX_TEXT:]
    yield from map(decoded, reversed(FENCED.findall(text)))
    yield from reversed(list(_objects(text)))


def _objects(text: str) -> Iterator[Any]:
    """Every outermost JSON object in a text."""
    decoder = json.JSONDecoder()
    start = text.find("{")
    for _ in range(MAX_STARTS):
        if start < 0:
            return
        try:
            value, end = decoder.raw_decode(text, start)
        except (ValueError, RecursionError):
            end = start + 1
        else:
            yield value
        start = text.find("{", end)


def _verdict(value: Any) -> Verdict | None:
    """Both fields, of the right types, or nothing."""
    if not isinstance(value, dict):
        return None
    allow_stop, feedback = value.get("allow_stop"), value.get("feedback")
    if isinstance(allow_stop, bool) and isinstance(feedback, str):
        return Verdict(allow_stop, feedback)
    return None
