"""Run the tests: `python3 build.py test [--full] [--system] [PATH ...]`.

It decides what has to be installed and built for the tests that are asked for, and
leaves all other words to pytest.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys

import build

# Tests with one of these need more than Python packages; `full` is said of all of them.
PART_MARKERS = ("browser", "claude", "sdk", "node", "redis")


def main(arguments: list[str]) -> int:
    system = bool(os.environ.get("CI")) or "--system" in arguments
    full = "--full" in arguments
    rest = [word for word in arguments if word not in ("--full", "--system")]
    paths = [word.partition("::")[0] for word in rest if is_path(word)]
    needs = markers_in(paths)
    build.ensure_tools("build", "test", *["full"] * (full or bool(needs - {"full"})))
    if full or needs - {"full", "sdk"} or "--system" in arguments:
        parts = [sys.executable, str(build.ROOT / "tests" / "system_parts.py")]
        subprocess.call([*parts, *["--install"] * system])
    if not full and not needs:
        os.environ[build.ONLY_THIS_PYTHON] = "1"
    build.ensure_archive()
    pytest = [str(build.TOOLS_PYTHON), "-m", "pytest"]
    return subprocess.call([*pytest, *options(paths, full), *rest], cwd=build.ROOT)


def is_path(word: str) -> bool:
    """Whether an argument for pytest names tests: a file, a folder, one test."""
    path = word.partition("::")[0]
    return word[:1] != "-" and (path.endswith(".py") or (build.ROOT / path).exists())


def markers_in(paths: list[str]) -> set[str]:
    """The markers of what the default leaves out that the files of these paths have."""
    folders = [build.ROOT / path for path in paths]
    files = [file for folder in folders for file in [folder, *folder.rglob("*.py")]]
    texts = [file.read_text("utf-8") for file in files if file.is_file()]
    names = re.findall(r"mark\.(\w+)", "\n".join(texts))
    return set(names).intersection(("full", *PART_MARKERS))


def options(paths: list[str], full: bool) -> list[str]:
    """Every core, unless it is one file; all that is quick, unless more is named."""
    several = len(paths) != 1 or (build.ROOT / paths[0]).is_dir()
    spread = ["-n", "auto", "--dist", "loadfile"] if several else []
    chosen = [] if paths or full else ["-m", "not full"]
    thorough = ["--hypothesis-profile=full"] if full else []
    return spread + chosen + thorough


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except build.BuildError as error:
        sys.exit(f"build: {error}")
