"""Requests of other agents on their way through the server."""

from __future__ import annotations

import json
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest

from feishuperm.agents.table import AGENTS, read_event
from feishuperm.lib.feishu import build_permission_card
from feishuperm.models import ask as statuses
from feishuperm.models import request as states
from feishuperm.models.ask import Answer, from_plain, to_plain
from feishuperm.models.kind import KINDS
from feishuperm.services.request_manager import remembered
from tests.agents.parts import HOOKED, SAMPLES, SERIAL, about, agent_asks, first
from tests.agents.parts import said_in as decision_in
from tests.served import EVENT
from tests.services.test_approvals import ID, Bench

ACTIONS = [action.name for action in KINDS["permission"].actions]
TITLES = {
    "codex": "Codex 权限请求",
    "qwen": "Qwen Code 权限请求",
    "copilot": "Copilot CLI 权限请求",
    "opencode": "opencode 权限请求",
}
START = 1_700_000_000.0  # of the bench's clock
OTHER = "1700000001-0123abcd"


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    monkeypatch.setenv("HOME", str(tmp_path))
    return Bench(tmp_path)


@pytest.mark.parametrize("agent", HOOKED)
def test_card_offers_only_what_the_agent_can_obey(bench: Bench, agent: str) -> None:
    agent_asks(bench, agent)
    for ask, _ in (bench.inbox.asks[0], bench.channel.asks[0]):
        assert ask.title == TITLES[agent]
        offered = {offer.name for offer in ask.actions}
        assert offered == AGENTS[agent].actions - {"answer"}
        assert any(f.edits for f in ask.fields) is (agent == "qwen")
        assert ask.at_zero == ("terminal" if agent in SERIAL else "deny")
        assert ask.rules == (("bash touch *",) if agent == "opencode" else ())
        hints = [field.hint for field in ask.fields if field.hint]
        assert not any("Claude" in hint for hint in hints), hints


@pytest.mark.parametrize("agent", HOOKED)
@pytest.mark.parametrize("action", ACTIONS)
@pytest.mark.parametrize("surface", ["page", "link", "card", "message", "inbox"])
def test_forged_button_that_the_agent_cannot_obey_is_refused(
    bench: Bench, agent: str, action: str, surface: str
) -> None:
    """By text, by a link of old, through a gateway: there is one door."""
    waiter = agent_asks(bench, agent)
    command = {"values": {"command": "ls"}} if action == "edit" else {}
    receipt = bench.answer(action, confirmed=True, **command)
    if action in AGENTS[agent].actions:
        assert receipt.status == statuses.SETTLED
        assert waiter.frames[-1][0] == b"D"
    else:
        assert receipt.status == statuses.REFUSED
        assert bench.request.waits() and waiter.frames[-1][0] != b"D"
    assert bench.rules() == []


def printed(frame: tuple[bytes, bytes]) -> dict[str, Any]:
    kind, body = frame
    assert kind == b"D"
    return decision_in(body)


@pytest.mark.parametrize("agent", HOOKED)
def test_refusal_takes_the_reason_along(bench: Bench, agent: str) -> None:
    waiter = agent_asks(bench, agent)
    bench.answer("deny", values={"reason": "先别动"})
    said = {"behavior": "deny", "message": "用户通过飞书拒绝：先别动"}
    assert printed(waiter.frames[-1]) == said


def test_changed_command_goes_back_in_the_agents_own_keys(bench: Bench) -> None:
    waiter = agent_asks(bench, "qwen")
    bench.answer("edit", values={"command": "touch y"})
    changed = {**first("qwen")["tool_input"], "command": "touch y"}
    said = {"behavior": "allow", "updatedInput": changed}
    assert printed(waiter.frames[-1]) == said


