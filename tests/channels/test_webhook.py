"""The webhook channel: queue, limits, pauses and fallbacks, on a clock of its own."""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from feishuperm.channels import outbox, webhook
from feishuperm.channels.outbox import LONGEST_PAUSE, LONGEST_WITHOUT_WAITER
from feishuperm.channels.webhook import LIMITS, WebhookChannel
from feishuperm.lib import log as logging
from feishuperm.lib.post import Reply
from feishuperm.models.ask import Notice, Outcome
from tests.asks import make_ask, url
from tests.conftest import wait_until
from tests.fakes.feishu import RATE_GATEWAY, TOKEN, FakeFeishu, Fault, every_url
from tests.kinds import plain_buttons
from tests.ports import FakeReports
from tests.tables import every_row

URL = "https://feishu.test/open-apis/bot/v2/hook/TOKEN"
ASK = make_ask("Bash", {"command": "ls"}, id="1-a")
WALL = 1_700_000_000.0  # the wall clock when the monotonic one shows 1000


@pytest.fixture(autouse=True, scope="module")
def log_file(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    path = str(tmp_path_factory.mktemp("log") / "log")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(logging._LOG, "path", path)
        yield path


class World:
    """A channel with a clock that only moves when it waits, and scripted answers."""

    def __init__(self, *codes: int | Reply | OSError, secret: str = "") -> None:
        self.now = 1000.0
        self.answers = list(codes)
        self.sent: list[tuple[float, str]] = []  # when, and which kind of message
        self.texts: list[str] = []
        self.reports = FakeReports()
        self.done = self.reports.by_id
        self.channel = WebhookChannel(
            URL,
            secret,
            url,
            lambda fn: fn(),
            post=self.post,
            clock=lambda: self.now,
            wall=lambda: self.now - 1000.0 + WALL,
            jitter=lambda: 0.5,
        )

    def post(self, url: str, body: bytes) -> Reply:
        message = json.loads(body)
        text = json.dumps(message, ensure_ascii=False)
        kind = message["msg_type"] if "npm run" in text or "text" in message else "bare"
        self.sent.append((self.now, kind))
        self.texts.append(text)
        answer = self.answers.pop(0) if self.answers else 0
        if isinstance(answer, OSError):
            raise answer
        if isinstance(answer, Reply):
            return answer
        return Reply(200, {}, json.dumps({"code": answer, "msg": "m"}).encode())

    def announce(self, name: str = "a", seconds: float = 55.0) -> None:
        ask = make_ask("Bash", {"command": "npm run build"}, id=name)
        until = WALL + self.now - 1000.0 + seconds
        self.channel.announce(ask, self.reports.announcement(name, until))

    def run(self, until: float = 10_000.0) -> None:
        """Let the channel work until it has nothing to do, as its thread would."""
        for _ in range(10_000):
            wait = self.channel.step()
            if wait is None or self.now + wait > until:
                return
            self.now += wait
        raise AssertionError("the channel never comes to rest")


def test_card_is_sent_and_reported() -> None:
    world = World()
    assert world.channel.state() == ("up", "nothing sent yet")
    world.announce()
    world.run()
    assert world.sent == [(1000.0, "interactive")]
    assert world.done == [("a", True, "")]
    assert world.channel.state() == ("up", "")


def test_channel_that_is_limited_says_so_and_how_many_wait() -> None:
    world = World()
    for number in range(8):
        world.announce(str(number))
    for _ in range(5):
        assert world.channel.step() == 0.0
    assert world.channel.state() == ("up", "limited: 3 cards wait, the next for 1 s")
    world.run()
    assert world.channel.state() == ("up", "")


def test_cards_leave_in_the_order_they_came() -> None:
    world = World()
    for name in "abc":
        world.announce(name)
    world.run()
    assert [name for name, _, _ in world.done] == ["a", "b", "c"]


@every_row(
    "failure",
    [
        11232,
        11233,
        11247,
        99991400,
        2200,
        Reply(500, {}, b"oops"),
        Reply(503, {}, b""),
        OSError("feishu.test: Connection refused"),
    ],
)
def test_failure_that_may_pass_is_tried_again(failure: int | Reply | OSError) -> None:
    world = World(failure, failure)
    world.announce()
    world.run()
    assert world.done == [("a", True, "")]
    assert [moment for moment, _ in world.sent] == [1000.0, 1000.5, 1001.5]


@every_row("code", [19001, 19007, 19022, 19024, 11242, 11249])
def test_failure_that_cannot_pass_is_given_up_at_once(code: int) -> None:
    world = World(code)
    world.announce()
    world.run()
    assert len(world.sent) == 1
    [(name, shown, detail)] = world.done
    assert (name, shown) == ("a", False)
    assert detail.startswith(f"{code}: ")
    assert world.channel.state() == ("down", detail)


def test_wrong_secret_is_given_up_after_one_new_signature() -> None:
    world = World(19021, 19021, secret="s")
    world.announce()
    world.run()
    assert len(world.sent) == 2
    assert not world.done[0][1]


def test_refused_card_is_sent_without_its_detail() -> None:
    world = World(11246)
    world.announce()
    world.run()
    assert [kind for _, kind in world.sent] == ["interactive", "bare"]
    assert world.done == [("a", True, "")]


def test_twice_refused_card_becomes_a_text_and_nobody_waits_for_a_tap() -> None:
    world = World(11246, 11246)
    world.announce()
    world.run()
    assert [kind for _, kind in world.sent] == ["interactive", "bare", "text"]
    assert world.done == [("a", False, webhook.PLAIN)]


def test_everything_refused_is_a_failure_with_the_last_reason() -> None:
    world = World(11246, 11246, 19002)
    world.announce()
    world.run()
    assert len(world.sent) == 3
    assert world.done[0][2].startswith("19002: ")


def test_message_that_cannot_be_built_falls_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def broken() -> dict[str, Any]:
        raise RuntimeError("no card")

    text = {"msg_type": "text", "content": {"text": "npm run build"}}
    monkeypatch.setattr(
        webhook, "permission_messages", lambda *args: [broken, lambda: text]
    )
    world = World()
    world.announce()
    world.run()
    assert world.done == [("a", False, webhook.PLAIN)]
    monkeypatch.setattr(webhook, "permission_messages", lambda *args: [broken])
    world.announce("b")
    world.run()
    assert world.done[1] == ("b", False, "the card could not be built")


def test_wait_that_feishu_asks_for_is_kept() -> None:
    limited = Reply(429, {"x-ogw-ratelimit-reset": "7"}, b'{"code":99991400}')
    world = World(limited)
    world.announce()
    world.run()
    assert [moment for moment, _ in world.sent] == [1000.0, 1007.0]


def test_pauses_grow_to_a_limit_and_end_with_the_deadline() -> None:
    world = World(*[OSError("feishu.test: away")] * 100)
    world.announce(seconds=200)
    world.run()
    moments = [moment for moment, _ in world.sent]
    pauses = [after - before for before, after in zip(moments, moments[1:])]
    assert pauses[:3] == [0.5, 1.0, 2.0]
    assert set(pauses[3:]) == {LONGEST_PAUSE}
    assert world.done == [("a", False, "feishu.test: away")]
    # Given up when the next try would come too late, not after waiting for it.
    assert 1200 - LONGEST_PAUSE < world.now <= 1200


def test_outage_while_nobody_waits_is_tried_less_often() -> None:
    world = World(*[OSError("feishu.test: away")] * 100)
    world.channel.notify(Notice("stop", 1.0))
    world.run()
    moments = [moment for moment, _ in world.sent]
    pauses = [after - before for before, after in zip(moments, moments[1:])]
    assert pauses[:5] == [0.5, 1.0, 2.0, 4.0, 8.0]
    assert set(pauses[5:]) == {LONGEST_WITHOUT_WAITER}


def test_card_goes_out_soon_after_an_outage_however_long_it_was() -> None:
    world = World(*[OSError("feishu.test: away")] * 20)
    world.channel.notify(Notice("stop", 1.0))
    world.run(until=1200.0)
    world.answers.clear()  # the outage is over, the pause is not
    asked = world.now
    world.announce()
    world.run()
    assert ("a", True, "") in world.done
    assert world.now - asked <= LONGEST_PAUSE


def test_card_that_leaves_late_tells_the_time_that_is_left() -> None:
    world = World(11232, Reply(429, {"retry-after": "30"}, b""))
    world.announce()
    world.run()
    hints = [re.search(r"请在 (\d+) 秒内操作", text) for text in world.texts]
    assert [hint and hint.group(1) for hint in hints] == ["55", "55", "24"]


def test_failure_holds_the_queue_and_success_releases_it() -> None:
    world = World(11232)
    world.announce("a")
    world.announce("b")
    world.run()
    assert [moment for moment, _ in world.sent] == [1000.0, 1000.5, 1000.5]
    assert [name for name, _, _ in world.done] == ["a", "b"]
    world.answers = [11232]
    world.announce("c")
    world.run()
    assert world.now == 1001.0  # the first pause again, not the next longer one


def test_request_settled_meanwhile_is_not_sent() -> None:
    world = World(11232)
    world.announce("a")
    world.channel.step()
    world.channel.settle(Outcome("a"))
    world.run()
    assert len(world.sent) == 1
    assert world.done == [("a", False, outbox.NOT_WANTED)]


def test_request_past_its_deadline_is_not_sent() -> None:
    world = World()
    world.announce("a", seconds=5)
    world.now += 6
    world.run()
    assert world.sent == []
    assert world.done == [("a", False, outbox.TOO_LATE)]


def test_limits_are_kept_by_any_number_of_requests() -> None:
    world = World()
    for number in range(250):
        world.announce(str(number), seconds=1000)
    world.run()
    moments = [moment for moment, _ in world.sent]
    assert len(moments) == 250
    for count, seconds in LIMITS:
        for first, last in zip(moments, moments[count:]):
            assert last - first >= seconds
    assert moments[99] - moments[0] < 21  # and no slower than they allow


def test_strict_feishu_never_sees_too_many() -> None:
    world = World()
    with FakeFeishu(clock=lambda: world.now) as feishu:
        channel = WebhookChannel(
            feishu.webhook_url, "", url, lambda fn: fn(),
            clock=lambda: world.now, wall=lambda: world.now,
        )  # fmt: skip
        world.channel = channel
        for number in range(130):
            channel.notify(Notice("stop", 1.0, f"/p{number}"))
        world.run()
    assert feishu.refusals == []
    assert len(feishu.cards) == 130


def test_request_that_no_limit_lets_through_in_time_is_refused_at_once() -> None:
    world = World()
    for number in range(400):
        world.announce(str(number))
    refused = [name for name, shown, detail in world.done if detail == outbox.TOO_MANY]
    assert len(refused) >= 250
    assert refused[-1] == "399"
    world.run()
    assert len(world.done) == 400
    assert sum(shown for _, shown, _ in world.done) >= 100


def test_notice_is_sent_as_a_card() -> None:
    world = World()
    world.channel.notify(Notice("stop", 1.0, "/p", text="npm run build passed"))
    world.run()
    assert [kind for _, kind in world.sent] == ["interactive"]


def test_channel_pushes_and_is_never_watched() -> None:
    channel = World().channel
    assert (channel.name, channel.passive, channel.watched()) == (
        "webhook",
        False,
        False,
    )


def test_thread_sends_survives_errors_and_ends() -> None:
    before = threading.active_count()
    reports = FakeReports()
    told: list[int] = []

    def on_loop(fn: Callable[[], object]) -> None:
        told.append(1)
        if len(told) == 1:
            raise RuntimeError("a bug somewhere else")
        fn()

    with FakeFeishu(secret="s") as feishu:
        feishu.faults += [
            Fault(close=True),
            Fault(500),
            RATE_GATEWAY._replace(headers=()),
        ]
        channel = WebhookChannel(
            feishu.webhook_url, "s", url, on_loop, jitter=lambda: -0.5
        )
        channel.start()
        announcement = reports.announcement(ASK.id, time.time() + 55)
        channel.announce(ASK, announcement)
        wait_until(lambda: told)
        wait_until(lambda: reports.done)
        channel.close()
        assert reports.done == [(True, "")]
        paths = ("/request", *(action.path for action in plain_buttons()))
        assert set(every_url(feishu.cards[-1])) == {url(path, "1-a") for path in paths}
        assert channel.state() == ("up", "")
    wait_until(lambda: threading.active_count() <= before)


def test_thread_rests_when_there_is_nothing_to_do() -> None:
    world = World()
    world.channel.start()
    world.announce()
    wait_until(lambda: world.done)
    wait_until(lambda: not world.channel._outbox._woken.is_set())
    world.channel.close()


def test_log_never_holds_the_token(log_file: str) -> None:
    with FakeFeishu(enabled=False) as feishu:
        channel = WebhookChannel(feishu.webhook_url, "", url, lambda fn: fn())
        channel.notify(Notice("stop", 1.0))
        channel.step()
    with open(log_file, encoding="utf-8") as file:
        logged = file.read()
    assert "19007" in logged
    assert TOKEN not in logged
