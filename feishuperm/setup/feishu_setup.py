"""What `install` wants: flags, environment, and what a person is asked about Feishu.

How long a request waits, the group bot, the app and its owner.  It changes nothing but
the wanted settings; `install` makes them true.  Only the secret of a new app goes to
config.env at once.  An empty line skips a question.
"""

from __future__ import annotations

import getpass
import ipaddress
import os
import re
import socket
from argparse import Namespace
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import NamedTuple

from feishuperm.app.api import app_of
from feishuperm.app.health import OK
from feishuperm.errors import FeishupermError, SettingError, UsageError
from feishuperm.lib import feishu
from feishuperm.lib.config import config_path, own_socket, read_config
from feishuperm.lib.language import translate
from feishuperm.lib.post import call
from feishuperm.lib.process_tree import require_person
from feishuperm.lib.terminal import ask, complain, say, show
from feishuperm.messages import message_of, msg, word
from feishuperm.models.settings import BY_KEY, Settings, parse_setting, url_of
from feishuperm.setup import checks
from feishuperm.setup import service as server
from feishuperm.setup.checks import edit
from feishuperm.setup.claude_settings import RULES, listing
from feishuperm.setup.scan import Created, Scan, Screen, is_open_id
from feishuperm.setup.status import settled_status
from feishuperm.setup.steps import ConfigStep, Manifest, remove_file

# How long a request waits.


USUAL = 600  # seconds that `install` offers on a terminal
SHORT = 60  # up to here a wait ends as specified: with a refusal
LONGEST = 86400
DURATION = re.compile(r"([0-9]{1,5})([smh]?)")
UNITS = {"": 1, "s": 1, "m": 60, "h": 3600}
SECONDS = "PERMISSION_REQUEST_TIMEOUT"
ACTION = "PERMISSION_TIMEOUT_ACTION"


def duration(text: str) -> int:
    """Seconds of `10m`, `55s` or `600`. Raises ValueError."""
    match = DURATION.fullmatch(text.strip().lower())
    seconds = int(match[1]) * UNITS[match[2]] if match else 0
    if not 0 < seconds <= LONGEST:
        raise ValueError(msg("{!r} is not a time from 1s to 24h, such as 10m", text))
    return seconds


def wait_settings(seconds: int) -> dict[str, str]:
    """The settings for a wait of so many seconds."""
    action = "deny" if seconds <= SHORT else "terminal"
    return {SECONDS: str(seconds), ACTION: action}


def ask_wait() -> dict[str, str]:
    """Offer the longer wait; Enter takes it."""
    say(
        "How long should a request wait for you? After 10 minutes the terminal\n"
        "decides, where the dialog stays open; otherwise it is denied after 55 s."
    )
    answer = ask("Wait 10 minutes? [Y/n] ")
    return wait_settings(55 if answer in ("n", "no") else USUAL)


# Whether owners may start sessions from the chat.


REMOTE, PROJECTS = "FEISHUPERM_REMOTE", "FEISHUPERM_PROJECTS"


def remote_settings(
    options: Namespace, config: WantedConfig, environ: Mapping[str, str]
) -> dict[str, str]:
    """What switches it on, once a person has read what that means; or off.

    Raises FeishupermError where nobody can be asked, or nobody agrees.
    """
    if options.no_remote:
        return {REMOTE: "off"}
    if not (options.remote or options.projects):
        return {}
    require_person(environ)
    say(
        "Owners of the app will be able to start Claude Code in these folders, and to\n"
        "continue sessions there, from the chat. Each start shows a card first."
    )
    named = options.projects or config.old.get(PROJECTS, "")
    if not named:
        named = input(translate("Folders, separated by colons: ")).strip()
    folders = [os.path.realpath(os.path.expanduser(f)) for f in named.split(":") if f]
    for folder in folders:
        show("  " + folder)
        if not os.path.isdir(folder):
            raise UsageError(msg("{} is no folder", folder))
    if not folders or ask("switch it on? [y/N] ") not in ("y", "yes"):
        raise FeishupermError(msg("not switched on; nothing was changed"))
    return {REMOTE: "on", PROJECTS: ":".join(folders)}


# What an install wants: flags, environment, and what nobody said.


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

    def __init__(self, options: Namespace, environ: Mapping[str, str]) -> None:
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
            socket = own_socket("feishuperm.sock", self.environ)
            self.new["PERMISSION_SOCKET_PATH"] = socket
        settings = self.settings()
        if not serves:
            return
        if self.has("CALLBACK_SERVER_PORT") or self.has("CALLBACK_SERVER_URL"):
            return server.check_port(settings, own_port)
        port, hosts = settings.callback_server_port, settings.http_hosts()
        if not server.can_listen(hosts, 0 if port == own_port else port):
            self.new.update(server.port_settings(server.free_port(hosts)))


