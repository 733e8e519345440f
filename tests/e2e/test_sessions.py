"""The list of sessions with the real client: at a terminal, and in the background."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import threading
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import wait_until
from tests.fakes.model import text, tool
from tests.lab import Lab
from tests.served import Served

pytestmark = pytest.mark.claude


def listed(lab: Lab) -> dict[str, dict[str, Any]]:
    """What `sessions --json` says, by title or else by folder."""
    done = lab.run_pyz("sessions", "--json")
    assert done.returncode == 0 and done.stderr == "", done.stderr
    return {row["title"] or row["project"]: row for row in json.loads(done.stdout)}


def test_living_sessions_are_listed_with_what_they_do_and_ended_ones_as_ended(
    lab: Lab,
) -> None:
    bin = Path(lab.root) / "bin"
    bin.mkdir()
    (bin / "claude").symlink_to(lab.binary)
    lab.extra["PATH"] = f"{bin}:{lab.environ()['PATH']}"
    home = Path(lab.root) / "server"
    home.mkdir()
    environ = {"CLAUDE_CONFIG_DIR": lab.config, "PATH": lab.extra["PATH"]}
    call = tool("Bash", command="touch one", description="x")
    lab.model.push([text("Now."), call])
    with Served(Path(lab.pyz), home, **environ) as served, served.watched():
        lab.socket = served.socket
        lab.pyz_hook("PermissionRequest", matcher="*", timeout=60)
        session = lab.session("go", "-n", "Front")
        id = wait_until(served.waiting, timeout=40)[0]
        front = listed(lab)["Front"]
        assert (front["state"], front["project"]) == ("waiting", lab.project)
        assert front["doing"] == "Bash: touch one" and front["tokens"] == 30
        served.get(f"/allow?id={id}")
        session.wait("DONE")
        said = subprocess.run(
            [lab.binary, "--bg", "-n", "Behind", "go"], env=lab.environ(),
            cwd=lab.project, stdin=subprocess.DEVNULL, capture_output=True, text=True,
            timeout=60, check=True,
        ).stdout  # fmt: skip
        job = re.search(r"backgrounded · (\w+)", said)
        assert job is not None, said
        try:
            wait_until(lambda: listed(lab).get("Behind", {}).get("state") == "idle", 30)
            rows = listed(lab)
            assert rows["Behind"]["background"] and not rows["Front"]["background"]
            assert rows["Front"]["state"] == "idle"
        finally:
            subprocess.run(
                [lab.binary, "stop", job[1]], env=lab.environ(), cwd=lab.project,
                stdin=subprocess.DEVNULL, capture_output=True, timeout=60, check=True,
            )  # fmt: skip
        os.kill(session.pid, signal.SIGKILL)  # as a terminal that crashes does
        ended = {"Front": "ended", "Behind": "ended"}
        wait_until(
            lambda: {name: row["state"] for name, row in listed(lab).items()} == ended,
            30,
        )


def test_session_without_a_terminal_works_until_it_ends(lab: Lab) -> None:
    """The client lists no such session."""
    bin = Path(lab.root) / "bin"
    bin.mkdir()
    (bin / "claude").symlink_to(lab.binary)
    lab.extra["PATH"] = f"{bin}:{lab.environ()['PATH']}"
    lab.settings = {"permissions": {"allow": ["Bash"]}}
    wait = "timeout 90 sh -c 'while ! [ -e go ]; do sleep 0.1; done'"
    lab.model.push([tool("Bash", command=wait)], [text("bye")])

    def state() -> str:
        rows = json.loads(lab.run_pyz("sessions", "--json").stdout)
        return " ".join(row["state"] for row in rows)

    worker = threading.Thread(target=lab.run, args=("go",))
    worker.start()
    lab.model.wait(1)
    wait_until(lambda: state() == "working", 20)
    lab.write("go", "")
    worker.join(60)
    assert state() == "ended"
