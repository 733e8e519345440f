"""Whether a tap can reach the app at all, and who its owners are.

`examine()` asks Feishu everything about an app, for `doctor` and `install`.  `Health`
is what the server knows: the connection tells by itself when it is down.  What Feishu
says of the app is asked when the connection is first up, after a card that nobody
answered, while requests are left to another channel, and how many connections there
are when a person asks; never on a timer: calls are counted by the month.  The questions
are asked in an outbox's thread, which returns what it learnt.

    line up, nothing found     taps arrive
    line up, a problem found   they cannot; a tap that comes all the same clears it
    line down                  for LINE_SECONDS nothing is done, since it is mostly back
                               by then; after that others show pending requests

A connection that has just been cut may be counted for a while, so a second one is
believed only when this one has been up for AGAIN_SECONDS.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, NamedTuple, Protocol
from urllib.parse import quote

from feishuperm.app.api import (
    AUTH,
    BOT,
    CONNECTIONS,
    ENABLED,
    LACKS_SCOPE,
    REPAIR,
    AppApi,
    Result,
    split_fix,
)
from feishuperm.lib.display import one_line
from feishuperm.lib.log import log
from feishuperm.lib.task import Later
from feishuperm.messages import msg
from feishuperm.models.fields import list_at, part_at, text_at

TYPE_CHECKING = False
if TYPE_CHECKING:
    from feishuperm.channels.base import Announcement

OK, WARN, FAIL = "ok", "warn", "fail"


class Finding(NamedTuple):
    """What a check found, in one sentence, and the command or page that repairs it.

    What keeps taps from arriving is a failure, never a warning.
    """

    state: str
    text: str
    fix: str = ""


def ok(text: str) -> Finding:
    return Finding(OK, text)


def warn(text: str, fix: str) -> Finding:
    return Finding(WARN, text, fix)


def fail(text: str, fix: str) -> Finding:
    return Finding(FAIL, text, fix)


# What Feishu says of an app. What it does not tell counts as good: a tap is the proof.


ABOUT = "/open-apis/application/v6/applications/me"
APPLICATION = f"{ABOUT}?lang=zh_cn&user_id_type=open_id"
VERSIONS = f"{ABOUT}/app_versions?lang=zh_cn&page_size=2"
GRANTED = "/open-apis/application/v6/scopes"  # needs no permission, but lags behind
PERSON = "/open-apis/contact/v3/users/{id}?user_id_type=open_id"
CALLBACK = "card.action.trigger"
EVENT = "im.message.receive_v1"
# What the app needs, and another name that will do; without the first two nobody can
# answer.
SAME = {
    "im:message:send_as_bot": "im:message",
    "im:message:update": "im:message",
    "im:message.p2p_msg:readonly": "im:message.p2p_msg",
    "im:resource:upload": "im:resource",
    "application:application:self_manage": "admin:app.info:readonly",
}
SCOPES = tuple(SAME)
# What it may do besides, of which one is enough, and what that gives; nothing needs it.
READ_EVENT = "im.message.message_read_v1"
OFFERED = msg("optional permission {}: {}; to add it: {}")
OPTIONAL = {
    ("im:datasync.feed_card.time_sensitive:write",): msg(
        "it keeps the bot's chat on top of your list while a card is pending"
    ),
    ("im:message:readonly", "im:message"): msg(
        "with the event {} it tells which cards you have read: those are not reminded "
        "of",
        READ_EVENT,
    ),
}
BOT_STATES = {
    0: msg("the app's bot has never been used"),
    1: msg("the company has switched off the app's bot"),
    3: msg("the company has to switch on the app's bot"),
    4: msg("the app's bot needs an upgrade before it can be switched on"),
    5: msg("the app's bot has expired"),
    6: msg("the app's bot has expired"),
}
APP_ENABLED, PUBLISHED = 1, 1
NAME = 40  # characters of a person's name
MOST_NAMES = 10  # people whose names are asked for
MANY = msg("the app has {} connections, and each tap reaches only one of them")
RESCAN = "feishuperm install --rescan"
TEST = "feishuperm test-card"
END_OTHER = msg(
    "feishuperm stop on the other machine, or an app of its own for it: feishuperm "
    "install --setup"
)


def examine(api: AppApi, briefly: bool = False) -> Iterator[Finding]:
    """Everything, in the order in which one thing needs the other.

    Briefly: only what the server has to know, since calls are counted.
    """
    for check in (_bot,) if briefly else (_published, _bot):
        finding = check(api)
        if finding is not None:
            yield finding
            if finding.state == FAIL:  # nothing else is of use before
                return
    about = api.request("GET", APPLICATION)
    yield from _application(api, about)
    if not briefly:
        yield from _scopes(api, part_at(about.data, "app"))


def _published(api: AppApi) -> Finding | None:
    """Whether there is a version, and whether it brings texts; None: it is unknown."""
    result = api.request("GET", VERSIONS)
    if not result.ok:
        return None
    rows = [part_at(item) for item in list_at(result.data, "items")]
    out = (r for r in rows if r.get("status") == PUBLISHED and r.get("publish_time"))
    version = next(out, None)
    if version is None:
        text = msg("no version of the app is published, so no tap can arrive")
        return fail(text, _page(api, "version"))
    events = [part_at(row).get("event_type") for row in list_at(version, "event_infos")]
    if EVENT not in events:
        text = msg("messages to the bot do not arrive: {} is not subscribed", EVENT)
        return warn(text, _rescan_or(api, "event"))
    return ok(msg("version {} of the app is published", version.get("version", "")))


def _bot(api: AppApi) -> Finding:
    result = api.request("GET", BOT)
    if not result.ok:
        text, fix = split_fix(result.message)
        if fix:
            return fail(text, fix)
        text = msg("Feishu does not say whether the app's bot is on: {}", text)
        return warn(text, TEST)
    status = part_at(result.data, "bot").get("activate_status")
    if status in (None, ENABLED):
        return ok(msg("the app's bot is switched on"))
    number = status if isinstance(status, int) else -1
    state = BOT_STATES.get(number, msg("the app's bot cannot be used"))
    text = msg("{} (status {}): publish a version", state, status)
    return fail(text, _page(api, "version"))


def _application(api: AppApi, result: Result) -> Iterator[Finding]:
    """Switched on, and subscribed to taps."""
    app = part_at(result.data, "app") if result.ok else {}
    version = _page(api, "version")
    if app.get("status") not in (None, APP_ENABLED):
        yield fail(msg("the app is switched off"), version)
    if app.get("unaudit_version_id"):
        text = msg("a version of the app waits for the company's administrator")
        yield warn(text, version)
    info = app.get("callback_info")
    if not isinstance(info, dict):
        text = msg("Feishu does not say whether taps reach the app")
        yield warn(text, RESCAN if result.code in LACKS_SCOPE else TEST)
        return
    listed = info.get("subscribed_callbacks")
    if info.get("callback_type") == "webhook":
        text = msg("taps go to a web address instead of the long connection")
        yield fail(text, _page(api, "callback"))
    elif isinstance(listed, list) and CALLBACK not in listed:
        text = msg("taps do not reach the app: {} is not subscribed", CALLBACK)
        yield fail(text, _rescan_or(api, "callback"))
    else:
        yield ok(msg("taps reach the app over its long connection"))


def _scopes(api: AppApi, app: Mapping[str, Any]) -> Iterator[Finding]:
    """By the app's own list; one that may not read that is asked for by another."""
    listed, name = app.get("scopes"), "scope"
    if not isinstance(listed, list):
        listed, name = api.request("GET", GRANTED).data.get("scopes"), "scope_name"
    if not isinstance(listed, list):
        yield warn(msg("Feishu does not say what the app may do"), TEST)
        return
    rows = [part_at(row) for row in listed]
    granted = {row.get(name) for row in rows if row.get("grant_status", 1) == 1}
    missing = [name for name in SCOPES if granted.isdisjoint((name, SAME[name]))]
    for names, gives in OPTIONAL.items():
        if granted.isdisjoint(names):
            page = api.console(AUTH.format(names[0]))
            yield ok(msg(OFFERED, names[0], gives, page))
    if not missing:
        yield ok(msg("the app has every permission it needs"))
        return
    query = AUTH.format(",".join(missing))
    text = msg("the app lacks permissions: {}", ", ".join(missing))
    stops = not set(missing).isdisjoint(SCOPES[:2])
    yield Finding(FAIL if stops else WARN, text, _rescan_or(api, query))


