"""What a gateway's operator sees: HTTP (health, readiness, figures), its own socket.

HTTP is the machines' way in too. There is no page.
"""

from __future__ import annotations

import hmac
import json
from collections.abc import Callable, Mapping
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Any, Union

from feishuperm.gateway.hub import Hub
from feishuperm.gateway.machines import VIA, Source
from feishuperm.gateway.store import StoreDown
from feishuperm.lib.task import run
from feishuperm.messages import msg, pack
from feishuperm.models.fields import decoded, part_at
from feishuperm.protocol.http1 import Request, Response
from feishuperm.protocol.machine import PATH
from feishuperm.server.listen import client_network

Address = Union[IPv4Address, IPv6Address]

FORWARDED = ("x-forwarded-for", "forwarded", "x-real-ip", "via")
LOOPBACK = ("127.0.0.1", "::1")
MAX_HOP = 60  # characters of what a proxy says about an address
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
BUCKETS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)
COUNTED = {
    "asks": "Requests of machines.",
    "cards": "Cards that reached Feishu.",
    "logins": "Machines that logged in.",
    "refused_logins": "Logins with a wrong key or of nobody.",
}
TAP_RESULTS = (
    "settled", "ended", "sent", "away", "again", "stranger", "refused",
)  # fmt: skip


class Web:
    """Routes of a gateway."""

    def __init__(
        self,
        hub: Hub,
        upgrade: Callable[[Any, str, Source], object],
        metrics_token: str,
        proxies: tuple[Any, ...] = (),
    ) -> None:
        self._hub = hub
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
        state, detail = self._hub.line_state()
        problems = []
        if state != "up":
            problems.append(f"Feishu: {detail or state}")
        if not self._hub.ready:
            problems.append(f"engine: {self._hub.store.problem or 'not connected'}")
        if problems:
            return Response(503, ("\n".join(problems) + "\n").encode())
        return Response(200, b"ready\n")

    def metrics(self, request: Request) -> Response:
        if not self._may_see(request):
            return Response(403, b"metrics are for this machine, or with a token\n")
        hub = self._hub
        waiting = sum(len(link.waiting) for link in hub.connected.values())
        gauges = {
            "machines": ("Connected machines.", len(hub.connected)),
            "waiting": ("Requests of connected machines that wait.", waiting),
            "engine_up": ("Whether the engine answers.", hub.store.ready),
            "app_up": ("Whether the long connection is up.",
                       hub.line_state()[0] == "up"),
        }  # fmt: skip
        return Response(200, hub.metrics.text(gauges).encode(), CONTENT_TYPE)

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
        return str(known), (client_network(str(known)), "")
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


# Figures.


class Metrics:
    """Figures as Prometheus reads them; gauges are asked for when somebody looks.

    No label names a machine or a person: two thousand series help nobody, and names
    are private.
    """

    def __init__(self) -> None:
        self.counts = dict.fromkeys(COUNTED, 0)
        self.taps = dict.fromkeys(TAP_RESULTS, 0)
        self._seconds = [0] * (len(BUCKETS) + 1)
        self._sum = 0.0

    def tap(self, result: str, seconds: float) -> None:
        """A tap was answered."""
        self.taps[result] += 1
        place = next((n for n, le in enumerate(BUCKETS) if seconds <= le), len(BUCKETS))
        self._seconds[place] += 1
        self._sum += seconds

    def text(self, gauges: Mapping[str, tuple[str, float]]) -> str:
        """Everything, with what is true right now."""
        lines: list[str] = []
        for name, (help, value) in gauges.items():
            lines += [*_head(name, help, "gauge"), f"feishuperm_{name} {value:g}"]
        for name, help in COUNTED.items():
            lines += _head(f"{name}_total", help, "counter")
            lines.append(f"feishuperm_{name}_total {self.counts[name]}")
        lines += _head("taps_total", "Taps by what came of them.", "counter")
        for result, count in self.taps.items():
            lines.append(f'feishuperm_taps_total{{result="{result}"}} {count}')
        return "\n".join([*lines, *self._histogram(), ""])

    def _histogram(self) -> list[str]:
        name = "feishuperm_tap_seconds"
        help = "From a tap's arrival to its answer."
        lines = _head("tap_seconds", help, "histogram")
        total = 0
        for le, count in zip((*BUCKETS, "+Inf"), self._seconds):
            total += count
            lines.append(f'{name}_bucket{{le="{le}"}} {total}')
        return [*lines, f"{name}_sum {self._sum:.6f}", f"{name}_count {total}"]


def _head(name: str, help: str, kind: str) -> list[str]:
    name = f"feishuperm_{name}"
    return [f"# HELP {name} {help}", f"# TYPE {name} {kind}"]


# The socket.


class GatewayControl:
    """Commands that `feishuperm machines` and `status` send over the gateway's socket.

    Only the gateway's own user can open that.
    """

    def __init__(
        self,
        hub: Hub,
        problem: Callable[[], str],
    ) -> None:
        self._hub = hub
        self._problem = problem

    def on_frame(self, connection: Any, kind: bytes, body: bytes) -> None:
        """One command, one answer."""

        def reply(answer: dict[str, Any]) -> None:
            connection.send(b"J", json.dumps(pack(answer)).encode())

        def failed(error: Exception) -> None:
            down = isinstance(error, StoreDown)
            why = msg("the engine does not answer: {}", error) if down else repr(error)
            reply({"error": why})

        if kind != b"C":
            connection.close()
            return
        run(self._answer(part_at(decoded(body)), reply), failed)

    async def _answer(
        self, command: dict[str, Any], reply: Callable[[dict[str, Any]], None]
    ) -> None:
        name = command.get("command")
        row = _COMMANDS.get(str(name))
        unknown = {"error": msg("unknown control command {!r}", name)}
        reply(unknown if row is None else await row(self, command))

    async def machines(self, command: dict[str, Any]) -> dict[str, Any]:
        return {"machines": await self._hub.listing()}

    async def rename(self, command: dict[str, Any]) -> dict[str, Any]:
        id, name = str(command.get("id")), str(command.get("name"))
        machine = await self._hub.pairing.rename(id, name)
        if machine is None:
            return {"error": msg("no machine {}", id)}
        return {"name": machine.name}

    async def revoke(self, command: dict[str, Any]) -> dict[str, Any]:
        owner, id = command.get("owner"), command.get("id")
        rows = await self._hub.store.machines()
        ids = [
            row.id for row in rows if (row.owner == owner if owner else row.id == id)
        ]
        if not ids:
            of = "of " if owner else ""
            return {"error": msg("no machine {}{}", of, owner or id)}
        for each in ids:
            await self._hub.revoke(each, "the gateway's operator")
        return {"revoked": ids}

    async def status(self, command: dict[str, Any]) -> dict[str, Any]:
        hub = self._hub
        state, detail = hub.line_state()
        engine = "up" if hub.store.ready else "down"
        return {
            "replica": hub.replica,
            "app": {"state": state, "detail": detail},
            "engine": {"state": engine, "detail": hub.store.problem},
            "machines": len(hub.connected),
            "problem": self._problem(),
            "clock": hub.clock_problem(),
        }


_COMMANDS: dict[str, Callable[[GatewayControl, dict[str, Any]], Any]] = {
    "machines": GatewayControl.machines,
    "rename": GatewayControl.rename,
    "revoke": GatewayControl.revoke,
    "status": GatewayControl.status,
}
