"""From a fresh home to a tap on the phone: a real terminal, one scan, Enter otherwise.

The link is read off the terminal's QR code by an independent decoder, as a phone does.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from feishuperm.app.health import EVENT, SCOPES
from feishuperm.setup.scan import ADDONS
from tests.conftest import ROOT, clean_env, free_port, need, wait_until
from tests.fakes.feishu import APP_ID, APP_SECRET
from tests.fakes.feishu_app import BOT, OWNER
from tests.fakes.feishu_registration import PENDING, Platform, Registration
from tests.fakes.model import text, tool
from tests.fakes.proxy import Proxy
from tests.lab import Lab
from tests.served import event
from tests.terminal import THEMES, Terminal, read_codes
from tests.terminal_svg import terminal_svg

SCRIPT = ROOT / "install.sh"


class Desk:
    """A person's home, their terminal and their phone."""

    def __init__(self, home: Path, pyz: Path) -> None:
        self.home = home
        self.pyz = pyz
        self.platform = Platform(limits=False)
        self.accounts = Registration(self.platform)
        self.program = home / ".local/bin/feishuperm"
        self.config = home / ".config/feishuperm/config.env"
        self.pending = home / ".local/state/feishuperm/registration.json"
        self.world = {"FEISHU_BASE_URL": self.platform.base_url}

    def environ(self) -> dict[str, str]:
        accounts = {"FEISHU_ACCOUNTS_URL": self.accounts.url}
        return clean_env(self.home, **accounts, **self.world)

    def install(self, *args: str, columns: int = 80) -> Terminal:
        """`./install.sh` on a terminal."""
        command = ["sh", str(SCRIPT), "--from", str(self.pyz)]
        command += ["--service", "background", "--port", str(free_port()), *args]
        return Terminal(command, self.environ(), columns, 60, str(self.home))

    def again(self, *args: str) -> Terminal:
        """The installed program on a terminal."""
        return Terminal([str(self.program), *args], self.environ(), cwd=str(self.home))

    def scan(self, terminal: Terminal) -> str:
        """Read the code off the terminal and confirm on the phone."""
        terminal.wait("waiting for your scan")
        pictures = [terminal.picture(theme) for theme in THEMES.values()]
        dark, light = (link.decode() for link in read_codes(pictures))
        assert dark == light
        self.accounts.scan(dark)
        return dark

    def tap(self, label: str = "批准运行") -> None:
        """Tap the newest card, once there is one to tap."""
        feishu = self.platform
        wait_until(lambda: feishu.app_messages and feishu.buttons(feishu.last))
        tapped = feishu.tap(feishu.last, label)
        assert tapped.ok, tapped

    def finish(self, terminal: Terminal) -> None:
        """Enter to the rest, and the tap."""
        press_enter_until(terminal, "A card is on its way")
        self.tap("收到")
        terminal.wait("Your phone is connected")
        assert terminal.ended() == 0

    def hook(self, command: str) -> subprocess.Popen[bytes]:
        """What Claude Code starts, as it starts it."""
        settings = json.loads((self.home / ".claude/settings.json").read_text())
        entry = settings["hooks"]["PermissionRequest"][0]["hooks"][0]
        hook = subprocess.Popen(
            ["/bin/sh", "-c", entry["command"]],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=clean_env(self.home),
        )
        assert hook.stdin is not None
        hook.stdin.write(json.dumps(event("Bash", command=command)).encode())
        hook.stdin.close()
        return hook

    def decision(self, hook: subprocess.Popen[bytes]) -> dict[str, object]:
        """What a hook printed, once it has ended."""
        assert hook.stdout is not None
        output = json.loads(hook.stdout.read())["hookSpecificOutput"]
        decision: dict[str, object] = output["decision"]
        return decision

    def values(self) -> dict[str, str]:
        lines = self.config.read_text().splitlines()
        pairs = (line.partition("=") for line in lines if line[:1] != "#")
        return {key: value for key, _, value in pairs}


