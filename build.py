#!/usr/bin/env python3
"""Build, test, lint and release feishuperm: `python3 build.py --help`.

Needs nothing but Python 3.9: the tools go into a private environment in `.build/`.
shiv makes the archive; this file gives it another start.  The result is, in one file:

    sh text    TEXT_SIZE bytes: finds the interpreter and runs `boot` with it, isolated;
               at its end `others`, for Pythons that the archive has no code for
    table      for each minor version length and place of its head, if it has one;
               first of all those of the list of sources
    packs      per CPython: a head, ready to run, with the loader and what `hook`
               needs, magic and mark; then each module that starts often, compressed
    sources    the list of the sources in the zip
    zip        from shiv: site-packages/, and our own __main__.py

The texts of the start are in `feishuperm/start/`.  `boot` is short: it is compiled at
every start; `others` runs what `install` put beside the archive, else the sources.
Nothing is ever unpacked or written, and no variable but XDG_CONFIG_HOME and HOME has a
say in which code runs.  Same commit and same set of CPythons: same bytes.
"""

from __future__ import annotations

import ast
import fcntl
import hashlib
import io
import json
import marshal
import os
import re
import struct
import subprocess
import sys
import tempfile
import time
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from glob import glob
from pathlib import Path
from typing import Any, NamedTuple

from feishuperm import compiled, loader
from feishuperm.messages import CATALOGUE
from feishuperm.models.names import PROGRAMS

ROOT = Path(__file__).resolve().parent
# What a build reads, besides the package.
INPUTS = ("build.py", "pyproject.toml", "install.sh", "LICENSE")
CACHE = ROOT / ".build"
VENV = CACHE / "venv"
TOOLS_PYTHON = VENV / "bin" / "python"
DIST = ROOT / "dist"
ARCHIVE = DIST / "feishuperm.pyz"
STAMP = CACHE / "archive.json"  # what dist/feishuperm.pyz was built from and for
# A variable: set, everything is built and tested for the running CPython alone.
ONLY_THIS_PYTHON = "FEISHUPERM_ONLY_THIS_PYTHON"

MINORS = range(9, 20)  # CPythons that get compiled code, if they are here
RELEASE_MINORS = range(9, 14)  # a release without one of these would start slowly
SIZE_LIMIT = 1_500_000  # of a release, in bytes
TEXT_SIZE = loader.SOURCES_AT  # of the sh text; the table follows
TABLE_SIZE = 8 * 32  # two numbers for Python 3.0 to 3.31; 3.0 stands for the sources
START = ROOT / "feishuperm" / "start"
HOOK_NAMES = tuple(name for name, command in PROGRAMS.items() if command == "hook")
NO_GIT_EPOCH = 1_767_225_600  # 2026-01-01: any constant will do
HAVE_DOCSTRINGS = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)

