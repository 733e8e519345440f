"""The long connection on the loop: dialled by a fake, spoken by the real protocol."""

from __future__ import annotations

import json
import select
import socket
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from feishuperm.protocol.long_connection import (
    DATA,
    Delivery,
    Endpoint,
    Frame,
    Refusal,
    decode_frame,
    encode_frame,
)
from feishuperm.protocol.websocket import Close, Message, WebSocket
from feishuperm.server.outgoing import (
    CLOSED,
    FRESH_SECONDS,
    LOOK_SECONDS,
    REPAIR_SECONDS,
    UP,
    WAITING,
    Backoff,
    Link,
)
from tests.server.conftest import LoopDriver

ENDPOINT = Endpoint("wss://x/?service_id=7", 7, 120.0)
WALL = 1_000_000.0


class Far:
    """The platform's end of one connection."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.sock.setblocking(False)
        self.socket = WebSocket(client=False)

    def read(self) -> list[Any]:
        """Everything that arrived."""
        try:
            self.socket.receive_data(self.sock.recv(1 << 20))
        except BlockingIOError:
            pass
        events = []
        event = self.socket.next_event()
        while event is not None:
            events.append(event)
            event = self.socket.next_event()
        return events

    def acks(self) -> list[Frame]:
        frames = [decode_frame(e.data) for e in self.read() if isinstance(e, Message)]
        return [frame for frame in frames if frame.method == DATA]

    def push(self, payload: bytes) -> None:
        headers = (("type", "event"), ("sum", "1"), ("seq", "0"), ("message_id", "m"))
        frame = Frame(1, 2, 7, DATA, headers, payload=payload)
        self.sock.send(self.socket.send_message(encode_frame(frame)))

    def pong(self) -> None:
        frame = Frame(headers=(("type", "pong"),))
        self.sock.send(self.socket.send_message(encode_frame(frame)))


class World:
    """A link, its loop and clock, and whoever it dials."""

    def __init__(self, driver: LoopDriver) -> None:
        self.driver = driver
        self.failures: list[Exception] = []
        self.far: list[Far] = []
        self.deliveries: list[bytes] = []
        self.reply: dict[str, Any] = {}
        self.answered: list[bool] = []
        self.dials = 0
        self.jump = 0.0
        self.hold = threading.Event()
        self.hold.set()
        self.rest = b""
        self.link = Link(
            driver.loop,
            self.dial,
            self.deliver,
            wall=lambda: driver.clock() + WALL + self.jump,
            backoff=Backoff(jitter=lambda: 1.0),
        )

    def dial(self) -> tuple[socket.socket, bytes, Endpoint]:
        self.hold.wait(10)
        self.dials += 1
        if self.failures:
            raise self.failures.pop(0)
        near, far = socket.socketpair()
        self.far.append(Far(far))
        return near, self.rest, ENDPOINT

    def deliver(self, delivery: Delivery, answer: Callable[[Any], bool]) -> None:
        self.deliveries.append(delivery.payload)
        self.answered.append(answer(self.reply))

    def up(self) -> Far:
        self.driver.until(lambda: self.link.state == UP)
        return self.far[-1]

    def pass_time(self, seconds: float) -> None:
        """In steps, as the loop's own timer looks at it."""
        while seconds > 0:
            step = min(seconds, LOOK_SECONDS)
            self.driver.advance(step)
            seconds -= step


@pytest.fixture
def world(driver: LoopDriver) -> Iterator[World]:
    world = World(driver)
    world.link.start()
    yield world
    world.hold.set()
    world.link.close()
    driver.until(lambda: not world.link._is_dialling)
    for far in world.far:
        far.sock.close()
    assert driver.errors == []


def test_connection_pings_and_answers_what_it_is_brought(world: World) -> None:
    far = world.up()
    assert world.link.since == world.driver.clock() + WALL
    world.reply = {"toast": {"type": "success", "content": "x"}}
    far.push(b'{"tap":1}')
    world.driver.until(lambda: world.deliveries)
    assert world.deliveries == [b'{"tap":1}'] and world.answered == [True]
    (ack,) = far.acks()
    assert json.loads(ack.payload or b"")["code"] == 200


