"""A small archive as the build lays it down, with a zip and without the sh text."""

from __future__ import annotations

import marshal
import os
import sys
from pathlib import Path

import build
from feishuperm.compiled import READY, SITE, find_modules, make_pack, mark_of
from feishuperm.loader import BESIDE, Loader
from feishuperm.setup.steps import make_code

LADDER = b"""\
class Ladder:
    def climb(self, steps=(1, 2)):
        return [(lambda: step)() for step in steps]
def f():
    def deeper():
        return "here" if Ladder().climb() == [1, 2] else "lost"
    return deeper()
"""
FILES = {
    "feishuperm/__init__.py": b"ready = True\n",
    "feishuperm/client.py": b"",
    "feishuperm/loader.py": b"",
    "feishuperm/wire.py": b"",
    "feishuperm/room/__init__.py": b"",
    "feishuperm/room/table.py": LADDER,
    "feishuperm/shed/__init__.py": b"",
    "feishuperm/shed/ladder.py": LADDER,
    "feishuperm/shed/words.txt": b"words",
}
OFTEN, SELDOM = "feishuperm.room.table", "feishuperm.shed.ladder"
MARK = mark_of(FILES)


def this_python() -> build.Python:
    python = build.probe(os.path.realpath(sys.executable))
    assert python
    return python


def head_of(data: bytes, python: build.Python) -> tuple[int, int]:
    """Length and place of the head of a Python in a built file."""
    row = data[build.TEXT_SIZE + 8 * python.minor :][:8]
    return int.from_bytes(row[:4], "big"), int.from_bytes(row[4:], "big")


def lay_down(path: Path, is_known: bool = True) -> Path:
    """An archive that has the code of OFTEN, for this Python or for none."""
    modules = find_modules(FILES)
    often = {name: modules[name] for name in (OFTEN, "feishuperm.room", *READY)}
    often["feishuperm.loader"] = modules["feishuperm.loader"]
    packs = {this_python(): make_pack(often)} if is_known else {}
    members = {SITE + name: data for name, data in FILES.items()}
    sources = build.list_sources(build.make_zip(members, 0, 0))
    prefix = bytes(build.TEXT_SIZE) + build.make_codes(packs, MARK, sources)
    path.write_bytes(prefix + build.make_zip(members, 0, len(prefix)))
    return path


def lay_beside(path: Path) -> Path:
    """The code of everything beside it, as `install` does."""
    beside = path.with_name(path.name + BESIDE)
    beside.write_bytes(make_code(FILES))
    beside.chmod(0o644)
    return beside


def open_loader(path: Path) -> Loader:
    """As BOOT starts it."""
    fd = os.open(path, os.O_RDONLY)
    length, place = head_of(path.read_bytes(), this_python())
    head = os.pread(fd, length, place)
    _, ready, places = marshal.loads(head) if head else (None, {}, b"{0")
    return Loader(str(path), fd, MARK, (fd, length + place, ready, places))
