"""Whether a tap can reach the app at all, and who its owners are.

The connection tells by itself when it is down.  What Feishu says of the app is asked
when the connection is first up, after a card that nobody answered, and while requests
are left to another channel; never on a timer: calls are counted by the month.  The
questions are asked in an outbox's thread, which returns what it learnt.

    line up, nothing found     taps arrive
    line up, a problem found   they cannot; a tap that comes all the same clears it
    line down                  for LINE_SECONDS nothing is done, since it is mostly back
                               by then; after that others show pending requests

A connection that has just been cut may be counted for a while, so a second one is
believed when it is still there at a second look.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import NamedTuple, Protocol
from urllib.parse import quote

from feishuperm.app.api import BOT, CONNECTIONS, ENABLED, AppApi, Result
from feishuperm.lib.display import one_line
from feishuperm.lib.feishu import NO_ANSWER
from feishuperm.lib.log import log
from feishuperm.messages import msg
from feishuperm.models.fields import part_at, text_at

TYPE_CHECKING = False
if TYPE_CHECKING:
    from feishuperm.channels.base import Announcement, Later


class Connection(Protocol):
    """The long connection, see `server.outgoing`."""

    state: str
    detail: str
    since: float

    def start(self) -> None: ...

    def close(self) -> None: ...

    def watch(self, is_card_out: bool) -> None: ...


APPLICATION = "/open-apis/application/v6/applications/me?lang=zh_cn"
PERSON = "/open-apis/contact/v3/users/{id}?user_id_type=open_id"
CALLBACK = "card.action.trigger"
NAME = 40  # characters of a person's name
MOST_NAMES = 10  # people whose names are asked for
LINE_SECONDS = 3.0
AGAIN_SECONDS = 90.0  # between two looks at how many connections the app has
QUEUED_SECONDS = 300.0  # a look that could not be taken for so long is dropped


class Finding(NamedTuple):
    """What is wrong with the app, as far as it can be told."""

    problem: str = ""  # a sentence: no tap can arrive until it is repaired
    connections: int = 1  # of this app, this one included


def examine(api: AppApi) -> Finding:
    """Ask Feishu about the app; what it does not tell counts as good."""
    return Finding(_bot(api) or _callback(api), count_connections(api))


def _bot(api: AppApi) -> str:
    result = api.request("GET", BOT)
    if not result.ok:
        silent = result.retry or result.code == NO_ANSWER
        return "" if silent else result.message
    status = part_at(result.data, "bot").get("activate_status")
    return (
        ""
        if status in (None, ENABLED)
        else api.problem(
            msg("the app's bot is switched off: switch it on and publish a version")
        )
    )


def _callback(api: AppApi) -> str:
    info = part_at(api.request("GET", APPLICATION).data, "app").get("callback_info")
    if not isinstance(info, dict):
        return ""
    listed = info.get("subscribed_callbacks")
    missing = isinstance(listed, list) and CALLBACK not in listed
    elsewhere = info.get("callback_type") == "webhook"
    return (
        api.problem(
            msg(
                "taps do not reach the app: subscribe to card.action.trigger by long "
                "connection and publish a version"
            )
        )
        if missing or elsewhere
        else ""
    )


def count_connections(api: AppApi) -> int:
    """Of this app, on every machine; 1 if Feishu does not tell."""
    count = api.request("GET", CONNECTIONS).data.get("online_instance_cnt")
    return count if isinstance(count, int) else 1


def name_of(api: AppApi, open_id: str) -> str:
    """A person's name in the directory; empty if the app may not read it."""
    path = PERSON.format(id=quote(open_id, safe=""))
    return one_line(text_at(api.request("GET", path).data, "user", "name"), NAME)


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
        self._finding = Finding()
        self._counted = 1  # connections at the last look
        self._examined = -math.inf
        self._down_since = clock()
        self._noted = ""  # the last trouble that was written down

    # The line.

    def trouble(self) -> str:
        """Why no tap can arrive; empty while it can."""
        if self.line.state == "up":
            return self._finding.problem
        return self._api.problem(self.line.detail)

    def warning(self) -> str:
        """What else ought to be repaired."""
        count = self._finding.connections
        return (
            self._api.problem(
                msg(
                    "the app has {count} connections and each tap reaches one of them: "
                    "end the server on the other machine, or give it an app of its own"
                ),
                count=count,
            )
            if count > 1
            else ""
        )

    def patience(self) -> float:
        """Seconds for which a line that went down may come back by itself."""
        if self.line.state == "up":
            return 0.0
        return self._down_since + LINE_SECONDS - self._clock()

    def line_changed(self) -> None:
        """The connection came up, went down, or still is."""
        self._changed()
        if self.line.state == "up":
            self._down_since = math.inf
            self.note("")
            self.look(math.inf)
            return
        if self._down_since == math.inf:
            self._down_since = self._clock()
            self._later(LINE_SECONDS, partial(self._leave_all, self._down_since))
        if self.line.state == "waiting":
            self.note(self.trouble())

    def _leave_all(self, since: float) -> None:
        """The line stays down: let others show what needs a tap here."""
        if self._down_since != since:
            return
        stand_ins, self.stand_ins = self.stand_ins, {}
        for announcement in stand_ins.values():
            announcement.stand_in()

    def note(self, trouble: str) -> None:
        """Write trouble down, once."""
        if trouble and trouble != self._noted:
            log(f"the app: {trouble}", "warning")
        self._noted = trouble

    # The app.

    def tapped(self) -> None:
        """A tap has arrived: whatever Feishu said, it can."""
        self._finding = self._finding._replace(problem="")
        self._changed()

    def look(self, seconds: float) -> None:
        """Ask Feishu about the app, if the last time is so many seconds ago."""
        if self.line.state == "up" and self._clock() - self._examined >= seconds:
            self._look()

    def _look(self) -> None:
        self._examined = self._clock()
        unnamed = sorted(self._owners - set(self.names))[:MOST_NAMES]

        def call() -> Result:
            names = {owner: name_of(self._api, owner) for owner in unnamed}
            found = {"names": names, "finding": examine(self._api)}
            return Result(True, 0, "", data=found)

        self._queue(call, QUEUED_SECONDS, self._learnt)

    def _learnt(self, result: Result) -> None:
        if not result.ok:  # it was never asked
            return
        self.names.update(result.data["names"])
        finding: Finding = result.data["finding"]
        counted, self._counted = self._counted, finding.connections
        if finding.connections > 1 and counted <= 1:
            # This one of a moment ago may still be counted.
            finding = finding._replace(connections=1)
            self._later(AGAIN_SECONDS, self._look)
        self._finding = finding
        self._changed()
        self.note(finding.problem or self.warning())
