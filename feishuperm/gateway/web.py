"""HTTP of a gateway: the machines' door, health, readiness, figures. No page."""

from __future__ import annotations

import hmac
from collections.abc import Callable
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import Any, Union

from feishuperm.gateway.hub import Hub
from feishuperm.gateway.metrics import CONTENT_TYPE
from feishuperm.gateway.peer import VIA, Source
from feishuperm.protocol.http1 import Request, Response
from feishuperm.protocol.machine import PATH

Address = Union[IPv4Address, IPv6Address]

FORWARDED = ("x-forwarded-for", "forwarded", "x-real-ip", "via")
LOOPBACK = ("127.0.0.1", "::1")
MAX_HOP = 60  # characters of what a proxy says about an address


class Web:
    """Routes of a gateway."""

    def __init__(
        self,
        hub: Hub,
        line_state: Callable[[], tuple[str, str]],
        upgrade: Callable[[Any, str, Source], object],
        metrics_token: str,
        proxies: tuple[Any, ...] = (),
    ) -> None:
        self._hub = hub
        self._line_state = line_state
        self._upgrade = upgrade
        self._token = metrics_token
        self._proxies = proxies

    def on_request(self, request: Request, exchange: Any) -> None:
        """Answer, or let a machine in."""
        if request.path == PATH and request.method == "GET":
            self._upgrade(exchange, *origin_of(request, self._proxies))
            return
        route = _ROUTES.get(request.path)
        if route is None:
            exchange.reply(Response(404, b"not found\n"))
        elif request.method not in ("GET", "HEAD"):
            allowed = [("Allow", "GET, HEAD")]
            exchange.reply(Response(405, b"GET only\n", headers=allowed))
        else:
            exchange.reply(route(self, request))

    def healthy(self, request: Request) -> Response:
        return Response(200, b"ok\n")

    def ready(self, request: Request) -> Response:
        """Whether taps and asks can travel."""
        state, detail = self._line_state()
        problems = []
        if state != "up":
            problems.append(f"Feishu: {detail or state}")
        if not self._hub.ready:
            problems.append(f"engine: {self._hub.engine.problem or 'not connected'}")
        if problems:
            return Response(503, ("\n".join(problems) + "\n").encode())
        return Response(200, b"ready\n")

    def metrics(self, request: Request) -> Response:
        if not self._may_see(request):
            return Response(403, b"metrics are for this machine, or with a token\n")
        gauges = self._hub.gauges()
        up = self._line_state()[0] == "up"
        gauges["feishuperm_app_up"] = ("Whether the long connection is up.", up)
        body = self._hub.metrics.text(gauges).encode()
        return Response(200, body, CONTENT_TYPE)

    def _may_see(self, request: Request) -> bool:
        """With the token if there is one, else from this machine itself."""
        if self._token:
            given = request.headers.get("authorization", "").encode()
            return hmac.compare_digest(given, f"Bearer {self._token}".encode())
        return request.peer in LOOPBACK and not is_passed_on(request)


_ROUTES: dict[str, Callable[[Web, Request], Response]] = {
    "/healthz": Web.healthy,
    "/readyz": Web.ready,
    "/metrics": Web.metrics,
}


def is_passed_on(request: Request) -> bool:
    """Whether a proxy has handed this on, as proxies say themselves."""
    return any(name in request.headers for name in FORWARDED)


def origin_of(request: Request, proxies: tuple[Any, ...]) -> tuple[str, Source]:
    """Where a machine comes from, as a person reads it and as it is counted.

    Behind a proxy that is not believed the address is not known.  Then it is counted
    by what that proxy says, so that no client of it holds off the others.
    """
    hops = request.headers.get("x-forwarded-for", "").split(",")
    known = _client(request, hops, proxies)
    if known is not None:
        return str(known), (_crowd(known), "")
    return f"{VIA}{request.peer}", (request.peer, hops[-1].strip()[:MAX_HOP])


def _client(
    request: Request, hops: list[str], proxies: tuple[Any, ...]
) -> Address | None:
    """The machine's own address; None if only a proxy knows it."""
    peer = _address(request.peer)
    if not is_passed_on(request):
        return None if peer is None or _is_among(peer, proxies) else peer
    if not _is_trusted(peer, proxies):
        return None
    for hop in reversed(hops):
        address = _address(hop)
        if not _is_trusted(address, proxies):
            break
    return address


def _address(said: str) -> Address | None:
    """The address in what somebody says, with or without a port."""
    said = said.strip()
    if said.startswith("["):
        said = said[1:].partition("]")[0]
    elif said.count(":") == 1:
        said = said.partition(":")[0]
    try:
        address = ip_address(said)
    except ValueError:
        return None
    # Proxies that listen for both kinds tell the older one inside the newer.
    return getattr(address, "ipv4_mapped", None) or address


def _is_among(address: Address, proxies: tuple[Any, ...]) -> bool:
    return any(
        address in proxy for proxy in proxies if proxy.version == address.version
    )


def _is_trusted(address: Address | None, proxies: tuple[Any, ...]) -> bool:
    return address is not None and (address.is_loopback or _is_among(address, proxies))


def _crowd(address: Address) -> str:
    """Addresses that one machine can have at will count as one."""
    if address.is_loopback:
        return "loopback"
    return str(ip_network(f"{address}/64", False) if address.version == 6 else address)
