"""One exchange over HTTP or HTTPS, through a proxy where the environment names one.

Redirects are not followed: the answer is handed back as it came.  One deadline holds
from connecting to the last byte; only looking up a name is the system's own time.  An
error names the host and never the rest of the address, which holds a bot's token.
`dial()` only connects, for callers that speak another protocol over the same way out.
"""

from __future__ import annotations

import binascii
import http.client
import io
import os
import socket
import ssl
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple
from urllib.parse import SplitResult, unquote, urlsplit

from feishuperm.messages import message_of, msg
from feishuperm.models.settings import url_host

MAX_REPLY = 65536  # Feishu answers in a few hundred bytes
TIMEOUT = 8.0  # a card must be on the phone well within the person's 55 seconds
HEADERS = {
    "Content-Type": "application/json; charset=utf-8",
    "User-Agent": "feishuperm",
}


class Reply(NamedTuple):
    """An HTTP answer; header names are in lower case."""

    status: int
    headers: dict[str, str]
    body: bytes


def post_json(
    url: str,
    body: bytes,
    timeout: float = TIMEOUT,
    environ: Mapping[str, str] = os.environ,
    ca_file: str = "",
) -> Reply:
    """Send, and read the answer. Raises OSError whose text is ready to be shown."""
    return call(Call("POST", url, body, HEADERS), timeout, environ, ca_file)


class Call(NamedTuple):
    """An HTTP request."""

    method: str
    url: str
    body: bytes
    headers: Mapping[str, str]


def call(
    request: Call,
    timeout: float = TIMEOUT,
    environ: Mapping[str, str] = os.environ,
    ca_file: str = "",
) -> Reply:
    """Any request, and its answer. Raises OSError whose text is ready to be shown."""
    until = time.monotonic() + timeout
    with _failures_named(request.url):
        address = urlsplit(request.url)
        proxy, headers = find_proxy(address, environ), dict(request.headers)
        query = f"?{address.query}" if address.query else ""
        target = (address.path or "/") + query
        if proxy and address.scheme == "http":
            target = address.geturl()
            headers.update(_proxy_headers(proxy))
        with _connect(address, proxy, until, ca_file) as sock:
            connection = _connection(address, sock, until)
            connection.request(request.method, target, request.body, headers)
            response = connection.getresponse()
            names = {name.lower(): value for name, value in response.getheaders()}
            return Reply(response.status, names, response.read(MAX_REPLY))


def dial(
    url: str,
    timeout: float = TIMEOUT,
    environ: Mapping[str, str] = os.environ,
    ca_file: str = "",
) -> socket.socket:
    """A connection to a `ws://` or `wss://` address, encrypted if that is `wss`.

    Raises OSError whose text is ready to be shown.
    """
    until = time.monotonic() + timeout
    with _failures_named(url):
        address = urlsplit(url)
        return _connect(address, find_proxy(address, environ), until, ca_file)


@contextmanager
def _failures_named(url: str) -> Iterator[None]:
    """Whatever goes wrong, as an OSError that names the host and nothing else."""
    try:
        yield
        return
    except OSError as error:  # first: a certificate's is a ValueError too
        reason = message_of(error) or type(error).__name__
    except (ValueError, http.client.InvalidURL):
        reason = msg("not a usable address")  # their own texts repeat it
    except http.client.HTTPException as error:
        reason = str(error) or type(error).__name__
    raise OSError(msg("{}: {}", url_host(url), reason))


def find_proxy(address: SplitResult, environ: Mapping[str, str]) -> SplitResult | None:
    """The proxy for an address, by `HTTPS_PROXY`, `HTTP_PROXY` and `NO_PROXY`."""
    scheme = {"ws": "http", "wss": "https"}.get(address.scheme, address.scheme)
    named = _first(environ, f"{scheme}_proxy", "all_proxy")
    if not named or _excluded(address.hostname or "", _first(environ, "no_proxy")):
        return None
    return urlsplit(named if "://" in named else f"http://{named}")


