"""Panels through a gateway: what the app's can, theirs can, and a machine no more."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from feishuperm.channels.base import BareSessions
from feishuperm.gateway.store import FileStore
from feishuperm.gateway.taps import MAX_RECEIPT
from feishuperm.messages import text
from feishuperm.models.ask import Block, Notice, Outcome, Receipt, Spent, to_plain
from feishuperm.models.names import NOT_AS_SHOWN
from feishuperm.models.panel import (
    ERROR,
    GOOD,
    SUCCESS,
    Asker,
    Button,
    Panel,
    Row,
    Told,
)
from feishuperm.protocol.machine import CAN, PANELS
from tests.app.bench import OWNER as APP_OWNER
from tests.app.bench import Bench as AppBench
from tests.fakes.feishu import check_card, every_text
from tests.gateway.pair import Pair
from tests.gateway.parts import (
    OTHER,
    OWNER,
    Bench,
    Clock,
    FakeWire,
    collect,
    done,
    shared,
)
from tests.gateway.test_inbound import NUMBERS, Delivery, last_reply, say
from tests.ports import LIST, PROGRESS, SESSION, FakeSessions, progress
from tests.tables import every_row

TOO_OLD = "版本太旧"


class World:
    """A machine behind a gateway, with the words of the app's bench."""

    def __init__(self, bench: Bench, name: str = "laptop", **options: Any) -> None:
        self.bench = bench
        self.sessions = FakeSessions()
        port = options.pop("port", lambda sessions: sessions)
        self.pair = Pair(bench, name, sessions=port(self.sessions), **options)
        self.channel = self.pair.channel

    def say(self, words: str, parent: str = "", **more: Any) -> str:
        before = len(self.bench.api.replies)
        say(self.bench, words, parent=parent, **more)
        self.turn(0.5)
        told = self.bench.api.replies[before:]
        return told[0][1]["text"] if told else ""

    def press(
        self, message: str, value: Any, who: str = OWNER, form: Any = None,
        event_id: str = "", bench: Bench | None = None,
    ) -> list[Any]:  # fmt: skip
        bench = bench or self.bench
        told: list[Any] = []
        id = event_id or f"p{next(NUMBERS)}"
        action = {"value": value, "form_value": form or {}}
        event = {
            "header": {"event_type": "card.action.trigger", "event_id": id},
            "event": {"operator": {"open_id": who}, "action": action,
                      "context": {"open_message_id": message}},
        }  # fmt: skip
        bench.feishu.deliver(Delivery(json.dumps(event).encode()), told.append)
        self.turn(0.1)
        return told

    def act(self, message: str, value: Any, **options: Any) -> Any:
        (reply,) = self.press(message, value, **options)
        return reply

    def card(self, message: str) -> Any:
        changed = [card for id, card in self.bench.api.updates if id == message]
        number = int(message.rpartition("_")[2])
        card = changed[-1] if changed else self.bench.api.sent[number - 1][1]
        check_card(card, webhook=False)
        return card

    def values(self, message: str) -> list[Any]:
        found: list[Any] = []
        collect(self.card(message), found, "panel")
        return found

    def changes(self, message: str) -> int:
        return sum(id == message for id, _ in self.bench.api.updates)

    def turn(self, seconds: float) -> None:
        for _ in range(max(1, round(seconds / 2))):
            self.bench.clock.turn(seconds / max(1, round(seconds / 2)))
            self.pair.wire.flush()
            self.bench.pump()

    def now(self) -> float:
        return self.bench.clock.now

    def settle(self) -> str:
        ask = self.pair.request()
        self.pair.end(ask.id)
        self.turn(1)
        return ask.session

    def leave(self) -> None:
        """Its connection is cut."""
        self.pair.channel._changed(False, "cut")
        self.pair.wire.end()


