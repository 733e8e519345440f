"""Quiet hours end to end: nothing leaves, nothing is denied, a word ends them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import wait_until
from tests.e2e.test_app import app_settings, sent
from tests.fakes.feishu import FakeFeishu
from tests.fakes.feishu_app import FakePlatform
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
