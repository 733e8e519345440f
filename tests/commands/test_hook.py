"""Events that the hook client hands over: what they load, what may hold them up."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from feishuperm import wire
from feishuperm.commands import hook
from feishuperm.hooks.application import RunLock
from tests.agents.parts import first
from tests.conftest import ROOT, wait_until

COMMAND = {"event": "Stop", "type": "command", "command": "echo no >&2; exit 1"}


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A project with a callback for Stop, and a socket path of its own."""
    (tmp_path / ".claude").mkdir()
    settings = json.dumps({"feishuperm": {"callbacks": [COMMAND]}})
    (tmp_path / ".claude" / "settings.json").write_text(settings)
    for name in ("HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME", "CLAUDE_PROJECT_DIR"):
        monkeypatch.setenv(name, str(tmp_path))
    monkeypatch.setenv("PERMISSION_SOCKET_PATH", str(tmp_path / "s"))
    monkeypatch.setenv("FEISHUPERM_NOTIFY", "stop")
    for name in ("FEISHUPERM_RUN", "FEISHUPERM_CONFIG", "CLAUDE_CONFIG_DIR"):
        monkeypatch.delenv(name, raising=False)
    numbers = (signal.SIGTERM, signal.SIGHUP, signal.SIGALRM)
    before = {number: signal.getsignal(number) for number in numbers}
    yield tmp_path
    for number, action in before.items():
        signal.signal(number, action)


@pytest.fixture
def alarms(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """Alarms as they were set; one that is not taken back rings very soon."""
    seconds: list[int] = []

    def alarm(value: int) -> None:
        seconds.append(value)
        signal.setitimer(signal.ITIMER_REAL, 0.05 if value else 0)

    monkeypatch.setattr(hook, "alarm", alarm)
    before = signal.getsignal(signal.SIGALRM)
    yield seconds
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


def test_frozen_server_with_a_full_backlog_does_not_keep_callbacks_from_running(
    project: Path, alarms: list[int]
) -> None:
    with socket.socket(socket.AF_UNIX) as server, socket.socket(socket.AF_UNIX) as last:
        server.bind(str(project / "s"))
        server.listen(0)
        last.connect(str(project / "s"))  # nobody accepts: there is no room for more
        printed = hook.handle(b'{"hook_event_name":"Stop"}', "1-a", "event")
    assert json.loads(printed) == {"decision": "block", "reason": "no"}
    assert alarms == [hook.CARD_SECONDS, 0, 0]
    log = (project / "feishuperm" / "feishuperm.log").read_text()
    assert "no server, no card for Stop" in log


def test_notice_reaches_the_server_and_the_callbacks_run(
    project: Path, alarms: list[int]
) -> None:
    raw = b'{"hook_event_name":"Stop"}'
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(project / "s"))
        server.listen()
        server.settimeout(10)
        printed = hook.handle(raw, "1-a", "event")
        connection, _ = server.accept()
        with connection, connection.makefile("rb") as file:
            assert file.read()[4:] == b"N1\0%s\0%s" % (str(project).encode(), raw)
    assert json.loads(printed)["decision"] == "block"
    assert alarms[-1] == 0


def test_event_with_a_command_loads_only_what_it_needs(project: Path) -> None:
    """A heavy module would be felt at every event that goes on as usual."""
    callbacks = {"callbacks": [{**COMMAND, "command": "true"}]}
    settings = json.dumps({"feishuperm": callbacks})
    (project / ".claude" / "settings.json").write_text(settings)
    script = (
        "import sys; sys.path.insert(0, sys.argv[1]); "
        "from feishuperm.commands.hook import handle; "
        """raw = b'{"hook_event_name":"Stop"}'; """
        "print(handle(raw, '1-a', 'event')); print(*sorted(sys.modules))"
    )
    ran = subprocess.run(
        [sys.executable, "-I", "-S", "-c", script, str(ROOT)],
        env={"HOME": str(project), "CLAUDE_PROJECT_DIR": str(project)},
        capture_output=True,
        text=True,
        timeout=60,
    )
    answer, modules = ran.stdout.splitlines()
    assert "continue" in answer
    heavy = {"argparse", "asyncio", "dataclasses", "hashlib", "logging"}
    assert not heavy & set(modules.split())
    ours = [name.split(".") for name in modules.split() if "feishuperm." in name]
    rooms = {"wire", "errors", "messages", "commands", "hooks", "lib", "models"}
    assert {parts[1] for parts in ours} <= rooms
    assert [parts[2:] for parts in ours if parts[1] == "commands"] == [[], ["hook"]]


def guard(project: Path, event: str = "PreToolUse") -> None:
    entry = {**COMMAND, "event": event, "command": "grep -q evil && exit 1; exit 0"}
    settings = json.dumps({"feishuperm": {"callbacks": [entry]}})
    (project / ".claude" / "settings.json").write_text(settings)


def tool_call(size: int, event: str = "PreToolUse") -> bytes:
    content = "x" * size + "evil"
    fields = {"hook_event_name": event, "tool_name": "Write"}
    return json.dumps({**fields, "tool_input": {"content": content}}).encode()


def test_guard_sees_a_tool_call_longer_than_any_request(
    project: Path, alarms: list[int]
) -> None:
    guard(project)
    raw = tool_call(wire.MAX_EVENT)
    printed = json.loads(hook.handle(raw, "1-a", "event"))
    assert printed["hookSpecificOutput"]["permissionDecision"] == "deny"