class AppWorld:
    """The same for the app of one machine."""

    def __init__(self, folder: Path) -> None:
        self.sessions = FakeSessions()
        self.bench = AppBench(folder, sessions=self.sessions)
        self.channel = self.bench.channel
        self.values = self.bench.values
        self.turn, self.press, self.act = (
            self.bench.turn, self.bench.press, self.bench.act
        )  # fmt: skip

    def say(self, words: str, parent: str = "") -> str:
        before = len(self.bench.api.texts)
        self.bench.say(words, parent)
        self.turn(1)
        told = self.bench.api.texts[before:]
        return told[0][1] if told else ""

    def now(self) -> float:
        return self.bench.timers.time

    def card(self, message: str) -> Any:
        return self.bench.api.cards[message]

    def changes(self, message: str) -> int:
        return self.bench.api.calls.count(("update", message))

    def settle(self) -> str:
        ask = self.bench.bring()
        self.bench.end(ask.id, "allow")
        self.turn(1)
        return ask.session


@pytest.fixture
def world(bench: Bench) -> World:
    return World(bench)


@pytest.fixture(params=["app", "gateway"])
def either(request: Any, bench: Bench, tmp_path: Path) -> Any:
    return World(bench) if request.param == "gateway" else AppWorld(tmp_path / "app")


def value(world: Any, message: str, press: str) -> Any:
    return next(v for v in world.values(message) if v["press"] == press)


def said_on(card: Any) -> str:
    return "\n".join(every_text(card))


# What both can.


def test_words_bring_a_panel_and_presses_change_it(either: Any) -> None:
    assert either.say("进展 1a2b") == ""
    assert either.sessions.asked == [("progress", "1a2b")]
    either.sessions.told = Told("在下一步停下", SUCCESS, progress("stopping"))
    reply = either.act("om_1", value(either, "om_1", "stop"))
    assert reply["toast"] == {"type": "success", "content": "在下一步停下"}
    assert "stopping" in said_on(reply["card"]["data"])
    assert either.sessions.asked[-1] == (PROGRESS, "stop", "")
    either.turn(6)
    assert "stopping" in said_on(either.card("om_1")) and either.changes("om_1") == 1


def test_panel_changes_at_a_pace_and_ends_frozen(either: Any) -> None:
    either.say("进展")
    began = either.now()
    for second in range(30):
        either.channel.change(progress(f"step {second}"))
        either.turn(1)
    either.channel.change(progress("the end").frozen("会话已结束"))
    either.turn(12)
    said = said_on(either.card("om_1"))
    assert "the end" in said and "会话已结束" in said and either.values("om_1") == []
    assert 2 <= either.changes("om_1") <= (either.now() - began) / 5 + 1


def test_panel_that_a_press_has_ended_still_tells_how_it_went(either: Any) -> None:
    either.say("新任务 shop x")
    ended = progress("starting").frozen("正在启动")
    either.sessions.told = Told("正在启动", SUCCESS, ended)
    either.act("om_1", value(either, "om_1", "stop"))
    either.turn(6)
    either.channel.change(ended._replace(look=GOOD, note="会话 1a2b 已运行"))
    either.turn(6)
    assert "会话 1a2b 已运行" in said_on(either.card("om_1"))
    assert either.card("om_1")["header"]["template"] == "green"


def test_field_and_another_panel_travel(either: Any) -> None:
    send = Button("send", "发送", "yes", reads=True)
    either.sessions.told = Told(panel=LIST._replace(field="接着做", buttons=(send,)))
    either.say("会话")
    either.act("om_1", value(either, "om_1", "send"), form={"words": "跑测试"})
    assert either.sessions.asked[-1] == ("sessions", "send", "跑测试")
    either.sessions.told = Told(panel=progress())
    assert either.act("om_1", value(either, "om_1", "open")) == {}
    either.turn(1)
    assert either.sessions.asked[-1] == (PROGRESS, "open", "")
    assert value(either, "om_2", "stop")


def test_slow_machine_answers_the_tap_in_time_and_the_card_later(either: Any) -> None:
    either.say("进展")
    either.sessions.waits = True
    replies = either.press("om_1", value(either, "om_1", "stop"))
    either.turn(3)
    assert replies[0]["toast"]["type"] == "info"
    either.sessions.waiting[0](Told("", SUCCESS, progress("stopped")))
    either.turn(6)
    assert "stopped" in said_on(either.card("om_1"))


