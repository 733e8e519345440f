"""The store with a real redis-server: cut bytes, TLS."""

from __future__ import annotations

import contextlib
import random
import socket
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from feishuperm.gateway.redis_store import (
    RedisLine,
    RedisStore,
    dial_redis,
    read_address,
)
from feishuperm.gateway.store import StoreDown
from feishuperm.lib.task import run
from feishuperm.server.loop import Loop
from tests.bench.bench_gateway import certificate
from tests.conftest import wait_until
from tests.gateways import RedisServer

pytestmark = pytest.mark.redis


class Cutter:
    """A proxy that hands replies on in other pieces, or not to their end."""

    def __init__(self, port: int, pieces: str) -> None:
        self._port = port
        self._pieces = pieces  # whole, single, merged
        self.cut_after = -1  # bytes of replies, then it cuts; never below zero
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._server.getsockname()[1]
        self.cuts = 0
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._server.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client = self._server.accept()[0]
                server = socket.create_connection(("127.0.0.1", self._port))
                for sock in (client, server):
                    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                for one, other, way in (
                    (client, server, self._ask),
                    (server, client, self._answer),
                ):
                    threading.Thread(
                        target=self._pump, args=(one, other, way), daemon=True
                    ).start()

    def _pump(
        self, one: socket.socket, other: socket.socket,
        way: Callable[[socket.socket, bytes], bool],
    ) -> None:  # fmt: skip
        with contextlib.suppress(OSError):
            while True:
                data = one.recv(65536)
                if not data or not way(other, data):
                    break
        for sock in (one, other):
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
        one.close()  # each way closes what it reads

    def _ask(self, sock: socket.socket, data: bytes) -> bool:
        if self._pieces == "single":
            for byte in data:
                sock.sendall(bytes([byte]))
        else:
            sock.sendall(data)
        return True

    def _answer(self, sock: socket.socket, data: bytes) -> bool:
        if 0 <= self.cut_after < len(data):
            sock.sendall(data[: self.cut_after])
            self.cut_after = -1
            self.cuts += 1
            return False
        self.cut_after = max(-1, self.cut_after - len(data))
        if self._pieces == "single":
            for byte in data:
                sock.sendall(bytes([byte]))
        else:
            if self._pieces == "merged":
                time.sleep(0.02)  # for more to come
            sock.sendall(data)
        return True


class Running:
    """A store on a loop of its own, used from the test's thread."""

    def __init__(self, url: str, ca_file: str = "") -> None:
        self.loop = Loop(on_error=lambda error: self.errors.append(error))
        self.errors: list[Exception] = []
        self.fatal: list[Exception] = []
        self.heard: list[dict[str, Any]] = []
        dial = partial(dial_redis, read_address(url), ca_file)
        self.store = RedisStore(
            "cli_x",
            lambda on_change: RedisLine(self.loop, dial, on_change, self.fatal.append),
        )
        self.store.listen(self.heard.append)
        self._thread = threading.Thread(target=self.loop.run, daemon=True)
        self._thread.start()
        self.loop.call_soon_threadsafe(self.store.start)

    def __enter__(self) -> Running:
        return self

    def __exit__(self, *exc: object) -> None:
        self.loop.call_soon_threadsafe(self.store.close)
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(10)
        self.loop.close()
        assert self.errors == []

    def ready(self, seconds: float = 20.0) -> None:
        wait_until(lambda: self.store.ready and self.store._last, seconds)

    def begin(self, operation: Callable[[], Any]) -> list[Any]:
        """A list that holds the result, or the error, once it is there."""
        got: list[Any] = []

        async def steps() -> None:
            got.append(await operation())

        self.loop.call_soon_threadsafe(lambda: run(steps(), got.append))
        return got

    def run(self, operation: Callable[[], Any]) -> Any:
        got = self.begin(operation)
        wait_until(lambda: got, 10)
        return got[0]

    def do(self, *commands: Any) -> Callable[[], Any]:
        """Commands of Redis, for what no store does."""
        return partial(self.store._run, self.store._commands, commands)

    def say(self, number: int) -> str:
        return self.store._entry("tap", n=number)


@pytest.fixture
def redis(tmp_path: Path) -> Iterator[RedisServer]:
    with RedisServer(tmp_path / "redis") as server:
        yield server


@contextlib.contextmanager
def cutter(redis: RedisServer, pieces: str) -> Iterator[Cutter]:
    proxy = Cutter(redis.port, pieces)
    try:
        yield proxy
    finally:
        proxy.close()


