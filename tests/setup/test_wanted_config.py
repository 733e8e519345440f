"""Flags, environment and file become the settings of the server."""

from __future__ import annotations

import pytest

from feishuperm.commands.install import parser
from feishuperm.errors import FeishupermError
from feishuperm.setup import service
from feishuperm.setup.feishu_setup import WantedConfig, asked_config


def asked(*args: str, **environ: str) -> dict[str, str]:
    return asked_config(parser().parse_args(args), environ)


def test_settings_of_the_environment_are_kept_for_the_service() -> None:
    found = asked(FEISHU_WEBHOOK_URL="https://x/y", FEISHUPERM_LANG="", OTHER="z")
    assert found == {"FEISHU_WEBHOOK_URL": "https://x/y"}


def test_flags_win_over_the_environment() -> None:
    found = asked("--webhook", "https://flag/", FEISHU_WEBHOOK_URL="https://env/")
    assert found == {"FEISHU_WEBHOOK_URL": "https://flag/"}


def test_port_brings_the_address_along_unless_that_is_given() -> None:
    assert asked("--port", "9000") == {
        "CALLBACK_SERVER_PORT": "9000",
        "CALLBACK_SERVER_URL": "http://localhost:9000",
    }
    chosen = asked("--port", "0")  # any, and that one from then on
    assert int(chosen["CALLBACK_SERVER_PORT"]) > 0
    assert chosen["CALLBACK_SERVER_URL"].endswith(f":{chosen['CALLBACK_SERVER_PORT']}")
    found = asked("--port", "9000", "--callback-url", "https://perm.example")
    assert found["CALLBACK_SERVER_URL"] == "https://perm.example"


def test_new_user_gets_another_port_when_the_usual_one_is_taken(
    bare: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (service,):
        monkeypatch.setattr(module, "can_listen", lambda hosts, port: port == 8083)
    made = WantedConfig(parser().parse_args([]), bare)
    made.complete(0)
    assert made.new["CALLBACK_SERVER_PORT"] == "8083"
    assert made.new["CALLBACK_SERVER_URL"] == "http://localhost:8083"


def test_port_that_somebody_chose_is_an_error_when_taken(
    bare: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service, "can_listen", lambda hosts, port: False)
    made = WantedConfig(parser().parse_args(["--port", "9000"]), bare)
    with pytest.raises(FeishupermError, match="port 9000 is taken"):
        made.complete(0)


def wanted(bare: dict[str, str], *args: str, **old: str) -> WantedConfig:
    made = WantedConfig(parser().parse_args(args), bare)
    made.old = old
    return made


def test_bot_is_new_when_its_address_or_secret_changes(bare: dict[str, str]) -> None:
    bot = {"FEISHU_WEBHOOK_URL": "https://x/1", "FEISHU_WEBHOOK_SECRET": "s"}
    assert not wanted(bare, "--secret", "s").has_new_bot()  # of no bot at all
    assert not wanted(bare, "--webhook", "https://x/1", **bot).has_new_bot()
    assert wanted(bare, "--webhook", "https://x/2", **bot).has_new_bot()
    assert wanted(bare, "--secret", "t", **bot).has_new_bot()


def test_bot_that_is_given_is_used_though_an_older_list_lacks_it(
    bare: dict[str, str],
) -> None:
    old = {"FEISHUPERM_SURFACES": "inbox", "FEISHU_WEBHOOK_URL": "https://x/1"}
    made = wanted(bare, "--webhook", "https://x/2", **old)
    made.complete(0, serves=False)
    assert made.new["FEISHUPERM_SURFACES"] == "inbox,webhook"
    made = wanted(bare, "--webhook", "https://x/1", **old)  # as it was: nothing is new
    made.complete(0, serves=False)
    assert "FEISHUPERM_SURFACES" not in made.new


def test_list_that_is_given_beside_the_bot_counts(bare: dict[str, str]) -> None:
    bare["FEISHUPERM_SURFACES"] = "inbox"
    made = wanted(bare, "--webhook", "https://x/2")
    made.complete(0, serves=False)
    assert made.new["FEISHUPERM_SURFACES"] == "inbox"
