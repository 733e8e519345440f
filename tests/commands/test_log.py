from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from feishuperm.commands import log as command
from feishuperm.errors import FeishupermError, UsageError
from feishuperm.services.ledger import Ledger
from feishuperm.services.ledger_check import check
from feishuperm.services.rule_writer import RulePlan, RuleWriter

MOMENT = 1794801600.0


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    return tmp_path / "state" / "feishuperm"


@pytest.fixture
def ledger() -> Ledger:
    return Ledger(clock=lambda: MOMENT)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    return folder


def request(ledger: Ledger, id: str, **fields: Any) -> dict[str, Any]:
    entry = {
        "event": "request",
        "id": id,
        "state": "allowed",
        "action": "allow",
        "surface": "webhook",
        "reason": "",
        "rules": [],
        "tool": "Bash",
        "detail": "npm test",
        "project": "/project",
    }
    return ledger.append({**entry, **fields})


def always(ledger: Ledger, project: Path, id: str, *rules: str) -> None:
    written = RuleWriter().write(str(project), RulePlan(rules)).rules
    request(ledger, id, action="always", rules=list(written), project=str(project))


def allowed(project: Path) -> list[str]:
    path = project / ".claude" / "settings.local.json"
    rules: list[str] = json.loads(path.read_text())["permissions"]["allow"]
    return rules


def test_table_lines_up_with_wide_characters(
    ledger: Ledger, capsys: pytest.CaptureFixture[str]
) -> None:
    request(ledger, "1600-abcd1234", detail="构建", tool="mcp__测试__x")
    request(ledger, "1601-00000000", action="deny", reason="不行")
    request(ledger, "1", action="", state="expired", surface="", detail="")
    assert command.main([]) == 0
    lines = capsys.readouterr().out.splitlines()
    at = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(MOMENT))
    assert lines == [
        "TIME                 ID             TOOL          DECISION  BY       DETAIL",
        f"{at}  1600-abcd1234  mcp__测试__x  allow     webhook  构建",
        f"{at}  1601-00000000  Bash          deny      webhook  npm test (不行)",
        f"{at}  1              Bash          expired   -        -",
    ]


def test_rules_are_shown_in_full_and_nothing_breaks_its_line(
    ledger: Ledger, capsys: pytest.CaptureFixture[str]
) -> None:
    request(ledger, "a\nb", action="always", rules=["Bash(x\ny)", "Edit(//\u202e)"])
    command.main([])
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 2
    assert lines[1].endswith("Bash(x y), Edit(//⟦U+202E⟧)")
    request(ledger, "long", action="always", rules=["Bash(" + "x" * 5000 + ")"])
    command.main([])
    assert "x" * 5000 + ")" in capsys.readouterr().out


def test_terminal_cuts_lines_at_its_width() -> None:
    entry = {"time": MOMENT, "id": "1", "detail": "中" * 50}
    for columns in (61, 62):
        widths = [
            command.width(row) for row in command.table([entry], columns).split("\n")
        ]
        assert max(widths) in (columns - 1, columns)


@pytest.mark.parametrize(
    ("args", "shown"),
    [([], 20), (["-n", "3"], 3), (["-n", "0"], 25), (["--json", "-n", "2"], 2)],
)
def test_number_of_entries(
    ledger: Ledger, capsys: pytest.CaptureFixture[str], args: list[str], shown: int
) -> None:
    stored = [request(ledger, str(number)) for number in range(25)]
    assert command.main(args) == 0
    output = capsys.readouterr().out
    if "--json" in args:
        assert json.loads(output) == stored[-shown:]
    else:
        assert len(output.splitlines()) == shown + 1