def test_bytes_that_came_with_the_handshake_are_not_lost(driver: LoopDriver) -> None:
    world = World(driver)
    frame = Frame(1, 2, 7, DATA, (("type", "event"),), payload=b"early")
    world.rest = WebSocket(client=False).send_message(encode_frame(frame))
    world.link.start()
    world.up()
    assert world.deliveries == [b"early"]
    world.link.close()
    world.far[0].sock.close()


def test_cut_connection_is_dialled_again_soon(world: World) -> None:
    far = world.up()
    far.sock.close()
    world.driver.until(lambda: world.link.state == WAITING)
    world.driver.advance(0.5)
    assert world.up() is not far
    assert world.dials == 2


def test_failures_wait_longer_each_time_and_success_forgets_them(
    world: World,
) -> None:
    far = world.up()
    world.failures = [OSError("h: refused")] * 3
    far.sock.close()
    world.driver.until(lambda: world.link.state == WAITING)
    for wait in (0.5, 1.0, 2.0):
        dials = world.dials
        world.driver.advance(wait)
        world.driver.until(lambda dials=dials: world.dials > dials)  # type: ignore[misc]
        world.driver.until(lambda: world.link.state == WAITING)
        assert world.link.detail == "h: refused"
    world.driver.advance(4.0)
    world.up()


def test_dialling_that_breaks_in_any_way_is_tried_again(
    driver: LoopDriver, capsys: pytest.CaptureFixture[str]
) -> None:
    world = World(driver)
    world.failures = [ValueError("wss://x/?ticket=secret")]
    world.link.start()
    driver.until(lambda: world.link.state == WAITING and world.dials == 1)
    assert world.link.detail == "cannot dial: ValueError"
    driver.advance(1)
    world.up()
    world.link.close()
    world.far[0].sock.close()
    assert "secret" not in "".join(capsys.readouterr())


def test_refusal_that_a_person_must_mend_is_not_hammered(driver: LoopDriver) -> None:
    world = World(driver)
    world.failures = [
        Refusal("FEISHU_APP_ID or FEISHU_APP_SECRET is wrong", 10015, fatal=True)
    ]
    world.link.start()
    driver.until(lambda: world.link.state == WAITING and world.dials == 1)
    assert world.link.detail == "FEISHU_APP_ID or FEISHU_APP_SECRET is wrong"
    driver.advance(REPAIR_SECONDS - 1)
    assert world.dials == 1
    driver.advance(1)
    world.up()
    world.link.close()
    world.far[0].sock.close()


def test_silent_connection_is_given_up(world: World) -> None:
    world.up()
    world.pass_time(30)
    world.driver.until(lambda: len(world.far) == 2)


def test_sleep_is_noticed_by_the_clock(world: World) -> None:
    far = world.up()
    far.pong()
    world.driver.step()
    world.jump = 300.0
    world.pass_time(LOOK_SECONDS)
    assert world.link.detail == "the machine was asleep"


def test_deaf_connection_is_replaced_before_it_goes(world: World) -> None:
    old = world.up()
    world.hold.clear()
    world.link.watch(True)
    for _ in range(5):
        old.pong()
        world.pass_time(5)
    assert world.link.state == UP  # the old one stays until the new one is there
    old.push(b"late")
    world.driver.until(lambda: world.deliveries)
    world.hold.set()
    world.driver.until(lambda: len(world.far) == 2)
    new = world.up()
    world.driver.until(lambda: any(isinstance(e, Close) for e in old.read()))
    new.push(b"new")
    world.driver.until(lambda: world.deliveries[-1] == b"new")


def test_fresh_connection_is_made_once_a_minute_at_most(world: World) -> None:
    world.up()
    for second in range(0, int(FRESH_SECONDS) + 40, 5):
        world.link.watch(True)
        world.far[-1].pong()
        world.pass_time(5)
        world.driver.until(lambda: not world.link._is_dialling)
        if second < FRESH_SECONDS + 15:
            assert world.dials <= 2
    assert world.dials == 3


