"""Creating a Feishu app by one scan: what is asked, and what each answer means.

An OAuth device flow without socket, clock, file or terminal; those are `scan`'s.  Error
states travel in bodies of HTTP 400, so a status alone means nothing.

    begin   -> waiting                  a code is given; its link is shown
    waiting -> waiting                  nobody has confirmed; slow down; no answer
            -> waiting, at Lark's host  once, when the person's company is Lark's
            -> created                  id and secret, handed out once
            -> denied, expired, failed  the code is dead

A code is good for whoever confirms it first.  It is also the only way to the secret of
an app that was confirmed, so it can be kept (`record`) and asked for again.
"""

from __future__ import annotations

import base64
import gzip
import json
import re
from collections.abc import Mapping
from typing import Any, NamedTuple
from urllib.parse import urlencode

from feishuperm.errors import FeishupermError
from feishuperm.lib.display import one_line
from feishuperm.lib.post import HEADERS, Call, Reply
from feishuperm.models.fields import decoded, text_at

PATH = "/oauth/v1/app/registration"
LARK_ACCOUNTS = "https://accounts.larksuite.com"
LARK_PAGE = "https://open.larksuite.com/page/cli"
FORM = {**HEADERS, "Content-Type": "application/x-www-form-urlencoded"}
BEGIN = {
    "action": "begin",
    "archetype": "PersonalAgent",
    "auth_method": "client_secret",
    "request_user_info": "open_id tenant_brand",
}
SCOPES = (
    "im:message:send_as_bot",
    "im:message:update",
    "im:message.p2p_msg:readonly",
    "im:resource:upload",
    "application:application:self_manage",
)
EVENT = "im.message.receive_v1"
CALLBACK = "card.action.trigger"
# One unknown key, and the page drops everything without a word.
ADDONS = {
    "preset": False,
    "scopes": {"tenant": SCOPES},
    "events": {"items": {"tenant": [EVENT]}},
    "callbacks": {"items": [CALLBACK]},
}
BRAND = ("user_info", "tenant_brand")
SECONDS = 600  # a code's life if nothing is said; a person took 285
MAX_SECONDS = 3600
INTERVAL, MAX_INTERVAL = 5.0, 60.0
SLOWER = 5.0  # what "slow_down" adds
WORDS = 300  # characters of an error that came from outside

DENIED, EXPIRED, FAILED = "denied", "expired", "failed"
ENDS = {
    DENIED: "the scan was refused on the phone, or your company does not let you "
    "create apps",
    EXPIRED: "the link is no longer good",
    FAILED: "",  # with what was said
}
DEAD = {"access_denied": DENIED, "expired_token": EXPIRED, "invalid_grant": EXPIRED}


class Ended(FeishupermError):
    """No app came of it; `kind` is how it ended, `said` what was said of it."""

    def __init__(self, kind: str, said: str = "") -> None:
        super().__init__(ENDS[kind] or f"no app came of it: {said}")
        self.kind = kind
        self.said = said


class Created(NamedTuple):
    """An app; the secret goes to a file and nowhere else."""

    app_id: str
    secret: str
    open_id: str  # of who confirmed, as this app knows them; empty if nobody said
    is_lark: bool


