"""The loader of compiled modules, over a small archive laid out by the build."""

from __future__ import annotations

import os
import sys
import types
import zlib
from collections.abc import Callable, Iterator
from importlib.machinery import EXTENSION_SUFFIXES, PathFinder
from pathlib import Path
from typing import Any

import pytest

import build
from feishuperm import loader
from feishuperm.models.names import PROGRAMS
from tests.laid_down import MARK, OFTEN, SELDOM, lay_beside, lay_down, open_loader

both = pytest.mark.parametrize("name", [OFTEN, SELDOM])


@pytest.fixture
def archive(tmp_path: Path) -> Iterator[loader.Loader]:
    opened = open_loader(lay_down(tmp_path / "x.pyz"))
    yield opened
    for fd in {opened.fd, *(pack[0] for pack in opened.packs)}:
        os.close(fd)


def run_module(archive: loader.Loader, name: str) -> Any:
    module: Any = types.ModuleType(name)
    archive.exec_module(module)
    return module


def origin(archive: loader.Loader, name: str) -> str:
    """Where the code of a module came from, once it is imported."""
    assert run_module(archive, name).f() == "here"
    packs = [pack for pack in archive.packs if name in pack[3]]
    if not packs:
        return "source"
    return "archive" if packs[0][0] == archive.fd else "beside"


@both
def test_module_runs_and_names_its_source(archive: loader.Loader, name: str) -> None:
    module = run_module(archive, name)
    assert module.f() == "here"
    file = f"{archive.archive}/site-packages/{name.replace('.', '/')}.py"
    assert (module.__file__, module.f.__code__.co_filename) == (file, file)


def test_what_starts_often_is_compiled_and_the_rest_is_source(
    archive: loader.Loader,
) -> None:
    assert origin(archive, OFTEN) == "archive"
    assert archive.sources is None
    assert origin(archive, SELDOM) == "source"


def test_what_install_put_beside_has_all_modules(archive: loader.Loader) -> None:
    lay_beside(Path(archive.archive))
    assert origin(archive, OFTEN) == "archive"
    assert origin(archive, SELDOM) == "beside"
    assert archive.sources is None


def test_python_that_the_build_did_not_know_has_its_code_beside(tmp_path: Path) -> None:
    path = lay_down(tmp_path / "x.pyz", is_known=False)
    opened = open_loader(path)
    assert origin(opened, OFTEN) == "source"
    lay_beside(path)
    assert origin(open_loader(path), OFTEN) == "beside"


def test_links_lead_to_what_lies_beside_the_archive(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = lay_down(tmp_path / "x.pyz")
    lay_beside(path)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "far").symlink_to(path)
    (tmp_path / "bin" / "near").symlink_to("../bin/far")
    (tmp_path / "bin" / "next").symlink_to("near")
    fd = os.open(path, os.O_RDONLY)
    for folder, link in (("bin", "next"), ("bin", "./near"), (".", "bin/next")):
        monkeypatch.chdir(tmp_path / folder)
        assert loader.open_beside(link, fd, MARK)
    assert loader.open_beside(str(tmp_path / "bin" / "next"), fd, MARK)


def other_build(path: Path, data: bytes) -> None:
    path.write_bytes(data[:8] + b"0123456789abcdef" + data[24:])


def other_python(path: Path, data: bytes) -> None:
    path.write_bytes(data[:4] + b"\0\0\r\n" + data[8:])


def not_a_file(path: Path, data: bytes) -> None:
    path.unlink()
    os.mkfifo(path)


def link(path: Path, data: bytes) -> None:
    path.rename(path.with_name("elsewhere"))
    path.symlink_to("elsewhere")


UNFIT: dict[str, Callable[[Path, bytes], object]] = {
    "of another build": other_build,
    "for another Python": other_python,
    "empty": lambda path, data: path.write_bytes(b""),
    "cut": lambda path, data: path.write_bytes(data[:60]),
    "garbage": lambda path, data: path.write_bytes(b"\xff" * len(data)),
    "another head": lambda path, data: path.write_bytes(data[:40] + b"x" + data[41:]),
    "for a group to write": lambda path, data: path.chmod(0o664),
    "for all to write": lambda path, data: path.chmod(0o646),
    "a pipe": not_a_file,
    "a link": link,
    "a folder": lambda path, data: (path.unlink(), path.mkdir()),
}


@pytest.mark.parametrize("case", UNFIT)
def test_file_beside_that_does_not_fit_is_never_run(
    archive: loader.Loader, case: str
) -> None:
    beside = lay_beside(Path(archive.archive))
    UNFIT[case](beside, beside.read_bytes())
    assert origin(archive, SELDOM) == "source"


def test_file_beside_that_another_user_owns_is_never_run(
    archive: loader.Loader, monkeypatch: pytest.MonkeyPatch
) -> None:
    lay_beside(Path(archive.archive))
    fstat = os.fstat

    def foreign(fd: int) -> os.stat_result:
        status = list(fstat(fd))
        status[4] += fd != archive.fd
        return os.stat_result(status)

    monkeypatch.setattr("posix.fstat", foreign)
    assert origin(archive, SELDOM) == "source"


