"""What doctor and installer both check: one machine, the Feishu app, the group bot.

A check says ok, warn or fail, what it saw, and the command that repairs it; facts that
several checks need are kept on the `DoctorContext`.  It changes nothing, but a group
bot gets a test card, since nothing else proves that Feishu takes cards.
"""

from __future__ import annotations

import email.utils
import json
import os
import shlex
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, NamedTuple

from feishuperm.app.api import (
    BOT,
    CONNECTIONS,
    ENABLED,
    LACKS_SCOPE,
    app_of,
    page_of,
)
from feishuperm.errors import FeishupermError, SettingError
from feishuperm.lib import feishu
from feishuperm.lib.config import (
    SHARED_SETTINGS,
    claude_settings,
    config_path,
    load_settings,
)
from feishuperm.lib.control import NotRunningError
from feishuperm.lib.feishu import NO_ANSWER
from feishuperm.lib.files import read_bytes
from feishuperm.lib.post import Reply, post_json
from feishuperm.lib.program import permission_event, typed_command
from feishuperm.lib.terminal import say
from feishuperm.messages import message_of, msg, text
from feishuperm.models.ask import Notice
from feishuperm.models.fields import part_at
from feishuperm.models.names import EXPIRED, LANGUAGES, TEST_TOOL
from feishuperm.models.settings import Settings
from feishuperm.services.ledger import Ledger
from feishuperm.setup.scan import CALLBACK, EVENT, SCOPES, is_open_id
from feishuperm.setup.steps import MAX_ARCHIVE, Manifest, digest

OK, WARN, FAIL = "ok", "warn", "fail"
# `install` would take a changed file for the right one, so it is not named before that.
FILE_FIRST = msg("mend the file first, see the line `file`")


class Result(NamedTuple):
    """What one check has to say."""

    state: str
    text: str
    fix: str = ""


class DoctorContext:
    """One machine, one user, one project."""

    def __init__(self, environ: Mapping[str, str], project: str) -> None:
        self.environ = environ
        self.project = project
        self.manifest = Manifest(environ)
        self.settings: Settings = load_settings(environ, lenient=True)
        self.status: dict[str, Any] | None = None
        self.date = ""  # of Feishu's answer
        self.texts: dict[str, str] = {}  # Claude Code's settings, by path
        program = self.manifest.record("program")
        self.archive = str(program.get("archive", ""))
        data = read_bytes(self.archive, MAX_ARCHIVE) or b""
        self.intact = not program or digest(data) == program["sha256"]
        self.program = typed_command(next(iter(program.get("links", [])), ""), environ)

    def settings_paths(self) -> list[str]:
        """The files Claude Code reads, the strongest last."""
        paths = claude_settings(self.project, self.environ).values()
        return list(dict.fromkeys(paths))  # at home, the first two are one

    # The commands that repair.

    def command(self, command: str) -> str:
        """A command of ours, unless the file that would run it is not the right one."""
        return f"{self.program} {command}".rstrip() if self.intact else FILE_FIRST

    def install(self, options: str = "") -> str:
        return self.command(f"install {options}")

    def restart(self) -> str:
        return self.command("restart")

    def register(self, path: str) -> str:
        """What writes our hook again to a settings file of Claude Code."""
        if path == self.settings_paths()[0]:
            return self.install()
        shared = path.endswith(SHARED_SETTINGS)
        folder = shlex.quote(self.project)
        install = self.install("--project --shared" if shared else "--project")
        return f"cd {folder} && {install}" if self.intact else FILE_FIRST


def edit(path: str, what: str = "") -> str:
    """An edit by hand."""
    return msg("edit {}{}", shlex.quote(path), msg(": {}", what) if what else "")


def words(error: Exception) -> str:
    """An error as a person reads it, without its number."""
    said, path = message_of(error), getattr(error, "filename", None)
    return msg("{}: {}", path, said) if path else said


# The Feishu app: is all of it there that a tap needs, as far as Feishu says.
#
# Each call costs of a monthly quota, so nothing here runs but when a person asks.  What
# Feishu does not tell is said to be unknown: then a tap is the proof.


ABOUT = "/open-apis/application/v6/applications/me"
APPLICATION = f"{ABOUT}?lang=zh_cn&user_id_type=open_id"
VERSIONS = f"{ABOUT}/app_versions?lang=zh_cn&page_size=2"
BOT_STATES = {
    0: msg("is not in use yet"),
    1: msg("was switched off by the company"),
    3: msg("waits to be switched on by the company"),
    4: msg("waits for an upgrade to be switched on"),
    5: msg("has expired"),
    6: msg("has expired"),
}
APP_ENABLED, PUBLISHED = 1, 1
# Either of several names will do; without the first two nobody can answer.
NEEDED = SCOPES[:2]
SAME = {
    "im:message:send_as_bot": ("im:message",),
    "im:message:update": ("im:message",),
    "im:message.p2p_msg:readonly": ("im:message.p2p_msg",),
    "im:resource:upload": ("im:resource",),
    "application:application:self_manage": ("admin:app.info:readonly",),
}


