"""An install of the first edition: upgraded without a question, and as it was."""

from __future__ import annotations

from pathlib import Path

import pytest

from feishuperm.commands.install import parser
from feishuperm.models.settings import Settings
from feishuperm.setup import install
from feishuperm.setup.claude_step import ClaudeStep
from feishuperm.setup.install import Install
from tests.first_edition import lay_out

BOT = (
    "https://open.feishu.cn/open-apis/bot/v2/hook/11111111-2222-3333-4444-555555555555"
)


@pytest.fixture
def old(bare: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """A home as the first edition left it, on a terminal where nobody answers."""
    lay_out(Path(bare["HOME"]), BOT, 0)

    def nobody(prompt: str) -> str:
        raise AssertionError(f"asked: {prompt}")

    bare["LANG"] = "en_US.UTF-8"
    monkeypatch.setattr(install, "can_ask", lambda: True)
    monkeypatch.setattr("builtins.input", nobody)
    return bare


def test_nothing_is_asked_and_no_setting_changes(
    old: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    made = Install(parser().parse_args([]), old)
    made.ask()
    assert capsys.readouterr().out == ""
    assert (made.config.new, made.mode) == ({}, "")
    before, after = Settings(made.config.old), made.config.settings()
    assert before.feishu_webhook_url == BOT and not before.url_is_local()
    for name in vars(before):
        assert getattr(after, name) == getattr(before, name), name


def test_settings_file_of_claude_code_stays_as_it_is(old: dict[str, str]) -> None:
    made = Install(parser().parse_args(["--no-service"]), old)
    [step] = [s for s in made.steps() if isinstance(s, ClaudeStep)]
    assert step.changes() == []


def test_confirm_on_a_public_address_is_named(old: dict[str, str]) -> None:
    made = Install(parser().parse_args([]), old)
    [note] = made.config.stricter()
    assert "allow and always now ask on a page first" in note
    assert "CALLBACK_CONFIRM=off" in note
    made.config.old["CALLBACK_SERVER_URL"] = "http://localhost:8080"
    assert made.config.stricter() == []


def test_wait_and_its_end_are_the_specified_ones(old: dict[str, str]) -> None:
    settings = Install(parser().parse_args([]), old).config.settings()
    assert settings.permission_request_timeout == 55
    assert settings.permission_timeout_action == "deny"
    assert settings.permission_hold == 0
