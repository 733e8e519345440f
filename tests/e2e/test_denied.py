"""What auto mode refuses, a person lets through: once, and only that."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import wait_until
from tests.fakes.model import text, tool
from tests.lab import Lab
from tests.served import EVENT, Served

RISKY = {"command": "python3 mk.py", "description": "x"}
DENIED = {
    **EVENT,
    "hook_event_name": "PermissionDenied",
    "permission_mode": "auto",
    "tool_input": RISKY,
    "tool_use_id": "toolu_1",
    "reason": "Looks risky",
}
CALL = {**EVENT, "hook_event_name": "PreToolUse", "tool_input": RISKY}
ALLOW = "allow"
RETRY = {"hookSpecificOutput": {"hookEventName": "PermissionDenied", "retry": True}}


def decision_of(printed: bytes) -> Any:
    return json.loads(printed)["hookSpecificOutput"]["permissionDecision"]


def call(served: Served, **changes: Any) -> bytes:
    """What our hook says before a tool call."""
    done = served.hook({**CALL, **changes}, kind="denied")
    printed: bytes = done.communicate(timeout=20)[0]
    assert done.returncode == 0
    return printed


@pytest.fixture(scope="module")
def served(pyz: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with Served(pyz, tmp_path_factory.mktemp("home")) as server:
        yield server


def test_refused_call_is_shown_with_its_reason_and_let_through_once(
    served: Served,
) -> None:
    with served.watched():
        hook, id = served.ask(DENIED, kind="denied")
        page = served.get(f"/request?id={id}").text
        assert "自动模式拒绝了" in page and "python3 mk.py" in page
        assert "Looks risky" in page and "放行一次" in page and "不放行" in page
        assert call(served) == b""  # nobody has answered
        assert "已放行一次" in served.get(f"/allow?id={id}").text
        assert json.loads(hook.communicate(timeout=20)[0]) == RETRY
    assert call(served, tool_input={**RISKY, "command": "python3 mk2.py"}) == b""
    assert call(served, session_id="another") == b""
    assert decision_of(call(served)) == ALLOW
    assert call(served) == b""
    told = [(entry["event"], entry["action"]) for entry in served.ledger()]
    assert told == [
        ("intent", "allow"),
        ("request", "allow"),
        ("intent", "retry"),
        ("retry", "retry"),
    ]


def test_ticket_survives_a_crash_and_is_still_good_only_once(served: Served) -> None:
    with served.watched():
        hook, id = served.ask(DENIED, kind="denied")
        served.get(f"/allow?id={id}")
        hook.communicate(timeout=20)
    served.kill()
    served.start()
    assert decision_of(call(served)) == ALLOW
    served.kill()
    served.start()
    assert call(served) == b""


def test_refusal_that_stands_prints_nothing(served: Served) -> None:
    with served.watched():
        hook, id = served.ask(DENIED, kind="denied")
        assert "未放行" in served.get(f"/deny?id={id}").text
        assert hook.communicate(timeout=20)[0] == b""
    assert call(served) == b""


def test_at_zero_the_refusal_stands(pyz: Path, home: Path) -> None:
    with Served(pyz, home, PERMISSION_REQUEST_TIMEOUT="4") as served:
        with served.watched():
            hook, id = served.ask(DENIED, kind="denied")
            served.get(f"/request?id={id}")
            assert hook.communicate(timeout=20)[0] == b""
        page = served.get(f"/allow?id={id}").text
        assert "请求已过期" in page and "维持拒绝" in page
        assert call(served) == b""


def test_nobody_is_kept_waiting_where_nobody_can_see_it(served: Served) -> None:
    hook = served.hook(DENIED, kind="denied")
    assert hook.communicate(timeout=20)[0] == b""
    assert served.waiting() == []


def test_without_a_server_nothing_is_printed(served: Served) -> None:
    served.stop()
    for event in (DENIED, CALL):
        hook = served.hook(event, kind="denied")
        assert hook.communicate(timeout=20)[0] == b""
        assert hook.returncode == 0


@pytest.mark.claude
def test_real_client_runs_the_call_once(lab: Lab) -> None:
    """Flagged, let through, flagged again and run; the third time it is refused."""
    home = Path(lab.root) / "server"
    home.mkdir()
    lab.settings = {"permissions": {"defaultMode": "auto"}}
    lab.write("mk.py", "open('made', 'a').write('x')\n")
    lab.model.flags = lambda block: "Looks risky" if "mk.py" in str(block) else ""
    calls = [tool("Bash", **RISKY) for _ in range(3)]
    lab.model.push(*([call] for call in calls), [text("bye")])
    with Served(Path(lab.pyz), home) as served, served.watched():
        lab.socket = served.socket
        lab.pyz_hook("PermissionDenied", "hook", "denied", timeout=60)
        lab.pyz_hook("PreToolUse", "hook", "denied", timeout=20)
        lab.session("go")
        first = wait_until(served.waiting, timeout=40)[0]
        served.get(f"/allow?id={first}")
        second = wait_until(lambda: set(served.waiting()) - {first}, timeout=40).pop()
        served.get(f"/deny?id={second}")
        results = wait_until(
            lambda: len(lab.model.tool_results()) == 3 and lab.model.tool_results(),
            timeout=40,
        )
        assert [results[call["id"]].is_error for call in calls] == [True, False, True]
        assert lab.read("made") == "x"
        told = json.dumps(lab.model.calls()[1])
        assert "The PermissionDenied hook indicated you may retry" in told


@pytest.mark.claude
def test_real_client_spells_the_retried_call_as_the_refused_one(lab: Lab) -> None:
    """What the client fills in by itself is the same in both events."""
    home = Path(lab.root) / "server"
    home.mkdir()
    allow = ["Read(//**)"]
    lab.settings = {"permissions": {"defaultMode": "auto", "allow": allow}}
    lab.with_mcp()
    outside = Path(lab.root) / "outside.txt"
    outside.write_text("a\n")
    lab.model.flags = lambda block: "" if block["name"] == "Read" else "Looks risky"
    edit = {"file_path": str(outside), "old_string": "a", "new_string": "b"}
    lab.model.push([tool("Read", file_path=str(outside))])
    for name, given in (("Edit", edit), ("mcp__lab__wipe", {"target": "x"})):
        lab.model.push([tool(name, **given)], [tool(name, **given)])
    lab.model.push([text("bye")])
    with Served(Path(lab.pyz), home) as served, served.watched():
        lab.socket = served.socket
        lab.pyz_hook("PermissionDenied", "hook", "denied", timeout=60)
        lab.pyz_hook("PreToolUse", "hook", "denied", timeout=20)
        session = lab.session("go")
        for _ in range(2):
            id = wait_until(served.waiting, timeout=40)[0]
            served.get(f"/allow?id={id}")
            wait_until(lambda id=id: id not in served.waiting())
        session.wait("bye", 40)
        assert outside.read_text() == "b\n"
        assert "mcp-ok" in json.dumps(lab.model.calls()[-1])
