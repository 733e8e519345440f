"""The laboratory itself: what the other tests with the real client stand on."""

from __future__ import annotations

import pytest

from tests.fakes.model import text, tool
from tests.lab import Lab, wait_for

pytestmark = pytest.mark.claude


def test_interactive_session_asks_and_runs_the_tool_after_yes(lab: Lab) -> None:
    call = tool("Bash", command="touch made", description="x")
    lab.model.push([call], [text("bye")])
    lab.record("PermissionRequest")
    lab.record("Stop")
    session = lab.session("go")
    session.wait("Do you want to")
    session.keys("Enter")
    lab.model.wait(2)
    stop = wait_for(lambda: lab.recorded("Stop"), "Stop event")[0]
    assert stop["last_assistant_message"] == "bye"
    assert lab.recorded("PermissionRequest")[0]["tool_input"] == call["input"]
    assert not lab.model.tool_results()[call["id"]].is_error


def test_print_mode_reaches_the_mcp_server(lab: Lab) -> None:
    lab.with_mcp()
    lab.settings["permissions"] = {"allow": ["mcp__lab__echo"]}
    call = tool("mcp__lab__echo", text="hi")
    lab.model.push([call], [text("bye")])
    done = lab.run("go")
    assert (done.returncode, done.stdout) == (0, "bye\n")
    assert lab.model.tool_results()[call["id"]].text == 'mcp-ok {"text": "hi"}'


def test_client_sees_nothing_of_the_caller(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET_OF_THE_CALLER", "1")
    path = f"{lab.events}/environ"
    lab.hook("Stop", f"env > {path}")
    lab.run("go")
    seen = lab.read(path)
    assert f"HOME={lab.home}\n" in seen
    assert "SECRET_OF_THE_CALLER" not in seen
