"""A run by the Agent Client Protocol, against an agent that plays a script."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from feishuperm.errors import ProtocolError
from feishuperm.hooks import acp, agent_run
from feishuperm.hooks.acp import AcpRun
from feishuperm.hooks.screen import Screen
from feishuperm.protocol import json_lines
from tests.conftest import wait_until
from tests.fakes import cli
from tests.hooks.test_headless import Desk, Terminal, decided, send, wait
from tests.tables import every_row

SESSION = "ses_1"
OPTIONS = [
    {"optionId": "for-ever", "name": "Always: touch *", "kind": "allow_always"},
    {"optionId": "here", "name": "Always here", "kind": "allow_always"},
    {"optionId": "once", "name": "Yes", "kind": "allow_once"},
    {"optionId": "no", "name": "No", "kind": "reject_once"},
    {"optionId": "never", "name": "Never", "kind": "reject_always"},
]
CANCELLED = {"outcome": {"outcome": "cancelled"}}
CALL = {
    "toolCallId": "c1",
    "kind": "execute",
    "title": "touch x",
    "rawInput": {"command": "touch x"},
}
AGENT = {"name": "fake", "title": "Fake Agent", "version": "1"}
Step = dict[str, Any]


def rpc(**parts: Any) -> Step:
    return {"jsonrpc": "2.0", **parts}


def update(sort: str, **parts: Any) -> Step:
    body = {"sessionId": SESSION, "update": {"sessionUpdate": sort, **parts}}
    return rpc(method="session/update", params=body)


def said(text: str) -> Step:
    content = {"type": "text", "text": text}
    return update("agent_message_chunk", content=content)


def asks(id: Any = 7, **changes: Any) -> Step:
    params = {"sessionId": SESSION, "toolCall": CALL, "options": OPTIONS, **changes}
    return rpc(id=id, method="session/request_permission", params=params)


# The agent's side up to the prompt, and its end.
MET = rpc(id=1, result={"protocolVersion": 1, "agentInfo": AGENT})
START = [
    wait("initialize"),
    *send(MET),
    wait("session/new"),
    *send(rpc(id=2, result={"sessionId": SESSION})),
    wait("session/prompt"),
]


def end(reason: str = "end_turn", id: int = 3) -> list[Step]:
    return [*send(rpc(id=id, result={"stopReason": reason})), {"hang": True}]


class Bench:
    """A run, its agent's script and what came of it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.desk: Desk | None = None
        self.sessions: list[str] = []
        self.as_json = False

    def serve(self, *frames: tuple[bytes, bytes]) -> Desk:
        self.close()
        self.desk = Desk(*frames)
        return self.desk

    def close(self) -> None:
        if self.desk:
            self.desk.close()

    def run(self, *steps: Step, mode: str = "") -> int:
        script = self.folder / "script.json"
        (self.folder / "script.json.log").unlink(missing_ok=True)
        self.out, self.err = Terminal(), Terminal()
        script.write_text(json.dumps(steps))
        environ = {"PATH": "/usr/bin:/bin", "HOME": str(self.folder)}
        screen = Screen(self.out, self.err, self.as_json)
        path = self.desk.path if self.desk else str(self.folder / "none")
        add = self.sessions.append
        self.acp = AcpRun(screen, path, environ, str(self.folder), add, mode)
        return self.acp.run([sys.executable, cli.__file__, str(script)], "do it")

    def heard(self, method: str = "") -> list[Step]:
        """What the agent was told; with a method, of these messages the parameters."""
        log = (self.folder / "script.json.log").read_text()
        messages: list[Step] = [json.loads(line) for line in log.splitlines()]
        assert all(message["jsonrpc"] == "2.0" for message in messages)
        of_method = [m["params"] for m in messages if m.get("method") == method]
        return of_method if method else messages

    def answers(self, id: Any = 7) -> list[Any]:
        """What the agent's own requests of this id were answered."""
        own = [m for m in self.heard() if "method" not in m]
        same = [m for m in own if json.dumps(m["id"]) == json.dumps(id)]
        return [m.get("result", m.get("error")) for m in same]


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    made = Bench(tmp_path)
    yield made
    made.close()


