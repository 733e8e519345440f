"""Can a tap arrive, and does one: what doctor, installer and `test-card` all ask.

Three know something: the running server of its connections (`channel_finding`), Feishu
of the app and the group bot (`app_findings`, `send_hello`), and a person who taps a
card (`await_tap`).  All that tell why no tap comes have the reason from here.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

from feishuperm.app.api import BOT, AppApi, split_fix
from feishuperm.app.health import APPLICATION, FAIL, OK, Finding, examine, fail, ok
from feishuperm.errors import FeishupermError, SettingError
from feishuperm.lib import feishu
from feishuperm.lib.control import NotRunningError, ask_server
from feishuperm.lib.feishu import NO_ANSWER
from feishuperm.lib.post import post_json
from feishuperm.lib.program import hook_output, permission_event, start_hook
from feishuperm.lib.terminal import say
from feishuperm.messages import message_of, msg, text
from feishuperm.models.ask import Notice
from feishuperm.models.fields import part_at, text_at
from feishuperm.models.names import EXPIRED, LANGUAGES, TEST_TOOL
from feishuperm.models.settings import Settings
from feishuperm.services.ledger import Ledger
from feishuperm.setup.scan import is_open_id

# The ways to a phone, and what a person calls them.
BOTS = {
    "app": msg("the app"),
    "webhook": msg("the group bot"),
    "gateway": msg("the gateway"),
}
QUIET_NOW = msg("These are your quiet hours; what you ask for is sent all the same.")
BOT_OPTIONS = "--webhook URL --secret TEXT"
NETWORK = msg("check the network")
# How a gateway says that only joining again helps.
REFUSALS = ("revoked", "refuses")
REPAIRS = {
    "app": msg(
        "let this machine reach Feishu by WebSocket (behind a proxy: HTTPS_PROXY, "
        "NO_PROXY), then: feishuperm restart"
    ),
    "webhook": "feishuperm doctor",
    "gateway": msg("check the network, or ask the people who run the gateway"),
}


def edit(path: str, what: str = "") -> str:
    """An edit by hand."""
    return msg("edit {}{}", shlex.quote(path), msg(": {}", what) if what else "")


# The server.


def channel_finding(row: Mapping[str, Any]) -> Finding:
    """What the server says of one way to a phone."""
    name = row["name"]
    said, fix = split_fix(row.get("detail") or "")
    if row["state"] == "up":
        if row.get("connections", 1) > 1:
            return fail(said, fix)
        return ok(msg("{} is connected", BOTS[name]))
    if name == "gateway" and any(word in said for word in REFUSALS):
        return fail(said, f"feishuperm join {row['url']}")
    return fail(msg("{} is down: {}", BOTS[name], said), fix or REPAIRS[name])


def obstacle(status: Mapping[str, Any]) -> Finding | None:
    """Why no tap can come, None if one can. Raises FeishupermError without any bot.

    One way that is up will do: the bot stands in for an app that cannot send.
    """
    rows = [row for row in status["channels"] if row["name"] in BOTS]
    if not rows:
        raise FeishupermError(
            msg("the server has no Feishu group bot, no app and no gateway"),
            msg("feishuperm install --setup, or feishuperm demo"),
        )
    findings = [channel_finding(row) for row in rows]
    return None if OK in [found.state for found in findings] else findings[0]


# The app.


def app_findings(
    settings: Settings, api: AppApi, status: Mapping[str, Any] | None, fix: str
) -> Iterator[Finding]:
    """All that is known of the app; no card is sent.  `fix` is for its settings."""
    if not settings.feishu_app_secret:
        yield fail(msg("FEISHU_APP_ID is set without FEISHU_APP_SECRET"), fix)
        return
    try:
        settings.app_people()
    except SettingError as error:
        yield fail(message_of(error), fix)
        return
    token = api.fetch_token()
    if not token.ok:
        lost = token.code == NO_ANSWER
        said = msg("Feishu does not answer: {}", token.message)
        yield fail(said, NETWORK) if lost else fail(split_fix(token.message)[0], fix)
        return
    yield ok(msg("App ID and secret accepted"))
    is_broken = False
    for finding in examine(api):
        is_broken = is_broken or finding.state == FAIL
        yield finding
    for row in (status or {}).get("channels", ()):
        # A refusal of Feishu's has its reason above; a network says nothing there.
        if row["name"] == "app" and not (is_broken and split_fix(row["detail"])[1]):
            yield channel_finding(row)


def app_owner(api: AppApi) -> str:
    """The open_id of the app's owner, empty if Feishu does not say."""
    app = part_at(api.request("GET", APPLICATION).data, "app")
    names = (part_at(app, "owner").get("owner_id"), app.get("creator_id"))
    return next((str(name) for name in names if is_open_id(name)), "")


