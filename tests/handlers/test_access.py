from __future__ import annotations

import pytest

from feishuperm.handlers.access import (
    WRONG_MOST,
    WRONG_SECONDS,
    WrongIds,
    is_finger,
    is_local,
    is_own_form,
)
from feishuperm.protocol.http1 import Request

PHONE = (
    "Mozilla/5.0 (Linux; Android 14; CUBOT X90) AppleWebKit/537.36 (KHTML, like Gecko)"
    " Chrome/120.0 Mobile Safari/537.36 Lark/7.30.0 LarkLocale/zh_CN"
)


def request(peer: str = "127.0.0.1", version: str = "1.1", **headers: str) -> Request:
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    sent.setdefault("host", "localhost:8080")
    return Request("GET", "/allow", {}, sent, version, peer=peer)


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"user_agent": PHONE},
        {"sec_fetch_site": "none", "sec_fetch_dest": "document"},
        {
            "sec_fetch_site": "cross-site",
            "sec_fetch_mode": "navigate",
            "sec_fetch_dest": "document",
        },
        {"sec_fetch_site": "same-origin", "sec_fetch_dest": "empty"},
    ],
)
def test_tap_is_a_finger(headers: dict[str, str]) -> None:
    assert is_finger(request(**headers))


@pytest.mark.parametrize(
    "headers",
    [
        {"purpose": "prefetch"},
        {"sec_purpose": "prefetch;prerender"},
        {"x_moz": "prefetch"},
        {"x_purpose": "preview"},
        {"user_agent": "Slackbot-LinkExpanding 1.0"},
        {"user_agent": "facebookexternalhit/1.1"},
        {"sec_fetch_dest": "image", "sec_fetch_site": "cross-site"},
        {"sec_fetch_dest": "iframe", "sec_fetch_mode": "navigate"},
        {"sec_fetch_dest": "empty", "sec_fetch_site": "cross-site"},
    ],
)
def test_machine_is_no_finger(headers: dict[str, str]) -> None:
    assert not is_finger(request(**headers))


@pytest.mark.parametrize(
    ("headers", "own"),
    [
        ({}, True),
        ({"origin": "http://localhost:8080"}, True),
        ({"origin": "https://evil.test"}, False),
        ({"origin": "null"}, False),
        ({"sec_fetch_site": "cross-site"}, False),
        ({"sec_fetch_site": "same-origin", "origin": "http://localhost:8080"}, True),
        ({"origin": "https://public.example"}, True),  # behind a proxy
        ({"origin": "https://public.example.evil.test"}, False),
    ],
)
def test_only_our_own_pages_may_post(headers: dict[str, str], own: bool) -> None:
    assert is_own_form(request(**headers), "https://public.example") == own


@pytest.mark.parametrize("peer", ["127.0.0.1", "127.3.2.1", "::1", "::ffff:127.0.0.1"])
@pytest.mark.parametrize("host", ["localhost", "127.0.0.1:8080", "[::1]:8080"])
def test_browser_on_this_machine_is_local(peer: str, host: str) -> None:
    assert is_local(request(peer, host=host))


@pytest.mark.parametrize(
    "outside",
    [
        request("192.0.2.7"),
        request("::ffff:192.0.2.7"),
        request(host="rebound.example:8080"),
        request(host="127.example.com"),
        request(host=""),
        request(version="1.0"),  # nginx in front
        request(x_forwarded_for="192.0.2.7"),
        request(forwarded="for=192.0.2.7"),
        request(cf_connecting_ip="192.0.2.7"),
        request(via="1.1 proxy"),
    ],
)
def test_world_behind_loopback_is_not_local(outside: Request) -> None:
    assert not is_local(outside)


def test_too_many_wrong_ids_stop_one_address_for_a_while() -> None:
    wrong = WrongIds()
    for _ in range(WRONG_MOST - 1):
        wrong.add("192.0.2.7", 1000.0)
    assert not wrong.too_many("192.0.2.7", 1000.0)
    wrong.add("192.0.2.7", 1000.0)
    assert wrong.too_many("192.0.2.7", 1001.0)
    assert not wrong.too_many("192.0.2.8", 1001.0)
    assert not wrong.too_many("192.0.2.7", 1001.0 + WRONG_SECONDS)
