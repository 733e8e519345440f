"""What `install --agents` wrote, met by the real agents."""

from __future__ import annotations

import json
import os
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.agent_lab import AgentLab, agent_lab
from tests.conftest import need, wait_until
from tests.fakes.model import text
from tests.served import Served

pytestmark = pytest.mark.agents

QUIET = ("--no-service", "--no-input")


def with_program(lab: AgentLab) -> AgentLab:
    """Put the agent itself in PATH, as a person has it."""
    program = Path(lab.bin, lab.name)
    program.write_text(f'#!/bin/sh\nexec {shlex.join(lab.command)} "$@"\n')
    program.chmod(0o755)
    lab.extra["PATH"] = f"{lab.bin}:/usr/local/bin:/usr/bin:/bin"
    return lab


@pytest.fixture
def codex(pyz: object) -> Iterator[AgentLab]:
    need("tmux")
    with agent_lab("codex", str(pyz)) as lab:
        yield with_program(lab)


@pytest.fixture
def copilot(pyz: object) -> Iterator[AgentLab]:
    need("tmux")
    with agent_lab("copilot", str(pyz)) as lab:
        os.makedirs(os.path.join(lab.home, ".copilot"), exist_ok=True)
        yield with_program(lab)


@pytest.fixture
def opencode(pyz: object) -> Iterator[AgentLab]:
    need("tmux")
    with agent_lab("opencode", str(pyz)) as lab:
        yield with_program(lab)


def ours(lab: AgentLab, *args: str) -> str:
    return lab.run_pyz(*args).stdout


def doctor(lab: AgentLab) -> str:
    """What it says of agents."""
    rows = ours(lab, "doctor").splitlines()
    return "\n".join(row for row in rows if row.split()[1] == "agents")


def ask(lab: AgentLab) -> None:
    """A call that the person at the terminal allows."""
    lab.model.push([lab.shell("touch made.txt")], [text("it is over")])
    lab.start("please run it")
    lab.wait_screen(lab.dialog)
    assert not lab.has("made.txt")
    lab.press(lab.approve)
    lab.wait_screen("it is over")
    assert lab.has("made.txt")


def test_codex_asks_once_though_hooks_were_copied_and_doctor_sees_the_review(
    codex: AgentLab,
) -> None:
    home = Path(codex.root, "server")
    home.mkdir()
    with Served(Path(codex.pyz), home) as served:
        codex.socket = served.socket
        said = ours(codex, "install", *QUIET, "--agents", "codex")
        assert "Codex will ask to review the hook" in said
        path = Path(codex.home, ".codex/hooks.json")
        copy_plain_hook(path, f"{codex.home}/.local/bin/feishuperm-hook")
        found = doctor(codex)
        assert "do nothing there" in found and "has not reviewed the hook" in found
        codex.model.push([codex.shell("touch made.txt")], [text("it is over")])
        codex.start("please run it")
        id = wait_until(served.waiting)[0]
        served.get(f"/allow?id={id}")
        codex.wait_screen("it is over")
        assert codex.has("made.txt")
        rows = [row for row in served.ledger() if "touch made" in json.dumps(row)]
        assert {row["id"] for row in rows} == {id}
        assert {row.get("agent") for row in rows} == {"codex"}
        ours(codex, "install", *QUIET, "--agents", "codex")  # takes the copies out
        found = doctor(codex)
        assert found.startswith("ok") and "Codex 0." in found, found
        said = ours(codex, "install", *QUIET, "--wait", "10m")
        assert "Codex will ask to review the hook" in said
        assert "has not reviewed the hook" in doctor(codex)
        ours(codex, "uninstall")
        assert json.loads(path.read_text()) == {}


def copy_plain_hook(path: Path, command: str) -> None:
    """As Codex's `/import` copies Claude Code's hooks."""
    value = json.loads(path.read_text())
    group = {"matcher": "*", "hooks": [{"type": "command", "command": command}]}
    value["hooks"]["PermissionRequest"].append(group)
    path.write_text(json.dumps(value))


def test_copilot_asks_in_the_terminal_after_the_program_was_removed(
    copilot: AgentLab,
) -> None:
    ours(copilot, "install", *QUIET, "--agents", "copilot")
    assert doctor(copilot).startswith("ok")
    for folder in ("bin", "share"):  # by hand: its hook stays registered
        shutil.rmtree(os.path.join(copilot.home, ".local", folder))
    assert Path(copilot.home, ".copilot/hooks/feishuperm.json").exists()
    ask(copilot)


def test_opencode_asks_by_its_plugin_and_forgets_it_with_the_program(
    opencode: AgentLab,
) -> None:
    plugin = Path(opencode.home, ".config/opencode/plugin/feishuperm.js")
    home = Path(opencode.root, "server")
    home.mkdir()
    with Served(Path(opencode.pyz), home) as served:
        opencode.socket = served.socket
        ours(opencode, "install", *QUIET, "--agents", "opencode")
        found = doctor(opencode)
        assert found.startswith("ok") and "opencode 1." in found, found
        opencode.model.push([opencode.shell("touch made.txt")], [text("it is over")])
        opencode.start("please run it")
        id = wait_until(served.waiting)[0]
        served.post("/allow", id=id, confirmed="1")
        opencode.wait_screen("it is over")
        assert opencode.has("made.txt")
        opencode.model.push([opencode.shell("touch more.txt")], [text("never")])
        opencode.say("again")
        id = wait_until(served.waiting)[0]
        opencode.wait_screen(opencode.dialog)
        opencode.press(("C-c", "C-d"))  # opencode ends, and its hook with it
        wait_until(lambda: not served.waiting())
        served.get(f"/allow?id={id}")
        assert not opencode.has("more.txt")
    for folder in ("bin", "share"):  # by hand: the plugin stays
        shutil.rmtree(os.path.join(opencode.home, ".local", folder))
    assert plugin.exists()
    opencode.model.script["main"] = []
    os.remove(os.path.join(opencode.project, "made.txt"))
    ask(opencode)


def test_uninstall_leaves_nothing_of_the_plugin(opencode: AgentLab) -> None:
    folder = Path(opencode.home, ".config/opencode")
    before = sorted(folder.iterdir())
    ours(opencode, "install", *QUIET, "--agents", "opencode")
    assert sorted(folder.iterdir()) != before
    ours(opencode, "uninstall")
    assert sorted(folder.iterdir()) == before
