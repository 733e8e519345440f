"""How the built file starts and imports its modules: compiled code, else the sources.

The build puts the code of what starts often before the zip, once per CPython; `install`
puts the code of everything, for the Python it pins, into a file beside the archive.
What neither has comes from the sources in the zip.  `start/boot.txt` runs this
file's own code and calls `start()`; from then on `import feishuperm.x` is a read at a
known offset of a file that stays open: no folder is listed, nothing is written.

It knows nothing of what the modules are for, and runs before anything is imported: it
keeps to what every Python has loaded at its start.
"""

from __future__ import annotations

import posix
import sys
from _frozen_importlib import ModuleSpec
from _frozen_importlib_external import ExtensionFileLoader
from _imp import _fix_co_filename, extension_suffixes  # type: ignore[attr-defined]
from marshal import loads

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import CodeType, ModuleType

    Ready = dict[str, tuple[str, bytes]]  # files and codes that came with this one
    # Of a module: its file, the length and the place of its code.
    Places = dict[str, tuple[str, int, int]]
    # Compiled code: the file it is in, where the first place is, what, and where.
    Pack = tuple[int, int, Ready, Places]
    Unread = tuple[int, int, Ready, bytes]  # the same, with places as marshal has them
    Sources = dict[str, tuple[str, int, int, int]]  # and the sum of the text

INIT = "/__init__.py"
HOOK_NAMES = ("feishuperm-hook", "permission-notify")
SOURCES_AT = 4096  # where the archive says where its list of sources is
BESIDE = ".code"  # the end of the name of the file beside the archive
FACTS = 32  # bytes before the head in a file beside the archive


class Loader:
    """Finder and loader of everything in the archive, for `sys.meta_path`."""

    def __init__(self, archive: str, fd: int, mark: bytes, own: Unread) -> None:
        self.archive = archive
        self.fd = fd  # stays open: an upgrade puts another file at the same path
        self.mark = mark
        self.ready = own[2]
        self.libraries = sys.path[-1]  # Python's own: later anybody may add to the path
        # `hook` needs no more than what is ready; only then is the rest looked for.
        self.packs: list[Pack] = []
        self.unread = [own]
        self.looked_beside = own[0] != fd
        self.sources: tuple[int, Sources] | None = None  # behind this place in `fd`

    def find_spec(
        self, name: str, path: object = None, target: object = None
    ) -> ModuleSpec | None:
        if not name.startswith("feishuperm"):
            return self._find_library(name) if name == "_socket" else None
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
        exec(self.get_code(module.__name__), module.__dict__)

    def get_code(self, name: str) -> CodeType:
        """Raises ImportError when another file lies over this one."""
        file = self.get_filename(name)
        if name in self.ready:
            code: CodeType = loads(self.ready[name][1])
        else:
            code = self._compiled(name) or compile(
                self._text(name), file, "exec", dont_inherit=True, optimize=2
            )
        _fix_co_filename(code, file)
        return code

    def get_filename(self, name: str) -> str:
        """As zipimport would name it."""
        if name in self.ready:
            file = self.ready[name][0]
        else:
            pack = self._pack_of(name) or self._sources()
            file = pack[-1][name][0]
        return f"{self.archive}/site-packages/{file}"

    def get_source(self, name: str) -> str:
        return self._text(name).decode()

    def get_data(self, path: str) -> bytes:
        """A file that is no module, by its full name. Raises OSError."""
        try:
            return self._text(path.partition("/site-packages/")[2])
        except KeyError:
            raise FileNotFoundError(2, "not in the archive", path) from None

    def _find_library(self, name: str) -> ModuleSpec | None:
        """Where it is, unless Python has it built in.

        Python would list the whole folder first, and take longer than to load it.
        """
        path = f"{self.libraries}/{name}{extension_suffixes()[0]}"
        try:
            posix.stat(path)
        except OSError:
            return None
        return ModuleSpec(name, ExtensionFileLoader(name, path), origin=path)

    def _pack_of(self, name: str) -> Pack | None:
        """The compiled code that has this module, if any does."""
        for pack in self.packs:
            if name in pack[3]:
                return pack
        if self.unread:
            fd, start, ready, data = self.unread.pop()
            self.packs.append((fd, start, ready, loads(data)))
            return self._pack_of(name)
        if self.looked_beside:
            return None
        self.looked_beside = True
        try:
            fd, head = open_beside(self.archive, self.fd, self.mark)
        except OSError:
            return None
        self.unread.append((fd, FACTS + len(head), *loads(head)[1:]))
        return self._pack_of(name)

    def _compiled(self, name: str) -> CodeType | None:
        """None if only the source is there, or the file beside the archive is damaged.

        zlib puts a sum beside the data: marshal never sees what another file, written
        over this one, has at the same place.
        """
        pack = self._pack_of(name)
        if not pack:
            return None
        from zlib import decompressobj, error

        fd, start, ready, places = pack
        _, length, place = places[name]
        inflater = decompressobj(zdict=b"".join(code for _, code in ready.values()))
        try:
            data = inflater.decompress(posix.pread(fd, length, start + place))
        except error:
            data = b""
        if not inflater.eof:
            if fd == self.fd:
                raise self._overwritten()
            self.packs.remove(pack)
            return self._compiled(name)
        code: CodeType = loads(data)
        return code

    def _text(self, name: str) -> bytes:
        """The source of a module, or another file of the zip. Raises KeyError."""
        from zlib import crc32, decompress, error

        start, sources = self._sources()
        _, length, place, total = sources[name]
        try:
            text = decompress(posix.pread(self.fd, length, start + place), -15)
        except error:
            raise self._overwritten() from None
        if crc32(text) != total:
            raise self._overwritten()
        return text

    def _sources(self) -> tuple[int, Sources]:
        if self.sources is None:
            from zlib import decompress, error

            row = posix.pread(self.fd, 8, SOURCES_AT)
            length, place = (int.from_bytes(row[at : at + 4], "big") for at in (0, 4))
            try:
                data = decompress(posix.pread(self.fd, length, place))
            except error:
                raise self._overwritten() from None
            self.sources = length + place, loads(data)
        return self.sources

    def _overwritten(self) -> ImportError:
        return ImportError(f"{self.archive} was overwritten while it was running")


