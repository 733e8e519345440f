"""A scan on a terminal: the link, the code below it, the countdown, the secret kept.

What the answers mean is `registration`'s.  The code of a scan is kept in the state
folder until it is over, so that a closed terminal costs nothing; a secret is handed to
`save` before anything else happens, and no signal comes between the two.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from collections.abc import Callable, Mapping

from feishuperm.errors import FeishupermError, FileError
from feishuperm.lib import qr
from feishuperm.lib.child import signals_after
from feishuperm.lib.files import read_json, write_atomic
from feishuperm.lib.post import Call, Reply
from feishuperm.lib.terminal import say, show
from feishuperm.lib.tongue import can_show, translate
from feishuperm.models.settings import url_host
from feishuperm.services.history import cut
from feishuperm.setup.files import remove_file
from feishuperm.setup.registration import (
    Created,
    Ended,
    Registration,
    begin,
    begun,
    restored,
)

Post = Callable[[Call], Reply]
Save = Callable[[Created], None]

FILE = "registration.json"
APPS = "https://open.feishu.cn/app"
LOST = (
    "if Feishu said that an app was created, its id and secret are on its page at "
    f"{APPS}"
)
MANUAL = f"give the id and secret of an app you have; apps are made at {APPS}"
TICK = 1.0  # seconds between two looks at the clock
LIGHT_GROUNDS = ("7", "15")  # of COLORFGBG


class Scan:
    """One scan, from the link to the kept secret."""

    def __init__(
        self,
        host: str,
        folder: str,
        save: Save,
        screen: Screen,
        post: Post,
        clock: Callable[[], float] = time.time,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._host = host
        self._path = os.path.join(folder, FILE)
        self._save = save
        self._screen = screen
        self._post = post
        self._clock = clock
        self._sleep = sleep

    def run(self, app_id: str = "") -> Created:
        """The app that came of it, its secret kept. Raises FeishupermError."""
        registration = self._kept(app_id) or self._begin(app_id)
        self._screen.show(registration)
        try:
            created = self._wait(registration)
        except Ended as error:
            remove_file(self._path)
            error.hint = LOST  # an app may be there all the same
            raise
        except KeyboardInterrupt:
            self._screen.clear()
            minutes = max(0, int(registration.until - self._clock())) // 60
            say(f"stopped; for {minutes} min the same command goes on with this link")
            raise
        finally:
            self._screen.clear()
        remove_file(self._path)
        say(f"the app {created.app_id} is made, its secret is kept")
        return created

    def _kept(self, app_id: str) -> Registration | None:
        """A scan that was not brought to its end; its app may be there already."""
        if not os.path.exists(self._path):
            return None
        try:
            registration = restored(read_json(self._path), self._clock())
        except FileError:
            registration = None
        if registration is not None and registration.app_id == app_id:
            say("going on with the scan that was not finished")
            return registration
        say(f"another scan was not finished: {LOST}")
        return None

    def _begin(self, app_id: str) -> Registration:
        try:
            reply = self._post(begin(self._host))
        except OSError as error:
            raise FeishupermError(f"no link: {error}", MANUAL) from None
        try:
            registration = begun(reply, self._host, self._clock(), app_id)
        except Ended as error:
            error.hint = MANUAL
            raise
        data = json.dumps(registration.record()).encode()
        write_atomic(self._path, data, 0o600)
        return registration

    def _wait(self, registration: Registration) -> Created:
        """Ask until it is over; what each answer means is the registration's."""
        while True:
            self._count_down(registration)
            with signals_after():  # an answer may hold a secret, once
                created = registration.receive(self._ask(registration), self._clock())
                if created is not None:
                    self._keep(created)
                    return created

    def _ask(self, registration: Registration) -> Reply | None:
        try:
            return self._post(registration.request())
        except OSError:
            return None

    def _keep(self, created: Created) -> None:
        try:
            self._save(created)
        except FeishupermError as error:
            app = created.app_id
            raise FeishupermError(
                f"the app {app} was created, but its secret could not be kept: {error}",
                f"{APPS}/{app}/baseinfo shows it; then install --setup",
            ) from None

    def _count_down(self, registration: Registration) -> None:
        """Pause before the next question, with the time that is left on the screen."""
        until = self._clock() + registration.pause
        while True:
            now = self._clock()
            left = max(0, int(registration.until - now))
            self._screen.tick(self._waiting(registration, left))
            if now >= until:
                return
            self._sleep(min(TICK, until - now))

    def _waiting(self, registration: Registration, seconds: int) -> str:
        """What stands on the last line."""
        left = f"{seconds // 60}:{seconds % 60:02d}"
        if registration.answered:
            return f"waiting for your scan, {left} left (Ctrl-C ends, nothing is lost)"
        return (
            f"no answer from {url_host(registration.host)}, trying again, {left} left"
        )


class Screen:
    """Where the link and its code are shown."""

    def __init__(
        self,
        environ: Mapping[str, str],
        draws: bool = True,
        picture: str = "",
    ) -> None:
        self._draws = draws and can_show("▀▄█")
        self._picture = picture  # path of a file for the code
        self._ink = ink(environ)
        self._live = sys.stdout.isatty()
        self._ticked = ""

    def show(self, registration: Registration) -> None:
        link = registration.scan_link()
        say(
            "Scan this with Feishu, or open the link. It is for you alone: whoever\n"
            "confirms it first owns the app.\n"
        )
        show(link + "\n")
        self._show_code(link)
        lark = registration.lark_link()  # its own scanner takes the code for expired
        if lark:
            say(f"Lark: open {lark} in a browser")

    def _show_code(self, link: str) -> None:
        if not self._draws and not self._picture:
            return
        try:
            code = qr.encode(link.encode())
        except ValueError:  # the link does
            return
        if self._picture:
            write_atomic(self._picture, qr.svg(code).encode(), 0o600)
            say(f"the code is in {self._picture}")
            return
        columns, rows = shutil.get_terminal_size()
        if columns < qr.width(code):
            say(f"(no QR code: it needs {qr.width(code)} columns)")
            return
        lines = qr.half_blocks(code, self._ink)
        if rows < len(lines) + 2:
            say(f"(the code is {len(lines)} lines high: make the window taller)")
        print("\n".join(lines), flush=True)

    def tick(self, text: str) -> None:
        """The last line, written over; once, where nothing can be."""
        text = translate(text)
        if self._live:
            columns = shutil.get_terminal_size().columns
            sys.stdout.write(f"\r{cut(text, columns - 1)}\x1b[K")
            sys.stdout.flush()
        elif not self._ticked:
            show(text)
        self._ticked = text

    def clear(self) -> None:
        """Take the last line away."""
        if self._live and self._ticked:
            sys.stdout.write("\r\x1b[K")
        self._ticked = ""


def ink(environ: Mapping[str, str]) -> str:
    """How to draw a code: in colours of its own, or with the terminal's."""
    if environ.get("TERM", "dumb") != "dumb" and not environ.get("NO_COLOR"):
        return "colour"
    ground = environ.get("COLORFGBG", "").rpartition(";")[2]
    return "dark" if ground in LIGHT_GROUNDS else "light"
