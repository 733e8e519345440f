"""The store of one gateway alone: what it must not forget, what it may."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from feishuperm.app import store as lock
from feishuperm.app.store import OpenCard
from feishuperm.errors import UsageError
from feishuperm.gateway import store as module
from feishuperm.gateway.store import FileStore, Location, Machine, StoreDown
from tests.gateway.parts import Clock, done, make_ask

MACHINE = Machine("m-1", "box", "ou_owner", key="ab" * 32, created=5.0)
CARD = OpenCard(make_ask(), "nonce", "om_1", True, "m-1", "ou_owner")


def opened(path: Path, clock: Clock) -> FileStore:
    store = FileStore("cli_x", str(path), clock)
    store.start()
    return store


def reopened(store: FileStore) -> FileStore:
    """As after a crash: nothing is closed, the lock is free."""
    store._lock.__exit__(None, None, None)  # type: ignore[attr-defined]
    again = FileStore("cli_x", store._path, store._wall)
    again.start()
    return again


def test_what_must_last_survives_a_crash(tmp_path: Path, clock: Clock) -> None:
    store = opened(tmp_path / "e", clock)
    done(store.put_machine(MACHINE))
    done(store.put_card(CARD))
    done(store.put_card(CARD._replace(ask=make_ask(id="1-b"), message_id="")))
    done(store.drop_card("m-1", "1-b"))
    done(store.put_tap({"tap": "t1", "machine": "m-1"}))
    with open(tmp_path / "e", "ab") as file:
        file.write(b'["HSET", "fp:cli_x:machines", "m-2"')  # torn by the crash
    again = reopened(store)
    assert done(again.machines()) == [MACHINE]
    assert done(again.cards_of("m-1")) == [CARD]
    assert done(again.kept_taps("m-1")) == {"t1": {"tap": "t1", "machine": "m-1"}}
    assert done(again.card_of_message("om_1")) == CARD, "a text below it is an answer"
    assert os.stat(tmp_path / "e").st_mode & 0o777 == 0o600


def test_file_of_the_version_before_is_read_and_it_reads_ours(
    tmp_path: Path, clock: Clock
) -> None:
    """As 0.2.0 wrote it: commands of Redis, with names of Redis.

    It drops every line of another kind and writes the rest again: who went back to it
    would lose every machine.
    """
    plain = {"id": "m-1", "name": "box", "owner": "ou_owner", "owner_name": "",
             "user": "", "address": "", "key": "ab" * 32, "next": "", "created": 5.0,
             "previous": ""}  # fmt: skip
    place = {"replica": "", "peer": "p", "instance": "i", "address": "a", "since": 7.0}
    lines = [
        ["HSET", "fp:cli_x:machines", "m-1", json.dumps(plain)],
        ["HSET", "fp:cli_x:machines", "m-2", json.dumps({**plain, "id": "m-2"})],
        ["HSET", "fp:cli_x:at", "m-1", json.dumps(place)],
        ["HSET", "fp:cli_x:revoked", "m-2", "1700000000"],
        ["HDEL", "fp:cli_x:machines", "m-2"],
        ["HDEL", "fp:cli_x:machines", "m-3"],
        ["HSET", "fp:cli_x:taps:m-2", "t", "x"],
        ["DEL", "fp:cli_x:taps:m-2"],
        ["DEL", "fp:cli_x:taps:m-3"],
    ]
    data = "".join(json.dumps(line) + "\n" for line in lines)
    (tmp_path / "e").write_text(data)
    store = opened(tmp_path / "e", clock)
    assert done(store.machines()) == [MACHINE]
    assert done(store.is_revoked("m-2")) and not done(store.is_revoked("m-1"))
    assert done(store.location("m-1")) == Location("", "p", "i", "a", 7.0)
    kept = [json.loads(line) for line in (tmp_path / "e").read_text().splitlines()]
    assert kept == [
        ["HSET", "fp:cli_x:machines", "m-1", json.dumps(plain)],
        ["HSET", "fp:cli_x:at", "m-1", json.dumps(place)],
        ["HSET", "fp:cli_x:revoked", "m-2", "1700000000"],
    ]
    done(store.drop_card("m-1", "1-a"))
    done(store.revoke_machine("m-1"))
    wrote = (tmp_path / "e").read_text().splitlines()[len(kept) :]
    assert [json.loads(line)[:3] for line in wrote] == [
        ["HSET", "fp:cli_x:revoked", "m-1"],
        ["HDEL", "fp:cli_x:machines", "m-1"],
        ["HDEL", "fp:cli_x:at", "m-1"],
    ]


def test_second_gateway_of_one_app_is_refused(
    tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = opened(tmp_path / "e", clock)
    monkeypatch.setattr(lock, "LOCK_SECONDS", 0.0)
    with pytest.raises(UsageError):
        opened(tmp_path / "e", clock)
    assert first.ready


def test_what_ended_leaves_memory_whatever_is_counted_meanwhile(
    tmp_path: Path, clock: Clock
) -> None:
    store = opened(tmp_path / "e", clock)
    for number in range(5 * module.SWEEP):
        done(store.count_asked(f"ou_{number}"))
        done(store.may_warn(f"m-{number}"))
        clock.turn(1)
    assert len(store._texts) <= module.SWEEP + 1


def full(path: str) -> int:
    raise OSError(28, "No space left on device")


def test_bus_is_heard_only_when_it_is_on_the_disk(
    tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = opened(tmp_path / "e", clock)
    heard: list[Any] = []
    store.listen(heard.append)
    tap = {"tap": "t1", "machine": "m-1"}
    monkeypatch.setattr(module, "open_append", full)
    with pytest.raises(StoreDown):
        done(store.put_tap(tap))
    assert heard == [] and not store.ready
    monkeypatch.undo()
    done(store.put_tap(tap))
    assert [entry["k"] for entry in heard] == ["tap"] and store.ready


def test_long_file_is_written_again(
    tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "COMPACT", 10)
    store = opened(tmp_path / "e", clock)
    for number in range(25):
        done(store.put_machine(MACHINE._replace(name=str(number))))
    assert len((tmp_path / "e").read_bytes().splitlines()) <= 11
    assert done(store.machine("m-1")).name == "24"


def test_half_a_character_is_kept_like_any_other(tmp_path: Path, clock: Clock) -> None:
    store = opened(tmp_path / "e", clock)
    card = CARD._replace(ask=make_ask(id="\ud800", summary="\udfff"))
    done(store.put_card(card))
    store._compact()
    assert done(reopened(store).cards_of("m-1")) == [card]


def test_half_a_line_that_a_full_disk_left_swallows_nothing(
    tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = opened(tmp_path / "e", clock)
    names = [MACHINE._replace(id=f"m-{n}", created=float(n)) for n in range(3)]
    done(store.put_machine(names[0]))

    def half(fd: int, data: bytes) -> None:
        os.write(fd, data[:9])
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(module, "write_all", half)
    with pytest.raises(StoreDown):
        done(store.put_machine(names[1]))
    monkeypatch.undo()
    done(store.sign("r", True))
    assert store.ready, "the disk has room again"
    done(store.put_machine(names[2]))
    assert [m.id for m in done(reopened(store).machines())][::2] == ["m-0", "m-2"]


@pytest.mark.parametrize(
    "line",
    [b"[" * 100_000, b'{"a":' * 100_000, b"[]", b'["HSET"]', b'["HSET", "k"]',
     b'["NO", "k"]', b'["SET", "k", "v", "EX"]', b'["HSET", 1, 2, 3]', b"\xff",
     b'["HSET", "k", "f", "v", "w"]', b'["HDEL", "k"]', b"null", b'["HDEL"]',
     b'["DEL"]', b'["DEL", 1]', b'["DEL", "k", "f"]', b'[[], "a", "v", "w"]', b'"DEL"',
     b'["HSET", "cards:m", "a", 0]', b'["HSET", "cards:m", null, "v"]', b'{"0": "DEL"}',
     b'["HSET", "cards:m", "a", null]'],
)  # fmt: skip
def test_line_that_cannot_be_read_keeps_no_gateway_from_starting(
    tmp_path: Path, clock: Clock, line: bytes
) -> None:
    path = tmp_path / "e"
    good = [b'["HSET", "cards:m", "%s", "{}"]' % name for name in (b"a", b"b")]
    path.write_bytes(b"\n".join((good[0], line, good[1], b"")))
    assert len(done(opened(path, clock).cards_of("m"))) == 2