@pytest.fixture
def desk(home: Path, pyz: Path) -> Iterator[Desk]:
    need("tmux")
    need("zbarimg")
    made = Desk(home, pyz)
    with made.platform, made.accounts:
        try:
            yield made
        finally:
            if made.program.exists():
                with made.again("stop") as terminal:
                    terminal.ended()


# The way it should go.


def test_scan_and_tap_with_enter_to_everything(desk: Desk) -> None:
    began = time.monotonic()
    with desk.install() as terminal:
        terminal.wait("Choose [1]:")
        terminal.keys("Enter")
        desk.scan(terminal)
        more = press_enter_until(terminal, "A card is on its way")
        desk.tap("收到")
        terminal.wait("Your phone is connected")
        took = time.monotonic() - began
        assert terminal.ended() == 0
        screen = terminal.screen()
    print(f"\nfrom ./install.sh to the answered card: {took:.1f} s")
    assert 1 + more <= 3
    assert "Got your tap (" in screen and OWNER not in screen
    assert "Now start a new claude session" in screen
    assert "fail:" not in screen and "warn:" not in screen
    assert APP_SECRET not in screen + everything_but_the_config(desk)
    values = desk.values()
    assert values["FEISHU_APP_SECRET"] == APP_SECRET
    assert values["FEISHU_OWNER_ID"] == OWNER
    assert desk.config.stat().st_mode & 0o777 == 0o600
    assert not desk.pending.exists()
    (query,) = desk.accounts.scanned
    assert query["createOnly"] == ["true"]
    a_request_is_answered_by_a_tap(desk)
    later_runs_ask_nothing(desk)


def press_enter_until(terminal: Terminal, text: str) -> int:
    """Press Enter at every question; how many there were."""
    asked: set[str] = set()
    until = time.monotonic() + 60
    while text not in (screen := terminal.screen().rstrip()):
        assert time.monotonic() < until, screen
        line = screen.rpartition("\n")[2]
        if line.endswith(("]", "]:", "?")) and line not in asked:
            asked.add(line)
            terminal.keys("Enter")
        time.sleep(0.05)
    return len(asked)


def everything_but_the_config(desk: Desk) -> str:
    """All that is written anywhere in this home, and on command lines."""
    files = [path for path in desk.home.rglob("*") if path.is_file()]
    skipped = (desk.config, desk.program.resolve())
    texts = [p.read_bytes() for p in files if p.resolve() not in skipped]
    lines = [path.read_bytes() for path in Path("/proc").glob("[0-9]*/cmdline")]
    return b"".join(texts + lines).decode(errors="replace")


def a_request_is_answered_by_a_tap(desk: Desk) -> None:
    with desk.hook("npm test") as hook:
        desk.tap()
        assert desk.decision(hook)["behavior"] == "allow"


def later_runs_ask_nothing(desk: Desk) -> None:
    with desk.again("install") as terminal:
        assert terminal.ended() == 0
        screen = terminal.screen()
    assert "up to date" in screen
    assert "Choose" not in screen and "[y/N]" not in screen
    assert desk.accounts.begins == 1
    with desk.again("install", "--setup") as terminal:
        terminal.wait("Choose [5]:")
        press_enter_until(terminal, "up to date")
        assert terminal.ended() == 0
    assert desk.accounts.begins == 1


@pytest.mark.claude
def test_two_commands_of_the_readme_in_a_fresh_clone_end_with_an_answered_request(
    lab: Lab,
) -> None:
    """`./install.sh`, then `claude`: nothing else is there but a Python."""
    desk = Desk(Path(lab.home), Path())
    clone = Path(lab.root, "clone")
    subprocess.run(["git", "clone", "-q", str(ROOT), str(clone)], check=True)
    pip = {key: value for key, value in os.environ.items() if key[:4] == "PIP_"}
    socket = {"PERMISSION_SOCKET_PATH": lab.socket}
    environ = {**desk.environ(), **pip, **socket}
    with desk.platform, desk.accounts:
        try:
            began = time.monotonic()
            given = ["--service", "background", "--port", str(free_port())]
            with Terminal(
                ["./install.sh", *given], environ, cwd=str(clone)
            ) as terminal:
                terminal.wait("Choose [1]:", 120)
                terminal.keys("Enter")
                desk.scan(terminal)
                desk.finish(terminal)
            took = time.monotonic() - began
            print(f"\nfrom ./install.sh in a fresh clone to the tap: {took:.1f} s")
            call = tool("Bash", command="touch made", description="x")
            lab.model.push([call], [text("done")])
            lab.session("make it")
            desk.tap()
            results = lab.model.tool_results
            wait_until(lambda: results().get(call["id"]), 40)
            assert Path(lab.project, "made").exists()
        finally:
            if desk.program.exists():
                with desk.again("stop") as terminal:
                    terminal.ended()


