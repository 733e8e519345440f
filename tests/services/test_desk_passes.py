"""Passes at the desk: made by an answer, used before anybody is asked."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from feishuperm.models import ask as statuses
from feishuperm.services.passes import Pass
from tests.served import EVENT
from tests.services.test_desk import ID, Bench, Waiter

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
    assert not bench.desk.passes.all()


@pytest.mark.parametrize("action", ["minutes", "session"])
def test_same_call_goes_through_at_once_and_stands_in_the_ledger(
    bench: Bench, action: str
) -> None:
    assert make(bench, action).decision() == {"behavior": "allow"}
    [row] = bench.desk.passes.all()
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
    bench.desk.passes.make(scope, 600, "command")
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
    request = bench.desk.requests.get(later(1))
    assert request is not None and request.kind == "denied" and not request.pass_id


def test_use_that_cannot_be_recorded_is_asked_for(bench: Bench) -> None:
    make(bench)
    bench.ledger.full = True
    assert not goes_through(bench)
    request = bench.desk.requests.get(later(1))
    assert request is not None and request.waits() and not request.pass_id


def test_pass_that_cannot_be_recorded_is_not_made(bench: Bench) -> None:
    bench.ask(command="npm test")
    bench.ledger.full = True
    assert bench.answer("minutes", confirmed=True).status == statuses.REFUSED
    bench.ledger.full = False
    assert not bench.desk.passes.all() and not goes_through(bench)


def test_revoked_pass_asks_again(bench: Bench) -> None:
    make(bench)
    [row] = bench.desk.passes.all()
    assert bench.desk.revoke_passes(row.id, "inbox") == [row]
    assert not goes_through(bench)
    assert bench.ledger.ends[-1]["event"] == "revoke"


def test_request_whose_pass_died_with_its_server_is_not_let_through_twice(
    bench: Bench, tmp_path: Path
) -> None:
    make(bench)
    assert goes_through(bench)
    [row] = bench.desk.passes.all()
    intent = bench.ledger.intents[-1]
    before = [{**intent, "event": "request", "state": "unknown", "ended": 1.8e9}]
    again = Bench(tmp_path)
    again.ledger.before = [*bench.ledger.ends[:1], *before]
    again.desk.remember()
    assert again.ask(id=later(1), command="npm test").frames[-1] == (b"R", b"")
    assert row.id in repr(before)


def test_answer_tells_the_pass_and_how_long_it_lasts(bench: Bench) -> None:
    bench.ask(command="npm test")
    receipt = bench.answer("session", confirmed=True)
    [row] = bench.desk.passes.all()
    assert receipt.outcome.done == "已在本会话允许"
    assert any(row.id in line for line in receipt.outcome.lines)
    assert row.ends - row.made == 24 * 3600
    [(id, _, until)] = bench.presenter.pass_rows(bench.desk.passes)
    assert id == row.id and row.id in until
    bench.desk.revoke_passes("all", "inbox")
    assert bench.presenter.pass_rows(bench.desk.passes) == []


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
    bench.desk.tell_pass(row)
    (notice,) = bench.channel.notices
    assert notice.kind == "pass" and "Bash(ls)" in notice.text
