"""How the built file starts and imports its modules: compiled code before the zip.

The build lays down every module's code once per CPython (see build.py for the layout);
BOOT, in the sh text, runs this file's own code and calls `start()`.  From then on
`import feishuperm.x` is a read at a known offset: no folder is listed, no zip directory
read, nothing compiled and nothing written.  Modules that start often are read one by
one; the first of the others brings them all, which takes some hundredths of a second.
The sources in the zip serve Pythons that the build did not know or that have no lzma,
and tracebacks.

It knows nothing of what the modules are for, and runs before anything is imported: it
keeps to what every Python has loaded at its start, and brings zlib when `hook` needs
more than the modules that came with the first read.
"""

from __future__ import annotations

import posix
import sys
from _frozen_importlib import ModuleSpec
from _imp import _fix_co_filename  # type: ignore[attr-defined]
from marshal import loads

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from types import CodeType, ModuleType
    from typing import Any

    Parts = tuple[Any, ...]  # what a code object is made of
    Place = tuple[int, int]  # offset among the codes, and length
    # The place of what is compressed with lzma; where in it this CPython's part begins
    # and ends, and its sum.
    Section = tuple[Place, int, int, int]
    Packed = tuple[int, bytes]  # where the codes begin; their index, compressed
    Ready = dict[str, tuple[str, CodeType]]  # what came with the first read

INIT = "/__init__.py"
HOOK_NAMES = ("feishuperm-hook", "permission-notify")
CODE, CONSTS = 6, 7  # their places among what a code object is made of
INNER = StopIteration  # among the constants, for a code object inside this one
HOOK_ARGUMENTS: tuple[list[str], ...] = ([], ["next"], ["denied"], ["form"])


class Loader:
    """Finder and loader of everything in the archive, for `sys.meta_path`."""

    def __init__(self, archive: str, fd: int, packed: Packed, ready: Ready) -> None:
        self.archive = archive
        self.fd = fd  # stays open: an upgrade puts another file at the same path
        self.start, self.packed = packed
        self.ready = ready
        self.files: dict[str, str] = {}  # by module, but for what is ready
        # Of a module that starts often: its code for other CPythons and at last for
        # this one, each compressed against the one before.
        self.places: dict[str, list[Place]] = {}
        self.common = b""  # what every one of them was compressed against
        self.rest: dict[str, int] = {}  # all others: of how many code objects each
        self.section: Section = (0, 0), 0, 0, 0
        self.caches: dict[int, int] = {}  # of an instruction: the room behind it
        self.parts: dict[str, list[Parts]] = {}  # theirs, until they are imported

    def find_spec(
        self, name: str, path: object = None, target: object = None
    ) -> ModuleSpec | None:
        if not name.startswith("feishuperm"):
            return None
        try:
            file = self.get_filename(name)
            if name in self.rest:
                import _lzma  # noqa: F401 without it, Python itself finds the source
        except (KeyError, ImportError):
            return None
        spec = ModuleSpec(name, self, origin=file)  # type: ignore[arg-type]
        if file.endswith(INIT):
            spec.submodule_search_locations = [file[: -len(INIT)]]
        return spec

    def create_module(self, spec: ModuleSpec) -> None:
        """Python's own kind of module will do."""

    def exec_module(self, module: ModuleType) -> None:
        module.__file__ = self.get_filename(module.__name__)
        code = self.get_code(module.__name__)
        if code:
            exec(code, module.__dict__)

    def get_code(self, name: str) -> CodeType | None:
        """None for an empty file; ImportError when another lies over this one."""
        file = self.get_filename(name)
        code = self.ready[name][1] if name in self.ready else self._load(name)
        if code:
            _fix_co_filename(code, file)
        return code

    def get_filename(self, name: str) -> str:
        """As zipimport names it, which serves the same modules to other Pythons."""
        if self.packed and name not in self.ready:
            self._unpack()
        file = self.ready[name][0] if name in self.ready else self.files[name]
        return f"{self.archive}/site-packages/{file}"

    def is_package(self, name: str) -> bool:
        return self.get_filename(name).endswith(INIT)

    def get_source(self, name: str) -> str:
        return self.get_data(self.get_filename(name)).decode()

    def get_data(self, path: str) -> bytes:
        """A file of the zip, by its full name. Raises OSError."""
        from zipimport import zipimporter

        return zipimporter(self.archive).get_data(path)

    def _unpack(self) -> None:
        """Read the index: files, and where or of how many parts their codes are."""
        from zlib import decompress

        index = loads(decompress(self.packed))
        common, files, sections, counts, self.section, self.caches = index
        self.packed = b""
        self.common = self._inflate(common, b"")
        names = [
            file[:-3].removesuffix("/__init__").replace("/", ".") for file in files
        ]
        self.files = dict(zip(names, files))
        places = [accumulated(*section) for section in sections]
        self.places = {name: codes for name, *codes in zip(names, *places)}
        self.rest = dict(zip(names[len(self.places) :], counts))

    def _load(self, name: str) -> CodeType | None:
        if name in self.rest:
            if name not in self.parts:
                self._read_rest()
            return assemble(self.parts.pop(name), self.caches)
        data = b""
        for place in self.places[name]:
            data = self._inflate(place, self.common + data) if place[1] else b""
        code: CodeType | None = loads(data) if data else None
        return code

    def _inflate(self, place: Place, dictionary: bytes) -> bytes:
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
        return posix.pread(self.fd, place[1], self.start + place[0])

    def _overwritten(self) -> ImportError:
        return ImportError(f"{self.archive} was overwritten while it was running")


def accumulated(offset: int, lengths: list[int]) -> Iterator[Place]:
    for length in lengths:
        yield offset, length
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


def start(fd: int = -1, packed: Packed = (0, b""), ready: Ready | None = None) -> None:
    """Run the command line of BOOT, from the file open as `fd` or from the sources."""
    argv = sys.argv
    del argv[0]
    archive = absolute(argv[0])
    words = ["hook"] if archive.rpartition("/")[2] in HOOK_NAMES else []
    words += argv[1:]
    is_hook = words[:1] == ["hook"] and words[1:] in HOOK_ARGUMENTS
    if ready:
        sys.meta_path.insert(0, Loader(archive, fd, packed, ready))
    else:
        sys.path[0] = f"{archive}/site-packages"
    if is_hook:
        run_hook()
    from feishuperm.cli import main

    sys.exit(main(argv))


def run_hook() -> None:
    """Never returns: whatever happens, Claude Code is not to be stopped by it."""
    try:
        from feishuperm.client import main

        main()
    except BaseException:
        pass
    posix._exit(0)


def absolute(path: str) -> str:
    """For imports after a change of the working directory."""
    try:
        return path if path.startswith("/") else f"{posix.getcwd()}/{path}"
    except OSError:
        return path
