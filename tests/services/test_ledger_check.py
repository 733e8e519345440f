"""Judging a ledger: whatever was done to it is found and named."""

from __future__ import annotations

import errno
import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as limits
from hypothesis import strategies as st

from feishuperm.services import ledger as ledgers
from feishuperm.services.ledger import Ledger, decode
from feishuperm.services.ledger_check import Report, check
from tests.conftest import examples
from tests.services.test_ledger import fill, ids

# Lines without the key.


def unkeyed(count: int) -> bytes:
    """Lines that somebody wrote without the key, each with the plain hash before it."""
    lines, previous = [], ""
    for number in range(count):
        entry = {"time": 900.0, "event": "request", "id": f"old-{number}"}
        lines.append(json.dumps({**entry, "prev": previous}).encode())
        previous = hashlib.sha256(lines[-1]).hexdigest()
    return b"\n".join([*lines, b""])


def test_ledger_without_a_key_is_not_believed_and_stays_as_it_is(
    ledger: Ledger,
) -> None:
    path = Path(ledger.path)
    path.parent.mkdir(parents=True)
    path.write_bytes(unkeyed(3))
    told = tuple(f"line {number}: written without the key" for number in (1, 2, 3))
    assert check(ledger) == Report(problems=told)
    stored = ledger.append({"id": "new"})
    assert (stored["seq"], stored["prev"]) == (1, "")
    assert path.read_bytes().startswith(unkeyed(3))
    assert (check(ledger).total, check(ledger).problems) == (1, told)
    assert [entry["id"] for entry in ledger.vouched(1e10)] == ["new"]


def test_line_without_the_key_behind_a_keyed_one_is_a_forgery(ledger: Ledger) -> None:
    path = fill(ledger, 1)
    with path.open("ab") as file:
        file.write(unkeyed(1))
    assert check(ledger).problems == ("line 2: written without the key",)
    ledger.append({"id": "y"})
    assert check(ledger).problems == ("line 2: written without the key",)


# Torn lines.


def test_torn_last_line_is_kept_told_and_no_obstacle(ledger: Ledger) -> None:
    path = fill(ledger, 2)
    with path.open("ab") as file:
        file.write(b'{"event": "requ')
    assert check(ledger).notes == ("line 3: cut off, the last write did not finish",)
    assert len(list(ledger.entries())) == 2
    ledger.append({"event": "request", "id": "after"})
    assert path.read_bytes().splitlines()[2] == b'{"event": "requ'
    report = check(ledger)
    assert (report.problems, report.notes) == ((), ("line 3: cut off by a crash",))
    assert ids(ledger) == ["id-0", "id-1", "after"]
    path.write_bytes(path.read_bytes().replace(b"requ\n", b"reqv\n"))
    assert check(ledger).problems == ("line 3: not a ledger entry",)


def test_every_cut_of_the_file_leaves_a_ledger_that_goes_on_and_tells(
    ledger: Ledger,
) -> None:
    path = fill(ledger, 2)
    data, head = path.read_bytes(), Path(ledger.head_path).read_bytes()
    for size in range(len(data)):
        path.write_bytes(data[:size])
        Path(ledger.head_path).write_bytes(head)
        assert check(ledger).problems
        ledger.append({"id": "next"})
        assert list(ledger.entries())[-1]["id"] == "next"
        assert any("lost its end" in problem for problem in check(ledger).problems)


# Tampering.


def change_a_word(lines: list[bytes]) -> None:
    lines[2] = lines[2].replace(b"id-2", b"id-9")


def take_one_out(lines: list[bytes]) -> None:
    del lines[2]


def put_one_in(lines: list[bytes]) -> None:
    lines.insert(3, b'{"event": "request", "id": "forged", "prev": ""}\n')


def repeat_one(lines: list[bytes]) -> None:
    lines.insert(3, lines[2])


