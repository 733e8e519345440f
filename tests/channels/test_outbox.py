"""The queue itself: order, pauses, lanes, and who is told what became of a message."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from feishuperm.channels import outbox
from feishuperm.channels.outbox import Job, Lanes, Outbox, RateLimit, Send
from feishuperm.channels.webhook import LIMITS
from feishuperm.lib.feishu import NO_ANSWER, SendResult

OK = SendResult(True, 0, "")
BUSY = SendResult(False, 1, "busy", retry=True)
GONE = SendResult(False, 2, "gone for good")
PLAINER = SendResult(False, 3, "not like this", fallback=True)
THEIRS = SendResult(False, 99, "too many for one", retry=True)
FREE = ((1000, 1.0),)


class Sender:
    """An outbox whose clock moves by hand, and a service that says what it is told."""

    def __init__(self, *results: SendResult, limits: outbox.Limits = FREE) -> None:
        self.now = 100.0
        self.results = list(results)
        self.sent: list[Any] = []
        self.done: list[tuple[str, bool, str]] = []
        self.box = Outbox(
            "test", RateLimit(limits), lambda fn: fn(), lambda: self.now, lambda: 0.5,
            Lanes(((2, 1.0),), frozenset((THEIRS.code,))),
        )  # fmt: skip

    def variant(self, text: str) -> Send:
        def send() -> SendResult:
            self.sent.append(text)
            return self.results.pop(0) if self.results else OK

        return send

    def add(self, name: str, seconds: float = 60.0, **parts: Any) -> None:
        first, *plainer = parts.pop("variants", (self.variant(name),))
        waited_for = parts.pop("waited_for", True)
        until = self.now + seconds

        def done(result: SendResult) -> None:
            self.done.append((name, result.ok, result.message))

        job = Job(first, until, waited_for, done, name, plainer=tuple(plainer))
        self.box.add(job._replace(**parts))

    def run(self) -> None:
        """Until there is nothing to do."""
        for _ in range(1000):
            wait = self.box.step()
            if wait is None:
                return
            self.now += wait
        raise AssertionError("it never comes to rest")


def test_messages_leave_one_by_one_in_their_order() -> None:
    sender = Sender()
    for name in "abc":
        sender.add(name)
    assert sender.box.busy()
    assert [sender.box.step() for _ in range(4)] == [0.0, 0.0, 0.0, None]
    assert sender.sent == ["a", "b", "c"]
    assert sender.done == [("a", True, ""), ("b", True, ""), ("c", True, "")]
    assert not sender.box.busy() and sender.box.state() == ("up", "")


def test_failure_that_may_pass_holds_all_and_is_tried_first() -> None:
    sender = Sender(BUSY)
    sender.add("a")
    sender.add("b")
    assert sender.box.step() == 0.0 and sender.box.step() == outbox.FIRST_PAUSE
    assert sender.box.state() == ("down", "busy") and not sender.box.busy()
    sender.run()
    assert sender.sent == ["a", "a", "b"]


def test_failure_for_good_is_told_and_holds_nobody() -> None:
    sender = Sender(GONE)
    sender.add("a")
    sender.add("b")
    assert (sender.box.step(), sender.box.step()) == (0.0, 0.0)
    assert sender.done == [("a", False, "gone for good"), ("b", True, "")]


def test_refused_variant_is_followed_by_the_plainer_one() -> None:
    sender = Sender(PLAINER)
    sender.add("a", variants=(sender.variant("full"), sender.variant("plain")))
    sender.run()
    assert sender.sent == ["full", "plain"]
    assert sender.done == [("a", True, "")]


def test_last_variant_that_is_refused_is_the_end() -> None:
    sender = Sender(PLAINER)
    sender.add("a")
    sender.run()
    assert sender.done == [("a", False, "not like this")]


def test_variant_that_cannot_be_built_gives_way_to_the_next() -> None:
    def broken() -> SendResult:
        raise RuntimeError("no card")

    sender = Sender()
    sender.add("a", variants=(broken, sender.variant("bare")))
    sender.add("b", variants=(broken,))
    sender.run()
    assert sender.sent == ["bare"]
    assert sender.done == [("a", True, ""), ("b", False, outbox.UNBUILT.message)]


def test_message_that_nobody_wants_or_that_is_late_is_not_sent() -> None:
    sender = Sender()
    sender.add("settled")
    sender.add("late", seconds=1)
    sender.box.cancel("settled")
    sender.now += 2
    sender.run()
    assert sender.sent == []
    assert sender.done == [
        ("settled", False, outbox.NOT_WANTED),
        ("late", False, outbox.TOO_LATE),
    ]


def test_message_given_up_in_an_outage_says_what_the_outage_was() -> None:
    sender = Sender(*[BUSY] * 100)
    sender.add("a", seconds=10)
    sender.run()
    assert sender.done == [("a", False, "busy")]
    assert sender.now < 110, "as soon as no try could come in time"


def test_service_that_names_a_wait_gets_it() -> None:
    sender = Sender(BUSY._replace(retry_after=7.0))
    sender.add("a")
    sender.run()
    assert sender.now == 107.0


def test_receiver_with_too_much_waits_alone() -> None:
    sender = Sender()
    for name in ("a1", "a2", "a3"):
        sender.add(name, lane="a")
    sender.add("b1", lane="b")
    while sender.box.step() == 0.0:
        pass
    assert sender.sent == ["a1", "a2", "b1"]
    sender.run()
    assert sender.sent[-1] == "a3" and sender.now == 101.0


def test_refusal_about_one_receiver_holds_nobody_else() -> None:
    sender = Sender(THEIRS)
    sender.add("a", lane="a")
    sender.add("b", lane="b")
    sender.run()
    assert sender.sent == ["a", "b", "a"] and sender.now == 101.0
    assert sender.box.state() == ("up", "")


def test_same_refusal_without_a_receiver_holds_the_queue() -> None:
    sender = Sender(THEIRS)
    sender.add("a")
    sender.add("b")
    sender.run()
    assert sender.sent == ["a", "a", "b"]


def test_message_that_no_limit_lets_through_in_time_is_refused_at_once() -> None:
    sender = Sender(limits=((1, 10.0),))
    for name in "abc":
        sender.add(name, seconds=15)
    assert sender.done == [("c", False, outbox.TOO_MANY)]
    sender.run()
    assert sender.sent == ["a", "b"] and sender.now == 110.0


def test_queue_has_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outbox, "MAX_QUEUE", 2)
    sender = Sender()
    for name in "abc":
        sender.add(name)
    assert sender.done == [("c", False, outbox.TOO_MANY)]


def test_lanes_of_long_ago_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outbox, "MAX_QUEUE", 3)
    lanes = Lanes(((1, 60.0),), frozenset())
    for name in ("a", "b", "c", "d"):
        lanes.note(name, 0.0)
    assert lanes.wait("a", 0.0) == 0.0 and lanes.wait("d", 0.0) == 60.0


@settings(deadline=None)
@given(st.lists(st.floats(0, 3), max_size=300))
def test_sliding_windows_hold_for_any_arrival(gaps: list[float]) -> None:
    limit = RateLimit(LIMITS)
    now, sent = 0.0, []
    for gap in gaps:
        now += gap
        now += limit.wait(now)
        assert limit.wait(now) <= 1e-9
        limit.note(now)
        sent.append(now)
    for count, seconds in LIMITS:
        assert all(b - a >= seconds - 1e-6 for a, b in zip(sent, sent[count:]))


@pytest.mark.parametrize("silent", [True, False], ids=["silent", "refused"])
def test_nobody_waits_to_the_end_for_a_service_that_says_nothing(silent: bool) -> None:
    """It takes the connection and never answers: the terminal has the request soon."""
    sender = Sender()
    quiet = SendResult(False, NO_ANSWER, "no answer", retry=True)

    def send() -> SendResult:
        sender.now += 8.0 if silent else 0.0
        return quiet if sender.now < 140.0 else OK

    for name in "ab":
        sender.add(name, variants=(send,))
    sender.add("notice", 300.0, waited_for=False, variants=(send,))
    sender.run()
    if silent:
        assert sender.done[:2] == [("a", False, "no answer"), ("b", False, "no answer")]
        assert sender.done[2] == ("notice", True, "")
    else:  # a short outage: it is shown as soon as that is over
        assert [shown for _, shown, _ in sender.done] == [True, True, True]


def test_silence_is_known_after_seconds() -> None:
    sender = Sender()

    def send() -> SendResult:
        sender.now += 8.0
        return SendResult(False, NO_ANSWER, "no answer", retry=True)

    sender.add("a", variants=(send,))
    while not sender.done:
        sender.now += sender.box.step() or 0.0
    assert sender.now - 100.0 < 20.0


def test_change_of_a_card_outlasts_a_service_that_says_nothing() -> None:
    """A card that is not changed keeps buttons that do nothing."""
    sender = Sender()

    def send() -> SendResult:
        sender.now += 8.0
        quiet = SendResult(False, NO_ANSWER, "no answer", retry=True)
        return quiet if sender.now < 160.0 else OK

    sender.add("change", 120.0, variants=(send,), lasts=True)
    sender.run()
    assert sender.done == [("change", True, "")]


def test_what_is_added_after_a_cancellation_is_sent() -> None:
    sender = Sender()
    sender.add("a")
    sender.box.cancel("a")
    sender.add("a", seconds=30)
    sender.run()
    assert sender.sent == ["a"]
    assert sender.done == [("a", False, outbox.NOT_WANTED), ("a", True, "")]


def test_results_are_told_where_the_loop_calls_them() -> None:
    """The thread that sends changes nothing of the server by itself."""
    posted: list[Any] = []
    heard: list[str] = []
    done: list[str] = []
    results = [BUSY, OK]
    box = Outbox(
        "test", RateLimit(FREE), posted.append, lambda: now[0], lambda: 0.5,
        heard=lambda result: heard.append(result.message),
    )  # fmt: skip
    now = [100.0]
    job = Job(lambda: results.pop(0), 200.0, True, lambda r: done.append(r.message))
    box.add(job)
    while (wait := box.step()) is not None:
        now[0] += wait
    assert not heard and not done
    for call in posted:
        call()
    assert heard == ["busy", ""] and done == [""]