def _page(api: AppApi, page: str) -> str:
    return msg("open {}", api.console(page))


def _rescan_or(api: AppApi, page: str) -> str:
    return msg("{}, or open {}", RESCAN, api.console(page))


def count_connections(api: AppApi) -> int:
    """Of this app, on every machine; 1 if Feishu does not tell."""
    count = api.request("GET", CONNECTIONS).data.get("online_instance_cnt")
    return count if isinstance(count, int) else 1


def name_of(api: AppApi, open_id: str) -> str:
    """A person's name in the directory; empty if the app may not read it."""
    path = PERSON.format(id=quote(open_id, safe=""))
    return one_line(text_at(api.request("GET", path).data, "user", "name"), NAME)


# What the server knows.


LINE_SECONDS = 3.0
AGAIN_SECONDS = 90.0  # for which a connection that was cut may still be counted
ASKED_SECONDS = 30.0  # between two counts because a person asked
QUEUED_SECONDS = 300.0  # a look that could not be taken for so long is dropped


class Connection(Protocol):
    """The long connection, see `server.outgoing`."""

    state: str
    detail: str
    since: float

    def start(self) -> None: ...

    def close(self) -> None: ...

    def watch(self, is_card_out: bool) -> None: ...


class Health:
    """What is known of one app and its connection."""

    def __init__(
        self,
        api: AppApi,
        owners: frozenset[str],
        queue: Callable[..., object],
        later: Later,
        clock: Callable[[], float],
        changed: Callable[[], object] = lambda: None,
    ) -> None:
        self._api = api
        self._owners = owners
        self._queue = queue
        self._later = later
        self._clock = clock
        self._changed = changed  # whether taps can arrive may be otherwise now
        self.line: Connection  # given as soon as it is made
        self.names: dict[str, str] = {}  # from the directory, empty if it has none
        self.stand_ins: dict[str, Announcement] = {}  # pending requests that have one
        self.connections = 1  # of this app, this one included, as far as is believed
        self._problem = ""  # why no tap can arrive until somebody repairs it
        self._examined = self._counted = -math.inf  # when that was last asked
        self._is_counting = False
        self._up_since = clock()
        self._down_since = clock()
        self._noted = ""  # the last trouble that was written down

    # The line.

    def trouble(self) -> str:
        """Why no tap can arrive; empty while it can."""
        if self.line.state == "up":
            return self._problem
        return self._api.problem(self.line.detail)

    def warning(self) -> str:
        """What else ought to be repaired."""
        if self.connections <= 1:
            return ""
        return msg(REPAIR, msg(MANY, self.connections), END_OTHER)

    def patience(self) -> float:
        """Seconds for which a line that went down may come back by itself."""
        if self.line.state == "up":
            return 0.0
        return self._down_since + LINE_SECONDS - self._clock()

    def line_changed(self) -> None:
        """The connection came up, went down, or still is."""
        self._changed()
        now = self._clock()
        if self.line.state == "up":
            self._up_since, self._down_since = now, math.inf
            self.note("")
            self.look(math.inf)
            return
        if self._down_since == math.inf:
            self._down_since = now
            self._later(LINE_SECONDS, partial(self._leave_all, now))
        if self.line.state == "waiting":
            self.note(self.trouble())

    def _leave_all(self, since: float) -> None:
        """The line stays down: let others show what needs a tap here."""
        while self._down_since == since and self.stand_ins:
            self.stand_ins.pop(next(iter(self.stand_ins))).stand_in()

    def note(self, trouble: str) -> None:
        """Write trouble down, once."""
        if trouble and trouble != self._noted:
            log(f"the app: {trouble}", "warning")
        self._noted = trouble

    # The app.

    def tapped(self) -> None:
        """A tap has arrived: whatever Feishu said, it can."""
        self._problem = ""
        self._changed()

    def look(self, seconds: float) -> None:
        """Ask Feishu about the app, if the last time is so many seconds ago."""
        if self.line.state != "up" or self._clock() - self._examined < seconds:
            return
        self._examined = self._clock()
        unnamed = sorted(self._owners - set(self.names))[:MOST_NAMES]

        def call() -> Result:
            names = {owner: name_of(self._api, owner) for owner in unnamed}
            found = examine(self._api, briefly=True)
            problems = [msg(REPAIR, r.text, r.fix) for r in found if r.state == FAIL]
            return Result(True, 0, "", data={"names": names, "problems": problems})

        self._queue(call, QUEUED_SECONDS, self._learnt)
        self._count()

    def _learnt(self, result: Result) -> None:
        if not result.ok:  # it was never asked
            return
        self.names.update(result.data["names"])
        self._problem = next(iter(result.data["problems"]), "")
        self._changed()
        self.note(self._problem or self.warning())

    def count(self) -> bool:
        """A person asks: see who else is connected; whether that is still unknown."""
        is_due = self._clock() - self._counted >= ASKED_SECONDS
        if self.line.state == "up" and is_due and not self._is_counting:
            self._count()
        return self._is_counting or self.line.state == "dialling"

    def _count(self) -> None:
        self._is_counting = True

        def call() -> Result:
            return Result(True, 0, "", data={"count": count_connections(self._api)})

        self._queue(call, QUEUED_SECONDS, self._told_count)

    def _told_count(self, result: Result) -> None:
        self._is_counting = False
        self._counted = self._clock()
        count = result.data["count"] if result.ok else 1
        age = self._clock() - self._up_since
        if count > 1 and age < AGAIN_SECONDS:  # the one before this may be counted
            self._later(AGAIN_SECONDS - age, self._count)
            return
        self.connections = count
        self.note(self._problem or self.warning())
