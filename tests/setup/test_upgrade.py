"""An install of the first edition: upgraded without a question, and as it was."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from feishuperm.commands.install import parser
from feishuperm.models.settings import Settings
from feishuperm.setup import install
from feishuperm.setup.claude_step import ClaudeStep
from feishuperm.setup.install import Install

BOT = (
    "https://open.feishu.cn/open-apis/bot/v2/hook/11111111-2222-3333-4444-555555555555"
)
OLD = {
    "FEISHU_WEBHOOK_URL": BOT,
    "FEISHU_WEBHOOK_SECRET": "s3cret",
    "CALLBACK_SERVER_URL": "https://perm.example",
    "CALLBACK_SERVER_PORT": "0",
    "PERMISSION_SOCKET_PATH": "/tmp/feishuperm-old.sock",
}


@pytest.fixture
def old(bare: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """A home as the first edition left it, on a terminal where nobody answers."""
    home = Path(bare["HOME"])
    config = home / ".config/feishuperm/config.env"
    config.parent.mkdir(parents=True)
    config.write_text("".join(f"{key}={value}\n" for key, value in OLD.items()))
    link = home / ".local/bin/feishuperm-hook"
    entry = {"type": "command", "command": str(link), "timeout": 60}
    settings = home / ".claude/settings.json"
    settings.parent.mkdir()
    groups = [{"matcher": "*", "hooks": [entry]}]
    settings.write_text(json.dumps({"hooks": {"PermissionRequest": groups}}))
    state = home / ".local/state/feishuperm/install.json"
    state.parent.mkdir(parents=True)
    program = {"links": [str(link)], "prefix": str(home / ".local")}
    record = {"path": str(settings), "commands": [str(link)], "written": []}
    state.write_text(json.dumps({"program": program, f"settings:{settings}": record}))

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
    before, after = Settings(OLD), made.config.settings()
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
