"""Passes with the built file: taps, the command line, crashes, the real client."""

from __future__ import annotations

import json
import os
import random
import subprocess
import threading
from pathlib import Path
from typing import Any

import pytest

from feishuperm.services.ledger import Ledger
from feishuperm.services.ledger_check import check
from tests.conftest import wait_until
from tests.fakes.model import text, tool
from tests.lab import Lab
from tests.served import Served, decision, event, finish
from tests.terminal import Terminal

ROUNDS = 12
GRANTED = 4


def make(served: Served, action: str = "minutes", command: str = "npm test") -> str:
    """Answer a request by a pass; returns the page that came of it."""
    hook, id = served.ask({**event(command=command), "cwd": str(served.project)})
    asked = served.post(f"/{action}", id=id)
    assert "请确认操作" in asked.text and f"Bash({command})" in asked.text
    page = served.post(f"/{action}", id=id, confirmed="1").text
    assert decision(finish(hook)) == {"behavior": "allow"}
    return page


def goes_through(served: Served, command: str = "npm test") -> bool:
    """Whether a call is answered by itself; one that waits is denied."""
    hook = served.hook({**event(command=command), "cwd": str(served.project)})
    wait_until(lambda: hook.poll() is not None or served.waiting())
    for id in served.waiting() if hook.poll() is None else ():
        served.get(f"/deny?id={id}")
    return bool(decision(finish(hook))["behavior"] == "allow")


def passes(served: Served) -> list[dict[str, Any]]:
    answer = served.control(command="passes")
    assert answer is not None
    listed: list[dict[str, Any]] = answer["passes"]
    return listed


def test_pass_made_on_a_page_survives_a_kill_and_ends_when_revoked(
    pyz: Path, home: Path
) -> None:
    with Served(pyz, home) as served:
        page = make(served)
        [row] = passes(served)
        assert "已在 10 分钟内允许" in page and row["id"] in page and "撤销" in page
        assert goes_through(served)
        assert not goes_through(served, "npm test; ls")
        served.kill()
        served.start()
        assert [kept["id"] for kept in passes(served)] == [row["id"]]
        assert goes_through(served)
        inbox = served.get("/").text
        assert row["id"] in inbox and "Bash(npm test)" in inbox
        assert served.post("/passes", **{"pass": row["id"]}).status == 303
        assert not goes_through(served)
        served.kill()
        served.start()
        assert not goes_through(served)
        wait_until(lambda: not check(Ledger(environ=served.environ)).missing)
        used = [entry for entry in served.ledger() if entry.get("pass") == row["id"]]
    assert {entry["surface"] for entry in used} == {"pass"}
    assert [entry["event"] for entry in used] == ["intent", "request"] * 2


def test_server_killed_at_each_use_never_gives_one_more_than_granted(
    pyz: Path, home: Path
) -> None:
    """Hooks come by the dozen while servers die under them."""
    rng = random.Random(13)
    with Served(pyz, home, PERMISSION_REQUEST_TIMEOUT="5") as served:
        made = served.control(
            command="pass_add",
            rule="Bash(npm test)",
            minutes=10,
            calls=GRANTED,
            project=str(served.project),
        )
        assert made is not None
        id = made["pass"]["id"]
        hooks = []
        for _ in range(ROUNDS):
            hooks.append(served.hook(event(command="npm test")))
            killer = threading.Timer(0.03 + rng.random() * 0.1, served.kill)
            killer.start()
            killer.join()
            served.start()
        printed = [finish(hook, 40) for hook in hooks]
        allowed = [
            out for out in printed if out and decision(out)["behavior"] == "allow"
        ]
        assert len(allowed) <= GRANTED
        wait_until(lambda: not check(Ledger(environ=served.environ)).missing)
        used = {e["id"] for e in served.ledger() if e.get("pass") == id}
        assert len(allowed) <= len(used) <= GRANTED
        assert len(passes(served)) == (len(used) < GRANTED)


