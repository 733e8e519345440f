"""`pytest --packages -n0`: how much of each package the tests run, printed.

For finding what no test runs.  Lines of the tests' own processes count, those of a
built file or a server that they start do not.
"""

from __future__ import annotations

import shutil
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "feishuperm"
DATA = ROOT / ".build" / "coverage"


class Packages:
    """The lines that ran in this process."""

    def __init__(self, config: pytest.Config) -> None:
        import coverage

        if config.getoption("numprocesses", None):
            raise pytest.UsageError("--packages counts in one process: add -n0")
        shutil.rmtree(DATA, ignore_errors=True)
        DATA.mkdir(parents=True)
        self.made: Any = coverage.Coverage(
            str(DATA / "lines"), source=[str(PACKAGE)], messages=False
        )
        self.made.start()

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self) -> None:
        self.made.stop()
        self.made.save()

    def pytest_terminal_summary(
        self, terminalreporter: pytest.TerminalReporter
    ) -> None:
        sizes: dict[str, list[int]] = defaultdict(lambda: [0, 0])
        terminalreporter.section("lines run, by package")
        for path in sorted(PACKAGE.rglob("*.py")):
            _, lines, _, missed, _ = self.made.analysis2(str(path))
            place = path.relative_to(PACKAGE)
            sizes[place.parts[0]][0] += len(lines)
            sizes[place.parts[0]][1] += len(lines) - len(missed)
            if len(missed) > len(lines) / 2:
                ran = len(lines) - len(missed)
                terminalreporter.write_line(f"{place}: only {ran} of {len(lines)}")
        for name, (lines_all, ran) in sizes.items():
            if lines_all:
                terminalreporter.write_line(f"{name:16}{100 * ran // lines_all:4} %")
