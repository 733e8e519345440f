"""A person looks at what a project would run, and trusts it or does not."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from feishuperm.commands.trust import Review, listing
from feishuperm.errors import FeishupermError, FileError
from feishuperm.hooks.trust import Records
from feishuperm.lib import process_tree, terminal
from feishuperm.lib.process_tree import require_outside, require_person
from feishuperm.services.ledger import Ledger
from tests.hooks.parts import Clone
from tests.tables import every_row


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


@pytest.mark.parametrize("answer", ["", "n", "no", "maybe", "N\n"])
def test_anything_but_yes_is_no(clone: Clone, answer: str) -> None:
    assert not clone.review().trust(lambda _: answer, lambda line: None)
    assert not clone.covered()
    assert list(clone.ledger.entries()) == []


def test_change_while_the_person_reads_is_not_trusted(clone: Clone) -> None:
    def answer(_: str) -> str:
        clone.write(".claude/hooks/a.py", "evil")
        return "y"

    with pytest.raises(FeishupermError, match="changed in the meantime"):
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


def test_escape_sequences_of_a_clone_are_shown_and_not_obeyed(clone: Clone) -> None:
    clone.write(".claude/hooks/a.py", "# \x1b[2J\u202e\ndef hook(*_): return {}")
    shown: list[str] = []
    clone.review().trust(lambda _: "n", shown.append)
    text = "\n".join(shown)
    assert "\x1b" not in text and "\u202e" not in text and "⟦U+001B⟧" in text


@every_row("name", ["CLAUDECODE", "CLAUDE_CODE_SESSION_ID"])
def test_session_of_claude_code_is_no_person(name: str) -> None:
    with pytest.raises(FeishupermError, match="inside a session"):
        require_person({name: "1"})


def test_folder_that_says_nothing_needs_no_trust(clone: Clone, tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    assert Review(str(empty), clone.environ, clone.ledger).is_empty()
    assert not clone.review().is_empty()
    (empty / ".mcp.json").write_text("{}")
    assert not Review(str(empty), clone.environ, clone.ledger).is_empty()


def test_folder_that_is_trusted_already_asks_nobody(clone: Clone) -> None:
    shown: list[str] = []
    clone.review().trust(lambda _: "y", shown.append)
    shown.clear()
    assert clone.review().trust(lambda _: pytest.fail("asked"), shown.append)
    assert len(shown) == 1 and len(list(clone.ledger.entries())) == 1
    clone.accepted(clone.root)
    assert clone.review().trust(lambda _: pytest.fail("asked"), shown.append)


def test_what_is_no_folder_cannot_be_trusted(clone: Clone, tmp_path: Path) -> None:
    review = Review(str(tmp_path / "none"), clone.environ, clone.ledger)
    with pytest.raises(FeishupermError, match="no such folder"):
        review.trust(lambda _: "y", lambda line: None)


def test_file_that_is_no_text_is_counted_and_not_shown(clone: Clone) -> None:
    (clone.root / ".claude/hooks/a.py").write_bytes(b"\xff\xfe\x00")
    shown: list[str] = []
    clone.review().trust(lambda _: "n", shown.append)
    assert any("3" in line and "text" in line for line in shown)


def test_process_below_a_session_is_no_person(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process_tree, "is_below_a_session", lambda: True)
    with pytest.raises(FeishupermError, match="inside a session"):
        require_outside({})


@pytest.mark.parametrize(("stdin", "stdout"), [(True, False), (False, True)])
def test_person_needs_a_terminal_at_both_ends(
    monkeypatch: pytest.MonkeyPatch, stdin: bool, stdout: bool
) -> None:
    monkeypatch.setattr(process_tree, "is_below_a_session", lambda: False)
    ends = {"stdin": stdin, "stdout": stdout}
    for name, is_terminal in ends.items():
        stream = SimpleNamespace(isatty=lambda answer=is_terminal: answer)
        monkeypatch.setattr(terminal, "sys", SimpleNamespace(**{
            **vars(terminal.sys), name: stream}))  # fmt: skip
    with pytest.raises(FeishupermError, match="terminal"):
        require_person({})
