"""Other agents run the hooks of Claude Code's settings: they get silence, exit 0."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.agents.test_recognition import FOREIGN, SHAPE
from tests.conftest import clean_env
from tests.e2e.test_start import boot_of, imported
from tests.fakes.hook_server import ANSWER, EVENT, HookServer

EVENTS = ("PermissionRequest", "PreToolUse", "Stop", "")
# What another agent's event never loads.
HEAVY = ("feishuperm.hooks", "feishuperm.services", "feishuperm.supervisor.")


def run(
    pyz: Path, command: str, environ: dict[str, str], event: object, cwd: Path
) -> tuple[int, bytes, bytes]:
    raw = event if isinstance(event, bytes) else json.dumps(event).encode()
    result = subprocess.run(
        [str(pyz), command],
        input=raw,
        env=environ,
        cwd=cwd,
        capture_output=True,
        timeout=60,
    )
    return result.returncode, result.stdout, result.stderr


def foreign(name: str, event: str) -> dict[str, object]:
    """An event of another agent; one of them does not even name it."""
    fields = {**SHAPE, "hook_event_name": event, **FOREIGN[name][0]}
    if not event:
        del fields["hook_event_name"]
    return fields


@pytest.mark.parametrize("name", FOREIGN)
def test_other_agent_gets_nothing_and_reaches_nobody(
    pyz: Path, home: Path, tmp_path: Path, name: str
) -> None:
    """Neither the server, nor the group's bot, nor a reviewer hears of it."""
    variables = {k.decode(): v.decode() for k, v in FOREIGN[name][1].items()}
    spy = tmp_path / "spy"
    spy.write_text(f"#!/bin/sh\ntouch {tmp_path}/SPRUNG\n")
    spy.chmod(0o755)
    with HookServer(str(tmp_path / "s")) as server:
        environ = clean_env(
            home,
            CLAUDECODE="1",
            CLAUDE_PROJECT_DIR=str(tmp_path),
            PERMISSION_SOCKET_PATH=server.path,
            FEISHU_WEBHOOK_URL="http://127.0.0.1:9/open-apis/bot/v2/hook/x",
            SUPERVISOR_COMMAND=str(spy),
            **variables,
        )
        for command in ("hook", "supervisor"):
            for event in EVENTS:
                said = run(pyz, command, environ, foreign(name, event), tmp_path)
                assert said == (0, b"", b""), (command, event)
        assert not server.requests
    assert not (tmp_path / "SPRUNG").exists()
    log = home / ".local" / "state" / "feishuperm" / "feishuperm.log"
    assert log.read_text().count("runs the hooks of Claude Code's settings") == 1


def test_claude_started_from_another_agents_shell_is_served(
    pyz: Path, home: Path, tmp_path: Path
) -> None:
    with HookServer(str(tmp_path / "s")) as server:
        environ = clean_env(
            home,
            PERMISSION_SOCKET_PATH=server.path,
            CLAUDE_CODE_SESSION_ID="s-1",
            COPILOT_CLI="1",
            GEMINI_SESSION_ID="g",
        )
        assert run(pyz, "hook", environ, EVENT, tmp_path) == (0, ANSWER, b"")


@pytest.mark.parametrize("command", ["hook", "supervisor"])
def test_other_agent_costs_no_more_than_a_look(
    pyz: Path, home: Path, tmp_path: Path, command: str
) -> None:
    environ = clean_env(home, COPILOT_CLI="1")
    start = [sys.executable, "-IBS", "-X", "importtime", "-c", boot_of(pyz), str(pyz)]
    for _ in range(2):  # the second has nothing to write down
        result = subprocess.run(
            [*start, command],
            input=json.dumps(foreign("Copilot CLI", "Stop")).encode(),
            env=environ,
            cwd=tmp_path,
            capture_output=True,
            timeout=60,
        )
        assert (result.returncode, result.stdout) == (0, b"")
    loaded = imported(result.stderr)
    assert "feishuperm.agents.recognition" in loaded
    assert not [name for name in loaded if name.startswith(HEAVY)]
    assert not {"feishuperm.lib.log", "subprocess", "socket"} & loaded


def test_other_agent_with_a_full_disk_and_no_home_still_ends_with_0(
    pyz: Path, tmp_path: Path
) -> None:
    """A failure would be a refusal to Copilot."""
    environ = clean_env("/proc", COPILOT_CLI="1")
    for command in ("hook", "supervisor"):
        event = foreign("Copilot CLI", "")
        assert run(pyz, command, environ, event, tmp_path) == (0, b"", b"")
    del environ["HOME"]
    environ["XDG_STATE_HOME"] = "/proc"
    event = foreign("Grok", "Stop")
    assert run(pyz, "supervisor", environ, event, tmp_path) == (0, b"", b"")
    assert not os.listdir(tmp_path)
