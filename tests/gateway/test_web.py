"""HTTP of a gateway: its door, its health, and who may read its figures."""

from __future__ import annotations

import re
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import pytest

from feishuperm.gateway.web import Metrics, Web, origin_of
from feishuperm.protocol.http1 import Request, Response
from tests.gateway.parts import Bench, Clock, shared
from tests.tables import every_row

TOKEN = "t0ken"


class Exchange:
    """Keeps the answer."""

    def __init__(self) -> None:
        self.response: Any = None

    def reply(self, response: Response) -> None:
        self.response = response


class Site:
    """The routes of one gateway, and a line that is up."""

    def __init__(self, bench: Bench, token: str = "") -> None:
        self.line = ("up", "")
        bench.hub.line_state = lambda: self.line
        self.upgraded: list[str] = []
        self._web = Web(
            bench.hub,
            lambda exchange, address, source: self.upgraded.append(address),
            token,
        )

    def get(
        self, path: str, method: str = "GET", peer: str = "127.0.0.1", **headers: str
    ) -> Any:
        exchange = Exchange()
        self._web.on_request(request(path, method, peer, **headers), exchange)
        return exchange.response


def request(
    path: str, method: str = "GET", peer: str = "127.0.0.1", **headers: str
) -> Request:
    names = {name.replace("_", "-"): value for name, value in headers.items()}
    made = Request(method, path, {}, names)
    made.peer = peer
    return made


def test_machine_is_let_in_by_its_own_path_only(bench: Bench) -> None:
    site = Site(bench)
    assert site.get("/machine", peer="192.0.2.7") is None
    assert site.upgraded == ["192.0.2.7"]
    assert site.get("/machine", "POST").status == 404
    assert site.get("/machines").status == 404
    assert len(site.upgraded) == 1


@pytest.mark.parametrize("path", ["/", "/status", "/healthz/", "/allow"])
def test_there_is_no_page(bench: Bench, path: str) -> None:
    assert Site(bench).get(path).status == 404


def test_nothing_can_be_changed_over_http(bench: Bench) -> None:
    site = Site(bench)
    for method in ("POST", "PUT", "DELETE"):
        reply = site.get("/metrics", method)
        assert reply.status == 405 and ("Allow", "GET, HEAD") in reply.headers
    assert site.get("/healthz", "HEAD").status == 200


def test_ready_means_that_taps_can_travel(tmp_path: Path, clock: Clock) -> None:
    (store,) = shared(tmp_path / "e", clock, 1)
    site = Site(Bench(store, clock))
    assert site.get("/readyz").status == 200
    site.line = ("down", "no route")
    store.is_up = False
    reply = site.get("/readyz")
    assert reply.status == 503
    assert reply.body == b"Feishu: no route\nengine: not connected\n"
    assert site.get("/healthz").status == 200, "the process itself is well"


def test_figures_are_for_this_machine_itself(bench: Bench) -> None:
    bench.wire(bench.enrol())
    site = Site(bench)
    for peer in ("127.0.0.1", "::1"):
        reply = site.get("/metrics", peer=peer)
        assert b"feishuperm_machines 1\n" in reply.body
        assert b"feishuperm_app_up 1\n" in reply.body
    assert site.get("/metrics", peer="192.0.2.7").status == 403


@pytest.mark.parametrize("header", ["x_forwarded_for", "forwarded", "x_real_ip", "via"])
def test_figures_are_not_for_who_comes_through_a_proxy(
    bench: Bench, header: str
) -> None:
    assert Site(bench).get("/metrics", **{header: "192.0.2.7"}).status == 403


def test_figures_are_for_who_has_the_token_wherever_they_are(bench: Bench) -> None:
    site = Site(bench, TOKEN)
    right = {"authorization": f"Bearer {TOKEN}"}
    assert site.get("/metrics", peer="192.0.2.7", **right).status == 200
    for wrong in ("", "Bearer ", "Bearer x", TOKEN, "Bearer t0ken ", "Bearer tökén"):
        for peer in ("192.0.2.7", "127.0.0.1", "::1"):  # a proxy is on this machine too
            reply = site.get("/metrics", peer=peer, authorization=wrong)
            assert reply.status == 403


