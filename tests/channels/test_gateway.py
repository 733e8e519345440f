"""The machine's side: which taps count, when a request is somebody else's to show."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import pytest

from feishuperm.channels.gateway import GatewayChannel
from feishuperm.errors import FileError
from feishuperm.lib.enrolment import Enrolment
from feishuperm.models import ask as statuses
from feishuperm.models.ask import (
    Answer,
    Ask,
    Field,
    Offer,
    Option,
    Outcome,
    Receipt,
    from_plain,
    to_plain,
)
from feishuperm.protocol.machine import (
    ROTATE,
    TAP,
    WELCOME,
    is_proof,
    prove,
    tap_parts,
)
from feishuperm.services.sessions import Panels
from tests.ports import FakeApprovals, FakeReports
from tests.tables import every_row

KEY, NEXT, OWNER = "ab" * 32, "cd" * 32, "ou_owner"
OFFERS = (Offer("allow", grants=True), Offer("deny"))
ASK = Ask(id="1-a", kind="permission", digest="d" * 16, seconds=600, actions=OFFERS)


class FakeLine:
    def __init__(self, on_message: Any, on_change: Any) -> None:
        self.on_message, self.on_change = on_message, on_change
        self.sent: list[dict[str, Any]] = []
        self.dropped = 0

    def start(self) -> None: ...

    def close(self) -> None: ...

    def worked(self) -> None: ...

    def drop(self, why: str) -> None:
        self.dropped += 1

    def watch(self, is_card_out: bool) -> None:
        self.is_card_out = is_card_out

    def send(self, kind: str, **parts: Any) -> bool:
        self.sent.append({"t": kind, **parts})
        return True

    def got(self, kind: str) -> list[dict[str, Any]]:
        return [message for message in self.sent if message["t"] == kind]


class Bench(FakeApprovals):
    def __init__(self, **options: Any) -> None:
        self.now = 1000.0
        self.calls: list[tuple[float, Any]] = []
        self.saved: list[Enrolment] = []
        self.answers: list[Answer] = []
        self.strangers: list[tuple[str, str, str]] = []
        self.waiting = {"1-a"}
        self.outcomes: dict[str, Outcome] = {}
        self.reports = FakeReports(self.is_pending)
        self.full = False
        own = Enrolment("https://g", "m-1", "laptop", OWNER, "", (KEY,))
        self.asks: dict[str, Ask] = {}
        self.wholes: dict[str, Ask] = {}
        self.receipts: dict[str, Receipt] = {}  # to answers, if not what they did
        self.channel = GatewayChannel(
            own, self, Panels(print), self.line, lambda *call: self.calls.append(call),
            self.save, wall=lambda: self.now, clock=lambda: self.now, **options,
        )  # fmt: skip

    @property
    def shown(self) -> list[tuple[bool, str]]:
        return [row for row in self.reports.done if row != (False, "lost")]

    @property
    def lost(self) -> int:
        return self.reports.done.count((False, "lost"))

    def is_pending(self, id: str) -> bool:
        return id in self.waiting

    def seconds_left(self, id: str) -> int:
        ask = self.asks.get(id)
        return 0 if ask is None else round(ask.created + ask.seconds - self.now)

    def ask(self, id: str) -> Ask | None:
        return self.asks.get(id) if id in self.waiting else None

    def whole(self, id: str, most: int, then: Callable[[Ask], object]) -> bool:
        if id in self.wholes:
            then(self.wholes[id])
        return id in self.wholes

    def outcome(self, id: str) -> Outcome | None:
        return self.outcomes.get(id)

    def note_refused(self, id: str, action: str, who: str) -> None:
        self.strangers.append((id, action, who))

    def line(self, on_message: Any, on_change: Any) -> FakeLine:
        self.wire = FakeLine(on_message, on_change)
        return self.wire

    def save(self, enrolment: Enrolment) -> None:
        if self.full:
            raise FileError("no space")
        self.saved.append(enrolment)

    def answer(self, answer: Answer) -> Receipt:
        self.answers.append(answer)
        if answer.id in self.receipts:
            return self.receipts[answer.id]
        if answer.id not in self.waiting:
            return Receipt(statuses.UNKNOWN)
        self.waiting.discard(answer.id)
        return Receipt(statuses.SETTLED, Outcome(answer.id, done="已批准运行"))

    def hear(self, kind: str, **parts: Any) -> None:
        self.wire.on_message({"t": kind, **parts})

    def log_in(self, key: str = KEY, cards: tuple[str, ...] = (), **more: Any) -> None:
        self.wire.on_change(True, "")
        self.hear("hello", nonce="theirs", now=self.now)
        nonce = self.wire.got("login")[-1]["nonce"]
        proof = prove(bytes.fromhex(key), WELCOME, "1", "m-1", nonce, "theirs")
        said = {"next": NEXT, "now": self.now, "cards": list(cards), **more}
        self.hear("welcome", name="laptop", proof=proof, **said)

    def announce(self, ask: Ask = ASK, **more: Any) -> None:
        self.asks[ask.id] = ask
        told = self.reports.announcement(ask.id, self.now + 600, **more)
        self.channel.announce(ask, told)

    def tap(self, key: str = NEXT, id: str = "t1", **change: Any) -> None:
        at = change.pop("at", self.now)
        answer = Answer("1-a", "allow", {}, "gateway", OWNER, "d" * 16)
        answer = answer._replace(**change)
        parts = tap_parts("m-1", id, to_plain(answer), at)
        proof = prove(bytes.fromhex(key), TAP, *parts)
        self.hear("tap", tap=id, answer=to_plain(answer), at=at, proof=proof)

    def receipt(self) -> Receipt:
        return from_plain(Receipt, self.wire.got("receipt")[-1]["receipt"])


@pytest.fixture
def bench() -> Bench:
    bench = Bench()
    bench.log_in()
    return bench


def test_new_key_is_on_the_disk_before_it_is_confirmed() -> None:
    bench = Bench()
    bench.log_in()
    assert bench.saved[0].keys == (NEXT, KEY)
    (rotated,) = bench.wire.got("rotated")
    assert is_proof(rotated["proof"], bytes.fromhex(NEXT), ROTATE, "1", "m-1", "theirs")


def test_machine_proves_by_each_of_its_last_keys_and_obeys_only_the_proven_ones(
    bench: Bench,
) -> None:
    """An engine that lost its last writes knows an older one."""
    bench.wire.on_change(False, "cut")
    bench.log_in(KEY, next="ef" * 32)
    assert len(bench.wire.got("login")[-1]["proofs"]) == 2
    assert bench.saved[-1].keys == ("ef" * 32, KEY, NEXT)
    bench.tap(key=NEXT)
    assert bench.answers == [] and bench.wire.dropped == 1
    for number in range(20):
        bench.wire.on_change(False, "cut")
        bench.log_in(KEY, next=f"{number:064d}")
    assert KEY in bench.saved[-1].keys and len(bench.saved[-1].keys) == 8


def test_full_disk_keeps_the_old_key_and_the_gateway_out() -> None:
    bench = Bench()
    bench.full = True
    bench.log_in()
    assert bench.wire.dropped == 1 and bench.wire.got("rotated") == []
    assert bench.channel.state()[0] == "down"


def test_gateway_without_our_key_is_none() -> None:
    bench = Bench()
    bench.log_in(key="ef" * 32)
    assert bench.wire.dropped == 1 and bench.saved == []
    assert bench.channel.state()[0] == "down"


def test_tap_of_the_owner_is_answered_once(bench: Bench) -> None:
    bench.announce()
    bench.tap()
    assert bench.receipt().status == statuses.SETTLED
    assert bench.answers[0].surface == "gateway"
    bench.tap()
    assert len(bench.answers) == 1, "the same tap, delivered twice"
    assert bench.receipt().status == statuses.SETTLED


def test_tap_without_our_key_ends_the_connection(bench: Bench) -> None:
    bench.tap(key="ef" * 32)
    assert bench.answers == [] and bench.wire.dropped == 1


@pytest.mark.parametrize(
    "change",
    [{"who": "ou_other"}, {"who": ""}, {"digest": ""}, {"at": 900.0}, {"at": 1006.0}],
)
def test_tap_of_somebody_else_of_nothing_or_too_late_does_nothing(
    bench: Bench, change: dict[str, Any]
) -> None:
    bench.tap(**change)
    assert bench.answers == []
    assert bench.receipt().status == statuses.REFUSED
    assert bool(bench.strangers) == ("who" in change)


def test_proof_of_one_tap_is_none_for_another(bench: Bench) -> None:
    bench.tap(id="t1", action="deny")
    stolen = bench.wire.got("receipt")
    assert stolen
    deny = to_plain(Answer("1-a", "deny", {}, "gateway", OWNER, "d" * 16))
    parts = tap_parts("m-1", "t2", deny, bench.now)
    proof = prove(bytes.fromhex(NEXT), TAP, *parts)
    for number, (change, at) in enumerate(
        [
            ({"action": "allow"}, bench.now),
            ({"confirmed": True}, bench.now),
            ({"values": {"reason": ["x"]}}, bench.now),
            ({"digest": "e" * 16}, bench.now),
            ({}, bench.now + 1),
        ],
        1,
    ):
        changed = {**deny, **change}
        bench.hear("tap", tap="t2", answer=changed, at=at, proof=proof)
        assert bench.wire.dropped == number
    assert [answer.action for answer in bench.answers] == ["deny"]


def test_request_is_handed_back_at_once_while_the_gateway_is_away() -> None:
    bench = Bench()
    bench.announce()
    assert bench.shown[0][0] is False


def test_request_that_came_back_to_a_new_server_is_lost_with_its_gateway() -> None:
    """Its card is out; nobody can tap it while the gateway is not there."""
    bench = Bench()
    assert bench.channel.keeps("1-a", True), "as far as a new server knows"
    assert not bench.channel.keeps("1-a"), "what is new has none"
    bench.announce(is_back=True)
    bench.announce(ASK._replace(id="1-b"), is_back=True)
    assert (bench.shown, bench.lost) == ([], 0)
    bench.wire.on_change(False, "refused")
    assert (bench.shown, bench.lost) == ([], 2)
    bench.announce(ASK._replace(id="1-c"), is_back=True)
    assert (bench.shown, bench.lost) == ([], 3)
    bench.log_in(cards=("1-a",))
    assert [sent["ask"]["id"] for sent in bench.wire.got("ask")] == ["1-a"]
    bench.hear("shown", id="1-a", ok=True, detail="")
    assert bench.shown == [(True, "")]
    assert bench.channel.keeps("1-a") and not bench.channel.keeps("1-b", True)
    bench.hear("reach", ok=False, detail="no Feishu")
    assert bench.lost == 4


def test_line_that_breaks_gives_back_what_was_not_shown_and_loses_what_was(
    bench: Bench,
) -> None:
    bench.announce()
    bench.hear("shown", id="1-a", ok=True, detail="")
    bench.announce(ASK._replace(id="1-b"))
    bench.wire.on_change(False, "cut")
    assert bench.shown == [(True, ""), (False, "the gateway is away: cut")]
    assert bench.lost == 1
    bench.log_in(NEXT)
    assert [m["ask"]["id"] for m in bench.wire.got("ask")][-1] == "1-a"
    bench.hear("shown", id="1-a", ok=True, detail="")
    assert bench.shown[-1] == (True, "")


def test_card_that_does_not_leave_in_time_is_given_up(bench: Bench) -> None:
    bench.announce()
    next(fn for seconds, fn in bench.calls if seconds == 10.0)()
    assert bench.shown == [(False, "the gateway did not show it in time")]
    bench.channel.settle(Outcome("1-a", done="x"))
    assert bench.wire.got("settle"), "or a card that leaves later keeps its buttons"


def test_card_that_leaves_late_counts_while_its_request_is_pending(
    bench: Bench,
) -> None:
    bench.announce()
    next(fn for seconds, fn in bench.calls if seconds == 10.0)()
    bench.hear("shown", id="1-a", ok=True, detail="")
    assert bench.shown[-1] == (True, "")
    bench.wire.on_change(False, "cut")
    assert bench.lost == 1


def test_nothing_is_said_before_the_login_is_answered(bench: Bench) -> None:
    bench.announce()
    bench.hear("shown", id="1-a", ok=True, detail="")
    bench.wire.on_change(False, "cut")
    said = len(bench.wire.sent)
    bench.wire.on_change(True, "")
    bench.channel.settle(Outcome("1-a", done="x"))
    bench.channel.update(Outcome("1-a", done="x", result="y"))
    bench.announce(ASK._replace(id="1-b"))
    assert len(bench.wire.sent) == said
    bench.waiting.clear()
    bench.now += 60
    bench.log_in(NEXT, cards=("1-a",))
    bench.calls[-1][1]()
    assert [m["outcome"]["id"] for m in bench.wire.got("settle")] == ["1-a"]


def test_deaf_gateway_loses_what_is_shown_until_taps_can_arrive_again(
    bench: Bench,
) -> None:
    bench.announce()
    bench.hear("shown", id="1-a", ok=True, detail="")
    bench.hear("reach", ok=False, detail="no engine")
    assert bench.lost == 1 and bench.channel.state() == ("down", "no engine")
    bench.announce(ASK._replace(id="1-b"))
    assert bench.shown[-1] == (False, "the gateway is away: no engine")
    bench.hear("reach", ok=True, detail="")
    assert bench.channel.state() == ("up", "")
    assert [m["ask"]["id"] for m in bench.wire.got("ask")] == ["1-a", "1-a"]
    bench.hear("shown", id="1-a", ok=True, detail="")
    assert bench.shown[-1] == (True, "")


def test_card_that_a_deaf_gateway_shows_cannot_be_answered() -> None:
    bench = Bench()
    bench.log_in()
    bench.announce()
    bench.wire.on_change(False, "cut")
    bench.log_in(NEXT, deaf="no Feishu")
    assert bench.channel.state() == ("down", "no Feishu")
    bench.hear("reach", ok=True)
    bench.announce()
    bench.hear("reach", ok=False)
    bench.hear("shown", id="1-a", ok=True)
    assert bench.shown[-1] == (True, "") and bench.lost == 1
    assert bench.wire.is_card_out
    bench.channel.settle(Outcome("1-a"))
    assert not bench.wire.is_card_out


OPTIONS = tuple(Option(str(number)) for number in range(3000))


@pytest.mark.parametrize(
    "parts",
    [
        {"fields": (Field("q", "one", options=OPTIONS),)},
        {"facts": tuple("x" * 300 for _ in range(1500))},
    ],
)
def test_ask_that_no_gateway_can_read_is_not_sent(
    bench: Bench, parts: dict[str, Any]
) -> None:
    bench.announce(ASK._replace(**parts))
    assert bench.wire.got("ask") == []
    assert bench.shown == [(False, "it is too large for a gateway")]
    bench.announce(ASK._replace(id="1-b"))
    assert bench.wire.got("ask"), "the next one goes out"


def test_end_that_no_gateway_can_read_is_told_without_its_details(
    bench: Bench,
) -> None:
    bench.announce()
    bench.channel.settle(Outcome("1-a", done="x", answers=("a",) * 3000))
    (told,) = bench.wire.got("settle")
    assert told["outcome"]["done"] == "x" and told["outcome"]["answers"] == []


@every_row("ahead", [120.0, -120.0])
def test_gateway_with_another_clock_is_named_and_its_taps_count(ahead: float) -> None:
    bench = Bench()
    bench.log_in(now=bench.now + ahead)
    assert bench.channel.state()[0] == "up" and "120 s" in bench.channel.state()[1]
    bench.announce()
    assert bench.wire.got("ask")[0]["left"] == 600 - bench.now
    bench.tap(at=bench.now + ahead)
    assert bench.receipt().status == statuses.SETTLED
    bench.hear("time", now=bench.now)
    assert bench.channel.state() == ("up", "")


def test_cards_of_what_ended_meanwhile_are_settled() -> None:
    bench = Bench()
    bench.log_in(cards=("1-a", "1-old"))
    assert bench.channel.keeps("1-old")
    bench.calls[-1][1]()
    settled = [message["outcome"]["id"] for message in bench.wire.got("settle")]
    assert settled == ["1-old"], "what waits stays"


def test_tap_on_what_has_not_come_back_yet_is_asked_for_again() -> None:
    bench = Bench()
    bench.log_in(cards=("1-a",))
    bench.waiting.clear()
    bench.tap()
    assert bench.receipt().status == statuses.INCOMPLETE
    bench.now += 60
    bench.tap(id="t2")
    assert bench.receipt().status == statuses.UNKNOWN


def test_gateway_is_told_what_came_of_a_call_it_has_shown(bench: Bench) -> None:
    bench.announce()
    ran = Outcome("1-a", done="已批准运行", result="已运行完毕")
    bench.channel.update(ran)
    assert bench.wire.got("update") == [], "it waits"
    bench.channel.settle(ran._replace(result=""))
    bench.channel.update(ran)
    (told,) = bench.wire.got("update")
    assert told["outcome"]["result"] == "已运行完毕"
    bench.channel.update(ran._replace(id="1-never"))
    assert len(bench.wire.got("update")) == 1


def test_result_that_came_while_the_gateway_was_away_follows(bench: Bench) -> None:
    bench.announce()
    ran = Outcome("1-a", done="已批准运行", result="已运行完毕")
    bench.channel.settle(ran._replace(result=""))
    bench.wire.on_change(False, "cut")
    bench.channel.update(ran)
    assert bench.wire.got("update") == []
    bench.outcomes["1-a"] = ran
    for _ in range(2):
        bench.log_in(NEXT)
        bench.wire.on_change(False, "cut")
    assert len(bench.wire.got("update")) == 1


@pytest.mark.parametrize(
    "message", [{}, {"nonce": None}, {"answer": 1, "tap": "x"}, {"id": []}]
)
def test_odd_messages_do_nothing(bench: Bench, message: dict[str, Any]) -> None:
    for kind in ("hello", "welcome", "tap", "shown", "renamed", "nonsense"):
        bench.hear(kind, **message)
    assert bench.answers == []


def test_name_that_a_gateway_gives_cannot_write_to_a_terminal(bench: Bench) -> None:
    bench.hear("renamed", name="box\x1b]0;owned\x07\n" + "x" * 10_000)
    name = bench.channel.facts()["machine"]
    assert name.isprintable() and len(name) <= 60 and name.startswith("box")


@every_row("at", [float("nan"), float("inf"), -float("inf"), 1e300, True, "1000", None])
def test_moment_that_is_none_is_no_tap(at: Any) -> None:
    bench = Bench()
    bench.log_in()
    bench.announce()
    answer = to_plain(Answer("1-a", "allow", {}, "gateway", OWNER, "d" * 16))
    with contextlib.suppress(TypeError):
        parts = tap_parts("m-1", "t1", answer, at)
        proof = prove(bytes.fromhex(NEXT), TAP, *parts)
        bench.hear("tap", tap="t1", answer=answer, at=at, proof=proof)
        assert bench.wire.dropped == 1
    assert bench.answers == []


@every_row("now", [float("nan"), float("inf"), 1e300, "soon", None])
def test_gateway_without_a_clock_is_none(now: Any) -> None:
    bench = Bench()
    bench.log_in(now=now)
    assert bench.wire.dropped == 1 and bench.channel.state()[0] == "down"


def test_request_that_cards_cut_is_sent_whole_once_that_is_made() -> None:
    """Masking megabytes takes many turns: the request may end meanwhile."""
    bench = Bench()
    bench.log_in()
    made: list[Callable[[Ask], object]] = []
    whole = ASK
    cut = whole._replace(cut=1)
    bench.whole = lambda id, most, then: not made.append(then)  # type: ignore[method-assign]
    for _ in range(2):
        bench.announce(cut)
        assert bench.wire.got("ask") == []
        made.pop()(whole)
        (sent,) = bench.wire.got("ask")
        assert sent["ask"]["cut"] == 0
        bench.wire.sent.clear()
    bench.announce(cut)
    bench.channel.settle(Outcome("1-a"))
    made.pop()(whole)
    assert bench.wire.got("ask") == []
    bench.whole = lambda *parts: False  # type: ignore[method-assign]
    bench.announce(cut)
    (sent,) = bench.wire.got("ask")
    assert sent["ask"]["cut"] == 1
