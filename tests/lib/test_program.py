"""This program can start itself again, from a source tree too."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from feishuperm import __version__
from feishuperm.agents.table import AGENTS
from feishuperm.lib.program import (
    archive_path,
    hook_output,
    permission_event,
    self_command,
    start_hook,
)
from feishuperm.wire import is_claude


def test_source_tree_is_no_archive() -> None:
    assert archive_path() == ""


def test_command_line_runs_this_version() -> None:
    result = subprocess.run(
        self_command("version"), capture_output=True, text=True, timeout=60
    )
    assert result.stdout.startswith(f"feishuperm {__version__},")


def test_hook_process_reads_its_event_and_its_output_comes_back() -> None:
    echo = [sys.executable, "-c", "print(input())"]
    hook = start_hook({"a": 1}, os.environ, echo)
    assert hook_output(hook, 30) == '{"a": 1}'


def test_hook_that_ends_without_reading_says_nothing() -> None:
    hook = start_hook({"a": "x" * 200_000}, os.environ, ["/bin/true"])
    assert hook_output(hook, 30) == ""


def test_hook_that_takes_too_long_is_ended() -> None:
    hook = start_hook({}, os.environ, ["/bin/sleep", "60"])
    assert hook_output(hook, 0.0) == ""
    assert hook.returncode is not None


def test_event_that_we_make_is_claudes_whatever_shell_it_is_typed_in(
    tmp_path: Path,
) -> None:
    """Nor does its hook say that we are its session: then we could not answer it."""
    marks = {name.decode(): "1" for row in AGENTS.values() for name in row.variables}
    environ = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), **marks}
    event = permission_event("Bash", {}, "/p", environ)
    encoded = {os.fsencode(key): os.fsencode(environ[key]) for key in environ}
    assert is_claude(json.dumps(event).encode(), encoded)
    command = ["/bin/sh", "-c", "cat >/dev/null; env"]
    seen = hook_output(start_hook(event, environ, command), 20)
    assert f"HOME={tmp_path}" in seen
    assert "CLAUDE" not in seen
