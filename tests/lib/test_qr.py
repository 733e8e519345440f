"""Our QR codes are read by an independent decoder, off pictures and off a terminal."""

from __future__ import annotations

import random
import re
import shutil
import subprocess
import sys
from itertools import groupby
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from feishuperm.lib import qr
from tests.conftest import ROOT, need
from tests.tables import every_row
from tests.terminal import THEMES, Terminal, bitmap, read_code, read_codes

LINK = b"https://open.feishu.cn/page/launcher?user_code=AVQP-9HGX&addons="
WIDEST = 13  # the largest version that 80 columns can show


@pytest.fixture(autouse=True)
def zbar() -> None:
    need("zbarimg")


def text_of(size: int) -> bytes:
    """A link of a certain length."""
    letters = random.Random(size).choices(b"abcdefghijklmnopqrstuvwxyzABC0123456789-_",
                                          k=size)  # fmt: skip
    return (LINK + bytes(letters))[:size]


def picture(code: qr.Code) -> bytes:
    """The modules themselves, with light around them."""
    side = len(code) + 8
    blank = [[255] * side] * 4
    inner = [[255] * 4 + [0 if c == "1" else 255 for c in row] + [255] * 4
             for row in code]  # fmt: skip
    return bitmap([*blank, *inner, *blank])


def test_every_version_is_read_when_full_and_when_nearly_empty() -> None:
    sizes = [qr.capacity(version) for version in qr.VERSIONS]
    sizes += [size + 1 for size in sizes[:-1]]  # the first that needs the next one
    codes = [qr.encode(text_of(size)) for size in sizes]
    sides = {len(code) for code in codes}
    assert sides == {17 + 4 * version for version in qr.VERSIONS}
    assert read_codes(map(picture, codes)) == [text_of(size) for size in sizes]


@settings(max_examples=60, deadline=None)
@given(data=st.binary(min_size=1, max_size=400))
def test_any_bytes_are_read_back(data: bytes) -> None:
    assert read_codes([picture(qr.encode(data))]) == [data]


def test_dirty_code_is_read_since_its_corrections_are_right() -> None:
    code = [list(row) for row in qr.encode(text_of(300))]
    for row in range(30, 35):
        for column in range(30, 35):
            code[row][column] = "1"
    dirty = tuple("".join(row) for row in code)
    assert read_codes([picture(dirty)]) == [text_of(300)]


def test_too_many_bytes_are_refused() -> None:
    most = qr.capacity(20)
    assert len(qr.encode(b"x" * most)) == 97
    with pytest.raises(ValueError, match="too many"):
        qr.encode(b"x" * (most + 1))


# The mask.


@settings(max_examples=50, deadline=None)
@given(seed=st.integers(0, 2**32), share=st.floats(0, 1))
def test_penalty_is_what_the_standard_says(seed: int, share: float) -> None:
    random_ = random.Random(seed)
    code = tuple(
        "".join("1" if random_.random() < share else "0" for _ in range(21))
        for _ in range(21)
    )
    assert qr.penalty(code) == slow_penalty(code)


def slow_penalty(code: qr.Code) -> int:
    """The four rules one by one, as the standard words them."""
    total, size = 0, len(code)
    lines = [*code, *("".join(row[n] for row in code) for n in range(size))]
    for line in lines:
        for _, run in groupby(line):
            length = len(list(run))
            total += 3 + length - 5 if length >= 5 else 0
        for start in range(size - 10):
            window = line[start : start + 11]
            total += 40 * (window in ("10111010000", "00001011101"))
    for y in range(size - 1):
        for x in range(size - 1):
            square = {code[y][x], code[y][x + 1], code[y + 1][x], code[y + 1][x + 1]}
            total += 3 * (len(square) == 1)
    dark = sum(row.count("1") for row in code)
    steps = 0
    while not (45 - 5 * steps) * size**2 < dark * 100 < (55 + 5 * steps) * size**2:
        steps += 1
    return total + 10 * steps


def test_mask_with_the_least_penalty_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    monkeypatch.setattr(qr, "penalty", lambda code: seen.append(code) or len(seen) != 6)
    assert qr.encode(b"x") == seen[5]
    assert len(set(seen)) == 8
    assert read_codes(map(picture, seen)) == [b"x"] * 8


# The terminal.

DRAW = "import sys; from feishuperm.lib import qr; print(*qr.half_blocks(qr.encode("
DRAW += "sys.argv[1].encode()), sys.argv[2]), 'drawn', sep='\\n')"


@pytest.mark.full
@every_row("version", range(1, WIDEST + 1))
@every_row(
    ("theme", "ink"),
    [("dark", "colour"), ("light", "colour"), ("dark", "light"), ("light", "dark")],
)
def test_code_is_read_off_a_terminal_of_80_columns(
    version: int, theme: str, ink: str
) -> None:
    need("tmux")
    data = text_of(qr.capacity(version))
    command = [sys.executable, "-c", DRAW, data.decode(), ink]
    environ = {"PYTHONPATH": str(ROOT), "LANG": "C.UTF-8"}
    with Terminal(command, environ, 80, 60) as terminal:
        terminal.wait("drawn")
        assert read_codes([terminal.picture(THEMES[theme])]) == [data]


def test_lines_fit_80_columns_up_to_version_13() -> None:
    code = qr.encode(text_of(qr.capacity(WIDEST)))
    assert {len(line) for line in qr.half_blocks(code, "dark")} == {qr.width(code)}
    assert qr.width(code) <= 80 < qr.width(qr.encode(text_of(450)))


# The picture.


@pytest.mark.browser
@pytest.mark.parametrize("size", [20, 400, 858])
def test_picture_is_read_as_a_browser_draws_it(tmp_path: Path, size: int) -> None:
    source, shot = tmp_path / "code.svg", tmp_path / "code.png"
    source.write_text(qr.svg(qr.encode(text_of(size))))
    side = re.search(r'width="(\d+)"', source.read_text())
    assert side is not None
    subprocess.run(
        [
            *(shutil.which("chromium") or "", "--headless", "--no-sandbox"),
            *("--disable-gpu", f"--user-data-dir={tmp_path}/profile"),
            *(f"--window-size={side[1]},{side[1]}", f"--screenshot={shot}"),
            source.as_uri(),
        ],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        timeout=60,
        check=True,
    )
    assert read_code(str(shot)) == text_of(size)
