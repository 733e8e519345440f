"""A headless run against a scripted CLI: what the real one does only now and then."""

from __future__ import annotations

import io
import json
import os
import signal
import socket
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from feishuperm import wire
from feishuperm.errors import FeishupermError
from feishuperm.hooks import agent_run as module
from feishuperm.hooks import headless
from feishuperm.hooks.config_manager import ProjectConfig, SettingsFile
from feishuperm.hooks.headless import Headless
from feishuperm.hooks.hook_manager import HookManager
from feishuperm.hooks.screen import Screen
from feishuperm.models.hooks import HookCallback, HookGroup
from tests.conftest import wait_until
from tests.fakes import cli

INIT = {"type": "system", "subtype": "init", "session_id": "s1", "cwd": "/tmp"}
RESULT = {"type": "result", "result": "bye", "num_turns": 1, "duration_ms": 5}
ALLOW = {
    "hookSpecificOutput": {
        "hookEventName": "PermissionRequest",
        "decision": {"behavior": "allow"},
    }
}


def ask(id: str = "q1", **body: Any) -> dict[str, Any]:
    request = {
        "subtype": "can_use_tool",
        "tool_name": "Bash",
        "input": {"command": "x"},
    }
    return {"type": "control_request", "request_id": id, "request": {**request, **body}}


def send(*messages: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"send": message} for message in messages]


def wait(word: Any) -> dict[str, Any]:
    return {"wait": word}


class Desk:
    """The server's end of the socket: gives each request the same fate."""

    def __init__(self, *frames: tuple[bytes, bytes]) -> None:
        self.folder = tempfile.TemporaryDirectory()
        self.path = os.path.join(self.folder.name, "s")
        self.frames = b"".join(wire.frame(kind, body) for kind, body in frames)
        self.asked: list[bytes] = []
        self.gone = threading.Event()
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.bind(self.path)
        self.sock.listen()
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self.sock.accept()
            except OSError:
                return
            with connection:
                self.asked.append(connection.recv(65536))
                try:
                    connection.sendall(self.frames)
                    while connection.recv(65536):
                        pass
                except OSError:  # it hung up before it heard us
                    pass
            self.gone.set()

    def close(self) -> None:
        self.sock.close()
        self.folder.cleanup()


class Terminal(io.StringIO):
    def __init__(self, live: bool = False) -> None:
        super().__init__()
        self.live = live

    def isatty(self) -> bool:
        return self.live


class Bench:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.config = ProjectConfig(str(folder))
        self.out = Terminal()
        self.err = Terminal()
        self.desk: Desk | None = None
        self.as_json = False

    def serve(self, *frames: tuple[bytes, bytes]) -> Desk:
        self.desk = Desk(*frames)
        return self.desk

    def callback(self, event: str, type: str, text: str) -> None:
        file = SettingsFile("localSettings", "x", {})
        file.callbacks = [(event, HookGroup("", [HookCallback(type, text)]))]
        self.config.files.append(file)

    def run(self, *steps: dict[str, Any] | list[dict[str, Any]]) -> int:
        flat = [
            one
            for step in steps
            for one in (step if isinstance(step, list) else [step])
        ]
        script = self.folder / "script.json"
        script.write_text(json.dumps(flat))
        environ = {"PATH": "/usr/bin:/bin", "HOME": str(self.folder)}
        self.screen = Screen(self.out, self.err, self.as_json)
        hooks = HookManager(str(self.folder), environ, self.screen.warn)
        path = self.desk.path if self.desk else str(self.folder / "none")
        session = Headless(self.config, hooks, self.screen, path, environ)
        # The flags come after the script's name, and the fake does not mind.
        return session.run([sys.executable, cli.__file__, str(script)], "do it")

    def heard(self) -> list[dict[str, Any]]:
        """What the CLI was told."""
        log = (self.folder / "script.json.log").read_text()
        return [json.loads(line) for line in log.splitlines()]

    def answer(self, id: str) -> dict[str, Any]:
        (found,) = [
            one["response"]
            for one in self.heard()
            if one["type"] == "control_response" and one["response"]["request_id"] == id
        ]
        answer: dict[str, Any] = found
        return answer


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    made = Bench(tmp_path)
    yield made
    if made.desk:
        made.desk.close()


def decided(output: Any) -> tuple[bytes, bytes]:
    return b"D", json.dumps(output).encode() + b"\n"


def test_prompt_goes_in_and_the_answer_comes_out(bench: Bench) -> None:
    assert bench.run(wait("user"), send(INIT, RESULT), {"hang": True}) == 0
    assert bench.out.getvalue() == "bye\n"
    first, second = bench.heard()
    assert first["request"] == {"subtype": "initialize", "hooks": None}
    assert second["message"]["content"] == "do it"