@pytest.mark.parametrize("pieces", ["whole", "single", "merged"])
def test_replies_are_the_same_in_whatever_pieces_they_come(
    redis: RedisServer, pieces: str
) -> None:
    values = ["", "\r\n", "$3\r\n", "*-1\r\n", "一" * 300, "x" * 5000, "-ERR no", ":1"]
    with (
        cutter(redis, pieces) as proxy,
        Running(f"redis://127.0.0.1:{proxy.port}") as running,
    ):
        running.ready()
        pending = [
            running.begin(
                running.store._batch()
                .put("h", str(n), value)
                .row("h", str(n))
                .row("h", "-")
                .done
            )
            for n, value in enumerate(values * 5)
        ]
        wait_until(lambda: all(pending), 30)
        for value, (got,) in zip(values * 5, pending):
            assert got == [value, None]
        said = running.store._batch()
        for n in range(50):
            said.tell(running.say(n))
        assert running.run(said.done) == []
        wait_until(lambda: len(running.heard) == 50, 20)
    assert [entry["n"] for entry in running.heard] == list(range(50))


def test_cut_in_the_middle_of_a_reply_gives_nobody_a_wrong_one(
    redis: RedisServer,
) -> None:
    rng = random.Random(5)
    told: dict[int, bool] = {}
    with (
        cutter(redis, "whole") as proxy,
        Running(f"redis://127.0.0.1:{proxy.port}") as running,
    ):
        for turn in range(15):
            running.ready()
            proxy.cut_after = rng.randrange(0, 400)
            numbers = range(turn * 20, turn * 20 + 20)
            pending = {
                n: running.begin(
                    running.store._batch()
                    .keep(f"k{n}", f"value {n}", 600)
                    .text(f"k{n}")
                    .tell(running.say(n))
                    .done
                )
                for n in numbers
            }
            wait_until(lambda p=pending: all(p.values()), 20)  # type: ignore[misc]
            for n, (got,) in pending.items():
                told[n] = not isinstance(got, Exception)
                if told[n]:
                    assert got == [f"value {n}"]
                else:
                    assert isinstance(got, StoreDown)
        running.ready()
        done = {n for n, is_told in told.items() if is_told}
        wait_until(lambda: {e["n"] for e in running.heard} >= done, 20)
        assert proxy.cuts >= 10 and len(done) >= 20
    numbers_heard = [entry["n"] for entry in running.heard]
    assert len(numbers_heard) == len(set(numbers_heard)), "each is heard once"


# TLS.


@pytest.fixture
def secure(tmp_path: Path) -> Iterator[tuple[RedisServer, str]]:
    files = certificate()
    cert, key = files["GATEWAY_CERT"], files["GATEWAY_KEY"]
    server = RedisServer(tmp_path / "tls")
    server.options = {
        "port": "0", "tls-port": str(server.port), "tls-cert-file": cert,
        "tls-key-file": key, "tls-ca-cert-file": cert, "tls-auth-clients": "no",
    }  # fmt: skip
    server.answers = lambda: "Ready to accept" in log_of(server)  # type: ignore[method-assign]
    try:
        server.start()
        yield server, cert
    except AssertionError:
        if "tls" in log_of(server).lower():
            pytest.skip("this redis-server was built without TLS")
        raise
    finally:
        server.kill()


def log_of(server: RedisServer) -> str:
    return (server.home / "redis.log").read_text(errors="replace")


def test_store_over_tls(secure: tuple[RedisServer, str]) -> None:
    server, cert = secure
    with Running(f"rediss://127.0.0.1:{server.port}", cert) as running:
        running.ready()
        big = "y" * 200_000  # more than one record of TLS
        steps = running.store._batch().put("a", "b", big).row("a", "b")
        assert running.run(steps.tell(running.say(1)).done) == [big]
        wait_until(lambda: running.heard, 10)


def test_certificate_nobody_vouches_for_and_plain_bytes_are_refused(
    secure: tuple[RedisServer, str], redis: RedisServer
) -> None:
    server, cert = secure
    with pytest.raises(OSError, match="TLS"):
        dial_redis(read_address(f"rediss://127.0.0.1:{server.port}"))
    with pytest.raises(OSError, match="rediss:// with TLS"):
        dial_redis(read_address(f"redis://127.0.0.1:{server.port}"))
    with pytest.raises(OSError, match="TLS"):
        dial_redis(read_address(f"rediss://127.0.0.1:{redis.port}"), cert)
