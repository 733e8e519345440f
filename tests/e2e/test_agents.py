"""Real Codex, Qwen Code, Copilot CLI and opencode with the built file as their hook.

One session each, since a start takes seconds; every prompt is typed, so somebody is at
the terminal and each request has a few seconds before it is given back.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator
from contextlib import ExitStack
from html import escape
from pathlib import Path

import pytest

from tests.agent_lab import BUSY, AgentLab, agent_lab
from tests.conftest import need, wait_until
from tests.fakes.model import Block, text, tool
from tests.served import Served

pytestmark = pytest.mark.agents
HOOKED = ("codex", "qwen", "copilot")
WAIT = 7  # seconds: time for a tap, and not too long for what is given back
OWN_SECONDS = 4  # after which an agent ends its hook: before the person's time is up
# Markup, quotes, substitution that a second shell would run, a turn of the direction.
HOSTILE = (
    """touch hostile.txt; : '<img src=x onerror=y> "$(touch a) `touch b`" \u202e x'"""
)
REASON = '先写测试 "\\ <b>`$(id)`'


class Stage:
    """A server, and agents that ask it; all in homes of their own."""

    def __init__(self, pyz: Path, home: Path) -> None:
        self.pyz, self.open = pyz, ExitStack()
        wait = {"PERMISSION_REQUEST_TIMEOUT": str(WAIT)}
        self.server = self.open.enter_context(Served(pyz, home, **wait))

    def lab(self, name: str, timeout: int = 30) -> AgentLab:
        lab = self.open.enter_context(agent_lab(name, str(self.pyz)))
        lab.extra["PERMISSION_SOCKET_PATH"] = self.server.socket
        lab.our_hook(timeout)
        return lab

    def asked(self) -> str:
        """The id of the request that has come."""
        (id,) = wait_until(self.server.waiting, BUSY)
        return str(id)

    def ended(self, id: str) -> dict[str, object]:
        """The end of a request, as the ledger has it."""
        wait_until(lambda: id not in self.server.waiting(), BUSY)

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


def begin(lab: AgentLab, name: str, command: str = "", *calls: Block) -> None:
    """Let the model call for a command, and say when its turn is over."""
    called = calls or [lab.shell(command or f"touch {name}.txt")]
    lab.model.push([*called], [text(f"over: {name}")])
    if lab.session_open is None:
        lab.start(f"now {name}")
    else:
        lab.say(f"now {name}")


def unquoted(page: str) -> str:
    """A page's text with its quotes as they are: they may be escaped or not."""
    return page.replace("&quot;", '"').replace("&#x27;", "'").replace("&#39;", "'")


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


@pytest.mark.parametrize("name", [*HOOKED, "opencode"])
def test_text_of_any_kind_runs_as_it_was_shown_and_a_pass_asks_no_more(
    stage: Stage, name: str
) -> None:
    lab, server = stage.lab(name), stage.server

    begin(lab, "hostile", HOSTILE)
    id = stage.asked()
    page = server.get(f"/request?id={id}").text
    assert escape(HOSTILE.partition("\u202e")[0], quote=False) in unquoted(page)
    assert "<img src=x" not in page and "\u202e" not in page
    server.post("/allow", id=id, confirmed="1")
    lab.wait_screen("over: hostile")
    assert {*os.listdir(lab.project)} == {".git", "hostile.txt"}

    begin(lab, "passed")
    server.post("/minutes", id=stage.asked(), confirmed="1")
    lab.wait_screen("over: passed")
    os.remove(os.path.join(lab.project, "passed.txt"))
    begin(lab, "again", "touch passed.txt")
    lab.wait_screen("over: again")
    assert lab.has("passed.txt") and not has_dialog(lab)
    assert server.ledger()[-1]["surface"] == "pass"


def test_changed_command_runs_instead(stage: Stage) -> None:
    lab = stage.lab("qwen")
    begin(lab, "mine")
    stage.server.post("/edit", id=stage.asked(), command="touch theirs.txt")
    lab.wait_screen("over: mine")
    assert (lab.has("mine.txt"), lab.has("theirs.txt")) == (False, True)


def test_interrupt_ends_the_turn(stage: Stage) -> None:
    lab = stage.lab("copilot")
    begin(lab, "mine")
    stage.server.post("/interrupt", id=stage.asked())
    lab.wait_screen("Permission denied by a PermissionRequest hook")
    lab.model.script["main"] = []
    lab.model.push([text("still here")])
    lab.say("hello")
    lab.wait_screen("still here")
    assert not lab.has("mine.txt")
    assert "over: mine" not in lab.screen_of.screen()