def test_silence_while_a_card_is_out_is_noticed_whatever_came_before(
    world: World,
) -> None:
    """Half-open right after a fresh connection, which is not made again so soon."""
    world.link.watch(True)
    world.up().push(b"a tap on another card")
    world.driver.until(lambda: world.deliveries)
    for _ in range(5):
        world.far[-1].pong()
        world.pass_time(5)
    world.driver.until(lambda: len(world.far) == 2 and not world.link._is_dialling)
    world.pass_time(30.5)
    world.driver.until(lambda: len(world.far) == 3)


@pytest.mark.parametrize("moment", [0.0, 0.2, 2.5, 4.9])
def test_silence_after_a_card_is_noticed_wherever_the_looks_fall(
    world: World, moment: float
) -> None:
    """Within 35 s, and the way back takes half a second of them."""
    far = world.up()
    far.pong()
    world.driver.advance(moment)
    world.link.watch(True)
    far.pong()
    world.driver.step()
    world.link._freshened = world.driver.clock()  # no fresh connection in this minute
    world.pass_time(LOOK_SECONDS - moment)
    world.pass_time(29.5)
    world.driver.until(lambda: len(world.far) == 2)


def test_new_connection_knows_nothing_waits_any_more(world: World) -> None:
    far = world.up()
    world.link.watch(True)
    far.sock.close()
    world.driver.until(lambda: world.link.state == WAITING)
    world.link.watch(False)
    world.driver.advance(0.5)
    far = world.up()
    far.pong()
    world.driver.step()
    far.read()
    world.pass_time(30)
    assert far.read() == [] and world.dials == 2


def test_failed_replacement_leaves_the_old_connection_up(world: World) -> None:
    far = world.up()
    world.failures = [OSError("h: refused")]
    world.link.watch(True)
    for _ in range(5):
        far.pong()
        world.pass_time(5)
    world.driver.until(lambda: world.dials == 2)
    world.driver.step()
    assert world.link.state == UP
    far.push(b"x")
    world.driver.until(lambda: world.deliveries)


def test_connection_that_ends_while_its_replacement_fails_is_dialled_again(
    world: World,
) -> None:
    """Whichever of the two ends comes last, somebody has to try again."""
    far = world.up()
    world.hold.clear()
    world.link.start()
    far.sock.close()
    world.driver.until(lambda: world.link.state == WAITING)
    world.driver.advance(30)  # its own next try finds the other on its way
    world.failures = [OSError("h: refused")]
    world.hold.set()
    world.driver.until(lambda: world.link.detail == "h: refused")
    world.driver.advance(30)
    world.up()
    assert world.dials == 3


def test_replacement_that_was_quicker_than_the_next_try_stays(world: World) -> None:
    far = world.up()
    world.hold.clear()
    world.link.start()
    far.sock.close()
    world.driver.until(lambda: world.link.state == WAITING)
    world.hold.set()
    world.up()
    world.driver.advance(30)
    assert world.dials == 2 and not world.link._is_dialling


def test_answer_to_a_connection_that_is_gone_says_so(world: World) -> None:
    far = world.up()
    late: list[Callable[[Any], bool]] = []
    world.link._on_delivery = lambda delivery, answer: late.append(answer)
    far.push(b"x")
    world.driver.until(lambda: late)
    far.sock.close()
    world.driver.until(lambda: world.link.state == WAITING)
    assert late[0]({}) is False


def test_closed_link_stays_closed(driver: LoopDriver) -> None:
    world = World(driver)
    world.hold.clear()
    world.link.start()
    world.link.close()
    world.hold.set()
    driver.until(lambda: world.far)
    far = world.far[0].sock
    driver.until(lambda: select.select([far], [], [], 0)[0])
    assert far.recv(1) == b"" and world.link.state == CLOSED
    far.close()
