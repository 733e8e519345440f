"""The Feishu app: is all of it there that a tap needs, as far as Feishu says.

Each call costs of a monthly quota, so nothing here runs but when a person asks.  What
Feishu does not tell is said to be unknown: then a tap is the proof.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from feishuperm.errors import SettingError
from feishuperm.lib.feishu import NO_ANSWER
from feishuperm.lib.feishu_app import (
    BOT,
    CONNECTIONS,
    ENABLED,
    LACKS_SCOPE,
    app_of,
    page_of,
)
from feishuperm.models.fields import part_at
from feishuperm.models.settings import Settings
from feishuperm.setup.case import FAIL, OK, WARN, Result
from feishuperm.setup.registration import CALLBACK, EVENT, SCOPES, is_open_id

ABOUT = "/open-apis/application/v6/applications/me"
APPLICATION = f"{ABOUT}?lang=zh_cn&user_id_type=open_id"
VERSIONS = f"{ABOUT}/app_versions?lang=zh_cn&page_size=2"
BOT_STATES = {
    0: "is not in use yet",
    1: "was switched off by the company",
    3: "waits to be switched on by the company",
    4: "waits for an upgrade to be switched on",
    5: "has expired",
    6: "has expired",
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
            fix = "check the network" if token.code == NO_ANSWER else self.fix
            yield Result(FAIL, f"the app cannot be used: {token.message}", fix)
            return
        yield Result(OK, "id and secret of the app fit")
        yield self.bot()
        yield from self.application()
        yield from self.version()
        yield self.connections()

    def _settings_problem(self) -> str:
        if not self.settings.feishu_app_secret:
            return "FEISHU_APP_ID is set without FEISHU_APP_SECRET"
        try:
            self.settings.app_people()
        except SettingError as error:
            return str(error)
        return ""

    def bot(self) -> Result:
        result = self.api.request("GET", BOT)
        if not result.ok:
            text = f"the app's bot does not answer: {result.message}"
            if result.retry or result.code == NO_ANSWER:
                return Result(FAIL, text, "check the network")
            return Result(FAIL, text, self._page(page_of(result.code) or "version"))
        status = part_at(result.data, "bot").get("activate_status")
        if status == ENABLED:
            return Result(OK, "the app's bot is ready")
        number = status if isinstance(status, int) else -1
        state = BOT_STATES.get(number, "is in an unknown state")
        text = f"the app's bot {state} (status {status}): publish a version"
        return Result(FAIL, text, self._page("version"))

    # What the app is made of.

    def application(self) -> Iterator[Result]:
        """Switched on, what it may, and whether taps come over the connection."""
        result = self.api.request("GET", APPLICATION)
        if not result.ok:
            yield self._unreadable("what the app may do", result.code, result.message)
            return
        app = part_at(result.data, "app")
        if app.get("status") not in (None, APP_ENABLED):
            yield Result(FAIL, "the app is switched off", self._page("version"))
        if app.get("unaudit_version_id"):
            text = "a version of the app waits for the company's administrator"
            yield Result(WARN, text, self._page("version"))
        yield from self._scopes(app.get("scopes"))
        yield self._callback(app.get("callback_info"))

    def _scopes(self, listed: object) -> Iterator[Result]:
        if not isinstance(listed, list):
            yield self._unreadable("what the app may do")
            return
        granted = {_name(scope) for scope in listed}
        missing = [
            scope for scope in SCOPES if granted.isdisjoint((scope, *SAME[scope]))
        ]
        if missing:
            state = FAIL if set(missing) & set(NEEDED) else WARN
            query = f"auth?q={','.join(missing)}&op_from=openapi&token_type=tenant"
            fix = self._rescan_or(query)
            yield Result(state, f"the app may not: {', '.join(missing)}", fix)
        else:
            yield Result(OK, "the app may do all that is needed")

    def _callback(self, info: object) -> Result:
        if not isinstance(info, dict):
            return self._unreadable("whether taps reach the app")
        if info.get("callback_type") == "webhook":
            text = "taps go to a web address instead of the long connection"
            return Result(FAIL, text, self._page("callback"))
        if CALLBACK not in (info.get("subscribed_callbacks") or []):
            text = f"taps do not reach the app: {CALLBACK} is not subscribed"
            return Result(FAIL, text, self._rescan_or("callback"))
        return Result(OK, "taps reach the app over its long connection")

    def version(self) -> Iterator[Result]:
        """Published, and with the event that brings texts."""
        result = self.api.request("GET", VERSIONS)
        if not result.ok:
            yield self._unreadable("what is published", result.code, result.message)
            return
        items = result.data.get("items")
        versions = [item for item in items or [] if _is_published(item)]
        if not versions:
            text = "no version of the app is published"
            yield Result(FAIL, text, self._page("version"))
            return
        number = versions[0].get("version", "")
        events = {_name(event) for event in versions[0].get("event_infos") or []}
        if EVENT in events:
            yield Result(OK, f"version {number} of the app is published")
        else:
            text = f"texts do not reach the app: {EVENT} is not subscribed"
            yield Result(WARN, text, self._rescan_or("event"))

    def _unreadable(
        self, what: str, code: int = 0, message: str = "Feishu does not say"
    ) -> Result:
        fix = self.rescan if code in LACKS_SCOPE else self.test
        return Result(WARN, f"unknown {what}: {message}", fix)

    def connections(self) -> Result:
        """Feishu hands each tap to one connection at random: there may be one only."""
        result = self.api.request("GET", CONNECTIONS)
        count = result.data.get("online_instance_cnt") if result.ok else None
        if not isinstance(count, int):
            return Result(OK, "unknown how many connections the app has")
        if count > 1:
            text = f"the app has {count} connections: each tap reaches only one of them"
            fix = "end the other server, or give it an app of its own"
            return Result(WARN, text, fix)
        if count == 0 and self.held:
            text = "the server says it is connected, and Feishu sees no connection"
            return Result(WARN, text, "feishuperm restart")
        return Result(OK, f"connections of the app: {count}")

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
        return f"open {self.api.console(page)}"

    def _rescan_or(self, page: str) -> str:
        return f"{self.rescan}, or open {self.api.console(page)}"


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
