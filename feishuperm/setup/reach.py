"""Whether a phone can open our links, and by which address of this machine it could.

A group bot's buttons are links.  As long as they say `localhost` they open on this
machine alone; each other address lets somebody else knock too, and a person should know
whom before choosing one.
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Iterable
from typing import NamedTuple

from feishuperm.lib.terminal import say, show
from feishuperm.lib.tongue import translate
from feishuperm.models.settings import Settings

# Documentation addresses: nothing is sent, the kernel only says which way it would go.
FAR = ((socket.AF_INET, "192.0.2.1"), (socket.AF_INET6, "2001:db8::1"))
TAILNET = ipaddress.ip_network("100.64.0.0/10")
URL = "CALLBACK_SERVER_URL"
SHOWN = 4
IN_TAILNET = "for devices in your tailnet (or your provider's network)"
IN_NETWORK = "for everybody in this network, unencrypted: at home yes, in a cafe no"
IN_WORLD = "for everybody on the internet, unencrypted: put an https proxy before it"


class Address(NamedTuple):
    """An address of this machine, and who can reach it, in words."""

    host: str
    exposes: str


def addresses(hosts: Iterable[str] | None = None) -> list[Address]:
    """This machine's addresses for a phone, the narrowest first."""
    rows = {}
    for host in own_hosts() if hosts is None else hosts:
        exposes = exposed_to(host)
        if exposes:
            rows[host] = Address(host, exposes)
    order = (IN_TAILNET, IN_NETWORK, IN_WORLD)
    return sorted(rows.values(), key=lambda row: order.index(row.exposes))[:SHOWN]


def exposed_to(host: str) -> str:
    """Who reaches an address; empty: no phone does."""
    address = ipaddress.ip_address(host)
    if address.is_loopback or address.is_link_local or address.is_unspecified:
        return ""
    if address.version == 4 and address in TAILNET:
        return IN_TAILNET
    return IN_NETWORK if address.is_private else IN_WORLD


def own_hosts() -> list[str]:
    """Addresses that this machine has, as far as it says so without asking anybody."""
    hosts = []
    for family, far in FAR:
        try:
            with socket.socket(family, socket.SOCK_DGRAM) as probe:
                probe.connect((far, 9))
                hosts.append(str(probe.getsockname()[0]))
        except OSError:
            continue
    try:
        named = socket.getaddrinfo(socket.gethostname(), None, type=socket.SOCK_STREAM)
    except OSError:
        named = []
    return [*hosts, *(str(row[4][0]).partition("%")[0] for row in named)]


def url_of(host: str, port: int) -> str:
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def is_out_of_reach(settings: Settings) -> bool:
    """Whether buttons are sent that no phone can open."""
    return "webhook" in settings.surfaces() and settings.url_is_local()


def advise(settings: Settings, rows: list[Address]) -> None:
    """Say so, with the addresses that a phone could open and whom each lets in."""
    url, port = settings.callback_server_url, settings.callback_server_port
    say(f"The buttons point to {url}, which a phone cannot open. It could open:")
    for number, row in enumerate(rows, 1):
        show(f"  {number}  {url_of(row.host, port)}  {translate(row.exposes)}")
