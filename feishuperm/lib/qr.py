"""QR codes: bytes in, a square of modules out, drawn for a terminal or as SVG.

Byte mode, versions 1 to 20, level L: what a link needs and what a screen can show.
What the bytes mean is not known here.  By ISO/IEC 18004, in its order:

    bits       mode, length, data, padding: `_codewords`
    blocks     Reed-Solomon remainders, interleaved: `_interleaved`
    patterns   finders, timing, alignment, version: `_Square`
    mask       of eight the one with the least penalty: `encode`
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from itertools import product, zip_longest

# A row of a code holds "1" for each dark module and "0" for each light one.
Code = tuple[str, ...]

# By version from 1: codewords of data, those of correction in each block, and the
# number of blocks.
DATA = (
    19, 34, 55, 80, 108, 136, 156, 194, 232, 274,
    324, 370, 428, 461, 523, 589, 647, 721, 795, 861,
)  # fmt: skip
CORRECTION = (
    7, 10, 15, 20, 26, 18, 20, 24, 30, 18, 20, 24, 26, 30, 22, 24, 28, 30, 28, 28,
)  # fmt: skip
BLOCKS = (1, 1, 1, 1, 1, 2, 2, 2, 2, 4, 4, 4, 4, 4, 6, 6, 6, 6, 7, 8)
LEVEL_BITS = 0b01
VERSIONS = range(1, 21)
LONG_COUNT = 10  # from this version on the length takes two bytes
NAMED = 7  # from this version on a code carries its version
QUIET = 4  # light modules around a code, without which readers do not see it
# A mask turns the modules where its rule gives 0.
MASKS: tuple[Callable[[int, int], int], ...] = (
    lambda row, column: (row + column) % 2,
    lambda row, column: row % 2,
    lambda row, column: column % 3,
    lambda row, column: (row + column) % 3,
    lambda row, column: (row // 2 + column // 3) % 2,
    lambda row, column: row * column % 2 + row * column % 3,
    lambda row, column: (row * column % 2 + row * column % 3) % 2,
    lambda row, column: ((row + column) % 2 + row * column % 3) % 2,
)


def encode(data: bytes) -> Code:
    """The smallest code that holds the bytes. Raises ValueError for too many."""
    version = next((v for v in VERSIONS if len(data) <= capacity(v)), 0)
    if not version:
        raise ValueError(f"{len(data)} bytes are too many for a QR code")
    words = _interleaved(_codewords(data, version), version)
    square = _Square(version)
    square.fill(words)
    codes = [square.masked(mask) for mask in range(len(MASKS))]
    return min(codes, key=penalty)


def capacity(version: int) -> int:
    """How many bytes of data a code holds: what neither corrects nor counts."""
    return DATA[version - 1] - (3 if version >= LONG_COUNT else 2)


def _size(version: int) -> int:
    return version * 4 + 17


def _centres(version: int) -> list[int]:
    """Where rows and columns of alignment patterns cross."""
    if version == 1:
        return []
    gaps = version // 7 + 1
    last = _size(version) - 7
    step = -(-(last - 6) // (gaps * 2)) * 2  # an even number; the first gap is rest
    return [6, *(last - step * number for number in reversed(range(gaps)))]


# Bits and blocks.


def _codewords(data: bytes, version: int) -> bytes:
    """Mode 4 (bytes), the length, the data, an end, padding; in whole bytes."""
    count = 16 if version >= LONG_COUNT else 8
    value = (0b0100 << count | len(data)) << len(data) * 8 | int.from_bytes(data, "big")
    # Four bits of mode and four of the end mark make one byte around the others.
    words = (value << 4).to_bytes(len(data) + count // 8 + 1, "big")
    missing = DATA[version - 1] - len(words)
    return words + (b"\xec\x11" * (missing // 2 + 1))[:missing]


def _interleaved(words: bytes, version: int) -> bytes:
    """Data and corrections of all blocks, taking one byte of each in turn."""
    count = BLOCKS[version - 1]
    divisor = _divisor(CORRECTION[version - 1])
    short, longer = divmod(len(words), count)  # the last blocks have a byte more
    blocks, start = [], 0
    for number in range(count):
        end = start + short + (number >= count - longer)
        blocks.append(words[start:end])
        start = end
    corrections = [_remainder(block, divisor) for block in blocks]
    return bytes(_in_turn(blocks)) + bytes(_in_turn(corrections))


def _in_turn(blocks: list[bytes]) -> Iterator[int]:
    for turn in zip_longest(*blocks):
        yield from (byte for byte in turn if byte is not None)


def _times(left: int, right: int) -> int:
    """In the field of 256 elements that QR uses."""
    product = 0
    for place in reversed(range(8)):
        product = product << 1 ^ (product >> 7) * 0x11D  # x^8 + x^4 + x^3 + x^2 + 1
        product ^= (right >> place & 1) * left
    return product


def _divisor(degree: int) -> list[int]:
    """(x - 1)(x - 2)(x - 4)...: its coefficients from the highest, without that 1."""
    factors, power = [1], 1
    for _ in range(degree):
        shifted = [_times(factor, power) for factor in factors]
        pairs = zip([*factors, 0], [0, *shifted])
        factors = [factor ^ moved for factor, moved in pairs]
        power = _times(power, 2)
    return factors[1:]


def _remainder(block: bytes, divisor: list[int]) -> bytes:
    rest = [0] * len(divisor)
    for byte in block:
        factor = byte ^ rest[0]
        pairs = zip([*rest[1:], 0], divisor)
        rest = [value ^ _times(factor, coefficient) for value, coefficient in pairs]
    return bytes(rest)


# The square.


class _Square:
    """A code in the making; `fixed` are the modules that no mask touches."""

    def __init__(self, version: int) -> None:
        self.version = version
        self.size = _size(version)
        self.dark = [bytearray(self.size) for _ in range(self.size)]
        self.fixed = [bytearray(self.size) for _ in range(self.size)]
        self._draw_patterns()
        self._draw_version()
        self._draw_format(0)  # so that its modules are taken

    def _set(self, row: int, column: int, dark: object) -> None:
        if 0 <= row < self.size and 0 <= column < self.size:
            self.dark[row][column] = bool(dark)
            self.fixed[row][column] = True

    def _rings(self, row: int, column: int, reach: int, light: tuple[int, ...]) -> None:
        """Squares around a centre; those at the distances `light` are light."""
        for down in range(-reach, reach + 1):
            for right in range(-reach, reach + 1):
                distance = max(abs(down), abs(right))
                self._set(row + down, column + right, distance not in light)

    def _draw_patterns(self) -> None:
        """Timing, finders in three corners, and alignments where they leave room."""
        for place in range(self.size):
            self._set(6, place, place % 2 == 0)
            self._set(place, 6, place % 2 == 0)
        near, far = 6, self.size - 7
        corners = (near, near), (near, far), (far, near)
        for row, column in ((3, 3), (3, far + 3), (far + 3, 3)):
            self._rings(row, column, 4, (2, 4))
        centres = _centres(self.version)
        for row, column in product(centres, centres):
            if (row, column) not in corners:
                self._rings(row, column, 2, (1,))

    def _draw_version(self) -> None:
        if self.version < NAMED:
            return
        bits = self.version << 12 | _check_bits(self.version, 12, 0x1F25)
        for place in range(18):
            near, far = place // 3, self.size - 11 + place % 3
            self._set(near, far, bits >> place & 1)
            self._set(far, near, bits >> place & 1)

    def _draw_format(self, data: int) -> None:
        """Level and mask, twice: around the first finder, and beside the others."""
        bits = (data << 10 | _check_bits(data, 10, 0x537)) ^ 0x5412
        for place in range(15):
            bit = bits >> place & 1
            skip = place + (place >= 6)  # the timing pattern
            self._set(*((skip, 8) if place < 8 else (8, 14 - place + (place < 9))), bit)
            far = self.size - 1 - place
            self._set(*((8, far) if place < 8 else (self.size - 15 + place, 8)), bit)
        self._set(self.size - 8, 8, True)

    def fill(self, words: bytes) -> None:
        """Lay the bits out: pairs of columns from the right, up, down, up ..."""
        bits = iter(f"{int.from_bytes(words, 'big'):0{len(words) * 8}b}")
        for row, column in self._free():
            self.dark[row][column] = next(bits, "0") == "1"

    def _free(self) -> Iterator[tuple[int, int]]:
        rights = [*range(self.size - 1, 6, -2), *range(5, 0, -2)]
        for number, right in enumerate(rights):
            rows = range(self.size)
            for row in rows if number % 2 else reversed(rows):
                for column in (right, right - 1):
                    if not self.fixed[row][column]:
                        yield row, column

    def masked(self, number: int) -> Code:
        """The finished code under one mask."""
        self._draw_format(LEVEL_BITS << 3 | number)
        mask = MASKS[number]
        return tuple(
            "".join(
                "01"[dark ^ (not fixed and not mask(row, column))]
                for column, (dark, fixed) in enumerate(zip(darks, fixeds))
            )
            for row, (darks, fixeds) in enumerate(zip(self.dark, self.fixed))
        )


def _check_bits(data: int, degree: int, divisor: int) -> int:
    """The remainder of a polynomial over bits."""
    rest = data << degree
    while rest.bit_length() > degree:
        rest ^= divisor << rest.bit_length() - degree - 1
    return rest


# The penalty: how much a code looks like what confuses a reader.

RUN = re.compile("0{5,}|1{5,}")
FINDER_LIKE = re.compile("(?=10111010000|00001011101)")


def penalty(code: Code) -> int:
    """Long runs, squares of one colour, false finders, too much of one colour."""
    columns = tuple("".join(column) for column in zip(*code))
    total = 0
    for line in code + columns:
        total += sum(len(run) - 2 for run in RUN.findall(line))
        total += 40 * len(FINDER_LIKE.findall(line))
    for upper, lower in zip(code, code[1:]):
        quads = zip(upper, upper[1:], lower, lower[1:])
        total += sum(3 for a, b, c, d in quads if a == b == c == d)
    share = sum(line.count("1") for line in code) * 100 / len(code) ** 2
    return total + int(abs(share - 50) // 5) * 10


# Drawing.

# Colours of their own make a code the same on every terminal: black 16 on white 231.
COLOURS = ("\x1b[38;5;16;48;5;231m", "\x1b[0m")
HALVES = {"00": " ", "01": "▄", "10": "▀", "11": "█"}


def width(code: Code) -> int:
    """Columns of a terminal that a drawn code takes."""
    return len(code) + 2 * QUIET


def half_blocks(code: Code, ink: str = "colour") -> list[str]:
    """Lines of a terminal, two modules high each.

    `ink` is what the terminal writes with: "colour" sets its own, "dark" is a dark text
    on a light ground, "light" a light text on a dark one.
    """
    rows = _with_quiet_zone(code)
    if len(rows) % 2:
        rows.append("0" * len(rows[0]))
    if ink == "light":
        rows = [row.translate(INVERTED) for row in rows]
    begin, end = COLOURS if ink == "colour" else ("", "")
    return [
        begin + "".join(HALVES[upper + lower] for upper, lower in zip(*pair)) + end
        for pair in zip(rows[::2], rows[1::2])
    ]


INVERTED = str.maketrans("01", "10")


def _with_quiet_zone(code: Code) -> list[str]:
    side = "0" * QUIET
    edge = ["0" * width(code)] * QUIET
    return [*edge, *(side + row + side for row in code), *edge]


def svg(code: Code) -> str:
    """A picture of any size."""
    runs = [
        f"M{run.start()} {row}h{len(run[0])}v1h-{len(run[0])}z"
        for row, line in enumerate(_with_quiet_zone(code))
        for run in re.finditer("1+", line)
    ]
    side = width(code)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {side} {side}" '
        f'width="{side * 8}" height="{side * 8}" shape-rendering="crispEdges">'
        f'<path fill="#fff" d="M0 0h{side}v{side}H0z"/>'
        f'<path d="{"".join(runs)}"/></svg>\n'
    )
