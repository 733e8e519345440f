from __future__ import annotations

import errno
import fcntl
import json
import os
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as limits
from hypothesis import strategies as st

from feishuperm.lib import files
from feishuperm.services import ledger as ledger_module
from feishuperm.services import ledger_check
from feishuperm.services.ledger import (
    MAX_LINE,
    Ledger,
    head_path_of,
)
from feishuperm.services.ledger_check import Report, check
from tests.conftest import ROOT, is_thorough


def fill(ledger: Ledger, count: int) -> Path:
    for number in range(count):
        ledger.append({"event": "request", "id": f"id-{number}"})
    return Path(ledger.path)


def ids(ledger: Ledger) -> list[str]:
    return [entry["id"] for entry in ledger.entries()]


# Lines.


def test_entry_is_stored_with_time_number_and_the_hash_of_the_line_before(
    ledger: Ledger,
) -> None:
    first = ledger.append({"event": "request", "id": "1", "reason": "不行\n\ud800"})
    second = ledger.append({"event": "undo", "id": "1"})
    lines = Path(ledger.path).read_bytes().splitlines()
    assert first["time"] == 1000.0
    assert (first["seq"], second["seq"]) == (1, 2)
    assert (first["prev"], second["prev"]) == ("", first["hash"])
    assert list(ledger.entries()) == [first, second]
    assert [json.loads(line) for line in lines] == [first, second]
    assert check(ledger) == Report(2, second["hash"])


def test_ledger_and_key_lie_in_the_state_folder_and_the_head_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    old = os.umask(0)
    try:
        path = fill(Ledger(), 1)
    finally:
        os.umask(old)
    assert path == tmp_path / "state" / "feishuperm" / "ledger.jsonl"
    head = Path(Ledger().head_path)
    assert head.parent == tmp_path / "config" / "feishuperm"
    for file in (path, path.with_name("ledger.key"), head):
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700


def test_two_ledgers_of_one_user_have_two_heads(tmp_path: Path) -> None:
    environ = {"XDG_CONFIG_HOME": str(tmp_path)}
    assert head_path_of("/a/ledger.jsonl", environ) != head_path_of("/b/l", environ)


def test_no_file_is_an_empty_ledger(ledger: Ledger) -> None:
    assert list(ledger.entries()) == []
    assert check(ledger) == Report()
    assert ledger.recent(60) == []
    assert ledger.open_intents() == []
    assert ledger.head() == ""


def test_caller_cannot_say_what_is_the_ledgers_to_say(ledger: Ledger) -> None:
    ledger.append({"id": "a"})
    forged = {"id": "b", "seq": 9, "prev": "x", "base": 7, "gap": "y", "hash": "z"}
    stored = ledger.append(forged)
    assert (stored["seq"], stored["id"]) == (2, "b")
    assert not {"base", "gap"} & set(stored)
    assert check(ledger).sound()


