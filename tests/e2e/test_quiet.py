"""Quiet hours end to end: nothing leaves, nothing is denied, a word ends them."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import wait_until
from tests.e2e.test_app import app_settings, sent
from tests.fakes.feishu import FakeFeishu, Refusal
from tests.fakes.feishu_app import OWNER, PIN_SCOPE, STRANGER, FakePlatform
from tests.served import Served, decision, event, finish


@pytest.fixture
def feishu() -> Iterator[FakePlatform]:
    with FakePlatform() as platform:
        yield platform


def hours(begin: float, end: float) -> str:
    """Quiet hours from and to so many hours from now, by this machine's clock."""
    moments = (time.localtime(time.time() + shift * 3600) for shift in (begin, end))
    return "-".join(time.strftime("%H:%M", moment) for moment in moments)


def settings(feishu: FakePlatform, **more: str) -> dict[str, str]:
    return {**app_settings(feishu), "FEISHUPERM_QUIET": hours(-2, 2), **more}


def test_night_is_silent_denies_nothing_and_ends_by_a_word(
    pyz: Path, tmp_path: Path, feishu: FakePlatform
) -> None:
    wants = settings(feishu, PERMISSION_REQUEST_TIMEOUT="2")
    with Served(pyz, tmp_path, **wants) as served:
        wait_until(lambda: feishu.connections.open)
        status = served.status()
        assert status is not None and status["quiet"]["until"] > time.time()
        assert status["quiet"]["hours"] == wants["FEISHUPERM_QUIET"]
        with served.watched():  # the inbox shows it
            assert "免打扰时段" in served.get("/").text
            hook = served.hook(event())
            wait_until(served.waiting)
            assert finish(hook) == ""  # left to the terminal, not denied
        assert feishu.app_messages == {}
        feishu.say("状态")  # what a person asks is answered
        wait_until(lambda: feishu.replies)
        feishu.say("恢复")
        wait_until(lambda: len(feishu.replies) == 2)
        assert "今晚" in json.dumps(feishu.replies[-1], ensure_ascii=False)
    entry = served.ledger()[-1]
    assert (entry["state"], entry["denied"]) == ("expired", False)
    # A new server knows that this night is over.
    wants["PERMISSION_REQUEST_TIMEOUT"] = "55"
    with Served(pyz, tmp_path, **wants) as served:
        wait_until(lambda: len(feishu.connections.open) == 1)
        hook = served.hook(event())
        assert feishu.tap(sent(feishu, 3), "批准运行").ok
        assert decision(finish(hook)) == {"behavior": "allow"}


def test_pending_request_gets_its_card_when_the_night_is_ended(
    pyz: Path, tmp_path: Path, feishu: FakePlatform
) -> None:
    with Served(pyz, tmp_path, **settings(feishu)) as served:
        wait_until(lambda: feishu.connections.open)
        hook = served.hook(event())
        wait_until(served.waiting)
        assert feishu.app_messages == {}
        feishu.say("on")
        assert feishu.tap(sent(feishu), "批准运行").ok
        assert decision(finish(hook)) == {"behavior": "allow"}


def test_hook_without_a_server_sends_its_card_by_day_alone(
    pyz: Path, tmp_path: Path
) -> None:
    with FakeFeishu() as bot:
        for quiet, count in ((hours(-2, 2), 0), (hours(2, 3), 1)):
            environ = {
                **{key: os.environ[key] for key in ("PATH",)},
                "HOME": str(tmp_path),
                "FEISHU_WEBHOOK_URL": bot.webhook_url,
                "PERMISSION_SOCKET_PATH": str(tmp_path / "none.sock"),
                "FEISHUPERM_QUIET": quiet,
            }
            hook = subprocess.run(
                [sys.executable, str(pyz), "hook"],
                input=json.dumps(event()).encode(),
                env=environ,
                capture_output=True,
                timeout=60,
            )
            assert (hook.returncode, hook.stdout) == (0, b"")
            assert len(bot.messages) == count


# Noticed: the chat on top of the list, and what was read.


