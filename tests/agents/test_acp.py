"""Permissions by the Agent Client Protocol, on their way through the server."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from feishuperm.agents import acp
from feishuperm.agents.table import read_event
from feishuperm.app.cards import confirm_words, is_offered
from feishuperm.handlers.inbox import links_of
from feishuperm.lib.feishu import rule_hint
from feishuperm.models import ask as statuses
from feishuperm.models import request as states
from feishuperm.models.kind import KINDS
from feishuperm.services.request_manager import remembered
from feishuperm.services.web_access import Links
from tests.agents.parts import agent_asks, first
from tests.agents.test_table import VALUES
from tests.services.test_approvals import ID, Bench, Waiter
from tests.tables import every_row

OTHER = "1700000001-0123abcd"
PROJECT, USER = "Always Allow in project: touch *", "Always Allow for user: touch *"


def option(id: str, kind: str, name: str = "") -> dict[str, str]:
    return {"optionId": id, "name": name or id, "kind": kind}


def event(**changes: Any) -> dict[str, Any]:
    return {**first("acp"), **changes}


def command(text: str, **changes: Any) -> dict[str, Any]:
    call = {"toolCallId": "1", "kind": "execute", "rawInput": {"command": text}}
    return event(toolCall=call, **changes)


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    monkeypatch.setenv("HOME", str(tmp_path))
    return Bench(tmp_path, FEISHUPERM_LANG="en")


def answered(waiter: Waiter) -> dict[str, Any]:
    """What the run is told, as the answer to the agent."""
    options = first("acp")["options"]
    outcome = acp.chosen(options, waiter.decision())["outcome"]
    return outcome  # type: ignore[no-any-return]


def test_card_has_the_agents_own_options(bench: Bench) -> None:
    agent_asks(bench, "acp")
    ask, _ = bench.channel.asks[0]
    assert ask.title == "Qwen Code (ACP) permission request"
    assert ask.host == "Qwen Code (ACP)" and ask.fields == ()
    labels = {offer.name: offer.label for offer in ask.actions}
    assert labels == {
        "allow": "Allow",
        "always": PROJECT,
        "always-2": USER,
        "deny": "Deny",
        "minutes": "Allow for 10 minutes",
        "session": "Allow in this session",
    }
    for name, words in (("always", PROJECT), ("always-2", USER)):
        offer = ask.offer(name)
        assert offer is not None and is_offered(offer, ask)
        assert confirm_words(offer, ask) == words
    assert ask.rules == (PROJECT, USER)
    assert rule_hint(ask) == "Always allow is Qwen Code (ACP)'s own; in its words:"
    links = links_of(Links("http://x", b"k", lambda: 0.0), ask)
    assert links["always-2"].startswith("always-2?")


@every_row(
    ("action", "state", "id"),
    [
        ("allow", states.ALLOWED, "proceed_once"),
        ("always", states.ALLOWED, "proceed_always_project"),
        ("always-2", states.ALLOWED, "proceed_always_user"),
        ("minutes", states.ALLOWED, "proceed_once"),
        ("session", states.ALLOWED, "proceed_once"),
        ("deny", states.DENIED, "cancel"),
    ],
)
def test_button_is_the_option_of_its_name(
    tmp_path: Path, action: str, state: str, id: str
) -> None:
    bench = Bench(tmp_path, FEISHUPERM_LANG="en")
    waiter = agent_asks(bench, "acp")
    assert bench.answer(action, confirmed=True).status == statuses.SETTLED
    assert answered(waiter) == {"outcome": "selected", "optionId": id}
    assert bench.request.state == state and bench.rules() == []
    (entry,) = bench.ledger.ends
    assert (entry["agent"], entry["action"]) == ("acp", action)
    assert not entry["rules"] and not entry.get("would")
    lasts = {"always": [PROJECT], "always-2": [USER]}
    assert entry.get("kept", []) == lasts.get(action, [])
    again = remembered(entry)
    assert again is not None and (again.agent, again.action) == ("acp", action)


def test_what_lasts_is_agreed_to_first_and_the_outcome_says_so(bench: Bench) -> None:
    agent_asks(bench, "acp")
    receipt = bench.answer("always-2")
    assert (receipt.status, receipt.error) == (statuses.CONFIRM, USER)
    bench.answer("always-2", confirmed=True)
    assert bench.presenter.outcome(bench.request).done == "Always allowed"


ALL = [row.name for row in KINDS["permission"].actions]


@pytest.mark.parametrize(
    "action", [*ALL, "allow-2", "always-3", "deny-2", "allow-", "x"]
)
@pytest.mark.parametrize("offers", [[], [option("n", "reject_once")]])
def test_button_that_no_option_stands_for_is_refused(
    bench: Bench, action: str, offers: list[Any]
) -> None:
    waiter = agent_asks(bench, "acp", event(options=offers))
    status = bench.answer(action, confirmed=True, values={"command": "ls"}).status
    settled = action == "deny"
    assert status == (statuses.SETTLED if settled else statuses.REFUSED)
    assert (waiter.frames[-1][0] == b"D") is settled


@pytest.mark.parametrize("action", ["allow-2", "always-2", "deny-2"])
def test_claude_code_has_no_second_button_of_a_name(bench: Bench, action: str) -> None:
    waiter = bench.ask(command="ls")
    assert bench.answer(action, confirmed=True).status == statuses.REFUSED
    assert bench.request.waits() and waiter.frames[-1][0] != b"D"
    assert bench.rules() == []


def test_events_of_claude_code_and_others_name_no_buttons(bench: Bench) -> None:
    named = {"options": {"allow": "Reject"}, "agent_name": "Somebody"}
    bench.bring({**json.loads(bench_event()), **named})
    agent_asks(bench, "qwen", {**first("qwen"), **named}, OTHER)
    for ask, _ in bench.channel.asks:
        assert "Reject" not in {offer.label for offer in ask.actions}
        assert len(ask.actions) > 2 and "Somebody" not in ask.title


def bench_event() -> str:
    call = {"tool_name": "Bash", "tool_input": {"command": "ls"}, "session_id": "s"}
    return json.dumps({"hook_event_name": "PermissionRequest", "cwd": "/p", **call})


def test_time_that_is_over_chooses_nothing(bench: Bench) -> None:
    waiter = agent_asks(bench, "acp")
    bench.channel.asks[0][1].shown()
    bench.timers.turn(56.0)
    assert bench.request.state == states.EXPIRED
    assert answered(waiter) == {"outcome": "cancelled"}


def test_dangerous_call_has_no_pass_and_asks_once_more(bench: Bench) -> None:
    agent_asks(bench, "acp", command("sudo rm -rf /etc"))
    ask, _ = bench.channel.asks[0]
    assert ask.dangers and not {"minutes", "session"} & {o.name for o in ask.actions}
    assert bench.answer("minutes", confirmed=True).status == statuses.REFUSED


def test_secret_in_an_option_leaves_nothing_that_lasts_on_a_card(bench: Bench) -> None:
    secret = "ghp_" + "a1B2" * 9
    lasting = option("l", "allow_always", f"Always: {secret}")
    agent_asks(bench, "acp", event(options=[lasting, option("y", "allow_once")]))
    ask, _ = bench.channel.asks[0]
    assert secret not in repr(ask) and ask.offer("always") is None
    assert ask.offer("allow") is not None


def test_pass_lets_the_same_call_through_once_it_is_offered(bench: Bench) -> None:
    agent_asks(bench, "acp")
    bench.answer("minutes", confirmed=True)
    waiter = agent_asks(bench, "acp", id=OTHER)
    assert bench.request_of(OTHER).surface == "pass"
    assert answered(waiter)["optionId"] == "proceed_once"
    # Where no option allows once, a pass has nothing to choose.
    third = "1700000002-0123abcd"
    waiter = agent_asks(
        bench, "acp", event(options=[option("n", "reject_once")]), third
    )
    assert bench.request_of(third).waits() and waiter.frames[-1][0] != b"D"


@every_row(
    ("kinds", "found"),
    [
        ("allow_once reject_once", {"allow": 0, "deny": 1}),
        ("reject_always", {"deny-2": 0}),
        ("reject_always reject_once", {"deny": 1, "deny-2": 0}),
        ("allow_once allow_once", {"allow": 0, "allow-2": 1}),
        (
            "allow_always " * 5,
            {"always": 0, "always-2": 1, "always-3": 2, "always-4": 3},
        ),
        ("allow_for_ever", {}),
    ],
)
def test_options_find_their_buttons(kinds: str, found: dict[str, int]) -> None:
    options = [option(str(n), kind) for n, kind in enumerate(kinds.split())]
    names = {name: int(o["optionId"]) for name, o in acp.buttons(options).items()}
    assert names == found


@pytest.mark.parametrize("name", ["", "x" * 301])
def test_option_that_nobody_can_read_is_not_offered(name: str) -> None:
    odd = [{"optionId": "1", "kind": "allow_always", "name": name}]
    assert acp.buttons(odd) == {}


@given(st.lists(VALUES, max_size=4), VALUES, VALUES)
def test_anything_is_read_and_nothing_of_an_input_is_left_out(
    options: list[Any], raw: Any, rest: Any
) -> None:
    call = {"kind": "execute", "rawInput": raw, "content": rest, "title": rest}
    read = read_event("acp", json.dumps(event(options=options, toolCall=call)).encode())
    told = json.dumps(read["tool_input"], sort_keys=True)
    values = raw.values() if isinstance(raw, dict) else [raw] if raw else []
    for value in values:
        assert json.dumps(value, sort_keys=True) in told or value == []


def test_second_button_is_not_the_first_one_of_another_request(bench: Bench) -> None:
    agent_asks(bench, "acp")
    digest = bench.request.short_digest()
    other = command("rm x", options=[option("z", "allow_once")])
    agent_asks(bench, "acp", other, OTHER)
    assert bench.answer("allow", id=OTHER, digest=digest).status == statuses.REFUSED
    assert bench.request_of(ID).waits() and bench.request_of(OTHER).waits()


def test_run_that_is_gone_leaves_no_answer_behind(bench: Bench) -> None:
    """It has no dialog beside it that could have been answered."""
    waiter = agent_asks(bench, "acp")
    bench.approvals.hook_gone(waiter)
    assert bench.request.state == states.GONE
