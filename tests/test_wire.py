"""The wire over a real socket: it relays, waits, comes back, trusts nobody."""

from __future__ import annotations

import os
import re
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from feishuperm import wire
from tests.fakes.hook_server import ANSWER, DECIDE, EVENT, HookServer, frame, sends


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "s")


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    ours, theirs = socket.socketpair()
    ours.settimeout(20)
    with ours, theirs:
        yield ours, theirs


@pytest.fixture(autouse=True)
def quick_clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Time passes by sleeping alone, and sleeping takes no time."""
    now = [0.0]

    def sleep(seconds: float) -> None:
        now[0] += seconds

    monkeypatch.setattr(wire, "sleep", sleep)
    monkeypatch.setattr(wire, "monotonic", lambda: now[0])
    return now


def ask(path: str, guards: list[int] | None = None, raw: bytes = EVENT) -> bytes:
    """`wire.ask`, with the sockets closed that a process would leave to its end."""
    seen = [] if guards is None else guards
    opened = []

    def connect(path: bytes) -> Any:
        opened.append(wire.connect(path))
        return opened[-1]

    try:
        return wire.ask(
            raw, os.fsencode(path), b"1-abcdef01", b"/p", seen.append, connect
        )
    finally:
        for sock in opened:
            sock.close()


# ---- the conversation


def test_decision_is_returned_and_the_wait_is_guarded(path: str) -> None:
    guards: list[int] = []
    with HookServer(path) as server:
        assert ask(path, guards) == ANSWER
    assert server.requests == [[b"1", b"1-abcdef01", b"", b"/p", EVENT]]
    assert guards == [wire.ACK_SECONDS, 55 + wire.GUARD_SECONDS]


def test_answer_that_trickles_in_is_put_together(path: str) -> None:
    def trickle(connection: socket.socket) -> None:
        for index in range(len(DECIDE)):
            connection.sendall(DECIDE[index : index + 1])

    with HookServer(path, [trickle]):
        assert ask(path) == ANSWER


@pytest.mark.parametrize(
    ("first", "flag"),
    [
        (b"", b""),
        (frame(b"A", b"55"), b"again"),
        (frame(b"A", b"55") + frame(b"S"), b"shown"),
        (frame(b"A", b"55") + frame(b"S") + frame(b"A", b"50"), b"shown"),
        (frame(b"A", b"55") + DECIDE[-30:-5], b"again"),
    ],
)
def test_server_that_restarts_is_asked_again_with_the_same_id(
    path: str, first: bytes, flag: bytes
) -> None:
    with HookServer(path, [sends(first), sends(DECIDE)]) as server:
        assert ask(path) == ANSWER
    assert [request[1] for request in server.requests] == [b"1-abcdef01"] * 2
    assert [request[2] for request in server.requests] == [b"", flag]
    assert server.requests[1][4] == EVENT


def test_server_that_stays_away_is_given_up(
    path: str, quick_clock: list[float]
) -> None:
    def last_words(connection: socket.socket) -> None:
        connection.sendall(frame(b"A", b"55"))
        os.unlink(path)

    with HookServer(path, [last_words]):
        assert ask(path) == b""
    assert wire.RESTART_SECONDS <= quick_clock[0] < wire.RESTART_SECONDS + 1


def test_server_in_a_crash_loop_does_not_make_us_spin(
    path: str, quick_clock: list[float]
) -> None:
    with HookServer(path, [sends(b"")] * 20 + [sends(DECIDE)]) as server:
        assert ask(path) == ANSWER
    assert len(server.requests) == 21
    assert quick_clock[0] >= 2


def test_returning_hook_tells_the_seconds_it_has_left(
    path: str, quick_clock: list[float]
) -> None:
    class Late(list[int]):
        def append(self, seconds: int) -> None:
            super().append(seconds)
            quick_clock[0] += 20.0 if len(self) == 2 else 0.0  # once it is registered

    answers = [sends(frame(b"A", b"55")), sends(frame(b"A", b"99")), sends(DECIDE)]
    with HookServer(path, answers) as server:
        assert ask(path, Late()) == ANSWER
    assert [request[0] for request in server.requests] == [b"1", b"1 35", b"1 35"]
    assert [request[2] for request in server.requests] == [b"", b"again", b"again"]


def test_deadline_runs_from_the_first_acknowledgement_alone(
    path: str, quick_clock: list[float]
) -> None:
    """A server in a crash loop acknowledges anew at each start."""

    def crash(connection: socket.socket) -> None:
        connection.sendall(frame(b"A", b"55"))
        quick_clock[0] += 5.0

    guards: list[int] = []
    with HookServer(path, [crash]) as server:
        assert ask(path, guards) == b""
    assert guards == [wire.ACK_SECONDS, 55 + wire.GUARD_SECONDS]
    # The first crash may come before or after its acknowledgement is read.
    assert 55 <= quick_clock[0] <= 55 + wire.GUARD_SECONDS + 10
    assert 10 < len(server.requests) < 14


def test_person_who_reads_makes_the_wait_longer_once(
    path: str, quick_clock: list[float]
) -> None:
    """Whatever a server says later, the hook ends before its own time-out."""
    guards: list[int] = []
    reads = frame(b"A", b"55") + frame(b"S") + frame(b"H", b"300")
    answers = [sends(reads), sends(frame(b"A", b"9") + frame(b"H", b"900") + DECIDE)]
    with HookServer(path, answers) as server:
        assert ask(path, guards) == ANSWER
    assert guards == [wire.ACK_SECONDS, 55 + wire.GUARD_SECONDS, 300 + 3]
    assert [request[0] for request in server.requests] == [b"1", b"1 300"]
    assert [request[2] for request in server.requests] == [b"", b"held"]


def test_returning_hook_that_is_released_is_not_asked_about_again(path: str) -> None:
    with HookServer(path, [sends(frame(b"A", b"55")), sends(frame(b"R"))]) as server:
        assert ask(path) == b""
    assert len(server.requests) == 2


def test_frame_of_a_later_version_is_skipped(path: str) -> None:
    with HookServer(path, [sends(frame(b"X", b"600") + DECIDE)]) as server:
        assert ask(path) == ANSWER
    assert len(server.requests) == 1


def test_release_prints_nothing(path: str) -> None:
    with HookServer(path, [sends(frame(b"A", b"55") + frame(b"R"))]) as server:
        assert ask(path) == b""
    assert len(server.requests) == 1


def test_refusal_is_read_even_when_the_event_was_not(path: str) -> None:
    """A busy server answers and hangs up before it has read megabytes."""
    accepted: list[socket.socket] = []
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    listener.listen()

    def refuse() -> None:
        while len(accepted) < 5:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            accepted.append(connection)
            connection.sendall(frame(b"R"))
            connection.close()

    thread = threading.Thread(target=refuse, daemon=True)
    thread.start()
    assert ask(path, raw=EVENT + b" " * (4 << 20)) == b""
    listener.shutdown(socket.SHUT_RDWR)
    listener.close()
    thread.join(20)
    assert len(accepted) == 1


def test_another_event_is_handed_over(path: str) -> None:
    with HookServer(path, [sends(frame(b"E"))]), pytest.raises(wire.NotPermission):
        ask(path)


def test_no_server(path: str) -> None:
    with pytest.raises(wire.NoServer):
        ask(path)


@pytest.mark.parametrize("kind", ["stale", "file", "directory", "long", "nul"])
def test_path_without_a_listener_is_no_server(tmp_path: Path, kind: str) -> None:
    target = tmp_path / "x"
    if kind == "stale":
        with socket.socket(socket.AF_UNIX) as dead:
            dead.bind(str(target))
    elif kind == "file":
        target.write_text("")
    elif kind == "directory":
        target.mkdir()
    paths = {"long": b"/" + b"x" * 200, "nul": b"/a\0b"}
    with pytest.raises(wire.NoServer):
        wire.connect(paths.get(kind, os.fsencode(target)))


def test_server_of_another_user_is_no_server(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with HookServer(path) as server:
        monkeypatch.setattr(wire, "peer_uid", lambda sock: os.geteuid() + 1)
        with pytest.raises(wire.NoServer):
            ask(path)
        assert server.requests == [] or server.requests == [[b""]]


def test_peer_is_who_it_is(pair: tuple[socket.socket, socket.socket]) -> None:
    assert wire.peer_uid(pair[0]) == os.geteuid()


# ---- what is not an answer


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\n",
        b"allow\n",
        b"[]\n",
        b'{"decision": "cut off',
        b'{"a": 1}',
        b'Traceback\n{"a": 1}\n',
    ],
)
def test_answer_that_is_no_object_on_a_line_is_dropped(path: str, body: bytes) -> None:
    with HookServer(path, [sends(frame(b"D", body))]):
        assert ask(path) == b""


@pytest.mark.parametrize(
    "garbage",
    [
        b"\0\0\0\0",  # no kind
        b"\xff\xff\xff\xff",  # four gigabytes
        (wire.MAX_ANSWER + 1).to_bytes(4, "big") + b"D{",
        frame(b"D", b"{" + b" " * wire.MAX_ANSWER + b"}\n"),
        b"HTTP/1.1 400 Bad Request\r\n\r\n",
        b"\0\0",
        frame(b"Z", b"?"),
    ],
    ids=["empty", "4 GB", "cut off", "too long", "HTTP", "short", "unknown kind"],
)
def test_garbage_counts_as_a_hang_up(path: str, garbage: bytes) -> None:
    with HookServer(path, [sends(garbage), sends(DECIDE)]) as server:
        assert ask(path) == ANSWER
    assert len(server.requests) == 2


def test_largest_answer_is_taken(path: str) -> None:
    body = b"{" + b" " * (wire.MAX_ANSWER - 4) + b"}\n"
    with HookServer(path, [sends(frame(b"D", body))]):
        assert ask(path) == body


@given(st.binary(max_size=200))
def test_any_bytes_end_in_a_frame_or_nothing(data: bytes) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.settimeout(20)
        theirs.sendall(data)
        theirs.shutdown(socket.SHUT_WR)
        kind, body = wire.receive_frame(ours)
    assert kind == b"" or data.startswith(wire.frame(kind, body))


@given(st.binary(min_size=1, max_size=1), st.binary(max_size=300))
def test_frames_are_read_back(kind: bytes, body: bytes) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.sendall(wire.frame(kind, body) + b"trailing")
        assert wire.receive_frame(ours) == (kind, body)
        assert ours.recv(100) == b"trailing"


# ---- around it


def test_id_is_seconds_and_eight_hex_digits() -> None:
    ids = {wire.new_id() for _ in range(200)}
    assert len(ids) == 200
    assert all(re.fullmatch(rb"\d{10}-[0-9a-f]{8}", found) for found in ids)


def test_input_is_read_to_one_byte_past_the_limit() -> None:
    for size, expected in ((0, 0), (100, 100), (101, 101), (70_000, 65_536)):
        read_end, write_end = os.pipe()
        thread = threading.Thread(
            target=feed, args=(write_end, b"x" * size), daemon=True
        )
        thread.start()
        assert len(wire.read_all(read_end, 100)) == expected
        os.close(read_end)
        thread.join(20)


def feed(fd: int, data: bytes) -> None:
    try:
        wire.write_all(fd, data)
    except BrokenPipeError:
        pass
    os.close(fd)


def test_output_larger_than_a_pipe_is_written_whole() -> None:
    read_end, write_end = os.pipe()
    data = bytes(range(256)) * 4096
    thread = threading.Thread(target=feed, args=(write_end, data), daemon=True)
    thread.start()
    assert wire.read_all(read_end, len(data)) == data
    thread.join(20)
    os.close(read_end)


@pytest.mark.parametrize(
    ("environ", "config", "expected"),
    [
        ({}, None, wire.DEFAULT_SOCKET),
        ({b"PERMISSION_SOCKET_PATH": b"/e"}, "PERMISSION_SOCKET_PATH=/f", b"/e"),
        ({}, "PERMISSION_SOCKET_PATH=/f\n", b"/f"),
        ({b"PERMISSION_SOCKET_PATH": b""}, "PERMISSION_SOCKET_PATH=/f", b"/f"),
        ({}, "PERMISSION_SOCKET_PATH=\n", wire.DEFAULT_SOCKET),
        ({}, "nonsense\n", wire.DEFAULT_SOCKET),
        ({}, "directory", wire.DEFAULT_SOCKET),
    ],
)
def test_socket_path(
    home: Path, environ: dict[bytes, bytes], config: str | None, expected: bytes
) -> None:
    file = home / ".config" / "feishuperm" / "config.env"
    file.parent.mkdir(parents=True)
    if config == "directory":
        file.mkdir()
    elif config is not None:
        file.write_text(config)
    assert wire.socket_path({b"HOME": bytes(home), **environ}) == expected
