"""A purge tells of the rules it leaves, and takes them back if that is wanted."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from feishuperm.services.ledger import Ledger
from feishuperm.services.rule_writer import RulePlan, RuleWriter
from feishuperm.setup.uninstall import offer, rules_left, tell

SECRET = "ghp_" + "a1B2" * 9


class Home:
    """A user with a ledger and projects."""

    def __init__(self, folder: Path, environ: dict[str, str]) -> None:
        self.folder = folder
        self.environ = environ
        self.ledger = Ledger(environ=environ)
        self.count = 0

    def always(self, project: str, rule: str) -> None:
        path = self.folder / project
        path.mkdir(exist_ok=True)
        written = RuleWriter().write(str(path), RulePlan((rule,))).rules
        self.count += 1
        entry = {"event": "request", "id": f"1-0000000{self.count}", "action": "always"}
        self.ledger.append({**entry, "rules": list(written), "project": str(path)})

    def rules(self, project: str) -> list[str]:
        path = self.folder / project / ".claude" / "settings.local.json"
        rules: list[str] = json.loads(path.read_text())["permissions"]["allow"]
        return rules

    def left(self) -> list[tuple[str, str]]:
        rows = rules_left(self.environ)
        return [(Path(row.project).name, row.rule) for row in rows]


@pytest.fixture
def place(tmp_path: Path, environ: dict[str, str]) -> Home:
    return Home(tmp_path, environ)


def test_rules_are_listed_below_their_projects(
    place: Home, capsys: pytest.CaptureFixture[str]
) -> None:
    place.always("b", "Bash(ls)")
    place.always("a", "Bash(pwd)")
    place.always("b", "Bash(id)")
    left = [("a", "Bash(pwd)"), ("b", "Bash(id)"), ("b", "Bash(ls)")]
    assert place.left() == left
    tell(rules_left(place.environ))
    lines = [line.strip() for line in capsys.readouterr().out.splitlines()[1:]]
    assert lines == [
        *(str(place.folder / "a"), "Bash(pwd)"),
        *(str(place.folder / "b"), "Bash(id)", "Bash(ls)"),
    ]


def test_what_somebody_took_out_is_not_listed(place: Home) -> None:
    place.always("a", "Bash(ls)")
    place.always("a", "Bash(pwd)")
    RuleWriter().undo(str(place.folder / "a"), ["Bash(ls)"])
    assert place.left() == [("a", "Bash(pwd)")]


def test_rule_with_a_secret_is_listed_without_it_and_taken_back(place: Home) -> None:
    place.always("a", f"Bash(curl -H 'Authorization: Bearer {SECRET}')")
    [(_, rule)] = place.left()
    assert SECRET not in rule and rule.startswith("Bash(curl")
    offer(rules_left(place.environ), place.environ, lambda words: "y")
    assert place.rules("a") == []


@pytest.mark.parametrize("answer", ["", "y", "YES"])
def test_they_are_taken_back_if_the_person_agrees(place: Home, answer: str) -> None:
    place.always("a", "Bash(ls)")
    place.always("b", "Bash(pwd)")
    own = place.folder / "a" / ".claude" / "settings.local.json"
    settings = json.loads(own.read_text())
    settings["permissions"]["allow"].append("Bash(mine)")
    own.write_text(json.dumps(settings))
    offer(rules_left(place.environ), place.environ, lambda words: answer)
    assert (place.rules("a"), place.rules("b")) == (["Bash(mine)"], [])
    assert place.left() == []


def test_they_stay_if_not(place: Home) -> None:
    def gone(words: str) -> str:
        raise EOFError

    place.always("a", "Bash(ls)")
    for ask in (lambda words: "n", gone):
        offer(rules_left(place.environ), place.environ, ask)
    assert place.rules("a") == ["Bash(ls)"]


def test_without_a_ledger_there_is_nothing_to_tell(
    place: Home, capsys: pytest.CaptureFixture[str]
) -> None:
    tell(rules_left(place.environ))
    assert not capsys.readouterr().out