@pytest.mark.parametrize(
    ("guarded", "event", "blocked"),
    [
        ("PreToolUse", "PreToolUse", True),
        ("Stop", "PreToolUse", False),
        ("PreToolUse", "PostToolUse", False),
    ],
)
def test_tool_call_too_long_to_be_read_is_stopped_if_anything_would_check_it(
    project: Path,
    monkeypatch: pytest.MonkeyPatch,
    guarded: str,
    event: str,
    blocked: bool,
) -> None:
    guard(project, guarded)
    monkeypatch.setattr(wire, "MAX_INPUT", 1000)
    printed = hook.handle(tool_call(2000, event)[:1001], "1-a", "event")
    assert (b'"permissionDecision": "deny"' in printed) is blocked
    log = (project / "feishuperm" / "feishuperm.log").read_text()
    assert "too long to be read" in log


def test_request_longer_than_a_frame_is_left_to_the_terminal(project: Path) -> None:
    raw = tool_call(wire.MAX_EVENT, "PermissionRequest")
    assert hook.handle(raw, "1-a", "event") == b""
    log = (project / "feishuperm" / "feishuperm.log").read_text()
    assert "1-a: too long to be relayed" in log


def asking(agent: str, session: str) -> bytes:
    """A request of an agent's session; without a word, Claude Code's."""
    fields = {"hook_event_name": "PermissionRequest", "tool_name": "Bash"}
    event = first(agent) if agent else {**fields, "tool_input": {}}
    key = "sessionId" if agent == "copilot" else "session_id"
    return json.dumps({**event, key: session}).encode()


@pytest.mark.parametrize("agent", ["", "codex", "qwen", "copilot"])
@pytest.mark.parametrize(("session", "asked"), [("s1", 0), ("nested", 1)])
def test_inside_a_run_only_its_own_session_is_not_asked_about(
    project: Path, monkeypatch: pytest.MonkeyPatch, session: str, asked: int, agent: str
) -> None:
    calls: list[bytes] = []

    def ask(raw: bytes, *_: object, **__: object) -> bytes:
        calls.append(raw)
        return b"{}\n"

    mark = RunLock()
    mark.add("s1")
    monkeypatch.setenv("FEISHUPERM_RUN", mark.word)
    monkeypatch.setattr(wire, "ask", ask)
    hook.handle(asking(agent, session), "1-a", "event", agent=agent)
    mark.remove()
    assert len(calls) == asked


def test_inside_a_headless_run_the_hook_leaves_callbacks_alone(
    project: Path, alarms: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    mark = RunLock()
    monkeypatch.setenv("FEISHUPERM_RUN", mark.word)
    raw = b'{"hook_event_name":"Stop","session_id":"s1"}'
    other = b'{"hook_event_name":"Stop","session_id":"nested"}'
    assert hook.handle(raw, "1-a", "event") == b""  # the session has just begun
    mark.add("s1")
    assert hook.handle(raw, "1-a", "event") == b""
    assert b"block" in hook.handle(other, "1-a", "event")
    mark.remove()
    assert b"block" in hook.handle(raw, "1-a", "event")


@pytest.mark.parametrize("value", ["/dev/null", "empty", "0" * 32])
def test_guard_of_the_user_is_not_silenced_by_a_variable(
    project: Path, alarms: list[int], monkeypatch: pytest.MonkeyPatch, value: str
) -> None:
    (project / "empty").touch(0o600)
    monkeypatch.setenv("FEISHUPERM_RUN", value)
    raw = b'{"hook_event_name":"Stop"}'
    assert b"block" in hook.handle(raw, "1-a", "event")


@pytest.mark.parametrize("agent", ["", "codex", "copilot"])
def test_socket_that_an_untrusted_project_names_is_not_the_one_to_ask(
    project: Path, monkeypatch: pytest.MonkeyPatch, agent: str
) -> None:
    asked: list[bytes] = []

    def ask(raw: bytes, path: bytes, *_: object, **__: object) -> bytes:
        asked.append(path)
        return b"{}\n"

    clone = project / "clone"
    (clone / ".claude").mkdir(parents=True)
    block = {"env": {"PERMISSION_SOCKET_PATH": "/evil", "FEISHU_BASE_URL": "x"}}
    (clone / ".claude" / "settings.json").write_text(json.dumps(block))
    monkeypatch.setenv("CLAUDE_PROJECT_DIR", str(clone))
    monkeypatch.setenv("PERMISSION_SOCKET_PATH", "/evil")
    monkeypatch.setattr(wire, "ask", ask)
    said = hook.handle(asking(agent, "s"), "1-a", "no server", agent=agent)
    assert said == b"{}\n"
    assert asked == [wire.DEFAULT_SOCKET]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_callback_does_not_outlive_a_hook_that_is_ended(
    project: Path, number: int
) -> None:
    text = "echo $$ > pid.new; mv pid.new pid; sleep 60"
    entry = {**COMMAND, "command": text}
    settings = json.dumps({"feishuperm": {"callbacks": [entry]}})
    (project / ".claude" / "settings.json").write_text(settings)
    script = (
        "import sys; sys.path.insert(0, sys.argv[1]); "
        "from feishuperm.client import main; main()"
    )
    with subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", script, str(ROOT)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={"HOME": str(project), "PATH": "/usr/bin:/bin"},
        cwd=project,
    ) as process:
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write(b'{"hook_event_name":"Stop"}')
        process.stdin.close()
        wait_until((project / "pid").exists)
        process.send_signal(number)
        assert process.stdout.read() == b""
    pid = int((project / "pid").read_text())
    wait_until(lambda: not Path(f"/proc/{pid}").exists())
