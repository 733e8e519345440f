"""Cards that a hook sends by itself: without buttons, and nothing more than wanted."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from feishuperm.lib import post
from feishuperm.lib.post import Call, Reply
from feishuperm.models.settings import Settings
from feishuperm.services import notices
from feishuperm.services.notices import send_static_card, tell_unreadable
from feishuperm.services.quiet import QuietHours
from tests.asks import ID, payload_of
from tests.fakes.feishu import every_url

URL = "https://open.feishu.cn/open-apis/bot/v2/hook/TOKEN"
PROJECT = "/home/me/secret-project"


class Feishu:
    """Takes every card, and the certificates that were trusted for it."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.sent: list[str] = []
        self.trusted: list[str] = []
        self.refuses = 0
        patch.setattr(post, "call", self._call)
        patch.setenv("CLAUDE_PROJECT_DIR", PROJECT)

    def _call(
        self, request: Call, timeout: float, environ: Mapping[str, str], ca_file: str
    ) -> Reply:
        self.sent.append(json.dumps(json.loads(request.body), ensure_ascii=False))
        self.trusted.append(ca_file)
        code = 11246 if len(self.sent) <= self.refuses else 0
        return Reply(200, {}, json.dumps({"code": code, "msg": "m"}).encode())


@pytest.fixture
def feishu(monkeypatch: pytest.MonkeyPatch) -> Feishu:
    return Feishu(monkeypatch)


def settings(**values: str) -> Settings:
    return Settings({"FEISHU_WEBHOOK_URL": URL, **values})


def send(**values: str) -> None:
    send_static_card(
        payload_of("Bash", {"command": "npm test"}), ID, settings(**values)
    )


def test_card_shows_the_call_and_has_no_button(feishu: Feishu) -> None:
    send()
    (card,) = feishu.sent
    assert "npm test" in card and "secret-project" in card and ID in card
    assert every_url(json.loads(card)["card"]) == []


def test_refused_card_is_sent_in_a_plainer_form(feishu: Feishu) -> None:
    feishu.refuses = 1
    send()
    assert len(feishu.sent) == 2


@pytest.mark.parametrize(
    "values", [{"FEISHU_WEBHOOK_URL": ""}, {"FEISHUPERM_NOTIFY": "question"}]
)
def test_without_a_bot_or_a_wish_nothing_is_sent(
    feishu: Feishu, values: dict[str, str]
) -> None:
    send(**values)
    assert feishu.sent == []


def test_title_card_carries_nothing_of_the_call(feishu: Feishu) -> None:
    send(FEISHUPERM_CARD="title")
    tell_unreadable(settings(FEISHUPERM_CARD="title"))
    assert len(feishu.sent) == 2
    for word in ("npm test", "secret-project"):
        assert word not in "".join(feishu.sent)


def test_request_that_cannot_be_read_is_told_with_its_project(feishu: Feishu) -> None:
    tell_unreadable(settings())
    (card,) = feishu.sent
    assert "secret-project" in card
    tell_unreadable(settings(FEISHU_WEBHOOK_URL=""))
    assert len(feishu.sent) == 1


def test_certificates_of_a_company_are_trusted(feishu: Feishu, tmp_path: Path) -> None:
    ca_file = str(tmp_path / "ca.pem")
    send(FEISHUPERM_CA_FILE=ca_file)
    tell_unreadable(settings(FEISHUPERM_CA_FILE=ca_file))
    assert feishu.trusted == [ca_file, ca_file]


@pytest.mark.parametrize(("hours", "count"), [((0, 1439), 0), (None, 2)])
def test_hook_sends_nothing_in_quiet_hours(
    feishu: Feishu, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, hours: Any,
    count: int,
) -> None:  # fmt: skip
    monkeypatch.setattr(
        notices, "quiet_hours", lambda settings: QuietHours(hours, "", lambda: 1e9)
    )
    send()
    tell_unreadable(settings())
    assert len(feishu.sent) == count