def test_allowed_request_is_answered_with_its_own_input(bench: Bench) -> None:
    desk = bench.serve((b"A", b"55"), (b"S", b""), decided(ALLOW))
    steps = (wait("user"), send(INIT, ask()), wait("q1"), send(RESULT), {"hang": True})
    assert bench.run(*steps) == 0
    assert bench.answer("q1")["response"] == {
        "behavior": "allow",
        "updatedInput": {"command": "x"},
    }
    event = json.loads(desk.asked[0].rpartition(b"\0")[2])
    assert event["hook_event_name"] == "PermissionRequest"
    assert (event["session_id"], event["cwd"]) == ("s1", "/tmp")
    assert event["tool_input"] == {"command": "x"}


@pytest.mark.parametrize(
    ("frames", "words"),
    [
        ([(b"A", b"55"), (b"R", b"")], "nobody answered"),
        ([(b"E", b"")], "nobody answered"),
        ([(b"A", b"55"), (b"D", b"{}\n")], "nobody answered"),
    ],
)
def test_no_decision_is_a_refusal(
    bench: Bench, frames: list[tuple[bytes, bytes]], words: str
) -> None:
    bench.serve(*frames)
    steps = (wait("user"), send(INIT, ask()), wait("q1"), send(RESULT), {"hang": True})
    assert bench.run(*steps) == 3
    answer = bench.answer("q1")["response"]
    assert answer["behavior"] == "deny" and words in answer["message"]
    assert "1 refused" in bench.err.getvalue()


def test_frozen_server_is_given_up(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wire, "ACK_SECONDS", 0.2)
    bench.serve()
    steps = (wait("user"), send(INIT, ask()), wait("q1"), send(RESULT), {"hang": True})
    assert bench.run(*steps) == 3
    assert "does not answer" in bench.answer("q1")["response"]["message"]


def test_request_settled_elsewhere_is_withdrawn_and_not_answered(bench: Bench) -> None:
    desk = bench.serve((b"A", b"55"))
    cancel = {"type": "control_cancel_request", "request_id": "q1"}
    hook = {
        "type": "control_request",
        "request_id": "h1",
        "request": {"subtype": "hook_callback", "callback_id": "x", "input": {}},
    }
    steps = (wait("user"), send(INIT, ask(), hook), wait("h1"), send(cancel, RESULT))
    assert bench.run(*steps, {"hang": True}) == 0
    assert desk.gone.wait(10) or not desk.asked
    assert not any(
        one.get("response", {}).get("request_id") == "q1" for one in bench.heard()
    )
    assert "answered elsewhere" in bench.err.getvalue()


def test_question_for_nobody_we_know_is_refused_politely(bench: Bench) -> None:
    odd = ask("m1", subtype="mcp_message")
    assert bench.run(wait("user"), send(INIT, odd), wait("m1"), send(RESULT)) == 0
    assert bench.answer("m1")["subtype"] == "error"


def test_failure_inside_is_a_refusal_and_never_a_silence(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*arguments: object) -> None:
        raise RuntimeError("broken")

    monkeypatch.setattr(HookManager, "run", broken)
    hook = ask("h1", subtype="hook_callback", callback_id="x")
    steps = (wait("user"), send(INIT, ask()), wait("q1"), send(hook), wait("h1"))
    assert bench.run(*steps, send(RESULT), {"hang": True}) == 3
    assert "RuntimeError: broken" in bench.answer("q1")["response"]["message"]
    assert bench.answer("h1") == {
        "subtype": "error",
        "request_id": "h1",
        "error": "RuntimeError: broken",
    }


def test_process_that_holds_the_output_does_not_hold_the_run(bench: Bench) -> None:
    bench.callback("SessionStart", "prompt", "x")
    steps = (wait("user"), send(INIT, RESULT), {"leave_child": 8}, {"exit": 0})
    assert bench.run(*steps) == 0


def test_end_without_a_result_is_a_failure(bench: Bench) -> None:
    assert bench.run(wait("user"), {"exit": 4}) == 1
    assert "ended without a result (exit 4)" in bench.err.getvalue()


def test_failed_result_is_a_failure(bench: Bench) -> None:
    failed = {"type": "result", "is_error": True, "errors": ["too much"]}
    assert bench.run(wait("user"), send(INIT, failed), {"hang": True}) == 1
    assert "too much" in bench.err.getvalue() and bench.out.getvalue() == ""


def test_run_goes_on_until_the_client_is_idle(bench: Bench) -> None:
    def state(word: str) -> dict[str, Any]:
        return {"type": "system", "subtype": "session_state_changed", "state": word}

    later = {**RESULT, "result": "later"}
    steps = send(INIT, state("running"), RESULT, later, state("idle"))
    bench.as_json = True
    assert bench.run(wait("user"), steps, {"hang": True}) == 0
    assert json.loads(bench.out.getvalue())["result"] == "later"