def test_settled_card_opens_progress_and_a_reply_goes_on(either: Any) -> None:
    session = either.settle()
    (found,) = either.values("om_1")
    either.act("om_1", found)
    assert either.sessions.asked == [(f"progress:{session}", "open", "")]
    either.sessions.told = Told("它还在运行", ERROR)
    assert "它还在运行" in either.say("接着\n跑测试", "om_1")
    assert either.sessions.asked[-1] == ("continue", f"{session} 接着\n跑测试")
    count = len(either.sessions.asked)
    either.say("批准", "om_1")
    assert len(either.sessions.asked) == count, "a late answer is no prompt"


def test_notice_has_its_button_and_its_session(either: Any) -> None:
    notice = Notice("failure", 1.0, session_id=SESSION, panel="limit:x",
                    button="到时继续")  # fmt: skip
    either.channel.notify(notice)
    either.turn(1)
    either.sessions.told = Told("好", SUCCESS)
    assert either.act("om_1", either.values("om_1")[0])["toast"]["content"] == "好"
    assert either.sessions.asked == [("limit:x", "go_on", "")]
    either.say("接着跑测试", "om_1")
    assert either.sessions.asked[-1] == ("continue", f"{SESSION} 接着跑测试")


def test_button_of_a_notice_can_be_pressed_again(either: Any) -> None:
    """It stays on the notice, whatever the panel that it brought shows by now."""
    notice = Notice("failure", 1.0, panel="limit:x", button="到时继续")
    either.channel.notify(notice)
    either.turn(1)
    for number in (2, 3):
        panel = Panel("limit:x", buttons=(Button("go_on", "取消"),), session=SESSION)
        either.sessions.told = Told("好", SUCCESS, panel)
        assert either.act("om_1", either.values("om_1")[0])["toast"]["content"] == "好"
        either.turn(6)
        assert value(either, f"om_{number}", "go_on")
    assert either.values("om_2") == [], "one card of a panel is open"
    assert either.sessions.asked == [("limit:x", "go_on", "")] * 2


def test_notice_says_what_the_turn_took(either: Any) -> None:
    spent = Spent(65.0, 3, 48_000, 0.35)
    either.channel.notify(Notice("stop", 1.0, text="done", spent=spent).bare())
    either.turn(1)
    line = "用时 1:05 · 工具调用 3 次 · 上下文 48k tokens · $0.35"
    assert line in every_text(either.card("om_1"))


def owner_of(world: Any) -> str:
    return OWNER if isinstance(world, World) else APP_OWNER


@pytest.mark.parametrize(
    "change",
    [
        lambda found: ({**found, "nonce": "wrong"}, "om_1"),
        lambda found: ({**found, "nonce": ""}, "om_1"),
        lambda found: (found, "om_9"),
    ],
)
def test_press_from_elsewhere_is_refused(either: Any, change: Any) -> None:
    either.say("进展")
    found, message = change(value(either, "om_1", "stop"))
    reply = either.act(message, found)
    assert reply["toast"] == {"type": "error", "content": text("zh", NOT_AS_SHOWN)}
    assert len(either.sessions.asked) == 1


def test_stranger_and_double_delivery_do_nothing(either: Any) -> None:
    either.say("进展")
    found = value(either, "om_1", "stop")
    assert either.act("om_1", found, who=OTHER)["toast"]["type"] == "error"
    for _ in range(2):
        either.press("om_1", found, event_id="same")
    assert len(either.sessions.asked) == 2


# What is a gateway's own.


def test_machine_is_asked_for_its_owner_by_the_gateway(world: World) -> None:
    world.say("会话")
    assert world.sessions.askers == [Asker(OWNER, "gateway", "gateway")]
    assert "laptop · 修复登录" in said_on(world.card("om_1"))
    assert all(found["machine"] == "m-laptop" for found in world.values("om_1"))
    assert world.bench.api.sent[0][0] == OWNER
    world.say("会话", who=OTHER)
    assert len(world.sessions.asked) == 1


