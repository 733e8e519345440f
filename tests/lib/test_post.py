"""One POST: what is sent, through which proxy, and what an error may say."""

from __future__ import annotations

import shutil
import socket
import ssl
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from feishuperm.lib.post import find_proxy, post_json
from tests.fakes.feishu import TOKEN, FakeFeishu, Fault

NO_PROXY: dict[str, str] = {}


@contextmanager
def listener(serve: Callable[[socket.socket], None]) -> Iterator[int]:
    """A server that handles one connection with `serve`."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(20)

        def run() -> None:
            try:
                connection, _ = server.accept()
            except OSError:
                return
            connection.settimeout(20)
            with connection:
                serve(connection)

        thread = threading.Thread(target=run)
        thread.start()
        try:
            yield server.getsockname()[1]
        finally:
            thread.join(25)


def received(connection: socket.socket) -> bytes:
    data = b""
    while b"\r\n\r\n" not in data:
        data += connection.recv(65536)
    return data


def test_body_goes_out_and_answer_comes_back() -> None:
    with FakeFeishu() as feishu:
        reply = post_json(feishu.webhook_url, '{"a": "中"}'.encode(), 5, NO_PROXY)
    assert reply.status == 200
    assert reply.headers["content-type"] == "application/json"
    assert b"19002" in reply.body
    assert feishu.requests == [
        (f"/open-apis/bot/v2/hook/{TOKEN}", '{"a": "中"}'.encode())
    ]


def test_redirect_is_not_followed() -> None:
    with FakeFeishu() as feishu:
        target = (("Location", feishu.webhook_url),)
        feishu.faults.append(Fault(302, b"", target))
        assert post_json(feishu.webhook_url, b"{}", 5, NO_PROXY).status == 302
        assert len(feishu.requests) == 1


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1:1/open-apis/bot/v2/hook/TOKEN",
        "https://127.0.0.1:1/open-apis/bot/v2/hook/TOKEN",
        "http://host.invalid/open-apis/bot/v2/hook/TOKEN",
        "http://127.0.0.1/hook/TOKEN\nX: y",
        "http://127.0.0.1/hook/TOKEN中文",
        "http://127.0.0.1:99999/hook/TOKEN",
        "http://127.0.0.1:port/hook/TOKEN",
        "http://[::1/hook/TOKEN",
    ],
)
def test_error_names_the_host_and_never_the_token(url: str) -> None:
    with pytest.raises(OSError) as caught:
        post_json(url, b"{}", 5, NO_PROXY)
    assert "TOKEN" not in str(caught.value)
    assert str(caught.value).startswith(("127.0.0.1: ", "host.invalid: ", "::1"))


@pytest.mark.parametrize(
    "fault",
    [Fault(close=True), Fault(seconds=1.5), Fault(200, b"", (("X", "a" * 70000),))],
)
def test_broken_and_slow_answers_are_errors(fault: Fault) -> None:
    with FakeFeishu() as feishu:
        feishu.faults.append(fault)
        with pytest.raises(OSError):
            post_json(feishu.webhook_url, b"{}", 0.5, NO_PROXY)


def test_drip_fed_answer_is_given_up() -> None:
    ended = threading.Event()

    def drip(connection: socket.socket) -> None:
        received(connection)
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")
        while not ended.wait(0.05):
            try:
                connection.sendall(b"x")
            except OSError:
                return

    with listener(drip) as port:
        with pytest.raises(OSError, match="too long"):
            post_json(f"http://127.0.0.1:{port}/", b"{}", 0.4, NO_PROXY)
        ended.set()


def test_endless_answer_is_read_only_so_far() -> None:
    def flood(connection: socket.socket) -> None:
        received(connection)
        connection.sendall(b"HTTP/1.0 200 OK\r\n\r\n")
        try:
            while True:
                connection.sendall(b"x" * 65536)
        except OSError:
            return

    with listener(flood) as port:
        reply = post_json(f"http://127.0.0.1:{port}/", b"{}", 5, NO_PROXY)
    assert len(reply.body) < 200_000


@pytest.mark.skipif(not shutil.which("openssl"), reason="openssl makes the certificate")
def test_certificate_nobody_vouches_for_is_refused(tmp_path: Path) -> None:
    key, certificate = str(tmp_path / "key.pem"), str(tmp_path / "cert.pem")
    subject = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"]
    files = ["-keyout", key, "-out", certificate]
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes"]
    subprocess.run([*command, *files, *subject], check=True, capture_output=True)
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(certificate, key)
    seen: list[bytes] = []

    def serve(connection: socket.socket) -> None:
        try:
            with server.wrap_socket(connection, server_side=True) as secure:
                seen.append(received(secure))
                secure.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")
        except OSError:
            return

    with listener(serve) as port, pytest.raises(OSError, match="certificate"):
        post_json(f"https://localhost:{port}/hook/TOKEN", b"{}", 5, NO_PROXY)
    assert seen == []


@pytest.mark.parametrize(
    ("url", "environ", "proxy"),
    [
        ("https://a.com", {}, None),
        ("https://a.com", {"HTTPS_PROXY": "http://p:1"}, "http://p:1"),
        ("https://a.com", {"https_proxy": "http://p:1"}, "http://p:1"),
        ("https://a.com", {"HTTP_PROXY": "http://p:1"}, None),
        ("http://a.com", {"HTTP_PROXY": "p:1"}, "http://p:1"),
        ("https://a.com", {"ALL_PROXY": "http://p:1"}, "http://p:1"),
        ("https://a.com", {"HTTPS_PROXY": "http://p:1", "NO_PROXY": "a.com"}, None),
        (
            "https://x.a.com",
            {"HTTPS_PROXY": "http://p:1", "NO_PROXY": "b, a.com"},
            None,
        ),
        ("https://x.a.com", {"HTTPS_PROXY": "http://p:1", "NO_PROXY": ".a.com"}, None),
        ("https://x.a.com", {"HTTPS_PROXY": "http://p:1", "no_proxy": "*"}, None),
        (
            "https://ba.com",
            {"HTTPS_PROXY": "http://p:1", "NO_PROXY": "a.com"},
            "http://p:1",
        ),
        ("https://a.com", {"HTTPS_PROXY": ""}, None),
    ],
)
def test_proxy_is_chosen_by_the_environment(
    url: str, environ: dict[str, str], proxy: str | None
) -> None:
    found = find_proxy(urlsplit(url), environ)
    assert (found.geturl() if found else None) == proxy


def test_plain_http_goes_through_a_proxy_whole() -> None:
    seen: list[bytes] = []

    def proxy(connection: socket.socket) -> None:
        seen.append(received(connection))
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")

    with listener(proxy) as port:
        environ = {"HTTP_PROXY": f"http://user:p%40ss@127.0.0.1:{port}"}
        reply = post_json("http://feishu.test/hook/x?y=1", b"{}", 5, environ)
    assert reply.body == b"ok"
    assert seen[0].startswith(b"POST http://feishu.test/hook/x?y=1 HTTP/1.1\r\n")
    assert b"Proxy-Authorization: Basic dXNlcjpwQHNz" in seen[0]


def test_https_goes_through_a_tunnel_that_never_sees_the_path() -> None:
    seen: list[bytes] = []

    def proxy(connection: socket.socket) -> None:
        seen.append(received(connection))
        connection.sendall(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n")

    with listener(proxy) as port:
        environ = {"HTTPS_PROXY": f"http://127.0.0.1:{port}"}
        with pytest.raises(OSError, match=r"feishu\.test: .*403"):
            post_json("https://feishu.test/hook/TOKEN", b"{}", 5, environ)
    assert seen[0].startswith(b"CONNECT feishu.test:443 HTTP/1.")
    assert b"TOKEN" not in seen[0]


def test_other_kinds_of_proxy_are_refused_with_a_reason() -> None:
    with pytest.raises(OSError, match="socks5"):
        post_json("https://a.test/", b"{}", 5, {"HTTPS_PROXY": "socks5://127.0.0.1:1"})
