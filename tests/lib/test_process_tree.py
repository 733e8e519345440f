from __future__ import annotations

import os
import signal
import socket
import struct
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from feishuperm.lib import process_tree
from feishuperm.lib.process_tree import (
    Client,
    Linux,
    Owner,
    Process,
    SessionProcesses,
    TcpOwners,
    find_marks,
    parse_bsd_info,
    printable,
)
from tests.conftest import wait_until
from tests.tables import every_row

linux = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")

SESSION = b"CLAUDE_CODE_SESSION_ID=0001"
MARKED = frozenset({b"CLAUDECODE=1", SESSION})
UID = 1000


class FakeSystem:
    """A process table that tests write themselves."""

    def __init__(self, *processes: Process) -> None:
        self.table = {process.pid: process for process in processes}
        self.files: dict[int, set[int] | None] = {}  # None: it does not let us look

    def read(self, pid: int, since: float = 0) -> Process | None:
        return self.table.get(pid)

    def all(self, since: float) -> list[Process]:
        return list(self.table.values())

    def uid(self, pid: int) -> int:
        return UID

    def holds(self, pid: int, inode: int) -> bool | None:
        files = self.files.get(pid, set())
        return None if files is None else inode in files

    def is_held(self, inode: int) -> bool:
        return any(files and inode in files for files in self.files.values())


def clients(system: FakeSystem) -> SessionProcesses:
    return SessionProcesses(system)  # type: ignore[arg-type]


def process(pid: int, parent: int, name: str = "x", **more: object) -> Process:
    """A process as old as its pid, in a group of its own."""
    row = Process(pid, pid, parent, pid, name)
    return row._replace(**more)  # type: ignore[arg-type]


def desktop() -> FakeSystem:
    """A browser, and a client with a hook, a shell and an MCP server."""
    return FakeSystem(
        process(1, 0, "init"),
        process(10, 1, "browser"),
        process(20, 1, "bash"),
        process(30, 20, "claude"),
        process(31, 30, "mcp", marks=MARKED),
        process(40, 30, "sh", marks=MARKED | {b"CLAUDE_PID=30"}),
        process(41, 40, "python3", group=40, marks=MARKED | {b"CLAUDE_PID=30"}),
        process(50, 30, "bash", marks=MARKED),
        process(51, 50, "curl", marks=MARKED),
    )


# Who started the hook.


def test_client_is_whom_the_hook_names_if_it_is_above() -> None:
    client = clients(desktop()).add(41)
    assert client is not None and (client.pid, client.start) == (30, 30)
    assert SESSION in client.marks and b"CLAUDECODE=1" not in client.marks


@every_row(
    ("rows", "expected"),
    [
        # As hooks are run: a shell in a group of its own.
        ([(40, 30, "sh", 40), (41, 40, "python3", 40)], 30),
        # The shell has become the hook.
        ([(41, 30, "python3", 41)], 30),
        # Through somebody's own script.
        ([(40, 30, "sh", 40), (42, 40, "node", 40), (43, 42, "python3", 40)], 30),
        # Without a group of their own.
        ([(40, 30, "sh", 30), (41, 40, "python3", 30)], 30),
    ],
)
def test_client_without_a_name_is_above_the_shell(
    rows: list[tuple[int, int, str, int]], expected: int
) -> None:
    system = desktop()
    for pid, parent, name, group in rows:
        system.table[pid] = process(pid, parent, name, group=group, marks=MARKED)
    client = clients(system).add(rows[-1][0])
    assert client is not None and client.pid == expected


def test_named_client_that_is_not_above_is_not_believed() -> None:
    system = desktop()
    marks = MARKED | {b"CLAUDE_PID=10"}
    system.table[40] = process(40, 30, "sh", marks=marks)
    system.table[41] = process(41, 40, "python3", group=40, marks=marks)
    client = clients(system).add(41)
    assert client is not None and client.pid == 30


