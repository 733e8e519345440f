#!/usr/bin/env python3
"""Build, test and lint feishuperm: `python3 build.py [build|test|lint|bench|soak]`.

Needs nothing but Python 3.9: the tools go into a private environment in `.build/`.

shiv makes the archive; this file gives it another start.  The result is, in one file:

    sh text    finds the interpreter and runs BOOT with it, isolated; TEXT_SIZE bytes
    table      for each minor version length and place of its head and index, if any
    codes      per CPython, each module that starts often, compressed
    rest       every other module, for all CPythons together
    heads      one per CPython: ready to run, the loader and what `hook` needs; magic
               and mark; then the index of all other codes
    zip        from shiv: site-packages/, and our own __main__.py

`feishuperm/loader.py` and `codes.py` import from it.  Nothing is ever unpacked, no file
is written, no variable but XDG_CONFIG_HOME and HOME has a say in which code runs.  Same
commit and same set of CPythons: same bytes.
"""

from __future__ import annotations

import ast
import fcntl
import gc
import hashlib
import io
import itertools
import json
import marshal
import opcode
import os
import re
import socket
import subprocess
import sys
import tempfile
import threading
import time
import tokenize
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from types import CodeType
from typing import Any, NamedTuple

from feishuperm.codes import CODE, CONSTS, INNER
from feishuperm.models.names import PROGRAMS

ROOT = Path(__file__).resolve().parent
CACHE = ROOT / ".build"
VENV = CACHE / "venv"
TOOLS_PYTHON = VENV / "bin" / "python"
DIST = ROOT / "dist"
ARCHIVE = DIST / "feishuperm.pyz"
STAMP = CACHE / "archive.json"  # what dist/feishuperm.pyz was built from and for
# A variable: set, everything is built and tested for the running CPython alone.
ONLY_THIS_PYTHON = "FEISHUPERM_ONLY_THIS_PYTHON"
# Tests with one of these need more than Python packages; `full` is said of all of them.
PART_MARKERS = ("browser", "claude", "sdk", "node", "redis")

MINORS = range(9, 15)  # CPython 3.9 to 3.14 get compiled code; others run the source
RELEASE_MINORS = range(9, 14)  # a release without one of these would start slowly
SIZE_LIMIT = 2_000_000  # of a release: 43 bytes for a line, 11 of them as source
TEXT_SIZE = 4096
ROW_SIZE = 16  # of the table: four numbers of four bytes
TABLE_SIZE = ROW_SIZE * 32  # for Python 3.0 to 3.31
# CPython 3.x: the one whose code of the same module is its dictionary for compression.
# Names and texts are the same in all of them: together they take half the room.
BASES = {9: 12, 10: 9, 11: 12, 13: 12, 14: 12}
LOADER = "feishuperm.loader"
# What `hook` imports, and what the loader needs for everything else.
READY = ("feishuperm", "feishuperm.client", "feishuperm.wire", "feishuperm.codes")
# These and what they import start with many an event, or say the version: each is read
# by itself.
OFTEN = tuple(
    f"feishuperm.{name}"
    for name in (
        "_build",
        "cli",
        "commands.hook",
        "commands.supervisor",
        "commands.version",
        "engine.hook_output",
        "engine.run_mark",
        "engine.script_host",
        "engine.shell_template",
        "engine.trust",
        "lib.log",
        "lib.secret_finders",
        "models.settings",
        "services.ledger",
        "supervisor.supervisor",
    )
)
NO_GIT_EPOCH = 1_767_225_600  # 2026-01-01: any constant will do
HOOK_NAMES = tuple(name for name, command in PROGRAMS.items() if command == "hook")

# Runs before anything else and is compiled at every start, so it is short.  It stands
# between single quotes in sh and must not contain one.
BOOT = """\
import sys
from posix import open, pread
f = open(sys.argv[1], 0)
try:
    from _frozen_importlib_external import MAGIC_NUMBER
    from marshal import loads
    t = pread(f, @ROW@, @TEXT@ + @ROW@ * sys.version_info[1])
    h = pread(f, int.from_bytes(t[:4], "big"), int.from_bytes(t[4:8], "big"))
    if h[-12:] != MAGIC_NUMBER + b"@MARK@":
        raise KeyError
    l, h = loads(h)
    g = {"__name__": "feishuperm.loader"}
    exec(l, g)
except Exception:
    exec(pread(f, @TEXT@ - @OTHERS@, @OTHERS@))
g["start"](f, t[8:], h)
"""

# What BOOT runs for want of a head that fits: the sources, on any other Python.  It
# speaks Python of any age until the version is known.
OTHERS = """\
a = sys.argv[1:]
h = a[1:] == ["hook"] or len(a) == 1 and a[0].split("/")[-1] in @NAMES@
if sys.version_info < (3, 9):
    v = sys.version.split()[0]
    sys.stderr.write("feishuperm: needs Python 3.9 or newer, this is %s\\n" % v)
    sys.exit(not h)
try:
    sys.path.insert(0, a[0] + "/site-packages")
    from feishuperm.loader import start
    start()
except Exception:
    if not h:
        raise
    sys.exit()
"""

