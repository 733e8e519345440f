"""Nothing that came from outside can play with the terminal."""

from __future__ import annotations

import sys

import pytest

from feishuperm.errors import FeishupermError
from feishuperm.lib.terminal import can_ask, complain, say, warn


def test_escape_sequences_are_spelled_out(capsys: pytest.CaptureFixture[str]) -> None:
    say("a\x1b[2J\nb")
    warn("\x9b1m")
    complain(FeishupermError("bad \u202e", "rm \x07"))
    output = capsys.readouterr()
    assert output.out == "a⟦U+001B⟧[2J\nb\n"
    assert output.err.splitlines() == [
        "feishuperm: ⟦U+009B⟧1m",
        "feishuperm: bad ⟦U+202E⟧",
        "hint: rm ⟦U+0007⟧",
    ]


def test_error_without_a_hint_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    complain(FeishupermError("bad"))
    assert capsys.readouterr().err == "feishuperm: bad\n"


@pytest.mark.parametrize("name", ["stdin", "stdout"])
def test_nobody_is_asked_over_a_stream_that_was_closed(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for stream in (sys.stdin, sys.stdout):
        monkeypatch.setattr(stream, "isatty", lambda: True)
    assert can_ask()
    monkeypatch.setattr(sys, name, None)
    assert not can_ask()
