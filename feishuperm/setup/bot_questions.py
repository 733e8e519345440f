"""The questions about a group bot: its address, its secret, and how a phone gets here.

Asked until a card arrives or the person gives up.  A wrong secret is asked for alone,
since Feishu says that the address is right.
"""

from __future__ import annotations

import getpass
from collections.abc import Callable

from feishuperm.errors import UsageError
from feishuperm.lib import feishu
from feishuperm.lib.terminal import ask, say
from feishuperm.lib.tongue import translate
from feishuperm.models.settings import BY_KEY, parse_setting
from feishuperm.setup.checks_feishu import send_hello
from feishuperm.setup.ports import can_listen, free_port
from feishuperm.setup.reach import URL, addresses, advise, is_out_of_reach, url_of
from feishuperm.setup.wanted_config import BOT, WantedConfig

PORT = "CALLBACK_SERVER_PORT"


class BotQuestions:
    """One conversation about a bot; what it led to is in `config`."""

    def __init__(
        self,
        config: WantedConfig,
        own_port: Callable[[], int] = int,
    ) -> None:
        self.config = config
        self.own_port = own_port  # that a server of ours holds
        self.offered = False  # addresses that a phone can open
        self.tried = False  # whether a bot was given by a person and answered

    def fails(self) -> bool:
        """Whether a bot that was just given does not take a card; says so."""
        if not self.config.has_new_bot():
            return False
        self.tried = True
        self.offer_addresses()
        return not self._taken()

    def ask(self) -> bool:
        """Ask for the bot until it works or the person gives up; then True too."""
        say("Feishu: open the group's settings, add a custom bot, copy its address.")
        later = translate("Webhook address (empty: later, use the inbox): ")
        while True:
            url = input(later).strip()
            if not url:
                return True
            if not _is_address(url):
                continue
            question = translate("Signing secret (empty: none): ")
            secret = getpass.getpass(question).strip()
            if self._accept(url, secret):
                say("a test card is in the group")
                self.tried = True
                self.config.new.update(self.config.with_surface("webhook"))
                return True

    def offer_addresses(self) -> None:
        """Before a card is sent whose buttons no phone can open: say so, and choose."""
        settings = self.config.settings()
        if self.offered or not settings.url_is_local():
            return
        self.offered = True
        rows = addresses()
        advise(settings, rows)
        if not rows:
            say(
                "no address of this machine is one for a phone; a tunnel's is set by"
                " --callback-url"
            )
            return
        while chosen := ask("Choose one [Enter: leave it]: "):
            if chosen.isdecimal() and 0 < int(chosen) <= len(rows):
                self._take_address(rows[int(chosen) - 1].host)
                return

    def _take_address(self, host: str) -> None:
        settings = self.config.settings()
        port, hosts = settings.callback_server_port, ("0.0.0.0", "::")
        if port != self.own_port() and not can_listen(hosts, port):
            port = free_port(hosts)
        self.config.new.update({PORT: str(port), URL: url_of(host, port)})

    def _accept(self, url: str, secret: str) -> bool:
        """Take a bot that works into the settings."""
        new = self.config.new
        new[BOT[0]] = url
        if secret or self.config.old.get(BOT[1]):
            new[BOT[1]] = secret  # not the old bot's
        self.offer_addresses()
        return self._taken()

    def _taken(self) -> bool:
        """Whether the bot works; what Feishu refused is never written."""
        if self._takes_card():
            return True
        for key in BOT:
            self.config.new.pop(key, None)
        return False

    def _takes_card(self) -> bool:
        """Whether Feishu takes a card; a wrong secret is asked for again, alone."""
        while True:
            result = send_hello(self.config.settings())
            if result.ok:
                return True
            say(f"Feishu did not take the test card: {result.message}")
            if result.code != feishu.BAD_SIGN:
                return False
            question = (
                "The secret is wrong, the address is right. Secret (empty: another"
                " address): "
            )
            secret = getpass.getpass(translate(question)).strip()
            if not secret:
                return False
            self.config.new[BOT[1]] = secret


def tell_out_of_reach(config: WantedConfig) -> None:
    """Without a person to ask: say which addresses a phone could open."""
    settings = config.settings()
    if not is_out_of_reach(settings):
        return
    rows = addresses()
    advise(settings, rows)
    example = url_of(rows[0].host, settings.callback_server_port) if rows else "URL"
    say(f"to set one: feishuperm install --callback-url {example}")


def _is_address(url: str) -> bool:
    """Whether it can be a bot's; says why not."""
    try:
        parse_setting(BY_KEY[BOT[0]], url)
    except UsageError as error:
        say(str(error))
        return False
    return True