# The interpreter `install` has pinned, else the one in PATH.  Only absolute paths are
# good: the current directory belongs to whatever project Claude Code works on.
SH = """\
#!/bin/sh
# feishuperm @VERSION@, one file for Python 3.9 and newer. Try: feishuperm --help
c=${XDG_CONFIG_HOME:-${HOME-}/.config}/feishuperm/python p=
case $c in /*) [ -f "$c" ] && [ -r "$c" ] && IFS= read -r p <"$c" ;; esac
case $p in /*) [ -f "$p" ] && [ -x "$p" ] ;; *) false ;; esac || {
  p=python3
  command -v $p >/dev/null 2>&1 || {
    echo "feishuperm: python3 is not in PATH; install Python 3.9 or newer" >&2
    case ${0##*/} in @SH_NAMES@) exit 0 ;; esac
    [ "${1-}" = hook ]
    exit
  }
}
exec "$p" -IBS -c '@BOOT@' "$0" "$@"
"""

# For `python3 feishuperm.pyz`: that Python obeys PYTHONPATH and .pth files, so it hands
# over to an isolated one before any of our modules is looked for.
MAIN = """\
import sys
import posix

boot = @BOOT@
archive = __file__.rpartition("/")[0]
sys.argv[0] = archive
if sys.executable and not (sys.flags.isolated and sys.flags.no_site):
    command = [sys.executable, "-IBS", "-c", boot] + sys.argv
    posix.execve(sys.executable, command, posix.environ)
sys.argv.insert(0, "-c")
exec(compile(boot, "boot", "exec"), {"__name__": "__main__"})
"""

PROBE = """\
import os, sys
from _frozen_importlib_external import MAGIC_NUMBER
v = sys.version_info
if sys.implementation.name == "cpython" and v[3] == "final":
    path = os.path.realpath(sys.executable)
    print("\\n".join([path, MAGIC_NUMBER.hex(), "%d.%d.%d" % v[:3]]))
"""


class BuildError(Exception):
    """Ends the build; its text says what to do."""


class Python(NamedTuple):
    """An interpreter on this machine."""

    path: str
    magic: str
    version: str

    @property
    def minor(self) -> int:
        return int(self.version.split(".")[1])


# ---- interpreters


def find_pythons() -> list[Python]:
    """One CPython per kind of bytecode, oldest first."""
    found: dict[str, Python] = {}
    paths: Iterable[str] = [os.path.realpath(sys.executable)]
    if not os.environ.get(ONLY_THIS_PYTHON):
        paths = dict.fromkeys(candidate_pythons())
    for path in paths:
        python = probe(path)
        if python and python.minor in MINORS:
            found.setdefault(python.magic, python)
    return sorted(found.values(), key=lambda python: python.minor)


def candidate_pythons() -> Iterator[str]:
    """Every path where a CPython may be, the running one first."""
    yield os.path.realpath(sys.executable)
    folders = os.environ.get("PATH", "").split(os.pathsep)
    shims = [folder for folder in folders if os.path.basename(folder) == "shims"]
    pyenvs = [os.environ.get("PYENV_ROOT", ""), os.path.expanduser("~/.pyenv")]
    pyenvs += [os.path.dirname(folder) for folder in shims]
    for root in filter(None, dict.fromkeys(pyenvs)):
        for version in sorted(Path(root).glob("versions/*/bin/python3")):
            yield os.path.realpath(version)
        if os.path.join(root, "shims") in folders:  # slow ways to the same versions
            folders.remove(os.path.join(root, "shims"))
    for folder in [*folders, "/usr/bin", "/usr/local/bin", "/opt/homebrew/bin"]:
        for name in ["python3", *(f"python3.{minor}" for minor in MINORS)]:
            path = os.path.join(folder, name)
            if os.path.isabs(path) and os.access(path, os.X_OK):
                yield path if is_script(path) else os.path.realpath(path)


def is_script(path: str) -> bool:
    """Whether this is a shim, which acts by the name it is called by."""
    with open(path, "rb") as file:
        return file.read(2) == b"#!"


