"""`python3 build.py bench [NAME ...]`: every bench, and one table of what they found.

A run of all of them is kept in RESULTS.md, above its other sections, with the machine
and the versions it ran on.
"""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import tempfile
from pathlib import Path

import build
from tests.bench.table import ROWS_FILE, markdown, read_rows

FOLDER = Path(__file__).resolve().parent
RESULTS = FOLDER / "RESULTS.md"
HEAD = """\
# What was measured

Written by `python3 build.py bench`. Every ratio is of two things that ran by turns in
the same minutes, so that the machine's noise falls on both alike; a time depends on the
machine, a ratio hardly.

"""


def benches(names: list[str]) -> list[Path]:
    """The named ones, or all. Raises SystemExit."""
    paths = {path.stem[6:]: path for path in sorted(FOLDER.glob("bench_*.py"))}
    unknown = [name for name in names if name not in paths]
    if unknown:
        raise SystemExit(f"bench: {unknown[0]} is none of {', '.join(paths)}")
    return [paths[name] for name in names or paths]


def machine() -> str:
    """Where this ran: processor, system, interpreters, the build."""
    processor = platform.machine()
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            models = [line for line in file if line.startswith("model name")]
            processor = models[0].partition(":")[2].strip()
    except (OSError, IndexError):
        pass
    version = subprocess.run(
        [str(build.ARCHIVE), "version"], capture_output=True, text=True
    ).stdout.strip()
    pythons = ", ".join(python.version for python in build.find_pythons())
    load = os.getloadavg()[0]
    return (
        f"{os.cpu_count()} processors ({processor}), {platform.system()} "
        f"{platform.release()}, load {load:.1f} at the end.\n{version}; compiled for "
        f"{pythons}; {build.ARCHIVE.stat().st_size} bytes.\n"
    )


def main(names: list[str]) -> int:
    chosen = benches(names)
    with tempfile.NamedTemporaryFile(prefix="feishuperm-bench-") as rows_file:
        environ = {**os.environ, ROWS_FILE: rows_file.name}
        codes = [subprocess.call([sys.executable, str(p)], env=environ) for p in chosen]
        rows = read_rows(rows_file.name)
    table = f"{markdown(rows)}\n{machine()}"
    print(f"\n{table}")
    if not names:
        sections = "".join(RESULTS.read_text("utf-8").partition("\n## ")[1:])
        build.write_file(RESULTS, (HEAD + table + sections).encode())
    return int(any(codes) or not all(row.holds for row in rows))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
