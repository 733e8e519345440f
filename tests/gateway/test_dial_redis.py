"""Addresses of an engine, and what its first words mean."""

from __future__ import annotations

import socket
import threading

import pytest

from feishuperm.errors import SettingError
from feishuperm.gateway.dial_redis import (
    EngineRefusal,
    RedisDialler,
    dial_redis,
    read_address,
)
from tests.tables import every_row


@every_row(
    ("url", "hosts", "secure", "user", "password", "db", "master"),
    [
        ("redis://h", (("h", 6379),), False, "", "", 0, ""),
        ("redis://u:p%40@h:7000/2", (("h", 7000),), False, "u", "p@", 2, ""),
        ("rediss://:pw@[::1]:7", (("::1", 7),), True, "", "pw", 0, ""),
        ("redis+sentinel://a:1,b:2/main/3", (("a", 1), ("b", 2)), False, "", "", 3,
         "main"),
    ],
)  # fmt: skip
def test_address_is_read(
    url: str, hosts: object, secure: bool, user: str, password: str, db: int,
    master: str,
) -> None:  # fmt: skip
    assert read_address(url) == (hosts, secure, user, password, db, master)


@every_row(
    "url", ["http://h", "redis://", "redis://h:x", "redis://u:s3cret@h/x",
            "redis+sentinel://a:1"],
)  # fmt: skip
def test_address_that_is_none_is_named_without_its_password(url: str) -> None:
    with pytest.raises(SettingError) as raised:
        read_address(url)
    assert "s3cret" not in str(raised.value)


def serve(*replies: bytes) -> int:
    """A server that answers one reply to each command."""
    server = socket.create_server(("127.0.0.1", 0))

    def answer() -> None:
        sock, _ = server.accept()
        with sock, server:
            for reply in replies:
                if not sock.recv(4096):
                    return
                sock.sendall(reply)
            sock.recv(4096)

    threading.Thread(target=answer, daemon=True).start()
    port: int = server.getsockname()[1]
    return port


MASTER = b"*3\r\n$6\r\nmaster\r\n:0\r\n*0\r\n"


def test_good_server_is_logged_in() -> None:
    port = serve(b"+OK\r\n", b"+OK\r\n", MASTER, b"$-1\r\n")
    dial_redis(read_address(f"redis://:pw@127.0.0.1:{port}/1")).close()


@every_row(
    ("reply", "words"),
    [
        (b"-WRONGPASS invalid username-password pair\r\n", "WRONGPASS"),
        (b"-ERR AUTH <password> called without any password\r\n", "AUTH"),
        (b"-NOPERM this user has no permissions\r\n", "NOPERM"),
    ],
)
def test_what_a_person_must_mend_is_one_sentence(reply: bytes, words: str) -> None:
    port = serve(reply)
    with pytest.raises(EngineRefusal, match=words) as raised:
        dial_redis(read_address(f"redis://:s3cret@127.0.0.1:{port}"))
    assert "s3cret" not in str(raised.value)


def test_cluster_is_refused() -> None:
    port = serve(MASTER, b"-MOVED 12182 127.0.0.1:1\r\n")
    with pytest.raises(EngineRefusal, match="cluster"):
        dial_redis(read_address(f"redis://127.0.0.1:{port}"))


@every_row("reply", [b"-LOADING Redis is loading\r\n", b"*1\r\n$5\r\nslave\r\n"])
def test_weather_passes_by_itself(reply: bytes) -> None:
    port = serve(reply)
    with pytest.raises(OSError, match="engine"):
        dial_redis(read_address(f"redis://127.0.0.1:{port}"))


def test_nobody_there_is_weather_too() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with pytest.raises(OSError, match=r"127\.0\.0\.1"):
        dial_redis(read_address(f"redis://127.0.0.1:{port}"))


@every_row("scheme", ["redis", "rediss"])
def test_engine_that_restarts_is_not_taken_for_one_of_the_other_scheme(
    scheme: str,
) -> None:
    """It closes what it has accepted; before it ever worked that may be TLS."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        dial = RedisDialler(read_address(f"{scheme}://127.0.0.1:{port}"))
        closing = threading.Thread(
            target=lambda: [server.accept()[0].close() for _ in range(2)]
        )
        closing.start()
        with pytest.raises(OSError, match="TLS"):
            dial()
        dial._has_worked = True
        with pytest.raises(OSError, match="engine closes") as caught:
            dial()
        assert "TLS" not in str(caught.value)
        closing.join(10)
