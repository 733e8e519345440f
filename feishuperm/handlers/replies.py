"""The shapes of our answers: a page, a page in pieces, JSON, a refusal, a way on."""

from __future__ import annotations

import json
from collections.abc import Iterable

from feishuperm.handlers.pages.layout import HEADERS
from feishuperm.handlers.pages.result import message_page
from feishuperm.handlers.turns import Slow
from feishuperm.lib.text import text
from feishuperm.protocol.http1 import Response

HTML = "text/html; charset=utf-8"
JSON = "application/json; charset=utf-8"
PRIVATE = (("Cache-Control", "no-store"), ("X-Content-Type-Options", "nosniff"))


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


def message(
    language: str, status: int, title: str, sentence: str, *headers: tuple[str, str]
) -> Response:
    """A page with one sentence; `title` is a text key."""
    return page(message_page(language, title, sentence), status, *headers)


def refusal(language: str, status: int, key: str) -> Response:
    """A page that says why not; `key` is the sentence's."""
    title = "page.invalid" if key == "page.unknown" else "page.refused"
    return message(language, status, title, text(language, key))


def as_json(value: object, status: int = 200) -> Response:
    """For programs, and for the inbox's script."""
    return Response(status, json.dumps(value).encode() + b"\n", JSON, PRIVATE)


def to_home(*headers: tuple[str, str]) -> Response:
    """Go on to the inbox; relative, since a proxy may add a prefix."""
    return Response(303, headers=[*PRIVATE, ("Location", "."), *headers])