def test_skipped_file_has_its_hooks_run_and_nothing_made_a_flag(bench: Bench) -> None:
    rules = {"permissions": {"allow": ["Bash(x)"]}}
    script = {"hooks": {"Stop": [{"hooks": [{"type": "script", "script": "a.py"}]}]}}
    file = SettingsFile("projectSettings", "settings.json", {**rules, **script})
    file.hooks = [("Stop", HookGroup("", [HookCallback("command", "true")]))]
    bench.config.files.append(file)
    inner = {"subtype": "success", "request_id": "feishuperm_2"}
    answer = {"type": "control_response", "response": {**inner, "response": {}}}
    steps = (wait("get_settings"), send(answer), wait("user"), send(INIT, RESULT))
    assert bench.run(*steps, {"hang": True}) == 0
    first, _, last = bench.heard()
    assert list(first["request"]["hooks"]) == ["Stop"]
    assert last["type"] == "user"
    assert "its permissions do not hold" in bench.err.getvalue()


def test_hook_messages_are_shown_and_session_events_run_here(bench: Bench) -> None:
    for event in ("SessionStart", "SessionEnd"):
        bench.callback(event, "prompt", "saw $EVENT in $SESSION_ID")
    assert bench.run(wait("user"), send(INIT, RESULT), {"hang": True}) == 0
    shown = bench.err.getvalue()
    assert shown.count("hook: saw SessionStart in s1") == 1
    assert shown.count("hook: saw SessionEnd in s1") == 1


def test_wait_counts_down_on_a_terminal(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "TICK", 0.05)
    monkeypatch.setattr(wire, "GUARD_SECONDS", 0)
    bench.err.live = True
    bench.serve((b"A", b"1"))
    steps = (wait("user"), send(INIT, ask()), wait("q1"), send(RESULT), {"hang": True})
    assert bench.run(*steps) == 3
    shown = bench.err.getvalue()
    assert "\r\x1b[K  waiting for approval: Bash: x: 0 s" in shown
    assert "\r\x1b[K  refused: Bash: x" in shown.replace("\r\x1b[K\r", "\r")


def test_missing_program_is_told(bench: Bench) -> None:
    screen = Screen(bench.out, bench.err, False)
    hooks = HookManager(str(bench.folder), {}, screen.warn)
    session = Headless(bench.config, hooks, screen, "/none", {})
    with pytest.raises(FeishupermError, match="cannot start /no/such/claude"):
        session.run(["/no/such/claude"], "x")


def test_terminal_never_gets_control_characters(bench: Bench) -> None:
    content = [
        {"type": "text", "text": "a\x1b[2Jb"},
        {"type": "tool_use", "name": "Bash", "input": {"command": "x\x1b]0;y\x07"}},
    ]
    said = {"type": "assistant", "message": {"content": content}}
    result = {**RESULT, "result": "\x1b[31mred"}
    bench.run(wait("user"), send(INIT, said, result), {"hang": True})
    assert "\x1b" not in bench.err.getvalue() + bench.out.getvalue()
    assert "⟦U+001B⟧" in bench.out.getvalue()


def test_messages_of_any_shape_end_in_no_traceback(bench: Bench) -> None:
    odd = [
        {"type": "assistant", "message": {"content": ["text", None, {"type": "text"}]}},
        {"type": "assistant", "message": 3},
        {"type": "system", "subtype": "init", "session_id": {}, "cwd": []},
        {"type": "control_request", "request_id": [], "request": {"subtype": {}}},
        {"type": "control_request", "request_id": "q", "request": {"subtype": 3}},
        {"type": "control_response", "response": {"request_id": {}, "response": []}},
        {"type": "session_state_changed", "subtype": []},
    ]
    numbers = {"duration_ms": "x", "num_turns": None, "total_cost_usd": []}
    result = {**RESULT, **numbers, "errors": 3}
    assert bench.run(wait("user"), send(INIT, *odd, result), {"hang": True}) == 0
    assert bench.out.getvalue() == "bye\n"


def test_message_that_fails_in_our_hands_is_answered(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise TypeError("odd")

    monkeypatch.setattr(headless, "Question", fail)
    steps = (wait("user"), send(INIT, ask()), wait("q1"), send(RESULT), {"hang": True})
    assert bench.run(*steps) == 0
    assert bench.answer("q1")["subtype"] == "error"
    assert "not understood (TypeError: odd)" in bench.err.getvalue()


def test_progress_that_nobody_reads_ends_nothing(bench: Bench) -> None:
    bench.err.close()
    assert bench.run(wait("user"), send(INIT, RESULT), {"hang": True}) == 0
    assert bench.out.getvalue() == "bye\n"


def test_interrupted_run_leaves_no_callback_behind(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.callback("SessionStart", "command", "echo $$ > a; mv a pid; sleep 60")
    bench.callback("SessionEnd", "command", "touch ended")
    monkeypatch.setattr(module, "INTERRUPT_SECONDS", 0)

    def interrupt() -> None:
        wait_until((tmp_path / "pid").exists)
        os.kill(os.getpid(), signal.SIGTERM)

    thread = threading.Thread(target=interrupt, daemon=True)
    thread.start()
    init = {**INIT, "cwd": str(tmp_path)}
    assert bench.run(wait("user"), send(init), {"hang": True}) == 143
    thread.join(20)
    pid = int((tmp_path / "pid").read_text())
    wait_until(lambda: not Path(f"/proc/{pid}").exists())
    assert (tmp_path / "ended").exists()
