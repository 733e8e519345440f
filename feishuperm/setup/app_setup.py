"""The Feishu app in `install`: made by a scan or given, its owner named, a tap awaited.

Settings go to config.env as soon as there is a secret among them; everything else is
`install`'s to make true.  Open ids belong to one app, so a new app has a new owner.
"""

from __future__ import annotations

import getpass
import os
import time
from collections.abc import Callable, Mapping
from functools import partial

from feishuperm.errors import SettingError
from feishuperm.lib.arguments import Options
from feishuperm.lib.config import config_path
from feishuperm.lib.control import ask_server
from feishuperm.lib.post import call
from feishuperm.lib.program import hook_output, start_hook
from feishuperm.lib.terminal import say, show
from feishuperm.lib.tongue import translate
from feishuperm.models.settings import BY_KEY, Settings, parse_setting
from feishuperm.services.ledger import Ledger
from feishuperm.setup.card_test import event, is_late, last_answer, watch
from feishuperm.setup.case import OK, edit
from feishuperm.setup.checks_app import AppCheck, is_connected
from feishuperm.setup.config_step import ConfigStep
from feishuperm.setup.manifest import Manifest
from feishuperm.setup.registration import Created, is_open_id
from feishuperm.setup.scan import Scan, Screen
from feishuperm.setup.server_process import running_status, tries
from feishuperm.setup.wanted_config import SURFACES, WantedConfig

APP_ID, APP_SECRET = "FEISHU_APP_ID", "FEISHU_APP_SECRET"
OWNER, RECEIVER = "FEISHU_OWNER_ID", "FEISHU_RECEIVE_ID"
BASE_URL = "FEISHU_BASE_URL"
FEISHU, LARK = BY_KEY[BASE_URL].default, "https://open.larksuite.com"
CONNECT_SECONDS = 15.0