def bot_id(api: AppApi) -> str:
    """The bot's own open_id, which is nobody's."""
    return text_at(api.request("GET", BOT).data, "bot", "open_id")


# The group bot.


def send_hello(
    settings: Settings, post: feishu.Post | None = None
) -> feishu.SendResult:
    """What Feishu said to a card that only says hello: nothing else proves the bot."""
    notice = Notice("test", time.time())
    card = feishu.build_notice_card(notice, settings.feishuperm_lang)
    url, secret = settings.feishu_webhook_url, settings.feishu_webhook_secret
    trusting = partial(post_json, ca_file=settings.feishuperm_ca_file)
    return feishu.send_feishu_card(url, card, secret, post or trusting)


# A card through the running server, and its tap.


POLL_SECONDS = 0.25
GRACE_SECONDS = 10.0  # for the server to end a request that nobody answered
LOOKED_AT = 50  # entries of the ledger; others may be answered meanwhile


def await_tap(socket: str, seconds: float, is_quiet: bool = False) -> str:
    """Send a card and wait for its tap; what the hook printed.

    What is in its way is told at once, unless `is_quiet`.  Raises FeishupermError
    without a tap.  Ctrl-C takes the card away.
    """
    started = time.monotonic()
    event = permission_event(TEST_TOOL, {}, os.getcwd())
    hook = start_hook(event, os.environ)
    ask = partial(ask_server, {"command": "status"}, path=socket)
    try:
        until = started + seconds + GRACE_SECONDS
        problem = watch(hook, ask, until, (lambda said: None) if is_quiet else say)
    finally:
        output = hook_output(hook, 0.0)
    took = time.monotonic() - started
    if not output or is_late(output):
        raise missed(problem, took, bool(output) or took >= seconds)
    if not is_quiet:
        tell_tap(answered_on(Ledger()), took)
    return output


def missed(problem: Finding | None, seconds: float, is_late: bool) -> FeishupermError:
    """Why no tap came; a broken bot left nothing to tap."""
    if problem is not None:
        return FeishupermError(problem.text, problem.fix)
    if not is_late:
        return FeishupermError(msg("nobody saw the card"), "feishuperm doctor")
    return FeishupermError(
        msg("nobody tapped within {:.0f} seconds", seconds),
        msg("feishuperm doctor; with the number a phone shows: doctor NUMBER"),
    )


def tell_tap(surface: str, seconds: float) -> None:
    """Say that it came, and where from."""
    if surface == "inbox":
        say("Answered in the inbox. To try your phone: {}", "feishuperm test-card")
    else:
        say("Got your tap ({:.1f} s). Your phone is connected.", seconds)


def watch(
    hook: subprocess.Popen[bytes],
    ask: Callable[[], dict[str, Any]],
    until: float,
    tell: Callable[[str], object] = say,
) -> Finding | None:
    """Wait for the hook's end and tell of a broken bot at once; its last problem."""
    said, problem = "", None
    while hook.poll() is None and time.monotonic() < until:
        try:
            problem = obstacle(ask())
        except NotRunningError as error:  # the hook waits for it to come back
            problem = fail(message_of(error), error.hint)
        if problem is not None and problem.text != said:
            said = problem.text
            tell(said)
        time.sleep(POLL_SECONDS)
    return problem


def answered_on(ledger: Ledger) -> str:
    """Where the last test card was answered."""
    for entry in reversed(ledger.latest(LOOKED_AT)):
        if entry.get("tool") == TEST_TOOL and entry.get("surface"):
            return str(entry["surface"])
    return "card"


def is_late(output: str) -> bool:
    """Whether this is the server's own answer for a request nobody answered."""
    decision = json.loads(output)["hookSpecificOutput"]["decision"]
    return decision.get("message") in [text(name, EXPIRED) for name in LANGUAGES]
