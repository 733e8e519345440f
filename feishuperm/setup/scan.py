"""Creating a Feishu app by one scan: what is asked, what each answer means, the screen.

`Registration` is an OAuth device flow without socket, clock, file or terminal.  Error
states travel in bodies of HTTP 400, so a status alone means nothing.

    begin   -> waiting                  a code is given; its link is shown
    waiting -> waiting                  nobody has confirmed; slow down; no answer
            -> waiting, at Lark's host  once, when the person's company is Lark's
            -> created                  id and secret, handed out once
            -> denied, expired, failed  the code is dead

A code is good for anyone who confirms it first.  It is also the only way to the secret
of an app that was confirmed, so `Scan` keeps it in the state folder until it is over: a
closed terminal costs nothing.  A secret is handed to `save` before anything else
happens, and no signal comes between the two.
"""

from __future__ import annotations

import base64
import gzip
import json
import os
import re
import shutil
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, NamedTuple
from urllib.parse import urlencode

from feishuperm.app.health import CALLBACK, EVENT, SCOPES
from feishuperm.errors import FeishupermError, FileError
from feishuperm.lib import qr
from feishuperm.lib.child import signals_after
from feishuperm.lib.display import cut, one_line
from feishuperm.lib.files import read_json, write_atomic
from feishuperm.lib.language import can_show, translate
from feishuperm.lib.post import HEADERS, Call, Reply
from feishuperm.lib.terminal import say, show
from feishuperm.messages import msg
from feishuperm.models.fields import decoded, text_at
from feishuperm.models.settings import url_host
from feishuperm.setup.steps import remove_file

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
    DENIED: msg(
        "the scan was refused on the phone, or your company does not let you "
        "create apps"
    ),
    EXPIRED: msg("the link has expired"),
    FAILED: "",  # with what was said
}
DEAD = {"access_denied": DENIED, "expired_token": EXPIRED, "invalid_grant": EXPIRED}


class Ended(FeishupermError):
    """There is no app; `kind` is how it ended, `said` what was said of it."""

    def __init__(self, kind: str, said: str = "") -> None:
        super().__init__(ENDS[kind] or msg("no app was created: {}", said))
        self.kind = kind
        self.said = said


class Created(NamedTuple):
    """An app; the secret goes to a file and nowhere else."""

    app_id: str
    secret: str
    open_id: str  # of who confirmed, as this app knows them; empty if nobody said
    is_lark: bool


class Registration:
    """One code, and how it is asked about; `app_id`: an app to be changed, if any."""

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
        self.app_id = app_id
        self.pause = interval  # before the next question
        self.answered = True  # whether the last question was

    def record(self) -> dict[str, Any]:
        """All of it, to go on later."""
        names = ("host", "code", "link", "until", "interval", "app_id")
        return {name: getattr(self, name) for name in names}

    def scan_link(self) -> str:
        """The link a person opens: it makes a new app, or changes the one named."""
        new = {"name": "feishuperm", "createOnly": "true"}
        own = {"clientID": self.app_id} if self.app_id else new
        query = {"from": "sdk", "tp": "sdk", "source": "perm", **own}
        words = urlencode({**query, "addons": addons()})
        return f"{self.link}{'&' if '?' in self.link else '?'}{words}"

    def lark_link(self) -> str:
        """The same for a Lark client, which takes the other page for expired."""
        code = re.search(r"[?&]user_code=([\w%.~-]+)", self.link)
        return f"{LARK_PAGE}?user_code={code[1]}&from=cli" if code else ""

    def request(self) -> Call:
        return _call(self.host, {"action": "poll", "device_code": self.code})

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
            raise Ended(
                FAILED, msg("an app was created, but its id or secret is unusable")
            )
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
        raise Ended(
            FAILED, _words(answer) or msg("HTTP status {} and no code", reply.status)
        )
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
    """What the app should have, as the page reads it."""
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
    return msg("Feishu says: {}", one_line(str(words), WORDS)) if words else ""


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


# On a terminal: the link, the code below it, the countdown, the secret kept.


FILE = "registration.json"
APPS = "https://open.feishu.cn/app"
LOST = msg(
    "if Feishu said that an app was created, you find its App ID and secret at {}",
    APPS,
)
MANUAL = msg("use the id and secret of an app you have, or create one at {}", APPS)
TICK = 1.0  # seconds between two looks at the clock
LIGHT_GROUNDS = ("7", "15")  # of COLORFGBG


