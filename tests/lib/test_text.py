"""Every sentence has both languages, the same blanks, and a way to be filled."""

from __future__ import annotations

import string
import time

import pytest

from feishuperm.lib.text import TEXTS, UNCOUNTED, at_zero, text, time_hint
from feishuperm.models.ask import Ask
from feishuperm.models.names import LANGUAGES
from tests.tables import every_row


def blanks(sentence: str) -> set[str]:
    return {name for _, name, _, _ in string.Formatter().parse(sentence) if name}


def test_both_languages_fill_the_same_blanks() -> None:
    wrong = [
        key
        for key, rows in TEXTS.items()
        if len(rows) != len(LANGUAGES)
        or not all(rows)
        or len({frozenset(blanks(sentence)) for sentence in rows}) > 1
    ]
    assert not wrong


def test_sentence_is_told_in_the_language_and_its_blanks_filled() -> None:
    assert text("zh", "message.deny") == "用户通过飞书拒绝"
    assert text("en", "gateway.sent", machine="box") == "Sent to box"


def test_what_is_filled_in_stays_as_it_is() -> None:
    """A reason with braces in it is no blank of ours."""
    said = text("zh", "message.deny_reason", reason="{0} {reason} %s")
    assert said == "用户通过飞书拒绝：{0} {reason} %s"


@every_row(("language", "key"), [("zh", "no.such"), ("fr", "page.invalid")])
def test_unknown_sentence_or_language_is_a_mistake_of_ours(
    language: str, key: str
) -> None:
    with pytest.raises((KeyError, ValueError)):
        text(language, key)


def ask(**parts: object) -> Ask:
    return Ask("1-a", language="en", created=1_700_000_000.0, seconds=55)._replace(
        **parts  # type: ignore[arg-type]
    )


def test_time_hint_says_how_long_and_what_happens_then() -> None:
    moment = time.strftime("%H:%M", time.localtime(1_700_000_055.0))
    hint = time_hint(ask(at_zero="deny"))
    assert "55" in hint and moment in hint
    assert at_zero(ask(at_zero="terminal")) != at_zero(ask(at_zero="deny"))


def test_request_without_an_end_of_its_own_names_none() -> None:
    assert at_zero(ask(at_zero="")) == ""
    assert time_hint(ask(at_zero="")) == text("en", "card.hint", seconds=55)


def test_nobody_is_told_the_seconds_of_many_hours() -> None:
    long = ask(seconds=UNCOUNTED, at_zero="terminal")
    assert str(UNCOUNTED) not in time_hint(long) and time_hint(long)
    assert str(UNCOUNTED - 1) in time_hint(ask(seconds=UNCOUNTED - 1))