def swap_two(lines: list[bytes]) -> None:
    lines[2], lines[3] = lines[3], lines[2]


def add_a_blank(lines: list[bytes]) -> None:
    lines[2] = lines[2].replace(b"}\n", b" }\n")


def take_the_first_out(lines: list[bytes]) -> None:
    del lines[0]


def put_in_rubbish(lines: list[bytes]) -> None:
    lines.insert(4, b"\xff\n")


def cut_the_end(lines: list[bytes]) -> None:
    del lines[4:]


def cut_all(lines: list[bytes]) -> None:
    lines.clear()


def change_the_last(lines: list[bytes]) -> None:
    lines[5] = lines[5].replace(b"id-5", b"id-4")


@pytest.mark.parametrize(
    ("tamper", "problem"),
    [
        (change_a_word, "line 3: changed, or not written with this key"),
        (take_one_out, "line 3: entries 3 to 3 are missing before it"),
        (put_one_in, "line 4: written without the key"),
        (repeat_one, "line 4: does not follow from line 3"),
        (swap_two, "line 3: entries 3 to 3 are missing before it"),
        (add_a_blank, "line 3: written without the key"),
        (take_the_first_out, "line 1: entries 1 to 1 are missing before it"),
        (put_in_rubbish, "line 5: not a ledger entry"),
        (cut_the_end, "entries 5 to 6 were cut off the end"),
        (cut_all, "entries 1 to 6 were cut off the end"),
        (change_the_last, "line 6: changed, or not written with this key"),
    ],
)
def test_tampering_is_found_and_named_and_stays_so_when_the_ledger_goes_on(
    ledger: Ledger, tamper: Any, problem: str
) -> None:
    path = fill(ledger, 6)
    lines = path.read_bytes().splitlines(keepends=True)
    tamper(lines)
    path.write_bytes(b"".join(lines))
    assert check(ledger).problems[0] == problem
    ledger.append({"id": "a"})
    ledger.append({"id": "b"})
    assert check(ledger).problems


def test_deleted_file_is_noticed_before_and_after_the_next_entry(
    ledger: Ledger,
) -> None:
    path = fill(ledger, 3)
    path.unlink()
    assert check(ledger).problems == ("entries 1 to 3 were cut off the end",)
    assert ledger.append({"id": "x"})["seq"] == 4
    first, second = check(ledger).problems
    assert first.startswith("line 1: when it was written, the ledger had lost its end")
    assert second == "line 1: entries 1 to 3 are missing before it"


def test_file_rewritten_with_plain_hashes_is_noticed(ledger: Ledger) -> None:
    path = fill(ledger, 3)
    path.write_bytes(unkeyed(3))
    *unsealed, last = check(ledger).problems
    assert len(unsealed) == 3 and last == "entries 1 to 3 were cut off the end"


def test_file_rewritten_with_a_key_of_ones_own_is_noticed(
    ledger: Ledger, tmp_path: Path
) -> None:
    path = fill(ledger, 3)
    other = Ledger(str(tmp_path / "other" / "ledger.jsonl"))
    forged = fill(other, 3).read_bytes()
    path.write_bytes(forged)
    problems = check(ledger).problems
    assert problems[0] == "lines 1 to 3: changed, or not written with this key"
    Path(ledger.key_path).write_bytes(Path(other.key_path).read_bytes())
    assert check(ledger).problems == (
        "the head is of another key: whether entries were cut off cannot be told",
    )
    ledger.append({"id": "x"})
    assert check(ledger).problems == (
        "line 4: when it was written, the head was of another key",
    )


@pytest.mark.parametrize("data", [None, b"", b"short", b"k" * 32])
def test_replaced_key_is_noticed_and_entries_go_on(
    ledger: Ledger, data: bytes | None
) -> None:
    fill(ledger, 3)
    key = Path(ledger.key_path)
    key.unlink() if data is None else key.write_bytes(data)
    assert check(ledger).problems
    assert ledger.append({"id": "x"})["seq"] == 4
    problems = check(ledger).problems
    assert problems[0] == "lines 1 to 3: changed, or not written with this key"
    assert problems[1] == "line 4: when it was written, the head was of another key"
    assert len(problems) == 2


