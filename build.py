#!/usr/bin/env python3
"""Build, test, lint and release feishuperm: `python3 build.py --help`.

Needs nothing but Python 3.9: the tools go into a private environment in `.build/`.
shiv makes the archive; `archive.py` gives it another start.  Nothing is ever unpacked
to run it.  Same commit and same set of CPythons: same bytes.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import marshal
import os
import re
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from archive import (
    BuildError,
    Python,
    check,
    list_sources,
    make_codes,
    make_text,
    make_zip,
    write_file,
)
from feishuperm.codes import LOADER, READY, digest_of, find_modules, make_pack, mark_of

ROOT = Path(__file__).resolve().parent
# What a build reads, besides the package.
INPUTS = ("archive.py", "build.py", "pyproject.toml", "install.sh", "LICENSE")
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

MINORS = range(9, 20)  # CPythons that get compiled code, if they are here
RELEASE_MINORS = range(9, 14)  # a release without one of these would start slowly
SIZE_LIMIT = 1_500_000  # of a release, in bytes
# What one event with one command needs, a review, and `version`, before `install` has
# put the code of everything beside the archive.  More of it makes the archive larger by
# 100 kB for each thousand lines.
OFTEN = """
_build cli errors commands commands.hook commands.supervisor commands.version engine
engine.application engine.config_manager engine.hook_manager engine.shell_programs
engine.shell_template engine.variables lib lib.arguments lib.child lib.config
lib.control lib.files lib.log lib.secrets models models.fields models.hooks
models.names models.notice models.settings supervisor supervisor.event
supervisor.prompts supervisor.reviewer supervisor.state supervisor.supervisor
supervisor.verdict
"""
NO_GIT_EPOCH = 1_767_225_600  # 2026-01-01: any constant will do

PROBE = """\
import os, sys
from _frozen_importlib_external import MAGIC_NUMBER
v = sys.version_info
if sys.implementation.name == "cpython" and v[3] == "final":
    path = os.path.realpath(sys.executable)
    print("\\n".join([path, MAGIC_NUMBER.hex(), "%d.%d.%d" % v[:3]]))
"""


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


# ---- code


def pack_for(files: dict[str, bytes], python: Python) -> tuple[bytes, bytes]:
    """Head and codes of what starts often, made by one CPython. Raises BuildError."""
    wanted = {LOADER, *READY, *(f"feishuperm.{name}" for name in OFTEN.split())}
    modules = find_modules(files).items()
    chosen = {name: module for name, module in modules if name in wanted}
    result = subprocess.run(
        [python.path, "-BsS", "-X", "no_debug_ranges", __file__, "--pack"],
        env={"PYTHONHASHSEED": "0"},  # sets among the constants are written in order
        cwd="/",
        input=marshal.dumps(chosen, 2),
        capture_output=True,
    )
    if result.returncode:
        raise BuildError(f"{python.version}: {result.stderr.decode()}")
    head, codes = marshal.loads(result.stdout)
    return head, codes


def pack_stdin() -> int:
    """For `pack_for`."""
    pack = make_pack(marshal.load(sys.stdin.buffer), (LOADER,))
    sys.stdout.buffer.write(marshal.dumps(pack, 2))
    return 0


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
    mark = mark_of(files)
    text, main = make_text(source.version, mark)
    with ThreadPoolExecutor() as pool:
        packs = pool.map(lambda python: pack_for(files, python), pythons)
        members = run_shiv(files, source.epoch)
        by_python = dict(zip(pythons, packs))
    members["LICENSE"] = source.licence
    members["__main__.py"] = main
    environment = json.loads(members["environment.json"])
    environment["build_id"] = source.build_id  # the one that `version` shows
    members["environment.json"] = json.dumps(environment, sort_keys=True).encode()
    sources = list_sources(make_zip(members, source.epoch, 0))
    prefix = text + make_codes(by_python, mark, sources)
    return prefix + make_zip(members, source.epoch, len(prefix))


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
    return digest_of(files)


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
    if len(data) > SIZE_LIMIT:
        text = f"the archive has {len(data)} bytes; the limit is {SIZE_LIMIT}"
        if url:
            raise BuildError(text)
        say(text)
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
    "release": command_release,
    "bench": command_bench,
    "soak": command_soak,
}


def usage() -> str:
    rows = [f"  {name:7} {function.__doc__}" for name, function in COMMANDS.items()]
    return "\n".join(["usage: python3 build.py [command]", *rows])


def main(arguments: list[str]) -> int:
    if arguments == ["--pack"]:
        return pack_stdin()
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