def asked_config(options: Namespace, environ: Mapping[str, str]) -> dict[str, str]:
    """Settings from flags and the environment, which the service will not have."""
    typed = (REMOTE, PROJECTS)  # a person says them at a terminal
    asked = {x: environ[x] for x in BY_KEY if x not in typed and environ.get(x)}
    for flag, key in FLAGS.items():
        if getattr(options, flag):
            asked[key] = getattr(options, flag)
    if options.wait:
        asked.update(wait_settings(options.wait))
    if options.port and "CALLBACK_SERVER_URL" not in asked:
        asked.update(server.port_settings(options.port))
    return asked


# How a phone gets here.


# Documentation addresses: nothing is sent, the kernel only says which way it would go.
FAR = ((socket.AF_INET, "192.0.2.1"), (socket.AF_INET6, "2001:db8::1"))
TAILNET = ipaddress.ip_network("100.64.0.0/10")
URL = "CALLBACK_SERVER_URL"
SHOWN = 4
IN_TAILNET = msg("for devices in your tailnet (or your provider's network)")
IN_NETWORK = msg(
    "for everybody in this network, unencrypted: fine at home, not in a cafe"
)
IN_WORLD = msg(
    "for everybody on the internet, unencrypted: put an https proxy in front of it"
)


class Address(NamedTuple):
    """An address of this machine, and who can reach it, in words."""

    host: str
    exposes: str


def addresses(hosts: Iterable[str] | None = None) -> list[Address]:
    """This machine's addresses for a phone, the narrowest first."""
    found = dict.fromkeys(own_hosts() if hosts is None else hosts)
    rows = [Address(host, exposed_to(host)) for host in found]
    order = (IN_TAILNET, IN_NETWORK, IN_WORLD)
    rows = [row for row in rows if row.exposes]
    return sorted(rows, key=lambda row: order.index(row.exposes))[:SHOWN]


def exposed_to(host: str) -> str:
    """Who reaches an address; empty: no phone does."""
    address = ipaddress.ip_address(host)
    if address.is_loopback or address.is_link_local or address.is_unspecified:
        return ""
    if address.version == 4 and address in TAILNET:
        return IN_TAILNET
    return IN_NETWORK if address.is_private else IN_WORLD


def own_hosts() -> list[str]:
    """Addresses that this machine has, as far as it says so without asking anybody."""
    hosts = []
    for family, far in FAR:
        with suppress(OSError), socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect((far, 9))
            hosts.append(str(probe.getsockname()[0]))
    with suppress(OSError):
        name = socket.gethostname()
        named = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
        hosts += [str(row[4][0]).partition("%")[0] for row in named]
    return hosts


def is_out_of_reach(settings: Settings) -> bool:
    """Whether buttons are sent that no phone can open."""
    return "webhook" in settings.surfaces() and settings.url_is_local()


def advise(settings: Settings, rows: list[Address]) -> None:
    """Say so, with the addresses that a phone could open and whom each lets in."""
    url, port = settings.callback_server_url, settings.callback_server_port
    say("The buttons lead to {}, which a phone cannot open. It could open:", url)
    for number, row in enumerate(rows, 1):
        show(f"  {number}  {url_of(row.host, port)}  {translate(row.exposes)}")


# The group bot: its address, its secret, and how a phone gets here.


PORT = "CALLBACK_SERVER_PORT"
AGAIN = msg(
    "The secret is wrong, the address is right. Secret (empty: another address): "
)