def test_pending_card_keeps_the_chat_on_top_and_a_killed_server_leaves_it_nowhere(
    pyz: Path, tmp_path: Path, feishu: FakePlatform
) -> None:
    feishu.granted.append(PIN_SCOPE)
    with Served(pyz, tmp_path, **app_settings(feishu)) as served:
        wait_until(lambda: feishu.connections.open)
        hook = served.hook(event())
        message = sent(feishu)
        wait_until(lambda: feishu.pinned == {OWNER})
        feishu.pin_refusals.append(Refusal(99991400, "request trigger limit", 429))
        assert feishu.tap(message, "批准运行").ok
        assert decision(finish(hook)) == {"behavior": "allow"}
        wait_until(lambda: feishu.pinned == set())  # though it was refused at first
        hook = served.hook(event())
        sent(feishu, 2)
        wait_until(lambda: feishu.pinned == {OWNER})
        served.kill()
        hook.kill()
        hook.wait()
        assert feishu.pinned == {OWNER}
        served.start()
        hook = served.hook(event())
        sent(feishu, 3)
        served.stop()  # what is pending is left to the terminal
        assert feishu.pinned == set()


def test_app_without_the_permission_shows_cards_all_the_same(
    pyz: Path, tmp_path: Path, feishu: FakePlatform
) -> None:
    with Served(pyz, tmp_path, **app_settings(feishu)) as served:
        wait_until(lambda: feishu.connections.open)
        for count in (1, 2):
            hook = served.hook(event())
            assert feishu.tap(sent(feishu, count), "批准运行").ok
            assert decision(finish(hook)) == {"behavior": "allow"}
        status = served.status()
        assert status is not None and feishu.pins == []
        assert [row["state"] for row in status["channels"]] == ["up", "up"]


def test_card_that_was_read_says_so_everywhere_and_is_not_reminded_of(
    pyz: Path, tmp_path: Path, feishu: FakePlatform
) -> None:
    feishu.tells_reading = True
    wants = app_settings(feishu)
    wants.update(PERMISSION_REQUEST_TIMEOUT="8", FEISHU_URGENT="app")
    with Served(pyz, tmp_path, **wants) as served:
        wait_until(lambda: feishu.connections.open)
        hook = served.hook(event())
        message = sent(feishu)
        feishu.read(message, who=STRANGER)
        feishu.read("om_other")
        (waiting,) = (served.status() or {})["waiting"]
        assert waiting["seen"] is None  # it is told, and was not read
        assert "not seen" in command(served, "status")
        answer = feishu.read(message)
        assert answer is not None and answer["code"] == 200
        moment = wait_until(lambda: (served.status() or {})["waiting"][0]["seen"])
        read = time.strftime("%H:%M", time.localtime(moment))
        assert f"seen {read}" in command(served, "status")
        assert f"已读 {read}" in served.get("/").text
        assert finish(hook)  # nobody answered: seen is no answer, and stops no clock
        assert feishu.replies == [] and feishu.urged == []
        wait_until(lambda: f"(seen {read})" in command(served, "log"))
        assert served.ledger()[-1]["seen"] == pytest.approx(moment, abs=0.01)


def command(served: Served, name: str) -> str:
    """What a command prints, in English."""
    environ = {**served.environ, "FEISHUPERM_LANG": "en"}
    run = subprocess.run(
        [served.pyz, name], env=environ, capture_output=True, text=True, timeout=60
    )
    assert run.returncode == 0, run.stderr
    return run.stdout


def test_test_card_is_sent_at_night_from_a_terminal_and_says_that_it_is_quiet(
    pyz: Path, tmp_path: Path, feishu: FakePlatform
) -> None:
    with Served(pyz, tmp_path, **settings(feishu)) as served:
        wait_until(lambda: feishu.connections.open)
        environ = {**served.environ, "FEISHUPERM_LANG": "en"}
        words = [served.pyz, "test-card"]
        refused = subprocess.run(
            words, env=environ, capture_output=True, text=True, timeout=60
        )
        assert refused.returncode == 1 and "quiet hours" in refused.stderr
        assert feishu.app_messages == {}
        screen, terminal = pty.openpty()
        try:
            test = subprocess.Popen(words, env=environ, stdin=terminal, stdout=terminal)
            assert feishu.tap(sent(feishu), "收到").ok
            assert test.wait(60) == 0
            assert "quiet hours" in os.read(screen, 10_000).decode()
        finally:
            os.close(screen)
            os.close(terminal)
