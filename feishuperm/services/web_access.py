"""How a browser gets in: signed links, login tokens, and the sessions they open.

`Links` are what a person taps.  A signature binds one action to one request, on
loopback too: a process that sees a "deny" pass by has no "allow".  The key lives in the
state folder, so that cards sent before a restart stay good; only this user can read it.
`CALLBACK_LINK_SIGNING=off` makes the bare links, for a machine with one user.

`LoginTokens` are in the inbox links that `status` prints: good once, for ten minutes,
kept in memory only.  Opening the link spends a token, but for a preview or a prefetch:
those see a page whose button spends it.  Spending one opens a session: a cookie with a
secret, of which we keep the hash, so that the file alone opens nothing.  Sessions
outlive restarts; they end by themselves, at the latest after a month, and can be listed
and ended by hand.

A cookie belongs to a host name and not to a port: on loopback any other user's server
may be sent it.  So there it opens nothing by itself (see `handlers.access`).
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import os
import secrets
import time
from collections.abc import Callable
from typing import NamedTuple

from feishuperm.errors import FeishupermError, FileError, PayloadError
from feishuperm.lib.files import locked, private_dir, read_json, write_atomic
from feishuperm.lib.log import log
from feishuperm.models.ask import from_plain
from feishuperm.models.settings import host_is_local, url_host
from feishuperm.services.ledger import KEY_BYTES, make_key, read_key
from feishuperm.tables import rows

SIGNATURE_BYTES = 16  # 128 bits: nobody guesses one in a request's lifetime
TOKEN_SECONDS = 600
MAX_TOKENS = 20  # made and not used; the oldest gives way
IDLE_SECONDS = 7 * 24 * 3600
SESSION_SECONDS = 30 * 24 * 3600
MAX_SESSIONS = 20  # the one not seen for longest gives way
SEEN_SECONDS = 3600  # how exactly the file remembers when a session was last seen
AGENT_CHARACTERS = 160  # of the browser's own description, as it is kept
TRIED_COOKIES = 4  # of our name in one request; a neighbour may have added his

BROWSERS = "services/browsers.txt"


def load_key(path: str) -> bytes:
    """The signing key, made on first use; a fresh one when it cannot be kept."""
    try:
        key = read_key(path)
        if not key:
            private_dir(os.path.dirname(path))
            with locked(path):  # of servers that start at once, one makes it
                key = read_key(path) or make_key(path)
        return key
    except (FileError, OSError) as error:
        log(f"signing key cannot be kept: {error}", "warning")
        return os.urandom(KEY_BYTES)


class Links:
    """Makes and checks links below one base URL."""

    def __init__(self, base_url: str, key: bytes, signs: bool) -> None:
        self._base_url = base_url
        self._key = key
        self.signs = signs
        self.stay_here = host_is_local(url_host(base_url))  # they open here only

    def path(self, path: str, id: str) -> str:
        """`/allow?id=...`, signed if links are."""
        signature = f"&sig={self.signature(path, id)}" if self.signs else ""
        return f"{path}?id={id}{signature}"

    def url(self, path: str, id: str) -> str:
        """The same, as a phone needs it."""
        return self._base_url + self.path(path, id)

    def signature(self, path: str, id: str) -> str:
        """What binds one action to one request."""
        digest = hmac.digest(self._key, f"{path}?{id}".encode(), "sha256")
        return base64.urlsafe_b64encode(digest[:SIGNATURE_BYTES]).rstrip(b"=").decode()

    def good(self, path: str, id: str, signature: str) -> bool:
        """Whether a link was made here."""
        if not self.signs:
            return True
        ours = self.signature(path, id).encode()
        return hmac.compare_digest(ours, signature.encode("utf-8", "replace"))

    def inbox_url(self, token: str = "") -> str:
        """The inbox; with a login token, the way in."""
        return f"{self._base_url}/?ticket={token}" if token else f"{self._base_url}/"


class LoginTokens:
    """Secrets that each open one session."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._ends: dict[str, float] = {}  # by hash, oldest first

    def make(self) -> str:
        """A new one, for a link."""
        self._forget()
        while len(self._ends) >= MAX_TOKENS:
            self._ends.pop(next(iter(self._ends)))
        token = secrets.token_urlsafe(32)
        self._ends[_hash(token)] = self._clock() + TOKEN_SECONDS
        return token

    def is_good(self, token: str) -> bool:
        """Whether it may still be spent; looking does not spend it."""
        self._forget()
        return _hash(token) in self._ends

    def spend(self, token: str) -> bool:
        """Use it up; False if it was no good."""
        self._forget()
        return self._ends.pop(_hash(token), None) is not None

    def _forget(self) -> None:
        now = self._clock()
        self._ends = {key: end for key, end in self._ends.items() if end > now}


