"""The loader of compiled modules, over a small archive laid out by the build."""

from __future__ import annotations

import os
import sys
import types
from collections.abc import Iterator
from importlib.machinery import EXTENSION_SUFFIXES, PathFinder
from pathlib import Path
from typing import Any

import pytest

import build
from feishuperm import loader, wire
from feishuperm.models.names import PROGRAMS
from tests.laid_down import OFTEN, SELDOM, lay_down

both = pytest.mark.parametrize("name", [OFTEN, SELDOM])


@pytest.fixture
def archive(tmp_path: Path, pythons: list[build.Python]) -> Iterator[loader.Loader]:
    laid = lay_down(tmp_path / "x.pyz", pythons, alone=True)
    yield loader.Loader(str(laid.path), laid.fd, laid.index, laid.ready)
    os.close(laid.fd)


@both
def test_module_runs_and_names_its_source(archive: loader.Loader, name: str) -> None:
    module: Any = types.ModuleType(name)
    archive.exec_module(module)
    assert module.f() == "here"
    file = f"{archive.archive}/site-packages/{name.replace('.', '/')}.py"
    assert (module.__file__, module.f.__code__.co_filename) == (file, file)


def test_python_without_lzma_finds_the_source_itself(
    archive: loader.Loader, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "_lzma", None)
    assert archive.find_spec(SELDOM) is None
    assert archive.find_spec(OFTEN)


def test_what_came_with_the_head_needs_no_read(archive: loader.Loader) -> None:
    os.truncate(archive.archive, 0)
    module: Any = types.ModuleType("feishuperm")
    archive.exec_module(module)
    assert module.ready is True
    assert not archive.codes


def test_module_of_a_file_overwritten_meanwhile_is_left_to_nobody(
    archive: loader.Loader,
) -> None:
    """Python itself would take it from the sources of whatever lies there now."""
    os.truncate(archive.archive, 0)
    with pytest.raises(ImportError, match="was overwritten while it was running"):
        archive.find_spec(OFTEN)


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
    assert archive.is_package(name)


@both
def test_module_is_no_package(archive: loader.Loader, name: str) -> None:
    spec = archive.find_spec(name)
    assert spec
    assert spec.submodule_search_locations is None
    assert not archive.is_package(name)


@pytest.mark.parametrize("name", ["json", "feishuperm.none", "feishupermx", "x"])
def test_what_is_not_in_the_archive_is_left_to_others(
    archive: loader.Loader, name: str
) -> None:
    assert archive.find_spec(name) is None


def test_every_name_of_the_hook_is_known_everywhere() -> None:
    names = {name for name, command in PROGRAMS.items() if command == "hook"}
    assert names == set(loader.HOOK_NAMES) == set(build.HOOK_NAMES)
    assert list(loader.HOOK_ARGUMENTS) == [[], *([kind] for kind in wire.KINDS)]
