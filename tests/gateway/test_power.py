"""What a card of the gateway can do, held against the same card of the app.

Attackers: a hostile gateway may do only what the person could (`test_commands.py`); a
hostile machine reaches nobody but its owner; another person's words are about their own
machines; an event that comes twice counts once.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from feishuperm.app.api import Result
from feishuperm.app.bursts import ALL_NO, ALL_YES
from feishuperm.app.cards import Extra, ask_card
from feishuperm.gateway.store import FileStore
from feishuperm.models.ask import Block, Field, Offer, Outcome, to_plain
from feishuperm.models.kind import KINDS
from tests.gateway.pair import HOLD, Pair
from tests.gateway.parts import (
    OTHER,
    OWNER,
    Bench,
    Clock,
    FakeWire,
    collect,
    done,
    make_ask,
    shared,
)
from tests.gateway.test_inbound import say, tap, write


@pytest.fixture
def pair(bench: Bench) -> Pair:
    return Pair(bench)


def values_of(card: Any) -> list[dict[str, str]]:
    values: list[dict[str, str]] = []
    collect(card, values)
    return values


def replies(bench: Bench) -> list[str]:
    return [content["text"] for _, content in bench.api.replies if "text" in content]


# The same buttons on both.


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_card_of_the_gateway_can_do_what_the_same_card_of_the_app_can(
    pair: Pair, kind: str
) -> None:
    """With FEISHUPERM_GATEWAY_GRANTS=on; 修改后批准 alone stays away."""
    edited = Field("command", "lines", "命令", value="ls")
    actions = tuple(
        Offer(row.name, row.name, look=row.look, grants=not row.message)
        for row in KINDS[kind].actions
        if row.name != "edit"
    )
    edit = (Offer("edit", "修改后批准", look="yes", fields=("command",), grants=True),)
    ask = make_ask(
        kind=kind, actions=(*actions, *edit), fields=(edited,), rules=("Bash(ls)",),
        hold=True, created=pair.bench.clock.now,
    )  # fmt: skip
    app = {value["action"] for value in values_of(ask_card(ask, "n", Extra())[0])}
    pair.request(kind=kind, actions=ask.actions, fields=ask.fields, rules=ask.rules,
                 hold=True)  # fmt: skip
    sent = values_of(pair.bench.api.sent[-1][1])
    assert {value["action"] for value in sent} == app - {"edit"}
    assert "hold" in app and all(value["machine"] == "m-laptop" for value in sent)


# 我在看.


def test_reading_gives_time_and_changes_the_card_once(pair: Pair) -> None:
    ask = pair.request(hold=True)
    told = pair.tap(pair.bench.value("hold"))
    ends = ask.created + ask.seconds + HOLD
    assert told["toast"]["type"] == "success"
    pair.pump()
    assert len(pair.bench.api.updates) == 1, "one update to Feishu"
    assert "hold" not in {v["action"] for v in values_of(pair.bench.api.updates[0][1])}
    assert pair.seconds_left(ask.id) == round(ends - pair.bench.clock.now)
    assert pair.extended == [ask.id] and pair.answers == []
    assert pair.reports.done[-1] == (True, "")
    told = pair.tap(pair.bench.value("allow"), message="om_1")
    assert told["toast"]["content"] == "已批准运行"


def test_reading_twice_gives_nothing_more_and_changes_nothing(pair: Pair) -> None:
    pair.request(hold=True)
    value = pair.bench.value("hold")
    first, second = pair.tap(value), pair.tap(value)
    pair.pump()
    assert first["toast"]["content"] == second["toast"]["content"]
    assert len(pair.extended) == len(pair.bench.api.updates) == 1


def test_clock_stopped_elsewhere_is_told_on_the_card(pair: Pair) -> None:
    ask = pair.request(hold=True)
    pair.extend_deadline(ask.id)
    pair.pump()
    assert len(pair.bench.api.updates) == 1


def test_request_that_ended_meanwhile_is_not_drawn_again(pair: Pair) -> None:
    ask = pair.request(hold=True)
    pair.extend_deadline(ask.id)
    pair.end(ask.id)
    pair.pump()
    assert [values_of(card) for _, card in pair.bench.api.updates] == [[]]


@pytest.mark.parametrize("hold", [0, HOLD])
def test_old_gateway_or_machine_offers_no_time(bench: Bench, hold: int) -> None:
    """It knows nothing of it, and says so by silence."""
    pair = Pair(bench, hold=hold)
    pair.channel._can = frozenset()  # as 0.2.0 tells
    pair.request(hold=True)
    assert "hold" not in {v["action"] for v in values_of(bench.api.sent[-1][1])}
    old = bench.wire(bench.enrol("old"))  # a login without `can`
    bench.ask(old, id="1-b", hold=True)
    value = bench.value("hold")
    assert bench.tap(value)[0]["toast"]["type"] == "error" and not old.got("tap")


def test_gateway_that_floods_with_more_time_gets_it_once(pair: Pair) -> None:
    ask = pair.request(hold=True)
    for _ in range(20):
        pair.tap(pair.bench.value("hold"), message="om_1")
    assert pair.asks[ask.id].seconds == ask.seconds + HOLD


# Reminders.


def test_half_time_is_told_below_the_card_and_on_it(pair: Pair) -> None:
    pair.request(seconds=100)
    pair.bench.clock.turn(60)
    pair.pump()
    assert len(replies(pair.bench)) == 1 and "50" in replies(pair.bench)[0]
    assert len(pair.bench.api.updates) == 1


def test_gateway_reminds_of_nothing_in_the_quiet_hours_of_a_machine(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.cards.urgent = True
    urged: list[str] = []
    monkeypatch.setattr(bench.cards.sender, "buzz", lambda id, who: urged.append(id))
    pair, other = Pair(bench), Pair(bench, "tower")
    pair.night = bench.clock.now + 10, bench.clock.now + 3600
    pair.request(id="1-0000000a", seconds=100)
    bench.clock.turn(60)
    pair.pump()
    bench.clock.turn(39)
    assert (replies(bench), urged, bench.api.updates) == ([], [], [])
    other.request(id="1-0000000b", seconds=100)  # whose person is reminded as ever
    bench.clock.turn(60)
    other.pump()
    bench.clock.turn(39)
    assert len(replies(bench)) == 1 and len(urged) == 1


@pytest.mark.parametrize(
    "span", [[], "no", [1], ["a", "b"], [0, 1, 2], [None, 5], [{}, []], 5]
)
def test_quiet_hours_that_cannot_be_read_silence_nothing(
    bench: Bench, span: Any
) -> None:
    pair = Pair(bench)
    send = pair.send
    pair.send = lambda kind, **parts: send(  # type: ignore[method-assign]
        kind, **{**parts, **({"calm": span} if kind == "ask" else {})}
    )
    pair.request(seconds=100)
    bench.clock.turn(60)
    pair.pump()
    assert len(replies(bench)) == 1


def test_quiet_hours_end_by_a_word_and_not_by_a_login(bench: Bench) -> None:
    pair = Pair(bench)
    night = pair.night = bench.clock.now, bench.clock.now + 3600
    pair.connect()
    assert pair.night == night
    answered(bench, [pair], "恢复")
    assert pair.night == (0.0, 0.0)


def test_nobody_is_reminded_of_what_has_ended(pair: Pair) -> None:
    ask = pair.request(seconds=100)
    pair.end(ask.id)
    pair.pump()
    pair.bench.clock.turn(100)
    pair.pump()
    assert replies(pair.bench) == [] and len(pair.bench.api.updates) == 1


@pytest.mark.parametrize("urgent", [False, True])
def test_last_third_buzzes_if_the_gateway_is_set_so(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, urgent: bool
) -> None:
    urged: list[tuple[str, str]] = []

    def urge(*given: str) -> Result:
        urged.append(given)  # type: ignore[arg-type]
        return Result(True, 0, "")

    monkeypatch.setattr(bench.api, "urge", urge, raising=False)
    bench.cards.urgent = urgent
    pair = Pair(bench)
    pair.request(seconds=90)
    bench.clock.turn(61)
    pair.pump()
    assert urged == ([("om_1", OWNER)] if urgent else [])


# Words of the chat.


def answered(bench: Bench, pairs: list[Pair], words: str, who: str = OWNER) -> str:
    """What is said to a text."""
    before = len(replies(bench))
    say(bench, words, who)
    for _ in range(3):
        for pair in pairs:
            pair.pump()
    said = replies(bench)[before:]
    return said[0] if said else ""


def test_status_lists_the_requests_of_all_ones_machines(bench: Bench) -> None:
    pairs = [Pair(bench, "laptop"), Pair(bench, "tower")]
    pairs[0].request(summary="npm run build")
    bench.enrol("away")
    said = answered(bench, pairs, "状态")
    assert "laptop:\n1. npm run build" in said and "tower:\n" in said
    assert "away 不在线" in said
    assert "tower" not in answered(bench, pairs, "status laptop")


def test_words_of_another_person_are_about_their_own_machines(bench: Bench) -> None:
    pair = Pair(bench)
    pair.request(summary="secret-command")
    for words in ("状态", "status laptop", "通行证", "撤销", "静音 laptop 1h", "恢复"):
        said = answered(bench, [pair], words, OTHER)
        assert "secret-command" not in said and "Bash" not in said
    assert not pair.channel.muted() and pair.rules and pair.passes
    assert pair.wire.got("tap") == []


def test_words_that_come_twice_count_once(bench: Bench) -> None:
    pair = Pair(bench)
    pair.rules = [["Bash(a)"], ["Bash(b)"]]
    for _ in range(2):
        say(bench, "撤销", id="om_same")
        pair.pump()
    assert pair.rules == [["Bash(a)"]]


def test_undo_tells_what_each_machine_has_undone(bench: Bench) -> None:
    pair = Pair(bench)
    assert "Bash(npm *)" in answered(bench, [pair], "undo")
    assert "Bash" not in answered(bench, [pair], "undo")


def test_mute_is_for_all_machines_or_for_the_one_that_is_named(bench: Bench) -> None:
    laptop, tower = pairs = [Pair(bench, "laptop"), Pair(bench, "my tower")]
    assert "静音到" in answered(bench, pairs, "静音 my tower 1h")
    assert (laptop.channel.muted(), tower.channel.muted()) == (False, True)
    answered(bench, pairs, "mute 30m")
    assert laptop.channel.muted() and tower.channel.muted()
    bench.clock.turn(31 * 60)
    assert not laptop.channel.muted()
    answered(bench, pairs, "恢复")
    assert not tower.channel.muted()


def test_mute_outlives_both_ends(tmp_path: Path, clock: Clock) -> None:
    store = FileStore("cli_x", str(tmp_path / "e"), clock)
    store.start()
    bench = Bench(store, clock)
    pair = Pair(bench)
    answered(bench, [pair], "mute 2h")
    store._lock.__exit__(None, None, None)  # type: ignore[attr-defined]
    again = FileStore("cli_x", str(tmp_path / "e"), clock)
    again.start()
    second = Bench(again, clock)
    old = FakeWire(second.hub)
    old.log_in(pair.machine)
    assert 7000 < old.got("welcome")[0]["muted"] <= 7200
    old.say("ask", ask=to_plain(make_ask(created=clock.now)))
    assert old.got("shown")[-1]["ok"] is False, "an older machine goes on asking"
    assert second.api.sent == []


def test_passes_are_listed_with_a_button_each_that_ends_it(bench: Bench) -> None:
    pair = Pair(bench)
    assert answered(bench, [pair], "通行证") == ""
    card = bench.api.sent[-1][1]
    assert "Bash(ls)" in str(card) and "laptop" in str(card)
    values: list[Any] = []
    collect(card, values, "panel")
    (value,) = values
    assert value["machine"] == "m-laptop" and value["press"] == "revoke.p1"
    refused = tap(bench, value, OTHER), tap(bench, {**value, "nonce": "x"})
    assert [told["toast"]["type"] for told in refused] == ["error", "error"]
    assert pair.passes and pair.revoked == []
    told = tap(bench, value)
    assert told["toast"]["type"] == "success" and pair.revoked == ["p1"]
    assert "没有通行证" in str(told["card"])
    assert answered(bench, [pair], "passes") == "laptop: 没有通行证"


def test_passes_are_ended_in_words_and_listed_only_where_grants_are_on(
    bench: Bench,
) -> None:
    pair = Pair(bench, grants=False)
    assert "Bash(ls)" not in answered(bench, [pair], "passes")
    assert len(bench.api.sent) == 0
    assert "1" in answered(bench, [pair], "passes revoke p1")
    assert pair.revoked == ["p1"], "to end a right is always allowed"


def test_machine_of_0_2_0_is_asked_nothing(bench: Bench) -> None:
    old = bench.wire(bench.enrol("old"))
    say(bench, "status")
    assert (
        old.got("tap") == [] and "old: 它的 feishuperm 版本太旧" in replies(bench)[-1]
    )


# Bursts.


def burst(pair: Pair, count: int = 8, dangerous: str = "") -> None:
    """A session asks for much at once."""
    for number in range(count):
        blocks = (Block("code", text=f"echo {number}"),)
        facts = {"session": "s1", "digest": f"{number}" * 16, "blocks": blocks}
        ask = make_ask(id=f"1-{number}", created=pair.bench.clock.now, **facts)
        if ask.id == dangerous:
            ask = ask._replace(dangers=("deletes /",))
        pair.asks[ask.id] = ask
        until = ask.created + ask.seconds
        pair.channel.announce(ask, pair.reports.announcement(ask.id, until))
    pair.pump()


def newest(bench: Bench) -> Any:
    """The card of many as it is now."""
    cards = [card for _, card, _ in bench.api.sent] + [c for _, c in bench.api.updates]
    return next(card for card in reversed(cards) if "×" in str(card["header"]))


def all_of(bench: Bench, action: str) -> dict[str, str]:
    return next(v for v in values_of(newest(bench)) if v["action"] == action)


def test_session_that_asks_for_much_gets_one_card_for_the_rest(pair: Pair) -> None:
    burst(pair)
    assert len(pair.bench.api.sent) == 6, "five of their own, and one of three"
    shown = [id for id, is_shown, _ in pair.reports.by_id if is_shown]
    assert sorted(set(shown)) == [f"1-{number}" for number in range(8)]
    card = pair.bench.api.sent[-1][1]
    assert "laptop" in str(card["header"]) and "×3" in str(card["header"])


def test_row_is_answered_by_itself(pair: Pair) -> None:
    burst(pair)
    rows = [v for v in values_of(newest(pair.bench)) if v["id"] == "1-6"]
    told = pair.tap(next(v for v in rows if v["action"] == "allow"))
    assert told["toast"]["content"] == "已批准运行"
    pair.pump()
    assert [a.id for a in pair.answers] == ["1-6"]
    left = {v["id"] for v in values_of(newest(pair.bench))}
    assert "1-6" not in left and {"1-5", "1-7"} <= left


@pytest.mark.parametrize(("action", "name"), [(ALL_YES, "allow"), (ALL_NO, "deny")])
def test_all_means_what_the_card_shows(pair: Pair, action: str, name: str) -> None:
    burst(pair)
    told = pair.tap(all_of(pair.bench, action))
    assert told["toast"]["type"] == "success"
    pair.pump()
    answers = sorted((a.id, a.action) for a in pair.answers)
    assert answers == [(f"1-{n}", name) for n in (5, 6, 7)]
    assert values_of(newest(pair.bench)) == [], "the card is a record"
    assert len(done(pair.bench.store.cards_of("m-laptop"))) == 5


def test_card_that_has_changed_since_refuses_all(pair: Pair) -> None:
    burst(pair)
    old = all_of(pair.bench, ALL_YES)
    pair.end("1-5", "deny")
    pair.pump()
    told = pair.tap(old)
    assert told["toast"]["type"] == "warning" and pair.answers == []


def test_dangerous_row_is_left_out_of_all(pair: Pair) -> None:
    burst(pair, dangerous="1-7")
    told = pair.tap(all_of(pair.bench, ALL_YES))
    assert sorted(a.id for a in pair.answers) == ["1-5", "1-6"]
    assert "echo 7" in told["toast"]["content"]


def test_stranger_and_wrong_nonce_answer_no_row(pair: Pair) -> None:
    burst(pair)
    value = all_of(pair.bench, ALL_YES)
    assert pair.tap(value, who=OTHER)["toast"]["type"] == "error"
    assert pair.tap({**value, "nonce": "x"})["toast"]["type"] == "error"
    row = next(v for v in values_of(newest(pair.bench)) if v["id"] == "1-6")
    assert pair.tap({**row, "action": "always"})["toast"]["type"] == "error"
    assert pair.tap({**row, "digest": "0" * 16})["toast"]["type"] == "error"
    assert pair.tap(row, message="om_other")["toast"]["type"] != "success"
    assert pair.answers == []


def test_card_of_many_is_settled_by_a_gateway_that_started_since(
    tmp_path: Path, clock: Clock
) -> None:
    one, two = (Bench(store, clock) for store in shared(tmp_path / "e", clock))
    pair = Pair(one)
    burst(pair)
    value = all_of(one, ALL_NO)
    pair.bench = two
    pair.wire = type(pair.wire)(pair)
    pair.channel._changed(False, "cut")
    pair.channel._changed(True, "")
    pair.wire.flush()
    pair.pump()
    told = two.tap(value, message="om_6")
    clock.turn(0.1)
    assert told[0]["toast"]["type"] == "success"
    pair.pump()
    assert {message for message, _ in two.api.updates} == {"om_6"}
    assert values_of(two.api.updates[-1][1]) == []
    assert len(done(two.store.cards_of("m-laptop"))) == 5


def test_result_that_is_known_later_stands_in_its_row(pair: Pair) -> None:
    burst(pair)
    outcome = pair.end("1-6")
    pair.pump()
    pair.channel.update(outcome._replace(result="已运行完毕"))
    pair.pump()
    assert "已运行完毕" in str(newest(pair.bench))


def test_rows_that_end_before_their_card_leaves_are_told_and_forgotten(
    pair: Pair,
) -> None:
    for number in range(8):
        ask = make_ask(id=f"1-{number}", session="s1", created=pair.bench.clock.now)
        pair.asks[ask.id] = ask
        until = ask.created + ask.seconds
        pair.channel.announce(ask, pair.reports.announcement(ask.id, until))
    for number in range(5, 8):
        pair.end(f"1-{number}")
    pair.pump()
    assert len(pair.bench.api.sent) == 5
    assert pair.bench.cards._leaving == {} and pair.bench.cards._bytes == {}


def test_reply_below_a_card_of_many_is_asked_to_tap(pair: Pair) -> None:
    burst(pair)
    say(pair.bench, "批准", parent="om_6")
    assert "多个请求" in replies(pair.bench)[-1] and pair.answers == []


@pytest.mark.parametrize(
    ("who", "place", "answers"),
    [(OWNER, 0, 1), (OWNER, -1, 3), (OTHER, 0, 0), (OTHER, -1, 0)],
)
def test_tap_that_is_faster_than_the_id_of_a_card_of_many_counts(
    pair: Pair, who: str, place: int, answers: int
) -> None:
    """The first row by itself, or all of them."""
    bench, told = pair.bench, []

    def tap_early() -> None:
        if len(bench.api.sent) == 6:
            value = values_of(bench.api.sent[-1][1])[place]
            forged = {**value, "nonce": "x"}
            told.extend((bench.tap(forged, who), bench.tap(value, who)))

    bench.api.while_sending = tap_early
    burst(pair)
    (refused,), (reply,) = told
    assert refused["toast"]["type"] in ("warning", "error")
    assert (reply["toast"]["type"] == "success") == (answers > 0)
    assert len(pair.answers) == answers
    assert len(done(bench.store.cards_of("m-laptop"))) == 8 - answers


@pytest.mark.parametrize("place", [0, 1])
def test_reply_that_is_faster_than_the_id_of_a_card_of_many_is_asked_to_tap(
    tmp_path: Path, clock: Clock, place: int
) -> None:
    both = [Bench(store, clock) for store in shared(tmp_path / "e", clock)]
    api = both[0].api

    def reply() -> None:
        if len(api.sent) == 6:
            write(both[place], "批准", parent="om_6")

    api.while_sending = reply
    pair = Pair(both[0])
    burst(pair)
    both[place].pump()
    (said,) = replies(both[place])
    assert "多个请求" in said and pair.answers == []


def test_one_machine_makes_no_burst_of_anothers(bench: Bench) -> None:
    pairs = [Pair(bench, "laptop"), Pair(bench, "tower")]
    for pair in pairs:
        burst(pair, 4)
    assert len(bench.api.sent) == 8


def test_large_request_has_a_card_of_its_own(pair: Pair) -> None:
    burst(pair, 5)
    pair.request(id="1-large", rule_note="x" * 50_000)
    assert "1-large" in str(pair.bench.api.sent[-1][1])


def test_settled_of_an_unknown_row_changes_nothing(pair: Pair) -> None:
    burst(pair)
    before = len(pair.bench.api.updates)
    pair.wire.hub.received(
        pair.wire, {"t": "settle", "outcome": to_plain(Outcome("1-nobody", done="x"))}
    )
    pair.pump()
    assert len(pair.bench.api.updates) == before
