"""The loop: order, deadlines, wake-ups, and failures that stay where they happen."""

from __future__ import annotations

import os
import resource
import signal
import socket
import subprocess
import sys
import threading

import pytest

from feishuperm.server import loop as loop_module
from feishuperm.server.loop import (
    READ,
    Handler,
    Loop,
    caps,
    gateway_caps,
    raise_file_limit,
)
from tests.server.conftest import LoopDriver
from tests.tables import every_row


class Reader(Handler):
    """Reads what comes; may be told to do something else first."""

    def __init__(self, driver: LoopDriver) -> None:
        self.driver = driver
        self.sock, self.peer = socket.socketpair()
        self.sock.setblocking(False)
        self.seen: list[bytes] = []
        self.failed = 0
        self.action = lambda: None
        driver.loop.watch(self.sock.fileno(), READ, self)

    def handle(self, mask: int) -> None:
        self.action()
        self.seen.append(self.sock.recv(100))

    def fail(self) -> None:
        self.failed += 1
        self.close()

    def close(self) -> None:
        if self.sock.fileno() >= 0:
            self.driver.loop.watch(self.sock.fileno(), 0, self)
        self.sock.close()
        self.peer.close()


def test_timers_run_in_the_order_of_their_moments(driver: LoopDriver) -> None:
    calls: list[str] = []
    for when, name in ((3, "c"), (1, "a"), (1, "b"), (9, "late")):
        driver.loop.call_at(1000.0 + when, lambda name=name: calls.append(name))
    driver.step()
    assert calls == []
    driver.advance(1)
    assert calls == ["a", "b"]
    driver.advance(7.999)
    assert calls == ["a", "b", "c"]


def test_cancelled_timer_is_not_called_and_may_be_cancelled_again(
    driver: LoopDriver,
) -> None:
    calls: list[int] = []
    timer = driver.loop.call_at(1001.0, lambda: calls.append(1))
    timer.cancel()
    timer.cancel()
    fired = driver.loop.call_at(1001.0, lambda: calls.append(2))
    driver.advance(1)
    fired.cancel()
    assert calls == [2]


def test_timer_that_cancels_another_due_one_wins(driver: LoopDriver) -> None:
    calls: list[int] = []
    driver.loop.call_at(1001.0, lambda: second.cancel())
    second = driver.loop.call_at(1001.0, lambda: calls.append(2))
    driver.advance(1)
    assert calls == []


def test_thousands_of_cancelled_timers_are_forgotten(driver: LoopDriver) -> None:
    keep = driver.loop.call_at(5000.0, lambda: None)
    for _ in range(10_000):
        driver.loop.call_at(9000.0, lambda: None).cancel()
    assert len(driver.loop._timers) <= 2 * loop_module.MIN_CANCELLED
    for _ in range(10_000):
        driver.loop.call_at(1000.0, lambda: None).cancel()
        driver.step()
    assert len(driver.loop._timers) <= 2 * loop_module.MIN_CANCELLED
    keep.cancel()


def test_timer_that_sets_itself_again_lets_the_round_end(driver: LoopDriver) -> None:
    calls: list[float] = []

    def again() -> None:
        calls.append(driver.clock())
        driver.loop.call_at(driver.clock(), again)

    again()
    driver.step()
    driver.step()
    assert len(calls) == 3


def test_the_loop_sleeps_until_the_nearest_deadline(driver: LoopDriver) -> None:
    assert driver.loop._timeout() is None
    driver.loop.call_at(1030.0, lambda: None)
    driver.loop.call_at(1004.5, lambda: None)
    assert driver.loop._timeout() == 4.5
    driver.clock.seconds = 2000.0
    assert driver.loop._timeout() == 0