PACK = """\
import marshal, sys
from feishuperm import compiled
pack = compiled.make_pack(marshal.load(sys.stdin.buffer), (compiled.LOADER,))
sys.stdout.buffer.write(marshal.dumps(pack, 2))
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
    alone = os.environ.get(ONLY_THIS_PYTHON)
    for path in [sys.executable] if alone else dict.fromkeys(candidate_pythons()):
        python = probe(path)
        if python and python.minor in MINORS:
            found.setdefault(python.magic, python)
    return sorted(found.values(), key=lambda python: python.minor)


def candidate_pythons() -> Iterator[str]:
    """Every path where a CPython may be, the running one first."""
    yield os.path.realpath(sys.executable)
    named = os.environ.get("PATH", "").split(os.pathsep)
    # A shim starts slowly what lies beside it.
    shims = [folder for folder in named if os.path.basename(folder) == "shims"]
    roots = [os.environ.get("PYENV_ROOT"), os.path.expanduser("~/.pyenv")]
    roots += map(os.path.dirname, shims)
    folders = [one for root in roots if root for one in glob(f"{root}/versions/*/bin")]
    folders += [folder for folder in named if folder not in shims]
    for folder in [*folders, "/usr/bin", "/usr/local/bin", "/opt/homebrew/bin"]:
        for name in ["python3", *(f"python3.{minor}" for minor in MINORS)]:
            path = os.path.join(folder, name)
            if os.path.isabs(path) and os.access(path, os.X_OK):
                yield path


def probe(path: str) -> Python | None:
    """What an interpreter says about itself; None if it is not a CPython we know."""
    try:
        result = quietly([path, "-I", "-S", "-c", PROBE], timeout=30)
    except (OSError, subprocess.TimeoutExpired):
        return None
    lines = result.stdout.splitlines()
    return Python(*lines) if result.returncode == 0 and len(lines) == 3 else None


# ---- tools


def quietly(command: list[str], **options: Any) -> subprocess.CompletedProcess[str]:
    """Run with nothing to read, and keep what it says."""
    options.update(stdin=subprocess.DEVNULL, capture_output=True, text=True)
    return subprocess.run(command, **options)


def requirements(group: str) -> list[str]:
    """A dependency group of pyproject.toml; Python 3.9 has no TOML reader."""
    text = (ROOT / "pyproject.toml").read_text("utf-8")
    found = re.search(rf"^{group} = \[[^\n]*\n(.*?)^\]", text, re.DOTALL | re.MULTILINE)
    if not found:
        raise BuildError(f"pyproject.toml: no `{group}` group")
    return re.findall(r'^\s*"([^"]+)"', found.group(1), re.MULTILINE)


def ensure_tools(*groups: str) -> None:
    """Fill the private environment with what these groups name, if it lacks it."""
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
    return quietly([*command, "--version"]).returncode == 0


def say(text: str) -> None:
    print(f"build: {text}", flush=True)


def run_shown(label: str, command: list[str], cwd: Path = ROOT) -> bool:
    """Run with its output shown; whether it succeeded."""
    try:
        return subprocess.call(command, stdin=subprocess.DEVNULL, cwd=cwd) == 0
    except OSError as error:
        say(f"{label}: {error}")
        return False


# ---- the archive


class Source(NamedTuple):
    """What goes into the archive, and the facts it is stamped with."""

    files: dict[str, bytes]  # by name below site-packages
    version: str
    commit: str
    dirty: bool
    epoch: int

    @property
    def build_id(self) -> str:
        return compiled.digest_of(self.files)


def package_files() -> dict[str, bytes]:
    """The package as it is built in: its catalogue of sentences is compiled."""
    files = {
        path.relative_to(ROOT).as_posix(): path.read_bytes()
        for path in (ROOT / "feishuperm").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    catalogue = f"feishuperm/{CATALOGUE}"
    if f"{catalogue}.po" not in files:
        raise BuildError(f"{catalogue}.po is missing: nothing could be said in Chinese")
    files[f"{catalogue}.mo"] = compiled.compile_po(
        files.pop(f"{catalogue}.po").decode()
    )
    return files


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
    inputs = ("feishuperm", *INPUTS)
    dirty = commit != "unknown" and bool(git("status", "--porcelain", *inputs))
    return Source(files, version[1], commit, dirty, epoch)


def git(*arguments: str) -> str:
    """The output of a git command, empty if there is no git."""
    try:
        result = quietly(["git", "-C", str(ROOT), *arguments])
    except OSError:
        return ""
    return result.stdout.strip() if result.returncode == 0 else ""


# ---- code


def pack_for(files: dict[str, bytes], python: Python) -> tuple[bytes, bytes]:
    """Head and codes of what starts often, made by one CPython. Raises BuildError."""
    # What an event with one command needs; a thousand lines more would take 100 kB.
    names = start_text("often.txt").split()
    wanted = {
        compiled.LOADER,
        *compiled.READY,
        *(f"feishuperm.{name}" for name in names),
    }
    modules = compiled.find_modules(files).items()
    chosen = {name: module for name, module in modules if name in wanted}
    result = subprocess.run(
        [python.path, "-BsS", "-X", "no_debug_ranges", "-c", PACK],
        env={"PYTHONHASHSEED": "0"},  # sets among the constants are written in order
        cwd=ROOT,
        input=marshal.dumps(chosen, 2),
        capture_output=True,
    )
    if result.returncode:
        raise BuildError(f"{python.version}: {result.stderr.decode()}")
    head, body = marshal.loads(result.stdout)
    return head, body


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
        result = quietly(command, env=environ)
        if result.returncode:
            raise BuildError(f"shiv failed: {result.stderr.strip() or result.stdout}")
        with zipfile.ZipFile(output) as archive:
            return {name: archive.read(name) for name in archive.namelist()}


def without_docstrings(text: str) -> str:
    """What `python3 -OO` leaves of a module, each line in its place."""
    lines = text.split("\n")
    for node in ast.walk(ast.parse(text)):
        if not isinstance(node, HAVE_DOCSTRINGS) or ast.get_docstring(node) is None:
            continue
        docstring, *others = node.body
        first, last = docstring.lineno - 1, docstring.end_lineno
        lines[first:last] = [""] * len(lines[first:last])
        if not others and not isinstance(node, ast.Module):
            lines[first] = " " * docstring.col_offset + "..."
    return "\n".join(lines)


def make_archive(source: Source, pythons: list[Python]) -> bytes:
    """The whole file; docstrings, an eighth of it, stay in the repository."""
    files = {"feishuperm/_build.py": build_facts(source), **source.files}
    for name in filter(lambda name: name.endswith(".py"), files):
        files[name] = without_docstrings(files[name].decode()).encode()
    mark = compiled.mark_of(files)
    text, main = make_text(source.version, mark)
    with ThreadPoolExecutor() as pool:
        packs = pool.map(lambda python: pack_for(files, python), pythons)
        members = run_shiv(files, source.epoch)
        by_python = dict(zip(pythons, packs))
    members["LICENSE"] = (ROOT / "LICENSE").read_bytes()
    members["__main__.py"] = main
    environment = json.loads(members["environment.json"])
    environment["build_id"] = source.build_id  # the one that `version` shows
    members["environment.json"] = json.dumps(environment, sort_keys=True).encode()
    sources = list_sources(make_zip(members, source.epoch, 0))
    prefix = text + make_codes(by_python, mark, sources)
    return prefix + make_zip(members, source.epoch, len(prefix))


# ---- the parts of the file


def start_text(name: str, **facts: object) -> str:
    """A text of `feishuperm/start/`, each @NAME@ replaced by its fact."""
    text = (START / name).read_text("utf-8")
    for key, fact in facts.items():
        text = text.replace(f"@{key}@", str(fact))
    return text


def make_text(version: str, mark: bytes) -> tuple[bytes, bytes]:
    """The sh text, and the `__main__.py` for `python3 feishuperm.pyz`."""
    source = Path(loader.__file__).read_text("utf-8")
    beside = re.search(r"^def open_beside.*?(?=^def )", source, re.M | re.S)
    assert beside
    facts: dict[str, object] = {"MARK": mark.decode(), "TEXT": TEXT_SIZE}
    sources = repr(start_text("sources.txt", **facts))
    facts.update(SOURCES=sources, BESIDE=beside[0], NAMES=repr(HOOK_NAMES))
    others = start_text("others.txt", **facts)
    room = TEXT_SIZE - len(others)
    boot = start_text("boot.txt", OTHERS=room, **facts)
    sh_names = " | ".join(HOOK_NAMES)
    text = start_text("start.sh", VERSION=version, SH_NAMES=sh_names, BOOT=boot)
    if len(text) > room:
        raise BuildError(f"the sh text has {len(text)} bytes, there is room for {room}")
    main = start_text("main.txt", BOOT=repr(boot))
    return (text.ljust(room, "\n") + others).encode(), main.encode()


def make_codes(
    packs: dict[Python, tuple[bytes, bytes]], mark: bytes, sources: bytes
) -> bytes:
    """What stands between sh text and zip: table, packs, list of sources."""
    table, data = bytearray(TABLE_SIZE), b""
    begin = TEXT_SIZE + TABLE_SIZE
    for python, (head, body) in packs.items():
        # Should the file be replaced between sh and Python, what BOOT finds is not what
        # it knows: the mark says so before marshal reads code of another loader.
        head += bytes.fromhex(python.magic) + mark
        struct.pack_into(">II", table, 8 * python.minor, len(head), begin + len(data))
        data += head + body
    struct.pack_into(">II", table, 0, len(sources), begin + len(data))
    return bytes(table) + data + sources


def list_sources(zipped: bytes) -> bytes:
    """Of every module and every other file: length, place in the zip, and sum.

    A module is listed by its name, another file by its own.
    """
    with zipfile.ZipFile(io.BytesIO(zipped)) as archive:
        infos = {info.filename: info for info in archive.infolist()}
    names = [name for name in infos if name.startswith(compiled.SITE)]
    files = {name[len(compiled.SITE) :]: b"" for name in names}
    listed = {name: file for name, (file, _) in compiled.find_modules(files).items()}
    listed.update((file, file) for file in files if not file.endswith(".py"))
    rows = {}
    for name, file in listed.items():
        info = infos[compiled.SITE + file]
        place = info.header_offset + 30 + len(info.filename)  # behind its own header
        rows[name] = file, info.compress_size, place, info.CRC
    return zlib.compress(marshal.dumps(rows, 2), 9)


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


def check(archive: Path, pythons: list[Python]) -> None:
    """Raises BuildError when the file does not run somewhere by its compiled code."""
    with tempfile.TemporaryDirectory(prefix="feishuperm-check-") as scratch:
        for python in pythons:
            pin = Path(scratch, "feishuperm", "python")  # as an installation has it
            write_file(pin, python.path.encode() + b"\n")
            env = {"PATH": os.defpath, "XDG_CONFIG_HOME": scratch}
            command = [str(archive), "version", "--json"]
            result = quietly(command, env=env, cwd=scratch, timeout=60)
            wanted = ('"fast": true', f'"python": "{python.version}"')
            if not all(fact in result.stdout for fact in wanted):
                raise BuildError(f"{python.version}: `version` said {result}")


# ---- commands


def command_build(arguments: list[str]) -> int:
    """Build dist/feishuperm.pyz for every CPython found, and check it."""
    if arguments:
        raise BuildError(f"build: unknown argument {arguments[0]}")
    with build_lock():
        build(find_pythons())
    return 0


def command_release(arguments: list[str]) -> int:
    """Write a release into dist/, to be copied to --url https://HOST/FOLDER."""
    if len(arguments) != 2 or arguments[0] != "--url":
        raise BuildError("release: where will it lie? --url https://HOST/FOLDER")
    url = arguments[1].rstrip("/")
    # The address ends up between single quotes in a script that people run unread.
    if not re.fullmatch(r"https://[\w.\-]+(:\d+)?(/[\w.~%+\-]+)*", url, re.ASCII):
        raise BuildError(f"release: {url} is not an https address of a folder")
    if git("status", "--porcelain") or read_source().commit == "unknown":
        raise BuildError("release: commit everything first (git status)")
    version = read_source().version
    notes = changes_of(version)
    with build_lock():
        build(find_pythons(), f"{url}/{ARCHIVE.name}")
    write_file(DIST / "CHANGELOG.md", notes.encode())
    say(f"version {version}: copy all of dist/ to {url}/")
    return 0


