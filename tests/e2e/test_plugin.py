"""The Claude Code plugin: the real client takes it, and a request is asked once."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import wait_until
from tests.fakes.model import text, tool
from tests.lab import Lab
from tests.served import Served

pytestmark = pytest.mark.claude

ID = "feishuperm@feishuperm"


@pytest.fixture
def served(lab: Lab) -> Iterator[Served]:
    home = Path(lab.root) / "server"
    home.mkdir()
    with Served(Path(lab.pyz), home) as server:
        lab.socket = server.socket
        yield server


def claude(lab: Lab, *args: str) -> str:
    """A sub-command of the client; what it printed."""
    done = subprocess.run(
        [lab.binary, "plugin", *args],
        env=lab.environ(),
        cwd=lab.project,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


def ours(lab: Lab, *args: str) -> str:
    """A command of the built file; what it printed."""
    done = lab.run_pyz(*args)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def add_plugin(lab: Lab) -> Path:
    folder = ours(lab, "plugin")
    assert folder.startswith("/") and folder.count("\n") == 1
    folder = folder.strip()
    claude(lab, "validate", folder, "--strict")
    claude(lab, "validate", f"{folder}/feishuperm", "--strict")
    claude(lab, "marketplace", "add", folder)
    claude(lab, "install", ID)
    return Path(folder)


def registered(lab: Lab) -> Any:
    settings = json.loads(Path(lab.config, "settings.json").read_text())
    return settings.get("hooks", {}).get("PermissionRequest", [])


def asked(lab: Lab, served: Served, name: str) -> int:
    """Let a session ask for a call and allow it; how many requests there were."""
    call = tool("Bash", command=f"touch {name}", description="x")
    lab.model.push([call], [text(f"bye {name}")])
    session = lab.session("go")
    id = wait_until(served.waiting, timeout=40)[0]
    served.get(f"/allow?id={id}")
    session.wait(f"bye {name}")
    assert Path(lab.project, name).exists()
    session.close()
    wait_until(lambda: not served.waiting())
    rows = [row for row in served.ledger() if f"touch {name}" in json.dumps(row)]
    return len({row["id"] for row in rows})


def test_plugin_alone_asks_and_with_settings_it_is_silent(
    lab: Lab, served: Served
) -> None:
    lab.prepare()  # before the client has a state of its own
    quiet = ("--no-service", "--no-input")
    ours(lab, "install", *quiet, "--no-hooks")
    folder = add_plugin(lab)
    said = ours(lab, "install", *quiet)
    assert f"the plugin {ID} asks; nothing is registered twice" in said
    assert registered(lab) == []
    assert asked(lab, served, "one") == 1
    # Settings get the hook by hand, or from an install before there was the plugin.
    hook = {"type": "command", "command": f"{lab.home}/.local/bin/feishuperm-hook"}
    path = Path(lab.config, "settings.json")
    before = path.read_bytes()
    value = json.loads(before)
    group = {"matcher": "*", "hooks": [hook]}
    value["hooks"] = {"PermissionRequest": [group]}
    path.write_text(json.dumps(value))
    assert asked(lab, served, "two") == 1
    path.write_bytes(before)
    # It follows the wait, and goes.
    ours(lab, "install", *quiet, "--wait", "30m")
    assert '"timeout": 1805' in (folder / "feishuperm/hooks/hooks.json").read_text()
    removed = lab.run_pyz("uninstall").stdout
    assert f"claude plugin uninstall {ID}" in removed
    assert not list(folder.rglob("*.json"))
    claude(lab, "uninstall", ID)
    claude(lab, "marketplace", "remove", "feishuperm")