class Registration:
    """One code, and how it is asked about."""

    def __init__(
        self,
        host: str,
        code: str,
        link: str,
        until: float,
        interval: float,
        app_id: str = "",
    ) -> None:
        self.host = host
        self.code = code
        self.link = link  # without what we add to it
        self.until = until  # by the wall clock, as Feishu counts
        self.interval = interval
        self.app_id = app_id  # of an app to be changed; empty: a new one
        self.pause = interval  # before the next question
        self.answered = True  # whether the last question was

    def record(self) -> dict[str, Any]:
        """All of it, to go on later."""
        names = ("host", "code", "link", "until", "interval", "app_id")
        return {name: getattr(self, name) for name in names}

    def scan_link(self) -> str:
        """The link a person opens: it makes a new app, or changes the one named."""
        if self.app_id:
            own = {"clientID": self.app_id}
        else:
            own = {"name": "feishuperm", "createOnly": "true"}
        query = {"from": "sdk", "tp": "sdk", "source": "feishuperm", **own}
        words = urlencode({**query, "addons": addons()})
        return f"{self.link}{'&' if '?' in self.link else '?'}{words}"

    def lark_link(self) -> str:
        """The same for a Lark client, which takes the other page for expired."""
        code = re.search(r"[?&]user_code=([\w%.~-]+)", self.link)
        return f"{LARK_PAGE}?user_code={code[1]}&from=cli" if code else ""

    def request(self) -> Call:
        form = {"action": "poll", "device_code": self.code}
        return _call(self.host, form)

    def receive(self, reply: Reply | None, now: float) -> Created | None:
        """Take an answer, or that there was none; the app, if there is one now.

        Raises Ended.
        """
        self.pause = self.interval
        answer = _object(reply)
        self.answered = answer is not None
        if answer is None:
            self._slow(1.0)
        else:
            created = self._created(answer)
            if created is not None:
                return created
            self._go_on(answer)
        if now >= self.until:  # after the question: it may have been answered before
            raise Ended(EXPIRED)
        return None

    def _slow(self, seconds: float) -> None:
        self.interval = min(self.interval + seconds, MAX_INTERVAL)
        self.pause = self.interval

    def _created(self, answer: Mapping[str, Any]) -> Created | None:
        app_id, secret = answer.get("client_id"), answer.get("client_secret")
        if not app_id or not secret:
            return None
        if not _fits(app_id, "cli_[A-Za-z0-9]+") or not _fits(secret, "[!-~]{1,256}"):
            raise Ended(FAILED, "an app was created, but its id or secret is unusable")
        open_id = text_at(answer, "user_info", "open_id")
        is_lark = self.host == LARK_ACCOUNTS or text_at(answer, *BRAND) == "lark"
        return Created(app_id, secret, open_id if is_open_id(open_id) else "", is_lark)

    def _go_on(self, answer: Mapping[str, Any]) -> None:
        """Whether and how to ask again. Raises Ended."""
        error = answer.get("error")
        if text_at(answer, *BRAND) == "lark" and self.host != LARK_ACCOUNTS:
            self.host, self.pause = LARK_ACCOUNTS, 0.0
        elif error == "slow_down":
            self._slow(SLOWER)
        elif error and error != "authorization_pending":
            kind = DEAD.get(str(error), FAILED)
            raise Ended(kind, _words(answer) if kind == FAILED else "")


def begin(host: str) -> Call:
    """The question for a code; always Feishu's, since Lark's own codes are refused."""
    return _call(host, BEGIN)


def begun(reply: Reply, host: str, now: float, app_id: str = "") -> Registration:
    """The code that was given. Raises Ended when there is none."""
    answer = _object(reply) or {}
    code, link = answer.get("device_code"), answer.get("verification_uri_complete")
    if answer.get("error") or not _fits(code, "[!-~]{1,4096}") or not _is_link(link):
        raise Ended(FAILED, _words(answer) or f"HTTP status {reply.status} and no code")
    # The SDKs and the server do not agree on the name.
    seconds = _number(answer.get("expires_in"), answer.get("expire_in"), SECONDS)
    until = now + min(max(seconds, SECONDS), MAX_SECONDS)
    interval = _interval(answer.get("interval"))
    return Registration(host, str(code), str(link), until, interval, app_id)


def restored(record: object, now: float) -> Registration | None:
    """A kept code, None for anything else."""
    if not isinstance(record, dict):
        return None
    try:
        made = Registration(**record)
    except TypeError:
        return None
    made.until = min(_number(made.until), now + MAX_SECONDS)
    made.interval = _interval(made.interval)
    made.pause = 0.0  # it may have been confirmed meanwhile
    usable = _is_link(made.host) and _is_link(made.link) and _fits(made.code, "[!-~]+")
    return made if usable and isinstance(made.app_id, str) else None


def addons() -> str:
    """What the app shall have, as the page reads it."""
    data = json.dumps(ADDONS, separators=(",", ":")).encode()
    packed = gzip.compress(data, 9, mtime=0)
    return base64.urlsafe_b64encode(packed).rstrip(b"=").decode()


def is_open_id(value: object) -> bool:
    """Whether this names a person, as one app knows them."""
    return _fits(value, "ou_[A-Za-z0-9_]+")


def _call(host: str, form: Mapping[str, str]) -> Call:
    return Call("POST", host + PATH, urlencode(form).encode(), FORM)


def _object(reply: Reply | None) -> dict[str, Any] | None:
    """The body of an answer of Feishu's; a proxy's or a broken server's is none."""
    if reply is None or reply.status >= 500 or reply.status == 429:
        return None
    answer = decoded(reply.body)
    return answer if isinstance(answer, dict) else None


def _words(answer: Mapping[str, Any]) -> str:
    """What Feishu says went wrong."""
    words = answer.get("error_description") or answer.get("error") or ""
    return f"Feishu says: {one_line(str(words), WORDS)}" if words else ""


def _number(*values: object) -> float:
    """The first that is a number, and more than nothing."""
    for value in values:
        if isinstance(value, (int, float)) and 0 < value < 1e10:
            return float(value)
    return 0.0


def _interval(value: object) -> float:
    return min(max(_number(value, INTERVAL), 1.0), MAX_INTERVAL)


def _fits(value: object, pattern: str) -> bool:
    return isinstance(value, str) and re.fullmatch(pattern, value) is not None


def _is_link(value: object) -> bool:
    return _fits(value, r"https?://[!-~]{1,2000}")