def test_server_that_a_driver_started_is_not_searched_for_its_own_connection() -> None:
    """It may have ten thousand of them, and a tap would wait for that."""
    system = desktop()
    own = os.getpid()
    system.table[own] = process(own, 20, "serve")
    system.files = {own: {777}, 10: {777}}
    known = clients(system)
    assert known.add(20) is not None  # asks without any mark
    assert known.suspect(Owner(UID, 777)) is None
    system.files[50] = {777}
    assert known.suspect(Owner(UID, 777)) is not None


def test_who_asks_without_any_client_drives_one_below_it() -> None:
    """`run` asks by itself, and the client is below it."""
    system = FakeSystem(process(1, 0), process(20, 1, "bash"), process(30, 20, "run"))
    known = clients(system)
    client = known.add(30, session="0001")
    assert client is not None and client.pid == 30 and client.marks == {SESSION}
    system.table[31] = process(31, 30, "claude")
    system.table[32] = process(32, 31, "curl")
    assert known.suspect_pid(31) and known.suspect_pid(32)
    assert not known.suspect_pid(30) and not known.suspect_pid(20)
    system.files[30] = {700}
    assert not known.suspect(Owner(UID, 700))
    system.files[32] = {701}
    assert known.suspect(Owner(UID, 701))


def test_everything_is_never_below_init() -> None:
    system = FakeSystem(process(1, 0, "init"), process(40, 1, "python3", marks=MARKED))
    client = clients(system).add(40)
    assert client is not None and client.pid == 40


def test_hook_that_is_gone_tells_nothing() -> None:
    assert clients(desktop()).add(99) is None
    assert clients(desktop()).add(0) is None


# Who is a suspect.


def known_desktop() -> tuple[FakeSystem, SessionProcesses]:
    system = desktop()
    known = clients(system)
    known.add(41)
    return system, known


@every_row("pid", [30, 31, 40, 41, 50, 51])
def test_what_lies_below_the_client_is_a_suspect(pid: int) -> None:
    _, known = known_desktop()
    assert known.suspect_pid(pid)


@every_row("pid", [1, 10, 20])
def test_what_lies_elsewhere_is_none(pid: int) -> None:
    _, known = known_desktop()
    assert not known.suspect_pid(pid)


def test_without_a_client_nobody_is_a_suspect() -> None:
    known = clients(desktop())
    assert not known.suspect_pid(51)
    assert not known.suspect(Owner(UID, 7))


def test_process_that_is_gone_is_a_suspect() -> None:
    _, known = known_desktop()
    assert str(known.suspect_pid(99)) == "? (pid 99)"


def test_process_cut_off_from_the_tree_is_known_by_its_environment() -> None:
    system, known = known_desktop()
    system.table[60] = process(60, 1, "nohup", marks=MARKED)
    system.table[61] = process(61, 60, "curl")
    assert known.suspect_pid(61)
    other = frozenset({b"CLAUDECODE=1", b"CLAUDE_CODE_SESSION_ID=0002"})
    system.table[62] = process(62, 1, "browser", marks=other)
    assert not known.suspect_pid(62)
    assert known.suspect_pid(62, any_session=True)


def test_shell_of_a_session_that_never_asked_hides_in_no_empty_environment() -> None:
    """`exec env -i` replaces the shell that carried the marks."""
    system, known = known_desktop()
    system.table[70] = process(70, 1, "claude")
    system.table[71] = process(71, 70, "python3")
    assert known.suspect_pid(71, any_session=True)
    assert not known.suspect_pid(71)
    system.table[72] = process(72, 1, "claude")  # whatever calls itself that way
    assert not known.suspect_pid(72, any_session=True)


def test_process_older_than_the_client_is_not_its_own_whatever_it_carries() -> None:
    system, known = known_desktop()
    system.table[15] = process(15, 1, "old", marks=MARKED)
    assert not known.suspect_pid(15)


