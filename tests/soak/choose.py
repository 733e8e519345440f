"""`python3 build.py soak [NAME ...]`: try for an hour to break the built file.

The long forms of proofs whose short forms are tests.
"""

from __future__ import annotations

import subprocess
import sys

SOAKS = {
    "fuzz": ("-m", "tests.fuzz"),
    "faults": ("-m", "tests.soak"),
    "app": ("-m", "tests.soak.app"),
    "gateway": ("-m", "tests.soak.gateway"),
    "forged": ("-m", "tests.soak.gateway", "forged"),
    "turns": ("tests/bench/bench_turns.py",),
    "load": ("tests/bench/bench_load.py",),
}


def main(names: list[str]) -> int:
    unknown = [name for name in names if name not in SOAKS]
    if unknown:
        print(f"soak: {unknown[0]} is none of {', '.join(SOAKS)}", file=sys.stderr)
        return 2
    chosen = names or list(SOAKS)
    return max(subprocess.call([sys.executable, *SOAKS[name]]) for name in chosen)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
