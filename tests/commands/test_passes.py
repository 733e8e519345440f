"""`passes`: listed, made by a person who has read the scope, and ended."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from feishuperm.commands import passes
from feishuperm.errors import FeishupermError, UsageError

ROW = {
    "id": "p-1", "shown": "Bash(ls)", "ends": 1_700_000_000.0, "calls_left": 3,
    "seconds_left": 61, "session": "", "project": "/p",
}  # fmt: skip


class Server:
    """Keeps what it is asked, and a person who answers."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.asked: list[dict[str, Any]] = []
        self.passes: list[dict[str, Any]] = [ROW]
        self.revoked = ["Bash(ls)"]
        self.answer = "y"
        patch.setattr(passes, "ask_server", self._ask)
        patch.setattr(passes, "require_person", lambda environ: None)
        patch.setattr(passes, "ask", lambda question: self.answer)
        patch.setenv("FEISHUPERM_LANG", "en")

    def _ask(self, command: dict[str, Any]) -> Any:
        self.asked.append(command)
        return {"passes": self.passes, "revoked": self.revoked, "pass": ROW}


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Server:
    return Server(monkeypatch)


def test_passes_are_listed_with_what_is_left_of_them(
    server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    assert passes.main([]) == 0
    text = capsys.readouterr().out
    for words in ("p-1", "Bash(ls)", "/p", "2 min", "3 calls"):
        assert words in text
    assert passes.main(["--json"]) == 0
    assert json.loads(capsys.readouterr().out) == [ROW]


@pytest.mark.parametrize(
    ("options", "minutes", "calls"),
    [
        ([], 10, 0),
        (["--calls", "3"], 1440, 3),
        (["--session", "s1"], 1440, 0),
        (["--minutes", "5"], 5, 0),
        (["--minutes", "99999"], 1440, 0),
        (["--calls", "3", "--minutes", "5"], 5, 3),
    ],
)
def test_pass_is_made_with_the_scope_that_was_shown(
    server: Server,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    options: list[str],
    minutes: int,
    calls: int,
) -> None:
    words = ["add", "Bash(npm test)", "--project", str(tmp_path), *options]
    assert passes.main(words) == 0
    (command,) = server.asked
    assert (command["minutes"], command["calls"]) == (minutes, calls)
    assert (command["rule"], command["project"]) == ("Bash(npm test)", str(tmp_path))
    text = capsys.readouterr().out
    assert "Bash(npm test)" in text and f"for {minutes} minutes" in text
    assert ("s1" if "--session" in options else str(tmp_path)) in text


@pytest.mark.parametrize("answer", ["", "n", "ye"])
def test_person_who_does_not_say_yes_makes_none(server: Server, answer: str) -> None:
    server.answer = answer
    assert passes.main(["add", "Bash(ls)"]) == 1
    assert server.asked == []


@pytest.mark.parametrize(
    "words",
    [
        ["add"],
        ["revoke"],
        ["add", "Bash(ls)", "--minutes", "0"],
        ["add", "Bash(ls)", "--minutes", "-5"],
        ["add", "Bash(ls)", "--calls", "0"],
        ["add", "Bash(ls)", "--minutes", "0", "--calls", "3"],
        ["add", "Bash(ls *)"],
        ["end", "p-1"],
    ],
)
def test_scope_that_is_none_is_refused(server: Server, words: list[str]) -> None:
    with pytest.raises(FeishupermError):
        passes.main(words)
    assert server.asked == []


def test_nobody_at_the_terminal_makes_no_pass(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    def nobody(environ: Any) -> None:
        raise UsageError("a person has to answer")

    monkeypatch.setattr(passes, "require_person", nobody)
    with pytest.raises(UsageError):
        passes.main(["add", "Bash(ls)"])
    assert server.asked == []


@pytest.mark.parametrize(
    ("id", "revoked", "code"),
    [("p-1", ["x"], 0), ("p-9", [], 1), ("all", ["x", "y"], 0), ("all", [], 0)],
)
def test_pass_is_ended_or_it_is_said_that_there_is_none(
    server: Server, id: str, revoked: list[str], code: int
) -> None:
    server.revoked = revoked
    assert passes.main(["revoke", id]) == code
    assert server.asked == [{"command": "pass_revoke", "id": id}]
