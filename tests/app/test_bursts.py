"""Many requests at once: one card, and "all" is what it showed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from feishuperm.app.api import MAX_CARD, Result
from feishuperm.app.bursts import MOST_ROWS
from feishuperm.lib.feishu import encode
from tests.app.bench import START, STRANGER, Bench
from tests.fakes.feishu import every_element
from tests.services.test_presenter import brief

BURST = "om_6"


def id_of(number: int) -> str:
    return f"{number}-0000000{number % 10}"


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    """Five requests with cards of their own."""
    made = Bench(tmp_path)
    for number in range(1, 6):
        made.bring(id_of(number))
    assert len(made.api.cards) == 5
    return made


def fill(bench: Bench, first: int = 6, last: int = 8) -> None:
    for number in range(first, last + 1):
        bench.bring(id_of(number))
    bench.turn(1)


def answered(bench: Bench) -> list[tuple[str, str]]:
    return [(answer.id, answer.action) for answer in bench.answers]


def test_sixth_request_in_ten_seconds_joins_one_card(bench: Bench) -> None:
    fill(bench)
    assert list(bench.api.cards) == ["om_1", "om_2", "om_3", "om_4", "om_5", BURST]
    assert bench.done == [(True, "")] * 8
    buttons = bench.buttons(BURST)
    for number in (6, 7, 8):
        assert f"allow {id_of(number)}" in buttons
        assert f"deny {id_of(number)}" in buttons
        assert f"'运行命令\\nnpm run {id_of(number)}'" in str(bench.api.cards[BURST])


def test_line_tells_what_came_of_it_even_when_the_card_is_over(bench: Bench) -> None:
    fill(bench)
    for number in (6, 7, 8):
        bench.tap(BURST, f"allow {id_of(number)}")
    bench.turn(1)
    ran = bench.outcomes[id_of(7)]._replace(result="已运行，退出码 3")
    bench.channel.update(ran)
    bench.turn(1)
    words = f"done allow · 已运行，退出码 3 · 运行命令 npm run {id_of(7)}"
    assert words in str(bench.api.cards[BURST])
    assert bench.buttons(BURST) == {}


def test_requests_with_time_between_them_have_cards_of_their_own(
    tmp_path: Path,
) -> None:
    bench = Bench(tmp_path)
    for number in range(1, 9):
        bench.bring(id_of(number))
        bench.turn(2.5)
    assert len(bench.api.cards) == 8


def test_line_is_answered_once(bench: Bench) -> None:
    fill(bench)
    value = bench.buttons(BURST)[f"allow {id_of(7)}"]
    reply = bench.act(BURST, value)
    assert reply["toast"]["type"] == "success"
    assert answered(bench) == [(id_of(7), "allow")]
    assert f"allow {id_of(7)}" not in str(reply["card"])
    bench.act(BURST, value)
    assert [a for a in answered(bench) if a[0] != id_of(7)] == []
    bench.turn(1)
    assert f"allow {id_of(7)}" not in bench.buttons(BURST)
    assert f"allow {id_of(8)}" in bench.buttons(BURST)


def test_all_yes_covers_plain_lines_only(bench: Bench) -> None:
    bench.bring(id_of(6))
    bench.bring(id_of(7), command="echo " + "x" * 300)
    bench.bring(
        id_of(8), command="curl -H 'Authorization: Bearer ghp_" + "a1" * 18 + "'"
    )
    bench.bring(id_of(9), tool_name="ExitPlanMode", plan="y" * 250)
    bench.turn(1)
    buttons = bench.buttons(BURST)
    granting = [key for key in buttons if key.startswith(("allow", "approve"))]
    assert granting == [f"allow {id_of(6)}"]
    bench.tap(BURST, "all:yes")
    assert answered(bench) == [(id_of(6), "allow")]


def test_line_of_many_is_allowed_though_its_command_could_be_edited(
    bench: Bench,
) -> None:
    fill(bench)
    assert bench.asks[id_of(6)].offer("edit") is not None
    assert f"allow {id_of(6)}" in bench.buttons(BURST)
    assert f"edit {id_of(6)}" not in bench.buttons(BURST)


def test_all_yes_never_covers_a_danger_and_says_what_it_left_out(bench: Bench) -> None:
    fill(bench)
    made = bench.asks[id_of(8)]
    danger = made._replace(id="9-00000009", digest="d9", dangers=("deletes /srv",))
    bench.announce(danger)
    bench.turn(1)
    shown = str(bench.api.cards[BURST])
    assert "deletes /srv" in shown and "不包含有危险或未完整显示的 1 个" in shown
    reply = bench.tap(BURST, "all:yes")
    assert "9-00000009" not in [id for id, _ in answered(bench)]
    assert len(answered(bench)) == 3
    assert f"npm run {id_of(8)}" in reply["toast"]["content"]
    bench.turn(1)
    bench.tap(BURST, "allow 9-00000009")
    assert answered(bench)[-1] == ("9-00000009", "allow")


def test_dangerous_row_is_red_above_its_command_and_asks_once_more(
    bench: Bench,
) -> None:
    fill(bench)
    made = bench.asks[id_of(8)]
    bench.announce(made._replace(id="9-00000009", digest="d9", dangers=("deletes",)))
    bench.turn(1)
    elements = bench.api.cards[BURST]["body"]["elements"]
    (place,) = (n for n, e in enumerate(elements) if "deletes" in str(e))
    row, buttons = elements[place + 1 : place + 3]
    assert elements[place]["text"]["text_color"] == "red" and "npm" in str(row)
    allow, deny = (column["elements"][0] for column in buttons["columns"])
    assert allow["type"] == "default" and "confirm" in allow
    assert "confirm" not in deny


def test_full_card_of_dangers_still_fits(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    for number in range(5 + MOST_ROWS):
        made = brief(command="字" * 150)._replace(
            id=f"{number}-00000000",
            digest=f"d{number}",
            dangers=("危险" * 100,),
            created=START,
        )
        bench.announce(made)
    bench.turn(3)
    assert len(str(bench.api.cards[BURST])) > 5000  # checked as it was sent
    assert len(encode(bench.api.cards[BURST]).encode()) < MAX_CARD


def test_card_of_many_reminds_once_and_buzzes(tmp_path: Path) -> None:
    bench = Bench(tmp_path, urgent=True)
    for number in range(1, 9):
        bench.bring(id_of(number))
    bench.turn(1)
    bench.turn(28)
    below = [text for message, text in bench.api.texts if message == BURST]
    assert len(below) == 1 and "还剩" in below[0]
    bench.turn(1)
    assert below[0] in str(bench.api.cards[BURST])
    bench.turn(10)
    assert [call[1] for call in bench.api.calls if call[0] == "urge"].count(BURST) == 1
    assert len([text for message, text in bench.api.texts if message == BURST]) == 1


def test_nothing_reminds_of_many_in_quiet_hours(tmp_path: Path) -> None:
    bench = Bench(tmp_path, urgent=True)
    for number in range(1, 9):
        bench.bring(id_of(number))
    bench.turn(1)
    bench.night = 2.0, 3600.0
    bench.turn(50)
    assert bench.api.texts == []
    assert "urge" not in [call[0] for call in bench.api.calls]


def test_nobody_is_reminded_of_many_that_have_ended(tmp_path: Path) -> None:
    bench = Bench(tmp_path, urgent=True)
    for number in range(1, 8):
        bench.bring(id_of(number))
    bench.turn(1)
    bench.tap(BURST, "all:no")
    bench.turn(50)
    assert BURST not in [message for message, _ in bench.api.texts]
    assert ("urge", BURST) not in [call[:2] for call in bench.api.calls]


def test_request_of_several_parts_is_no_plain_line_unless_all_are_shown(
    bench: Bench,
) -> None:
    bench.bring(id_of(6), tool_name="Write", file_path="/x", content="evil " * 100)
    bench.bring(id_of(7), command="true", description="why")
    bench.turn(1)
    assert f"allow {id_of(6)}" not in bench.buttons(BURST)
    assert f"allow {id_of(7)}" in bench.buttons(BURST)
    assert "why" in str(bench.api.cards[BURST])


def test_all_no_covers_every_line(bench: Bench) -> None:
    fill(bench)
    bench.tap(BURST, "all:no")
    assert answered(bench) == [(id_of(n), "deny") for n in (6, 7, 8)]
    bench.turn(1)
    assert bench.buttons(BURST) == {}
    assert bench.channel._bursts == []


def test_card_that_has_changed_refuses_all(bench: Bench) -> None:
    fill(bench)
    old = next(
        value
        for key, value in bench.buttons(BURST).items()
        if key.startswith("all:yes")
    )
    bench.bring(id_of(9))  # it waits already; the phone still shows the older card
    reply = bench.act(BURST, old)
    assert reply["toast"]["type"] == "warning" and "card" in reply
    assert bench.answers == []


def test_strangers_and_other_nonces_answer_nothing(bench: Bench) -> None:
    fill(bench)
    for key, value in bench.buttons(BURST).items():
        assert bench.act(BURST, value, who=STRANGER)["toast"]["type"] == "error", key
        forged = {**value, "nonce": "guess"}
        assert bench.act(BURST, forged)["toast"]["type"] == "error", key
    assert bench.answers == []


def test_line_takes_no_action_it_does_not_offer(bench: Bench) -> None:
    fill(bench)
    value = bench.buttons(BURST)[f"deny {id_of(6)}"]
    for action in ("always", "interrupt", "answer", ""):
        reply = bench.act(BURST, {**value, "action": action})
        assert reply["toast"]["type"] == "error"
    assert bench.answers == []


def test_words_below_a_card_of_many_answer_none_of_them(bench: Bench) -> None:
    fill(bench)
    assert "多个请求" in bench.say("批准", BURST)
    assert bench.answers == []


def test_reply_before_the_card_of_many_has_an_id_is_asked_to_tap(bench: Bench) -> None:
    words = ["批准"]
    bench.api.while_sending = lambda: words and bench.say(words.pop(), BURST)
    fill(bench)
    bench.turn(1)
    assert ["多个请求" in text for _, text in bench.api.texts] == [True]
    assert bench.answers == []


def test_full_card_is_followed_by_another_and_both_take_taps(bench: Bench) -> None:
    fill(bench, 6, 6 + MOST_ROWS)
    assert len(bench.api.cards) == 7
    last = id_of(6 + MOST_ROWS)
    first_card, second_card = bench.buttons(BURST), bench.buttons("om_7")
    assert list(second_card) == [f"allow {last}", f"deny {last}"]
    bench.act(BURST, first_card[f"deny {id_of(6)}"])
    bench.act("om_7", second_card[f"deny {last}"])
    assert answered(bench) == [(id_of(6), "deny"), (last, "deny")]
    bench.turn(2)
    assert f"deny {id_of(7)}" in bench.buttons(BURST)


def test_tap_before_the_card_of_many_has_an_id_counts(bench: Bench) -> None:
    taps = [lambda: bench.tap(BURST, f"allow {id_of(6)}")]
    bench.api.while_sending = lambda: taps.pop()() if taps else None
    fill(bench)
    assert answered(bench) == [(id_of(6), "allow")]


def test_server_that_restarts_takes_the_card_of_many_back(bench: Bench) -> None:
    fill(bench)
    bench.start()
    bench.channel._take_bursts_back()
    for ask in list(bench.asks.values()):
        bench.announce(ask)
    assert len(bench.api.cards) == 6
    bench.act(BURST, bench.buttons(BURST)[f"deny {id_of(7)}"])
    assert answered(bench) == [(id_of(7), "deny")]
    bench.turn(1)
    assert f"deny {id_of(8)}" in bench.buttons(BURST)


def test_last_line_of_a_card_of_many_is_one_still_after_a_restart(
    bench: Bench,
) -> None:
    """By words, or on its reminder, it would be allowed though it was never whole."""
    fill(bench, 6, 6)
    long = brief(command="npm run build\n" * 2000)
    long = long._replace(id=id_of(7), digest="d7", created=START)
    bench.announce(long)
    bench.turn(1)
    bench.tap(BURST, f"deny {id_of(6)}")
    bench.turn(1)
    bench.start()
    bench.channel._take_bursts_back()
    bench.announce(long)
    assert "多个请求" in bench.say("allow", BURST)
    bench.turn(long.seconds / 2 + 1)
    assert not any(key.startswith("allow") for key in bench.buttons(BURST))
    assert (id_of(7), "allow") not in answered(bench)
    bench.tap(BURST, f"deny {id_of(7)}")
    assert answered(bench)[-1] == (id_of(7), "deny")


def test_dangerous_line_asks_once_more_and_does_not_stand_out(bench: Bench) -> None:
    fill(bench)
    made = bench.asks[id_of(8)]
    bench.announce(made._replace(id="9-00000009", digest="d9", dangers=("deletes",)))
    bench.turn(1)
    drawn = [
        (element["behaviors"][0]["value"]["action"], element)
        for element in every_element(bench.api.cards[BURST]["body"])
        if element["tag"] == "button"
    ]
    *_, plain, risky = (button for action, button in drawn if action == "allow")
    assert "危险" in risky["confirm"]["text"]["content"]
    assert (plain["type"], risky["type"]) == ("primary_filled", "default")
    assert all(button is risky for _, button in drawn if "confirm" in button)


def test_tap_on_a_line_whose_request_is_not_back_yet_is_to_be_tried_again(
    bench: Bench,
) -> None:
    fill(bench)
    asks = list(bench.asks.values())
    bench.asks.clear()
    bench.start()
    bench.channel._take_bursts_back()
    buttons = bench.buttons(BURST)
    line = buttons[f"deny {id_of(7)}"]
    (everything,) = (v for key, v in buttons.items() if key.startswith("all:no"))
    for value in (line, everything):
        toast = bench.act(BURST, value)["toast"]
        assert toast["type"] == "warning" and "请再点一次" in toast["content"]
    for ask in asks:
        bench.announce(ask)
    assert bench.act(BURST, line)["toast"]["type"] == "success"


def test_line_is_not_watched_once_the_last_request_of_a_burst_has_ended(
    bench: Bench,
) -> None:
    fill(bench)
    for number in range(1, 9):
        assert bench.line.is_watched
        bench.end(id_of(number))
    assert not bench.line.is_watched
    bench.turn(1)  # the record has left
    assert not bench.line.is_watched


def test_burst_that_ended_before_its_card_left_sends_none(bench: Bench) -> None:
    bench.bring(id_of(6))
    bench.end(id_of(6))
    bench.turn(1)
    assert BURST not in bench.api.cards and bench.channel._bursts == []


def test_row_is_told_once_though_two_changes_with_it_were_under_way(
    bench: Bench,
) -> None:
    fill(bench)
    under_way: list[Any] = []
    bench.channel.sender.card = (  # type: ignore[method-assign]
        lambda call, seconds, on_sent, *more: under_way.append(on_sent)
    )
    for number in (9, 10):
        bench.bring(id_of(number))
        bench.turn(1)
    for on_sent in under_way:
        on_sent(Result(True, 0, ""))
    told = [id for id, shown, _ in bench.reports.by_id if shown]
    assert len(under_way) == 2
    assert [told.count(id_of(number)) for number in (9, 10)] == [1, 1]
