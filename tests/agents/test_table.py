"""Each agent's file: its events become Claude Code's, its answers its own."""

from __future__ import annotations

import json
import sys
import types
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from feishuperm.agents import table
from feishuperm.agents.recognition import foreign_agent
from feishuperm.agents.table import (
    AGENTS,
    CLAUDE,
    dialect,
    output_of,
    read_event,
)
from feishuperm.danger.reader import read_call
from feishuperm.errors import PayloadError
from feishuperm.models import ask as statuses
from feishuperm.models.decision import Decision
from feishuperm.models.kind import KINDS
from feishuperm.models.payload import PermissionRequestPayload, parse_payload
from tests.agents.parts import HOOKED, SAMPLES, Sample, about, agent_asks, first
from tests.services.test_approvals import Bench

ACTIONS = {action.name for kind in KINDS.values() for action in kind.actions}


def test_every_agent_with_a_file_has_samples() -> None:
    assert {row.agent for row in SAMPLES} >= set(HOOKED)
    assert {row.agent for row in SAMPLES} <= set(AGENTS)


@pytest.mark.parametrize("sample", SAMPLES, ids=str)
def test_recorded_event_becomes_claudes(sample: Sample) -> None:
    raw = json.dumps(sample.event).encode()
    if not sample.tool:
        with pytest.raises(PayloadError, match="lets anybody decide"):
            read_event(sample.agent, raw)
        return
    payload = parse_payload(read_event(sample.agent, raw))
    assert isinstance(payload, PermissionRequestPayload)
    assert (payload.tool_name, payload.tool_input) == (sample.tool, sample.input)
    assert payload.session_id() and payload.base.cwd


DECISIONS = {
    "allow": Decision.allow(),
    "deny": Decision.deny("不行"),
    "interrupt": Decision.deny("停", interrupt=True),
    "edit": Decision.allow({"command": "ls", "run_in_background": True}),
    "always": Decision.allow(updated_rules=(("Bash", "ls"),)),
}
# What each prints of these: nothing else ever, since one more key voids the answer.
CLAUDES = {
    "allow": {"behavior": "allow"},
    "deny": {"behavior": "deny", "message": "不行"},
}
PRINTED: dict[str, dict[str, dict[str, Any]]] = {
    "codex": {
        **CLAUDES,
        "interrupt": {"behavior": "deny", "message": "停"},
        "edit": {"behavior": "allow"},
        "always": {"behavior": "allow"},
    },
    "qwen": {
        **CLAUDES,
        "interrupt": {"behavior": "deny", "message": "停"},
        "edit": {
            "behavior": "allow",
            "updatedInput": {"command": "ls", "is_background": True},
        },
        "always": {"behavior": "allow"},
    },
    "copilot": {
        **CLAUDES,
        "interrupt": {"behavior": "deny", "message": "停", "interrupt": True},
        "edit": {"behavior": "allow"},
        "always": {"behavior": "allow"},
    },
    "opencode": {
        "allow": {"reply": "once"},
        "deny": {"reply": "reject", "message": "不行"},
        "interrupt": {"reply": "reject", "message": "停"},
        "edit": {"reply": "once"},
        "always": {"reply": "always"},
    },
}


@pytest.mark.parametrize("agent", HOOKED)
@pytest.mark.parametrize("name", DECISIONS)
def test_decision_is_written_as_the_agent_reads_it(agent: str, name: str) -> None:
    line = output_of(agent, DECISIONS[name], name)
    assert line.count(b"\n") == 1 and line.endswith(b"\n")
    said = json.loads(line)
    if agent in ("codex", "qwen"):
        output = said.pop("hookSpecificOutput")
        assert not said
        assert output.pop("hookEventName") == "PermissionRequest"
        said = output.pop("decision")
        assert not output
    assert said == PRINTED[agent][name]


def test_claudes_answers_are_its_own_and_it_obeys_every_button() -> None:
    for decision in DECISIONS.values():
        assert output_of(CLAUDE, decision) == decision.to_stdout()
    assert not AGENTS[CLAUDE].actions  # all
    assert all(row.actions <= ACTIONS for row in AGENTS.values())


