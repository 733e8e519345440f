from __future__ import annotations

import json
import time
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from feishuperm.commands import log as command
from feishuperm.errors import FeishupermError, UsageError
from feishuperm.services import history
from feishuperm.services.ledger import Ledger
from feishuperm.services.ledger_check import check
from feishuperm.services.rule_writer import RulePlan, RuleWriter
from tests.tables import every_row

MOMENT = 1794801600.0


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    return tmp_path / "state" / "feishuperm"


@pytest.fixture(autouse=True)
def no_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PERMISSION_SOCKET_PATH", str(tmp_path / "none"))


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


@every_row("args", [["--person", "ou_nobody"], ["--since", "1s"], ["--machine", "m"]])
def test_ledger_of_which_nothing_fits_is_not_called_empty(
    args: list[str], ledger: Ledger, capsys: pytest.CaptureFixture[str]
) -> None:
    request(ledger, "1", time=1794801600.0)
    assert command.main(args) == 0
    assert capsys.readouterr().out == "no entry fits\n"


def test_empty_ledger_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main([]) == 0
    assert capsys.readouterr().out == "nothing has been decided yet\n"
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


def test_intent_is_shown_until_it_has_an_end(
    ledger: Ledger, capsys: pytest.CaptureFixture[str]
) -> None:
    ticket = ledger.intend({"id": "1", "action": "allow", "surface": "link"})
    ledger.intend({"id": "2", "action": "always", "surface": "page", "who": "Wang"})
    ledger.finish(ticket, {"event": "request", "id": "1", "action": "allow"})
    command.main([])
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[2] for line in lines[1:]] == ["2", "1"]
    assert "always (?)  page: Wang" in lines[1]
    ledger.recover()
    command.main(["-n", "2"])
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[2] for line in lines[1:]] == ["1", "2"]
    assert "always (?)" in lines[2]
    command.main(["-n", "0", "--json"])
    assert len(json.loads(capsys.readouterr().out)) == 2


def test_verify_finds_the_head_of_a_card(
    ledger: Ledger, capsys: pytest.CaptureFixture[str]
) -> None:
    request(ledger, "1")
    head = ledger.head()
    request(ledger, "2")
    assert command.main(["verify", "--head", head]) == 0
    output = capsys.readouterr().out.splitlines()
    assert output[0].endswith(f"the head {head} is there; 1 entries came after")
    assert output[1].endswith("2 entries, nothing was changed")
    assert command.main(["verify", "--head", "00000000"]) == 1
    output = capsys.readouterr().out
    assert "no entry has the head 00000000: this is another ledger" in output
    assert "nothing was changed" not in output