def probe(path: str) -> Python | None:
    """What an interpreter says about itself; None if it is not a CPython we know."""
    try:
        result = subprocess.run(
            [path, "-I", "-S", "-c", PROBE],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=30,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    lines = result.stdout.splitlines()
    return Python(*lines) if result.returncode == 0 and len(lines) == 3 else None


# ---- tools


def requirements(group: str) -> list[str]:
    """A dependency group of pyproject.toml; Python 3.9 has no TOML reader."""
    text = (ROOT / "pyproject.toml").read_text("utf-8")
    found = re.search(rf"^{group} = \[[^\n]*\n(.*?)^\]", text, re.DOTALL | re.MULTILINE)
    if not found:
        raise BuildError(f"pyproject.toml: no `{group}` group")
    return re.findall(r'^\s*"([^"]+)"', found.group(1), re.MULTILINE)


def ensure_tools(*groups: str) -> None:
    """Fill the private environment with what these groups name, if it lacks it.

    A build takes `build` alone: it waits for shiv, not for a browser's driver.
    """
    wanted = [one for group in groups for one in requirements(group)]
    stamp = VENV / "feishuperm-stamp"
    there = stamp.read_text().splitlines() if stamp.exists() else []
    missing = [one for one in wanted if one not in there]
    if not missing and TOOLS_PYTHON.exists():
        return
    say(f"installing tools into .build/venv, once: {', '.join(missing)}")
    pip = make_venv()
    if not run_shown("pip", [*pip, "install", "--progress-bar=off", *wanted]):
        raise BuildError("pip could not install the build tools (its words are above)")
    stamp.write_text("\n".join(dict.fromkeys([*there, *wanted])))


def make_venv() -> list[str]:
    """Create the environment if it is missing; the pip command that fills it."""
    inner = [str(TOOLS_PYTHON), "-m", "pip"]
    outer = [sys.executable, "-m", "pip", "--python", str(TOOLS_PYTHON)]
    venv = [sys.executable, "-m", "venv", "--clear"]
    # An empty one is there at once, and a pip that is there can fill it; one with a pip
    # of its own takes seconds, and Debian splits ensurepip off.
    empty = [*venv, "--without-pip", str(VENV)]
    if not TOOLS_PYTHON.exists() and not run_shown("venv", empty):
        raise BuildError(f"{sys.executable} has no venv module")
    if (VENV / "bin" / "pip").exists():
        return inner
    if has_pip(outer):
        return outer
    if not run_shown("venv", [*venv, str(VENV)]):
        raise BuildError(f"{sys.executable} has neither pip nor ensurepip")
    return inner


def has_pip(command: list[str]) -> bool:
    """Whether a pip answers; those before 22.3 cannot fill another environment."""
    asked = [*command, "--version"]
    return subprocess.run(asked, capture_output=True).returncode == 0


def say(text: str) -> None:
    print(f"build: {text}", flush=True)


def run_shown(label: str, command: list[str], cwd: Path = ROOT) -> bool:
    """Run with its output shown, and a sign of life while it is silent."""
    start = time.monotonic()
    try:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, cwd=cwd)
    except OSError as error:
        say(f"{label}: {error}")
        return False
    while True:
        try:
            return process.wait(timeout=15) == 0
        except subprocess.TimeoutExpired:
            say(f"{label}: still at work, {time.monotonic() - start:.0f} s")


# ---- the archive


DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


class Source(NamedTuple):
    """What goes into the archive, and the facts it is stamped with."""

    files: dict[str, bytes]  # by name below site-packages
    licence: bytes
    version: str
    commit: str
    dirty: bool
    epoch: int

    @property
    def build_id(self) -> str:
        return digest_of(self.files)


def package_files() -> dict[str, bytes]:
    return {
        path.relative_to(ROOT).as_posix(): path.read_bytes()
        for path in (ROOT / "feishuperm").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }


def digest_of(files: dict[str, bytes]) -> str:
    digest = hashlib.sha256()
    for name, data in sorted(files.items()):
        digest.update(b"%s\0%d\0%s" % (name.encode(), len(data), data))
    return digest.hexdigest()


def read_source() -> Source:
    """The tree as it is now."""
    files = package_files()
    pyproject = (ROOT / "pyproject.toml").read_text("utf-8")
    version = re.search(r'^version = "(.+)"', pyproject, re.MULTILINE)
    if not version or f'"{version[1]}"'.encode() not in files["feishuperm/__init__.py"]:
        raise BuildError("pyproject.toml and feishuperm/__init__.py differ in version")
    commit, epoch = "unknown", NO_GIT_EPOCH
    if (ROOT / ".git").exists():
        commit, _, when = git("log", "-1", "--format=%H %ct").partition(" ")
        commit, epoch = commit or "unknown", int(when or epoch)
    epoch = int(os.environ.get("SOURCE_DATE_EPOCH") or epoch)
    dirty = commit != "unknown" and bool(
        git("status", "--porcelain", "feishuperm", "build.py", "pyproject.toml")
    )
    licence = (ROOT / "LICENSE").read_bytes()
    return Source(files, licence, version[1], commit, dirty, epoch)


def git(*arguments: str) -> str:
    """The output of a git command, empty if there is no git."""
    try:
        result = subprocess.run(
            ["git", "-C", str(ROOT), *arguments], capture_output=True, text=True
        )
    except OSError:
        return ""
    return result.stdout.strip() if result.returncode == 0 else ""


Place = tuple[int, int]  # row from 1, column in bytes


def without_prose(files: dict[str, bytes]) -> dict[str, bytes]:
    return {
        name: bare(data) if name.endswith(".py") else data
        for name, data in files.items()
    }


def bare(source: bytes) -> bytes:
    """The same program on the same lines, without what only people read.

    Other Pythons and tracebacks need no more, and it is a fifth of the whole file.
    """
    lines = source.split(b"\n")
    for (row, start), (last_row, end), text in sorted(prose(source), reverse=True):
        left = lines[row - 1][:start] + text + lines[last_row - 1][end:]
        lines[row - 1 : last_row] = [left.rstrip(), *[b""] * (last_row - row)]
    return b"\n".join(lines)


