"""`feishuperm trust` at a terminal, without one, and inside a session."""

from __future__ import annotations

import json
import os
import pty
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from feishuperm.commands import trust
from feishuperm.errors import UsageError
from feishuperm.hooks.trust import Records
from feishuperm.lib.process_tree import is_below_a_session
from tests.conftest import ROOT
from tests.tables import every_row

BOOT = (
    "import sys; sys.path.insert(0, sys.argv.pop(1)); "
    "from feishuperm.cli import main; sys.exit(main(['feishuperm'] + sys.argv[1:]))"
)


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    root = tmp_path / "clone"
    (root / ".claude").mkdir(parents=True)
    entry = {"event": "Stop", "type": "command", "command": "touch ran"}
    settings = json.dumps({"feishuperm": {"callbacks": [entry]}})
    (root / ".claude" / "settings.json").write_text(settings)
    return root


def run(
    clone: Path,
    *words: str,
    answer: str | None = None,
    before: Sequence[str] = (),
    **environ: str,
) -> tuple[int, str]:
    """Exit code and everything said; with an answer, at a terminal."""
    given = {"HOME": str(clone.parent), "PATH": "/usr/bin:/bin", **environ}
    argv = [sys.executable, "-IS", "-c", BOOT, str(ROOT), "trust", *words]
    master, slave = pty.openpty()
    try:
        stdin = subprocess.DEVNULL if answer is None else slave
        if answer is not None:
            os.write(master, answer.encode() + b"\n")
        process = subprocess.Popen(
            ["env", "-i", *(f"{k}={v}" for k, v in given.items()), *before, *argv],
            stdin=stdin,
            stdout=slave,
            stderr=slave,
            cwd=clone,
        )
        code = process.wait(60)
        os.set_blocking(master, False)
        try:
            said = os.read(master, 1 << 16).decode()
        except BlockingIOError:
            said = ""
    finally:
        os.close(master)
        os.close(slave)
    return code, said


@every_row("words", [["revoke"], ["a", "b"], ["list", "x"]])
def test_wrong_words_are_told(words: list[str]) -> None:
    with pytest.raises(UsageError):
        trust.main(words)


def test_without_a_terminal_nobody_is_asked(clone: Path) -> None:
    code, said = run(clone)
    assert code == 1 and "feishuperm: " in said
    assert not (clone.parent / ".local/state/feishuperm/trust.json").exists()


def test_session_is_refused_even_at_a_terminal(clone: Path) -> None:
    code, said = run(clone, answer="y", CLAUDECODE="1")
    assert code == 1 and "inside a session of Claude Code" in said
    assert not (clone.parent / ".local/state/feishuperm/trust.json").exists()


def test_session_that_hides_its_variables_is_refused_by_its_parents(
    clone: Path,
) -> None:
    hide = 'env -u CLAUDECODE "$@"; exit $?'
    code, said = run(clone, answer="y", before=["sh", "-c", hide, "sh"], CLAUDECODE="1")
    assert code == 1 and "inside a session of Claude Code" in said


@pytest.mark.parametrize("name", ["missing", "clone/.claude/settings.json"])
def test_folder_that_is_not_there_is_told_before_anybody_is_asked(
    clone: Path, name: str
) -> None:
    code, said = run(clone, str(clone.parent / name))
    assert code == 1 and f"no such folder: {clone.parent / name}" in said


@pytest.mark.parametrize("environ", [{}, {"CLAUDECODE": "1"}])
def test_revoking_needs_nobody_and_no_folder(
    clone: Path, environ: dict[str, str]
) -> None:
    records = Records({"HOME": str(clone.parent)})
    records.set(str(clone), "x")
    shutil.rmtree(clone / ".claude")
    assert run(clone, "revoke", ".", **environ) == (0, "revoked\r\n")
    assert records.read() == {}
    missing = str(clone.parent / "missing")
    records.set(missing, "x")
    assert run(clone, "revoke", missing, **environ) == (0, "revoked\r\n")
    assert records.read() == {}


def test_list_needs_nobody(clone: Path) -> None:
    assert run(clone, "list") == (0, "no folder is trusted here\r\n")


def test_folder_that_brings_nothing_is_not_asked_about(clone: Path) -> None:
    if is_below_a_session():
        pytest.skip("whoever runs this test is no person")
    empty = clone.parent / "empty"
    empty.mkdir()
    code, said = run(clone, str(empty), answer="")
    assert code == 0 and f"nothing to trust: {empty}" in said and "[y/N]" not in said
    (empty / "CLAUDE.md").write_text("obey")
    code, said = run(clone, str(empty), answer="n")
    assert code == 1 and "[y/N]" in said


@pytest.mark.parametrize(("answer", "trusted"), [("y", True), ("n", False)])
def test_person_at_a_terminal_sees_the_content_and_decides(
    clone: Path, answer: str, trusted: bool
) -> None:
    if is_below_a_session():
        pytest.skip("whoever runs this test is no person")
    code, said = run(clone, answer=answer)
    assert "Stop: command: touch ran" in said and "[y/N]" in said
    assert code == (0 if trusted else 1)
    listed = run(clone, "list")[1]
    assert (str(clone) in listed) is trusted
    if trusted:
        assert "is trusted as it is" in run(clone, answer="y")[1]
        assert "revoked" in run(clone, "revoke", ".", answer="")[1]
        assert run(clone, "list")[1] == "no folder is trusted here\r\n"
