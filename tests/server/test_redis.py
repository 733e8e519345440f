"""A connection to Redis on the loop: batches and their replies stay together."""

from __future__ import annotations

import socket
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from feishuperm.gateway import redis_store
from feishuperm.gateway.redis_store import RedisLine
from feishuperm.server.outgoing import UP
from tests.gateway.parts import done, kept
from tests.server.conftest import LoopDriver


class Near:
    """A line whose other end is a socket of ours."""

    def __init__(self, driver: LoopDriver) -> None:
        self.driver = driver
        self.far, near = socket.socketpair()
        self.line = RedisLine(driver.loop, lambda: near, lambda: None)
        self.replies: dict[str, Any] = {}
        self.line.start()
        driver.until(lambda: self.line.state == UP)

    def run(self, name: str, *parts: str) -> None:
        live = self.line.live
        promise = live.run([parts], 60.0) if live else kept(None)
        promise.then(lambda: self.replies.update({name: done(promise)}))


@pytest.fixture
def near(driver: LoopDriver) -> Iterator[Near]:
    near = Near(driver)
    yield near
    near.far.close()
    near.line.close()
    driver.step()


def test_replies_go_to_their_own_batches_however_they_come(near: Near) -> None:
    near.run("a", "GET", "a")
    near.run("b", "GET", "b")
    for byte in b"$1\r\na\r\n$1\r\nb\r\n":
        near.far.sendall(bytes([byte]))
    near.driver.until(lambda: len(near.replies) == 2)
    assert near.replies == {"a": [b"a"], "b": [b"b"]}


def test_command_that_cannot_be_written_takes_nobodys_reply(
    near: Near, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Or the next batch's reply would be its, and so on for ever."""

    def broken(*parts: Any) -> bytes:
        raise UnicodeEncodeError("utf-8", "", 0, 1, "half a character")

    with monkeypatch.context() as patch:
        patch.setattr(redis_store, "command", broken)
        with pytest.raises(UnicodeEncodeError):
            near.run("broken", "GET", "x")
    near.run("mine", "GET", "mine")
    near.far.sendall(b"$4\r\nmine\r\n")
    near.driver.until(lambda: "mine" in near.replies)
    assert near.replies == {"mine": [b"mine"]}


def test_reply_nobody_asked_for_ends_the_connection(near: Near) -> None:
    near.far.sendall(b"+OK\r\n")
    near.driver.until(lambda: near.line.state != UP)
    near.run("late", "GET", "x")
    assert near.replies == {"late": None}


def test_cut_connection_fails_what_was_on_its_way(near: Near) -> None:
    near.run("a", "GET", "a")
    near.run("b", "GET", "b")
    near.far.sendall(b"$1\r\na\r\n$1\r\n")
    near.far.close()
    near.driver.until(lambda: len(near.replies) == 2)
    assert near.replies == {"a": [b"a"], "b": None}


def test_error_of_a_broken_reply_is_kept_by_nobody_who_waited(near: Near) -> None:
    """It holds what came so far, which may be a hundred megabytes."""
    held: list[Any] = []
    promise = near.line.live.run([("GET", "a")], 60.0)
    promise.then(lambda: held.append(sys.exc_info()[1]))
    near.far.sendall(b"?\r\n")
    near.driver.until(lambda: len(held) == 1)
    assert held == [None] and near.line.state != UP
