"""A scan on a terminal, whatever happens: an app, a clear sentence, or a clean stop."""

from __future__ import annotations

import json
import os
import random
import signal
import stat
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from feishuperm.errors import FeishupermError, FileError
from feishuperm.lib.post import Call, Reply, call
from feishuperm.setup import scan as scans
from feishuperm.setup.scan import (
    APPS,
    FILE,
    LARK_ACCOUNTS,
    LOST,
    Created,
    Ended,
    Scan,
    Screen,
    ink,
)
from tests.fakes.feishu_registration import CUT, Registration
from tests.tables import every_row, full

HOST = "http://127.0.0.1:9"
SECRET = "SECRETsecretSECRETsecret"
CODE = "DEVICEcode"
PENDING = {"error": "authorization_pending", "code": 20094}
APP = {"client_id": "cli_a1", "client_secret": SECRET, "user_info": {"open_id": "ou_1"}}
Step = Any  # a body, an exception, or (a body, an exception that hides it)


class Killed(BaseException):
    """The process is gone."""


class World:
    """Feishu's host, the wall clock and the disk of one machine."""

    def __init__(self, folder: Path, *steps: Step) -> None:
        self.folder = folder
        self.steps = list(steps)
        self.now = 1_000_000.0
        self.begins = 0
        self.hosts: list[str] = []
        self.saved: list[Created] = []
        self.sleeps: list[BaseException] = []  # what the next pauses end with
        self.handed_out = False

    def post(self, call: Call) -> Reply:
        self.hosts.append(call.url.partition("/oauth")[0])
        if call.body.startswith(b"action=begin"):
            self.begins += 1
            self.handed_out = False
            link = "https://open.feishu.cn/page/launcher?user_code=AB-CD"
            code = {"device_code": CODE, "verification_uri_complete": link,
                    "expires_in": 900, "interval": 5}  # fmt: skip
            return self._reply(code, 200)
        step = self.steps.pop(0) if self.steps else PENDING
        hidden = None
        if isinstance(step, tuple):
            step, hidden = step
        if isinstance(step, BaseException):
            raise step
        if self.handed_out:
            step = {"error": "invalid_grant", "code": 20079}
        self.handed_out = self.handed_out or step is APP
        if hidden is not None:
            raise hidden
        return self._reply(step, 400)

    @staticmethod
    def _reply(body: object, status: int) -> Reply:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        return Reply(status, {}, data)

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        if self.sleeps and random.Random(self.now).random() < 0.3:
            raise self.sleeps.pop(0)

    def save(self, created: Created) -> None:
        self.saved.append(created)

    def run(self, app_id: str = "", screen: Screen | None = None) -> Created:
        made = Scan(
            HOST, str(self.folder), self.save, screen or Screen({}, ""), self.post,
            lambda: self.now, self.sleep,
        )  # fmt: skip
        return made.run(app_id)

    @property
    def pending(self) -> Path:
        return self.folder / FILE


