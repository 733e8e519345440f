"""What all pages have in common: the frame, the policy, and the ways text gets in.

Pages are values in, HTML out, one file per page.  Nothing in them decides, waits, or
knows a kind of request by its name: an `Ask` says what is shown and offered, an
`Outcome` how it ended, and the words around them are in English here.

Every page is one self-contained file: style and script are inlined, and the content
security policy names them by their hashes, so nothing that a tool call smuggles into a
page could ever run.

The loop serves everybody, so nobody may hold it: a page of some megabytes is made piece
by piece, and a link whose request is still on its way back waits for it.  Such an
answer is a generator: it yields the seconds until it wants to go on, and returns the
response.
"""

from __future__ import annotations

import base64
import hashlib
import json
import pkgutil
import re
import time
from collections.abc import Callable, Generator, Iterable, Iterator
from html import escape
from typing import NamedTuple, Union
from urllib.parse import parse_qsl

from feishuperm.lib.display import visible
from feishuperm.messages import text
from feishuperm.protocol.http1 import Response

TYPE_CHECKING = False
if TYPE_CHECKING:
    from feishuperm.server.connection import Exchange

Slow = Generator[float, None, Response]
# The last: a stream of events, which keeps its exchange.
Reply = Union[Response, Slow, Callable[["Exchange"], None]]

HTML = "text/html; charset=utf-8"
JSON = "application/json; charset=utf-8"
PRIVATE = (("Cache-Control", "no-store"), ("X-Content-Type-Options", "nosniff"))
ICONS = {
    "check": "M6 17l7 7L27 9",
    "clock": "M16 8v9l6 4M16 3a13 13 0 1 0 .01 0",
    "ask": "M11 12a5 5 0 1 1 7 4.6c-1.500.7-2 1.600-2 3.400M16 25v.5",
}


class Fact(NamedTuple):
    """A label and its value."""

    label: str  # text key
    value: str
    exact: bool = False  # shown letter by letter, as a rule
    struck: bool = False  # it holds no longer


def _load(name: str) -> str:
    """A file of `web/`, also from inside the archive."""
    data = pkgutil.get_data("feishuperm", "web/" + name)
    if data is None:
        raise FileNotFoundError(name)
    return data.decode()


STYLE = _load("style.css")
PAGE_SCRIPT = _load("common.js") + _load("page.js")
INBOX_SCRIPT = _load("common.js") + _load("inbox.js")
TOP, BOTTOM = _load("page.html").split("{{body}}")
INBOX = _load("inbox.html")
_named = re.split(r"<!-- (\w+) -->\n", _load("parts.html"))[1:]
PARTS = {name: part.replace("\n", "") for name, part in zip(*[iter(_named)] * 2)}


def _hash(source: str) -> str:
    digest = hashlib.sha256(source.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"


POLICY = "; ".join(
    (
        "default-src 'none'",
        f"script-src {_hash(PAGE_SCRIPT)} {_hash(INBOX_SCRIPT)}",
        f"style-src {_hash(STYLE)}",
        "img-src data:",
        "connect-src 'self'",
        "form-action 'self'",
        "frame-ancestors 'none'",
        "base-uri 'none'",
    )
)
# No page may be stored, sniffed or framed.
HEADERS = (
    ("Content-Security-Policy", POLICY),
    ("Cache-Control", "no-store"),
    ("Referrer-Policy", "same-origin"),
    ("X-Content-Type-Options", "nosniff"),
)


def frame(
    language: str, title: str, body: Iterable[str | bytes], script: str = PAGE_SCRIPT
) -> Iterator[bytes]:
    """A whole page around a body, in pieces: a large one is made over many turns."""
    name = "zh-CN" if language == "zh" else "en"
    yield fill(TOP, lang=name, title=title, style=Html(STYLE)).encode()
    if script is PAGE_SCRIPT:
        yield draw("home", language).encode()
    for piece in body:
        yield piece if isinstance(piece, bytes) else piece.encode(errors="replace")
    yield fill(BOTTOM, script=Html(script)).encode()


class Html(str):
    """A text that may stand in a page as it is."""


_BLANK = re.compile(r"\{\{(=?)(.+?)\}\}(?!\})")


def fill(template: str, language: str = "", **values: object) -> Html:
    """The template with its blanks filled in one pass: a value is never a template.

    What is not HTML is escaped.  `{{=words}}` is a sentence, told in the language.
    """

    def filled(blank: re.Match[str]) -> str:
        is_sentence, name = blank.groups()
        value = text(language, name, **values) if is_sentence else values[name]
        return value if isinstance(value, Html) else shown(str(value))

    return Html(_BLANK.sub(filled, template))


def draw(part: str, language: str = "", **values: object) -> Html:
    """A part of a page, as parts.html has it."""
    return fill(PARTS[part], language, **values)


def shown(value: str) -> str:
    """A text as HTML, what the eye cannot see spelled out."""
    return escape(visible(value))


def said(language: str, key: str, **values: object) -> str:
    """A sentence as HTML."""
    return shown(text(language, key, **values))


def moment(seconds: float) -> str:
    """A time of day and date, as people here read it."""
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(seconds))


def hidden_fields(*pairs: tuple[str, str]) -> Html:
    """What a form sends that nobody sees."""
    return Html("".join(draw("hidden", name=key, value=said) for key, said in pairs))


def form(link: str, inside: str, kind: str = "stack", *more: tuple[str, str]) -> Html:
    """What posts the query of its link, and `more`; `inside` is HTML."""
    path, _, query = link.partition("?")
    hidden = hidden_fields(*parse_qsl(query), *more)
    return draw("form", kind=kind, path=path, hidden=hidden, inside=Html(inside))


def link_form(link: str, label: str, look: str, kind: str = "stack") -> Html:
    """A button that posts the query of its link; `label` is HTML."""
    return form(link, draw("button", look=look, label=Html(label)), kind)


def facts(language: str, rows: Iterable[Fact]) -> str:
    """Labels and values as a list; nothing for no rows."""
    items = "".join(
        f"<dt>{said(language, label)}</dt>"
        f"<dd>{exactly(value, struck) if exact else shown(value)}</dd>"
        for label, value, exact, struck in rows
        if value
    )
    return f'<dl class="facts">{items}</dl>' if items else ""


def exactly(value: str, struck: bool = False) -> str:
    """A text to be read letter by letter; struck through if it holds no longer."""
    inner = f"<s>{shown(value)}</s>" if struck else shown(value)
    return f'<code class="rule">{inner}</code>'


# How it is sent.


def page(body: bytes, status: int = 200, *headers: tuple[str, str]) -> Response:
    """A page, whole."""
    return Response(status, body, HTML, (*HEADERS, *headers))


def in_pieces(
    pieces: Iterable[bytes], status: int = 200, *headers: tuple[str, str]
) -> Slow:
    """A page that is made over several turns, if it is large."""
    made = bytearray()  # millions of pieces would take long to be let go of
    for piece in pieces:
        made += piece
        yield 0.0
    return page(bytes(made), status, *headers)


def as_json(value: object, status: int = 200) -> Response:
    """For programs, and for the inbox's script."""
    return Response(status, json.dumps(value).encode() + b"\n", JSON, PRIVATE)


def to_home(*headers: tuple[str, str]) -> Response:
    """Go on to the inbox; relative, since a proxy may add a prefix."""
    return Response(303, headers=[*PRIVATE, ("Location", "."), *headers])
