"""The built file as another agent's hook: every recorded event, and what goes wrong."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from feishuperm import wire
from feishuperm.agents.table import AGENTS, CLAUDE
from feishuperm.models.names import QUESTION_TOOL
from tests.agents.hooks import AgentHook, asks
from tests.agents.parts import (
    HOOKED,
    SAMPLES,
    Sample,
    first,
    input_of,
    said_in,
)
from tests.conftest import clean_env, wait_until
from tests.fakes.hook_server import EVENT, HookServer, frame, sends
from tests.served import Served

CALLS = [
    row
    for row in SAMPLES
    if row.agent in HOOKED and row.tool not in ("", QUESTION_TOOL)
]


@pytest.fixture(scope="module")
def server(pyz: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with Served(pyz, tmp_path_factory.mktemp("home")) as served:
        yield served


@pytest.mark.parametrize("sample", CALLS, ids=str)
def test_recorded_event_is_asked_and_allowed_or_refused(
    server: Served, sample: Sample
) -> None:
    hook, id = asks(server, sample.agent, sample.event)
    (row,) = (server.status() or {})["waiting"]
    assert (row["agent"], row["tool"]) == (sample.agent, sample.tool)
    assert row["project"] == str(server.project)
    page = server.get(f"/request?id={id}").text
    assert ('formaction="always"' in page) is ("always" in AGENTS[sample.agent].actions)
    server.post("/allow", id=id, confirmed="1")
    assert hook.decision() == {"behavior": "allow"}
    hook, id = asks(server, sample.agent, sample.event)
    server.post("/deny", id=id, reason="先别动")
    said = {"behavior": "deny", "message": "用户通过飞书拒绝：先别动"}
    assert hook.decision() == said
    entry = server.ledger()[-1]
    assert (entry["agent"], entry["action"]) == (sample.agent, "deny")


@pytest.mark.parametrize("agent", HOOKED)
def test_forged_link_does_nothing_that_the_agent_cannot_obey(
    server: Served, agent: str
) -> None:
    hook, id = asks(server, agent, first(agent))
    server.get(f"/always?id={id}")
    if agent == "opencode":  # it has that, once a person has agreed to its patterns
        server.post("/always", id=id)
    if agent != "copilot":
        server.post("/interrupt", id=id)
    if agent != "qwen":
        server.post("/edit", id=id, command="touch y")
    assert server.waiting() == [id]
    server.post("/deny", id=id)
    assert hook.decision()["behavior"] == "deny"
    assert not (server.project / ".claude").exists()


@pytest.mark.parametrize("agent", HOOKED)
def test_hook_that_is_killed_settles_its_card(server: Served, agent: str) -> None:
    hook, id = asks(server, agent, first(agent))
    hook.kill()
    wait_until(lambda: not server.waiting())
    assert wait_until(lambda: server.ledger()[-1]["id"] == id)
    # Beside an open dialog a hook ends because somebody has answered there.
    state = "terminal" if agent == "opencode" else "gone"
    assert server.ledger()[-1]["state"] == state


@pytest.mark.parametrize("agent", HOOKED)
def test_what_the_agent_itself_starts_cannot_answer(server: Served, agent: str) -> None:
    """The model would let its own command run."""
    script = (
        "import subprocess, sys, time, urllib.request as r\n"
        "hook = subprocess.Popen(sys.argv[1:4], stdin=-1, stdout=-1)\n"
        "hook.stdin.write(sys.argv[4].encode()); hook.stdin.close()\n"
        "time.sleep(1)\n"
        "link = r.Request(sys.stdin.readline().strip(), b'')\n"
        "try: r.urlopen(link, timeout=10)\n"
        "except Exception as e: print(e, flush=True)\n"
        "sys.stdout.write(hook.stdout.read().decode())\n"
    )
    command = ["/usr/bin/env", "python3", "-c", script, server.pyz, "hook", agent]
    process = subprocess.Popen(
        [*command, json.dumps(first(agent))],
        env=server.environ,
        cwd=server.project,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    server.hooks.append(process)
    (id,) = wait_until(server.waiting)
    address = f"http://127.0.0.1:{server.port}{server.link(f'/allow?id={id}')}\n"
    assert process.stdin is not None and process.stdout is not None
    process.stdin.write(address.encode())
    process.stdin.flush()
    assert b"HTTP Error" in process.stdout.readline()
    assert server.waiting() == [id]
    server.post("/deny", id=id)
    assert said_in(process.communicate(timeout=60)[0])["behavior"] == "deny"
    assert any(row["event"] == "refused" for row in server.ledger())


# What must leave the agent to its own dialog: nothing printed, and success.
SILENT: dict[str, bytes] = {
    "nothing": b"",
    "no JSON": b"\xff\xfe{",
    "half an event": json.dumps(first("codex")).encode()[:-40],
    "a list": b"[]",
    "Claude Code's": json.dumps(
        {
            "session_id": "s-1",
            "transcript_path": "/HOME/.claude/projects/-p/s-1.jsonl",
            "hook_event_name": "PermissionRequest",
            "tool_name": "Bash",
            "tool_input": {"command": "ls"},
        }
    ).encode(),
    "another event": b'{"hook_event_name":"Stop","hookName":"sessionEnd"}',
    "a deep one": b'{"toolInput":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    "a huge one": b'{"hook_event_name":"PermissionRequest","x":"%s"}'
    % (b"y" * 5_000_000),
}


@pytest.mark.parametrize("agent", [*HOOKED, CLAUDE, "nobody", "ünknown"])
@pytest.mark.parametrize("name", SILENT)
def test_what_cannot_be_decided_is_left_to_the_terminal(
    server: Served, agent: str, name: str
) -> None:
    """Copilot takes a failure, or anything that is no JSON, for a refusal."""
    raw = SILENT[name].replace(b"/HOME", os.fsencode(server.home))
    assert AgentHook(server, agent, raw).finish() == b""
    assert server.waiting() == []


@pytest.mark.parametrize("agent", [*HOOKED, CLAUDE, "plugin", "session", "hook"])
@pytest.mark.parametrize("sender", HOOKED)
def test_event_of_one_agent_under_the_word_of_another_asks_nobody(
    server: Served, agent: str, sender: str
) -> None:
    if agent != sender:
        assert AgentHook(server, agent, first(sender)).finish() == b""
        assert server.waiting() == []


# Paths that no file can have: a request is asked without them.
NO_PATHS = ("/a\0b", "/half a character \ud800")


@pytest.mark.parametrize("agent", HOOKED)
@pytest.mark.parametrize("path", NO_PATHS, ids=ascii)
def test_path_that_no_file_can_have_stops_no_request(
    server: Served, agent: str, path: str
) -> None:
    event = first(agent)
    given = input_of(event)
    given["directory"] = given["workdir"] = path
    event["directory" if agent == "opencode" else "cwd"] = path
    if agent != "opencode":
        event["transcript_path"] = path
    hook, id = asks(server, agent, event)
    server.post("/deny", id=id)
    assert hook.decision()["behavior"] == "deny"


@pytest.mark.parametrize("agent", HOOKED)
def test_without_a_server_the_hook_says_nothing(
    pyz: Path, home: Path, agent: str
) -> None:
    for environ in (clean_env(home), {"PATH": "/usr/bin:/bin"}, clean_env("/proc")):
        environ["PERMISSION_SOCKET_PATH"] = str(home / "none")
        result = subprocess.run(
            [str(pyz), "hook", agent],
            input=json.dumps(first(agent)).encode(),
            env=environ,
            cwd=home,
            capture_output=True,
            timeout=60,
        )
        assert (result.returncode, result.stdout) == (0, b"")


def test_word_travels_in_the_header_which_an_older_server_releases(
    tmp_path: Path,
) -> None:
    path = str(tmp_path / "s")
    with HookServer(path, [sends(frame(b"R"))]) as server:
        sock = wire.connect(path.encode())
        asked = (EVENT, b"", b"1-0123abcd", b"/p")
        with closing(sock):
            assert wire.ask(*asked, connect=lambda _: sock, agent=b"codex") == b""
        header, _, _, project, raw = server.requests[0]
    assert (header, project, raw) == (b"1 codex", b"/p", EVENT)
    # As 0.2.0 reads it: "a client of another version", and R.
    assert not re.fullmatch(r"1(?: ([0-9]{1,6}))?", header.decode())


def test_server_that_restarts_keeps_the_request_of_an_agent(
    pyz: Path, tmp_path: Path
) -> None:
    event: dict[str, Any] = first("copilot")
    with Served(pyz, tmp_path) as server:
        hook, id = asks(server, "copilot", event)
        server.kill()
        server.start()
        assert wait_until(server.waiting) == [id]
        server.post("/interrupt", id=id)
        said = {"behavior": "deny", "message": "用户通过飞书拒绝并中断"}
        assert hook.decision() == {**said, "interrupt": True}