@pytest.mark.parametrize("data", [None, b"", b"1 a b c", b"\xff" * 200, "another"])
def test_head_removed_or_replaced_is_noticed(
    ledger: Ledger, tmp_path: Path, data: Any
) -> None:
    fill(ledger, 3)
    head = Path(ledger.head_path)
    if data == "another":  # of an earlier moment
        kept = head.read_bytes()
        fill(ledger, 2)
        head.write_bytes(kept)
    elif data is None:
        head.unlink()
    else:
        head.write_bytes(data)
    assert len(check(ledger).problems) == 1
    ledger.append({"id": "x"})
    assert len(check(ledger).problems) == 1


def test_head_that_cannot_be_opened_for_want_of_files_is_waited_for(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Or else the next line would say for ever that the head was unreadable."""
    fill(ledger, 2)
    real = open

    def no_files(path: Any, *rest: Any) -> Any:
        if str(path) == ledger.head_path:
            raise OSError(errno.EMFILE, "too many open files")
        return real(path, *rest)

    fresh = Ledger(ledger.path, clock=lambda: 1000.0)
    monkeypatch.setattr("builtins.open", no_files)
    with pytest.raises(OSError):
        fresh.intend({"id": "3"})
    fresh.note({"event": "request", "id": "4"})
    assert fresh.flush() == 1
    assert fresh.head() == ""
    monkeypatch.undo()
    assert fresh.flush() == 0
    assert ids(ledger) == ["id-0", "id-1", "4"]
    assert check(ledger).sound()


def test_hash_that_is_no_text_is_a_changed_line_and_stops_nobody(
    ledger: Ledger,
) -> None:
    path = fill(ledger, 3)
    data = bytearray(path.read_bytes())
    data[-10] = 0xE9
    path.write_bytes(data)
    fill(ledger, 1)
    assert any("line 3" in problem for problem in check(ledger).problems)
    assert ids(ledger)[-1] == "id-0"


def test_head_a_moment_behind_is_told_as_a_crash(ledger: Ledger) -> None:
    fill(ledger, 3)
    kept = Path(ledger.head_path).read_bytes()
    ledger.note({"id": "a"})
    ledger.note({"id": "b"})
    assert ledger.flush() == 0
    Path(ledger.head_path).write_bytes(kept)
    report = check(ledger)
    assert report.sound()
    assert report.notes[0].startswith("the last 2 entries are newer than the head")
    ledger.append({"id": "c"})
    assert check(ledger) == Report(6, list(ledger.entries())[-1]["hash"])


def test_head_that_a_power_cut_left_behind_is_told_as_such(ledger: Ledger) -> None:
    """Of several taps in a tenth of a second, each intent is on the disk, no head."""
    fill(ledger, 2)
    kept = Path(ledger.head_path).read_bytes()
    for number in range(3):
        ledger.finish(ledger.intend({"id": str(number)}), {"id": str(number)})
    Path(ledger.head_path).write_bytes(kept)
    assert check(ledger).sound()
    assert ledger.append({"id": "next"})["seq"] == 9
    assert check(ledger) == Report(9, list(ledger.entries())[-1]["hash"])
    fill(ledger, 1)
    Path(ledger.head_path).write_bytes(kept)
    assert "put back by hand" in check(ledger).problems[0]


def test_crash_before_the_first_head_is_a_crash(ledger: Ledger) -> None:
    ledger.note({"id": "a"})
    ledger.note({"id": "b"})
    assert ledger.flush() == 0
    Path(ledger.head_path).unlink()
    assert check(ledger).sound()
    ledger.append({"id": "c"})
    assert check(ledger).sound()


def test_head_that_was_not_written_for_long_is_told(tmp_path: Path) -> None:
    now = [1000.0]
    ledger = Ledger(str(tmp_path / "l"), clock=lambda: now[0])
    ledger.append({"id": "1"})
    kept = Path(ledger.head_path).read_bytes()
    Path(ledger.head_path).unlink()
    Path(ledger.head_path).symlink_to(tmp_path / "gone")
    for _ in range(3):
        now[0] += 60
        ledger.append({"id": "x"})
    Path(ledger.head_path).unlink()
    Path(ledger.head_path).write_bytes(kept)
    assert check(ledger).problems


def test_head_that_a_person_kept_is_found_with_what_came_after(ledger: Ledger) -> None:
    fill(ledger, 3)
    seen = ledger.head()
    fill(ledger, 4)
    assert check(ledger, seen).after == 4
    assert check(ledger, seen.upper()).after == 4
    assert check(ledger, ledger.head()).after == 0
    assert check(ledger, "0" * 8).after == -1


def test_rewrite_with_everything_replaced_is_known_by_the_head_on_the_card(
    ledger: Ledger, tmp_path: Path
) -> None:
    path = fill(ledger, 3)
    seen = ledger.head()
    for file in (path, Path(ledger.key_path), Path(ledger.head_path)):
        file.unlink()
    fill(ledger, 3)
    assert check(ledger).sound()
    assert check(ledger, seen).after == -1


@limits(
    deadline=None,
    max_examples=examples(150),
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(st.data())
def test_change_of_any_single_byte_is_noticed(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    folder = tmp_path_factory.mktemp("ledger")
    ledger = Ledger(str(folder / "state" / "ledger.jsonl"), lambda: 1000.0)
    path = Path(ledger.path)
    ledger.finish(ledger.intend({"id": "1"}), {"event": "request", "id": "1"})
    ledger.flush()
    if data.draw(st.booleans()):
        with path.open("ab") as file:
            file.write(b'{"torn')
    ledger.append({"id": "last"})
    assert check(ledger).sound()
    victim = data.draw(st.sampled_from([path, Path(ledger.head_path)]))
    content = bytearray(victim.read_bytes())
    at = data.draw(st.integers(0, 2000)) % len(content)
    content[at] ^= data.draw(st.integers(1, 255))
    victim.write_bytes(content)
    assert check(ledger).problems


# Long ledgers.


def count_decoded(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    decoded: list[bytes] = []

    def counted(line: bytes) -> Any:
        decoded.append(line)
        return decode(line)

    monkeypatch.setattr(ledgers, "decode", counted)
    return decoded


def decide(ledger: Ledger, count: int) -> None:
    """Requests as a server writes them: an intent each, and its end."""
    for number in range(count):
        entry = {"event": "request", "id": f"1700000000-{number:08x}", "detail": "ls"}
        ledger.finish(ledger.intend(entry), entry)
    ledger.flush()


def test_one_request_is_found_by_decoding_its_lines_alone(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    decide(ledger, 20)
    decoded = count_decoded(monkeypatch)
    assert len(ledger.find("1700000000-0000000a")) == 2
    assert len(list(ledger.entries("0000000b"))) == 2
    assert len(decoded) == 4


@pytest.mark.parametrize("most", [1, 500, 3000, 1 << 20])
def test_end_of_a_ledger_is_judged_by_itself(ledger: Ledger, most: int) -> None:
    decide(ledger, 20)
    path = Path(ledger.path)
    whole, data = check(ledger), path.read_bytes()
    end = check(ledger, most=most)
    assert (end.sound() and (end.total, end.head) == (40, whole.head)) or most == 1
    assert end.part == (most < len(data))
    path.write_bytes(data[:-200])
    assert not check(ledger, most=most).sound()
    path.write_bytes(data.replace(b"00000013", b"00000014"))
    assert most == 1 or not check(ledger, most=most).sound()
