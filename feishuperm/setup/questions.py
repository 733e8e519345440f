"""What `install` asks a person on a terminal; an empty line skips a question.

It changes nothing but the wanted settings; `install` makes them true.
"""

from __future__ import annotations

from collections.abc import Callable

from feishuperm.errors import FeishupermError
from feishuperm.lib.terminal import ask, complain, say
from feishuperm.lib.tongue import translate
from feishuperm.setup.app_setup import AppSetup
from feishuperm.setup.ask_list import ask_list
from feishuperm.setup.bot_questions import BotQuestions
from feishuperm.setup.waiting import ask_wait
from feishuperm.setup.wanted_config import SURFACES, WantedConfig

WHERE = """\
Where shall requests go?
  1  to you in Feishu, by an app that one scan makes (recommended)
  2  to a Feishu app that you have: its id and secret
  3  to a Feishu group: the address of its bot
  4  to the inbox on this machine, for now"""

MODE = """\
Interactive sessions start in auto mode, in which Claude Code asks about few
tool calls, so few cards come. With permissions.defaultMode "default" it asks."""


class Questions:
    """One conversation; what it led to is in `config`, `bot` and `mode`."""

    def __init__(
        self,
        config: WantedConfig,
        app: AppSetup,
        own_port: Callable[[], int] = int,
    ) -> None:
        self.config = config
        self.app = app
        self.bot = BotQuestions(config, own_port)
        self.mode = ""  # of Claude Code, if the person wants another one
        self.waits = False  # as long as the person said
        self.wants_list = False  # of rules that make it ask in auto mode

    def ask(
        self, about_place: bool, about_mode: bool, about_wait: bool = False
    ) -> None:
        """Ask for what nothing else says."""
        try:
            if about_place:
                self._ask_place()
            elif self.bot.fails():
                self.bot.ask()
            elif self.app.needs_owner():
                self.app.name_owner()
            if about_wait:
                self.config.new.update(ask_wait())
                self.waits = True
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
            "3": self.bot.ask,
            "4": self._inbox_only,
        }
        say(WHERE)
        if kept:
            say(f"  5  as it is: {kept}")
            ways["5"] = lambda: True
        usual = "5" if kept else "1"
        while True:
            way = ways.get(ask(f"Choose [{usual}]: ") or usual)
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
        places = [names[name] for name in names if name in settings.surfaces()]
        return ", ".join(map(translate, places))

    def _inbox_only(self) -> bool:
        if self._place_now():
            self.config.new[SURFACES] = "inbox"  # whatever else is set stays so
        return True

    def _ask_mode(self) -> None:
        """Offer to let Claude Code ask; nothing is changed without a yes."""
        say(MODE)
        if ask("Set it now? [y/N] ") in ("y", "yes"):
            self.mode = "default"
        else:
            self.wants_list = ask_list()
