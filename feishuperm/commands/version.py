"""`feishuperm version`: which build this is and what runs it."""

from __future__ import annotations

import json
import sys

import feishuperm
from feishuperm.errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

SUMMARY = "version, commit, Python"
USAGE = f"""usage: feishuperm version [--json]

{SUMMARY}

  --json   also the build id, the interpreter's path, and whether the hook's code is
           compiled for it ("fast")"""


def main(args: list[str]) -> int:
    if args in (["--help"], ["-h"]):
        print(USAGE)
        return 0
    if args not in ([], ["--json"]):
        raise UsageError(f"unknown argument {args[-1]!r}", "feishuperm version --help")
    found = facts()
    if args:
        print(json.dumps(found, indent=2))
        return 0
    commit = found["commit"][:12] + (" (changed)" if found["dirty"] else "")
    print(f"feishuperm {found['version']}, commit {commit}, Python {found['python']}")
    return 0


def facts() -> dict[str, Any]:
    """What is known about this program; a source tree has no build facts."""
    try:
        from feishuperm import _build  # type: ignore[attr-defined,unused-ignore]
    except ImportError:
        commit, dirty, build_id, compiled_for = "unknown", True, "", ()
    else:
        commit, dirty = _build.COMMIT, _build.DIRTY
        build_id, compiled_for = _build.BUILD_ID, _build.COMPILED_FOR
    return {
        "version": feishuperm.__version__,
        "commit": commit,
        "dirty": dirty,
        "build_id": build_id,
        "python": ".".join(map(str, sys.version_info[:3])),
        "executable": sys.executable,
        "fast": magic() in compiled_for,
    }


def magic() -> str:
    """The name of this interpreter's bytecode."""
    from _frozen_importlib_external import MAGIC_NUMBER

    return MAGIC_NUMBER.hex()
