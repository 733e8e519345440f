"""The shapes of answers."""

from __future__ import annotations

import json

import pytest

from feishuperm.handlers.pages.layout import HEADERS
from feishuperm.handlers.replies import as_json, in_pieces, page, refusal, to_home
from tests.handlers.pages.page import Page


def test_page_carries_its_policy_and_what_else_it_is_given() -> None:
    response = page(b"x", 400, ("Refresh", "2"))
    assert response.status == 400
    assert list(response.headers) == [*HEADERS, ("Refresh", "2")]


def test_page_in_pieces_gives_way_after_each() -> None:
    steps = in_pieces([b"a", b"b"], 200, ("X", "y"))
    assert [next(steps), next(steps)] == [0.0, 0.0]
    with pytest.raises(StopIteration) as done:
        next(steps)
    assert done.value.value.body == b"ab"
    assert ("X", "y") in done.value.value.headers


def test_refusal_says_why() -> None:
    response = refusal("zh", 403, "page.inbox_closed")
    assert response.status == 403
    assert "feishuperm status" in Page(response.body).text


def test_json_and_the_way_on_are_never_stored() -> None:
    for response in (as_json({"a": 1}), to_home(("Set-Cookie", "c=1"))):
        assert ("Cache-Control", "no-store") in list(response.headers)
    assert json.loads(as_json({"a": 1}).body) == {"a": 1}
    assert ("Location", ".") in list(to_home().headers)
