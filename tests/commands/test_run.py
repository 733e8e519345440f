"""`run`: what is asked of Claude, and what is refused before it starts."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from feishuperm.commands import run
from feishuperm.errors import FeishupermError, UsageError
from feishuperm.hooks.screen import Screen
from tests.tables import every_row


def sources(root: Path, covered: bool) -> tuple[list[str], str]:
    told = io.StringIO()
    screen = Screen(io.StringIO(), told, False)
    return run._sources(str(root), lambda root: covered, screen), told.getvalue()


def test_project_that_nobody_trusted_has_no_say_and_that_is_told(
    tmp_path: Path,
) -> None:
    """In print mode the client would run a clone's hooks without asking."""
    assert sources(tmp_path, False) == (["--setting-sources", "user"], "")
    (tmp_path / ".mcp.json").symlink_to("nowhere")
    chosen, told = sources(tmp_path, False)
    assert chosen == ["--setting-sources", "user"] and "feishuperm trust" in told
    assert sources(tmp_path, True) == ([], "")


@every_row(
    ("args", "own", "extra"),
    [
        (["hi"], ["hi"], []),
        (["hi", "--", "-p", "--"], ["hi"], ["-p", "--"]),
        (["--"], [], []),
    ],
)
def test_what_follows_two_dashes_is_claudes(
    args: list[str], own: list[str], extra: list[str]
) -> None:
    assert run._split(args) == (own, extra)


def test_options_go_on_to_claude_as_one_word_each() -> None:
    """A value that starts with a dash must not become an option."""
    words = ["-c", "--resume=-x", "--model", "m", "--permission-mode", "plan", "hi"]
    options = run._parser().parse_args(words)
    assert run._claude_options(options) == [
        "--continue", "--resume=-x", "--model=m", "--permission-mode=plan",
    ]  # fmt: skip
    assert run._claude_options(run._parser().parse_args(["hi"])) == []


@pytest.mark.parametrize("given", [None, "-"])
def test_prompt_comes_from_the_pipe(
    monkeypatch: pytest.MonkeyPatch, given: str | None
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("do it\n"))
    assert run._prompt(given) == "do it\n"


@pytest.mark.parametrize(("given", "piped"), [("", "x"), (" \n", "x"), (None, "  ")])
def test_empty_prompt_is_refused(
    monkeypatch: pytest.MonkeyPatch, given: str | None, piped: str
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(piped))
    with pytest.raises(UsageError, match="empty"):
        run._prompt(given)


def test_terminal_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    stdin = io.StringIO()
    monkeypatch.setattr(stdin, "isatty", lambda: True)
    monkeypatch.setattr("sys.stdin", stdin)
    with pytest.raises(UsageError, match="no prompt"):
        run._prompt(None)


def test_absent_claude_is_told_with_its_remedy(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(FeishupermError, match="claude") as caught:
        run._claude()
    assert "npm install" in caught.value.hint


@pytest.mark.parametrize(
    "words",
    [
        ["--agent", ""],
        ["--agent", "x --acp", "--continue"],
        ["--agent", "x", "--model", "m"],
        ["--agent", "x", "-r", "id"],
        ["--agent", "'x"],
    ],
)
def test_agent_that_cannot_be_driven_as_asked_is_a_wrong_argument(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    with pytest.raises(UsageError, match="--agent"):
        run.main([*words, "do it"])
    assert not list(tmp_path.rglob("runs/*"))


def test_program_of_an_agent_that_is_not_there_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    with pytest.raises(FeishupermError, match="cannot start /no/such/agent"):
        run.main(["--agent", "/no/such/agent --acp", "do it", "--", "--more"])
    assert not list(tmp_path.rglob("runs/*"))