def decision(behavior: str, option: str, **more: Any) -> tuple[bytes, bytes]:
    """What the server prints for a button."""
    said = {"behavior": behavior, "option": option, **more}
    output = {"hookEventName": "PermissionRequest", "decision": said}
    return decided({"hookSpecificOutput": output})


def test_prompt_goes_in_and_the_last_words_come_out(bench: Bench) -> None:
    done = update("tool_call_update", toolCallId="c1", status="completed")
    call = update("tool_call", **CALL)
    talk = send(said("let me "), said("see"), call, done, said("all "), said("over"))
    assert bench.run(*START, *talk, *end()) == 0
    assert bench.out.getvalue() == "all over\n"
    lines = bench.err.getvalue().splitlines()
    assert lines[:2] == ["let me see", "* Bash: touch x"]
    assert lines[2].startswith("feishuperm: done in ") and len(lines) == 3
    (met,), (new,) = bench.heard("initialize"), bench.heard("session/new")
    assert (met["protocolVersion"], met["clientCapabilities"]) == (1, {})
    assert new == {"cwd": str(bench.folder), "mcpServers": []}
    (prompt,) = bench.heard("session/prompt")
    assert prompt["prompt"] == [{"type": "text", "text": "do it"}]
    assert bench.sessions == [SESSION]


def test_result_is_told_as_json(bench: Bench) -> None:
    bench.as_json = True
    assert bench.run(*START, *send(said("a\ud800")), *end()) == 0
    result = json.loads(bench.out.getvalue())
    assert result.pop("duration_ms") >= 0
    assert result == {
        "result": "a\ud800",
        "session_id": SESSION,
        "stop_reason": "end_turn",
        "is_error": False,
    }


@every_row(
    ("behavior", "option", "id"),
    [
        ("allow", "allow", "once"),
        ("allow", "always", "for-ever"),
        ("allow", "always-2", "here"),
        ("deny", "deny", "no"),
        ("deny", "deny-2", "never"),
        # What no option says, or one that says the opposite, is none of them.
        ("deny", "", None),
        ("deny", "interrupt", None),
        ("allow", "", None),
        ("allow", "always-3", None),
        ("allow", "deny", None),
        ("deny", "allow", None),
        ("deny", "always", None),
    ],
)
def test_chosen_option_goes_back_and_no_other(
    bench: Bench, behavior: str, option: str, id: str | None
) -> None:
    desk = bench.serve((b"A", b"55"), (b"S", b""), decision(behavior, option))
    code = bench.run(*START, *send(asks()), wait(7), *end())
    chosen = {"outcome": {"outcome": "selected", "optionId": id}}
    assert bench.answers() == [chosen if id else CANCELLED]
    assert code == (0 if behavior == "allow" else 3)
    header, _, _, project, raw = desk.asked[0][5:].split(b"\0", 4)
    assert header == b"1 acp" and project.decode() == str(bench.folder)
    event = json.loads(raw)
    assert (event["agentName"], event["cwd"]) == ("Fake Agent", str(bench.folder))
    assert event["options"] == OPTIONS and event["toolCall"] == CALL


def test_deny_without_an_option_that_refuses_once_is_never_for_ever(
    bench: Bench,
) -> None:
    bench.serve((b"A", b"55"), decision("deny", "deny"))
    steps = send(asks(options=[OPTIONS[2], OPTIONS[4]]))
    assert bench.run(*START, *steps, wait(7), *end()) == 3
    assert bench.answers() == [CANCELLED]


