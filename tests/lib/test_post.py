"""One POST: what is sent, through which proxy, and what an error may say."""

from __future__ import annotations

import shutil
import socket
import ssl
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple
from urllib.parse import urlsplit

import pytest

from feishuperm.lib.post import find_proxy, post_json
from tests.fakes.feishu import TOKEN, FakeFeishu, Fault
from tests.tables import every_row

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


def received(connection: socket.socket, until: bytes = b"\r\n\r\n") -> bytes:
    data = b""
    while until not in data:
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


@every_row(
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


@every_row(
    "fault",
    [Fault(close=True), Fault(seconds=1.5), Fault(200, b"", (("X", "a" * 70000),))],
)
def test_broken_and_slow_answers_are_errors(fault: Fault) -> None:
    with FakeFeishu() as feishu:
        feishu.faults.append(fault)
        with pytest.raises(OSError):
            post_json(feishu.webhook_url, b"{}", 0.5, NO_PROXY)


OK = b"HTTP/1.1 200 OK\r\n"


@every_row(
    ("scheme", "through", "start", "drop"),
    [
        ("http", "", b"", b"HTTP/1.1 200 OK"),
        ("http", "", OK, b"X: y\r\n"),
        ("http", "", OK + b"X-Pad: ", b"x"),
        ("http", "", OK + b"Content-Length: 1000\r\n\r\n", b"x"),
        ("http", "", OK + b"Transfer-Encoding: chunked\r\n\r\n", b"1\r\nx\r\n"),
        ("http", "", b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
        ("http", "proxy", OK + b"X-Pad: ", b"x"),
        ("https", "proxy", OK + b"X-Pad: ", b"x"),
        ("https", "proxy", OK + b"\r\n", b"\x16\x03\x03\x10\x00\x02"),
        ("https", "", b"\x16\x03\x03\x3f\xff\x02", b"\x00"),
    ],
)
def test_answer_that_comes_in_drops_is_given_up(
    scheme: str, through: str, start: bytes, drop: bytes
) -> None:
    """However often something arrives, the whole takes no longer than allowed."""
    ended = threading.Event()
    drops = iter(range(300))  # some seconds, should nobody give up

    def drip(connection: socket.socket) -> None:
        connection.recv(65536)
        connection.sendall(start)
        while not ended.wait(0.02) and next(drops, None) is not None:
            try:
                connection.sendall(drop)
            except OSError:
                return

    with listener(drip) as port:
        here = f"127.0.0.1:{port}"
        environ = {f"{scheme}_proxy": f"http://{here}"} if through else NO_PROXY
        try:
            with pytest.raises(OSError, match="timed out"):
                post_json(f"{scheme}://{here}/", b"{}", 0.3, environ)
            assert next(drops, None) is not None
        finally:
            ended.set()


def test_body_that_nobody_takes_is_given_up() -> None:
    ended = threading.Event()

    def refuse_to_read(connection: socket.socket) -> None:
        ended.wait(20)

    with listener(refuse_to_read) as port:
        try:
            with pytest.raises(OSError, match="timed out"):
                post_json(f"http://127.0.0.1:{port}/", b"x" * 50_000_000, 0.3, NO_PROXY)
        finally:
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


class Secure(NamedTuple):
    """A TLS server's side, and the file with its certificate."""

    context: ssl.SSLContext
    certificate: str


@pytest.fixture(scope="module")
def secure(tmp_path_factory: pytest.TempPathFactory) -> Secure:
    if not shutil.which("openssl"):
        pytest.skip("openssl makes the certificate")
    folder = tmp_path_factory.mktemp("tls")
    key, certificate = str(folder / "key.pem"), str(folder / "cert.pem")
    subject = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"]
    files = ["-keyout", key, "-out", certificate]
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes"]
    subprocess.run([*command, *files, *subject], check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    return Secure(context, certificate)


def test_certificate_nobody_vouches_for_is_refused(secure: Secure) -> None:
    seen: list[bytes] = []

    def serve(connection: socket.socket) -> None:
        try:
            with secure.context.wrap_socket(connection, server_side=True) as wire:
                seen.append(received(wire))
        except OSError:
            return

    with listener(serve) as port, pytest.raises(OSError, match="certificate"):
        post_json(f"https://localhost:{port}/hook/TOKEN", b"{}", 5, NO_PROXY)
    assert seen == []


@pytest.mark.parametrize("through_proxy", [False, True])
def test_certificate_that_is_trusted_lets_the_body_out(
    secure: Secure, through_proxy: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", secure.certificate)
    seen: list[bytes] = []

    def serve(connection: socket.socket) -> None:
        if through_proxy:
            seen.append(received(connection))
            connection.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
        with secure.context.wrap_socket(connection, server_side=True) as wire:
            seen.append(received(wire, b'{"a": 1}'))
            wire.sendall(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n{}")

    with listener(serve) as port:
        environ = {"HTTPS_PROXY": f"http://u:p@127.0.0.1:{port}"}
        used = environ if through_proxy else NO_PROXY
        reply = post_json(f"https://localhost:{port}/hook", b'{"a": 1}', 5, used)
    assert (reply.status, reply.body) == (200, b"{}")
    assert seen[-1].startswith(b"POST /hook HTTP/1.1\r\n")
    assert f"Host: localhost:{port}\r\n".encode() in seen[-1]
    if through_proxy:
        assert seen[0].startswith(f"CONNECT localhost:{port} HTTP/1.1\r\n".encode())
        assert b"Proxy-Authorization: Basic dTpw\r\n" in seen[0]
        assert b"Proxy-Authorization" not in seen[1]


def test_secure_answer_that_comes_in_drops_is_given_up(
    secure: Secure, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", secure.certificate)
    ended = threading.Event()

    def drip(connection: socket.socket) -> None:
        try:
            with secure.context.wrap_socket(connection, server_side=True) as wire:
                received(wire)
                wire.sendall(b"HTTP/1.1 200 OK\r\nX-Pad: ")
                for _ in range(300):
                    if ended.wait(0.02):
                        return
                    wire.sendall(b"x")
        except OSError:
            return

    with listener(drip) as port:
        try:
            with pytest.raises(OSError, match="timed out"):
                post_json(f"https://localhost:{port}/", b"{}", 0.6, NO_PROXY)
        finally:
            ended.set()


def test_next_address_of_a_host_is_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    with FakeFeishu() as feishu:
        address = urlsplit(feishu.webhook_url)
        known = (socket.AF_INET, socket.SOCK_STREAM, 6, "")
        places = [(*known, ("127.0.0.1", port)) for port in (1, address.port)]
        places.insert(0, (socket.AF_INET, 99, 99, "", ("127.0.0.1", 1)))  # no such kind
        monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: places)
        assert post_json(feishu.webhook_url, b"{}", 5, NO_PROXY).status == 200


@every_row(
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