def test_damaged_code_beside_is_replaced_by_the_source(archive: loader.Loader) -> None:
    beside = lay_beside(Path(archive.archive))
    data = beside.read_bytes()
    start = loader.FACTS + int.from_bytes(data[:4], "big")
    for damaged in (data[:start], data[:-1], data[:start].ljust(len(data), b"\0")):
        beside.write_bytes(damaged)
        opened = open_loader(Path(archive.archive))
        assert origin(opened, SELDOM) == "source"
        assert origin(opened, OFTEN) == "archive"


def test_what_came_with_the_head_needs_no_read(archive: loader.Loader) -> None:
    os.truncate(archive.archive, 0)
    assert run_module(archive, "feishuperm").ready is True


DAMAGE: dict[str, Callable[[bytes], bytes]] = {
    "nothing": lambda data: b"",
    "garbage": lambda data: b"\xff" * len(data),
    "zeros": lambda data: bytes(len(data)),
    "moved": lambda data: b"x" + data,
    "cut": lambda data: data[: build.TEXT_SIZE + build.TABLE_SIZE + 9],
}


@both
@pytest.mark.parametrize("was_listed", [False, True])
@pytest.mark.parametrize("damage", DAMAGE)
def test_archive_overwritten_meanwhile_is_never_run(
    archive: loader.Loader, damage: str, name: str, was_listed: bool
) -> None:
    """Neither its code nor its sources: they are another version's."""
    if was_listed:
        archive.get_filename(SELDOM)
    path = Path(archive.archive)
    path.write_bytes(DAMAGE[damage](path.read_bytes()))
    with pytest.raises(ImportError, match="was overwritten while it was running"):
        archive.find_spec(name)
        archive.get_code(name)


def test_other_source_at_the_same_place_is_never_run(archive: loader.Loader) -> None:
    archive.get_filename(SELDOM)
    assert archive.sources
    start, sources = archive.sources
    _, length, place, _ = sources[SELDOM]
    deflater = zlib.compressobj(9, wbits=-15)
    other = deflater.compress(b"def f(): return 'there'\n") + deflater.flush()
    with open(archive.archive, "r+b") as file:
        file.seek(start + place)
        file.write(other.ljust(length, b"\0"))
    with pytest.raises(ImportError, match="was overwritten while it was running"):
        archive.get_code(SELDOM)


def test_socket_comes_from_where_python_keeps_its_libraries(
    archive: loader.Loader,
) -> None:
    own = PathFinder.find_spec("_socket")  # none if it is built in
    archive.libraries = os.path.dirname(own.origin) if own and own.origin else "/none"
    spec = archive.find_spec("_socket")
    assert (spec and spec.origin) == (own and own.origin)
    assert type(spec and spec.loader) is type(own and own.loader)


def test_folder_that_was_added_to_the_path_is_not_one_of_pythons_own(
    archive: loader.Loader, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / f"_socket{EXTENSION_SUFFIXES[0]}").touch()
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path)])
    spec = archive.find_spec("_socket")
    assert not spec or not str(spec.origin).startswith(str(tmp_path))


def test_library_that_is_not_there_is_left_to_python(archive: loader.Loader) -> None:
    archive.libraries = "/nonexistent"
    assert archive.find_spec("_socket") is None


PACKAGES = ["feishuperm", "feishuperm.room", "feishuperm.shed"]


@pytest.mark.parametrize("name", PACKAGES)
def test_package_says_where_it_is(archive: loader.Loader, name: str) -> None:
    spec = archive.find_spec(name)
    folder = f"{archive.archive}/site-packages/{name.replace('.', '/')}"
    assert spec
    assert spec.submodule_search_locations == [folder]
    assert spec.origin == f"{folder}/__init__.py"


@both
def test_module_is_no_package(archive: loader.Loader, name: str) -> None:
    spec = archive.find_spec(name)
    assert spec
    assert spec.submodule_search_locations is None


@pytest.mark.parametrize("name", ["json", "feishuperm.none", "feishupermx", "x"])
def test_what_is_not_in_the_archive_is_left_to_others(
    archive: loader.Loader, name: str
) -> None:
    assert archive.find_spec(name) is None


def test_every_name_of_the_hook_is_known_everywhere() -> None:
    names = {name for name, command in PROGRAMS.items() if command == "hook"}
    assert names == set(loader.HOOK_NAMES) == set(build.HOOK_NAMES)


def test_file_that_is_no_module_is_read_from_the_archive_that_runs(
    archive: loader.Loader,
) -> None:
    """Also when an upgrade has put another one at its path."""
    os.unlink(archive.archive)
    path = f"{archive.archive}/site-packages/feishuperm/shed/words.txt"
    assert archive.get_data(path) == b"words"
    with pytest.raises(FileNotFoundError):
        archive.get_data(f"{path}.other")
