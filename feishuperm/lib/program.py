"""How to start this very program again, as a process of its own."""

from __future__ import annotations

import os
import sys

import feishuperm

INSIDE = "/site-packages/feishuperm/__init__.py"
FROM_SOURCE = (
    "import sys; sys.path.insert(0, sys.argv[1]); "
    "from feishuperm.cli import main; sys.exit(main(['feishuperm'] + sys.argv[2:]))"
)


def archive_path() -> str:
    """The built file this code runs from, empty when it runs from a source tree."""
    source = feishuperm.__file__
    archive = source[: -len(INSIDE)] if source.endswith(INSIDE) else ""
    return os.path.abspath(archive) if os.path.isfile(archive) else ""


def self_command(*args: str) -> list[str]:
    """The command line of a sub-command, on this version and this Python."""
    archive = archive_path()
    if archive:
        return [sys.executable, "-IBS", archive, *args]
    root = os.path.dirname(os.path.dirname(os.path.abspath(feishuperm.__file__)))
    return [sys.executable, "-IBS", "-c", FROM_SOURCE, root, *args]
