"""The compiled modules in the built file, and how one of them is read.

Modules that start often are read one by one; the first of the others brings them all,
which takes some hundredths of a second.  build.py says how they are laid down.  `hook`
gets along without: `loader` brings this for everything else.
"""

from __future__ import annotations

import posix
import sys
from marshal import loads

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from types import CodeType
    from typing import Any

    Parts = tuple[Any, ...]  # what a code object is made of
    Place = tuple[int, int]  # length, and where in the file: as pread takes them

CODE, CONSTS = 6, 7  # their places among what a code object is made of
INNER = StopIteration  # among the constants, for a code object inside this one


class Codes:
    """What the index of one CPython leads to."""

    def __init__(self, archive: str, fd: int, index: bytes) -> None:
        """Raises ImportError when another file lies over this one; so does `load`."""
        self.archive = archive
        self.fd = fd
        place = int.from_bytes(index[:4], "big"), int.from_bytes(index[4:], "big")
        # `section`: the place of what is compressed with lzma; where in it this
        # CPython's part begins and ends, and its sum.  `caches`: of an instruction, the
        # room behind it.
        files, sections, counts, self.section, self.caches = loads(self._inflate(place))
        names = [
            file[:-3].removesuffix("/__init__").replace("/", ".") for file in files
        ]
        self.files: dict[str, str] = dict(zip(names, files))
        # Of a module that starts often: its code for other CPythons and at last for
        # this one, each compressed against the one before.
        places = [accumulated(*section) for section in sections]
        self.places = {name: codes for name, *codes in zip(names, *places)}
        # All others: of how many code objects each, and these until it is imported.
        self.rest: dict[str, int] = dict(zip(names[len(self.places) :], counts))
        self.parts: dict[str, list[Parts]] = {}

    def load(self, name: str) -> CodeType | None:
        """None for an empty file."""
        if name in self.rest:
            if name not in self.parts:
                self._read_rest()
            return assemble(self.parts.pop(name), self.caches)
        data = b""
        for place in self.places[name]:
            data = self._inflate(place, data) if place[0] else b""
        code: CodeType | None = loads(data) if data else None
        return code

    def _inflate(self, place: Place, dictionary: bytes = b"") -> bytes:
        """What was compressed against the dictionary, and nothing else.

        zlib puts a sum of the dictionary and one of the data beside them: if this file
        is overwritten with another, marshal never gets to see what is there now.
        """
        import zlib

        inflater = zlib.decompressobj(zdict=dictionary)
        try:
            data = inflater.decompress(self._read(place))
            if inflater.eof and not inflater.unused_data:
                return data
        except zlib.error:
            pass
        raise self._overwritten()

    def _read_rest(self) -> None:
        """Take the parts of every module that does not start often.

        Those of other CPythons stand before them in one stream, hence a sum of their
        own.
        """
        from _lzma import LZMADecompressor, LZMAError
        from zlib import crc32

        place, begin, end, total = self.section
        try:
            data = LZMADecompressor().decompress(self._read(place), end)[begin:]
        except LZMAError:
            raise self._overwritten() from None
        if crc32(data) != total:
            raise self._overwritten()
        rows = zip(*loads(data))
        for name, count in self.rest.items():
            self.parts[name] = [next(rows) for _ in range(count)]

    def _read(self, place: Place) -> bytes:
        return posix.pread(self.fd, *place)

    def _overwritten(self) -> ImportError:
        return ImportError(f"{self.archive} was overwritten while it was running")


def accumulated(offset: int, lengths: list[int]) -> Iterator[Place]:
    for length in lengths:
        yield length, offset
        offset += length


def assemble(parts: Iterable[Parts], caches: dict[int, int]) -> CodeType | None:
    """A module's code; what is inside a code object stands before it."""
    made: list[CodeType] = []
    units: dict[int, bytes] = {}  # with the room that CPython wants behind them
    for part in parts:
        words = memoryview(part[CODE]).cast("H")
        for word in set(words).difference(units):
            data = word.to_bytes(2, sys.byteorder)
            units[word] = data + bytes(2 * caches.get(data[0], 0))
        code = b"".join([units[word] for word in words])
        first = len(made) - part[CONSTS].count(INNER)
        inner = iter(made[first:])
        del made[first:]
        consts = (next(inner) if item is INNER else item for item in part[CONSTS])
        fields = [*part[:CODE], code, tuple(consts), *part[CONSTS + 1 :]]
        made.append(type(assemble.__code__)(*fields))
    return made[0] if made else None
