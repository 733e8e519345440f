from __future__ import annotations

import re
import stat
from pathlib import Path

import pytest

from feishuperm.lib import log as log_module
from feishuperm.lib.log import (
    MAX_MESSAGE,
    Log,
    hide,
    log,
    obey,
    one_line,
    redact,
    report,
    rotate,
    timestamp,
)
from feishuperm.models.settings import Settings
from tests.tables import every_row


@pytest.fixture(autouse=True)
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    for name, value in vars(Log(clock=lambda: 1794801600.1239)).items():
        monkeypatch.setattr(log_module._LOG, name, value)
    return tmp_path / "feishuperm" / "feishuperm.log"


def test_line_has_time_level_call_site_and_message(file: Path) -> None:
    """Scenario: 日志函数库"""
    log("started", "warning")
    line = file.read_text()
    assert re.fullmatch(
        r"2026-11-1\dT\d\d:\d\d:\d\d\.123[+-]\d\d:\d\d "
        r"WARNING (tests/lib/)?test_log\.py:\d+ started\n",
        line,
    )


def test_call_site_inside_the_archive_is_the_path_in_the_package(file: Path) -> None:
    name = "/opt/feishuperm/feishuperm.pyz/site-packages/feishuperm/services/ledger.py"
    code = compile("\n\nlog('here')\n", name, "exec")
    exec(code, {"log": log})
    assert " services/ledger.py:3 here\n" in file.read_text()


def test_error_is_told_with_the_place_that_it_came_from(file: Path) -> None:
    name = "/opt/feishuperm/feishuperm.pyz/site-packages/feishuperm/services/ledger.py"
    try:
        exec(compile("\n\n1 / 0\n", name, "exec"))
    except ZeroDivisionError as error:
        report(error)
    report(ValueError("odd"))
    first, second = file.read_text().splitlines()
    assert first.endswith(
        " ERROR services/ledger.py:3 ZeroDivisionError: division by zero"
    )
    assert re.search(r" ERROR (tests/lib/)?test_log\.py:\d+ ValueError: odd$", second)


@pytest.mark.parametrize(
    ("zone", "expected"),
    [
        ("UTC", "2026-11-16T04:00:00.123+00:00"),
        ("Asia/Shanghai", "2026-11-16T12:00:00.123+08:00"),
        ("Asia/Kolkata", "2026-11-16T09:30:00.123+05:30"),
        ("America/St_Johns", "2026-11-16T00:30:00.123-03:30"),
    ],
)
def test_time_is_local_with_its_distance_from_utc(
    monkeypatch: pytest.MonkeyPatch, zone: str, expected: str
) -> None:
    import time

    if not Path("/usr/share/zoneinfo", zone).exists():
        pytest.skip("no time zones on this machine")
    monkeypatch.setenv("TZ", zone)
    time.tzset()
    try:
        assert timestamp(1794801600.1239) == expected
    finally:
        monkeypatch.undo()
        time.tzset()


def test_file_and_folder_are_private(file: Path) -> None:
    log("x")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\nb\r\nc", r"a\nb\r\nc"),
        ("\x1b[31mred", r"\x1b[31mred"),
        ("\u202egnp.exe", r"\u202egnp.exe"),
        ("line\u2028end\x85", r"line\u2028end\x85"),
        ("\ud800", r"\ud800"),
        ("中文 stays, so does 'this'", "中文 stays, so does 'this'"),
    ],
)
def test_one_entry_is_one_line(file: Path, text: str, shown: str) -> None:
    assert one_line(text) == shown
    log(text)
    lines = file.read_text().splitlines()
    assert len(lines) == 1
    assert lines[0].endswith(f" {shown}")


def test_long_message_is_cut(file: Path) -> None:
    log("x" * (MAX_MESSAGE * 3))
    assert file.read_text().endswith("x...\n")
    assert len(file.read_text()) < MAX_MESSAGE + 100


@pytest.mark.parametrize(
    ("level", "kept"),
    [
        ("debug", ["debug", "info", "warning", "error"]),
        ("info", ["info", "warning", "error"]),
        ("error", ["error"]),
    ],
)
def test_lower_levels_are_left_out(file: Path, level: str, kept: list[str]) -> None:
    obey(Settings({"FEISHUPERM_LOG_LEVEL": level}))
    for each in ("debug", "info", "warning", "error"):
        log(each, each)
    assert [line.split()[-1] for line in file.read_text().splitlines()] == kept


def test_other_file_and_stderr(
    tmp_path: Path, file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    obey(Settings({}), stderr=True)
    log_module._LOG.path = str(tmp_path / "other.log")
    log("both")
    assert not file.exists()
    assert (tmp_path / "other.log").read_text() == capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (
            "POST https://open.feishu.cn/open-apis/bot/v2/hook/1b2c-3d failed",
            "POST https://open.feishu.cn/open-apis/bot/v2/hook/*** failed",
        ),
        ('"/hook/abc?x=1"', '"/hook/***?x=1"'),
        ("GET /allow?id=1&sig=00ff HTTP/1.1", "GET /allow?id=1&sig=*** HTTP/1.1"),
        ("GET /?sig=00ff#x", "GET /?sig=***#x"),
        ("secret and longer secret", "*** and ***"),
        ("a signature=5 of design=6", "a signature=5 of design=6"),
    ],
)
def test_secrets_are_replaced(file: Path, text: str, shown: str) -> None:
    for secret in ("", "secret", "longer secret"):
        hide(secret)
    assert redact(text) == shown
    log(text)
    assert file.read_text().endswith(f" {shown}\n")


@every_row("path", ["/proc/no/such.log", "/dev/null/x", "/tmp/a\0b", "/"])
def test_log_that_cannot_be_written_is_silent(path: str) -> None:
    log_module._LOG.path = path
    log("lost")


def test_full_file_is_moved_aside_and_three_are_kept(file: Path) -> None:
    file.parent.mkdir()
    for name in "abcd":
        file.write_text(name * 20)
        rotate(str(file), limit=20)
        assert not file.exists()
    log("new")
    kept = {path.name: path.read_text()[:1] for path in file.parent.iterdir()}
    assert kept == {
        "feishuperm.log": "2",
        "feishuperm.log.1": "d",
        "feishuperm.log.2": "c",
    }


def test_file_below_the_limit_stays(file: Path) -> None:
    log("x")
    rotate(str(file), limit=10_000)
    rotate(str(file.parent / "none"), limit=1)
    assert [path.name for path in file.parent.iterdir()] == ["feishuperm.log"]


def test_file_that_another_process_is_moving_stays(file: Path) -> None:
    import fcntl

    log("x")
    with file.open() as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        rotate(str(file), limit=1)
    assert file.exists()
    rotate(str(file), limit=1)
    assert not file.exists()


def test_file_that_was_moved_meanwhile_is_not_moved_again(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between our look and our lock another process has put a fresh file there."""
    file.parent.mkdir()
    file.write_text("old" * 10)
    real = log_module.fcntl.flock

    def flock(fd: int, operation: int) -> None:
        file.rename(str(file) + ".1")
        file.write_text("fresh")
        real(fd, operation)

    monkeypatch.setattr(log_module.fcntl, "flock", flock)
    rotate(str(file), limit=10)
    assert file.read_text() == "fresh"
