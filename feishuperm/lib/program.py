"""How to start this very program again, as a process of its own."""

from __future__ import annotations

import os
import sys

import feishuperm

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

INSIDE = "/site-packages/feishuperm/__init__.py"


def archive_path() -> str:
    """The built file this code runs from, empty when it runs from a source tree."""
    source = feishuperm.__file__
    archive = source[: -len(INSIDE)] if source.endswith(INSIDE) else ""
    return os.path.abspath(archive) if os.path.isfile(archive) else ""


def self_command(*args: str) -> list[str]:
    """The command line that runs a sub-command of this version on this Python."""
    archive = archive_path()
    if archive:
        return [archive, *args]
    return [sys.executable, "-c", _FROM_SOURCE, _source_root(), *args]


def self_environ(environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """An environment in which the archive starts on the Python that runs now."""
    return {**environ, "FEISHUPERM_PYTHON": sys.executable}


_FROM_SOURCE = (
    "import sys; sys.path.insert(0, sys.argv.pop(1)); "
    "from feishuperm.cli import main; sys.exit(main(['feishuperm'] + sys.argv[1:]))"
)


def _source_root() -> str:
    return os.path.dirname(os.path.dirname(os.path.abspath(feishuperm.__file__)))
