"""Real Codex, Qwen Code and Copilot CLI with the built file as their hook.

One session each, since a start takes seconds; every prompt is typed, so somebody is at
the terminal and each request has a few seconds before it is given back.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.agent_lab import BUSY, AgentLab, agent_lab
from tests.conftest import need, wait_until
from tests.fakes.model import text
from tests.served import Served

pytestmark = pytest.mark.agents
HOOKED = ("codex", "qwen", "copilot")
WAIT = 7  # seconds: time for a tap, and not too long for what is given back
REASON = '先写测试 "\\ <b>`$(id)`'


class Stage:
    """A server, and agents that ask it; all in homes of their own."""

    def __init__(self, pyz: Path, home: Path) -> None:
        self.pyz, self.open = pyz, ExitStack()
        wait = {"PERMISSION_REQUEST_TIMEOUT": str(WAIT)}
        self.server = self.open.enter_context(Served(pyz, home, **wait))

    def lab(self, name: str) -> AgentLab:
        lab = self.open.enter_context(agent_lab(name, str(self.pyz)))
        lab.extra["PERMISSION_SOCKET_PATH"] = self.server.socket
        lab.our_hook()
        return lab

    def asked(self) -> str:
        """The id of the request that has come."""
        (id,) = wait_until(self.server.waiting, BUSY)
        return str(id)

    def ended(self, id: str) -> dict[str, object]:
        """The end of a request, as the ledger has it."""

        def end() -> list[dict[str, object]]:
            rows = self.server.ledger()
            return [row for row in rows if (row["id"], row["event"]) == (id, "request")]

        return wait_until(end, BUSY)[0]  # type: ignore[no-any-return]


@pytest.fixture
def stage(pyz: Path, home: Path) -> Iterator[Stage]:
    need("tmux")
    made = Stage(pyz, home)
    with made.open:
        yield made


def begin(lab: AgentLab, name: str) -> None:
    """Let the model call for a command, and say when its turn is over."""
    lab.model.push([lab.shell(f"touch {name}.txt")], [text(f"over: {name}")])
    if lab.session_open is None:
        lab.start(f"now {name}")
    else:
        lab.say(f"now {name}")


def has_dialog(lab: AgentLab) -> bool:
    return bool(re.search(lab.dialog, lab.screen_of.screen()))


@pytest.mark.parametrize("name", HOOKED)
def test_phone_answers_and_the_terminal_has_what_is_given_back(
    stage: Stage, name: str
) -> None:
    lab, server = stage.lab(name), stage.server

    begin(lab, "allowed")
    id = stage.asked()
    (row,) = (server.status() or {})["waiting"]
    assert (row["agent"], row["tool"]) == (name, "Bash")
    assert row["project"] == lab.project
    time.sleep(1)
    assert not has_dialog(lab) and not lab.has("allowed.txt")
    server.post("/allow", id=id, confirmed="1")
    lab.wait_results(1)
    lab.wait_screen("over: allowed")
    assert lab.has("allowed.txt") and not has_dialog(lab)

    begin(lab, "refused")
    server.post("/deny", id=stage.asked(), reason=REASON)
    assert REASON.partition('"')[0] in lab.wait_results(2)[-1]
    lab.wait_screen("over: refused")
    assert not lab.has("refused.txt")

    begin(lab, "back")
    id = stage.asked()
    lab.wait_screen(lab.dialog)
    end = stage.ended(id)
    assert (end["state"], end["denied"]) in (("expired", False), ("released", False))
    lab.press(lab.approve)
    lab.wait_results(3)
    lab.wait_screen("over: back")
    assert lab.has("back.txt")

    begin(lab, "stopped")
    id = stage.asked()
    lab.press(lab.cancel)
    assert stage.ended(id)["state"] == "gone"
    server.get(f"/allow?id={id}")
    lab.wait_screen(lab.cancelled)
    assert not lab.has("stopped.txt")

    server.stop()
    lab.model.script["main"] = []
    begin(lab, "away")
    lab.wait_screen(lab.dialog)
    lab.press(lab.refuse)
    assert not lab.has("away.txt")


def test_two_agents_ask_one_server_at_once(stage: Stage) -> None:
    labs = [stage.lab("codex"), stage.lab("qwen")]
    for lab in labs:  # a start may take longer than a request waits
        lab.model.push([text("ready")])
        lab.start("hello")
        lab.wait_screen("ready")
    for lab in labs:
        begin(lab, "mine")
    rows = wait_until(
        lambda: (
            rows
            if len(rows := (stage.server.status() or {})["waiting"]) == len(labs)
            else None
        ),
        BUSY,
    )
    ids = {row["agent"]: row["id"] for row in rows}
    stage.server.post("/allow", id=ids["qwen"], confirmed="1")
    stage.server.post("/deny", id=ids["codex"])
    for lab in labs:
        lab.wait_screen("over: mine")
    assert [lab.has("mine.txt") for lab in labs] == [False, True]
