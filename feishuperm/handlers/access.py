"""Who may do what over HTTP: the questions that come before every route.

`Gate.refusal` is asked first, whatever the path: a name that is not ours (a rebound
one), a page of another site, a handshake for something else, another user of this
machine.  Then each route asks what it needs: is there a finger behind this GET, does
this form come from our own page, may this browser read the inbox, is it the session
that asked which now answers.

Links in a chat are fetched by more than fingers: previews, scanners, prefetching
browsers, images on hostile pages.  None of those may decide anything.  And what comes
from this machine is not always from this person: the kernel says whose it is, and where
it cannot tell, the answer is no.
"""

from __future__ import annotations

import os
import re
import socket
import time
from collections import Counter
from collections.abc import Iterable

from feishuperm.lib.process_tree import (
    Owner,
    SessionProcesses,
    Suspect,
    TcpOwners,
    is_here,
)
from feishuperm.messages import msg
from feishuperm.models.settings import host_is_local, url_host
from feishuperm.protocol.http1 import Request
from feishuperm.services.web_access import Session, WebSessions

# Programs that fetch a link to show or judge it.
ROBOTS = re.compile(
    r"preview|crawl|spider|scan|embedly|facebookexternalhit|whatsapp"
    r"|(?<!cu)bot(?![a-z])"  # there is a phone called CUBOT
)
# Browsers without a person.
HEADLESS = re.compile(
    r"headless|phantomjs|puppeteer|playwright|selenium|webdriver|lighthouse"
)
PREFETCH_HEADERS = ("purpose", "sec-purpose", "x-purpose", "x-moz")
PREFETCH = re.compile("prefetch|preview|prerender")
# Set by reverse proxies and tunnels.
FORWARDING_HEADERS = (
    "forwarded", "via", "x-forwarded-for", "x-forwarded-host", "x-forwarded-proto",
    "x-real-ip", "cf-connecting-ip", "true-client-ip", "x-original-host",
)  # fmt: skip
# What other users of this machine may have too: nothing of a person's is in it.
OPEN_PATHS = ("/healthz", "/install.sh", "/feishuperm.pyz", "/SHA256SUMS")
HOST = re.compile(r"(\[[0-9a-f:.%]+\]|[^\[\]:]+)(?::([0-9]{1,5}))?")
PORTS = {"http": "80", "https": "443"}  # which a browser does not mention
FRESH_SECONDS = 0.02  # in which nobody looks at the same connection again
WRONG_SECONDS = 60.0
WRONG_MOST = 20  # per address and minute; a person mistypes no links


NOT_OURS = msg("This is not feishuperm's address: use the one in CALLBACK_SERVER_URL.")
FOREIGN = msg("This did not come from one of feishuperm's own pages; nothing was done.")
NOT_FROM_AFAR = msg(
    "While the links point to this machine, only programs of the user who runs the "
    "server may open them. To open them from elsewhere, set CALLBACK_SERVER_URL to an "
    "address that can be reached from there."
)