def _first(environ: Mapping[str, str], *names: str) -> str:
    spellings = [spelling for name in names for spelling in (name, name.upper())]
    return next((environ[name] for name in spellings if environ.get(name)), "")


def _excluded(host: str, exceptions: str) -> bool:
    for name in exceptions.replace(",", " ").split():
        suffix = name.lstrip("*").lstrip(".").lower()
        if not suffix or f".{host}".endswith(f".{suffix}"):
            return True
    return False


class _Wire(io.RawIOBase):
    """A socket as `http.client` wants it, whose every step ends by one deadline.

    A time-out of the socket alone starts again with each byte that arrives.
    """

    def __init__(self, sock: socket.socket, until: float) -> None:
        self.sock = sock
        self.until = until

    def sendall(self, data: bytes) -> None:
        self.sock.settimeout(_left(self.until))
        self.sock.sendall(data)

    def makefile(self, mode: str) -> io.BufferedReader:
        return io.BufferedReader(self)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        self.sock.settimeout(_left(self.until))
        return self.sock.recv_into(buffer)

    def close(self) -> None:
        """Nothing: a connection is closed before its answer has been read."""


def _left(until: float) -> float:
    left = until - time.monotonic()
    if left <= 0:
        raise TimeoutError(msg("timed out"))
    return left


def _connection(
    address: SplitResult, sock: socket.socket, until: float
) -> http.client.HTTPConnection:
    # The address only makes the `Host` header, and the socket may well be a secure one.
    connection = http.client.HTTPConnection(address.hostname or "", address.port)
    connection.sock = _Wire(sock, until)
    return connection


def _connect(
    address: SplitResult, proxy: SplitResult | None, until: float, ca_file: str
) -> socket.socket:
    """A way to the address; through a proxy by a tunnel, but for plain `http`."""
    if proxy and proxy.scheme != "http":
        raise OSError(
            msg("a proxy by {}:// is not supported, only http://", proxy.scheme)
        )
    secure = address.scheme in ("https", "wss")
    host, port = address.hostname or "", address.port or (443 if secure else 80)
    near = (proxy.hostname, proxy.port or 80) if proxy else (host, port)
    sock = _open(*near, until)
    try:
        if proxy and address.scheme != "http":
            _tunnel(sock, host, port, proxy, until)
        if not secure:
            return sock
        sock.settimeout(_left(until))
        context = trusting(ca_file)
        return context.wrap_socket(sock, server_hostname=address.hostname)
    except BaseException:
        sock.close()
        raise


def trusting(ca_file: str) -> ssl.SSLContext:
    """What the system trusts, and a certificate file beside it."""
    context = ssl.create_default_context()
    if ca_file:
        context.load_verify_locations(ca_file)
    return context


def _open(host: str | None, port: int, until: float) -> socket.socket:
    """A connection to the first of a host's addresses that answers."""
    error = OSError(msg("no address found"))
    for family, kind, number, _, where in socket.getaddrinfo(
        host or "", port, type=socket.SOCK_STREAM
    ):
        try:
            sock = socket.socket(family, kind, number)
        except OSError as failure:  # a family this system does without
            error = failure
            continue
        try:
            sock.settimeout(_left(until))
            sock.connect(where)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return sock
        except OSError as failure:
            sock.close()
            error = failure
    raise error


def _tunnel(
    sock: socket.socket, host: str, port: int, proxy: SplitResult, until: float
) -> None:
    """Ask a proxy to pass on what follows."""
    target = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    connection = _connection(proxy, sock, until)
    connection.request(
        "CONNECT", target, None, {"Host": target, **_proxy_headers(proxy)}
    )
    response = connection.getresponse()
    if response.status != 200:
        reason = f"{response.status} {response.reason}"
        raise OSError(msg("the proxy refuses the connection: {}", reason))


def _proxy_headers(proxy: SplitResult) -> dict[str, str]:
    if not proxy.username:
        return {}
    pair = f"{unquote(proxy.username)}:{unquote(proxy.password or '')}".encode()
    encoded = binascii.b2a_base64(pair, newline=False).decode()
    return {"Proxy-Authorization": f"Basic {encoded}"}
