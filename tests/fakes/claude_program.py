"""A program called `claude` that starts nothing: it writes down how it was called.

It answers `--bg` as the real client does (2.1.326), `agents --json` with the sessions
that a test says live, and does anything else a test puts into its place.
"""

from __future__ import annotations

import json
import uuid
from pathlib import Path
from typing import Any, NamedTuple

PROGRAM = """#!/bin/sh
here={folder}
case "$1" in
  agents) cat "$here/agents"; exit 0 ;;
  --version) echo "2.1.326 (Claude Code)"; exit 0 ;;
  --help) cat "$here/help"; exit 0 ;;
esac
log=$(mktemp "$here/call-XXXXXX")
{{ printf '%s\\0' "$PWD" "$@"; }} > "$log"
env > "$log.env"
cat > "$log.in"
mv "$log" "$here/done-${{log##*call-}}"
. "$here/answer"
"""
# The id of what begins, or of what goes on.
STARTS = """
id=1a2b3c4d
[ "$2" = --resume ] && id=$(printf %.8s "$3")
echo "backgrounded \302\267 $id \302\267 feishuperm"
"""
TOO_OLD = "echo \"error: unknown option '--bg'\" >&2; exit 1"
UNTRUSTED = "Workspace not trusted. Run claude once and accept the trust prompt"
HELP = "Usage: claude [options]\n  --bg, --background  Start it in the background\n"


class Call(NamedTuple):
    folder: str
    arguments: list[str]
    environ: dict[str, str]
    text: str  # from its standard input


class ClaudeProgram:
    """The program in a folder of its own, which belongs into PATH."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()
        self.path = folder / "claude"
        self.path.write_text(PROGRAM.format(folder=folder))
        self.path.chmod(0o755)
        self.answers(STARTS)
        self.live()
        (folder / "help").write_text(HELP)

    def answers(self, script: str) -> None:
        """What it does when it is called, in the shell's words."""
        (self.folder / "answer").write_bytes(script.encode("latin-1"))

    def live(self, **sessions: str) -> None:
        """Session id -> `interactive` or `background`, for those that live."""
        rows = [{"sessionId": id, "kind": kind} for id, kind in sessions.items()]
        (self.folder / "agents").write_text(json.dumps(rows))

    def calls(self) -> list[Call]:
        """How it was called, `agents` and the like apart; the latest last."""
        return [self._read(path) for path in self._paths()]

    def last(self) -> Call:
        return self._read(self._paths()[-1])

    def count(self) -> int:
        return len(self._paths())

    def _paths(self) -> list[Path]:
        done = self.folder.glob("done-*")
        return sorted(done, key=lambda path: path.stat().st_mtime_ns)

    def _read(self, path: Path) -> Call:
        folder, *arguments = path.read_bytes().decode().split("\0")[:-1]
        name = path.name.replace("done-", "call-") + ".env"
        lines = (self.folder / name).read_text().splitlines()
        pairs = (line.partition("=") for line in lines)
        text = (self.folder / name.replace(".env", ".in")).read_bytes().decode()
        environ = {key: value for key, _, value in pairs}
        return Call(folder, arguments, environ, text)


def record_session(home: Path, folder: str, mode: str = "default", **extra: Any) -> str:
    """A transcript as the client leaves one; returns the session's id."""
    session = str(uuid.uuid4())
    lines = [
        {"type": "mode", "mode": "normal", "sessionId": session},
        {"type": "permission-mode", "permissionMode": mode, "sessionId": session},
        {"type": "user", "permissionMode": mode, "cwd": folder, **extra},
    ]
    slug = home / ".claude" / "projects" / folder.replace("/", "-")
    slug.mkdir(parents=True, exist_ok=True)
    text = "\n".join(json.dumps(line, separators=(",", ":")) for line in lines)
    (slug / f"{session}.jsonl").write_text(text + "\n")
    return session