def test_process_seen_below_the_client_stays_a_suspect() -> None:
    system, known = known_desktop()
    system.table[52] = process(52, 50, "daemon")
    system.files[10] = {700}
    assert not known.suspect(Owner(UID, 700))  # a look at all of them
    system.table[52] = process(52, 1, "daemon")
    assert known.suspect_pid(52)


def test_pid_that_comes_again_is_another_process() -> None:
    system, known = known_desktop()
    del system.table[30]
    system.table[30] = process(30, 1, "editor", start=99)
    system.table[100] = process(100, 30, "browser")
    assert not known.suspect_pid(30)
    assert not known.suspect_pid(100)
    # Nor does an orphan belong to whoever has its parent's pid now.
    known.add(41)
    system.table[51] = process(51, 30, "curl")
    assert not known.suspect_pid(51)


def test_client_is_gone_when_its_pid_is_or_belongs_to_another_process() -> None:
    system = FakeSystem(Process(7, 100, 1, 7, "claude"))
    clients, client = SessionProcesses(cast(Linux, system)), Client(7, 100, MARKED)
    assert not clients.is_gone(client)
    system.table[7] = Process(7, 200, 1, 7, "vim")
    assert clients.is_gone(client)
    system.table.clear()
    assert clients.is_gone(client)
    # A program that drives a client ends when it likes.
    assert not clients.is_gone(client._replace(is_driver=True))


def test_endless_chain_of_parents_ends() -> None:
    system = FakeSystem(process(5, 6, start=1), process(6, 5, start=1), process(7, 7))
    known = clients(system)
    assert known.add(5)
    assert known.suspect_pid(6)
    assert not known.suspect_pid(7)


def test_verdict_follows_when_more_is_known_of_a_process_above() -> None:
    """Its environment was not there yet when it was first seen."""
    system, known = known_desktop()
    system.table[60] = process(60, 1, "starting")
    system.table[61] = process(61, 60, "curl")
    system.files[61] = {700}
    assert not known.suspect(Owner(UID, 700))
    system.table[60] = process(60, 1, "nohup", marks=MARKED)
    assert known.suspect(Owner(UID, 700))


def test_verdict_follows_when_another_client_asks() -> None:
    system, known = known_desktop()
    system.table[70] = process(70, 1, "claude")
    system.table[71] = process(71, 70, "mcp")
    system.files[71] = {700}
    assert not known.suspect(Owner(UID, 700))
    marks = frozenset({b"CLAUDECODE=1", b"CLAUDE_PID=70"})
    system.table[72] = process(72, 70, "python3", marks=marks)
    known.add(72)
    assert known.suspect(Owner(UID, 700))


@every_row(("holder", "is_suspect"), [(10, False), (51, True)])
def test_holder_of_a_socket_is_looked_for(holder: int, is_suspect: bool) -> None:
    system, known = known_desktop()
    system.files[holder] = {700}
    suspect = known.suspect(Owner(UID, 700))
    assert (suspect is not None) == is_suspect
    if suspect:
        assert str(suspect) == "curl (pid 51)"


def test_suspect_that_hides_its_files_is_refused_unless_another_holds_them() -> None:
    system, known = known_desktop()
    system.files[51] = None
    assert known.suspect(Owner(UID, 700)) == (51, "curl")
    system.files[10] = {700}
    assert not known.suspect(Owner(UID, 700))
    assert not known.suspect(Owner(UID + 1, 700))


def test_session_with_too_many_processes_is_refused() -> None:
    system, known = known_desktop()
    for pid in range(1000, 1000 + process_tree.MAX_SUSPECTS):
        system.table[pid] = process(pid, 50)
    assert known.suspect(Owner(UID, 700))


def test_mac_names_the_holder_itself() -> None:
    _, known = known_desktop()
    assert known.suspect(Owner(UID, pid=51))
    assert not known.suspect(Owner(UID, pid=10))


