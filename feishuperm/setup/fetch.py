"""A page from a server of ours, as a browser would get it, without any proxy."""

from __future__ import annotations

import http.client
from urllib.parse import urlencode, urlsplit

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

MAX_PAGE = 4 << 20
FORM = "application/x-www-form-urlencoded"


def fetch(
    url: str, form: Sequence[tuple[str, str]] | None = None, timeout: float = 10.0
) -> tuple[int, str]:
    """Status and text of a page; with `form` it is posted. Raises OSError."""
    address = urlsplit(url)
    secure = address.scheme == "https"
    connect = http.client.HTTPSConnection if secure else http.client.HTTPConnection
    target = (address.path or "/") + (f"?{address.query}" if address.query else "")
    try:
        connection = connect(address.hostname or "", address.port, timeout=timeout)
        try:
            if form is None:
                connection.request("GET", target)
            else:
                headers = {"Content-Type": FORM}
                connection.request("POST", target, urlencode(form), headers)
            response = connection.getresponse()
            body = response.read(MAX_PAGE)
            return response.status, body.decode("utf-8", "replace")
        finally:
            connection.close()
    except (ValueError, http.client.HTTPException) as error:
        raise OSError(f"{address.hostname}: {error or type(error).__name__}") from None
