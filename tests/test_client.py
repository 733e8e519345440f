"""The hook client over a real socket: it relays, waits, comes back, trusts nobody."""

from __future__ import annotations

import os
import re
import socket
import sys
import threading
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from feishuperm import client
from tests.fakes.hook_server import ANSWER, DECIDE, EVENT, HookServer, frame, sends


class Exited(BaseException):
    """Stands for the end of the process."""


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

    monkeypatch.setattr(client, "sleep", sleep)
    monkeypatch.setattr(client, "monotonic", lambda: now[0])
    return now


def ask(path: str, guards: list[int] | None = None, raw: bytes = EVENT) -> bytes:
    """`client.ask`, with the sockets closed that a process would leave to its end."""
    seen = [] if guards is None else guards
    opened = []

    def connect(path: bytes) -> Any:
        opened.append(client.connect(path))
        return opened[-1]

    try:
        return client.ask(
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
    assert guards == [client.ACK_SECONDS, 55 + client.GUARD_SECONDS]


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
    assert client.RESTART_SECONDS <= quick_clock[0] < client.RESTART_SECONDS + 1


def test_server_in_a_crash_loop_does_not_make_us_spin(
    path: str, quick_clock: list[float]
) -> None:
    with HookServer(path, [sends(b"")] * 20 + [sends(DECIDE)]) as server:
        assert ask(path) == ANSWER
    assert len(server.requests) == 21
    assert quick_clock[0] >= 2


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
    with HookServer(path, [sends(frame(b"E"))]), pytest.raises(client.NotPermission):
        ask(path)


def test_no_server(path: str) -> None:
    with pytest.raises(client.NoServer):
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
    with pytest.raises(client.NoServer):
        client.connect(paths.get(kind, os.fsencode(target)))


def test_server_of_another_user_is_no_server(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with HookServer(path) as server:
        monkeypatch.setattr(client, "peer_uid", lambda sock: os.geteuid() + 1)
        with pytest.raises(client.NoServer):
            ask(path)
        assert server.requests == [] or server.requests == [[b""]]


def test_peer_is_who_it_is(pair: tuple[socket.socket, socket.socket]) -> None:
    assert client.peer_uid(pair[0]) == os.geteuid()


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
        (client.MAX_ANSWER + 1).to_bytes(4, "big") + b"D{",
        frame(b"D", b"{" + b" " * client.MAX_ANSWER + b"}\n"),
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
    body = b"{" + b" " * (client.MAX_ANSWER - 4) + b"}\n"
    with HookServer(path, [sends(frame(b"D", body))]):
        assert ask(path) == body


@given(st.binary(max_size=200))
def test_any_bytes_end_in_a_frame_or_nothing(data: bytes) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.settimeout(20)
        theirs.sendall(data)
        theirs.shutdown(socket.SHUT_WR)
        kind, body = client.receive_frame(ours)
    assert kind == b"" or data.startswith(client.frame(kind, body))


@given(st.binary(min_size=1, max_size=1), st.binary(max_size=300))
def test_frames_are_read_back(kind: bytes, body: bytes) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.sendall(client.frame(kind, body) + b"trailing")
        assert client.receive_frame(ours) == (kind, body)
        assert ours.recv(100) == b"trailing"


# ---- around it


def test_id_is_seconds_and_eight_hex_digits() -> None:
    ids = {client.new_id() for _ in range(200)}
    assert len(ids) == 200
    assert all(re.fullmatch(rb"\d{10}-[0-9a-f]{8}", found) for found in ids)


def test_input_is_read_to_one_byte_past_the_limit() -> None:
    for size, expected in ((0, 0), (100, 100), (101, 101), (70_000, 65_536)):
        read_end, write_end = os.pipe()
        thread = threading.Thread(
            target=feed, args=(write_end, b"x" * size), daemon=True
        )
        thread.start()
        assert len(client.read_all(read_end, 100)) == expected
        os.close(read_end)
        thread.join(20)


def feed(fd: int, data: bytes) -> None:
    try:
        client.write_all(fd, data)
    except BrokenPipeError:
        pass
    os.close(fd)


def test_output_larger_than_a_pipe_is_written_whole() -> None:
    read_end, write_end = os.pipe()
    data = bytes(range(256)) * 4096
    thread = threading.Thread(target=feed, args=(write_end, data), daemon=True)
    thread.start()
    assert client.read_all(read_end, len(data)) == data
    thread.join(20)
    os.close(read_end)


@pytest.mark.parametrize(
    ("environ", "config", "expected"),
    [
        ({}, None, client.DEFAULT_SOCKET),
        ({b"PERMISSION_SOCKET_PATH": b"/e"}, "PERMISSION_SOCKET_PATH=/f", b"/e"),
        ({}, "PERMISSION_SOCKET_PATH=/f\n", b"/f"),
        ({b"PERMISSION_SOCKET_PATH": b""}, "PERMISSION_SOCKET_PATH=/f", b"/f"),
        ({}, "PERMISSION_SOCKET_PATH=\n", client.DEFAULT_SOCKET),
        ({}, "nonsense\n", client.DEFAULT_SOCKET),
        ({}, "directory", client.DEFAULT_SOCKET),
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
    assert client.socket_path({b"HOME": bytes(home), **environ}) == expected


class Handed:
    """What `commands.hook` was given."""

    def __init__(self) -> None:
        self.calls: list[tuple[bytes, str]] = []

    def handle(self, raw: bytes, request_id: str, reason: str) -> bytes:
        assert re.fullmatch(r"\d{10}-[0-9a-f]{8}", request_id)
        self.calls.append((raw, reason))
        return b"{}\n"


@pytest.fixture
def handed(monkeypatch: pytest.MonkeyPatch) -> Handed:
    """Run `client.run` inside this process: no fd, no alarm, a noted hand-over."""
    note = Handed()
    module: Any = types.ModuleType("feishuperm.commands.hook")
    module.handle = note.handle
    monkeypatch.setitem(sys.modules, "feishuperm.commands.hook", module)
    monkeypatch.setattr(client, "alarm", lambda seconds: None)
    monkeypatch.setattr(client, "signal", lambda number, action: None)
    return note


def run(monkeypatch: pytest.MonkeyPatch, raw: bytes, path: str) -> bytes:
    """What the client prints for an event."""
    printed: list[bytes] = []
    monkeypatch.setattr(client, "read_all", lambda fd: raw)
    monkeypatch.setattr(client, "write_all", lambda fd, data: printed.append(data))
    client.run({b"PERMISSION_SOCKET_PATH": os.fsencode(path)}, "")
    return b"".join(printed)


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        (b'{"hook_event_name":"Stop"}', "event"),
        (b'{"hook_event_name" : "PermissionRequest"}', "event"),
        (b"", "event"),
        (b"\xff\xfe", "event"),
        (EVENT, "no server"),
        (EVENT.replace(b'name":"P', b'name": "P'), "no server"),
        (EVENT + b" " * client.MAX_EVENT, "event"),
    ],
)
def test_what_the_client_cannot_do_is_handed_over(
    monkeypatch: pytest.MonkeyPatch, handed: Handed, path: str, raw: bytes, reason: str
) -> None:
    assert run(monkeypatch, raw, path) == b"{}\n"
    assert handed.calls == [(raw, reason)]


def test_event_that_only_looks_like_a_request_is_handed_over(
    monkeypatch: pytest.MonkeyPatch, handed: Handed, path: str
) -> None:
    monkeypatch.setattr(client, "ask", refuse)
    assert run(monkeypatch, EVENT, path) == b"{}\n"
    assert handed.calls == [(EVENT, "event")]


def test_inside_a_run_somebody_else_looks_whose_request_it_is(
    monkeypatch: pytest.MonkeyPatch, handed: Handed, path: str
) -> None:
    monkeypatch.setattr(client, "ask", lambda *_: pytest.fail("asked"))
    monkeypatch.setattr(client, "read_all", lambda fd: EVENT)
    monkeypatch.setattr(client, "write_all", lambda fd, data: None)
    client.run({b"FEISHUPERM_RUN": b"/none"}, "")
    assert handed.calls == [(EVENT, "event")]


def refuse(*_: object) -> bytes:
    raise client.NotPermission


def test_whatever_fails_the_exit_code_is_0(monkeypatch: pytest.MonkeyPatch) -> None:
    codes: list[int] = []

    def leave(code: int) -> None:
        codes.append(code)

    for error in (ValueError, KeyboardInterrupt, SystemExit(3), MemoryError, Exited):
        monkeypatch.setattr(client, "run", raiser(error))
        monkeypatch.setattr(client.posix, "_exit", leave)
        client.main()
    assert codes == [0] * 5


def raiser(error: Any) -> Any:
    def run(environ: object, archive: object) -> None:
        raise error

    return run