def test_empty_ledger_shows_the_headings(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main([]) == 0
    assert capsys.readouterr().out.split() == list(command.HEADINGS)
    assert command.main(["--json"]) == 0
    assert json.loads(capsys.readouterr().out) == []
    assert command.main(["verify"]) == 0


def test_odd_entries_are_shown_all_the_same(
    state: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    state.mkdir(parents=True)
    lines = ["{}", '{"time": "x"}', '{"time": 1e300, "id": [1]}', '{"time": NaN}', "[]"]
    (state / "ledger.jsonl").write_text("\n".join(lines))
    assert command.main([]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 5


def test_verify_says_that_all_is_well(
    ledger: Ledger, capsys: pytest.CaptureFixture[str]
) -> None:
    for number in range(3):
        request(ledger, str(number))
    assert command.main(["verify"]) == 0
    assert capsys.readouterr().out.endswith("3 entries, nothing was changed\n")


def test_verify_names_the_first_bad_line(
    ledger: Ledger, capsys: pytest.CaptureFixture[str]
) -> None:
    for number in range(3):
        request(ledger, f"id-{number}")
    path = Path(ledger.path)
    path.write_bytes(path.read_bytes().replace(b"id-1", b"id-7"))
    assert command.main(["verify"]) == 1
    first = capsys.readouterr().out.splitlines()[0]
    assert first == f"{path}: line 2: changed, or not written with this key"


def test_undo_takes_back_exactly_the_rules_of_its_request(
    ledger: Ledger, project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    always(ledger, project, "one", "A", "B")
    always(ledger, project, "two", "C")
    assert command.main(["undo", "one"]) == 0
    output = capsys.readouterr().out
    assert allowed(project) == ["C"]
    assert "removed: A\nremoved: B\n" in output
    assert "until it ends" in output
    last = list(ledger.entries())[-1]
    assert (last["event"], last["id"], last["rules"]) == ("undo", "one", ["A", "B"])
    assert check(ledger).sound()


def test_undo_twice_is_success_and_says_so(
    ledger: Ledger, project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    always(ledger, project, "one", "A")
    assert command.main(["undo", "one"]) == 0
    capsys.readouterr()
    assert command.main(["undo", "one"]) == 0
    assert capsys.readouterr().out == "not there any more: A\n"
    assert [entry["event"] for entry in ledger.entries()] == ["request", "undo"]


def test_undo_twice_leaves_a_later_approval_alone(
    ledger: Ledger, project: Path
) -> None:
    always(ledger, project, "one", "A")
    command.main(["undo", "one"])
    always(ledger, project, "two", "A")
    assert command.main(["undo", "one"]) == 0
    assert allowed(project) == ["A"]
    assert command.main(["undo", "two"]) == 0
    assert allowed(project) == []


def test_undo_of_a_rule_removed_by_hand_is_success(
    ledger: Ledger, project: Path
) -> None:
    always(ledger, project, "one", "A")
    (project / ".claude" / "settings.local.json").write_text("{}")
    assert command.main(["undo", "one"]) == 0
    assert len(list(ledger.entries())) == 1


def test_undo_of_what_was_never_there(ledger: Ledger, project: Path) -> None:
    with pytest.raises(
        FeishupermError, match="no request none in the ledger"
    ) as raised:
        command.main(["undo", "none"])
    assert raised.value.hint == "feishuperm log"
    request(ledger, "once")
    with pytest.raises(FeishupermError, match="request once wrote no rule"):
        command.main(["undo", "once"])


def test_undo_in_a_broken_file_changes_nothing(ledger: Ledger, project: Path) -> None:
    always(ledger, project, "one", "A")
    path = project / ".claude" / "settings.local.json"
    path.write_text("{broken")
    with pytest.raises(FeishupermError, match="line 1: not JSON"):
        command.main(["undo", "one"])
    assert path.read_text() == "{broken"
    assert len(list(ledger.entries())) == 1


@pytest.mark.parametrize(
    "args",
    [
        ["undo"],
        ["undo", "a", "b"],
        ["verify", "x"],
        ["-n"],
        ["-n", "x"],
        ["-n", "-1"],
        ["--jsonl"],
        ["x"],
    ],
)
def test_wrong_arguments_are_a_usage_error(args: list[str]) -> None:
    with pytest.raises(UsageError) as raised:
        command.main(args)
    assert raised.value.hint == "feishuperm log --help"


def test_help_names_every_argument(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        command.main(["--help"])
    assert ended.value.code == 0
    output = capsys.readouterr().out
    for word in ("-n", "--json", "verify", "undo ID"):
        assert word in output
