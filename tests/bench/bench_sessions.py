"""Reading transcripts for cards: a huge one beside a small one, and a hundred at once.

python3 build.py bench sessions
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
import tracemalloc
from pathlib import Path
from statistics import median

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from feishuperm.services.session_reader import Turn, figures  # noqa: E402
from tests.bench.table import row  # noqa: E402

HUGE, SMALL = 500 << 20, 2 << 20
TIMES = 15  # first looks, by turns
WATCHED, EVERY, ROUNDS = 100, 5.0, 6  # sessions, seconds between looks, looks at each
LOOK_MS, CORE = 50, 0.03


def call(number: int) -> str:
    """A call and its result, as long as they are."""
    usage = {"input_tokens": 10, "cache_read_input_tokens": 50_000}
    given = {"command": "npm test " + "x" * 300, "description": "run the tests"}
    use = {"type": "tool_use", "id": f"t{number}", "name": "Bash", "input": given}
    message = {"id": f"m{number}", "content": [use], "usage": usage}
    result = {
        "type": "tool_result",
        "tool_use_id": f"t{number}",
        "content": "ok\n" * 400,
    }
    rows = (
        {"type": "assistant", "message": message, "timestamp": "2026-11-19T06:00:00Z"},
        {"type": "user", "message": {"content": [result]}},
    )
    return "".join(json.dumps(entry) + "\n" for entry in rows)


def transcript(path: Path, size: int) -> Path:
    """One turn of so many bytes: its prompt is far from the end."""
    part = "".join(map(call, range(1000)))
    with path.open("w") as file:
        file.write(json.dumps({"type": "user", "message": {"content": "go"}}) + "\n")
        while file.tell() < size:
            file.write(part)
    return path


def first_look(path: Path) -> float:
    """Seconds of the processor."""
    began = time.thread_time()
    Turn(os.fsencode(path)).look()
    return time.thread_time() - began


def memory(path: Path) -> int:
    tracemalloc.start()
    Turn(os.fsencode(path)).look()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak


def compare(folder: Path) -> None:
    """A first look at either, by turns."""
    huge = transcript(folder / "huge.jsonl", HUGE)
    small = transcript(folder / "small.jsonl", SMALL)
    pairs = [(first_look(huge), first_look(small)) for _ in range(TIMES)]
    slow, quick = (median(times) for times in zip(*pairs))
    print(f"first look: 500 MB {slow * 1e3:.1f} ms, 2 MB {quick * 1e3:.1f} ms")
    row(
        "first look at a transcript of 500 MB",
        "one of 2 MB",
        slow / quick,
        1.3,
        "times",
    )
    row("the same", "of the loop", slow * 1e3, LOOK_MS, "ms")
    row("its memory", "one of 2 MB", memory(huge) / memory(small), 1.1, "times")
    huge.unlink()


def watch(folder: Path) -> None:
    """What a hundred cards cost that are drawn again every five seconds."""
    paths = [transcript(folder / f"{n}.jsonl", SMALL) for n in range(WATCHED)]
    for path in paths:
        figures(str(path))
    spent = 0.0
    for number in range(ROUNDS):
        for path in paths:
            with path.open("a") as file:
                file.write(call(number))
        began = time.thread_time()
        for path in paths:
            figures(str(path))
        spent += time.thread_time() - began
    share = spent / (ROUNDS * EVERY)
    print(f"{WATCHED} transcripts that grow: {share:.2%} of a core")
    row(
        "reading 100 sessions that are watched",
        "of a core",
        share * 100,
        CORE * 100,
        "%",
    )


def main() -> int:
    with tempfile.TemporaryDirectory() as name:
        compare(Path(name))
        watch(Path(name))
    return 0


if __name__ == "__main__":
    sys.exit(main())
