"""Write the golden files again: `python3 build.py golden`.

`--pyz FILE` shows another build than that of this tree, `--to FOLDER` writes elsewhere.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from pathlib import Path

import build
from tests.golden.generate import GOLDEN, LANGUAGES, differences, generate


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="build.py golden")
    parser.add_argument("--pyz", type=Path, default=build.ARCHIVE)
    parser.add_argument("--to", type=Path, default=GOLDEN)
    options = parser.parse_args(arguments)
    files = generate(options.pyz.resolve())
    changed = differences(files, options.to)
    for language in LANGUAGES:
        shutil.rmtree(options.to / language, ignore_errors=True)
    for name, text in files.items():
        path = options.to / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    print(f"golden: {len(files)} files, {len(changed)} of them changed")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
