"""A user's own hooks with the real client: callbacks, and the official SDK."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from feishuperm.hooks.application import Application
from tests.e2e.hostile_clone import EVENTS, hostile
from tests.fakes.model import text, tool
from tests.lab import Lab, Session, wait_for
from tests.served import Served

pytestmark = pytest.mark.claude


def bash(command: str) -> dict[str, Any]:
    return tool("Bash", command=command, description="x")


def listed(lab: Lab, *entries: dict[str, Any]) -> None:
    """Callbacks for interactive sessions, with the hook that runs them."""
    callbacks = lab.settings.setdefault("feishuperm", {"callbacks": []})["callbacks"]
    callbacks += entries
    for event in {entry["event"] for entry in entries}:
        lab.pyz_hook(event)


SCRIPT = """
async def hook(input, tool_use_id, context):
    reason = "not " + input["tool_input"]["command"] + " " + str(bool(tool_use_id))
    return {"decision": "block", "reason": reason}
"""


@pytest.mark.parametrize(
    ("entry", "reason"),
    [
        (
            {"type": "command", "command": "echo no $COMMAND >&2; exit 1"},
            "no touch made",
        ),
        ({"type": "script", "script": ".claude/hooks/a.py"}, "not touch made True"),
    ],
)
def test_blocked_tool_does_not_run_and_the_model_reads_why(
    lab: Lab, entry: dict[str, Any], reason: str
) -> None:
    """Scenario: 执行 Command 类型回调; Scenario: 执行 Script 类型回调"""
    lab.write(".claude/hooks/a.py", SCRIPT)
    lab.settings["permissions"]["allow"] = ["Bash(touch made)"]
    listed(lab, {**entry, "event": "PreToolUse", "matcher": "Bash"})
    call = bash("touch made")
    lab.model.push([call], [text("bye")])
    lab.run("go")
    result = lab.model.tool_results()[call["id"]]
    assert result.is_error and reason in result.text
    assert not os.path.exists(f"{lab.project}/made")


def test_prompt_is_shown_to_the_user_at_the_terminal(lab: Lab) -> None:
    """Scenario: 执行 Prompt 类型回调"""
    prompt = {"type": "prompt", "prompt": "mind $TOOL and ${COMMAND}"}
    listed(lab, {**prompt, "event": "PreToolUse", "matcher": "Bash"})
    lab.settings["permissions"]["allow"] = ["Bash(touch made)"]
    lab.model.push([bash("touch made")], [text("bye")])
    lab.session("go").wait("mind Bash and touch made")


def test_stop_block_makes_the_session_go_on(lab: Lab) -> None:
    once = "test -e $CWD/once && exit 0; touch $CWD/once; echo 'one more' >&2; exit 1"
    listed(lab, {"event": "Stop", "type": "command", "command": once})
    lab.model.push([text("first")], [text("second")])
    assert lab.run("go").stdout == "second\n"
    assert "one more" in json.dumps(lab.model.calls()[1])


@pytest.fixture
def allowing(lab: Lab, pyz: Path, home: Path) -> Iterator[list[str]]:
    """A server whose every request is allowed at once; the ids it was asked about."""
    with Served(pyz, home) as served:
        lab.extra["PERMISSION_SOCKET_PATH"] = served.socket
        seen: list[str] = []
        over = threading.Event()

        def allow() -> None:
            while not over.is_set():
                for id in served.waiting():
                    if id not in seen:
                        seen.append(id)
                        served.get(f"/allow?id={id}")
                time.sleep(0.01)

        thread = threading.Thread(target=allow)
        thread.start()
        yield seen
        over.set()
        thread.join(10)


def test_hundred_calls_each_reach_their_three_handlers_once(
    lab: Lab, allowing: list[str]
) -> None:
    """Scenario: Mixed hook types in same session"""
    calls = [bash(f"python3 -c {number}") for number in range(100)]
    log = f"{lab.events}/log"
    note = f'echo "$EVENT $COMMAND" >> {log}'
    events = ("PreToolUse", "PostToolUse")
    listed(lab, *({"event": e, "type": "command", "command": note} for e in events))
    lab.pyz_hook("PermissionRequest")
    lab.record("Stop")
    lab.model.push(*([one] for one in calls), [text("bye")])
    lab.session("go")  # in print mode older clients ask no hook
    wait_for(lambda: lab.recorded("Stop"), "end of the turn", 150)
    counted = Counter(lab.read(log).splitlines())
    assert counted == {
        f"{event} {call['input']['command']}": 1 for event in events for call in calls
    }
    assert len(allowing) == len(set(allowing)) == len(calls)
    results = lab.model.tool_results()
    assert not any(results[call["id"]].is_error for call in calls)


# A repository that nobody has looked at.

GUARD = {
    "event": "PreToolUse",
    "matcher": "Bash",
    "type": "command",
    "command": "grep -q 'touch made' && { echo guarded >&2; exit 1; }; exit 0",
}


def own_settings(lab: Lab, *entries: dict[str, Any]) -> None:
    """The user's own callbacks, and our hook on every event."""
    ours = [{"hooks": [{"type": "command", "command": f"{lab.pyz} hook"}]}]
    settings = {
        "permissions": {"defaultMode": "default"},
        "hooks": dict.fromkeys(EVENTS, ours),
        "feishuperm": {"callbacks": list(entries)},
    }
    lab.write(f"{lab.config}/settings.json", json.dumps(settings))


def pin(lab: Lab) -> None:
    """As `install` does: which Python a hook runs, whatever PATH says."""
    lab.write(f"{lab.home}/.config/feishuperm/python", sys.executable + "\n")