class AppCheck:
    """One look at an app; `rescan` is the command that adds what it lacks."""

    def __init__(
        self, settings: Settings, fix: str, rescan: str, test: str, held: bool = False
    ) -> None:
        self.settings = settings
        self.api = app_of(settings)
        self.fix = fix  # for what stands in config.env
        self.rescan = rescan
        self.test = test  # the command that sends a card
        self.held = held  # whether our server says that it is connected

    def results(self) -> Iterator[Result]:
        """Everything, in the order in which one thing needs the other."""
        problem = self._settings_problem()
        if problem:
            yield Result(FAIL, problem, self.fix)
            return
        token = self.api.fetch_token()
        if not token.ok:
            fix = msg("check the network") if token.code == NO_ANSWER else self.fix
            yield Result(FAIL, msg("the app cannot be used: {}", token.message), fix)
            return
        yield Result(OK, msg("id and secret of the app fit"))
        yield self.bot()
        yield from self.application()
        yield from self.version()
        yield self.connections()

    def _settings_problem(self) -> str:
        if not self.settings.feishu_app_secret:
            return msg("FEISHU_APP_ID is set without FEISHU_APP_SECRET")
        try:
            self.settings.app_people()
        except SettingError as error:
            return message_of(error)
        return ""

    def bot(self) -> Result:
        result = self.api.request("GET", BOT)
        if not result.ok:
            text = msg("the app's bot does not answer: {}", result.message)
            if result.retry or result.code == NO_ANSWER:
                return Result(FAIL, text, msg("check the network"))
            return Result(FAIL, text, self._page(page_of(result.code) or "version"))
        status = part_at(result.data, "bot").get("activate_status")
        if status == ENABLED:
            return Result(OK, msg("the app's bot is ready"))
        number = status if isinstance(status, int) else -1
        state = BOT_STATES.get(number, msg("is in an unknown state"))
        text = msg("the app's bot {} (status {}): publish a version", state, status)
        return Result(FAIL, text, self._page("version"))

    # What the app is made of.

    def application(self) -> Iterator[Result]:
        """Switched on, what it may, and whether taps come over the connection."""
        result = self.api.request("GET", APPLICATION)
        if not result.ok:
            yield self._unreadable(
                msg("what the app may do"), result.code, result.message
            )
            return
        app = part_at(result.data, "app")
        if app.get("status") not in (None, APP_ENABLED):
            yield Result(FAIL, msg("the app is switched off"), self._page("version"))
        if app.get("unaudit_version_id"):
            text = msg("a version of the app waits for the company's administrator")
            yield Result(WARN, text, self._page("version"))
        yield from self._scopes(app.get("scopes"))
        yield self._callback(app.get("callback_info"))

    def _scopes(self, listed: object) -> Iterator[Result]:
        if not isinstance(listed, list):
            yield self._unreadable(msg("what the app may do"))
            return
        granted = {_name(scope) for scope in listed}
        missing = [
            scope for scope in SCOPES if granted.isdisjoint((scope, *SAME[scope]))
        ]
        if missing:
            state = FAIL if set(missing) & set(NEEDED) else WARN
            query = f"auth?q={','.join(missing)}&op_from=openapi&token_type=tenant"
            fix = self._rescan_or(query)
            yield Result(state, msg("the app may not: {}", ", ".join(missing)), fix)
        else:
            yield Result(OK, msg("the app may do all that is needed"))

    def _callback(self, info: object) -> Result:
        if not isinstance(info, dict):
            return self._unreadable(msg("whether taps reach the app"))
        if info.get("callback_type") == "webhook":
            text = msg("taps go to a web address instead of the long connection")
            return Result(FAIL, text, self._page("callback"))
        if CALLBACK not in (info.get("subscribed_callbacks") or []):
            text = msg("taps do not reach the app: {} is not subscribed", CALLBACK)
            return Result(FAIL, text, self._rescan_or("callback"))
        return Result(OK, msg("taps reach the app over its long connection"))

    def version(self) -> Iterator[Result]:
        """Published, and with the event that brings texts."""
        result = self.api.request("GET", VERSIONS)
        if not result.ok:
            yield self._unreadable(
                msg("what is published"), result.code, result.message
            )
            return
        items = result.data.get("items")
        versions = [item for item in items or [] if _is_published(item)]
        if not versions:
            text = msg("no version of the app is published")
            yield Result(FAIL, text, self._page("version"))
            return
        number = versions[0].get("version", "")
        events = {_name(event) for event in versions[0].get("event_infos") or []}
        if EVENT in events:
            yield Result(OK, msg("version {} of the app is published", number))
        else:
            text = msg("texts do not reach the app: {} is not subscribed", EVENT)
            yield Result(WARN, text, self._rescan_or("event"))

    def _unreadable(
        self, what: str, code: int = 0, message: str = msg("Feishu does not say")
    ) -> Result:
        fix = self.rescan if code in LACKS_SCOPE else self.test
        return Result(WARN, msg("unknown {}: {}", what, message), fix)

    def connections(self) -> Result:
        """Feishu hands each tap to one connection at random: there may be one only."""
        result = self.api.request("GET", CONNECTIONS)
        count = result.data.get("online_instance_cnt") if result.ok else None
        if not isinstance(count, int):
            return Result(OK, msg("unknown how many connections the app has"))
        if count > 1:
            text = msg(
                "the app has {} connections: each tap reaches only one of them", count
            )
            fix = msg("end the other server, or give it an app of its own")
            return Result(WARN, text, fix)
        if count == 0 and self.held:
            text = msg("the server says it is connected, and Feishu sees no connection")
            return Result(WARN, text, "feishuperm restart")
        return Result(OK, msg("connections of the app: {}", count))

    # Who.

    def owner(self) -> str:
        """The open_id of the app's owner, empty if Feishu does not say."""
        app = part_at(self.api.request("GET", APPLICATION).data, "app")
        for name in (part_at(app, "owner").get("owner_id"), app.get("creator_id")):
            if is_open_id(name):
                return str(name)
        return ""

    def bot_id(self) -> str:
        """The bot's own open_id, which is nobody's."""
        bot = part_at(self.api.request("GET", BOT).data, "bot")
        return str(bot.get("open_id") or "")

    def _page(self, page: str) -> str:
        return msg("open {}", self.api.console(page))

    def _rescan_or(self, page: str) -> str:
        return msg("{}, or open {}", self.rescan, self.api.console(page))


