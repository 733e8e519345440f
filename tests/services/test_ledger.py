from __future__ import annotations

import errno
import fcntl
import json
import os
import stat
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as limits
from hypothesis import strategies as st

from feishuperm.services import ledger as ledger_module
from feishuperm.services.ledger import Ledger, line_hash


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger(str(tmp_path / "state" / "ledger.jsonl"), clock=lambda: 1000.0)


def fill(ledger: Ledger, count: int) -> Path:
    for number in range(count):
        ledger.append({"event": "request", "id": f"id-{number}"})
    return Path(ledger.path)


def test_entry_is_stored_with_time_and_the_hash_of_the_line_before(
    ledger: Ledger,
) -> None:
    first = ledger.append({"event": "request", "id": "1", "reason": "不行\n\ud800"})
    second = ledger.append({"event": "undo", "id": "1"})
    lines = Path(ledger.path).read_bytes().splitlines()
    assert first["time"] == 1000.0
    assert (first["prev"], second["prev"]) == ("", line_hash(lines[0]))
    assert list(ledger.entries()) == [first, second]
    assert [json.loads(line) for line in lines] == [first, second]
    assert ledger.verify() == []


def test_ledger_lies_in_the_state_folder_and_is_private(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    path = fill(Ledger(), 1)
    assert path == tmp_path / "feishuperm" / "ledger.jsonl"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_no_file_is_an_empty_ledger(ledger: Ledger) -> None:
    assert list(ledger.entries()) == []
    assert ledger.verify() == []
    assert ledger.recent(60) == []


def change_a_word(lines: list[bytes]) -> None:
    lines[2] = lines[2].replace(b"id-2", b"id-9")


def take_one_out(lines: list[bytes]) -> None:
    del lines[2]


def put_one_in(lines: list[bytes]) -> None:
    lines.insert(3, b'{"event": "request", "id": "forged", "prev": ""}\n')


def swap_two(lines: list[bytes]) -> None:
    lines[2], lines[3] = lines[3], lines[2]


def add_a_blank(lines: list[bytes]) -> None:
    lines[2] = lines[2].replace(b"}\n", b" }\n")


def take_the_first_out(lines: list[bytes]) -> None:
    del lines[0]


def put_in_rubbish(lines: list[bytes]) -> None:
    lines.insert(4, b"\xff\n")


@pytest.mark.parametrize(
    ("tamper", "problem"),
    [
        (change_a_word, "line 4: does not follow from line 3"),
        (take_one_out, "line 3: does not follow from line 2"),
        (put_one_in, "line 4: does not follow from line 3"),
        (swap_two, "line 3: does not follow from line 2"),
        (add_a_blank, "line 4: does not follow from line 3"),
        (take_the_first_out, "line 1: does not follow from the start"),
        (put_in_rubbish, "line 5: not a ledger entry"),
    ],
)
def test_tampering_is_found_and_named(
    ledger: Ledger, tamper: Any, problem: str
) -> None:
    path = fill(ledger, 6)
    lines = path.read_bytes().splitlines(keepends=True)
    tamper(lines)
    path.write_bytes(b"".join(lines))
    assert ledger.verify()[0] == problem


def test_torn_last_line_is_kept_reported_and_no_obstacle(ledger: Ledger) -> None:
    path = fill(ledger, 2)
    with path.open("ab") as file:
        file.write(b'{"event": "requ')
    assert ledger.verify() == ["line 3: cut off, the last write did not finish"]
    assert len(list(ledger.entries())) == 2
    ledger.append({"event": "request", "id": "after"})
    assert path.read_bytes().splitlines()[2] == b'{"event": "requ'
    assert ledger.verify() == ["line 3: not a ledger entry"]
    assert [entry["id"] for entry in ledger.entries()] == ["id-0", "id-1", "after"]


def test_every_cut_of_the_file_leaves_a_ledger_that_goes_on(ledger: Ledger) -> None:
    path = fill(ledger, 2)
    data = path.read_bytes()
    for size in range(len(data) + 1):
        path.write_bytes(data[:size])
        ledger.append({"id": "next"})
        assert list(ledger.entries())[-1]["id"] == "next"
        assert len(ledger.verify()) <= 1


def test_full_disk_leaves_no_half_entry(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = fill(ledger, 2)
    before = path.read_bytes()

    def write(fd: int, data: bytes) -> None:
        os.write(fd, data[:10])
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(ledger_module, "write_all", write)
    with pytest.raises(OSError, match="No space left"):
        ledger.append({"id": "lost"})
    assert path.read_bytes() == before


def test_entry_is_on_the_disk_before_append_returns(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes = []
    monkeypatch.setattr(
        ledger_module.os, "fsync", lambda fd: sizes.append(os.fstat(fd).st_size)
    )
    path = fill(ledger, 1)
    assert sizes == [path.stat().st_size]


def test_long_lines_are_chained_too(ledger: Ledger) -> None:
    for length in (10, 70_000, 200_000, 10):
        ledger.append({"rules": ["x" * length]})
    assert ledger.verify() == []


def test_lock_held_too_long_is_an_error_not_a_hang(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = fill(ledger, 1)
    monkeypatch.setattr(ledger_module, "WAIT", 0.0)
    with path.open("rb") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        with pytest.raises(OSError):
            ledger.append({"id": "x"})
    assert len(list(ledger.entries())) == 1


def test_recent_is_by_time_and_find_by_id(tmp_path: Path) -> None:
    now = [100.0]
    ledger = Ledger(str(tmp_path / "ledger"), clock=lambda: now[0])
    for moment in (100.0, 200.0, 300.0):
        now[0] = moment
        ledger.append({"id": f"{moment:.0f}"})
    ledger.append({"id": "100"})
    assert [entry["id"] for entry in ledger.recent(100)] == ["200", "300", "100"]
    assert [entry["time"] for entry in ledger.find("100")] == [100.0, 300.0]


def test_line_that_is_no_entry_is_skipped_by_readers(ledger: Ledger) -> None:
    path = fill(ledger, 1)
    with path.open("ab") as file:
        file.write(b'[1]\n\n"x"\n{"time": "yesterday"}\n')
    assert len(list(ledger.entries())) == 2
    assert [entry["id"] for entry in ledger.recent(60)] == ["id-0"]


PROCESS = """
import sys
from feishuperm.services.ledger import Ledger
for number in range(40):
    Ledger(sys.argv[1]).append({"id": f"{sys.argv[2]}{number}"})
"""


def test_threads_and_processes_share_one_chain(ledger: Ledger) -> None:
    fill(ledger, 1)
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", PROCESS, ledger.path, letter],
            cwd=Path(__file__).parents[2],
        )
        for letter in "ab"
    ]
    threads = [threading.Thread(target=fill, args=(ledger, 40)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert [process.wait(60) for process in processes] == [0, 0]
    assert ledger.verify() == []
    assert len(list(ledger.entries())) == 161


@limits(deadline=None, max_examples=30)
@given(st.lists(st.dictionaries(st.text(max_size=5), st.text(max_size=9)), max_size=5))
def test_whatever_entries_say_the_chain_holds(
    tmp_path_factory: pytest.TempPathFactory, entries: list[dict[str, str]]
) -> None:
    ledger = Ledger(str(tmp_path_factory.mktemp("ledger") / "file"))
    stored = [ledger.append(entry) for entry in entries]
    assert list(ledger.entries()) == stored
    assert ledger.verify() == []
