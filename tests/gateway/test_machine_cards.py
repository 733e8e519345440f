"""Cards of the gateway's own: what they show, and what their buttons carry."""

from __future__ import annotations

import time
from typing import Any

import pytest

from feishuperm.gateway.inbound import MOST, machines_card
from feishuperm.gateway.machines import join_card, note_card
from feishuperm.gateway.store import Joining
from tests.fakes.feishu import check_card
from tests.gateway.parts import collect
from tests.tables import every_row

JOINING = Joining("j1", "r1", "box", "me", "192.0.2.7", "", "ou_owner", "secret")


def row(number: int = 1, **facts: Any) -> dict[str, Any]:
    return {
        "id": f"m-{number}", "name": f"box {number}", "address": "192.0.2.7",
        "connected": True, "since": 60, **facts,
    }  # fmt: skip


def buttons(card: dict[str, Any]) -> list[dict[str, str]]:
    check_card(card, webhook=False)
    values: list[dict[str, str]] = []
    collect(card, values)
    return values


def test_address_that_only_a_proxy_knows_is_told_as_not_known() -> None:
    card = join_card(JOINING._replace(address="via 10.0.0.5"), "zh")
    assert "地址：未知（经由代理 10.0.0.5）" in str(card["body"])


@every_row("language", ["zh", "en"])
def test_machine_to_confirm_shows_name_user_and_address(language: str) -> None:
    card = join_card(JOINING, language)
    for fact in ("box", "me", "192.0.2.7"):
        assert fact in str(card["body"])
    assert buttons(card) == [
        {"id": "j1", "action": "join", "nonce": "secret"},
        {"id": "j1", "action": "refuse", "nonce": "secret"},
    ]


def test_what_a_machine_calls_itself_cannot_become_markup() -> None:
    call = "<at id=all></at>"
    hostile = JOINING._replace(name=call, user=call, address=call)
    for card in (
        join_card(hostile, "zh"),
        machines_card([row(name=call, address=call)], "zh"),
        note_card(call, "zh"),
    ):
        check_card(card, webhook=False)
        assert "lark_md" not in str(card) and "'markdown'" not in str(card)


def test_own_machine_has_a_name_to_change_and_asks_before_it_goes() -> None:
    card = machines_card([row()], "zh")
    assert buttons(card) == [
        {"machine": "m-1", "action": "rename"},
        {"machine": "m-1", "action": "revoke"},
    ]
    assert "'default_value': 'box 1'" in str(card)
    assert "'confirm'" in str(card)


def test_machine_says_since_when_it_is_here_or_away(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(time, "time", lambda: 86_400.0 * 400)
    moment = time.strftime("%m-%d %H:%M", time.localtime(86_400.0 * 400 - 60))
    here = str(machines_card([row()], "en"))
    away = str(machines_card([row(connected=False)], "en"))
    assert f"connected since {moment}" in here and f"away since {moment}" in away


def test_person_without_machines_is_told_how_to_add_one() -> None:
    card = machines_card([], "en")
    assert buttons(card) == [] and "feishuperm join" in str(card)


def test_more_machines_than_a_card_holds_are_counted() -> None:
    name, address = "机" * 40, "2001:db8:1111:2222:3333:4444:5555:6666"
    rows = [row(number, name=name, address=address) for number in range(MOST + 3)]
    card = machines_card(rows, "en")
    assert len(buttons(card)) == 2 * MOST, "and Feishu takes it"
    assert "3 more" in str(card) and f"m-{MOST}" not in str(card)
