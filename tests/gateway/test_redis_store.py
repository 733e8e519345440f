"""The store on Redis: its address, its first words, what its replies mean."""

from __future__ import annotations

import socket
import threading
from typing import Any

import pytest

from feishuperm.errors import PayloadError, SettingError
from feishuperm.gateway.redis_store import (
    RedisStore,
    StoreRefusal,
    dial_redis,
    read_address,
)
from feishuperm.gateway.store import StoreDown
from feishuperm.lib.task import Promise, run
from feishuperm.protocol.resp import Failure
from tests.tables import every_row


@every_row(
    ("url", "address"),
    [
        ("redis://h", ("h", 6379, False, "", "", 0)),
        ("redis://u:p%40@h:7000/2", ("h", 7000, False, "u", "p@", 2)),
        ("rediss://:pw@[::1]:7", ("::1", 7, True, "", "pw", 0)),
    ],
)
def test_address_is_read(url: str, address: object) -> None:
    assert read_address(url) == address


@every_row(
    "url", ["http://h", "redis://", "redis://h:x", "redis://u:s3cret@h/x",
            "redis+sentinel://a:1/main"],
)  # fmt: skip
def test_address_that_is_none_is_named_without_its_password(url: str) -> None:
    with pytest.raises(SettingError) as raised:
        read_address(url)
    assert "s3cret" not in str(raised.value)


def serve(*replies: bytes) -> int:
    """A server that answers one reply to each command."""
    server = socket.create_server(("127.0.0.1", 0))

    def answer() -> None:
        sock, _ = server.accept()
        with sock, server:
            for reply in replies:
                if not sock.recv(4096):
                    return
                sock.sendall(reply)
            sock.recv(4096)

    threading.Thread(target=answer, daemon=True).start()
    port: int = server.getsockname()[1]
    return port


MASTER = b"*3\r\n$6\r\nmaster\r\n:0\r\n*0\r\n"


def test_good_server_is_logged_in() -> None:
    port = serve(b"+OK\r\n", b"+OK\r\n", MASTER, b"$-1\r\n")
    dial_redis(read_address(f"redis://:pw@127.0.0.1:{port}/1")).close()


@every_row(
    ("reply", "words"),
    [
        (b"-WRONGPASS invalid username-password pair\r\n", "WRONGPASS"),
        (b"-ERR AUTH <password> called without any password\r\n", "AUTH"),
        (b"-NOPERM this user has no permissions\r\n", "NOPERM"),
    ],
)
def test_what_a_person_must_mend_is_one_sentence(reply: bytes, words: str) -> None:
    port = serve(reply)
    with pytest.raises(StoreRefusal, match=words) as raised:
        dial_redis(read_address(f"redis://:s3cret@127.0.0.1:{port}"))
    assert "s3cret" not in str(raised.value)


def test_cluster_is_refused() -> None:
    port = serve(MASTER, b"-MOVED 12182 127.0.0.1:1\r\n")
    with pytest.raises(StoreRefusal, match="cluster"):
        dial_redis(read_address(f"redis://127.0.0.1:{port}"))


@every_row("reply", [b"-LOADING Redis is loading\r\n", b"*1\r\n$5\r\nslave\r\n"])
def test_weather_passes_by_itself(reply: bytes) -> None:
    port = serve(reply)
    with pytest.raises(OSError, match="engine"):
        dial_redis(read_address(f"redis://127.0.0.1:{port}"))


def test_nobody_there_is_weather_too() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with pytest.raises(OSError, match=r"127\.0\.0\.1"):
        dial_redis(read_address(f"redis://127.0.0.1:{port}"))


