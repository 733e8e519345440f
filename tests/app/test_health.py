"""What Feishu says of the app: what is told of it, and what is done about it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from feishuperm.app.health import AGAIN_SECONDS, ASKED_SECONDS, LINE_SECONDS
from feishuperm.channels.app import EXAMINE_SECONDS, REPAIR_SECONDS
from tests.app.bench import OWNER, Bench

CARD = "om_1"
BOT = "/open-apis/bot/v3/info"
ME = "/open-apis/application/v6/applications/me"
COUNT = "/open-apis/event/v1/connection"
PERSON = f"/open-apis/contact/v3/users/{OWNER}"
READY = {"callback_type": "websocket", "subscribed_callbacks": ["card.action.trigger"]}


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def up(bench: Bench) -> None:
    """The connection comes up."""
    bench.line.enter("up")
    bench.pump()


def test_app_that_is_complete_is_up_and_its_owner_has_a_name(bench: Bench) -> None:
    bench.api.about = {
        BOT: {"bot": {"activate_status": 2}},
        ME: {"app": {"callback_info": READY}},
        COUNT: {"online_instance_cnt": 1},
        PERSON: {"user": {"name": "小 王\u202e"}},
    }
    up(bench)
    assert bench.channel.state()[0] == "up"
    bench.bring()
    bench.tap(CARD, "allow")
    bench.turn(1)
    assert "'你 · " in str(bench.api.cards[CARD])
    toast = bench.act(CARD, {}, who="ou_stranger")["toast"]["content"]
    assert toast.startswith("只有 小 王") and toast.endswith(" 可以操作")


def test_name_is_asked_for_once_and_never_while_somebody_taps(bench: Bench) -> None:
    up(bench)
    assert [path for path in bench.api.asked if PERSON in path] == [
        f"{PERSON}?user_id_type=open_id"
    ]
    before = len(bench.api.asked)
    bench.bring()
    reply = bench.tap(CARD, "allow")
    bench.line.enter("waiting", "cut")
    up(bench)
    bench.turn(EXAMINE_SECONDS)
    assert len(bench.api.asked) == before
    assert "'你 · " in str(reply["card"])


@pytest.mark.parametrize(
    ("path", "data", "words", "page"),
    [
        (
            BOT,
            {"bot": {"activate_status": 1}},
            "has switched off the app's bot",
            "version",
        ),
        (
            ME,
            {"app": {"callback_info": {**READY, "subscribed_callbacks": []}}},
            "card.action.trigger",
            "callback",
        ),
        (
            ME,
            {"app": {"callback_info": {**READY, "callback_type": "webhook"}}},
            "a web address",
            "callback",
        ),
    ],
)
def test_what_keeps_taps_away_is_told_with_its_page_until_a_tap_arrives(
    bench: Bench, path: str, data: Any, words: str, page: str
) -> None:
    bench.api.about = {path: data}
    up(bench)
    state, detail = bench.channel.state()
    assert state == "down" and words in detail
    assert detail.endswith(f"https://open.feishu.cn/app/cli_1/{page}")
    bench.bring()
    bench.tap(CARD, "allow")
    assert bench.channel.state()[0] == "up"


@pytest.mark.parametrize(
    "about",
    [
        {},
        {BOT: {"bot": 5}, ME: {"app": []}, COUNT: {"online_instance_cnt": "x"}},
        {ME: {"app": {"callback_info": None}}, PERSON: {"user": {"name": 5}}},
        {ME: {"app": {"callback_info": {"callback_type": "websocket"}}}},
    ],
)
def test_what_feishu_does_not_tell_counts_as_good(bench: Bench, about: Any) -> None:
    bench.api.about = about
    up(bench)
    assert bench.channel.state()[0] == "up"


def test_second_machine_is_told_when_it_is_there_twice(bench: Bench) -> None:
    bench.api.about = {COUNT: {"online_instance_cnt": 2}}
    up(bench)
    assert "2 connections" not in bench.channel.state()[1]
    bench.turn(AGAIN_SECONDS)
    state, detail = bench.channel.state()
    assert state == "up" and "2 connections" in detail
    assert bench.channel.facts()["connections"] == 2


def test_second_machine_that_comes_later_is_told_when_a_person_asks(
    bench: Bench,
) -> None:
    """Within two minutes; and its end within one."""
    bench.api.about = {COUNT: {"online_instance_cnt": 1}}
    up(bench)
    assert not bench.channel.look(), "that was asked a moment ago"
    bench.turn(AGAIN_SECONDS)
    bench.api.about = {COUNT: {"online_instance_cnt": 2}}
    before = len(bench.api.asked)
    assert bench.channel.look() and bench.channel.look()
    bench.pump()
    assert not bench.channel.look()
    assert len(bench.api.asked) == before + 1, "calls are counted by the month"
    assert "2 connections" in bench.channel.state()[1]
    bench.api.about = {COUNT: {"online_instance_cnt": 1}}
    bench.turn(ASKED_SECONDS)
    bench.channel.look()
    bench.pump()
    assert "connections" not in str(bench.channel.facts())


def test_connection_of_a_moment_ago_is_no_second_machine(bench: Bench) -> None:
    bench.api.about = {COUNT: {"online_instance_cnt": 2}}
    up(bench)
    bench.api.about = {COUNT: {"online_instance_cnt": 1}}
    bench.turn(AGAIN_SECONDS)
    assert "connections" not in bench.channel.state()[1]
    bench.line.enter("waiting", "cut")
    up(bench)
    bench.api.about = {COUNT: {"online_instance_cnt": 2}}
    bench.turn(ASKED_SECONDS)
    bench.channel.look()
    bench.pump()
    assert "connections" not in bench.channel.state()[1]


def test_card_that_nobody_answered_asks_once_an_hour_why(bench: Bench) -> None:
    up(bench)
    before = len(bench.api.asked)
    for number in range(3):
        bench.bring(f"{number}-00000000")
        bench.turn(EXAMINE_SECONDS / 2 + 1)
        ended = bench.end(f"{number}-00000000")
        bench.channel.settle(ended._replace(state="expired"))
        bench.turn(1)
    assert before < len(bench.api.asked) <= before + 2 * 3


# Another channel while no tap can arrive.


def left(bench: Bench) -> list[str]:
    assert bench.stand_ins is not None
    return bench.stand_ins


def test_request_waits_a_moment_for_the_line_then_is_left_to_another(
    bench: Bench,
) -> None:
    bench.stand_ins = []
    up(bench)
    bench.line.enter("waiting", "the connection was cut")
    bench.bring()
    assert bench.done == [] and bench.api.cards == {}
    bench.turn(LINE_SECONDS)
    assert bench.done == [(False, "the connection was cut")]
    bench.bring("2-00000002")
    assert len(bench.done) == 2 and bench.api.cards == {}
    up(bench)
    bench.bring("3-00000003")
    assert bench.done[-1] == (True, "") and list(bench.api.cards) == [CARD]


def test_line_that_is_back_soon_shows_the_card_itself(bench: Bench) -> None:
    bench.stand_ins = []
    up(bench)
    bench.line.enter("waiting", "cut")
    bench.bring()
    bench.turn(LINE_SECONDS / 2)
    up(bench)
    bench.turn(LINE_SECONDS)
    assert bench.done == [(True, "")] and left(bench) == []


def test_card_that_is_out_is_shown_elsewhere_too_when_its_line_stays_down(
    bench: Bench,
) -> None:
    bench.stand_ins = []
    up(bench)
    bench.bring()
    bench.bring("2-00000002")
    bench.end("2-00000002")
    bench.line.enter("waiting", "cut")
    bench.turn(LINE_SECONDS / 2)
    bench.line.enter("dialling", "cut")
    assert left(bench) == []
    bench.turn(LINE_SECONDS)
    assert left(bench) == ["1-00000001"]
    bench.turn(60)
    assert left(bench) == ["1-00000001"]
    up(bench)
    assert bench.tap(CARD, "allow")["toast"]["type"] == "success"


def test_without_another_channel_the_card_goes_out_all_the_same(bench: Bench) -> None:
    up(bench)
    bench.line.enter("waiting", "cut")
    bench.bring()
    assert bench.done == [(True, ""), (False, "lost")]
    up(bench)
    assert bench.done[-1] == (True, ""), "it can be answered now"


@pytest.mark.parametrize("asks", [1, 8])
def test_card_that_is_out_cannot_be_answered_while_no_tap_can_arrive(
    bench: Bench, asks: int
) -> None:
    """Its end must not be a refusal then; one card or the card of a burst."""
    up(bench)
    for number in range(asks):
        bench.bring(f"1-{number:08d}")
    bench.turn(5)
    assert bench.done == [(True, "")] * asks
    bench.line.enter("waiting", "cut")
    bench.line.enter("dialling", "cut")
    assert bench.done[asks:] == [(False, "lost")] * asks
    up(bench)
    assert bench.done[2 * asks :] == [(True, "")] * asks
    bench.end("1-00000000")
    bench.api.about = {BOT: {"bot": {"activate_status": 1}}}
    bench.channel._health.look(0)
    bench.pump()
    assert bench.done[3 * asks :] == [(False, "lost")] * (asks - 1)


def test_card_that_cannot_leave_is_given_up_soon_where_another_can_show_it(
    bench: Bench,
) -> None:
    bench.stand_ins = []
    up(bench)
    bench.api.is_busy = True
    bench.bring()
    bench.turn(10)
    assert bench.done == [(False, "busy")]
    assert bench.asks  # it still waits, and has time


def test_app_that_was_mended_shows_cards_again_without_a_tap(bench: Bench) -> None:
    bench.stand_ins = []
    bench.api.about = {BOT: {"bot": {"activate_status": 1}}}
    up(bench)
    bench.bring()
    assert bench.done[-1][0] is False and bench.api.cards == {}
    bench.api.about = {}
    bench.turn(REPAIR_SECONDS)
    bench.bring("2-00000002")
    bench.pump()
    bench.bring("3-00000003")
    assert bench.done[-1] == (True, "")
