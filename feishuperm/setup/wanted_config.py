"""config.env as it is and as it is to be: flags, environment, and what nobody said."""

from __future__ import annotations

from collections.abc import Mapping

from feishuperm.lib.arguments import Options
from feishuperm.lib.config import config_path, read_config, state_dir
from feishuperm.models.settings import BY_KEY, Settings
from feishuperm.setup.ports import (
    can_listen,
    check_port,
    free_port,
    own_socket,
    port_settings,
)
from feishuperm.setup.waiting import wait_settings

FLAGS = {
    "webhook": "FEISHU_WEBHOOK_URL",
    "secret": "FEISHU_WEBHOOK_SECRET",
    "callback_url": "CALLBACK_SERVER_URL",
    "port": "CALLBACK_SERVER_PORT",
    "lang": "FEISHUPERM_LANG",
}
SURFACES = "FEISHUPERM_SURFACES"
BOT = ("FEISHU_WEBHOOK_URL", "FEISHU_WEBHOOK_SECRET")


class WantedConfig:
    """`old` is what the file holds, `new` what this install wants to set in it."""

    def __init__(self, options: Options, environ: Mapping[str, str]) -> None:
        self.environ = environ
        self.old = read_config(config_path(environ))
        self.new = asked_config(options, environ)

    def settings(self) -> Settings:
        """The settings the server will have. Raises SettingError for a bad one."""
        return Settings({**self.old, **self.new})

    def has(self, key: str) -> bool:
        return bool(self.new.get(key) or self.old.get(key))

    def has_new_bot(self) -> bool:
        """Whether a bot is given that was not there before."""
        return self.has(BOT[0]) and any(
            key in self.new and self.new[key] != self.old.get(key) for key in BOT
        )

    def with_surface(self, name: str) -> dict[str, str]:
        """What to set so that a surface is used; nothing where no list forbids it."""
        listed = self.settings().feishuperm_surfaces
        if not listed or name in listed:
            return {}
        return {SURFACES: ",".join(sorted({*listed, name}))}

    def complete(self, own_port: int, serves: bool = True) -> None:
        """Choose what nobody said: a socket of this user's own, a port that is free.

        `own_port` is held by the server that is there. Raises FeishupermError.
        """
        if self.has_new_bot() and SURFACES not in self.new:
            self.new.update(self.with_surface("webhook"))
        if not self.has("PERMISSION_SOCKET_PATH"):
            socket = own_socket(state_dir(self.environ))
            self.new["PERMISSION_SOCKET_PATH"] = socket
        settings = self.settings()
        if not serves:
            return
        if self.has("CALLBACK_SERVER_PORT") or self.has("CALLBACK_SERVER_URL"):
            return check_port(settings, own_port)
        port = settings.callback_server_port
        hosts = settings.http_hosts()
        if not can_listen(hosts, 0 if port == own_port else port):
            self.new.update(port_settings(free_port(hosts)))


def asked_config(options: Options, environ: Mapping[str, str]) -> dict[str, str]:
    """Settings from flags and the environment, which the service will not have."""
    asked = {key: environ[key] for key in BY_KEY if environ.get(key)}
    for flag, key in FLAGS.items():
        if getattr(options, flag):
            asked[key] = getattr(options, flag)
    if options.wait:
        asked.update(wait_settings(options.wait))
    if options.port and "CALLBACK_SERVER_URL" not in asked:
        asked.update(port_settings(options.port))
    return asked