CAPTIONS = {
    "en": "A real run, drawn by a test. Its Feishu is a stand-in: the code is void.",
    "zh": "真实运行的画面，由测试绘制；对面是模拟的飞书，扫这个码没有结果。",
}


@pytest.mark.parametrize(
    ("language", "last"), [("en", "nothing is lost)"), ("zh", "什么都不会丢）")]
)
def test_picture_in_the_readme_shows_what_the_terminal_shows(
    desk: Desk, language: str, last: str
) -> None:
    """With SCREENSHOTS=1 it is taken anew."""
    with desk.install("--lang", language) as terminal:
        terminal.wait("[1]")
        terminal.keys("Enter")
        terminal.wait(last)
        picture = terminal_svg(terminal.drawn(), CAPTIONS[language])
        terminal.keys("C-c")
        assert terminal.ended() == 130
    path = ROOT / f"tests/screenshots/scan-{language}.svg"
    if os.environ.get("SCREENSHOTS"):
        path.write_text(picture, "utf-8")
    shown, kept = texts_of(picture), texts_of(path.read_text("utf-8"))
    assert len(shown) > 10 and shown == kept, "SCREENSHOTS=1 takes it anew"
    assert path.stat().st_size < 20_000


def texts_of(picture: str) -> list[str]:
    """The words; a link's packed bytes differ between builds of zlib."""
    texts = re.findall(r">([^<]+)</text>", picture)
    words = [text for text in texts if not re.fullmatch(r"\S{40,}", text)]
    return [re.sub(r"\d+:\d\d", "59:59", text) for text in words]


# Other ways.


def test_stopped_scan_is_taken_up_by_the_next_run(desk: Desk) -> None:
    with desk.install(columns=60) as terminal:
        terminal.wait("Choose [1]:")
        terminal.keys("Enter")
        screen = terminal.wait("waiting for your scan")
        assert "make the window at least 73 columns" in screen and "▀" not in screen
        assert "scan.svg" in screen.replace("\n", "")
        terminal.keys("C-c")
        assert terminal.ended() == 130
        assert "min: run install again" in terminal.screen()
        assert "Traceback" not in terminal.screen()
    assert not desk.program.exists() and desk.pending.exists()
    assert desk.pending.stat().st_mode & 0o777 == 0o600
    with desk.install() as terminal:
        terminal.wait("Choose [1]:")
        terminal.keys("Enter")
        terminal.wait("continuing with the scan")
        desk.scan(terminal)
        desk.finish(terminal)
    assert desk.accounts.begins == 1


def test_terminal_closed_after_the_scan_loses_no_secret(desk: Desk) -> None:
    desk.accounts.interval = 60
    with desk.install() as terminal:
        terminal.wait("Choose [1]:")
        terminal.keys("Enter")
        desk.scan(terminal)
    assert not desk.config.exists()
    with desk.install() as terminal:
        terminal.wait("Choose [1]:")
        terminal.keys("Enter")
        terminal.wait("app cli_a000000000000001 created")
        desk.finish(terminal)
    assert desk.values()["FEISHU_APP_SECRET"] == APP_SECRET
    assert desk.accounts.begins == 1


