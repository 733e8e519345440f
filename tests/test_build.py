"""The build: same commit, same bytes; and what it does on an unknown machine."""

from __future__ import annotations

import ast
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import build
from feishuperm.compiled import SITE, find_modules, mark_of
from tests import conftest
from tests.__main__ import main as choose_tests
from tests.conftest import ROOT, clean_env
from tests.laid_down import head_of

ELLIPSIS = ast.parse("...").body[0]
# Shuffles every listing of a folder and shifts the clock, in every Python it reaches.
DISORDER = """\
import os, random, time
listdir, scandir, now = os.listdir, os.scandir, time.time
def shuffled(names):
    names = list(names)
    random.shuffle(names)
    return names
class Shuffled:
    def __init__(self, path="."):
        with scandir(path) as entries:
            self.entries = iter(shuffled(entries))
    def __iter__(self):
        return self.entries
    def __next__(self):
        return next(self.entries)
    def __enter__(self):
        return self
    def __exit__(self, *_):
        pass
    def close(self):
        pass
os.listdir = lambda path=".": shuffled(listdir(path))
os.scandir = Shuffled
time.time = lambda: now() + 86400 * 400
"""


def copy_tree(source: Path, target: Path, mode: int, mtime: int) -> None:
    """The sources in another folder, with tools borrowed from here."""
    target.mkdir(parents=True)
    for name in (*build.INPUTS, ".gitignore"):
        shutil.copy(source / name, target)
    ignore = shutil.ignore_patterns("__pycache__")
    shutil.copytree(source / "feishuperm", target / "feishuperm", ignore=ignore)
    for path in (target / "feishuperm").rglob("*"):
        path.chmod(mode | (0o100 if path.is_dir() else 0))
        os.utime(path, (mtime, mtime))
    (target / ".build").mkdir()
    (target / ".build" / "venv").symlink_to(build.VENV)


def commit_tree(folder: Path, *more: str) -> None:
    """One commit that has the same name wherever it is made."""
    date = "2026-03-04T05:06:07Z"
    env = clean_env(folder, GIT_CONFIG_GLOBAL="/dev/null", GIT_CONFIG_NOSYSTEM="1")
    env.update(GIT_AUTHOR_DATE=date, GIT_COMMITTER_DATE=date)
    user = ["-c", "user.name=test", "-c", "user.email=test@localhost"]
    # By index, so that the modes of the folder do not become part of the commit.
    for command in (
        ["init", "-q", "-b", "main"],
        ["config", "core.fileMode", "false"],
        ["add", *build.INPUTS, ".gitignore", "feishuperm", *more],
        [*user, "commit", "-q", "-m", "test"],
    ):
        subprocess.run(["git", *command], cwd=folder, env=env, check=True, timeout=60)