class AppSetup:
    """One app on its way into the settings; `is_new` once it is there."""

    def __init__(
        self,
        config: WantedConfig,
        manifest: Manifest,
        options: Options,
        command: Callable[[], str],
    ) -> None:
        self.config = config
        self.manifest = manifest
        self.options = options
        self.command = command  # how a person calls us
        self.is_new = config.new.get(APP_ID, "") not in ("", config.old.get(APP_ID))
        self.lists = False  # surfaces, for as long as nobody owns the app
        self.works = False  # a card was tapped on the phone

    @property
    def is_set(self) -> bool:
        return self.config.has(APP_ID) and self.config.has(APP_SECRET)

    # Where it comes from.

    def scan(self, app_id: str = "") -> None:
        """Make an app, or change the one named. Raises FeishupermError."""
        settings = self.config.settings()
        picture = os.path.abspath(self.options.qr) if self.options.qr else ""
        scan = Scan(
            settings.feishu_accounts_url,
            self.manifest.folder,
            self._keep,
            Screen(self.manifest.environ, not self.options.no_qr, picture),
            partial(call, ca_file=settings.feishuperm_ca_file),
        )
        scan.run(app_id)
        self.is_new = True
        self.name_owner()

    def _keep(self, created: Created) -> None:
        """Write the app down before anything else happens."""
        values = {APP_ID: created.app_id, APP_SECRET: created.secret}
        if created.app_id != self.config.old.get(APP_ID):
            values.update(self._people(created.open_id))
        base = self.config.settings().feishu_base_url
        if base in (FEISHU, LARK) and created.is_lark != (base == LARK):
            values[BASE_URL] = LARK if created.is_lark else FEISHU
        self._write(values)
        left = self.config.old.get(APP_ID, "")
        if left not in ("", created.app_id):  # its secret is gone from here
            page = f"{base}/app/{left}"
            say(f"the app {left} is no longer used here; it stays in Feishu: {page}")

    def _people(self, open_id: str) -> dict[str, str]:
        """The owner alone; while nobody knows them, the app must not be used."""
        values = {OWNER: open_id}
        if self.config.has(RECEIVER):
            values[RECEIVER] = ""  # another app's
        settings = self.config.settings()
        if not open_id:
            self.lists = self.lists or not settings.feishuperm_surfaces
            values[SURFACES] = ",".join(sorted(settings.possible_surfaces() - {"app"}))
        elif self.lists:
            values[SURFACES] = ""  # or a group bot that comes later would stay unused
        else:
            values.update(self.config.with_surface("app"))
        return values

    def _write(self, values: Mapping[str, str]) -> None:
        self.config.new.update(values)
        ConfigStep(self.manifest, values).apply()

    def given(self) -> bool:
        """Ask for an app that is there; whether it can be used."""
        while True:
            app_id = input(translate("App id (cli_..., empty: back): ")).strip()
            if not app_id:
                return False
            secret = getpass.getpass(translate("App secret: ")).strip()
            problem = self._problem(app_id, secret)
            if not problem:
                break
            say(problem)
        is_lark = self.config.settings().feishu_base_url == LARK
        self._keep(Created(app_id, secret, "", is_lark))
        self.is_new = True
        self.name_owner(asks=True)
        return True

    def _problem(self, app_id: str, secret: str) -> str:
        """What is wrong with an id and a secret, if anything."""
        if not secret:
            return "an app has a secret too: see the page of its credentials"
        try:
            parse_setting(BY_KEY[APP_ID], app_id)
        except SettingError as error:
            return str(error)
        values = {**self.config.old, **self.config.new}
        values.update({APP_ID: app_id, APP_SECRET: secret})
        token = self._check(Settings(values)).api.fetch_token()
        return "" if token.ok else f"Feishu does not take it: {token.message}"

    # Whose it is.

    def name_owner(self, asks: bool = False) -> None:
        """See to it that the app has an owner, who is a person and not the bot.

        Who made an app that was given need not be who sits here: a person is asked.
        """
        settings = self.config.settings()
        check = self._check(settings)
        if self.has_people() and check.bot_id() not in settings.feishu_owner_id:
            return
        owner = check.owner()
        if asks or not owner:
            owner = self._asked_owner(owner)
        if owner:
            self._write(self._people(owner))
        else:
            command = self.command()
            say(f"the app is not used before it has an owner: {command} install")

    def needs_owner(self) -> bool:
        """Whether nobody owns the app, or an install died before that was looked at."""
        is_looked_at = self.has_people() and self.manifest.record("program")
        return self.is_set and not is_looked_at

    def has_people(self) -> bool:
        try:
            self.config.settings().app_people()
        except SettingError:
            return False
        return True

    def _asked_owner(self, owner: str) -> str:
        """The person's own word; Enter takes the owner that Feishu names, if any."""
        usual = f"{owner}, the app's owner" if owner else "later"
        prompt = translate(f"Your open_id, ou_... [{usual}]: ")
        while True:
            open_id = input(prompt).strip() or owner
            if not open_id or is_open_id(open_id):
                return open_id

    # Whether it works.

    def verify(self, socket: str) -> None:
        """Look at all of it; what is missing is named with its cure."""
        for _ in tries(CONNECT_SECONDS):
            if is_connected(running_status(socket)):
                break
        for state, text, fix in self._check(self.config.settings(), True).results():
            if state != OK:
                words = [translate(part) for part in (state, text, fix)]
                show("  {}: {} -> {}".format(*words))

    def _check(self, settings: Settings, held: bool = False) -> AppCheck:
        return AppCheck(
            settings,
            edit(config_path(self.manifest.environ)),
            f"{self.command()} install --rescan",
            f"{self.command()} test-card",
            held,
        )

    def await_tap(self, socket: str, seconds: float) -> None:
        """A card to the owner; their tap proves the whole way, and that it is them."""
        say("a card is on its way to you in Feishu: tap a button (Ctrl-C: later)")
        command, started = self.command(), time.monotonic()
        hook = start_hook(event(), os.environ)
        try:
            ask = partial(ask_server, {"command": "status"}, path=socket)
            problem = watch(hook, ask, started + seconds + 10)
        except KeyboardInterrupt:
            hook_output(hook, 0.0)
            say(f"later: {self.command()} test-card")
            return
        output = hook_output(hook, 0.0)
        if not output or is_late(output):
            say(problem or "no tap came")
            say(
                f"a number on the phone? {command} doctor NUMBER explains it;\n"
                f"else: {command} doctor, and again: {command} test-card"
            )
            return
        where, who = last_answer(Ledger())
        took = f"{time.monotonic() - started:.1f}"
        self.works = where == "card"
        if self.works:
            say(f"the tap of {who} came after {took} s: the way to the phone works")
            return
        say(
            f"answered elsewhere ({where}): the phone is still to be tried: {command} "
            "test-card"
        )
