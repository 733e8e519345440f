"""Asks, answers and outcomes: through JSON and back, cut, and from strangers."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from feishuperm.errors import PayloadError
from feishuperm.models import ask as values
from feishuperm.models.ask import (
    Answer,
    Ask,
    Block,
    Field,
    Offer,
    Option,
    Outcome,
    Receipt,
    from_plain,
    shorten,
    shorten_block,
    to_plain,
)
from tests.tables import every_row

ASK = Ask(
    "1700000000-0a1b2c3d",
    "question",
    blocks=(Block("code", "命令", "ls"), Block("text", "", "a", hidden=3, tail="z")),
    created=1700000000.25,
    seconds=55,
    actions=(
        Offer("allow", "批准运行", look=values.YES, grants=True),
        Offer("deny", "拒绝运行", fields=("reason",)),
    ),
    fields=(Field("q0", "one", options=(Option("a", "first"), Option("b"))),),
    rules=("Bash(ls)",),
)
VALUES = (
    ASK,
    Answer("1-a", "answer", {"q0": ("a", "b"), "reason": ("",)}, "page", digest="ff"),
    Outcome("1-a", "plan", lines=("one", "two"), ended=1.5),
    Receipt(values.ENDED, Outcome("1-a"), "sorry"),
)


@every_row("value", VALUES)
def test_value_through_json_and_back_is_the_same(value: Any) -> None:
    wire = json.dumps(to_plain(value))
    assert from_plain(type(value), json.loads(wire)) == value


@every_row("value", VALUES)
def test_every_field_of_the_wrong_type_is_refused(value: Any) -> None:
    for name in value._fields:
        with pytest.raises(PayloadError, match=f"(?i){name}"):
            from_plain(type(value), {**to_plain(value), name: None})


def test_unknown_keys_are_skipped_and_missing_ones_have_their_default() -> None:
    assert from_plain(Option, {"value": "a", "colour": "red"}) == Option("a")


@every_row("plain", [[], "x", None, 3])
def test_what_is_no_object_is_refused(plain: object) -> None:
    with pytest.raises(PayloadError):
        from_plain(Ask, plain)


def test_list_of_too_many_items_is_refused() -> None:
    with pytest.raises(PayloadError):
        from_plain(Outcome, {"lines": [""] * (values.MAX_ITEMS + 1)})


@every_row("number", [10**400, 1e300, float("nan")])
@every_row("name", ["created", "seconds"])
def test_number_that_nobody_can_reckon_with_is_refused(name: str, number: Any) -> None:
    with pytest.raises(PayloadError, match=rf"Ask\.{name}"):
        from_plain(Ask, {name: number})


def test_list_that_holds_no_texts_is_refused() -> None:
    with pytest.raises(PayloadError):
        from_plain(Answer, {"values": {"q0": [1]}})


def test_ask_shown_whole_offers_every_button() -> None:
    ask = shorten(ASK._replace(blocks=ASK.blocks[:1]), 100)
    assert not ask.partial
    assert ask.offered == ASK.actions


def test_ask_that_was_cut_offers_no_button_that_grants() -> None:
    ask = shorten(ASK._replace(blocks=(Block("code", "", "x" * 11),)), 10)
    assert ask.partial
    assert [offer.name for offer in ask.offered] == ["deny"]


def test_too_many_blocks_keep_both_ends_and_say_how_many_are_missing() -> None:
    blocks = tuple(Block("text", "", str(number)) for number in range(40))
    ask = shorten(ASK._replace(blocks=blocks), 100)
    assert ask.cut == 10
    assert ask.partial
    assert [block.text for block in ask.blocks[19:21]] == ["19", "30"]
    assert ask.blocks[-1].text == "39"


@given(st.text(max_size=60), st.integers(0, 60), st.integers(0, 60))
def test_cut_block_keeps_both_ends_and_counts_what_it_hides(
    content: str, first: int, second: int
) -> None:
    block = shorten_block(shorten_block(Block(text=content), first), second)
    assert len(block.text) + len(block.tail) <= max(min(first, second), 0) or (
        block.text == content
    )
    assert content.startswith(block.text)
    assert content.endswith(block.tail)
    assert len(block.text) + block.hidden + len(block.tail) == len(content)
