"""Claiming addresses: who wins, who is refused, and what is left untouched."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import re
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from feishuperm.models.settings import LOOPBACK
from feishuperm.server import listen as listen_module
from feishuperm.server.listen import (
    ListenError,
    listen_http,
    listen_unix,
)
from tests.server.conftest import HAS_IPV6, dead_socket

needs_ipv6 = pytest.mark.skipif(not HAS_IPV6, reason="this machine has no ::1")


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "s.sock")


def is_live(path: str) -> bool:
    with socket.socket(socket.AF_UNIX) as sock:
        return sock.connect_ex(path) == 0


def test_socket_is_private_and_nothing_lies_beside_it(
    path: str, tmp_path: Path
) -> None:
    before = os.umask(0)
    try:
        listener = listen_unix(path)
    finally:
        after = os.umask(before)
    assert after == 0
    assert stat.S_IMODE(os.lstat(path).st_mode) == 0o600
    assert os.listdir(tmp_path) == ["s.sock"]
    assert is_live(path)
    listener.close()
    listener.close()
    assert os.listdir(tmp_path) == []


def test_second_server_is_refused_and_the_first_lives_on(path: str) -> None:
    first = listen_unix(path)
    with pytest.raises(ListenError, match="already running") as error:
        listen_unix(path)
    assert error.value.hint
    assert is_live(path)
    first.close()
    listen_unix(path).close()


def test_server_with_a_full_backlog_counts_as_alive(path: str) -> None:
    with socket.socket(socket.AF_UNIX) as sock, contextlib.ExitStack() as clients:
        sock.bind(path)
        sock.listen(0)
        for _ in range(3):
            client = clients.enter_context(socket.socket(socket.AF_UNIX))
            client.setblocking(False)
            client.connect_ex(path)
        with pytest.raises(ListenError, match="already running"):
            listen_unix(path)


def test_stale_socket_is_replaced(path: str) -> None:
    dead_socket(path)
    listener = listen_unix(path)
    assert is_live(path)
    listener.close()


@pytest.mark.parametrize("kind", ["file", "folder", "link to a dead socket"])
def test_what_is_not_a_socket_is_refused_and_kept(path: str, kind: str) -> None:
    if kind == "file":
        Path(path).write_text("mine")
    elif kind == "folder":
        os.mkdir(path)
    else:
        dead_socket(path + ".real")
        os.symlink(path + ".real", path)
    before = os.lstat(path)
    with pytest.raises(ListenError, match="not a socket"):
        listen_unix(path)
    assert os.lstat(path) == before


def test_socket_of_another_user_is_refused_and_kept(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    dead_socket(path)
    if os.geteuid() == 0:
        os.chown(path, 12345, -1)
        claim = listen_unix
    else:
        stranger = os.geteuid() + 1
        monkeypatch.setattr(os, "geteuid", lambda: stranger)
        claim = listen_module._clear
    before = os.lstat(path)
    with pytest.raises(ListenError, match=re.escape(path) + " belongs to another user"):
        claim(path)
    assert os.lstat(path) == before


def test_lock_file_of_another_user_is_refused_and_kept(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path(path + ".lock").touch()
    stranger = os.geteuid() + 1
    monkeypatch.setattr(os, "geteuid", lambda: stranger)
    with pytest.raises(ListenError, match="lock belongs to another user"):
        listen_unix(path)
    assert os.path.exists(path + ".lock")


def test_lock_file_that_is_a_link_is_not_followed(path: str, tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    os.symlink(victim, path + ".lock")
    with pytest.raises(ListenError, match="cannot write"):
        listen_unix(path)
    assert not victim.exists()


def test_lock_file_left_by_a_crash_does_not_matter(path: str) -> None:
    Path(path + ".lock").touch()
    dead_socket(path)
    listen_unix(path).close()
    assert not os.path.exists(path + ".lock")


def test_lock_file_that_its_last_owner_removed_is_no_claim(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock = fcntl.flock

    def too_late(fd: int, operation: int) -> None:
        os.unlink(path + ".lock")
        lock(fd, operation)

    monkeypatch.setattr(fcntl, "flock", too_late)
    with pytest.raises(ListenError, match="already running"):
        listen_unix(path)
    assert not os.path.exists(path)


def test_missing_folder_is_named_with_the_command_that_makes_it(
    tmp_path: Path,
) -> None:
    with pytest.raises(ListenError, match="no folder") as error:
        listen_unix(str(tmp_path / "no" / "s.sock"))
    assert error.value.hint == f"mkdir -p {tmp_path}/no"


def test_path_that_is_too_long_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ListenError, match="too long"):
        listen_unix(str(tmp_path / ("x" * 120)))


def test_close_leaves_the_socket_of_a_successor(path: str) -> None:
    first = listen_unix(path)
    os.unlink(path)
    second = listen_unix(path)
    first.close()
    assert is_live(path)
    second.close()


RACER = """
import sys
from feishuperm.server.listen import ListenError, listen_unix
for line in sys.stdin:
    try:
        listener = listen_unix(line.strip())
        print("won", flush=True)
    except ListenError as error:
        listener = None
        print("already running" in str(error) and "lost", flush=True)
    sys.stdin.readline()
    if listener:
        listener.close()
    print("closed", flush=True)
