"""The machine's side of more time and commands: what a hostile gateway can have done.

It can do what its person could: give one request the time that this machine allows,
once; be told what is pending; end passes and undo the chat's rules.  It cannot act for
another person, with an old or a forged proof, or twice with one.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from feishuperm.app.panels import MOST_WORDS
from feishuperm.models import ask as statuses
from feishuperm.models.ask import Answer, Block, from_plain, to_plain
from feishuperm.models.panel import ERROR, Asker, Told
from feishuperm.protocol.machine import TAP, prove, tap_parts
from tests.channels.test_gateway import ASK, NEXT, OWNER, Bench
from tests.ports import PROGRESS, FakeSessions, chat_of
from tests.tables import every_row


class Rich(Bench):
    """Approvals with passes, rules and time to give."""

    def __init__(self, hold: int = 600, **options: Any) -> None:
        self.hold = hold
        self.extensions: list[tuple[str, str]] = []
        self.undone: list[str] = []
        self.ended: list[tuple[str, str, str]] = []
        self.later_undo: Callable[[], None] = lambda: None
        super().__init__(**options)
        self.channel._sessions = chat_of(self, options.get("grants", False))

    def extend_deadline(self, id: str, who: str = "") -> bool:
        self.extensions.append((id, who))
        ask = self.asks[id]
        if ask.hold:
            self.asks[id] = ask._replace(seconds=ask.seconds + self.hold, hold=False)
            self.channel.renew()
        return bool(self.hold)

    def status(self) -> list[tuple[str, str]]:
        return [("a title", "npm run build"), ("only a title", "")]

    def pass_rows(self) -> list[tuple[str, str, str]]:
        return [("p1", "Bash(ls)", "12:00")]

    def revoke_passes(self, id: str, surface: str, who: str = "") -> list[str]:
        self.ended.append((id, surface, who))
        return [id]

    def undo_last(self, who: str, then: Callable[[list[str], str], object]) -> None:
        self.undone.append(who)
        self.later_undo = lambda: then(["Bash(x)"], "")

    def order(self, name: str, tap: str = "t1", key: str = NEXT, **change: Any) -> None:
        """A command, proven as taps are."""
        at = change.pop("at", self.now)
        answer = Answer("", name, {}, "gateway", OWNER)._replace(**change)
        parts = tap_parts("m-1", tap, to_plain(answer), at)
        proof = prove(bytes.fromhex(key), TAP, *parts)
        self.hear("tap", tap=tap, answer=to_plain(answer), at=at, proof=proof)


CAN = ["extend", "headline", "panels"]


@pytest.fixture
def rich() -> Rich:
    rich = Rich(grants=True)
    rich.log_in(can=CAN)
    return rich


def test_login_tells_what_this_machine_understands(rich: Rich) -> None:
    assert list(rich.wire.got("login")[0]["can"]) == CAN


@every_row("can", [None, ["extend"], CAN])
def test_gateway_without_headlines_is_told_in_a_block_which_file_it_is(
    can: object,
) -> None:
    """0.2.0 skips `what`: nobody approves a change of a file that no card names."""
    diff = Block("diff", "", "-a\n+b")
    rich = Rich()
    rich.log_in(can=can)
    rich.announce(ASK._replace(what="Edit src/price.js", blocks=(diff,)))
    rich.announce(ASK._replace(id="1-b", blocks=(diff,)))
    named, plain = (message["ask"] for message in rich.wire.got("ask"))
    texts = [block["text"] for block in named["blocks"]]
    assert texts == [*(["Edit src/price.js"] if can != CAN else []), diff.text]
    assert [block["text"] for block in plain["blocks"]] == [diff.text]


@every_row("can", [None, [], ["extend"], "extend", [7], {"extend": 1}])
def test_gateway_that_tells_nothing_or_nonsense_is_asked_for_nothing_more(
    can: object,
) -> None:
    rich = Rich()
    rich.log_in(can=can)
    rich.announce(ASK._replace(hold=True))
    sent = rich.wire.got("ask")[-1]["ask"]
    assert sent["hold"] is (can == ["extend"])


def test_time_is_given_and_the_ask_comes_again_before_the_receipt(rich: Rich) -> None:
    rich.announce(ASK._replace(hold=True, created=rich.now))
    rich.tap(action="hold")
    kinds = [message["t"] for message in rich.wire.sent]
    assert kinds[-2:] == ["ask", "receipt"]
    again = rich.wire.got("ask")[-1]
    assert (again["ask"]["seconds"], again["left"]) == (1200, 1200)
    assert rich.receipt().status == statuses.EXTENDED
    assert rich.receipt().outcome.ended == rich.now + 1200
    assert rich.answers == [] and rich.extensions == [("1-a", OWNER)]


@every_row(
    ("change", "status"),
    [
        ({"who": "ou_other"}, statuses.REFUSED),
        ({"digest": "0" * 16}, statuses.REFUSED),
        ({"digest": ""}, statuses.REFUSED),
        ({"at": 0.0}, statuses.REFUSED),
    ],
)
def test_time_is_given_to_nobody_else_and_to_nothing_else(
    change: dict[str, Any], status: str
) -> None:
    rich = Rich()
    rich.log_in(can=CAN)
    rich.announce(ASK._replace(hold=True))
    rich.tap(action="hold", **change)
    assert rich.receipt().status == status and rich.extensions == []


def test_machine_that_gives_no_time_refuses_it() -> None:
    rich = Rich(hold=0)
    rich.log_in(can=CAN)
    rich.announce()
    rich.tap(action="hold")
    assert rich.receipt().status == statuses.REFUSED


def test_time_for_what_has_ended_is_told_as_its_end(rich: Rich) -> None:
    rich.announce()
    rich.waiting.clear()
    rich.tap(action="hold")
    assert rich.receipt().status == statuses.UNKNOWN and rich.extensions == []


def told(rich: Rich) -> Told:
    """What the last command was answered with."""
    assert rich.receipt().status == statuses.TOLD
    return from_plain(Told, json.loads(rich.receipt().outcome.lines[0]))


def test_status_and_passes_are_told(rich: Rich) -> None:
    rich.order("status")
    assert told(rich).said == "1. npm run build\n2. only a title"
    rich.order("passes", tap="t2")
    (row,) = told(rich).panel.rows
    assert row.block.text == "Bash(ls) · 12:00"
    assert [button.action for button in row.buttons] == ["revoke.p1"]


def test_passes_are_told_only_where_grants_are_on() -> None:
    rich = Rich(grants=False)
    rich.log_in(can=CAN)
    rich.order("passes")
    assert told(rich).status == ERROR and "Bash(ls)" not in str(told(rich))
    end = {"panel": ("passes",), "press": ("revoke.p1",)}
    for order, values in (("press", end), ("passes", {"words": ("p1",)})):
        rich.order(order, tap=order, values=values)
        assert "Bash(ls)" not in str(told(rich))
    own = ("p1", "gateway", OWNER)
    assert rich.ended == [own, own], "to end a right is always allowed"


def test_undo_is_done_once_and_told_when_it_is_done(rich: Rich) -> None:
    rich.order("undo")
    rich.order("undo")  # delivered again, since nobody has heard of it yet
    assert rich.undone == [OWNER] and rich.wire.got("receipt") == []
    rich.later_undo()
    assert "Bash(x)" in told(rich).said
    rich.order("undo")
    assert rich.undone == [OWNER] and len(rich.wire.got("receipt")) == 2


@every_row("name", ["status", "passes", "press", "undo"])
def test_command_of_somebody_else_or_of_another_time_does_nothing(name: str) -> None:
    for change in ({"who": "ou_other"}, {"at": 0.0}, {"at": 9e9}):
        rich = Rich(grants=True)
        rich.log_in(can=CAN)
        rich.order(name, **change)
        assert rich.receipt().status == statuses.REFUSED
        assert rich.receipt().outcome.lines == ()
        assert rich.undone == [] and rich.ended == []


def test_command_without_proof_ends_the_connection_and_leaves_no_trace(
    rich: Rich,
) -> None:
    rich.order("undo", key="ef" * 32)
    assert rich.wire.dropped == 1 and rich.undone == []
    rich.order("undo")
    assert rich.undone == [OWNER], "the same id, proven, still counts"


def test_command_that_nobody_knows_is_an_answer_to_nothing(rich: Rich) -> None:
    rich.order("format")
    assert rich.receipt().status == statuses.REFUSED and rich.answers == []


@every_row("muted", [600, 600.0, 1e9])
def test_gateway_mutes_for_a_while_at_most_a_week(muted: float) -> None:
    rich = Rich()
    rich.log_in(muted=muted)
    assert rich.channel.muted()
    rich.now += 7 * 86400 + 1
    assert not rich.channel.muted()


def test_mute_ends_when_the_owner_says_so(rich: Rich) -> None:
    rich.hear("muted", muted=600)
    assert rich.channel.muted()
    rich.hear("muted", muted=0)
    assert not rich.channel.muted()


def test_ask_that_needs_no_more_time_is_not_sent_again(rich: Rich) -> None:
    rich.announce(ASK._replace(hold=True))
    rich.channel.renew()
    assert len(rich.wire.got("ask")) == 1


# Sessions: the gateway only says what the owner wrote or pressed.

PRESSED: dict[str, tuple[str, ...]] = {
    "panel": (PROGRESS,), "press": ("stop",), "words": ("x" * 20_000,)
}  # fmt: skip


@every_row(
    "change, is_asked",
    [
        ({}, True),
        ({"surface": "card"}, True),
        ({"who": "ou_stranger"}, False),
        ({"who": ""}, False),
        ({"at": 1000.0 - 61}, False),
        ({"at": 1000.0 + 10}, False),
        ({"id": "1-a"}, False),
    ],
)
def test_press_through_the_gateway_is_judged_like_a_tap(
    change: Any, is_asked: bool
) -> None:
    rich, sessions = Rich(), FakeSessions()
    rich.log_in(can=CAN)
    rich.channel._sessions = sessions
    for _ in range(2):  # a tap that comes again counts once
        rich.order("press", values=PRESSED, **change)
    assert sessions.asked == [(PROGRESS, "stop", "x" * MOST_WORDS)] * is_asked
    assert sessions.askers == [Asker(OWNER, "gateway", "gateway")] * is_asked
    (first, *_) = rich.wire.got("receipt")
    assert (first["receipt"]["status"] == "told") is is_asked


def test_press_without_the_proof_of_the_key_ends_the_connection() -> None:
    rich, sessions = Rich(), FakeSessions()
    rich.log_in(can=CAN)
    rich.channel._sessions = sessions
    rich.order("press", key="ef" * 32, values=PRESSED)
    assert sessions.asked == [] and rich.wire.dropped == 1
