#!/usr/bin/env python3
"""A reviewer that acts what it is told: the client's print mode, without a model.

`reviewer.py CASE [ARGUMENT...]` does what the row of CASES says, whatever flags follow.
With REVIEWER_LOG in its environment it first appends one JSON line: arguments, stdin,
pid and working folder.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable

BLOCK = {"allow_stop": False, "feedback": "tests were not run"}
ALLOW = {"allow_stop": True, "feedback": "evidence is complete"}
LONG = 600  # seconds; nobody waits that long


def say(*values: object) -> None:
    for value in values:
        print(value if isinstance(value, str) else json.dumps(value), flush=True)


def envelope(verdict: object = None, result: str = "", **more: object) -> object:
    """What `--output-format json` prints at the end."""
    whole = {"type": "result", "subtype": "success", "is_error": False, **more}
    if verdict is not None:
        whole["structured_output"] = verdict
    return {**whole, "result": result or json.dumps(verdict)}


def fenced(*verdicts: object) -> str:
    blocks = [f"```json\n{json.dumps(verdict)}\n```" for verdict in verdicts]
    return "I looked.\n" + "\nAnd:\n".join(blocks) + "\nThat is all."


def hang(*_: str) -> None:
    time.sleep(LONG)


def leave_children(*_: str) -> None:
    """Children that would stay: one in the group, one in a session of its own."""
    sleep = [sys.executable, "-c", f"import time; time.sleep({LONG})"]
    for apart in (False, True):
        subprocess.Popen(sleep, start_new_session=apart, stderr=subprocess.DEVNULL)


def answer_and_leave_children(*_: str) -> None:
    leave_children()
    say(envelope(BLOCK))


def hang_with_children(*_: str) -> None:
    leave_children()
    hang()


def deafly(*_: str) -> None:
    """A verdict without ever reading stdin."""
    say(envelope(BLOCK))


def fail(*_: str) -> None:
    say(envelope(BLOCK))
    print(os.environ.get("ANTHROPIC_API_KEY"), file=sys.stderr)
    sys.exit(3)


def flood(*_: str) -> None:
    for _line in range(3000):
        sys.stdout.write("x" * 1000 + "\n")


def fill(path: str, *_: str) -> None:
    """A verdict as slow as the file `path` is late."""
    while not os.path.exists(path):
        time.sleep(0.01)
    say(envelope(BLOCK))


CASES: dict[str, Callable[..., None]] = {
    "block": lambda *_: say(envelope(BLOCK)),
    "allow": lambda *_: say(envelope(ALLOW)),
    "block-without-words": lambda *_: say(envelope({**BLOCK, "feedback": " "})),
    "bare": lambda *_: say(BLOCK),
    "verbose": lambda *_: say([{"type": "system"}, envelope(BLOCK)]),
    "text": lambda *_: say(envelope(result="Verdict: " + json.dumps(BLOCK) + ". Bye")),
    "fenced": lambda *_: say(envelope(result=fenced(BLOCK))),
    "fenced-twice": lambda *_: say(envelope(result=fenced(ALLOW, BLOCK))),
    "fenced-plain": lambda *_: say(fenced(BLOCK)),
    "twice": lambda *_: say(envelope(ALLOW), envelope(BLOCK)),
    "silent": lambda *_: None,
    "garbled": lambda *_: say("I think it is fine {allow_stop: maybe"),
    "wrong-types": lambda *_: say(envelope({"allow_stop": "no", "feedback": 1})),
    "half": lambda *_: say(envelope({"allow_stop": False})),
    "error": lambda *_: say(envelope(BLOCK, is_error=True, subtype="error_max_budget")),
    "fail": fail,
    "flood": flood,
    "hang": hang,
    "hang-with-children": hang_with_children,
    "answer-and-leave-children": answer_and_leave_children,
    "deafly": deafly,
    "wait-for-file": fill,
}


def main() -> None:
    case, *arguments = sys.argv[1:]
    stdin = "" if case == "deafly" else sys.stdin.read()
    path = os.environ.get("REVIEWER_LOG")
    if path:
        line = {
            "argv": arguments,
            "stdin": stdin,
            "pid": os.getpid(),
            "cwd": os.getcwd(),
        }
        with open(path, "a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
    CASES[case](*arguments)


if __name__ == "__main__":
    main()
