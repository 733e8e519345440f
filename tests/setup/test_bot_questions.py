"""A conversation about a group bot: nothing is kept that Feishu did not take."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from feishuperm.commands.install import parser
from feishuperm.lib import feishu
from feishuperm.lib.feishu import SendResult
from feishuperm.models.settings import Settings
from feishuperm.setup import feishu_setup
from feishuperm.setup.feishu_setup import (
    IN_NETWORK,
    Address,
    BotQuestions,
    WantedConfig,
    tell_out_of_reach,
)

BOT = "https://open.feishu.cn/open-apis/bot/v2/hook/"
TAKEN, GONE = SendResult(True, 0, ""), SendResult(False, 19001, "no such bot")


class Person:
    """Types what is given, and keeps what was tried with Feishu."""

    def __init__(
        self, patch: pytest.MonkeyPatch, *typed: str, secrets: tuple[str, ...] = ()
    ) -> None:
        self.typed, self.secrets = list(typed), list(secrets)
        self.tried: list[tuple[str, str]] = []
        self.judge: Callable[[str, str], SendResult] = lambda url, secret: TAKEN
        patch.setattr("builtins.input", lambda prompt: self.typed.pop(0))
        patch.setattr(
            feishu_setup.getpass,
            "getpass",
            lambda prompt: self.secrets.pop(0) if self.secrets else "",
        )
        patch.setattr(feishu_setup.checks, "send_hello", self._send)
        patch.setattr(feishu_setup, "addresses", lambda: [])

    def _send(self, settings: Settings) -> SendResult:
        given = settings.feishu_webhook_url, settings.feishu_webhook_secret
        self.tried.append(given)
        return self.judge(*given)


def questions(
    bare: dict[str, str], *args: str, port: int = 0, **old: str
) -> BotQuestions:
    config = WantedConfig(parser().parse_args(args), bare)
    config.old = old
    return BotQuestions(config, lambda: port)


def test_bot_that_takes_a_card_is_kept(
    bare: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    person = Person(monkeypatch, BOT + "a", secrets=("s",))
    made = questions(bare)
    assert made.ask() and made.tried
    assert made.config.new == {
        "FEISHU_WEBHOOK_URL": BOT + "a",
        "FEISHU_WEBHOOK_SECRET": "s",
    }
    assert person.tried == [(BOT + "a", "s")]


def test_bot_that_is_refused_leaves_nothing_and_is_asked_for_again(
    bare: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    person = Person(monkeypatch, BOT + "a", BOT + "b", "", secrets=("s", ""))
    person.judge = lambda url, secret: GONE
    made = questions(bare)
    assert made.ask() and not made.tried
    assert person.typed == [] and len(person.tried) == 2
    assert made.config.new == {}


def test_what_is_no_address_is_refused_before_the_secret_is_asked_for(
    bare: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    person = Person(monkeypatch, "open.feishu.cn", BOT + "a", secrets=("s", "unasked"))
    assert questions(bare).ask()
    assert person.tried == [(BOT + "a", "s")] and person.secrets == ["unasked"]


def test_secret_of_the_old_bot_is_not_that_of_a_new_one(
    bare: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    person = Person(monkeypatch, BOT + "new")
    old = {"FEISHU_WEBHOOK_URL": BOT + "old", "FEISHU_WEBHOOK_SECRET": "old"}
    questions(bare, **old).ask()
    assert person.tried == [(BOT + "new", "")]


def test_what_is_no_address_is_said_and_never_sent(
    bare: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    person = Person(monkeypatch, "open.feishu.cn", "")
    made = questions(bare)
    assert made.ask()
    assert person.tried == [] and made.config.new == {}
    assert "FEISHU_WEBHOOK_URL" in capsys.readouterr().out


def test_wrong_secret_is_asked_for_until_it_is_right(
    bare: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    person = Person(monkeypatch, BOT, secrets=("wrong", "right"))
    bad = SendResult(False, feishu.BAD_SIGN, "bad sign")
    person.judge = lambda url, secret: TAKEN if secret == "right" else bad
    made = questions(bare)
    made.ask()
    assert [secret for _, secret in person.tried] == ["wrong", "right"]
    assert made.config.new["FEISHU_WEBHOOK_SECRET"] == "right"


@pytest.mark.parametrize(("result", "fails"), [(TAKEN, False), (GONE, True)])
def test_bot_of_the_command_line_is_tried_once(
    bare: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
    result: SendResult,
    fails: bool,
) -> None:
    person = Person(monkeypatch)
    person.judge = lambda url, secret: result
    made = questions(bare, "--webhook", BOT)
    assert made.fails() is fails and made.tried
    assert ("FEISHU_WEBHOOK_URL" in made.config.new) is not fails


def test_bot_that_was_there_before_is_not_tried(
    bare: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    person = Person(monkeypatch)
    made = questions(bare, FEISHU_WEBHOOK_URL=BOT)
    assert not made.fails() and not made.tried and person.tried == []


@pytest.mark.parametrize(
    ("own_port", "taken", "port"),
    [(0, False, 8080), (0, True, 8083), (8080, True, 8080)],
)
def test_chosen_address_gets_a_port_that_a_server_can_have(
    bare: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
    own_port: int,
    taken: bool,
    port: int,
) -> None:
    person = Person(monkeypatch, "0", "3", "2")
    rows = [Address("10.0.0.7", IN_NETWORK), Address("fd00::7", IN_NETWORK)]
    monkeypatch.setattr(feishu_setup, "addresses", lambda: rows)
    monkeypatch.setattr(
        feishu_setup.server, "can_listen", lambda hosts, port: not taken
    )
    monkeypatch.setattr(feishu_setup.server, "free_port", lambda hosts: 8083)
    made = questions(bare, port=own_port)
    made.offer_addresses()
    assert person.typed == []
    assert made.config.new == {
        "CALLBACK_SERVER_PORT": str(port),
        "CALLBACK_SERVER_URL": f"http://[fd00::7]:{port}",
    }
    made.offer_addresses()  # once is enough


def test_public_address_of_ones_own_is_not_talked_about(
    bare: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    Person(monkeypatch)
    made = questions(bare, "--callback-url", "https://box.example")
    made.offer_addresses()
    assert not made.offered


def test_without_a_person_the_setting_to_make_is_named(
    bare: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    rows = [Address("10.0.0.7", IN_NETWORK)]
    monkeypatch.setattr(feishu_setup, "addresses", lambda: rows)
    tell_out_of_reach(questions(bare, "--webhook", BOT).config)
    assert "http://10.0.0.7:8080" in capsys.readouterr().out.splitlines()[-1]
    public = questions(bare, "--callback-url", "https://box.example")
    tell_out_of_reach(public.config)
    assert capsys.readouterr().out == ""
