"""A hostile page in a real browser, and a stranger's name for our address.

The page knows everything but a finger: the good link itself, signature and all.  What
it can make a browser send must not decide, count as seen, or shut the person out.
"""

from __future__ import annotations

import http.server
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import wait_until
from tests.e2e.test_browser import (
    AGENT,
    BROWSER_ARGUMENTS,
    BUILD,
    PLAN,
    WIDE,
    Phone,
    button,
    expect_text,
)
from tests.served import Served, decision, event, finish

pytestmark = pytest.mark.browser

# Names of ours and of strangers, all of them this machine: nobody is asked for them.
NAMES = "--host-resolver-rules=MAP *.test 127.0.0.1"
PUBLIC = {"CALLBACK_SERVER_HOST": "127.0.0.1"}


class Site:
    """Another origin, with one page."""

    def __init__(self) -> None:
        site = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                body = site.page.encode() if self.path == "/" else b""
                self.send_response(200)
                self.send_header("Content-Type", "text/html; charset=utf-8")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *args: object) -> None: ...

        self.page = ""
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://evil.test:{self.server.server_port}/"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()


@pytest.fixture(scope="module")
def server(pyz: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with Served(pyz, tmp_path_factory.mktemp("h")) as served:
        yield served


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=[*BROWSER_ARGUMENTS, NAMES]
        )
        yield launched
        launched.close()


@pytest.fixture
def evil() -> Iterator[Site]:
    site = Site()
    yield site
    site.close()


def visit(browser: Any, url: str) -> Any:
    context = browser.new_context(user_agent=AGENT)
    context.set_default_timeout(15_000)
    page = context.new_page()
    page.goto(url)
    return page


class Asked:
    """A request that waits, and everything a page elsewhere may know of it."""

    def __init__(self, served: Served, **tool_input: Any) -> None:
        self.served = served
        self.process, self.id = served.ask(event("Bash", **(tool_input or BUILD)))
        self.base = f"http://127.0.0.1:{served.port}"
        self.allow = served.link(f"/allow?id={self.id}")

    def is_untouched(self) -> bool:
        """Whether it waits, and counts as seen by nobody."""
        status = self.served.status()
        assert status is not None
        rows = {row["id"]: row["shown"] for row in status["waiting"]}
        return rows.get(self.id) is False and self.process.poll() is None


@pytest.fixture
def asked(server: Served) -> Iterator[Asked]:
    request = Asked(server)
    yield request
    request.process.terminate()
    request.process.wait(20)


DONE = "document.title = 'done'"
# What a page can make a browser send to `LINK`, each until it is over.
ATTACKS = {
    "fetch": f"fetch(LINK, {{mode: 'no-cors'}}).finally(() => {{ {DONE} }})",
    "fetch with credentials": (
        "fetch(LINK, {mode: 'no-cors', credentials: 'include'})"
        f".finally(() => {{ {DONE} }})"
    ),
    "fetch post": (
        "fetch(PATH, {method: 'POST', mode: 'no-cors',"
        f" body: new URLSearchParams(QUERY)}}).finally(() => {{ {DONE} }})"
    ),
    "beacon": (
        "navigator.sendBeacon(PATH, new URLSearchParams(QUERY));"
        f" setTimeout(() => {{ {DONE} }}, 500)"
    ),
    "image": (
        "const i = new Image(); i.onerror = i.onload = () => {"
        f" {DONE} }}; i.src = LINK"
    ),
    "frame": (
        "const f = document.createElement('iframe'); f.onload = () => {"
        f" {DONE} }}; f.src = LINK; document.body.append(f)"
    ),
    "script": (
        "const s = document.createElement('script'); s.onerror = s.onload = () => {"
        f" {DONE} }}; s.src = LINK; document.body.append(s)"
    ),
    "style": (
        "const s = document.createElement('link'); s.rel = 'stylesheet';"
        f" s.onerror = s.onload = () => {{ {DONE} }}; s.href = LINK;"
        " document.head.append(s)"
    ),
    "prefetch": (
        "const p = document.createElement('link'); p.rel = 'prefetch';"
        f" p.onerror = p.onload = () => {{ {DONE} }}; p.href = LINK;"
        " document.head.append(p)"
    ),
    "prerender": (
        "const s = document.createElement('script'); s.type = 'speculationrules';"
        " s.textContent = JSON.stringify({prerender: [{source: 'list',"
        " urls: [LINK]}]}); document.head.append(s);"
        f" setTimeout(() => {{ {DONE} }}, 800)"
    ),
    "web socket": (
        "const w = new WebSocket(LINK.replace('http', 'ws'));"
        f" w.onerror = w.onopen = () => {{ {DONE} }}"
    ),
    "event source": (
        "const e = new EventSource(LINK); e.onerror = e.onopen = () => {"
        f" e.close(); {DONE} }}"
    ),
    "form in a frame": (
        "const f = document.createElement('iframe'); f.name = 'f';"
        " document.body.append(f);"
        " const form = document.createElement('form'); form.method = 'post';"
        " form.action = PATH; form.target = 'f';"
        " for (const [name, value] of new URLSearchParams(QUERY)) {"
        " const i = document.createElement('input'); i.name = name; i.value = value;"
        " form.append(i); } document.body.append(form);"
        f" setTimeout(() => {{ {DONE} }}, 800); form.submit()"
    ),
}


