"""What the long connection brings: read whole, or as nothing."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from feishuperm.app.taps import (
    OLD_SECONDS,
    is_changed,
    is_old,
    part_at,
    read_event,
    read_tap,
    said_in,
    text_at,
    toast,
)
from feishuperm.models.ask import Ask, Field, Offer, Option
from tests.tables import every_row

OPTIONS = (Option("Red", "Red"), Option("Blue", "Blue"))
ASK = Ask(
    "1-a",
    "question",
    actions=(
        Offer("answer", "Send", fields=("q0",)),
        Offer("deny", "No", fields=("reason",)),
    ),
    fields=(Field("q0", options=OPTIONS), Field("reason")),
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(max_size=8) | st.just("action"), inner, max_size=3)
    ),
    max_leaves=8,
)


def tap(value: dict[str, Any], form: Any = None) -> dict[str, tuple[str, ...]]:
    return read_tap(ASK, value, {"form_value": form}, "ou_me").values


def test_tap_is_an_answer_of_whoever_tapped() -> None:
    value = {"action": "deny", "digest": "d1", "id": "1-other", "who": "ou_boss"}
    answer = read_tap(ASK, value, {}, "ou_me")
    assert (answer.id, answer.action, answer.who) == ("1-a", "deny", "ou_me")
    assert (answer.surface, answer.digest, answer.confirmed) == ("card", "d1", False)


def test_button_of_a_choice_carries_its_number() -> None:
    assert tap({"action": "answer:1"}) == {"q0": ("Blue",)}
    assert tap({"action": "answer:1"}, {"q0": "0", "reason": "x"}) == {"q0": ("Blue",)}


@every_row("number", ["2", "-1", "x", "1.0", "01"])
def test_number_of_no_choice_chooses_nothing(number: str) -> None:
    assert tap({"action": f"answer:{number}"}) == {"q0": ()}


def test_form_is_read_by_the_fields_that_were_asked() -> None:
    form = {"q0": ["0", "1", "9", 7], "reason": "not now", "other": "x"}
    assert tap({"action": "answer"}, form) == {"q0": ("Red", "Blue")}
    assert tap({"action": "deny"}, {"reason": 5, "q0": None}) == {"reason": ()}


def test_approval_beside_a_changed_command_is_known() -> None:
    offers = (Offer("allow", grants=True), Offer("deny"))
    edit = Offer("edit", fields=("command",), needs=True, grants=True)
    field = Field("command", "lines", value="npm run build\n")
    ask = ASK._replace(actions=(*offers, edit), fields=(field,))

    def changed(action: str, command: str) -> bool:
        form = {"form_value": {"command": command}}
        return is_changed(ask, read_tap(ask, {"action": action}, form, "ou_me"), form)

    assert not changed("allow", "npm run build") and changed("allow", "npm  run build")
    assert changed("allow", "") and not changed("deny", "rm -rf /")
    assert not changed("edit", "npm run test")


def test_number_behind_a_button_without_fields_is_nothing() -> None:
    ask = ASK._replace(actions=(Offer("allow", "Yes", grants=True),))
    answer = read_tap(ask, {"action": "allow:1"}, {}, "ou_me")
    assert (answer.action, answer.values) == ("allow", {})


@given(JSON, JSON)
def test_any_tap_is_read_without_harm(value: Any, action: Any) -> None:
    answer = read_tap(ASK, part_at({"v": value}, "v"), part_at({"a": action}, "a"), "w")
    assert answer.who == "w" and answer.id == "1-a"


@every_row(
    "payload",
    [b"", b"{", b"[]", b'"x"', b"\xff", b"[" * 100_000, b'{"a": "\\ud800"}'],
)
def test_message_that_cannot_be_read_is_empty(payload: bytes) -> None:
    assert read_event(payload) == {}


def test_message_keeps_every_character() -> None:
    event = {"text": "批准 \U0001f600", "n": 1}
    assert read_event(json.dumps(event).encode()) == event
    assert read_event(json.dumps(event, ensure_ascii=False).encode()) == event


def test_what_is_not_there_reads_as_empty() -> None:
    event = {"a": {"b": "text", "c": 7, "d": ["x"]}}
    assert text_at(event, "a", "b") == "text"
    for keys in (("a", "c"), ("a", "b", "c"), ("z",), ()):
        assert text_at(event, *keys) == ""
    assert part_at(event, "a") == event["a"] and part_at(event, "a", "d") == {}
    assert part_at([], "a") == {} == part_at("text", "a", "b")


def test_words_are_those_of_a_text_message_only() -> None:
    content = json.dumps({"text": "  批准\n"})
    assert said_in({"message_type": "text", "content": content}) == "批准"
    assert said_in({"message_type": "image", "content": content}) == ""
    assert said_in({"message_type": "text", "content": "批准"}) == ""
    assert said_in({"message_type": "text", "content": '{"text": 7}'}) == ""


def test_text_is_old_when_nobody_waits_for_it_any_more() -> None:
    now = 1_700_000_000.0
    written = str(int((now - OLD_SECONDS) * 1000))
    assert not is_old({"create_time": written}, now)
    assert is_old({"create_time": written}, now + 1)
    for odd in ("²", "9" * 5000, "-1", "", None, 1):
        assert not is_old({"create_time": odd}, now), "its moment cannot be read"


def test_answer_to_a_tap_has_a_card_only_if_one_is_given() -> None:
    assert toast("info", "x") == {"toast": {"type": "info", "content": "x"}}
    assert toast("info", "x", {"a": 1})["card"] == {"type": "raw", "data": {"a": 1}}