class Session(NamedTuple):
    """A browser that was let in."""

    id: str = ""  # for lists; it opens nothing
    hash: str = ""  # of the cookie's secret
    created: float = 0.0  # wall clock, as the next
    seen: float = 0.0
    address: str = ""  # where it was seen last
    agent: str = ""  # what the browser calls itself

    @property
    def browser(self) -> str:
        """Browser and system in a word each, as far as they can be told."""
        tables = [rows(BROWSERS, name).items() for name in ("browsers", "systems")]
        found = (
            (name for part, name in table if part in self.agent) for table in tables
        )
        names = [next(name, "") for name in found]
        return ", ".join(filter(None, names)) or "?"

    def is_over(self, now: float) -> bool:
        """Whether it has ended; one from the future is no good either."""
        return not (
            now - SESSION_SECONDS < self.created <= now + SEEN_SECONDS
            and now - IDLE_SECONDS < self.seen
        )


class WebSessions:
    """The sessions there are, kept in one private file."""

    def __init__(
        self, path: str, url: str, clock: Callable[[], float] = time.time
    ) -> None:
        self._path = path
        self._clock = clock
        self._is_secure = url.startswith("https://")
        self.cookie_name = _cookie_name(url)
        self._rows: dict[str, Session] = {row.hash: row for row in _load(path)}
        self._written = {row.hash: row.seen for row in self._rows.values()}
        self._forget()

    def open(self, address: str, agent: str) -> str:
        """A new session; returns the Set-Cookie header that hands it over."""
        secret = secrets.token_urlsafe(32)
        now, id = self._clock(), secrets.token_hex(4)
        agent = agent[:AGENT_CHARACTERS]
        row = Session(id, _hash(secret), now, now, address, agent)
        self._forget()
        self._rows[row.hash] = row
        while len(self._rows) > MAX_SESSIONS:
            del self._rows[min(self._rows.values(), key=lambda old: old.seen).hash]
        self._save()
        secure = "; Secure" if self._is_secure else ""
        return (
            f"{self.cookie_name}={secret}; Path=/; Max-Age={SESSION_SECONDS}"
            f"; HttpOnly; SameSite=Strict{secure}"
        )

    def find(self, cookies: str, address: str) -> Session | None:
        """The session of a Cookie header, now seen again; None without a good one."""
        now = self._clock()
        hashes = map(_hash, _values(cookies, self.cookie_name))
        rows = filter(None, map(self._rows.get, hashes))
        row = next((row for row in rows if not row.is_over(now)), None)
        if row is not None:
            row = row._replace(seen=max(row.seen, now), address=address)
            self._rows[row.hash] = row
            if now - self._written.get(row.hash, 0.0) > SEEN_SECONDS:
                self._save()
        return row

    def all(self) -> list[Session]:
        """Those that are open, last seen first."""
        self._forget()
        return sorted(self._rows.values(), key=lambda row: -row.seen)

    def revoke(self, id: str) -> int:
        """End one, or "all" of them; returns how many."""
        meant = [row.hash for row in self._rows.values() if id in (row.id, "all")]
        for hash in meant:
            del self._rows[hash]
        if meant:
            self._save()
        return len(meant)

    def _forget(self) -> None:
        now = self._clock()
        self._rows = {h: row for h, row in self._rows.items() if not row.is_over(now)}

    def _save(self) -> None:
        rows = [row._asdict() for row in self._rows.values()]
        try:
            private_dir(os.path.dirname(self._path))
            write_atomic(self._path, json.dumps(rows).encode(), 0o600)
        except FeishupermError as error:  # they hold until the server ends
            log(f"inbox sessions cannot be kept: {error}", "warning")
        self._written = {row.hash: row.seen for row in self._rows.values()}


def _load(path: str) -> list[Session]:
    """What the file holds; one that cannot be read lets nobody in."""
    try:
        rows = read_json(path)
    except FeishupermError as error:
        log(f"inbox sessions cannot be read: {error}", "warning")
        return []
    latest = rows[-MAX_SESSIONS:] if isinstance(rows, list) else []
    return list(filter(None, map(_session, latest)))


def _session(row: object) -> Session | None:
    try:
        session = from_plain(Session, row)
    except PayloadError:
        return None
    return session if session._asdict() == row else None


def _cookie_name(url: str) -> str:
    """By the port too: a host's cookies go to every port of it.

    The prefix makes a browser refuse the name to a server without TLS for this host.
    """
    scheme, _, rest = url.partition("://")
    authority = rest.partition("/")[0].rpartition("@")[2]
    port = authority.rpartition(":")[2]
    if not port.isdigit():
        port = "443" if scheme == "https" else "80"
    prefix = "__Host-" if scheme == "https" else ""
    return f"{prefix}feishuperm-{port}"


def _values(cookies: str, name: str) -> list[str]:
    """The values of this name in a Cookie header."""
    pairs = (part.strip().partition("=") for part in cookies.split(";"))
    return [value for key, _, value in pairs if key == name][:TRIED_COOKIES]


def _hash(secret: str) -> str:
    return hashlib.sha256(secret.encode("utf-8", "replace")).hexdigest()
