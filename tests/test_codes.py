"""Compiled code read from a small archive, laid out by the build."""

from __future__ import annotations

import lzma
import os
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import build
from feishuperm.codes import Codes
from tests.laid_down import FILES, OFTEN, SELDOM, LaidDown, lay_down

both = pytest.mark.parametrize("name", [OFTEN, SELDOM])


@pytest.fixture(params=["alone", "on its bases"])
def laid(
    request: pytest.FixtureRequest, tmp_path: Path, pythons: list[build.Python]
) -> Iterator[LaidDown]:
    laid = lay_down(tmp_path / "x.pyz", pythons, request.param == "alone")
    yield laid
    os.close(laid.fd)


@pytest.fixture
def codes(laid: LaidDown) -> Codes:
    return Codes(str(laid.path), laid.fd, laid.index)


@both
def test_code_is_that_of_the_module(codes: Codes, name: str) -> None:
    code = codes.load(name)
    assert code
    space: dict[str, Any] = {"__name__": name}
    exec(code, space)
    assert space["f"]() == "here"


def test_empty_file_has_no_code(codes: Codes) -> None:
    assert codes.load("feishuperm.room") is None
    assert codes.load("feishuperm.shed") is None


def test_index_names_every_file_but_those_that_came_with_the_head(
    laid: LaidDown, codes: Codes
) -> None:
    ready = {file for file, _ in laid.ready.values()}
    assert set(codes.files.values()) == FILES.keys() - ready - {"feishuperm/loader.py"}


def test_what_starts_often_is_read_by_itself(codes: Codes) -> None:
    assert codes.load(OFTEN)
    assert not codes.parts


def test_code_that_was_taken_is_read_again(codes: Codes) -> None:
    first = codes.load(SELDOM)
    assert SELDOM not in codes.parts
    assert codes.load(SELDOM) == first


DAMAGE: dict[str, Callable[[bytes], bytes]] = {
    "nothing": lambda data: b"",
    "garbage": lambda data: b"\xff" * len(data),
    "zeros": lambda data: bytes(len(data)),
    "moved": lambda data: b"x" + data,
    "cut": lambda data: data[: build.TEXT_SIZE + build.TABLE_SIZE + 9],
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_index_that_is_not_what_was_built_is_never_read(
    laid: LaidDown, damage: str
) -> None:
    laid.path.write_bytes(DAMAGE[damage](laid.path.read_bytes()))
    with pytest.raises(ImportError, match="was overwritten while it was running"):
        Codes(str(laid.path), laid.fd, laid.index)


@both
@pytest.mark.parametrize("damage", DAMAGE)
def test_code_that_is_not_what_was_built_is_never_run(
    codes: Codes, damage: str, name: str
) -> None:
    path = Path(codes.archive)
    path.write_bytes(DAMAGE[damage](path.read_bytes()))
    with pytest.raises(ImportError, match="was overwritten while it was running"):
        codes.load(name)


@pytest.mark.parametrize(
    "name, other", [(OFTEN, zlib.compress(b"x")), (SELDOM, lzma.compress(b"x" * 99))]
)
@pytest.mark.parametrize("missing", [0, 3])
def test_other_code_at_the_same_place_is_never_run(
    codes: Codes, name: str, other: bytes, missing: int
) -> None:
    place = codes.places[name][-1] if name == OFTEN else codes.section[0]
    with open(codes.archive, "r+b") as file:
        file.seek(place[1])
        file.write(other[: len(other) - missing].ljust(place[0], b"\0"))
    with pytest.raises(ImportError, match="was overwritten while it was running"):
        codes.load(name)