def test_oldest_clients_are_forgotten_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process_tree, "MAX_CLIENTS", 2)
    rows = (process(pid, 1, marks=MARKED) for pid in range(2, 6))
    system = FakeSystem(*rows)
    known = clients(system)
    for pid in (2, 3, 2, 4):
        system.table[pid] = process(pid, 1, marks=frozenset({b"CLAUDECODE=%d" % pid}))
        known.add(pid)
    assert [bool(known.suspect_pid(pid)) for pid in (2, 3, 4)] == [True, False, True]


# The real system.

TAPPER = textwrap.dedent(
    """
    import os, socket, sys
    way, port = sys.argv[1:]
    if way == "cut off" and os.fork():
        os._exit(0)
    if way == "cut off":
        os.setsid()
        if os.fork():
            os._exit(0)
    sock = socket.socket()
    sock.connect(("127.0.0.1", int(port)))
    sock.recv(1)
    """
)
CLIENT = textwrap.dedent(
    """
    import os, subprocess, sys
    marks = dict(os.environ, CLAUDECODE="1", CLAUDE_CODE_SESSION_ID="real-1",
                 CLAUDE_PID=str(os.getpid()))
    hook = subprocess.Popen(["/bin/sh", "-c", "sleep 60; :"], env=marks,
                            start_new_session=True, stdout=subprocess.DEVNULL)
    print(hook.pid, flush=True)
    for line in sys.stdin:
        subprocess.run([sys.executable, "-c", *eval(line)], env=marks,
                       stdout=subprocess.DEVNULL)
    """
)