def run_build(folder: Path, *arguments: str, umask: int = 0o022, **extra: str) -> str:
    """Build in a folder; the sha256 it prints."""
    path = f"{os.path.dirname(os.path.realpath(sys.executable))}:/usr/bin:/bin"
    pyenv = os.environ.get("PYENV_ROOT", os.path.expanduser("~/.pyenv"))
    env = clean_env(folder, **{"PATH": path, "PYENV_ROOT": pyenv, **extra})
    result = subprocess.run(
        [sys.executable, str(folder / "build.py"), *arguments],
        cwd="/",
        env=env,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=170,
        preexec_fn=lambda: os.umask(umask) and None,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout.split()[-1]


@pytest.mark.full
def test_same_commit_same_bytes(tmp_path: Path) -> None:
    """Another folder, umask, clock, time zone, hash seed and directory order."""
    plain, odd = tmp_path / "a", tmp_path / "另一个 folder"
    copy_tree(ROOT, plain, 0o644, 1_600_000_000)
    copy_tree(plain, odd, 0o600, 1_700_000_000)
    for folder in (plain, odd):
        commit_tree(folder)
    (tmp_path / "sitecustomize.py").write_text(DISORDER)
    disorder = {"PYTHONPATH": str(tmp_path), "PYTHONHASHSEED": "7", "TZ": "Asia/Tokyo"}
    first = run_build(plain, PYTHONHASHSEED="1")
    second = run_build(odd, umask=0o077, **disorder)
    assert first == second
    built = odd / "dist" / "feishuperm.pyz"
    assert hashlib.sha256(built.read_bytes()).hexdigest() == second
    assert built.stat().st_mode & 0o777 == 0o755
    facts = facts_of(built)
    assert re.fullmatch("[0-9a-f]{40}", facts["COMMIT"])
    assert facts["DIRTY"] is False
    with open(odd / "feishuperm" / "errors.py", "a") as file:
        file.write("# changed\n")
    assert run_build(odd) != second
    assert facts_of(built)["DIRTY"] is True


@pytest.mark.full
def test_without_git_two_folders_make_the_same_bytes(tmp_path: Path) -> None:
    copy_tree(ROOT, tmp_path / "a", 0o644, 1_600_000_000)
    copy_tree(tmp_path / "a", tmp_path / "b", 0o600, 1_700_000_000)
    few = {"PYENV_ROOT": ""}  # more Pythons take longer and show no more here
    first = run_build(tmp_path / "a", **few)
    assert first == run_build(tmp_path / "b", umask=0o077, **few)
    built = tmp_path / "a" / "dist" / "feishuperm.pyz"
    assert facts_of(built)["COMMIT"] == "unknown"
    assert zipfile.ZipFile(built).infolist()[0].date_time == (2026, 1, 1, 0, 0, 0)
    run_build(tmp_path / "a", SOURCE_DATE_EPOCH="1700000000", **few)
    assert zipfile.ZipFile(built).infolist()[0].date_time[:3] == (2023, 11, 14)


def facts_of(path: Path) -> dict[str, object]:
    """The constants of `_build.py` in an archive."""
    with zipfile.ZipFile(path) as opened:
        tree = ast.parse(opened.read("site-packages/feishuperm/_build.py"))
    return {
        node.targets[0].id: ast.literal_eval(node.value)  # type: ignore[attr-defined]
        for node in tree.body
        if isinstance(node, ast.Assign)
    }


# ---- what is in the file


def test_archive_is_small_and_its_sum_is_noted(pyz: Path) -> None:
    assert pyz.stat().st_size < build.SIZE_LIMIT
    digest, name = (build.DIST / "SHA256SUMS").read_text().split()
    data = build.ARCHIVE.read_bytes()
    assert (digest, name) == (hashlib.sha256(data).hexdigest(), "feishuperm.pyz")


def test_archive_holds_the_sources_without_their_docstrings(pyz: Path) -> None:
    """Each line in its place, so that a traceback fits the repository."""
    files = build.package_files()
    with zipfile.ZipFile(pyz) as archive:
        for name in (name for name in files if name.endswith(".py")):
            packed = archive.read(SITE + name).decode()
            tree = ast.parse(files[name])
            for node in ast.walk(tree):
                if isinstance(node, build.HAVE_DOCSTRINGS) and ast.get_docstring(node):
                    nothing = [] if isinstance(node, ast.Module) else [ELLIPSIS]
                    node.body = node.body[1:] or nothing
            assert ast.dump(ast.parse(packed)) == ast.dump(tree), name
            assert packed.count("\n") == files[name].count(b"\n"), name


def test_members_are_sorted_and_alike(pyz: Path) -> None:
    infos = zipfile.ZipFile(pyz).infolist()
    names = [info.filename for info in infos]
    assert names == sorted(names)
    assert {info.external_attr >> 16 for info in infos} == {0o100644}
    assert len({info.date_time for info in infos}) == 1
    tops = {name.partition("/")[0] for name in names}
    assert tops == {
        *("LICENSE", "__main__.py", "_bootstrap", "environment.json", "site-packages")
    }
    packages = {
        name.split("/")[1] for name in names if name.startswith("site-packages/")
    }
    assert packages == {"feishuperm"}
    assert not [
        name for name in names if "__pycache__" in name or name.endswith(".pyc")
    ]


def test_shiv_info_reads_it(pyz: Path) -> None:
    command = [str(build.VENV / "bin" / "shiv-info"), "--json", str(pyz)]
    result = subprocess.run(command, capture_output=True, check=True, timeout=60)
    said = json.loads(result.stdout)
    assert said["entry_point"] == "feishuperm.cli:main"
    assert said["build_id"] == facts_of(pyz)["BUILD_ID"]


def test_boot_fits_between_single_quotes() -> None:
    text, main = build.make_text("1.2.3", b"0123456789abcdef")
    boot = re.findall(r"-c '(.*?)' \"\$0\"", text.decode(), re.DOTALL)[0]
    assert "@" not in text.decode().replace('"$@"', "")
    assert repr(boot) in main.decode()
    assert len(text) == build.TEXT_SIZE
    compile(boot, "boot", "exec")


def test_table_leads_to_the_heads(pyz: Path, pythons: list[build.Python]) -> None:
    data = pyz.read_bytes()
    with zipfile.ZipFile(pyz) as opened:
        names = [name for name in opened.namelist() if name.startswith(SITE)]
        mark = mark_of({name[len(SITE) :]: opened.read(name) for name in names})
    for python in pythons:
        size, offset = head_of(data, python)
        head = data[offset : offset + size]
        assert head[-20:] == bytes.fromhex(python.magic) + mark
        assert size < 40_000


def test_zip_follows_the_codes_at_once(pyz: Path) -> None:
    first = zipfile.ZipFile(pyz).infolist()[0]
    assert pyz.read_bytes()[first.header_offset :][:4] == b"PK\x03\x04"
    assert zipfile.ZipFile(pyz).testzip() is None


def test_text_that_has_no_room_is_refused() -> None:
    with pytest.raises(build.BuildError, match="there is room for"):
        build.make_text("1" * 4000, b"0123456789abcdef")


def test_module_that_does_not_compile_is_named(pythons: list[build.Python]) -> None:
    files = {"feishuperm/cli.py": b"x = (\n"}
    with pytest.raises(build.BuildError, match=r"feishuperm/cli\.py"):
        build.pack_for(files, pythons[0])


def test_modules_that_start_often_exist() -> None:
    names = {f"feishuperm.{name}" for name in build.start_text("often.txt").split()}
    there = {"feishuperm._build", *find_modules(build.package_files())}
    assert names <= there


# ---- the machine


def test_requirements_are_those_of_pyproject() -> None:
    tomllib = pytest.importorskip("tomllib")
    with open(ROOT / "pyproject.toml", "rb") as file:
        project = tomllib.load(file)
    for name, group in project["dependency-groups"].items():
        own = [one for one in group if isinstance(one, str)]
        assert build.requirements(name) == own
    assert project["project"]["dependencies"] == []
    assert build.read_source().version == project["project"]["version"]


def test_interpreters_do_not_depend_on_home(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A shims folder in PATH leads to the same versions as HOME and PYENV_ROOT do."""
    version = tmp_path / "pyenv" / "versions" / "3.99.0" / "bin"
    version.mkdir(parents=True)
    build.write_file(version / "python3", b"", 0o755)
    found = str(version / "python3")
    monkeypatch.setenv("HOME", str(tmp_path / "nobody"))
    monkeypatch.setenv("PATH", "/usr/bin")
    monkeypatch.delenv("PYENV_ROOT", raising=False)
    assert found not in set(build.candidate_pythons())
    monkeypatch.setenv("PATH", f"{tmp_path}/pyenv/shims:/usr/bin")
    assert found in set(build.candidate_pythons())
    monkeypatch.setenv("PATH", "/usr/bin")
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path / "pyenv"))
    assert found in set(build.candidate_pythons())


@pytest.mark.parametrize(
    "script",
    ["exit 3", "echo hello", "printf 'a\\nb\\n'", "exec sleep 0"],
)
def test_program_that_is_no_cpython_is_passed_over(tmp_path: Path, script: str) -> None:
    fake = tmp_path / "python3"
    fake.write_text(f"#!/bin/sh\n{script}\n")
    fake.chmod(0o755)
    assert build.probe(str(fake)) is None
    assert build.probe(str(tmp_path / "missing")) is None


def test_release_needs_every_cpython() -> None:
    pythons = [build.Python("/x", "00", f"3.{minor}.0") for minor in (9, 11, 12, 13)]
    with pytest.raises(build.BuildError, match=r"a release needs CPython 3\.10 "):
        build.build(pythons, "https://host/x")


def test_archive_that_is_too_large_is_no_release(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(build, "RELEASE_MINORS", [])
    monkeypatch.setattr(build, "SIZE_LIMIT", 1000)
    monkeypatch.setattr(build, "make_archive", lambda source, pythons: bytes(1001))
    with pytest.raises(build.BuildError, match="1001 bytes; the limit is 1000"):
        build.build([], "https://host/x")


@pytest.mark.parametrize(
    "arguments",
    [
        *(
            [],
            ["--url"],
            ["--url", ""],
            ["https://host/x"],
            ["--url", "https://h", "x"],
        ),
        *(["--url", f"{url}"] for url in ("http://host/x", "https://", "host/x")),
        *(["--url", f"https://host/{x}"] for x in ("'", "$(id)", "a b", "a\nb", "?a")),
    ],
)
def test_release_needs_an_https_address(arguments: list[str]) -> None:
    with pytest.raises(build.BuildError, match=r"^release: "):
        build.command_release(arguments)


def test_release_is_of_what_is_committed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build, "git", lambda *words: "?? new.txt")
    with pytest.raises(build.BuildError, match="commit everything first"):
        build.command_release(["--url", "https://host/x"])
    monkeypatch.setattr(build, "git", lambda *words: "")  # no commit at all
    with pytest.raises(build.BuildError, match="commit everything first"):
        build.command_release(["--url", "https://host/x"])


def test_release_says_what_changed() -> None:
    with pytest.raises(build.BuildError, match=r"no section `## 9\.9\.9 "):
        build.changes_of("9.9.9")
    with pytest.raises(build.BuildError, match="no section"):
        build.changes_of("0.2")


def test_archive_that_does_not_answer_is_refused(
    tmp_path: Path, pythons: list[build.Python]
) -> None:
    broken = tmp_path / "x"
    build.write_file(broken, b"#!/bin/sh\nexit 0\n", 0o755)
    with pytest.raises(build.BuildError, match="`version` said"):
        build.check(broken, pythons[:1])


def test_tools_are_installed_once_each_and_again_when_their_group_changes(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    ran: list[list[str]] = []

    def run(label: str, command: list[str]) -> bool:
        ran.append(command[command.index("--progress-bar=off") + 1 :])
        return True

    groups = {"build": ["shiv==1"], "test": ["pytest"], "full": ["a", "b"]}
    python = tmp_path / "bin" / "python"
    build.write_file(python, b"")
    build.write_file(tmp_path / "bin" / "pip", b"")
    monkeypatch.setattr(build, "VENV", tmp_path)
    monkeypatch.setattr(build, "TOOLS_PYTHON", python)
    monkeypatch.setattr(build, "run_shown", run)
    monkeypatch.setattr(build, "requirements", groups.__getitem__)
    for names in (["build"], ["build"], ["build", "test"], ["test"], ["build"]):
        build.ensure_tools(*names)
    assert ran == [["shiv==1"], ["shiv==1", "pytest"]]
    groups["build"] = ["shiv==2"]
    build.ensure_tools("build")
    assert ran[2:] == [["shiv==2"]]


class FakeRun:
    """What `build.py test` would do, on a tree of a few tests."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, root: Path) -> None:
        self.tools: list[str] = []
        self.parts: list[list[str]] = []
        self.pytest: list[str] = []
        self.alone = False
        build.write_file(root / "tests" / "test_a.py", b"def test_a(): pass\n")
        build.write_file(root / "tests" / "test_b.py", b"@pytest.mark.full\n")
        build.write_file(root / "tests" / "x" / "test_c.py", b"@pytest.mark.browser\n")
        monkeypatch.setattr(build, "ROOT", root)
        monkeypatch.setattr(build, "ensure_tools", lambda *names: self.take(names))
        monkeypatch.setattr(build, "ensure_archive", self.look)
        monkeypatch.setattr(build.subprocess, "call", self.call)
        monkeypatch.delenv(build.ONLY_THIS_PYTHON, raising=False)
        monkeypatch.delenv("CI", raising=False)
        self.restore = monkeypatch.setenv

    def take(self, names: tuple[str, ...]) -> None:
        self.tools = list(names)

    def look(self) -> None:
        self.alone = bool(os.environ.get(build.ONLY_THIS_PYTHON))
        self.restore(build.ONLY_THIS_PYTHON, "")

    def call(self, command: list[str], cwd: Path | None = None) -> int:
        if "pytest" in command:
            self.pytest = command[3:]
        else:
            self.parts.append(command[2:])
        return 0


SPREAD = ["-n", "auto", "--dist", "loadfile"]
ALL = [*SPREAD, "--hypothesis-profile=full"]


@pytest.mark.parametrize(
    ("words", "options"),
    [
        ("", [*SPREAD, "-m", "not full"]),
        ("-x -k some", [*SPREAD, "-m", "not full", "-x", "-k", "some"]),
        ("tests/test_a.py", ["tests/test_a.py"]),
        ("tests/test_a.py::test_a", ["tests/test_a.py::test_a"]),
        ("tests/gone.py", ["tests/gone.py"]),
    ],
)
def test_quick_tests_need_python_packages_and_this_python_alone(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    words: str,
    options: list[str],
) -> None:
    tested = FakeRun(monkeypatch, tmp_path)
    choose_tests(words.split())
    assert tested.tools == ["build", "test"]
    assert (tested.parts, tested.alone, tested.pytest) == ([], True, options)


@pytest.mark.parametrize(
    ("words", "ci", "tools", "parts", "options"),
    [
        ("--full", "", ["full"], [[]], ALL),
        ("--full --system -x", "", ["full"], [["--install"]], [*ALL, "-x"]),
        ("--full", "yes", ["full"], [["--install"]], ALL),
        ("tests/test_b.py", "yes", [], [], ["tests/test_b.py"]),
        ("tests/x/test_c.py", "", ["full"], [[]], ["tests/x/test_c.py"]),
        ("tests", "1", ["full"], [["--install"]], [*SPREAD, "tests"]),
    ],
)
def test_full_tests_bring_what_they_need_and_ask_before_apt_and_npm(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    words: str,
    ci: str,
    tools: list[str],
    parts: list[list[str]],
    options: list[str],
) -> None:
    tested = FakeRun(monkeypatch, tmp_path)
    monkeypatch.setenv("CI", ci)
    choose_tests(words.split())
    assert tested.tools == ["build", "test", *tools]
    assert (tested.parts, tested.alone, tested.pytest) == (parts, False, options)


def test_archive_is_built_again_when_a_source_or_a_python_is_new(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """By content: times tell nothing after a checkout."""
    copy_tree(ROOT, tmp_path / "a", 0o644, 1_600_000_000)
    for name, value in (("ROOT", ""), ("CACHE", ".build"), ("DIST", "dist")):
        monkeypatch.setattr(build, name, tmp_path / "a" / value)
    monkeypatch.setattr(build, "STAMP", tmp_path / "a" / ".build" / "archive.json")
    monkeypatch.setattr(build, "ARCHIVE", tmp_path / "a" / "dist" / "feishuperm.pyz")
    monkeypatch.setattr(build, "check", lambda path, pythons: None)
    monkeypatch.setattr(build, "ensure_tools", lambda *groups: None)
    built: list[int] = []

    def make(source: build.Source, pythons: list[build.Python]) -> bytes:
        built.append(len(pythons))
        return b"archive"

    monkeypatch.setattr(build, "make_archive", make)
    pythons = [build.Python("/x", "00", "3.11.0"), build.Python("/y", "01", "3.12.0")]
    monkeypatch.setattr(build, "find_pythons", lambda: pythons)
    errors = tmp_path / "a" / "feishuperm" / "errors.py"
    build.ensure_archive()
    os.utime(errors)
    build.ensure_archive()
    monkeypatch.setattr(build, "find_pythons", lambda: pythons[:1])
    build.ensure_archive()
    assert built == [2]
    errors.write_text("# changed\n")
    build.ensure_archive()
    monkeypatch.setattr(build, "find_pythons", lambda: pythons)
    build.ensure_archive()
    build.ARCHIVE.write_bytes(b"another")
    build.ensure_archive()
    build.STAMP.write_bytes(b"{")
    build.ensure_archive()
    assert built == [2, 1, 2, 2, 2]


def test_variable_leaves_the_running_python_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(build.ONLY_THIS_PYTHON, "1")
    own = os.path.realpath(sys.executable)
    assert [python.path for python in build.find_pythons()] == [own]


def test_python_without_ensurepip_is_helped_by_the_systems_pip(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def run(label: str, command: list[str]) -> bool:
        return "--without-pip" in command

    monkeypatch.setattr(build, "VENV", tmp_path)
    monkeypatch.setattr(build, "TOOLS_PYTHON", tmp_path / "bin" / "python")
    monkeypatch.setattr(build, "run_shown", run)
    monkeypatch.setattr(build, "has_pip", lambda command: True)
    pip = build.make_venv()
    assert pip == [sys.executable, "-m", "pip", "--python", f"{tmp_path}/bin/python"]
    monkeypatch.setattr(build, "has_pip", lambda command: False)
    with pytest.raises(build.BuildError, match="neither pip nor ensurepip"):
        build.make_venv()


def test_python_whose_pip_is_missing_or_too_old_makes_one_of_its_own(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    python = tmp_path / "bin" / "python"

    def run(label: str, command: list[str]) -> bool:
        if "--without-pip" not in command:
            build.write_file(tmp_path / "bin" / "pip", b"")
        return True

    monkeypatch.setattr(build, "VENV", tmp_path)
    monkeypatch.setattr(build, "TOOLS_PYTHON", python)
    monkeypatch.setattr(build, "run_shown", run)
    monkeypatch.setattr(build, "has_pip", lambda command: False)
    assert build.make_venv() == [str(python), "-m", "pip"]
    assert not build.has_pip([sys.executable, "-c", "raise SystemExit(1)"])


@pytest.mark.parametrize(
    ("ci", "outcome"),
    [("", pytest.skip.Exception), ("true", pytest.fail.Exception)],
)
def test_missing_part_skips_here_and_fails_in_ci(
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
    ci: str,
    outcome: type[BaseException],
) -> None:
    missing = {"browser": ("Chromium", lambda: None, "apt install chromium")}
    monkeypatch.setattr(conftest, "PARTS", missing)
    monkeypatch.setenv("CI", ci)
    request.node.add_marker("browser")
    with pytest.raises(outcome, match="Chromium is not installed"):
        conftest.pytest_runtest_setup(request.node)


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        (["--help"], 0, "usage: python3 build.py"),
        (["nonsense"], 2, "build: unknown command nonsense"),
        (["--nonsense"], 1, "build: unknown argument --nonsense"),
    ],
)
def test_command_line_of_the_build(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    code: int,
    text: str,
) -> None:
    monkeypatch.setattr(build, "build", lambda pythons: None)
    assert build.main(arguments) == code
    captured = capsys.readouterr()
    assert text in (captured.out if code == 0 else captured.err)


def test_run_shown_tells_failure_from_success(tmp_path: Path) -> None:
    assert build.run_shown("x", ["true"]) is True
    assert build.run_shown("x", ["false"]) is False
    assert build.run_shown("x", [str(tmp_path / "missing")]) is False


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (
            PermissionError(13, "Permission denied", "/c/dist"),
            "/c/dist: Permission denied",
        ),
        (OSError(28, "No space left on device"), "No space left on device"),
    ],
)
def test_clone_that_cannot_be_written_is_told_in_one_line(
    error: OSError,
    said: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def fail(arguments: list[str]) -> int:
        raise error

    monkeypatch.setitem(build.COMMANDS, "build", fail)
    assert build.main([]) == 1
    assert capsys.readouterr().err == f"build: {said}\n"
