"""`feishuperm version`: which build this is and what runs it."""

from __future__ import annotations

import json
import sys

import feishuperm

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def main(args: list[str]) -> int:
    build = facts()
    if args == ["--json"] or (args and _read(args)):
        print(json.dumps(build, indent=2))
        return 0
    commit = build["commit"][:12] + (" (changed)" if build["dirty"] else "")
    print(f"feishuperm {build['version']}, commit {commit}, Python {build['python']}")
    return 0


def _read(args: list[str]) -> bool:
    """Whether JSON is asked for, in words that are not the usual ones."""
    from feishuperm.lib.arguments import ArgumentParser

    return bool(ArgumentParser("version", "--json").parse_args(args).json)


def facts() -> dict[str, Any]:
    """What is known about this program; a source tree has no build facts."""
    try:
        import feishuperm._build as _build  # type: ignore[import-not-found,unused-ignore]
    except ModuleNotFoundError:
        commit, dirty, build_id = "unknown", True, ""
    else:
        commit, dirty, build_id = _build.COMMIT, _build.DIRTY, _build.BUILD_ID
    return {
        "version": feishuperm.__version__,
        "commit": commit,
        "dirty": dirty,
        "build_id": build_id,
        "python": ".".join(map(str, sys.version_info[:3])),
        "executable": sys.executable,
        "fast": bool(getattr(feishuperm.__loader__, "ready", None)),
    }