class BotQuestions:
    """One conversation about a bot; what it led to is in `config`."""

    def __init__(self, config: WantedConfig, own_port: Callable[[], int] = int) -> None:
        self.config = config
        self.own_port = own_port  # that our own server holds
        self.offered = False  # addresses that a phone can open
        self.tried = False  # whether a bot was given by a person and answered

    def fails(self) -> bool:
        """Whether a bot that was just given does not take a card; says so."""
        if not self.config.has_new_bot():
            return False
        self.tried = True
        return not self._takes_card()

    def ask(self) -> bool:
        """Ask for the bot until it works or the person gives up; then True too."""
        say("In Feishu: open the group's settings, add a custom bot, copy its address.")
        later = translate("Webhook address (empty: later, use the inbox): ")
        new = self.config.new
        while url := input(later).strip():
            try:
                parse_setting(BY_KEY[BOT[0]], url)
            except UsageError as error:
                say(message_of(error))
                continue
            secret = _hidden(msg("Signing secret (empty: none): "))
            new[BOT[0]] = url
            if secret or self.config.old.get(BOT[1]):
                new[BOT[1]] = secret  # not the old bot's
            if self._takes_card():
                say("a test card was sent to the group")
                self.tried = True
                new.update(self.config.with_surface("webhook"))
                break
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
                "a phone cannot open any address of this computer; with a tunnel, use "
                "--callback-url"
            )
            return
        while chosen := ask("Choose one [Enter: leave it]: "):
            if chosen.isdecimal() and 0 < int(chosen) <= len(rows):
                port, hosts = settings.callback_server_port, ("0.0.0.0", "::")
                if port != self.own_port() and not server.can_listen(hosts, port):
                    port = server.free_port(hosts)
                url = url_of(rows[int(chosen) - 1].host, port)
                self.config.new.update({PORT: str(port), URL: url})
                return

    def _takes_card(self) -> bool:
        """Whether Feishu takes a card; a wrong secret is asked for again, alone.

        What Feishu refused is never written.
        """
        self.offer_addresses()
        new = self.config.new
        while not (result := checks.send_hello(self.config.settings())).ok:
            say("Feishu did not accept the test card: {}", result.message)
            secret = _hidden(AGAIN) if result.code == feishu.BAD_SIGN else ""
            if not secret:
                for key in BOT:
                    new.pop(key, None)
                return False
            new[BOT[1]] = secret
        return True


def _hidden(question: str) -> str:
    """What a person types unseen."""
    return getpass.getpass(translate(question)).strip()


def tell_out_of_reach(config: WantedConfig) -> None:
    """Without a person to ask: say which addresses a phone could open."""
    settings = config.settings()
    if not is_out_of_reach(settings):
        return
    rows = addresses()
    advise(settings, rows)
    port = settings.callback_server_port
    example = url_of(rows[0].host, port) if rows else "URL"
    say("to set one: feishuperm install --callback-url {}", example)


# The app: made by a scan or given, its owner named, a tap awaited.
#
# Open ids belong to one app, so a new app has a new owner.


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
        options: Namespace,
        command: Callable[[], str],
    ) -> None:
        self.config = config
        self.manifest = manifest
        self.options = options
        self.command = command  # how a person calls us
        self.is_new = config.new.get(APP_ID, "") not in ("", config.old.get(APP_ID))
        self.lists = False  # surfaces, for as long as nobody owns the app

    @property
    def is_set(self) -> bool:
        return self.config.has(APP_ID) and self.config.has(APP_SECRET)

    # Where it comes from.

    def scan(self, app_id: str = "") -> None:
        """Make an app, or change the one named. Raises FeishupermError."""
        settings = self.config.settings()
        own, named = os.path.join(self.manifest.folder, "scan.svg"), self.options.qr
        picture = "" if self.options.no_qr else os.path.abspath(named or own)
        scan = Scan(
            settings.feishu_accounts_url,
            self.manifest.folder,
            self._keep,
            Screen(self.manifest.environ, picture, draws=not named),
            partial(call, ca_file=settings.feishuperm_ca_file),
        )
        try:
            scan.run(app_id)
        finally:
            remove_file(own)
        self.is_new = True
        self.name_owner()

    def rescan(self) -> None:
        """Change the app there is already. Raises FeishupermError."""
        app_id = self.config.settings().feishu_app_id
        if not app_id:
            problem = msg("there is no app yet")
            raise FeishupermError(problem, "feishuperm install --setup")
        self.scan(app_id)

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
            said = msg("app {} is no longer used here, but still exists in Feishu: {}")
            say(said, left, f"{base}/app/{left}")

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
        while app_id := input(translate("App ID (cli_..., empty: back): ")).strip():
            secret = _hidden(msg("App secret: "))
            problem = self._problem(app_id, secret)
            if problem:
                say(problem)
                continue
            is_lark = self.config.settings().feishu_base_url == LARK
            self._keep(Created(app_id, secret, "", is_lark))
            self.is_new = True
            self.name_owner(asks=True)
            return True
        return False

    def _problem(self, app_id: str, secret: str) -> str:
        """What is wrong with an id and a secret, if anything."""
        if not secret:
            return msg("the App Secret is missing; it is on the app's credentials page")
        given = {APP_ID: app_id, APP_SECRET: secret}
        try:
            settings = Settings({**self.config.old, **self.config.new, **given})
        except SettingError as error:
            return message_of(error)
        token = app_of(settings).fetch_token()
        return "" if token.ok else msg("Feishu does not accept it: {}", token.message)

    # Whose it is.

    def name_owner(self, asks: bool = False) -> None:
        """See to it that the app has an owner, who is a person and not the bot.

        Who made an app that was given need not be who sits here: a person is asked.
        """
        settings = self.config.settings()
        api = app_of(settings)
        if self.has_people() and checks.bot_id(api) not in settings.feishu_owner_id:
            return
        owner = checks.app_owner(api)
        if asks or not owner:
            usual = msg("{}, the app's owner", owner) if owner else msg("later")
            prompt = translate("Your open_id, ou_... [{}]: ", usual)
            while (typed := input(prompt).strip()) and not is_open_id(typed):
                pass
            owner = typed or owner
        if owner:
            self._write(self._people(owner))
        else:
            say("the app is not used until it has an owner: {} install", self.command())

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

    # Whether it works.

    def verify(self, socket: str) -> None:
        """Look at all of it; what is missing is named with its cure."""
        settings = self.config.settings()
        status = settled_status(socket, CONNECT_SECONDS)
        by_hand = edit(config_path(self.manifest.environ))
        found = checks.app_findings(settings, app_of(settings), status, by_hand)
        for state, text, fix in found:
            if state != OK:
                words = [translate(part) for part in (word(state), text, fix)]
                said = "  {}: {} -> {}".format(*words)
                show(said.replace("feishuperm install", f"{self.command()} install"))

    def await_tap(self, socket: str, seconds: float) -> None:
        """A card to the owner; their tap proves the whole way, and that it is them."""
        say("A card is on its way to you in Feishu: tap its button (Ctrl-C: later).")
        try:
            checks.await_tap(socket, seconds)
        except KeyboardInterrupt:
            say("later: {} test-card", self.command())
        except FeishupermError as error:
            complain(error)