@pytest.mark.parametrize("frames", [
    [(b"A", b"55"), (b"R", b"")],
    [(b"E", b"")],
    [(b"A", b"55"), (b"D", b"{}\n")],
    None,
])  # fmt: skip
def test_without_a_decision_or_a_server_it_is_cancelled(
    bench: Bench, frames: list[tuple[bytes, bytes]] | None
) -> None:
    if frames is not None:
        bench.serve(*frames)
    assert bench.run(*START, *send(asks()), wait(7), *end()) == 3
    assert bench.answers() == [CANCELLED]
    assert "1 refused" in bench.err.getvalue()
    assert ("hint: feishuperm serve" in bench.err.getvalue()) is (frames is None)


@pytest.mark.parametrize(
    "method",
    ["fs/read_text_file", "fs/write_text_file", "terminal/create", "x", "\x1b[2J"],
)
def test_whatever_else_it_asks_for_is_refused(bench: Bench, method: str) -> None:
    ask = rpc(id="q", method=method, params={"sessionId": SESSION, "path": "/etc/x"})
    steps: list[Any] = [*START, *send(ask), wait("q"), *end()]
    assert bench.run(*steps) == 0
    (answer,) = bench.answers("q")
    assert answer["code"] == -32601 and method in answer["message"]
    assert "\x1b" not in bench.err.getvalue()


@pytest.mark.parametrize("id", ["a", "7", 0, -1, 1.5, 1 << 70, True, ""])
def test_id_of_any_type_comes_back_as_it_was(bench: Bench, id: Any) -> None:
    bench.serve((b"A", b"55"), decision("allow", "allow"))
    assert bench.run(*START, *send(asks(id)), wait(id), *end()) == 0
    assert bench.answers(id)[0]["outcome"]["optionId"] == "once"


def test_two_requests_at_once_are_both_answered(bench: Bench) -> None:
    desk = bench.serve((b"A", b"55"), decision("allow", "allow"))
    both = {"all": [7, "8"]}
    assert bench.run(*START, *send(asks(7), asks("8")), both, *end()) == 0
    assert len(desk.asked) == 2
    for id in (7, "8"):
        assert bench.answers(id)[0]["outcome"]["optionId"] == "once"


def test_id_that_is_used_twice_has_the_first_request_cancelled(bench: Bench) -> None:
    desk = bench.serve((b"A", b"55"))
    steps: list[Any] = [*START, *send(asks(), asks(toolCall={"toolCallId": "c2"}))]
    assert bench.run(*steps, wait(7), *end()) == 0
    assert bench.answers()[0] == CANCELLED
    assert desk.gone.wait(20)


def test_request_that_the_agent_withdraws_leaves_no_card(bench: Bench) -> None:
    desk = bench.serve((b"A", b"55"))
    gone = rpc(method="$/cancel_request", params={"requestId": 7})
    steps: list[Any] = [*START, *send(asks(), gone), wait(7), *end()]
    assert bench.run(*steps) == 0
    assert bench.answers() == [CANCELLED]
    assert "no server" not in bench.err.getvalue()
    assert desk.gone.wait(20) or not desk.asked


def test_what_was_told_of_a_call_before_belongs_to_its_request(bench: Bench) -> None:
    """A request has to say no more than the id of its call."""
    desk = bench.serve((b"A", b"55"), decision("allow", "allow"))
    parts = (
        update("tool_call", toolCallId="c1", kind="execute", rawInput={}),
        update("tool_call_update", toolCallId="c1", rawInput={"command": "rm -r ~"}),
        update("tool_call_update", toolCallId="c2", rawInput={"command": "ls"}),
        asks(toolCall={"toolCallId": "c1", "title": None}),
    )
    assert bench.run(*START, *send(*parts), wait(7), *end()) == 0
    asked = json.loads(desk.asked[0][5:].split(b"\0", 4)[4])["toolCall"]
    assert (asked["rawInput"], asked["kind"]) == ({"command": "rm -r ~"}, "execute")
    assert bench.err.getvalue().count("* Bash: rm -r ~") == 1


