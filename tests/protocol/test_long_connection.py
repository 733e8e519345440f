"""The long connection with a clock of our own and a platform made of its frames."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from feishuperm.protocol import long_connection as lc
from feishuperm.protocol.long_connection import (
    CONTROL,
    DATA,
    UNPUBLISHED,
    Delivery,
    Endpoint,
    Frame,
    LongConnection,
    Refusal,
    decode_frame,
    encode_frame,
    read_endpoint,
    refusal,
)
from feishuperm.protocol.websocket import (
    JUMP_SECONDS,
    Close,
    HandshakeRefused,
    Message,
    Ping,
    Pong,
    WebSocket,
)
from tests.conftest import examples
from tests.tables import every_row

WALL = 1_000_000.0  # how far the wall clock is ahead of the other
URL = "wss://msg.example/ws/v2?device_id=1&service_id=33554678&ticket=t"


class Platform:
    """The other end, and the time both live in."""

    def __init__(self, ping_seconds: float = 120.0) -> None:
        self.now = 100.0
        self.socket = WebSocket(client=False)
        endpoint = Endpoint(URL, 33554678, ping_seconds)
        self.client = LongConnection(endpoint, self.now, self.now + WALL)

    def sent(self) -> list[Any]:
        """What the client wrote since the last look."""
        self.socket.receive_data(self.client.data_to_send())
        events = []
        event = self.socket.next_event()
        while event is not None:
            events.append(event)
            event = self.socket.next_event()
        return events

    def frames(self) -> list[Frame]:
        return [decode_frame(event.data) for event in self.sent()]

    def deliver(self, *frames: Frame) -> list[Delivery]:
        """What the client makes of these frames."""
        data = b"".join(self.socket.send_message(encode_frame(f)) for f in frames)
        return self.feed(data)

    def feed(self, data: bytes) -> list[Delivery]:
        self.client.receive_data(data, self.now)
        deliveries = []
        delivery = self.client.next_event()
        while delivery is not None:
            deliveries.append(delivery)
            delivery = self.client.next_event()
        return deliveries

    def pass_time(self, seconds: float, jump: float = 0.0) -> None:
        self.now += seconds
        self.client.tick(self.now, self.now + WALL + jump)


def event_frame(payload: bytes, type: str = "event", **headers: str) -> Frame:
    pairs = {"type": type, "message_id": "m1", "sum": "1", "seq": "0", **headers}
    pairs["instance_id"] = "i"
    return Frame(5, 6, 7, DATA, tuple(pairs.items()), payload=payload)


PONG_FRAME = Frame(method=CONTROL, headers=(("type", "pong"),))


def is_ping(frame: Frame) -> bool:
    return frame.method == CONTROL and frame.header("type") == "ping"


# Discovery and handshake.


def discovery(**data: object) -> bytes:
    return json.dumps({"code": 0, "msg": "", "data": {"URL": URL, **data}}).encode()


def test_discovery_tells_address_service_and_interval() -> None:
    config = {"ReconnectCount": -1, "PingInterval": 90}
    assert read_endpoint(200, discovery(ClientConfig=config)) == (URL, 33554678, 90.0)
    assert read_endpoint(200, discovery()).ping_seconds == lc.PING_SECONDS


@every_row(
    ("value", "expected"),
    [
        (0, 120.0),
        (-1, 120.0),
        (True, 120.0),
        ("9", 120.0),
        (1, 5.0),
        (99999, 600.0),
        (10**400, 600.0),
    ],
)
def test_odd_interval_stays_within_reason(value: object, expected: float) -> None:
    assert lc.ping_seconds({"PingInterval": value}) == expected


@every_row(
    ("body", "key", "fatal"),
    [
        (
            b'{"code":1000040345,"msg":"x","data":null}',
            "FEISHU_APP_ID or FEISHU_APP_SECRET is wrong",
            True,
        ),
        (b'{"code":10014}', "FEISHU_APP_ID or FEISHU_APP_SECRET is wrong", True),
        (
            b'{"code":1000040350}',
            "the app has too many long connections (50 at most)",
            True,
        ),
        (
            b'{"code":403}',
            UNPUBLISHED,
            True,
        ),
        (
            b'{"code":1,"msg":"system busy"}',
            "Feishu is busy; if that lasts, the app was never published",
            False,
        ),
        (
            b'{"code":1000040343}',
            "Feishu is busy; if that lasts, the app was never published",
            False,
        ),
        (b"<html>", "the answer is not Feishu's: a proxy may be in between", False),
        (b"[]", "the answer is not Feishu's: a proxy may be in between", False),
        (b'{"code":0}', "the answer is not Feishu's: a proxy may be in between", False),
        (
            b'{"code":0,"data":{"URL":"wss://h/?a=b"}}',
            "the answer is not Feishu's: a proxy may be in between",
            False,
        ),
        (
            b'{"code":0,"data":{"URL":5}}',
            "the answer is not Feishu's: a proxy may be in between",
            False,
        ),
        (
            '{"code":0,"data":{"URL":"wss://h/中?service_id=1"}}'.encode(),
            "the answer is not Feishu's: a proxy may be in between",
            False,
        ),
        (
            b'{"code":0,"data":{"URL":"wss://h/?service_id=99999999999999999999"}}',
            "the answer is not Feishu's: a proxy may be in between",
            False,
        ),
        (
            b'{"code":1e999}',
            "the answer is not Feishu's: a proxy may be in between",
            False,
        ),
        (
            b'{"code":0,"data":{"URL":"http://h/?service_id=1"}}',
            "the answer is not Feishu's: a proxy may be in between",
            False,
        ),
        (
            b'{"code":"x"}',
            "the answer is not Feishu's: a proxy may be in between",
            False,
        ),
        (
            b"[" * 100_000,
            "the answer is not Feishu's: a proxy may be in between",
            False,
        ),
    ],
)
def test_each_refusal_of_discovery_has_its_meaning(
    body: bytes, key: str, fatal: bool
) -> None:
    with pytest.raises(Refusal) as caught:
        read_endpoint(200, body)
    assert (caught.value.key, caught.value.fatal) == (key, fatal)
    assert "ticket" not in str(caught.value)


@every_row(
    ("status", "headers", "key", "fatal"),
    [
        (
            403,
            {},
            "a proxy on the way does not pass WebSockets (HTTP 403)",
            False,
        ),
        (
            514,
            {"handshake-autherrcode": "1000040350"},
            "the app has too many long connections (50 at most)",
            True,
        ),
        (
            514,
            {"handshake-autherrcode": "7"},
            "Feishu is busy; if that lasts, the app was never published",
            False,
        ),
        (
            200,
            {"handshake-status": "403"},
            UNPUBLISHED,
            True,
        ),
        (502, {}, "Feishu is busy; if that lasts, the app was never published", False),
        (
            514,
            {"handshake-autherrcode": "²"},
            "Feishu is busy; if that lasts, the app was never published",
            False,
        ),
    ],
)
def test_each_refusal_of_a_handshake_has_its_meaning(
    status: int, headers: dict[str, str], key: str, fatal: bool
) -> None:
    meaning = refusal(HandshakeRefused(status, headers))
    assert (meaning.key, meaning.fatal) == (key, fatal)


# Deliveries.


def test_ping_goes_out_at_once_and_at_every_interval() -> None:
    platform = Platform(60)
    (ping,) = platform.frames()
    assert is_ping(ping) and ping.service == 33554678
    platform.deliver(PONG_FRAME)
    platform.pass_time(59)
    assert platform.frames() == []
    platform.pass_time(1)
    assert [is_ping(frame) for frame in platform.frames()] == [True]


def test_pong_changes_the_interval_and_only_that() -> None:
    platform = Platform(60)
    for payload in (b'{"PingInterval":30}', b"{}", b"oops", b'{"ReconnectNonce":1}'):
        platform.deliver(PONG_FRAME._replace(payload=payload))
    platform.frames()
    platform.pass_time(60)
    assert len(platform.frames()) == 1
    platform.deliver(PONG_FRAME)
    platform.pass_time(29)
    assert platform.frames() == []
    platform.pass_time(1)
    assert len(platform.frames()) == 1


@every_row("type", ["event", "card"])
def test_event_is_acknowledged_with_its_own_headers(type: str) -> None:
    platform = Platform()
    platform.frames()
    frame = event_frame(b'{"a":1}', type)
    (delivery,) = platform.deliver(frame)
    assert delivery.payload == b'{"a":1}'
    platform.now += 0.25
    reply = {"toast": {"type": "success", "content": "已批准运行"}}
    assert platform.client.answer(delivery, platform.now, reply)
    (ack,) = platform.frames()
    assert ack.headers == (*frame.headers, ("biz_rt", "250"))
    assert ack[:4] == frame[:4]
    body = json.loads(ack.payload or b"")
    assert body["code"] == 200
    assert json.loads(base64.b64decode(body["data"])) == reply


def test_answer_with_nothing_to_say_still_holds_an_object() -> None:
    platform = Platform()
    platform.frames()
    (delivery,) = platform.deliver(event_frame(b"{}"))
    platform.client.answer(delivery, platform.now)
    (ack,) = platform.frames()
    assert json.loads(ack.payload or b"") == {"code": 200, "data": "e30="}


def test_answer_after_the_platforms_patience_is_not_sent() -> None:
    platform = Platform()
    platform.frames()
    (delivery,) = platform.deliver(event_frame(b"{}"))
    assert not platform.client.answer(delivery, platform.now + 3.1)
    assert platform.frames() == []


@settings(max_examples=examples(150), deadline=None)
@given(st.lists(st.binary(max_size=20), min_size=2, max_size=6), st.randoms())
def test_parts_in_any_order_make_one_message(parts: list[bytes], shuffle: Any) -> None:
    platform = Platform()
    total = str(len(parts))
    frames = [
        event_frame(part, sum=total, seq=str(number))
        for number, part in enumerate(parts)
    ]
    shuffle.shuffle(frames)
    (delivery,) = platform.deliver(*frames)
    assert delivery.payload == b"".join(parts)
    assert delivery.frame == frames[-1]


def test_parts_of_two_messages_do_not_mix() -> None:
    platform = Platform()
    a = [event_frame(b"a", sum="2", seq=n, message_id="a") for n in "01"]
    b = [event_frame(b"b", sum="2", seq=n, message_id="b") for n in "01"]
    deliveries = platform.deliver(a[0], b[1], b[0], a[1])
    assert [delivery.payload for delivery in deliveries] == [b"bb", b"aa"]


def test_parts_that_come_too_late_are_forgotten() -> None:
    platform = Platform()
    assert not platform.deliver(event_frame(b"a", sum="2", seq="0"))
    platform.now += lc.CHUNK_SECONDS + 1
    assert not platform.deliver(event_frame(b"b", sum="2", seq="1"))


def test_endless_parts_are_bounded() -> None:
    platform = Platform()
    for number in range(200):
        frame = event_frame(b"x" * 1000, sum="2", seq="0", message_id=str(number))
        platform.deliver(frame)
    assert len(platform.client._chunks) <= lc.MAX_OPEN_MESSAGES + 1
    large = b"x" * 500_000
    frames = [event_frame(large, sum="4", seq=n, message_id="l") for n in "0123"]
    assert platform.deliver(*frames) == []
    assert not platform.client.trouble


@every_row(
    "frame",
    [
        event_frame(b"x", sum="65", seq="0"),
        event_frame(b"x", sum="2", seq="2"),
        event_frame(b"x", "other"),
        Frame(method=2),
        Frame(method=CONTROL, headers=(("type", "ping"),)),
    ],
)
def test_frame_that_means_nothing_is_skipped(frame: Frame) -> None:
    platform = Platform()
    assert platform.deliver(frame, event_frame(b"good"))[0].payload == b"good"


def test_broken_frame_costs_itself_alone() -> None:
    platform = Platform()
    broken = platform.socket.send_message(b"\xff\xff")
    good = platform.socket.send_message(encode_frame(event_frame(b"good")))
    assert [d.payload for d in platform.feed(broken + good)] == [b"good"]


# The WebSocket below.


def test_ping_and_close_of_the_websocket_are_answered() -> None:
    platform = Platform()
    platform.sent()
    platform.feed(platform.socket.send_ping(b"x"))
    assert platform.sent() == [Pong(b"x")]
    platform.feed(platform.socket.send_close(1001))
    assert platform.client.trouble == "closed by Feishu with code 1001"
    other = WebSocket(client=False)
    other.receive_data(platform.client.data_to_send())
    assert other.next_event() == Close(1001, "")


def test_rule_broken_by_the_platform_ends_the_connection() -> None:
    platform = Platform()
    platform.sent()
    assert platform.feed(b"\xff\xff") == []
    assert platform.client.trouble
    assert platform.sent() == [Close(1002, "")]


def test_end_of_the_stream_is_the_end() -> None:
    platform = Platform()
    platform.feed(b"")
    assert platform.client.trouble == "closed by Feishu"
    assert isinstance(Ping(b""), Ping) and isinstance(Message(b"", True), Message)


# Liveness.


def test_ping_that_nothing_answers_ends_the_connection() -> None:
    platform = Platform()
    platform.pass_time(lc.PONG_SECONDS - 1)
    assert not platform.client.trouble
    platform.pass_time(1)
    assert platform.client.trouble == "Feishu answers no ping"


def test_card_is_followed_by_a_ping_and_the_oldest_unanswered_one_counts() -> None:
    platform = Platform()
    platform.deliver(PONG_FRAME)
    platform.frames()
    platform.client.watch(True, platform.now)
    assert [is_ping(frame) for frame in platform.frames()] == [True]
    platform.pass_time(15)
    platform.client.watch(True, platform.now)
    platform.pass_time(10)
    assert platform.client.trouble


def test_clock_that_jumped_means_the_machine_slept() -> None:
    platform = Platform()
    platform.deliver(PONG_FRAME)
    platform.pass_time(1, jump=JUMP_SECONDS + 1)
    assert platform.client.trouble == "the machine was asleep"


def test_small_step_of_the_clock_means_nothing() -> None:
    platform = Platform()
    platform.deliver(PONG_FRAME)
    platform.pass_time(1, jump=5)
    platform.pass_time(1, jump=-3600)
    assert not platform.client.trouble


def test_card_out_with_nothing_but_pongs_makes_it_deaf() -> None:
    platform = Platform()
    platform.client.watch(True, platform.now)
    for _ in range(4):
        platform.deliver(PONG_FRAME)
        platform.pass_time(5)
    assert platform.client.is_deaf(platform.now)
    assert not platform.client.trouble


def test_settled_card_ends_the_watch() -> None:
    platform = Platform()
    platform.client.watch(True, platform.now)
    platform.deliver(PONG_FRAME)
    platform.client.watch(False, platform.now)
    platform.now += lc.DEAF_SECONDS
    assert not platform.client.is_deaf(platform.now)


def test_event_shows_that_it_hears_and_the_watch_over_other_cards_goes_on() -> None:
    platform = Platform()
    platform.client.watch(True, platform.now)
    platform.deliver(PONG_FRAME)
    platform.now += lc.DEAF_SECONDS - 1
    platform.deliver(event_frame(b"{}"))
    platform.now += lc.DEAF_SECONDS - 1
    assert not platform.client.is_deaf(platform.now)
    platform.now += 1
    assert platform.client.is_deaf(platform.now)


def test_while_a_card_is_out_pings_are_frequent() -> None:
    """A connection that falls silent must not be found out by the next rare ping."""
    platform = Platform()
    platform.client.watch(True, platform.now)
    platform.deliver(PONG_FRAME)
    platform.frames()
    platform.pass_time(lc.CARD_PING_SECONDS)
    assert [is_ping(frame) for frame in platform.frames()] == [True]
    platform.client.watch(False, platform.now)
    platform.deliver(PONG_FRAME)
    platform.pass_time(lc.CARD_PING_SECONDS)
    platform.pass_time(lc.CARD_PING_SECONDS)
    assert platform.frames() == []


@settings(max_examples=examples(500), deadline=None)
@given(st.lists(st.binary(max_size=60), max_size=8))
def test_any_bytes_leave_it_alive_or_in_trouble(chunks: list[bytes]) -> None:
    platform = Platform()
    for chunk in chunks:
        platform.feed(chunk)
        platform.pass_time(1)
    assert isinstance(platform.client.trouble, str)
