"""Pictures of the app's cards: their JSON, drawn by us and not by Feishu.

With SCREENSHOTS=1 those in tests/screenshots are taken anew.  A card with an element
that the renderer does not know cannot be drawn, and fails here.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from feishuperm.app.cards import Extra, ask_card, settled_card
from feishuperm.app.panels import panel_card
from feishuperm.models.ask import Ask, Block, Outcome
from feishuperm.models.panel import Button, Panel, Row
from tests.app.bench import Bench
from tests.asks import make_ask
from tests.e2e.test_browser import BROWSER_ARGUMENTS, COLOUR, EDIT, PLAN, SIZES
from tests.fakes.card_page import card_page
from tests.fakes.feishu import check_card
from tests.lib.samples import CALLS

SCREENSHOTS = Path(__file__).parent.parent / "screenshots"
NONCE = "n0nce"
CREATED = 1763265600.0
MOST_BYTES = 140_000  # of a picture in the README
Json = dict[str, Any]


def shop_ask(tool: str, tool_input: Json, **changes: Any) -> Ask:
    facts: Json = {
        "id": "1763265600-0badcafe",
        "project": "/srv/shop-front",
        "branch": "feature/checkout",
        "session": "5c1b0c2e-9f0d",
        "created": CREATED,
        "why": "依赖已经装好，现在构建一次，看看产物有没有变大。",
    }
    return make_ask(tool, tool_input, **{**facts, **changes})


def build_ask() -> Ask:
    call = {"command": "npm run build -- --report", "description": "构建前端"}
    return shop_ask("Bash", call)


def before(folder: Path) -> Json:
    return ask_card(build_ask(), NONCE)[0]


def settled(folder: Path) -> Json:
    outcome = Outcome(
        id="1763265600-0badcafe", kind="permission", state="allowed", action="allow",
        surface="card", who="ou_owner", ended=CREATED + 9, done="已批准运行",
        look="good", head="9f31c2a8",
    )  # fmt: skip
    return settled_card(build_ask(), outcome, "李雷")


def question(folder: Path) -> Json:
    why = "购物车写完了，接下来做支付页面。"
    ask = shop_ask("AskUserQuestion", {"questions": [COLOUR]}, why=why)
    return ask_card(ask, NONCE)[0]


def burst(folder: Path) -> Json:
    """The card of the sixth request of a session, and of those after it."""
    bench = Bench(folder)
    for number in range(5):
        bench.announce(shop_ask("Bash", {"command": "true"}, id=f"1-0000000{number}"))
    for number, name in enumerate(("cart", "pay", "search")):
        command = f"npx vitest run src/{name}"
        ask = shop_ask("Bash", {"command": command}, id=f"2-0000000{number}")
        bench.announce(ask)
    bench.turn(1)
    return list(bench.api.cards.values())[-1]


ROWS = (
    (
        "shop-front · 修复登录页的表单校验",
        "工作中 · 3 分钟 · 运行命令：构建前端 · 42k · $0.81",
    ),
    ("shop-api · 给订单加分页", "等你决定 · 1 分钟 · 修改 src/orders.py"),
    ("notes · 7f31c2a8", "空闲 · 2 小时 · 18k"),
)


def sessions(folder: Path) -> Json:
    """The list of sessions, each with a way to its progress."""
    rows = tuple(
        Row(
            Block("text", "", said), note, (Button("open", "进展", panel="progress:x"),)
        )
        for said, note in ROWS
    )
    panel = Panel(
        "sessions", "zh", "会话", "1 个工作中 · 1 个等你决定 · 1 个空闲", rows=rows,
        buttons=(Button("again", "重新列出"),), note="07:12",
    )  # fmt: skip
    return panel_card(panel, NONCE)


def progress(folder: Path) -> Json:
    """One session that is idle: what it did, and a field for what comes next."""
    rows = (
        Row(Block("text", "任务", "修复登录页的表单校验，并补上测试")),
        Row(Block("text", "", "✓ 找到校验的代码\n✓ 修复\n→ 补上测试")),
        Row(Block("markdown", "", "表单校验已修复，**12 个测试**全部通过。")),
    )
    buttons = (
        Button("send", "发送", "yes", reads=True),
        Button("stop", "停止", "stop"),
    )
    panel = Panel(
        "progress:x", "zh", "进展", "shop-front · 空闲", rows=rows, field="接下来",
        hint="写给 Claude 的话", buttons=buttons, note="07:12 · 3 分钟 · 42k · $0.81",
    )  # fmt: skip
    return panel_card(panel, NONCE)


PICTURES: dict[str, Callable[[Path], Json]] = {
    "app-card": before,
    "app-settled": settled,
    "app-question": question,
    "app-burst": burst,
    "app-sessions": sessions,
    "app-progress": progress,
}


@pytest.fixture(scope="module")
def page() -> Iterator[Any]:
    """A phone's screen."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=BROWSER_ARGUMENTS
        )
        size = {"width": 390, "height": 600}
        context = browser.new_context(viewport=size, device_scale_factor=2)
        yield context.new_page()
        browser.close()


@pytest.mark.browser
@pytest.mark.parametrize("name", PICTURES)
def test_picture_is_taken_of_the_card(page: Any, tmp_path: Path, name: str) -> None:
    card = PICTURES[name](tmp_path)
    check_card(card, webhook=False)
    folder = SCREENSHOTS if os.environ.get("SCREENSHOTS") else tmp_path
    page.set_content(card_page(card))
    page.locator("main").screenshot(path=folder / f"{name}.png")
    assert 10_000 < (folder / f"{name}.png").stat().st_size < MOST_BYTES


@pytest.mark.parametrize("name", ["app-card", "app-settled"])
def test_picture_in_the_readme_says_who_drew_it(tmp_path: Path, name: str) -> None:
    assert "示意图，不是飞书的截图" in card_page(PICTURES[name](tmp_path))
    for readme in ("README.md", "README.zh-CN.md"):
        text = (SCREENSHOTS.parents[1] / readme).read_text("utf-8")
        assert f"(tests/screenshots/{name}.png)" in text


CARDS = [
    *(shop_ask(tool, call) for tool, call in CALLS.items()),
    shop_ask("Edit", EDIT),
    shop_ask("ExitPlanMode", PLAN),
    shop_ask("AskUserQuestion", {"questions": [COLOUR, SIZES]}),
    shop_ask("Write", {"file_path": "/srv/a.txt", "content": "line\n" * 2000}),
    shop_ask("Bash", {"command": "rm -rf /"}, dangers=("x",), facts=("y",)),
]


@pytest.mark.parametrize("ask", CARDS, ids=lambda ask: ask.tool)
def test_every_card_can_be_drawn(ask: Ask) -> None:
    extra = Extra(hurry="x", page="https://example.test/")
    ended = Outcome(ask.id, ask.kind, done="x", lines=("y",), reason="z")
    cards = [ask_card(ask, NONCE, extra)[0], ask_card(ask.bare("x"), NONCE, extra)[0]]
    for card in (*cards, settled_card(ask, ended)):
        check_card(card, webhook=False)
        assert "<header" in card_page(card)


def test_unknown_element_is_not_left_out_of_a_picture(tmp_path: Path) -> None:
    card = before(tmp_path)
    card["body"]["elements"].append({"tag": "chart"})
    with pytest.raises(KeyError, match="chart"):
        card_page(card)