@pytest.mark.parametrize("attack", ATTACKS)
def test_page_elsewhere_cannot_decide_even_with_the_good_link(
    asked: Asked, browser: Any, evil: Site, attack: str
) -> None:
    link = asked.base + asked.allow
    path, _, query = link.partition("?")
    evil.page = (
        f"<!doctype html><title>evil</title><body><script>const LINK = '{link}',"
        f" PATH = '{path}', QUERY = '{query}'; {ATTACKS[attack]};</script>"
    )
    page = visit(browser, evil.url)
    page.wait_for_function("document.title === 'done'")
    assert asked.is_untouched()
    page.context.close()


def test_form_of_a_page_elsewhere_is_told_no(
    asked: Asked, browser: Any, evil: Site
) -> None:
    path, _, query = (asked.base + asked.allow).partition("?")
    fields = "".join(
        f'<input name="{name}" value="{value}">'
        for name, value in (pair.split("=", 1) for pair in query.split("&"))
    )
    evil.page = f'<form method="post" action="{path}">{fields}<button>Win</button>'
    page = visit(browser, evil.url)
    page.get_by_role("button", name="Win").click()
    expect_text(page, "不是从 feishuperm 的页面发出的")
    assert asked.is_untouched()
    page.context.close()


@pytest.mark.parametrize("path", ["/", "/status", "/healthz", "/install.sh", "link"])
def test_rebound_name_reaches_nothing(asked: Asked, browser: Any, path: str) -> None:
    """The page's own name now means this machine: its requests are same-origin."""
    target = asked.allow if path == "link" else path
    context = browser.new_context(user_agent=AGENT)
    page = context.new_page()
    response = page.goto(f"http://rebound.test:{asked.served.port}{target}")
    assert response.status == 421
    assert "npm run build" not in page.content()
    assert asked.is_untouched()
    context.close()


@pytest.mark.parametrize("signing", ["on", "off"])
def test_page_elsewhere_cannot_shut_the_person_out(
    pyz: Path, browser: Any, evil: Site, home: Path, signing: str
) -> None:
    with Served(pyz, home, CALLBACK_LINK_SIGNING=signing) as served:
        process, id = served.ask(event())
        base = f"http://127.0.0.1:{served.port}"
        evil.page = (
            "<!doctype html><title>evil</title><script>"
            "const one = n => fetch(`BASE/allow?id=1700000000-${n}`,"
            " {mode: 'no-cors'}).catch(() => 0);"
            "Promise.all([...Array(60).keys()].map(one))"
            ".then(() => { document.title = 'done' })</script>"
        ).replace("BASE", base)
        page = visit(browser, evil.url)
        page.wait_for_function("document.title === 'done'")
        page.goto(base + served.link(f"/allow?id={id}"))
        expect_text(page, "操作成功", "已批准运行")
        assert decision(finish(process))["behavior"] == "allow"
        page.context.close()


# What is not seen whole is not granted.


