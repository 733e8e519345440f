"""From a fresh home to a tap on the phone: a real terminal, one scan, Enter otherwise.

The link is read off the terminal's QR code by an independent decoder, as a phone does.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import ROOT, clean_env, free_port, need, wait_until
from tests.fakes.feishu import APP_SECRET
from tests.fakes.feishu_app import OWNER
from tests.fakes.feishu_registration import Platform, Registration
from tests.terminal import THEMES, Terminal, read_codes

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

    def environ(self) -> dict[str, str]:
        return clean_env(
            self.home,
            FEISHU_ACCOUNTS_URL=self.accounts.url,
            FEISHU_BASE_URL=self.platform.base_url,
        )

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
        (link,) = read_codes([terminal.picture(THEMES["dark"])])
        self.accounts.scan(link.decode())
        return link.decode()

    def tap(self, label: str = "批准运行") -> None:
        """Tap the test card."""
        wait_until(lambda: self.platform.app_messages)
        tapped = self.platform.tap(self.platform.last, label)
        assert tapped.ok, tapped

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


def test_scan_and_tap_with_enter_to_everything(desk: Desk) -> None:
    began = time.monotonic()
    with desk.install() as terminal:
        terminal.wait("Choose [1]:")
        terminal.keys("Enter")
        desk.scan(terminal)
        questions = answer_the_rest(terminal, "a card is on its way")
        desk.tap()
        screen = terminal.wait("the way to the phone works")
        took = time.monotonic() - began
        assert terminal.ended() == 0
        screen = terminal.screen()
    print(f"\nfrom ./install.sh to the answered card: {took:.1f} s")
    assert questions <= 3
    assert APP_SECRET not in screen
    assert f"tap of {OWNER} came" in screen
    assert "fail:" not in screen and "warn:" not in screen
    values = desk.values()
    assert values["FEISHU_APP_SECRET"] == APP_SECRET
    assert values["FEISHU_OWNER_ID"] == OWNER
    assert desk.config.stat().st_mode & 0o777 == 0o600
    assert not desk.pending.exists()
    (query,) = desk.accounts.scanned
    assert query["createOnly"] == ["true"]


def answer_the_rest(terminal: Terminal, until: str) -> int:
    """Press Enter at every question that follows; how many there were."""
    asked = 0
    while True:
        screen = terminal.screen().rstrip()
        if until in screen:
            return asked
        if screen.endswith("]") and screen.count("]") > asked:
            asked = screen.count("]")
            terminal.keys("Enter")
        time.sleep(0.05)
