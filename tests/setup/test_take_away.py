"""Single things an install put in are taken out again; the rest stays."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from feishuperm.commands.install import main, parser
from feishuperm.errors import UsageError
from feishuperm.setup.claude_settings import (
    ClaudeStep,
    find_hooks,
    guarded,
    kind_in,
    program_of,
    unguarded,
)
from feishuperm.setup.install import Install
from tests.setup.conftest import run
from tests.tables import every_row


def install(environ: dict[str, str], *args: str) -> Install:
    """Install's steps in Claude Code's files, run; no program and no server."""
    made = Install(parser().parse_args(["--no-service", "--no-input", *args]), environ)
    for step in made.steps():
        if isinstance(step, ClaudeStep) or step.name == "commands":
            run(step)
    return made


def hooks(path: Path) -> list[str]:
    return [f"{h.event} {h.program}" for h in find_hooks(path.read_text())]


def kinds(path: Path) -> list[tuple[str, str]]:
    rows = find_hooks(path.read_text())
    return [(hook.event, kind_in(hook.entry["command"])) for hook in rows]


def test_event_is_taken_out_again(bare: dict[str, str]) -> None:
    path = Path(bare["HOME"], ".claude/settings.json")
    install(bare)
    plain = path.read_bytes()
    install(bare, "--events", "Stop,Notification")
    assert len(hooks(path)) == 3
    install(bare, "--no-events", "Stop")
    assert hooks(path) == [
        "PermissionRequest feishuperm-hook",
        "Notification feishuperm-hook",
    ]
    install(bare, "--no-events", "Stop,Notification")
    assert path.read_bytes() == plain


def test_kind_is_taken_out_again_and_waits_as_long_as_a_request(
    bare: dict[str, str],
) -> None:
    path = Path(bare["HOME"], ".claude/settings.json")
    install(bare)
    plain = path.read_bytes()
    install(bare, "--events", "denied,next")
    assert len(hooks(path)) == 5
    [note] = install(bare).notes()
    assert note.startswith("add denied,next to FEISHUPERM_NOTIFY")
    install(bare, "--wait", "10m")
    waits = {hook.event: hook.entry["timeout"] for hook in find_hooks(path.read_text())}
    assert waits["PermissionDenied"] == waits["PermissionRequest"] >= 605
    install(bare, "--wait", "55s", "--no-events", "denied,next")
    assert path.read_bytes() == plain


def test_session_is_taken_out_again_and_shares_hooks_with_other_kinds(
    bare: dict[str, str],
) -> None:
    path = Path(bare["HOME"], ".claude/settings.json")
    install(bare)
    plain = path.read_bytes()
    install(bare, "--events", "session")
    alone = kinds(path)
    assert ("PreToolUse", "session") in alone
    assert list(install(bare).notes()) == []  # it makes no cards
    install(bare, "--events", "denied")
    moved = {("PreToolUse", "denied"), ("PermissionDenied", "denied")}
    assert set(kinds(path)) == {*alone, *moved} - {("PreToolUse", "session")}
    install(bare, "--no-events", "denied")
    assert sorted(kinds(path)) == sorted(alone)
    install(bare, "--no-events", "session")
    assert path.read_bytes() == plain


def test_supervisor_is_taken_out_again_with_all_it_brought(
    bare: dict[str, str],
) -> None:
    path = Path(bare["HOME"], ".claude/settings.json")
    install(bare, "--events", "Stop")
    plain = path.read_bytes()
    install(bare, "--supervisor")
    commands = path.parent / "commands"
    assert "feishuperm-supervisor" in path.read_text() and list(commands.iterdir())
    assert "CLAUDE_CODE_STOP_HOOK_BLOCK_CAP" in path.read_text()
    install(bare, "--no-supervisor")
    assert path.read_bytes() == plain
    assert not commands.exists()


def test_cap_that_somebody_set_stays_when_the_supervisor_goes(
    bare: dict[str, str],
) -> None:
    path = Path(bare["HOME"], ".claude/settings.json")
    path.parent.mkdir()
    path.write_text('{"env": {"CLAUDE_CODE_STOP_HOOK_BLOCK_CAP": "5"}}')
    install(bare, "--supervisor")
    install(bare, "--no-supervisor")
    assert json.loads(path.read_text())["env"] == {
        "CLAUDE_CODE_STOP_HOOK_BLOCK_CAP": "5"
    }


@every_row(
    "args",
    [
        ["--supervisor", "--no-supervisor"],
        ["--ask-list", "--no-ask-list"],
        ["--events", "Stop,next", "--no-events", "next"],
        ["--agents", "codex", "--no-agents", "qwen,codex"],
        ["--shared"],
    ],
)
def test_contradictions_are_usage_errors(args: list[str]) -> None:
    with pytest.raises(UsageError, match=r"contradict each other|needs --project"):
        main(args)


# In a project.


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder / ".claude"


def test_project_install_is_this_persons_own(
    bare: dict[str, str], project: Path
) -> None:
    install(bare, "--project")
    assert not (project / "settings.json").exists()
    assert hooks(project / "settings.local.json") == [
        "PermissionRequest feishuperm-hook"
    ]


def test_shared_file_harms_nobody_who_has_not_installed_us(
    bare: dict[str, str], project: Path
) -> None:
    made = install(bare, "--project", "--shared")
    path = project / "settings.json"
    [hook] = find_hooks(path.read_text())
    assert hook.entry["command"] == guarded("feishuperm-hook")
    assert bare["HOME"] not in path.read_text()
    assert not (project / "settings.local.json").exists()
    before = path.read_bytes()
    assert not any(step.changes() for step in made.other_claude_steps())
    install(bare)  # the user's own file; the shared one keeps its form
    assert path.read_bytes() == before


def test_hooks_in_the_shared_file_stay_there(
    bare: dict[str, str], project: Path
) -> None:
    """Two entries would ask twice."""
    install(bare, "--project", "--shared")
    before = (project / "settings.json").read_bytes()
    install(bare, "--project")
    assert (project / "settings.json").read_bytes() == before
    assert not (project / "settings.local.json").exists()
    assert len(hooks(project / "settings.json")) == 1


def test_guarded_command_is_known_and_nothing_else_is() -> None:
    command = guarded("feishuperm-hook")
    assert unguarded(command) == "feishuperm-hook"
    assert unguarded(guarded("feishuperm-hook", "next")) == "feishuperm-hook next"
    assert program_of(command) == "feishuperm-hook"
    for other in (
        "feishuperm-hook || true",
        command.replace("true", "false"),
        "command -v feishuperm-hook >/dev/null 2>&1 && other || true",
    ):
        assert unguarded(other) == other


@pytest.mark.parametrize(("kind", "code"), [("next", 2), ("denied", 0)])
def test_guarded_command_keeps_the_exit_code_that_means_something(
    tmp_path: Path, kind: str, code: int
) -> None:
    program = tmp_path / "feishuperm-hook"
    program.write_text("#!/bin/sh\nexit 2\n")
    program.chmod(0o755)
    for path, expected in ((f"{tmp_path}:/bin:/usr/bin", code), ("/bin:/usr/bin", 0)):
        command = ["/bin/sh", "-c", guarded("feishuperm-hook", kind)]
        assert subprocess.run(command, env={"PATH": path}).returncode == expected