def test_words_go_to_one_machine_or_to_all(world: World) -> None:
    desk = World(world.bench, "desk")
    world.say("进展 desk 1a2b")
    assert (world.sessions.asked, desk.sessions.asked) == ([], [("progress", "1a2b")])
    world.say("会话")
    assert (len(world.sessions.asked), len(desk.sessions.asked)) == (1, 2)
    assert len(world.bench.api.sent) == 3, "a card of each machine"
    desk.sessions.told = Told("没有这个会话", ERROR)
    assert world.say("进展 1a2b") == "", "the other machine has it"
    world.sessions.told = desk.sessions.told
    assert world.say("进展 9z") == "laptop: 没有这个会话\ndesk: 没有这个会话"
    del world.sessions.asked[:], desk.sessions.asked[:]
    assert "laptop" in world.say("新任务 shop 修复登录")
    assert (world.sessions.asked, desk.sessions.asked) == ([], [])
    world.say("新任务 laptop shop 修复登录")
    assert world.sessions.asked == [("start", "shop 修复登录")]


def test_machine_that_is_away_is_named_and_its_panels_freeze(world: World) -> None:
    world.say("进展")
    found = value(world, "om_1", "stop")
    world.channel.change(progress("last words"))
    world.turn(6)
    world.leave()
    assert "laptop 不在线" in world.say("会话")
    assert world.act("om_1", found)["toast"]["type"] == "warning"
    world.turn(12)
    said = said_on(world.card("om_1"))
    assert "last words" in said and "laptop 不在线" in said
    assert world.values("om_1") == []


def test_connection_that_comes_back_at_once_goes_on(world: World) -> None:
    world.say("进展")
    world.leave()
    world.channel.change(progress("meanwhile"))
    world.turn(2)
    world.pair.connect()
    world.turn(14)
    assert "meanwhile" in said_on(world.card("om_1"))
    assert world.values("om_1") != []


def test_machine_that_was_started_again_has_frozen_panels(world: World) -> None:
    world.say("进展")
    world.leave()
    world.channel._instance = "another process"
    world.pair.connect()
    world.turn(1)
    assert world.values("om_1") == [] and "停止" in said_on(world.card("om_1"))


def test_revoked_machine_shows_nothing_any_more(world: World) -> None:
    world.say("进展")
    found = value(world, "om_1", "stop")
    world.bench.hub.go(world.bench.hub.revoke("m-laptop", OWNER))
    world.turn(1)
    assert world.values("om_1") == []
    assert world.act("om_1", found)["toast"]["type"] == "warning"
    assert len(world.sessions.asked) == 1
    world.turn(10)
    assert done(world.bench.store.shown("m-laptop")) == []


def test_as_many_cards_as_a_machine_may_have_can_end_at_once(world: World) -> None:
    """It has slept, say: each card has to tell, none is left with its button."""
    panels = [progress(id=f"progress:{number}") for number in range(60)]
    for panel in panels:
        world.sessions.told = Told(panel=panel)
        world.say("进展")
    for panel in panels:
        world.channel.change(panel.frozen("电脑睡着了"))
    world.turn(60)
    assert [n for n in range(1, 61) if world.values(f"om_{n}")] == []


def test_press_that_the_store_did_not_take_is_not_told_as_sent(tmp_path: Path) -> None:
    clock = Clock()
    store, _ = shared(tmp_path / "e", clock)
    world = World(Bench(store, clock))
    world.say("进展")
    found = value(world, "om_1", "stop")
    for calls in range(6):
        store.is_up, store.calls_left = True, calls
        (reply,) = world.press("om_1", found)
        world.turn(3)
        assert reply["toast"] == {"type": "warning", "content": "请再点一次"}, calls
    assert len(world.sessions.asked) == 1


def test_gateway_that_starts_again_still_knows_its_panels(
    world: World, tmp_path: Path
) -> None:
    """The nonce of a panel, and which card a reply is about, are in its store."""
    session = world.settle()
    world.say("进展")
    found = value(world, "om_2", "stop")
    start_again(world, tmp_path)
    wrong = world.act("om_2", {**found, "nonce": "wrong"})
    assert wrong["toast"]["type"] == "error"
    world.sessions.told = Told("", SUCCESS, progress("after"))
    assert "after" in said_on(world.act("om_2", found)["card"]["data"])
    world.say("接着跑测试", "om_1")
    assert world.sessions.asked[-1] == ("continue", f"{session} 接着跑测试")


