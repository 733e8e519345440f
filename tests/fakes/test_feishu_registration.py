"""The fake of the accounts host reads links as the real page does."""

from __future__ import annotations

import base64
import gzip
import json
from typing import Any

from feishuperm.lib.post import call
from feishuperm.setup.scan import addons, begin
from tests.fakes.feishu_registration import (
    CODE,
    Platform,
    Registration,
    read_addons,
)
from tests.tables import every_row

# A payload that another client made, as it was measured.
MEASURED = (
    "H4sIAAAAAAACA2WNSwrDMAwF76J1MLRLXyUUozgvxtQ_LBEooXevUygEuhOaN8xBrUOgZDdOgonE1wYhe5"
    "CicBlgpphthggHWEFZHYtbqtJ0Aabdm8sSbAevtaTXoNxaip411mKvtyBtLnMZGj3eE2FH0W8yKvJf2_wSHR"
    "5xh9tvQxue55QW9s-rOo9vXw37s2S0xxDQz_kHCIInzukAAAA"
)


def packed(value: object) -> str:
    data = gzip.compress(json.dumps(value).encode())
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def test_measured_payload_is_read_like_ours() -> None:
    assert read_addons(MEASURED)["callbacks"] == {"items": ["card.action.trigger"]}
    assert read_addons(addons())["scopes"]["tenant"][0] == "im:message:send_as_bot"


@every_row("extra", [{"mode": 1}, {"scopes": {"bot": []}}, {"events": {"list": []}}])
def test_one_unknown_key_makes_an_app_without_anything(extra: dict[str, Any]) -> None:
    whole = {"preset": False, "callbacks": {"items": ["card.action.trigger"]}}
    assert read_addons(packed(whole)) == whole
    assert read_addons(packed({**whole, **extra})) == {}
    with Platform() as platform:
        platform.add(read_addons(packed({**whole, **extra})))
        assert (platform.scopes, platform.callbacks) == ([], [])
        assert not platform.subscribed


def test_secret_is_handed_out_once() -> None:
    with Registration() as host:
        given = json.loads(call(begin(host.url)).body)
        assert given["device_code"] == CODE and given["expires_in"] == 3600
        form = {"action": ["poll"], "device_code": [CODE]}
        assert host.answer(form)[0] == 400
        host.confirmed = True
        assert host.answer(form)[0] == 200
        assert host.answer(form)[1] == {"error": "invalid_grant", "code": 20079}