class Session:
    """A process that acts as a client does."""

    def __init__(self) -> None:
        self.client = subprocess.Popen(
            [sys.executable, "-c", CLIENT],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.client.stdin and self.client.stdout
        self.hook = int(self.client.stdout.readline())
        wait_until(self._hook_has_started)
        self.listening = socket.create_server(("127.0.0.1", 0))
        self.listening.settimeout(10)
        self.accepted: list[socket.socket] = []

    def _hook_has_started(self) -> bool:
        row = SessionProcesses()._system.read(self.hook)
        return row is not None and bool(row.marks)

    def run(self, *command: str) -> None:
        assert self.client.stdin
        self.client.stdin.write(repr(command) + "\n")
        self.client.stdin.flush()

    def tapped(self) -> Owner | None:
        """Who has connected."""
        sock = self.listening.accept()[0]
        self.accepted.append(sock)
        return TcpOwners().find(sock.getsockname(), sock.getpeername())

    def close(self) -> None:
        for sock in (*self.accepted, self.listening):
            sock.close()
        os.killpg(self.hook, signal.SIGKILL)
        self.client.kill()
        self.client.communicate()


@pytest.fixture
def session() -> Iterator[Session]:
    made = Session()
    yield made
    made.close()


@linux
@pytest.mark.parametrize("way", ["straight", "cut off"])
def test_tap_from_inside_a_session_is_recognised(session: Session, way: str) -> None:
    known = SessionProcesses()
    client = known.add(session.hook)
    assert client is not None and client.pid == session.client.pid
    session.run(TAPPER, way, str(session.listening.getsockname()[1]))
    owner = session.tapped()
    assert owner is not None
    suspect = known.suspect(owner)
    assert suspect is not None and suspect.name.startswith("python")


@linux
def test_tap_from_elsewhere_is_not_taken_for_the_sessions(session: Session) -> None:
    known = SessionProcesses()
    known.add(session.hook)
    with socket.create_connection(session.listening.getsockname()[:2]):
        owner = session.tapped()
        assert owner is not None
        assert known.suspect(owner) is None
        assert known.suspect_pid(os.getpid()) is None


def fastest(action: Callable[[], object]) -> float:
    """Milliseconds of the best of five."""
    times = []
    for _ in range(5):
        start = time.thread_time()
        action()
        times.append(time.thread_time() - start)
    return min(times) * 1000


@linux
def test_look_at_every_process_is_bounded_work(session: Session) -> None:
    """Some 20 ms for 500 processes at the most."""
    known = SessionProcesses()
    known.add(session.hook)
    count = sum(name.isdigit() for name in os.listdir("/proc"))
    allowed = 20.0 * max(1.0, count / 500)
    assert fastest(lambda: known.suspect(Owner(os.geteuid(), 1))) < allowed


@linux
def test_process_is_read_as_the_system_tells_it() -> None:
    own = Linux().read(os.getpid())
    assert own is not None
    assert (own.pid, own.parent, own.group) == (os.getpid(), os.getppid(), os.getpgrp())
    assert Linux().uid(os.getpid()) == os.getuid()
    assert Linux().read(2**22 + 1) is None
    assert Linux().uid(2**22 + 1) == -1
    assert Linux().holds(2**22 + 1, 1) is False
    with socket.socket() as sock:
        inode = os.fstat(sock.fileno()).st_ino
        assert Linux().holds(os.getpid(), inode)
        system = Linux()
        assert own.pid in {process.pid for process in system.all(0)}
        assert system.is_held(inode)
    assert not Linux().holds(os.getpid(), inode)


@linux
def test_environment_is_read_when_a_client_is_old_enough_for_it() -> None:
    child = subprocess.Popen(["sleep", "30"], env={"CLAUDECODE": "1"})
    system = Linux()
    row = wait_until(lambda: (row := system.read(child.pid)) and row.marks and row)

    def marks(since: float) -> frozenset[bytes]:
        return next(row.marks for row in system.all(since) if row.pid == child.pid)

    assert marks(row.start + 1) == frozenset()
    assert marks(row.start) == {b"CLAUDECODE=1"}
    child.kill()
    child.wait()


@linux
def test_name_with_brackets_and_controls_is_read(tmp_path: object) -> None:
    script = "import ctypes,sys; ctypes.CDLL(None).prctl(15, b') R (\\x1b[2J'); "
    child = subprocess.Popen(
        [sys.executable, "-c", script + "print(1, flush=True); sys.stdin.read()"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert child.stdout
    child.stdout.readline()
    row = wait_until(lambda: Linux().read(child.pid))
    child.communicate()
    assert row.parent == os.getpid()
    assert row.name == ") R (?[2J"


@given(st.binary())
def test_any_environment_is_searched(environ: bytes) -> None:
    assert all(mark.startswith(b"CLAUDE") for mark in find_marks(environ))
    assert printable(environ).isprintable()


def test_marks_are_whole_entries() -> None:
    environ = b"A=CLAUDECODE=1\0CLAUDECODE=1\0XCLAUDE_PID=3\0CLAUDE_PID=3"
    assert find_marks(environ) == {b"CLAUDECODE=1", b"CLAUDE_PID=3"}


def test_process_of_a_mac_is_read() -> None:
    info = bytearray(process_tree.BSD_INFO_BYTES)
    struct.pack_into("=II", info, 12, 41, 40)
    info[48:53] = b"curl\0"
    struct.pack_into("=I", info, 100, 39)
    struct.pack_into("=QQ", info, 120, 7, 5)
    arguments = struct.pack("=i", 1) + b"/bin/curl\0\0curl\0CLAUDECODE=1\0A=b\0"
    assert parse_bsd_info(bytes(info), arguments) == Process(
        41, 7_000_005, 40, 39, "curl", frozenset({b"CLAUDECODE=1"})
    )


def test_process_with_endless_files_is_taken_for_one_that_hides_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "7" / "fd"
    folder.mkdir(parents=True)
    for number in range(4):
        (folder / str(number)).symlink_to("socket:[9]")
    system = process_tree.Linux(str(tmp_path))
    assert system.holds(7, 9) is True
    monkeypatch.setattr(process_tree, "MAX_FILES", 3)
    assert system.holds(7, 9) is None
