"""One JSON object per line, both ways, without any I/O.

Feed what a program printed to `receive_data()`, take events from `next_event()` until
it returns None.  A subclass says what an object means.  Lines that hold no object are
skipped: a program's own prints.
"""

from __future__ import annotations

import json
from typing import Any, Generic, TypeVar

from feishuperm.errors import ProtocolError
from feishuperm.models.fields import decoded

MAX_LINE = 64 << 20  # one line may carry a whole tool result, pictures included

Event = TypeVar("Event")


class JsonLines(Generic[Event]):
    """One conversation with a program."""

    def __init__(self) -> None:
        self.buffer = bytearray()
        self.searched = 0  # no line end before this
        self.requests = 0

    def receive_data(self, data: bytes) -> None:
        """Take bytes in. Raises ProtocolError when a line never ends."""
        self.buffer += data
        if len(self.buffer) > MAX_LINE and self.buffer.find(b"\n", self.searched) < 0:
            raise ProtocolError("the CLI sent a line that is too long")

    def next_event(self) -> Event | None:
        """The next event, or None until more data came; other lines are skipped."""
        while (end := self.buffer.find(b"\n", self.searched)) >= 0:
            line = bytes(self.buffer[:end])
            del self.buffer[: end + 1]
            self.searched = 0
            body = decoded(line)
            event = self.event(body) if isinstance(body, dict) else None
            if event is not None:
                return event
        self.searched = len(self.buffer)
        return None

    def event(self, body: dict[str, Any]) -> Event | None:
        """What an object means; None: nothing."""
        raise NotImplementedError


def line(body: dict[str, Any]) -> bytes:
    # ASCII escapes: a line separator inside a text must not end the line.
    return json.dumps(body).encode() + b"\n"
