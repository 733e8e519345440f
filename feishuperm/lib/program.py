"""How to start this very program again, as a process of its own."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import feishuperm
from feishuperm.lib.config import claude_dir

INSIDE = "/site-packages/feishuperm/__init__.py"
FROM_SOURCE = (
    "import sys; sys.path.insert(0, sys.argv[1]); "
    "from feishuperm.cli import main; sys.exit(main(['feishuperm'] + sys.argv[2:]))"
)


def archive_path() -> str:
    """The built file this code runs from, empty when it runs from a source tree."""
    source = feishuperm.__file__
    archive = source[: -len(INSIDE)] if source.endswith(INSIDE) else ""
    return os.path.abspath(archive) if os.path.isfile(archive) else ""


def self_command(*args: str) -> list[str]:
    """The command line of a sub-command, on this version and this Python."""
    archive = archive_path()
    if archive:
        return [sys.executable, "-IBS", archive, *args]
    root = os.path.dirname(os.path.dirname(os.path.abspath(feishuperm.__file__)))
    return [sys.executable, "-IBS", "-c", FROM_SOURCE, root, *args]


def typed_command(link: str, environ: Mapping[str, str]) -> str:
    """How a person starts this file from a shell: by name, link, or its own path.

    `link` is the installed one, if any; it counts if it leads to what runs here.
    """
    archive = archive_path()
    if os.path.exists(link) and (not archive or os.path.samefile(link, archive)):
        name = os.path.basename(link)
        typed = shutil.which(name, path=environ.get("PATH", os.defpath))
        by_name = typed and os.path.samefile(typed, link)
        return name if by_name else shlex.quote(link)
    return shlex.quote(archive) if archive else shlex.join(self_command())


def permission_event(
    tool_name: str,
    tool_input: Mapping[str, Any],
    cwd: str,
    environ: Mapping[str, str] = os.environ,
) -> dict[str, Any]:
    """A permission request of a session that there is not.

    By the place of its transcript it is Claude Code's, whatever agent's shell this is
    typed in.
    """
    projects = os.path.join(claude_dir(environ), "projects")
    return {
        "session_id": "feishuperm",
        "transcript_path": os.path.join(projects, "-", "feishuperm.jsonl"),
        "cwd": cwd,
        "hook_event_name": "PermissionRequest",
        "permission_mode": "default",
        "tool_name": tool_name,
        "tool_input": dict(tool_input),
    }


def start_hook(
    event: Mapping[str, Any],
    environ: Mapping[str, str],
    command: Sequence[str] = (),
) -> subprocess.Popen[bytes]:
    """A real hook process that has read its event, as Claude Code would start it."""
    process = subprocess.Popen(
        list(command) or self_command("hook"),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=dict(environ),
    )
    assert process.stdin is not None
    try:
        with process.stdin:
            process.stdin.write(json.dumps(event).encode() + b"\n")
    except BrokenPipeError:  # it ended at once; its empty output tells
        pass
    return process


def hook_output(process: subprocess.Popen[bytes], timeout: float) -> str:
    """What a hook printed, empty for "no decision"; ended when it takes longer."""
    try:
        process.wait(timeout)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    assert process.stdout is not None
    with process.stdout:
        return process.stdout.read().decode(errors="replace").strip()