@pytest.mark.parametrize("agent", HOOKED)
@pytest.mark.parametrize("sender", [*HOOKED, CLAUDE])
def test_event_that_comes_under_another_agents_word_makes_no_request(
    agent: str, sender: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", "/home/u")
    event = {
        "session_id": "s-1",
        "transcript_path": "/home/u/.claude/projects/-p/s-1.jsonl",
        "hook_event_name": "PermissionRequest",
        "tool_name": "Bash",
        "tool_input": {"command": "ls"},
    }
    event = event if sender == CLAUDE else first(sender)
    if agent == sender:
        assert read_event(agent, json.dumps(event).encode())["tool_name"] == "Bash"
        return
    with pytest.raises(PayloadError):
        read_event(agent, json.dumps(event).encode())


@pytest.mark.parametrize("agent", HOOKED)
def test_other_events_of_an_agent_are_nothing_to_decide(agent: str) -> None:
    for name in ("Stop", "PreToolUse", None):
        names = dict.fromkeys(("hook_event_name", "hookName", "type"), name)
        event = {**first(agent), **names}
        with pytest.raises(PayloadError):
            read_event(agent, json.dumps(event).encode())


@pytest.mark.parametrize("word", ["", CLAUDE, "nobody", "table", "../x"])
def test_word_without_a_file_is_refused(word: str) -> None:
    with pytest.raises(PayloadError):
        read_event(word, b"{}")


@given(st.sampled_from(HOOKED), st.binary(max_size=200), st.integers(0, 400))
def test_no_bytes_make_a_reader_fail(agent: str, data: bytes, cut: int) -> None:
    whole = json.dumps(first(agent)).encode()
    for raw in (data, whole[: cut % len(whole)], b"[%s]" % whole, b"null"):
        with pytest.raises(PayloadError):
            parse_payload(read_event(agent, raw))


# NUL and halves of characters too, which no path can have.
ANY_TEXT = st.text(st.characters(), max_size=20) | st.sampled_from(["\0", "/\ud800"])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | ANY_TEXT,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(max_size=8), inner, max_size=3)
    ),
    max_leaves=6,
)


@given(st.sampled_from(HOOKED), st.data())
def test_fields_of_any_type_are_read_or_refused(
    agent: str, data: st.DataObject
) -> None:
    event = first(agent)
    for key in data.draw(st.lists(st.sampled_from(sorted(event)), max_size=4)):
        event[key] = data.draw(VALUES)
    try:
        parse_payload(read_event(agent, json.dumps(event).encode()))
    except PayloadError:
        pass


@given(st.sampled_from(HOOKED), VALUES)
def test_lines_of_any_kind_can_be_spoken(agent: str, value: object) -> None:
    names = ("type", "payload", "message", "data", "provenance")
    line = dict.fromkeys(names, value)
    dialect(agent).spoken(line)
    dialect(agent).spoken({**line, "type": "user", "payload": {"item": value}})


# Patches that could hide something if they were shown as an edit of one file.
PATCHES = {
    "a second end": "*** Begin Patch\n*** Update File: a\n+x\n*** End Patch\n+y\n"
    "*** End Patch",
    "a second file": "*** Begin Patch\n*** Add File: a\n+x\n  *** Add File: /etc/b\n"
    "+y\n*** End Patch",
    "a move": "*** Begin Patch\n*** Update File: a\n*** Move to: /etc/b\n@@\n+y\n"
    "*** End Patch",
    "no end": "*** Begin Patch\n*** Add File: a\n+x",
    "text before": "x\n*** Begin Patch\n*** Add File: a\n+x\n*** End Patch",
    "a removal": "*** Begin Patch\n*** Delete File: /etc/b\n*** End Patch",
    "lines without a sign": "*** Begin Patch\n*** Add File: a\nx\n*** End Patch",
}


@pytest.mark.parametrize("name", PATCHES)
def test_patch_that_is_not_plainly_of_one_file_is_shown_as_it_came(name: str) -> None:
    given = {"command": PATCHES[name]}
    event = {**first("codex"), "tool_name": "apply_patch", "tool_input": given}
    read = read_event("codex", json.dumps(event).encode())
    assert (read["tool_name"], read["tool_input"]) == ("apply_patch", given)
    reading = read_call("apply_patch", given, "/p", "/home/u", "/p")
    if "/etc/b" in PATCHES[name]:
        marks = {mark.key for mark in reading.marks}
        assert marks & {"danger.overwrite", "danger.delete", "danger.startup"}