def test_secret_is_kept_and_the_code_forgotten(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    world = World(tmp_path, PENDING, PENDING, APP)
    created = world.run()
    assert world.saved == [created] and created.secret == SECRET
    assert world.now == 1_000_015
    assert not world.pending.exists()
    said = capsys.readouterr().out
    assert SECRET not in said and CODE not in said
    assert "app cli_a1 created" in said


def test_code_is_kept_for_this_user_alone(tmp_path: Path) -> None:
    world = World(tmp_path, KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        world.run()
    assert stat.S_IMODE(world.pending.stat().st_mode) == 0o600


@pytest.mark.parametrize("end", [KeyboardInterrupt(), Killed()])
@pytest.mark.parametrize("moment", ["pause", "question"])
def test_stopped_scan_goes_on_with_the_same_link(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    end: BaseException,
    moment: str,
) -> None:
    world = World(tmp_path, *([end] if moment == "question" else []))
    world.sleeps = [end] if moment == "pause" else []
    with pytest.raises(type(end)):
        world.run()
    said = capsys.readouterr().out
    assert ("run install again" in said) == isinstance(end, KeyboardInterrupt)
    world.steps = [APP]
    before = world.now
    assert world.run().secret == SECRET
    assert world.begins == 1
    assert world.now == before, "the first question comes at once"
    assert "continuing with the scan" in capsys.readouterr().out


def test_app_whose_secret_went_astray_is_spoken_of(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    world = World(tmp_path, (APP, OSError("cut")))
    with pytest.raises(Ended) as ended:
        world.run()
    assert ended.value.hint == LOST
    assert not world.pending.exists()
    world.steps = [APP]
    assert world.run().secret == SECRET and world.begins == 2


def test_other_scan_that_was_not_finished_is_spoken_of(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    world = World(tmp_path, KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        world.run()
    world.steps = [APP]
    world.run("cli_a1")
    assert LOST in capsys.readouterr().out
    assert world.begins == 2


@pytest.mark.parametrize("data", [b"{", b"[]", b'{"host": 1}', b'{"x": NaN}'])
def test_kept_code_that_cannot_be_read_is_spoken_of(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], data: bytes
) -> None:
    world = World(tmp_path, APP)
    world.pending.write_bytes(data)
    world.run()
    assert LOST in capsys.readouterr().out and world.begins == 1


def test_secret_that_cannot_be_kept_is_said_with_where_it_is(tmp_path: Path) -> None:
    world = World(tmp_path, APP)

    def full(created: Created) -> None:
        raise FileError("cannot write config.env: No space left on device")

    world.save = full  # type: ignore[method-assign]
    with pytest.raises(FeishupermError) as error:
        world.run()
    assert "cli_a1 was created" in str(error.value) and SECRET not in str(error.value)
    assert f"{APPS}/cli_a1/baseinfo" in error.value.hint


def test_host_that_cannot_be_reached_is_one_sentence(tmp_path: Path) -> None:
    world = World(tmp_path)

    def refuse(call: Call) -> Reply:
        raise OSError("accounts.feishu.cn: Connection refused")

    world.post = refuse  # type: ignore[method-assign]
    with pytest.raises(FeishupermError, match="cannot get a link: accounts") as error:
        world.run()
    assert "id and secret" in error.value.hint
    assert not world.pending.exists()


def test_lark_company_is_asked_about_at_larks_host(tmp_path: Path) -> None:
    world = World(tmp_path, {**PENDING, "user_info": {"tenant_brand": "lark"}}, APP)
    assert world.run().is_lark
    assert world.hosts[-1] == LARK_ACCOUNTS


def test_interrupt_during_the_last_answer_loses_nothing(tmp_path: Path) -> None:
    world = World(tmp_path, APP)
    post = world.post

    def interrupted(call: Call) -> Reply:
        answer = post(call)
        if b"poll" in call.body:
            os.kill(os.getpid(), signal.SIGINT)
        return answer

    world.post = interrupted  # type: ignore[method-assign]
    with pytest.raises(KeyboardInterrupt):
        world.run()
    assert [created.secret for created in world.saved] == [SECRET]


def test_every_trouble_of_a_real_network_is_waited_out(tmp_path: Path) -> None:
    world = World(tmp_path)
    with Registration() as host:
        host.lifetime = {"expire_in": 700}
        host.script.extend(
            [
                (200, CUT),
                (502, b"<html>bad gateway</html>"),
                (200, b"<html>log in to the wireless network</html>"),
                (400, {"error": "slow_down"}),
                (400, PENDING),
                (200, {}),
            ]
        )
        scan = Scan(
            host.url, str(tmp_path), world.save, Screen({}, ""), call,
            lambda: world.now, world.sleep,
        )  # fmt: skip
        host.confirmed = True
        before = world.now
        with pytest.raises(Ended) as ended:  # nobody confirms the new code
            scan.run()
        assert ended.value.kind == "expired" and world.now >= before + 700
        assert host.polls > 10 and world.saved == []
        host.script.append((200, host.app()))
        assert scan.run().secret == world.saved[0].secret


def test_link_that_no_host_gives_is_one_sentence(tmp_path: Path) -> None:
    world = World(tmp_path)
    with Registration() as host:
        url = host.url
    scan = Scan(url, str(tmp_path), world.save, Screen({}, ""), call)
    with pytest.raises(FeishupermError, match=r"cannot get a link: 127\.0\.0\.1: "):
        scan.run()


# Any script at all.

LARK_SWITCH = {**PENDING, "user_info": {"tenant_brand": "lark"}}
STEPS: list[tuple[int, Callable[[], Step]]] = [
    (8, lambda: PENDING),
    (3, lambda: {"error": "slow_down"}),
    (2, lambda: LARK_SWITCH),
    (2, lambda: {}),
    (1, lambda: {"client_id": "cli_a1", "client_secret": ""}),
    (3, lambda: OSError("connection reset")),
    (2, lambda: b"<html>captive portal</html>"),
    (1, lambda: (PENDING, OSError("cut"))),
    (1, lambda: (APP, OSError("cut"))),
    (1, lambda: (APP, Killed())),
    (1, lambda: Killed()),
    (3, lambda: APP),
    (1, lambda: {"error": "access_denied"}),
    (1, lambda: {"error": "expired_token"}),
    (1, lambda: {"error": "server_error", "error_description": "x\x1b[2J"}),
]


@pytest.mark.parametrize("part", [0, *full(range(1, 10))])
def test_a_thousand_random_scripts_end_well(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], part: int
) -> None:
    weights, makers = zip(*STEPS)
    ends: dict[str, int] = {}
    for seed in range(part * 100, part * 100 + 100):
        dice = random.Random(seed)
        chosen = dice.choices(makers, weights, k=dice.randrange(12))
        world = World(tmp_path, *(make() for make in chosen))
        world.sleeps = [
            dice.choice([KeyboardInterrupt(), Killed()])
            for _ in range(dice.randrange(4))
        ]
        world.pending.unlink(missing_ok=True)
        how, said = brought_to_an_end(world, capsys)
        ends[how] = ends.get(how, 0) + 1
        assert SECRET not in said and CODE not in said, seed
        assert "\x1b[2J" not in said, seed
        assert (how == "app") == bool(world.saved), seed
        if how != "app":
            assert LOST in said, f"{seed}: an app may be there and nobody says so"
        assert not world.pending.exists(), seed
    assert set(ends) == {"app", "denied", "expired", "failed"}


def brought_to_an_end(
    world: World, capsys: pytest.CaptureFixture[str]
) -> tuple[str, str]:
    """Run as often as it is cut off; how it ended, and all that was said."""
    said = ""
    while True:
        try:
            world.run(screen=Screen({}, ""))
            how = "app"
        except Ended as error:
            how, said = error.kind, f"{said}{error}\n{error.hint}\n"
        except (KeyboardInterrupt, Killed):
            how = ""
        said += "".join(capsys.readouterr())
        if how:
            return how, said


# What is seen.


def shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], screen: Screen
) -> list[str]:
    World(tmp_path, APP).run(screen=screen)
    return capsys.readouterr().out.splitlines()


@pytest.fixture
def sized(monkeypatch: pytest.MonkeyPatch) -> Callable[[int, int], None]:
    def size(columns: int, rows: int) -> None:
        value = os.terminal_size((columns, rows))
        monkeypatch.setattr(scans.shutil, "get_terminal_size", lambda: value)

    return size


def screen_of(tmp_path: Path, **environ: str) -> Screen:
    return Screen({"TERM": "xterm", **environ}, str(tmp_path / "scan.svg"))


def test_link_stands_above_its_code_and_only_the_countdown_below(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    sized: Callable[[int, int], None],
) -> None:
    sized(80, 40)
    lines = shown(tmp_path, capsys, screen_of(tmp_path))
    link = next(n for n, line in enumerate(lines) if line.startswith("https://open.f"))
    code = [n for n, line in enumerate(lines) if "▀" in line]
    assert link < code[0] and not (tmp_path / "scan.svg").exists()
    drawn = [n for n, line in enumerate(lines) if line.startswith("\x1b[38")]
    assert len(drawn) < 40 and lines[drawn[-1] + 1].startswith("waiting for your scan")


@pytest.mark.parametrize("size", [(60, 60), (80, 24), (72, 60), (80, 37)])
def test_terminal_too_small_for_the_code_gets_link_picture_and_hint(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    sized: Callable[[int, int], None],
    size: tuple[int, int],
) -> None:
    sized(*size)
    text = "\n".join(shown(tmp_path, capsys, screen_of(tmp_path)))
    picture = tmp_path / "scan.svg"
    assert "▀" not in text and "https://open.feishu.cn/page/" in text
    assert f"the QR code is in {picture}" in text
    assert text.index("https://") < text.index("make the window at least 73 columns by")
    assert picture.read_text().startswith("<svg")
    assert stat.S_IMODE(picture.stat().st_mode) == 0o600


def test_window_that_grows_gets_the_code(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    sized: Callable[[int, int], None],
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    sized(80, 24)
    world = World(tmp_path, PENDING, APP)
    sleep = world.sleep

    def grow(seconds: float) -> None:
        sized(100, 50)
        sleep(seconds)

    monkeypatch.setattr(world, "sleep", grow)
    world.run(screen=screen_of(tmp_path))
    small, cleared, large = capsys.readouterr().out.partition("\x1b[H\x1b[2J")
    assert cleared and "▀" not in small
    assert "▀" in large and "make the window" not in large
    assert "\x1b[2J" not in large  # drawn again once, not with every tick


def test_code_can_be_left_out_or_drawn_to_a_file(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    sized: Callable[[int, int], None],
) -> None:
    sized(200, 60)
    assert "▀" not in "\n".join(shown(tmp_path, capsys, Screen({}, "")))
    picture = tmp_path / "code.svg"
    lines = shown(tmp_path, capsys, Screen({}, str(picture), draws=False))
    assert f"the QR code is in {picture}" in lines and "▀" not in "\n".join(lines)
    assert "make the window" not in "\n".join(lines)
    assert picture.read_text().startswith("<svg")
    assert stat.S_IMODE(picture.stat().st_mode) == 0o600


def test_terminal_without_the_blocks_gets_the_link_alone(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    sized: Callable[[int, int], None],
) -> None:
    sized(200, 60)
    monkeypatch.setattr(scans, "can_show", lambda text: False)
    assert "▀" not in "\n".join(shown(tmp_path, capsys, screen_of(tmp_path)))


@every_row(
    ("environ", "expected"),
    [
        ({"TERM": "xterm-256color"}, "colour"),
        ({"TERM": "xterm", "NO_COLOR": "1"}, "light"),
        ({"TERM": "xterm", "NO_COLOR": "1", "COLORFGBG": "0;15"}, "dark"),
        ({"TERM": "dumb", "COLORFGBG": "15;0"}, "light"),
        ({}, "light"),
    ],
)
def test_code_is_drawn_for_the_ground_it_stands_on(
    environ: dict[str, str], expected: str
) -> None:
    assert ink(environ) == expected