# The conversation.


WHERE = msg(
    "Where should requests be sent?\n"
    "  1  To you in Feishu: scan a QR code to create the app (recommended)\n"
    "  2  An existing Feishu app (App ID and secret)\n"
    "  3  A Feishu group (the address of its custom bot)\n"
    "  4  Only the inbox on this computer, for now"
)
MODE = msg(
    "In auto mode Claude Code rarely asks. What should it always ask you about?\n"
    "  1  High-risk actions, such as git push, npm publish, kubectl apply,\n"
    "     rm outside the project, reading ~/.ssh (recommended; ? lists all {})\n"
    "  2  Everything that is not allowed yet\n"
    "  3  Leave it as it is",
    len(RULES),
)


class Questions:
    """One conversation; what it led to is in `config`, `bot` and `mode`."""

    def __init__(
        self, config: WantedConfig, app: AppSetup, own_port: Callable[[], int] = int
    ) -> None:
        self.config = config
        self.app = app
        self.bot = BotQuestions(config, own_port)
        self.mode = ""  # of Claude Code, if the person wants another one
        self.waits = False  # as long as the person said
        self.wants_list = False  # of rules that make it ask in auto mode
        self.wants_agents = False  # those that were found here

    def ask(
        self,
        about_place: bool,
        about_mode: bool,
        about_wait: bool = False,
        agents: Sequence[str] = (),
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
            if agents:
                say("Found here too: {}.", ", ".join(agents))
                answer = ask("Should their requests reach you as well? [Y/n] ")
                self.wants_agents = answer not in ("n", "no")
            if about_mode:
                self._ask_mode()
        except EOFError:  # Ctrl-D: no more answers
            print()

    def take_wait(self) -> None:
        """The longer wait, without a question."""
        self.config.new.update(wait_settings(USUAL))
        self.waits = True
        say("A request waits 10 minutes for you (--wait TIME changes it).")

    def _ask_place(self) -> None:
        """Where requests go; again, until one of the ways works."""
        kept = self._place_now()
        ways = {
            "1": self._scan,
            "2": self.app.given,
            "3": self.bot.ask,
            "4": self._inbox_only,
        }
        usual = "1"
        if kept:
            usual, ways["5"] = "5", lambda: True
        while True:
            say(WHERE)
            if kept:
                say("  5  As it is now: {}", kept)
            way = ways.get(ask("Choose [{}]: ", usual) or usual)
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
        names = {
            "app": msg("the app {}", settings.feishu_app_id),
            "webhook": msg("the group bot"),
        }
        places = [names[name] for name in names if name in settings.surfaces()]
        return ", ".join(map(translate, places))

    def _inbox_only(self) -> bool:
        if self._place_now():
            self.config.new[SURFACES] = "inbox"  # whatever else is set stays so
        return True

    def _ask_mode(self) -> None:
        """What Claude Code should ask about; Enter takes the list of rules."""
        say(MODE)
        while (chosen := ask("Choose [{}]: ", "1") or "1") not in ("1", "2", "3"):
            show(listing())
        self.wants_list = chosen == "1"
        self.mode = "default" if chosen == "2" else ""
