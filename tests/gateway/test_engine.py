"""The engine of one gateway alone: what it must not forget, what it may."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from feishuperm.channels.app import store
from feishuperm.errors import PayloadError, UsageError
from feishuperm.gateway import engine as module
from feishuperm.gateway.engine import EngineDown, FileEngine, RedisEngine
from feishuperm.protocol.resp import Failure
from tests.gateway.parts import Clock, done
from tests.tables import every_row


def opened(path: Path, clock: Clock) -> FileEngine:
    engine = FileEngine("cli_x", str(path), clock)
    engine.start()
    return engine


def test_what_must_last_survives_a_crash(tmp_path: Path, clock: Clock) -> None:
    engine = opened(tmp_path / "e", clock)
    done(engine.run(("HSET", "h", "a", "1"), ("HSET", "h", "b", "2")))
    done(engine.run(("HDEL", "h", "a"), ("SET", "t", "x", "EX", 60)))
    engine._lock = None
    again = FileEngine("cli_x", str(tmp_path / "e"), clock)
    with open(tmp_path / "e", "ab") as file:
        file.write(b'["HSET", "h", "c"')  # torn by the crash
    for line in (tmp_path / "e").read_bytes().splitlines():
        again._replay(line)
    assert done(again.run(("HGETALL", "h"))) == [[b"b", b"2"]]
    assert os.stat(tmp_path / "e").st_mode & 0o777 == 0o600


def test_second_gateway_of_one_app_is_refused(
    tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = opened(tmp_path / "e", clock)
    monkeypatch.setattr(store, "LOCK_SECONDS", 0.0)
    with pytest.raises(UsageError):
        opened(tmp_path / "e", clock)
    assert first.ready


def test_what_ends_by_itself_does(tmp_path: Path, clock: Clock) -> None:
    engine = opened(tmp_path / "e", clock)
    assert done(engine.run(("SET", "k", "1", "NX", "EX", 60))) == [b"OK"]
    assert done(engine.run(("SET", "k", "1", "NX", "EX", 60))) == [None]
    assert done(engine.run(("INCR", "n"), ("EXPIRE", "n", 60))) == [1, 1]
    assert done(engine.run(("INCR", "n"))) == [2]
    clock.turn(61)
    assert done(engine.run(("SET", "k", "1", "NX", "EX", 60))) == [b"OK"]
    assert done(engine.run(("INCR", "n"))) == [1]


def test_what_ended_leaves_memory_whatever_is_counted_meanwhile(
    tmp_path: Path, clock: Clock
) -> None:
    engine = opened(tmp_path / "e", clock)
    for number in range(5 * module.SWEEP):
        key = str(number)
        done(engine.run(("INCR", f"n{key}"), ("EXPIRE", f"n{key}", 60)))
        done(engine.run(("SET", key, "1", "EX", 60)))
        clock.turn(1)
    assert len(engine._texts) <= module.SWEEP + 1


def test_bus_is_heard_only_when_it_is_on_the_disk(
    tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = opened(tmp_path / "e", clock)
    heard: list[Any] = []
    engine.listen(heard.append)

    def full(path: str) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(module, "open_append", full)
    with pytest.raises(EngineDown):
        done(engine.run(("HSET", "taps", "1", "x"), engine.entry("tap", tap={})))
    assert heard == [] and not engine.ready
    monkeypatch.undo()
    done(engine.run(("HSET", "taps", "1", "x"), engine.entry("tap", tap={})))
    assert [entry["k"] for entry in heard] == ["tap"] and engine.ready


def test_long_file_is_written_anew(
    tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "COMPACT", 10)
    engine = opened(tmp_path / "e", clock)
    for number in range(25):
        done(engine.run(("HSET", "h", "a", str(number))))
    assert len((tmp_path / "e").read_bytes().splitlines()) <= 11
    assert done(engine.run(("HGET", "h", "a"))) == [b"24"]


class FakeLine:
    """A connection to Redis whose replies are given by hand."""

    def __init__(self, on_change: Any) -> None:
        self.on_change = on_change
        self.state, self.detail = "up", ""
        self.asked: list[tuple[Any, Any]] = []
        self.dropped: list[str] = []

    def start(self) -> None: ...

    def close(self) -> None: ...

    def drop(self, problem: str) -> None:
        self.dropped.append(problem)

    def run(self, commands: Any, seconds: float, answer: Any) -> None:
        self.asked.append((list(commands), answer))


def lines() -> tuple[RedisEngine, FakeLine, FakeLine]:
    made: list[FakeLine] = []

    def make(on_change: Any) -> FakeLine:
        made.append(FakeLine(on_change))
        return made[-1]

    engine = RedisEngine("cli_x", make)
    return engine, made[0], made[1]


@every_row("code", ["READONLY", "LOADING", "OOM"])
def test_refusing_engine_is_down_and_says_why(code: str) -> None:
    engine, commands, _ = lines()
    promise = engine.run(("GET", "k"))
    commands.asked[0][1]([Failure(code, "words")])
    with pytest.raises(EngineDown):
        done(promise)
    assert not engine.ready and code in engine.problem
    assert bool(commands.dropped) == (code == "READONLY")
    promise = engine.run(("GET", "k"))
    commands.asked[1][1]([b"1"])
    assert done(promise) == [b"1"] and engine.ready


def test_bus_is_read_on_from_where_it_was() -> None:
    engine, _, reader = lines()
    heard: list[Any] = []
    engine.listen(heard.append)
    reader.on_change()
    reader.asked[-1][1]([[[b"5-1", [b"d", b"{}"]]]])
    assert reader.asked[-1][0][0][-1] == "5-1", "from now, at the first start"
    entry = engine.entry("tap", n=1)[-1].encode()  # type: ignore[union-attr]
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


def test_half_a_character_is_kept_like_any_other(tmp_path: Path, clock: Clock) -> None:
    engine = opened(tmp_path / "e", clock)
    done(engine.run(("HSET", "h", "\ud800", "\udfff")))
    engine._compact()
    engine._lock.__exit__(None, None, None)  # type: ignore[union-attr]
    again = opened(tmp_path / "e", clock)
    assert done(again.run(("HGETALL", "h"))) == [[b"\xed\xa0\x80", b"\xed\xbf\xbf"]]


def test_half_a_line_that_a_full_disk_left_swallows_nothing(
    tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = opened(tmp_path / "e", clock)
    done(engine.run(("HSET", "h", "a", "1")))

    def half(fd: int, data: bytes) -> None:
        os.write(fd, data[:9])
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(module, "write_all", half)
    with pytest.raises(EngineDown):
        done(engine.run(("HSET", "h", "b", "2")))
    monkeypatch.undo()
    done(engine.run(("SET", "sign", "1")))
    assert engine.ready, "the disk has room again"
    done(engine.run(("HSET", "h", "c", "3")))
    again = FileEngine("cli_x", str(tmp_path / "e"), clock)
    for line in (tmp_path / "e").read_bytes().splitlines():
        again._replay(line)
    fields = done(again.run(("HGETALL", "h")))[0]
    assert fields[-2:] == [b"c", b"3"] and fields[:2] == [b"a", b"1"]


@every_row(
    "entry",
    [b"", b"{", b"[]", b"7", b'{"k": "joined"}', b'{"k": "tap", "tap": 3}', b"\xff",
     b"[" * 100_000],
)  # fmt: skip
def test_entry_that_somebody_edited_stops_nobody_from_hearing(entry: bytes) -> None:
    engine, _, _ = lines()
    heard: list[Any] = []

    def listen(said: dict[str, Any]) -> None:
        if said["k"] != "good":
            raise PayloadError("a shape that is none")
        heard.append(said)

    engine.listen(listen)
    good = engine.sealed({"e": "9", "k": "good"}).encode()
    for raw in (entry, engine.sealed({"k": "bad"})[:64].encode() + entry, good):
        engine._read([[[b"bus", [[b"1-1", [b"d", raw]]]]]])
    assert len(heard) == 1


@pytest.mark.parametrize(
    "line",
    [b"[" * 100_000, b'{"a":' * 100_000, b"[]", b'["HSET"]', b'["HSET", "k"]',
     b'["NO", "k"]', b'["SET", "k", "v", "EX"]', b'["HSET", 1, 2, 3]', b"\xff",
     b'["EXPIRE", "k", "x"]', b'["SET", "k", "v", "EX", "x"]', b"null",
     b'["XADD", "k", "x"]', b'["XADD", "k"]', b'["TIME"]'],
)  # fmt: skip
def test_line_that_cannot_be_read_keeps_no_gateway_from_starting(
    tmp_path: Path, clock: Clock, line: bytes
) -> None:
    path = tmp_path / "e"
    good = [b'["HSET", "k", "%s", "1"]' % name for name in (b"a", b"b")]
    path.write_bytes(b"\n".join((good[0], line, good[1], b"")))
    engine = FileEngine("cli_x", str(path), clock)
    engine.start()
    assert done(engine.run(("HLEN", "k"))) == [2]