@pytest.mark.parametrize("name", HOOKED)
def test_hook_that_the_agent_itself_ends_leaves_its_dialog_and_a_settled_card(
    stage: Stage, name: str
) -> None:
    lab = stage.lab(name, timeout=OWN_SECONDS)
    begin(lab, "slow")
    id = stage.asked()
    lab.wait_screen(lab.dialog)
    assert stage.ended(id)["state"] == "gone"
    stage.server.get(f"/allow?id={id}")
    assert has_dialog(lab) and not lab.has("slow.txt")
    lab.press(lab.approve)
    lab.wait_screen("over: slow")
    assert lab.has("slow.txt")


QUESTIONS = [
    {
        "question": "Which?",
        "header": "One",
        "options": [{"label": x, "description": ""} for x in "AB"],
    },
    {
        "question": "More?",
        "header": "Many",
        "multiple": True,
        "options": [{"label": x, "description": ""} for x in ("C, D", "E")],
    },
]


def test_opencode_is_answered_beside_its_dialog(stage: Stage) -> None:
    lab, server = stage.lab("opencode"), stage.server

    begin(lab, "allowed")
    id = stage.asked()
    lab.wait_screen(lab.dialog)
    (row,) = (server.status() or {})["waiting"]
    assert (row["agent"], row["tool"]) == ("opencode", "Bash")
    assert row["project"] == lab.project and not lab.has("allowed.txt")
    server.post("/allow", id=id, confirmed="1")
    lab.wait_screen("over: allowed")
    assert lab.has("allowed.txt") and not has_dialog(lab)

    begin(lab, "refused")
    server.post("/deny", id=stage.asked(), reason=REASON)
    assert REASON in lab.wait_results(2)[-1]
    lab.wait_screen("over: refused")
    assert not lab.has("refused.txt")

    begin(lab, "first")
    id = stage.asked()
    lab.wait_screen(lab.dialog)
    lab.press(lab.approve)
    lab.wait_screen("over: first")
    assert stage.ended(id)["state"] == "terminal" and lab.has("first.txt")

    begin(lab, "asked", "", tool("question", questions=QUESTIONS))
    id = stage.asked()
    assert (server.status() or {})["waiting"][0]["tool"] == "AskUserQuestion"
    server.post("/answer", id=id, q0="B", q1=["C, D", "E"])
    assert '"Which?"="B", "More?"="C, D, E"' in lab.wait_results(4)[-1]
    lab.wait_screen("over: asked")

    begin(lab, "skipped", "", tool("question", questions=QUESTIONS))
    server.post("/deny", id=stage.asked(), reason=REASON)
    assert REASON in lab.wait_results(5)[-1]
    lab.wait_screen("over: skipped")

    with server.watched():  # what somebody was shown is refused when its time is over
        begin(lab, "late")
        id = stage.asked()
        assert "超时" in lab.wait_results(6)[-1]
    lab.wait_screen("over: late")
    assert stage.ended(id)["denied"] and not lab.has("late.txt")

    begin(lab, "always")
    id = stage.asked()
    server.post("/always", id=id)
    assert server.waiting() == [id]  # what lasts has to be agreed to
    server.post("/always", id=id, confirmed="1")
    lab.wait_screen("over: always")
    assert stage.ended(id)["kept"] == ["bash touch *"]
    begin(lab, "unasked")
    lab.wait_screen("over: unasked")
    assert lab.has("unasked.txt") and not server.waiting()

    begin(lab, "stopped", "mkdir stopped")
    id = stage.asked()
    lab.wait_screen(lab.dialog)
    lab.press(lab.refuse)
    wait_until(lambda: not server.waiting(), BUSY)
    assert stage.ended(id)["state"] == "terminal"
    server.post("/allow", id=id, confirmed="1")
    assert not lab.has("stopped")

    server.stop()
    lab.model.script["main"] = []
    begin(lab, "away", "mkdir away")
    lab.wait_screen(lab.dialog)
    lab.press(lab.approve)
    lab.wait_screen("over: away")
    assert lab.has("away")


def test_agents_ask_one_server_at_once(stage: Stage) -> None:
    labs = [stage.lab(name) for name in HOOKED]
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
    stage.server.post("/allow", id=ids["copilot"], confirmed="1")
    for lab in labs:
        lab.wait_screen("over: mine")
    assert [lab.has("mine.txt") for lab in labs] == [False, True, True]
