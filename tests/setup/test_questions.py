"""A person on a terminal is asked until the answer works, and can always skip."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from feishuperm.commands.install import parser
from feishuperm.lib import feishu
from feishuperm.lib.feishu import SendResult
from feishuperm.setup import questions
from feishuperm.setup.app_setup import AppSetup
from feishuperm.setup.manifest import Manifest
from feishuperm.setup.questions import Questions
from feishuperm.setup.wanted_config import WantedConfig


def asking(environ: dict[str, str], *args: str) -> Questions:
    """The questions of an install with these arguments."""
    options = parser().parse_args(args)
    config = WantedConfig(options, environ)
    app = AppSetup(config, Manifest(environ), options, lambda: "feishuperm")
    return Questions(config, app)


def test_given_bot_that_fails_is_asked_for_again_on_a_terminal(
    bare: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    bot = "https://open.feishu.cn/open-apis/bot/v2/hook/"
    config = Path(bare["HOME"], ".config/feishuperm/config.env")
    config.parent.mkdir(parents=True)
    config.write_text(f"FEISHU_WEBHOOK_URL={bot}old\nFEISHU_WEBHOOK_SECRET=old\n")
    sent: list[tuple[str, str]] = []

    def send(url: str, card: object, secret: str, post: object) -> SendResult:
        sent.append((url, secret))
        return SendResult(url == f"{bot}good", 0, "no such bot")

    monkeypatch.setattr(feishu, "send_feishu_card", send)
    for stream in (sys.stdin, sys.stdout):
        monkeypatch.setattr(stream, "isatty", lambda: True)
    answers = iter([f"{bot}good", "n"])
    monkeypatch.setattr("builtins.input", lambda prompt: next(answers))
    monkeypatch.setattr(questions.getpass, "getpass", lambda prompt: "")
    made = asking(bare, "--webhook", f"{bot}bad")
    assert questions.can_ask()
    made.ask(about_place=False, about_mode=True)
    assert sent == [(f"{bot}bad", "old"), (f"{bot}good", "")]
    assert (
        made.tried
        and made.mode == ""
        and made.config.new["FEISHU_WEBHOOK_URL"] == f"{bot}good"
    )


def test_ctrl_d_ends_the_questions(
    bare: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def gone(prompt: str) -> str:
        raise EOFError

    monkeypatch.setattr("builtins.input", gone)
    made = asking(bare)
    made.ask(about_place=True, about_mode=True)
    assert (made.mode, made.tried, made.config.new) == ("", False, {})


def test_mode_is_changed_by_a_yes_only(
    bare: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for answer, mode in (("y", "default"), ("", ""), ("no", "")):
        answers = iter(["4", answer])
        monkeypatch.setattr("builtins.input", lambda prompt: next(answers))  # noqa: B023
        made = asking(bare)
        made.ask(about_place=True, about_mode=True)
        assert made.mode == mode


def test_answer_of_feishus_cannot_play_with_the_terminal(
    bare: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    answers = iter(["3", "https://open.feishu.cn/open-apis/bot/v2/hook/x", ""])
    monkeypatch.setattr("builtins.input", lambda prompt: next(answers))
    monkeypatch.setattr(questions.getpass, "getpass", lambda prompt: "")
    monkeypatch.setattr(questions, "send_test", lambda settings: "\x1b[2J no")
    asking(bare).ask(about_place=True, about_mode=False)
    assert "\x1b" not in capsys.readouterr().out
