"""Titles only: canaries in every field of all that a channel could tell."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from feishuperm.app.store import OpenCard
from feishuperm.channels.app import CardStore
from feishuperm.channels.base import ApprovalsPort, BareApprovals, Channel, bare_ask
from feishuperm.messages import text
from feishuperm.models import ask as statuses
from feishuperm.models.ask import (
    NOTICES,
    Answer,
    Ask,
    Block,
    Field,
    Notice,
    Option,
    Outcome,
    Receipt,
    Spent,
    to_plain,
)
from feishuperm.models.kind import KINDS, Kind, offers
from tests.app.bench import START, Bench
from tests.channels import test_gateway as machines
from tests.channels.test_webhook import WALL, World
from tests.ports import FakeApprovals, FakeReports
from tests.tables import every_row

CANARY = "canary"
NESTED = {
    "blocks": (Block("code", *[CANARY] * 2, tail=CANARY),) * 2,
    "fields": (Field("f", label=CANARY, hint=CANARY, options=(Option(CANARY),)),),
}
# What every request of a kind has in common with all others.
OURS_OF_ASK = ("id", "kind", "language", "title", "heading", "at_zero", "digest")
OURS_OF_OUTCOME = (
    *("id", "kind", "language", "state", "action", "surface", "who", "done", "look"),
    "head",
)


def spoiled(value: Any, ours: tuple[str, ...]) -> Any:
    """The value with a canary in every field that is not the same for all requests."""
    planted: dict[str, Any] = {}
    for name, default in value._asdict().items():
        if name in NESTED:
            planted[name] = NESTED[name]
        elif isinstance(default, str) and name not in ours:
            planted[name] = CANARY
        elif isinstance(default, Spent):  # numbers: they have no room for one
            assert not any(isinstance(part, str) for part in default)
            planted[name] = Spent(60.0, 3, 48_000, 0.35)
        elif isinstance(default, tuple) and name != "actions":
            planted[name] = (CANARY,)
    return value._replace(**planted)


def spoiled_ask(kind: Kind) -> Ask:
    def say(key: str, **values: object) -> str:
        return text("zh", key, **dict.fromkeys(values, CANARY))

    actions = offers(kind, (), say)
    granting = (o._replace(confirm=CANARY) if o.grants else o for o in actions)
    ask = Ask(
        "1-00000001", kind.name, "zh", say(kind.title), say(kind.heading),
        created=START, seconds=600, at_zero="deny", actions=tuple(granting),
        digest="d" * 16, hold=True,
    )  # fmt: skip
    return spoiled(ask, OURS_OF_ASK)


def spoiled_outcome(ask: Ask) -> Outcome:
    outcome = Outcome(ask.id, ask.kind, "zh", "allowed", "allow", "card", "ou_1",
                      START, "done", "good", head="0123")  # fmt: skip
    return spoiled(outcome, OURS_OF_OUTCOME)


def drive(channel: Channel, ask: Ask, settle: Callable[[], object]) -> None:
    """Everything that a notifier says to a channel where cards are titles."""
    told = FakeReports().announcement(ask.id, START + 600)
    channel.announce(bare_ask(ask), told)
    settle()
    channel.settle(spoiled_outcome(ask).bare())
    channel.update(spoiled_outcome(ask).bare())
    for kind in NOTICES:
        planted = [CANARY] * 4
        channel.notify(Notice(kind, START, *planted, seconds=5.0).bare())


@pytest.mark.parametrize("kind", KINDS.values(), ids=lambda kind: kind.name)
def test_app_tells_no_more_than_a_title(kind: Kind, tmp_path: Path) -> None:
    bench = Bench(tmp_path, bare=True)
    ask = spoiled_ask(kind)
    replies: list[Any] = []

    def go_on() -> None:
        bench.pump()
        bench.say("状态")
        bench.passes = [("p-1", CANARY, "until 10:00")]
        bench.say("通行证")
        bench.rules = [[CANARY]]
        bench.say("撤销")
        bench.say("1")
        bench.say("批准", "om_1")
        bench.say("拒绝 x", "om_1")
        bench.turn(301)  # it is reminded of
        for value in bench.buttons("om_1").values():
            replies.append(bench.act("om_1", value))

    bench.asks[ask.id] = ask
    bench.outcomes["other"] = spoiled_outcome(ask)
    drive(bench.channel, ask, go_on)
    bench.turn(5)
    out = f"{vars(bench.api)} {replies}"
    assert kind.title and text("zh", kind.title) in out and "p-1" in out
    assert "notice" not in out and text("zh", "Claude Code has finished") in out
    assert CANARY not in out


def test_status_counts_what_waits_by_its_title(tmp_path: Path) -> None:
    bench = Bench(tmp_path, bare=True)
    asks = [spoiled_ask(kind) for kind in KINDS.values()]
    bench.asks = {str(number): ask for number, ask in enumerate(asks)}
    said = bench.say("状态").splitlines()
    assert said == [f"{n}. {ask.title}" for n, ask in enumerate(asks, 1)]


@every_row("kind", KINDS.values())
def test_gateway_is_told_no_more_than_a_title(kind: Kind) -> None:
    ask = spoiled_ask(kind)._replace(id="1-a")
    bench = machines.Bench()
    bench.asks["1-a"] = bench.wholes["1-a"] = ask
    bench.receipts["1-a"] = Receipt(statuses.CONFIRM, spoiled_outcome(ask), CANARY)
    bench.channel._approvals = BareApprovals(bench, "zh")
    bench.log_in(cards=("1-gone",))
    bench.outcomes["1-gone"] = spoiled_outcome(ask)._replace(id="1-gone")

    def go_on() -> None:
        bench.hear("shown", id="1-a", ok=True)
        bench.tap(action="deny")
        for _, fn in bench.calls:
            fn()

    drive(bench.channel, ask, go_on)
    kinds = {message["t"] for message in bench.wire.sent}
    assert kinds >= {"ask", "settle", "update", "notice", "receipt"}
    assert CANARY not in str(bench.wire.sent) and ask.title in str(bench.wire.sent)


@every_row("kind", KINDS.values())
def test_group_bot_tells_no_more_than_a_title(kind: Kind) -> None:
    world = World(11246, 11246)  # the plainer forms too
    ask = spoiled_ask(kind)._replace(created=WALL)
    told = world.reports.announcement(ask.id, WALL + 600)
    world.channel.announce(bare_ask(ask), told)
    drive(world.channel, ask, world.run)
    world.run()
    out = "".join(world.texts)
    assert ask.title in out and "/request?" in out and "/deny?" in out
    assert CANARY not in out and "/allow?" not in out and "/answer?" not in out


class Telling(FakeApprovals):
    """Approvals that tell everything."""

    def __init__(self) -> None:
        self.receipt = Receipt(statuses.INCOMPLETE, error=CANARY)
        self.error = CANARY

    def answer(self, answer: Answer) -> Receipt:
        return self.receipt

    def ask(self, id: str) -> Ask | None:
        return spoiled_ask(KINDS["permission"])

    def whole(self, id: str, most: int, then: Callable[[Ask], object]) -> bool:
        then(spoiled_ask(KINDS["permission"]))
        return True

    def outcome(self, id: str) -> Outcome | None:
        return spoiled_outcome(spoiled_ask(KINDS["permission"]))

    def status(self) -> list[tuple[str, str]]:
        return [("title", CANARY)]

    def pass_rows(self) -> list[tuple[str, str, str]]:
        return [("p", CANARY, "until")]

    def undo_last(self, who: str, then: Callable[[list[str], str], object]) -> None:
        then([CANARY], self.error)


def test_what_the_approvals_tell_is_bare_whatever_happens() -> None:
    """Each method by name: a new one has to be thought of here."""
    whole = Telling()
    bare = BareApprovals(whole, "zh")
    told: list[object] = [bare.answer(Answer("1")), bare.ask("1"), bare.outcome("1")]
    told += [bare.status(), bare.pass_rows()]
    assert not bare.whole("1", 1, told.append)
    bare.undo_last("x", lambda *how: told.append(how))
    whole.error = ""
    bare.undo_last("x", lambda *how: told.append(how))
    assert CANARY not in f"{told}" and len(told) == 7
    names = {name for name in vars(ApprovalsPort) if not name.startswith("_")}
    harmless = {"is_pending", "seconds_left", "extend_deadline", "note_refused"}
    harmless |= {"note_seen", "quiet_hours", "end_quiet"}
    assert names == harmless | {"revoke_passes", "whole", "undo_last", "answer"} | {
        *("ask", "outcome", "status", "pass_rows")
    }
    whole.receipt = Receipt(statuses.INCOMPLETE, error="try again", fixed=True)
    assert bare.answer(Answer("1")).error == "try again"


def test_card_that_was_kept_from_before_is_bare_too(tmp_path: Path) -> None:
    ask = spoiled_ask(KINDS["permission"])
    CardStore(str(tmp_path)).put(OpenCard(ask, "nonce", "om_1", True))
    (kept,) = CardStore(str(tmp_path), bare_ask).all()
    assert (kept.ask.id, kept.message_id) == (ask.id, "om_1")
    assert CANARY not in str(to_plain(kept))