def test_empty_token_opens_nothing(bench: Bench) -> None:
    reply = Site(bench).get("/metrics", peer="192.0.2.7", authorization="Bearer ")
    assert reply.status == 403


NETWORKS = (ip_network("10.0.0.0/8"), ip_network("2001:db8:1::/64"))


@every_row(
    ("peer", "passed_on", "address", "source"),
    [
        ("192.0.2.7", None, "192.0.2.7", ("192.0.2.7", "")),
        ("127.0.0.1", None, "127.0.0.1", ("loopback", "")),
        ("2001:db8::1", None, "2001:db8::1", ("20010db800000000", "")),
        # A proxy on this machine, and one that the settings name.
        ("127.0.0.1", "198.51.100.1", "198.51.100.1", ("198.51.100.1", "")),
        ("::1", "9.9.9.9, 198.51.100.1:80", "198.51.100.1", ("198.51.100.1", "")),
        ("10.0.0.5", "9.9.9.9, 198.51.100.1", "198.51.100.1", ("198.51.100.1", "")),
        ("10.0.0.5", "9.9.9.9, 10.0.0.6", "9.9.9.9", ("9.9.9.9", "")),
        ("2001:db8:1::9", "[2001:db8:2::1]:7", "2001:db8:2::1",
         ("20010db800020000", "")),
        # Proxies that listen for both kinds of addresses.
        ("::ffff:10.0.0.5", "::ffff:198.51.100.1", "198.51.100.1",
         ("198.51.100.1", "")),
        ("127.0.0.1", "::ffff:127.0.0.1", "127.0.0.1", ("loopback", "")),
        ("127.0.0.1", "fe80::1%eth0", "fe80::1%eth0", ("fe80000000000000", "")),
        # One that nobody vouches for, one that says nothing, one that says nonsense.
        ("192.0.2.7", "198.51.100.1", "via 192.0.2.7", ("192.0.2.7", "198.51.100.1")),
        ("10.0.0.5", None, "via 10.0.0.5", ("10.0.0.5", "")),
        ("10.0.0.5", "", "via 10.0.0.5", ("10.0.0.5", "")),
        ("127.0.0.1", "x" * 100, "via 127.0.0.1", ("127.0.0.1", "x" * 60)),
    ],
)  # fmt: skip
def test_address_is_what_a_trusted_proxy_says_and_else_not_known(
    peer: str, passed_on: str | None, address: str, source: tuple[str, str]
) -> None:
    headers = {} if passed_on is None else {"x_forwarded_for": passed_on}
    made = request("/machine", peer=peer, **headers)
    assert origin_of(made, NETWORKS) == (address, source)


@every_row("header", ["forwarded", "x_real_ip", "via"])
def test_proxy_that_names_no_address_is_not_taken_for_the_machine(header: str) -> None:
    made = request("/machine", peer="192.0.2.7", **{header: "198.51.100.1"})
    assert origin_of(made, ())[0] == "via 192.0.2.7"


LINE = re.compile(r'[a-z_]+(\{[a-z]+="[^"\\\n]*"\})? -?[0-9.e+-]+\Z')


def test_text_keeps_the_rules_of_the_format() -> None:
    metrics = Metrics()
    for result, seconds in (("settled", 0.004), ("sent", 2.5), ("away", 9.0)):
        metrics.tap(result, seconds)
    text = metrics.text({"feishuperm_machines": ("Connected machines.", 2)})
    assert text.endswith("\n")
    samples = [line for line in text.splitlines() if not line.startswith("#")]
    assert all(LINE.match(line) for line in samples)
    keys = [line.rpartition(" ")[0] for line in samples]
    assert len(keys) == len(set(keys)), "twice the same makes the whole scrape fail"
    assert 'feishuperm_tap_seconds_bucket{le="+Inf"} 3' in samples
    assert "feishuperm_tap_seconds_count 3" in samples
    assert 'feishuperm_tap_seconds_bucket{le="0.01"} 1' in samples
    assert 'feishuperm_taps_total{result="away"} 1' in samples
    names = [line.split()[2] for line in text.splitlines() if line.startswith("# TYPE")]
    assert len(names) == len(set(names))
