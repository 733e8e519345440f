"""One row for each figure that is promised, printed, and kept for the table.

A bench calls `row()`; `python3 build.py bench` collects what all of them said.
"""

from __future__ import annotations

import json
import os
from typing import NamedTuple

ROWS_FILE = "FEISHUPERM_BENCH_ROWS"  # where rows are kept, for tests/bench/__main__.py


class Row(NamedTuple):
    """What was measured, against what, and how much it may be."""

    what: str
    against: str
    figure: float
    limit: float
    unit: str = "times"
    at_least: bool = False

    @property
    def holds(self) -> bool:
        if self.at_least:
            return self.figure >= self.limit
        return self.figure <= self.limit

    def cells(self) -> list[str]:
        digits = 2 if self.figure < 10 else 0
        word = "at least" if self.at_least else "at most"
        return [
            self.what,
            self.against,
            f"{self.figure:.{digits}f} {self.unit}",
            f"{word} {self.limit:g}",
            "holds" if self.holds else "**does not hold**",
        ]


def row(*values: object, **more: object) -> bool:
    """Print one figure, keep it for the table; whether it holds."""
    measured = Row(*values, **more)  # type: ignore[arg-type]
    print(": ".join(measured.cells()[:2]), *measured.cells()[2:], sep=", ", flush=True)
    path = os.environ.get(ROWS_FILE)
    if path:
        with open(path, "a", encoding="utf-8") as file:
            file.write(json.dumps(measured) + "\n")
    return measured.holds


def read_rows(path: str) -> list[Row]:
    with open(path, encoding="utf-8") as file:
        return [Row(*json.loads(line)) for line in file]


def markdown(rows: list[Row]) -> str:
    """The rows as a table."""
    heads = ["what", "against", "measured", "limit", ""]
    lines = [heads, ["---"] * len(heads), *(row.cells() for row in rows)]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines) + "\n"
