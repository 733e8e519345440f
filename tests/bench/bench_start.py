"""How long a start takes, against a bare Python: ratios, not times.

    python3 build.py bench start

The floor of `hook` is `python3 -I -S -c pass` of the same interpreter.  The server
answers at once, so what is left is our own cost.  Runs are interleaved: this machine's
noise falls on both alike.  Instructions come from callgrind where valgrind is
installed; the share of sh is counted by running the prefix with a no-op in place of its
`exec`.
"""

from __future__ import annotations

import os
import random
import re
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

import build  # noqa: E402
from tests.bench.table import row  # noqa: E402

ROUNDS = 150
TIME_LIMITS = {9: 1.20, 11: 1.10, 13: 1.10}
INSTRUCTION_LIMIT = 1.05
VERSION_LIMIT = 1.5
AGENT_LIMIT = 1.3  # of another agent's hook, against Claude Code's
SESSION = "5c8e1f6e-0000-4000-8000-000000000000"
ANSWER = (
    b'{"hookSpecificOutput": {"hookEventName": "PermissionRequest", '
    b'"decision": {"behavior": "allow"}}}\n'
)
EVENT = (
    b'{"session_id":"5c8e1f6e-0000-4000-8000-000000000000","cwd":"/tmp","transcript_path"'
    b':"/tmp/t.jsonl","permission_mode":"default","hook_event_name":"PermissionRequest",'
    b'"tool_name":"Bash","tool_input":{"command":"npm run build","description":"B"}}'
)


def serve(server: socket.socket) -> None:
    """Register and decide every request at once."""
    frames = b"".join(
        (len(body) + 1).to_bytes(4, "big") + kind + body
        for kind, body in ((b"A", b"55"), (b"D", ANSWER))
    )
    while True:
        connection, _ = server.accept()
        with connection:
            connection.recv(65536)
            connection.sendall(frames)


class Bench:
    """One interpreter's floor and hook."""

    def __init__(self, python: build.Python, scratch: Path) -> None:
        self.floor = [python.path, "-I", "-S", "-c", "pass"]
        self.json = [python.path, "-I", "-S", "-c", "import json"]
        self.hook = [str(build.ARCHIVE), "hook"]
        self.codex = [*self.hook, "codex"]
        self.version = [str(build.ARCHIVE), "version"]
        self.scratch = scratch
        self.environ = {
            "PATH": os.defpath,
            "XDG_CONFIG_HOME": str(scratch),
            "PERMISSION_SOCKET_PATH": str(scratch / "s"),
        }
        # By this the hook knows Claude Code.
        self.claude = {**self.environ, "CLAUDE_CODE_SESSION_ID": SESSION}
        build.write_file(
            scratch / "feishuperm" / "python", python.path.encode() + b"\n"
        )
        (scratch / "event").write_bytes(EVENT)

    def environ_of(self, command: list[str]) -> dict[str, str]:
        return self.environ if command == self.codex else self.claude

    def seconds(self, command: list[str]) -> float:
        """Wall time of one run, event on stdin, output thrown away."""
        opens = [
            (os.POSIX_SPAWN_OPEN, 0, str(self.scratch / "event"), os.O_RDONLY, 0),
            (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0),
        ]
        start = time.perf_counter()
        environ = self.environ_of(command)
        pid = os.posix_spawn(command[0], command, environ, file_actions=opens)
        _, status = os.waitpid(pid, 0)
        assert status == 0, command
        return time.perf_counter() - start

    def time_ratio(self, ours: list[str], floor: list[str]) -> float:
        """Median of ours over median of the floor."""
        times: dict[bool, list[float]] = {False: [], True: []}
        for _ in range(ROUNDS):
            for is_ours in random.sample((False, True), 2):
                times[is_ours].append(self.seconds(ours if is_ours else floor))
        return statistics.median(times[True]) / statistics.median(times[False])

    def instructions(self, command: list[str]) -> int:
        """User-space instructions of the last image a command executes."""
        output = self.scratch / "callgrind"
        valgrind = ["valgrind", "--tool=callgrind", "--trace-children=yes", "-q"]
        with open(self.scratch / "event", "rb") as event:
            subprocess.run(
                [*valgrind, f"--callgrind-out-file={output}", *command],
                env=self.environ_of(command),
                stdin=event,
                stdout=subprocess.DEVNULL,
                check=True,
            )
        return int(
            re.findall(r"^(?:summary|totals): (\d+)", output.read_text(), re.M)[0]
        )

    def sh_instructions(self) -> int:
        """What the shell does before it becomes Python."""
        text = build.ARCHIVE.read_bytes()
        end = text.index(b'"$0" "$@"\n') + 10
        script = self.scratch / "prefix"
        quiet = text[:end].replace(b'\nexec "$p"', b'\n: "$p"') + b"exit\n"
        build.write_file(script, quiet, 0o755)
        return self.instructions(["/bin/sh", str(script), "hook"])

    def check(self) -> None:
        for command in (self.hook, self.codex):
            environ = self.environ_of(command)
            result = subprocess.run(command, env=environ, input=EVENT, stdout=-1)
            assert result.stdout == ANSWER, result


def report(python: build.Python, scratch: Path) -> None:
    """The rows of one interpreter."""
    bench = Bench(python, scratch)
    bench.check()
    hook, floor = f"hook on {python.version}", "`python3 -I -S -c pass`"
    ratio = bench.time_ratio(bench.hook, bench.floor)
    row(hook, f"{floor}, time", ratio, TIME_LIMITS[python.minor])
    if shutil.which("valgrind"):
        counted = bench.instructions(bench.hook) + bench.sh_instructions()
        ratio = counted / bench.instructions(bench.floor)
        row(hook, f"{floor}, instructions", ratio, INSTRUCTION_LIMIT)
    ratio = bench.time_ratio(bench.codex, bench.hook)
    row(f"hook codex on {python.version}", "`hook`, time", ratio, AGENT_LIMIT)
    version, floor = f"`version` on {python.version}", 'the same, "import json"'
    ratio = bench.time_ratio(bench.version, bench.json)
    row(version, f"{floor}, time", ratio, VERSION_LIMIT)


def main() -> int:
    pythons = [python for python in build.find_pythons() if python.minor in TIME_LIMITS]
    scratch_folder = tempfile.TemporaryDirectory(prefix="feishuperm-bench-")
    with scratch_folder as scratch, socket.socket(socket.AF_UNIX) as server:
        server.bind(os.path.join(scratch, "s"))
        server.listen(64)
        threading.Thread(target=serve, args=(server,), daemon=True).start()
        for python in pythons:
            report(python, Path(scratch))
    return 0


if __name__ == "__main__":
    sys.exit(main())