def test_entry_is_on_the_disk_before_append_returns_and_the_head_after_it(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(ledger, 1)
    synced: list[str] = []
    real = os.fsync

    def fsync(fd: int) -> None:
        synced.append(os.path.basename(os.readlink(f"/proc/self/fd/{fd}")))
        real(fd)

    monkeypatch.setattr(ledger_module.os, "fsync", fsync)
    fill(ledger, 1)
    assert synced == ["ledger.jsonl", "ledger.jsonl.head"]
    synced.clear()
    ticket = ledger.intend({"id": "1"})
    ledger.finish(ticket, {"id": "1"})
    assert synced == ["ledger.jsonl"], "a tap waits for the disk once"
    assert ledger.flush() == 0
    assert synced[1:] == ["ledger.jsonl", "ledger.jsonl.head"]


def test_recent_is_by_time_and_find_by_id(tmp_path: Path) -> None:
    now = [10_000.0]
    ledger = Ledger(str(tmp_path / "ledger"), clock=lambda: now[0])
    for moment in (100.0, 9_000.0, 300_000.0, 299_000.0, 300_100.0):
        now[0] = moment
        ledger.append({"id": f"{moment:.0f}"})
    ledger.append({"id": "100"})
    assert [entry["id"] for entry in ledger.recent(90)] == ["300100", "100"]
    assert [entry["time"] for entry in ledger.find("100")] == [100.0, 300_100.0]


def test_recent_reads_the_end_of_a_large_file_only(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = fill(ledger, 1)
    line = b'{"time": 1, "id": "old", "detail": "' + b"x" * 200 + b'"}\n'
    path.write_bytes(line * 20_000 + path.read_bytes())
    read: list[int] = []
    real = os.pread

    def pread(fd: int, length: int, offset: int) -> bytes:
        read.append(length)
        return real(fd, length, offset)

    monkeypatch.setattr(ledger_module.os, "pread", pread)
    later = Ledger(ledger.path, clock=lambda: 5000.0)
    assert [entry["id"] for entry in later.recent(4500)] == ["id-0"]
    assert sum(read) == path.stat().st_size  # within an hour of the limit: read on
    read.clear()
    later = Ledger(ledger.path, clock=lambda: 9000.0)
    assert [entry["id"] for entry in later.recent(8001)] == ["id-0"]
    assert later.recent(10) == []
    assert sum(read) < path.stat().st_size * 1.2


def test_endless_line_costs_no_memory_and_is_no_entry(ledger: Ledger) -> None:
    path = fill(ledger, 1)
    with path.open("ab") as file:
        file.write(b"x" * (MAX_LINE * 3))
    ledger.append({"event": "request", "id": "after"})
    assert ids(ledger) == ["id-0", "after"]
    assert [entry["id"] for entry in ledger.recent(60)] == ["id-0", "after"]
    assert any("not a ledger entry" in line for line in check(ledger).problems)
    assert not any("missing" in line for line in check(ledger).problems)


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
    processes = [
        subprocess.Popen([sys.executable, "-c", PROCESS, ledger.path, letter], cwd=ROOT)
        for letter in "ab"
    ]
    threads = [threading.Thread(target=fill, args=(ledger, 40)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for number in range(40):
        ticket = ledger_in_a_server(ledger).intend({"id": f"t{number}"})
        assert ticket > 0
    for thread in threads:
        thread.join(60)
    assert [process.wait(60) for process in processes] == [0, 0]
    report = check(ledger)
    assert (report.total, report.problems) == (200, ())


def ledger_in_a_server(ledger: Ledger) -> Any:
    """Its `intend()`, tried again as the loop's timer would."""

    class Patient:
        def intend(self, entry: dict[str, Any]) -> int:
            until = time.monotonic() + 20
            while True:
                try:
                    return ledger.intend(entry)
                except OSError:
                    assert time.monotonic() < until
                    threading.Event().wait(0.01)

    return Patient()


def test_value_that_json_does_not_know_stops_nothing(ledger: Ledger) -> None:
    odd = {"a": {1, 2}, "b": {(1, 2): b"x"}, "c": Path("/x"), "d": float("nan")}
    ledger.note(odd)
    ledger.note({"id": "after"})
    assert ledger.flush() == 0
    assert list(ledger.entries())[1]["id"] == "after"


@limits(deadline=None, max_examples=30)
@given(st.lists(st.dictionaries(st.text(max_size=5), st.text(max_size=9)), max_size=5))
def test_whatever_entries_say_the_chain_holds(
    tmp_path_factory: pytest.TempPathFactory, entries: list[dict[str, str]]
) -> None:
    ledger = Ledger(str(tmp_path_factory.mktemp("ledger") / "file"))
    stored = [ledger.append(entry) for entry in entries]
    assert list(ledger.entries()) == stored
    assert check(ledger).problems == ()


# Intents.


def test_intent_is_on_the_disk_and_its_end_names_it(ledger: Ledger) -> None:
    ticket = ledger.intend({"id": "1", "action": "allow"})
    intent = next(ledger.entries())
    assert (intent["event"], intent["id"], intent["seq"]) == ("intent", "1", ticket)
    assert check(ledger).missing == (
        "line 1: request 1 was being decided (allow) and its end is not written",
    )
    ledger.finish(ticket, {"event": "request", "id": "1", "state": "allowed"})
    assert list(ledger.entries())[1]["intent"] == ticket
    assert ledger.open_intents() == []
    assert check(ledger).sound()
    assert ledger.flush() == 0
    assert check(ledger).notes == ()


def test_end_that_is_not_synced_yet_is_no_reason_for_alarm(ledger: Ledger) -> None:
    for number in range(3):
        ticket = ledger.intend({"id": str(number)})
    ledger.finish(ticket, {"id": "2"})
    ledger.finish(ticket, {"id": "2"})
    notes = check(ledger).notes
    assert notes == (
        "the last 2 entries are newer than the head: a writer was stopped, or is about"
        " to write it",
    )
    assert Ledger(ledger.path).append({"id": "x"})["seq"] == 6
    assert check(ledger).notes == ()
    assert check(ledger).problems == ()


def test_head_on_a_card_is_one_that_a_power_cut_leaves(ledger: Ledger) -> None:
    ticket = ledger.intend({"id": "1"})
    head = next(ledger.entries())["hash"][:8]
    assert ledger.head() == head
    ledger.finish(ticket, {"id": "1"})
    assert ledger.head() == head
    ledger.flush()
    assert ledger.head() == list(ledger.entries())[-1]["hash"][:8]
    assert Ledger(ledger.path).head() == ledger.head()


def test_next_start_closes_what_a_crash_left_open(tmp_path: Path) -> None:
    now = [1000.0]
    ledger = Ledger(str(tmp_path / "ledger"), clock=lambda: now[0])
    first = ledger.intend({"id": "done", "action": "deny", "rules": []})
    ledger.finish(first, {"event": "request", "id": "done"})
    ledger.intend({"id": "1", "action": "always", "rules": ["Bash(x)"], "who": "me"})
    now[0] += 5 * 24 * 3600
    ledger.append({"event": "supervisor", "action": "allow"})
    again = Ledger(ledger.path, clock=lambda: now[0])
    assert [end["id"] for end in again.recover()] == ["1"]
    end = list(ledger.entries())[-1]
    assert (end["event"], end["state"], end["action"]) == (
        "request",
        "unknown",
        "always",
    )
    assert (end["rules"], end["who"], end["ended"]) == (["Bash(x)"], "me", 1000.0)
    assert "pid" not in end
    assert again.recover() == []
    report = check(ledger)
    assert report.sound()
    assert "may have reached the session" in report.notes[0]


def test_intent_of_a_server_that_still_runs_is_left_to_it(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ledger_module.os, "getpid", os.getppid)
    ledger.intend({"id": "1"})
    monkeypatch.undo()
    assert ledger.recover() == []
    later = Ledger(ledger.path, clock=lambda: 2000.0)  # nobody decides for so long
    assert len(later.recover()) == 1


# What cannot be written.


@pytest.fixture
def held(ledger: Ledger) -> Iterator[Any]:
    path = fill(ledger, 1)
    with path.open("rb") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        yield other


def test_held_lock_is_an_error_and_soon(
    ledger: Ledger, held: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert ledger_check.WAIT <= 5
    monkeypatch.setattr(ledger_check, "WAIT", 0.1)
    started = time.monotonic()
    with pytest.raises(OSError):
        ledger.intend({"id": "x"})
    ledger.note({"id": "y"})
    assert ledger.flush() == 1
    assert time.monotonic() - started < 30  # it gave up: nobody ever lets go
    assert 0 < ledger_module.QUICK <= 0.05
    assert ids(ledger) == ["id-0"]
    assert check(ledger).missing == (
        "1 entries are waiting to be written",
        "entries cannot be written now: another process holds the lock",
    )


def test_held_lock_keeps_entries_in_memory_until_it_is_free(
    ledger: Ledger, held: Any
) -> None:
    for number in range(3):
        ledger.note({"id": str(number)})
    assert (ledger.flush(), ledger.pending()) == (3, 3)
    assert ledger.problem
    held.close()
    assert (ledger.flush(), ledger.pending(), ledger.problem) == (0, 0, "")
    assert ids(ledger) == ["id-0", "0", "1", "2"]
    assert check(ledger).sound()


def test_waiting_entries_come_before_the_next_intent(ledger: Ledger, held: Any) -> None:
    ledger.finish(1, {"id": "end"})
    held.close()
    ticket = ledger.intend({"id": "next"})
    assert ids(ledger) == ["id-0", "end", "next"]
    assert ticket == 3
    assert ledger.pending() == 0


def test_patient_writer_gets_an_error_not_a_hang(
    ledger: Ledger, held: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ledger_module, "WAIT", 0.0)
    with pytest.raises(OSError):
        ledger.append({"id": "x"})
    assert ids(ledger) == ["id-0"]


def test_what_is_too_much_to_keep_is_counted_and_told(
    ledger: Ledger, held: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ledger_module, "MAX_WAITING", 2)
    for number in range(5):
        ledger.note({"id": str(number)})
    assert (ledger.flush(), ledger.pending()) == (5, 5)
    held.close()
    assert ledger.flush() == 0
    assert list(ledger.entries())[-1]["count"] == 3
    assert check(ledger).missing == (
        "line 4: 3 entries before it could not be written, and were too many to keep",
    )


def test_many_entries_are_written_a_part_at_a_time(
    ledger: Ledger, held: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ledger_module, "MAX_BATCH", 3)
    monkeypatch.setattr(ledger_module, "MAX_WAITING", 8)
    for number in range(10):
        ledger.note({"id": str(number)})
    held.close()
    assert ledger.flush() == 7
    assert ledger.intend({"id": "now"}) == 8
    assert ledger.pending() == 4
    assert ledger.flush() == 0
    assert [entry.get("id") for entry in ledger.entries()] == [
        "id-0", "0", "1", "2", "3", "4", "5", "now", "6", "7", None
    ]  # fmt: skip
    assert list(ledger.entries())[-1]["count"] == 2
    assert check(ledger).problems == ()


def test_full_disk_leaves_no_half_entry_and_loses_none(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = fill(ledger, 2)
    before = path.read_bytes()

    def write(fd: int, data: bytes) -> None:
        os.write(fd, data[:10])
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(ledger_module, "write_all", write)
    with pytest.raises(OSError, match="No space left"):
        ledger.append({"id": "refused"})
    with pytest.raises(OSError, match="No space left"):
        ledger.intend({"id": "refused"})
    ledger.note({"id": "kept"})
    assert ledger.flush() == 1
    assert ledger.problem == "No space left on device"
    assert path.read_bytes() == before
    monkeypatch.setattr(ledger_module, "write_all", files.write_all)
    assert ledger.flush() == 0
    assert ids(ledger) == ["id-0", "id-1", "kept"]
    assert check(ledger).sound()


LIMITED = """
import resource, sys
from feishuperm.services.ledger import Ledger
ledger = Ledger(sys.argv[1])
ledger.append({"id": "before"})
soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
resource.setrlimit(resource.RLIMIT_FSIZE, (700, hard))
refused = 0
for number in range(10):
    try:
        ledger.finish(ledger.intend({"id": f"i{number}"}), {"id": f"e{number}"})
    except OSError:
        refused += 1
assert refused >= 8, refused
waiting = ledger.pending()
resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
assert ledger.flush() == 0
print(refused, waiting)
"""


def test_file_that_may_not_grow_refuses_intents_and_keeps_ends(ledger: Ledger) -> None:
    result = subprocess.run(
        [sys.executable, "-c", LIMITED, ledger.path],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert result.returncode == 0, result.stderr
    entries = list(ledger.entries())
    intents = [entry["id"][1:] for entry in entries if entry.get("event") == "intent"]
    ends = [entry["id"][1:] for entry in entries if "intent" in entry]
    assert intents == ends
    assert check(ledger).sound()


READ_ONLY = """
import os, sys
from feishuperm.services.ledger import Ledger
from feishuperm.services.ledger_check import check
if os.getuid() == 0:
    os.setgid(65534)
    os.setuid(65534)
ledger = Ledger(sys.argv[1])
ledger.append({"id": "1"})
os.chmod(sys.argv[1], 0o400)
try:
    ledger.intend({"id": "2"})
except PermissionError:
    pass
ledger.note({"id": "3"})
assert ledger.flush() == 1
print(*check(ledger).missing, sep="; ")
os.chmod(sys.argv[1], 0o600)
assert ledger.flush() == 0
assert check(ledger).sound()
"""


def test_read_only_file_refuses_intents_and_keeps_ends() -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as name:  # where another user may go
        os.chmod(name, 0o777)
        result = subprocess.run(
            [sys.executable, "-c", READ_ONLY, f"{name}/ledger"],
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=60,
        )
    assert result.returncode == 0, result.stderr
    assert result.stdout == (
        "1 entries are waiting to be written; "
        "entries cannot be written now: Permission denied\n"
    )


def test_folder_that_vanished_is_made_again_and_the_loss_told(ledger: Ledger) -> None:
    path = fill(ledger, 3)
    head = Path(ledger.head_path)
    kept = head.read_bytes()
    for file in path.parent.iterdir():
        file.unlink()
    path.parent.rmdir()
    ticket = ledger.intend({"id": "x"})
    assert (ticket, list(ids(ledger))) == (1, ["x"])  # its head was there too
    head.write_bytes(kept)
    assert check(ledger).problems != ()


def test_folder_that_is_a_file_is_an_error_and_no_loss(ledger: Ledger) -> None:
    Path(ledger.path).parent.write_text("in the way")
    with pytest.raises(OSError):
        ledger.intend({"id": "x"})
    ledger.note({"id": "y"})
    assert ledger.flush() == 1
    Path(ledger.path).parent.unlink()
    assert ledger.flush() == 0
    assert ids(ledger) == ["y"]


def test_ledger_replaced_while_its_lock_is_awaited_gets_the_entry(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = fill(ledger, 1)
    moved = []

    def acquire(fd: int, wait: float, **options: Any) -> None:
        if not moved:
            moved.append(path.rename(f"{path}.old"))
        files.acquire(fd, wait, **options)

    monkeypatch.setattr(ledger_module, "acquire", acquire)
    ledger.append({"id": "x"})
    assert ids(ledger) == ["x"]


def test_unwritable_head_fails_no_entry_and_is_told(tmp_path: Path) -> None:
    now = [1000.0]
    place = tmp_path / "head"
    place.mkdir()
    ledger = Ledger(str(tmp_path / "l"), lambda: now[0], head_path=str(place))
    fill(ledger, 3)
    assert ledger.state()["problem"] == f"{place}: Is a directory"
    assert check(ledger).problems == (
        "line 1: when it was written, the head was unreadable",
        "the head is unreadable: whether entries were cut off cannot be told",
    )
    place.rmdir()
    ledger.append({"id": "2"})
    assert ledger.state() == {"head": ledger.head(), "pending": 0, "problem": ""}
    assert check(ledger).problems == (
        "line 1: when it was written, the head was unreadable",
    )


# What a kill must not take.


SPOOLING = """
import os, signal, sys
from feishuperm.services.ledger import Ledger
ledger = Ledger(sys.argv[1])
ledger.recover()
ticket = ledger.intend({"id": "allowed"})
import fcntl
other = open(sys.argv[1], "rb")
fcntl.flock(other, fcntl.LOCK_EX)
ledger.finish(ticket, {"event": "request", "id": "allowed"})
ledger.note({"event": "request", "id": "denied", "reason": "TOKEN=s3cr3t",
             "rules": ["Bash(TOKEN=s3cr3t)"]})
assert ledger.flush() == 3
if sys.argv[2] == "written":
    other.close()
    ledger._spooled = False  # as if there were no time to clear it
    assert ledger.flush() == 0
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize("when", ["waiting", "written"])
def test_what_a_killed_server_could_not_write_is_written_by_the_next(
    ledger: Ledger, when: str
) -> None:
    command = [sys.executable, "-c", SPOOLING, ledger.path, when]
    assert subprocess.run(command, cwd=ROOT, timeout=60).returncode == -9
    spool = Path(ledger.path).with_name("ledger.late")
    assert b"denied" in spool.read_bytes()
    assert b"s3cr3t" not in spool.read_bytes()
    now = Ledger(ledger.path)
    missing = check(now).missing
    assert ("2 entries are waiting to be written" in missing) == (when == "waiting")
    assert now.recover() == []
    assert ids(now) == ["allowed", "allowed", "denied"]
    assert check(now).sound()
    assert now.recover() == []
    assert len(ids(now)) == 3
    present = ["Bash(TOKEN=s3cr3t)"]
    assert now.exact(list(now.entries())[-1], present) == present


def test_spooled_line_of_somebody_else_is_not_taken_in(ledger: Ledger) -> None:
    fill(ledger, 1)
    ledger.recover()
    spool = Path(ledger.path).with_name("ledger.late")
    forged = b'{"id": "forged", "late": "x"}\n' + b'{"id": "y", "hash": "0"}\n\0'
    spool.write_bytes(forged + spool.read_bytes()[len(forged) :])
    again = Ledger(ledger.path)
    again.recover()
    assert ids(again) == ["id-0"]


def test_more_than_the_spool_holds_waits_in_memory_alone(
    ledger: Ledger, held: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ledger_module, "QUICK", 0.001)
    ledger.recover()
    for number in range(100):
        ledger.note({"id": str(number), "detail": "x" * 1000})
        ledger.flush()
    assert 0 < len(Ledger(ledger.path).late()) < 17
    held.close()
    assert ledger.flush() == 0
    assert len(ids(ledger)) == 101
    assert Ledger(ledger.path).late() == []


# Secrets.


def test_secret_is_masked_whoever_writes_it(ledger: Ledger) -> None:
    stored = ledger.append(
        {
            "detail": "curl -H 'Authorization: Bearer s3cr3t-canary' https://x",
            "reason": "use ghp_s3cr3tcanary000000000",
            "rules": ["Bash(TOKEN=s3cr3t x)", "Bash(npm test)"],
            "more": {"list": ["PASSWORD=s3cr3t"]},
            "project": "/work/token=s3",
        }
    )
    assert b"s3cr3t" not in Path(ledger.path).read_bytes()
    assert stored["rules"] == ["Bash(TOKEN=*** x)", "Bash(npm test)"]
    assert stored["project"] == "/work/token=s3"
    assert check(ledger).sound()


def test_rule_with_a_secret_is_found_again_by_its_mark(ledger: Ledger) -> None:
    rules = ["Bash(TOKEN=s3cr3t x)", "Bash(npm test)"]
    stored = ledger.append({"rules": rules})
    present = ["Bash(TOKEN=other x)", *rules]
    assert ledger.exact(stored, present) == rules
    assert ledger.exact(stored, []) == ["", "Bash(npm test)"]
    assert ledger.exact({"rules": ["A"]}, []) == ["A"]  # none held a secret
    assert ledger.exact({}, []) == []


# Crashes.

SEQUENCE = """
import os, sys
from feishuperm.services.ledger import Ledger
from feishuperm.services.rule_writer import RulePlan, RuleWriter
path, project, told = sys.argv[1:]
ledger, writer = Ledger(path), RuleWriter()
ledger.recover()
out = os.open(told, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
for number in range(100000):
    id = f"{os.getpid()}-{number}"
    rule = f"Bash(run {id})"
    ticket = ledger.intend({"id": id, "action": "always", "rules": [rule]})
    writer.write(project, RulePlan((rule,)))
    os.write(out, f"{id}\\n".encode())  # the decision
    ledger.finish(ticket, {"event": "request", "id": id, "state": "allowed",
                           "action": "always", "rules": [rule]})
    if number % 3 == 0:
        ledger.flush()
    if number == 0:
        print("runs", flush=True)
"""


def test_kill_at_any_moment_leaves_every_decision_and_rule_on_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sixty servers die somewhere between intent, rule, decision and end."""
    deaths = 60 if is_thorough() else 15
    environ = {**os.environ, "XDG_STATE_HOME": str(tmp_path)}
    project = tmp_path / "project"
    project.mkdir()
    told = tmp_path / "told"
    ledger = Ledger(str(tmp_path / "ledger.jsonl"))
    for number in range(0, 60, 60 // deaths):
        process = subprocess.Popen(
            [sys.executable, "-c", SEQUENCE, ledger.path, str(project), str(told)],
            cwd=ROOT,
            env=environ,
            stdout=subprocess.PIPE,
        )
        assert process.stdout is not None
        process.stdout.readline()
        threading.Event().wait((number * 7 % 60) / 10_000)
        process.kill()
        process.wait(10)
        process.stdout.close()
        (project / ".claude" / "settings.local.json").write_bytes(
            trimmed(project / ".claude" / "settings.local.json", ledger)
        )
    ledger.recover()
    report = check(ledger)
    assert (report.problems, report.missing) == ((), ())
    entries = list(ledger.entries())
    intents = [entry["id"] for entry in entries if entry["event"] == "intent"]
    ends = [entry["id"] for entry in entries if entry["event"] == "request"]
    assert len(set(intents)) == len(intents)
    assert sorted(ends) == sorted(intents)
    assert set(told.read_text().split()) <= set(intents)
    assert len(intents) >= deaths


def trimmed(path: Path, ledger: Ledger) -> bytes:
    """Settings without rules, all of which must be on record."""
    rules = json.loads(path.read_bytes())["permissions"]["allow"]
    planned = {rule for entry in ledger.entries() for rule in entry.get("rules") or ()}
    assert set(rules) <= planned
    return b"{}"


def test_pipe_in_the_place_of_the_ledger_holds_nobody(ledger: Ledger) -> None:
    os.makedirs(os.path.dirname(ledger.path))
    os.mkfifo(ledger.path)
    assert ledger.recover() == [] and ledger.latest(0) == []
    with pytest.raises(OSError, match="not a regular file"):
        ledger.append({"id": "1"})
