"""How the built file starts and imports its modules: compiled code before the zip.

The build lays down every module's code once per CPython (see build.py for the layout);
BOOT, in the sh text, runs this file's own code and calls `start()`.  From then on
`import feishuperm.x` is a read at a known offset: no folder is listed, no zip directory
read, nothing compiled and nothing written.  What `hook` needs came with the first read;
`codes` reads all else.  The sources in the zip serve Pythons that the build did not
know or that have no lzma, and tracebacks.

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

    from feishuperm.codes import Codes

    Ready = dict[str, tuple[str, bytes]]  # files and codes that came with this one

INIT = "/__init__.py"
HOOK_NAMES = ("feishuperm-hook", "permission-notify")
HOOK_ARGUMENTS: tuple[list[str], ...] = ([], ["next"], ["denied"], ["form"])


class Loader:
    """Finder and loader of everything in the archive, for `sys.meta_path`."""

    def __init__(self, archive: str, fd: int, index: bytes, ready: Ready) -> None:
        self.archive = archive
        self.fd = fd  # stays open: an upgrade puts another file at the same path
        self.index = index
        self.ready = ready
        self.codes: Codes | None = None  # all others, when one of them is needed
        self.libraries = sys.path[-1]  # Python's own: later anybody may add to the path

    def find_spec(
        self, name: str, path: object = None, target: object = None
    ) -> ModuleSpec | None:
        if not name.startswith("feishuperm"):
            return self._find_library(name) if name == "_socket" else None
        try:
            file = self.get_filename(name)
        except KeyError:
            return None
        if self.codes and name in self.codes.rest:
            try:
                import _lzma  # noqa: F401 without it, Python itself finds the source
            except ImportError:
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
        code: CodeType | None
        if name in self.ready:
            code = loads(self.ready[name][1])
        else:
            code = self._others().load(name)
        if code:
            _fix_co_filename(code, file)
        return code

    def get_filename(self, name: str) -> str:
        """As zipimport names it, which serves the same modules to other Pythons."""
        is_ready = name in self.ready
        file = self.ready[name][0] if is_ready else self._others().files[name]
        return f"{self.archive}/site-packages/{file}"

    def is_package(self, name: str) -> bool:
        return self.get_filename(name).endswith(INIT)

    def get_source(self, name: str) -> str:
        return self.get_data(self.get_filename(name)).decode()

    def get_data(self, path: str) -> bytes:
        """A file of the zip, by its full name. Raises OSError."""
        from zipimport import zipimporter

        return zipimporter(self.archive).get_data(path)

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

    def _others(self) -> Codes:
        if not self.codes:
            from feishuperm.codes import Codes

            self.codes = Codes(self.archive, self.fd, self.index)
        return self.codes


def start(fd: int = -1, index: bytes = b"", ready: Ready | None = None) -> None:
    """Run the command line of BOOT, from the file open as `fd` or from the sources."""
    argv = sys.argv
    del argv[0]
    archive = absolute(argv[0])
    words = ["hook"] if archive.rpartition("/")[2] in HOOK_NAMES else []
    words += argv[1:]
    is_hook = words[:1] == ["hook"] and words[1:] in HOOK_ARGUMENTS
    if ready:
        sys.meta_path.insert(0, Loader(archive, fd, index, ready))
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
