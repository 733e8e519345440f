"""Feishu: does the group bot take a card, is the app ready, do our clocks agree."""

from __future__ import annotations

import email.utils
import time
from collections.abc import Iterator
from functools import partial

from feishuperm.lib import feishu
from feishuperm.lib.config import config_path
from feishuperm.lib.feishu_app import app_of
from feishuperm.lib.post import Reply, post_json
from feishuperm.models.ask import Notice
from feishuperm.models.settings import Settings
from feishuperm.setup.case import FAIL, OK, WARN, Case, Result, edit
from feishuperm.setup.checks_app import AppCheck, is_connected

BOT_OPTIONS = "--webhook URL --secret TEXT"
BOT_SETTINGS = (11242, 19007, 19022, 19024)  # codes that only the group's owner mends
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


def check_feishu(case: Case) -> Iterator[Result]:
    """Whatever of Feishu is set up."""
    has_app = bool(case.settings.feishu_app_id)
    if has_app:
        yield from check_app(case)
    if case.settings.feishu_webhook_url:
        yield from check_bot(case)
    elif case.settings.feishuperm_gateway and not has_app:
        yield Result(OK, "cards come through the gateway: no app is needed here")
    elif not has_app:
        text = "neither an app nor a group bot: only the inbox shows requests"
        yield Result(WARN, text, case.install("--setup"))


def check_app(case: Case) -> Iterator[Result]:
    """All that Feishu says of the app; no card is sent."""
    fix = edit(config_path(case.environ))
    rescan, test = case.install("--rescan"), case.mends("test-card")
    check = AppCheck(case.settings, fix, rescan, test, is_connected(case.status))

    def note_date(reply: Reply) -> None:
        case.date = reply.headers.get("date", "")

    check.api = app_of(case.settings, note_date)
    yield from check.results()


def check_bot(case: Case) -> Iterator[Result]:
    def post(url: str, body: bytes) -> Reply:
        reply = post_json(url, body, ca_file=case.settings.feishuperm_ca_file)
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