def test_refusal_on_the_phone_is_said_and_asked_about_again(desk: Desk) -> None:
    desk.accounts.script.extend([(400, PENDING), (400, {"error": "access_denied"})])
    with desk.install() as terminal:
        terminal.wait("Choose [1]:")
        terminal.keys("Enter")
        screen = terminal.wait("the scan was refused on the phone")
        wait_until(lambda: terminal.screen().count("Choose [1]:") == 2)
        assert terminal.screen().count("Where should requests be sent?") == 2
        assert "hint: if Feishu said that an app was created" in terminal.screen()
        terminal.type("4")
        terminal.wait("Choose [1]: 4")  # or its own question would be answered again
        press_enter_until(terminal, "Now open the inbox")
        assert terminal.ended() == 0
        screen = terminal.screen()
    assert "To get them on your phone" in screen
    assert "FEISHU_APP_ID" not in desk.values()


def test_own_app_is_taken_by_id_and_secret(desk: Desk) -> None:
    desk.platform.add(ADDONS)
    with desk.install() as terminal:
        terminal.wait("Choose [1]:")
        terminal.type("2")
        for secret in ("wrong", APP_SECRET):
            terminal.wait_last("App ID")
            terminal.type(APP_ID)
            terminal.wait_last("App secret")
            terminal.type(secret)
        terminal.wait(f"[{OWNER}, the app's owner]")
        assert "FEISHU_APP_SECRET is wrong" in terminal.screen()
        terminal.keys("Enter")
        desk.finish(terminal)
        assert APP_SECRET not in terminal.screen()
    assert desk.accounts.begins == 0


def test_what_the_scan_left_out_is_named_and_mended_by_one_more(desk: Desk) -> None:
    add, desk.platform.add = desk.platform.add, lambda addons: None  # type: ignore[method-assign]
    desk.platform.scopes = list(SCOPES)
    desk.platform.events = [EVENT]
    with desk.install() as terminal:
        terminal.wait("Choose [1]:")
        terminal.keys("Enter")
        desk.scan(terminal)
        press_enter_until(terminal, "A card is on its way")
        screen = terminal.screen()
        assert "fail: taps do not reach the app" in screen
        assert "install --rescan, or open http" in screen.replace("\n", "")
        terminal.keys("C-c")
        terminal.wait("later: ")
        assert terminal.ended() == 0
    desk.platform.add = add  # type: ignore[method-assign]
    with desk.again("install", "--rescan") as terminal:
        link = desk.scan(terminal)
        assert f"clientID={APP_ID}" in link and "createOnly" not in link
        terminal.wait("A card is on its way")
        desk.tap("收到")
        terminal.wait("Your phone is connected")
        assert "fail:" not in terminal.screen()
        assert terminal.ended() == 0


def test_company_of_larks_is_polled_and_served_at_larks_own_hosts(
    desk: Desk, tmp_path: Path
) -> None:
    """Also: the owner is the app's when the scan names the bot.

    The real names of Lark's hosts, their certificate checked; only the way there is
    a proxy's.
    """
    accounts, platform = "accounts.larksuite.com", "open.larksuite.com"
    desk.accounts.lark_host, desk.accounts.open_id = accounts, BOT
    desk.platform.add(ADDONS)  # the page for Lark takes none from the link
    hosts = {accounts: desk.accounts.url, platform: desk.platform.base_url}
    with Proxy(tmp_path, hosts) as proxy:
        certificate = str(proxy.certificate)
        desk.world = {"HTTPS_PROXY": proxy.url, "FEISHUPERM_CA_FILE": certificate}
        with desk.install() as terminal:
            terminal.wait("Choose [1]:")
            terminal.keys("Enter")
            screen = terminal.wait("in a browser")
            assert proxy.asked == []  # nobody has said yet that it is Lark
            [link] = re.findall(r"Lark: open (\S+) in a browser", screen)
            assert link.startswith(f"https://{platform}/page/cli?user_code=")
            desk.accounts.scan(link)
            desk.finish(terminal)
            assert "fail:" not in terminal.screen() and "warn:" not in terminal.screen()
            assert APP_SECRET not in terminal.screen()
        with desk.again("stop") as terminal:
            terminal.ended()
    assert proxy.asked[0] == accounts and set(proxy.asked) == {accounts, platform}
    values = desk.values()
    assert values["FEISHU_BASE_URL"] == f"https://{platform}"
    assert values["FEISHU_OWNER_ID"] == OWNER
    assert values["FEISHU_APP_SECRET"] == APP_SECRET
