"""The loader of compiled modules, over a small archive laid out by the build."""

from __future__ import annotations

import lzma
import os
import sys
import types
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import build
from feishuperm import loader, wire
from feishuperm.models.names import PROGRAMS
from tests.conftest import head_of

FILES = {
    "feishuperm/__init__.py": b"ready = True\n",
    "feishuperm/client.py": b"",
    "feishuperm/loader.py": b"",
    "feishuperm/wire.py": b"",
    "feishuperm/commands/__init__.py": b"",
    "feishuperm/commands/version.py": b"from feishuperm.room import table\n",
    "feishuperm/room/__init__.py": b"",
    "feishuperm/room/table.py": b"def f():\n    return 'here'\n",
    "feishuperm/shed/__init__.py": b"",
    "feishuperm/shed/ladder.py": b"""\
class Ladder:
    def climb(self, steps=(1, 2)):
        return [(lambda: step)() for step in steps]
def f():
    def deeper():
        return "here" if Ladder().climb() == [1, 2] else "lost"
    return deeper()
""",
}
OFTEN, SELDOM = "feishuperm.room.table", "feishuperm.shed.ladder"
both = pytest.mark.parametrize("name", [OFTEN, SELDOM])


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


@both
def test_module_runs_and_names_its_source(archive: loader.Loader, name: str) -> None:
    module: Any = types.ModuleType(name)
    archive.exec_module(module)
    assert module.f() == "here"
    file = f"{archive.archive}/site-packages/{name.replace('.', '/')}.py"
    assert (module.__file__, module.f.__code__.co_filename) == (file, file)


def test_what_starts_often_is_read_by_itself(archive: loader.Loader) -> None:
    assert archive.get_code(OFTEN)
    assert not archive.parts


def test_code_that_was_taken_is_read_again(archive: loader.Loader) -> None:
    first = archive.get_code(SELDOM)
    assert SELDOM not in archive.parts
    assert archive.get_code(SELDOM) == first


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
    assert archive.packed


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


DAMAGE: dict[str, Callable[[bytes], bytes]] = {
    "nothing": lambda data: b"",
    "garbage": lambda data: b"\xff" * len(data),
    "zeros": lambda data: bytes(len(data)),
    "moved": lambda data: b"x" + data,
    "cut": lambda data: data[: len(data) // 2],
}


@both
@pytest.mark.parametrize("damage", DAMAGE)
def test_code_that_is_not_what_was_built_is_never_run(
    archive: loader.Loader, damage: str, name: str
) -> None:
    path = Path(archive.archive)
    path.write_bytes(DAMAGE[damage](path.read_bytes()))
    with pytest.raises(ImportError, match="was overwritten while it was running"):
        archive.get_code(name)


@pytest.mark.parametrize(
    "name, other", [(OFTEN, zlib.compress(b"x")), (SELDOM, lzma.compress(b"x" * 99))]
)
@pytest.mark.parametrize("missing", [0, 3])
def test_other_code_at_the_same_place_is_never_run(
    archive: loader.Loader, name: str, other: bytes, missing: int
) -> None:
    assert archive.get_filename(name)  # the index is read
    place = archive.places[name][-1] if name == OFTEN else archive.section[0]
    with open(archive.archive, "r+b") as file:
        file.seek(archive.start + place[0])
        file.write(other[: len(other) - missing].ljust(place[1], b"\0"))
    with pytest.raises(ImportError, match="was overwritten while it was running"):
        archive.get_code(name)


def test_every_name_of_the_hook_is_known_everywhere() -> None:
    names = {name for name, command in PROGRAMS.items() if command == "hook"}
    assert names == set(loader.HOOK_NAMES) == set(build.HOOK_NAMES)
    assert list(loader.HOOK_ARGUMENTS) == [[], *([kind] for kind in wire.KINDS)]
