"""Counts which of the program's own code runs: a profile hook around some calls."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from tests.conftest import ROOT

PACKAGE = str(ROOT / "feishuperm")


class Walk:
    """What ran: calls by file and by function."""

    def __init__(self) -> None:
        self.calls: Counter[tuple[str, str]] = Counter()

    def note(self, frame: FrameType, event: str, argument: object) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(PACKAGE):
            file = code.co_filename[len(PACKAGE) + 1 :]
            self.calls[file, code.co_name] += 1

    def count(self) -> int:
        return sum(self.calls.values())

    def of(self, name: str) -> int:
        """How often a function of this name was called."""
        return sum(n for (_, own), n in self.calls.items() if own == name)

    def files(self) -> list[str]:
        """Those of the package, without the room that owns the sockets."""
        files = {file for file, _ in self.calls}
        return sorted(file for file in files if not file.startswith("server/"))


@contextmanager
def walking() -> Iterator[Walk]:
    walk = Walk()
    sys.setprofile(walk.note)
    try:
        yield walk
    finally:
        sys.setprofile(None)