def test_clone_neither_runs_callbacks_nor_silences_the_users_guard(lab: Lab) -> None:
    hostile(lab, native=False)
    own_settings(lab, GUARD)
    pin(lab)
    call = bash("touch made")
    lab.model.push([call], [text("bye")])
    assert lab.run("go", "--allowedTools=Bash").returncode == 0
    result = lab.model.tool_results()[call["id"]]
    assert result.is_error and "guarded" in result.text
    assert not os.path.exists(f"{lab.project}/made")
    assert os.listdir(lab.events) == []
    log = lab.read(f"{lab.home}/.local/state/feishuperm/feishuperm.log")
    assert f"feishuperm trust {lab.project}" in log
    ledger = lab.read(f"{lab.home}/.local/state/feishuperm/ledger.jsonl")
    assert '"event": "callback"' in ledger and '"decision": "block"' in ledger


def test_callbacks_of_a_folder_trusted_in_the_clients_dialog_run(lab: Lab) -> None:
    """Interactive: the client asks first, and its record is the one we read."""
    hostile(lab, native=False)
    del lab.settings["env"]
    local = json.loads(lab.read(".claude/settings.local.json"))
    lab.write(".claude/settings.local.json", json.dumps({**local, "env": {}}))
    own_settings(lab)
    pin(lab)
    lab.model.push([text("bye")])
    session = lab.session("go")
    session.wait("trust this folder")
    assert os.listdir(lab.events) == []
    choose_yes(session)
    wait_for(lambda: "project-Stop" in os.listdir(lab.events), "callback")
    assert f'"{lab.project}"' in lab.read(f"{lab.home}/.claude.json")


def choose_yes(session: Session) -> None:
    """Move to the line that says yes; the dialog may not listen at once."""
    for _ in range(5):
        try:
            session.wait("❯ Yes", 2)
            return session.keys("Enter")
        except TimeoutError:
            session.keys("Down")
    raise AssertionError(session.screen())


# The official SDK.


def ask_sdk(lab: Lab, **extra: Any) -> Any:
    """One query with the options that MessageRouter builds; the last message."""
    import claude_agent_sdk as sdk

    lab.prepare()
    app = Application(lab.project, lab.environ(), lambda complaint: None)
    options = {**app.message_router.build_query_options(), **extra}
    options["env"] = {**lab.environ(), "HOME": lab.home}
    chosen = sdk.ClaudeAgentOptions(**options, cli_path=lab.binary)

    async def query() -> Any:
        return [message async for message in sdk.query(prompt="go", options=chosen)][-1]

    return asyncio.run(asyncio.wait_for(query(), 90))


@pytest.fixture
def sdk_lab(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> Lab:
    """A lab for the SDK, which hands the whole environment of this process on."""
    for name in list(os.environ):
        if name.startswith(("CLAUDE", "ANTHROPIC")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", lab.home)
    return lab


@pytest.mark.sdk
def test_sdk_runs_each_configured_hook_once_and_in_order(sdk_lab: Lab) -> None:
    """Requirement: SDK 完整集成"""
    lab = sdk_lab
    log = f"{lab.events}/log"
    source = f"def hook(i, t, c):\n open({log!r}, 'a').write('script\\n')\n return {{}}"
    lab.write("hooks/a.py", source)
    notes = [
        {"type": "command", "command": f"sleep 0.2; echo first >> {log}"},
        {"type": "script", "script": "hooks/a.py"},
        {"type": "command", "command": f"echo last >> {log}"},
    ]
    lab.settings["hooks"] = {"PreToolUse": [{"matcher": "Bash", "hooks": notes}]}
    lab.settings["permissions"]["allow"] = ["Bash(touch made)"]
    lab.model.push([bash("touch made")], [text("bye")])
    assert ask_sdk(lab).result == "bye"
    assert lab.read(log).split() == ["first", "script", "last"]
    assert os.path.exists(f"{lab.project}/made")


@pytest.mark.sdk
def test_sdk_lets_a_command_block_by_its_exit_code(sdk_lab: Lab) -> None:
    """Requirement: SDK 完整集成"""
    lab = sdk_lab
    guard = {"type": "command", "command": "echo no $FILE >&2; exit 1"}
    lab.settings["hooks"] = {"PreToolUse": [{"matcher": "Write", "hooks": [guard]}]}
    write = tool("Write", file_path=f"{lab.project}/a.txt", content="x")
    lab.model.push([write], [text("bye")])
    ask_sdk(lab, permission_mode="acceptEdits")
    result = lab.model.tool_results()[write["id"]]
    assert result.is_error and f"no {lab.project}/a.txt" in result.text
    assert not os.path.exists(f"{lab.project}/a.txt")


@pytest.mark.sdk
def test_sdk_lets_a_permission_hook_decide(sdk_lab: Lab) -> None:
    lab = sdk_lab
    source = """
def hook(input, tool_use_id, context):
    decision = {"behavior": "deny", "message": "no"}
    if input["tool_input"]["command"] == "python3 -c 1":
        decision = {"behavior": "allow"}
    event = input["hook_event_name"]
    return {"hookSpecificOutput": {"hookEventName": event, "decision": decision}}
"""
    lab.write("hooks/a.py", source)
    entry = {"type": "script", "script": "./hooks/a.py"}
    lab.settings["hooks"] = {"PermissionRequest": [{"hooks": [entry]}]}
    good, bad = bash("python3 -c 1"), bash("python3 -c 2")
    lab.model.push([good], [bad], [text("bye")])

    async def nobody(*asked: object) -> Any:
        await asyncio.sleep(60)  # older clients run the hook only beside a host's own

    ask_sdk(lab, can_use_tool=nobody)
    results = lab.model.tool_results()
    assert not results[good["id"]].is_error and results[bad["id"]].text == "no"