def test_diff_that_names_another_file_keeps_its_head() -> None:
    diff = "diff --git a/x b/x\n--- a/x\n+++ b/etc/passwd\n@@ -1 +1 @@\n+a\n"
    for edit in (
        {"file_path": "/PROJECT/a", "diff": diff},
        {"file_path": "/etc/passwd", "diff": diff + diff},
    ):
        event = {**first("copilot"), "toolName": "edit", "toolInput": edit}
        assert read_event("copilot", json.dumps(event).encode())["tool_input"] == edit


def test_what_a_diff_puts_into_a_file_that_governs_others_is_marked() -> None:
    given = {"file_path": "/home/u/.bashrc", "diff": "@@ -1 +1 @@\n-a\n+curl x | sh"}
    marks = read_call("Edit", given, "/p", "/home/u", "/p").marks
    assert [mark.key for mark in marks] == ["danger.startup"]
    patch = "*** Begin Patch\n*** Update File: a\n@@\n+a\n*** Update File: ~/.bashrc\n"
    marks = read_call("apply_patch", {"command": f"{patch}@@\n+b\n*** End Patch"},
                      "/p", "/home/u", "/p").marks  # fmt: skip
    assert [mark.key for mark in marks] == ["danger.startup"]


def test_key_that_opencode_does_not_know_hides_none_that_it_does() -> None:
    """A model may give both: only opencode's own is what the tool will use."""
    event = about("opencode", file_path="/PROJECT/a", filePath="/home/u/.bashrc")
    event["call"]["tool"] = "write"
    given = read_event("opencode", json.dumps(event).encode())["tool_input"]
    assert given["file_path"] == "/home/u/.bashrc"
    assert "/PROJECT/a" not in json.dumps(given)


def test_answers_go_back_in_the_order_of_opencodes_questions() -> None:
    asked = [{"question": name} for name in ("a", "b", "c")]
    answers = {"c": "C, D", "a": "A"}
    decision = Decision.allow({"questions": asked, "answers": answers})
    said = json.loads(output_of("opencode", decision, "answer"))
    assert said == {"answers": [["A"], [], ["C, D"]]}


@pytest.fixture
def newcomer(monkeypatch: pytest.MonkeyPatch) -> table.Agent:
    """An agent that nobody knew before: a row and a file, nothing else."""
    row = table.Agent(
        "newcomer", "Newcomer", (b"NEWCOMER",), ("newcomer_id",),
        frozenset(("allow", "deny")), True, tested="1.0",
        registration=table.Registration(
            "newcomer", "", ".new", "h.json", table.ENTRY, "no limits"
        ),
    )  # fmt: skip
    module: Any = types.ModuleType("feishuperm.agents.newcomer")
    module.read = lambda fields: {
        "hook_event_name": "PermissionRequest",
        "session_id": fields["newcomer_id"],
        "cwd": "/p",
        "tool_name": "Bash",
        "tool_input": {"command": fields["run"]},
    }
    module.write = lambda decision, action: {"verdict": decision.behavior}
    module.spoken = lambda entry: ("", "")
    module.SPOKEN = ()
    monkeypatch.setitem(AGENTS, row.word, row)
    monkeypatch.setitem(sys.modules, module.__name__, module)
    return row


def test_new_agent_is_a_row_and_a_file(newcomer: table.Agent, tmp_path: Path) -> None:
    """Recognition, the request and its card, the answer, the ledger."""
    event = {"newcomer_id": "n-1", "run": "make"}
    for found in (foreign_agent(event, {}), foreign_agent({}, {b"NEWCOMER": b"1"})):
        assert found == "Newcomer"
    bench = Bench(tmp_path, FEISHUPERM_LANG="en")
    waiter = agent_asks(bench, newcomer.word, event)
    ask, _ = bench.channel.asks[0]
    assert ask.title == "Newcomer permission request"
    assert [offer.name for offer in ask.actions] == ["allow", "deny"]
    assert bench.answer("allow").status == statuses.SETTLED
    assert waiter.frames[-1] == (b"D", b'{"verdict": "allow"}\n')
    assert [entry["agent"] for entry in bench.ledger.ends] == ["newcomer"]
