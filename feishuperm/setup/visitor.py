"""Somebody who opens pages, reads forms and presses buttons, without a browser.

It goes to a server of ours, so no proxy is asked.
"""

from __future__ import annotations

import html.parser
import http.client
import re
from collections.abc import Sequence
from urllib.parse import urlencode, urljoin, urlsplit

from feishuperm.errors import FeishupermError

MAX_PAGE = 4 << 20
FORM = "application/x-www-form-urlencoded"
FIELDS = ("input", "button")  # an option may be a button of its own


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


class Visitor:
    """Somebody who opens a request's page and presses a button."""

    def __init__(self, base_url: str) -> None:
        self.base_url = base_url

    def press(self, request_id: str, path: str) -> None:
        """Send the form of one button; the first option answers a question."""
        url = find_page(self.base_url, request_id)
        status, page = fetch(url)
        forms, target = read_forms(page, url), self.base_url + path
        if status != 200 or target not in forms:
            raise FeishupermError(f"the page of {request_id} has no {path} ({status})")
        status, _ = fetch(target, forms[target])
        if status != 200:
            raise FeishupermError(f"{path} answered with status {status}")


def find_page(base_url: str, request_id: str) -> str:
    """The address of a request's own page, as the inbox names it."""
    link = re.escape(f"request?id={request_id}")
    match = re.search(f'href="({link}[^"]*)"', fetch(base_url + "/")[1])
    if match is None:
        raise FeishupermError(f"the inbox does not show {request_id}")
    return f"{base_url}/{html.unescape(match[1])}"


def read_forms(page: str, url: str) -> dict[str, list[tuple[str, str]]]:
    """The fields of every form, by where it goes; of each choice the first option."""
    reader = _FormReader(url)
    reader.feed(page)
    return reader.forms


class _FormReader(html.parser.HTMLParser):
    """Collects what a browser would send if only first options were chosen."""

    def __init__(self, url: str) -> None:
        super().__init__()
        self.url = url
        self.forms: dict[str, list[tuple[str, str]]] = {}
        self.form: list[tuple[str, str]] | None = None

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        if tag == "form":
            target = urljoin(self.url, values.get("action", ""))
            self.form = self.forms.setdefault(target, [])
        elif tag in FIELDS and self.form is not None and values.get("name"):
            name = values["name"]
            if name not in [field for field, _ in self.form]:
                self.form.append((name, values.get("value", "")))

    def handle_endtag(self, tag: str) -> None:
        if tag == "form":
            self.form = None
