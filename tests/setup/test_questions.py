"""A person on a terminal is asked until the answer works, and can always skip."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from feishuperm.commands.install import parser
from feishuperm.errors import FeishupermError
from feishuperm.lib import feishu
from feishuperm.lib.feishu import SendResult
from feishuperm.lib.terminal import can_ask
from feishuperm.models.settings import Settings
from feishuperm.setup import feishu_setup
from feishuperm.setup.feishu_setup import (
    IN_NETWORK,
    Address,
    AppSetup,
    Questions,
    WantedConfig,
)
from feishuperm.setup.steps import Manifest


@pytest.fixture(autouse=True)
def no_address(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is asked must not depend on the machine the tests run on."""
    monkeypatch.setattr(feishu_setup, "addresses", lambda: [])


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
    answers = iter([f"{bot}good", "3"])
    monkeypatch.setattr("builtins.input", lambda prompt: next(answers))
    monkeypatch.setattr(feishu_setup.getpass, "getpass", lambda prompt: "")
    made = asking(bare, "--webhook", f"{bot}bad")
    assert can_ask()
    made.ask(about_place=False, about_mode=True)
    assert sent == [(f"{bot}bad", "old"), (f"{bot}good", "")]
    assert (
        made.bot.tried
        and made.mode == ""
        and made.config.new["FEISHU_WEBHOOK_URL"] == f"{bot}good"
    )