class Scan:
    """One scan, from the link to the kept secret."""

    def __init__(
        self,
        host: str,
        folder: str,
        save: Callable[[Created], None],
        screen: Screen,
        post: Callable[[Call], Reply],
        clock: Callable[[], float] = time.time,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.host = host
        self.path = os.path.join(folder, FILE)
        self.save, self.screen, self.post = save, screen, post
        self.clock, self.sleep = clock, sleep

    def run(self, app_id: str = "") -> Created:
        """The new app, its secret kept. Raises FeishupermError."""
        registration = self._kept(app_id) or self._begin(app_id)
        self.screen.show(registration)
        try:
            created = self._wait(registration)
        except Ended as error:
            remove_file(self.path)
            error.hint = LOST  # an app may be there all the same
            raise
        except KeyboardInterrupt:
            self.screen.clear()
            minutes = max(0, int(registration.until - self.clock())) // 60
            say("stopped; this link stays valid for {} min: run install again", minutes)
            raise
        finally:
            self.screen.clear()
        remove_file(self.path)
        say("app {} created, its secret is saved", created.app_id)
        return created

    def _kept(self, app_id: str) -> Registration | None:
        """A scan that was not brought to its end; its app may be there already."""
        if not os.path.exists(self.path):
            return None
        registration = None
        with suppress(FileError):
            registration = restored(read_json(self.path), self.clock())
        if registration is not None and registration.app_id == app_id:
            say("continuing with the scan that was not finished")
            return registration
        say("another scan was not finished: {}", LOST)
        return None

    def _begin(self, app_id: str) -> Registration:
        try:
            reply = self.post(begin(self.host))
            registration = begun(reply, self.host, self.clock(), app_id)
        except OSError as error:
            raise FeishupermError(msg("cannot get a link: {}", error), MANUAL) from None
        except Ended as error:
            error.hint = MANUAL
            raise
        write_atomic(self.path, json.dumps(registration.record()).encode(), 0o600)
        return registration

    def _wait(self, registration: Registration) -> Created:
        """Ask until it is over; what each answer means is the registration's."""
        while True:
            self._count_down(registration)
            with signals_after():  # an answer may hold a secret, once
                reply = None
                with suppress(OSError):
                    reply = self.post(registration.request())
                created = registration.receive(reply, self.clock())
                if created is not None:
                    self._keep(created)
                    return created

    def _keep(self, created: Created) -> None:
        try:
            self.save(created)
        except FeishupermError as error:
            problem = msg(
                "the app {} was created, but its secret could not be saved: {}",
                created.app_id,
                error,
            )
            hint = msg(
                "{}/{}/baseinfo shows it; then install --setup", APPS, created.app_id
            )
            raise FeishupermError(problem, hint) from None

    def _count_down(self, registration: Registration) -> None:
        """Pause before the next question, with the time that is left on the screen."""
        until = self.clock() + registration.pause
        while True:
            now = self.clock()
            left = max(0, int(registration.until - now))
            self.screen.tick(self._waiting(registration, left))
            if now >= until:
                return
            self.sleep(min(TICK, until - now))

    def _waiting(self, registration: Registration, seconds: int) -> str:
        """What stands on the last line."""
        left = f"{seconds // 60}:{seconds % 60:02d}"
        if registration.answered:
            return msg(
                "waiting for your scan, {} left (Ctrl-C stops, nothing is lost)", left
            )
        host = url_host(registration.host)
        return msg("no answer from {}, trying again, {} left", host, left)


class Screen:
    """Where the link and its code are shown.

    A terminal that cannot show the whole code gets the name of a picture of it.  The
    size is looked at with every tick, so a window that grows gets its code at once.
    """

    def __init__(
        self, environ: Mapping[str, str], picture: str, draws: bool = True
    ) -> None:
        self._draws = draws and can_show("▀▄█")
        self._picture = picture  # path of a file for the code; empty: no code at all
        self._ink = ink(environ)
        self._live = sys.stdout.isatty()
        self._ticked = ""
        self._link = self._lark = ""
        self._size = shutil.get_terminal_size()

    def show(self, registration: Registration) -> None:
        self._link = registration.scan_link()
        self._lark = registration.lark_link()
        self._show()

    def _show(self) -> None:
        self._size = shutil.get_terminal_size()
        say(
            "Scan the code with Feishu, or open the link. Do not share it: the first\n"
            "person who confirms it owns the app.\n"
        )
        show(self._link + "\n")
        if self._lark:  # its own scanner takes the code for expired
            say("Lark: open {} in a browser\n", self._lark)
        self._show_code()

    def _show_code(self) -> None:
        """The code, whole and with nothing but the countdown below it, or a picture."""
        if not self._picture:
            return
        try:
            code = qr.encode(self._link.encode())
        except ValueError:  # too long for a code: the link will do
            return
        lines = qr.half_blocks(code, self._ink)
        columns, rows = self._size
        if self._draws and columns >= qr.width(code) and rows > len(lines):
            print("\n".join(lines), flush=True)
            return
        write_atomic(self._picture, qr.svg(code).encode(), 0o600)
        say("the QR code is in {}", self._picture)
        if self._draws:
            say(
                "to see it here, make the window at least {} columns by {} rows",
                qr.width(code),
                len(lines) + 1,
            )

    def tick(self, text: str) -> None:
        """The last line, written over; once, where nothing can be."""
        text = translate(text)
        if self._live:
            if shutil.get_terminal_size() != self._size:
                sys.stdout.write("\x1b[H\x1b[2J")
                self._show()
            sys.stdout.write(f"\r{cut(text, self._size.columns - 1)}\x1b[K")
            sys.stdout.flush()
        elif not self._ticked:
            show(text)
        self._ticked = text

    def clear(self) -> None:
        """Remove the last line."""
        if self._live and self._ticked:
            sys.stdout.write("\r\x1b[K")
        self._ticked = ""


def ink(environ: Mapping[str, str]) -> str:
    """How to draw a code: in colours of its own, or with the terminal's."""
    if environ.get("TERM", "dumb") != "dumb" and not environ.get("NO_COLOR"):
        return "colour"
    ground = environ.get("COLORFGBG", "").rpartition(";")[2]
    return "dark" if ground in LIGHT_GROUNDS else "light"