def start_again(world: World, tmp_path: Path) -> None:
    """The gateway, with what it has kept."""
    store = FileStore("cli_x", str(tmp_path / "e"), world.bench.clock)
    world.bench.store._lock.__exit__(None, None, None)
    store.start()
    after = Bench(store, world.bench.clock)
    after.api = world.bench.api
    after.cards.sender.api = world.bench.api  # type: ignore[assignment]
    world.bench = world.pair.bench = after
    world.pair.connect()


def test_machine_and_gateway_that_were_both_started_again(
    world: World, tmp_path: Path
) -> None:
    world.say("进展")
    world.channel._instance = "another process"
    start_again(world, tmp_path)
    world.turn(1)
    assert world.values("om_1") == [] and "停止" in said_on(world.card("om_1"))


# Old versions.


def test_old_machine_has_to_be_updated(bench: Bench) -> None:
    wire = bench.wire(bench.enrol())
    say(bench, "会话")
    assert TOO_OLD in last_reply(bench) and wire.got("tap") == []


def test_old_gateway_hears_nothing_of_panels(world: World) -> None:
    world.channel._can = frozenset(CAN) - {PANELS}
    sent: list[str] = []
    world.channel._line.send = lambda kind, **parts: bool(sent.append(kind))  # type: ignore[assignment, func-returns-value]
    world.channel.change(progress())
    assert sent == []


# A hostile machine.


@pytest.fixture
def hostile(bench: Bench) -> FakeWire:
    return machine_of(bench)


def machine_of(bench: Bench) -> FakeWire:
    """A machine that says what a test wants, and understands panels."""
    wire, machine = FakeWire(bench.hub), bench.enrol()
    wire.log_in(machine)
    location = done(bench.store.location(machine.id))
    done(bench.store.put_location(machine.id, location._replace(can=CAN)))
    return wire


def tell(wire: FakeWire, tap: str, told: object) -> None:
    outcome = Outcome(lines=(json.dumps(told),))
    wire.say("receipt", tap=tap, receipt=to_plain(Receipt("told", outcome)))


def test_machine_shows_nothing_that_its_owner_did_not_ask_for(
    bench: Bench, hostile: FakeWire
) -> None:
    hostile.say("panel", panel=to_plain(progress()))
    tell(hostile, "x", to_plain(Told(panel=progress())))
    notice = Notice("failure", 1.0, panel="x" * 1_000, button="go")
    hostile.say("notice", notice=to_plain(notice))
    bench.pump()
    assert bench.api.sent == [] and bench.api.updates == []
    say(bench, "会话")
    tap = hostile.got("tap")[0]["tap"]
    for _ in range(5):
        tell(hostile, tap, to_plain(Told(panel=progress())))
    hostile.say("panel", panel=to_plain(progress(id="another")))
    bench.pump()
    assert [receiver for receiver, *_ in bench.api.sent] == [OWNER]
    assert bench.api.updates == []


def test_machine_cannot_flood_a_panel_nor_change_it_for_ever(
    bench: Bench, hostile: FakeWire
) -> None:
    say(bench, "进展")
    tell(hostile, hostile.got("tap")[0]["tap"], to_plain(Told(panel=progress())))
    bench.pump()
    began = bench.clock.now
    for number in range(3_000):
        hostile.say("panel", panel=to_plain(progress(f"{number}")))
        if number % 100 == 0:
            bench.pump()
    assert len(bench.api.updates) <= (bench.clock.now - began) / 5 + 1
    bench.clock.turn(4_000)
    count = len(bench.api.updates)
    hostile.say("panel", panel=to_plain(progress("an hour later")))
    bench.clock.turn(30)
    bench.pump()
    assert len(bench.api.updates) == count