def test_command_line_shows_the_scope_asks_lists_and_revokes(
    pyz: Path, home: Path
) -> None:
    def run(*args: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(pyz), "passes", *args],
            env=served.environ,
            cwd=served.project,
            capture_output=True,
            text=True,
            timeout=60,
        )

    with Served(pyz, home) as served:
        assert run().stdout == "there are no passes\n"
        unasked = run("add", "Bash(npm test)")
        assert unasked.returncode == 1 and "terminal" in unasked.stderr
        environ = {**served.environ, "TERM": "xterm"}
        command = [str(pyz), "passes", "add", "Bash(npm test)", "--calls", "2"]
        with Terminal(command, environ, cwd=str(served.project)) as terminal:
            terminal.wait("create this pass?")
            assert "Bash(npm test)" in terminal.screen()
            assert "2 calls" in terminal.screen()
            terminal.type("y")
            terminal.keys("Enter")
            assert terminal.ended() == 0
        [row] = json.loads(run("--json").stdout)
        assert (row["rules"], row["calls_left"]) == (["Bash(npm test)"], 2)
        assert row["project"] == os.path.realpath(served.project)
        assert goes_through(served)
        assert "1 calls left" in run().stdout
        assert run("revoke", row["id"]).stdout == f"revoked: {row['id']}\n"
        assert not goes_through(served)
        assert run("revoke", row["id"]).returncode == 1
        wide = run("add", "Bash(*)")
        assert wide.returncode == 1 and wide.stderr


def test_process_of_a_session_makes_no_pass(pyz: Path, home: Path) -> None:
    with Served(pyz, home) as served:
        script = (
            "import json, os, sys; sys.path.insert(0, sys.argv[1]);"
            "from feishuperm.lib.control import ask_server;"
            "print(ask_server({'command': 'pass_add', 'rule': 'Bash(ls)',"
            " 'minutes': 10, 'calls': 0, 'project': sys.argv[2]}))"
        )
        root = str(Path(__file__).resolve().parents[2])
        tried = subprocess.run(
            ["python3", "-c", script, root, str(served.project)],
            env={**served.environ, "CLAUDECODE": "1", "CLAUDE_CODE_SESSION_ID": "s"},
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert "a process of a session that asks" in tried.stderr
        assert not passes(served)
        ledger = Path(Ledger(environ=served.environ).path)
        wait_until(lambda: ledger.exists() and b"pass_add" in ledger.read_bytes())
        [refused] = served.ledger()
    assert (refused["event"], refused["action"]) == ("refused", "pass_add")


@pytest.mark.claude
def test_real_client_is_not_asked_again_while_the_pass_lasts(lab: Lab) -> None:
    home = Path(lab.root) / "server"
    home.mkdir()
    with Served(Path(lab.pyz), home) as served:
        lab.socket = served.socket
        lab.pyz_hook("PermissionRequest", matcher="*", timeout=60)
        calls = [tool("Bash", command="touch one", description="x") for _ in range(3)]
        other = tool("Bash", command="touch two", description="x")
        lab.model.push(*([call] for call in calls), [other], [text("bye")])
        session = lab.session("go")
        [id] = wait_until(served.waiting, timeout=40)
        served.post("/session", id=id)
        assert "已在本会话允许" in served.post("/session", id=id, confirmed="1").text
        again = wait_until(
            lambda: [i for i in served.waiting() if i != id] or None, timeout=40
        )
        results = lab.model.tool_results()
        assert not any(results[call["id"]].is_error for call in calls)
        served.get(f"/deny?id={again[0]}")  # the other command asks
        session.wait("bye")
        used = [e for e in served.ledger() if e.get("surface") == "pass"]
        assert len({entry["id"] for entry in used}) == 2
        assert len(passes(served)) == 1


# Bound to the folder and to what is run.


def asked(served: Served, folder: Path, command: str = "./x.sh") -> str:
    """The id of a call that a person is asked about; empty: a pass let it through."""
    hook = served.hook({**event(command=command), "cwd": str(folder)})
    wait_until(lambda: hook.poll() is not None or served.waiting())
    waiting = served.waiting()
    return waiting[0] if waiting else ""


@pytest.mark.parametrize("way", ["page", "command"])
def test_pass_ends_when_its_script_is_rewritten_and_holds_in_its_folder_only(
    pyz: Path, home: Path, way: str
) -> None:
    with Served(pyz, home) as served:
        script = served.project / "x.sh"
        script.write_text("echo 1\n")
        (other := served.project / "other").mkdir()
        (other / "x.sh").write_text("echo 1\n")
        if way == "page":
            served.post("/minutes", id=asked(served, served.project), confirmed="1")
        else:
            wanted = {"rule": "Bash(./x.sh)", "minutes": 5, "calls": 0}
            served.control(command="pass_add", project=str(served.project), **wanted)
        served.stop()
        served.start()  # the digest is in the ledger
        assert passes(served)[0]["folder"] == str(served.project)
        elsewhere = asked(served, other)
        assert elsewhere and served.get(f"/deny?id={elsewhere}").status == 200
        assert asked(served, served.project) == ""
        script.write_text("echo 2\n")
        again = asked(served, served.project)
        assert again and passes(served) == []
        assert "它运行的文件改变了" in served.get(f"/request?id={again}").text