class Gate:
    """One for all routes; it knows what the buttons point to."""

    def __init__(
        self,
        url: str,
        sessions: WebSessions,
        clients: SessionProcesses,
        owners: TcpOwners | None = None,
        names: Iterable[str] | None = None,
    ) -> None:
        self.sessions = sessions
        self._clients = clients
        self._owners = owners or TcpOwners()
        self._uid = os.geteuid()
        self._host = url_host(url)
        self._stays_here = host_is_local(self._host)
        scheme, _, rest = url.partition("://")
        authority = rest.partition("/")[0].rpartition("@")[2].lower()
        match = HOST.fullmatch(authority)
        self._port = (match and match[2]) or PORTS[scheme]
        self._origin = _origin(scheme, authority)
        own = own_names() if names is None else names
        self._names = frozenset(name.lower() for name in own)

    def refusal(self, request: Request) -> tuple[int, str] | None:
        """Why this request gets nothing: status and sentence. None: go on."""
        memo, headers = request.memo, request.headers
        if request.upgrades():  # it does not say where it comes from
            return 400, msg("There is nothing here but pages.")
        host = headers.get("host", "")
        if memo.get("host") != host:  # mostly the one its connection has named before
            if not self._is_ours(request):
                return 421, NOT_OURS
            memo["host"] = host
        if "origin" in headers and not self._is_own_origin(request):
            return 403, FOREIGN
        if not self._stays_here or request.path in OPEN_PATHS:
            return None
        return None if self._is_own_user(request) else (403, NOT_FROM_AFAR)

    def looks_human(self, request: Request) -> bool:
        """Whether a person's tap may be behind a GET that would decide.

        On this machine that is any plain request of the user's own; from elsewhere it
        has to look like a browser, since a chat's own servers open links as well.
        """
        agent = request.headers.get("user-agent", "").lower()
        if HEADLESS.search(agent):
            return False
        if not self._stays_here and not agent.startswith("mozilla/"):
            return False
        return self.is_visit(request)

    def is_visit(self, request: Request) -> bool:
        """Whether a GET opens a page, as far as it says; no preview and no prefetch."""
        headers = request.headers
        if request.method != "GET":
            return False
        if any(PREFETCH.search(headers.get(n, "").lower()) for n in PREFETCH_HEADERS):
            return False
        if ROBOTS.search(headers.get("user-agent", "").lower()):
            return False
        # Browsers say what a request is for: an image or a frame is never a tap.
        if headers.get("sec-fetch-dest", "document") != "document":
            return False
        mode = "" if _is_cross_site(request) else "navigate"
        return headers.get("sec-fetch-mode", mode) == "navigate"

    def is_own_form(self, request: Request) -> bool:
        """Whether a POST comes from one of our own pages.

        From elsewhere that has to be proved, by what browsers say and pages cannot; a
        program of the user's own on this machine need not pretend to be a page.
        """
        if _is_cross_site(request) or not self._is_own_origin(request):
            return False
        headers = request.headers
        proved = "origin" in headers or headers.get("sec-fetch-site") == "same-origin"
        return proved or self._stays_here

    def is_own_script(self, request: Request) -> bool:
        """Whether a GET comes from a script of our own page, or from no page at all."""
        return not _is_cross_site(request) and self._is_own_origin(request)

    def session(self, request: Request) -> Session | None:
        """The session of this browser, if it was let into the inbox."""
        return self.sessions.find(request.headers.get("cookie", ""), request.peer)

    def may_read(self, request: Request) -> bool:
        """Whether the inbox may be read.

        While the links stay on this machine, by its user, whatever cookie comes along.
        Once people reach us from elsewhere, through a tunnel perhaps, what comes over
        loopback may be anybody: then only a session counts.
        """
        if self._stays_here:
            return self._is_own_user(request)
        return self.session(request) is not None

    def suspect(self, request: Request, afresh: bool = False) -> Suspect | None:
        """The process behind a request, if it belongs to a session that asks.

        A process on this machine that hides is one too; one elsewhere cannot be.
        What was said of a connection holds for it, but `afresh` looks again: before
        anything is decided, if that was not done just now.
        """
        memo, now = request.memo, time.monotonic()
        if "suspect" in memo and not (afresh and now - memo["looked"] > FRESH_SECONDS):
            known: Suspect | None = memo["suspect"]
            return known
        owner, suspect = self.owner(request), None
        if owner is not None:
            suspect = self._clients.suspect(owner)
        elif is_here(request.peer):
            suspect = Suspect(0, "?")
        memo.update(suspect=suspect, looked=now)
        return suspect

    def owner(self, request: Request) -> Owner | None:
        """Who on this machine sent it; the kernel is asked once per connection."""
        memo = request.memo
        if "owner" not in memo:
            memo["owner"] = self._owners.find(
                (request.local, request.local_port), (request.peer, request.peer_port)
            )
        owner: Owner | None = memo["owner"]
        return owner

    def _is_own_user(self, request: Request) -> bool:
        """Whether it comes straight from a program of the user we run as.

        A proxy of the same user may bring anybody.
        """
        owner = None if is_forwarded(request) else self.owner(request)
        return owner is not None and owner.uid == self._uid

    def _is_ours(self, request: Request) -> bool:
        """Whether the Host header names this server: no rebound name gets in."""
        match = HOST.fullmatch(request.headers.get("host", "").lower())
        if match is None:
            return False
        name, port = match[1].strip("[]").rstrip("."), match[2]
        if port and port not in (str(request.local_port), self._port):
            return False
        if name in (self._host, request.local, *self._names):
            return True
        return host_is_local(name) and host_is_local(request.local)

    def _is_own_origin(self, request: Request) -> bool:
        """Whether the page that sends it, if there is one, is ours.

        A proxy may give us another host than the browser sees: that one is in the URL.
        """
        origin = request.headers.get("origin")
        if origin is None:
            return True
        host = request.headers.get("host", "").lower()
        own = (self._origin, *(_origin(scheme, host) for scheme in PORTS))
        return origin.lower() in own


def is_forwarded(request: Request) -> bool:
    """Whether a proxy sent it; nginx speaks HTTP/1.0 to what is behind it."""
    return request.version != "1.1" or any(
        name in request.headers for name in FORWARDING_HEADERS
    )


def is_local(request: Request) -> bool:
    """Whether the request comes straight from this machine, from any process."""
    host = url_host("http://" + request.headers.get("host", ""))
    return (
        host_is_local(request.peer)
        and host_is_local(host)
        and not is_forwarded(request)
    )


def own_names() -> list[str]:
    """The names of this machine, as neighbours may call it."""
    name = socket.gethostname()
    short = name.partition(".")[0]
    return [name, short, f"{short}.local"] if short else []


def _origin(scheme: str, authority: str) -> str:
    """A page's origin as browsers write it."""
    port = ":" + PORTS[scheme]
    if authority.endswith(port):
        authority = authority[: -len(port)]
    return f"{scheme}://{authority}"


def _is_cross_site(request: Request) -> bool:
    return request.headers.get("sec-fetch-site", "none") in ("cross-site", "same-site")


class WrongIds:
    """Counts wrong ids per sender, to stop a sender that tries them out."""

    def __init__(self) -> None:
        self._since = 0.0
        self._counts: Counter[str] = Counter()

    def add(self, peer: str, now: float) -> None:
        if now - self._since > WRONG_SECONDS:
            self._since = now
            self._counts.clear()
        self._counts[peer] += 1

    def too_many(self, peer: str, now: float) -> bool:
        is_over = now - self._since > WRONG_SECONDS
        return not is_over and self._counts[peer] >= WRONG_MOST
