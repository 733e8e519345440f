"""Whose word a project's files are: Claude Code's record, ours, and nobody's."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from feishuperm.errors import FileError
from feishuperm.hooks import trust as module
from feishuperm.hooks.trust import (
    Records,
    content_hash,
    project_content,
)
from tests.hooks.parts import Clone

# Claude Code's own record.


def test_folder_is_covered_by_the_record_of_its_repository(clone: Clone) -> None:
    assert not clone.covered()
    clone.accepted(clone.root)
    assert clone.covered()
    inner = clone.root / "a" / "b"
    inner.mkdir(parents=True)
    assert clone.covered(inner)
    link = clone.home / "link"
    link.symlink_to(inner)
    assert clone.covered(link)


def test_folder_above_the_repository_does_not_cover_it(clone: Clone) -> None:
    clone.accepted(clone.root.parent)
    assert not clone.covered()
    (clone.root / ".git").rmdir()
    assert clone.covered()  # as Claude Code does where there is no repository


@pytest.mark.parametrize("value", [False, "true", 1, None, {}])
def test_only_a_plain_yes_counts(clone: Clone, value: Any) -> None:
    clone.accepted(clone.root, value=value)
    assert not clone.covered()


@pytest.mark.parametrize("text", ["", "{", "[]", '{"projects": []}'])
def test_broken_record_covers_nothing(clone: Clone, text: str) -> None:
    (clone.home / ".claude.json").write_text(text)
    assert not clone.covered()


def test_record_lies_where_the_clients_configuration_lies(clone: Clone) -> None:
    other = clone.home / "other"
    clone.accepted(clone.root, name="other/.claude.json")
    assert not clone.covered()
    assert clone.covered(CLAUDE_CONFIG_DIR=str(other))
    ignored = {"CLAUDE_CODE_IGNORE_PERSISTED_TRUST": "1"}
    assert not clone.covered(CLAUDE_CONFIG_DIR=str(other), **ignored)


def test_worktree_is_covered_by_its_repository_and_a_thief_is_not(
    clone: Clone, tmp_path: Path
) -> None:
    (clone.root / ".git").rmdir()
    git = ["git", "-C", str(clone.root), "-c", "user.name=x", "-c", "user.email=x"]
    for words in (["init", "-q"], ["commit", "-q", "--allow-empty", "-m", "x"]):
        subprocess.run([*git, *words], check=True, timeout=20)
    side, thief = tmp_path / "side", tmp_path / "thief"
    add = ["worktree", "add", "-q", str(side)]
    subprocess.run([*git, *add], check=True, timeout=20, capture_output=True)
    thief.mkdir()
    (thief / ".git").write_text((side / ".git").read_text())
    clone.accepted(clone.root)
    assert clone.covered(side)
    assert not clone.covered(thief)


# Ours.


@pytest.mark.parametrize(
    "name",
    [
        ".claude/settings.json",
        ".claude/settings.local.json",
        ".mcp.json",
        ".claude/hooks/a.py",
        ".claude/hooks/new.py",
        ".claude/hooks/deep/er/new.py",
        "hooks/other.sh",
        "lib/check.sh",
        "tools/run",
    ],
)
def test_any_other_byte_needs_trust_again(clone: Clone, name: str) -> None:
    command = {"type": "command", "command": '"$CLAUDE_PROJECT_DIR"/lib/check.sh $FILE'}
    native = {"type": "command", "command": "cd . && tools/run --all"}
    value = {
        "feishuperm": {"callbacks": [{**command, "event": "Stop"}]},
        "hooks": {"Stop": [{"hooks": [native]}]},
    }
    clone.write(".claude/settings.json", value)
    clone.write("lib/check.sh", "true")
    clone.write("tools/run", "true")
    clone.write("README", "not a part of it")
    assert clone.review().trust(lambda _: "yes", lambda line: None)
    clone.write("README", "changed")
    assert clone.covered()
    before = (clone.root / name).read_text() if (clone.root / name).exists() else None
    clone.write(name, (before or "{}") + " ")
    assert not clone.covered()
    if before is not None:
        clone.write(name, before)
        assert clone.covered()


@pytest.mark.parametrize("folders", [5, True, {"hooks": 1}, "hooks", [None, ["x"]]])
def test_folders_of_scripts_that_are_no_list_are_none(
    clone: Clone, folders: Any
) -> None:
    clone.write("h/other.sh", "true")
    clone.write(".claude/settings.json", {"hookScriptPaths": folders})
    assert "h/other.sh" not in project_content(str(clone.root))


def test_link_that_leads_elsewhere_needs_trust_again(clone: Clone) -> None:
    clone.write("kept/one.py", "1")
    clone.write("kept/two.py", "2")
    link = clone.root / "hooks" / "l.py"
    link.parent.mkdir()
    link.symlink_to("../kept/one.py")
    clone.review().trust(lambda _: "y", lambda line: None)
    assert clone.covered()
    link.unlink()
    link.symlink_to("../kept/two.py")
    assert not clone.covered()


@pytest.mark.parametrize("mode", [0o644, 0o620, 0o666])
def test_record_that_others_can_reach_covers_nothing(clone: Clone, mode: int) -> None:
    clone.review().trust(lambda _: "y", lambda line: None)
    os.chmod(Records(clone.environ).path, mode)
    assert not clone.covered()


def test_too_much_to_look_at_is_refused(
    clone: Clone, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_FILES", 10)
    for number in range(12):
        clone.write(f"hooks/{number}.py", "")
    with pytest.raises(FileError, match="over 10 files"):
        clone.review().trust(lambda _: "y", lambda line: None)
    clone.write(".claude/settings.json", {"hookScriptPaths": ["."]})
    with pytest.raises(FileError, match="names all of it"):
        project_content(str(clone.root))


def test_nothing_outside_of_the_project_is_read(clone: Clone, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    (clone.root / "hooks").mkdir()
    (clone.root / "hooks" / "l").symlink_to(tmp_path / "secret")
    value = {"hookScriptPaths": ["/", "..", "~"], "x": [f"{tmp_path}/secret", "a\0b"]}
    clone.write(".claude/settings.json", value)
    content = project_content(str(clone.root))
    assert b"secret" not in content.values()
    assert len(content_hash(content)) == 64