def test_exception_in_a_timer_is_reported_and_the_others_run(
    driver: LoopDriver,
) -> None:
    calls: list[int] = []
    driver.loop.call_at(1000.0, lambda: 1 // 0)
    driver.loop.call_at(1000.0, lambda: calls.append(1))
    driver.step()
    assert calls == [1]
    assert [type(error) for error in driver.errors] == [ZeroDivisionError]


def test_exception_in_one_handler_costs_only_its_own_connection(
    driver: LoopDriver,
) -> None:
    bad, good = Reader(driver), Reader(driver)
    bad.action = lambda: 1 // 0  # type: ignore[assignment, return-value]
    for reader in (bad, good):
        reader.peer.send(b"x")
    driver.until(lambda: good.seen)
    assert (bad.failed, bad.seen, good.seen, good.failed) == (1, [], [b"x"], 0)
    assert [type(error) for error in driver.errors] == [ZeroDivisionError]
    good.close()


def slow(driver: LoopDriver) -> None:
    driver.clock.seconds += loop_module.PART_SECONDS * 1.5


def test_crowd_of_sockets_holds_up_neither_timers_nor_each_other(
    driver: LoopDriver,
) -> None:
    readers = [Reader(driver) for _ in range(4)]
    order: list[object] = []
    for reader in readers:
        reader.peer.send(b"x" * 1000)  # always ready again
        reader.action = lambda reader=reader: (  # type: ignore[assignment]
            order.append(readers.index(reader)),
            slow(driver),
        )
    driver.loop.call_at(1000.0, lambda: order.append("timer"))
    for _ in range(8):
        driver.step()
    served = [entry for entry in order if entry != "timer"]
    assert order[1] == "timer"
    assert sorted(served[:4]) == [0, 1, 2, 3]
    assert served[4:] == served[:4]
    for reader in readers:
        reader.close()


def test_crowd_of_timers_holds_up_no_socket(driver: LoopDriver) -> None:
    reader = Reader(driver)
    calls: list[int] = []
    for number in range(5):
        driver.loop.call_at(
            1000.0, lambda number=number: (calls.append(number), slow(driver))
        )
    driver.step()
    assert calls == [0]
    reader.peer.send(b"x")
    driver.step()
    assert reader.seen == [b"x"]
    for _ in range(3):
        driver.step()
    assert calls == [0, 1, 2, 3, 4]
    reader.close()


def test_what_asks_for_another_turn_gets_it_without_a_descriptor(
    driver: LoopDriver,
) -> None:
    class Again(Handler):
        left = 3
        failed = 0

        def handle(self, mask: int) -> None:
            assert mask == 0
            self.left -= 1
            if self.left:
                driver.loop.again(self)
            else:
                raise ZeroDivisionError

        def fail(self) -> None:
            self.failed += 1

    again = Again()
    driver.loop.again(again)
    assert driver.loop._timeout() == 0
    for left in (2, 1, 0):
        driver.loop.tick()
        assert again.left == left
    assert again.failed == 1
    assert driver.loop._timeout() is None
    assert driver.loop.longest == 0.0


def test_longest_turn_is_remembered(driver: LoopDriver) -> None:
    for seconds in (0.2, 0.7, 0.1):
        driver.loop.call_at(
            driver.clock(), lambda seconds=seconds: driver.advance(seconds)
        )
        driver.step()
    assert driver.loop.longest >= 0.7


def test_handler_closed_earlier_in_the_round_is_not_called(driver: LoopDriver) -> None:
    first, second = Reader(driver), Reader(driver)
    first.action, second.action = second.close, first.close
    first.peer.send(b"x")
    second.peer.send(b"x")
    driver.step()
    driver.step()
    assert len(first.seen) + len(second.seen) == 1
    assert driver.errors == []
    first.close()
    second.close()


def test_new_owner_of_a_reused_descriptor_gets_no_stale_event(
    driver: LoopDriver,
) -> None:
    first, second = Reader(driver), Reader(driver)
    calls: list[str] = []

    class Stranger(Handler):
        def handle(self, mask: int) -> None:
            calls.append("stale")

    quiet, other_end = socket.socketpair()

    def replace(victim: Reader) -> None:
        number = victim.sock.fileno()
        victim.close()
        os.dup2(quiet.fileno(), number)
        driver.loop.watch(number, READ, Stranger())

    first.action, second.action = lambda: replace(second), lambda: replace(first)
    numbers = {first.sock.fileno(), second.sock.fileno()}
    first.peer.send(b"x")
    second.peer.send(b"x")
    driver.step()
    assert len(first.seen) + len(second.seen) == 1
    assert calls == []
    for reader in (first, second):
        numbers.discard(reader.sock.fileno())
        reader.close()
    for number in numbers:
        driver.loop.watch(number, 0, Stranger())
        os.close(number)
    quiet.close()
    other_end.close()


def test_call_from_another_thread_wakes_the_loop(driver: LoopDriver) -> None:
    seen: list[threading.Thread] = []

    def call() -> None:
        seen.append(threading.current_thread())
        driver.loop.stop()

    thread = threading.Thread(target=driver.loop.call_soon_threadsafe, args=(call,))
    driver.loop.call_soon_threadsafe(thread.start)
    driver.loop.run()
    thread.join()
    assert seen == [threading.current_thread()]


def test_thousands_of_posted_calls_all_run_once(driver: LoopDriver) -> None:
    calls: list[int] = []
    for number in range(20_000):
        driver.loop.call_soon_threadsafe(lambda number=number: calls.append(number))
    driver.step()
    assert calls == list(range(20_000))


def test_posting_to_a_closed_loop_is_harmless() -> None:
    loop = Loop(print)
    loop.close()
    loop.call_soon_threadsafe(lambda: None)


def test_signal_runs_its_function_on_the_loop_and_is_given_back(
    driver: LoopDriver,
) -> None:
    before = signal.getsignal(signal.SIGTERM)
    loop = Loop(driver.errors.append)
    loop.on_signal(signal.SIGTERM, loop.stop)
    threading.Thread(target=os.kill, args=(os.getpid(), signal.SIGTERM)).start()
    loop.run()
    loop.close()
    assert signal.getsignal(signal.SIGTERM) == before
    assert signal.set_wakeup_fd(-1) == -1
    assert driver.errors == []


def test_file_limit_is_raised_to_the_hard_limit_and_never_lowered() -> None:
    code = (
        "import resource as r; from feishuperm.server.loop import raise_file_limit\n"
        "r.setrlimit(r.RLIMIT_NOFILE, (100, 300))\n"
        "print(raise_file_limit(), *r.getrlimit(r.RLIMIT_NOFILE))\n"
        "print(raise_file_limit())"
    )
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60
    )
    assert run.stdout.split() == ["300", "300", "300", "300"], run.stderr


