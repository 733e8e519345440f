"""Passes at the desk: made by an answer, used before anybody is asked."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from feishuperm.models import ask as statuses
from feishuperm.services.grants import Pass
from tests.served import EVENT
from tests.services.test_approvals import ID, Bench, Waiter

SECRET = "ghp_" + "a1B2" * 9


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def later(number: int) -> str:
    return f"17000000{number:02d}-0123abcd"


def make(bench: Bench, action: str = "minutes", **call: Any) -> Waiter:
    waiter = bench.ask(**(call or {"command": "npm test"}))
    receipt = bench.answer(action, confirmed=True, who="me")
    assert receipt.status == statuses.SETTLED, receipt
    return waiter


def goes_through(bench: Bench, number: int = 1, **call: Any) -> bool:
    """Whether the next such call is answered without anybody."""
    shown = len(bench.inbox.asks)
    waiter = bench.ask(id=later(number), **(call or {"command": "npm test"}))
    allowed = waiter.frames[-1][0] == b"D"
    assert allowed == (len(bench.inbox.asks) == shown)
    return allowed


def test_pass_is_shown_word_by_word_before_it_is_made(bench: Bench) -> None:
    bench.ask(command="npm test")
    receipt = bench.answer("minutes")
    assert receipt.status == statuses.CONFIRM and bench.request.waits()
    assert "Bash(npm test)" in receipt.error and "10 分钟" in receipt.error
    [offer] = [o for o in bench.inbox.asks[0][0].actions if o.name == "minutes"]
    assert (offer.label, offer.confirm) == ("10 分钟内允许", receipt.error)
    assert not bench.approvals.passes.all()


@pytest.mark.parametrize("action", ["minutes", "session"])
def test_same_call_goes_through_at_once_and_stands_in_the_ledger(
    bench: Bench, action: str
) -> None:
    assert make(bench, action).decision() == {"behavior": "allow"}
    [row] = bench.approvals.passes.all()
    assert goes_through(bench)
    intent, end = bench.ledger.intents[-1], bench.ledger.ends[-1]
    for entry in (intent, end):
        assert (entry["surface"], entry["pass"], entry["who"]) == ("pass", row.id, "me")
        assert entry["action"] == "allow" and entry["state"] == "allowed"
    assert bench.history[-2:] == ["intent", "end"]
    outcome = bench.inbox.outcomes[-1]
    assert (outcome.surface, outcome.done) == ("pass", "已批准运行")


def test_pass_ends_with_its_time(bench: Bench) -> None:
    make(bench)
    bench.timers.turn(599)
    assert goes_through(bench, 1)
    bench.timers.turn(2)
    assert not goes_through(bench, 2)


def test_other_command_session_or_folder_is_asked(bench: Bench, tmp_path: Path) -> None:
    make(bench)
    assert not goes_through(bench, 1, command="npm test --watch")
    assert not goes_through(bench, 2, command="npm test; ls")
    bench.project = tmp_path / "other"
    assert not goes_through(bench, 3)


def test_tool_without_exact_rule_has_a_pass_for_the_very_call(bench: Bench) -> None:
    make(bench, command="ls *.py")
    assert goes_through(bench, 1, command="ls *.py")
    assert not goes_through(bench, 2, command="ls *.p")


def test_pass_for_a_whole_tool_is_for_the_very_call(bench: Bench) -> None:
    make(bench, tool_name="mcp__lab__echo", text="a")
    assert goes_through(bench, 1, tool_name="mcp__lab__echo", text="a")
    assert not goes_through(bench, 2, tool_name="mcp__lab__echo", text="b")


@pytest.mark.parametrize(
    "command",
    [
        "rm -rf ~/x",
        "sudo ls",
        "git push --force",
        f"curl -H 'Authorization: Bearer {SECRET}' https://a.b",
        'echo "unclosed',
        "echo " + "x" * 30_000,
        "PATH=./bin:$PATH tool",
        "env PATH=./bin tool",
    ],
)
def test_what_is_dangerous_secret_or_unread_has_no_pass(
    bench: Bench, command: str
) -> None:
    bench.ask(command=command)
    assert "minutes" not in [offer.name for offer in bench.inbox.asks[0][0].actions]
    receipt = bench.answer("minutes", confirmed=True)
    assert receipt.status == statuses.REFUSED and bench.request.waits()


def test_danger_mark_is_judged_at_use(bench: Bench, tmp_path: Path) -> None:
    """A pass that somehow is there for it lets nothing dangerous through."""
    scope = Pass(rules=("Bash(sudo ls)",), shown="x", project=str(tmp_path))
    bench.approvals.passes.make(scope, 600, "command")
    assert not goes_through(bench, 1, command="sudo ls")


@pytest.mark.parametrize("tool", ["AskUserQuestion", "ExitPlanMode"])
def test_questions_and_plans_have_no_pass(bench: Bench, tool: str) -> None:
    bench.ask(tool)
    assert bench.answer("minutes", confirmed=True).status == statuses.REFUSED
    assert not bench.inbox.asks[0][0].offer("session")


def test_call_that_auto_mode_refused_is_not_let_through_by_a_pass(
    bench: Bench,
) -> None:
    """Its answer would be another one, and a refusal of the client's own stands."""
    make(bench)
    refused = {
        **EVENT,
        "hook_event_name": "PermissionDenied",
        "tool_input": {"command": "npm test"},
        "reason": "no",
    }
    bench.inbox.looked_at = True
    waiter = bench.bring(refused, later(1))
    assert b"D" not in [kind for kind, _ in waiter.frames]
    request = bench.approvals.requests.get(later(1))
    assert request is not None and request.kind == "denied" and not request.pass_id


