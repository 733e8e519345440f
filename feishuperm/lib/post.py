"""One JSON POST over HTTP or HTTPS, through a proxy where the environment names one.

Redirects are not followed: the answer is handed back as it came.  An error names the
host and never the rest of the address, which holds a bot's token.
"""

from __future__ import annotations

import binascii
import http.client
import os
import ssl
import time
from typing import NamedTuple
from urllib.parse import SplitResult, unquote, urlsplit

from feishuperm.models.settings import url_host

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

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
) -> Reply:
    """Send, and read the answer. Raises OSError whose text is ready to be shown."""
    try:
        address = urlsplit(url)
        return _exchange(address, body, timeout, find_proxy(address, environ))
    except OSError as error:  # first: a certificate's is a ValueError too
        reason = error.strerror or str(error) or type(error).__name__
    except (ValueError, http.client.InvalidURL):
        reason = "not a usable address"  # their own texts repeat it
    except http.client.HTTPException as error:
        reason = str(error) or type(error).__name__
    raise OSError(f"{url_host(url)}: {reason}")


def find_proxy(address: SplitResult, environ: Mapping[str, str]) -> SplitResult | None:
    """The proxy for an address, by `HTTPS_PROXY`, `HTTP_PROXY` and `NO_PROXY`."""
    names = (f"{address.scheme}_proxy", "all_proxy")
    found = _first(environ, *names)
    if not found or _excluded(address.hostname or "", _first(environ, "no_proxy")):
        return None
    return urlsplit(found if "://" in found else f"http://{found}")


def _first(environ: Mapping[str, str], *names: str) -> str:
    spellings = [spelling for name in names for spelling in (name, name.upper())]
    return next((environ[name] for name in spellings if environ.get(name)), "")


def _excluded(host: str, exceptions: str) -> bool:
    for name in exceptions.replace(",", " ").split():
        suffix = name.lstrip("*").lstrip(".").lower()
        if not suffix or host == suffix or host.endswith("." + suffix):
            return True
    return False


def _exchange(
    address: SplitResult, body: bytes, timeout: float, proxy: SplitResult | None
) -> Reply:
    until = time.monotonic() + timeout
    target = (address.path or "/") + (f"?{address.query}" if address.query else "")
    headers = dict(HEADERS)
    if proxy and address.scheme == "http":
        target = address.geturl()
        headers.update(_proxy_headers(proxy))
    connection = _connection(address, timeout, proxy)
    try:
        connection.request("POST", target, body, headers)
        response = connection.getresponse()
        names = {name.lower(): value for name, value in response.getheaders()}
        return Reply(response.status, names, _read(response, until))
    finally:
        connection.close()


def _connection(
    address: SplitResult, timeout: float, proxy: SplitResult | None
) -> http.client.HTTPConnection:
    if proxy and proxy.scheme != "http":
        raise OSError(f"a proxy by {proxy.scheme}:// is not supported, only http://")
    peer = proxy or address
    host, port = peer.hostname or "", peer.port
    if address.scheme == "http":
        return http.client.HTTPConnection(host, port or 80, timeout=timeout)
    secure = http.client.HTTPSConnection(
        host,
        port or (80 if proxy else 443),
        timeout=timeout,
        context=ssl.create_default_context(),
    )
    if proxy:
        target = address.hostname or ""
        secure.set_tunnel(target, address.port or 443, _proxy_headers(proxy))
    return secure


def _proxy_headers(proxy: SplitResult) -> dict[str, str]:
    if not proxy.username:
        return {}
    pair = f"{unquote(proxy.username)}:{unquote(proxy.password or '')}".encode()
    encoded = binascii.b2a_base64(pair, newline=False).decode()
    return {"Proxy-Authorization": f"Basic {encoded}"}


def _read(response: http.client.HTTPResponse, until: float) -> bytes:
    """The body, as far as anybody needs it; a drip-fed one is given up."""
    data = b""
    while len(data) < MAX_REPLY:
        part = response.read1(MAX_REPLY)
        if not part:
            break
        data += part
        if time.monotonic() > until:
            raise TimeoutError("the answer took too long")
    return data
