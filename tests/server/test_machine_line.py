"""A machine's line to its gateway: dialled, watched, and given up only when told."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from feishuperm.errors import FeishupermError
from feishuperm.protocol.machine import GOING_AWAY, POLICY, TRY_LATER, MachineWire
from feishuperm.server.machine import LOOK_SECONDS, MachineLine
from feishuperm.server.outgoing import Backoff
from tests.server.conftest import LoopDriver

LONGEST = 40.0  # past any pause


class Gateway:
    """The other ends of the connections that were dialled."""

    def __init__(self, driver: LoopDriver) -> None:
        self.driver = driver
        self.problem: Exception | None = None
        self.rest = b""
        self.dialled = 0
        self.near: list[socket.socket] = []
        self.far: list[socket.socket] = []
        self.wires: list[MachineWire] = []
        self.messages: list[dict[str, Any]] = []
        self.changes: list[tuple[bool, str]] = []
        self.ahead = 0.0
        self.line = MachineLine(
            driver.loop, self.dial, self.messages.append,
            lambda up, detail: self.changes.append((up, detail)),
            lambda: driver.clock.seconds + self.ahead, Backoff(jitter=lambda: 1.0),
        )  # fmt: skip

    def dial(self) -> tuple[socket.socket, bytes]:
        self.dialled += 1
        if self.problem is not None:
            raise self.problem
        near, far = socket.socketpair()
        far.setblocking(False)
        self.near.append(near)
        self.far.append(far)
        self.wires.append(MachineWire(False, 0.0))
        return near, self.rest

    def up(self) -> None:
        """Start, and wait until it is connected."""
        before = self.changes.count((True, ""))
        self.line.start()
        self.driver.until(lambda: self.changes.count((True, "")) > before)

    def say(self, kind: str, **parts: Any) -> None:
        self.wires[-1].send(kind, **parts)
        self.far[-1].sendall(self.wires[-1].data_to_send())

    def end(self, code: int, reason: str) -> None:
        self.wires[-1].close(code, reason)
        self.far[-1].sendall(self.wires[-1].data_to_send())
        self.driver.until(lambda: not self.changes[-1][0])

    def heard(self) -> list[dict[str, Any]]:
        self.driver.step()
        self.wires[-1].receive_data(self.far[-1].recv(1 << 16), 0.0)
        return list(iter(self.wires[-1].next_event, None))

    def is_cut(self) -> bool:
        """Whether the machine has closed its socket."""
        try:
            return self.far[-1].recv(1 << 16) == b""
        except BlockingIOError:
            return False

    def close(self) -> None:
        self.line.close()
        self.driver.step()
        for sock in (*self.near, *self.far):  # one may just have been dialled
            sock.close()


@pytest.fixture
def gateway(driver: LoopDriver) -> Iterator[Gateway]:
    made = Gateway(driver)
    yield made
    made.close()


def test_messages_go_both_ways_once_it_is_up(gateway: Gateway) -> None:
    assert not gateway.line.send("early")
    gateway.up()
    assert gateway.line.send("login", machine="m-1")
    assert gateway.heard() == [{"t": "login", "machine": "m-1"}]
    gateway.say("welcome", name="box")
    gateway.driver.until(lambda: gateway.messages)
    assert gateway.messages == [{"t": "welcome", "name": "box"}]


def test_what_came_behind_the_handshake_is_heard(gateway: Gateway) -> None:
    wire = MachineWire(False, 0.0)
    wire.send("hello", nonce="n")
    gateway.rest = wire.data_to_send()
    gateway.up()
    assert gateway.messages == [{"t": "hello", "nonce": "n"}]


@pytest.mark.parametrize(
    "problem", [OSError("no route"), FeishupermError("no gateway")]
)
def test_gateway_that_cannot_be_reached_is_told_and_looked_for_again(
    gateway: Gateway, problem: Exception
) -> None:
    gateway.problem = problem
    gateway.line.start()
    gateway.driver.until(lambda: gateway.changes)
    assert gateway.changes == [(False, str(problem))]
    gateway.problem = None
    gateway.driver.clock.seconds += LONGEST
    gateway.driver.until(lambda: gateway.changes[-1] == (True, ""))


def test_pauses_grow_and_start_anew_once_a_login_worked(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses: list[float] = []
    failed = gateway.line._backoff.failed

    def remembered() -> float:
        pauses.append(failed())
        return pauses[-1]

    monkeypatch.setattr(gateway.line._backoff, "failed", remembered)
    gateway.problem = OSError("away")
    gateway.line.start()
    for count in range(1, 9):
        gateway.driver.until(lambda count=count: len(pauses) == count)  # type: ignore[misc]
        gateway.driver.clock.seconds += LONGEST
    assert pauses[:3] == [0.5, 1.0, 2.0] and pauses[-1] == 30.0
    gateway.line.worked()
    gateway.driver.until(lambda: len(pauses) == 9)
    assert pauses[-1] == 0.5


def test_gateway_that_goes_away_is_looked_for_at_once(gateway: Gateway) -> None:
    gateway.up()
    gateway.end(GOING_AWAY, "the gateway stops")
    assert gateway.changes[-1] == (False, "the gateway stops")
    gateway.driver.clock.seconds += 0.5
    gateway.driver.until(lambda: gateway.changes[-1] == (True, ""))
    assert gateway.dialled == 2


def test_refusal_is_named_and_tried_again_less_and_less_often(
    gateway: Gateway,
) -> None:
    gateway.line._refusals = Backoff(5.0, 300.0, lambda: 1.0)
    gateway.up()
    for number in range(8):
        gateway.end(POLICY, "wrong key")
        assert gateway.changes[-1][1] == "the gateway refuses this machine: wrong key"
        pause = min(300.0, 5.0 * 2**number)
        gateway.driver.advance(pause - 1)
        assert gateway.dialled == number + 1
        gateway.driver.clock.seconds += 1
        gateway.driver.until(lambda: gateway.changes[-1] == (True, ""))
        gateway.line.worked()
    gateway.driver.clock.seconds += 301
    gateway.line._live.wire._heard = gateway.driver.clock.seconds  # type: ignore[union-attr]
    gateway.end(POLICY, "wrong key")
    gateway.driver.clock.seconds += 5
    gateway.driver.until(lambda: gateway.changes[-1] == (True, ""))


def test_machine_whose_key_is_used_elsewhere_comes_back_after_minutes(
    gateway: Gateway,
) -> None:
    gateway.up()
    gateway.end(POLICY, "replaced by a newer connection")
    gateway.driver.advance(299)
    assert gateway.dialled == 1
    gateway.driver.clock.seconds += 1
    gateway.driver.until(lambda: gateway.changes[-1] == (True, ""))


def test_dead_gateway_is_found_within_seconds_while_a_card_is_out(
    gateway: Gateway,
) -> None:
    gateway.up()
    gateway.driver.advance(30)
    assert gateway.changes[-1][0], "an idle one may be silent"
    gateway.line.watch(True)
    seconds = 0.0
    while gateway.changes[-1][0]:
        gateway.driver.advance(LOOK_SECONDS)
        gateway.line.watch(False)  # the request ended: its ping is not answered yet
        seconds += LOOK_SECONDS
    assert seconds <= 14
    gateway.driver.clock.seconds += LONGEST
    gateway.driver.until(lambda: gateway.changes[-1] == (True, ""))
    gateway.line.watch(True)
    for _ in range(20):  # a living one answers
        gateway.driver.advance(LOOK_SECONDS)
        gateway.heard()
        gateway.far[-1].sendall(gateway.wires[-1].data_to_send())
        gateway.driver.step()
    assert gateway.changes[-1][0]


def test_machine_that_was_revoked_stays_away(gateway: Gateway) -> None:
    gateway.up()
    gateway.end(POLICY, "revoked")
    assert gateway.changes[-1] == (False, "the gateway has revoked this machine")
    gateway.driver.advance(LONGEST)
    gateway.line.start()
    gateway.driver.step()
    assert gateway.dialled == 1


def test_busy_gateway_and_a_cut_line_are_tried_again(gateway: Gateway) -> None:
    gateway.up()
    gateway.end(TRY_LATER, "not ready")
    gateway.driver.clock.seconds += LONGEST
    gateway.driver.until(lambda: gateway.changes[-1] == (True, ""))
    gateway.far[-1].close()
    gateway.driver.until(lambda: not gateway.changes[-1][0])
    assert gateway.changes[-1] == (False, "the connection was cut")
    gateway.driver.clock.seconds += LONGEST
    gateway.driver.until(lambda: gateway.changes[-1] == (True, ""))


def test_tap_that_lay_in_the_socket_of_a_sleeping_machine_is_not_taken(
    gateway: Gateway,
) -> None:
    gateway.up()
    gateway.say("tap", tap="t1")
    gateway.ahead += 3600  # the lid was closed
    gateway.driver.until(lambda: not gateway.changes[-1][0])
    assert gateway.messages == [] and "slept" in gateway.changes[-1][1]


def test_gateway_that_says_nothing_for_a_minute_is_dead(gateway: Gateway) -> None:
    gateway.up()
    seconds = 0.0
    while gateway.changes[-1][0]:
        gateway.driver.advance(LOOK_SECONDS)
        seconds += LOOK_SECONDS
    assert 60 <= seconds <= 70
    assert "does not answer" in gateway.changes[-1][1]


def test_connection_of_no_use_is_dropped_and_replaced(gateway: Gateway) -> None:
    gateway.up()
    gateway.line.drop("it lies")
    gateway.driver.until(lambda: not gateway.changes[-1][0])
    assert gateway.changes[-1] == (False, "it lies")
    gateway.driver.clock.seconds += LONGEST
    gateway.driver.until(lambda: gateway.changes[-1] == (True, ""))


def test_closed_line_says_goodbye_and_nothing_after_it(gateway: Gateway) -> None:
    gateway.up()
    gateway.line.close()
    gateway.heard()
    assert gateway.wires[-1].code == GOING_AWAY
    gateway.far[-1].close()
    gateway.driver.advance(LONGEST)
    assert gateway.dialled == 1 and gateway.changes == [(True, "")]


def test_line_that_was_closed_while_it_dialled_keeps_no_socket(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    go, dial = threading.Event(), gateway.dial
    monkeypatch.setattr(gateway.line, "_dial", lambda: (go.wait(10), dial())[1])
    gateway.line.start()
    gateway.line.close()
    go.set()
    gateway.driver.until(lambda: gateway.far)
    gateway.driver.until(gateway.is_cut)
    assert gateway.changes == []


def test_gateway_that_sends_faster_than_it_is_read_waits_in_its_own_buffer(
    gateway: Gateway,
) -> None:
    """A few messages in a turn, in order, whatever comes; none is lost at the end."""
    gateway.up()
    count = 300
    for number in range(count):
        gateway.wires[-1].send("tap", number=number)
    gateway.far[-1].sendall(gateway.wires[-1].data_to_send())
    gateway.far[-1].close()
    gateway.driver.step()
    assert 0 < len(gateway.messages) <= 8
    gateway.driver.until(lambda: not gateway.changes[-1][0])
    assert [message["number"] for message in gateway.messages] == [*range(count)]
