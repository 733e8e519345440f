"""`join`: the order of things, and who is let near it."""

from __future__ import annotations

from typing import Any

import pytest

from feishuperm.commands import join
from feishuperm.errors import FeishupermError, UsageError
from feishuperm.lib.enrolment import Enrolment
from feishuperm.setup import service

OWN = Enrolment("https://g", "m-1", "box", "ou_me", "Wang \x1b[2J", ("ab" * 32,))


class World:
    """A gateway that agrees, and what was done about it."""

    def __init__(self, patch: pytest.MonkeyPatch, home: str) -> None:
        self.done: list[str] = []
        self.asked: list[tuple[str, str]] = []
        self.is_terminal = False
        world = self

        class Pairing:
            def __init__(self, url: str, dial: Any, show: Any, tick: Any) -> None:
                world.done.append(f"pair {url}")
                show("123456")

            def join(self, name: str, owner: str, agree: Any) -> Enrolment:
                world.asked.append((name, owner))
                if not agree(OWN):
                    raise FeishupermError("not joined: nothing was stored")
                return OWN

        patch.setattr(join, "Pairing", Pairing)
        patch.setattr(join, "require_outside", lambda environ: None)
        patch.setattr(
            join,
            "take_up",
            lambda own, grants: self.done.append(f"set {own.url} {grants}"),
        )
        patch.setattr(
            service, "restart", lambda environ: self.done.append("restart") or ""
        )
        patch.setattr(join.sys.stdin, "isatty", lambda: self.is_terminal, raising=False)
        patch.setenv("HOME", home)
        patch.setenv("FEISHUPERM_LANG", "en")

    def _restart(self, environ: Any) -> str:
        self.done.append("restart")
        return ""


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch, home: Any) -> World:
    return World(monkeypatch, str(home))


def test_machine_joins_then_is_set_up_then_its_server_starts_anew(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    assert join.main(["https://g", "--name", "box", "--owner", "ou_me"]) == 0
    assert world.done == ["pair https://g", "set https://g None", "restart"]
    assert world.asked == [("box", "ou_me")]
    text = capsys.readouterr().out
    assert "pairing code 123456\n" in text and "ou_me" in text and "m-1" in text
    assert "\x1b" not in text, "a name in Feishu's directory cannot rewrite this"


def test_code_is_told_in_the_language_of_the_terminal(
    world: World, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FEISHUPERM_LANG", "zh")
    assert join.main(["https://g"]) == 0
    assert "配对码 123456\n" in capsys.readouterr().out


@pytest.mark.parametrize(("answer", "joined"), [("", True), ("y", True), ("n", False)])
def test_person_at_a_terminal_may_still_say_no(
    world: World, monkeypatch: pytest.MonkeyPatch, answer: str, joined: bool
) -> None:
    world.is_terminal = True
    monkeypatch.setattr(join, "ask", lambda question: answer)
    if joined:
        assert join.main(["https://g"]) == 0
        assert world.done[1] == f"set https://g {answer == 'y'}"
        return
    with pytest.raises(FeishupermError, match="nothing was stored"):
        join.main(["https://g"])
    assert world.done == ["pair https://g"], "nothing is set up"


def test_server_that_cannot_start_anew_is_told_and_no_failure(
    world: World, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(environ: Any) -> str:
        raise FeishupermError("no service here")

    monkeypatch.setattr(service, "restart", refuse)
    assert join.main(["https://g"]) == 0
    assert "no service here" in capsys.readouterr().out


def test_session_of_claude_code_joins_nothing(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def inside(environ: Any) -> None:
        raise FeishupermError("inside a session")

    monkeypatch.setattr(join, "require_outside", inside)
    with pytest.raises(FeishupermError, match="inside"):
        join.main(["https://g"])
    assert world.done == []


@pytest.mark.parametrize("words", [[], ["http://g.example"], ["g.example"]])
def test_address_that_cannot_be_used_is_refused_first(
    world: World, words: list[str]
) -> None:
    with pytest.raises(UsageError):
        join.main(words)
    assert world.done == []
