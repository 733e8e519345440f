"""The loader of compiled modules, over a small archive laid out by the build."""

from __future__ import annotations

import os
import sys
import types
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import build
from feishuperm import loader
from feishuperm.models.names import PROGRAMS
from tests.conftest import head_of

FILES = {
    "feishuperm/__init__.py": b"ready = True\n",
    "feishuperm/client.py": b"",
    "feishuperm/loader.py": b"",
    "feishuperm/wire.py": b"",
    "feishuperm/room/__init__.py": b"",
    "feishuperm/room/table.py": b"def f():\n    return 'here'\n",
}


@pytest.fixture(params=["alone", "on its bases"])
def archive(
    request: pytest.FixtureRequest, tmp_path: Path, pythons: list[build.Python]
) -> Iterator[loader.Loader]:
    """This Python's code, compressed by itself or against that of others."""
    own = next(p for p in pythons if p.path == os.path.realpath(sys.executable))
    bases = [own] if request.param == "alone" else build.bases_of(own, pythons)
    compiled = {python: build.compile_all(FILES, python) for python in bases}
    body = build.Body(b"01234567", compiled, build.find_modules(FILES))
    path = tmp_path / "x.pyz"
    path.write_bytes(bytes(build.TEXT_SIZE) + body.make_heads() + body.data)
    size, offset = head_of(path.read_bytes(), own)
    packed, head = loader.loads(path.read_bytes()[offset + 12 : offset + size])
    fd = os.open(path, os.O_RDONLY)
    yield loader.Loader(str(path), fd, packed, loader.loads(head)[1])
    os.close(fd)


def test_module_runs_and_names_its_source(archive: loader.Loader) -> None:
    module: Any = types.ModuleType("feishuperm.room.table")
    archive.exec_module(module)
    assert module.f() == "here"
    file = f"{archive.archive}/site-packages/feishuperm/room/table.py"
    assert (module.__file__, module.f.__code__.co_filename) == (file, file)


def test_what_came_with_the_head_needs_no_read(archive: loader.Loader) -> None:
    os.truncate(archive.archive, 0)
    module: Any = types.ModuleType("feishuperm")
    archive.exec_module(module)
    assert module.ready is True
    assert archive.packed


@pytest.mark.parametrize("name", ["feishuperm", "feishuperm.room"])
def test_package_says_where_it_is(archive: loader.Loader, name: str) -> None:
    spec = archive.find_spec(name)
    folder = f"{archive.archive}/site-packages/{name.replace('.', '/')}"
    assert spec
    assert spec.submodule_search_locations == [folder]
    assert spec.origin == f"{folder}/__init__.py"
    assert archive.is_package(name)


def test_module_is_no_package(archive: loader.Loader) -> None:
    spec = archive.find_spec("feishuperm.room.table")
    assert spec
    assert spec.submodule_search_locations is None
    assert not archive.is_package("feishuperm.room.table")


@pytest.mark.parametrize("name", ["json", "feishuperm.none", "feishupermx", "x"])
def test_what_is_not_in_the_archive_is_left_to_others(
    archive: loader.Loader, name: str
) -> None:
    assert archive.find_spec(name) is None


DAMAGE: dict[str, Callable[[bytes], bytes]] = {
    "nothing": lambda data: b"",
    "garbage": lambda data: b"\xff" * len(data),
    "zeros": lambda data: bytes(len(data)),
    "moved": lambda data: b"x" + data,
    "cut": lambda data: data[:-3],
    "other codes": lambda data: data[:-9] + zlib.compress(b"x"),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_code_that_is_not_what_was_built_is_never_run(
    archive: loader.Loader, damage: str
) -> None:
    path = Path(archive.archive)
    path.write_bytes(DAMAGE[damage](path.read_bytes()))
    with pytest.raises(ImportError, match="was overwritten while it was running"):
        archive.get_code("feishuperm.room.table")


def test_every_name_of_the_hook_is_known_everywhere() -> None:
    names = {name for name, command in PROGRAMS.items() if command == "hook"}
    assert names == set(loader.HOOK_NAMES) == set(build.HOOK_NAMES)