@pytest.mark.parametrize("scripts", [True, False])
def test_cut_request_offers_refusals_in_the_inbox_and_everything_on_its_page(
    server: Served, browser: Any, scripts: bool
) -> None:
    asked = Asked(server, command="echo start\n" + "x" * 60_000 + "\nend")
    phone = Phone(browser, asked.base)
    page = phone.open(java_script_enabled=scripts)
    place = page.locator(".row")
    expect_text(place, "echo start")
    assert place.get_by_role("button").count() == 0
    if scripts:  # beside the list it is cut, and can be refused
        wide = phone.open(**WIDE)
        beside = wide.locator("#pane .request")
        expect_text(beside, "echo start", "end")
        button(beside, "拒绝运行").wait_for()
        button(beside, "拒绝并中断").wait_for()
        assert button(beside, "批准运行").count() == 0
        assert button(beside, "始终允许").count() == 0
        beside.get_by_role("link", name="查看完整请求").wait_for()
    place.get_by_role("link", name="查看").tap()
    page.wait_for_url("**/request?*")
    assert "x" * 60_000 in page.locator("pre.code").text_content()
    button(page, "批准运行").tap()
    expect_text(page, "操作成功")
    assert decision(finish(asked.process))["behavior"] == "allow"
    phone.close()


WORDS = "这个工具的任何调用都将直接通过"


@pytest.mark.parametrize("way", ["link", "page", "inbox"])
def test_rule_for_every_call_of_a_tool_is_written_after_its_words_alone(
    server: Served, browser: Any, way: str
) -> None:
    tool = f"mcp__db__{way}"
    process, id = server.ask(event(tool, sql=f"select '{way}'"))
    phone = Phone(browser, f"http://127.0.0.1:{server.port}")
    start = {"link": f"/always?id={id}", "page": f"/request?id={id}", "inbox": "/"}
    screen = {"viewport": WIDE["viewport"]} if way == "inbox" else {}
    page = phone.open(server.link(start[way]), **screen)
    if way == "page":
        button(page, "始终允许").tap()
    elif way == "inbox":
        button(page.locator("#pane"), "始终允许").tap()
    expect_text(page, "请确认操作", WORDS, f"select '{way}'")
    assert server.waiting() == [id]
    settings = server.project / ".claude" / "settings.local.json"
    written = settings.read_text() if settings.exists() else ""
    assert tool not in written
    button(page, "始终允许").tap()
    expect_text(page, "操作成功", "已始终允许", tool)
    assert decision(finish(process))["behavior"] == "allow"
    assert tool in settings.read_text()
    phone.close()


@pytest.mark.parametrize("scripts", [True, False])
def test_secret_is_masked_in_the_inbox_and_whole_on_its_page(
    server: Served, browser: Any, scripts: bool
) -> None:
    secret = "ghp_" + "0123456789abcdefghijABCDEFGHIJ012345"
    asked = Asked(server, command=f"GITHUB_TOKEN={secret} git push")
    phone = Phone(browser, asked.base)
    page = phone.open(java_script_enabled=scripts)
    expect_text(page.locator(".row"), "git push", "***")
    assert secret not in page.content()
    if scripts:
        wide = phone.open(**WIDE)
        expect_text(wide.locator("#pane .request"), "git push", "***")
        assert secret not in wide.content()
    page.locator(".row").get_by_role("link", name="查看").tap()
    page.wait_for_url("**/request?*")
    assert secret in page.locator("pre.code").first.text_content()
    button(page, "拒绝运行").tap()
    assert decision(finish(asked.process))["behavior"] == "deny"
    expect_text(page, "已拒绝运行")  # a page that is on its way may not be closed
    phone.close()


# From elsewhere.


@pytest.fixture
def public(pyz: Path, home: Path, browser: Any) -> Iterator[tuple[Served, Phone]]:
    """A server whose links lead to a name, not to this machine."""
    with Served(pyz, home, CALLBACK_SERVER_URL="http://box.test", **PUBLIC) as served:
        phone = Phone(browser, f"http://box.test:{served.port}")
        phone.tolerated = ("status of 403", "Failed to load resource", "ERR_")
        yield served, phone
        phone.close()


def test_link_from_elsewhere_asks_before_it_allows_and_refuses_at_once(
    public: tuple[Served, Phone],
) -> None:
    served, phone = public
    process, id = served.ask(event())
    page = phone.open(served.link(f"/allow?id={id}"))
    expect_text(page, "请确认操作", "npm run build")
    assert served.waiting() == [id]
    button(page, "批准运行").tap()
    expect_text(page, "操作成功", "已批准运行")
    assert decision(finish(process))["behavior"] == "allow"
    process, id = served.ask(event())
    page = phone.open(served.link(f"/deny?id={id}"))
    expect_text(page, "操作成功", "已拒绝运行")
    assert decision(finish(process))["behavior"] == "deny"


