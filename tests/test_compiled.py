"""The code of modules, packed."""

from __future__ import annotations

import marshal
import zlib

import pytest

from feishuperm.compiled import READY, digest_of, find_modules, make_pack
from tests.laid_down import FILES, OFTEN


def test_pack_has_what_the_hook_needs_ready_and_the_rest_at_its_places() -> None:
    modules = find_modules(FILES)
    head, codes = make_pack(modules)
    loader, ready, listed = marshal.loads(head)
    places = marshal.loads(listed)
    assert loader.co_filename == "feishuperm/loader.py"
    assert set(ready) == set(READY)
    assert set(places) == set(modules) - set(READY)
    file, length, place = places[OFTEN]
    dictionary = b"".join(code for _, code in ready.values())
    inflater = zlib.decompressobj(zdict=dictionary)
    code = marshal.loads(inflater.decompress(codes[place : place + length]))
    space = {"__name__": OFTEN}
    exec(code, space)
    assert file == code.co_filename == "feishuperm/room/table.py"
    assert space["f"]() == "here"  # type: ignore[operator]


def test_code_has_neither_docstrings_nor_asserts() -> None:
    text = b'"""doc"""\ndef f():\n    """doc"""\n    assert False\n'
    head, _ = make_pack(find_modules({**FILES, "feishuperm/wire.py": text}))
    space: dict[str, object] = {}
    exec(marshal.loads(marshal.loads(head)[1]["feishuperm.wire"][1]), space)
    assert space.get("__doc__") is None
    assert space["f"]() is None  # type: ignore[operator]


def test_module_that_does_not_compile_is_named() -> None:
    with pytest.raises(SyntaxError, match=r"odd\.py"):
        make_pack(find_modules({**FILES, "feishuperm/odd.py": b"x = (\n"}))


def test_digest_tells_names_from_contents() -> None:
    assert digest_of({"a": b"b", "c": b""}) != digest_of({"a": b"", "c": b"b"})
    assert digest_of({"a": b"1", "b": b"2"}) == digest_of({"b": b"2", "a": b"1"})
