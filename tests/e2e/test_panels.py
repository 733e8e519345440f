"""Sessions on cards, end to end: the built file, its app, a gateway, a phone."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import wait_until
from tests.e2e.test_app import app_settings
from tests.e2e.test_gateway import channel
from tests.e2e.test_progress import CALL, PROMPT, shows, stops, tell
from tests.fakes.claude_program import ClaudeProgram, record_session
from tests.fakes.feishu_app import STRANGER, FakePlatform
from tests.gateways import RunningGateway, join
from tests.served import Served, event, finish


@pytest.fixture
def feishu() -> Iterator[FakePlatform]:
    with FakePlatform(limits=False) as platform:
        yield platform


class World:
    """A server whose sessions can be started from the chat, and the program."""

    def __init__(self, pyz: Path, root: Path, feishu: FakePlatform, way: str) -> None:
        self.pyz, self.root, self.feishu, self.way = pyz, root, feishu, way
        self.claude = ClaudeProgram(root / "bin")
        self.shop = root / "shop"
        self.shop.mkdir()
        self.gateway: RunningGateway | None = None

    @contextlib.contextmanager
    def served(self, **settings: str) -> Iterator[Served]:
        home = self.root / "laptop"
        settings = {
            "FEISHUPERM_REMOTE": "on", "FEISHUPERM_PROJECTS": str(self.shop),
            "FEISHUPERM_GATEWAY_GRANTS": "on", "ANTHROPIC_API_KEY": "k",
            "PATH": f"{self.root}/bin:/usr/local/bin:/usr/bin:/bin", **settings,
        }  # fmt: skip
        with contextlib.ExitStack() as stack:
            if self.way == "gateway":
                running = RunningGateway(self.pyz, self.root / "g", self.feishu)
                self.gateway = stack.enter_context(running)
                wait_until(lambda: self.feishu.connections.open)
                join(self.pyz, home, running, self.feishu, "--name", "laptop")
            else:
                home.mkdir()
                settings.update(app_settings(self.feishu))
            server = stack.enter_context(Served(self.pyz, home, **settings))
            if self.way == "gateway":
                wait_until(lambda: channel(server)["state"] == "up")
            else:
                wait_until(lambda: self.feishu.connections.open)
            yield server

    def card(self, words: str) -> str:
        """The message that some words bring."""
        return self.fresh(lambda: self.feishu.say(words))

    def fresh(self, cause: Callable[[], object]) -> str:
        before = set(self.feishu.app_messages)
        cause()
        fresh: set[str] = wait_until(lambda: set(self.feishu.app_messages) - before)
        return fresh.pop()

    def reply(self, words: str, parent: str = "") -> str:
        before = len(self.feishu.replies)
        self.feishu.say(words, parent)
        wait_until(lambda: len(self.feishu.replies) > before)
        said: str = json.loads(self.feishu.replies[before][1]["content"])["text"]
        return said

    def said_on(self, message: str) -> str:
        return json.dumps(self.feishu.card(message), ensure_ascii=False)

    def labels(self, message: str) -> list[str]:
        buttons = self.feishu.buttons(message, of_panels=True)
        return [button["text"]["content"] for button in buttons]


@pytest.fixture(params=["app", "gateway"])
def world(request: Any, pyz: Path, tmp_path: Path, feishu: FakePlatform) -> World:
    return World(pyz, tmp_path, feishu, request.param)


def test_task_is_confirmed_on_a_card_that_tells_how_it_went(
    world: World, feishu: FakePlatform
) -> None:
    with world.served() as server:
        message = world.card("新任务 shop <at id=all></at> 修复登录")
        said = world.said_on(message)
        assert str(world.shop) in said and "修复登录" in said
        assert ("laptop" in said) is (world.way == "gateway")
        refused = feishu.tap(message, "启动", who=STRANGER)
        assert refused.toast["type"] == "error" and world.claude.calls() == []
        tap = feishu.tap(message, "启动")
        assert tap.ok and tap.card is not None and world.labels(message) == []
        wait_until(lambda: "1a2b3c4d" in world.said_on(message))
        (call,) = world.claude.calls()
        assert call.text == "<at id=all></at> 修复登录"
        other = world.card("新任务 shop 再来一次")
        value = feishu.buttons(other, of_panels=True)[0]["behaviors"][0]["value"]
        copied = feishu.act(message, {"tag": "button", "value": value})
        assert copied.toast["type"] == "error" and len(world.claude.calls()) == 1
        server.stop()
        wait_until(lambda: world.labels(other) == [], 20)
        assert "修复登录" in world.said_on(message)
        server.start()
        if world.way == "app":
            wait_until(lambda: feishu.connections.open)
        else:
            wait_until(lambda: channel(server)["state"] == "up")
        late = feishu.act(other, {"tag": "button", "value": value})
        assert late.toast["type"] == "error" and len(world.claude.calls()) == 1


@pytest.mark.parametrize("world", ["gateway"], indirect=True)
def test_gateway_starts_nothing_unless_the_computer_allows_it(world: World) -> None:
    with world.served(FEISHUPERM_GATEWAY_GRANTS="off") as server:
        session = record_session(server.home, str(world.shop))
        for words in ("新任务 shop go", f"继续 {session} go"):
            assert "FEISHUPERM_GATEWAY_GRANTS=on" in world.reply(words)
        assert world.claude.calls() == []


def test_settled_card_leads_to_its_session_and_so_does_a_reply(
    world: World, feishu: FakePlatform
) -> None:
    with world.served(FEISHUPERM_REMOTE="off") as server:
        hook = server.hook(event())
        before = len(feishu.app_messages) if world.way == "app" else 1
        wait_until(lambda: len(feishu.app_messages) >= max(before, 1))
        wait_until(lambda: feishu.buttons(feishu.last))
        message = feishu.last
        assert feishu.tap(message, "批准运行").ok
        finish(hook)
        assert world.labels(message)[-1:] == ["进展"]
        assert feishu.tap(message, "进展", who=STRANGER).toast["type"] == "error"
        progress = world.fresh(lambda: feishu.tap(message, "进展"))
        assert "进展" in world.said_on(progress)
        listed = world.card("会话")
        again = world.fresh(lambda: feishu.tap(listed, "进展"))
        assert world.labels(listed)[-1] == "刷新" and again != progress
        wait_until(lambda: world.labels(progress) == [])
        tap = feishu.tap(listed, "刷新")
        assert tap.ok and tap.card is not None
        wait_until(lambda: "install --remote" in world.reply("接着跑测试", message))
        assert "install --remote" in world.reply("新任务 shop x")
        assert world.claude.calls() == []


def test_list_leads_to_progress_and_that_to_the_end_of_the_turn(
    world: World, feishu: FakePlatform
) -> None:
    """Nobody else ends it, nor does the button of another message, nor twice."""
    off = {"FEISHUPERM_REMOTE": "off", "FEISHUPERM_GATEWAY_GRANTS": "off"}
    with world.served(**off) as server:
        assert tell(server, PROMPT) == "" and tell(server, CALL) == ""
        listed = world.card("会话")
        progress = world.fresh(lambda: feishu.tap(listed, "进展"))
        stop = feishu.buttons(progress, of_panels=True)[0]
        assert world.labels(progress) == ["停止"]
        value = {"tag": "button", "value": stop["behaviors"][0]["value"]}
        refused = feishu.tap(progress, "停止", who=STRANGER), feishu.act(listed, value)
        assert [tap.toast["type"] for tap in refused] == ["error", "error"]
        assert tell(server, CALL) == ""
        tap = feishu.tap(progress, "停止")
        assert tap.toast["content"] == "将在下一次调用工具时停止"
        assert json.loads(tell(server, CALL))["continue"] is False
        shows(feishu, progress, "本轮已于")
        assert world.labels(progress) == []
        assert feishu.act(progress, value).toast["type"] == "warning"
        assert tell(server, {**PROMPT, "prompt_id": "t2"}) == ""
        assert tell(server, {**CALL, "prompt_id": "t2"}) == ""
        assert feishu.act(progress, value).toast["type"] == "warning"
        assert tell(server, {**CALL, "prompt_id": "t2"}) == ""
        wait_until(lambda: stops(server) == ["asked", "stopped"])
