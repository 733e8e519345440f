from __future__ import annotations

import errno
import os
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from feishuperm.errors import FileError
from feishuperm.lib import files
from feishuperm.lib.files import (
    append_line,
    guard_dir,
    locked,
    private_dir,
    read_bytes,
    read_json,
    write_atomic,
)


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path / "state" / "feishuperm"


@pytest.fixture
def target(tmp_path: Path) -> Path:
    folder = tmp_path / "folder"
    folder.mkdir()
    return folder / "file"


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


def test_missing_file_reads_as_none(target: Path) -> None:
    assert read_json(str(target)) is None
    assert read_json(str(target / "below" / "nothing")) is None


def test_byte_order_mark_is_skipped(target: Path) -> None:
    target.write_bytes(b'\xef\xbb\xbf{"a": 1}')
    assert read_json(str(target)) == {"a": 1}


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"{\n x}", "line 2: not JSON"),
        (b"", "line 1: not JSON"),
        (b"{} {}", "line 1: not JSON"),
        (b'{\n"a": "\xff"}', "line 2: not UTF-8"),
        (b'{"a": NaN}', "not JSON: NaN is no JSON number"),
        (b'{"a": -Infinity}', "not JSON: -Infinity is no JSON number"),
        (b"[" * 200_000, "nested too deeply"),
    ],
)
def test_broken_json_is_refused_by_file_and_place(
    target: Path, data: bytes, expected: str
) -> None:
    target.write_bytes(data)
    with pytest.raises(FileError) as raised:
        read_json(str(target))
    assert str(raised.value).startswith(f"{target}, {expected}")
    assert "\n" not in str(raised.value)


def test_folder_fifo_and_oversize_are_not_read(target: Path) -> None:
    os.mkfifo(target)
    for path in (target, target.parent):
        with pytest.raises(FileError, match=r"cannot read .*: not a regular file"):
            read_json(str(path))
    target.unlink()
    target.write_bytes(b"12345")
    with pytest.raises(FileError, match="larger than 4 bytes"):
        read_bytes(str(target), limit=4)
    assert read_bytes(str(target), limit=5) == b"12345"


def test_new_file_gets_the_usual_mode(target: Path) -> None:
    before = os.umask(0o027)
    try:
        write_atomic(str(target), b"new")
    finally:
        os.umask(before)
    assert target.read_bytes() == b"new"
    assert mode_of(target) == 0o640


def test_nobody_else_can_write_what_we_make_whatever_the_umask(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b" / "file"
    before = os.umask(0)
    try:
        private_dir(str(path.parent))
        write_atomic(str(path), b"new")
        append_line(str(path.parent / "log"), b"line")
    finally:
        os.umask(before)
    assert (mode_of(path), mode_of(path.parent / "log")) == (0o644, 0o600)
    assert [mode_of(path.parent), mode_of(path.parent.parent)] == [0o700, 0o700]


@pytest.mark.parametrize(
    ("mode", "after"), [(0o777, 0o700), (0o775, 0o700), (0o755, 0o755), (0o700, 0o700)]
)
def test_folder_that_others_can_write_to_is_mended(
    tmp_path: Path, mode: int, after: int
) -> None:
    tmp_path.chmod(mode)
    guard_dir(str(tmp_path))
    assert mode_of(tmp_path) == after


def test_folder_of_another_user_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    with pytest.raises(FileError, match="it belongs to another user"):
        guard_dir(str(tmp_path))
    guard_dir(str(tmp_path / "none"))


@pytest.mark.parametrize("mode", [0o600, 0o644, 0o755, 0o664])
def test_existing_mode_is_kept(target: Path, mode: int) -> None:
    target.write_bytes(b"old")
    target.chmod(mode)
    write_atomic(str(target), b"new")
    assert (target.read_bytes(), mode_of(target)) == (b"new", mode)


def test_given_mode_wins(target: Path) -> None:
    target.write_bytes(b"old")
    target.chmod(0o644)
    write_atomic(str(target), b"secret", mode=0o600)
    assert mode_of(target) == 0o600


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_root_keeps_the_owner_of_a_file(target: Path) -> None:
    target.write_bytes(b"old")
    os.chown(target, 12345, 12346)
    write_atomic(str(target), b"new")
    assert (target.stat().st_uid, target.stat().st_gid) == (12345, 12346)


def test_link_stays_and_its_target_is_replaced(target: Path, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to("folder/file")
    for data in (b"made through the link", b"changed through the link"):
        write_atomic(str(link), data)
        assert os.readlink(link) == "folder/file"
        assert target.read_bytes() == data


def make_folder(path: Path) -> None:
    path.mkdir()


def make_fifo(path: Path) -> None:
    os.mkfifo(path)


def make_read_only(path: Path) -> None:
    path.write_bytes(b"old")
    path.chmod(0o444)


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (make_folder, "not a regular file"),
        (make_fifo, "not a regular file"),
        (make_read_only, "it is read-only"),
    ],
)
def test_odd_target_is_refused(
    target: Path, make: Callable[[Path], None], reason: str
) -> None:
    make(target)
    before = target.lstat()
    with pytest.raises(FileError, match=f"cannot write .*: {reason}"):
        write_atomic(str(target), b"new")
    assert target.lstat() == before
    assert os.listdir(target.parent) == ["file"]


