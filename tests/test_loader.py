"""The loader of compiled modules, over a small archive laid out by the build."""

from __future__ import annotations

import os
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import build
from feishuperm import loader
from feishuperm.models.names import PROGRAMS

MARK = b"01234567"
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
    body = build.Body(MARK, {p: build.compile_all(FILES, p) for p in bases})
    modules = build.find_modules(FILES)
    slots = body.make_slots(modules)
    path = tmp_path / "x.pyz"
    path.write_bytes(b"".join([bytes(build.TEXT_SIZE), *slots, body.data]))
    packed, head = loader.loads(body.make_head(own, modules, first_code(slots))[12:])
    fd = os.open(path, os.O_RDONLY)
    yield loader.Loader(str(path), fd, MARK, packed, loader.loads(head)[1])
    os.close(fd)


def first_code(slots: list[bytes]) -> int:
    return build.TEXT_SIZE + sum(map(len, slots))


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


@pytest.mark.parametrize("damage", [b"", b"\xff" * 4096, b"76543210"])
def test_code_without_the_mark_is_never_read(
    archive: loader.Loader, damage: bytes
) -> None:
    Path(archive.archive).write_bytes(damage * 100)
    with pytest.raises(ImportError, match="was overwritten while it was running"):
        archive.get_code("feishuperm.room.table")


def test_every_name_of_the_hook_is_known_everywhere() -> None:
    names = {name for name, command in PROGRAMS.items() if command == "hook"}
    assert names == set(loader.HOOK_NAMES) == set(build.HOOK_NAMES)
