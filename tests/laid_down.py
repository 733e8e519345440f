"""A small archive as the build lays it down, without sh text and zip."""

from __future__ import annotations

import marshal
import os
import sys
from pathlib import Path
from typing import NamedTuple

import build
from tests.conftest import head_of

FILES = {
    "feishuperm/__init__.py": b"ready = True\n",
    "feishuperm/client.py": b"",
    "feishuperm/codes.py": b"",
    "feishuperm/loader.py": b"",
    "feishuperm/wire.py": b"",
    "feishuperm/commands/__init__.py": b"",
    "feishuperm/commands/version.py": b"from feishuperm.room import table\n",
    "feishuperm/room/__init__.py": b"",
    "feishuperm/room/table.py": b"def f():\n    return 'here'\n",
    "feishuperm/shed/__init__.py": b"",
    "feishuperm/shed/ladder.py": b"""\
class Ladder:
    def climb(self, steps=(1, 2)):
        return [(lambda: step)() for step in steps]
def f():
    def deeper():
        return "here" if Ladder().climb() == [1, 2] else "lost"
    return deeper()
""",
}
OFTEN, SELDOM = "feishuperm.room.table", "feishuperm.shed.ladder"


class LaidDown(NamedTuple):
    """What BOOT hands to the loader."""

    path: Path
    fd: int
    index: bytes
    ready: dict[str, tuple[str, bytes]]


def lay_down(path: Path, pythons: list[build.Python], alone: bool) -> LaidDown:
    """This Python's code, compressed by itself or against that of others."""
    own = next(p for p in pythons if p.path == os.path.realpath(sys.executable))
    bases = [own] if alone else build.bases_of(own, pythons)
    compiled = {python: build.compile_all(FILES, python) for python in bases}
    body = build.Body(b"01234567", compiled, build.find_modules(FILES))
    data = bytes(build.TEXT_SIZE) + body.data
    path.write_bytes(data)
    size, offset, index = head_of(data, own)
    _, ready = marshal.loads(data[offset : offset + size])
    return LaidDown(path, os.open(path, os.O_RDONLY), index, ready)
