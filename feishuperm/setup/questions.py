"""What `install` asks a person on a terminal; an empty line skips a question.

It changes nothing but the wanted settings; `install` makes them true.
"""

from __future__ import annotations

import getpass
import sys

from feishuperm.errors import FeishupermError, UsageError
from feishuperm.lib.terminal import complain, say
from feishuperm.models.settings import BY_KEY, parse_setting
from feishuperm.setup.app_setup import AppSetup
from feishuperm.setup.checks_feishu import send_test
from feishuperm.setup.wanted_config import BOT, SURFACES, WantedConfig

WHERE = """\
Where shall requests go?
  1  to you in Feishu, by an app that one scan makes (recommended)
  2  to a Feishu app that you have: its id and secret
  3  to a Feishu group: the address of its bot
  4  to the inbox on this machine, for now"""
AUTO_MODE = """\
Interactive sessions start in auto mode, in which Claude Code asks about few tool
calls, so few cards come. With permissions.defaultMode "default" it asks."""


def can_ask() -> bool:
    """Whether a person can read a question and answer it."""
    return sys.stdin.isatty() and sys.stdout.isatty()


class Questions:
    """One conversation; what it led to is in `config`, `mode` and `tried`."""

    def __init__(self, config: WantedConfig, app: AppSetup) -> None:
        self.config = config
        self.app = app
        self.mode = ""  # of Claude Code, if the person wants another one
        self.tried = False  # whether the bot was given by a person and answered

    def ask(self, about_place: bool, about_mode: bool) -> None:
        """Ask for what nothing else says."""
        try:
            if about_place:
                self._ask_place()
            elif self._fails():
                self._ask_webhook()
            elif self.app.is_set and not self.app.has_people():
                self.app.name_owner()
            if about_mode:
                self._ask_mode()
        except EOFError:  # Ctrl-D: no more answers
            print()

    def _ask_place(self) -> None:
        """Where requests go; again, until one of the ways works."""
        kept = self._place_now()
        ways = {
            "1": self._scan,
            "2": self.app.given,
            "3": self._ask_webhook,
            "4": self._inbox_only,
        }
        print(WHERE)
        if kept:
            print(f"  5  as it is: {kept}")
            ways["5"] = lambda: True
        usual = "5" if kept else "1"
        while True:
            way = ways.get(input(f"Choose [{usual}]: ").strip() or usual)
            if way is not None and way():
                return

    def _scan(self) -> bool:
        """Make an app; whether there is one now."""
        try:
            self.app.scan()
        except FeishupermError as error:
            complain(error)
            return False
        return True

    def _place_now(self) -> str:
        """Where they go already."""
        settings = self.config.settings()
        names = {"app": f"the app {settings.feishu_app_id}", "webhook": "the group bot"}
        return " and ".join(
            names[name] for name in names if name in settings.surfaces()
        )

    def _inbox_only(self) -> bool:
        if self._place_now():
            self.config.new[SURFACES] = "inbox"  # whatever else is set stays so
        return True

    def _fails(self) -> bool:
        """Whether a bot that was just given does not take a card; says so."""
        if not self.config.has_new_bot():
            return False
        self.tried = True
        return not self._takes_card()

    def _takes_card(self) -> bool:
        problem = send_test(self.config.settings())
        if problem:
            say(f"Feishu did not take the test card: {problem}")
        return not problem

    def _ask_mode(self) -> None:
        """Offer to let Claude Code ask; nothing is changed without a yes."""
        print(AUTO_MODE)
        if input("Set it now? [y/N] ").strip().lower() in ("y", "yes"):
            self.mode = "default"

    def _ask_webhook(self) -> bool:
        """Ask for the group bot until it works or the person gives up."""
        print("Feishu: open the group's settings, add a custom bot, copy its address.")
        while True:
            url = input("Webhook address (empty: later, use the inbox): ").strip()
            if not url:
                return True
            secret = getpass.getpass("Signing secret (empty: none): ").strip()
            if self._accept(url, secret):
                print("a test card is in the group")
                self.tried = True
                self.config.new.update(self.config.with_surface("webhook"))
                return True

    def _accept(self, url: str, secret: str) -> bool:
        """Take a bot that works into the settings."""
        try:
            parse_setting(BY_KEY[BOT[0]], url)
        except UsageError as error:
            say(str(error))
            return False
        new = self.config.new
        new[BOT[0]] = url
        if secret or self.config.old.get(BOT[1]):
            new[BOT[1]] = secret  # not the old bot's
        if self._takes_card():
            return True
        for key in BOT:
            new.pop(key, None)
        return False