def is_connected(status: Mapping[str, Any] | None) -> bool:
    """Whether the server says that it holds the app's connection.

    An app that is "down" may be connected: what it lacks keeps taps away all the same.
    """
    channels = (status or {}).get("channels") or []
    rows = [row for row in channels if row["name"] == "app"]
    return any(row.get("connected_since") for row in rows)


def _name(item: object) -> str:
    """The name of a scope or an event, however it is listed."""
    if isinstance(item, dict):
        item = item.get("scope") or item.get("scope_name") or item.get("event_type")
    return str(item)


def _is_published(item: object) -> bool:
    return (
        isinstance(item, dict)
        and item.get("status") == PUBLISHED
        and bool(item.get("publish_time"))
    )


# The group bot, and whatever of Feishu is set up.


BOT_OPTIONS = "--webhook URL --secret TEXT"
BOT_SETTINGS = (11242, 19007, 19022, 19024)  # codes that only the group's owner repairs
SIGN_SKEW = 3600  # Feishu refuses signatures that are older, or as much too new
SMALL_SKEW = 60


def send_hello(
    settings: Settings, post: feishu.Post | None = None
) -> feishu.SendResult:
    """What Feishu said to a card that only says hello."""
    notice = Notice("test", time.time())
    card = feishu.build_notice_card(notice, settings.feishuperm_lang)
    url, secret = settings.feishu_webhook_url, settings.feishu_webhook_secret
    trusting = partial(post_json, ca_file=settings.feishuperm_ca_file)
    return feishu.send_feishu_card(url, card, secret, post or trusting)


def check_feishu(here: DoctorContext) -> Iterator[Result]:
    """Whatever of Feishu is set up."""
    has_app = bool(here.settings.feishu_app_id)
    if has_app:
        yield from check_app(here)
    if here.settings.feishu_webhook_url:
        yield from check_bot(here)
    elif here.settings.feishuperm_gateway and not has_app:
        yield Result(OK, msg("cards come through the gateway: no app is needed here"))
    elif not has_app:
        text = msg("neither an app nor a group bot: only the inbox shows requests")
        yield Result(WARN, text, here.install("--setup"))


