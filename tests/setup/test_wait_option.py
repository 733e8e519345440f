"""How long a request waits, and that everything that must fit it does."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from feishuperm.commands.install import parser
from feishuperm.errors import UsageError
from feishuperm.models.settings import Settings
from feishuperm.setup.claude_settings import find_hooks, put_hook, registrations
from feishuperm.setup.feishu_setup import (
    LONGEST,
    ask_wait,
    asked_config,
    duration,
    wait_settings,
)
from tests.tables import every_row

COMMAND = "/home/u/.local/bin/feishuperm-hook"


@every_row(
    ("words", "seconds"),
    [("10m", 600), ("55s", 55), ("55", 55), (" 2H ", 7200), ("1s", 1), ("24h", 86400)],
)
def test_time_is_read_with_its_unit(words: str, seconds: int) -> None:
    assert duration(words) == seconds


@every_row("words", ["", "m", "0", "0m", "25h", "-5", "1.5m", "10 m", "x"])
def test_what_is_no_time_is_refused_in_words(words: str) -> None:
    with pytest.raises(ValueError):
        duration(words)
    with pytest.raises(UsageError, match="--wait"):
        parser().parse_args([f"--wait={words}"])


@given(st.text(max_size=8))
def test_any_word_is_a_time_or_refused(words: str) -> None:
    try:
        assert 0 < duration(words) <= LONGEST
    except ValueError:
        pass


@every_row(
    ("words", "seconds", "action", "timeout"),
    [
        ("10m", 600, "terminal", 605),
        ("55s", 55, "deny", 60),
        ("61s", 61, "terminal", 66),
    ],
)
def test_wait_end_and_time_out_of_the_hook_are_set_together(
    words: str, seconds: int, action: str, timeout: int
) -> None:
    asked = asked_config(parser().parse_args(["--wait", words]), {})
    settings = Settings(asked)
    assert settings.permission_request_timeout == seconds
    assert settings.permission_timeout_action == action
    row = registrations(seconds, exactly=True)[0]
    assert find_hooks(put_hook("{}", row, COMMAND))[0].entry["timeout"] == timeout


def test_shorter_wait_makes_a_long_time_out_short_again() -> None:
    """Else Claude Code would keep a hook that is stuck for ten minutes."""
    long = put_hook("{}", registrations(600)[0], COMMAND)
    kept = put_hook(long, registrations(55)[0], COMMAND)
    assert find_hooks(kept)[0].entry["timeout"] == 605  # somebody may have given it
    short = put_hook(long, registrations(55, exactly=True)[0], COMMAND)
    assert find_hooks(short)[0].entry["timeout"] == 60
    assert json.loads(short)["hooks"]["PermissionRequest"][0]["matcher"] == "*"


@pytest.mark.parametrize(
    ("typed", "seconds"), [("", 600), ("y", 600), ("n", 55), (" NO ", 55)]
)
def test_enter_takes_the_long_wait(
    typed: str, seconds: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers: Iterator[str] = iter([typed])
    monkeypatch.setattr("builtins.input", lambda prompt: next(answers))
    assert ask_wait() == wait_settings(seconds)