def test_file_limit_that_cannot_be_raised_stays(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    infinity = resource.RLIM_INFINITY
    tried: list[int] = []

    def refuse(_which: int, limits: tuple[int, int]) -> None:
        tried.append(limits[0])
        raise ValueError

    monkeypatch.setattr(resource, "getrlimit", lambda _which: (256, infinity))
    monkeypatch.setattr(resource, "setrlimit", refuse)
    assert raise_file_limit() == 256
    assert tried == [infinity, loop_module.MACOS_FILE_LIMIT]


@every_row("limit", [16, 64, 256, 1024, 20_000, 1 << 20, sys.maxsize])
def test_caps_leave_files_for_everything_else(limit: int) -> None:
    hooks, http = caps(limit)
    assert hooks >= 1
    assert http >= 1
    assert hooks + http <= max(2, limit - loop_module.SPARE_FILES)


@every_row("limit", [16, 64, 256, 1024, 20_000, 1 << 20, sys.maxsize])
def test_gateway_keeps_files_for_cards_and_engine(limit: int) -> None:
    caps = gateway_caps(limit)
    assert min(caps) >= 1
    assert sum(caps) <= max(8, limit - loop_module.GATEWAY_FILES)
    assert limit < 1024 or caps.machines >= 500


def test_ten_thousand_hooks_fit_under_the_limit_of_this_kind_of_machine() -> None:
    assert caps(20_000)[0] >= 10_000