def changes_of(version: str) -> str:
    """The section of a version in the CHANGELOG. Raises BuildError."""
    text = (ROOT / "CHANGELOG.md").read_text("utf-8")
    heading = rf"^## {re.escape(version)} \(\d{{4}}-\d\d-\d\d\)\n"
    found = re.search(heading + r".*?(?=^## |\Z)", text, re.DOTALL | re.MULTILINE)
    if not found:
        raise BuildError(f"CHANGELOG.md has no section `## {version} (YYYY-MM-DD)`")
    return found[0].rstrip() + "\n"


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
    files = package_files()
    files.update({name: (ROOT / name).read_bytes() for name in INPUTS})
    return compiled.digest_of(files)


def build(pythons: list[Python], url: str = "") -> None:
    """Write dist/; with the address of a release, refuse what is none."""
    ensure_tools("build")
    say("compiled for " + ", ".join(f"{p.version} ({p.path})" for p in pythons))
    missing = set(RELEASE_MINORS) - {python.minor for python in pythons}
    if missing and url:
        names = ", ".join(f"3.{minor}" for minor in sorted(missing))
        raise BuildError(f"a release needs CPython {names} on this machine")
    inputs, source = input_digest(), read_source()
    data = make_archive(source, pythons)
    if url and len(data) > SIZE_LIMIT:
        raise BuildError(f"it has {len(data)} bytes; the limit is {SIZE_LIMIT}")
    fresh = ARCHIVE.with_name("feishuperm.pyz.new")
    write_file(fresh, data, 0o755)
    check(fresh, pythons)
    fresh.replace(ARCHIVE)
    digest = hashlib.sha256(data).hexdigest()
    write_file(DIST / "SHA256SUMS", f"{digest}  {ARCHIVE.name}\n".encode())
    installer = make_installer(source.version, url, digest)
    write_file(DIST / "install.sh", installer, 0o755)
    magics = [python.magic for python in pythons]
    stamp = {"inputs": inputs, "archive": digest, "magics": magics}
    write_file(STAMP, json.dumps(stamp).encode())
    say(f"{ARCHIVE.relative_to(ROOT)}  {len(data)} bytes  sha256 {digest}")