def test_memory_of_calls_is_bounded(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(acp, "MOST_CALLS", 5)
    monkeypatch.setattr(acp, "MOST_TEXT", 50)
    flood = [update("tool_call", toolCallId=f"c{n}") for n in range(40)]
    talk = [said("ten bytes!") for _ in range(40)]
    assert bench.run(*START, *send(*flood, *talk), *end()) == 0
    assert len(bench.acp.calls) <= 6
    assert len(bench.out.getvalue()) <= 61


@every_row(
    ("steps", "told"),
    [
        ([wait("initialize"), *send(rpc(id=1, result={"protocolVersion": 2}))],
         "another version"),
        ([wait("initialize"), *send(rpc(id=1, result=None))], "another version"),
        ([wait("initialize"), *send(rpc(id=1, error={"code": 1, "message": "\x1b"}))],
         "refused: ⟦U+001B⟧"),
        ([*START[:3], *send(rpc(id=2, error={"message": "Authentication required"}))],
         "refused: Authentication required"),
        ([*START[:3], *send(rpc(id=2, result={}))], "no session"),
        ([*START[:3], *send(rpc(id=2, result={"sessionId": 5}))], "no session"),
        ([*START, *send(rpc(id=3, error={"message": "overloaded"}))], "overloaded"),
    ],
)  # fmt: skip
def test_agent_that_will_not_begin_ends_the_run(
    bench: Bench, steps: list[Step], told: str
) -> None:
    assert bench.run(*steps, {"hang": True}) == 1
    assert told in bench.err.getvalue() and "\x1b" not in bench.err.getvalue()


@every_row(
    ("reason", "code"),
    [("end_turn", 0), ("max_tokens", 1), ("refusal", 1), ("cancelled", 1), ("", 1)],
)
def test_reason_of_the_end_is_the_exit_code(
    bench: Bench, reason: str, code: int
) -> None:
    assert bench.run(*START, *send(said("so far")), *end(reason)) == code
    assert bench.out.getvalue() == "so far\n"
    assert ("the agent stopped: " in bench.err.getvalue()) is bool(code)


def test_mode_is_set_before_the_prompt(bench: Bench) -> None:
    steps = START[:-1]
    mode = [wait("session/set_mode"), *send(rpc(id=3, result={}))]
    assert (
        bench.run(*steps, *mode, wait("session/prompt"), *end(id=4), mode="plan") == 0
    )
    assert bench.heard("session/set_mode") == [{"sessionId": SESSION, "modeId": "plan"}]
    refused = [wait("session/set_mode"), *send(rpc(id=3, error={"message": "none"}))]
    assert bench.run(*steps, *refused, {"hang": True}, mode="plan") == 1
    assert not bench.heard("session/prompt")


def test_agent_that_ends_midway_takes_its_card_along(bench: Bench) -> None:
    desk = bench.serve((b"A", b"55"))
    ends = [*send(asks(), rpc(id="q", method="x")), wait("q"), {"exit": 4}]
    assert bench.run(*START, *ends) == 1
    assert "ended without a result (exit 4)" in bench.err.getvalue()
    assert desk.gone.wait(20) or not desk.asked


def test_agent_that_never_ends_is_ended(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(agent_run, "END_SECONDS", 0.2)
    last = send(rpc(id=3, result={"stopReason": "end_turn"}))
    assert bench.run(*START, *last, {"stay": True}) == 0
    assert bench.acp.process.returncode == -signal.SIGTERM


def test_interrupt_cancels_the_turn_and_what_waits(bench: Bench) -> None:
    desk = bench.serve((b"A", b"55"))

    def interrupt() -> None:
        wait_until(lambda: desk.asked)
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt, daemon=True)
    thread.start()
    late = [wait("session/cancel"), wait(7), *send(asks("late")), wait("late")]
    assert bench.run(*START, *send(asks()), *late, *end("cancelled")) == 130
    thread.join(20)
    assert bench.heard("session/cancel") == [{"sessionId": SESSION}]
    assert bench.answers() == [CANCELLED] and desk.gone.wait(20)
    assert bench.answers("late")[0]["code"] == -32603 and len(desk.asked) == 1
    assert bench.acp.process.returncode is not None


def test_interrupt_before_there_is_a_session_ends_the_agent(bench: Bench) -> None:
    def interrupt() -> None:
        wait_until((bench.folder / "script.json.log").exists)
        os.kill(os.getpid(), signal.SIGTERM)

    thread = threading.Thread(target=interrupt, daemon=True)
    thread.start()
    assert bench.run(wait("initialize"), {"hang": True}) == 143
    thread.join(20)
    assert not bench.heard("session/cancel")


ODD = [
    [], "x", 3, None, {}, {"id": 3}, {"id": [], "method": "x"}, {"id": {}, "result": 1},
    {"method": 3, "id": "odd"}, {"method": "session/update"},
    {"method": "session/update", "params": []},
    {"method": "session/update", "params": {"update": 3}},
    {"method": "$/cancel_request", "params": {"requestId": [[]]}},
    {"id": 99, "result": {"stopReason": "end_turn"}},
    {"id": 2, "result": {"sessionId": "another"}},
    {"id": "3", "result": {"stopReason": "end_turn"}},
    update("tool_call", toolCallId=[], rawInput=[], content=3, status={}),
    update("tool_call", toolCallId="o", rawInput="text", status="completed", title=[]),
    update("tool_call", rawInput={"command": ["a", 3]}, kind="execute", name=4),
    update("agent_message_chunk", content=[]),
    update("agent_message_chunk", content={"type": "image", "data": "x"}),
]  # fmt: skip


def test_messages_of_any_shape_end_in_no_traceback(bench: Bench) -> None:
    lines = [json.dumps(body) for body in ODD]
    lines += ["not json", '{"id": 3, "method": ', "[" * 100_000, '{"a":' * 90_000]
    steps = [{"print": line} for line in lines]
    assert bench.run(*START, *steps, *end()) == 0
    assert "Traceback" not in bench.err.getvalue()


@every_row(
    ("changes", "told"),
    [
        ({"sessionId": "another"}, "another session"),
        ({"sessionId": None}, "another session"),
        ({"toolCall": None}, "AttributeError"),
        ({"toolCall": 3}, "AttributeError"),
    ],
)
def test_request_that_cannot_be_read_is_refused_and_asks_nobody(
    bench: Bench, changes: Step, told: str
) -> None:
    desk = bench.serve((b"A", b"55"), decision("allow", "allow"))
    steps: list[Any] = [*START, *send(asks(**changes)), wait(7), *end()]
    bench.run(*steps)
    (answer,) = bench.answers()
    assert answer["code"] == -32603 and told in answer["message"]
    assert not desk.asked


@pytest.mark.parametrize("options", [None, 3, [], [3, None, {}], [{"optionId": 3}]])
def test_odd_options_are_never_selected(bench: Bench, options: Any) -> None:
    bench.serve((b"A", b"55"), decision("allow", "allow"))
    steps: list[Any] = [*START, *send(asks(options=options)), wait(7), *end()]
    bench.run(*steps)
    assert bench.answers() == [CANCELLED]


def test_line_that_never_ends_is_an_error(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(json_lines, "MAX_LINE", 100_000)
    with pytest.raises(ProtocolError, match="too long"):
        bench.run(*START, {"print": "x" * 300_000 + '{"a":'}, {"hang": True})
    assert bench.acp.process.returncode is not None


def test_terminal_never_gets_control_characters(bench: Bench) -> None:
    call = {**CALL, "rawInput": {"command": "x\x1b]0;y\x07"}}
    talk = send(said("a\x1b[2Jb"), update("tool_call", **call), said("\x1b[31mred"))
    assert bench.run(*START, *talk, *end()) == 0
    assert "\x1b" not in bench.err.getvalue() + bench.out.getvalue()