@every_row("scheme", ["redis", "rediss"])
def test_engine_that_closes_may_be_one_of_the_other_scheme(scheme: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        closing = threading.Thread(target=lambda: server.accept()[0].close())
        closing.start()
        with pytest.raises(OSError, match=r"engine closes.*TLS"):
            dial_redis(read_address(f"{scheme}://127.0.0.1:{port}"))
        closing.join(10)


# Replies, and the bus.


class FakeLine:
    """A connection to Redis whose replies are given by hand."""

    def __init__(self, on_change: Any) -> None:
        self.on_change = on_change
        self.state, self.detail = "up", ""
        self.live = self
        self.asked: list[tuple[Any, Any]] = []
        self.dropped: list[str] = []

    def start(self) -> None: ...

    def close(self) -> None: ...

    def drop(self, problem: str) -> None:
        self.dropped.append(problem)

    def run(self, commands: Any, seconds: float) -> Promise[Any]:
        promise: Promise[Any] = Promise()
        self.asked.append((list(commands), promise.resolve))
        return promise


def lines() -> tuple[RedisStore, FakeLine, FakeLine]:
    made: list[FakeLine] = []

    def make(on_change: Any) -> Any:
        made.append(FakeLine(on_change))
        return made[-1]

    store = RedisStore("cli_x", make)
    return store, made[0], made[1]


@every_row("code", ["READONLY", "LOADING", "OOM"])
def test_refusing_server_is_down_and_says_why(code: str) -> None:
    store, commands, _ = lines()
    told: list[Any] = []

    async def ask() -> None:
        told.append(*await store._batch().text("k").done())

    run(ask(), told.append)
    commands.asked[0][1]([Failure(code, "words")])
    assert isinstance(told[0], StoreDown)
    assert not store.ready and code in store.problem
    assert bool(commands.dropped) == (code == "READONLY")
    run(ask(), told.append)
    commands.asked[1][1]([b"1"])
    assert told[1] == "1" and store.ready


def test_bus_is_read_on_from_where_it_was() -> None:
    store, _, reader = lines()
    heard: list[Any] = []
    store.listen(heard.append)
    reader.on_change()
    reader.asked[-1][1]([[[b"5-1", [b"d", b"{}"]]]])
    assert reader.asked[-1][0][0][-1] == "5-1", "from now, at the first start"
    entry = store.sealed({"e": "1", "k": "tap", "n": 1}).encode()
    reader.asked[-1][1](
        [[[b"bus", [[b"6-0", [b"d", entry]], [b"6-1", [b"d", entry]]]]]]
    )
    assert [said["n"] for said in heard] == [1], "the same entry is heard once"
    reader.asked[-1][1](None)  # the connection was cut
    reader.on_change()
    reader.asked[-1][1]([[[b"9-0", [b"d", b"{}"]]]])
    assert reader.asked[-1][0][0][-1] == "6-1", "nothing in between is missed"


def test_clock_that_ran_back_makes_it_read_everything() -> None:
    _, _, reader = lines()
    reader.on_change()
    reader.asked[-1][1]([[[b"50-1", [b"d", b"{}"]]]])
    reader.on_change()
    reader.asked[-1][1]([[[b"7-1", [b"d", b"{}"]]]])
    assert reader.asked[-1][0][0][-1] == "0-0"


@every_row("reply", [None, 7, [[7]], [[b"x-y", [b"d", b"{}"]]]])
def test_bus_that_cannot_be_followed_is_dialled_again(reply: object) -> None:
    """Taps of other replicas would be heard by nobody while all looks well."""
    _, _, reader = lines()
    reader.on_change()
    reader.asked[-1][1]([[[b"1-0", [b"d", b"{}"]]]])
    reader.asked[-1][1]([[[b"bus", [reply]]] if reply else 7])
    assert len(reader.dropped) == 1
    reader.on_change()
    reader.asked[-1][1]([[[b"2-0", [b"d", b"{}"]]]])
    assert reader.asked[-1][0][0][0] == "XREAD"


@every_row("reply", [7, [b"x", b"1"], [b"1"], None, b"nonsense"])
def test_server_that_answers_nonsense_is_away_meanwhile(reply: object) -> None:
    store, commands, _ = lines()
    told: list[Any] = []

    async def sign() -> None:
        told.append(await store.sign("r", False))

    run(sign(), told.append)
    commands.asked[-1][1]([b"OK", reply, None])
    run(sign(), told.append)
    commands.asked[-1][1]([b"OK", [b"5", b"500000"], b"r2"])
    assert isinstance(told[0], StoreDown) and told[1] == (5.5, "r2")


@every_row(
    "entry",
    [b"", b"{", b"[]", b"7", b'{"k": "joined"}', b'{"k": "tap", "tap": 3}', b"\xff",
     b"[" * 100_000],
)  # fmt: skip
def test_entry_that_somebody_edited_stops_nobody_from_hearing(entry: bytes) -> None:
    store, _, _ = lines()
    heard: list[Any] = []

    def listen(said: dict[str, Any]) -> None:
        if said["k"] != "good":
            raise PayloadError("a shape that is none")
        heard.append(said)

    store.listen(listen)
    good = store.sealed({"e": "9", "k": "good"}).encode()
    for raw in (entry, store.sealed({"k": "bad"})[:64].encode() + entry, good):
        store._hear_all([[b"1-1", [b"d", raw]]])
    assert len(heard) == 1