def test_use_that_cannot_be_recorded_is_asked_for(bench: Bench) -> None:
    make(bench)
    bench.ledger.full = True
    assert not goes_through(bench)
    request = bench.approvals.requests.get(later(1))
    assert request is not None and request.waits() and not request.pass_id


def test_pass_that_cannot_be_recorded_is_not_made(bench: Bench) -> None:
    bench.ask(command="npm test")
    bench.ledger.full = True
    assert bench.answer("minutes", confirmed=True).status == statuses.REFUSED
    bench.ledger.full = False
    assert not bench.approvals.passes.all() and not goes_through(bench)


def test_revoked_pass_asks_again(bench: Bench) -> None:
    make(bench)
    [row] = bench.approvals.passes.all()
    assert bench.approvals.revoke_passes(row.id, "inbox") == [row]
    assert not goes_through(bench)
    assert bench.ledger.ends[-1]["event"] == "revoke"


def test_request_whose_pass_died_with_its_server_is_not_let_through_twice(
    bench: Bench, tmp_path: Path
) -> None:
    make(bench)
    assert goes_through(bench)
    [row] = bench.approvals.passes.all()
    intent = bench.ledger.intents[-1]
    before = [{**intent, "event": "request", "state": "unknown", "ended": 1.8e9}]
    again = Bench(tmp_path)
    again.ledger.before = [*bench.ledger.ends[:1], *before]
    again.approvals.remember()
    assert again.ask(id=later(1), command="npm test").frames[-1] == (b"R", b"")
    assert row.id in repr(before)


def test_answer_tells_the_pass_and_how_long_it_lasts(bench: Bench) -> None:
    bench.ask(command="npm test")
    receipt = bench.answer("session", confirmed=True)
    [row] = bench.approvals.passes.all()
    assert receipt.outcome.done == "已在本会话允许"
    assert any(row.id in line for line in receipt.outcome.lines)
    assert row.ends - row.made == 24 * 3600
    [(id, _, until)] = bench.presenter.pass_rows(bench.approvals.passes)
    assert id == row.id and row.id in until
    bench.approvals.revoke_passes("all", "inbox")
    assert bench.presenter.pass_rows(bench.approvals.passes) == []


def test_ledger_names_what_is_dangerous_about_what_ran(bench: Bench) -> None:
    bench.ask(command="ls")
    bench.answer("edit", values={"command": "sudo rm -rf ~/x"})
    assert bench.ledger.ends[0]["danger"] == ["root", "delete"]
    bench.ask(id=later(1), command="sudo ls")
    bench.answer("deny", id=later(1))
    assert bench.ledger.ends[-1]["danger"] == ["root"]
    assert bench.request.id == ID


def test_pass_that_was_typed_is_told_to_people(bench: Bench) -> None:
    """No card shows it; whoever did not type it must hear of it."""
    row = Pass("aa", ("Bash(ls)",), shown="Bash(ls)", project="/p", ends=1.0)
    bench.approvals.tell_pass(row)
    (notice,) = bench.channel.notices
    assert notice.kind == "pass" and "Bash(ls)" in notice.text


# Bound to a folder, and to what the files are that it runs.


def call_in(bench: Bench, folder: Path, number: int, command: str) -> Waiter:
    """A request for a command that is made in a folder of the project."""
    event = {**EVENT, "cwd": str(folder), "tool_input": {"command": command}}
    return bench.bring(event, later(number))


def let_pass(bench: Bench, folder: Path, command: str) -> None:
    call_in(bench, folder, 0, command)
    receipt = bench.answer("minutes", id=later(0), confirmed=True, who="me")
    assert receipt.status == statuses.SETTLED, receipt


def is_let_through(bench: Bench, folder: Path, number: int, command: str) -> bool:
    return call_in(bench, folder, number, command).frames[-1][0] == b"D"


def test_pass_holds_in_its_folder_only(bench: Bench, tmp_path: Path) -> None:
    (other := tmp_path / "other").mkdir()
    (tmp_path / "same").symlink_to(tmp_path)
    let_pass(bench, tmp_path, "npm test")
    assert not is_let_through(bench, other, 1, "npm test")
    assert is_let_through(bench, tmp_path / "same", 2, "npm test")
    [row] = bench.approvals.passes.all()
    assert row.folder == str(tmp_path)
    words = bench.presenter.pass_words("minutes", bench.request_of(later(1)), ())
    assert str(other) in words and "文件一旦改变" in words


