"""How the built file starts and imports its modules: compiled code before the zip.

The build lays down every module's code once per CPython (see build.py for the layout);
BOOT, in the sh text, runs this file's own code and calls `start()`.  From then on
`import feishuperm.x` is a read at a known offset: no folder is listed, no zip directory
read, nothing compiled and nothing written.  The sources in the zip serve Pythons that
the build did not know, and tracebacks.

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
    from collections.abc import Iterator
    from types import CodeType, ModuleType

    Place = tuple[int, int]  # offset among the codes, and length
    # The source's name; its code for other CPythons and at last for this one, each
    # compressed against the one before.
    Entry = tuple[str, list[Place]]
    Packed = tuple[int, bytes]  # where the codes begin; their index, compressed
    Ready = dict[str, tuple[str, CodeType]]  # what came with the first read

INIT = "/__init__.py"
HOOK_NAMES = ("feishuperm-hook", "permission-notify")


class Loader:
    """Finder and loader of everything in the archive, for `sys.meta_path`."""

    def __init__(self, archive: str, fd: int, packed: Packed, ready: Ready) -> None:
        self.archive = archive
        self.fd = fd  # stays open: an upgrade puts another file at the same path
        self.start, self.packed = packed
        self.index: dict[str, Entry] = {}
        self.common = b""  # what every code was compressed against
        self.ready = ready

    def find_spec(
        self, name: str, path: object = None, target: object = None
    ) -> ModuleSpec | None:
        if not name.startswith("feishuperm"):
            return None
        try:
            file = self.get_filename(name)
        except KeyError:
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
        code = self.ready[name][1] if name in self.ready else self._load(name)
        if code:
            _fix_co_filename(code, self.get_filename(name))
        return code

    def get_filename(self, name: str) -> str:
        """As zipimport names it, which serves the same modules to other Pythons."""
        file = self.ready[name][0] if name in self.ready else self._entry(name)[0]
        return f"{self.archive}/site-packages/{file}"

    def is_package(self, name: str) -> bool:
        return self.get_filename(name).endswith(INIT)

    def get_source(self, name: str) -> str:
        return self.get_data(self.get_filename(name)).decode()

    def get_data(self, path: str) -> bytes:
        """A file of the zip, by its full name. Raises OSError."""
        from zipimport import zipimporter

        return zipimporter(self.archive).get_data(path)

    def _entry(self, name: str) -> Entry:
        if self.packed:
            self._unpack()
        return self.index[name]

    def _unpack(self) -> None:
        """Read the index: files, and per CPython where its codes begin and how long."""
        from zlib import decompress

        common, files, sections = loads(decompress(self.packed))
        self.packed = b""
        self.common = self._inflate(common, b"")
        places = [accumulated(*section) for section in sections]
        for file, *codes in zip(files, *places):
            name = file[:-3].removesuffix("/__init__").replace("/", ".")
            self.index[name] = (file, codes)

    def _load(self, name: str) -> CodeType | None:
        data = b""
        for place in self._entry(name)[1]:
            data = self._inflate(place, self.common + data) if place[1] else b""
        code: CodeType | None = loads(data) if data else None
        return code

    def _inflate(self, place: Place, dictionary: bytes) -> bytes:
        """What was compressed against the dictionary, and nothing else.

        zlib puts a sum of the dictionary and one of the data beside them: if this file
        is overwritten with another, marshal never gets to see what is there now.
        """
        import zlib

        offset, size = place
        inflater = zlib.decompressobj(zdict=dictionary)
        try:
            data = inflater.decompress(posix.pread(self.fd, size, self.start + offset))
            if inflater.eof:
                return data
        except zlib.error:
            pass
        raise ImportError(f"{self.archive} was overwritten while it was running")


def accumulated(offset: int, lengths: list[int]) -> Iterator[Place]:
    for length in lengths:
        yield offset, length
        offset += length


def start(fd: int = -1, packed: Packed = (0, b""), ready: Ready | None = None) -> None:
    """Run the command line of BOOT, from the file open as `fd` or from the sources."""
    argv = sys.argv
    del argv[0]
    archive = absolute(argv[0])
    is_hook = argv[1:] == ["hook"] or (
        len(argv) == 1 and archive.rpartition("/")[2] in HOOK_NAMES
    )
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
