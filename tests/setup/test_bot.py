"""A test card says whether the bot takes cards, and what it said if not."""

from __future__ import annotations

import json

import pytest

from feishuperm.lib.post import Reply
from feishuperm.models.settings import Settings
from feishuperm.setup import bot
from feishuperm.setup.bot import send_hello, send_test

URL = "https://open.feishu.cn/open-apis/bot/v2/hook/x"


@pytest.mark.parametrize(("code", "good"), [(0, True), (19001, False)])
def test_problem_is_what_feishu_said(
    monkeypatch: pytest.MonkeyPatch, code: int, good: bool
) -> None:
    sent: list[tuple[str, bytes]] = []

    def post(url: str, body: bytes) -> Reply:
        sent.append((url, body))
        return Reply(200, {}, json.dumps({"code": code, "msg": "no bot"}).encode())

    settings = Settings({"FEISHU_WEBHOOK_URL": URL, "FEISHU_WEBHOOK_SECRET": "s"})
    assert send_hello(settings, post).ok == good
    [(url, body)] = sent
    assert url == URL and {"sign", "timestamp"} <= set(json.loads(body))
    monkeypatch.setattr(bot, "send_hello", lambda settings: send_hello(settings, post))
    assert (send_test(settings) == "") == good
