"""An evening at the keyboard with everything installed, while Feishu is silent."""

from __future__ import annotations

import json
import shlex
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from feishuperm.models.settings import notify_kinds
from feishuperm.setup.claude_settings import put_hook, registrations
from tests.conftest import wait_until
from tests.e2e.test_app import app_settings
from tests.e2e.test_app_claude import COLOUR, bash
from tests.e2e.test_form import SCHEMA
from tests.fakes import reviewer
from tests.fakes.feishu_app import FakePlatform
from tests.fakes.model import text, tool, words_of
from tests.lab import Lab, Session
from tests.served import Served

pytestmark = pytest.mark.claude

DIALOG = "Do you want to"
READING = 1.0  # seconds; the client takes no key of a dialog just drawn


class Evening:
    """The real client with every entry that the installer knows, and who sits there."""

    def __init__(self, lab: Lab, served: Served) -> None:
        self.lab, self.served = lab, served
        lab.socket = served.socket
        hooks = "{}"
        for row in registrations(55, ["next", "denied", "form"], True, 30, 300):
            word = "supervisor" if row.program.endswith("supervisor") else "hook"
            command = shlex.join([lab.pyz, word, *filter(None, [row.kind])])
            hooks = put_hook(hooks, row, command)
        lab.settings["hooks"] = json.loads(hooks)["hooks"]
        lab.settings["permissions"]["allow"] = ["mcp__lab"]
        lab.state["messageIdleNotifThresholdMs"] = 1000
        lab.extra["SUPERVISOR_COMMAND"] = shlex.join(
            [sys.executable, reviewer.__file__, "allow"]
        )
        lab.with_mcp()

    def begin(self, prompt: str, mode: str) -> Session:
        self.session = self.lab.session(prompt, "--permission-mode", mode)
        return self.session

    def told(self, call: dict[str, Any]) -> Any:
        """What the model was told of a call."""
        results = self.lab.model.tool_results
        return wait_until(lambda: results().get(call["id"]), timeout=40)

    def press(self, key: str, dialog: str) -> None:
        """Answer a dialog that waits here and elsewhere, at the keyboard."""
        self.session.wait(dialog, 70)  # a form of a slow machine waits for its time
        time.sleep(READING)
        self.session.press(key, rf"(?s)\A(?!.*{dialog})", every=3)

    def idle(self) -> str:
        """The id of the waiter, once the session is done."""
        id: str = wait_until(self.served.waiting, timeout=40)[0]
        return id

    def end_waiter(self, words: str) -> None:
        """Type while a waiter waits: it ends, and the words arrive."""
        waiter = self.idle()
        self.session.type(words)
        wait_until(lambda: waiter not in self.served.waiting())

    def prompts(self) -> str:
        """Everything that people have typed, as the model was told."""
        calls = self.lab.model.calls()
        return "\n".join(
            words_of(message["content"])
            for body in calls
            for message in body["messages"]
        )

    def processes(self) -> list[bytes]:
        """Of ours, those that a session has started and that are still there."""
        lines = [_read(path / "cmdline") for path in Path("/proc").glob("[0-9]*")]
        mine = self.lab.pyz.encode()
        return [
            line
            for line in lines
            if mine in line and (b"\0hook\0" in line or b"\0supervisor\0" in line)
        ]


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


@pytest.mark.parametrize("silence", ["nobody taps", "unreachable"])
def test_evening_at_the_keyboard_with_everything_and_feishu_silent(
    lab: Lab, silence: str
) -> None:
    """Every dialog is the terminal's; nothing hangs, is denied, lost or left over."""
    home = Path(lab.root) / "server"
    home.mkdir()
    with FakePlatform() as feishu:
        settings = {
            **app_settings(feishu),
            "FEISHUPERM_NOTIFY": ",".join(notify_kinds()),
        }
        if silence == "unreachable":
            settings["FEISHU_BASE_URL"] = "http://127.0.0.1:9"
        with Served(Path(lab.pyz), home, **settings) as served:
            evening = Evening(lab, served)
            if silence == "unreachable":
                lab.run_pyz("supervisor", "off")
            work(evening)
            refuse(evening)
            wait_until(lambda: not evening.processes())
            wait_until(lambda: not served.waiting())
            ends = [(row["kind"], row["state"]) for row in served.ledger()
                    if row["event"] == "request"]  # fmt: skip
            assert {state for _, state in ends} <= {"terminal", "gone", "allowed"}
            assert {"plan", "permission", "question", "next"} <= dict(ends).keys()
        if silence == "nobody taps":
            assert len(feishu.app_messages) >= 5 and not feishu.replies
            assert not any(feishu.buttons(id) for id in feishu.app_messages)


def work(evening: Evening) -> None:
    """Plan, yes, no, a question, a form, a pass, then on and on until /exit."""
    lab, session = evening.lab, evening.begin("plan it", "plan")
    plan, yes, no = tool("ExitPlanMode", plan=""), bash("touch yes"), bash("touch no")
    question = tool("AskUserQuestion", questions=[COLOUR])
    asked = {"message": "Order", "mode": "form", "requestedSchema": SCHEMA}
    form = tool("mcp__lab__ask", params=json.dumps(asked))
    lab.model.push([plan], [yes], [question], [form], [text("first"), no])
    evening.press("Enter", "Exit plan mode")
    evening.press("Enter", DIALOG)
    evening.press("Enter", "Enter to select")
    evening.press("Escape", "requests your input")
    session.wait("first")
    evening.press("Escape", DIALOG)
    session.wait("Interrupted")
    assert not evening.told(yes).is_error and "Red" in evening.told(question).text
    assert "cancel" in evening.told(form).text
    project = Path(lab.project)
    assert (project / "yes").exists() and not (project / "no").exists()
    pass_ = {"rule": "Bash(touch unasked)", "minutes": 10, "calls": 1}
    evening.served.control(command="pass_add", project=lab.project, **pass_)
    passed = bash("touch unasked")
    lab.model.push([passed], [text("second")])
    session.type("go by the pass")
    session.wait("second")
    assert not evening.told(passed).is_error
    for words in ("go on", "/clear"):
        evening.end_waiter(words)
    session.type("after that")
    evening.end_waiter("/exit")
    wait_until(lambda: not session.alive())
    typed = ("plan it", "go by the pass", "go on", "after that")
    assert all(words in evening.prompts() for words in typed)


def refuse(evening: Evening) -> None:
    """Auto mode refuses a call: a key ends the wait for somebody elsewhere."""
    lab = evening.lab
    lab.model.flags = lambda block: "Looks risky" if "risky" in str(block) else ""
    lab.model.push([bash("python3 risky.py")])
    session = evening.begin("go [[lane:main]]", "auto")
    evening.idle()
    session.press("Escape", "Interrupted", every=3)
