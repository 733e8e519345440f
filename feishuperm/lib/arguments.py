"""Command-line options whose mistakes are told like any other: one line and a hint."""

from __future__ import annotations

import argparse

from feishuperm.errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn


class ArgumentParser(argparse.ArgumentParser):
    """argparse for one command; `error` raises instead of printing a page of usage."""

    def __init__(self, command: str, summary: str, epilog: str | None = None) -> None:
        super().__init__(
            prog=f"feishuperm {command}",
            description=summary,
            epilog=epilog,
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,  # a script must not break when an option is added
        )

    def error(self, message: str) -> NoReturn:
        command = self.prog.partition(" ")[2]
        raise UsageError(f"{command}: {message}", f"{self.prog} --help")
