"""Which address a phone could open, and who else could."""

from __future__ import annotations

import socket

import pytest

from feishuperm.models.settings import Settings, url_of
from feishuperm.setup import feishu_setup
from feishuperm.setup.feishu_setup import (
    IN_NETWORK,
    IN_TAILNET,
    IN_WORLD,
    addresses,
    advise,
    exposed_to,
    is_out_of_reach,
)
from tests.tables import every_row


@every_row(
    ("host", "exposes"),
    [
        ("127.0.0.1", ""),
        ("::1", ""),
        ("169.254.3.4", ""),
        ("fe80::1", ""),
        ("0.0.0.0", ""),
        ("192.168.1.20", IN_NETWORK),
        ("10.1.2.3", IN_NETWORK),
        ("fd00::7", IN_NETWORK),
        ("100.101.102.103", IN_TAILNET),
        ("8.8.8.8", IN_WORLD),
        ("2a00::1", IN_WORLD),
    ],
)
def test_who_reaches_an_address(host: str, exposes: str) -> None:
    assert exposed_to(host) == exposes


def test_narrowest_address_comes_first_and_each_once() -> None:
    found = ["8.8.8.8", "10.0.0.1", "10.0.0.1", "127.0.0.1", "100.64.0.1", "10.0.0.2"]
    hosts = [row.host for row in addresses(found)]
    assert hosts == ["100.64.0.1", "10.0.0.1", "10.0.0.2", "8.8.8.8"]


def test_machine_without_any_network_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: object, **more: object) -> object:
        raise OSError("no network")

    monkeypatch.setattr(feishu_setup.socket, "socket", refuse)
    monkeypatch.setattr(feishu_setup.socket, "getaddrinfo", refuse)
    assert addresses() == []


def test_own_addresses_are_addresses() -> None:
    for host in feishu_setup.own_hosts():
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        assert socket.inet_pton(family, host)


def test_local_links_of_a_group_bot_are_out_of_reach() -> None:
    bot = {"FEISHU_WEBHOOK_URL": "https://open.feishu.cn/open-apis/bot/v2/hook/x"}
    assert is_out_of_reach(Settings(bot))
    assert not is_out_of_reach(Settings({}))
    public = {**bot, "CALLBACK_SERVER_URL": "https://perm.example"}
    assert not is_out_of_reach(Settings(public))


@pytest.mark.parametrize("language", ["zh", "en"])
def test_advice_names_each_address_and_whom_it_lets_in(
    language: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("FEISHUPERM_LANG", language)
    advise(Settings({}), addresses(["10.0.0.1", "2a00::1"]))
    lines = capsys.readouterr().out.splitlines()
    assert "http://localhost:8080" in lines[0]
    assert "http://10.0.0.1:8080" in lines[1] and "http://[2a00::1]:8080" in lines[2]
    assert url_of("2a00::1", 1) == "http://[2a00::1]:1"