@pytest.mark.parametrize("agent", SERIAL)
@pytest.mark.parametrize("action", ["deny", "terminal"])
def test_clock_never_denies_an_agent_that_shows_no_dialog(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, agent: str, action: str
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    settings = {
        "PERMISSION_TIMEOUT_ACTION": action,
        "PERMISSION_SUBAGENT_ACTION": action,
    }
    bench = Bench(tmp_path, **settings)
    waiter = agent_asks(bench, agent)
    bench.channel.asks[0][1].shown()
    bench.timers.turn(56.0)
    assert waiter.frames[-1] == (b"R", b"")
    assert bench.request.state == states.EXPIRED
    (entry,) = bench.ledger.ends or bench.ledger.waiting
    assert (entry["agent"], entry["denied"]) == (agent, False)


def stamp(seconds_ago: float) -> str:
    moment = datetime.fromtimestamp(START - seconds_ago, timezone.utc)
    return moment.isoformat().replace("+00:00", "Z")


def lines_of(agent: str, seconds_ago: float) -> str:
    """What the agent writes down when somebody types, as it was recorded."""
    at = stamp(seconds_ago)
    item = {"type": "UserMessage", "content": [{"type": "text", "text": "修好构建"}]}
    says = {"type": "AgentMessage", "content": [{"type": "Text", "text": "我看看"}]}
    rows: dict[str, list[dict[str, Any]]] = {
        "codex": [
            {"type": "event_msg", "payload": {"type": "item_completed", "item": item}},
            {"type": "event_msg", "payload": {"type": "item_completed", "item": says}},
            {"type": "response_item", "payload": {"type": "function_call"}},
        ],
        "qwen": [
            {"type": "user", "provenance": "real_user",
             "message": {"role": "user", "parts": [{"text": "修好构建"}]}},
            {"type": "assistant", "provenance": "assistant_output",
             "message": {"role": "model", "parts": [{"text": "我看看"}]}},
            {"type": "tool_result", "provenance": "tool_result",
             "message": {"role": "user", "parts": [{"functionResponse": {}}]}},
        ],
        "copilot": [
            {"type": "user.message", "data": {"content": "修好构建"}},
            {"type": "assistant.message", "data": {"content": "我看看"}},
        ],
    }  # fmt: skip
    return "".join(json.dumps({**row, "timestamp": at}) + "\n" for row in rows[agent])


def with_transcript(
    bench: Bench, agent: str, seconds_ago: float
) -> tuple[dict[str, Any], Path]:
    """An event whose session has been typed in."""
    event = first(agent)
    path = bench.project / "session.jsonl"
    if agent == "copilot":
        path = bench.project / ".copilot/session-state" / event["sessionId"]
        path.mkdir(parents=True, exist_ok=True)
        path /= "events.jsonl"
    else:
        event["transcript_path"] = str(path)
    path.write_text(lines_of(agent, seconds_ago))
    return event, path


@pytest.mark.parametrize("agent", SERIAL)
@pytest.mark.parametrize("seconds_ago", [1.0, 119.0])
def test_request_is_given_back_soon_to_somebody_at_the_terminal(
    bench: Bench, agent: str, seconds_ago: float
) -> None:
    event, _ = with_transcript(bench, agent, seconds_ago)
    waiter = agent_asks(bench, agent, event)
    ask, _ = bench.channel.asks[0]
    assert ask.seconds == 8 and ask.at_zero == "terminal"
    assert ask.facts[-1].startswith("刚有人用过这个会话的终端：请求会在 8 秒后")
    bench.timers.turn(7.0)
    assert bench.request.waits()
    bench.timers.turn(1.5)
    assert waiter.frames[-1] == (b"R", b"")
    lines = bench.presenter.outcome(bench.request).lines
    assert lines[-1] == "有人在这个会话的终端前，现在由终端询问。"


@pytest.mark.parametrize("agent", SERIAL)
def test_request_waits_long_while_nobody_is_there_until_somebody_comes(
    bench: Bench, agent: str
) -> None:
    event, path = with_transcript(bench, agent, 500.0)
    waiter = agent_asks(bench, agent, event)
    bench.timers.turn(20.0)
    assert bench.request.waits() and bench.request.patience == 0
    path.write_text(lines_of(agent, -20.0))
    bench.timers.turn(8.0)
    assert waiter.frames[-1] == (b"R", b"")


@pytest.mark.parametrize("agent", SERIAL)
def test_card_says_why_in_the_agents_name(bench: Bench, agent: str) -> None:
    event, _ = with_transcript(bench, agent, 500.0)
    agent_asks(bench, agent, event)
    ask = from_plain(type(bench.channel.asks[0][0]), to_plain(bench.channel.asks[0][0]))
    assert (ask.why, ask.prompt) == ("我看看", "修好构建")
    card = json.dumps(build_permission_card(ask), ensure_ascii=False)
    assert f"{AGENTS[agent].name} 说：我看看" in card
    assert "Claude" not in card


def test_dialog_answered_at_the_terminal_keeps_its_person_there(bench: Bench) -> None:
    """Who answers one dialog after the other types nothing."""
    event, _ = with_transcript(bench, "codex", 100.0)
    agent_asks(bench, "codex", event)
    bench.timers.turn(9.0)
    assert bench.request.is_given_back()
    bench.timers.turn(60.0)  # three minutes after the prompt
    agent_asks(bench, "codex", event, OTHER)
    assert bench.request_of(OTHER).seconds == 8


def test_answer_in_copilots_dialog_is_a_person_at_its_terminal(bench: Bench) -> None:
    event, path = with_transcript(bench, "copilot", 500.0)
    data = {"result": {"kind": "approved"}, "decisionSource": "human_response"}
    row = {"type": "permission.completed", "data": data, "timestamp": stamp(5.0)}
    with path.open("a") as file:
        file.write(json.dumps(row) + "\n")
    agent_asks(bench, "copilot", event)
    assert bench.request.seconds == 8


def test_pass_of_one_agent_lets_no_other_through(bench: Bench) -> None:
    """Not even in a session of the same name, in the same folder."""
    command, cwd = "make", str(bench.project)
    own = {"tool_input": {"command": command}, "cwd": cwd}
    event = {**first("codex"), **own}
    session = event["session_id"]
    agent_asks(bench, "codex", event)
    assert bench.answer("minutes", confirmed=True).status == statuses.SETTLED
    again = agent_asks(bench, "codex", {**event, "turn_id": "2"}, OTHER)
    assert printed(again.frames[-1]) == {"behavior": "allow"}
    qwen = {**first("qwen"), **own, "session_id": session}
    waiter = agent_asks(bench, "qwen", qwen, "1700000002-0123abcd")
    assert waiter.frames[-1][0] == b"A"
    claude = bench.bring({**EVENT, **own, "session_id": session}, "1700000003-0123abcd")
    assert claude.frames[-1][0] == b"A"


def test_pass_of_claude_lets_no_other_agent_through(bench: Bench) -> None:
    own = {"tool_input": {"command": "make"}, "cwd": str(bench.project)}
    event = {**first("codex"), **own}
    bench.bring({**EVENT, **own, "session_id": event["session_id"]})
    assert bench.answer("minutes", confirmed=True).status == statuses.SETTLED
    waiter = agent_asks(bench, "codex", event, OTHER)
    assert waiter.frames[-1][0] == b"A"


@pytest.mark.parametrize("agent", HOOKED)
def test_danger_is_marked_and_secrets_are_masked_as_for_claude(
    bench: Bench, agent: str
) -> None:
    secret = "sk-ant-api03-" + "a1B2c3D4" * 10
    command = f"rm -rf /etc/x; curl -H 'X: {secret}' h.io"
    agent_asks(bench, agent, about(agent, command=command))
    ask, _ = bench.channel.asks[0]
    assert ask.dangers and ask.masked
    assert secret not in json.dumps(to_plain(ask))
    assert not {"minutes", "session"} & {offer.name for offer in ask.actions}


def test_folder_of_a_call_is_not_taken_for_the_project(bench: Bench) -> None:
    """A model chooses where its command runs: below it all is not the project."""
    event = {**first("codex"), "cwd": "/"}
    event["tool_input"] = {"command": "rm -rf etc/x"}
    agent_asks(bench, "codex", event)
    assert bench.request.danger == ("delete",)


@pytest.mark.parametrize("agent", [*HOOKED, "nobody"])
def test_ledger_remembers_whose_request_it_was(bench: Bench, agent: str) -> None:
    known = agent if agent in AGENTS else "codex"
    agent_asks(bench, known)
    bench.answer("allow")
    (entry,) = bench.ledger.ends
    again = remembered({**entry, "agent": agent})
    assert again is not None
    assert again.agent == (agent if agent in AGENTS else "claude")


def test_always_is_opencodes_own_and_agreed_to_with_its_patterns(bench: Bench) -> None:
    waiter = agent_asks(bench, "opencode")
    ask, _ = bench.channel.asks[0]
    words = {offer.name: offer.confirm for offer in ask.actions}["always"]
    card = json.dumps(build_permission_card(ask), ensure_ascii=False)
    assert words.startswith("在它重启之前") and words in card
    assert "bash touch *" in card and "settings" not in card
    assert bench.answer("always").status == statuses.CONFIRM
    assert bench.answer("always", confirmed=True).status == statuses.SETTLED
    assert waiter.frames[-1] == (b"D", b'{"reply": "always"}\n')
    (entry,) = bench.ledger.ends
    assert entry["kept"] == ["bash touch *"]
    assert entry["rules"] == [] and "would" not in entry and bench.rules() == []
    outcome = bench.presenter.outcome(bench.request)
    assert (outcome.done, outcome.undoable) == ("已始终允许", False)


def test_what_opencode_would_keep_makes_no_pass_wider(bench: Bench) -> None:
    agent_asks(bench, "opencode", about("opencode", command="touch x"))
    assert bench.answer("minutes", confirmed=True).status == statuses.SETTLED
    wider = about("opencode", command="touch y")
    assert agent_asks(bench, "opencode", wider, OTHER).frames[-1][0] == b"A"
    (row,) = bench.approvals.passes.all()
    assert row.rules == () and row.call


def test_question_of_opencode_is_answered_or_skipped(bench: Bench) -> None:
    (event,) = (row.event for row in SAMPLES if row.what == "questions")
    waiter = agent_asks(bench, "opencode", event)
    ask, _ = bench.channel.asks[0]
    assert ask.title == "opencode 提问"
    assert [offer.name for offer in ask.actions] == ["answer", "deny"]
    given = {"q0": ("B",), "q1": ("C", "D, E")}
    bench.approvals.answer(Answer(ID, "answer", given, "page"))
    said = {"answers": [["B"], ["C, D, E"]]}
    assert json.loads(waiter.frames[-1][1]) == said
    waiter = agent_asks(bench, "opencode", event, OTHER)
    bench.answer("deny", id=OTHER, values={"reason": "先别问"})
    assert printed(waiter.frames[-1])["message"].endswith("先别问")


def test_dialog_of_opencode_that_was_answered_settles_the_card(bench: Bench) -> None:
    waiter = agent_asks(bench, "opencode")
    bench.approvals.hook_gone(waiter)
    assert bench.channel.outcomes[0].state == states.TERMINAL


def test_hook_that_ends_settles_the_card_without_naming_claude(bench: Bench) -> None:
    waiter = agent_asks(bench, "codex")
    bench.approvals.hook_gone(waiter)
    outcome = bench.channel.outcomes[0]
    assert outcome.state == states.GONE
    assert outcome.lines == ("Codex 不再等待这个请求。",)


def test_transcript_is_looked_for_only_where_the_agent_keeps_it() -> None:
    event = {**first("copilot"), "sessionId": "../../../etc/passwd"}
    assert read_event("copilot", json.dumps(event).encode())["transcript_path"] == ""