def test_file_of_another_user_is_refused(
    target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target.write_bytes(b"old")
    stranger = os.geteuid() + 4242
    monkeypatch.setattr(files.os, "geteuid", lambda: stranger)
    with pytest.raises(FileError, match="it belongs to another user"):
        write_atomic(str(target), b"new")
    assert target.read_bytes() == b"old"


def test_missing_folder_is_an_error_not_a_traceback(tmp_path: Path) -> None:
    with pytest.raises(FileError, match="No such file or directory"):
        write_atomic(str(tmp_path / "none" / "file"), b"new")
    with pytest.raises(FileError, match="cannot write"):
        write_atomic("/tmp/nul\0byte", b"new")


@pytest.mark.parametrize("function", ["write", "fchmod", "fsync", "rename"])
def test_failure_leaves_the_old_file_and_nothing_beside_it(
    target: Path, monkeypatch: pytest.MonkeyPatch, function: str
) -> None:
    def fail(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    target.write_bytes(b"old")
    monkeypatch.setattr(files.os, function, fail)
    with pytest.raises(FileError, match="No space left on device"):
        write_atomic(str(target), b"new")
    monkeypatch.undo()
    assert target.read_bytes() == b"old"
    assert os.listdir(target.parent) == ["file"]


def test_data_is_on_the_disk_before_the_rename_and_the_folder_after(
    target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = []

    def spy(name: str) -> None:
        real = getattr(os, name)

        def call(*args: Any) -> Any:
            calls.append(name)
            return real(*args)

        monkeypatch.setattr(files.os, name, call)

    for name in ("write", "fsync", "rename"):
        spy(name)
    write_atomic(str(target), b"new")
    assert calls == ["write", "fsync", "rename", "fsync"]


def test_check_can_stop_the_change_at_the_last_moment(target: Path) -> None:
    def stop() -> None:
        raise RuntimeError("changed meanwhile")

    target.write_bytes(b"old")
    with pytest.raises(RuntimeError):
        write_atomic(str(target), b"new", check=stop)
    assert target.read_bytes() == b"old"
    assert os.listdir(target.parent) == ["file"]


# Runs in a process of its own: it forks a child per system call and lets it die there.
CRASH = """
import os, signal, sys
from feishuperm.lib.files import write_atomic

path, old, new = sys.argv[1], b"old" * 1000, b"new" * 2000
NAMES = ("open", "write", "fsync", "fchmod", "fchown", "close", "rename", "lstat")

def die_at(number):
    left = [number]
    for name in NAMES:
        def call(*args, real=getattr(os, name)):
            left[0] -= 1
            if left[0] < 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return real(*args)
        setattr(os, name, call)

number = 0
seen = set()
while True:
    with open(path, "wb") as file:
        file.write(old)
    child = os.fork()
    if child == 0:
        die_at(number)
        write_atomic(path, new)
        os._exit(0)
    status = os.waitpid(child, 0)[1]
    with open(path, "rb") as file:
        data = file.read()
    assert data in (old, new), (number, data[:20])
    seen.add(data)
    if status == 0:
        assert data == new
        break
    assert os.WTERMSIG(status) == signal.SIGKILL
    number += 1
assert seen == {old, new} and number >= 8, (number, len(seen))
print(number)
"""


def test_killed_at_any_system_call_the_file_is_the_old_or_the_new_one(
    target: Path,
) -> None:
    result = subprocess.run(
        [sys.executable, "-c", CRASH, str(target)],
        capture_output=True,
        text=True,
        timeout=60,
        cwd=Path(__file__).parents[2],
    )
    assert result.returncode == 0, result.stderr


def test_lock_keeps_others_out_and_is_given_back(target: Path) -> None:
    with locked(str(target)):
        with pytest.raises(FileError, match="cannot lock"), locked(str(target), 0):
            pass
        with locked(str(target) + "2", 0):
            pass
    with locked(str(target), 0):
        pass


def test_wait_for_a_lock_is_bounded(target: Path) -> None:
    started = time.monotonic()
    with locked(str(target)), pytest.raises(FileError):
        locked(str(target), 0.1).__enter__()
    assert 0.1 <= time.monotonic() - started < 5


def test_lock_lives_in_our_own_folder(target: Path, state: Path) -> None:
    with locked(str(target)):
        assert os.listdir(target.parent) == []
        assert len(os.listdir(state / "locks")) == 1
    assert mode_of(state) == 0o700


def test_two_names_of_a_file_share_one_lock(target: Path, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(target)
    with locked(str(link)), locked(str(tmp_path / "other")), pytest.raises(FileError):
        locked(str(target), 0).__enter__()


def test_lines_of_several_threads_never_mix(state: Path) -> None:
    path = state / "lines"

    def write(letter: bytes) -> None:
        for _ in range(50):
            append_line(str(path), letter * 3000)

    threads = [threading.Thread(target=write, args=(char,)) for char in (b"a", b"b")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    lines = path.read_bytes().split(b"\n")
    assert sorted(lines) == [b"", *[b"a" * 3000] * 50, *[b"b" * 3000] * 50]
    assert (mode_of(path), mode_of(state)) == (0o600, 0o700)


def test_what_need_not_last_is_written_whole_without_waiting_for_the_disk(
    target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files.os, "fsync", lambda fd: pytest.fail("waited"))
    write_atomic(str(target), b"new", 0o600, lasting=False)
    assert target.read_bytes() == b"new"
    assert os.listdir(target.parent) == [target.name]