@every_row(
    "told",
    [
        None,
        "x",
        [],
        {"panel": 5},
        {"said": {}},
        {"panel": {"id": "x" * 1_000}},
        {"panel": {"id": "x", "rows": [{"block": 5}]}},
        {"panel": {"id": "x", "rows": [[]]}},
        {"said": "x", "status": "<at id=all>"},
        {"panel": {"id": "x", "look": "purple", "language": "xx", "title": "t"}},
        {"panel": to_plain(progress("x" * 1_000_000))},
    ],
)
def test_whatever_a_machine_tells_the_gateway_goes_on(
    tmp_path: Path, told: object
) -> None:
    clock = Clock()
    store = FileStore("cli_x", str(tmp_path / str(next(NUMBERS))), clock)
    store.start()
    bench = Bench(store, clock)
    wire = machine_of(bench)
    say(bench, "进展")
    tell(wire, wire.got("tap")[0]["tap"], told)
    wire.say("panel", panel=told)
    bench.pump()
    assert wire.ended is None
    for _, card, _ in bench.api.sent:
        check_card(card, webhook=False)


def test_words_of_a_machine_mention_nobody(bench: Bench, hostile: FakeWire) -> None:
    say(bench, "会话")
    told = Told('<at user_id="all">all</at>\u202e', ERROR)
    tell(hostile, hostile.got("tap")[0]["tap"], to_plain(told))
    bench.pump()
    assert "<at" not in last_reply(bench) and "\u202e" not in last_reply(bench)


# Sizes, titles, replicas.


@every_row(
    "panel",
    [
        progress("字" * 300_000),
        progress(
            rows=tuple(Row(Block("code", "x", "字\"'\\" * 3_000)) for _ in "ab" * 20)
        ),
        progress(rows=(Row(Block("text", "", "x" * 90), "note"),) * 1_500),
    ],
)
def test_panel_of_any_size_arrives(tmp_path: Path, panel: Panel) -> None:
    clock = Clock()
    store = FileStore("cli_x", str(tmp_path / str(next(NUMBERS))), clock)
    store.start()
    world = World(Bench(store, clock))
    world.sessions.told = Told(panel=panel)
    world.say("进展")
    world.card("om_1")
    world.channel.change(panel._replace(note="changed"))
    world.turn(12)
    assert "changed" in said_on(world.card("om_1"))


def test_titles_only_leaves_no_content_on_the_machine_s_connection(
    bench: Bench,
) -> None:
    world = World(bench, port=lambda sessions: BareSessions(sessions, "zh"))
    secret = "canary"
    world.sessions.told = Told(secret, SUCCESS, progress(secret, headline=secret))
    sent: list[Any] = []
    send = world.pair.send
    world.pair.send = lambda kind, **parts: sent.append(parts) or send(kind, **parts)  # type: ignore[method-assign, func-returns-value]
    world.say("进展")
    world.act("om_1", value(world, "om_1", "stop"))
    assert (
        sent
        and secret not in str(sent)
        and SESSION not in str(sent).replace(PROGRESS, "")
    )


def test_press_and_change_at_different_replicas(tmp_path: Path) -> None:
    """A command at one, the machine at another, the press at both."""
    clock = Clock()
    stores = shared(tmp_path / "e", clock)
    here, there = (Bench(store, clock) for store in stores)
    there.api = here.api
    there.cards.sender.api = here.api  # type: ignore[assignment]
    world = World(here)
    turn = world.turn
    pump: Callable[[], None] = there.pump

    def both(seconds: float) -> None:
        turn(seconds)
        pump()
        turn(0.1)

    world.turn = both  # type: ignore[method-assign]
    say(there, "进展")
    world.turn(2)
    found = value(world, "om_1", "stop")
    world.channel.change(progress("from the machine"))
    world.turn(6)
    assert "from the machine" in said_on(world.card("om_1"))
    world.sessions.told = Told("", SUCCESS, progress("pressed"))
    for bench in (here, there):
        told: list[Any] = world.press("om_1", found, bench=bench)
        world.turn(1)
        assert "pressed" in said_on(told[0]["card"]["data"])
        assert world.act("om_1", {**found, "nonce": "x"}, bench=bench)["toast"]
    assert len(world.sessions.asked) == 3


def test_receipts_with_panels_do_not_pile_up(world: World) -> None:
    world.say("进展")
    world.turn(70)
    assert list(world.channel._receipts.values()) == [None]
    assert MAX_RECEIPT > 40_000
