"""Who may do what over HTTP: the questions every route asks before it acts.

Links in a chat are fetched by more than fingers: previews, scanners, prefetching
browsers, images on hostile pages.  None of those may decide anything.  And what comes
from this machine is not always from this person: a proxy or a rebound host name brings
the whole world in through loopback.
"""

from __future__ import annotations

import os

from feishuperm.lib.peer import tcp_owner
from feishuperm.models.settings import host_is_local, url_host

TYPE_CHECKING = False
if TYPE_CHECKING:
    from feishuperm.protocol.http1 import Request

# Programs that fetch a link to show or judge it.  Whole names: there are phones whose
# model ends in "bot".
PREVIEW_AGENTS = (
    "applebot", "baiduspider", "bingbot", "bytespider", "crawler", "discordbot",
    "embedly", "facebookexternalhit", "googlebot", "linkedinbot", "preview",
    "slackbot", "telegrambot", "twitterbot", "urlscan", "whatsapp",
)  # fmt: skip
PREFETCH_HEADERS = ("purpose", "sec-purpose", "x-purpose", "x-moz")
# Set by reverse proxies and tunnels.
FORWARDING_HEADERS = (
    "forwarded", "via", "x-forwarded-for", "x-forwarded-host", "x-forwarded-proto",
    "x-real-ip", "cf-connecting-ip", "true-client-ip", "x-original-host",
)  # fmt: skip
WRONG_SECONDS = 60.0
WRONG_MOST = 20  # per address and minute; a person mistypes no links


def is_finger(request: Request) -> bool:
    """Whether a person's tap may be behind a GET that would decide."""
    headers = request.headers
    for name in PREFETCH_HEADERS:
        value = headers.get(name, "").lower()
        if "prefetch" in value or "preview" in value or "prerender" in value:
            return False
    agent = headers.get("user-agent", "").lower()
    if any(name in agent for name in PREVIEW_AGENTS):
        return False
    # Browsers say what a request is for: an image or a frame is never a tap.
    if headers.get("sec-fetch-dest", "document") not in ("document", "empty"):
        return False
    return not _is_cross_site(request) or headers.get("sec-fetch-mode") == "navigate"


def is_own_form(request: Request, public: str) -> bool:
    """Whether a POST comes from one of our own pages (or from no page at all).

    A proxy may give us another host than the browser sees: that one is `public`.
    """
    if _is_cross_site(request):
        return False
    origin = request.headers.get("origin", "").lower()
    host = request.headers.get("host", "").lower()
    return origin in ("", public.lower(), f"http://{host}", f"https://{host}")


def is_local(request: Request) -> bool:
    """Whether the request comes from a browser on this machine, straight."""
    if request.peer != "::1" and not request.peer.startswith(("127.", "::ffff:127.")):
        return False
    # nginx speaks HTTP/1.0 to what is behind it and names us as the host.
    if request.version != "1.1":
        return False
    if any(name in request.headers for name in FORWARDING_HEADERS):
        return False
    return host_is_local(url_host("http://" + request.headers.get("host", "")))


def is_own_user(request: Request) -> bool:
    """Whether a local request comes from the user we run as; True if nothing tells."""
    return tcp_owner(request.peer, request.peer_port) in (os.geteuid(), None)


def _is_cross_site(request: Request) -> bool:
    return request.headers.get("sec-fetch-site", "none") in ("cross-site", "same-site")


class WrongIds:
    """Counts wrong ids per address, to stop whoever tries them out."""

    def __init__(self) -> None:
        self._since = 0.0
        self._counts: dict[str, int] = {}

    def add(self, peer: str, now: float) -> None:
        if now - self._since > WRONG_SECONDS:
            self._since = now
            self._counts.clear()
        self._counts[peer] = self._counts.get(peer, 0) + 1

    def too_many(self, peer: str, now: float) -> bool:
        if now - self._since > WRONG_SECONDS:
            return False
        return self._counts.get(peer, 0) >= WRONG_MOST
