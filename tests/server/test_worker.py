"""The worker: results come back on the loop, whatever happened in the thread."""

from __future__ import annotations

import threading

import pytest

from feishuperm.server.worker import Worker
from tests.server.conftest import LoopDriver


def test_result_comes_back_on_the_thread_of_the_loop(driver: LoopDriver) -> None:
    worker = Worker(driver.loop)
    got: list[tuple[object, threading.Thread]] = []
    worker.submit(
        threading.current_thread,
        lambda result: got.append((result, threading.current_thread())),
    )
    driver.until(lambda: got)
    [(ran_in, done_in)] = got
    assert ran_in is not threading.current_thread()
    assert done_in is threading.current_thread()
    assert worker.close(10)


def test_exception_comes_back_as_the_result(driver: LoopDriver) -> None:
    worker = Worker(driver.loop)
    got: list[object] = []
    worker.submit(lambda: 1 // 0, got.append)
    worker.submit(lambda: "next", got.append)
    driver.until(lambda: len(got) == 2)
    assert isinstance(got[0], ZeroDivisionError)
    assert got[1] == "next"
    assert driver.errors == []
    assert worker.close(10)


def test_one_thread_keeps_the_order(driver: LoopDriver) -> None:
    worker = Worker(driver.loop)
    got: list[int] = []
    for number in range(100):
        worker.submit(lambda number=number: number, got.append)
    driver.until(lambda: len(got) == 100)
    assert got == list(range(100))
    assert worker.close(10)


def test_second_thread_goes_on_while_the_first_is_stuck(driver: LoopDriver) -> None:
    worker = Worker(driver.loop, threads=2)
    stuck = threading.Event()
    got: list[object] = []
    worker.submit(lambda: stuck.wait(30), got.append)
    worker.submit(lambda: "free", got.append)
    driver.until(lambda: got)
    assert got == ["free"]
    assert not worker.close(0)
    stuck.set()
    assert worker.close(10)


def test_close_finishes_what_is_queued_and_takes_no_more(driver: LoopDriver) -> None:
    worker = Worker(driver.loop)
    got: list[object] = []
    for number in range(10):
        worker.submit(lambda number=number: number, got.append)
    assert worker.close(10)
    driver.step()
    assert got == list(range(10))
    with pytest.raises(RuntimeError):
        worker.submit(print, print)