"""


@pytest.fixture
def racers() -> Iterator[list[subprocess.Popen[str]]]:
    racers = [
        subprocess.Popen(
            [sys.executable, "-c", RACER],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(2)
    ]
    yield racers
    for racer in racers:
        racer.communicate(timeout=30)


def tell(racers: list[subprocess.Popen[str]], line: str) -> list[str]:
    """Give both the same line at once; what each said."""
    for racer in racers:
        assert racer.stdin is not None
        racer.stdin.write(line + "\n")
        racer.stdin.flush()
    return [
        (racer.stdout and racer.stdout.readline().strip()) or "" for racer in racers
    ]


def test_of_two_servers_that_start_at_once_exactly_one_wins(
    racers: list[subprocess.Popen[str]], tmp_path: Path
) -> None:
    for attempt in range(50):
        path = str(tmp_path / f"{attempt}.sock")
        dead_socket(path)
        assert sorted(tell(racers, path)) == ["lost", "won"]
        assert is_live(path)
        assert tell(racers, "") == ["closed", "closed"]
        assert not os.path.exists(path)


def test_taken_port_is_named_with_its_setting() -> None:
    listener = listen_http(["127.0.0.1"], 0)
    with pytest.raises(ListenError) as error:
        listen_http(["127.0.0.1"], listener.port)
    listener.close()
    assert f"port {listener.port}" in str(error.value)
    assert "CALLBACK_SERVER_PORT" in str(error.value)
    assert "CALLBACK_SERVER_PORT" in error.value.hint


@pytest.mark.parametrize("host", ["192.0.2.1", "x" * 70 + ".example"])
def test_foreign_address_is_named_with_its_setting(host: str) -> None:
    with pytest.raises(ListenError, match="CALLBACK_SERVER_HOST.*" + host):
        listen_http([host], 0)


def test_port_that_was_just_closed_can_be_used_again() -> None:
    listener = listen_http(["127.0.0.1"], 0)
    with socket.create_connection(("127.0.0.1", listener.port), timeout=10) as client:
        accepted, _ = listener.socks[0].accept()
        accepted.close()
        client.recv(1)
        listener.close()
    listen_http(["127.0.0.1"], listener.port).close()


def listening(family: int, host: str, port: int = 0, *, v6only: int = 1) -> Any:
    """Somebody else's listening socket, as permissive as it can be made."""
    sock = socket.socket(family)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    if family == socket.AF_INET6:
        sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, v6only)
    try:
        sock.bind((host, port))
        sock.listen()
    except OSError:
        sock.close()
        raise
    return sock


STRANGERS = [
    pytest.param(socket.AF_INET, "127.0.0.1", 1, id="127.0.0.1"),
    pytest.param(socket.AF_INET, "0.0.0.0", 1, id="every IPv4 address"),
    pytest.param(socket.AF_INET6, "::1", 1, id="::1", marks=needs_ipv6),
    pytest.param(socket.AF_INET6, "::", 1, id="every IPv6 address", marks=needs_ipv6),
    pytest.param(socket.AF_INET6, "::", 0, id="every address", marks=needs_ipv6),
]


@pytest.mark.parametrize(("family", "host", "v6only"), STRANGERS)
def test_port_that_another_holds_on_either_loopback_is_refused(
    family: int, host: str, v6only: int
) -> None:
    with listening(family, host, v6only=v6only) as stranger:
        port = stranger.getsockname()[1]
        with pytest.raises(ListenError, match=f"port {port} on .* is taken by another"):
            listen_http(LOOPBACK, port)
    listen_http(LOOPBACK, port).close()  # and nothing of it was kept


@pytest.mark.parametrize(("family", "host", "v6only"), STRANGERS)
def test_nobody_can_listen_beside_us_on_either_loopback(
    family: int, host: str, v6only: int
) -> None:
    listener = listen_http(LOOPBACK, 0)
    with pytest.raises(OSError):
        listening(family, host, listener.port, v6only=v6only)
    listener.close()


@needs_ipv6
def test_free_port_is_free_in_both_families(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first port offered is somebody's on ::1; the next one is taken."""
    bind = listen_module._bind_http
    with listening(socket.AF_INET6, "::1") as stranger:
        offered = [stranger.getsockname()[1]]

        def offer(host: str, port: int) -> Any:
            return bind(host, port or (offered.pop() if offered else 0))

        monkeypatch.setattr(listen_module, "_bind_http", offer)
        listener = listen_http(LOOPBACK, 0)
        assert not offered
        assert listener.port != stranger.getsockname()[1]
        assert {sock.getsockname()[1] for sock in listener.socks} == {listener.port}
        assert [sock.getsockname()[0] for sock in listener.socks] == list(LOOPBACK)
        listener.close()


@pytest.mark.parametrize("number", [errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL])
def test_machine_without_ipv6_listens_on_what_it_has(
    monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    make = socket.socket

    def without_ipv6(family: int, kind: int) -> socket.socket:
        if family == socket.AF_INET6:
            raise OSError(number, "no")
        return make(family, kind)

    monkeypatch.setattr(listen_module.socket, "socket", without_ipv6)
    listener = listen_http(LOOPBACK, 0)
    assert [sock.getsockname()[0] for sock in listener.socks] == ["127.0.0.1"]
    listener.close()
    with pytest.raises(ListenError, match="::1"):
        listen_http(LOOPBACK[::-1], 0)