def test_verify_names_what_is_missing_and_does_not_say_that_all_is_well(
    ledger: Ledger,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    request(ledger, "1")
    answer: dict[str, Any] = {"ledger": {"pending": 3}}
    monkeypatch.setattr(command, "ask_server", lambda question: answer)
    assert command.main(["verify"]) == 1
    output = capsys.readouterr().out
    assert "3 entries are not written yet: the server holds them" in output
    assert "nothing was changed" not in output
    answer["ledger"] = "odd"
    assert command.main(["verify"]) == 0
    ledger.intend({"id": "2", "action": "allow"})
    assert command.main(["verify"]) == 1
    output = capsys.readouterr().out
    assert "request 2 was being decided (allow) and its end is not written" in output
    assert output.endswith("2 entries, none was changed, but some are not there\n")


def test_verify_of_a_ledger_that_cannot_be_read_says_so(state: Path) -> None:
    (state / "ledger.jsonl").mkdir(parents=True)
    with pytest.raises(FeishupermError, match="cannot read"):
        command.main(["verify"])


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


def test_undo_of_a_crashed_intent_takes_back_the_rule_if_it_was_written(
    ledger: Ledger, project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    where = {"action": "always", "project": str(project)}
    ledger.intend({"id": "one", "rules": ["A"], **where})
    RuleWriter().write(str(project), RulePlan(("A", "B")))  # and here it died
    ledger.intend({"id": "two", "rules": ["C"], **where})  # or already here
    assert command.main(["undo", "one"]) == 0
    assert allowed(project) == ["B"]
    ledger.recover()
    assert command.main(["undo", "two"]) == 0
    assert command.main(["undo", "one"]) == 0
    output = capsys.readouterr().out.splitlines()
    assert output[1:] == [
        "removed: A",
        "not there any more: C",
        "not there any more: A",
    ]
    assert allowed(project) == ["B"]


def test_rule_with_a_secret_is_never_shown_and_still_taken_back(
    ledger: Ledger, project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rule = "Bash(curl -H 'Authorization: Bearer s3cr3t-canary' https://x)"
    always(ledger, project, "one", rule, "B")
    always(ledger, project, "two", rule.replace("s3cr3t", "s3cr4t"))
    command.main([])
    command.main(["--json"])
    assert command.main(["undo", "one"]) == 0
    assert command.main(["undo", "one"]) == 0
    output = capsys.readouterr().out
    assert "s3cr" not in output
    masked = "Bash(curl -H 'Authorization: ***' https://x)"
    assert f"removed: {masked}\nremoved: B\n" in output
    assert f"not there any more: {masked}\n" in output
    assert allowed(project) == [rule.replace("s3cr3t", "s3cr4t")]
    assert b"s3cr" not in Path(ledger.path).read_bytes()


def test_secret_in_an_old_ledger_is_not_shown(
    state: Path, project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rule = "Bash(TOKEN=s3cr3t x)"
    RuleWriter().write(str(project), RulePlan((rule,)))
    entry = {
        "event": "request", "id": "old", "action": "always", "rules": [rule],
        "reason": "PASSWORD=s3cr3t", "project": str(project), "prev": "",
    }  # fmt: skip
    state.mkdir(parents=True, exist_ok=True)
    (state / "ledger.jsonl").write_text(json.dumps(entry) + "\n")
    command.main([])
    command.main(["--json"])
    command.main(["undo", "old"])
    assert "s3cr3t" not in capsys.readouterr().out
    assert allowed(project) == []


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


@every_row(
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
        ["--head", "0123abcd"],
        ["verify", "--head", "0123"],
        ["verify", "--head", "0123abcx"],
        ["verify", "--head"],
        ["undo", "a", "--head", "0123abcd"],
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
    for word in ("-n", "--json", "verify", "--head", "undo ID"):
        assert word in output


def test_undo_takes_the_short_id_that_the_table_shows(
    ledger: Ledger, project: Path
) -> None:
    always(ledger, project, "1600-abcd1234", "Bash(ls)")
    request(ledger, "1601-00000000")
    assert command.main(["undo", "abcd1234"]) == 0
    assert allowed(project) == []
    assert ledger.find("1600-abcd1234")[-1]["event"] == "undo"
    with pytest.raises(FeishupermError, match="no request"):
        command.main(["undo", "abcd"])


def test_short_id_of_two_requests_undoes_nothing(ledger: Ledger, project: Path) -> None:
    always(ledger, project, "1600-abcd1234", "Bash(ls)")
    always(ledger, project, "1601-abcd1234", "Bash(pwd)")
    with pytest.raises(FeishupermError, match="no request"):
        command.main(["undo", "abcd1234"])
    assert allowed(project) == ["Bash(ls)", "Bash(pwd)"]


# Chosen.

NOON = datetime(2026, 11, 19, 12, 0).timestamp()


@every_row(
    ("text", "ago"),
    [
        ("2h", 7200), ("3d", 3 * 86400), ("90s", 90), ("11:30", 1800),
        ("13:00", 23 * 3600), ("9:00", 3 * 3600), ("2026-11-18", 36 * 3600),
        ("2026-11-19 11:00", 3600),
    ],
)  # fmt: skip
def test_moment_back_from_now(text: str, ago: float) -> None:
    assert NOON - history.moment(text, NOON) == ago


@pytest.mark.parametrize("text", ["", "yesterday", "25:00", "2026-13-01", "5y", "-2h"])
def test_moment_that_is_none_is_named(
    text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(UsageError, match="no date, no time"):
        command.main([f"--since={text}"])


def test_log_of_a_person_a_machine_and_a_time(
    capsys: pytest.CaptureFixture[str],
) -> None:
    old, ledger = Ledger(clock=lambda: time.time() - 7200), Ledger()
    request(old, "1", who="ou_a", machine="mac")
    request(ledger, "2", who="ou_a", machine="mac")
    request(ledger, "3", who="ou_b", machine="mac")
    request(ledger, "4", who="ou_a", machine="box")
    for words, ids in (
        ([], ["1", "2", "3", "4"]),
        (["--since", "1h"], ["2", "3", "4"]),
        (["--person", "ou_a"], ["1", "2", "4"]),
        (["--machine", "mac", "-n", "1"], ["3"]),
        (["--since=1h", "--person=ou_a", "--machine=mac"], ["2"]),
        (["--machine=ma"], []),
    ):
        assert command.main([*words, "--json"]) == 0
        assert [row["id"] for row in json.loads(capsys.readouterr().out)] == ids


# Habits.


def let_run(ledger: Ledger, times: int, rule: str, **fields: Any) -> None:
    for number in range(times):
        request(ledger, f"1794801600-{number:08x}", would=[rule], **fields)


def test_suggest_names_what_was_allowed_ten_times_and_never_refused(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ledger = Ledger()
    here = {"project": str(project)}
    let_run(ledger, 10, "Bash(npm test)", **here)
    let_run(ledger, 9, "Bash(npm ci)", **here)
    let_run(ledger, 12, "Bash(make)", **here)
    let_run(ledger, 1, "Bash(make)", denied=True, state="denied", **here)
    let_run(ledger, 12, "WebSearch", **here)  # it would cover every search
    let_run(ledger, 11, "Bash(echo 'a b')", project="/elsewhere")
    assert command.main(["suggest"]) == 0
    said = capsys.readouterr().out.splitlines()
    assert said == [
        "/elsewhere: allowed 11 times, never refused",
        "    Bash(echo 'a b')",
        "    feishuperm passes add 'Bash(echo '\"'\"'a b'\"'\"')' --project /elsewhere",
        f"{project}: allowed 10 times, never refused",
        "    Bash(npm test)",
        f"    feishuperm passes add 'Bash(npm test)' --project {project}",
        "To write a rule for good, tap 始终允许 on the next card of one.",
    ]
    RuleWriter().write(str(project), RulePlan(("Bash(npm test)",)))
    assert command.main(["suggest", "--json"]) == 0
    assert [row["rule"] for row in json.loads(capsys.readouterr().out)] == [
        "Bash(echo 'a b')"
    ]


def test_suggest_without_habits_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["suggest"]) == 0
    assert "no call was allowed 10 times" in capsys.readouterr().out