def open_beside(archive: str, fd: int, mark: bytes) -> tuple[int, bytes]:
    """The code that `install` put beside the archive: its file, and its head.

    Raises OSError unless it is of this very build, for this Python, whole, and nobody
    can have written it who could not write the archive.  The sh text has a copy of it.
    """
    from _frozen_importlib_external import MAGIC_NUMBER
    from _imp import source_hash
    from posix import O_NOFOLLOW, O_NONBLOCK, close, fstat, open, pread, readlink

    try:
        while True:
            link = readlink(archive)
            archive = archive[: archive.rfind("/") + 1] * (link[0] != "/") + link
    except OSError:
        pass
    beside = open(archive + ".code", O_NOFOLLOW | O_NONBLOCK)
    status = fstat(beside)
    # A regular file that nobody else can write.
    if status.st_mode & 0o170022 == 0o100000 and status.st_uid == fstat(fd).st_uid:
        facts = pread(beside, 32, 0)
        head = pread(beside, int.from_bytes(facts[:4], "big"), 32)
        if facts[4:] == MAGIC_NUMBER + mark + source_hash(0, head):
            return beside, head
    close(beside)
    raise OSError


def start(
    fd: int, mark: bytes, pack: int, place: int, ready: Ready, places: bytes
) -> None:
    """Run the command line: the archive is open as `fd`, its code as `pack`."""
    argv = sys.argv
    del argv[0]
    archive = absolute(argv[0])
    words = ["hook"] if archive.rpartition("/")[2] in HOOK_NAMES else []
    words += argv[1:]
    # A purpose or an agent follows; it is for the server to know which there are.
    is_hook = words[:1] == ["hook"] and len(words) <= 2 and words[-1][:1] != "-"
    sys.meta_path.insert(0, Loader(archive, fd, mark, (pack, place, ready, places)))
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