RUNS = [
    ("x.sh", "./x.sh"),
    ("x.sh", "bash x.sh"),
    ("x.sh", "env A=1 nice -n 5 sh x.sh --fast"),
    ("x.sh", "sh -c './x.sh a'"),
    ("x.sh", "D=.; sh $D/x.sh"),
    ("x.sh", ". ./x.sh"),
    ("x.sh", "sh ?.sh"),
    ("sub/x.sh", "cd sub && ./x.sh"),
    ("sub/x.sh", "sh */x.sh"),
    ("x.awk", "awk -v a=/b*c/ -f x.awk log"),
    ("tool.py", "python tool.py"),
    ("tool.py", "python3.11 -u tool.py"),
    ("tool.py", "python -m tool"),
    ("pack/__main__.py", "python pack"),
    ("app.js", "node app.js"),
    ("x.sql", "sqlite3 db -init x.sql"),
    ("new.mk", "make -f new.mk"),
    ("Makefile", "make test"),
    ("sub/Makefile", "make -C sub test"),
    ("package.json", "npm run build"),
    ("sub/x.sh", "env -C sub ./x.sh"),
    ("sub/x.sh", "env --chdir=sub ./x.sh"),
    ("lib/app.js", "node lib/app"),
    ("compose.yml", "docker compose up"),
    ("build.gradle", "./gradlew build"),
    ("my script.sh", "sh 'my script.sh'"),
    ("conf.js", "webpack --config=conf.js"),
]


@pytest.mark.parametrize(("name", "command"), RUNS)
def test_file_that_a_call_runs_is_bound_and_a_change_ends_the_pass(
    tmp_path: Path, name: str, command: str
) -> None:
    bench = Bench(tmp_path)
    file = tmp_path / name
    file.parent.mkdir(exist_ok=True)
    file.write_text("echo 1\n")
    let_pass(bench, tmp_path, command)
    assert is_let_through(bench, tmp_path, 1, command)
    [row] = bench.approvals.passes.all()
    file.write_text("echo 2\n")  # of the same size
    assert not is_let_through(bench, tmp_path, 2, command)
    assert bench.approvals.passes.all() == []
    assert any(row.id in fact for fact in bench.inbox.asks[-1][0].facts)
    assert (bench.ledger.ends[-1]["id"], bench.ledger.ends[-1]["surface"]) == (
        row.id,
        "changed",
    )
    file.write_text("echo 1\n")  # what has ended does not come back
    assert not is_let_through(bench, tmp_path, 3, command)


def test_file_that_comes_later_or_goes_makes_a_difference(
    bench: Bench, tmp_path: Path
) -> None:
    let_pass(bench, tmp_path, "npm test")
    assert is_let_through(bench, tmp_path, 1, "npm test")
    (tmp_path / "package.json").write_text("{}")
    assert not is_let_through(bench, tmp_path, 2, "npm test")


def test_call_that_only_looks_at_a_file_is_not_bound_to_it(
    bench: Bench, tmp_path: Path
) -> None:
    (tmp_path / "a.js").write_text("1")
    let_pass(bench, tmp_path, "eslint a.js && git add a.js")
    (tmp_path / "a.js").write_text("2")
    assert is_let_through(bench, tmp_path, 1, "eslint a.js && git add a.js")


def test_large_file_is_told_apart_without_reading_it(
    bench: Bench, tmp_path: Path
) -> None:
    large = tmp_path / "large.py"
    with large.open("wb") as file:
        file.truncate(5 << 20)
    let_pass(bench, tmp_path, "python large.py")
    assert is_let_through(bench, tmp_path, 1, "python large.py")
    with large.open("r+b") as file:
        file.write(b"x")
    assert not is_let_through(bench, tmp_path, 2, "python large.py")


@pytest.mark.parametrize(
    "command",
    [
        *("python $SCRIPT", "cat x.sh | sh", "sh < x.sh", "make -C $DIR"),
        "make " + " ".join(f"goal{n}" for n in range(80)) + " -f x.mk",
    ],
    ids=lambda command: command[:20],
)
def test_nobody_passes_what_only_the_run_will_tell(
    bench: Bench, tmp_path: Path, command: str
) -> None:
    call_in(bench, tmp_path, 0, command)
    names = [offer.name for offer in bench.inbox.asks[-1][0].actions]
    assert "allow" in names and "minutes" not in names


def test_pattern_that_would_search_the_disk_is_covered_by_no_pass(
    bench: Bench, tmp_path: Path
) -> None:
    """The server would stop for as long as that takes."""
    command = "python /*/*/*/*/*/*.py"
    call_in(bench, tmp_path, 0, command)
    bench.answer("minutes", id=later(0), confirmed=True)
    assert not is_let_through(bench, tmp_path, 1, command)


def test_folder_of_many_files_is_covered_by_no_pass(
    bench: Bench, tmp_path: Path
) -> None:
    for number in range(1001):
        (tmp_path / f"{number}.sh").touch()
    call_in(bench, tmp_path, 0, "sh *.sh")
    bench.answer("minutes", id=later(0), confirmed=True)
    assert not is_let_through(bench, tmp_path, 1, "sh *.sh")