def prose(source: bytes) -> Iterator[tuple[Place, Place, bytes]]:
    """Where docstrings and comments begin and end, and what is put in their place."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, DOCUMENTED) and ast.get_docstring(node, clean=False):
            text = node.body[0]
            end = text.end_lineno or 0, text.end_col_offset or 0
            yield (text.lineno, text.col_offset), end, b'""'
    for token in tokenize.tokenize(io.BytesIO(source).readline):
        if token.type == tokenize.COMMENT:
            start = len(token.line[: token.start[1]].encode())
            end = token.end[0], start + len(token.string.encode())
            yield (token.start[0], start), end, b""


# ---- code: from here to `compile_stdin` runs in each CPython


class Bare(ast.NodeTransformer):
    """Takes out what is for mypy: so the code of two CPythons differs much less.

    It counts the names on its one way through the tree, which is most of the work.
    """

    def __init__(self) -> None:
        self.used: Counter[str] = Counter()  # names that stay, and run
        self.typed: Counter[str] = Counter()  # names that only annotations say

    def visit_Name(self, node: ast.Name) -> ast.AST:
        self.used[node.id] += 1
        return node

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        return node

    def visit_ImportFrom(self, node: ast.ImportFrom) -> ast.AST | None:
        return None if node.module == "__future__" else node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        self._drop(node.returns)
        node.returns = None
        return self.generic_visit(node)

    visit_AsyncFunctionDef = visit_FunctionDef  # type: ignore[assignment]  # noqa: N815

    def visit_arg(self, node: ast.arg) -> ast.AST:
        self._drop(node.annotation)
        node.annotation = None
        return node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        self._drop(node.annotation)  # is kept as text
        self.visit(node.target)
        node.value = self.visit(node.value) if node.value else None
        return node

    def visit_If(self, node: ast.If) -> ast.AST | None:
        is_typing = isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
        if not is_typing:
            return self.generic_visit(node)
        self._drop(node)
        return None

    def _drop(self, node: ast.AST | None) -> None:
        if node is not None:
            self.typed.update(names_in(node))


def without_types(text: bytes, file: str = "") -> ast.Module:
    """A module without annotations, and the imports that only they used."""
    tree = ast.parse(text, file)
    names = Bare()
    names.visit(tree)
    for node in tree.body:
        if isinstance(node, ast.ImportFrom):
            node.names = [
                alias
                for alias in node.names
                # Who imports a name and never says it wants the module to be loaded.
                if names.used[alias.asname or alias.name]
                or not names.typed[alias.asname or alias.name]
            ]
    tree.body = [node for node in tree.body if getattr(node, "names", True)]
    return tree


def names_in(tree: ast.AST) -> Counter[str]:
    return Counter(node.id for node in ast.walk(tree) if isinstance(node, ast.Name))


def compile_module(file: str, text: bytes) -> CodeType:
    tree = without_types(text, file)
    flags = annotations.compiler_flag
    code: CodeType = compile(tree, file, "exec", flags, True, 2)
    return shorten_lines(code) if sys.version_info >= (3, 11) else code


def shorten_lines(code: CodeType) -> CodeType:
    """The same code with one entry for a line, where Python has one for each step.

    The table of lines would be a tenth of the whole file (Objects/locations.md in
    CPython's sources describes it; 3.10 had a shorter one).
    """
    constants = (
        shorten_lines(item) if isinstance(item, CodeType) else item
        for item in code.co_consts
    )
    table = b"".join(encode_lines(lines_of(code), code.co_firstlineno))
    short = code.replace(co_linetable=table, co_consts=tuple(constants))
    assert lines_of(short) == lines_of(code)
    return short


def lines_of(code: CodeType) -> list[int | None]:
    """The line of every two bytes of code."""
    spans = code.co_lines()  # type: ignore[attr-defined,unused-ignore]
    return [line for start, end, line in spans for _ in range(start, end, 2)]


def encode_lines(lines: list[int | None], last: int) -> Iterator[bytes]:
    for line, units in itertools.groupby(lines):
        left = len(list(units))
        while left:
            length = min(left, 8)
            left -= length
            if line is None:
                yield bytes([0x80 | 15 << 3 | length - 1])
                continue
            step, last = line - last, line
            value = -step << 1 | 1 if step < 0 else step << 1
            yield bytes([0x80 | 13 << 3 | length - 1, *six_bits(value)])


def six_bits(value: int) -> Iterator[int]:
    while value > 63:
        yield 64 | value & 63
        value >>= 6
    yield value


def code_fields() -> list[str]:
    """What this CPython makes a code object of, in the order its type takes it."""
    names = ["argcount", "posonlyargcount", "kwonlyargcount", "nlocals", "stacksize"]
    names += ["flags", "code", "consts", "names", "varnames", "filename", "name"]
    if sys.version_info >= (3, 11):
        names += ["qualname", "firstlineno", "linetable", "exceptiontable"]
    else:
        line_table = "linetable" if sys.version_info >= (3, 10) else "lnotab"
        names += ["firstlineno", line_table]
    return [f"co_{name}" for name in [*names, "freevars", "cellvars"]]


def cache_sizes() -> dict[int, int]:
    """Of each instruction, how much room this CPython leaves behind it for itself."""
    table: Any = getattr(opcode, "_inline_cache_entries", {})
    pairs = table.items() if isinstance(table, dict) else enumerate(table)
    numbers: dict[Any, int] = opcode.opmap  # by name, which the table has since 3.13
    return {numbers.get(key, key): size for key, size in pairs if size}


def without_caches(code: bytes) -> bytes:
    """The instructions alone; `loader` puts the room behind them back."""
    sizes = cache_sizes()
    kept, at = b"", 0
    while at < len(code):
        end = at + 2 + 2 * sizes.get(code[at], 0)
        assert not any(code[at + 2 : end])
        kept += code[at : at + 2]
        at = end
    return kept


def take_apart(code: CodeType) -> Iterator[list[object]]:
    """What its code objects are made of, those inside another before that one."""
    parts = [getattr(code, name) for name in code_fields()]
    parts[CODE] = without_caches(code.co_code)
    parts[CONSTS] = tuple(
        INNER if isinstance(item, CodeType) else item for item in code.co_consts
    )
    for item in code.co_consts:
        if isinstance(item, CodeType):
            yield from take_apart(item)
    yield parts


def compile_stdin() -> int:
    """For `compile_all`: ({name: (file, text)}, often) in, Compiled out."""
    gc.disable()  # of a hundred thousand nodes hardly one is garbage before the end
    modules, often = marshal.load(sys.stdin.buffer)
    code = {name: compile_module(*module) for name, module in modules.items()}
    ready = {name: (modules[name][0], marshal.dumps(code.pop(name))) for name in READY}
    head = marshal.dumps((code.pop(LOADER), ready))
    # This format repeats a name instead of its number: sister's code is then alike.
    plain = 2 if sys.version_info < (3, 14) else marshal.version
    codes = {
        name: marshal.dumps(code[name], plain) if modules[name][1] else b""
        for name in often
    }
    rest = {
        name: list(take_apart(code[name])) if modules[name][1] else []
        for name in sorted(code.keys() - codes)
    }
    # Like stands beside like: a seventh less to store than one after the other.
    columns = [list(column) for column in zip(*itertools.chain(*rest.values()))]
    compiled = (
        codes,
        head,
        {name: len(parts) for name, parts in rest.items()},
        marshal.dumps(columns, plain),
        cache_sizes(),
    )
    sys.stdout.buffer.write(marshal.dumps(compiled, 2))
    return 0


class Compiled(NamedTuple):
    """The modules as one CPython's code."""

    codes: dict[str, bytes]  # by name, what starts often, but for the loader and READY
    head: bytes  # these, ready to run
    counts: dict[str, int]  # by name, all others: of how many code objects
    columns: bytes  # what these are made of, a list for each of code_fields()
    caches: dict[int, int]  # the result of cache_sizes()


def starts_often(files: dict[str, bytes]) -> list[str]:
    """OFTEN, and what is imported with them, but for what is ready to run."""
    modules, names, left = find_modules(files), set(), list(OFTEN)
    while left:
        name = left.pop()
        if name in modules and name not in names:
            names.add(name)
            left += [name.rpartition(".")[0], *imports_of(files[modules[name]])]
    return sorted(names.difference(READY, [LOADER]))


def imports_of(text: bytes) -> Iterator[str]:
    for node in without_types(text).body:
        if isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def find_modules(files: dict[str, bytes]) -> dict[str, str]:
    """Every module: its name, and its file."""
    return {
        file[:-3].removesuffix("/__init__").replace("/", "."): file
        for file in sorted(files)
        if file.endswith(".py")
    }


def compile_all(
    files: dict[str, bytes], python: Python, often: Sequence[str] = ()
) -> Compiled:
    """Compile every module with one CPython. Raises BuildError."""
    modules = {name: (file, files[file]) for name, file in find_modules(files).items()}
    result = subprocess.run(
        [python.path, "-BsS", __file__, "--compile"],
        env={"PYTHONHASHSEED": "0"},  # sets among the constants are written in order
        cwd="/",
        input=marshal.dumps((modules, list(often) or starts_often(files)), 2),
        capture_output=True,
    )
    if result.returncode:
        raise BuildError(f"{python.version}: {result.stderr.decode()}")
    return Compiled(*marshal.loads(result.stdout))


def deflate(data: bytes, dictionary: bytes) -> bytes:
    """As small as zlib can, given a text that is much the same."""
    deflater = zlib.compressobj(9, zdict=dictionary)
    return deflater.compress(data) + deflater.flush()


def squeeze(data: bytes) -> bytes:
    """As small as lzma can, when likes may be far apart."""
    import lzma  # of this Python alone: those that compile may lack it

    memory = 1 << 24  # a reader needs as much, if there is so much to read
    options = {"preset": 9 | lzma.PRESET_EXTREME, "dict_size": memory, "pb": 0}
    filters = [{"id": lzma.FILTER_LZMA2, **options}]
    return lzma.compress(data, check=lzma.CHECK_NONE, filters=filters)


Span = tuple[int, int]  # length and place, as pread takes them


def bases_of(python: Python, pythons: Iterable[Python]) -> list[Python]:
    """The CPythons whose code leads to that of this one, which is the last of them."""
    wanted = BASES.get(python.minor)
    base = next((other for other in pythons if other.minor == wanted), None)
    return [*bases_of(base, pythons), python] if base else [python]


class Body:
    """What stands between sh text and zip, and where."""

    def __init__(
        self, mark: bytes, compiled: dict[Python, Compiled], modules: dict[str, str]
    ) -> None:
        # Should the file be replaced between sh and Python, what BOOT finds is not what
        # it knows: the mark says so before marshal reads code of another loader.
        self.mark = mark
        self.compiled = compiled
        self.modules = modules
        self.data = bytearray(TABLE_SIZE)
        self.sections: dict[Python, tuple[int, list[int]]] = {}
        for python in compiled:
            self.put_codes(python)
        self.rest: dict[Python, tuple[int, int, int]] = {}
        self.rest_place = self.put_rest()
        for python in compiled:
            self.put_head(python)

    @property
    def end(self) -> int:
        return TEXT_SIZE + len(self.data)

    def put(self, data: bytes) -> Span:
        place = self.end
        self.data += data
        return len(data), place

    def put_codes(self, python: Python) -> None:
        *bases, _ = bases_of(python, self.compiled)
        near = self.compiled[bases[-1]].codes if bases else {}
        place, lengths = self.end, []
        for name, code in self.compiled[python].codes.items():
            packed = deflate(code, near.get(name, b"")) if code else b""
            lengths.append(self.put(packed)[0])
        self.sections[python] = place, lengths

    def put_rest(self) -> Span:
        """A reader stops at the end of its part: the newest Pythons wait least."""
        rest = b""
        for python in sorted(self.compiled, key=lambda python: -python.minor):
            columns = self.compiled[python].columns
            end = len(rest) + len(columns)
            self.rest[python] = len(rest), end, zlib.crc32(columns)
            rest += columns
        return self.put(squeeze(rest))

    def put_head(self, python: Python) -> None:
        compiled = self.compiled[python]
        bases = bases_of(python, self.compiled)
        files = [self.modules[name] for name in (*compiled.codes, *compiled.counts)]
        sections = [self.sections[base] for base in bases]
        counts = list(compiled.counts.values())
        rest = self.rest_place, *self.rest[python]
        index = files, sections, counts, rest, compiled.caches
        head = self.put(compiled.head + bytes.fromhex(python.magic) + self.mark)
        row = *head, *self.put(zlib.compress(marshal.dumps(index, 2), 9))
        place = ROW_SIZE * python.minor
        packed = b"".join(number.to_bytes(4, "big") for number in row)
        self.data[place : place + ROW_SIZE] = packed


def make_text(version: str, mark: bytes) -> tuple[bytes, str]:
    """The sh text, and the BOOT that is in it."""
    others = OTHERS.replace("@NAMES@", repr(HOOK_NAMES))
    room = TEXT_SIZE - len(others)
    boot = BOOT.replace("@OTHERS@", str(room)).replace("@MARK@", mark.decode())
    boot = boot.replace("@TEXT@", str(TEXT_SIZE)).replace("@ROW@", str(ROW_SIZE))
    text = SH.replace("@VERSION@", version).replace("@BOOT@", boot)
    text = text.replace("@SH_NAMES@", " | ".join(HOOK_NAMES))
    if len(text) > room:
        raise BuildError(f"the sh text has {len(text)} bytes, there is room for {room}")
    return (text.ljust(room, "\n") + others).encode(), boot


def make_prefix(
    files: dict[str, bytes], source: Source, pythons: list[Python]
) -> tuple[bytes, str]:
    """Everything before the zip, and the BOOT that is in it."""
    with ThreadPoolExecutor() as pool:
        often = starts_often(files)
        results = pool.map(lambda python: compile_all(files, python, often), pythons)
        compiled = dict(zip(pythons, results))
    mark = source.build_id[:8].encode()
    body = Body(mark, compiled, find_modules(files))
    text, boot = make_text(source.version, mark)
    return text + body.data, boot


def build_facts(source: Source) -> bytes:
    """The module that only a built archive has."""
    return (
        '"""The facts of this build, written by build.py."""\n\n'
        f"COMMIT = {source.commit!r}\n"
        f"DIRTY = {source.dirty!r}\n"
        f"BUILD_ID = {source.build_id!r}\n"
    ).encode()


def run_shiv(files: dict[str, bytes], epoch: int) -> dict[str, bytes]:
    """shiv's own archive of a tree, as its members by name."""
    with tempfile.TemporaryDirectory(prefix="feishuperm-build-") as scratch:
        stage, output = Path(scratch, "stage"), Path(scratch, "shiv.pyz")
        for name, data in files.items():
            write_file(stage / name, data)
        command = [str(TOOLS_PYTHON), "-m", "shiv.cli", "--site-packages", str(stage)]
        command += ["-e", "feishuperm.cli:main", "-o", str(output)]
        environ = {**os.environ, "SOURCE_DATE_EPOCH": str(epoch)}
        result = subprocess.run(command, env=environ, capture_output=True, text=True)
        if result.returncode:
            raise BuildError(f"shiv failed: {result.stderr.strip() or result.stdout}")
        with zipfile.ZipFile(output) as archive:
            return {name: archive.read(name) for name in archive.namelist()}


def make_archive(source: Source, pythons: list[Python]) -> bytes:
    """The whole file."""
    files = {"feishuperm/_build.py": build_facts(source), **source.files}
    with ThreadPoolExecutor(1) as beside:
        plain = beside.submit(without_prose, files)
        prefix, boot = make_prefix(files, source, pythons)
    members = run_shiv(plain.result(), source.epoch)
    members["LICENSE"] = source.licence
    members["__main__.py"] = MAIN.replace("@BOOT@", repr(boot)).encode()
    environment = json.loads(members["environment.json"])
    environment["build_id"] = source.build_id  # the one that `version` shows
    members["environment.json"] = json.dumps(environment, sort_keys=True).encode()
    return prefix + make_zip(members, source.epoch, len(prefix))


def make_zip(members: dict[str, bytes], epoch: int, offset: int) -> bytes:
    """A zip that stands `offset` bytes into a file and depends on nothing else."""
    date = time.gmtime(max(epoch, 315_532_800))[:6]  # zip begins in 1980
    output = io.BytesIO()
    output.seek(offset)
    with zipfile.ZipFile(output, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name in sorted(name for name in members if not name.endswith("/")):
            info = zipfile.ZipInfo(name, date)
            info.compress_type = zipfile.ZIP_DEFLATED
            info.create_system = 3
            info.external_attr = 0o100644 << 16
            archive.writestr(info, members[name])
    return output.getvalue()[offset:]


def write_file(path: Path, data: bytes, mode: int = 0o644) -> None:
    """Write so that a reader sees the old file or the new one, never a part."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    temporary.write_bytes(data)
    temporary.chmod(mode)
    temporary.replace(path)


# ---- the check of what was built


def answer_one_hook(server: socket.socket, answer: bytes) -> None:
    """A server for one request: registered, then decided."""
    connection, _ = server.accept()
    with connection:
        connection.recv(65536)
        for kind, body in ((b"A", b"5"), (b"D", answer)):
            connection.sendall((len(body) + 1).to_bytes(4, "big") + kind + body)


def check_hook(archive: Path, python: Python, scratch: Path) -> None:
    """The built hook relays one answer."""
    answer = b'{"hookSpecificOutput": {}}\n'
    path = str(scratch / "s")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(path)
        server.listen()
        server.settimeout(30)
        thread = threading.Thread(
            target=answer_one_hook, args=(server, answer), daemon=True
        )
        thread.start()
        event = b'{"hook_event_name":"PermissionRequest"}'
        environ = {"PERMISSION_SOCKET_PATH": path}
        result = run_built(archive, python, ["hook"], scratch, environ, event)
        thread.join(30)
    os.unlink(path)
    if result.stdout != answer or result.stderr or result.returncode:
        raise BuildError(f"{python.version}: the built hook said {result}")


def check_version(archive: Path, python: Python, scratch: Path) -> None:
    """The built command line runs, and the hook's code is compiled for this Python."""
    result = run_built(archive, python, ["version", "--json"], scratch, {})
    try:
        facts = json.loads(result.stdout)
    except ValueError:
        raise BuildError(f"{python.version}: `version` said {result}") from None
    if not facts["fast"] or facts["python"] != python.version:
        raise BuildError(f"{python.version}: `version` said {facts}")


def run_built(
    archive: Path,
    python: Python,
    arguments: list[str],
    scratch: Path,
    environ: dict[str, str],
    stdin: bytes = b"",
) -> subprocess.CompletedProcess[bytes]:
    """Run the built file with a certain interpreter, as an installation pins it."""
    write_file(scratch / "feishuperm" / "python", python.path.encode() + b"\n")
    return subprocess.run(
        [str(archive), *arguments],
        env={"PATH": os.defpath, "XDG_CONFIG_HOME": str(scratch), **environ},
        cwd=scratch,
        input=stdin,
        capture_output=True,
        timeout=60,
    )


def check(archive: Path, pythons: list[Python]) -> None:
    """Raises BuildError when the file does not run somewhere."""
    with tempfile.TemporaryDirectory(prefix="feishuperm-check-") as scratch:
        for python in pythons:
            check_version(archive, python, Path(scratch))
            check_hook(archive, python, Path(scratch))


# ---- commands


def command_build(arguments: list[str]) -> int:
    """Build dist/feishuperm.pyz and check it (--release: for every CPython)."""
    if unknown := [name for name in arguments if name != "--release"]:
        raise BuildError(f"build: unknown argument {unknown[0]}")
    with build_lock():
        build(find_pythons(), release="--release" in arguments)
    return 0


@contextmanager
def build_lock() -> Iterator[None]:
    """Two builds at a time would share .build and dist."""
    CACHE.mkdir(exist_ok=True)
    with open(CACHE / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def ensure_archive() -> Path:
    """The archive of these sources for at least these CPythons, built if need be."""
    with build_lock():
        pythons = find_pythons()
        if not is_built(pythons):
            build(pythons)
    return ARCHIVE


def is_built(pythons: Iterable[Python]) -> bool:
    """Whether the stamp says that what lies in dist/ is what would be built.

    By content: a checkout of another branch and back leaves newer times behind.
    """
    try:
        stamp = json.loads(STAMP.read_bytes())
        digest = hashlib.sha256(ARCHIVE.read_bytes()).hexdigest()
    except (OSError, ValueError):
        return False
    same = (stamp["inputs"], stamp["archive"]) == (input_digest(), digest)
    return same and {python.magic for python in pythons} <= set(stamp["magics"])


def input_digest() -> str:
    """Of every file that a build reads."""
    names = ("build.py", "pyproject.toml", "install.sh", "LICENSE")
    files = package_files() | {name: (ROOT / name).read_bytes() for name in names}
    return digest_of(files)


def build(pythons: list[Python], release: bool = False) -> None:
    ensure_tools("build")
    say("compiled for " + ", ".join(f"{p.version} ({p.path})" for p in pythons))
    missing = set(RELEASE_MINORS) - {python.minor for python in pythons}
    if missing and release:
        names = ", ".join(f"3.{minor}" for minor in sorted(missing))
        raise BuildError(f"a release needs CPython {names} on this machine")
    inputs, source = input_digest(), read_source()
    data = make_archive(source, pythons)
    if len(data) > SIZE_LIMIT:
        text = f"the archive has {len(data)} bytes; the limit is {SIZE_LIMIT}"
        if release:
            raise BuildError(text)
        say(text)
    fresh = ARCHIVE.with_name("feishuperm.pyz.new")
    write_file(fresh, data, 0o755)
    check(fresh, pythons)
    fresh.replace(ARCHIVE)
    digest = hashlib.sha256(data).hexdigest()
    write_file(DIST / "SHA256SUMS", f"{digest}  {ARCHIVE.name}\n".encode())
    write_file(DIST / "install.sh", make_installer(source.version, digest), 0o755)
    magics = [python.magic for python in pythons]
    stamp = {"inputs": inputs, "archive": digest, "magics": magics}
    write_file(STAMP, json.dumps(stamp).encode())
    say(f"{ARCHIVE.relative_to(ROOT)}  {len(data)} bytes  sha256 {digest}")


def make_installer(version: str, digest: str) -> bytes:
    """install.sh with the checksum of the file that is released beside it."""
    script = (ROOT / "install.sh").read_text("utf-8")
    script = script.replace("\nversion=''\n", f"\nversion='{version}'\n", 1)
    return script.replace("\nsha256=''\n", f"\nsha256='{digest}'\n", 1).encode()


def command_test(arguments: list[str]) -> int:
    """Run the tests: the quick ones, a PATH, or --full (--system: by apt and npm)."""
    system = bool(os.environ.get("CI")) or "--system" in arguments
    full = "--full" in arguments
    rest = [word for word in arguments if word not in ("--full", "--system")]
    paths = [word.partition("::")[0] for word in rest if is_path(word)]
    needs = markers_in(paths)
    ensure_tools("build", "test", *["full"] * (full or bool(needs - {"full"})))
    if full or needs - {"full", "sdk"} or "--system" in arguments:
        parts = [sys.executable, str(ROOT / "tests" / "system_parts.py")]
        subprocess.call([*parts, *["--install"] * system])
    if not full and not needs:
        os.environ[ONLY_THIS_PYTHON] = "1"
    ensure_archive()
    pytest = [str(TOOLS_PYTHON), "-m", "pytest", *pytest_options(paths, full), *rest]
    return subprocess.call(pytest, cwd=ROOT)


def is_path(word: str) -> bool:
    """Whether an argument for pytest names tests: a file, a folder, one test."""
    path = word.partition("::")[0]
    return word[:1] != "-" and (path.endswith(".py") or (ROOT / path).exists())


def markers_in(paths: list[str]) -> set[str]:
    """The markers of what the default leaves out that the files of these paths have."""
    folders = [ROOT / path for path in paths]
    files = [file for folder in folders for file in [folder, *folder.rglob("*.py")]]
    texts = [file.read_text("utf-8") for file in files if file.is_file()]
    names = re.findall(r"mark\.(\w+)", "\n".join(texts))
    return set(names).intersection(("full", *PART_MARKERS))


def pytest_options(paths: list[str], full: bool) -> list[str]:
    """Every core, unless it is one file; all that is quick, unless more is named."""
    several = len(paths) != 1 or (ROOT / paths[0]).is_dir()
    spread = ["-n", "auto", "--dist", "loadfile"] if several else []
    chosen = [] if paths or full else ["-m", "not full"]
    thorough = ["--hypothesis-profile=full"] if full else []
    return spread + chosen + thorough


def command_lint(arguments: list[str]) -> int:
    """ruff check, ruff format --check, mypy --strict."""
    ensure_tools("lint")
    ruff, mypy = str(VENV / "bin" / "ruff"), str(VENV / "bin" / "mypy")
    steps = [[ruff, "check"], [ruff, "format", "--check"], [mypy]]
    return max(subprocess.call(step, cwd=ROOT) for step in steps)


def run_tool(module: str, arguments: list[str]) -> int:
    """Run a program of tests/ against the archive."""
    ensure_tools("build", "test", "full")
    ensure_archive()
    return subprocess.call([str(TOOLS_PYTHON), "-m", module, *arguments], cwd=ROOT)


def command_bench(arguments: list[str]) -> int:
    """Run every bench or the named ones, and print one table of ratios."""
    return run_tool("tests.bench", arguments)


def command_soak(arguments: list[str]) -> int:
    """Try for an hour to break it: fuzz, faults, app, gateway, ...."""
    return run_tool("tests.soak.choose", arguments)


COMMANDS: dict[str, Callable[[list[str]], int]] = {
    "build": command_build,
    "test": command_test,
    "lint": command_lint,
    "bench": command_bench,
    "soak": command_soak,
}


def usage() -> str:
    rows = [f"  {name:6} {function.__doc__}" for name, function in COMMANDS.items()]
    return "\n".join(["usage: python3 build.py [command]", *rows])


def main(arguments: list[str]) -> int:
    if arguments == ["--compile"]:
        return compile_stdin()
    if set(arguments[:1]) & {"-h", "--help", "help"}:
        print(usage())
        return 0
    if not arguments or arguments[0].startswith("-"):
        arguments = ["build", *arguments]
    if arguments[0] not in COMMANDS:
        print(f"build: unknown command {arguments[0]}\n{usage()}", file=sys.stderr)
        return 2
    try:
        return COMMANDS[arguments[0]](arguments[1:])
    except BuildError as error:
        print(f"build: {error}", file=sys.stderr)
    except OSError as error:  # a clone that cannot be written, a full disk
        place = f"{error.filename}: " if error.filename else ""
        print(f"build: {place}{error.strerror or error}", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
