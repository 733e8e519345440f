"""One command hook through the engine, against a plain Python that does only that.

    python3 build.py bench engine

The floor is a script that imports json and subprocess, reads the event and runs the
same command.  Runs are interleaved, so that the machine's noise falls on both alike.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

import build  # noqa: E402
from tests.bench.table import row  # noqa: E402

ROUNDS = 100
LIMIT = 1.05
MINORS = (9, 11, 13)
PLAIN = """
import json, subprocess, sys
event = json.load(sys.stdin)
ran = subprocess.run("true", shell=True, input=json.dumps(event).encode())
print(json.dumps({"continue": ran.returncode == 0}))
"""
CALLBACK = {"event": "PreToolUse", "matcher": "Bash", "type": "command"}


def prepare(scratch: Path, python: build.Python) -> dict[str, str]:
    """A project with one callback; the environment of both programs."""
    (scratch / ".claude").mkdir()
    callbacks = {"callbacks": [{**CALLBACK, "command": "true"}]}
    settings = json.dumps({"feishuperm": callbacks})
    (scratch / ".claude" / "settings.json").write_text(settings)
    (scratch / "plain.py").write_text(PLAIN)
    pin = scratch / "feishuperm" / "python"
    build.write_file(pin, python.path.encode() + b"\n")
    return {"PATH": os.defpath, "HOME": str(scratch), "XDG_CONFIG_HOME": str(scratch)}


def seconds(command: list[str], environ: dict[str, str], event: bytes) -> float:
    started = time.perf_counter()
    ran = subprocess.run(command, env=environ, input=event, capture_output=True)
    taken = time.perf_counter() - started
    assert json.loads(ran.stdout) == {"continue": True}, ran
    return taken


EVENT = {
    "hook_event_name": "PreToolUse",
    "tool_name": "Bash",
    "tool_input": {"command": "ls"},
}


def measure(python: build.Python) -> None:
    """How many times the floor one event takes."""
    with tempfile.TemporaryDirectory() as folder:
        scratch = Path(folder)
        environ = prepare(scratch, python)
        plain = [python.path, str(scratch / "plain.py")]
        hook = [str(build.ARCHIVE), "hook"]
        event = json.dumps({**EVENT, "cwd": folder}).encode()
        pairs = [
            (seconds(plain, environ, event), seconds(hook, environ, event))
            for _ in range(ROUNDS)
        ]
    floor, ours = (statistics.median(column) for column in zip(*pairs))
    what = f"PreToolUse, one callback, on {python.version}"
    row(what, "`python3 hook.py` with json and subprocess, time", ours / floor, LIMIT)


def main() -> int:
    for python in build.find_pythons():
        if python.minor in MINORS:
            measure(python)
    return 0


if __name__ == "__main__":
    sys.exit(main())
