"""How the parts of a server are put together."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from feishuperm.channels.webhook import WebhookChannel
from feishuperm.commands import serve
from feishuperm.commands.serve import CHANNELS, Server
from feishuperm.lib import log as logging
from feishuperm.lib import post
from feishuperm.lib.post import Reply
from feishuperm.models.ask import Notice
from feishuperm.models.settings import SURFACES, Settings
from tests.services.test_approvals import Channel

BOT = "https://open.feishu.cn/open-apis/bot/v2/hook/0123456789abcdef0123456789abcdef"


class Recorded(Channel):
    """Writes down when it is started and closed."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.life: list[str] = []

    def start(self) -> None:
        self.life.append("start")

    def close(self) -> None:
        self.life.append("close")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("XDG_STATE_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(logging._LOG, "path", str(tmp_path / "log"))
    monkeypatch.setattr(serve, "raise_file_limit", lambda: 1000)
    return tmp_path


def make(folder: Path, **values: str) -> Server:
    return Server(
        Settings(
            {
                "PERMISSION_SOCKET_PATH": str(folder / "s"),
                "CALLBACK_SERVER_PORT": "0",
                **values,
            }
        )
    )


def names(server: Server) -> list[str]:
    return [channel.name for channel in server.channels]


def test_channels_are_those_that_are_set_up_and_let_answer(folder: Path) -> None:
    for values, expected in (
        ({}, ["inbox"]),
        ({"FEISHU_WEBHOOK_URL": BOT}, ["inbox", "webhook"]),
        ({"FEISHU_WEBHOOK_URL": BOT, "FEISHUPERM_SURFACES": "webhook"}, ["webhook"]),
        ({"FEISHU_WEBHOOK_URL": BOT, "FEISHUPERM_SURFACES": "inbox"}, ["inbox"]),
        ({"FEISHU_WEBHOOK_URL": BOT, "FEISHUPERM_SURFACES": "app"}, []),
    ):
        server = make(folder, **values)
        try:
            assert names(server) == expected
            states = server.approvals.notifier.states()
            assert [row["name"] for row in states] == expected
        finally:
            server.close()


def test_every_channel_of_the_table_is_a_surface_with_its_own_name() -> None:
    assert set(CHANNELS) <= set(SURFACES)


def test_channel_of_the_table_lives_as_long_as_the_server(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A new channel is one row; nothing else names it."""
    channel = Recorded("app")

    def row(server: Server, settings: Settings) -> Any:
        return channel

    monkeypatch.setitem(CHANNELS, "app", row)
    monkeypatch.setattr(Settings, "surfaces", lambda self: {"inbox", "app"})
    server = make(folder)
    assert names(server) == ["inbox", "app"]
    assert channel.life == []
    monkeypatch.setattr(server.loop, "run", lambda: channel.life.append("serves"))
    monkeypatch.setattr(server.loop, "on_signal", lambda number, fn: None)
    server.run()
    server.close()
    assert channel.life == ["start", "serves", "close"]


def test_server_that_cannot_have_its_port_gives_its_socket_back(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def taken(*args: object) -> Any:
        raise OSError("the port is taken")

    monkeypatch.setattr(serve, "listen_http", taken)
    with pytest.raises(OSError, match="taken"):
        make(folder)
    monkeypatch.undo()
    monkeypatch.setenv("HOME", str(folder))
    monkeypatch.setattr(serve, "raise_file_limit", lambda: 1000)
    make(folder).close()


def test_certificates_of_a_company_are_trusted_for_the_group_bot(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trusted: list[str] = []

    def call(request: Any, timeout: float, environ: Any, ca_file: str) -> Reply:
        trusted.append(ca_file)
        return Reply(200, {}, b'{"code": 0}')

    monkeypatch.setattr(post, "call", call)
    ca_file = str(folder / "ca.pem")
    server = make(folder, FEISHU_WEBHOOK_URL=BOT, FEISHUPERM_CA_FILE=ca_file)
    try:
        bot = server.channels[-1]
        assert isinstance(bot, WebhookChannel)
        bot.notify(Notice("stop", 1.0))
        bot.step()
    finally:
        server.close()
    assert trusted == [ca_file]