def make_installer(version: str, url: str, digest: str) -> bytes:
    """install.sh for the file that is released beside it."""
    script = (ROOT / "install.sh").read_text("utf-8")
    for name, fact in (("version", version), ("url", url), ("sha256", digest)):
        script = script.replace(f"\n{name}=''\n", f"\n{name}='{fact}'\n", 1)
    return script.encode()


def command_test(arguments: list[str]) -> int:
    """Run the quick tests, a PATH, or --full (--system: with apt and npm)."""
    return subprocess.call([sys.executable, "-m", "tests", *arguments], cwd=ROOT)


def command_lint(arguments: list[str]) -> int:
    """ruff check, ruff format --check, mypy --strict."""
    ensure_tools("lint")
    ruff, mypy = str(VENV / "bin" / "ruff"), str(VENV / "bin" / "mypy")
    steps = [[ruff, "check"], [ruff, "format", "--check"], [mypy]]
    return max(subprocess.call(step, cwd=ROOT) for step in steps)


def command_words(arguments: list[str]) -> int:
    """Bring the catalogue of sentences up to date, and name what has no Chinese."""
    ensure_tools("build", "test")
    return subprocess.call([str(TOOLS_PYTHON), "-m", "tests.words"], cwd=ROOT)


def command_bench(arguments: list[str], module: str = "tests.bench") -> int:
    """Run every bench or the named ones, and print one table of ratios."""
    ensure_tools("build", "test", "full")
    ensure_archive()
    return subprocess.call([str(TOOLS_PYTHON), "-m", module, *arguments], cwd=ROOT)


def command_soak(arguments: list[str]) -> int:
    """Try for an hour to break it: fuzz, faults, app, gateway, ...."""
    return command_bench(arguments, "tests.soak.choose")


def command_golden(arguments: list[str]) -> int:
    """Write tests/golden again: what people see, as files."""
    return command_bench(arguments, "tests.golden")


COMMANDS: dict[str, Callable[[list[str]], int]] = {
    function.__name__.rpartition("_")[2]: function
    for function in (command_build, command_test, command_lint, command_release,
                     command_bench, command_soak, command_golden,
                     command_words)
}  # fmt: skip


def usage() -> str:
    rows = [f"  {name:7} {function.__doc__}" for name, function in COMMANDS.items()]
    return "\n".join(["usage: python3 build.py [command]", *rows])


def main(arguments: list[str]) -> int:
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