def check_app(here: DoctorContext) -> Iterator[Result]:
    """All that Feishu says of the app; no card is sent."""
    fix = edit(config_path(here.environ))
    rescan, test = here.install("--rescan"), here.command("test-card")
    check = AppCheck(here.settings, fix, rescan, test, is_connected(here.status))

    def note_date(reply: Reply) -> None:
        here.date = reply.headers.get("date", "")

    check.api = app_of(here.settings, note_date)
    yield from check.results()


def check_bot(here: DoctorContext) -> Iterator[Result]:
    def post(url: str, body: bytes) -> Reply:
        reply = post_json(url, body, ca_file=here.settings.feishuperm_ca_file)
        here.date = reply.headers.get("date", "")
        return reply

    result = send_hello(here.settings, post)
    if result.ok:
        yield Result(OK, msg("the group bot took a test card"))
    else:
        text = msg("the group bot did not: {}", result.message)
        yield Result(FAIL, text, bot_fix(here, result))


def bot_fix(here: DoctorContext, result: feishu.SendResult) -> str:
    if result.code in BOT_SETTINGS:
        return msg("change the bot's settings in the Feishu group")
    if result.retry and result.code != feishu.NO_ANSWER:
        return msg("in a minute: {} doctor", here.program)
    signs = result.code == feishu.BAD_SIGN
    key = "FEISHU_WEBHOOK_SECRET" if signs else "FEISHU_WEBHOOK_URL"
    if here.environ.get(key):  # it wins over whatever `install` keeps
        return msg("set it right in the environment: {}", key)
    return here.install("--secret TEXT" if signs else BOT_OPTIONS)


def check_clock(here: DoctorContext) -> Iterator[Result]:
    if not here.date:
        yield Result(OK, msg("not compared: no answer of Feishu's"))
        return
    try:
        there = email.utils.parsedate_to_datetime(here.date).timestamp()
    except (TypeError, ValueError):
        yield Result(OK, msg("not compared: Feishu sent no readable date"))
        return
    skew = round(time.time() - there)
    state = FAIL if abs(skew) >= SIGN_SKEW else WARN if abs(skew) >= SMALL_SKEW else OK
    fix = msg("set the clock: timedatectl set-ntp true")
    yield Result(state, msg("{:+d} s from Feishu's", skew), fix)


# A card through the running server, and what becomes of it.


POLL_SECONDS = 0.25
LOOKED_AT = 50  # entries of the ledger; others may be answered meanwhile
BOTS = {
    "app": msg("the app"),
    "webhook": msg("the group bot"),
    "gateway": msg("the gateway"),
}


def watch(
    hook: subprocess.Popen[bytes],
    ask: Callable[[], dict[str, Any]],
    until: float,
    clock: Callable[[], float] = time.monotonic,
    pause: Callable[[float], object] = time.sleep,
) -> str:
    """Wait for the hook's end and tell of a broken bot at once; its last problem."""
    said = problem = ""
    while hook.poll() is None and clock() < until:
        try:
            problem = bot_problem(ask())
        except NotRunningError as error:  # the hook waits for it to come back
            problem = message_of(error)
        if problem and problem != said:
            say(problem)
            said = problem
        pause(POLL_SECONDS)
    return problem


def bot_problem(status: dict[str, Any]) -> str:
    """What is wrong with app, group bot and gateway, if anything. Raises without any.

    One that is up will do: the bot stands in for an app that cannot send.
    """
    channels = [channel for channel in status["channels"] if channel["name"] in BOTS]
    if not channels:
        raise FeishupermError(
            msg("the server has no Feishu group bot, no app and no gateway"),
            msg("feishuperm install --setup, or feishuperm demo"),
        )
    if any(channel["state"] == "up" for channel in channels):
        return ""
    return msg("{} is down: {}", BOTS[channels[0]["name"]], channels[0]["detail"])


def last_answer(ledger: Ledger) -> tuple[str, str]:
    """Where the last test card was answered, and by whom; empty if it was not."""
    for entry in reversed(ledger.latest(LOOKED_AT)):
        if entry.get("tool") == TEST_TOOL:
            return str(entry.get("surface") or ""), str(entry.get("who") or "")
    return "", ""


def is_allowed(output: str) -> bool:
    """Whether the tap was one that allows."""
    decision = json.loads(output)["hookSpecificOutput"]["decision"]
    return bool(decision.get("behavior") == "allow")


def is_late(output: str) -> bool:
    """Whether this is the server's own answer for a request nobody answered."""
    decision = json.loads(output)["hookSpecificOutput"]["decision"]
    return decision.get("message") in [text(name, EXPIRED) for name in LANGUAGES]


def event() -> dict[str, Any]:
    """The request that the card is about."""
    text = "A card from `feishuperm test-card`. Any button will do."
    return permission_event(TEST_TOOL, {"text": text}, os.getcwd())
