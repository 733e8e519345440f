"""A stand-in for an agent that plays a script over the lines that drive it.

`python3 cli.py SCRIPT.json` sends each step of the script in order and waits where the
step says so; everything it reads goes to LOG, one line each.  Steps:

    {"send": {...}}            print a line
    {"print": "..."}           print a text as it is
    {"wait": "subtype|type"}   read lines until one carries this subtype, type, method
                               or id
    {"all": [...]}             the same, until all of these came
    {"leave_child": seconds}   start a process that keeps stdout open so long
    {"exit": code}             end
    {"hang": true}             stay, reading, until the end of stdin or a signal
    {"stay": true}             stay until a signal
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys


def word_of(message: dict[str, object]) -> set[object]:
    inner = message.get("request") or message.get("response") or {}
    words = {message.get(key) for key in ("type", "request_id", "method", "id")}
    if isinstance(inner, dict):
        words |= {inner.get("subtype"), inner.get("request_id")}
    return words


def read(log: str) -> dict[str, object]:
    line = sys.stdin.readline()
    if not line:
        os._exit(9)
    with open(log, "a", encoding="utf-8") as file:
        file.write(line)
    message: dict[str, object] = json.loads(line)
    return message


def main(script: str) -> None:
    log = script + ".log"
    with open(script, encoding="utf-8") as file:
        steps = json.load(file)
    for step in steps:
        if "send" in step:
            print(json.dumps(step["send"]), flush=True)
        if "print" in step:
            print(step["print"], flush=True)
        while "wait" in step and step["wait"] not in word_of(read(log)):
            pass
        left = set(step.get("all", ()))
        while left:
            left -= word_of(read(log))
        if "leave_child" in step:
            subprocess.Popen(["sleep", str(step["leave_child"])])
        if "exit" in step:
            sys.exit(step["exit"])
        while "hang" in step:
            read(log)
        while "stay" in step:
            signal.pause()


if __name__ == "__main__":
    main(sys.argv[1])
