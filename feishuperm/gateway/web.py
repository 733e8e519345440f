"""HTTP of a gateway: the machines' door, health, readiness, figures. No page."""

from __future__ import annotations

import hmac
from collections.abc import Callable
from typing import Any

from feishuperm.gateway.hub import Hub
from feishuperm.gateway.metrics import CONTENT_TYPE
from feishuperm.protocol.http1 import Request, Response
from feishuperm.protocol.machine import PATH

FORWARDED = ("x-forwarded-for", "forwarded", "x-real-ip", "via")
LOOPBACK = ("127.0.0.1", "::1")


class Web:
    """Routes of a gateway."""

    def __init__(
        self,
        hub: Hub,
        line_state: Callable[[], tuple[str, str]],
        upgrade: Callable[[Any, str], object],
        metrics_token: str,
    ) -> None:
        self._hub = hub
        self._line_state = line_state
        self._upgrade = upgrade
        self._token = metrics_token

    def on_request(self, request: Request, exchange: Any) -> None:
        """Answer, or let a machine in."""
        if request.path == PATH and request.method == "GET":
            self._upgrade(exchange, address_of(request))
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
        passed_on = any(name in request.headers for name in FORWARDED)
        return request.peer in LOOPBACK and not passed_on


_ROUTES: dict[str, Callable[[Web, Request], Response]] = {
    "/healthz": Web.healthy,
    "/readyz": Web.ready,
    "/metrics": Web.metrics,
}


def address_of(request: Request) -> str:
    """Where a machine comes from, as far as a proxy in front of us says so."""
    passed_on = request.headers.get("x-forwarded-for", "").rpartition(",")[2].strip()
    if request.peer in LOOPBACK and passed_on:
        return passed_on[:60]
    return request.peer
