"""Forms of MCP servers, filled in from a page; the real client passes them on."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import wait_until
from tests.fakes.model import text, tool
from tests.lab import Lab
from tests.served import EVENT, Served

SCHEMA = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "title": "Your name", "minLength": 2},
        "size": {"type": "string", "enum": ["S", "L"]},
        "count": {"type": "integer", "minimum": 1, "maximum": 9},
        "gift": {"type": "boolean"},
    },
    "required": ["name", "size"],
}
FORM = {
    **{key: EVENT[key] for key in ("session_id", "transcript_path", "cwd")},
    "hook_event_name": "Elicitation",
    "mcp_server_name": "lab",
    "message": "Order a <b>shirt</b>",
    "mode": "form",
    "requested_schema": SCHEMA,
}
ADDRESS = {
    **{key: FORM[key] for key in FORM if key != "requested_schema"},
    "mode": "url",
    "url": "https://example.com/login?x=1",
    "elicitation_id": "el-1",
}


@pytest.fixture(scope="module")
def served(pyz: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with Served(pyz, tmp_path_factory.mktemp("home")) as server, server.watched():
        yield server


def said(hook: Any) -> Any:
    printed = hook.communicate(timeout=20)[0]
    assert hook.returncode == 0
    if not printed:
        return None
    output = json.loads(printed)["hookSpecificOutput"]
    assert output.pop("hookEventName") == "Elicitation"
    return output


def test_form_is_drawn_checked_and_sent(served: Served) -> None:
    hook, id = served.ask(FORM, "form")
    page = served.get(f"/request?id={id}").text
    assert "Order a &lt;b&gt;shirt&lt;/b&gt;" in page and "lab" in page
    assert "Your name（必填）" in page and 'value="L"' in page
    assert "提交" in page and "拒绝" in page
    wrong = served.post("/answer", id=id, f0="B", f1="L")
    assert wrong.status == 400 and "“Your name”的长度不符合要求。" in wrong.text
    wrong = served.post("/answer", id=id, f0="Bob", f1="XL")
    assert wrong.status == 400 and "“size”" in wrong.text
    wrong = served.post("/answer", id=id, f0="Bob", f1="L", f2="10")
    assert wrong.status == 400 and 'value="Bob"' in wrong.text
    done = served.post("/answer", id=id, f0="Bob", f1="L", f2="3", f3="是")
    assert "已提交" in done.text
    content = {"name": "Bob", "size": "L", "count": 3, "gift": True}
    assert said(hook) == {"action": "accept", "content": content}


def test_form_is_declined(served: Served) -> None:
    hook, id = served.ask(FORM, "form")
    assert "已拒绝" in served.get(f"/deny?id={id}").text
    assert said(hook) == {"action": "decline"}


def test_address_is_shown_plainly_and_is_no_link(served: Served) -> None:
    hook, id = served.ask(ADDRESS, "form")
    page = served.get(f"/request?id={id}").text
    assert "https://example.com/login?x=1" in page and ">example.com<" in page
    assert 'href="https://example.com' not in page
    assert "已提交" in served.post("/answer", id=id).text
    assert said(hook) == {"action": "accept"}


def test_form_that_is_not_understood_is_left_to_the_dialog(served: Served) -> None:
    schema = {"type": "object", "properties": {"x": {"type": "null"}}}
    hook = served.hook({**FORM, "requested_schema": schema}, "form")
    assert said(hook) is None


@pytest.mark.parametrize("shape", ["prompt", "queued"])
def test_somebody_who_typed_a_moment_ago_gets_the_dialog(
    served: Served, tmp_path: Path, shape: str
) -> None:
    def stamp(ago: float) -> str:
        return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() - ago))

    def line(ago: float) -> str:
        if shape == "queued":
            entry = {"type": "queue-operation", "operation": "enqueue", "content": "x"}
        else:
            entry = {"type": "user", "message": {"content": "x"}}  # type: ignore[dict-item]
        return json.dumps({**entry, "timestamp": stamp(ago)}) + "\n"

    transcript = tmp_path / "t.jsonl"
    event = {**FORM, "transcript_path": str(transcript)}
    transcript.write_text(line(2))
    assert said(served.hook(event, "form")) is None
    transcript.write_text(line(8))
    hook, id = served.ask(event, "form")
    served.get(f"/deny?id={id}")
    assert said(hook) == {"action": "decline"}


def test_at_zero_it_is_left_to_the_dialog(pyz: Path, home: Path) -> None:
    with Served(pyz, home, PERMISSION_REQUEST_TIMEOUT="4") as served, served.watched():
        hook, id = served.ask(FORM, "form")
        served.get(f"/request?id={id}")
        assert said(hook) is None


def test_nobody_is_kept_waiting_where_nobody_can_see_it(pyz: Path, home: Path) -> None:
    with Served(pyz, home) as served:
        assert said(served.hook(FORM, "form")) is None


@pytest.mark.claude
@pytest.mark.parametrize("answer", ["accept", "decline", "url", "terminal"])
def test_real_client_passes_the_answer_on(lab: Lab, answer: str) -> None:
    home = Path(lab.root) / "server"
    home.mkdir()
    lab.with_mcp()
    lab.settings["permissions"]["allow"] = ["mcp__lab"]
    asked = {"message": "Order", "mode": "form", "requestedSchema": SCHEMA}
    if answer == "url":
        address = {"url": ADDRESS["url"], "elicitationId": "el-1"}
        asked = {"message": "Open", "mode": "url", **address}
    call = tool("mcp__lab__ask", params=json.dumps(asked))
    # Somebody typed when the session began; the form comes when that is a while ago.
    lab.model.push(lambda body: time.sleep(6.5) or [call], [text("bye")])  # type: ignore[func-returns-value]
    settings = {"PERMISSION_REQUEST_TIMEOUT": "3"} if answer == "terminal" else {}
    with Served(Path(lab.pyz), home, **settings) as served, served.watched():
        lab.socket = served.socket
        lab.pyz_hook("Elicitation", "hook", "form", timeout=60)
        session = lab.session("go")
        id = wait_until(served.waiting, timeout=40)[0]
        if answer == "terminal":
            session.wait("Your name", 40)
            session.keys("Escape")
        elif answer == "decline":
            served.get(f"/deny?id={id}")
        else:
            served.post("/answer", id=id, f0="Bob", f1="L")
        got = wait_until(lambda: lab.model.tool_results().get(call["id"]), timeout=40)
        result = json.loads(got.text.partition("mcp-said ")[2])
        content = {"name": "Bob", "size": "L"}
        assert (
            result
            == {
                "accept": {"action": "accept", "content": content},
                "decline": {"action": "decline"},
                "url": {"action": "accept"},
                "terminal": {"action": "cancel"},
            }[answer]
        )
