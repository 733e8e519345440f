"""Whose word a project's files are: Claude Code's record, ours, and nobody's."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from feishuperm.engine import trust as module
from feishuperm.engine.trust import (
    Records,
    Trust,
    content_hash,
    project_content,
)
from feishuperm.engine.trust_review import Review, listing, require_person
from feishuperm.errors import FeishupermError, FileError
from feishuperm.services.ledger import Ledger


class Clone:
    """A home, and a repository in it that came from somewhere."""

    def __init__(self, folder: Path) -> None:
        self.home = folder / "home"
        self.root = folder / "src" / "clone"
        self.root.mkdir(parents=True)
        self.home.mkdir()
        (self.root / ".git").mkdir()
        state = str(folder / "state")
        self.environ = {"HOME": str(self.home), "XDG_STATE_HOME": state}
        self.ledger = Ledger(str(folder / "ledger.jsonl"))

    def write(self, name: str, value: Any) -> Path:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(value if isinstance(value, str) else json.dumps(value))
        return path

    def accepted(self, *folders: Path, value: Any = True, name: str = "") -> None:
        projects = {str(f): {"hasTrustDialogAccepted": value} for f in folders}
        path = self.home / (name or ".claude.json")
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps({"projects": projects}))

    def covered(self, folder: Path | None = None, **environ: str) -> bool:
        return Trust({**self.environ, **environ}).covers(str(folder or self.root))

    def review(self) -> Review:
        return Review(str(self.root), self.environ, self.ledger)


@pytest.fixture
def clone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Clone:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    made = Clone(tmp_path)
    callback = {"event": "Stop", "type": "script", "script": ".claude/hooks/a.py"}
    made.write(".claude/settings.json", {"feishuperm": {"callbacks": [callback]}})
    made.write(".claude/hooks/a.py", "def hook(*_): return {}\n")
    return made


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


def test_trust_holds_for_the_very_content_that_was_shown(clone: Clone) -> None:
    shown: list[str] = []
    assert clone.review().trust(lambda _: "y", shown.append)
    text = "\n".join(shown)
    assert "Stop: script: .claude/hooks/a.py" in text
    assert "def hook(*_): return {}" in text
    assert clone.covered()
    (entry,) = clone.ledger.entries()
    assert (entry["event"], entry["action"]) == ("trust", "trusted")
    assert entry["project"] == str(clone.root)
    path = Records(clone.environ).path
    assert os.stat(path).st_mode & 0o777 == 0o600


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


@pytest.mark.parametrize("answer", ["", "n", "no", "maybe", "N\n"])
def test_anything_but_yes_is_no(clone: Clone, answer: str) -> None:
    assert not clone.review().trust(lambda _: answer, lambda line: None)
    assert not clone.covered()
    assert list(clone.ledger.entries()) == []


def test_change_while_the_person_reads_is_not_trusted(clone: Clone) -> None:
    def answer(_: str) -> str:
        clone.write(".claude/hooks/a.py", "evil")
        return "y"

    with pytest.raises(FeishupermError, match="changed meanwhile"):
        clone.review().trust(answer, lambda line: None)
    assert not clone.covered()


def test_what_cannot_be_recorded_is_not_trusted(clone: Clone, tmp_path: Path) -> None:
    (tmp_path / "no").write_text("a file")
    review = Review(
        str(clone.root), clone.environ, Ledger(str(tmp_path / "no" / "ledger"))
    )
    with pytest.raises(FileError, match="ledger"):
        review.trust(lambda _: "y", lambda line: None)
    assert not clone.covered()


def test_revoked_folder_is_not_trusted_and_the_list_says_how_things_are(
    clone: Clone,
) -> None:
    assert list(listing(clone.environ)) == []
    assert not clone.review().revoke()
    clone.review().trust(lambda _: "y", lambda line: None)
    (line,) = listing(clone.environ)
    assert "trusted " in line and line.endswith(str(clone.root))
    clone.write(".claude/hooks/a.py", "other")
    (line,) = listing(clone.environ)
    assert "changed since" in line
    assert clone.review().revoke()
    assert list(listing(clone.environ)) == []
    assert [entry["action"] for entry in clone.ledger.entries()] == [
        "trusted",
        "revoked",
    ]


@pytest.mark.parametrize("mode", [0o644, 0o620, 0o666])
def test_record_that_others_can_reach_covers_nothing(clone: Clone, mode: int) -> None:
    clone.review().trust(lambda _: "y", lambda line: None)
    os.chmod(Records(clone.environ).path, mode)
    assert not clone.covered()


def test_escape_sequences_of_a_clone_are_shown_and_not_obeyed(clone: Clone) -> None:
    clone.write(".claude/hooks/a.py", "# \x1b[2J\u202e\ndef hook(*_): return {}")
    shown: list[str] = []
    clone.review().trust(lambda _: "n", shown.append)
    text = "\n".join(shown)
    assert "\x1b" not in text and "\u202e" not in text and "⟦U+001B⟧" in text


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


# Who may answer.


@pytest.mark.parametrize("name", ["CLAUDECODE", "CLAUDE_CODE_SESSION_ID"])
def test_session_of_claude_code_is_no_person(name: str) -> None:
    with pytest.raises(FeishupermError, match="inside a session"):
        require_person({name: "1"})
