"""A wait in a thread that its owner can end."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from feishuperm import wire
from feishuperm.hooks import agent_run as module
from feishuperm.hooks.agent_run import Wait
from feishuperm.lib.control import NotRunningError

Ask = Callable[..., bytes]


class FakeSocket:
    def __init__(self) -> None:
        self.calls: list[str] = []

    def shutdown(self, how: int) -> None:
        self.calls.append("shutdown")

    def close(self) -> None:
        self.calls.append("close")


class Bench:
    """A wait whose relay is the test's own."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.patch = patch
        self.sock = FakeSocket()
        self.wait = Wait()
        self.asked: list[Any] = []
        patch.setattr(module.wire, "connect", lambda path: self.sock)

    def ask(self, relay: Ask) -> bytes:
        def told(*parts: Any) -> bytes:
            self.asked.append(parts)
            return relay(*parts)

        self.patch.setattr(module.wire, "ask", told)
        return self.wait.ask(b"{}", "/s.sock", "/p")


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Bench:
    return Bench(monkeypatch)


def decided(*parts: Any) -> bytes:
    _, path, _, _, guard, to, _ = parts
    to(path)
    guard(wire.ACK_SECONDS)
    guard(57)
    return b"allowed"


def test_decision_comes_back_and_the_socket_is_closed(bench: Bench) -> None:
    assert bench.ask(decided) == b"allowed"
    raw, path, _, project, *_ = bench.asked[0]
    assert (raw, path, project) == (b"{}", b"/s.sock", b"/p")
    assert bench.sock.calls == ["close"]


def test_deadline_is_that_of_the_last_word_of_the_server(bench: Bench) -> None:
    assert bench.wait.deadline == float("inf")
    began = time.monotonic()
    bench.ask(decided)
    assert began + 56 < bench.wait.deadline < time.monotonic() + 58


def test_request_counts_as_seen_once_the_server_has_it(bench: Bench) -> None:
    def sent_only(*parts: Any) -> bytes:
        guard = parts[4]
        guard(wire.ACK_SECONDS)
        assert not bench.wait.registered
        guard(57)
        guard(wire.ACK_SECONDS)  # it reconnects: somebody may still see it
        assert bench.wait.registered
        return b""

    assert bench.ask(sent_only) == b""


def test_no_server_is_an_error_and_no_permission_request_is_none(bench: Bench) -> None:
    def gone(*parts: Any) -> bytes:
        raise wire.NoServer

    with pytest.raises(NotRunningError):
        bench.ask(gone)

    def other(*parts: Any) -> bytes:
        raise wire.NotPermission

    assert bench.ask(other) == b""


def test_wait_that_is_ended_while_it_connects_leaves_no_connection(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    def connect(path: bytes) -> FakeSocket:
        bench.wait.cancel()
        return bench.sock

    monkeypatch.setattr(module.wire, "connect", connect)
    with pytest.raises(NotRunningError):
        bench.ask(decided)
    assert bench.sock.calls == ["close"]


def test_owner_ends_the_wait_by_the_connection(bench: Bench) -> None:
    def ended(*parts: Any) -> bytes:
        path, to = parts[1], parts[5]
        to(path)
        bench.wait.cancel()
        assert bench.sock.calls == ["shutdown"]
        to(path)  # it tries to come back
        return b"never"

    with pytest.raises(NotRunningError):
        bench.ask(ended)
    assert bench.sock.calls == ["shutdown", "close"]


def test_wait_that_is_ended_before_it_began_never_connects(bench: Bench) -> None:
    bench.wait.cancel()
    with pytest.raises(NotRunningError):
        bench.ask(decided)
    assert bench.sock.calls == []
