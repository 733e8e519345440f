"""`FEISHUPERM_CARD=title` with the built file: no byte of a request leaves.

A canary stands in every field of every event and answer, and is looked for in all that
Feishu gets, by each way, and in what a gateway keeps.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from feishuperm.models.ask import NOTICES
from feishuperm.models.kind import KINDS
from feishuperm.models.names import NOTICE_EVENTS
from tests.conftest import wait_until
from tests.e2e.test_app import app_settings
from tests.e2e.test_next import ATTENDED
from tests.fakes.feishu_app import FakePlatform, Tap
from tests.gateways import RunningGateway, join
from tests.served import Served, Transcript, event, finish

CANARY = "canary"
CALL = {"command": f"echo {CANARY}", "description": CANARY}
QUESTION = {
    "question": CANARY, "header": CANARY, "multiSelect": False,
    "options": [{"label": CANARY, "description": CANARY}, {"label": "b"}],
}  # fmt: skip
FORM = {
    "hook_event_name": "Elicitation", "mcp_server_name": CANARY, "message": CANARY,
    "mode": "form", "requested_schema": {"type": "object", "properties": {
        CANARY: {"type": "string", "title": CANARY, "description": CANARY}}},
}  # fmt: skip
IDLE = {"hook_event_name": "Notification", "message": CANARY, "title": CANARY,
        "notification_type": "idle_prompt"}  # fmt: skip
EVENTS: dict[str, dict[str, Any]] = {
    "permission": event(**CALL),
    "question": event("AskUserQuestion", questions=[QUESTION]),
    "plan": event("ExitPlanMode", plan=f"# {CANARY}\n\n- {CANARY}"),
    "denied": {**event(**CALL), "hook_event_name": "PermissionDenied",
               "permission_mode": "auto", "tool_use_id": "t", "reason": CANARY},
    "form": FORM,
    "next": IDLE,
}  # fmt: skip
EVERYTHING = {
    "FEISHUPERM_CARD": "title",
    "FEISHUPERM_NOTIFY": ",".join(
        {*KINDS, *(row.kind for row in NOTICE_EVENTS.values())}
    ),
}  # fmt: skip


class World:
    """A machine whose every word is a canary."""

    def __init__(self, served: Served, feishu: FakePlatform, folder: Path) -> None:
        self.served = served
        self.feishu = feishu
        self.taps: list[Tap] = []
        self.project = folder / f"{CANARY}-project"
        self.project.mkdir()
        self.transcript = Transcript(folder)

    def event(self, fields: dict[str, Any]) -> dict[str, Any]:
        return {
            **fields,
            "cwd": str(self.project),
            "session_id": f"{CANARY}-session",
            "transcript_path": str(self.transcript.path),
            "agent_type": CANARY,
        }

    def ask(self, kind: str) -> tuple[Any, str]:
        word = "" if KINDS[kind].of_a_call else kind
        environ = {"CLAUDE_PROJECT_DIR": str(self.project), **ATTENDED}
        return self.served.ask(self.event(EVENTS[kind]), word, **environ)

    def sent(self) -> str:
        """Everything that Feishu has got, as it reads."""
        bodies = b"\n".join(body for _, body in self.feishu.requests).decode()
        plain = bodies.encode().decode("unicode_escape", errors="replace")
        return f"{bodies}{plain}{self.taps}"

    def cards(self) -> int:
        return len(self.feishu.app_messages) + len(self.feishu.messages)

    def wait_for_card(self, count: int) -> None:
        wait_until(lambda: self.cards() > count, timeout=40)

    def notices(self) -> int:
        """Each notice there is; how many of them."""
        environ = {"CLAUDE_PROJECT_DIR": str(self.project)}
        for name, row in NOTICE_EVENTS.items():
            planted = {"hook_event_name": name, **dict.fromkeys(row.fields, CANARY)}
            hook = self.served.hook(self.event(planted), **environ)
            finish(hook)
        for kind in NOTICES:
            said = dict.fromkeys(("project", "session", "text"), CANARY)
            assert self.served.control(command="notice", kind=kind, **said)
        made = self.served.control(
            command="pass_add", rule=f"Bash(echo {CANARY} too)", minutes=5, calls=2,
            project=str(self.project),
        )  # fmt: skip
        assert made and "pass" in made
        return len(NOTICE_EVENTS) + len(NOTICES) + 1


@pytest.fixture
def feishu() -> Iterator[FakePlatform]:
    with FakePlatform() as platform:
        yield platform


@pytest.fixture(params=["app", "webhook", "gateway"])
def world(
    request: pytest.FixtureRequest, pyz: Path, tmp_path: Path, feishu: FakePlatform
) -> Iterator[World]:
    home = tmp_path / "home"
    home.mkdir()
    if request.param == "gateway":
        with RunningGateway(pyz, tmp_path / "gateway", feishu) as running:
            join(pyz, home, running, feishu, "--name", "laptop")
            with Served(pyz, home, **EVERYTHING) as served:
                yield World(served, feishu, tmp_path)
        return
    webhook = {"FEISHU_WEBHOOK_URL": feishu.webhook_url}
    way = app_settings(feishu) if request.param == "app" else webhook
    with Served(pyz, home, **way, **EVERYTHING) as served:
        yield World(served, feishu, tmp_path)


def channel_is_up(world: World) -> bool:
    status = world.served.status() or {}
    rows = [row for row in status["channels"] if row["name"] != "inbox"]
    return all(row["state"] == "up" for row in rows)


def test_no_byte_of_a_request_leaves_the_machine(world: World, tmp_path: Path) -> None:
    assert set(EVENTS) == set(KINDS), "a new kind needs its event here"
    wait_until(lambda: channel_is_up(world))
    world.transcript.call(f"{CANARY} words", **CALL)
    for kind in KINDS:
        count = world.cards()
        hook, id = world.ask(kind)
        world.wait_for_card(count)
        if world.feishu.connections.open:
            talk(world)
            offered = world.feishu.buttons(world.feishu.last)
            label = next(b["text"]["content"] for b in offered if "allow" not in str(b))
            world.taps.append(world.feishu.tap(world.feishu.last, label))
        world.served.get(f"/deny?id={id}")
        hook.communicate(timeout=20)
    count = world.cards()
    hook, id = world.ask("permission")
    world.wait_for_card(count)
    assert CANARY in world.served.post("/always", id=id, confirmed="1").text
    hook.communicate(timeout=20)
    world.transcript.result(f"Exit code 3\n{CANARY}", is_error=True)
    if world.feishu.connections.open:
        shown = world.cards()
        world.feishu.say("会话")
        wait_until(lambda: world.cards() > shown)
    count = world.cards()
    wanted = world.notices()
    wait_until(lambda: world.cards() >= count + wanted, timeout=60)
    talk(world)
    kept = [p for p in (tmp_path / "gateway").rglob("*") if p.is_file()]
    out = world.sent() + "".join(p.read_bytes().decode(errors="replace") for p in kept)
    assert "Claude Code" in out
    assert CANARY not in out, out[out.index(CANARY) - 300 :][:400]


def talk(world: World) -> None:
    """What a chat can be asked; a gateway answers for itself."""
    if not world.feishu.connections.open:
        return
    for said in ("状态", "通行证", "撤销", "1", "帮助"):
        answers = world.feishu.replies, world.feishu.app_messages
        count = sum(map(len, answers))
        assert world.feishu.say(said) is not None
        wait_until(lambda: sum(map(len, answers)) > count)  # noqa: B023


def test_hook_without_a_server_tells_no_more(
    pyz: Path, tmp_path: Path, feishu: FakePlatform
) -> None:
    settings = {**EVERYTHING, "FEISHU_WEBHOOK_URL": feishu.webhook_url}
    world = World(Served(pyz, tmp_path, **settings), feishu, tmp_path)
    environ = {"CLAUDE_PROJECT_DIR": str(world.project)}
    bodies = [json.dumps(world.event(EVENTS["permission"])).encode(), b"{" + b"canary"]
    for body in bodies:
        hook = world.served.hook(body, **environ)
        finish(hook)
    wait_until(lambda: world.cards() >= len(bodies))
    assert CANARY not in world.sent()