def test_given_bot_that_was_refused_is_not_written_when_the_person_gives_up(
    bare: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    refusal = SendResult(False, feishu.BAD_SIGN, "no")
    monkeypatch.setattr(feishu_setup.checks, "send_hello", lambda settings: refusal)
    monkeypatch.setattr("builtins.input", lambda prompt: "")
    monkeypatch.setattr(feishu_setup.getpass, "getpass", lambda prompt: "")
    url = "https://open.feishu.cn/open-apis/bot/v2/hook/x"
    made = asking(bare, "--webhook", url, "--secret", "wrong", "--lang", "en")
    made.ask(about_place=False, about_mode=False)
    assert made.config.new == {"FEISHUPERM_LANG": "en"}


def test_ctrl_d_ends_the_questions(
    bare: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def gone(prompt: str) -> str:
        raise EOFError

    monkeypatch.setattr("builtins.input", gone)
    made = asking(bare)
    made.ask(about_place=True, about_mode=True)
    assert (made.mode, made.bot.tried, made.config.new) == ("", False, {})


@pytest.mark.parametrize(
    ("answers", "mode", "wants_list"),
    [
        (["2"], "default", False),
        ([""], "", True),
        (["1"], "", True),
        (["3"], "", False),
        (["?", "x", "3"], "", False),
    ],
)
def test_what_is_asked_about_is_one_question(
    bare: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    answers: list[str],
    mode: str,
    wants_list: bool,
) -> None:
    rest, _ = answering(monkeypatch, "4", *answers)
    made = asking(bare)
    made.ask(about_place=True, about_mode=True)
    assert (made.mode, made.wants_list, rest) == (mode, wants_list, [])
    shown = capsys.readouterr().out
    assert ("Bash(terraform destroy *)" in shown) == ("?" in answers)


def test_answer_of_feishus_cannot_play_with_the_terminal(
    bare: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    answers = iter(["3", "https://open.feishu.cn/open-apis/bot/v2/hook/x", ""])
    monkeypatch.setattr("builtins.input", lambda prompt: next(answers))
    monkeypatch.setattr(feishu_setup.getpass, "getpass", lambda prompt: "")
    refusal = SendResult(False, 1, "\x1b[2J no")
    monkeypatch.setattr(feishu_setup.checks, "send_hello", lambda settings: refusal)
    asking(bare).ask(about_place=True, about_mode=False)
    assert "\x1b" not in capsys.readouterr().out


# Where requests go.


def answering(
    monkeypatch: pytest.MonkeyPatch, *answers: str
) -> tuple[list[str], list[str]]:
    """Answer what is asked; the answers that are left, and the questions."""
    rest, asked = list(answers), []

    def answer(prompt: str) -> str:
        asked.append(prompt)
        return rest.pop(0)

    monkeypatch.setattr("builtins.input", answer)
    return rest, asked


def test_enter_takes_the_scan(
    bare: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    rest, asked = answering(monkeypatch, "")
    made = asking(bare)
    scanned: list[str] = []
    monkeypatch.setattr(made.app, "scan", lambda: scanned.append("scan"))
    made.ask(about_place=True, about_mode=False)
    assert (rest, asked, scanned) == ([], ["Choose [1]: "], ["scan"])


def test_way_that_fails_is_said_and_another_asked_for(
    bare: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    rest, asked = answering(monkeypatch, "9", "1", "2", "4")
    made = asking(bare)

    def refused() -> None:
        raise FeishupermError("the scan was refused", "another way")

    monkeypatch.setattr(made.app, "scan", refused)
    monkeypatch.setattr(made.app, "given", lambda: False)
    made.ask(about_place=True, about_mode=False)
    assert (rest, len(asked)) == ([], 4)
    assert "the scan was refused\nhint: another way" in capsys.readouterr().err
    assert made.config.new == {}


def test_what_is_set_up_stays_with_enter(
    bare: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    bot = "https://open.feishu.cn/open-apis/bot/v2/hook/x"
    rest, asked = answering(monkeypatch, "", "4")
    made = asking(bare, "--webhook", bot, "--setup")
    before = dict(made.config.new)
    made.ask(about_place=True, about_mode=False)
    assert (rest, asked) == (["4"], ["Choose [5]: "])
    assert "5  As it is now: the group bot" in capsys.readouterr().out
    assert made.config.new == before
    made.ask(about_place=True, about_mode=False)
    assert made.config.new == {**before, "FEISHUPERM_SURFACES": "inbox"}


def test_group_bot_is_taken_into_a_list_of_surfaces(
    bare: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    bot = "https://open.feishu.cn/open-apis/bot/v2/hook/x"
    answering(monkeypatch, "3", bot)
    monkeypatch.setattr(feishu_setup.getpass, "getpass", lambda prompt: "")
    accepted = SendResult(True, 0, "")
    monkeypatch.setattr(feishu_setup.checks, "send_hello", lambda settings: accepted)
    made = asking({**bare, "FEISHUPERM_SURFACES": "inbox"})
    made.ask(about_place=True, about_mode=False)
    assert made.config.new["FEISHUPERM_SURFACES"] == "inbox,webhook"


def test_app_without_an_owner_is_asked_about_without_a_choice(
    bare: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    named: list[str] = []
    environ = {**bare, "FEISHU_APP_ID": "cli_a1", "FEISHU_APP_SECRET": "s"}
    made = asking(environ)
    monkeypatch.setattr(made.app, "name_owner", lambda: named.append("owner"))
    made.ask(about_place=False, about_mode=False)
    made.config.new["FEISHU_OWNER_ID"] = "ou_me"
    made.ask(about_place=False, about_mode=False)
    assert named == ["owner"] * 2  # the install before may have died too early
    made.app.manifest.records["program"] = {"prefix": "/"}
    made.ask(about_place=False, about_mode=False)
    assert named == ["owner"] * 2


# A group bot, and the phone that opens its links.

BOT = "https://open.feishu.cn/open-apis/bot/v2/hook/x"


def test_wrong_secret_is_asked_for_alone(
    bare: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def send(settings: Settings) -> SendResult:
        good = settings.feishu_webhook_secret == "right"
        return SendResult(good, 0 if good else feishu.BAD_SIGN, "bad sign")

    secrets, addresses = iter(["wrong", "wrong too", "right"]), iter(["3", BOT])
    monkeypatch.setattr(feishu_setup.checks, "send_hello", send)
    monkeypatch.setattr("builtins.input", lambda prompt: next(addresses))
    monkeypatch.setattr(feishu_setup.getpass, "getpass", lambda prompt: next(secrets))
    made = asking(bare)
    made.ask(about_place=True, about_mode=False)
    assert made.config.new["FEISHU_WEBHOOK_SECRET"] == "right"
    assert made.config.new["FEISHU_WEBHOOK_URL"] == BOT


def test_no_secret_at_all_leads_back_to_the_address(
    bare: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    refusal = SendResult(False, feishu.BAD_SIGN, "bad sign")
    answers = iter(["3", BOT, ""])
    monkeypatch.setattr(feishu_setup.checks, "send_hello", lambda settings: refusal)
    monkeypatch.setattr("builtins.input", lambda prompt: next(answers))
    monkeypatch.setattr(feishu_setup.getpass, "getpass", lambda prompt: "")
    made = asking(bare)
    made.ask(about_place=True, about_mode=False)
    assert "FEISHU_WEBHOOK_URL" not in made.config.new


@pytest.mark.parametrize(
    ("typed", "url"), [("1", "http://10.0.0.7:8080"), ("", ""), ("9", ""), ("x", "")]
)
def test_address_for_the_phone_is_offered_before_the_card_is_sent(
    bare: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    typed: str,
    url: str,
) -> None:
    said: list[str] = []

    def send(settings: Settings) -> SendResult:
        said.append(capsys.readouterr().out)
        return SendResult(True, 0, "")

    rows = [Address("10.0.0.7", IN_NETWORK)]
    answers = iter(["3", BOT, typed, ""])  # what is no choice is asked again
    monkeypatch.setattr(feishu_setup.checks, "send_hello", send)
    monkeypatch.setattr(feishu_setup, "addresses", lambda: rows)
    monkeypatch.setattr(feishu_setup.server, "can_listen", lambda hosts, port: True)
    monkeypatch.setattr("builtins.input", lambda prompt: next(answers))
    monkeypatch.setattr(feishu_setup.getpass, "getpass", lambda prompt: "")
    made = asking(bare, "--lang", "en")
    made.ask(about_place=True, about_mode=False)
    assert "which a phone cannot open" in said[0]
    assert "http://10.0.0.7:8080  for everybody in this network" in said[0]
    assert made.config.new.get("CALLBACK_SERVER_URL", "") == url


def test_enter_to_wait_and_list_takes_both(
    bare: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = iter(["4", "", ""])
    monkeypatch.setattr("builtins.input", lambda prompt: next(answers))
    made = asking(bare)
    made.ask(about_place=True, about_mode=True, about_wait=True)
    assert made.waits and made.wants_list and not made.mode
    assert made.config.new["PERMISSION_REQUEST_TIMEOUT"] == "600"
    assert made.config.new["PERMISSION_TIMEOUT_ACTION"] == "terminal"
    assert next(answers, None) is None  # three questions, no more
