"""Feishu: does the group bot take a card, is the app ready, do our clocks agree."""

from __future__ import annotations

import email.utils
import time
from collections.abc import Callable, Iterator
from functools import partial

from feishuperm.errors import SettingError
from feishuperm.lib import feishu
from feishuperm.lib.config import config_path
from feishuperm.lib.feishu_app import AppApi
from feishuperm.lib.post import Reply, call, post_json
from feishuperm.models.ask import Notice
from feishuperm.models.settings import Settings
from feishuperm.setup.case import FAIL, OK, WARN, Case, Result, edit

BOT_INFO = "/open-apis/bot/v3/info"
CONNECTIONS = "/open-apis/event/v1/connection"
BOT_ENABLED = 2
BOT_OPTIONS = "--webhook URL --secret TEXT"
BOT_SETTINGS = (11242, 19007, 19022, 19024)  # codes that only the group's owner mends
SIGN_SKEW = 3600  # Feishu refuses signatures that are older, or as much too new
SMALL_SKEW = 60


def send_hello(
    settings: Settings, post: Callable[[str, bytes], Reply] = post_json
) -> feishu.SendResult:
    """What Feishu said to a card that only says hello."""
    notice = Notice("test", time.time())
    card = feishu.build_notice_card(notice, settings.feishuperm_lang)
    url, secret = settings.feishu_webhook_url, settings.feishu_webhook_secret
    return feishu.send_feishu_card(url, card, secret, post)


def send_test(settings: Settings) -> str:
    """What went wrong with a test card, if anything."""
    result = send_hello(settings)
    return "" if result.ok else result.message


def check_feishu(case: Case) -> Iterator[Result]:
    """Whatever of Feishu is set up."""
    has_app = bool(case.settings.feishu_app_id)
    if has_app:
        yield from check_app(case)
    if case.settings.feishu_webhook_url or not has_app:
        yield from check_bot(case)


def check_app(case: Case) -> Iterator[Result]:
    """The app's settings, its credentials and its bot; no card is sent."""
    settings = case.settings
    fix = edit(config_path(case.environ))
    if not settings.feishu_app_secret:
        yield Result(FAIL, "FEISHU_APP_ID is set without FEISHU_APP_SECRET", fix)
        return
    try:
        settings.app_people()
    except SettingError as error:
        yield Result(FAIL, str(error), fix)
        return
    post = partial(call, ca_file=settings.feishuperm_ca_file)
    api = AppApi(settings.feishu_app_id, settings.feishu_app_secret,
                 settings.feishu_base_url, post)  # fmt: skip
    result = api.request("GET", BOT_INFO)
    bot = result.data.get("bot")
    status = bot.get("activate_status") if isinstance(bot, dict) else None
    if not result.ok:
        yield Result(FAIL, f"the app cannot be used: {result.message}", fix)
    elif status != BOT_ENABLED:
        text = f"the app's bot is not in use (status {status}): publish a version"
        yield Result(FAIL, text, f"open {api.console('version')}")
    else:
        yield Result(OK, "the app's bot is ready")
        yield from check_connections(api)


def check_connections(api: AppApi) -> Iterator[Result]:
    """Feishu hands each tap to one connection at random: there may be one only."""
    count = api.request("GET", CONNECTIONS).data.get("online_instance_cnt")
    if isinstance(count, int) and count > 1:
        text = f"the app has {count} connections: each tap reaches only one of them"
        yield Result(WARN, text, "end the other server, or give it an app of its own")


def check_bot(case: Case) -> Iterator[Result]:
    if not case.settings.feishu_webhook_url:
        text = "no group bot: only the inbox shows requests"
        yield Result(WARN, text, case.install(BOT_OPTIONS))
        return

    def post(url: str, body: bytes) -> Reply:
        reply = post_json(url, body)
        case.date = reply.headers.get("date", "")
        return reply

    result = send_hello(case.settings, post)
    if result.ok:
        yield Result(OK, "the group bot took a test card")
    else:
        text = f"the group bot did not: {result.message}"
        yield Result(FAIL, text, bot_fix(case, result))


def bot_fix(case: Case, result: feishu.SendResult) -> str:
    if result.code in BOT_SETTINGS:
        return "change the bot's settings in the Feishu group"
    if result.retry and result.code != feishu.NO_ANSWER:
        return f"in a minute: {case.program} doctor"
    signs = result.code == feishu.BAD_SIGN
    key = "FEISHU_WEBHOOK_SECRET" if signs else "FEISHU_WEBHOOK_URL"
    if case.environ.get(key):  # it wins over whatever `install` keeps
        return f"set it right in the environment: {key}"
    return case.install("--secret TEXT" if signs else BOT_OPTIONS)


def check_clock(case: Case) -> Iterator[Result]:
    if not case.date:
        yield Result(OK, "not compared: no answer of Feishu's")
        return
    try:
        there = email.utils.parsedate_to_datetime(case.date).timestamp()
    except (TypeError, ValueError):
        yield Result(OK, "not compared: Feishu sent no readable date")
        return
    skew = round(time.time() - there)
    state = FAIL if abs(skew) >= SIGN_SKEW else WARN if abs(skew) >= SMALL_SKEW else OK
    fix = "set the clock: timedatectl set-ntp true"
    yield Result(state, f"{skew:+d} s from Feishu's", fix)