def test_plan_from_elsewhere_is_asked_for_by_its_own_name(
    public: tuple[Served, Phone],
) -> None:
    served, phone = public
    process, id = served.ask(event("ExitPlanMode", **PLAN))
    page = phone.open(served.link(f"/allow?id={id}"))
    expect_text(page, "请确认操作", "重构购物车")
    button(page, "批准计划").tap()
    expect_text(page, "已批准计划")
    assert decision(finish(process))["behavior"] == "allow"


def unfold(page: Any) -> None:
    """Open the menu, and in it the list of browsers."""
    page.locator("#menu > summary").tap()
    page.locator("#menu summary", has_text="已登录的浏览器").tap()


def ticket(served: Served) -> str:
    status = served.control(command="status", inbox=True)
    assert status is not None
    return "/?" + status["inbox"].partition("?")[2]


@pytest.mark.parametrize("scripts", [True, False])
def test_browser_is_let_in_once_listed_and_sent_away(
    public: tuple[Served, Phone], scripts: bool
) -> None:
    served, phone = public
    process, _ = served.ask(event())
    link = ticket(served)
    guest = phone.open(link)
    expect_text(guest, "npm run build", "实时")
    cookies = guest.context.cookies()
    assert [(row["httpOnly"], row["sameSite"]) for row in cookies] == [(True, "Strict")]
    expect_text(phone.open(link), "无法打开")  # it was good once
    owner = phone.open(ticket(served), java_script_enabled=scripts)
    owner.goto(phone.url + "/")
    unfold(owner)
    rows = owner.locator("li", has=owner.get_by_role("button", name="退出", exact=True))
    assert rows.count() == 2
    other = rows.filter(has_not_text="当前浏览器")
    other.get_by_role("button", name="退出", exact=True).tap()
    owner.wait_for_load_state()
    unfold(owner)
    wait_until(lambda: rows.count() == 1)
    expect_text(owner, "npm run build")
    guest.goto(phone.url + "/")
    expect_text(guest, "无法打开")
    assert "npm run build" not in guest.content()
    process.terminate()


def test_link_in_another_sites_page_lets_the_browser_in(
    public: tuple[Served, Phone], evil: Site
) -> None:
    """As a chat in the browser: it keeps strict cookies back on such a way."""
    served, phone = public
    process, _ = served.ask(event())
    evil.page = f'<a href="{phone.url}{ticket(served)}">inbox</a>'
    page = visit(phone.browser, evil.url)
    page.get_by_role("link", name="inbox").click()
    expect_text(page, "npm run build", "实时")
    page.reload()
    expect_text(page, "npm run build")
    page.context.close()
    process.terminate()


# After the decision.


@pytest.mark.parametrize(
    "attack", ["fetch post", "beacon", "form in a frame", "fetch with credentials"]
)
def test_page_elsewhere_cannot_take_a_rule_back_even_with_the_good_link(
    server: Served, browser: Any, evil: Site, attack: str
) -> None:
    command = f"echo {attack}"
    process, id = server.ask(event("Bash", command=command))
    server.get(f"/always?id={id}")
    process.wait(20)
    link = f"http://127.0.0.1:{server.port}" + server.link(f"/undo?id={id}")
    path, _, query = link.partition("?")
    evil.page = (
        f"<!doctype html><title>evil</title><body><script>const LINK = '{link}',"
        f" PATH = '{path}', QUERY = '{query}'; {ATTACKS[attack]};</script>"
    )
    page = visit(browser, evil.url)
    page.wait_for_function("document.title === 'done'")
    page.context.close()
    written = Path(server.project, ".claude", "settings.local.json").read_text()
    assert f"Bash({command})" in written


def test_page_elsewhere_cannot_follow_a_request_even_with_the_good_link(
    asked: Asked, browser: Any, evil: Site
) -> None:
    link = asked.base + asked.served.link(f"/events?id={asked.id}")
    evil.page = (
        "<!doctype html><title>evil</title><body><script>"
        f"const e = new EventSource('{link}');"
        " e.addEventListener('state', () => { document.title = 'read' });"
        " e.onopen = () => { document.title = 'open' };"
        " e.onerror = () => { document.title = 'closed' };</script>"
    )
    page = visit(browser, evil.url)
    page.wait_for_function("document.title !== 'evil'")
    assert page.title() == "closed"
    page.context.close()
    assert asked.is_untouched()
